"""How a turn ended, as a person reads it: no state twice, a budget in seconds, and commands to paste."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from interlock.cli.commands import COMMANDS
from interlock.cli.top.layout.transcript import Reader
from interlock.testing.scribe import Scribe
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.ending_words import ending_words, failure_words
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind
from interlock.vocabulary.wire.frames import Message
from tests.any_route import any_route
from tests.cli.homes import make_home, run_many, standing
from tests.cli.serving import Served, serving
from tests.each_row import each_row

BUDGET = "no end within its budget of 600 s; it took 600.4 s"
REPEATED = (
    "interrupted: interrupted",
    "cancelled: interrupted",
    "(interrupted)",
    "timeout: timeout",
    "timed out: timeout",
    "timed_out: timeout",
    "(timeout)",
)
STATES = ("interrupted", "timed_out", "waiting", "partial_failed")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    adopted = Scribe("ses_adopted")
    adopted.write(*(ProcessEvent(kind=kind) for kind in ProcessEventKind if kind is not ProcessEventKind.EXITED))
    return make_home(tmp_path_factory.mktemp("home"), adopted, *(standing(f"ses_{state}", state) for state in STATES))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Served]:
    """A server whose home holds the same histories."""
    with serving(tmp_path_factory.mktemp("words")) as one:
        exported = one.folder / "sessions.ndjson"
        (written,) = run_many((f"log export --all --output {exported}",), home)
        assert written.code == 0, written.err
        one.stop()
        assert one.cli("log", "import", str(exported)).returncode == 0
        one.start()
        yield one


def _next(printed: str) -> list[str]:
    return [line.strip() for line in printed.partition("\nnext:\n")[2].splitlines()]


@pytest.mark.parametrize("command", ["why", "turns", "diagnose", "log show"])
@pytest.mark.parametrize("state", ["interrupted", "timed_out"])
def test_no_line_says_a_state_twice(home: Path, command: str, state: str) -> None:
    (done,) = run_many((f"{command} ses_{state}",), home)
    assert done.err == ""
    assert [words for words in REPEATED if words in done.out] == []
    assert ("stopped before it ended" if state == "interrupted" else BUDGET) in " ".join(done.out.split())


def test_why_names_the_budget_and_the_commands_that_help(home: Path) -> None:
    late, partial, waiting, told = run_many(
        ("why ses_timed_out", "why ses_partial_failed", "why ses_waiting --at 5", "why ses_timed_out --json"), home
    )
    assert late.out.splitlines()[0] == f"t1: timed_out ({BUDGET}) as of event 6"
    assert f"the turn was recorded as timed_out: {BUDGET}\n" in late.out
    assert _next(late.out) == [
        "interlock debug diagnose ses_timed_out",
        "interlock config show run.turn_budget_seconds",
        "interlock send ses_timed_out -",
    ]
    assert _next(partial.out)[1:] == ["interlock show ses_partial_failed", "interlock send ses_partial_failed -"]
    assert _next(waiting.out) == ["interlock approve ses_waiting", "interlock deny ses_waiting"]
    kinds = [one["kind"] for one in json.loads(told.out)["next_actions"]]
    assert kinds == ["explain_turn", "diagnose_session", "raise_timeout", "reduce_scope"]


def test_the_life_of_a_process_reads_plainly(home: Path) -> None:
    (done,) = run_many(("log show ses_adopted",), home)
    assert "the running process was adopted\n" in done.out
    said = [line.partition("process_event")[2] for line in done.out.splitlines()]
    assert [line for line in said if "_" in line or "the process adopted" in line] == []


def test_logs_and_show_say_how_it_ended_and_what_to_do(served: Served) -> None:
    late, cut, waits = (served.cli("logs", f"ses_{state}").stdout for state in ("timed_out", "interrupted", "waiting"))
    assert f"[timed out]\n  {BUDGET}\nnext: interlock why ses_timed_out --turn t1\n" in late
    assert late.endswith(
        "next: interlock debug diagnose ses_timed_out\n"
        "next: interlock config show run.turn_budget_seconds\n"
        "next: interlock send ses_timed_out -\n\n"
    )
    assert "[cancelled]\n  stopped before it ended\nnext: interlock why ses_interrupted --turn t1\n" in cut
    assert "next:" not in waits
    shown = [served.cli("show", f"ses_{state}").stdout for state in ("timed_out", "interrupted")]
    assert f"error     {BUDGET}\n" in shown[0]
    assert "error     stopped before it ended\n" in shown[1]
    assert [words for words in REPEATED for printed in (late, cut, *shown) if words in printed] == []
    kinds = [one["kind"] for one in served.json("show", "ses_interrupted")["turn"]["next_actions"]]
    assert kinds == ["explain_turn", "diagnose_session", "send_again"]


def test_a_turn_without_time_says_its_budget_and_the_next_action_at_every_door(served: Served, home: Path) -> None:
    """And nothing says a state twice."""
    task_id, api = "ses_timed_out", served.api
    messages = api.get(any_route(f"/api/tasks/{task_id}/messages"))["items"]
    (end,) = [one for one in messages if one["role"] == "end"]
    board = Reader(task_id).lines([msgspec.convert(end, Message)], 200)
    said = {
        "ps": " ".join(served.cli("ps", "--all").stdout.split()),
        "show": served.cli("show", task_id).stdout,
        "logs": served.cli("logs", task_id).stdout,
        "why": served.cli("why", task_id).stdout,
        "turns": " ".join(run_many((f"turns {task_id}",), home)[0].out.split()),
        "top": "\n".join("".join(text for text, _ in line) for line in board),
        "HTTP": json.dumps(
            [api.get(any_route("/api/tasks")), api.get(any_route(f"/api/tasks/{task_id}/turns/t1")), end]
        ),
    }
    assert [door for door, words in said.items() if BUDGET not in words] == []
    assert [door for door, words in said.items() if f"interlock why {task_id}" not in words] == ["why"]
    helps = "interlock config show run.turn_budget_seconds"
    assert [door for door, words in said.items() if helps not in words] == ["ps", "HTTP"]
    assert "raise_timeout" in said["HTTP"]
    twice = [(door, one) for door, words in said.items() if door != "HTTP" for one in REPEATED if one in words]
    assert twice == []
    assert [one["ending"] for one in api.get(any_route("/api/tasks"))["items"] if one["task_id"] == task_id] == [BUDGET]


def test_a_stop_on_request_is_said_to_be_one(served: Served) -> None:
    task_id = served.open("say half; gate never", title="Stopped")
    served.shows(task_id, status="RUNNING")
    done = served.cli("interrupt", task_id, "--wait")
    served.shows(task_id, status="CANCELLED")
    printed = served.cli("logs", task_id).stdout
    assert "[cancelled]\n  stopped on request before it ended\n" in printed
    assert [words for words in REPEATED if words in printed + done.stdout + done.stderr] == []


def test_every_command_of_advice_exists() -> None:
    for kind in NextActionKind:
        for line in advice_lines([(kind.value, "")], "ses_1"):
            words = shlex.split(line)
            assert words[0] != "interlock" or any(" ".join(words[1:]).startswith(one.name) for one in COMMANDS), line
            assert "_" not in line.replace("ses_1", "").replace("turn_budget_seconds", "")


def test_an_id_that_a_shell_would_read_is_in_no_command() -> None:
    assert advice_lines([("send_again", ""), ("decide", "")], "ses_$(rm)") == ["send again", "decide"]
    assert advice_lines([("of_a_newer_server", "")], "ses_1") == ["of a newer server"]


@each_row(
    ("message", "details", "said"),
    [
        ("timeout", None, "no end within its time budget"),
        ("timeout", {"budget_seconds": 1200}, "no end within its budget of 1,200 s"),
        ("Timed out", {"elapsed_seconds": 1.25}, "it took 1.2 s"),
        ("deadline passed", None, "deadline passed"),
        ("deadline passed", {"budget_seconds": 5}, "deadline passed (no end within its budget of 5 s)"),
        ("", {"budget_seconds": True, "elapsed_seconds": "long"}, "no end within its time budget"),
    ],
)
def test_a_budget_is_said_as_far_as_it_is_recorded(message: str, details: object, said: str) -> None:
    assert ending_words("timed_out", message, details) == said


def test_a_kind_that_adds_something_stays() -> None:
    assert failure_words("failed", "process_died", "exit code 3") == "failed: process_died: exit code 3"
    assert failure_words("failed", "silent_end", "silent end") == "failed: silent end"
    assert failure_words("interrupted", "interrupted", "the user left") == "interrupted: the user left"
