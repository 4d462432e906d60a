"""A small HTTP client for one server on loopback: JSON requests, and its stream of events.

What was certainly not sent is `NotDelivered`; what broke after it was sent is `DeliveryUnknown`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from interlock.agents.port import DeliveryUnknown, NotDelivered
from interlock.agents.processes.lines import LineSplitter
from interlock.vocabulary.errors import PeerFault
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import decode_object

_ANSWER_SECONDS: Final = 60.0
_READ_BYTES: Final = 1 << 16
_MAX_HEAD_BYTES: Final = 1 << 16
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024
# What a server that dies or talks nonsense looks like from here.
_BROKEN: Final = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)


class LocalHttp:
    """Requests to 127.0.0.1 with a name and a password."""

    def __init__(self, port: int, user: str, password: str) -> None:
        self._port = port
        self._secret = base64.b64encode(f"{user}:{password}".encode()).decode()

    async def ask(self, method: str, path: str, body: Json = None) -> tuple[int, bytes]:
        """One request, and its status and body."""
        reader, writer = await self._open()
        try:
            writer.write(self._request(method, path, body))
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await writer.drain()
                    status, headers = await _head(reader)
                    return status, await _body(reader, headers)
            except (*_BROKEN, TimeoutError) as error:
                raise DeliveryUnknown(f"{method} {path} was not answered: {error!r}") from error
        finally:
            writer.close()

    async def events(self, path: str) -> AsyncIterator[Mapping[str, Json]]:
        """The events of a stream, until the server ends it. Comments and what is no JSON object are left out."""
        reader, writer = await self._open()
        try:
            writer.write(self._request("GET", path, None))
            status, headers = await _head(reader)
            if status != 200:
                raise PeerFault(f"the server refused its events with status {status}")
            splitter = LineSplitter()
            async for data in _pieces(reader, headers):
                for line in splitter.feed(data):
                    event = decode_object(line.data[5:]) if line.data.startswith(b"data:") else None
                    if event is not None:
                        yield event
        except _BROKEN as error:
            raise PeerFault(f"the stream of events broke: {error!r}") from error
        finally:
            writer.close()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.open_connection("127.0.0.1", self._port, limit=_MAX_HEAD_BYTES)
        except (OSError, TimeoutError) as error:
            raise NotDelivered(f"the server on port {self._port} takes no connection") from error

    def _request(self, method: str, path: str, body: Json) -> bytes:
        content = b"" if body is None else msgspec.json.encode(body)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Basic {self._secret}\r\n"
            f"Accept: */*\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return head.encode("ascii") + content


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return int(first.split(" ", 2)[1]), headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked" and "content-length" in headers:
        size = int(headers["content-length"])
        if size > _MAX_BODY_BYTES:
            raise ValueError("the answer is too long")
        return await reader.readexactly(size)
    body = bytearray()
    async for data in _pieces(reader, headers):
        body += data
        if len(body) > _MAX_BODY_BYTES:
            raise ValueError("the answer is too long")
    return bytes(body)


async def _pieces(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    """The body as it comes, chunked or up to the end of the connection."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        while data := await reader.read(_READ_BYTES):
            yield data
        return
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        while size > 0:
            data = await reader.read(min(size, _READ_BYTES))
            if not data:
                raise EOFError("the server hung up in mid-chunk")
            size -= len(data)
            yield data
        await reader.readexactly(2)
