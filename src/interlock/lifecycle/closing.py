"""The closing batch: the events that, appended at once, make a turn terminal.

Laws:
1. One atomic append: `run_state running` if no run was logged yet, repairs of unpaired tool calls, the final or partial
   message, `turn_failed` unless completed, and `run_state done` last.
2. What is written is what will be read: the batch is built from the verdict of the same table that classifies it.
3. A timed-out turn says its budget, the time it took and what to do next; of one that its agent ended for time the
   budget is said only if the agent told it.
4. Text is kept only from the attempt that is alive: a partial holds nothing of a dead, retried one.
5. The message names the stream whose place it takes: the one that its owner names, or else that of the last checkpoint.
   One without text takes the place of none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from interlock.lifecycle.decisions.toolcall import CallKey, EndKind, ended
from interlock.lifecycle.run import Ended, RunLifecycleState
from interlock.lifecycle.run import step as step_run
from interlock.lifecycle.turn import Answer, Basis, TurnFacts, is_clean_end, owns_text, verdict
from interlock.lifecycle.turns import error_kind, next_actions
from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.ending_words import AGENT, TIMED_BY, recorded_words
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import RunState, TurnFailed
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    ToolResult,
)
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import RunId, StreamId
from interlock.vocabulary.run import ReasonType, RunStatus, StopCode, TerminationReason
from interlock.vocabulary.states import TurnState

_UNWRITTEN: Final = Evidence(source=EvidenceSource.LOG, rule="closing_batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a turn ended, as its owner saw it. `text` is the answer, or as much of it as there is.

    `stream_id` is the stream in which the text was shown, if any of it was. `lost_after_offset` says that text beyond
    that many code points is known to be lost.
    """

    run_id: RunId
    reason: TerminationReason
    text: str = ""
    source: MessageSource = MessageSource.STREAM
    stream_id: StreamId | None = None
    model: str = ""
    error_kind: str = ""
    error_message: str = ""
    budget_seconds: float | None = None
    elapsed_seconds: float | None = None
    lost_after_offset: int | None = None
    cancel_requested: bool = False
    details: Mapping[str, Json] = field(default_factory=dict)
    next_actions: tuple[NextAction, ...] = ()


def closing_batch(turn: TurnFacts, ending: Ending) -> tuple[Payload, ...]:
    """Build the batch that closes an open turn. The caller appends it at the version at which it read the turn."""
    _refuse_illegal(turn, ending)
    foreseen = _foresee(turn, ending)
    repairs = (_repair(CallKey(turn.turn_id, *call[:2])) for call in sorted(turn.open_calls))
    failure = () if foreseen.state is TurnState.COMPLETED else (_failure(ending, foreseen),)
    # Without any run event the messages of this very batch would close the turn before its end is told.
    begun = () if turn.basis is Basis.RUN_EVENTS else (RunState(run_id=ending.run_id, status=RunStatus.RUNNING),)
    run = RunLifecycleState(
        id=ending.run_id, status=RunStatus.WAITING if turn.state is TurnState.WAITING else RunStatus.RUNNING
    )
    is_cancelled = ending.cancel_requested or turn.cancel_requested
    _, done = step_run(run, Ended(ending.reason, cancel_requested=is_cancelled), 0)
    return (*begun, *repairs, *_message(turn, ending, foreseen), *failure, *done)


def abandoned_ending(turn: TurnFacts, run_id: RunId, message: str) -> Ending:
    """How recovery ends a turn whose owner died: an error, with the text of the last checkpoint."""
    kept = turn.checkpoint
    return Ending(
        run_id=run_id,
        reason=TerminationReason.error(message),
        text="" if kept is None else kept.text,
        error_kind="abandoned",
        error_message=message,
        lost_after_offset=None if kept is None else kept.offset,
    )


def _refuse_illegal(turn: TurnFacts, ending: Ending) -> None:
    if turn.is_terminal:
        raise ContractError(f"turn {turn.turn_id} is already {turn.state.value}; terminal is final")
    if ending.reason.type is ReasonType.SUSPENDED:
        raise ContractError(f"turn {turn.turn_id} cannot be closed as suspended; a suspended run waits")
    if turn.run_id not in (None, ending.run_id):
        raise ContractError(f"turn {turn.turn_id} belongs to run {turn.run_id}, not {ending.run_id}")
    if ending.source is MessageSource.NONE and (ending.text or owns_text(turn)):
        raise ContractError(f"turn {turn.turn_id}: only a terminal turn may end without its text")
    if ending.source is MessageSource.SURFACE and owns_text(turn):
        raise ContractError(f"turn {turn.turn_id}: its text is ours, and is not read off a screen")
    is_known = ending.budget_seconds is not None or ending.details.get(TIMED_BY) == AGENT
    is_timed = is_known and ending.elapsed_seconds is not None
    if ending.reason.stop_code == StopCode.TIMEOUT and not is_timed:
        raise ContractError(f"turn {turn.turn_id}: a timed-out turn must say its budget and how long it took")


def _foresee(turn: TurnFacts, ending: Ending) -> TurnFacts:
    """The turn as it will be read once the batch is in the log, the batch's own failure record aside."""
    is_blank = not ending.text.strip()
    is_whole = ending.lost_after_offset is None and (not is_blank or ending.source is MessageSource.NONE)
    is_told = is_clean_end(ending.reason) and is_whole
    # Repairs come before the batch's message and after any earlier one, which then is no answer any more.
    earlier = None if turn.open_calls else turn.answer
    foreseen = structs.replace(
        turn,
        reason=ending.reason,
        answer=Answer(is_blank, ending.source, _UNWRITTEN) if is_told else earlier if is_blank else None,
        useful_text=turn.useful_text if is_blank else _UNWRITTEN,
        is_cut_short=turn.is_cut_short or (not is_told and not is_blank),
        open_calls=frozenset(),
    )
    return structs.replace(foreseen, state=verdict(foreseen))


def _repair(key: CallKey) -> ToolResult:
    message = "The turn ended before this call had a result"
    return ended(key, EndKind.ORPHAN_TOOL_CALL, message, synthetic=True)


def _message(turn: TurnFacts, ending: Ending, foreseen: TurnFacts) -> tuple[AssistantMessage, ...]:
    is_clean = foreseen.state is TurnState.COMPLETED
    if not ending.text.strip() and not (is_clean and ending.source is MessageSource.NONE):
        return ()
    metadata = MessageMetadata(source=ending.source, model=ending.model, stream_id=_stream(turn, ending))
    if not is_clean:
        metadata = structs.replace(
            metadata,
            partial=True,
            lost_after_offset=ending.lost_after_offset,
            terminal_status=foreseen.state,
            error_kind=ending.error_kind or error_kind(foreseen),
            error_message=ending.error_message,
        )
    return (AssistantMessage(text=ending.text, metadata=metadata),)


def _stream(turn: TurnFacts, ending: Ending) -> StreamId | None:
    if not ending.text.strip():
        return None
    return ending.stream_id or (None if turn.checkpoint is None else turn.checkpoint.stream_id)


def _failure(ending: Ending, foreseen: TurnFacts) -> TurnFailed:
    reason = ending.reason.value if isinstance(ending.reason.value, str) else ""
    kind, details, state = ending.error_kind or error_kind(foreseen), _details(ending), foreseen.state
    is_cancelled = ending.cancel_requested or foreseen.cancel_requested
    own = recorded_words(state, details, cancel_requested=is_cancelled) or kind.replace("_", " ")
    return TurnFailed(
        terminal_status=state,
        error_kind=kind,
        error_message=ending.error_message or reason or own,
        details=details,
        next_actions=ending.next_actions or next_actions(foreseen),
    )


def _details(ending: Ending) -> Json:
    measured = {
        "budget_seconds": ending.budget_seconds,
        "elapsed_seconds": ending.elapsed_seconds,
        # So that a partial text which is lost from the log is missed.
        "partial_text_length": len(ending.text) if ending.text.strip() else None,
    }
    details: dict[str, Json] = {
        **ending.details,
        **{key: value for key, value in measured.items() if value is not None},
    }
    return details or None
