"""Turn lifecycle: how a turn stands, how it ended, and on what evidence.

Laws:
1. One classifier: every surface asks `turns.turn_states`, which folds a log with this machine and nothing else.
2. Only `run_state done` closes a turn whose run is logged; it is the last event of the closing batch. Without it the
   turn is `running` or `waiting`, or `abandoned` where it is known that no owner lives.
3. Terminal is final: what is appended later never changes the record. It is reported as a finding instead.
4. `completed` needs proof: a clean answer after the last tool result, and no tool call left unpaired.
5. Where the run, the failure record and the messages disagree, the weaker state holds and a finding says so.
6. Events are fenced: those of another spawn or another run than the turn's own change nothing.
7. A turn without any run event is classified by its messages alone, and its record says so (`basis`).
8. Where events are lost while a turn is open, any of them may have been its own: it is `unknown`, and stays so whatever
   follows. What is still read of it is kept as evidence. What is lost after its end changes nothing (law 3).

A closed turn's state is read off `CLOSING`, top to bottom:

| The run ended | and the turn shows | so it is |
| --- | --- | --- |
| cancelled | anything | interrupted |
| stopped: timeout | anything | timed_out |
| natural, behavior_requested, stopped: tool_called, content_matched | a clean answer, all calls paired | completed |
| anything else | useful (non-blank) text | partial_failed |
| anything else | no useful text | failed |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, structs

from interlock.lifecycle.table import Edge, Machine, from_each
from interlock.vocabulary.events.audit import RunState, StreamCheckpoint, TurnFailed, TurnStarted
from interlock.vocabulary.events.conversation import AssistantMessage, MessageSource, ToolCall, ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import CallId, RunId, SessionId, SpawnId, TurnId
from interlock.vocabulary.run import ReasonType, RunStatus, StopCode, StoppedReason, TerminationReason
from interlock.vocabulary.states import TURN_TERMINAL, DriverKind, TurnState


class Basis(StrEnum):
    """What a turn's state rests on."""

    RUN_EVENTS = "run_events"
    MESSAGES_ONLY = "messages_only"


class FindingKind(StrEnum):
    """What is odd about a turn's evidence."""

    STATES_DISAGREE = "states_disagree"
    FAILURE_NOT_RECORDED = "failure_not_recorded"
    UNPAIRED_TOOL_CALLS = "unpaired_tool_calls"
    LATE_EVENT = "late_event"
    STALE_SPAWN = "stale_spawn"
    FOREIGN_RUN = "foreign_run"
    EVENTS_LOST = "events_lost"


class Finding(Struct, frozen=True):
    """One oddity, and the event that shows it."""

    kind: FindingKind
    turn_id: TurnId
    message: str
    seq: int | None = None


class LostEvents(Struct, frozen=True):
    """Sequence numbers whose events cannot be read, both included. None: it is not known where the loss ends."""

    first_seq: int
    last_seq: int | None

    @property
    def words(self) -> str:
        """As "event 4", "events 4..6" or "events from 4 on"."""
        if self.last_seq is None:
            return f"events from {self.first_seq} on"
        if self.last_seq == self.first_seq:
            return f"event {self.first_seq}"
        return f"events {self.first_seq}..{self.last_seq}"


class Answer(Struct, frozen=True):
    """The last clean message that no tool activity has followed."""

    is_blank: bool
    source: MessageSource
    proof: Evidence


# More calls than this at once are not kept apart any more: such a turn cannot prove that all of them came back.
MAX_OPEN_CALLS: Final = 512

# More losses than this in one turn are told as one: the last that is kept reaches to the newest.
MAX_LOSSES: Final = 8

OpenCall: TypeAlias = tuple[CallId, int, int]
"""A call id, its occurrence, and how many calls of that very name were open before it."""


class TurnFacts(Struct, frozen=True, kw_only=True):
    """All that is remembered of one turn. Its size is bounded, however long the turn."""

    session_id: SessionId
    turn_id: TurnId
    state: TurnState = TurnState.RUNNING
    basis: Basis = Basis.MESSAGES_ONLY
    first_seq: int | None = None
    last_seq: int | None = None
    spawn_id: SpawnId | None = None
    driver: DriverKind | None = None
    run_id: RunId | None = None
    reason: TerminationReason | None = None
    cancel_requested: bool = False
    run_proof: Evidence | None = None
    answer: Answer | None = None
    useful_text: Evidence | None = None
    is_cut_short: bool = False
    checkpoint: StreamCheckpoint | None = None
    open_calls: frozenset[OpenCall] = frozenset()
    has_lost_count: bool = False
    failure: TurnFailed | None = None
    failure_proof: Evidence | None = None
    findings: tuple[Finding, ...] = ()
    lost: tuple[LostEvents, ...] = ()
    has_run_ended: bool = False

    @property
    def is_terminal(self) -> bool:
        return self.state in TURN_TERMINAL

    @property
    def is_over(self) -> bool:
        """Whether an end of it was read. Of an `unknown` turn that says nothing about how it ended."""
        return self.is_terminal or self.has_run_ended


def was_cancelled(turn: TurnFacts) -> bool:
    return turn.reason is not None and turn.reason.type is ReasonType.CANCELLED


def ran_out_of_time(turn: TurnFacts) -> bool:
    return turn.reason is not None and turn.reason.stop_code == StopCode.TIMEOUT


def ended_with_a_clean_answer(turn: TurnFacts) -> bool:
    return turn.reason is not None and is_clean_end(turn.reason) and has_answer(turn) and are_calls_paired(turn)


def are_calls_paired(turn: TurnFacts) -> bool:
    return not turn.open_calls and not turn.has_lost_count


def left_useful_text(turn: TurnFacts) -> bool:
    return turn.useful_text is not None


def left_nothing_useful(turn: TurnFacts) -> bool:
    return turn.useful_text is None


class ClosingRule(NamedTuple):
    """One row of the table above."""

    when: Callable[[TurnFacts], bool]
    state: TurnState


CLOSING: Final = (
    ClosingRule(was_cancelled, TurnState.INTERRUPTED),
    ClosingRule(ran_out_of_time, TurnState.TIMED_OUT),
    ClosingRule(ended_with_a_clean_answer, TurnState.COMPLETED),
    ClosingRule(left_useful_text, TurnState.PARTIAL_FAILED),
    ClosingRule(left_nothing_useful, TurnState.FAILED),
)

WEAKEST_FIRST: Final = (
    TurnState.FAILED,
    TurnState.TIMED_OUT,
    TurnState.INTERRUPTED,
    TurnState.PARTIAL_FAILED,
    TurnState.COMPLETED,
)

_CLEAN_STOPS: Final = frozenset({StopCode.TOOL_CALLED, StopCode.CONTENT_MATCHED})


def is_clean_end(reason: TerminationReason) -> bool:
    """Whether a run that ended for this reason may have completed its turn."""
    if isinstance(reason.value, StoppedReason):
        return reason.value.known in _CLEAN_STOPS
    return reason.type in (ReasonType.NATURAL_END, ReasonType.BEHAVIOR_REQUESTED)


def has_answer(turn: TurnFacts) -> bool:
    """Whether the answer is there. A terminal's text is not ours: there, completion claims no answer."""
    if turn.answer is None:
        return turn.driver is DriverKind.TERMINAL and not turn.is_cut_short
    if owns_text(turn):
        return not turn.answer.is_blank and turn.answer.source is not MessageSource.SURFACE
    return not turn.answer.is_blank or turn.answer.source is MessageSource.NONE


def owns_text(turn: TurnFacts) -> bool:
    """Whether the answer reaches us as text, so that a missing one is a failure."""
    return turn.driver in (DriverKind.STREAM, DriverKind.ACP, DriverKind.MODEL)


def verdict(turn: TurnFacts) -> TurnState:
    """The state that a turn closes in, given all its evidence: the weakest that anyone says."""
    said = frozenset(_said(turn))
    return next(state for state in WEAKEST_FIRST if state in said)


def _said(turn: TurnFacts) -> Iterable[TurnState]:
    if turn.reason is not None:
        yield next(rule.state for rule in CLOSING if rule.when(turn))
    if turn.failure is not None:
        claims_absent_text = turn.failure.terminal_status is TurnState.PARTIAL_FAILED and turn.useful_text is None
        yield TurnState.FAILED if claims_absent_text else turn.failure.terminal_status


def _someone_says(state: TurnState) -> Callable[[TurnFacts], bool]:
    def guard(turn: TurnFacts) -> bool:
        return state in _said(turn)

    guard.__name__ = f"run_or_failure_says_{state.value}"
    return guard


OPEN: Final = (TurnState.RUNNING, TurnState.WAITING, TurnState.ABANDONED)
WITHOUT_RUN: Final = (TurnState.RUNNING, TurnState.ABANDONED)  # only a run event can say that a turn waits
RUN_RUNNING, RUN_WAITING, RUN_DONE = "run_running", "run_waiting", "run_done"
ANSWERED, FAILURE_RECORDED = "answered", "failure_recorded"
OWNER_TAKEN, OWNER_LOST = "owner_taken", "owner_lost"
EVENTS_LOST = "events_lost"

TRANSITIONS: Final[tuple[Edge[TurnState, TurnFacts], ...]] = (
    *from_each(OPEN, RUN_RUNNING, TurnState.RUNNING),
    *from_each(OPEN, RUN_WAITING, TurnState.WAITING),
    *(edge for state in WEAKEST_FIRST for edge in from_each(OPEN, RUN_DONE, state, _someone_says(state))),
    *from_each(WITHOUT_RUN, ANSWERED, TurnState.COMPLETED),
    *(
        edge
        for state in WEAKEST_FIRST[:-1]
        for edge in from_each(WITHOUT_RUN, FAILURE_RECORDED, state, _someone_says(state))
    ),
    *from_each(OPEN, OWNER_LOST, TurnState.ABANDONED),
    Edge(TurnState.ABANDONED, OWNER_TAKEN, TurnState.RUNNING),
    *from_each(OPEN, EVENTS_LOST, TurnState.UNKNOWN),
)

MACHINE: Final = Machine(
    name="turn",
    title="Turn: one prompt and all that follows until its terminal state",
    states=TurnState,
    initial=TurnState.RUNNING,
    edges=TRANSITIONS,
    laws=__doc__,
    observations=frozenset(
        {RUN_RUNNING, RUN_WAITING, RUN_DONE, ANSWERED, FAILURE_RECORDED, OWNER_TAKEN, OWNER_LOST, EVENTS_LOST}
    ),
    terminal=TURN_TERMINAL,
)

_RUN_INPUT: Final = {
    RunStatus.RUNNING: RUN_RUNNING,
    RunStatus.WAITING: RUN_WAITING,
    RunStatus.DONE: RUN_DONE,
}


def step(turn: TurnFacts, event: Event) -> tuple[TurnFacts, tuple[Finding, ...]]:
    """Fold one event of this turn. Never raises; what cannot be taken at its word becomes a finding."""
    refused = _fence(turn, event)
    if refused is not None:
        return turn, (refused,)
    is_first_spawn = turn.spawn_id is None and not isinstance(event.data, TurnStarted)
    seen = structs.replace(turn, last_seq=event.seq, spawn_id=event.spawn_id if is_first_spawn else turn.spawn_id)
    following = _absorb(seen, event, event.data)
    new = following.findings[len(turn.findings) :]
    return following, new


def lose_owner(turn: TurnFacts) -> TurnFacts:
    """Read an open turn as abandoned. Recovery may still close it, or a new owner take it up again."""
    return _moved(turn, OWNER_LOST)


def lose_events(turn: TurnFacts, lost: LostEvents) -> TurnFacts:
    """Read an open turn as unknown: any of the lost events may have been its own. A turn that is over is as it was."""
    if turn.is_over:
        return turn
    return _moved(structs.replace(turn, lost=add_loss(turn.lost, lost)), EVENTS_LOST)


def add_loss(known: tuple[LostEvents, ...], lost: LostEvents) -> tuple[LostEvents, ...]:
    """Losses with one more. All but the last that may be kept are never merged: each of their numbers is lost."""
    kept, rest = known[: MAX_LOSSES - 1], known[MAX_LOSSES - 1 :]
    return (*kept, LostEvents(rest[0].first_seq, lost.last_seq) if rest else lost)


def refusal_kind(
    event: Event, *, is_terminal: bool, spawn_id: SpawnId | None, run_id: RunId | None
) -> FindingKind | None:
    """The fence: why an event changes nothing in a turn that is closed or not, of this spawn and run. Or None."""
    if is_terminal:
        return FindingKind.LATE_EVENT
    is_foreign_spawn = None not in (event.spawn_id, spawn_id) and event.spawn_id != spawn_id
    if is_foreign_spawn and not isinstance(event.data, TurnStarted):
        return FindingKind.STALE_SPAWN
    if isinstance(event.data, RunState) and run_id not in (None, event.data.run_id):
        return FindingKind.FOREIGN_RUN
    return None


def _fence(turn: TurnFacts, event: Event) -> Finding | None:
    kind = refusal_kind(event, is_terminal=turn.is_over, spawn_id=turn.spawn_id, run_id=turn.run_id)
    if kind is None:
        return None
    return Finding(kind, turn.turn_id, f"{event.type}: {_refusal(kind, turn, event)}", event.seq)


def _refusal(kind: FindingKind, turn: TurnFacts, event: Event) -> str:
    if kind is FindingKind.LATE_EVENT:
        return f"the turn is already {turn.state.value if turn.is_terminal else 'over'}"
    if kind is FindingKind.STALE_SPAWN:
        return f"spawn {event.spawn_id} does not own this turn, {turn.spawn_id} does"
    run = event.data.run_id if isinstance(event.data, RunState) else None
    return f"run {run} is not this turn's run {turn.run_id}"


def _absorb(turn: TurnFacts, event: Event, data: Payload) -> TurnFacts:
    match data:
        case AssistantMessage():
            return _absorb_message(turn, event, data)
        case ToolCall():
            return _open_call(structs.replace(turn, answer=None), data)
        case ToolResult():
            return _close_call(structs.replace(turn, answer=None), data)
        case StreamCheckpoint():
            return structs.replace(turn, checkpoint=data) if _goes_on(turn.checkpoint, data) else turn
        case TurnStarted():
            return _absorb_start(turn, event, data)
        case TurnFailed():
            failed = _absorb_failure(turn, event, data)
            return _close(failed, FAILURE_RECORDED) if turn.basis is Basis.MESSAGES_ONLY else failed
        case RunState():
            return _absorb_run(turn, event, data)
        case _:
            return turn


def _open_call(turn: TurnFacts, call: ToolCall) -> TurnFacts:
    if len(turn.open_calls) >= MAX_OPEN_CALLS:
        return structs.replace(turn, has_lost_count=True)
    same = sum(known[:2] == (call.call_id, call.occurrence) for known in turn.open_calls)
    return structs.replace(turn, open_calls=turn.open_calls | {(call.call_id, call.occurrence, same)})


def _close_call(turn: TurnFacts, result: ToolResult) -> TurnFacts:
    same = [known for known in turn.open_calls if known[:2] == (result.call_id, result.occurrence)]
    return structs.replace(turn, open_calls=turn.open_calls - {max(same)}) if same else turn


def _goes_on(before: StreamCheckpoint | None, now: StreamCheckpoint) -> bool:
    """Whether a checkpoint is newer: of another stream, of a later attempt, or at least as far in the same one."""
    if before is None or before.stream_id != now.stream_id:
        return True
    return (now.attempt, now.offset) >= (before.attempt, before.offset)


def _absorb_start(turn: TurnFacts, event: Event, start: TurnStarted) -> TurnFacts:
    taken = _moved(structs.replace(turn, basis=Basis.RUN_EVENTS, driver=start.driver), OWNER_TAKEN)
    if event.spawn_id in (None, turn.spawn_id):
        return taken
    # What another process said is no answer of this one, nor a part of it.
    return structs.replace(
        taken, spawn_id=event.spawn_id, answer=None, useful_text=None, checkpoint=None, is_cut_short=False
    )


def _absorb_failure(turn: TurnFacts, event: Event, failure: TurnFailed) -> TurnFacts:
    rank = WEAKEST_FIRST.index
    if turn.failure is not None and rank(turn.failure.terminal_status) < rank(failure.terminal_status):
        return turn
    return structs.replace(turn, failure=failure, failure_proof=_proof(event, "failure_recorded"))


def _absorb_message(turn: TurnFacts, event: Event, message: AssistantMessage) -> TurnFacts:
    if message.metadata.intermediate:
        return structs.replace(turn, answer=None, checkpoint=None)
    useful = turn if message.is_blank else structs.replace(turn, useful_text=_proof(event, "useful_text"))
    if message.metadata.partial:
        return structs.replace(useful, answer=None, checkpoint=None, is_cut_short=True)
    answer = Answer(message.is_blank, message.metadata.source, _proof(event, "clean_answer"))
    answered = structs.replace(useful, answer=answer, checkpoint=None, is_cut_short=False)
    if turn.basis is Basis.MESSAGES_ONLY and has_answer(answered) and are_calls_paired(turn):
        return _moved(answered, ANSWERED)
    return answered


def _absorb_run(turn: TurnFacts, event: Event, run: RunState) -> TurnFacts:
    done_reason = run.reason.to_run_status()[1] if run.reason is not None else None
    told = structs.replace(
        turn,
        basis=Basis.RUN_EVENTS,
        run_id=run.run_id,
        run_proof=_proof(event, f"run_{done_reason or run.status.value}"),
        reason=run.reason if run.status is RunStatus.DONE else None,
        # An open run says each time whether it is asked to end; its end keeps what was asked before.
        cancel_requested=run.cancel_requested or (run.status is RunStatus.DONE and turn.cancel_requested),
    )
    on = _RUN_INPUT[run.status]
    return _close(told, on) if run.status is RunStatus.DONE else _moved(told, on)


def _proof(event: Event, rule: str) -> Evidence:
    return Evidence(source=EvidenceSource.LOG, rule=rule, at=event.ts, seq=event.seq, where=event.type)


def _moved(turn: TurnFacts, on: str) -> TurnFacts:
    return structs.replace(turn, state=MACHINE.next_state(turn.state, on, turn))


def _close(turn: TurnFacts, on: str) -> TurnFacts:
    closed = _moved(turn, on)
    if closed.state is TurnState.UNKNOWN:
        # Without run events it is not even known that messages alone decide: only the end of a run ends it.
        return structs.replace(closed, has_run_ended=on == RUN_DONE)
    return structs.replace(closed, findings=(*closed.findings, *_contradictions(closed)))


def _contradictions(turn: TurnFacts) -> Iterable[Finding]:
    def found(kind: FindingKind, message: str) -> Finding:
        return Finding(kind, turn.turn_id, message, turn.last_seq)

    if not are_calls_paired(turn):
        names = ", ".join(sorted(call_id for call_id, _, _ in turn.open_calls))
        more = ", and more than can be counted" if turn.has_lost_count else ""
        yield found(FindingKind.UNPAIRED_TOOL_CALLS, f"tool calls without a result: {names}{more}")
    if turn.failure is None and turn.state is not TurnState.COMPLETED:
        yield found(FindingKind.FAILURE_NOT_RECORDED, f"the turn is {turn.state.value} and no turn_failed says why")
    by_run = next(rule.state for rule in CLOSING if rule.when(turn))
    if turn.failure is not None and turn.reason is not None and turn.failure.terminal_status is not by_run:
        claim = f"turn_failed says {turn.failure.terminal_status.value}, the run and its messages say {by_run.value}"
        yield found(FindingKind.STATES_DISAGREE, claim)
