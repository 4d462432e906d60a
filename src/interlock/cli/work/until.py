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

import msgspec

from interlock.cli.exit_codes import ExitCode, exit_code_for_turn
from interlock.cli.look.session_lines import shown_of
from interlock.client.prompt_watch import PromptLook, is_unreadable, is_unrecorded
from interlock.lifecycle.task_status import is_under_way
from interlock.vocabulary.ending_words import repeats
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.states import Activity, Attention, TaskStatus, TurnState
from interlock.vocabulary.wire.badge import Badge

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
        for known in (*Activity, *TaskStatus):  # `unknown` is what the agent does
            if named.casefold() == known.value.casefold():
                return Until("status", known.value)
        statuses = ", ".join(one.value for one in (*TaskStatus, *Activity))
        raise UsageError(f"there is no status {named!r}", remedy=f"use one of {statuses}")
    raise UsageError(f"{text!r} cannot be waited for", remedy=f"use {', '.join(CONDITIONS)} or status:STATUS")


def judge(until: Until, look: PromptLook, *, past_questions: bool = False) -> WaitVerdict | None:
    """Whether the waiting is over; None: not yet."""
    summary, badge, words = look.summary, look.summary.badge, words_for(look)
    if until.word in ("ready", "done", "idle") and is_lost(look):
        is_followed = summary.is_supervised and look.detail.queue.waiting
        return None if is_followed else WaitVerdict(False, ExitCode.UNKNOWN, words)
    if _is_met(until, look):
        return _done(look) if until.word == "done" else _met(words)
    if summary.task_status is TaskStatus.DELETE:
        return WaitVerdict(False, ExitCode.FAILED, "it was archived")
    if not summary.is_supervised:
        return WaitVerdict(False, ExitCode.UNKNOWN, "no server runs it", may_pass=True)
    if until.word not in ("done", "idle", "ready") or badge is None:
        return None
    if is_unreadable(badge) and look.turn_is_over:
        return WaitVerdict(False, ExitCode.UNKNOWN, "no profile fits the agent's screen", may_pass=True)
    return None if past_questions else _blocked(look, badge, words)


def _blocked(look: PromptLook, badge: Badge, words: str) -> WaitVerdict | None:
    """Whether only a person can bring it about, or an error stands in the way."""
    if look.summary.is_paused and badge.activity in (Activity.QUIET, Activity.GONE):
        return WaitVerdict(False, ExitCode.BLOCKED, "its queue is paused")
    if not badge.is_blocked:
        return None
    if not look.is_broken:
        return WaitVerdict(False, ExitCode.BLOCKED, words)
    if is_unrecorded(badge) or badge.activity in _UNSETTLED:
        return None
    return WaitVerdict(False, ExitCode.FAILED, words, may_pass=True)


def words_for(look: PromptLook) -> str:
    """What a session shows, in words."""
    return shown_of(msgspec.to_builtins(look.summary)).words


def _is_met(until: Until, look: PromptLook) -> bool:
    badge = look.summary.badge
    activity = Activity.UNKNOWN if badge is None else badge.activity
    match until.word:
        case "ready":
            # A dialog that was answered and still stands there needs nobody, and takes no prompt either.
            is_asked = badge is not None and badge.attention is not Attention.NONE
            return activity is Activity.QUIET and not is_asked and is_idle(look)
        case "done":
            return is_idle(look) and look.turn is not None
        case "idle":
            return is_idle(look)
        case "blocked":
            return badge is not None and badge.is_blocked
        case "gone":
            return activity is Activity.GONE
        case _:
            return until.status in (look.summary.task_status, activity)


def is_lost(look: PromptLook) -> bool:
    """Whether it is not known how the newest turn stands, because the log is damaged."""
    return TurnState.UNKNOWN in (look.summary.turn_state, None if look.turn is None else look.turn.state)


def is_idle(look: PromptLook) -> bool:
    """Whether nothing is under way: no open turn, and nothing that waits to be sent."""
    # The turn is read after the session: by then the next prompt may wait. Both must say that it is over.
    return look.turn_is_over and not is_under_way(look.summary.task_status) and not look.detail.queue.waiting


def _done(look: PromptLook) -> WaitVerdict:
    assert look.turn is not None, "it is done by its turn"
    state, kind = look.turn.state, look.turn.error_kind
    return WaitVerdict(
        True, exit_code_for_turn(state), state.value if repeats(state, kind) else f"{state.value}: {kind}"
    )


def _met(words: str) -> WaitVerdict:
    return WaitVerdict(True, ExitCode.COMPLETED, words)
