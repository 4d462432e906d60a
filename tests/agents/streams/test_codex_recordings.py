"""Golden tests: each recorded Codex session tells just what stands in the file beside it.

After a change that is meant, write them anew with INTERLOCK_WRITE_GOLDEN=1 and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.agents.observations import (
    ApprovalGone,
    ChildrenChanged,
    MessageEnded,
    Observation,
    TextArrived,
    TextVoided,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
    Warned,
)
from tests.agents.streams.codex_recordings import APP_SERVER, EXEC, RECORDINGS, play_app_server, play_exec, shown


def golden(path: Path, told: str) -> str:
    """The lines that were approved for a recording."""
    expected = path.with_name(path.name.replace(".ndjson.gz", ".expected.txt"))
    if os.environ.get("INTERLOCK_WRITE_GOLDEN"):
        expected.write_text(told, encoding="utf-8")
    return expected.read_text(encoding="utf-8")


def app_server(name: str) -> list[Observation]:
    return play_app_server(RECORDINGS / "app_server" / f"{name}.ndjson.gz")


def run_of(name: str) -> list[Observation]:
    return play_exec(RECORDINGS / "exec" / f"{name}.ndjson.gz")


def endings(seen: list[Observation]) -> list[TurnEnding]:
    return [one.ending for one in seen if isinstance(one, TurnEnded)]


@pytest.mark.parametrize("path", EXEC, ids=lambda path: path.name.partition(".")[0])
def test_a_run_of_exec_tells_what_was_approved(path: Path) -> None:
    told = shown(play_exec(path))
    assert told == golden(path, told)


@pytest.mark.parametrize("path", APP_SERVER, ids=lambda path: path.name.partition(".")[0])
def test_a_session_of_the_app_server_tells_what_was_approved(path: Path) -> None:
    told = shown(play_app_server(path))
    assert told == golden(path, told)


@pytest.mark.parametrize("path", APP_SERVER, ids=lambda path: path.name.partition(".")[0])
def test_every_call_has_one_result_and_every_result_a_call(path: Path) -> None:
    seen = play_app_server(path)
    called = [one.call_id for one in seen if isinstance(one, ToolCalled)]

    assert called == [one.call_id for one in seen if isinstance(one, ToolReturned)] == list(dict.fromkeys(called))


def test_each_turn_of_the_app_server_ends_as_it_did() -> None:
    natural, error, interrupted = TurnEnding.NATURAL, TurnEnding.ERROR, TurnEnding.INTERRUPTED
    assert endings(app_server("tool_error_interrupt")) == [natural, error, interrupted]
    assert endings(app_server("phases")) == [*[natural] * 7, *[interrupted] * 4, error]


def test_text_that_was_tried_again_counts_once() -> None:
    seen = app_server("phases")
    begin, piece = next(i for i, one in enumerate(seen) if one == TextArrived(text="Half", message_id="msg_0001_0")), ""
    for one in seen[begin:]:
        match one:
            case TextArrived(text=text):
                piece += text
            case TextVoided():
                piece = ""
            case MessageEnded(text=text):
                assert piece == text == "Half and whole."
                break
            case _:
                pass


def test_figures_that_are_only_repeated_are_not_counted_again() -> None:
    used = [one for one in app_server("phases") if isinstance(one, UsageReported)]
    by_turn: list[int] = []
    for one in used:
        assert one.input_tokens is not None
        # Within a turn the figure grows; a smaller or equal one belongs to the next.
        if by_turn and one.input_tokens > by_turn[-1]:
            by_turn[-1] = one.input_tokens
        else:
            by_turn.append(one.input_tokens)
    assert sum(by_turn) == 1400  # the total that Codex itself told in the end


def test_a_command_that_outlives_its_turn_is_open_until_it_ends() -> None:
    changes = [one.open for one in app_server("late_end") if isinstance(one, ChildrenChanged)]
    assert changes == [{"call_0000_0"}, set(), {"call_0001_0"}]


def test_a_question_that_an_interrupt_took_back_was_not_answered() -> None:
    gone = [one.is_answered for one in app_server("phases") if isinstance(one, ApprovalGone)]
    assert gone == [True, True, False]


def test_exec_ends_as_it_did() -> None:
    assert endings(run_of("success")) == endings(run_of("tool_yolo")) == [TurnEnding.NATURAL]
    assert endings(run_of("error500")) == [TurnEnding.ERROR]
    assert endings(run_of("term")) == [TurnEnding.SILENT]


def test_exec_warns_when_it_resumed_another_session() -> None:
    path = RECORDINGS / "exec" / "another_session.ndjson.gz"
    kinds = [one.kind for one in play_exec(path, resume="no-such-name") if isinstance(one, Warned)]
    assert kinds == ["resumed_another_session"]


def test_exec_does_not_take_the_total_of_a_resumed_session_for_its_turn() -> None:
    path = RECORDINGS / "exec" / "resume.ndjson.gz"
    assert [one for one in play_exec(path, resume="any") if isinstance(one, UsageReported)] == []
