"""A server of the protocol whose every word and silence a test decides, over real sockets.

It speaks as much HTTP and WebSocket as our clients do, by hand, so that it can also break off in the middle.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import msgspec

from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.wire.requests import PROTOCOL, AccessRole, Ack, Hello, Ping, Request

TOKEN: Final = "a-token-of-thirty-two-characters"
HELLO: Final = Hello(
    protocol=PROTOCOL, server="fake", role=AccessRole.OPERATOR, heartbeat_seconds=30.0, max_frame_bytes=100_000
)
_REQUESTS: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request)
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10


@dataclass(frozen=True, slots=True)
class HttpCall:
    """What was asked by HTTP."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def json(self) -> dict[str, Json]:
        return msgspec.json.decode(self.body, type=dict[str, Json])


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What is answered. `cut`: only so many bytes of the body, and then the connection breaks."""

    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


NO_ROUTE: Final = HttpAnswer(404, {"title": "There is nothing here", "status": 404, "code": "no_route"})


class Silence:
    """Nothing is answered, ever."""


class Breaking:
    """The connection breaks without a word."""


Answering = HttpAnswer | type[Silence] | type[Breaking]


class FakeSocket:
    """One WebSocket of the server's side."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.requests: list[Request] = []
        self.close_code: int | None = None
        self.is_gone = asyncio.Event()

    def send(self, frame: msgspec.Struct) -> None:
        self.send_raw(msgspec.json.encode(frame))

    def send_raw(self, data: bytes, opcode: int = _TEXT) -> None:
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([size])
        elif size < 1 << 16:
            head += bytes([126]) + size.to_bytes(2, "big")
        else:
            head += bytes([127]) + size.to_bytes(8, "big")
        self._writer.write(head + data)

    def close(self, code: int = 1000, reason: str = "") -> None:
        self.send_raw(code.to_bytes(2, "big") + reason.encode(), _CLOSE)
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()


async def _read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size >= 126:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    mask = await reader.readexactly(4)
    data = await reader.readexactly(size)
    return first & 0x0F, bytes(one ^ mask[index % 4] for index, one in enumerate(data))


def acknowledge(socket: FakeSocket, request: Request) -> None:
    """Do whatever is asked."""
    socket.send(Ack(id=request.id))


class FakeServer:
    """Use it as a context manager. `on_http`, `on_request`, `hello`, `refuse_sockets` are the script."""

    def __init__(self) -> None:
        self.on_http: Callable[[HttpCall], Answering] = lambda _: HttpAnswer(
            404, {"title": "?", "status": 404, "code": "no"}
        )
        self.on_request: Callable[[FakeSocket, Request], None] = acknowledge
        self.on_socket: Callable[[FakeSocket], None] = lambda _: None
        self.hello: msgspec.Struct | bytes | None = HELLO
        self.refuse_sockets: HttpAnswer | None = None
        self.answers_pings = True
        self.calls: list[HttpCall] = []
        self.sockets: list[FakeSocket] = []
        self.upgrades: list[HttpCall] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._handling: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socket(self) -> FakeSocket:
        return self.sockets[-1]

    @property
    def requests(self) -> list[Request]:
        return [request for socket in self.sockets for request in socket.requests if not isinstance(request, Ping)]

    async def start(self) -> None:
        """Listen, on the port of the last time if there was one."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Be gone, as a killed process is."""
        if self._server is not None:
            for listening in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            for _ in range(5):  # from a connection that is accepted to `_accept` asyncio takes a few turns of its loop,
                await asyncio.sleep(0)  # and a server that is closed meanwhile leaves the connection open for ever
            self._server.close()
            for writer in tuple(self._writers):
                writer.transport.abort()
            await asyncio.gather(*self._handling, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Known from its first moment: `stop` ends also a connection on which nothing was read yet."""
        self._writers.add(writer)
        task = asyncio.create_task(self._handle(reader, writer))
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._converse(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            call = await _read_call(reader)
            if call.headers.get("upgrade", "").lower() == "websocket":
                self.upgrades.append(call)
                if self.refuse_sockets is not None:
                    _write_answer(writer, self.refuse_sockets)
                    await writer.drain()
                    return
                await self._serve_socket(call, reader, writer)
                return
            self.calls.append(call)
            answer = self.on_http(call)
            if answer is Silence:
                await reader.read()
                return
            if not isinstance(answer, HttpAnswer):
                return
            _write_answer(writer, answer)
            await writer.drain()
            if answer.cut is not None:
                return

    async def _serve_socket(self, call: HttpCall, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accept = base64.b64encode(hashlib.sha1(call.headers["sec-websocket-key"].encode() + _MAGIC).digest()).decode()
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        socket = FakeSocket(writer)
        if isinstance(self.hello, bytes):
            socket.send_raw(self.hello)
        elif self.hello is not None:
            socket.send(self.hello)
        self.sockets.append(socket)
        self.on_socket(socket)
        try:
            while True:
                opcode, data = await _read_frame(reader)
                if opcode == _CLOSE:
                    socket.close_code = int.from_bytes(data[:2], "big")
                    socket.send_raw(data[:2], _CLOSE)
                    return
                if opcode == _PING:
                    socket.send_raw(data, _PONG)
                elif opcode == _TEXT:
                    self._heard(socket, _REQUESTS.decode(data))
        finally:
            socket.is_gone.set()

    def _heard(self, socket: FakeSocket, request: Request) -> None:
        socket.requests.append(request)
        if not isinstance(request, Ping):
            self.on_request(socket, request)
        elif self.answers_pings:
            socket.send(Ack(id=request.id))


async def _read_call(reader: asyncio.StreamReader) -> HttpCall:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return HttpCall(method, target, headers, body)


def _write_answer(writer: asyncio.StreamWriter, answer: HttpAnswer) -> None:
    body = answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
    lines = [f"HTTP/1.1 {answer.status} Said", f"Content-Length: {len(body)}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body[: answer.cut])
