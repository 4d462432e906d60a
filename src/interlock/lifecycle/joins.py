"""Joins: what the end of a process and open decisions mean for the run.

Laws:
1. A dead process has no open run. The death ends it: `cancelled` if it was us, `error` in every other case, also when
   the process left cleanly in the middle of a turn.
2. While a decision is open (an approval or a dialog) the run waits; once none is, it goes on.
3. A run that is done is told nothing any more, whatever comes late.
"""

from __future__ import annotations

from typing import assert_never

from interlock.lifecycle.run import Ended, Resumed, RunInput, Suspended, settle
from interlock.vocabulary.run import CANCELLED, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import ExitReason


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
            message = "the agent's process is gone, and nobody saw how it ended"
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
