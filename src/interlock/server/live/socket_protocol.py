"""How sockets are written to: uvicorn's own way, within bounds that it does not set, and without its detours.

Laws:
1. A peer that does not read is cut off, also while its connection closes: nothing waits for it for ever.
2. Of the pongs that a peer does not take, the last ones wait, and no more.
3. A message has at most so many fragments, also where they are empty.
4. A peer that answers no ping for a heartbeat is let go, with 4008. A pong is a sign of life, and enough of one.
5. What waits for one peer goes out in one write. A frame is the same bytes for everybody: nothing is encoded again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Protocol, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.protocol import State

from interlock.server.live.write_watch import WriteWatch

MAX_FRAGMENTS: Final = 1_024
TOO_BIG: Final = 1009
SILENT: Final = 4008
WIRE: Final = "interlock.wire"
_LOOK_SECONDS: Final = 20.0


class SocketWire(Protocol):
    """What an application finds under `WIRE` among the extensions of its scope, once it has accepted the socket."""

    @property
    def is_free(self) -> bool:
        """Whether `write_texts` would send at once, and before nobody who waits."""
        ...

    def write_texts(self, texts: Iterable[bytes]) -> None:
        """Send messages on a free wire."""
        ...

    async def send_texts(self, texts: Iterable[bytes]) -> None:
        """Send messages, when there is place for more. `OSError`: the peer is gone."""
        ...


class BoundedSocket(WebSocketsSansIOProtocol):
    """One connection."""

    _write_watch: WriteWatch
    _pong = b""
    _is_sending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._write_watch = WriteWatch(cast("asyncio.Transport", transport), self.ping_interval or _LOOK_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._write_watch.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_watch.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_watch.resume()
        if self._pong and self._is_open:
            self.transport.write(self._pong)
        self._pong = b""

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401 (uvicorn's own type differs between versions)
        super().handle_connect(event)
        if self.response.status_code == 101:
            cast("dict[str, Any]", self.scope["extensions"])[WIRE] = self

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            self._pong = b"".join(self.conn.data_to_send()) or self._pong

    def keepalive_timeout(self) -> None:
        """A browser answers pings by itself, also where it lets the timers of a hidden page run once a minute: who
        answers none is gone. The end bears a code of our own, so that it is no other end."""
        self.pong_timer = None
        if self._is_open and not self.transport.is_closing():
            self.conn.fail(SILENT, "no pong for a heartbeat")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.send_close(TOO_BIG, "too many fragments")
            self.handle_parser_exception()

    # The wire

    @property
    def is_free(self) -> bool:
        return not self._is_sending and self.writable.is_set() and self._is_open

    def write_texts(self, texts: Iterable[bytes]) -> None:
        self.transport.write(b"".join(map(_message, texts)))

    async def send_texts(self, texts: Iterable[bytes]) -> None:
        self._is_sending = True
        try:
            await self.writable.wait()
        finally:
            self._is_sending = False
        if not self._is_open:
            raise ClientDisconnected
        self.write_texts(texts)

    @property
    def _is_open(self) -> bool:
        if self.disconnected or self.close_sent or not self.handshake_complete:
            return False
        return self.conn.state is State.OPEN


@lru_cache(maxsize=1)
def _message(text: bytes) -> bytes:
    """A text message as it goes over the wire. A room sends the same one to its members, one after the other."""
    return _head(len(text)) + text


def _head(size: int) -> bytes:
    """The head of a text message that is one frame, as a server sends it: whole, and not masked."""
    if size < 126:
        return bytes((0x81, size))
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")
