"""The search of the board: what is typed narrows the list at once, and is looked up in all transcripts.

Laws:
1. The words are asked for when typing paused, and an answer counts only for the words that stand there.
2. An answer that may lack something says so. What could not be asked is no answer.
3. Enter does what the last line says. Where the words are in no session's line and in a message, it goes there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input, Static

from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.found import FOUND_LINES, found_lines, told_of
from interlock.cli.top.panes import QuestionsPane
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.wire.resources import SearchHit, SearchPage

PAUSE_SECONDS: Final = 0.25
_FEWEST: Final = 2


class AskSearch(ModalScreen[SearchHit | None]):
    """Asks what to search for. `on_change` is told each change, and says how many sessions match, of how many. Enter
    gives the message that is chosen, or nothing, which keeps the list as it is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", show=False),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("ctrl+c", "app.quit_board", show=False, priority=True),
    ]

    def __init__(
        self, text: str, on_change: Callable[[str], tuple[int, int]], find: Callable[[str], Awaitable[SearchPage]]
    ) -> None:
        super().__init__()
        self._text = text
        self._on_change = on_change
        self._find = find
        self._matching = (0, 0)
        self._told = ""
        self._hits: tuple[SearchHit, ...] = ()
        self._at = -1
        self._pausing: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="ask"):
            title = "search: titles, agents, folders, questions, states; and all transcripts"
            yield Static(title, id="ask-title", markup=False)
            yield Input(self._text, id="filter")
            yield QuestionsPane(id="found")
            yield Static("", id="ask-hint", markup=False)

    def on_mount(self) -> None:
        found = self.query_one(QuestionsPane)
        found.option_at = lambda row: row if row < len(self._hits) else None
        self.query_one(Input).focus()
        self._heed(self._text)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._heed(event.value)

    def _heed(self, wanted: str) -> None:
        self._matching = self._on_change(wanted)
        self._hits, self._at, self._told = (), -1, ""
        if self._pausing is not None:
            self._pausing.stop()
        if len(wanted.strip()) >= _FEWEST:
            self._told = "searching the transcripts"
            self._pausing = self.set_timer(PAUSE_SECONDS, lambda: self._ask(wanted))
        self._show()

    def _ask(self, wanted: str) -> None:
        self.run_worker(self._look_up(wanted), group="search", exclusive=True)

    async def _look_up(self, wanted: str) -> None:
        hits, told = await self._found(wanted)
        if self in self.app.screen_stack and wanted == self.query_one(Input).value:  # it may be closed by now
            self._hits, self._told = hits, told
            self._at = 0 if hits and not self._matching[0] else self._at
            self._show()

    async def _found(self, wanted: str) -> tuple[tuple[SearchHit, ...], str]:
        try:
            page = await self._find(wanted)
        except InterlockError as trouble:
            return (), f"the transcripts cannot be searched: {trouble}"
        return page.items[:FOUND_LINES], told_of(page)

    def _show(self) -> None:
        lines: list[Line] = found_lines(self._hits, self._at, max(20, self.size.width - 4))
        if self._told:
            lines.append([(self._told, Tone.FAINT.value)])
        self.query_one(QuestionsPane).show(lines)
        count, known = self._matching
        chosen = "enter goes there" if self._at >= 0 else "enter keeps it"
        moves = ", arrows choose a message" if self._hits else ""
        self.query_one("#ask-hint", Static).update(f"{count} of {known} match   {chosen}{moves}, esc clears it")

    def action_move(self, by: int) -> None:
        if self._hits:
            self._at = min(max(-1, self._at + by), len(self._hits) - 1)
            self._show()

    def on_questions_pane_chosen(self, chosen: QuestionsPane.Chosen) -> None:
        _ = self.dismiss(self._hits[chosen.number])

    def on_input_submitted(self) -> None:
        _ = self.dismiss(self._hits[self._at] if self._at >= 0 else None)

    def action_clear(self) -> None:
        _ = self._on_change("")
        _ = self.dismiss(None)
