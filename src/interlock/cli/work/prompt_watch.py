"""How a prompt stands, by what a server says of its session: the core of `send --wait`. Pure.

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interlock.cli.exit_codes import ExitCode, exit_code_for_turn
from interlock.cli.look.session_lines import shown_of
from interlock.cli.server.api import Body
from interlock.vocabulary.evidence import NO_PROFILE_FITS
from interlock.vocabulary.states import TurnState

_DENIALS: Final = 2
_BROKEN: Final = "error"
_GRACE_SECONDS: Final = 5.0


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
    """One look at a session. `turn` is the record of the prompt's turn; None: it has none, as far as was found."""

    detail: Body
    turn: Body | None

    @property
    def summary(self) -> Body:
        summary: Body = self.detail["summary"]
        return summary

    @property
    def turn_is_over(self) -> bool:
        """Whether the turn has ended, or there is none."""
        return self.turn is None or TurnState(self.turn["state"]).is_terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOutcome:
    """What became of a prompt, on the strength of one look."""

    ending: PromptEnding
    code: ExitCode
    look: PromptLook

    @property
    def state(self) -> str:
        """The state of the turn; blank where there is none."""
        return "" if self.look.turn is None else str(self.look.turn["state"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is remembered from look to look. `past_questions`: others answer, and we go on."""

    prompt_id: str
    past_questions: bool = False
    denials: int = 0
    lost_at: float | None = None
    broken_at: float | None = None

    @property
    def is_in_doubt(self) -> bool:
        """Whether something was seen that counts only if it is seen again: look soon."""
        return bool(self.denials) or self.lost_at is not None or self.broken_at is not None


def step(watch: Watch, look: PromptLook, now: float) -> tuple[Watch, PromptOutcome | None]:
    """Judge one look. No outcome: wait on."""
    if look.turn is not None:
        return _of_turn(watch, look, look.turn, now)
    if look.summary.get("task_status") == "DELETE":
        return watch, PromptOutcome(ending=PromptEnding.TAKEN_BACK, code=ExitCode.INTERRUPTED, look=look)
    if not is_queued(watch.prompt_id, look.detail):
        denied = replace(watch, denials=watch.denials + 1)
        is_sure = denied.denials >= _DENIALS
        gone = PromptOutcome(ending=PromptEnding.TAKEN_BACK, code=ExitCode.INTERRUPTED, look=look)
        return denied, gone if is_sure else None
    watch = replace(watch, denials=0)
    if not look.summary.get("is_supervised", True):
        return _lost(watch, look, now)
    return _of_queue(replace(watch, lost_at=None), look, now)


def _of_turn(watch: Watch, look: PromptLook, turn: Body, now: float) -> tuple[Watch, PromptOutcome | None]:
    state = TurnState(turn["state"])
    if state is TurnState.UNKNOWN:  # events of it are lost: nothing that follows makes it known
        return watch, PromptOutcome(ending=PromptEnding.UNKNOWN, code=ExitCode.UNKNOWN, look=look)
    if state is TurnState.ABANDONED:
        return _lost(watch, look, now)
    watch = replace(watch, lost_at=None, denials=0)
    if state.is_terminal:
        return watch, PromptOutcome(ending=PromptEnding.ENDED, code=exit_code_for_turn(state), look=look)
    is_newest = look.summary.get("turn_id") == turn["turn_id"]
    return _of_badge(watch, look, now) if is_newest else (watch, None)


def _of_queue(watch: Watch, look: PromptLook, now: float) -> tuple[Watch, PromptOutcome | None]:
    if not look.detail["queue"].get("is_open", True):
        return watch, _blocked(look, PromptEnding.HELD)
    if is_unreadable(look.summary):
        return watch, PromptOutcome(ending=PromptEnding.UNREADABLE, code=ExitCode.UNKNOWN, look=look)
    # Whoever is asked, and in whichever turn: behind a question nothing leaves the queue.
    return _of_badge(watch, look, now)


def _of_badge(watch: Watch, look: PromptLook, now: float) -> tuple[Watch, PromptOutcome | None]:
    shown = shown_of(look.summary)
    if watch.past_questions or not shown.needs_person or shown.is_unrecorded:
        return replace(watch, broken_at=None), None
    if shown.attention != _BROKEN:
        return replace(watch, broken_at=None), _blocked(look, PromptEnding.BLOCKED)
    since = now if watch.broken_at is None else watch.broken_at
    is_sure = now - since >= _GRACE_SECONDS
    return replace(watch, broken_at=since), _blocked(look, PromptEnding.BLOCKED) if is_sure else None


def _blocked(look: PromptLook, ending: PromptEnding) -> PromptOutcome:
    is_broken = shown_of(look.summary).attention == _BROKEN
    return PromptOutcome(ending=ending, code=ExitCode.FAILED if is_broken else ExitCode.BLOCKED, look=look)


def _lost(watch: Watch, look: PromptLook, now: float) -> tuple[Watch, PromptOutcome | None]:
    since = now if watch.lost_at is None else watch.lost_at
    is_sure = now - since >= _GRACE_SECONDS
    unknown = PromptOutcome(ending=PromptEnding.UNKNOWN, code=ExitCode.UNKNOWN, look=look)
    return replace(watch, lost_at=since), unknown if is_sure else None


def is_unreadable(summary: Body) -> bool:
    """Whether the state of the agent is not known because no profile fits its screen."""
    badge = summary.get("badge") or {}
    proofs = badge.get("evidence") or ()
    return badge.get("activity") == "unknown" and any(proof.get("rule") == NO_PROFILE_FITS for proof in proofs)


def is_queued(prompt_id: str, detail: Body) -> bool:
    """Whether a prompt still waits."""
    return any(item["prompt_id"] == prompt_id for item in detail["queue"].get("waiting", ()))


def places_ahead(prompt_id: str, detail: Body) -> int:
    """How many prompts go before one that waits."""
    waiting = [item["prompt_id"] for item in detail["queue"].get("waiting", ())]
    return waiting.index(prompt_id) if prompt_id in waiting else 0


def turn_in(messages: list[Body], prompt_id: str) -> str | None:
    """The turn that a prompt led to, by a transcript."""
    found = (one.get("turn_id") for one in reversed(messages) if one.get("prompt_id") == prompt_id)
    return next((str(turn_id) for turn_id in found if turn_id is not None), None)
