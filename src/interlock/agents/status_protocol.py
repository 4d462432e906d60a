"""The Program Status Protocol (OSC 7501): what a program says of itself in the bytes that it writes to its terminal.

    ESC ] 7501 ; state=blocked:app=claude-code:kind=permission:msg=<base64> ESC \\     (or BEL at the end)
    ESC ] 7501 ; ? ESC \\                                                               asks whether anybody listens

`StatusScanner` finds the records in a stream that comes in any pieces; how it is cut never changes what is found.
Nothing here raises: what is not a record is passed over, and text that an agent sent is bounded and on one line.
The modules that `interlock debug shim` loads import as little as they can: a person waits for them.
"""

from __future__ import annotations

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from enum import StrEnum
from typing import Final, NamedTuple

MARKER: Final = b"\x1b]7501;"
PROBE: Final = "?"
PROBE_REPLY: Final = b"\x1b]7501;?\x1b\\"
MAX_RECORD_BYTES: Final = 64 * 1024
MAX_TEXT_CHARACTERS: Final = 2048
MAX_NAME_CHARACTERS: Final = 256
MAX_FIELDS: Final = 64

# tmux doubles every ESC of what is passed through it (`ESC P tmux; ... ESC \`), once a level: the marker still stands
# there as it is, and only the terminator may come with more than one ESC.
_MAX_ESCAPES: Final = 8
_END: Final = re.compile(rb"[\x07\x18\x1a\x1b]")
_ESCAPES: Final = re.compile(rb"\x1b+")
_PAIR: Final = re.compile(r"([a-z]{1,16})=([!-~]*)")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_BEL: Final = 0x07
_ESC: Final = 0x1B


class ProgramState(StrEnum):
    """The states that the protocol names. `clear` takes a record and those below it away."""

    IDLE = "idle"
    WORKING = "working"
    DONE = "done"
    ERROR = "error"
    BLOCKED = "blocked"
    CLEAR = "clear"


class StatusRecord(NamedTuple):
    """One record. It replaces the one with the same `id` whole; the empty id is the program itself.

    `state` is text, since a newer program may send a state that `ProgramState` has no name for: it is not guessed at.
    A text that is absent, or is no base64, is None; `fields` keeps every pair as it came.
    """

    state: str
    app: str | None = None
    kind: str | None = None
    id: str = ""
    title: str | None = None
    message: str | None = None
    progress: int | None = None
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def is_probe(self) -> bool:
        """Whether the program asks for an answer, and says nothing of itself."""
        return self.state == PROBE


def parse_record(body: bytes) -> StatusRecord | None:
    """Read what stands between `7501;` and the end. None if it names no state: then nothing was said."""
    text = body.decode("ascii", "replace")
    if text.startswith(PROBE):  # a later revision may say more after the question mark
        return StatusRecord(PROBE)
    found = (_PAIR.fullmatch(pair) for pair in text.split(":", MAX_FIELDS)[:MAX_FIELDS])
    fields = tuple((pair[1], pair[2]) for pair in found if pair is not None)
    last = dict(fields)
    if not last.get("state"):
        return None
    return StatusRecord(
        state=last["state"][:MAX_NAME_CHARACTERS],
        app=_name(last.get("app")),
        kind=_name(last.get("kind")),
        id=last.get("id", "")[:MAX_NAME_CHARACTERS],
        title=_text(last.get("title")),
        message=_text(last.get("msg")),
        progress=_percent(last.get("progress")),
        fields=fields,
    )


def _name(value: str | None) -> str | None:
    return value[:MAX_NAME_CHARACTERS] if value else None


def _text(value: str | None) -> str | None:
    if value is None or not _BASE64.fullmatch(value):
        return None
    bare = value.rstrip("=")
    try:
        decoded = a2b_base64(bare + "=" * (-len(bare) % 4))
    except NotBase64:
        return None
    return _CONTROLS.sub(" ", decoded.decode("utf-8", "replace")).strip()[:MAX_TEXT_CHARACTERS]


def _percent(value: str | None) -> int | None:
    if value is None or len(value) > 3 or not (value.isascii() and value.isdigit()):
        return None
    number = int(value)
    return number if number <= 100 else None


class StatusScanner:
    """Finds records in a byte stream. Remembers at most one unfinished record, of at most `MAX_RECORD_BYTES`."""

    __slots__ = ("_body", "_rest")

    def __init__(self) -> None:
        self._rest = b""  # the end of the stream so far, where it may be the beginning of something
        self._body: bytearray | None = None  # of a record whose end has not come yet

    def feed(self, chunk: bytes) -> list[StatusRecord]:
        """Take the next bytes and return the records that they finish, in order."""
        if self._body is None and not self._rest and _ESC not in chunk:
            return []
        data, self._rest = self._rest + chunk, b""
        found: list[StatusRecord] = []
        at: int | None = 0
        while at is not None:
            at = self._find_marker(data, at) if self._body is None else self._find_end(data, at, found)
        return found

    def _find_marker(self, data: bytes, start: int) -> int | None:
        at = data.find(MARKER, start)
        if at >= 0:
            self._body = bytearray()
            return at + len(MARKER)
        keep = next((size for size in range(len(MARKER) - 1, 0, -1) if data.endswith(MARKER[:size], start)), 0)
        self._rest = data[len(data) - keep :]
        return None

    def _find_end(self, data: bytes, start: int, found: list[StatusRecord]) -> int | None:
        assert self._body is not None
        end = _END.search(data, start)
        at = len(data) if end is None else end.start()
        self._body += data[start:at]
        if len(self._body) > MAX_RECORD_BYTES:
            self._body = None
            return at
        if end is None:
            return None
        if data[at] == _ESC:
            return self._escape(data, at, found)
        self._finish(found if data[at] == _BEL else None)
        return at + 1

    def _escape(self, data: bytes, at: int, found: list[StatusRecord]) -> int | None:
        """A run of ESC stands at `at`: before a backslash it ends the record, before anything else it breaks it off."""
        run = _ESCAPES.match(data, at)
        assert run is not None
        is_short = run.end() - at <= _MAX_ESCAPES
        if run.end() == len(data) and is_short:
            self._rest = run[0]
            return None
        is_end = is_short and data[run.end() : run.end() + 1] == b"\\"
        self._finish(found if is_end else None)
        return run.end() + 1 if is_end else at

    def _finish(self, found: list[StatusRecord] | None) -> None:
        body, self._body = self._body, None
        record = None if found is None or body is None else parse_record(bytes(body))
        if found is not None and record is not None:
            found.append(record)
