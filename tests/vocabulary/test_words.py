"""Ids, errors, next actions, and the schema that other languages read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.cli.commands import COMMANDS
from interlock.testing.scribe import Scribe
from interlock.vocabulary.actions import decide, diagnose_session, explain_turn, inspect_child, inspect_log
from interlock.vocabulary.errors import ContractError, MalformedEvent, UsageError
from interlock.vocabulary.events.audit import (
    ProcessEvent,
    ProcessEventKind,
    StreamCheckpoint,
    SurfaceEvent,
    SurfaceResult,
    TurnFailed,
)
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import MessageMetadata, SeqRange, ToolError, ToolResult
from interlock.vocabulary.events.registry import DECLARATIONS
from interlock.vocabulary.events.schema import json_schema
from interlock.vocabulary.ids import (
    CallId,
    SessionId,
    StreamId,
    TurnId,
    is_valid_id,
    new_event_id,
    new_session_id,
    sortable_id,
)
from interlock.vocabulary.states import Activity, ExitReason, TurnState, WorkflowState

TIMES = st.integers(0, 2**48 - 1)
ENTROPY = st.binary(min_size=10, max_size=10)


@given(TIMES, ENTROPY, TIMES, ENTROPY)
def test_ids_sort_by_time_then_entropy_and_never_collide(a_ms: int, a: bytes, b_ms: int, b: bytes) -> None:
    first, second = sortable_id("evt", a_ms, a), sortable_id("evt", b_ms, b)
    assert (first < second) == ((a_ms, a) < (b_ms, b))
    assert (first == second) == ((a_ms, a) == (b_ms, b))
    assert is_valid_id(first)


@pytest.mark.parametrize(
    ("make", "prefix"),
    [(new_event_id, "evt"), (new_session_id, "ses")],
)
def test_each_kind_of_id_has_its_prefix(make: object, prefix: str) -> None:
    assert callable(make)
    assert re.fullmatch(rf"{prefix}_[0-9a-hjkmnp-tv-z]{{26}}", make(1, bytes(10)))


@pytest.mark.parametrize(("unix_ms", "entropy"), [(-1, bytes(10)), (2**48, bytes(10)), (0, bytes(9)), (0, bytes(11))])
def test_an_id_that_would_not_sort_is_refused(unix_ms: int, entropy: bytes) -> None:
    with pytest.raises(ContractError):
        sortable_id("evt", unix_ms, entropy)


@pytest.mark.parametrize("bad", ["", "a b", "../x", "a/b", "-rf", ".hidden", "a\n", "a\x1b[0m", "é", "a" * 129, "$(x)"])
def test_hostile_ids_are_invalid(bad: str) -> None:
    assert not is_valid_id(bad)


@given(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,30}", fullmatch=True))
def test_every_advised_command_is_one_plain_shell_line(name: str) -> None:
    actions = [
        explain_turn(SessionId(name), TurnId(name)),
        diagnose_session(SessionId(name)),
        inspect_log(SessionId(name)),
        inspect_child(SessionId(name)),
    ]
    assert all(re.fullmatch(r"interlock [\w .:-]+", action.command) for action in actions)


def test_every_advised_command_exists() -> None:
    session_id, turn_id = SessionId("ses_1"), TurnId("@1")
    advice = [explain_turn(session_id, turn_id), diagnose_session(session_id), inspect_log(session_id)]
    commands = [action.command for action in [*advice, inspect_child(session_id), decide()] if action.command]
    assert len(commands) == 4
    known = [f"interlock {command.name} ses_1" for command in COMMANDS]
    assert all(any(command.startswith(name) for name in known) for command in commands)


@pytest.mark.parametrize("name", ["x; touch pwned #", "$(id)", "a b", "@", "@$(id)", "`id`"])
def test_what_is_no_id_is_never_part_of_a_command(name: str) -> None:
    assert inspect_child(SessionId(name)).command == ""
    assert explain_turn(SessionId("ses_1"), TurnId(name)).command == ""


def test_errors_say_where_and_what_to_do() -> None:
    assert str(UsageError("no such machine", remedy="try `interlock debug machines`")).endswith(
        "try `interlock debug machines`"
    )
    assert str(MalformedEvent("bad", field="data.text").at_line(7)) == "line 7: data.text: bad"
    with pytest.raises(ValueError, match="x"):
        raise ContractError("x")


ILLEGAL: dict[str, Callable[[], object]] = {
    "a completed failure": lambda: TurnFailed(terminal_status=TurnState.COMPLETED, error_kind="k", error_message=""),
    "an open failure": lambda: TurnFailed(terminal_status=TurnState.WAITING, error_kind="k", error_message=""),
    "an ok result with an error": lambda: ToolResult(
        call_id=CallId("c"), ok=True, error=ToolError(kind="k", message="m")
    ),
    "a failed result without one": lambda: ToolResult(call_id=CallId("c"), ok=False),
    "an exit without a reason": lambda: ProcessEvent(kind=ProcessEventKind.EXITED),
    "a reason without an exit": lambda: ProcessEvent(kind=ProcessEventKind.SPAWNED, exit_reason=ExitReason.CLEAN),
    "an offset that is no length": lambda: StreamCheckpoint(stream_id=StreamId("s"), offset=2, text="é"),
    "a backward range": lambda: SeqRange(from_seq=2, to_seq=1),
    "too many rows": lambda: SurfaceEvent(activity=Activity.WORKING, rows="é" * 1025),
    "too long a slice": lambda: SurfaceResult(result="completed", tail="é" * 513),
    "a whole message of which some is lost": lambda: MessageMetadata(lost_after_offset=3),
    "partial and intermediate": lambda: MessageMetadata(partial=True, intermediate=True),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_a_payload_that_contradicts_itself_cannot_be_made(name: str) -> None:
    with pytest.raises(ContractError):
        ILLEGAL[name]()


@pytest.mark.parametrize(
    ("spelling", "state"),
    [
        ("completion_ready", WorkflowState.COMPLETED),
        ("partial_outcome_ready", WorkflowState.PARTIAL),
        ("needs_orchestrator", WorkflowState.HELD),
        ("held", WorkflowState.HELD),
    ],
)
def test_workflow_states_read_both_spellings(spelling: str, state: WorkflowState) -> None:
    assert WorkflowState(spelling) is state


def test_the_schema_describes_every_type_and_nothing_internal() -> None:
    schema = json_schema()
    text = json.dumps(schema)
    tags = {
        d["properties"]["type"]["enum"][0]
        for name, d in schema["$defs"].items()
        if name.endswith("Event") and "type" in d["properties"] and "session_id" in d["properties"]
    }
    assert tags == set(DECLARATIONS)
    assert "unknown_fields" not in text
    assert "__unknown__" not in text


def test_a_written_event_has_only_properties_of_the_schema() -> None:
    schema = json_schema()
    (event,) = Scribe().write(StreamCheckpoint(stream_id=StreamId("s"), offset=1, text="x"), turn="t")
    raw = json.loads(encode_event(event))
    definition = schema["$defs"]["StreamCheckpointEvent"]
    assert set(raw) <= set(definition["properties"])
    assert set(definition["required"]) <= set(raw)
