"""What the log says of one turn's tool calls: the fold over its records, and what a decision is good for.

Laws:
1. Total: a record that does not fit, a repeat, and every other type change nothing.
2. A decision matches a call id, else a suspension id, else a pending id; of several occurrences of a call id, the
   latest suspended one. It is used once. A repeat changes nothing; one that says otherwise is rejected, as data.
3. A decision that did not reach the agent decides nothing: its call is suspended again by the same question, and any
   decision is good for it, also the same one.
4. Early decisions wait, bounded, for the question that they answer, and die with their call: a reused id never
   meets them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from interlock.lifecycle.decisions import toolcall
from interlock.lifecycle.decisions.permissions import is_a_no
from interlock.lifecycle.decisions.toolcall import CallKey, DecideCall, Suspend, ToolCallState
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DecisionUndelivered,
    ResumeMode,
    ToolCallDecided,
    ToolCallSuspended,
)
from interlock.vocabulary.events.conversation import ToolCall, ToolResult
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, TurnId
from interlock.vocabulary.states import ToolCallStatus

MAX_EARLY_DECISIONS: Final = 64
"""More early decisions than this are rejected, newest first: whoever floods a turn cannot push out an honest answer."""


@dataclass(frozen=True, slots=True)
class UsedDecision:
    """A decision, complete, with the call that it was used for."""

    key: CallKey
    decision: ToolCallDecided


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Every call of a turn, oldest first; early decisions that wait for their question; decisions already used."""

    turn_id: TurnId
    calls: tuple[ToolCallState, ...] = ()
    early: tuple[ToolCallDecided, ...] = field(default=(), hash=False)
    used: tuple[UsedDecision, ...] = field(default=(), hash=False)

    def find(self, key: CallKey) -> ToolCallState | None:
        return next((call for call in reversed(self.calls) if call.key == key), None)

    def latest(self, call_id: CallId) -> ToolCallState | None:
        """The last occurrence of a call id: what an agent means that knows nothing of occurrences."""
        return next((call for call in reversed(self.calls) if call.key.call_id == call_id), None)


class RejectReason(StrEnum):
    """Why a decision has no effect."""

    WRONG_TURN = "wrong_turn"
    ALREADY_DECIDED = "already_decided"
    ALREADY_ENDED = "already_ended"
    AMBIGUOUS_TARGET = "ambiguous_target"
    DECISION_ID_NEEDED = "decision_id_needed"
    CONTRADICTS_ITSELF = "contradicts_itself"
    TOO_MANY_EARLY = "too_many_early"


def evolve(state: ToolCalls, record: Payload) -> ToolCalls:
    """Fold one record of the turn's log. Total: what does not fit, and every other type, changes nothing."""
    match record:
        case ToolCall(call_id=call_id, name=name, args=args, occurrence=occurrence):
            key = CallKey(state.turn_id, call_id, occurrence)
            if state.find(key) is not None:
                return state
            return replace(state, calls=(*state.calls, ToolCallState(key, name, args)))
        case ToolCallSuspended(call_id=call_id, occurrence=occurrence):
            call = state.find(CallKey(state.turn_id, call_id, occurrence))
            if call is None or not call.can(Suspend):
                return state
            call, _ = toolcall.step(call, Suspend(record.ticket, record.deadline_at))
            return _answer_early(put(state, call), call)
        case ToolCallDecided():
            return _take(state, record)
        case DecisionUndelivered():
            return _take_back(state, record)
        case ToolResult(call_id=call_id, occurrence=occurrence):
            call = state.find(CallKey(state.turn_id, call_id, occurrence))
            if call is None or not call.is_open:
                return state
            call = toolcall.finish(call, record)
            return _let_go(put(state, call), call)
        case _:
            return state


def put(state: ToolCalls, call: ToolCallState) -> ToolCalls:
    return replace(state, calls=tuple(call if other.key == call.key else other for other in state.calls))


def _take(state: ToolCalls, decision: ToolCallDecided) -> ToolCalls:
    match judge(state, decision, target_of(state, decision.target_id)):
        case ToolCallState() as waiting:
            return _use(state, waiting, decision)
        case DecisionVerdict.EARLY:
            return replace(state, early=(*state.early, decision))
        case _:
            return state


def _use(state: ToolCalls, call: ToolCallState, decision: ToolCallDecided) -> ToolCalls:
    decision = toolcall.complete_decision(call, decision)
    call, _ = toolcall.step(call, DecideCall(decision))
    return replace(put(state, call), used=(*state.used, UsedDecision(call.key, decision)))


def _take_back(state: ToolCalls, lost: DecisionUndelivered) -> ToolCalls:
    """Suspend the call of a decision again that did not reach the agent."""
    call = target_of(state, lost.target_id)
    if call is None or call.status is not ToolCallStatus.RESUMING or call.decision is None:
        return state
    used = tuple(one for one in state.used if one.key != call.key or one.decision != call.decision)
    call, _ = toolcall.step(call, Suspend(call.ticket, lost.deadline_at))
    return replace(put(state, call), used=used)


def _answer_early(state: ToolCalls, call: ToolCallState) -> ToolCalls:
    """Use the first early decision for a call that asks its question now; the others for it are spent."""
    mine = tuple(early for early in state.early if _is_for(state, early, call.key))
    if not mine:
        return state
    rest = tuple(early for early in state.early if early not in mine)
    return _use(replace(state, early=rest), call, mine[0])


def _let_go(state: ToolCalls, call: ToolCallState) -> ToolCalls:
    """Drop early decisions that no open call can use any more, lest a reused id finds them; use a denial come true."""
    if call.status is ToolCallStatus.CANCELLED and (denial := early_denial(state, call.key)) is not None:
        used = UsedDecision(call.key, toolcall.complete_decision(call, denial))
        rest = tuple(early for early in state.early if early is not denial)
        state = replace(state, early=rest, used=(*state.used, used))
    return replace(state, early=tuple(early for early in state.early if not _is_over(state, early)))


def _is_over(state: ToolCalls, early: ToolCallDecided) -> bool:
    named = _named(state, early.target_id)
    return bool(named) and not any(call.is_open for call in named)


class DecisionVerdict(StrEnum):
    EARLY = "early"
    REPEATED = "repeated"


def judge(
    state: ToolCalls, decision: ToolCallDecided, call: ToolCallState | None
) -> ToolCallState | DecisionVerdict | RejectReason:
    """Say what a decision is good for: the suspended call that it decides, or why it decides none."""
    before = _used_before(state, decision, call)
    if before is not None:
        if call is not None and is_suspended(call) and not decision.decision_id.strip():
            return RejectReason.DECISION_ID_NEEDED  # a repeat, or the answer to a second question: only an id can tell
        return DecisionVerdict.REPEATED if agree(before, decision) else RejectReason.ALREADY_DECIDED
    if call is None or (call.is_open and not is_suspended(call) and call.decision is None):
        return _judge_early(state, decision)
    if is_suspended(call):
        if _contradicts_itself(call, decision):
            return RejectReason.CONTRADICTS_ITSELF
        asking = {other.key.call_id for other in _named(state, decision.target_id) if is_suspended(other)}
        return call if len(asking) == 1 else RejectReason.AMBIGUOUS_TARGET
    if call.decision is not None and agree(call.decision, decision):
        return DecisionVerdict.REPEATED
    return RejectReason.ALREADY_DECIDED if call.is_open else RejectReason.ALREADY_ENDED


def _contradicts_itself(call: ToolCallState, decision: ToolCallDecided) -> bool:
    """A yes whose result is a no must not run a tool. Where the result is the tool's to read, it may say anything."""
    is_approval = call.ticket is None or call.ticket.resume_mode is ResumeMode.REPLAY_TOOL_CALL
    return is_approval and decision.action is DecisionAction.RESUME and is_a_no(decision.result)


def _judge_early(state: ToolCalls, decision: ToolCallDecided) -> DecisionVerdict | RejectReason:
    for early in state.early:
        if early.target_id == decision.target_id:
            return DecisionVerdict.REPEATED if agree(early, decision) else RejectReason.ALREADY_DECIDED
    return DecisionVerdict.EARLY if len(state.early) < MAX_EARLY_DECISIONS else RejectReason.TOO_MANY_EARLY


def _used_before(state: ToolCalls, decision: ToolCallDecided, call: ToolCallState | None) -> ToolCallDecided | None:
    """The decision that this one may repeat. A target that no call bears any more names a question of the past."""
    for used in reversed(state.used):
        is_same_target = used.decision.target_id == decision.target_id
        if call is None:
            if is_same_target:
                return used.decision
        elif used.decision.decision_id == toolcall.complete_decision(call, decision).decision_id and (
            is_same_target or used.key == call.key
        ):
            return used.decision
    return None


def agree(one: ToolCallDecided, other: ToolCallDecided) -> bool:
    is_yes = one.action is DecisionAction.RESUME
    results = [is_yes if decision.result is None else decision.result for decision in (one, other)]
    return one.action is other.action and results[0] == results[1] and one.option == other.option


def early_denial(state: ToolCalls, key: CallKey) -> ToolCallDecided | None:
    is_no = DecisionAction.CANCEL
    return next((early for early in state.early if early.action is is_no and _is_for(state, early, key)), None)


def is_suspended(call: ToolCallState) -> bool:
    return call.status is ToolCallStatus.SUSPENDED


def _named(state: ToolCalls, target_id: str) -> tuple[ToolCallState, ...]:
    """The calls that bear a name. A call id comes first, so that no ticket can take over the answer to another call."""
    names: tuple[Callable[[ToolCallState], str | None], ...] = (
        lambda call: call.key.call_id,
        lambda call: None if call.ticket is None else call.ticket.suspension.id,
        lambda call: None if call.ticket is None else call.ticket.pending.id,
    )
    return next(filter(None, (tuple(c for c in state.calls if name(c) == target_id) for name in names)), ())


def _is_for(state: ToolCalls, decision: ToolCallDecided, key: CallKey) -> bool:
    return any(call.key == key for call in _named(state, decision.target_id))


def target_of(state: ToolCalls, target_id: str) -> ToolCallState | None:
    """The latest suspended call that bears the name, else the latest open one, else the latest."""
    return max(reversed(_named(state, target_id)), key=lambda c: (is_suspended(c), c.is_open), default=None)
