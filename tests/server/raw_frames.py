"""WebSocket frames by hand, for what no honest client would send."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum

PATIENCE_SECONDS = 100.0


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    is_final: bool = True,
    is_masked: bool = True,
    reserved: int = 0,
    said_length: int | None = None,
) -> bytes:
    """One frame. `reserved`: its three reserved bits. `said_length`: what its header claims instead of the truth."""
    length = len(payload) if said_length is None else said_length
    mask_bit = 0x80 if is_masked else 0
    head = bytes([(0x80 if is_final else 0) | reserved << 4 | opcode])
    if length < 126:
        head += bytes([mask_bit | length])
    elif length < 1 << 16:
        head += bytes([mask_bit | 126]) + struct.pack("!H", length)
    else:
        head += bytes([mask_bit | 127]) + struct.pack("!Q", length)
    if not is_masked:
        return head + payload
    mask = b"\x01\x02\x03\x04"
    return head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


@dataclass(slots=True)
class RawSocket:
    """A TCP connection on which a handshake was made, and nothing is checked."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
        await self.writer.drain()

    async def read_frame(self) -> tuple[int, bytes] | None:
        """The next frame of the server; None at the end of the connection."""
        try:
            first, second = await self.reader.readexactly(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
            return first & 0x0F, await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def close_code(self) -> int | None:
        """The code with which the server closes; None: it just went. Its close is answered, as the standard wants."""
        code: int | None = None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (found := await self.read_frame()) is not None:
                opcode, payload = found
                if opcode == Opcode.CLOSE:
                    code = struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else 1005
                    self.writer.write(frame(Opcode.CLOSE, payload))
        return code

    async def texts(self, count: int) -> list[bytes]:
        """The next text messages."""
        found: list[bytes] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found) < count and (one := await self.read_frame()) is not None:
                if one[0] == Opcode.TEXT:
                    found.append(one[1])
        return found


def handshake_of(port: int, path: str = "/api/socket/operator") -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
    )
    return "\r\n".join((*lines, "", "")).encode()


@asynccontextmanager
async def raw_socket(port: int) -> AsyncIterator[RawSocket]:
    """Connect and shake hands."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(handshake_of(port))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
        assert head.startswith(b"HTTP/1.1 101"), head
        yield RawSocket(reader, writer)
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
