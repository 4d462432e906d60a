"""Answering a dialog with keys, each of them proven on the screen.

Laws:
1. No key is pressed unless the dialog that was asked about takes it.
2. Enter is pressed only while the option that was chosen is seen to be selected.
3. A key is pressed again only if nothing changed but a notice, and nothing above the dialog: what looks the same under
   other text may be the next dialog, and that was not decided. (One that is the same to the last row of the screen
   cannot be told apart.)
4. The answer was taken once the dialog is gone, or another one stands in its place. What ticks makes no other one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from interlock.agents.port import AnswerNotTaken, DeliveryUnknown, NotDelivered
from interlock.agents.terminal.dialogs import DialogAnswer, ScreenDialog, dialog_on, is_same_dialog
from interlock.agents.tmux.looking import Eye, PaneLook
from interlock.agents.tmux.panes import Pane
from interlock.agents.tmux.typing import squeeze
from interlock.screen.assessment import BusinessState
from interlock.screen.engine import ScreenReading
from interlock.screen.profile import Profile
from interlock.screen.projection import normalize_projection_text
from interlock.screen.selection import ScreenReader
from interlock.vocabulary.errors import PeerFault, Unreachable

# A tip comes or goes below. The next dialog of the same words comes with the outcome of the one before it, above it.
_MAX_NOTICE_ROWS: Final = 2


@dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """How long a key may take to show, and how often one that changed nothing is pressed."""

    moved_within_seconds: float = 2.0
    gone_within_seconds: float = 2.0
    presses: int = 8


async def answer_dialog(
    pane: Pane,
    reader: ScreenReader,
    asked: ScreenDialog,
    seen_at: float,
    answer: DialogAnswer,
    policy: AnswerPolicy | None = None,
    on_confirm: Callable[[], None] = lambda: None,
) -> float:
    """Answer, and return when (monotonic) the dialog was seen to be gone. `seen_at`: when it was seen last.

    `on_confirm` is called just before the key is pressed that answers it.
    `NotDelivered`: it was not answered. `DeliveryUnknown`: keys were pressed, and nothing shows what came of them.
    `AnswerNotTaken`: they were pressed, and it still stands.
    """
    async with Eye(pane, reader.parse_snapshot) as eye:
        attempt = _Attempt(pane, eye, reader.profile, asked, seen_at, policy or AnswerPolicy(), on_confirm)
        try:
            if answer.option is None:
                return await attempt.press_until_gone("Escape")
            await attempt.select(answer.option)
            if answer.text:
                await attempt.write(answer.text)
            return await attempt.press_until_gone("Enter", answer.option)
        except (Unreachable, PeerFault) as error:
            if isinstance(error, NotDelivered | DeliveryUnknown):
                raise
            kind = DeliveryUnknown if attempt.has_confirmed else NotDelivered
            raise kind(f"the terminal was lost while its dialog was answered: {error}") from error


class _Attempt:
    """One answer on its way into one dialog."""

    def __init__(
        self,
        pane: Pane,
        eye: Eye,
        profile: Profile,
        asked: ScreenDialog,
        seen_at: float,
        policy: AnswerPolicy,
        on_confirm: Callable[[], None],
    ) -> None:
        self._pane, self._eye, self._profile, self._policy = pane, eye, profile, policy
        self._asked, self._seen_at = asked, seen_at
        self._on_confirm = on_confirm
        self.has_confirmed = False

    async def select(self, wanted: int) -> None:
        """Move the selection to an option, one step at a time."""
        left = self._policy.presses
        dialog = self._standing(await self._eye.look())
        while dialog.selected != wanted:
            at = dialog.selected
            if at is None:
                raise NotDelivered("which option is selected cannot be seen")
            if left == 0:
                raise NotDelivered(f"the selection does not move to {self._asked.options[wanted].text!r}")
            back, forth = ("Left", "Right") if dialog.is_in_a_row else ("Up", "Down")
            await self._pane.send_keys(forth if at < wanted else back)
            look = await self._eye.until(self._has_left(at), self._policy.moved_within_seconds)
            dialog = self._standing(look)
            left -= dialog.selected == at

    async def write(self, text: str) -> None:
        """Type into the selected option, and see the words there. A field that just opened may swallow them."""
        words = squeeze(text)
        for _ in range(self._policy.presses):
            before = await self._eye.look()
            self._standing(before)
            await self._pane.send_text(text)
            is_written = _has_more_of(words, before)
            look = await self._eye.until(is_written, self._policy.moved_within_seconds)
            if is_written(look):
                return
            if _changed_rows(before, look) > 0:
                break
        raise NotDelivered("the words that were typed into the dialog are not seen there; Enter was not pressed")

    async def press_until_gone(self, key: str, wanted: int | None = None) -> float:
        """Press a key that ends the dialog, and again while it changes nothing."""
        for _ in range(self._policy.presses):
            before = await self._eye.look()
            standing = self._standing(before)
            if wanted is not None and standing.selected != wanted:
                raise NotDelivered("somebody else moved the selection")
            self.has_confirmed = True
            self._on_confirm()
            await self._pane.send_keys(key)
            look = await self._eye.until(self._is_plainly_gone, self._policy.gone_within_seconds)
            if self._is_gone(look):
                return look.capture.captured_at_seconds
            if _changed_rows(before, look) > _MAX_NOTICE_ROWS or not self._is_below_the_same(before, look):
                break
        raise AnswerNotTaken(f"{key} was pressed, and a dialog of the same words still stands")

    def _standing(self, look: PaneLook) -> ScreenDialog:
        """The dialog that was asked about. `NotDelivered` if it does not take the keys any more."""
        if look.capture.why_closed is not None:
            raise NotDelivered(f"keys do not reach the dialog: {look.capture.why_closed}")
        dialog = self._dialog(look)
        if dialog is None or not self._is_asked(dialog, look):
            kind = DeliveryUnknown if self.has_confirmed else NotDelivered
            raise kind("the dialog on the screen is not the one that was asked about")
        self._asked, self._seen_at = dialog, look.capture.captured_at_seconds
        return dialog

    def _is_asked(self, dialog: ScreenDialog, look: PaneLook) -> bool:
        return is_same_dialog(self._asked, dialog, look.capture.captured_at_seconds - self._seen_at)

    def _dialog(self, look: PaneLook) -> ScreenDialog | None:
        return dialog_on(look.reading.assessment, look.capture.snapshot, self._profile)

    def _is_below_the_same(self, before: PaneLook, after: PaneLook) -> bool:
        """Whether the dialog stands under the same text. Rows may have left or come at the top, as where a tip below
        moves all of it."""
        was, now = self._above(before), self._above(after)
        return was == now or (bool(was and now) and (was.endswith(now) or now.endswith(was)))

    def _above(self, look: PaneLook) -> str:
        """What stands above that by which the dialog is known, without what changes by itself."""
        known_by = [row for evidence in look.reading.assessment.evidence[:1] for row in evidence.rows]
        return normalize_projection_text("\n".join(look.rows[: min(known_by, default=0)]), self._profile.volatile)

    def _has_left(self, option: int) -> Callable[[PaneLook], bool]:
        def is_elsewhere(look: PaneLook) -> bool:
            dialog = self._dialog(look)
            return dialog is None or dialog.selected != option

        return is_elsewhere

    def _is_gone(self, look: PaneLook) -> bool:
        if look.capture.snapshot.is_dead:
            return True
        dialog = self._dialog(look)
        return not self._is_asked(dialog, look) if dialog else not look.capture.snapshot.is_blank

    def _is_plainly_gone(self, look: PaneLook) -> bool:
        """Gone, and not by half a frame: the screen says what comes after it."""
        is_known = self._dialog(look) is not None or look.state is not BusinessState.UNKNOWN
        return self._is_gone(look) and (is_known or look.capture.snapshot.is_dead)


def _has_more_of(words: str, before: PaneLook) -> Callable[[PaneLook], bool]:
    """Whether the words stand there once more than before: they may be those of another option."""
    had = squeeze("".join(before.rows)).count(words)
    return lambda look: squeeze("".join(look.rows)).count(words) > had


def _changed_rows(before: PaneLook, after: PaneLook) -> int:
    """How many rows are other ones, without what changes by itself."""
    assert isinstance(before.reading, ScreenReading)
    assert isinstance(after.reading, ScreenReading)
    pairs = zip_longest(before.reading.projection.rows, after.reading.projection.rows)
    return sum(one != other for one, other in pairs)
