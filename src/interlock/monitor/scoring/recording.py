"""The lines of a recording: what a terminal showed, what was typed, and, for those who score, what was true.

One JSON object a line: a header first, then frames, inputs, truths and other records in the order of their time. A
frame leaves `ansi` out where it equals the frame before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from interlock.screen.snapshot import Snapshot, read_snapshot
from interlock.vocabulary.errors import UsageError

FORMAT: Final = 1
MAX_LINE: Final = 8 << 20
# No terminal is larger; a hostile file could otherwise ask for any number of rows.
Cells = Annotated[int, Meta(ge=0, le=10_000)]


class Header(Struct, frozen=True, tag="header", tag_field="kind", omit_defaults=True):
    """Whose terminal it is."""

    format: int
    cli: str = "generic"
    version: str | None = None
    cols: Cells = 80
    rows: Cells = 24
    scenario: str = ""
    tmux_env: bool = False


class Frame(Struct, frozen=True, tag="frame", tag_field="kind", omit_defaults=True):
    """One capture. `cols` and `rows` are there where the pane was resized since the header."""

    t: float
    title: str = ""
    command: str | None = None
    dead: bool = False
    alt: bool = False
    cursor: tuple[int, int] | None = None
    cursor_visible: bool | None = None
    ansi: str | None = None
    cols: Cells | None = None
    rows: Cells | None = None


class Input(Struct, frozen=True, tag="input", tag_field="kind", omit_defaults=True):
    """Somebody pressed Enter on a prompt."""

    t: float
    submit: bool = True
    prompt: str | None = None


class Truth(Struct, frozen=True, tag="truth", tag_field="kind", omit_defaults=True):
    """What was true from here on, as the one who scripted the model knows. A tracker does not read these."""

    t: float
    state: str
    detail: str = ""


class RecordedStatus(Struct, frozen=True, tag="status", tag_field="kind", omit_defaults=True):
    """What another source told while the recording ran: a hook, a status file, a record of the status protocol."""

    t: float
    source: str
    data: msgspec.Raw = msgspec.Raw(b"null")


Record: TypeAlias = Header | Frame | Input | Truth | RecordedStatus

_DECODER: Final[msgspec.json.Decoder[Record]] = msgspec.json.Decoder(Record)
_KIND: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KNOWN: Final = frozenset(b'"%s"' % kind for kind in (b"header", b"frame", b"input", b"truth", b"status"))


def read_records(lines: Iterable[bytes], name: str) -> Iterator[Record]:
    """Read a recording. Frames come with their `ansi` filled in; records of a kind that we do not know are left out.

    A broken line is a UsageError that names it; what stood before it was already given.
    """
    header: Header | None = None
    ansi = ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = _read(line, f"{name}:{number}")
        if record is None:
            continue
        if isinstance(record, Header):
            header = _checked(record, f"{name}:{number}")
        elif header is None:
            raise UsageError(f"{name}:{number}: a recording begins with a header line; is this one?")
        if isinstance(record, Frame):
            ansi = ansi if record.ansi is None else record.ansi
            record = msgspec.structs.replace(record, ansi=ansi)
        yield record
    if header is None:
        raise UsageError(f"{name}: there is no header line; an empty file is no recording")


def _read(line: bytes, where: str) -> Record | None:
    if len(line) > MAX_LINE:
        raise UsageError(f"{where}: the line has {len(line)} bytes; a record has at most {MAX_LINE}")
    try:
        return _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        if _kind_of(line) not in _KNOWN | {None}:
            return None
        raise UsageError(f"{where}: not a record: {error}") from error


def _kind_of(line: bytes) -> bytes | None:
    try:
        kind = _KIND.decode(line).get("kind")
    except msgspec.MsgspecError:
        return None
    return None if kind is None else bytes(kind)


def _checked(header: Header, where: str) -> Header:
    if header.format != FORMAT:
        raise UsageError(f"{where}: a recording of format {header.format}; this Interlock reads format {FORMAT}")
    return header


def snapshot_of(frame: Frame, header: Header) -> Snapshot:
    """The screen of a frame."""
    return read_snapshot(
        frame.ansi or "",
        columns=frame.cols or header.cols,
        height=frame.rows or header.rows,
        title=frame.title,
        cursor=frame.cursor,
        cursor_visible=frame.cursor_visible,
        is_alternate=frame.alt,
        command=frame.command,
        is_dead=frame.dead,
    )
