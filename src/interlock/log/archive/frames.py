"""The file of an archived session: frames of zstd, one behind the other, each a piece of NDJSON.

A frame's first line tells where it stands (`interlock_archive`): after which event and which digest of the chain, and
the position and schema version that each of its events had. Then come the events, each the canonical line that was
stored, byte by byte. So `zstdcat FILE | grep -v '^{"interlock_archive"'` is what `interlock log export` would write,
and `interlock log import` takes it, without any of this.

Laws:
1. A frame holds at most `FRAME_LINES` events, and no more than `FRAME_BYTES` of them, but always one: what is read of a
   session costs memory for a frame, and not for the session.
2. What is read of a frame was hashed into the chain again: a changed line, or one of another session, does not follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from interlock.log.chain import ChainRow, link
from interlock.vocabulary.ids import SessionId

FRAME_LINES: Final = 1000
FRAME_BYTES: Final = 1024 * 1024
FORMAT: Final = 1
_LEVEL: Final = 9


class FrameIndex(msgspec.Struct, frozen=True, array_like=True):
    """Where a frame is: its events come after `after`, up to and with `last`. `raw` is its size when it is unpacked."""

    after: int
    last: int
    offset: int
    length: int
    raw: int


class FrameHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a frame. `positions` and `schemas` are runs: a first value and how many, or a value and how
    many."""

    interlock_archive: int
    session_id: SessionId
    after: int
    digest: str
    positions: list[tuple[int, int]]
    schemas: list[tuple[int, int]]


class PackedFrame(NamedTuple):
    """A frame, ready to be written."""

    after: int
    last: int
    packed: bytes
    raw: int


class BadFrame(Exception):
    """Bytes that are no frame of this session."""


def pack_frames(session_id: SessionId, digest: bytes, rows: Iterable[ChainRow]) -> Iterator[PackedFrame]:
    """The rows of a whole session, from its first event on. `digest` is that before it."""
    group: list[ChainRow] = []
    size = 0
    for row in rows:
        if group and (len(group) == FRAME_LINES or size + len(row.line) > FRAME_BYTES):
            yield _pack(session_id, digest, group)
            digest, group, size = group[-1].digest, [], 0
        group.append(row)
        size += len(row.line)
    if group:
        yield _pack(session_id, digest, group)


def _pack(session_id: SessionId, digest: bytes, rows: list[ChainRow]) -> PackedFrame:
    from zstandard import ZstdCompressor  # it is loaded only where an archive is

    head = FrameHead(
        interlock_archive=FORMAT,
        session_id=session_id,
        after=rows[0].seq - 1,
        digest=digest.hex(),
        positions=_runs((row.position for row in rows), step=1),
        schemas=_runs((row.schema_version for row in rows), step=0),
    )
    raw = b"".join(line + b"\n" for line in (msgspec.json.encode(head), *(row.line for row in rows)))
    packed = ZstdCompressor(level=_LEVEL, write_checksum=True).compress(raw)
    return PackedFrame(rows[0].seq - 1, rows[-1].seq, packed, len(raw))


def unpack_frame(session_id: SessionId, at: FrameIndex, packed: bytes) -> list[ChainRow]:
    """The rows of a frame. `BadFrame` where it is not what the index says."""
    from zstandard import ZstdDecompressor, ZstdError

    try:
        # Not by what the frame says of its own size: it may be anybody's.
        raw = ZstdDecompressor().stream_reader(packed, read_across_frames=False).read(at.raw + 1)
    except ZstdError as error:
        raise BadFrame(f"it cannot be unpacked ({error})") from error
    spelled, *lines = raw.removesuffix(b"\n").split(b"\n")
    try:
        head = msgspec.json.decode(spelled, type=FrameHead)
        digest = bytes.fromhex(head.digest)
        places, schemas = list(_spread(head.positions, step=1)), list(_spread(head.schemas, step=0))
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadFrame("it has no head that can be read") from error
    if (head.interlock_archive, head.session_id, head.after) != (FORMAT, session_id, at.after):
        raise BadFrame(f"it is of session {head.session_id}, after event {head.after}")
    if len(raw) != at.raw or not len(lines) == len(places) == len(schemas) == at.last - at.after:
        raise BadFrame("it is longer or shorter than it was")
    rows = []
    for seq, (line, position, schema) in enumerate(zip(lines, places, schemas, strict=True), start=at.after + 1):
        digest = link(digest, line)
        rows.append(ChainRow(position, session_id, seq, line, digest, schema))
    return rows


def _runs(values: Iterable[int], *, step: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and value == runs[-1][0] + step * runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((value, 1))
    return runs


def _spread(runs: list[tuple[int, int]], *, step: int) -> Iterator[int]:
    if sum(count for _, count in runs) > FRAME_LINES:
        raise ValueError("more than a frame holds")
    for first, count in runs:
        yield from (first + step * place for place in range(count))
