"""How a turn ended, in words for a person: an end says more than its state does. Pure; loads nothing.

Laws:
1. A kind or a message that only repeats the state is not printed beside it.
2. A timed-out turn says its budget and how long it took, as far as they are recorded. Where the agent itself ended it
   for time (`timed_by`), nobody is said to have set a budget that is not known.
3. "On request" is said only where the log holds the request.
4. The sentence that is recorded where an end has no words of its own gives way to what else is recorded of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TIMED_OUT: Final = "timed_out"
_INTERRUPTED: Final = "interrupted"
_OUT_OF_TIME: Final = "no end within its time budget"
_TIMED_BY_AGENT: Final = "the agent ended its turn for time"
_ON_REQUEST: Final = "stopped on request before it ended"
_STOPPED: Final = "stopped before it ended"
_RECORDED: Final[Mapping[str, tuple[str, ...]]] = {
    _TIMED_OUT: (_OUT_OF_TIME, _TIMED_BY_AGENT),
    _INTERRUPTED: (_ON_REQUEST, _STOPPED),
}
STILL_WRITTEN: Final = "partial: still being written"
"""The label of live text."""
BROKE_OFF: Final = "partial: broke off"
"""The label of live text that ended without a message."""
TIMED_BY: Final = "timed_by"
AGENT: Final = "agent"
_SAME: Final = (frozenset({"interrupted", "cancelled", "canceled"}), frozenset({_TIMED_OUT, "timeout"}))


def repeats(state: str, words: str) -> bool:
    """Whether words add nothing to a state of a turn or of a message."""
    said = words.strip().lower().replace(" ", "_")
    return said in ("", state) or any(state in group and said in group for group in _SAME)


def recorded_words(state: str, details: object = None, *, cancel_requested: bool = False) -> str:
    """The sentence to record of an end that has no words of its own; blank where its kind says all that is known."""
    if state == _TIMED_OUT:
        return _TIMED_BY_AGENT if _is_timed_by_agent(details) else _OUT_OF_TIME
    if state == _INTERRUPTED:
        return _ON_REQUEST if cancel_requested else _STOPPED
    return ""


def ending_words(state: str, message: str, details: object = None, *, cancel_requested: bool = False) -> str:
    """The recorded message of an end, or a sentence where it only repeats the state."""
    said = "" if repeats(state, message) or message in _RECORDED.get(state, ()) else message
    if state == _TIMED_OUT:
        budget = _budget_words(details)
        return f"{said} ({budget})" if said and budget else said or budget or _OUT_OF_TIME
    if state == _INTERRUPTED and not said:
        return _ON_REQUEST if cancel_requested or message == _ON_REQUEST else _STOPPED
    return message


def failure_words(state: str, kind: str, message: str, details: object = None) -> str:
    """A failure record in one line: its state, its kind where that adds something, and its message."""
    said = ending_words(state, message, details)
    is_told = repeats(state, kind) or kind.replace("_", " ") == said
    return ": ".join(part for part in (state, "" if is_told else kind, said) if part)


def ending_detail(state: str, kind: str, message: str) -> str:
    """What to print beside the state of a turn: its kind; its message where the kind adds nothing, or time ran out."""
    is_repeated = repeats(state, kind)
    is_told = not is_repeated and state != _TIMED_OUT
    shown = ("" if is_repeated else kind, "" if is_told or not kind or repeats(state, message) else message)
    return ": ".join(part for part in shown if part)


def _budget_words(details: object) -> str:
    measured = details if isinstance(details, Mapping) else {}
    budget, elapsed = _seconds(measured.get("budget_seconds")), _seconds(measured.get("elapsed_seconds"))
    whose = _TIMED_BY_AGENT if _is_timed_by_agent(details) else ""
    took = f"it took {elapsed}" if elapsed else ""
    return "; ".join(part for part in (f"no end within its budget of {budget}" if budget else whose, took) if part)


def _is_timed_by_agent(details: object) -> bool:
    return isinstance(details, Mapping) and details.get(TIMED_BY) == AGENT


def _seconds(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f"{value:,.1f}".removesuffix(".0") + " s"
