"""Every state that a turn can reach, by every order of a small alphabet of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from msgspec import structs

from interlock.lifecycle.turn import (
    ANSWERED,
    EVENTS_LOST,
    FAILURE_RECORDED,
    MACHINE,
    OWNER_LOST,
    OWNER_TAKEN,
    RUN_DONE,
    RUN_RUNNING,
    RUN_WAITING,
    Basis,
    LostEvents,
    TurnFacts,
    lose_events,
    lose_owner,
    step,
)
from interlock.testing.explore import Exploration, LawBroken, check_table, explore, labelled_by
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import RunState, StreamCheckpoint, TurnFailed, TurnStarted
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    ToolCall,
    ToolResult,
)
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, SessionId, StreamId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind, TurnState

RUN = RunId("r")
CALL = CallId("c")
REASONS = [NATURAL_END, CANCELLED, TerminationReason.error("x")] + [
    TerminationReason.stopped(code) for code in ("timeout", "max_rounds", "tool_called")
]
CLEAN = {NATURAL_END, TerminationReason.stopped("tool_called")}
ALPHABET: list[Payload] = [
    TurnStarted(driver=DriverKind.STREAM),
    TurnStarted(driver=DriverKind.TERMINAL),
    RunState(run_id=RUN, status=RunStatus.RUNNING),
    RunState(run_id=RUN, status=RunStatus.RUNNING, cancel_requested=True),
    RunState(run_id=RUN, status=RunStatus.WAITING, reason=SUSPENDED),
    *(RunState(run_id=RUN, status=RunStatus.DONE, reason=reason) for reason in REASONS),
    AssistantMessage(text="answer"),
    AssistantMessage(text="first", metadata=MessageMetadata(intermediate=True)),
    AssistantMessage(text=" "),
    AssistantMessage(text="half", metadata=MessageMetadata(partial=True)),
    AssistantMessage(text="", metadata=MessageMetadata(source=MessageSource.NONE)),
    ToolCall(call_id=CALL, name="tool"),
    ToolResult(call_id=CALL, ok=True),
    StreamCheckpoint(stream_id=StreamId("s"), offset=4, text="some"),
    TurnFailed(terminal_status=TurnState.PARTIAL_FAILED, error_kind="k", error_message=""),
    TurnFailed(terminal_status=TurnState.FAILED, error_kind="k", error_message=""),
    TurnFailed(terminal_status=TurnState.INTERRUPTED, error_kind="k", error_message=""),
    TurnFailed(terminal_status=TurnState.TIMED_OUT, error_kind="k", error_message=""),
]


def same_moment(payload: Payload) -> Event:
    # One seq and one time for all: a proof that differs only in where it stands is not another state.
    (event,) = Scribe().write(payload, turn="t")
    return event


Given: TypeAlias = Event | LostEvents | None
INPUTS: list[Given] = [None, LostEvents(2, 2), *map(same_moment, ALPHABET)]  # None: the owner is lost


def inputs_in(turn: TurnFacts) -> list[Given]:
    """One call at a time: how several of one name are counted is tested apart, and has no end here."""
    return [given for given in INPUTS if not _is_endless(turn, given)]


def _is_endless(turn: TurnFacts, given: Given) -> bool:
    if isinstance(given, LostEvents):
        return bool(turn.lost)
    return given is not None and bool(turn.open_calls) and isinstance(given.data, ToolCall)


def take(turn: TurnFacts, given: Given) -> TurnFacts:
    if isinstance(given, LostEvents):
        return lose_events(turn, given)
    return lose_owner(turn) if given is None else step(turn, given)[0]


def name_of(given: Given) -> str:
    if isinstance(given, LostEvents):
        return EVENTS_LOST
    match given and given.data:
        case None:
            return OWNER_LOST
        case RunState(status=status):
            return {RunStatus.RUNNING: RUN_RUNNING, RunStatus.WAITING: RUN_WAITING, RunStatus.DONE: RUN_DONE}[status]
        case TurnFailed():
            return FAILURE_RECORDED
        case AssistantMessage():
            return ANSWERED
        case TurnStarted():
            return OWNER_TAKEN
        case _:
            return "absorbed"


def completed_is_proven(turn: TurnFacts) -> bool:
    if turn.state is not TurnState.COMPLETED:
        return True
    # Said again in other words than the code's, so that a mistake there is not made here too.
    if turn.open_calls or turn.failure is not None or (turn.reason is not None and turn.reason not in CLEAN):
        return False
    if turn.answer is None:
        return turn.driver is DriverKind.TERMINAL and not turn.is_cut_short
    return not turn.answer.is_blank or (
        turn.answer.source is MessageSource.NONE and turn.driver is not DriverKind.STREAM
    )


def is_word_of_an_open_run(given: Given) -> bool:
    is_run = isinstance(given, Event) and isinstance(given.data, RunState)
    return is_run and name_of(given) != RUN_DONE


def walk(step_of_turn: Callable[[TurnFacts, Given], TurnFacts]) -> Exploration[TurnFacts, Given]:
    return explore(
        start=[TurnFacts(session_id=SessionId("s"), turn_id=TurnId("t"))],
        inputs=inputs_in,
        step=step_of_turn,
        label=labelled_by("state"),
        named=name_of,
        state_laws={
            "completed is proven": completed_is_proven,
            "partial_failed has its text": lambda turn: (
                turn.state is not TurnState.PARTIAL_FAILED or turn.useful_text is not None
            ),
            "a logged run ends by run_state alone": lambda turn: (
                not turn.is_terminal or turn.basis is Basis.MESSAGES_ONLY or turn.reason is not None
            ),
            "an open turn has no reason": lambda turn: turn.is_over or turn.reason is None,
            "unknown is what has lost events": lambda turn: (turn.state is TurnState.UNKNOWN) == bool(turn.lost),
        },
        step_laws={
            "terminal is final": lambda before, _, after: not before.is_terminal or before == after,
            "unknown is final": lambda before, _, after: (
                before.state is not TurnState.UNKNOWN or after.state is TurnState.UNKNOWN
            ),
            "lost events leave no open turn known": lambda _, given, after: (
                not isinstance(given, LostEvents) or after.is_terminal or after.state is TurnState.UNKNOWN
            ),
            "a cancel is taken back only by the word of an open run": lambda before, given, after: (
                before.cancel_requested <= after.cancel_requested or is_word_of_an_open_run(given)
            ),
        },
    )


def test_every_state_of_a_turn(record_property: Callable[[str, object], None]) -> None:
    found = walk(take)
    record_property("explored", found.summary("turn"))
    check_table(found, MACHINE, silent={"absorbed"})
    assert found.stuck(lambda turn: turn.is_terminal or turn.state is TurnState.UNKNOWN) == []


def test_the_walk_sees_a_fence_that_is_down() -> None:
    def without_fence(turn: TurnFacts, given: Given) -> TurnFacts:
        is_known = turn.state is not TurnState.UNKNOWN
        return take(structs.replace(turn, state=TurnState.RUNNING, reason=None) if is_known else turn, given)

    with pytest.raises(LawBroken, match="terminal is final"):
        walk(without_fence)


def test_the_walk_sees_a_completion_without_proof() -> None:
    def overlooks_open_calls(turn: TurnFacts, given: Given) -> TurnFacts:
        if name_of(given) != RUN_DONE:
            return take(turn, given)
        ended = take(structs.replace(turn, open_calls=frozenset()), given)
        return structs.replace(ended, open_calls=turn.open_calls)

    with pytest.raises(LawBroken, match="completed is proven"):
        walk(overlooks_open_calls)
