"""What comes up over the board: a page to read, a question to be sure, words to be typed. Each is left with escape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static, TextArea

from interlock.cli.output import escape
from interlock.cli.tables import Line
from interlock.cli.top.panes import Painted, Sheet

DRAFT_HINT: Final = "enter sends, ctrl+j a new line, esc keeps your draft"
TAKE_HINT: Final = "enter takes it, esc cancels"
Laid = Callable[[int], Sequence[Line]]
"""Lines for a width."""


class Link(Static):
    """A key that can be clicked."""

    def __init__(self, text: str, action: str) -> None:
        super().__init__(text, markup=False, classes="link")
        self._action = action

    async def on_click(self) -> None:
        await self.run_action(self._action)


class OverlayPage(Painted, ScrollView, can_focus=True):
    """Lines to be read, scrolled with the usual keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    class Clicked(Message):
        """Somebody clicked on a line."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self, laid: Laid) -> None:
        super().__init__(id="page")
        self._laid = laid
        self.lines: Sequence[Line] = ()

    def show(self, laid: Laid) -> None:
        self._laid = laid
        self._lay()

    def _lay(self) -> None:
        width = self.scrollable_content_region.width
        if width > 0:
            self.lines = self._laid(width)
            self.virtual_size = Size(width, max(1, len(self.lines)))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        at, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        return self.strip_of(self.lines[at] if at < len(self.lines) else [], width)

    def on_resize(self) -> None:
        self._lay()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None:
            self.post_message(self.Clicked(offset.y + self.scroll_offset.y))


class Panel(ModalScreen[None]):
    """A page over the board, under a title."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,w,p,u,o,v,question_mark,enter", "close", "close", show=False),
        Binding("ctrl+c", "app.quit_board", show=False, priority=True),
    ]

    def __init__(self, title: str, laid: Laid, action_at: Callable[[int], str] = lambda _: "") -> None:
        super().__init__()
        self._title = title
        self._action_at = action_at
        self._page = OverlayPage(laid)

    def compose(self) -> ComposeResult:
        with Vertical(id="panel"):
            yield Static(escape(self._title), id="panel-title", markup=False)
            yield self._page
            yield Static("esc closes, arrows scroll", id="panel-hint", markup=False)

    def on_mount(self) -> None:
        self._page.focus()

    def show(self, laid: Laid) -> None:
        """Put other lines in place of these."""
        self._page.show(laid)

    async def on_overlay_page_clicked(self, clicked: OverlayPage.Clicked) -> None:
        """A line that names a key does what the key does."""
        action = self._action_at(clicked.row)
        if action:
            await self.dismiss(None)
            await self.app.run_action(action)

    def action_close(self) -> None:
        _ = self.dismiss(None)


class Sure(ModalScreen[bool]):
    """A question that only `y` says yes to."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q,enter", "answer(False)", show=False),
        Binding("ctrl+c", "app.quit_board", show=False, priority=True),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(id="ask"):
            yield Static(escape(self._question), id="ask-title", markup=False)
            with Horizontal(id="ask-buttons"):
                yield Link("y yes", "screen.answer(True)")
                yield Link("n no", "screen.answer(False)")

    def action_answer(self, is_sure: bool) -> None:
        _ = self.dismiss(is_sure)


class Words(TextArea):
    """Words of any length. Enter sends them; a line end is typed with ctrl+j, or pasted."""

    class Finished(Message):
        """Enter was pressed."""

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Finished())
        elif event.key in ("ctrl+j", "shift+enter", "alt+enter"):
            event.stop()
            event.prevent_default()
            self.insert("\n")
        else:
            await super()._on_key(event)


class AskWords(ModalScreen[str | None]):
    """Asks for words; None if it was left. `keep` is given what stood there then."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("ctrl+c", "app.quit_board", show=False, priority=True),
    ]

    def __init__(
        self, title: str, above: Sequence[Line], text: str, keep: Callable[[str], None], hint: str = DRAFT_HINT
    ) -> None:
        super().__init__()
        self._hint = hint
        self._title = title
        self._above = above
        self._text = text
        self._keep = keep

    def compose(self) -> ComposeResult:
        with Vertical(id="ask"):
            yield Static(escape(self._title), id="ask-title", markup=False)
            yield Sheet(id="ask-above")
            yield Words(self._text, id="words", soft_wrap=True, show_line_numbers=False, tab_behavior="focus")
            yield Static(self._hint, id="ask-hint", markup=False)

    def on_mount(self) -> None:
        self.query_one("#ask-above", Sheet).show(self._above)
        words = self.query_one(Words)
        words.move_cursor(words.document.end)
        words.focus()

    def on_words_finished(self) -> None:
        _ = self.dismiss(self.query_one(Words).text)

    def action_leave(self) -> None:
        self._keep(self.query_one(Words).text)
        _ = self.dismiss(None)
