"""What a session can be waited for, and whether it is so: the core of `interlock wait`. Pure.

Laws:
1. What is so already is true at once.
2. `done` is told by the record of the newest turn, and only where nothing waits behind it.
3. What cannot become true any more is not waited for, and neither is what only a person can bring about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.cli.exit_codes import ExitCode, exit_code_for_turn
from interlock.cli.prompt_watch import Look, is_asked
from interlock.cli.task_lines import standing_of
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.states import Activity, TaskStatus, TurnState

CONDITIONS: Final = ("ready", "done", "blocked", "idle", "gone")
_STATUS: Final = "status:"
_OPEN: Final = (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.CANCELLING, TaskStatus.PENDING_CONFIRMATION)


@dataclass(frozen=True, slots=True)
class Until:
    """A condition by its word. `status` is the status, or the activity, that `status:X` names."""

    word: str
    status: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """That the waiting is over: whether it came true, with which exit code, and why, in a few words."""

    is_met: bool
    code: ExitCode
    why: str


def parse_until(text: str) -> Until:
    """Read what was given. `UsageError` for what nobody can wait for."""
    if text in CONDITIONS:
        return Until(text)
    if text.startswith(_STATUS):
        named = text.removeprefix(_STATUS)
        for known in (*TaskStatus, *Activity):
            if named.casefold() == known.value.casefold():
                return Until("status", known.value)
        statuses = ", ".join(one.value for one in (*TaskStatus, *Activity))
        raise UsageError(f"there is no status {named!r}", remedy=f"use one of {statuses}")
    raise UsageError(f"{text!r} cannot be waited for", remedy=f"use {', '.join(CONDITIONS)} or status:STATUS")


def judge(until: Until, look: Look, *, past_questions: bool = False) -> Verdict | None:
    """Whether the waiting is over; None: not yet."""
    summary, standing = look.summary, standing_of(look.summary)
    if _is_met(until, look):
        return _done(look) if until.word == "done" else _met(standing.words)
    if standing.activity == "deleted":
        return Verdict(False, ExitCode.FAILED, "it was put away")
    if not summary.get("is_supervised", True):
        return Verdict(False, ExitCode.UNKNOWN, "nobody runs it")
    if until.word in ("done", "idle", "ready") and is_blocked(look) and not past_questions:
        is_broken = standing.attention == "error"
        return Verdict(False, ExitCode.FAILED if is_broken else ExitCode.BLOCKED, standing.words)
    return None


def _is_met(until: Until, look: Look) -> bool:
    standing = standing_of(look.summary)
    match until.word:
        case "ready":
            # A dialog that was answered and still stands there needs nobody, and takes no prompt either.
            return standing.activity == "quiet" and standing.attention == "none" and is_idle(look)
        case "done":
            return is_idle(look) and look.turn is not None
        case "idle":
            return is_idle(look)
        case "blocked":
            return is_blocked(look)
        case "gone":
            return standing.activity in ("gone", "ended", "deleted")
        case _:
            return until.status in (look.summary.get("task_status"), standing.activity)


def is_idle(look: Look) -> bool:
    """Whether nothing is under way: no open turn, and nothing that waits to be sent."""
    # The turn is read after the session: by then the next prompt may wait. Both must say that it is over.
    is_over = look.turn is None or TurnState(look.turn["state"]).is_terminal
    is_open = look.summary.get("task_status") in _OPEN
    return is_over and not is_open and not look.detail["queue"].get("waiting")


def is_blocked(look: Look) -> bool:
    """Whether it cannot go on without a person."""
    is_held = bool(look.detail["queue"].get("waiting")) and not look.detail["queue"].get("is_open", True)
    is_waiting = look.turn is not None and is_asked(look, look.turn)
    return standing_of(look.summary).needs_person or is_waiting or is_held


def _done(look: Look) -> Verdict:
    assert look.turn is not None, "it is done by its turn"
    state = TurnState(look.turn["state"])
    kind = str(look.turn.get("error_kind", ""))
    return Verdict(
        True, exit_code_for_turn(state), f"{state.value}: {kind}" if kind not in ("", state) else state.value
    )


def _met(words: str) -> Verdict:
    return Verdict(True, ExitCode.COMPLETED, words)
