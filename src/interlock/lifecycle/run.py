"""The run: the execution of one turn.

Laws:
1. `done` is terminal and never reopens. To execute again is another run, with another id.
2. `waiting` means that a decision from outside is open. A run does not wait for nothing.
3. One mapping leads from a reason to a status: `TerminationReason.to_run_status`.
4. While a suspended call remains a run does not end, it waits; only error, cancellation and the wall clock end it then.
5. Every input is our own command: where the table has no edge it is refused, and nothing changes.
6. Each step that is taken gives one `run_state` event, which carries the whole reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, TypeAlias, assert_never

from msgspec import Meta, Struct, field

from interlock.lifecycle.render import ascii_diagram
from interlock.lifecycle.table import Edge, Machine
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import RunState
from interlock.vocabulary.ids import RunId
from interlock.vocabulary.run import (
    CANCELLED,
    SUSPENDED,
    ReasonType,
    RunStatus,
    StopCode,
    StoppedReason,
    TerminationReason,
)
from interlock.vocabulary.states import ExitReason

# Joins: what the end of a process and open decisions mean for the run.
#
# Laws:
# 1. A dead process has no open run. The death ends it: `cancelled` if it was us, `error` in every other case, also when
#    the process left cleanly in the middle of a turn.
# 2. While a decision is open (an approval or a dialog) the run waits; once none is, it goes on.
# 3. A run that is done is told nothing any more, whatever comes late.


def exit_to_reason(exit_reason: ExitReason, *, stop_requested: bool, detail: str = "") -> TerminationReason:
    """Why a run that is still open ends when its process does. `detail` is for people: a code, a tail of stderr."""
    match exit_reason:
        # The idle time-to-live runs only while no turn is open. Should it strike an open run, it was us all the same.
        case ExitReason.STOPPED | ExitReason.IDLE_TTL | ExitReason.REPLACED:
            return CANCELLED
        case _ if stop_requested:
            return CANCELLED
        case ExitReason.CLEAN:
            message = "the agent's process exited in the middle of a turn"
        case ExitReason.CRASHED:
            message = "the agent's process crashed"
        case ExitReason.OOM:
            message = "the agent's process was killed because memory ran out"
        case ExitReason.UNCLEAN:
            message = "the agent's process is gone, and how it ended is not known"
        case unreachable:
            assert_never(unreachable)
    return TerminationReason.error(f"{message}: {detail}" if detail else message)


def run_input(
    status: RunStatus, reason: TerminationReason | None, open_decisions: int, *, cancel_requested: bool = False
) -> RunInput | None:
    """What to tell a run, given why it would end (None: for no reason) and how many decisions are open now.

    None: nothing; the run already is as it should be. What is returned is always legal in `status`.
    """
    if status is RunStatus.DONE:
        return None
    if reason is not None:
        reason = settle(reason, open_decisions)
    elif open_decisions > 0:
        reason = SUSPENDED
    if reason is None:
        return Resumed(cancel_requested) if status is RunStatus.WAITING else None
    if reason == SUSPENDED:
        return Suspended(cancel_requested) if status is RunStatus.RUNNING else None
    return Ended(reason, cancel_requested)


UnixMs: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Suspended:
    """A decision from outside is needed before the run can go on."""

    on: ClassVar[str] = "suspended"
    reason: ClassVar[TerminationReason | None] = SUSPENDED
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class Resumed:
    """What the run waited for was decided."""

    on: ClassVar[str] = "resumed"
    reason: ClassVar[TerminationReason | None] = None
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over. The reason is settled already (never `suspended`); a cancel may have been asked for in vain."""

    on: ClassVar[str] = "ended"
    reason: TerminationReason
    cancel_requested: bool = False


RunInput: TypeAlias = Suspended | Resumed | Ended

TRANSITIONS: Final[tuple[Edge[RunStatus, None], ...]] = (
    Edge(RunStatus.RUNNING, Suspended.on, RunStatus.WAITING),
    Edge(RunStatus.RUNNING, Ended.on, RunStatus.DONE),
    Edge(RunStatus.WAITING, Resumed.on, RunStatus.RUNNING),
    Edge(RunStatus.WAITING, Ended.on, RunStatus.DONE),
)

MACHINE: Final = Machine(
    name="run",
    title="Whether a turn is being executed, waits for a decision, or is over",
    states=RunStatus,
    initial=RunStatus.RUNNING,
    edges=TRANSITIONS,
    laws=__doc__,
    commands=frozenset({Suspended.on, Resumed.on, Ended.on}),
    terminal=frozenset({RunStatus.DONE}),
)

ASCII_STATE_MACHINE: Final[str] = ascii_diagram(MACHINE)


class RunLifecycleState(Struct, frozen=True, omit_defaults=True):
    """The durable record of a run, kept at `state["__run"]`. Every field has a default; only a None is not written."""

    PATH: ClassVar[str] = "__run"
    SCOPE: ClassVar[str] = "run"

    # A default that a factory makes is written too; a plain one would be left out together with the None.
    id: str = field(default_factory=lambda: "")
    status: RunStatus = field(default_factory=lambda: MACHINE.initial)
    done_reason: str | None = None
    updated_at: UnixMs = field(default_factory=lambda: 0)

    @property
    def stopped(self) -> StoppedReason | None:
        """The stop condition in `done_reason`, its code as it was given."""
        prefix, _, code = (self.done_reason or "").partition(":")
        return StoppedReason(code) if prefix == ReasonType.STOPPED and code.strip() else None


def step(state: RunLifecycleState, input: RunInput, now_ms: int) -> tuple[RunLifecycleState, tuple[RunState, ...]]:
    """Move the run and say so. A run has no deadline of its own: what it waits for has one."""
    status = MACHINE.next_state(state.status, input.on, None)
    # The event refuses a status that does not follow from its reason, such as an end because of `suspended`.
    event = RunState(
        run_id=RunId(state.id),
        status=status,
        reason=input.reason,
        cancel_requested=input.cancel_requested,
    )
    done_reason = None if input.reason is None else input.reason.to_run_status()[1]
    return RunLifecycleState(state.id, status, done_reason, now_ms), (event,)


def tell_cancel(state: RunLifecycleState, *, cancel_requested: bool) -> RunState:
    """Say of an open run whether it is asked to end. That moves nothing: its agent has to take it."""
    if state.status is RunStatus.DONE:
        raise ContractError(f"run {state.id} is done, and cannot be asked to end")
    reason = SUSPENDED if state.status is RunStatus.WAITING else None
    return RunState(run_id=RunId(state.id), status=state.status, reason=reason, cancel_requested=cancel_requested)


def settle(reason: TerminationReason, open_suspended_calls: int) -> TerminationReason:
    """What a run's end comes to, given the calls that still wait for a decision.

    A wall-clock stop ends the run, so its caller first settles the open calls, with one error result each.
    """
    match reason.type:
        case ReasonType.ERROR | ReasonType.CANCELLED:
            return reason
        case ReasonType.STOPPED if reason.stop_code == StopCode.TIMEOUT:
            return reason
        case _ if open_suspended_calls > 0:
            return SUSPENDED
        case ReasonType.SUSPENDED:
            raise ContractError("a run cannot be suspended while nothing is open that could resume it")
        case _:
            return reason
