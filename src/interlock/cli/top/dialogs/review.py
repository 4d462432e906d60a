"""The review page of the board: what a turn did to the files, one file at a time, and what is to become of it.

Laws:
1. A key acts on the file that is marked on the screen, in the turn that is shown.
2. What was done is told by the server, and asked for again: nothing is drawn as reviewed that is not.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from interlock.cli.tables import Line, Tone
from interlock.cli.top import actions as deeds
from interlock.cli.top.actions import ActionMessage
from interlock.cli.top.dialogs.panels import AskWords, Sure
from interlock.cli.top.layout import changes
from interlock.cli.top.panes import EvidencePane, Sheet
from interlock.client.task import TaskHandle
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.wire.workspace import FileDiff, ReviewAct, ReviewedFile, TaskDiff

_MARGIN: Final = 4
_KEYS: Final = {
    "a": "accept",
    "s": "send back",
    "x": "discard",
    "[ ]": "turn",
    "up/down": "file",
    "pgup/pgdn": "patch",
    "esc": "close",
}
_HINT: Final = Content.assemble(
    *(piece for key, does in _KEYS.items() for piece in ((key, "bold $accent"), f" {does}  "))
)
_SAID_LINES: Final = 3


class ReviewScreen(ModalScreen[None]):
    """The files of one turn, and the patch of the one that is marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,D", "close", show=False),
        Binding("up,k", "choose(-1)", show=False),
        Binding("down,j", "choose(1)", show=False),
        Binding("left_square_bracket", "turn(-1)", show=False),
        Binding("right_square_bracket", "turn(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
        Binding("a", "accept", show=False),
        Binding("s", "send_back", show=False),
        Binding("x", "discard", show=False),
        Binding("f5", "refresh", show=False),
        Binding("ctrl+c", "app.quit_board", show=False, priority=True),
    ]

    def __init__(self, called: str, handle: TaskHandle) -> None:
        super().__init__()
        self._called = called
        self._handle = handle
        self.told: TaskDiff | None = None
        self.patches: dict[tuple[TurnId, str], TaskDiff] = {}
        self._at = 0
        self._said: ActionMessage | None = ActionMessage("asking", Tone.FAINT)
        self._drafts: dict[tuple[TurnId, str], str] = {}

    def compose(self) -> ComposeResult:
        yield Sheet(id="review-title")
        yield Sheet(id="review-doubts")
        yield EvidencePane(id="review-files")
        yield EvidencePane(id="review-patch")
        yield Sheet(id="review-said")
        yield Static(_HINT, id="review-hint")

    def on_mount(self) -> None:
        self.query_one("#review-patch", EvidencePane).focus()
        self._load(None)

    def on_resize(self) -> None:
        self._draw()

    # What is known

    @property
    def file(self) -> FileDiff | None:
        """The file that is marked."""
        files = () if self.told is None else self.told.files
        return files[min(self._at, len(files) - 1)] if files else None

    @property
    def _is_open(self) -> bool:
        """Whether there is something to draw on: an answer may come after the dialog was closed."""
        return self.is_mounted and self in self.app.screen_stack

    def _load(self, turn: int | None) -> None:
        self.run_worker(self._ask(turn), group="review", exclusive=True)

    async def _ask(self, turn: int | None) -> None:
        marked = self.file
        try:
            told = await self._handle.diff(turn, is_stat=True)
        except InterlockError as trouble:
            self._say(ActionMessage(f"this could not be asked: {trouble}", Tone.DOUBTFUL))
            return
        if self.told is None or self.told.turn_id != told.turn_id:
            self._at = 0
        elif marked is not None:
            self._at = next((at for at, one in enumerate(told.files) if one.path == marked.path), self._at)
        self.told = told
        if self._said is not None and self._said.tone is Tone.FAINT:
            self._said = None
        self._draw()
        await self._ask_patch()

    async def _ask_patch(self) -> None:
        told, file = self.told, self.file
        if told is None or file is None or (told.turn_id, file.path) in self.patches:
            return
        try:
            self.patches[told.turn_id, file.path] = await self._handle.diff(told.turn_id, path=file.path)
        except InterlockError as trouble:
            self._say(ActionMessage(f"its patch could not be asked: {trouble}", Tone.DOUBTFUL))
        self._draw()

    # What is drawn

    def _draw(self) -> None:
        if not self._is_open:
            return
        width = max(20, self.size.width - _MARGIN)
        said = () if self._said is None else changes.sentence_lines(self._said.text, width, self._said.tone)
        self.query_one("#review-said", Sheet).show(said[:_SAID_LINES])
        if self.told is None:
            return
        self.query_one("#review-title", Sheet).show([changes.title_line(self._called, self.told)])
        self.query_one("#review-doubts", Sheet).show(changes.doubt_lines(self.told, width))
        files = self.query_one("#review-files", EvidencePane)
        lines = changes.file_lines(self.told, self._at, width)
        files.styles.height = max(1, min(len(lines), self.size.height // 3))
        files.show(lines)
        self._reveal(files)
        self.query_one("#review-patch", EvidencePane).show(self._patch(width))

    def _reveal(self, files: EvidencePane) -> None:
        height, top = max(1, min(len(files.lines), self.size.height // 3)), files.scroll_offset.y
        if self._at < top or self._at >= top + height:
            target = self._at if self._at < top else self._at - height + 1
            files.scroll_to(y=target, animate=False, force=True, immediate=True)

    def _patch(self, width: int) -> list[Line]:
        told, file = self.told, self.file
        if told is None or file is None:
            return []
        known = self.patches.get((told.turn_id, file.path))
        return [] if known is None else changes.patch_lines(known, width)

    def _say(self, said: ActionMessage) -> None:
        self._said = said
        self._draw()

    # Keys: looking

    def action_close(self) -> None:
        _ = self.dismiss(None)

    def action_choose(self, by: int) -> None:
        if self.told is None or not self.told.files:
            return
        self._at = min(max(0, self._at + by), len(self.told.files) - 1)
        self._said = None
        self.query_one("#review-patch", EvidencePane).edge(-1)
        self._draw()
        self.run_worker(self._ask_patch(), group="patch", exclusive=True)

    def action_turn(self, by: int) -> None:
        if self.told is None:
            return
        wanted = self.told.number + by
        if 1 <= wanted <= self.told.turns:
            self._said = None
            self._load(wanted)
        else:
            self._say(ActionMessage("there is no turn before this one" if by < 0 else "this is the newest turn"))

    def action_page(self, direction: int) -> None:
        patch = self.query_one("#review-patch", EvidencePane)
        patch.move(direction * patch.page)

    def action_edge(self, direction: int) -> None:
        self.query_one("#review-patch", EvidencePane).edge(direction)

    def action_refresh(self) -> None:
        self._load(None if self.told is None else self.told.number)

    # Keys: doing

    def action_accept(self) -> None:
        marked = self._marked()
        if marked is not None:
            self._do(marked, ReviewAct.ACCEPT)

    def action_send_back(self) -> None:
        marked = self._marked()
        if marked is None:
            return
        draft = self._drafts.get(marked, "")

        def keep(text: str) -> None:
            self._drafts[marked] = text

        def send(text: str | None) -> None:
            if text is not None and text.strip():
                keep(text)
                self._do(marked, ReviewAct.SEND_BACK, text)

        _ = self.app.push_screen(AskWords(f"{marked[1]}: what is to change?", (), draft, keep), send)

    def action_discard(self) -> None:
        marked = self._marked()
        if marked is None or self.told is None:
            return
        number = self.told.number

        def go(is_sure: bool | None) -> None:
            if is_sure:
                self._do(marked, ReviewAct.DISCARD)
            else:
                self._say(ActionMessage("cancelled"))

        asked = f"{marked[1]}: put it back to what it was before turn {number}? The repository keeps what is discarded."
        _ = self.app.push_screen(Sure(asked), go)

    def _marked(self) -> tuple[TurnId, str] | None:
        if self.told is None or self.file is None:
            self._say(ActionMessage("there is no file to review here", Tone.DOUBTFUL))
            return None
        return self.told.turn_id, self.file.path

    def _do(self, marked: tuple[TurnId, str], act: ReviewAct, comment: str = "") -> None:
        self.run_worker(self._carry_out(marked, act, comment), group="deeds")

    async def _carry_out(self, marked: tuple[TurnId, str], act: ReviewAct, comment: str) -> None:
        turn_id, path = marked
        self._say(await deeds.told(self._reviewed(self._handle.review_file(turn_id, path, act, comment=comment))))
        if self._is_open:
            self._load(None if self.told is None else self.told.number)

    async def _reviewed(self, work: Coroutine[None, None, ReviewedFile]) -> ActionMessage:
        done = await work
        self._drafts.pop((done.turn_id, done.path), None)
        return deeds.reviewed(done)
