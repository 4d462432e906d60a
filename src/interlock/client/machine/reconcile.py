"""What a word from the server means for what is known: statuses, checks, snapshots.

Laws:
1. No word with a lower version than what is known changes the status. Words of the same version are the same truth,
   told by frame, snapshot or check; what comes by another way must be newer.
2. A terminal status is left only by a higher version that names another turn. An accepted prompt has no turn yet, which
   counts as another. `DELETE` may follow anything and is never left. All else is kept out, counted and asked about.
3. A check says nothing of a stream that began or grew while it was under way, nor of a status that changed then.
4. A snapshot holds everything up to its tick: messages, stream, approvals and queue are as it says, however old its
   status may be.
5. What a person pressed is settled by what the server says of a moment after that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interlock.client.machine import transcript
from interlock.client.machine.state import CheckInFlight, JoinInFlight, SyncState, TaskState
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import ActiveStream, RuntimeCheck, TaskSnapshot

_MAX_ANOMALIES: Final = 1_000_000


class ReconcileVerdict(StrEnum):
    """What became of a word on the status."""

    TAKEN = "taken"
    OLD = "old"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StatusWord:
    """A status, and where in the log it was true. `is_direct`: by frame, snapshot or check."""

    status: str | None
    version: int
    turn_id: TurnId | None
    updated_at: Moment | None
    is_direct: bool = True


def judge(state: TaskState, word: StatusWord) -> ReconcileVerdict:
    """Whether a word may change the status (laws 1 and 2)."""
    if word.version < state.version or (word.version == state.version and not word.is_direct):
        return ReconcileVerdict.OLD
    if (word.status, word.turn_id) == (state.status, state.turn_id) or word.status == TaskStatus.DELETE:
        return ReconcileVerdict.TAKEN
    if state.status == TaskStatus.DELETE:
        return ReconcileVerdict.REFUSED
    if classify(state.status) is StatusClass.TERMINAL and not _reopens(state, word):
        return ReconcileVerdict.REFUSED
    return ReconcileVerdict.TAKEN


def _reopens(state: TaskState, word: StatusWord) -> bool:
    if word.version <= state.status_version:
        return False
    if word.turn_id is None:
        return word.status == TaskStatus.PENDING
    return word.turn_id != state.turn_id


def take_status(state: TaskState, word: StatusWord) -> tuple[TaskState, ReconcileVerdict]:
    """Put a word in the place of the last one, with all that follows, if it may."""
    verdict = judge(state, word)
    if verdict is ReconcileVerdict.OLD:
        return state, verdict
    if verdict is ReconcileVerdict.REFUSED:
        return replace(count_anomaly(state), is_verified=state.is_verified and not word.is_direct), verdict
    if (word.status, word.turn_id) != (state.status, state.turn_id):
        state = _change(state, word)
    state = replace(
        state,
        status_version=word.version,
        version=word.version,
        status_updated_at=word.updated_at,
        is_verified=state.is_verified or word.is_direct,
    )
    return state, verdict


def _change(state: TaskState, word: StatusWord) -> TaskState:
    """Another status, or another turn."""
    if word.turn_id != state.turn_id:
        is_stopping = state.is_stopping and state.turn_id is None
        state = replace(transcript.leave_turn(state, word.turn_id), is_stopping=is_stopping)
    state = replace(
        state,
        status=word.status,
        turn_id=word.turn_id,
        server_confirmed_no_stream=False,
        check=None if state.check is None else replace(state.check, saw_status=True),
    )
    if classify(word.status) is not StatusClass.TERMINAL:
        return state
    kept = tuple(one for one in state.approvals if one.turn_id != word.turn_id)
    return replace(transcript.set_aside(state), is_stopping=False, approvals=kept)


@dataclass(frozen=True, slots=True)
class ServerReading:
    """What a check or a snapshot led to. `is_doubted`: it was not believed, in part or as a whole, and the question
    stands. `is_conflict`: what it says cannot follow from what is known."""

    state: TaskState
    is_doubted: bool = False
    is_conflict: bool = False
    is_missing: bool = False


def take_check(state: TaskState, flight: CheckInFlight, check: RuntimeCheck) -> ServerReading:
    """What a check tells. `is_missing`: the room told frames that are not here, or the server knows of stream text that
    is not here and did not come meanwhile."""
    state = replace(state, is_reachable=True)
    if check.version < state.version:
        return ServerReading(state, is_doubted=not state.is_verified)
    word = StatusWord(check.task_status, check.version, check.turn_id, check.status_updated_at)
    is_other = (word.status, word.turn_id) != (state.status, state.turn_id)
    if flight.saw_status and is_other and check.version == state.version:
        return ServerReading(state, is_doubted=True)
    state, verdict = take_status(state, word)
    if verdict is ReconcileVerdict.REFUSED:
        return ServerReading(state, is_conflict=True)
    state = _settle_send(state, is_later=not flight.saw_send)
    state = _settle_stop(state, is_later=not flight.saw_stop)
    has_unheard = state.tick is not None and check.tick > state.tick
    if check.active_stream is not None:
        state = replace(state, server_confirmed_no_stream=False)
        lacks_text = not flight.saw_stream and _lacks(state, check.active_stream)
        return ServerReading(state, is_missing=has_unheard or lacks_text)
    if flight.saw_stream and state.stream is not None:
        return ServerReading(state, is_doubted=True, is_missing=has_unheard)
    state = _confirm_no_stream(transcript.set_aside(state), is_later=not flight.saw_stop)
    return ServerReading(state, is_missing=has_unheard)


def take_snapshot(state: TaskState, flight: JoinInFlight, snapshot: TaskSnapshot, now: float) -> ServerReading:
    """Stand where the server stands. It must not leave out text that is not here."""
    word = StatusWord(snapshot.task_status, snapshot.version, snapshot.turn_id, snapshot.status_updated_at)
    state, verdict = take_status(state, word)
    state = replace(
        transcript.take_messages(state, snapshot.messages, is_whole=snapshot.is_whole),
        sync=SyncState.JOINED,
        is_reachable=True,
        tick=snapshot.tick,
        room_version=snapshot.version,
        synced_version=snapshot.version,
        history_before=snapshot.history_before if snapshot.is_whole else state.history_before,
        approvals=snapshot.approvals,
        queue=snapshot.queue,
        agent=snapshot.agent,
        badge=snapshot.badge,
        document=snapshot.document,
        early=tuple(frame for frame in state.early if frame.tick > snapshot.tick),
    )
    state = transcript.take_piece(state, snapshot.stream, now)
    state = _settle_send(state, is_later=not flight.saw_send)
    state = _settle_stop(state, is_later=not flight.saw_stop)
    if snapshot.stream is None:
        state = _confirm_no_stream(state, is_later=not flight.saw_stop)
    return ServerReading(
        state, is_doubted=verdict is ReconcileVerdict.OLD, is_conflict=verdict is ReconcileVerdict.REFUSED
    )


def count_anomaly(state: TaskState) -> TaskState:
    """Something came that cannot be."""
    return replace(state, anomalies=min(state.anomalies + 1, _MAX_ANOMALIES))


def _settle_send(state: TaskState, *, is_later: bool) -> TaskState:
    """A word of a moment after our prompt was accepted settles where that led, even if no version told it."""
    return replace(state, awaiting_after=None) if is_later else state


def _settle_stop(state: TaskState, *, is_later: bool) -> TaskState:
    """A server that took the stop says `CANCELLING` until it is done: if it says anything else later, that is not what
    was to be stopped. Without this a stop that was pressed before its turn had a name would stick to the next one."""
    is_over = is_later and state.is_stop_taken and state.status != TaskStatus.CANCELLING
    return replace(state, is_stopping=False, is_stop_taken=False) if is_over else state


def _confirm_no_stream(state: TaskState, *, is_later: bool) -> TaskState:
    """The server says that no text flows: then nothing is left to stop, unless the stop is younger than its word."""
    return replace(state, server_confirmed_no_stream=True, is_stopping=state.is_stopping and not is_later)


def _lacks(state: TaskState, active: ActiveStream) -> bool:
    """Whether the text there is not the text here. A stream that was thought to be over is asked for like any other, as
    is one that is shorter there: it was cut."""
    stream = state.stream
    return stream is None or stream.stream_id != active.stream_id or active.cursor != stream.cursor
