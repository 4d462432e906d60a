"""How a `result` line says that a turn ended.

`subtype: success` with `is_error: true` is an error, and `error_during_execution` is also what an interrupt looks like:
only `terminal_reason` tells them apart, or, in versions without it, the note that the agent writes when it is stopped.
"""

from __future__ import annotations

from typing import Final

from interlock.agents.observations import TRACE_MAX_CHARACTERS, TurnEnded, TurnEnding
from interlock.vocabulary.foreign_json import Fields, inner, members, text
from interlock.vocabulary.registry import Json

_STOPS: Final = {
    "error_max_turns": "max_rounds",
    "max_turns": "max_rounds",
    "error_max_budget_usd": "token_budget",
    "max_budget_usd": "token_budget",
}
_DETAILS: Final = ("subtype", "terminal_reason", "api_error_status", "api_error_type", "num_turns", "duration_ms")


def is_follow_up(result: Fields) -> bool:
    """Whether the turn was begun by something else than a prompt, such as the end of a background task."""
    return text(inner(result, "origin"), "kind") not in ("", "human", "user")


def is_good(result: Fields) -> bool:
    return result.get("is_error") is not True and not text(result, "subtype").startswith("error")


def turn_ended(result: Fields, *, error_kind: str, was_interrupted: bool) -> TurnEnded:
    """The end of a prompt's turn. `error_kind` is what the agent called the last failed model call."""
    subtype, reason = text(result, "subtype"), text(result, "terminal_reason")
    details: Json = {name: result[name] for name in _DETAILS if result.get(name) is not None}
    code = _STOPS.get(subtype) or _STOPS.get(reason)
    if reason.startswith("aborted") or (not reason and not is_good(result) and was_interrupted):
        return TurnEnded(ending=TurnEnding.INTERRUPTED, details=details)
    if code is not None:
        message = error_message(result)
        return TurnEnded(ending=TurnEnding.STOPPED, stop_code=code, error_message=message, details=details)
    if is_good(result):
        answer = result.get("result")
        answered = answer if isinstance(answer, str) else None
        return TurnEnded(ending=TurnEnding.NATURAL, text=answered, details=details)
    kind = error_kind or reason or subtype or "unknown"
    return TurnEnded(ending=TurnEnding.ERROR, error_kind=kind, error_message=error_message(result), details=details)


def error_message(result: Fields) -> str:
    """Why it failed, in the agent's words."""
    told = [one for one in members(result, "errors") if isinstance(one, str)]
    words = text(result, "result") or "; ".join(told) or text(result, "subtype") or "the agent gave no reason"
    return words[:TRACE_MAX_CHARACTERS]
