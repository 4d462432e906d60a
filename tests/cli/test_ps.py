"""`interlock ps`: who needs a person first; never an empty list where nobody could be asked."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from interlock.cli import output
from interlock.cli import tables as painting
from interlock.cli.children import tree as children_tree
from interlock.cli.look import ps_list as board
from interlock.cli.look.session_lines import (
    by_attention,
    choose_task,
    countdown_of,
    duration,
    short_ids,
    shown_of,
    why_of,
)
from interlock.cli.server.api import ServerApi
from interlock.lifecycle.task_status import has_open_turn
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity, Attention, TaskStatus
from interlock.vocabulary.wire.frames import TaskSummary
from tests.bodies import Body
from tests.cli.badges import with_badge
from tests.cli.harness import COMMAND, interlock, on_a_terminal, python
from tests.cli.serving import Served, serving
from tests.cli.test_cold_start import HEAVY, modules_after
from tests.each_row import each_row

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def task(name: str = "ses_a", activity: str | None = "quiet", attention: str = "none", **more: object) -> Body:
    live = None if activity is None else {"activity": activity, "attention": attention, "evidence": []}
    return with_badge({"task_id": name, "version": 1, "agent": "claude", "live": live, "turn_id": "trn_1", **more}, NOW)


def whole(name: str) -> Body:
    """A summary with every field, as a server sends it."""
    told: Body = msgspec.to_builtins(TaskSummary(task_id=SessionId(name), version=1))
    return with_badge(told, NOW)


def test_a_tree_has_a_title_in_one_line_and_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"running": 0, "waiting": 0, "ended_badly": 0}
    parent = task("ses_a", title="the parent", children=counts)
    child = task("ses_b", title="write it\n\nand test it", parent_id="ses_a", children=counts)
    monkeypatch.setattr(children_tree, "terminal_columns", lambda: 60)
    lines = ["".join(text for text, _ in line) for line in children_tree.tree([parent, child], every=True, now=NOW)]
    assert "write it and" in lines[1]
    assert [len(line) <= 60 for line in lines] == [True, True]


# The order


def test_every_word_of_both_axes_has_its_place() -> None:
    needs = [task(attention=one.value) for one in Attention if one is not Attention.NONE]
    acts = [task(activity=one.value) for one in Activity]
    shown = [shown_of(one) for one in by_attention([*acts, *needs])]
    assert [one.attention for one in shown[:8]] == [
        "approval",
        "question",
        "plan",
        "decision",
        "auth",
        "quota",
        "error",
        "held",
    ]
    assert [one.activity for one in shown[8:]] == [
        "stalled",
        "unknown",
        "starting",
        "working",
        "settling",
        "quiet",
        "gone",
    ]


def test_among_equals_the_one_that_waits_longest_is_first() -> None:
    tasks = [task("ses_b", since="2026-01-31T11:00:00Z"), task("ses_a", since="2026-01-31T11:30:00Z")]
    assert [one["task_id"] for one in by_attention(tasks)] == ["ses_b", "ses_a"]


@each_row(
    ("seen", "words"),
    [
        (task(activity="working", attention="approval"), "approval"),
        (task(activity="stalled", attention="approval"), "approval · stalled"),
        (task(activity="quiet", open_approvals=1), "approval"),
        (task(activity="working", task_status="CANCELLING"), "working · stopping"),
        (task(activity="quiet", task_status="FAILED"), "failed"),
        (task(activity="quiet", task_status="CANCELLED"), "interrupted"),
        (task(activity="quiet", task_status="COMPLETED"), "done · unseen"),
        (
            task(activity="quiet", task_status="COMPLETED", turn_id="t", seen_turn_id="t"),
            "done · ready for a prompt",
        ),
        (
            task(activity="quiet", task_status="PENDING", held="paused", is_paused=True, queued=1),
            "idle · queue paused",
        ),
        (task(activity="working", task_status="FAILED"), "working"),
        (task(activity="gone", turn_id=None), "new · not running"),
        (task(activity=None, task_status="RUNNING"), "unknown"),
        (task(activity=None, is_supervised=False), "unknown"),
        (task(activity=None, is_supervised=False, task_status="UNKNOWN"), "unknown"),
        (task(activity=None, is_supervised=False, task_status="COMPLETED"), "ended"),
        (task(activity=None, is_supervised=False, task_status="FAILED"), "ended · failed"),
        (task(activity=None, is_supervised=False, turn_id=None), "ended"),
        (task(activity=None, task_status="DELETE"), "archived"),
    ],
)
def test_what_a_session_shows(seen: Body, words: str) -> None:
    assert shown_of(seen).words == words


@each_row("status", [None, *TaskStatus])
@each_row("is_supervised", [True, False])
@each_row("activity", [None, *Activity])
def test_nothing_falls_back_to_quiet(activity: Activity | None, is_supervised: bool, status: TaskStatus | None) -> None:
    seen = task(activity=activity and activity.value, is_supervised=is_supervised, task_status=status)
    shown = shown_of(seen)
    is_open = has_open_turn(status) and not shown.needs_person
    assert (shown.activity == "quiet") == (activity is Activity.QUIET and status != TaskStatus.DELETE and not is_open)
    assert not (is_open and shown.group in ("idle", "done", "ended"))


def test_a_need_is_never_hidden_with_what_ended() -> None:
    assert shown_of(task(activity=None, is_supervised=False, task_status="COMPLETED")).is_over
    assert not shown_of(task(activity=None, is_supervised=False, task_status="COMPLETED", open_approvals=1)).is_over


def test_why() -> None:
    evidence = [{"source": "screen", "rule": "composer.idle", "where": "row 3"}]
    seen = task(live={"activity": "quiet", "evidence": evidence})
    assert why_of(seen) == "read from screen"
    tree = dict.fromkeys(("path", "branch", "base", "target", "repository"), "x")
    failed = {**tree, "phase": "failed", "problem": "no network"}
    assert why_of(task(worktree=failed)) == "worktree failed: no network"
    assert why_of(task(worktree={**tree, "phase": "removed"})) == "worktree removed"
    asked: Body = {**seen, "question": "Run\nthis?"}
    assert why_of(asked) == "Run this?"
    called: Body = {**seen, "question": "Allow?", "called_with": 'Bash {"command": "make deploy"}'}
    assert why_of(called) == 'Allow? · Bash {"command": "make deploy"}'
    assert why_of(task(live={"activity": "quiet", "attention": "error", "evidence": evidence})) == "row 3"
    assert why_of(task(activity=None, is_supervised=False)) == "no server runs it"


def test_a_quiet_agent_has_a_countdown() -> None:
    live = {"activity": "quiet", "idle_at": "2026-01-31T12:04:00Z"}
    assert countdown_of(task(live=live), NOW) == "stops in 4m"
    assert countdown_of(task(live={**live, "activity": "working"}), NOW) == ""
    assert countdown_of(task(), NOW) == ""


@each_row(
    ("seconds", "said"),
    [(-5, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h00"), (7_500, "2h05"), (90_000, "1d")],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_short_id_names_one_session_only() -> None:
    ids = ["ses_01jkaaaaaaaa", "ses_01jkaaaabbbb", "ses_01jkzz", "ses_02", "ses_0222222"]
    shorts = short_ids(ids)
    assert shorts == {
        "ses_01jkaaaaaaaa": "ses_01jkaaaaa",
        "ses_01jkaaaabbbb": "ses_01jkaaaab",
        "ses_01jkzz": "ses_01jkz",
        "ses_02": "ses_02",
        "ses_0222222": "ses_0222",
    }
    for whole, short in shorts.items():
        assert choose_task([task(one) for one in ids], short)["task_id"] == whole


# Which session is meant


TASKS = [
    task("ses_01aa", title="Fix the parser"),
    task("ses_01ab", title="Parse faster"),
    task("ses_02aa", title="Colours"),
    task("ses_03aa", title="Colours, put away", task_status="DELETE"),
]


@each_row(
    ("text", "found"),
    [
        ("ses_01aa", "ses_01aa"),
        ("ses_02", "ses_02aa"),
        ("02", "ses_02aa"),
        ("colo", "ses_02aa"),
        ("fix", "ses_01aa"),
        ("the pars", "ses_01aa"),
        ("parser", "ses_01aa"),
        ("ses_03", "ses_03aa"),
        ("02aa", "ses_02aa"),
        ("_01ab", "ses_01ab"),
        ("  Colours ", "ses_02aa"),
    ],
)
def test_a_session_by_its_beginning_or_its_title(text: str, found: str) -> None:
    assert choose_task(TASKS, text)["task_id"] == found


def test_what_may_mean_several_names_them() -> None:
    with pytest.raises(UsageError, match=r"2 sessions: ses_01aa \(Fix.*ses_01ab \(Parse.*give more of the id"):
        choose_task(TASKS, "pars")
    with pytest.raises(UsageError, match=r"20 sessions.*15 more"):
        choose_task([task(f"ses_{at:02}") for at in range(20)], "ses")


@pytest.mark.parametrize("text", ["xyz", "arser", "put away", "parser the"])
def test_what_means_none_says_so(text: str) -> None:
    with pytest.raises(UsageError, match="there is no session"):
        choose_task(TASKS, text)


# The table


COLUMNS = (painting.Column("A"), painting.Column("B", 4), painting.Column("C", 6, gives=1))


def test_columns_give_room_in_their_order() -> None:
    assert painting.fitted(COLUMNS, (10, 10, 10), 40) == [10, 10, 10]
    assert painting.fitted(COLUMNS, (10, 10, 10), 31) == [10, 7, 10]
    assert painting.fitted(COLUMNS, (10, 10, 10), 26) == [10, 4, 8]
    assert painting.fitted(COLUMNS, (10, 10, 10), 10) == [10, 4, 6]


@each_row(
    ("text", "columns", "kept"),
    [("abc", 3, "abc"), ("abcd", 3, 2), ("日本語", 6, "日本語"), ("日本語", 5, 2), ("日本", 1, 0)],
)
def test_a_text_is_cut_with_a_sign(text: str, columns: int, kept: str | int) -> None:
    shown = painting.cut(text, columns)
    assert output.columns(shown) <= columns
    assert shown == kept if isinstance(kept, str) else shown[:-1] == text[:kept] and len(shown) == kept + 1


# The command


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("ps")) as one:
        yield one


@pytest.fixture(scope="module")
def sessions(served: Served) -> dict[str, str]:
    """One that is quiet, one that works, one that asks, one that failed, in this order of opening."""
    found = {"quiet": served.done("say hello", title="Greets the \x1b[31mworld\u202e")}
    found["works"] = served.open("think 0; gate never", title="Works")
    served.shows(found["works"], status="RUNNING")
    found["asks"] = served.open('request Bash {"command": "ls"}; say done', title="Asks " + "x" * 100)
    served.shows(found["asks"], status="PENDING_CONFIRMATION", attention="approval")
    served.send(found["asks"], "say later")
    found["failed"] = served.done("say half; fail oh no", status="FAILED")
    return found


def test_who_needs_a_person_is_first(served: Served, sessions: dict[str, str]) -> None:
    done = served.cli("ps")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["SESSION", "AGENT", "SHOWS", "FOR", "Q", "TITLE", "CHANGES", "FOLDER", "USD", "WHY"]
    words = ("approval", "failed · partial answer kept", "working · thinking", "done · unseen")
    assert [next((one for one in words if f"  {one}  " in row), row) for row in rows] == list(words)
    assert f"  1  Asks {'x' * 100}  " in rows[0]  # a pipe gets all of it
    assert rows[0].endswith('Allow Bash? · Bash {"command": "ls"}')
    assert all(
        sessions[name].startswith(row.split()[0]) for name, row in zip(("asks", "failed", "works"), rows, strict=False)
    )
    assert (done.stderr, "\x1b" in done.stdout, "\u202e" in done.stdout) == ("", False, False)


def test_json_is_the_summaries(served: Served, sessions: dict[str, str]) -> None:
    told = served.json("ps")["sessions"]
    assert [one["session_id"] for one in told][:3] == [sessions[name] for name in ("asks", "failed", "works")]
    assert {one["session_id"] for one in told} == set(sessions.values())
    assert (
        next(one for one in told if one["session_id"] == sessions["quiet"])["title"] == "Greets the \x1b[31mworld\u202e"
    )
    by_parser = served.cli("ps", "--json", "--all", "--home", str(served.home))
    assert [one["session_id"] for one in json.loads(by_parser.stdout)["sessions"]] == [
        one["session_id"] for one in told
    ]


def test_a_terminal_of_80_columns_is_enough(served: Served, sessions: dict[str, str]) -> None:
    shown = on_a_terminal("ps", env={"INTERLOCK_HOME": str(served.home), "COLUMNS": "80"})
    assert "\x1b[1;31mapproval\x1b[0m" in shown
    plain = python(f"import re; print(re.sub(r'\\x1b\\[[0-9;]*m', '', {shown!r}))").stdout
    rows = [line for line in plain.splitlines() if line]
    assert [line for line in rows[1:] if not line.startswith("ses_")] == ["NEEDS YOU  2", "WORKING  1", "DONE  1"]
    assert len(rows) == 1 + 3 + len(sessions)
    assert max(map(output.columns, rows)) <= 80
    assert "Allow Bash?" in plain
    without = on_a_terminal("ps", env={"INTERLOCK_HOME": str(served.home), "COLUMNS": "80", "NO_COLOR": "1"})
    assert "\x1b" not in without


def test_what_a_session_shows_is_readable_before_its_folder_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {"turn_state": "partial_failed", "task_status": "FAILED", "reason": "API Error: overloaded, try it later"}
    rows = [task(f"ses_{at}", cost_usd=0.14, folder="/no/such/storefront", title="light", **ended) for at in range(3)]
    for width in (80, 100, 120):
        monkeypatch.setattr(board, "terminal_columns", lambda width=width: width)
        monkeypatch.setattr(painting, "terminal_columns", lambda width=width: width)
        told = ["".join(text for text, _ in line) for line in board.board(rows, every=True, now=NOW)]
        assert all("failed · partial" in line for line in told if line.startswith("ses_")), told


def test_the_plain_form_is_light(served: Served, sessions: dict[str, str]) -> None:
    more = {
        "cyclopts",
        "msgspec",
        "rich",
        "asyncio",
        "apsw",
        "subprocess",
        "http.client",
        "ssl",
        "logging",
        "typing_extensions",
    }
    for args in (["ps"], ["ps", "--json"], ["ps", "--all"]):
        code = f"import os\nos.environ['INTERLOCK_HOME'] = {str(served.home)!r}\n"
        loaded = modules_after(f"{code}from interlock.cli import main\nassert main({args!r}) == 0")
        assert not loaded & (HEAVY | more)


@pytest.mark.parametrize("command", ["show", "logs", "spawns", "usage"])
def test_the_other_looking_commands_are_light(served: Served, sessions: dict[str, str], command: str) -> None:
    code = f"import os\nos.environ['INTERLOCK_HOME'] = {str(served.home)!r}\n"
    args = [command, sessions["works"]]  # its turn is open: to show it marks no end as seen
    loaded = modules_after(f"{code}from interlock.cli import main\nassert main({args!r}) == 0")
    assert not loaded & (HEAVY | {"rich", "apsw", "uvicorn"})


def test_no_server_is_an_error_and_no_empty_list(tmp_path: Path) -> None:
    for args in (("ps",), ("ps", "--json"), ("ps", "--watch"), ("show", "x"), ("logs", "x"), ("spawns",), ("usage",)):
        done = interlock(*args, env={"INTERLOCK_HOME": str(tmp_path)})
        assert (done.returncode, done.stdout) == (8, ""), args
        assert "no server runs in" in done.stderr
        assert "interlock up" in done.stderr


def test_a_wrong_token_has_a_remedy(served: Served, tmp_path: Path) -> None:
    said = json.loads((served.home / "server.json").read_text())
    del said["folder"]  # with it the file would be that of a copied home, and no server of this one
    (tmp_path / "server.json").write_text(json.dumps(said))
    (tmp_path / "server.json").chmod(0o600)
    (tmp_path / "tokens.json").touch(0o600)
    (tmp_path / "tokens.json").write_text(json.dumps({"operator": "w" * 43, "observer": "v" * 43}))
    done = interlock("ps", env={"INTERLOCK_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert "token" in done.stderr
    (tmp_path / "tokens.json").chmod(0o644)
    done = interlock("ps", env={"INTERLOCK_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert "chmod 600" in done.stderr


def test_a_reader_that_leaves_is_no_reason_for_a_traceback(served: Served) -> None:
    environment = {**os.environ, "INTERLOCK_HOME": str(served.home)}
    with subprocess.Popen(
        (*COMMAND, "ps", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (1, b"")


def test_watching_until_ctrl_c_or_until_the_server_is_away(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.open(title="Some")
        _check_that_each_change_is_told_once(served)
        with served.following("ps", "--watch", "--reconnect-timeout", "1") as patient:
            patient.says("Some")
            served.kill()
            patient.notes("what was shown is not known any more")
            assert patient.ends() == 8
            assert patient.stdout.count("Some") == 1
        done = served.cli("ps")
        assert (done.returncode, done.stdout) == (8, "")
        assert "is gone" in done.stderr


def _check_that_each_change_is_told_once(served: Served) -> None:
    with served.following("ps", "--watch", "--json") as watching:
        watching.says("Some")
        late = served.open(title="Late")
        watching.says(late)
        assert watching.interrupted() == 0
        looks = [json.loads(line) for line in watching.stdout.splitlines()]
    assert all(one != other for one, other in pairwise(looks))
    assert late in {one["session_id"] for one in looks[-1]["sessions"]}
    assert watching.stderr == ""
    served.api.ask("DELETE", f"/api/tasks/{late}")
    done = served.cli("ps")
    assert late not in done.stdout
    assert done.stderr == "1 that ended is not shown: --all\n"
    assert "archived" in served.cli("ps", "--all").stdout
    assert late in {one["session_id"] for one in served.json("ps")["sessions"]}


def test_a_server_that_was_there_is_waited_for_before_the_first_look_too(capsys: pytest.CaptureFixture[str]) -> None:
    def busy_once() -> Callable[[], int]:
        answers = iter((None, 7))

        def look() -> int:
            answer = next(answers)
            if answer is None:
                raise Unreachable("busy")
            return answer

        return look

    assert next(board.looks(busy_once(), 100, 0, was_there=True)) == 7
    assert "busy" in capsys.readouterr().err
    with pytest.raises(Unreachable, match="busy"):
        next(board.looks(busy_once(), 100, 0))


def test_a_look_that_shows_nothing_new_is_not_told_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = [whole("ses_1")], [whole("ses_1"), whole("ses_2")]
    looks = [board.FoundSessions(tasks, is_complete=True) for tasks in (one, one, other, other)]
    monkeypatch.setattr(board, "_looks", lambda *_: iter(looks))
    monkeypatch.setattr(ServerApi, "of_home", lambda _: ServerApi("http://127.0.0.1:1", ""))
    assert board.watch_sessions(Path(), every=False, json=True) == 0
    assert [len(json.loads(line)["sessions"]) for line in capsys.readouterr().out.splitlines()] == [1, 2]
    assert board.watch_sessions(Path(), every=False, json=False) == 0
    assert capsys.readouterr().out.count("SESSION") == 2


def test_a_list_that_is_not_whole_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert board.tell_incomplete(is_complete=False) == 3
    assert "there may be more sessions" in capsys.readouterr().err
    assert board.tell_incomplete(is_complete=True) == 0


def test_a_server_that_cannot_write_its_log_is_not_believed_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page: Body = {"items": [task("ses_1")], "next": None, "is_complete": True, "log_problem": "the disk is full"}
    monkeypatch.setattr(ServerApi, "of_home", lambda _: ServerApi("http://127.0.0.1:1", ""))
    monkeypatch.setattr(ServerApi, "get", lambda *_, **__: page)
    assert board.list_sessions(Path(), every=False, json=False) == 3
    said = capsys.readouterr()
    assert "ses_1" in said.out
    assert "cannot write its log" in said.err
    assert "the disk is full" in said.err
    look = board.ask(ServerApi.of_home(Path()))
    monkeypatch.setattr(board, "_looks", lambda *_: iter([look, look, look._replace(log_problem="")]))
    assert board.watch_sessions(Path(), every=False, json=False) == 0
    said = capsys.readouterr()
    assert "as last recorded" in said.out
    assert said.err.count("the disk is full") == 1  # told on its edge, not each second


def test_a_title_keeps_its_room_and_what_says_least_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"files": 3, "added": 12, "removed": 3, "unknown_turns": 0}
    place = {"folder": "/no/such/shop", "branch": "main", "turn_state": "completed", "task_status": "COMPLETED"}
    rows = [
        task("ses_one", title="parse the orders of the old shop anew", changes=changes, cost_usd=0.14, **place),
        task("ses_two", title="say which still use it", changes={**changes, "unknown_turns": 1}, cost_usd=1.5, **place),
    ]

    def shown(width: int | None) -> list[str]:
        monkeypatch.setattr(board, "terminal_columns", lambda: width)
        monkeypatch.setattr(painting, "terminal_columns", lambda: width)
        lines = board.board(rows, every=True, now=NOW)
        return ["".join(text for text, _ in line) for line in lines]

    head, _, first, _ = shown(80)
    assert head.split() == ["SESSION", "AGENT", "SHOWS", "TITLE", "WHY"]
    assert "parse the orders of the" in first
    assert "done" in first
    assert "3 files · $0.1" in first
    for width in (52, 64, 80, 100, 120, 200):
        told = shown(width)
        assert max(map(len, told)) <= width
        assert "parse the orders of" in told[2]
    head, _, first, second = shown(200)
    assert "3 files +12 -3" in first
    assert "3+ files +12 -3" in second
    assert "shop (main)" in first
    assert shown(None)[0].split() == [*head.split()[:3], "FOR", "Q", *head.split()[3:]]
