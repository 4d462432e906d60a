"""What a session can be waited for, and whether it is so: the core of `interlock wait`. Pure.

Laws:
1. What is so already is true at once.
2. `done` is told by the record of the newest turn, and only where nothing waits behind it.
3. What cannot become true any more is not waited for, and neither is what only a person can bring about.
4. Where events of the newest turn are lost, or that turn itself is, how it ended is not known and never will be: unless
   a prompt waits for the next turn, there is nothing to wait for.
5. An error that an agent shows while it starts, works or settles may pass: it is waited out. At rest it counts once it
   has stood for a while, and so does that nobody runs a session (`may_pass`).
5. A session waits for as long as the server cannot write its log, and so does who waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.cli.exit_codes import ExitCode, exit_code_for_turn
from interlock.cli.look.session_lines import shown_of
from interlock.cli.work.prompt_watch import PromptLook, is_unreadable
from interlock.lifecycle.task_status import is_under_way
from interlock.vocabulary.ending_words import repeats
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.states import Activity, TaskStatus, TurnState

CONDITIONS: Final = ("ready", "done", "blocked", "idle", "gone")
_STATUS: Final = "status:"
_UNSETTLED: Final = (Activity.STARTING, Activity.WORKING, Activity.SETTLING)


@dataclass(frozen=True, slots=True)
class Until:
    """A condition by its word. `status` is the status, or the activity, that `status:X` names."""

    word: str
    status: str = ""


@dataclass(frozen=True, slots=True)
class WaitVerdict:
    """That the waiting is over: whether it came true, with which exit code, and why, in a few words. `may_pass`: only
    if it is still so after a while."""

    is_met: bool
    code: ExitCode
    why: str
    may_pass: bool = False


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


def judge(until: Until, look: PromptLook, *, past_questions: bool = False) -> WaitVerdict | None:
    """Whether the waiting is over; None: not yet."""
    summary, shown = look.summary, shown_of(look.summary)
    if until.word in ("ready", "done", "idle") and is_lost(look):
        is_followed = summary.get("is_supervised", True) and look.detail["queue"].get("waiting")
        return None if is_followed else WaitVerdict(False, ExitCode.UNKNOWN, shown.words)
    if _is_met(until, look):
        return _done(look) if until.word == "done" else _met(shown.words)
    if summary.get("task_status") == TaskStatus.DELETE:
        return WaitVerdict(False, ExitCode.FAILED, "it was archived")
    if not summary.get("is_supervised", True):
        return WaitVerdict(False, ExitCode.UNKNOWN, "nobody runs it", may_pass=True)
    if until.word in ("done", "idle", "ready") and is_unreadable(summary) and look.turn_is_over:
        return WaitVerdict(False, ExitCode.UNKNOWN, "no profile fits the agent's screen", may_pass=True)
    if until.word in ("done", "idle", "ready") and shown.needs_person and not past_questions:
        if shown.attention != "error":
            return WaitVerdict(False, ExitCode.BLOCKED, shown.words)
        if shown.is_unrecorded:
            return None
        return None if shown.activity in _UNSETTLED else WaitVerdict(False, ExitCode.FAILED, shown.words, may_pass=True)
    return None


def _is_met(until: Until, look: PromptLook) -> bool:
    shown = shown_of(look.summary)
    match until.word:
        case "ready":
            # A dialog that was answered and still stands there needs nobody, and takes no prompt either.
            return shown.activity == "quiet" and shown.attention == "none" and is_idle(look)
        case "done":
            return is_idle(look) and look.turn is not None
        case "idle":
            return is_idle(look)
        case "blocked":
            return shown.needs_person
        case "gone":
            return shown.activity == "gone"
        case _:
            return until.status in (look.summary.get("task_status"), shown.activity)


def is_lost(look: PromptLook) -> bool:
    """Whether it is not known how the newest turn stands, because the log is damaged."""
    return TurnState.UNKNOWN in (look.summary.get("turn_state"), None if look.turn is None else look.turn["state"])


def is_idle(look: PromptLook) -> bool:
    """Whether nothing is under way: no open turn, and nothing that waits to be sent."""
    # The turn is read after the session: by then the next prompt may wait. Both must say that it is over.
    is_open = is_under_way(look.summary.get("task_status"))
    return look.turn_is_over and not is_open and not look.detail["queue"].get("waiting")


def _done(look: PromptLook) -> WaitVerdict:
    assert look.turn is not None, "it is done by its turn"
    state = TurnState(look.turn["state"])
    kind = str(look.turn.get("error_kind", ""))
    return WaitVerdict(
        True, exit_code_for_turn(state), state.value if repeats(state, kind) else f"{state.value}: {kind}"
    )


def _met(words: str) -> WaitVerdict:
    return WaitVerdict(True, ExitCode.COMPLETED, words)
