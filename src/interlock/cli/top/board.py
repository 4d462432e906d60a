"""The board itself: what is known, what is selected, and when to draw. What its keys do to a session is in `app`.

Laws:
1. What is drawn is what is known. Without a connection it is called the last known, and is faint.
2. At most one redraw a frame, whatever comes; without news one a second, for what ticks. Whatever has another size
   than it was drawn for is drawn again in the next frame.
3. The selection is a session, not a row. A key acts on what is on the screen, and an answer goes only to a question
   that has been there for `grace_seconds`: what appears under a finger is not answered by it.
4. Leaving changes nothing but the screen: agents go on.
5. Nothing is begun once it leaves: what a timer or a late line would do then, it does not do.
6. No key is lost: one that is pressed before the sessions are known, or before a dialog stands, waits for that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.geometry import Size
from textual.timer import Timer
from textual.widgets import Footer
from textual.worker import Worker

from interlock.cli.look.session_lines import shown_of
from interlock.cli.tables import Tone
from interlock.cli.top import actions as deeds
from interlock.cli.top import drawing
from interlock.cli.top.actions import ActionMessage
from interlock.cli.top.dialogs.search import AskSearch
from interlock.cli.top.following import FRAME_SECONDS, RETRY_SECONDS, Selected, Sessions, WantedPlace
from interlock.cli.top.key_queue import KeyQueue, Typed
from interlock.cli.top.keys import KEYS
from interlock.cli.top.layout.questions import body_of, can_approve, can_deny, can_reply
from interlock.cli.top.layout.session_list import Arranged, Order, arrange, name_of
from interlock.cli.top.layout.wrapping import cut
from interlock.cli.top.panes import EvidencePane, QuestionsPane, Scrolled, SessionList, Sheet, Transcript
from interlock.cli.top.screening import EvidenceFeed, ScreenFeed
from interlock.cli.top.terminal import TerminalPane
from interlock.cli.top.themes import DARK, LIGHT
from interlock.client.client import Client
from interlock.client.task import TaskHandle
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.wire.resources import SearchHit, SearchPage

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import ApprovalJson, TaskSummaryJson

WIDE: Final = 100
THREE_PANES: Final = 180
OPEN_SECONDS: Final = 0.08
GRACE_SECONDS: Final = 0.4
TICK_SECONDS: Final = 1.0
SEEN_SECONDS: Final = 1.0
_NAME: Final = 40
TERMINAL: Final = "terminal"
# What needs no session, and is done at once.
_OF_THE_BOARD: Final = frozenset({"quit_board", "help", "theme", "refresh", "suspend_process"})
_OF_A_SESSION: Final = ("send", "why", "next_need")
_CAN: Final = {"approve": can_approve, "deny": can_deny, "reply": can_reply}


def _bindings() -> list[BindingType]:
    found: list[BindingType] = []
    for _, keys in KEYS:
        for key in keys:
            if key.action == "choose":
                found += [Binding(digit, f"choose({digit})", show=False) for digit in key.keys.split(",")]
                continue
            found.append(Binding(key.keys, key.action, key.label, show=bool(key.label), key_display=key.shown))
            if key.action in _CAN:
                found.append(Binding(key.keys, "unasked", show=False))  # no key does nothing without a word
            if key.action in (*_OF_A_SESSION, "terminal"):
                found.append(Binding(key.keys, "unavailable", show=False))
    found.append(Binding("ctrl+c", "quit_board", show=False, priority=True))
    found.append(Binding("ctrl+z", "suspend_process", show=False))
    return found


def _actions() -> dict[str, tuple[str, ...]]:
    """What each key does, while nothing is over the board."""
    found: dict[str, tuple[str, ...]] = {}
    for binding in Binding.make_bindings(_bindings()):
        found[binding.key] = (*found.get(binding.key, ()), binding.action)
    return found


_ACTIONS: Final = _actions()


def _end_without_terminal(*_: object) -> None:
    """End at once where the terminal is gone. Textual's threads would read its end for ever, and its writer, which died
    of it, would hold up whoever draws. Nothing is lost: the board keeps nothing that is not on disk."""
    os._exit(128 + signal.SIGHUP)


class BoardApp(App[int]):
    """A board over a client, which it closes at its end."""

    TITLE = "interlock top"
    CSS_PATH = "styles.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide"), (THREE_PANES, "-triple")]  # noqa: RUF012  # so it is declared there
    BINDINGS: ClassVar[list[BindingType]] = _bindings()

    def __init__(
        self,
        client: Client,
        *,
        is_light: bool = False,
        grace_seconds: float = GRACE_SECONDS,
        handles_signals: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        first: str = "",
    ) -> None:
        """`first`: the session that is selected at first, also one that ended."""
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = LIGHT.name if is_light else DARK.name
        self.client = client
        self.clock = clock
        self.grace_seconds = grace_seconds
        self.sessions = Sessions(client)
        self.selected: Selected | None = None
        self.selected_id = ""
        self.arranged = Arranged()
        self.wanted = ""
        self.every = False
        self.order = Order.ATTENTION
        self.agents = deeds.installed_agents()
        self.said: ActionMessage | None = None
        self.question_at = 0
        self._question_key = ("", "")
        self._question_since = 0.0
        self._looked_at = ("", "")
        self._looked_since = 0.0
        self._is_left_alone = False
        self._handles_signals = handles_signals
        self._is_dirty = True
        self._arranged_at = -1
        self._drawn_at = 0.0
        self._drawn_for: tuple[Size, ...] = ()
        self._able: tuple[bool, ...] = ()
        self._opening: Timer | None = None
        self._wants_terminal = True
        self.is_zoomed = False
        self._looking: Worker[None] | None = None
        self.screen_feed: ScreenFeed | None = None
        self.evidence_feed: EvidenceFeed | None = None
        self._asking_why: Worker[None] | None = None
        self.parts: drawing.Parts | None = None
        self.redraws = 0
        self._is_unmounted = False
        self._first = first
        self._typed = KeyQueue(time.monotonic)
        self._wanted_place: WantedPlace | None = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own names of colours, for a theme that does not know them."""
        return DARK.variables

    def compose(self) -> ComposeResult:
        yield Sheet(id="bar")
        yield Sheet(id="banner")
        with Container(id="body"):
            yield SessionList(id="list")
            with Container(id="detail"):
                yield Sheet(id="facts")
                yield Transcript(id="transcript")
                yield TerminalPane(id="terminal")
                yield QuestionsPane(id="questions")
            yield EvidencePane(id="evidence")
        yield Sheet(id="notice")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.parts = drawing.find_parts(self.screen)
        self.parts.board.focus()
        self.run_worker(self.sessions.follow(), group="feed")
        self.run_worker(self.sessions.list_all(), group="feed")
        self.run_worker(self.sessions.watch_log(), group="feed")
        self.set_interval(FRAME_SECONDS, self._frame)
        if self._handles_signals:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.exit, 0)
            signal.signal(signal.SIGHUP, _end_without_terminal)

    async def on_unmount(self) -> None:
        self._is_unmounted = True
        if self._opening is not None:
            self._opening.stop()
        self.workers.cancel_all()
        await self.client.close()

    @property
    def is_leaving(self) -> bool:
        """Whether the board goes away. Its screens are taken down before it hears of that, and its clock ticks on."""
        return self._is_unmounted or not self.screen_stack

    # Keys, in their order

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, (events.Key, events.Paste, events.MouseEvent)):
            self._is_left_alone = False
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            self._typed.put(event)
            await self._take_typed()
        else:
            await super().on_event(event)

    async def _take_typed(self) -> None:
        """Take up what was typed, as far as what it is for is there."""
        while (typed := self._typed.take(self._may_take)) is not None:
            if isinstance(typed, events.Key) and self._is_on_board and await self._act(typed.key):
                continue
            way = () if self.is_leaving else tuple((self.focused or self.screen).ancestors_with_self)
            await super().on_event(typed)
            if way:
                self._typed.hold_until_handled(way, lambda: self.call_later(self._take_typed))

    async def _act(self, key: str) -> bool:
        """Do at once what a key does on the board: what comes behind it may be for a dialog that it opens."""
        for action in _ACTIONS.get(key, ()):
            if await self.run_action(action):
                return True
        return False

    @property
    def _is_on_board(self) -> bool:
        return self.parts is not None and self.screen is self.parts.screen

    def _may_take(self, typed: Typed) -> bool:
        if self.is_leaving:
            return True
        if not self._is_on_board:
            return self.screen.AUTO_FOCUS == "" or self.focused is not None
        actions = _ACTIONS.get(typed.key, ()) if isinstance(typed, events.Key) else ()
        is_of_board = any(action in _OF_THE_BOARD for action in actions)
        is_known = self.sessions.has_list and self._arranged_at == self.sessions.changes
        return is_of_board or not actions or bool(self.selected_id) or is_known

    # Drawing

    def mark(self) -> None:
        """There is something new to draw."""
        self._is_dirty = True

    def _frame(self) -> None:
        if self.is_leaving:
            return
        if self._handles_signals and not os.isatty(sys.__stdout__.fileno() if sys.__stdout__ else -1):
            _end_without_terminal()
        now, tick = self.clock(), asyncio.get_running_loop().time()
        is_second = tick - self._drawn_at >= TICK_SECONDS
        is_new = self.sessions.look(now) or self.sessions.changes != self._arranged_at
        if is_new:
            self._rearrange()
        self._heed_look(tick)
        room = () if self.parts is None else self.parts.room
        if self._is_dirty or is_second or room != self._drawn_for:
            self._is_dirty, self._drawn_at, self._drawn_for = False, tick, room
            self.draw(self.sessions.lost_at or now)
        if self._typed.is_waiting:
            self.call_later(self._take_typed)
        if count := self._typed.let_go():
            keys = "1 key was" if count == 1 else f"{count} keys were"
            self.say(ActionMessage(f"{keys} let go: no session is known yet", Tone.DOUBTFUL))

    def select_when_known(self, task_id: str) -> None:
        """Select a session, also one that the list does not have yet."""
        self._first = task_id
        self._rearrange()

    def _rearrange(self) -> None:
        self._arranged_at = self.sessions.changes
        first = self.sessions.bodies.get(self._first)
        self.every = self.every or (first is not None and shown_of(first).is_over)
        before = self.arranged.ids
        self.arranged = arrange(self.sessions.bodies.values(), wanted=self.wanted, every=self.every, order=self.order)
        ids, said = self.arranged.ids, self.said
        if self._first in ids:
            self.select(self._first)
            self._first = ""
        if self.selected_id not in ids:
            self._is_left_alone = bool(self.selected_id)
            self.select(self._next_of(before))
        self.said = said  # what was done is still to be read, whatever it did to the list
        self.mark()

    def _next_of(self, before: Sequence[str]) -> str:
        """What is selected in place of a session that left the list: the one that was below it, else the one above.
        Where a search narrows the list, its first."""
        at = before.index(self.selected_id) if self.selected_id in before and not self.wanted else len(before)
        near = (*before[at:], *reversed(before[:at])) if at < len(before) else ()
        ids = self.arranged.ids
        return next((one for one in (*near, *ids) if one in ids), "")

    def draw(self, now: datetime) -> None:
        """Show what is known, as of a moment."""
        self.redraws += 1
        self._heed_terminal()
        self._heed_evidence()
        if self.parts is not None:
            drawing.draw(self, self.parts, now)
            self._heed_place(self.parts.transcript)
        self._heed_question()
        answers = tuple(self.can_answer(how) for how in _CAN)
        able = (*answers, bool(self.selected_id), self.has_terminal)
        if able != self._able:
            self._able = able
            self.refresh_bindings()

    def _heed_look(self, tick: float) -> None:
        """What was selected for a moment, with its end on the screen, was seen. What the board selected in the place of
        a session that went away was not, before a person does something: nobody may be there."""
        line = self.line
        badge = None if line is None else line.get("badge")
        is_searching = isinstance(self.screen, AskSearch)  # which selects what its words leave, of its own accord
        is_shown = self.selected is not None and self.sessions.is_connected and not is_searching
        if line is None or badge is None or badge["is_seen"] or not is_shown or self._is_left_alone:
            self._looked_at = ("", "")
            return
        looked = (self.selected_id, str(line.get("turn_id") or ""))
        if looked != self._looked_at:
            self._looked_at, self._looked_since = looked, tick
        elif self._looked_since + SEEN_SECONDS <= tick:
            self._looked_since = tick + RETRY_SECONDS  # if it could not be marked, it is tried again then
            self.mark_seen()

    def mark_seen(self) -> None:
        """Tell the server that the end of the selected session's turn was looked at."""
        chosen, line = self.chosen(), self.line
        if chosen is not None and line is not None and line.get("turn_id"):
            self.run_worker(_mark_seen(chosen.handle, TurnId(str(line["turn_id"]))), group="seen")

    def _heed_place(self, transcript: Transcript) -> None:
        """Go to the message that was searched for, as soon as what is here reaches back to it."""
        wanted, chosen = self._wanted_place, self.selected
        if wanted is None or chosen is None or chosen.task_id != wanted.task_id:
            self._wanted_place = None
        elif transcript.display and chosen.messages:
            if wanted.is_reached(chosen):
                self._wanted_place = None
                transcript.go_to(wanted.seq)
                transcript.focus()
            elif not chosen.is_loading:
                self.run_worker(chosen.load_older(), group="older")

    def _heed_question(self) -> None:
        """Note since when the question that is shown is shown."""
        if self._asked_key != self._question_key:
            self._question_key, self._question_since = self._asked_key, asyncio.get_running_loop().time()

    @property
    def is_ripe(self) -> bool:
        """Whether the question was on the screen long enough to be meant."""
        stood_seconds = asyncio.get_running_loop().time() - self._question_since
        return self._asked_key == self._question_key and stood_seconds >= self.grace_seconds

    @property
    def _asked_key(self) -> tuple[str, str]:
        asked = self.question
        return self.selected_id, "" if asked is None else str(asked["approval_id"])

    # What is selected

    @property
    def line(self) -> TaskSummaryJson | None:
        """The line of the selected session."""
        return self.sessions.bodies.get(self.selected_id)

    @property
    def questions(self) -> list[ApprovalJson]:
        """What the selected session asks, with what was answered and is not over yet."""
        chosen = self.selected
        if chosen is None or chosen.state is None or chosen.task_id != self.selected_id:
            return []
        return [body_of(one) for one in chosen.state.approvals if one.state != "closed"]

    @property
    def question(self) -> ApprovalJson | None:
        """The one that is shown."""
        asked = self.questions
        return asked[min(self.question_at, len(asked) - 1)] if asked else None

    @property
    def called(self) -> str:
        """The name of the selected session, short enough to leave room for what is said of it."""
        return cut(self.selected_id if self.line is None else name_of(self.line, self.arranged.shorts), _NAME)

    def can_answer(self, how: str) -> bool:
        """Whether that key would answer the question that is shown."""
        asked = self.question if self.sessions.is_connected else None
        return asked is not None and asked["state"] == "open" and _CAN[how](asked)

    def select(self, task_id: str) -> None:
        """Look at another session. Its room is joined when the choice has stood for a moment."""
        if task_id == self.selected_id:
            return
        self.selected_id, self.question_at, self.said = task_id, 0, None
        if self._opening is not None:
            self._opening.stop()
        if self.selected is not None:
            self.selected.close()
            self.selected = None
        self._heed_terminal()
        if self.parts is not None:
            self.parts.transcript.begin(task_id)
            self.parts.terminal.begin()
        self._opening = self.set_timer(OPEN_SECONDS, self._open) if task_id else None
        self.mark()

    def chosen(self) -> Selected | None:
        """The selected session, joined at once if that was still to come: a key is never lost."""
        if self.selected is None and self.selected_id:
            self._open()
        return self.selected

    def _open(self) -> None:
        if self._opening is not None:
            self._opening.stop()
        self._opening = None
        if self.is_leaving or not self.selected_id:
            return
        self.selected = Selected(self.client, self.selected_id, self.mark)
        self.run_worker(self.selected.follow(), group="selected")
        self._heed_terminal()

    @property
    def has_terminal(self) -> bool:
        """Whether the selected session's agent is one that has a terminal."""
        return self.line is not None and self.line.get("driver") == TERMINAL

    def _heed_terminal(self) -> None:
        """Ask for the terminal while it is to be shown, and no longer."""
        is_wanted = self._wants_terminal and self.has_terminal and self.selected is not None
        if is_wanted == (self.screen_feed is not None):
            return
        if self._looking is not None:
            self._looking.cancel()
        self._looking, self.screen_feed = None, None
        if self.selected is not None and is_wanted:
            self.screen_feed = ScreenFeed(self.selected.handle, self.mark)
            self._looking = self.run_worker(self.screen_feed.follow(), group="screen")
        self.mark()

    def _heed_evidence(self) -> None:
        """Ask for the chain of evidence while there is room for it, and no longer."""
        is_wanted = self.screen.has_class("-triple") and self.selected is not None and not self.is_zoomed
        known = self.evidence_feed
        if is_wanted == (known is not None) and (known is None or known.task_id == self.selected_id):
            return
        if self._asking_why is not None:
            self._asking_why.cancel()
        self._asking_why, self.evidence_feed = None, None
        if self.selected is not None and is_wanted:
            self.evidence_feed = EvidenceFeed(self.selected.handle, self.selected_id, self.mark)
            self._asking_why = self.run_worker(self.evidence_feed.follow(), group="evidence")

    def on_resize(self) -> None:
        self.mark()

    def on_session_list_picked(self, picked: SessionList.Picked) -> None:
        self.select(picked.task_id)

    def on_transcript_wants_older(self) -> None:
        if self.selected is not None and self.selected.has_older:
            self.run_worker(self.selected.load_older(), group="older")

    # Keys: looking

    @property
    def read(self) -> Scrolled | None:
        """What is read: the transcript or the terminal, if one of them has the focus."""
        panes: tuple[Scrolled, ...] = () if self.parts is None else (self.parts.transcript, self.parts.terminal)
        return next((pane for pane in panes if pane.has_focus), None)

    def action_move(self, by: int) -> None:
        if self.read is not None:
            self.read.move(by)
            return
        ids = self.arranged.ids
        if ids:
            at = ids.index(self.selected_id) if self.selected_id in ids else 0
            self.select(ids[min(max(0, at + by), len(ids) - 1)])

    def action_page(self, direction: int) -> None:
        if self.read is not None:
            self.read.move(direction * self.read.page)
        else:
            self.action_move(direction * self.query_one(SessionList).page)

    def action_edge(self, direction: int) -> None:
        if self.read is not None:
            self.read.edge(direction)
        else:
            self.action_move(direction * len(self.arranged.tasks))

    def action_terminal(self) -> None:
        """Its terminal in place of the transcript, or the other way round."""
        self._wants_terminal = not self._wants_terminal
        _ = self.chosen()
        self._heed_terminal()

    def action_pan(self, cells: int) -> None:
        if self.parts is not None and self.screen_feed is not None:
            self.parts.terminal.pan(cells)

    def action_zoom(self) -> None:
        """All the room for what is read. The list is what has no room then."""
        if self.parts is None or not self.selected_id:
            return
        self.is_zoomed = not self.is_zoomed
        if self.is_zoomed:
            (self.parts.transcript if self.screen_feed is None else self.parts.terminal).focus()
        self.mark()

    def action_next_need(self) -> None:
        """The next session below that needs a person, and then from the first on."""
        ids = [str(task["task_id"]) for task in self.arranged.tasks if shown_of(task).needs_person]
        if not ids:
            self.say(ActionMessage("no agent is waiting for you"))
            return
        at = ids.index(self.selected_id) if self.selected_id in ids else -1
        self.select(ids[(at + 1) % len(ids)])

    def action_filter(self) -> None:
        before = self.selected_id

        def go(hit: SearchHit | None) -> None:
            if hit is not None:
                self.go_to_message(hit)
            elif not self.wanted and before in self.arranged.ids:
                self.select(before)

        _ = self.push_screen(AskSearch(self.wanted, self.set_filter, self._find), go)

    async def _find(self, words: str) -> SearchPage:
        return await self.client.search(words)

    def go_to_message(self, hit: SearchHit) -> None:
        """Select the session of a message, and show its transcript there."""
        task_id = str(hit.task_id)
        known = self.sessions.bodies.get(task_id)
        if known is None:
            self.say(ActionMessage(f"not on the board: interlock show {task_id}", Tone.DOUBTFUL))
            return
        self.every = self.every or shown_of(known).is_over
        _ = self.set_filter("")
        self.select(task_id)
        self._wants_terminal = False
        self._wanted_place = WantedPlace(task_id, int(hit.seq))
        _ = self.chosen()
        self._heed_terminal()

    def set_filter(self, wanted: str) -> tuple[int, int]:
        """Show only what matches: how many do, of how many."""
        self.wanted = wanted
        self._rearrange()
        known = len(self.sessions.bodies)
        return known - self.arranged.unmatched, known

    def action_order(self, wanted: str) -> None:
        """Arrange the list by this, or by attention again."""
        order = Order(wanted)
        self.order = Order.ATTENTION if self.order is order else order
        self._rearrange()
        words = {Order.FOLDER: "grouped by folder", Order.TREE: "copies stand under their parents"}
        self.say(ActionMessage(words.get(self.order, "those that need you first")))

    def action_ended(self) -> None:
        self.every = not self.every
        self._rearrange()

    def action_clear(self) -> None:
        self.said = None
        _ = self.set_filter("")

    def action_question(self, by: int) -> None:
        count = len(self.questions)
        if count:
            self.question_at = (self.question_at + by) % count
            self.mark()

    def action_theme(self) -> None:
        self.theme = DARK.name if self.theme == LIGHT.name else LIGHT.name

    def action_refresh(self) -> None:
        self.say(ActionMessage("looking again"))
        self.sessions.try_again()

    def action_quit_board(self) -> None:
        self.exit(0)

    # Doing

    def say(self, said: ActionMessage) -> None:
        """One line above the keys, until the next."""
        self.said = said
        self.mark()

    def start(self, deed: Coroutine[None, None, ActionMessage]) -> None:
        """Do something, and say what came of it."""

        async def work() -> None:
            self.say(await deeds.told(deed))

        self.run_worker(work(), group="deeds")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that would do nothing are not offered."""
        if action in ("approve", "deny", "reply"):
            return self.can_answer(action)
        if action in _OF_A_SESSION:
            return bool(self.selected_id)
        if action == "terminal":
            return self.has_terminal
        return True


async def _mark_seen(handle: TaskHandle, turn_id: TurnId) -> None:
    with suppress(InterlockError):  # an observer only looks; and what is away says so elsewhere
        await handle.mark_seen(turn_id)
