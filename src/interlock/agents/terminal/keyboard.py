"""What is typed for us: prompts, the key that interrupts, the keys that leave.

Laws:
1. Nothing is typed over the draft of a person. A draft that holds exactly what we typed last is ours: an interrupted
   CLI puts the prompt back into its composer.
2. The interrupting key is pressed only while a turn shows, and again only if it still does after a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from interlock.agents.port import ComposerTaken, DeliveryUnknown, NotDelivered
from interlock.agents.terminal.habits import Habits
from interlock.agents.tmux.looking import Eye, Look
from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.typing import Refusal, TypingOutcome, TypingPolicy, squeeze, type_prompt
from interlock.screen.assessment import BusinessState
from interlock.screen.selection import ScreenReader

_WHY: Final[Mapping[Refusal, str]] = {
    Refusal.DIALOG: "a dialog is open",
    Refusal.WORKING: "the agent is working",
    Refusal.DRAFT: "a draft of somebody stands in the composer",
    Refusal.DRAFT_UNKNOWN: "whether a draft stands in the composer cannot be seen",
    Refusal.NOT_READY: "the screen does not show that it is ready",
}
_PRESSES: Final = 3
_SHOWN_WITHIN_SECONDS: Final = 1.0
_MAX_CLEARING_PRESSES: Final = 100


class Keyboard:
    """Types into one pane, for one caller at a time."""

    def __init__(self, pane: Pane, reader: ScreenReader, habits: Habits) -> None:
        self._pane, self._reader, self._habits = pane, reader, habits
        self._typed = ""

    async def submit(self, text: str, policy: TypingPolicy, on_enter: Callable[[], None]) -> TypingOutcome:
        """Type a prompt and press Enter. `NotDelivered` if nothing was typed, and why; `ComposerTaken` for a draft."""
        await self._take_back_draft()
        pause = max(policy.pause_before_enter_seconds, self._reader.profile.pace.submit_pause_seconds)
        policy = replace(policy, pause_before_enter_seconds=pause)
        outcome = await type_prompt(self._pane, text, self._reader.parse_snapshot, policy, on_enter)
        if outcome.refusal is not None:
            why = _WHY.get(outcome.refusal) or outcome.typed.evidence
            kind = ComposerTaken if outcome.refusal is Refusal.DRAFT else NotDelivered
            raise kind(f"nothing was typed: {why}")
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
        """End the turn. `NotDelivered` if there is none; `DeliveryUnknown` if its end is not seen in time."""
        async with Eye(self._pane, self._reader.parse_snapshot) as eye:
            look = await eye.look()
            if not look.is_busy and not is_turn_open():
                raise NotDelivered("nothing was pressed: no turn is open")
            for number in range(_PRESSES):
                was_busy = look.is_busy
                if number == 0 or was_busy:
                    await self._pane.send_keys(*self._habits.interrupt)

                def is_over(seen: Look, was_busy: bool = was_busy) -> bool:
                    return not is_turn_open() or (was_busy and seen.state is BusinessState.IDLE)

                look = await eye.until(is_over, within_seconds / _PRESSES)
                if is_over(look):
                    return
        raise DeliveryUnknown("the interrupting key was pressed, and the turn is not seen to end")

    async def quit(self) -> bool:
        """Ask an idle CLI to leave. False where it is not idle, or has no keys for that."""
        async with Eye(self._pane, self._reader.parse_snapshot) as eye:
            look = await eye.look()
        if not self._habits.quit or not look.reading.assessment.submit_ready or look.reading.draft != "":
            return False
        for key in self._habits.quit:
            await self._pane.send_keys(key)
        return True


def _has_another_draft(draft: str) -> Callable[[Look], bool]:
    return lambda seen: seen.reading.draft != draft
