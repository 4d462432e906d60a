"""A client of one tmux session that stays: commands over an open pipe, news pushed, reconnected when the pipe breaks.

Why one client a session: tmux tells a control client of the output of one session only, the one it is attached to
(tried on 3.3a). Our own agents are windows of one session, so one client serves them all. For panes of a person there
is one client for each watched session. The other way, to link foreign windows into a hidden session of ours, would show
in the person's lists, and would keep a window alive that its owner closed with its session.

What a person notices: one more line in `list-clients`. Sizes, the current window and the environment stay as they are.

Laws:
1. Output wakes, and is not kept. What a pane shows is asked for (`capture.py`), so a flood costs no memory.
2. A program is never held back by us: a pane that nobody watches, or that writes much, is paused, which stops the news
   and not the program (`flood.py`; `off` would stop the program). A capture resumes it in the same sequence, so that no
   change falls in between.
3. When the pipe breaks while the server lives, we attach again, ever more slowly. Another server behind the same socket
   is not taken for the old one.
4. Closing leaves every pane alive.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar

from interlock.agents.tmux.control import (
    ControlEvent,
    Output,
    Paused,
    SessionChanged,
    SubscriptionChanged,
    WindowChanged,
)
from interlock.agents.tmux.flood import FloodControl
from interlock.agents.tmux.link import ControlLink, Replies
from interlock.agents.tmux.server import DEADLINE_SECONDS, Absent, Command, NoServer, TmuxServer
from interlock.vocabulary.errors import PeerFault, Unreachable

T = TypeVar("T")

_logger: Final = logging.getLogger("interlock.agents")
_BACK_OFF_SECONDS: Final = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# tmux looks at these once a second and tells us of a change: what no output says. The value itself is not used.
_SUBSCRIPTION: Final = (
    "interlock:%*:#{pane_dead}#{pane_dead_status}#{pane_dead_signal} #{pane_pid} #{alternate_on} #{pane_in_mode}"
    " #{pane_width}x#{pane_height} #{pane_title}"
)
_WHO: Final = ("display-message", "-p", "#{pid} #{start_time} #{session_id}")


class Wake(StrEnum):
    """Why a watcher of a pane is called."""

    OUTPUT = "output"  # the program wrote
    STATE = "state"  # title, death, mode or size
    PLACE = "place"  # windows of the session were resized, split, closed or moved
    DOWN = "down"  # the channel is down: nothing is known from here on
    UP = "up"  # the channel is there again: look anew
    LOST = "lost"  # the session or the server is gone, or another one


OnWake: TypeAlias = Callable[[Wake], None]


class TmuxClient:
    """Attached to one session. Make it with `attach`, use it as a context manager or `close` it."""

    def __init__(self, server: TmuxServer, session: str) -> None:
        self.server = server
        self.session = session
        self.session_id = ""
        self.commands_sent = 0
        self.is_lost = False
        self.why_down = "not attached yet"
        self._who = ""
        self._link: ControlLink | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._watchers: dict[str, list[OnWake]] = {}
        self._flood = FloodControl(
            self._send_aside, self._watchers.__contains__, lambda pane_id: self._wake(pane_id, Wake.OUTPUT)
        )

    @classmethod
    async def attach(cls, server: TmuxServer, session: str) -> TmuxClient:
        """Attach to a session, by its id or exact name. Raises `Unreachable` if that cannot be done now."""
        client = cls(server, session if session.startswith("$") else f"={session}")
        link = await client._open()
        client._keeper = asyncio.get_running_loop().create_task(client._keep(link))
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def is_up(self) -> bool:
        return self._link is not None

    async def close(self) -> None:
        """Let go of the session. Panes, session and server live on."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def ask(self, commands: Sequence[Command], read: Callable[[Replies], T]) -> T:
        """Run commands as one sequence and read their replies. `Unreachable` if there is no answer in time."""
        link = self._link
        if link is None:
            raise Unreachable(f"tmux cannot be asked: {self.why_down}")
        self.commands_sent += len(commands)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await link.send(commands, read)
        except TimeoutError as error:
            # A server that does not answer is as good as a broken pipe; the next attach says which it is.
            await link.close(f"no answer within {DEADLINE_SECONDS} s")
            raise Unreachable(f"tmux did not answer within {DEADLINE_SECONDS} s") from error

    async def command(self, *words: str) -> str:
        """Run one command and give the text of its reply."""
        return await self.ask([words], lambda replies: replies[0].text)

    async def ask_pane(self, pane_id: str, commands: Sequence[Command], read: Callable[[Replies], T]) -> T:
        """Like `ask`, for commands that look at a pane: from the moment of the look on, its news come again."""
        if not self._flood.looked_at(pane_id):
            return await self.ask(commands, read)
        resume = ("refresh-client", "-A", f"{pane_id}:continue")
        return await self.ask([resume, *commands], lambda replies: read(replies[1:]))

    def is_paused(self, pane_id: str) -> bool:
        """What the pane writes is not told of now."""
        return self._flood.is_paused(pane_id)

    def remind_of_children(self) -> None:
        """Make the server look for children that have ended. tmux 3.3a misses about one in ten until the next ends."""
        server_pid, _, _ = self._who.partition(" ")
        with suppress(ProcessLookupError, PermissionError):
            if self.is_up and server_pid.isdecimal():
                os.kill(int(server_pid), signal.SIGCHLD)

    def watch(self, pane_id: str, on_wake: OnWake) -> Callable[[], None]:
        """Be called whenever the pane may have changed; the result ends that. Begin with a capture, which arms it."""
        if self.is_lost:
            raise Unreachable(f"tmux session {self.session_id} cannot be watched: {self.why_down}")
        self._watchers.setdefault(pane_id, []).append(on_wake)

        def stop() -> None:
            watchers = self._watchers.get(pane_id, [])
            if on_wake in watchers:
                watchers.remove(on_wake)
            if not watchers:
                self._watchers.pop(pane_id, None)

        return stop

    async def _open(self) -> ControlLink:
        link = await ControlLink.open(self.server, self.session, self._hear)
        self._flood.clear()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                subscribe = ("refresh-client", "-B", _SUBSCRIPTION)
                who = await link.send([subscribe, _WHO], lambda replies: replies[1].text)
        except BaseException:
            await link.close("given up")
            raise
        if self._who and who != self._who:
            await link.close("another server")
            raise NoServer("the tmux server is gone, and another one answers in its place")
        self._who = who
        self.session_id = self.session = who.rpartition(" ")[2]
        self._link = link
        return link

    async def _keep(self, link: ControlLink) -> None:
        try:
            while True:
                self.why_down = await asyncio.shield(link.ended)
                self._link = None
                await link.close(self.why_down)
                self._wake_all(Wake.DOWN)
                link = await self._reopen()
                self._wake_all(Wake.UP)
        except Exception as error:
            if not isinstance(error, NoServer | Absent):
                _logger.error("the connection to tmux failed, and is not opened again", exc_info=error)
            self.why_down = str(error) or type(error).__name__
            self.is_lost = True
            self._wake_all(Wake.LOST)
        finally:
            self._link = None
            self.is_lost = True
            self._flood.clear()
            await link.close("closed")

    async def _reopen(self) -> ControlLink:
        attempt = 0
        while True:
            await asyncio.sleep(_BACK_OFF_SECONDS[min(attempt, len(_BACK_OFF_SECONDS) - 1)])
            try:
                return await self._open()
            except (NoServer, Absent):
                raise
            except (Unreachable, PeerFault, TimeoutError, OSError) as error:
                self.why_down = str(error) or "attaching took too long"
            attempt += 1

    def _hear(self, event: ControlEvent) -> None:
        match event:
            case Output():
                self._flood.heard(event.pane_id, len(event.escaped))
                self._wake(event.pane_id, Wake.OUTPUT)
            case Paused():
                self._flood.was_paused(event.pane_id)
                self._wake(event.pane_id, Wake.OUTPUT)
            case SubscriptionChanged():
                self._wake(event.pane_id, Wake.STATE)
            case WindowChanged():
                self._wake_all(Wake.PLACE)
            case SessionChanged() if self.session_id and event.session_id != self.session_id:
                # Our session was destroyed and the person's settings moved us into another one: that is not ours.
                raise PeerFault(f"tmux moved us to session {event.session_id}")
            case _:
                return

    def _send_aside(self, command: Command, then: Callable[[], None]) -> None:
        """Send a command that nobody waits for."""
        if self._link is not None:
            self.commands_sent += 1
            self._link.send([command], lambda _: then()).add_done_callback(_ignore)

    def _wake(self, pane_id: str, wake: Wake) -> None:
        for on_wake in tuple(self._watchers.get(pane_id, ())):
            on_wake(wake)

    def _wake_all(self, wake: Wake) -> None:
        for pane_id in tuple(self._watchers):
            self._wake(pane_id, wake)


def _ignore(done: asyncio.Future[None]) -> None:
    """A pane that could not be paused or resumed is gone, or the link is; both are told elsewhere."""
    if not done.cancelled():
        done.exception()
