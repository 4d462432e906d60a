"""One question to the server of a home, and its answer, over a plain socket.

Everyday commands are typed often and end at once, so that what they import is most of what they cost: this speaks just
as much HTTP as our own server does, and imports neither an HTTP library nor the words of the vocabulary.

Laws:
1. What could not be asked is `Unreachable`, and never an empty answer. What was refused is a `UsageError` with the
   remedy that the server gave.
2. The token goes to the address in `server.json` of a home that nobody else can write to, and nowhere else. Where the
   process that wrote that file is gone, its port may be somebody else's by now: nobody is asked.
3. Every wait has a deadline, and no answer is longer than a bound.
4. Who asks for too much at once waits as long as the server says, a few times. Only questions are repeated.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Self, TypedDict, TypeVar, cast
from urllib.parse import quote, urlsplit

from interlock.cli.server.home_folder import home_folder as home_folder
from interlock.client.transport.process_check import is_alive
from interlock.log.private_file import folder_key, read_private_file
from interlock.log.starting_file import not_there
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import FrameJson

ANSWER_SECONDS: Final = 40.0
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
MAX_LINE_BYTES: Final = 64 * 1024
MAX_REQUEST_BYTES: Final = 1024 * 1024
T = TypeVar("T")
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)

_ANEW: Final = "see `interlock status`; `interlock down` and `interlock up` start it anew"
_OTHER: Final = "it may be of another version: `interlock down` and `interlock up` start one of this version"
_CHUNK: Final = 64 * 1024
_NOT_KNOWN: Final = frozenset({502, 503, 504})
_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = "too_many"
_SERVER_FAULT: Final = 500
_REPEATS: Final = 5
_MAX_PAUSE_SECONDS: Final = 3.0


class ServerRefusal(UsageError):
    """The server answered, and did not do it. `code` is its word for why."""

    def __init__(self, status: int, code: str, message: str, remedy: str = "", pause_seconds: float = 0.0) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.code = code
        self.pause_seconds = pause_seconds


class ServerUnavailable(Unreachable):
    """The server answered that nothing is known now. To ask the same again is safe."""


class ServerFault(PeerFault):
    """The server answered, and by its own word failed; or what it said is not what a server of this version says."""


class ServerAnswer(dict[str, object]):
    """An object of an answer. What it must have and has not is the server's fault, and named."""

    def __missing__(self, key: str) -> object:
        raise ServerFault(f"the server's answer has no {key!r}; {_OTHER}")


class Route(str, Generic[AnswerT_co]):
    """The path of a question, and the type of its answer, which only mypy knows: see `routes`."""

    __slots__ = ()


class PageJson(TypedDict, Generic[T]):
    """Some items of a list. `next` leads to the next page; None: that was all."""

    items: list[T]
    next: str | None


class SocketFrame(NamedTuple):
    """One server-sent event."""

    id: str
    event: str
    data: FrameJson


class ServerApi:
    """The server of a home. Nothing is opened before the first question."""

    def __init__(self, url: str, token: str) -> None:
        self._address, self._host = _address(url)
        self._token = token
        self.url = url

    @classmethod
    def of_home(cls, home: Path) -> ServerApi:
        """The server that runs in a home; `Unreachable` if none does, `StillStarting` if one will."""
        try:
            server = read_server_file(home)
        except FileNotFoundError as missing:
            raise not_there(home, f"no server runs in {home}; start one with `interlock up`") from missing
        pid, started, boot = server.get("pid"), server.get("started", ""), server.get("boot_id", "")
        if not isinstance(pid, int) or not is_alive(pid, str(started), str(boot)):
            raise not_there(
                home, f"the server of {home} is gone: it ended without a word; start it again with `interlock up`"
            )
        try:
            tokens = read_private(home / "tokens.json")
        except FileNotFoundError as missing:
            raise UsageError(
                f"there are no tokens in {home}", remedy="`interlock down` and `interlock up` make new ones"
            ) from missing
        return cls(str(server.get("url", "")), str(tokens.get("operator", "")))

    def called(self, url: str) -> ServerApi:
        """The same server, asked by the name that others reach it by."""
        other = ServerApi(self.url, self._token)
        other._host = urlsplit(url).netloc
        return other

    def get(self, route: Route[AnswerT], **query: str | int | None) -> AnswerT:
        """Ask, and decode the answer."""
        return cast("AnswerT", _decode(self._get(route, query)))

    def get_once(self, route: Route[AnswerT], *, seconds: float, **query: str | int | None) -> AnswerT:
        """As `get`, for no longer than that, and not again where too much was asked."""
        return cast("AnswerT", _decode(self.ask_raw("GET", _with_query(route, query), seconds=seconds)))

    def read(self, kind: type[T], path: str, **query: str | int | None) -> T:
        """Ask, and decode the answer as one of the structs of the wire."""
        return decode(self._get(path, query), kind)

    def _get(self, path: str, query: Mapping[str, str | int | None]) -> bytes:
        return _patiently(lambda: self.ask_raw("GET", _with_query(path, query)))

    def items(self, route: Route[PageJson[T]], **query: str | int | None) -> Iterator[T]:
        """Every item of a list, page by page."""
        for page in self.pages(route, lambda page: page["next"], **query):
            yield from listed(page)

    def pages(
        self, route: Route[AnswerT], next_of: Callable[[AnswerT], str | None], **query: str | int | None
    ) -> Iterator[AnswerT]:
        """Every page of a list. `next_of` says what leads to the one after it."""
        after: str | None = None
        while True:
            page = self.get(route, **query, after=after)
            yield page
            after = next_of(page)
            if after is None:
                return

    def ask(
        self, method: str, path: str, body: object = None, *, key: str = "", seconds: float = ANSWER_SECONDS
    ) -> dict[str, object]:
        """One request and its answer, decoded; nothing where it is empty."""
        raw = self.ask_raw(method, path, body, key=key, seconds=seconds)
        return _decode(raw) if raw else {}

    def ask_raw(
        self, method: str, path: str, body: object = None, *, key: str = "", seconds: float = ANSWER_SECONDS
    ) -> bytes:
        """One request and the bytes of its answer."""
        with self._connect(seconds, is_whole=True) as wire:
            wire.send(self._head(method, path, body, key))
            status, length, is_chunked = wire.read_head()
            raw = wire.read_all_chunks() if is_chunked else wire.read_exactly(length)
        if status >= 400:
            raise _refusal(status, raw)
        return raw

    def lines(self, path: str) -> Iterator[bytes]:
        """An answer that is streamed, line by line, without line ends."""
        wire, pieces = _patiently(lambda: self._stream(path, ANSWER_SECONDS))
        with wire:
            rest = b""
            for piece in pieces:
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
                if len(rest) > MAX_ANSWER_BYTES:
                    raise PeerFault("the server sent a line without an end")
            if rest:
                yield rest

    def events(self, task_id: str, *, after: str = "", silence_seconds: float = 90.0) -> Iterator[SocketFrame]:
        """The frames of a task as they come, until the server ends the stream. `Unreachable` after too long a silence:
        the server sends a sign of life more often than that."""
        path = f"/api/tasks/{quote(task_id, safe='')}/events"
        wire, pieces = _patiently(lambda: self._stream(path, silence_seconds, after))
        with wire:
            yield from _frames(pieces)

    def _stream(self, path: str, seconds: float, last_event: str = "") -> tuple[_Wire, Iterator[bytes]]:
        """An answer that comes in pieces, and its connection, which the caller closes."""
        wire = self._connect(seconds)
        try:
            wire.send(self._head("GET", path, None, "", last_event))
            status, length, is_chunked = wire.read_head()
            if status >= 400:
                raise _refusal(status, wire.read_all_chunks() if is_chunked else wire.read_exactly(length))
            return wire, wire.read_chunks() if is_chunked else iter((wire.read_exactly(length),))
        except BaseException:
            wire.close()
            raise

    def _connect(self, seconds: float, *, is_whole: bool = False) -> _Wire:
        """`seconds` bound the whole answer, or each wait for more of it."""
        deadline = time.monotonic() + seconds if is_whole else None
        try:
            return _Wire(socket.create_connection(self._address, timeout=seconds), self.url, deadline)
        except OSError as error:
            raise Unreachable(
                f"the server at {self.url} does not answer ({error}); see `interlock status`, or start one with "
                "`interlock up`"
            ) from error

    def _head(self, method: str, path: str, body: object, key: str, last_event: str = "") -> bytes:
        raw = b"" if body is None else _encode(body)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", f"Authorization: Bearer {self._token}"]
        lines += ["Connection: close", f"Content-Length: {len(raw)}"]
        lines += ["Content-Type: application/json"] if raw else []
        lines += [f"Idempotency-Key: {key}"] if key else []
        lines += [f"Last-Event-ID: {last_event}"] if last_event else []
        if any("\r" in line or "\n" in line for line in lines):
            raise UsageError("a line end cannot be part of an address or a key", remedy="leave it out")
        return "\r\n".join([*lines, "", ""]).encode() + raw


class _Wire:
    """One connection, read with bounds."""

    def __init__(self, connection: socket.socket, url: str, deadline: float | None = None) -> None:
        self._connection = connection
        self._url = url
        self._deadline = deadline
        self._buffer = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def send(self, raw: bytes) -> None:
        try:
            self._connection.sendall(raw)
        except OSError as error:
            raise Unreachable(f"the server at {self._url} went away: {error}; {_ANEW}") from error

    def read_head(self) -> tuple[int, int, bool]:
        """The status, the length of the body, and whether it comes in chunks."""
        status = self._line().split(b" ", 2)
        if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not status[1].isdigit():
            raise ServerFault(f"what answers at {self._url} is no server of ours; {_ANEW}")
        length, is_chunked = 0, False
        while line := self._line():
            name, _, value = line.partition(b":")
            match name.strip().lower():
                case b"content-length" if value.strip().isdigit():
                    length = int(value)
                case b"transfer-encoding":
                    is_chunked = b"chunked" in value.lower()
                case _:
                    pass
        return int(status[1]), length, is_chunked

    def read_exactly(self, length: int) -> bytes:
        if length > MAX_ANSWER_BYTES:
            raise ServerFault(f"the server's answer has {length} bytes; at most {MAX_ANSWER_BYTES} are read")
        while len(self._buffer) < length:
            self._more()
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken

    def read_all_chunks(self) -> bytes:
        pieces, length = [], 0
        for piece in self.read_chunks():
            pieces.append(piece)
            length += len(piece)
            if length > MAX_ANSWER_BYTES:
                raise ServerFault(f"the server's answer has more than {MAX_ANSWER_BYTES} bytes; no more are read")
        return b"".join(pieces)

    def read_chunks(self) -> Iterator[bytes]:
        while True:
            spelled = self._line().split(b";")[0].strip()
            try:
                length = int(spelled, 16)
            except ValueError as error:
                raise PeerFault(f"the server at {self._url} sent a piece without a length") from error
            if length == 0:
                return
            yield self.read_exactly(length)
            self._line()

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MAX_LINE_BYTES:
                raise PeerFault(f"the server at {self._url} sent a line without an end")
            self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.rstrip(b"\r")

    def _more(self) -> None:
        try:
            if self._deadline is not None:
                # Not zero: that would mean not to wait at all, which is another error.
                self._connection.settimeout(max(0.001, self._deadline - time.monotonic()))
            piece = self._connection.recv(_CHUNK)
        except TimeoutError as error:
            raise Unreachable(f"the server at {self._url} did not answer in time; {_ANEW}") from error
        except OSError as error:
            raise Unreachable(f"the server at {self._url} went away: {error}; {_ANEW}") from error
        if not piece:
            raise Unreachable(f"the server at {self._url} went away in the middle of an answer; {_ANEW}")
        self._buffer += piece


def _with_query(path: str, query: Mapping[str, str | int | None]) -> str:
    asked = "&".join(f"{key}={quote(str(value))}" for key, value in query.items() if value is not None)
    return f"{path}?{asked}" if asked else path


def _address(url: str) -> tuple[tuple[str, int], str]:
    """Law 2: what is no address of a server is asked nothing, and told no token."""
    try:
        parts = urlsplit(url)
        if parts.hostname and parts.port:
            return (parts.hostname, parts.port), parts.netloc
    except ValueError:
        pass
    raise UsageError(f"{url!r} is no address of a server", remedy="`interlock up` starts one, and writes it down")


def _encode(body: object) -> bytes:
    try:
        raw = json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UsageError("what is to be sent is not all UTF-8", remedy="give text in UTF-8") from error
    if len(raw) > MAX_REQUEST_BYTES:
        # A server that refuses this hangs up in the middle of it, and its words are lost.
        raise UsageError(f"{len(raw)} bytes are too many: a server takes {MAX_REQUEST_BYTES}", remedy="give less")
    return raw


def _frames(pieces: Iterator[bytes]) -> Iterator[SocketFrame]:
    """Read server-sent events: blocks of `id`, `event` and `data` lines, and comments between them."""
    buffer, name, event, data = b"", "", "", b""
    for piece in pieces:
        *lines, buffer = (buffer + piece).split(b"\n")
        if len(buffer) > MAX_ANSWER_BYTES:
            raise PeerFault("the server sent an event without an end")
        for line in lines:
            field, _, value = line.rstrip(b"\r").partition(b": ")
            match field:
                case b"id":
                    name = value.decode()
                case b"event":
                    event = value.decode()
                case b"data":
                    data += value
                case b"" if data:
                    yield SocketFrame(name, event, cast("FrameJson", _decode(data)))
                    event, data = "", b""
                case _:
                    pass


def _patiently(ask: Callable[[], T]) -> T:
    """Law 4."""
    for repeats_left in range(_REPEATS, -1, -1):
        try:
            return ask()
        except ServerRefusal as refusal:
            if refusal.code != _TOO_MANY or not repeats_left:
                raise
            time.sleep(min(max(refusal.pause_seconds, 0.05), _MAX_PAUSE_SECONDS))
    raise AssertionError("the last attempt returns or raises")


def _refusal(status: int, raw: bytes) -> Exception:
    try:
        decoded: object = json.loads(raw)
    except ValueError:
        decoded = None
    is_ours = isinstance(decoded, dict)
    problem: dict[str, object] = decoded if isinstance(decoded, dict) else {}
    message = str(problem.get("detail") or problem.get("title") or f"the server answered with status {status}")
    remedy = str(problem.get("remedy") or "")
    if status in _NOT_KNOWN:
        return ServerUnavailable(f"{message}; {remedy or _ANEW}")
    if status >= _SERVER_FAULT:
        return ServerFault(f"{message}; {remedy or _ANEW}")
    remedy = remedy if is_ours else _OTHER
    if status == _UNAUTHORIZED:
        remedy = "tokens.json of this home is not the server's: `interlock down` and `interlock up` make them one"
    pause = problem.get("retry_after_seconds")
    pause_seconds = float(pause) if isinstance(pause, int | float) else 0.0
    return ServerRefusal(status, str(problem.get("code") or f"http_{status}"), message, remedy, pause_seconds)


def decode(raw: bytes, kind: type[T]) -> T:
    """An answer, or a frame, as one of the structs of the wire."""
    import msgspec

    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise ServerFault(f"the server's answer cannot be read: {error}; {_OTHER}") from error


def _decode(raw: bytes) -> dict[str, object]:
    try:
        decoded: object = json.loads(raw, object_hook=ServerAnswer)
    except ValueError as error:
        raise ServerFault(f"the server's answer is no JSON; {_OTHER}") from error
    if not isinstance(decoded, dict):
        raise ServerFault(f"the server's answer is no object; {_OTHER}")
    return decoded


def listed(page: PageJson[T]) -> list[T]:
    """The items of a page."""
    items: object = page["items"]
    if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
        raise ServerFault(f"the server's list is none; {_OTHER}")
    return cast("list[T]", items)


def read_server_file(home: Path) -> dict[str, object]:
    """What the server of a home says of itself. `FileNotFoundError`: none, or the file came here with a copy of a home,
    and tells of the server of the original."""
    said = read_private(home / "server.json")
    if said.get("folder", "") not in ("", folder_key(home)):
        raise FileNotFoundError
    return said


def read_private(path: Path) -> dict[str, object]:
    """What a file of the home says that nobody else can read or write."""
    try:
        decoded: object = json.loads(read_private_file(path, max_bytes=MAX_LINE_BYTES))
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise UsageError(f"{path} cannot be understood", remedy="start the server again: it writes it anew")
    return decoded
