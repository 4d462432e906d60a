"""One tool call, from its request to its one result.

Laws:
1. A call ends once: `succeeded`, `failed` and `cancelled` have no exit. An id that is used again is another occurrence.
2. Nothing runs but by entering `running`, and each entry gives exactly one `Execute`.
3. A suspended call goes on only through `resuming`, with its decision; cancelling it is the only other way out.
4. Entering `suspended` asks a new question: the old decision is gone. Entering `running` keeps it only from `resuming`.
5. Every input is a command of ours: one that the table does not show raises `ContractError` and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias, assert_never

from msgspec import structs

from interlock.lifecycle.table import Edge, Machine, StepOutcome, from_each
from interlock.vocabulary.events.audit import (
    DecisionAction,
    PendingCall,
    ResumeMode,
    Suspension,
    SuspensionTicket,
    ToolCallDecided,
)
from interlock.vocabulary.events.conversation import ToolError, ToolResult
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import CallId, TurnId
from interlock.vocabulary.states import ToolCallStatus

TERMINAL: Final = frozenset({ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})
DENIED_MESSAGE: Final = "User denied the action"


class EndKind(StrEnum):
    """The `ToolError.kind` of a result that no tool wrote. No tool may use these words for an error of its own."""

    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    RULE_DENIED = "rule_denied"
    RUN_TIMED_OUT = "run_timed_out"
    RUN_CANCELLED = "run_cancelled"
    ORPHAN_TOOL_CALL = "orphan_tool_call"
    OUTCOME_UNKNOWN = "outcome_unknown"


CANCELLING_KINDS: Final = frozenset(EndKind) - {EndKind.ORPHAN_TOOL_CALL, EndKind.OUTCOME_UNKNOWN}


@dataclass(frozen=True, slots=True)
class CallKey:
    """What tells one call from every other, also where a model uses a call id again."""

    turn_id: TurnId
    call_id: CallId
    occurrence: int = 1


# JSON values cannot be hashed. They still count for equality, so leaving them out of the hash is sound.
@dataclass(frozen=True, slots=True)
class ToolCallState:
    """Where one call stands. `ticket` is its last question, kept after the answer so that a repeat is recognised."""

    key: CallKey
    tool_name: str
    arguments: Json = field(default=None, hash=False)
    status: ToolCallStatus = ToolCallStatus.NEW
    ticket: SuspensionTicket | None = field(default=None, hash=False)
    deadline_at: datetime | None = None
    decision: ToolCallDecided | None = field(default=None, hash=False)

    @property
    def is_open(self) -> bool:
        return self.status not in TERMINAL

    def can(self, command: type[ToolCallInput]) -> bool:
        """Whether the table lets this call take a command now."""
        return MACHINE.outcome(self.status, command.on) is StepOutcome.MOVES


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """Run the tool."""

    on: ClassVar[str] = "start"


@dataclass(frozen=True, slots=True)
class Suspend:
    """Wait for a decision; blank parts of the ticket are filled from the call. Past `deadline_at` the answer is no."""

    on: ClassVar[str] = "suspend"
    ticket: SuspensionTicket | None = None
    deadline_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DecideCall:
    """Take the decision. None: the answer was given elsewhere, and a result has proven it."""

    on: ClassVar[str] = "decide"
    decision: ToolCallDecided | None = None


@dataclass(frozen=True, slots=True)
class Succeed:
    """The tool gave its output."""

    on: ClassVar[str] = "succeed"


@dataclass(frozen=True, slots=True)
class Fail:
    """The tool gave an error, or its outcome cannot be known."""

    on: ClassVar[str] = "fail"


@dataclass(frozen=True, slots=True)
class Cancel:
    """The call is refused, or no longer wanted."""

    on: ClassVar[str] = "cancel"


ToolCallInput: TypeAlias = ToolStarted | Suspend | DecideCall | Succeed | Fail | Cancel


@dataclass(frozen=True, slots=True)
class Execute:
    """Run the tool body, once. `mode` is None for a first run; else a person has answered, and no gate asks again."""

    key: CallKey
    tool_name: str
    arguments: Json = field(default=None, hash=False)
    mode: ResumeMode | None = None


_S: TypeAlias = ToolCallStatus
TRANSITIONS: Final[tuple[Edge[ToolCallStatus, None], ...]] = (
    *from_each((_S.NEW, _S.RESUMING), "start", _S.RUNNING),
    *from_each((_S.NEW, _S.RUNNING, _S.RESUMING), "suspend", _S.SUSPENDED),
    *from_each((_S.NEW, _S.SUSPENDED), "decide", _S.RESUMING),
    *from_each((_S.NEW, _S.RUNNING, _S.RESUMING), "succeed", _S.SUCCEEDED),
    *from_each((_S.NEW, _S.RUNNING, _S.RESUMING), "fail", _S.FAILED),
    *from_each((_S.NEW, _S.RUNNING, _S.SUSPENDED, _S.RESUMING), "cancel", _S.CANCELLED),
)

MACHINE: Final[Machine[ToolCallStatus, None]] = Machine(
    name="toolcall",
    title="Where one tool call stands",
    states=ToolCallStatus,
    initial=ToolCallStatus.NEW,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset({"start", "suspend", "decide", "succeed", "fail", "cancel"}),
    terminal=TERMINAL,
)


def step(call: ToolCallState, input: ToolCallInput) -> tuple[ToolCallState, tuple[Execute, ...]]:
    """Take one command. Raises `ContractError` where the table has no edge."""
    moved = replace(call, status=MACHINE.next_state(call.status, input.on, None))
    match input:
        case ToolStarted():
            return moved, (_execute(call),)
        case Suspend(ticket, deadline_at):
            return replace(moved, ticket=complete_ticket(call, ticket), deadline_at=deadline_at, decision=None), ()
        case DecideCall(decision):
            return replace(moved, decision=decision, deadline_at=None), ()
        case Succeed() | Fail() | Cancel():
            return replace(moved, deadline_at=None), ()
        case unreachable:
            assert_never(unreachable)


def complete_ticket(call: ToolCallState, ticket: SuspensionTicket | None) -> SuspensionTicket:
    """Fill what a ticket leaves blank. Without a ticket the question is whether to run the call as it stands."""
    call_id, name = call.key.call_id, call.tool_name
    if ticket is None:
        pending = PendingCall(id=call_id, name=name, arguments=call.arguments)
        return SuspensionTicket(suspension=Suspension(id=call_id, action=f"tool:{name}"), pending=pending)
    asked, shown = ticket.suspension, ticket.pending
    return structs.replace(
        ticket,
        suspension=structs.replace(asked, id=_filled(asked.id, call_id), action=_filled(asked.action, f"tool:{name}")),
        pending=structs.replace(shown, id=_filled(shown.id, call_id), name=_filled(shown.name, name)),
    )


def _filled(text: str, default: str) -> str:
    return text if text.strip() else default


def complete_decision(call: ToolCallState, decision: ToolCallDecided) -> ToolCallDecided:
    """Fill what a decision leaves blank: its id is the call's, its result says whether it is a yes."""
    return structs.replace(
        decision,
        decision_id=_filled(decision.decision_id, call.key.call_id),
        result=decision.action is DecisionAction.RESUME if decision.result is None else decision.result,
    )


def _execute(call: ToolCallState) -> Execute:
    if call.ticket is None or call.decision is None:
        return Execute(call.key, call.tool_name, call.arguments)
    mode, answer = call.ticket.resume_mode, call.decision.result
    # A bare yes holds no arguments.
    is_new = mode is ResumeMode.PASS_DECISION_TO_TOOL and not isinstance(answer, bool)
    return Execute(call.key, call.tool_name, answer if is_new else call.arguments, mode)


def result_of_decision(call: ToolCallState) -> ToolResult | None:
    """The result that the decision alone gives, or None where the tool has to run for it."""
    decision = call.decision
    if decision is None:
        return None
    if decision.action is DecisionAction.CANCEL:
        return denied(call.key, decision)
    if call.ticket is not None and call.ticket.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return ToolResult(call_id=call.key.call_id, ok=True, output=decision.result, occurrence=call.key.occurrence)
    return None


def denied(key: CallKey, decision: ToolCallDecided) -> ToolResult:
    """The one error result of a cancel."""
    return ended(key, EndKind.APPROVAL_DENIED, _filled(decision.reason, DENIED_MESSAGE))


def ended(key: CallKey, kind: EndKind, message: str, *, synthetic: bool = False) -> ToolResult:
    """An error result in place of one that no tool will write."""
    error = ToolError(kind=kind.value, message=message)
    return ToolResult(call_id=key.call_id, ok=False, error=error, occurrence=key.occurrence, synthetic=synthetic)


def finish(call: ToolCallState, result: ToolResult) -> ToolCallState:
    """End an open call by its result. One that comes while the call is suspended proves an answer given elsewhere."""
    last: Succeed | Fail | Cancel = Succeed() if result.error is None else Fail()
    if result.error is not None and result.error.kind in CANCELLING_KINDS:
        last = Cancel()
    if not call.can(type(last)):
        call, _ = step(call, DecideCall())
    call, _ = step(call, last)
    return call
