"""The tool calls of one turn, and the decisions about them.

Laws:
1. One result a call, whatever comes in whatever order. A result or suspension that comes too late is an anomaly.
2. The state is a fold: `evolve` over what `step` persisted gives the same calls, only `running` is not in the log.
3. A decision is persisted before anything is done about it: `Persist(ToolCallDecided)` precedes its `Execute`.
4. A decision is used once, for the call that `decisions` says it is good for; otherwise it is rejected, as data.
5. An early approval waits, bounded, for the question it answers. An early denial ends its call before it can start.
6. A cancel gives exactly one error result, and the tool never runs.
7. What may have begun before a crash is never run again: `settle_orphans` ends it. Suspended calls keep waiting.
8. Where a driver gives decisions to the agent (`awaits_delivery`), nothing follows from one before it was delivered.
   One that was not delivered is taken back, and its call asks again. A result of the agent proves the delivery.
9. A due deadline is applied before the input that comes with it: past it, the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias, assert_never

from msgspec import structs

from interlock.lifecycle.decisions import toolcall
from interlock.lifecycle.decisions.decisions import (
    DecisionVerdict,
    RejectReason,
    ToolCalls,
    agree,
    early_denial,
    evolve,
    is_suspended,
    judge,
    put,
    target_of,
)
from interlock.lifecycle.decisions.toolcall import CallKey, EndKind, Execute, Suspend, ToolCallState, ToolStarted
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import (
    Anomaly,
    DecisionAction,
    DecisionUndelivered,
    SuspensionTicket,
    ToolCallDecided,
    ToolCallSuspended,
)
from interlock.vocabulary.events.conversation import ToolCall, ToolError, ToolResult
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import CallId, TurnId
from interlock.vocabulary.states import ToolCallStatus

RESERVED_KINDS: Final = frozenset(kind.value for kind in EndKind)


@dataclass(frozen=True, slots=True)
class CallRequested:
    """The agent asked for a tool. The same words while the call is open are a repeat; else a known id is used again."""

    turn_id: TurnId
    call_id: CallId
    tool_name: str
    arguments: Json = None


@dataclass(frozen=True, slots=True)
class StartCall:
    """Our command: run a new call. Refused for any other; only a decision lets a call run again."""

    key: CallKey


@dataclass(frozen=True, slots=True)
class CallSuspended:
    """A tool or a gate needs a decision."""

    key: CallKey
    ticket: SuspensionTicket | None = None
    deadline_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CallDecided:
    """Somebody decided. `turn_id`, where the sender knows it, keeps a late answer out of a newer turn."""

    decision: ToolCallDecided
    turn_id: TurnId | None = None
    awaits_delivery: bool = False


@dataclass(frozen=True, slots=True)
class DecisionDelivered:
    """The agent has the decision about a call."""

    key: CallKey


@dataclass(frozen=True, slots=True)
class DecisionLost:
    """The decision about a call certainly did not reach the agent."""

    key: CallKey
    reason: str
    deadline_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CallFinished:
    """The tool is done: with `output`, or with `error`."""

    key: CallKey
    output: Json = None
    error: ToolError | None = None


@dataclass(frozen=True, slots=True)
class ApprovalTimerFired:
    """Time passed; see `next_deadline`."""


CallsInput: TypeAlias = (
    CallRequested
    | StartCall
    | CallSuspended
    | CallDecided
    | DecisionDelivered
    | DecisionLost
    | CallFinished
    | ApprovalTimerFired
)


Record: TypeAlias = ToolCall | ToolCallSuspended | ToolCallDecided | DecisionUndelivered | ToolResult | Anomaly


@dataclass(frozen=True, slots=True)
class Persist:
    """Append to the log, durably, before the outputs that follow."""

    record: Record


@dataclass(frozen=True, slots=True)
class DecisionRejected:
    """Tell whoever decided that it had no effect."""

    decision: ToolCallDecided
    reason: RejectReason


Output: TypeAlias = Persist | Execute | DecisionRejected
Stepped: TypeAlias = tuple[ToolCalls, tuple[Output, ...]]


def step(state: ToolCalls, input: CallsInput, now: datetime) -> Stepped:
    """Take one input. Only `StartCall` can be refused (`ContractError`); everything else comes from outside."""
    due = [call for call in open_suspended(state) if call.deadline_at is not None and call.deadline_at <= now]
    state, expired = _end_each(state, (_expired(call) for call in due))
    state, outputs = _take(state, input)
    return state, expired + outputs


def _take(state: ToolCalls, input: CallsInput) -> Stepped:
    match input:
        case CallRequested():
            return _requested(state, input)
        case StartCall(key):
            return _start(state, key)
        case CallSuspended():
            return _suspended(state, input)
        case CallDecided():
            return _decided(state, input)
        case DecisionDelivered(key):
            return _go_on((state, ()), key)
        case DecisionLost():
            return _lost(state, input)
        case CallFinished():
            return _finished(state, input)
        case ApprovalTimerFired():
            return state, ()
        case unreachable:
            assert_never(unreachable)


def _requested(state: ToolCalls, asked: CallRequested) -> Stepped:
    if asked.turn_id != state.turn_id:
        return _surprised(state, "tool_call_of_another_turn", CallKey(asked.turn_id, asked.call_id))
    last = state.latest(asked.call_id)
    if last is not None and last.is_open and (last.tool_name, last.arguments) == (asked.tool_name, asked.arguments):
        return state, ()
    key = CallKey(state.turn_id, asked.call_id, 1 if last is None else last.key.occurrence + 1)
    record = ToolCall(call_id=key.call_id, name=asked.tool_name, args=asked.arguments, occurrence=key.occurrence)
    return _deny_early(_persist(state, record), key)


def _start(state: ToolCalls, key: CallKey) -> Stepped:
    call = state.find(key)
    if call is None or call.status is not ToolCallStatus.NEW:
        raise ContractError(f"toolcall: {key} cannot start: {'no such call' if call is None else call.status.value}")
    call, outputs = toolcall.step(call, ToolStarted())
    return put(state, call), outputs


def _suspended(state: ToolCalls, asked: CallSuspended) -> Stepped:
    call = state.find(asked.key)
    if call is None or not call.can(Suspend):
        return _surprised(state, "suspension_without_active_call", asked.key)
    record = ToolCallSuspended(
        call_id=call.key.call_id,
        name=call.tool_name,
        ticket=toolcall.complete_ticket(call, asked.ticket),
        args=call.arguments,
        occurrence=call.key.occurrence,
        deadline_at=asked.deadline_at,
    )
    return _go_on(_persist(state, record), call.key)


def _decided(state: ToolCalls, given: CallDecided) -> Stepped:
    decision, turn_id = given.decision, given.turn_id
    if turn_id is not None and turn_id != state.turn_id:
        return state, (DecisionRejected(decision, RejectReason.WRONG_TURN),)
    call = target_of(state, decision.target_id)
    match judge(state, decision, call):
        case RejectReason() as reason:
            return state, (DecisionRejected(decision, reason),)
        case DecisionVerdict.REPEATED:
            return state, ()
        case DecisionVerdict.EARLY:
            so_far = _persist(state, decision)
            return so_far if call is None else _deny_early(so_far, call.key)
        case ToolCallState() as waiting:
            so_far = _persist(state, toolcall.complete_decision(waiting, decision))
            return so_far if given.awaits_delivery else _go_on(so_far, waiting.key)
        case unreachable:
            assert_never(unreachable)


def _lost(state: ToolCalls, lost: DecisionLost) -> Stepped:
    call = state.find(lost.key)
    if call is None or call.status is not ToolCallStatus.RESUMING or call.decision is None:
        return _surprised(state, "delivery_without_decision", lost.key)
    record = DecisionUndelivered(
        target_id=call.decision.target_id,
        decision_id=call.decision.decision_id,
        reason=lost.reason,
        deadline_at=lost.deadline_at,
    )
    return _persist(state, record)


def _finished(state: ToolCalls, done: CallFinished) -> Stepped:
    key, error = done.key, done.error
    call = state.find(key)
    if call is None or not call.is_open:
        return _surprised(state, "result_without_open_call", key)
    if call.decision is not None and call.decision.action is DecisionAction.CANCEL:
        if error is not None:  # the agent's own word on the denial, which it has been told then
            return _persist(state, toolcall.denied(key, call.decision))
        state, surprise = _surprised(state, "denied_call_ran", key)
        return _then(surprise, _persist(state, _result(done, error)))
    if error is not None and error.kind in RESERVED_KINDS:  # a tool's own word, not ours
        error = structs.replace(error, kind=f"tool_{error.kind}")
    return _persist(state, _result(done, error))


def _result(done: CallFinished, error: ToolError | None) -> ToolResult:
    key = done.key
    return ToolResult(call_id=key.call_id, ok=error is None, output=done.output, error=error, occurrence=key.occurrence)


def _then(before: tuple[Output, ...], so_far: Stepped) -> Stepped:
    state, outputs = so_far
    return state, before + outputs


def _surprised(state: ToolCalls, kind: str, key: CallKey) -> Stepped:
    message = f"call {key.call_id}, occurrence {key.occurrence}, of turn {key.turn_id}"
    return state, (Persist(Anomaly(kind=kind, source="toolcall", message=message)),)


def _go_on(so_far: Stepped, key: CallKey) -> Stepped:
    """Act on a decision that is now persisted: end the call by it, or run the tool."""
    state, outputs = so_far
    call = state.find(key)
    if call is None or call.status is not ToolCallStatus.RESUMING:
        return so_far
    result = toolcall.result_of_decision(call)
    if result is not None:
        state, more = _persist(state, result)
        return state, outputs + more
    call, runs = toolcall.step(call, ToolStarted())
    return put(state, call), outputs + runs


def _deny_early(so_far: Stepped, key: CallKey) -> Stepped:
    """End a call that was denied before it could start or ask."""
    state, outputs = so_far
    call = state.find(key)
    denial = early_denial(state, key)
    if call is None or call.status is not ToolCallStatus.NEW or denial is None:
        return so_far
    state, more = _persist(state, toolcall.denied(key, denial))
    return state, outputs + more


def _persist(state: ToolCalls, record: Record) -> Stepped:
    """Fold a record in and ask for it to be written. An early decision that thereby lost its call is reported."""
    following = evolve(state, record)
    now_used = [used.decision for used in following.used[len(state.used) :]]
    lost = [early for early in state.early if early not in following.early]
    reason = RejectReason.ALREADY_DECIDED if now_used else RejectReason.ALREADY_ENDED
    rejected = (DecisionRejected(early, reason) for early in lost if not any(agree(early, used) for used in now_used))
    return following, (Persist(record), *rejected)


def _end_each(state: ToolCalls, results: Iterable[ToolResult]) -> Stepped:
    outputs: tuple[Output, ...] = ()
    for result in results:
        state, more = _persist(state, result)
        outputs += more
    return state, outputs


def _expired(call: ToolCallState) -> ToolResult:
    message = "No decision came before the deadline"
    return toolcall.ended(call.key, EndKind.APPROVAL_EXPIRED, message, synthetic=True)


def _orphaned(call: ToolCallState) -> ToolResult:
    if call.decision is None:
        kind, message = EndKind.ORPHAN_TOOL_CALL, "The runtime ended before the tool gave a result; it may have run"
    else:
        kind, message = EndKind.OUTCOME_UNKNOWN, "The call was approved; it is unknown whether the tool ran"
    return toolcall.result_of_decision(call) or toolcall.ended(call.key, kind, message, synthetic=True)


def settle_orphans(state: ToolCalls) -> Stepped:
    """At start-up, end what a dead runtime left open, without running it. Suspended calls keep waiting for a person."""
    orphans = [call for call in state.calls if call.is_open and not is_suspended(call)]
    return _end_each(state, (_orphaned(call) for call in orphans))


def cancel_open(state: ToolCalls, kind: EndKind, message: str) -> Stepped:
    """End every open call, suspended ones too, with one error result each: the run is over."""
    if kind not in toolcall.CANCELLING_KINDS:
        raise ContractError(f"toolcall: {kind.value} does not cancel a call")
    still_open = [call for call in state.calls if call.is_open]
    return _end_each(state, (toolcall.ended(call.key, kind, message, synthetic=True) for call in still_open))


def open_suspended(state: ToolCalls) -> tuple[ToolCallState, ...]:
    """The calls that wait for a decision. While there is one, the run waits."""
    return tuple(call for call in state.calls if is_suspended(call))
