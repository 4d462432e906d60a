"""What is typed for us: prompts, the key that interrupts, the keys that leave.

Laws:
1. Nothing is typed over the draft of a person. A draft that holds exactly what we typed last is ours: an interrupted
   CLI puts the prompt back into its composer.
2. The keys that interrupt are steps of the profile. Each is checked on the screen before the next; after the first, a
   key is pressed only while a turn shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from interlock.agents.port import DeliveryUnknown, KeptOut, NotDelivered
from interlock.agents.tmux.looking import Eye, PaneLook
from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.typing import TypedTurn, TypingOutcome, TypingPolicy, TypingRefusal, squeeze, type_prompt
from interlock.screen.assessment import BusinessState
from interlock.screen.conditions import Condition
from interlock.screen.engine import holds
from interlock.screen.keys import KeyStep, next_step
from interlock.screen.profile import Profile
from interlock.screen.selection import ScreenReader

_WHY: Final[Mapping[TypingRefusal, str]] = {
    TypingRefusal.DIALOG: "a dialog is open",
    TypingRefusal.WORKING: "the agent is working",
    TypingRefusal.DRAFT: "a draft of somebody stands in the composer",
    TypingRefusal.DRAFT_UNKNOWN: "whether a draft stands in the composer cannot be seen",
    TypingRefusal.NOT_READY: "the screen does not show that it is ready",
}
# What ends without us: a person's draft, a turn that the agent began by itself, a dialog that somebody answers.
_PASSING: Final = (TypingRefusal.DRAFT, TypingRefusal.WORKING, TypingRefusal.DIALOG)
_ROUNDS: Final = 3
_SHOWN_WITHIN_SECONDS: Final = 1.0
_MAX_CLEARING_PRESSES: Final = 100


class Keyboard:
    """Types into one pane, for one caller at a time."""

    def __init__(self, pane: Pane, reader: ScreenReader) -> None:
        self._pane, self._reader = pane, reader
        self._typed = ""

    async def submit(self, text: str, policy: TypingPolicy, turn: TypedTurn) -> TypingOutcome:
        """Type a prompt and press Enter. `NotDelivered` if nothing was typed, and why; `KeptOut` if that passes."""
        await self._take_back_draft()
        profile = self._reader.profile
        pause = max(policy.pause_before_enter_seconds, profile.pace.submit_pause_seconds)
        policy = replace(policy, pause_before_enter_seconds=pause, submit_key=profile.keys.submit)
        outcome = await type_prompt(self._pane, text, self._reader.parse_snapshot, policy, turn)
        if outcome.refusal is not None:
            why = _WHY.get(outcome.refusal) or outcome.typed.evidence
            raise KeptOut(why) if outcome.refusal in _PASSING else NotDelivered(f"nothing was typed: {why}")
        self._typed = text
        return outcome

    def is_ours(self, draft: str) -> bool:
        """Whether a draft is exactly what we typed last."""
        return bool(self._typed) and squeeze(draft) == squeeze(self._typed)

    def remember(self, text: str) -> None:
        """Say, after an adoption, what was typed last."""
        self._typed = text

    async def _take_back_draft(self) -> None:
        """Clear a draft that is exactly what we typed last. One that cannot be cleared is refused like any other."""
        if not self._typed:
            return
        async with Eye(self._pane, self._reader.parse_snapshot) as eye:
            look = await eye.look()
            if not look.reading.assessment.submit_ready or not self.is_ours(look.reading.draft or ""):
                return
            for _ in range(min(2 * self._typed.count("\n") + 2, _MAX_CLEARING_PRESSES)):
                draft = look.reading.draft
                if not draft:
                    return
                await self._pane.send_keys("C-u")
                look = await eye.until(_has_another_draft(draft), _SHOWN_WITHIN_SECONDS)

    async def interrupt(self, is_turn_open: Callable[[], bool], within_seconds: float) -> None:
        """End the turn by the keys of the profile. `NotDelivered` if no turn is open; `DeliveryUnknown`, with the keys
        that were pressed, if its end is not seen in time."""
        async with Eye(self._pane, self._reader.parse_snapshot) as eye:
            look = await eye.look()
            if not look.is_busy and not is_turn_open():
                raise NotDelivered("nothing was pressed: no turn is open")
            attempt = _Interrupt(self._pane, self._reader.profile, eye, is_turn_open)
            if not await attempt.run(look, within_seconds):
                raise DeliveryUnknown(f"the turn is not seen to end {within_seconds:g} s after {attempt.told}")

    async def quit(self) -> bool:
        """Ask an idle CLI to leave. False where it is not idle, or has no keys for that."""
        profile = self._reader.profile
        async with Eye(self._pane, self._reader.parse_snapshot) as eye:
            look = await eye.look()
            if not profile.keys.quit or not look.reading.assessment.submit_ready or look.reading.draft != "":
                return False
            for step in profile.keys.quit:
                await self._pane.send_keys(step.press)
                is_shown = _shows(step, profile)
                if step.shows and not is_shown(await eye.until(is_shown, step.within_seconds)):
                    return False
                await asyncio.sleep(step.pause_seconds)
        return True


class _Interrupt:
    """One interrupt on its way: the steps of the profile, in order, each checked on the screen."""

    def __init__(self, pane: Pane, profile: Profile, eye: Eye, is_turn_open: Callable[[], bool]) -> None:
        self._pane, self._profile, self._eye, self._is_turn_open = pane, profile, eye, is_turn_open
        self._was_busy = False
        self._pressed: list[str] = []

    @property
    def told(self) -> str:
        """What was pressed, and what did not follow."""
        return f"these keys: {', '.join(self._pressed)}" if self._pressed else "no key: no step of the profile applies"

    async def run(self, look: PaneLook, within_seconds: float) -> bool:
        """Whether the turn ended. The first key is pressed in any case, each further one only while a turn shows."""
        loop = asyncio.get_running_loop()
        deadline, at, rounds = loop.time() + within_seconds, -1, 0
        while (left := deadline - loop.time()) > 0:
            self._was_busy = self._was_busy or look.is_busy
            found = self._next(at, look)
            if found is None:
                rounds, at = rounds + 1, -1
            if rounds == _ROUNDS or (self._pressed and not look.is_busy) or (found is None and not self._pressed):
                look = await self._eye.until(self._is_over, left)
                return self._is_over(look)
            if found is not None:
                at, look = await self._press(found, left)
                if self._is_over(look):
                    return True
                rounds += at < 0
        return False

    def _next(self, after: int, look: PaneLook) -> int | None:
        return next_step(self._profile.keys.interrupt, after, lambda when: _holds(when, look, self._profile))

    async def _press(self, number: int, left: float) -> tuple[int, PaneLook]:
        """Press the key of a step and look for what it brings; the number to go on behind, and the last look."""
        step = self._profile.keys.interrupt[number]
        await self._pane.send_keys(step.press)
        self._pressed.append(step.press)
        is_shown = _shows(step, self._profile)
        look = await self._eye.until(lambda seen: self._is_over(seen) or is_shown(seen), min(step.within_seconds, left))
        if self._is_over(look):
            return number, look
        if step.shows and not is_shown(look):
            self._pressed[-1] = f"{step.press} (not confirmed by the screen)"
            return -1, look
        if step.pause_seconds:
            look = await self._eye.until(self._is_over, min(step.pause_seconds, left))
        return number, look

    def _is_over(self, seen: PaneLook) -> bool:
        return not self._is_turn_open() or (self._was_busy and seen.state is BusinessState.IDLE)


def _shows(step: KeyStep, profile: Profile) -> Callable[[PaneLook], bool]:
    return lambda seen: bool(step.shows) and _holds(step.shows, seen, profile)


def _holds(conditions: Iterable[Condition], look: PaneLook, profile: Profile) -> bool:
    return holds(conditions, look.capture.snapshot, profile)


def _has_another_draft(draft: str) -> Callable[[PaneLook], bool]:
    return lambda seen: seen.reading.draft != draft
