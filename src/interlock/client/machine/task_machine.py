"""The client's machine for one task: the single source of truth for how it stands and what it says.

Laws:
1. Every trigger asks for a check, and a check comes before a socket. Where nothing is missing no socket is asked for.
2. One check is in flight and one may follow. Every question has a deadline and a generation; what comes after either
   changes nothing. What is closed has no questions.
3. Frames are taken in the order of their ticks, each once. An earlier one is a double, a later one waits, for a bound,
   and what is missing is asked for, once. A new connection has other ticks.
4. The end of a stream is not the end of a task: while a message is held back here, it is a reason to ask.
5. Nothing here invents a status: a prompt that was accepted, a stop that was pressed and a stream that runs are other
   facts.
6. What is doubtful is looked at again, by the probe, until it is settled. A refusal that is final is not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias, assert_never

from interlock.client.machine import reconcile
from interlock.client.machine.acts import take_own_act
from interlock.client.machine.frames import Effect, take_frame
from interlock.client.machine.inputs import (
    CancelAcked,
    CancelFailed,
    CheckAnswered,
    CheckFailed,
    CheckReason,
    CheckRequested,
    Closed,
    Connected,
    DetailSynced,
    Disconnected,
    EnsureConnected,
    FellBehind,
    FrameArrived,
    Join,
    JoinAcked,
    JoinFailed,
    Leave,
    Opened,
    OpenInput,
    Output,
    PullRuntime,
    QueueHeld,
    SendAccepted,
    StatusHeard,
    StopPressed,
    TaskInput,
    TimerFired,
)
from interlock.client.machine.probe import PROBE
from interlock.client.machine.reconcile import ReconcileVerdict, StatusWord
from interlock.client.machine.state import CheckInFlight, JoinInFlight, SyncState, TaskState
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskFrame, TaskSnapshot

CHECK_SECONDS: Final = 10.0
JOIN_SECONDS: Final = 10.0
MAX_EARLY: Final = 64

Step: TypeAlias = tuple[TaskState, tuple[Output, ...]]


def step(state: TaskState, input: TaskInput, now: float) -> Step:
    """Take one input. What was due before it is applied first, in the order of the deadlines."""
    state, due = (state, ()) if isinstance(input, Closed) else _fire_due(state, now)
    state, outputs = _take(state, input, now)
    return _resync(state, now), (*due, *outputs)


class TaskStateMachine:
    """A task's state, with the way to change it."""

    def __init__(self, task_id: SessionId, *, is_connected: bool = False, generation: int = 0) -> None:
        self.state = TaskState(
            task_id=task_id, is_connected=is_connected, is_reachable=is_connected, generation=generation
        )

    def step(self, input: TaskInput, now: float) -> tuple[Output, ...]:
        """Take one input; what to do about it is returned."""
        self.state, outputs = step(self.state, input, now)
        return outputs

    def request_runtime_check(self, reason: CheckReason, now: float) -> tuple[Output, ...]:
        """The one way in for whatever makes somebody wonder."""
        return self.step(CheckRequested(reason), now)

    @property
    def deadline(self) -> float | None:
        return self.state.deadline


def _take(state: TaskState, input: TaskInput, now: float) -> Step:
    """Hand an input to what it is about. A closed task knows only of its socket, and can be opened."""
    match input:
        case Opened():
            return _open(state, now)
        case Connected():
            return _connect(state, now)
        case Disconnected():
            return _disconnect(state, input.reason), ()
        case TimerFired():
            return state, ()
        case _:
            return _take_while_open(state, input, now) if state.is_open else (state, ())


def _take_while_open(state: TaskState, input: OpenInput, now: float) -> Step:
    match input:
        case Closed():
            return _close(state)
        case CheckRequested() | CheckAnswered() | CheckFailed():
            return _take_check_input(state, input, now)
        case JoinAcked() | JoinFailed():
            return _take_join_input(state, input, now)
        case FrameArrived() | FellBehind():
            return _take_room_input(state, input, now)
        case DetailSynced() | StatusHeard():
            return _hear(state, input, now)
        case SendAccepted() | StopPressed() | CancelAcked() | CancelFailed() | QueueHeld():
            return take_own_act(state, input), ()
        case unreachable:
            assert_never(unreachable)


def _fire_due(state: TaskState, now: float) -> Step:
    outputs: tuple[Output, ...] = ()
    # Whatever a deadline leads to is due after now, so each of the three fires once at most.
    while (due_at := state.deadline) is not None and due_at <= now:
        state, more = _fire(state, due_at, now)
        outputs += more
    return state, outputs


def _fire(state: TaskState, due_at: float, now: float) -> Step:
    if state.check is not None and state.check.deadline_at == due_at:
        return _fail_check(state, "the server did not say in time where the task stands", now)
    if state.joining is not None and state.joining.deadline_at == due_at:
        return _fail_join(state, "the server did not let us into the room in time"), ()
    state = replace(state, probe=replace(state.probe, due_at=None))
    reason = CheckReason.QUEUED_MESSAGE_BLOCKED if state.is_blocked_here else CheckReason.RUNTIME_INSTABILITY_PROBE
    return _request_check(state, reason, now)


def _resync(state: TaskState, now: float) -> TaskState:
    """After every input: no socket is waited for without need, and what is doubtful has its deadline."""
    if state.sync is SyncState.WAITING_SOCKET and not state.needs_room:
        state = replace(state, sync=SyncState.IDLE)
    is_awaiting = state.check is not None or state.joining is not None
    probe = PROBE.resync(state.probe, is_unstable=state.is_unstable, is_awaiting=is_awaiting, now=now)
    return state if probe == state.probe else replace(state, probe=probe)


# The page, and its socket


def _open(state: TaskState, now: float) -> Step:
    if not state.is_open:
        state = replace(state, sync=SyncState.IDLE)
    return _request_check(state, CheckReason.TASK_SELECTED, now)


def _close(state: TaskState) -> Step:
    """Forget everything but what fences late answers off."""
    fresh = TaskState(
        task_id=state.task_id,
        is_connected=state.is_connected,
        is_reachable=state.is_connected,
        generation=state.generation,
    )
    is_in_room = state.tick is not None or state.joining is not None
    return fresh, (Leave(),) if is_in_room else ()


def _connect(state: TaskState, now: float) -> Step:
    """A socket is there, and it is another one: nothing of a room is left of the one before."""
    is_verified = state.is_verified and state.tick is None
    state = replace(_out_of_room(state), is_connected=True, is_reachable=True, is_verified=is_verified)
    if state.sync in (SyncState.CLOSED, SyncState.ERROR):
        return state, ()
    return _request_check(state, CheckReason.WEBSOCKET_RECONNECT, now)


def _disconnect(state: TaskState, reason: str) -> TaskState:
    if not state.is_connected:
        return state
    return replace(
        _out_of_room(state), is_connected=False, is_reachable=False, is_verified=False, problem=reason or state.problem
    )


def _out_of_room(state: TaskState) -> TaskState:
    was_in = state.sync in (SyncState.JOINED, SyncState.JOINING)
    return replace(state, sync=SyncState.IDLE if was_in else state.sync, tick=None, lost_tick=0, joining=None, early=())


# Checks


def _take_check_input(state: TaskState, input: CheckRequested | CheckAnswered | CheckFailed, now: float) -> Step:
    if isinstance(input, CheckRequested):
        return _request_check(state, input.reason, now)
    flight = state.check
    if flight is None or flight.generation != input.generation:
        return state, ()
    if isinstance(input, CheckFailed):
        return _fail_check(state, input.problem, now, is_gone=input.is_gone)
    if input.check.task_id != state.task_id:
        return _fail_check(reconcile.count_anomaly(state), "the server spoke of another task", now)
    return _answer_check(state, flight, input, now)


def _request_check(state: TaskState, reason: CheckReason, now: float, *, is_repeat: bool = False) -> Step:
    """Ask, or let the question that is open be followed by one more."""
    state = replace(state, last_reason=reason)
    if state.check is not None:
        return replace(state, follow_up=reason), ()
    generation, deadline_at = state.generation + 1, now + CHECK_SECONDS
    flight = CheckInFlight(generation=generation, reason=reason, deadline_at=deadline_at, is_repeat=is_repeat)
    return replace(state, generation=generation, check=flight), (PullRuntime(generation, reason, deadline_at),)


def _answer_check(state: TaskState, flight: CheckInFlight, input: CheckAnswered, now: float) -> Step:
    reading = reconcile.take_check(state, flight, input.check)
    sync = SyncState.IDLE if state.sync is SyncState.ERROR else state.sync
    state, outputs = _seek_room(
        replace(reading.state, check=None, sync=sync, problem=""), now, is_missing=reading.is_missing
    )
    is_again = reading.is_doubted and not flight.is_repeat
    if reading.is_conflict or (reading.is_doubted and not is_again and not state.is_verified):
        state = replace(state, probe=PROBE.fail(state.probe))
    elif state.joining is None and not is_again:  # else it has worked once that has
        state = replace(state, probe=PROBE.succeed(state.probe))
    more: tuple[Output, ...] = ()
    if is_again:
        reason = state.follow_up or flight.reason
        state, more = _request_check(replace(state, follow_up=None), reason, now, is_repeat=True)
    elif reading.is_conflict:
        state, more = _doubt(state, input.check.version, now)
    if state.check is None:
        state, more = _follow_up(state, now)
    return state, outputs + more


def _fail_check(state: TaskState, problem: str, now: float, *, is_gone: bool = False) -> Step:
    state = replace(
        state, check=None, is_reachable=False, is_verified=False, problem=problem, probe=PROBE.fail(state.probe)
    )
    if is_gone:
        was_in_room = state.tick is not None or state.joining is not None
        state = replace(_out_of_room(state), sync=SyncState.ERROR, follow_up=None)
        return state, (Leave(),) if was_in_room else ()
    return _follow_up(state, now)


def _follow_up(state: TaskState, now: float) -> Step:
    if state.follow_up is None:
        return state, ()
    return _request_check(replace(state, follow_up=None), state.follow_up, now)


# The room


def _seek_room(state: TaskState, now: float, *, is_missing: bool = False) -> Step:
    """Join or resume, if something is missing that only the room can give."""
    if state.joining is not None:
        is_outrun = state.joining.is_outrun or is_missing
        return replace(state, joining=replace(state.joining, is_outrun=is_outrun)), ()
    if not (is_missing or state.needs_room):
        return state, ()
    if not state.is_connected:
        return replace(state, sync=SyncState.WAITING_SOCKET), (EnsureConnected(),)
    return _join(state, now)


def _join(state: TaskState, now: float, *, is_stream_whole: bool = False) -> Step:
    """Ask for what is not here. `is_stream_whole`: what is here of the stream is of no use."""
    generation, deadline_at = state.generation + 1, now + JOIN_SECONDS
    after_version = state.synced_version or None
    stream = None if is_stream_whole or after_version is None else state.stream
    flight = JoinInFlight(
        generation=generation,
        deadline_at=deadline_at,
        after_version=after_version,
        has_cursor=stream is not None,
        from_tick=state.tick,
    )
    output = Join(
        generation=generation,
        is_resume=after_version is not None,
        after_version=after_version,
        stream_id=None if stream is None else stream.stream_id,
        cursor=0 if stream is None else stream.cursor,
        deadline_at=deadline_at,
    )
    return replace(state, generation=generation, joining=flight, sync=SyncState.JOINING), (output,)


def _take_join_input(state: TaskState, input: JoinAcked | JoinFailed, now: float) -> Step:
    flight = state.joining
    if flight is None or flight.generation != input.generation:
        return state, (Leave(),) if _is_ghost(state, input) else ()
    if isinstance(input, JoinFailed):
        return _fail_join(state, input.problem, is_final=input.is_final), ()
    if input.snapshot.task_id != state.task_id:
        return _fail_join(reconcile.count_anomaly(state), "the server spoke of another task"), ()
    if not input.snapshot.is_whole and flight.after_version is None:
        return _fail_join(reconcile.count_anomaly(state), "the server left out messages"), ()
    if _leaves_out_text(state, input.snapshot):
        if flight.has_cursor:
            return _join(state, now, is_stream_whole=True)
        return _fail_join(reconcile.count_anomaly(state), "the server left out text of the stream"), ()
    return _enter(state, flight, input.snapshot, now)


def _is_ghost(state: TaskState, input: JoinAcked | JoinFailed) -> bool:
    """Whether the server has us in its room by a join that we gave up, and no other will follow: the task is over."""
    is_given_up = state.joining is None and state.tick is None and state.is_connected
    if not isinstance(input, JoinAcked) or not is_given_up or input.generation != state.generation:
        return False
    return classify(input.snapshot.task_status) is StatusClass.TERMINAL


def _enter(state: TaskState, flight: JoinInFlight, snapshot: TaskSnapshot, now: float) -> Step:
    """We are in the room. A hole that a snapshot of a later tick did not fill is worth asking again."""
    reading = reconcile.take_snapshot(replace(state, joining=None), flight, snapshot, now)
    is_later = flight.from_tick is None or snapshot.tick > flight.from_tick
    state, outputs = _drain(replace(reading.state, problem=""), now, may_resume=is_later)
    if reading.is_doubted or reading.is_conflict:
        state, more = _doubt(state, snapshot.version, now)
        outputs += more
    if flight.is_outrun and state.joining is None:
        state, more = _join(state, now)
        outputs += more
    if state.joining is None:  # else it has worked once that join has
        has_worked = not state.needs_room and not reading.is_conflict
        state = replace(state, probe=PROBE.succeed(state.probe) if has_worked else PROBE.fail(state.probe))
    return state, outputs


def _leaves_out_text(state: TaskState, snapshot: TaskSnapshot) -> bool:
    piece, stream = snapshot.stream, state.stream
    if piece is None or piece.offset == 0:
        return False
    return stream is None or stream.stream_id != piece.stream_id or piece.offset > stream.cursor


def _fail_join(state: TaskState, problem: str, *, is_final: bool = False) -> TaskState:
    state = replace(_out_of_room(state), problem=problem, probe=PROBE.fail(state.probe))
    return replace(state, sync=SyncState.ERROR, is_verified=False, follow_up=None, check=None) if is_final else state


def _doubt(state: TaskState, version: int, now: float) -> Step:
    """Ask about a word that cannot be right, once for each version that says it."""
    if version <= state.doubted_version:
        return state, ()
    return _request_check(replace(state, doubted_version=version), CheckReason.RUNTIME_INSTABILITY_PROBE, now)


def _take_room_input(state: TaskState, input: FrameArrived | FellBehind, now: float) -> Step:
    """The room speaks to those who are in it, or on their way in."""
    if state.sync not in (SyncState.JOINED, SyncState.JOINING):
        return state, ()
    if isinstance(input, FellBehind):
        state = replace(state, lost_tick=max(state.lost_tick, input.tick))
    elif input.frame.task_id == state.task_id:
        state = _keep_early(state, input.frame)
    return _drain(state, now) if state.sync is SyncState.JOINED else (state, ())


def _keep_early(state: TaskState, frame: TaskFrame) -> TaskState:
    """Hold a frame until it is its turn. Where there are too many, the last ones are lost, and that is remembered."""
    if state.tick is not None and frame.tick <= state.tick:
        return state
    by_tick = {one.tick: one for one in (frame, *state.early)}
    waiting = sorted(by_tick.values(), key=lambda one: one.tick)
    lost = max((one.tick for one in waiting[MAX_EARLY:]), default=0)
    return replace(state, early=tuple(waiting[:MAX_EARLY]), lost_tick=max(state.lost_tick, lost))


def _drain(state: TaskState, now: float, *, may_resume: bool = True) -> Step:
    """Take the frames whose turn it is. If something is missing then, ask for it."""
    outputs: tuple[Output, ...] = ()
    is_short = False
    while state.early and state.tick is not None and state.early[0].tick == state.tick + 1:
        frame, rest = state.early[0], state.early[1:]
        state, effect = take_frame(replace(state, early=rest), frame, now)
        is_short = is_short or effect.is_short
        state, more = _answer_effect(state, frame, effect, now)
        outputs += more
    if is_short or (state.has_hole and may_resume):
        state, more = _join(state, now)
        outputs += more
    return state, outputs


def _answer_effect(state: TaskState, frame: TaskFrame, effect: Effect, now: float) -> Step:
    if effect.is_refused:
        return _doubt(state, frame.version, now)
    if effect.has_ended_stream and state.is_blocked_here:
        return _request_check(state, CheckReason.QUEUED_MESSAGE_BLOCKED, now)
    return state, ()


# What is heard elsewhere


def _hear(state: TaskState, input: DetailSynced | StatusHeard, now: float) -> Step:
    """A word from outside the room. If it is news that the room would have told, look at once."""
    word = StatusWord(input.task_status, input.version, input.turn_id, input.status_updated_at, is_direct=False)
    state, verdict = reconcile.take_status(state, word)
    if verdict is ReconcileVerdict.REFUSED:
        return _doubt(state, input.version, now)
    if verdict is ReconcileVerdict.TAKEN and state.sync is SyncState.IDLE and state.needs_room:
        return _request_check(state, CheckReason.RUNTIME_INSTABILITY_PROBE, now)
    return state, ()
