"""How requests are read off a connection: uvicorn's own way, within bounds that it does not set.

Laws:
1. The head of a request has at most so many bytes and so many lines, also while a line has no end.
2. A head comes within `head_seconds`, and a body within `body_seconds`, or the connection ends.
3. So does it where the peer does not read what it is sent.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from interlock.server.live.write_watch import WriteWatch
from interlock.server.settings import ServerSettings

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 100


class HeadTooLarge(Exception):
    """The parser ends on this, and uvicorn answers 400."""


class BoundedHttp(HttpToolsProtocol):
    """One connection."""

    head_seconds: ClassVar[float] = 10.0
    body_seconds: ClassVar[float] = 30.0
    look_seconds: ClassVar[float] = 20.0

    _head_bytes = 0
    _stuck_bytes = 0
    _is_in_head = True
    _timer: asyncio.TimerHandle | None = None
    _watch: WriteWatch | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch = WriteWatch(transport, self.look_seconds)
        self._arm(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._let_go()  # another protocol has the connection from now on, and its own watch
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        if self._watch is not None:
            self._watch.pause()
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._watch is not None:
            self._watch.resume()
        super().resume_writing()

    def _let_go(self) -> None:
        self._arm(None)
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def data_received(self, data: bytes) -> None:
        self._stuck_bytes += len(data) if self._is_in_head else 0
        super().data_received(data)
        if self._is_in_head and self._stuck_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        self._is_in_head, self._head_bytes, self._stuck_bytes = True, 0, 0
        self._arm(self.head_seconds)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            raise HeadTooLarge

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._arm(None if self.parser.should_upgrade() else self.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arm(None)
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        self._stuck_bytes = 0
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge

    def _arm(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


def http_protocol(settings: ServerSettings) -> type[BoundedHttp]:
    """The protocol for one server."""

    class Configured(BoundedHttp):
        head_seconds = settings.hello_seconds
        body_seconds = settings.command_seconds
        look_seconds = settings.heartbeat_seconds

    return Configured
