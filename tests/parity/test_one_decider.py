"""One place decides: which statuses mean an open turn, and by which frame a stream ended. No other module has a rule of
its own, and what they all say is the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock
from interlock.cli.top.layout.facts import turn_of
from interlock.cli.work.until import is_idle
from interlock.client.machine.catching_up import frames_between
from interlock.client.machine.state import LocalStream, TaskState
from interlock.lifecycle.task_status import STATUS_OF_TURN, has_open_turn, is_under_way
from interlock.projections.present.display import END_STATUS
from interlock.vocabulary.ids import SessionId, StreamId, TurnId
from interlock.vocabulary.states import TaskStatus, TurnState
from interlock.vocabulary.wire.frames import ChatCancelled, ChatDone, ChatError, Message, MessageStatus, Role
from tests.cli.badges import look_of
from tests.each_row import each_row

SOURCE = Path(interlock.__file__).parent
DECIDES_STATUS = "lifecycle/task_status.py"
DECIDES_ENDS = "projections/task/live_frames.py"
UNDER_WAY = {"PENDING", "RUNNING", "CANCELLING", "PENDING_CONFIRMATION"}
AT = datetime(2026, 1, 1, tzinfo=UTC)


def modules(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of the product in which one of these words stands at all."""
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
        if not name.startswith("testing/") and any(word in text for word in words):
            yield name, ast.parse(text)


def sets_of_statuses(tree: ast.Module) -> Iterator[int]:
    """Lines with a collection of several statuses that mean that something is under way."""
    for node in ast.walk(tree):
        keys = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        named = {_status(one) for one in keys} & UNDER_WAY
        if len(named) > 1 and isinstance(node, ast.expr):
            yield node.lineno


def _status(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "TaskStatus":
        return node.attr
    return ""


def test_only_one_module_says_which_statuses_mean_an_open_turn() -> None:
    found = {name for name, tree in modules(*UNDER_WAY) if any(True for _ in sets_of_statuses(tree))}
    assert found == {DECIDES_STATUS}


def test_only_one_module_makes_the_frames_by_which_a_stream_ends() -> None:
    ends = {"ChatDone", "ChatCancelled", "ChatError"}
    found = {
        name
        for name, tree in modules(*ends)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ends
    }
    assert found == {DECIDES_ENDS}


@pytest.mark.parametrize(
    "text",
    [
        "OPEN = (TaskStatus.RUNNING, TaskStatus.CANCELLING)",
        "OPEN = frozenset({TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.DELETE})",
        'if status in ["RUNNING", "PENDING_CONFIRMATION"]: pass',
        'WORDS = {"RUNNING": "open", "CANCELLING": "stopping"}',
    ],
)
def test_a_rule_of_its_own_is_found_however_it_is_written(text: str) -> None:
    assert list(sets_of_statuses(ast.parse(text))) == [1]


@each_row("state", TurnState)
def test_an_open_turn_has_a_status_that_says_so_and_a_closed_one_has_not(state: TurnState) -> None:
    is_open = state in (TurnState.RUNNING, TurnState.WAITING)
    assert has_open_turn(STATUS_OF_TURN[state]) is is_open


@each_row("status", [None, "FOREIGN", *TaskStatus])
def test_the_command_line_and_the_board_say_what_the_status_says(status: str | None) -> None:
    if status != "FOREIGN":  # such a word is refused where it is read
        over = {"turn_id": "trn_1", "state": "completed"}
        assert is_idle(look_of({"task_id": "ses_1", "task_status": status}, over)) is not is_under_way(status)
    if status is not None:
        assert (turn_of(status, "done") in ("turn open", "turn being cancelled")) is has_open_turn(status)
    assert is_under_way(status) is (has_open_turn(status) or status == TaskStatus.PENDING)


@given(st.sampled_from(MessageStatus), st.text(min_size=1, max_size=5))
def test_after_a_gap_a_stream_ends_as_the_turn_of_its_message_did(status: MessageStatus, text: str) -> None:
    told = LocalStream(stream_id=StreamId("str_1"), started_at=AT, turn_id=TurnId("trn_1"))
    message = Message(
        message_id=3, version=4, role=Role.ANSWER, status=status, text=text, at=AT, stream_id=told.stream_id
    )
    now = TaskState(task_id=SessionId("ses_1"), messages=(message,))
    ended = next(one for one in frames_between(now, now, told) if isinstance(one, ChatDone | ChatCancelled | ChatError))
    turns = {TurnState.COMPLETED: "ChatDone", TurnState.INTERRUPTED: "ChatCancelled"}
    wanted = {END_STATUS[turn]: kind for turn, kind in turns.items()}
    assert type(ended).__name__ == wanted.get(status, "ChatError")
    assert (ended.message_id, ended.cursor) == (3, len(text))
