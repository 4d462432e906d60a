"""How a prompt stands, by what a server says of its session. Pure: the clients and `send --wait` step it.

Laws:
1. That a turn ended, and how, is what its record says, and nothing else.
2. Blocked is what only a person can change: the badge says that the session needs one, or the queue that this prompt
   waits in is held, also while another turn runs. An error is blocked only after a while: the end of the turn that
   had it may be on its way, and law 1 goes before. That the server cannot write its log is waited out.
3. That a prompt will have no turn is said only where the queue and then the transcript, read in this order, deny it
   twice: it leaves the one for the other in one step, which may be read half.
4. What nobody runs is not known to be anything. It is said only after a while: a server that begins takes up its
   sessions one by one.
5. An agent whose screen no profile fits is never known to be ready, so a prompt in its queue is not waited for.
6. A turn of which events are lost is `unknown`, and stays so: it is not waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interlock.lifecycle.turns import TurnRecord
from interlock.vocabulary.evidence import LOG_UNAVAILABLE, NO_PROFILE_FITS
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.states import Activity, Attention, TaskStatus, TurnState
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import Message, QueueView, TaskSummary
from interlock.vocabulary.wire.resources import TaskDetail

GRACE_SECONDS: Final = 5.0
DENIED_AGAIN_SECONDS: Final = 0.2
DOUBT_AGAIN_SECONDS: Final = 1.0
_DENIALS: Final = 2


class PromptEnding(StrEnum):
    """Why there is nothing more to wait for."""

    ENDED = "ended"
    BLOCKED = "blocked"
    HELD = "held"
    TAKEN_BACK = "taken_back"
    UNKNOWN = "unknown"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLook:
    """One look at a session, the session before the turn. `turn` is the record of the prompt's turn; None: it has none,
    as far as was found. `is_sure` is false where the connection was lost since the session was last verified."""

    detail: TaskDetail
    turn: TurnRecord | None
    is_sure: bool = True

    @property
    def summary(self) -> TaskSummary:
        return self.detail.summary

    @property
    def turn_is_over(self) -> bool:
        """Whether the turn has ended, or there is none."""
        return self.turn is None or self.turn.state.is_terminal

    @property
    def is_broken(self) -> bool:
        """Whether what it needs a person for is an error."""
        return self.summary.badge is not None and self.summary.badge.attention is Attention.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOutcome:
    """What became of a prompt, on the strength of one look."""

    ending: PromptEnding
    look: PromptLook

    @property
    def turn_state(self) -> TurnState | None:
        return None if self.look.turn is None else self.look.turn.state


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is remembered from look to look. `past_questions`: others answer, and we go on."""

    prompt_id: PromptId
    past_questions: bool = False
    denials: int = 0
    lost_at: float | None = None
    broken_at: float | None = None

    @property
    def look_again_seconds(self) -> float | None:
        """When to look again at what counts only if it is seen again; None: when something is heard."""
        if self.denials:
            return DENIED_AGAIN_SECONDS
        return None if self.lost_at is None and self.broken_at is None else DOUBT_AGAIN_SECONDS


def step(watch: Watch, look: PromptLook, now: float) -> tuple[Watch, PromptOutcome | None]:
    """Judge one look. No outcome: wait on."""
    if look.turn is not None:
        return _of_turn(watch, look, look.turn, now)
    if look.summary.task_status is TaskStatus.DELETE:
        return watch, PromptOutcome(ending=PromptEnding.TAKEN_BACK, look=look)
    if not is_queued(watch.prompt_id, look.detail.queue):
        denied = replace(watch, denials=watch.denials + 1)
        gone = PromptOutcome(ending=PromptEnding.TAKEN_BACK, look=look)
        return denied, gone if denied.denials >= _DENIALS else None
    watch = replace(watch, denials=0)
    if not look.summary.is_supervised:
        return _lost(watch, look, now)
    return _of_queue(replace(watch, lost_at=None), look, now)


def _of_turn(watch: Watch, look: PromptLook, turn: TurnRecord, now: float) -> tuple[Watch, PromptOutcome | None]:
    if turn.state is TurnState.UNKNOWN:
        return watch, PromptOutcome(ending=PromptEnding.UNKNOWN, look=look)
    if turn.state is TurnState.ABANDONED:
        return _lost(watch, look, now)
    watch = replace(watch, lost_at=None, denials=0)
    if turn.state.is_terminal:
        return watch, PromptOutcome(ending=PromptEnding.ENDED, look=look)
    is_newest = look.summary.turn_id == turn.turn_id
    # What was heard before a loss decides nothing, unless the record itself says that it waits.
    is_sure = look.is_sure or turn.state is TurnState.WAITING
    return _of_badge(watch, look, now) if is_newest and is_sure else (watch, None)


def _of_queue(watch: Watch, look: PromptLook, now: float) -> tuple[Watch, PromptOutcome | None]:
    if not look.detail.queue.is_open:
        return watch, PromptOutcome(ending=PromptEnding.HELD, look=look)
    if is_unreadable(look.summary.badge):
        return watch, PromptOutcome(ending=PromptEnding.UNREADABLE, look=look)
    # Whoever is asked, and in whichever turn: behind a question nothing leaves the queue.
    return _of_badge(watch, look, now)


def _of_badge(watch: Watch, look: PromptLook, now: float) -> tuple[Watch, PromptOutcome | None]:
    badge = look.summary.badge
    if watch.past_questions or badge is None or not badge.is_blocked or is_unrecorded(badge):
        return replace(watch, broken_at=None), None
    blocked = PromptOutcome(ending=PromptEnding.BLOCKED, look=look)
    if not look.is_broken:
        return replace(watch, broken_at=None), blocked
    since = now if watch.broken_at is None else watch.broken_at
    return replace(watch, broken_at=since), blocked if now - since >= GRACE_SECONDS else None


def _lost(watch: Watch, look: PromptLook, now: float) -> tuple[Watch, PromptOutcome | None]:
    since = now if watch.lost_at is None else watch.lost_at
    unknown = PromptOutcome(ending=PromptEnding.UNKNOWN, look=look)
    return replace(watch, lost_at=since), unknown if now - since >= GRACE_SECONDS else None


def is_unreadable(badge: Badge | None) -> bool:
    """Whether the state of the agent is not known because no profile fits its screen."""
    if badge is None or badge.activity is not Activity.UNKNOWN:
        return False
    return any(proof.rule == NO_PROFILE_FITS for proof in badge.evidence)


def is_unrecorded(badge: Badge) -> bool:
    """Whether what it does is not known because the server cannot write its log."""
    return any(proof.rule == LOG_UNAVAILABLE for proof in badge.evidence)


def is_queued(prompt_id: PromptId, queue: QueueView) -> bool:
    """Whether a prompt still waits."""
    return any(item.prompt_id == prompt_id for item in queue.waiting)


def places_ahead(prompt_id: PromptId, queue: QueueView) -> int:
    """How many prompts go before one that waits."""
    waiting = [item.prompt_id for item in queue.waiting]
    return waiting.index(prompt_id) if prompt_id in waiting else 0


def turn_in(messages: Sequence[Message], prompt_id: PromptId) -> TurnId | None:
    """The turn that a prompt led to, by a transcript."""
    found = (one.turn_id for one in reversed(messages) if one.prompt_id == prompt_id)
    return next((turn_id for turn_id in found if turn_id is not None), None)
