"""`interlock show`, `spawns` and `usage`: one session at a glance, its lives, and what it used."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.cli.look.show import asked_lines, commands, last_answer
from interlock.cli.look.spawns import end_of, life_of
from interlock.cli.look.usage import add_up, figure, note_of, usage
from interlock.cli.server.api import ServerApi
from interlock.cli.work.choices import approving, choose_option
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.json_types import UsageJson
from tests.bodies import Body
from tests.cli.harness import on_a_terminal
from tests.cli.serving import Served, serving

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def approval(**more: object) -> Body:
    return {"approval_id": "apr_1", "session_id": "ses_1", "question": "May I?", **more}


def test_each_kind_of_question_has_its_commands() -> None:
    tool = approval(options=[{"label": "Yes", "kind": "allow_once"}, {"label": "No", "kind": "reject_once"}])
    assert commands(tool, is_only=True) == ["interlock approve ses_1", "interlock deny ses_1"]
    assert commands(tool, is_only=False) == ["interlock approve ses_1 apr_1", "interlock deny ses_1 apr_1"]
    assert commands(approval(), is_only=True) == ["interlock answer ses_1 TEXT"]
    moot = approval(is_answerable=False, options=[{"label": "Yes", "kind": "allow_once"}])
    assert commands(moot, is_only=True) == ["interlock start ses_1"]


@pytest.mark.parametrize(
    "kinds",
    [
        ("allow_always", "reject_once"),
        ("allow_once", "allow_once", "reject_once"),
        ("reject_once",),
        ("choice", "choice"),
    ],
)
def test_only_what_plainly_allows_is_to_be_approved(kinds: tuple[str, ...]) -> None:
    asked = approval(options=[{"label": f"way {at}", "kind": kind} for at, kind in enumerate(kinds)])
    offered = [f"interlock answer ses_1 --option 'way {at}'" for at in range(len(kinds))]
    assert commands(asked, is_only=True) == offered
    with suppress(UsageError):
        assert approving(asked) is None, "what `approve` takes is offered as such"


def test_what_is_asked_is_told_in_full_and_why_it_is_asked_again() -> None:
    command = "echo " + "x" * 20_000
    told = [words for line in asked_lines(approval(tool="Bash", arguments={"command": command})) for words, _ in line]
    assert told == ["  May I?", f'  tool Bash {{"command": "{command}"}}']
    again = [words for line in asked_lines(approval(problem="the pipe is closed")) for words, _ in line]
    assert again == ["  May I?", "  asked again: the decision did not reach the agent: the pipe is closed"]


def test_options_that_read_alike_are_told_by_their_numbers() -> None:
    asked = approval(options=[{"label": "Yes", "kind": "choice"}, {"label": "yes", "kind": "choice"}, {"label": "No"}])
    assert [shlex.split(line)[-1] for line in commands(asked, is_only=True)] == ["1", "2", "No"]
    assert [choose_option(asked, name)["label"] for name in ("1", "2", "No")] == ["Yes", "yes", "No"]


NONE_USED: Body = {**dict.fromkeys(UsageJson.__annotations__), "turns_without_report": 0}


def test_usage_asks_the_server_as_often_for_many_sessions_as_for_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[str] = []

    class Api:
        def get(self, path: str, **_: object) -> Body:
            asked.append(path)
            items = [
                {"task_id": f"ses_{at}", "total": {**NONE_USED, "input_tokens": at}, "turns": []} for at in range(50)
            ]
            return {"items": items, "next": None, "is_complete": False}

        def pages(self, path: str, _next_of: object, **query: object) -> Iterator[Body]:
            return iter([self.get(path)])

        def items(self, path: str, **query: object) -> Iterator[Body]:
            asked.append(path)
            return iter([{"task_id": "ses_7", "agent": "claude", "title": "Known"}])

    monkeypatch.setattr(ServerApi, "of_home", lambda _: Api())
    assert usage(home=tmp_path) == 3, "what is not whole is called partial"
    assert asked == ["/api/usage", "/api/tasks"]
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 52
    assert "Known" in out
    assert "1,225" in out.splitlines()[-1]
    assert "may be more sessions" in err


def test_what_an_agent_wrote_is_quoted_in_a_command() -> None:
    evil = "x; rm -rf ~ $(id) `id` 'q'"
    (line,) = commands(approval(options=[{"label": evil, "kind": "choice"}]), is_only=True)
    assert shlex.split(line) == ["interlock", "answer", "ses_1", "--option", evil]


def test_the_last_answer_is_the_newest_one() -> None:
    messages: Body = [
        {"role": "answer", "text": "old"},
        {"role": "answer", "text": "new"},
        {"role": "tool", "text": "x"},
    ]
    assert last_answer(messages) == messages[1]
    assert last_answer(messages[2:]) is None


SPAWN: Body = {
    "standing": "running",
    "began": "2026-01-31T11:58:00Z",
    "ended": None,
    "is_adopted": False,
    "duration_seconds": None,
    "reason": None,
    "signal": None,
    "exit_code": None,
    "attempt": None,
    "is_released": False,
    "message": "",
}


def life(**more: object) -> Body:
    return {**SPAWN, **more}


def test_a_life_is_told_only_where_it_is_known() -> None:
    assert life_of(SPAWN, NOW) == "2m"
    assert life_of(life(standing="unknown"), NOW) == ""
    assert life_of(life(standing="exited", duration_seconds=3.0), NOW) == "3s"
    # Whoever found it again measured the rest of its life: BEGAN and FOR have to fit together.
    ended: Body = life(standing="exited", ended="2026-01-31T12:02:00Z", duration_seconds=90.0)
    assert [life_of(ended | {"is_adopted": is_adopted}, NOW) for is_adopted in (True, False)] == ["4m", "1m"]


def test_how_a_life_ended() -> None:
    assert end_of(SPAWN) == ""
    assert end_of(life(reason="crashed", signal=9, exit_code=None)) == "crashed, signal 9"
    assert end_of(life(reason="clean", exit_code=0, attempt=1)) == "clean, code 0, restart 1"
    assert end_of(life(is_released=True)) == "left running"
    assert end_of(life(is_released=True, standing="exited", reason="stopped")) == "stopped"


def used(**figures: float) -> Body:
    nothing = dict.fromkeys(("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd"))
    return {**nothing, "turns_without_report": 0, **figures}


def test_what_nobody_reported_is_never_a_zero() -> None:
    assert figure("input_tokens", None) == "-"
    assert figure("input_tokens", 0) == "0"
    assert figure("cost_usd", 0.5) == "0.5000"
    reports = used(turns_without_report=2), used(input_tokens=3)
    assert add_up(reports) == used(input_tokens=3, turns_without_report=2)
    assert add_up([used(cost_usd=0.5), used(cost_usd=0.25)]) == used(cost_usd=0.75)
    assert note_of(used(turns_without_report=1)) == "without 1 turn"
    assert note_of(used()) == ""


# The commands


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("show")) as one:
        yield one


def test_a_question_stands_with_its_command(served: Served) -> None:
    task_id = served.open('request Bash {"command": "rm -rf build"}; say ok', title="Cleans up")
    served.shows(task_id, status="PENDING_CONFIRMATION", attention="approval")
    served.send(task_id, "say later")
    done = served.cli("show", "cleans")
    assert (done.returncode, done.stderr) == (0, "")
    for said in (
        f"session   {task_id}  Cleans up",
        "agent     scripted, by claude-stream",
        "shows     approval for ",
        "because   native_status: stream.turn_open",
        "status    PENDING_CONFIRMATION, the turn is waiting",
        "queued    1. say later",
        "process   running, pid ",
        '  tool Bash {"command": "rm -rf build"}',
        f"    interlock approve {task_id}",
        f"    interlock deny {task_id}",
    ):
        assert said in done.stdout
    told = served.json("show", task_id)
    assert told["approvals"][0]["tool"] == "Bash"
    assert (told["turn"]["state"], told["spawn"]["standing"]) == ("waiting", "running")


def test_options_are_answered_by_their_label(served: Served) -> None:
    task_id = served.open("ask Which one? | a red one | blue")
    served.shows(task_id, status="PENDING_CONFIRMATION", attention="question")
    said = served.cli("show", task_id).stdout
    assert f"    interlock answer {task_id} --option 'a red one'\n" in said
    assert f"    interlock answer {task_id} --option blue\n" in said


def test_a_partial_answer_is_labelled(served: Served) -> None:
    task_id = served.done("say half of it; fail oh no", status="FAILED")
    said = served.cli("show", task_id).stdout
    assert "the turn is partial_failed: server_error" in said
    assert "[partial: the turn did not complete]\n  half of it\n" in said
    assert f"interlock why {task_id} --turn " in said


def test_an_answer_and_what_it_cost(served: Served) -> None:
    task_id = served.done("say \x1b[2Jhello; usage 1200 34 0.25", title="Pays")
    said = served.cli("show", task_id).stdout
    assert "usage     1,200 in, 34 out, 0.2500 USD\n" in said
    assert said.endswith("\n  \\x1b[2Jhello\n")
    assert "\x1b" not in said
    used = served.cli("usage", task_id).stdout.splitlines()
    assert used[0].split() == ["TURN", "INPUT", "OUTPUT", "CACHED", "USD", "NOTE"]
    assert used[-1].split() == ["all", "1,200", "34", "-", "0.2500"]
    assert served.json("usage", task_id)["total"]["input_tokens"] == 1200
    assert "Pays" in served.cli("usage").stdout
    assert {one["session_id"] for one in served.json("usage")["sessions"]} >= {task_id}


def test_the_state_document_of_a_session(served: Served) -> None:
    task_id = served.done("say hello")
    told = served.json("show", task_id, "--state")
    assert told.keys() == {"session_id", "version", "turn_id", "state"}
    assert (told["state"]["__run"]["status"], told["state"]["__run"]["done_reason"]) == ("done", "natural")
    shown = served.json("show", task_id)
    assert (shown["state"], shown["turn"]["run_id"]) == (told, told["state"]["__run"]["id"])


def test_a_session_that_never_began(served: Served) -> None:
    task_id = served.open(title="Waits")
    said = served.cli("show", task_id).stdout
    shows = "shows     new · not running"
    for one in (shows, "turn      none yet", "process   none was started", "usage     not reported"):
        assert one in said
    assert served.cli("spawns", task_id).stderr == "no agent was started yet\n"
    assert served.json("spawns", task_id) == {"spawns": []}


def test_a_crash_and_the_life_after_it(served: Served) -> None:
    task_id = served.done("stderr no licence was found; crash", status="FAILED")
    (first, *_) = served.json("spawns", task_id)["spawns"]
    assert (first["standing"], first["reason"], first["signal"]) == ("exited", "crashed", 9)
    assert "crashed, signal 9" in served.cli("spawns").stdout
    shown = served.cli("show", task_id).stdout
    assert "nothing" not in shown
    assert "the turn is failed: process_died" in shown, shown
    assert "said last \n  no licence was found" in shown, shown


def test_what_waits_is_listed_as_sessions_are(served: Served) -> None:
    task_id = served.open("gate listed", title="Lists")
    served.gates.await_reached("listed")
    served.send(task_id, "say " + "word " * 40)
    listed = on_a_terminal("queue", "ls", "lists", env={"INTERLOCK_HOME": str(served.home), "COLUMNS": "80"})
    head, row = listed.replace("\r", "").rstrip("\n").split("\n")
    assert head == "\x1b[1m#\x1b[0m  \x1b[1mPROMPT\x1b[0m                          \x1b[1mTEXT\x1b[0m"
    assert row.startswith("1  prm_")
    assert row.endswith("…")
    assert 70 < len(row) <= 80
    # What a pipe gets is whole.
    assert served.cli("queue", "ls", task_id).stdout.count("word") == 40
    served.gates.open("listed")


@pytest.mark.parametrize("command", ["show", "logs", "spawns", "usage"])
def test_an_unknown_session(served: Served, command: str) -> None:
    done = served.cli(command, "\x1b[31m/../..?x=1#")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no session" in done.stderr
    assert "\x1b" not in done.stderr


def test_an_empty_name_names_no_session(served: Served) -> None:
    assert served.cli("show", " ").returncode == 2
