"""What an attempt of a step was lost by, as far as that is not its own word: a crash, a quota or a timeout.

Law: a word that is not listed here is no cause. What an agent says of its own work never is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.states import SubagentState

_CRASH: Final = (
    "process_died abandoned delivery_unknown session_lost agent_not_started closed_before_start never_sent connection"
    " server server_error api_error internal_server_error response_stream_disconnected http_connection_failed"
)
_QUOTA: Final = "quota rate_limit overloaded usage_limit_exceeded billing_error server_overloaded"
_TIMEOUT: Final = "timeout turn_timed_out model_timeout stalled"
_CAUSES: Final[Mapping[str, str]] = {
    reason: cause
    for cause, reasons in (("crash", _CRASH), ("quota", _QUOTA), ("timeout", _TIMEOUT))
    for reason in reasons.split()
}


def cause_of(fact: SubagentEvent) -> str:
    """What the attempt of a child was lost by; blank where it was not, or where that is not known."""
    match fact.status:
        case SubagentState.TIMED_OUT:
            return "timeout"
        case SubagentState.FAILED | SubagentState.INTERRUPTED:
            return _CAUSES.get(fact.reason.removeprefix("partial_"), "")
        case _:
            return ""
