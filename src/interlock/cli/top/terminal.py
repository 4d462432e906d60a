"""The part of the screen that shows an agent's own terminal, in its colours.

Laws:
1. It is a picture: nothing in it is parsed, and no key reaches the agent through it.
2. It stays on a dark ground in both themes. An agent that nobody told otherwise draws for one.
3. Until somebody scrolls, the cursor of the agent is in sight, or the last row that holds something.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from textual.geometry import Size
from textual.strip import Strip

from interlock.cli.look.screen_lines import picture_lines
from interlock.cli.output import escape
from interlock.cli.tables import Line
from interlock.cli.top.panes import Scrolled

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskScreenJson

_PALETTE: Final = TerminalTheme(
    (11, 14, 19),
    (215, 220, 227),
    [(72, 82, 98), (255, 123, 114), (87, 201, 120), (227, 179, 65),
     (108, 182, 255), (210, 153, 255), (86, 212, 221), (215, 220, 227)],
    [(110, 120, 136), (255, 161, 152), (126, 231, 157), (242, 204, 96),
     (145, 203, 255), (226, 188, 255), (121, 228, 236), (255, 255, 255)],
)  # fmt: skip
_GROUND: Final = Style(
    color=Color.from_triplet(_PALETTE.foreground_color), bgcolor=Color.from_triplet(_PALETTE.background_color)
)


@lru_cache(maxsize=1024)
def style_of(sgr: str) -> Style:
    """The style that SGR numbers name, on our own ground: each colour is the same in both themes."""
    spans = Text.from_ansi(f"\x1b[{sgr}mx\x1b[0m").spans if sgr else []
    named = spans[0].style if spans else None
    if not isinstance(named, Style):
        return _GROUND
    exact = Style(
        color=None if named.color is None else Color.from_triplet(named.color.get_truecolor(_PALETTE)),
        bgcolor=None
        if named.bgcolor is None
        else Color.from_triplet(named.bgcolor.get_truecolor(_PALETTE, foreground=False)),
    )
    return _GROUND + named.without_color + exact


class TerminalPane(Scrolled):
    """The picture of a terminal; `said` stands where there is none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: Sequence[Line] = ()
        self._said: Sequence[Line] = ()
        self._digest = ""
        self._focus_row = 0
        self.is_following = True

    def begin(self) -> None:
        """Another session."""
        self.lines, self._said, self._digest, self.is_following = (), (), "", True
        self.scroll_to(x=0, y=0, animate=False, force=True)

    def show(self, screen: TaskScreenJson | None, said: Sequence[Line]) -> None:
        """Take in a picture, or a word about why there is none. It is known by its digest, whoever asked for it."""
        if screen is None and said == self._said:
            return
        if screen is None:
            self.lines, self._digest, self._said = (), "", said
            self.virtual_size = Size(1, 1)
        elif screen["digest"] == self._digest:
            return
        else:
            self._digest, self._said = str(screen["digest"]), ()
            self.lines = picture_lines(screen, with_cursor=True)
            cursor = screen.get("cursor")
            self._focus_row = cursor[1] if cursor else max(0, len(self.lines) - 1)
            self.virtual_size = Size(int(screen["columns"]), max(1, len(self.lines)))
            self._reveal()
        self.refresh()

    def _reveal(self) -> None:
        """Bring the last row that matters to the foot of the pane."""
        if self.is_following:
            last = max(self._focus_row, len(self.lines) - 1)
            height = self.scrollable_content_region.height
            top = max(0, min(last - height + 1, self._focus_row))
            self.scroll_to(y=top, animate=False, force=True, immediate=True)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if not self._digest:
            return self.strip_of(self._said[y] if y < len(self._said) else [], width)
        at, left = y + self.scroll_offset.y, self.scroll_offset.x
        line = self.lines[at] if at < len(self.lines) else []
        segments = [Segment(escape(text), style_of(sgr)) for text, sgr in line]
        full = max(left + width, sum(cell_len(text) for text, _ in line))
        return Strip(segments).adjust_cell_length(full, _GROUND).crop(left, left + width)

    def move(self, lines: int) -> None:
        """Scroll by so many lines. At the end the cursor is followed again."""
        target = min(max(0, self.scroll_offset.y + lines), self.max_scroll_y)
        self.is_following = lines > 0 and target == self.max_scroll_y
        self.scroll_to(y=target, animate=False, force=True, immediate=True)

    def edge(self, direction: int) -> None:
        """To the first row, or to the last one, which is then followed."""
        self.move(direction * max(1, len(self.lines)))

    def pan(self, cells: int) -> None:
        """Sideways: an agent's terminal may be wider than this."""
        self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False, force=True, immediate=True)

    @property
    def has_more(self) -> bool:
        """Whether a row goes on to the right of what is in sight."""
        edge = self.scroll_offset.x + self.scrollable_content_region.width
        return any(sum(cell_len(text) for text, _ in line) > edge for line in self.lines)

    def on_resize(self) -> None:
        self._reveal()
