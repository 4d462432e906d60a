"""Just enough HTTP/1.1 for the clients of a model: one request a connection, whole or chunked answers, clean cuts.

Every answer says `Connection: close`. So whatever a client sends after its request can only be its hanging up, and the
server knows at once when a client drops an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from interlock.vocabulary.errors import PeerFault

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_FLUSH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`path` is without the query."""

    method: str
    path: str
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The request, or None if the client hung up before it began. PeerFault if it is not HTTP or too large."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as ended:
        if ended.partial.strip():
            raise PeerFault("the client hung up in the middle of its request's head") from ended
        return None
    except asyncio.LimitOverrunError as wrong:
        raise PeerFault("the head of the request is too large") from wrong
    start, *lines = head.split("\r\n")
    if len(words := start.split(" ")) != 3 or not words[2].startswith("HTTP/1."):
        raise PeerFault(f"not a request line: {start!r}")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        body = await _read_body(reader, fields)
    except (asyncio.IncompleteReadError, ValueError) as wrong:
        raise PeerFault(f"the body of the request is damaged: {wrong}") from wrong
    return HttpRequest(words[0], words[1].partition("?")[0], body)


async def _read_body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes:
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = bytearray()
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            body += (await reader.readexactly(_bounded(len(body) + size) - len(body) + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return bytes(body)
    return await reader.readexactly(_bounded(int(fields.get("content-length", "0"))))


def _bounded(size: int) -> int:
    if not 0 <= size <= MAX_BODY_BYTES:
        raise ValueError(f"{size} bytes are more than {MAX_BODY_BYTES}")
    return size


class Exchange:
    """The answer to one request. Its last bytes leave with `close`, so that its end can be put on record before.

    Closed without an end, a stream is cut: the last chunk never comes.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._last = b""
        self.has_begun = False

    def end_whole(self, status: int, body: bytes, *, has_body: bool = True) -> None:
        """A complete answer in JSON. `has_body` is False for HEAD, which wants the head alone."""
        head = _head(status, "application/json", f"Content-Length: {len(body)}")
        self._last = head + body if has_body else head

    async def send(self, data: bytes) -> None:
        """One piece of a stream of events, which is out of our hands when this returns."""
        self._writer.write(self._stream_head() + _chunk(data))
        await self._writer.drain()

    def end_stream(self, data: bytes) -> None:
        self._last = self._stream_head() + _chunk(data) + b"0\r\n\r\n"

    def _stream_head(self) -> bytes:
        if self.has_begun:
            return b""
        self.has_begun = True
        return _head(200, "text/event-stream", "Transfer-Encoding: chunked")

    async def close(self) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                self._writer.write(self._last)
                self._writer.close()
                await self._writer.wait_closed()
        self._writer.transport.abort()  # A client that reads nothing does not keep us.


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


def _head(status: int, content_type: str, length: str) -> bytes:
    lines = (
        f"HTTP/1.1 {status} {_phrase(status)}",
        f"Content-Type: {content_type}",
        "Cache-Control: no-store",
        "Connection: close",
        length,
    )
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else "Scripted"
