"""Why a spawn ended, in the words of the log.

Laws:
1. What we asked for is the reason, whatever the code: a stop that needed KILL is a stop.
2. `oom` is what the kernel accounted for, never a guess from a code or a signal.
3. Without a code and without a signal nobody saw the end, and it is `unclean`.
"""

from __future__ import annotations

from interlock.agents.observations import Exited
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.states import ExitReason

ASKED_FOR = frozenset({ExitReason.STOPPED, ExitReason.IDLE_TTL, ExitReason.REPLACED})


def exit_reason(exited: Exited, *, stop_requested: ExitReason | None = None) -> ExitReason:
    """The reason of an exit. `stop_requested` is why we were ending it, if we were."""
    if stop_requested is not None:
        if stop_requested not in ASKED_FOR:
            raise ContractError(f"{stop_requested.value} is nothing that one asks for")
        return stop_requested
    if exited.is_oom:
        return ExitReason.OOM
    if exited.code is None and exited.signal is None:
        return ExitReason.UNCLEAN
    return ExitReason.CLEAN if exited.code == 0 and exited.signal is None else ExitReason.CRASHED
