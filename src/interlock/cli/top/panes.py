"""The parts of the screen: each paints lines of pieces that were laid out for it, and nothing else.

Law: text is painted as it reads. It is never parsed, neither as markup nor as an escape sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message as TextualMessage
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from interlock.cli.output import escape
from interlock.cli.tables import Line, Tone
from interlock.cli.top.layout.session_list import (
    Arranged,
    ListPlace,
    heading_line,
    pinned,
    places,
    row_line,
    row_lines,
)
from interlock.cli.top.layout.transcript import SLIDE, Reader, TranscriptWindow, key_of
from interlock.cli.top.layout.wrapping import fitted_line
from interlock.vocabulary.wire.frames import Message

_CLASSES: Final = {tone: f"tone--{tone.name.lower()}" for tone in Tone}
_SELECTED: Final = "row--selected"
_WHEEL: Final = 3


class Painted(Widget):
    """What every part has in common: a style for each meaning."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {*_CLASSES.values(), _SELECTED}

    def style_of(self, tone: str, *, is_selected: bool = False) -> Style:
        """The style of a meaning."""
        style = self.get_component_rich_style(_CLASSES[Tone(tone)])
        return style + self.get_component_rich_style(_SELECTED, partial=True) if is_selected else style

    def strip_of(self, line: Line, width: int, *, is_selected: bool = False) -> Strip:
        """A line as it is painted, exactly so wide."""
        pieces = [(escape(text), tone) for text, tone in fitted_line(line, width)]
        segments = [Segment(text, self.style_of(tone, is_selected=is_selected)) for text, tone in pieces]
        return Strip(segments).adjust_cell_length(width, self.style_of(Tone.PLAIN, is_selected=is_selected))


class Sheet(Painted):
    """Some lines, as high as they are. Without lines it takes no room."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: Sequence[Line] = ()
        self.display = False
        self._height = -1

    def show(self, lines: Sequence[Line]) -> None:
        height = len(lines) + self.gutter.height
        if height != self._height:  # a wider screen may have another gutter, and the same lines
            self._height = height
            self.styles.height = height
        if lines != self.lines:
            self.lines = lines
            self.display = bool(lines)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        return self.strip_of(self.lines[y] if y < len(self.lines) else [], width)


class QuestionsPane(Sheet):
    """What is asked. An answer in it is chosen with a click; `option_at` says which one stands in a row."""

    class Chosen(TextualMessage):
        """Somebody clicked on an answer."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.option_at: Callable[[int], int | None] = lambda _: None
        self._under: int | None = None

    def render_line(self, y: int) -> Strip:
        is_under = self._under is not None and self.option_at(y) == self._under
        line = self.lines[y] if y < len(self.lines) else []
        return self.strip_of(line, self.content_size.width, is_selected=is_under)

    def _number(self, event: events.MouseEvent) -> int | None:
        offset = event.get_content_offset(self)
        return None if offset is None else self.option_at(offset.y)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point_at(self._number(event))

    def on_leave(self) -> None:
        self._point_at(None)

    def _point_at(self, number: int | None) -> None:
        if number != self._under:
            self._under = number
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        number = self._number(event)
        if number is not None:
            self.post_message(self.Chosen(number))


class SessionList(Painted, ScrollView, can_focus=True, inherit_bindings=False):
    """The sessions. Only what is visible is laid out."""

    class Picked(TextualMessage):
        """Somebody clicked on a session; twice: to open it."""

        def __init__(self, task_id: str, *, is_opened: bool = False) -> None:
            super().__init__()
            self.task_id = task_id
            self.is_opened = is_opened

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.arranged = Arranged()
        self.places: tuple[ListPlace, ...] = ()
        self.selected = ""
        self._now: datetime | None = None
        self._is_stale = False
        self._is_roomy: bool | None = None

    def show(self, arranged: Arranged, selected: str, now: datetime, *, is_stale: bool, is_roomy: bool) -> None:
        """Take in what is known. The selected session stays in sight."""
        is_other = (arranged.tasks, arranged.groups) != (self.arranged.tasks, self.arranged.groups)
        is_moved = is_other or selected != self.selected or is_roomy != self._is_roomy
        moment = now.replace(microsecond=0)  # nothing here is told in parts of a second
        if not is_moved and (moment, is_stale) == (self._now, self._is_stale):
            return
        self.selected, self._now, self._is_stale = selected, moment, is_stale
        if is_moved:
            self.arranged, self._is_roomy = arranged, is_roomy
            self.places = places(arranged, is_roomy=is_roomy)
            self.virtual_size = Size(self.content_size.width, max(1, len(self.places)))
            self.reveal()
        self.refresh()

    def reveal(self) -> None:
        """Bring the selected session into sight, with the heading above it."""
        height = self.scrollable_content_region.height
        lines = [at for at, place in enumerate(self.places) if self._is_selected(place)]
        if not lines or height <= 0:
            return
        first, last = lines[0], lines[-1]
        if first and self.places[first - 1].heading and height > len(lines):
            first -= 1
        covered = len(pinned(self.places, first, height))  # what stays in sight would hide it
        if first < self.scroll_offset.y + covered:
            y = first - covered if first > 1 else 0
            while y > 0 and len(pinned(self.places, y, height)) > first - y:  # it depends on what is above
                y -= 1
            self.scroll_to(y=max(0, y), animate=False, force=True)
        elif last >= self.scroll_offset.y + height:
            self.scroll_to(y=last - height + 1, animate=False, force=True)

    @property
    def page(self) -> int:
        """How many sessions are a page."""
        return max(1, self.scrollable_content_region.height // (2 if self._is_roomy else 1) - 1)

    def _is_selected(self, place: ListPlace) -> bool:
        return place.task is not None and place.task["task_id"] == self.selected

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        place = self._place_at(y)
        if place is None or self._now is None:
            return self.strip_of([], width)
        if place.task is None:
            return self.strip_of(heading_line(place), width)
        shorts = self.arranged.shorts
        if self._is_roomy:
            line = row_lines(place.task, shorts, width, self._now, place.depth)[place.part]
        else:
            line = row_line(place.task, shorts, width, self._now, place.depth)
        if self._is_stale:
            line = [(text, Tone.FAINT.value) for text, _ in line]
        if not self._is_selected(place):
            return self.strip_of(line, width)
        first, *rest = line
        return self.strip_of([("▌" + first[0][1:], first[1]), *rest], width, is_selected=True)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        place = None if offset is None else self._place_at(offset.y)
        if place is not None and place.task is not None:
            self.post_message(self.Picked(str(place.task["task_id"]), is_opened=event.chain > 1))

    def _place_at(self, y: int) -> ListPlace | None:
        """What a line of the screen shows: a session that asks is never scrolled out of sight."""
        top = self.scroll_offset.y
        kept = pinned(self.places, top, self.scrollable_content_region.height) if top else ()
        if y < len(kept):
            return kept[y]
        return self.places[y + top] if y + top < len(self.places) else None

    def on_resize(self) -> None:
        self.virtual_size = Size(self.content_size.width, max(1, len(self.places)))
        self.reveal()


class Scrolled(Painted, ScrollView, can_focus=True, inherit_bindings=False):
    """What is read: the board's keys and the wheel scroll it alike."""

    def move(self, lines: int) -> None:
        """Scroll by so many lines."""
        raise NotImplementedError

    def edge(self, direction: int) -> None:
        """To the beginning, or to the end."""
        raise NotImplementedError

    @property
    def page(self) -> int:
        """How many lines are a page."""
        return max(1, self.scrollable_content_region.height - 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        event.prevent_default()
        self.move(-_WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        event.prevent_default()
        self.move(_WHEEL)


class EvidencePane(Scrolled):
    """Lines beside what is read: why the selected session stands as it does."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> None:
        if lines != self.lines:
            self.lines = lines
            self.virtual_size = Size(self.scrollable_content_region.width, max(1, len(lines)))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        at, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        return self.strip_of(self.lines[at] if at < len(self.lines) else [], width)

    def move(self, lines: int) -> None:
        """Scroll by so many lines."""
        target = min(max(0, self.scroll_offset.y + lines), self.max_scroll_y)
        self.scroll_to(y=target, animate=False, force=True, immediate=True)

    def edge(self, direction: int) -> None:
        """To the first line, or to the last."""
        self.move(direction * max(1, len(self.lines)))


class Transcript(Scrolled):
    """The transcript of the selected session: a window of it, which follows the end until somebody scrolls."""

    class WantsOlder(TextualMessage):
        """The beginning of what is here is in sight."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: Sequence[Line] = ()
        self.messages: Sequence[Message] = ()
        self.window = TranscriptWindow()
        self._reader = Reader()
        self._empty: Sequence[Line] = ()
        self._laid: tuple[object, ...] = ()

    def begin(self, session_id: str) -> None:
        """Another session: from its end on."""
        self.window, self._reader = TranscriptWindow(), Reader(session_id)
        self.messages = ()
        self._laid = ()

    def show(self, messages: Sequence[Message], empty: Sequence[Line]) -> None:
        """Take in the messages; `empty` is what to say where there is none."""
        self.messages, self._empty = messages, empty
        self._lay()

    def _lay(self) -> None:
        width = self.scrollable_content_region.width
        shown = self.window.of(self.messages)
        laid = (width, self._empty, *((key_of(one), one.version, one.status, len(one.text)) for one in shown))
        if laid == self._laid or width <= 0:
            return
        lines = self._reader.lines(shown, width) if self.messages else list(self._empty)
        self._laid, self.lines = laid, lines
        self.virtual_size = Size(width, max(1, len(lines)))
        if self.window.is_following:
            self.scroll_end(animate=False, immediate=True, force=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        at, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        return self.strip_of(self.lines[at] if at < len(self.lines) else [], width)

    def move(self, lines: int) -> None:
        """Scroll by so many lines; at an edge of the window, move the window."""
        if not self.messages:
            return
        target = self.scroll_offset.y + lines
        if lines < 0:
            self.window.hold(self.messages)
        if target < 0:
            self._slide(-SLIDE)
            target = self.scroll_offset.y + lines
        elif target > self.max_scroll_y:
            self._slide(SLIDE)
            target = self.scroll_offset.y + lines
        self.scroll_to(y=min(max(0, target), self.max_scroll_y), animate=False, force=True)
        self._settle(is_down=lines > 0)

    def edge(self, direction: int) -> None:
        """To the very beginning of what is here, or to the end, which is then followed."""
        if direction > 0:
            self.window.follow()
            self._laid = ()
            self._lay()
            self.scroll_end(animate=False, immediate=True, force=True)
            return
        self.window.hold(self.messages)
        self.window.slide(self.messages, -len(self.messages))
        self._lay()
        self.scroll_to(y=0, animate=False, force=True)
        self._settle(is_down=False)

    def go_to(self, seq: int) -> None:
        """Bring the message of an event to the first line: the last one that began at it or before."""
        found = [at for at, one in enumerate(self.messages) if 0 < one.message_id <= seq]
        if not found:
            self.edge(-1)
            return
        place = found[-1]
        self.window.hold(self.messages)
        self.window.slide(self.messages, place - SLIDE // 2 - self.window.start)
        self._lay()
        start = self.window.start
        above = 0 if place <= start else self._height(start, place)
        self.scroll_to(y=min(above, max(0, self.max_scroll_y)), animate=False, force=True)

    def _slide(self, by: int) -> None:
        """Move the window, and keep what is in sight where it is."""
        before = self.window.start
        if self.window.slide(self.messages, by):
            after = self.window.start
            moved = self._height(after, before) if after < before else -self._height(before, after)
            at = self.scroll_offset.y
            self._lay()
            self.scroll_to(y=max(0, at + moved), animate=False, force=True)

    def _height(self, first: int, last: int) -> int:
        """How many lines stand above a message, from another one on."""
        width, upper = self.scrollable_content_region.width, self.messages[first : last + 1]
        return len(self._reader.lines(upper, width)) - len(self._reader.lines(upper[-1:], width))

    def _settle(self, *, is_down: bool) -> None:
        if is_down and self.scroll_offset.y >= self.max_scroll_y and self.window.is_at_end(self.messages):
            self.window.follow()
        if not is_down and self.scroll_offset.y == 0 and self.window.start == 0:
            self.post_message(self.WantsOlder())

    def on_scroll_to(self) -> None:
        self.call_after_refresh(self._heed_bar)

    def on_scroll_up(self) -> None:
        self.call_after_refresh(self._heed_bar)

    def on_scroll_down(self) -> None:
        self.call_after_refresh(self._heed_bar)

    def _heed_bar(self) -> None:
        """Somebody moved the scroll bar: the end is followed only from the end on."""
        if self.scroll_offset.y < self.max_scroll_y:
            self.window.hold(self.messages)
        self._settle(is_down=self.scroll_offset.y > 0)

    def on_resize(self) -> None:
        self._lay()
        if self.window.is_following:
            self.scroll_end(animate=False, immediate=True, force=True)
