"""The form of a new session: agent, folder, whether in a worktree, and prompt, on one screen.

Laws:
1. Enter goes on to the next field, and from the prompt starts the session: with what is offered, a prompt is enough.
2. What cannot work is said beside the form, which stays. What was typed is kept when it is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from interlock.cli.tables import Line, Tone
from interlock.cli.top.dialogs.panels import Words
from interlock.cli.top.layout.wrapping import joined
from interlock.cli.top.panes import Sheet

_WHERE: Final = ("in this folder", "in a git worktree of its own, on a new branch")
_LABELS: Final = {"agent": "agent", "folder": "folder", "where": "work", "words": "prompt"}
_HINTS: Final = {
    "agent": "left and right choose, enter next, esc keeps your draft",
    "folder": "enter next, shift+tab back, esc keeps your draft",
    "where": "space chooses, enter next, shift+tab back, esc keeps your draft",
    "words": "enter starts it, ctrl+j a new line, shift+tab back, esc keeps your draft",
}


@dataclass(frozen=True, slots=True)
class NewSession:
    """What the form says."""

    agent: str
    folder: str
    in_worktree: bool = False
    prompt: str = ""


class Choice(Sheet, can_focus=True):
    """One of some words. Left and right choose, so does a click, and a letter the next word that begins with it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", show=False),
        Binding("right,space", "move(1)", show=False),
        Binding("enter", "app.focus_next", show=False),
    ]

    def __init__(self, words: Sequence[str], at: int, *, id: str) -> None:
        super().__init__(id=id)
        self.words, self.at = words, at
        self._places: dict[tuple[int, int], int] = {}
        self.display = True  # to be laid out it must have a width

    @property
    def chosen(self) -> str:
        return self.words[self.at]

    def on_resize(self) -> None:
        self._lay()

    def _lay(self) -> None:
        """The words in as many lines as they need."""
        lines: list[Line] = []
        pieces: list[tuple[str, Tone]] = []
        used, self._places = 0, {}
        for number, word in enumerate(self.words):
            is_chosen = number == self.at
            text = f"‹{word}› " if is_chosen else f" {word}  "
            if used and used + cell_len(text) > self.content_size.width:
                lines.append(joined(pieces))
                pieces, used = [], 0
            self._places |= {(len(lines), used + x): number for x in range(cell_len(text))}
            pieces.append((text, Tone.HEAD if is_chosen else Tone.FAINT))
            used += cell_len(text)
        self.show([*lines, joined(pieces)])

    def choose(self, number: int) -> None:
        """Take the word of this number, around the ends."""
        self.at = number % len(self.words)
        self._lay()

    def action_move(self, by: int) -> None:
        self.choose(self.at + by)

    def on_key(self, event: events.Key) -> None:
        letter = (event.character or "").casefold()
        after = [(self.at + more) % len(self.words) for more in range(1, len(self.words) + 1)]
        found = [number for number in after if letter.strip() and self.words[number].casefold().startswith(letter)]
        if found:
            event.stop()
            self.choose(found[0])

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        number = None if offset is None else self._places.get((offset.y, offset.x))
        if number is not None:
            self.choose(number)


class AskNewSession(ModalScreen[NewSession | None]):
    """Asks for a new session; None if it was left. `keep` is given what stood there then."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("tab,down", "app.focus_next", show=False),
        Binding("shift+tab,up", "app.focus_previous", show=False),
        Binding("ctrl+c", "app.quit_board", show=False, priority=True),
    ]

    def __init__(self, agents: Sequence[str], first: NewSession, keep: Callable[[NewSession], None]) -> None:
        super().__init__()
        self._agents, self._first, self._keep = agents, first, keep
        self._problem = ""

    def compose(self) -> ComposeResult:
        first = self._first
        at = self._agents.index(first.agent) if first.agent in self._agents else 0
        fields = (
            Choice(self._agents, at, id="agent"),
            Input(first.folder, id="folder", select_on_focus=False),
            Choice(_WHERE, int(first.in_worktree), id="where"),
            Words(first.prompt, id="words", soft_wrap=True, show_line_numbers=False, tab_behavior="focus"),
        )
        with Vertical(id="ask"):
            yield Static("new session", id="ask-title", markup=False)
            for field in fields:
                with Horizontal(classes="field"):
                    yield Static(_LABELS[str(field.id)], classes="label", markup=False)
                    yield field
            yield Static("", id="ask-hint", markup=False)

    def on_mount(self) -> None:
        words = self.query_one(Words)
        words.move_cursor(words.document.end)
        self.query_one("#agent").focus()

    def on_descendant_focus(self) -> None:
        self._hint()

    def on_input_changed(self) -> None:
        self._problem = ""
        self._hint()

    def _hint(self) -> None:
        """What the keys do in the field that has the focus, or what is wrong with it."""
        name = "" if self.focused is None else str(self.focused.id)
        problem = self._problem if name == "folder" else ""
        self.query_one("#ask-hint", Static).update(problem or _HINTS.get(name, ""))

    @property
    def said(self) -> NewSession:
        """What the fields say now."""
        return NewSession(
            agent=self.query_one("#agent", Choice).chosen,
            folder=self.query_one("#folder", Input).value.strip(),
            in_worktree=bool(self.query_one("#where", Choice).at),
            prompt=self.query_one(Words).text.strip(),
        )

    def on_input_submitted(self) -> None:
        if self._has_folder():
            self.focus_next()

    def on_words_finished(self) -> None:
        if self._has_folder():
            _ = self.dismiss(self.said)

    def _has_folder(self) -> bool:
        folder = self.said.folder
        try:
            is_there = bool(folder) and Path(folder).expanduser().is_dir()
        except (OSError, RuntimeError, ValueError):
            is_there = False
        if not is_there:
            self._problem = "there is no such folder: type one that is there"
            self.query_one("#folder").focus()
            self._hint()
        return is_there

    def action_leave(self) -> None:
        self._keep(self.said)
        _ = self.dismiss(None)


def emptied(one: NewSession) -> NewSession:
    """The same for the next session, without its prompt."""
    return replace(one, prompt="", in_worktree=False)
