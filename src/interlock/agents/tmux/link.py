"""One life of a control-mode process: a pipe that commands go into and replies and events come out of.

Laws:
1. Replies come in the order of the commands. A command whose caller has gone away still takes its reply.
2. `read` sees the replies at once, before a byte that follows is looked at. If it finds them false (`PeerFault`), the
   link ends there: nothing that came after them is believed.
3. A link ends once, with a reason. Every command that is still open then fails as `Unreachable`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from interlock.agents.tmux.control import (
    ControlEvent,
    ControlParser,
    MalformedLine,
    SessionChanged,
    TmuxExited,
    TmuxReply,
)
from interlock.agents.tmux.process import ClientProcess
from interlock.agents.tmux.server import DEADLINE_SECONDS, Command, TmuxServer, failure, spell
from interlock.vocabulary.errors import InterlockError, PeerFault, Unreachable

T = TypeVar("T")

_MAX_OPEN: Final = 4096
# Our size does not count, the person's environment is left alone (-E), and a pane that we cannot keep up with is paused
# after a second instead of being held back.
_ATTACH: Final = ("-N", "-C", "attach-session", "-E", "-f", "ignore-size,pause-after=1", "-t")

Replies = tuple[TmuxReply, ...]


@dataclass(slots=True)
class _Open(Generic[T]):
    """Commands that were sent together and are not answered yet."""

    count: int
    read: Callable[[Replies], T]
    future: asyncio.Future[T]
    replies: list[TmuxReply] = field(default_factory=list)


class ControlLink:
    """Open it with `open`. `ended` gives the reason once the link is over."""

    def __init__(self, on_event: Callable[[ControlEvent], None]) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = loop.create_future()
        self._attached: asyncio.Future[str] = loop.create_future()
        self._process: ClientProcess | None = None
        self._parser = ControlParser()
        self._on_event = on_event
        self._open: deque[_Open[object]] = deque()
        self._exit_reason = ""
        self._unwritten: list[bytes] = []

    @classmethod
    async def open(cls, server: TmuxServer, session: str, on_event: Callable[[ControlEvent], None]) -> ControlLink:
        """Attach to a session. Raises `Unreachable` if there is no tmux, no server or no such session."""
        link = cls(on_event)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                link._process = await server.spawn(*_ATTACH, session, on_data=link._receive, on_end=link._end_of_data)
                await asyncio.wait({link._attached, link.ended}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException as error:
            await link.close("given up")
            if isinstance(error, TimeoutError):
                raise Unreachable("tmux did not let us attach in time") from error
            raise
        if link.ended.done():
            await link.close("")
            raise failure(link.ended.result())
        return link

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def send(self, commands: Sequence[Command], read: Callable[[Replies], T]) -> asyncio.Future[T]:
        """Send commands as one sequence, which tmux runs without a pane moving in between."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self.ended.done() or self._process is None:
            future.set_exception(Unreachable("the connection to tmux is over"))
        elif len(self._open) >= _MAX_OPEN:
            future.set_exception(Unreachable(f"tmux has left {_MAX_OPEN} commands unanswered"))
        else:
            if not self._unwritten:
                asyncio.get_running_loop().call_soon(self._write)
            self._unwritten.append(spell(commands))
            self._open.append(_Open(len(commands), read, future))  # type: ignore[arg-type]
        return future

    def _write(self) -> None:
        """What was sent in one step of the loop goes out in one write."""
        lines, self._unwritten = self._unwritten, []
        if self._process is not None and not self.ended.done():
            self._process.write(b"".join(lines))

    async def close(self, reason: str) -> None:
        """End the link. The server and its panes live on."""
        self._finish(reason)
        if self._process is not None:
            await self._process.close()

    def _finish(self, reason: str) -> None:
        if self.ended.done():
            return
        self.ended.set_result(reason)
        for item in self._open:
            if not item.future.done():
                item.future.set_exception(Unreachable(f"the connection to tmux ended: {reason}"))

    def _receive(self, data: bytes) -> None:
        try:
            for event in self._parser.feed(data):
                if not self.ended.done():
                    self._take(event)
        except PeerFault as fault:
            self._finish(str(fault))

    def _end_of_data(self) -> None:
        said = self._process.errors if self._process else ""
        self._finish(self._exit_reason or said or "the control client ended without a word")

    def _take(self, event: ControlEvent) -> None:
        match event:
            case TmuxReply(is_ours=True):
                self._answer(event)
            case TmuxReply():
                if event.is_error and not self._attached.done():
                    self._exit_reason = event.text
            case MalformedLine():
                raise PeerFault(f"tmux sent {event.reason}: {event.excerpt!r}")
            case TmuxExited():
                self._exit_reason = self._exit_reason or event.reason or "tmux ended the control client"
            case _:
                if isinstance(event, SessionChanged) and not self._attached.done():
                    self._attached.set_result(event.session_id)
                self._on_event(event)

    def _answer(self, reply: TmuxReply) -> None:
        if not self._open:
            raise PeerFault("tmux sent a reply to nothing")
        item = self._open[0]
        item.replies.append(reply)
        # What follows a command that failed is not run.
        if len(item.replies) < item.count and not reply.is_error:
            return
        self._open.popleft()
        try:
            result = _read(item)
        except InterlockError as error:
            if not item.future.done():
                item.future.set_exception(error)
            if isinstance(error, FalseReply):
                raise
            return
        if not item.future.done():
            item.future.set_result(result)


class FalseReply(PeerFault):
    """A reply that cannot be what tmux answered, so that nothing after it can be believed either."""


def _read(item: _Open[T]) -> T:
    last = item.replies[-1]
    if last.is_error:
        raise failure(last.text)
    if any(reply.is_cut for reply in item.replies):
        raise PeerFault("a reply of tmux is too long")
    return item.read(tuple(item.replies))
