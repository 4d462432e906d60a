"""Moving a session into an archive file, and back.

Laws:
1. At every moment the events are in the database or in a file that is complete and on the disk, or in both; never in
   neither. So a session is first written, synced and read back, then one transaction puts its tombstone in the place of
   its rows. On the way back the rows are committed first, and then the file goes.
2. Only what is sound and whole is moved, as it was when it was judged: a session that has grown since is refused.
3. What comes back is what went: the same lines, digests, positions and schema versions, and the same head.
4. What a move that was broken off leaves behind is a draft, or a file that no tombstone names; the next move of the
   session writes over it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

import apsw
import msgspec

from interlock.log.archive.frames import FrameIndex, pack_frames
from interlock.log.archive.reading import (
    FOLDER,
    ArchivedSession,
    ArchiveFault,
    archived,
    file_problem,
    folder_of,
    frame_rows,
)
from interlock.log.chain import ChainRow, Decoder, Head, Inspector, start
from interlock.log.port import LogDamage, SessionSummary
from interlock.log.sqlite.faults import rows_of
from interlock.log.sqlite.readers import head_of, summary_of
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId

_PAGE: Final = 1000
_LIST: Final = "list them with `interlock log ls`"
_INSERT_ROW: Final = (
    "INSERT INTO events (position, session_id, seq, line, digest, schema_version) VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT: Final = """
INSERT INTO archived (session_id, file, sha256, bytes, frames, title, at_unix_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
"""


class MovedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was moved, and how large it is where it is now and was before."""

    session_id: SessionId
    version: int
    head: str
    file: str
    stored_bytes: int
    file_bytes: int


class DamagedSession(PeerFault):
    """What is to be moved is not sound."""


async def archive_session(
    log: SqliteLog, session_id: SessionId, *, version: int, title: str, now_unix_ms: int
) -> MovedSession:
    """Move a session that is at `version` into a file. `UsageError` where it is not, `DamagedSession` where it is not
    sound; then nothing was moved."""
    work = partial(_write, session_id=session_id, version=version, decode=log.schema.decode)
    tombstone, head, stored = await log.query(work)
    tombstone = msgspec.structs.replace(tombstone, title=title, at_unix_ms=now_unix_ms)
    problem = await asyncio.to_thread(file_problem, log.path.parent / FOLDER, tombstone)
    if problem:
        raise DamagedSession(f"session {session_id} was not moved: {problem}")
    details: Json = {"session_id": session_id, "version": version, "head": head.digest.hex(), "file": tombstone.file}
    await log.maintain("archive", details, partial(_bury, tombstone=tombstone, head=head))
    return MovedSession(
        session_id=session_id,
        version=version,
        head=head.digest.hex(),
        file=tombstone.file,
        stored_bytes=stored,
        file_bytes=tombstone.bytes,
    )


async def restore_session(log: SqliteLog, session_id: SessionId) -> SessionSummary:
    """Move a session back into the database. Where its file is not what was written, nothing is changed."""
    tombstone = await log.query(lambda connection: archived(connection, session_id))
    if tombstone is None:
        raise UsageError(f"session {session_id} is in no archive file", remedy=_LIST)
    problem = await asyncio.to_thread(file_problem, log.path.parent / FOLDER, tombstone)
    if problem:
        raise DamagedSession(f"session {session_id} was not restored, and is as it was: {problem}")
    details: Json = {"session_id": session_id, "file": tombstone.file}
    summary = await log.maintain("restore", details, partial(_unbury, session_id=session_id, decode=log.schema.decode))
    await asyncio.to_thread(_remove, log.path.parent / FOLDER / tombstone.file)
    return summary


def _write(
    connection: apsw.Connection, *, session_id: SessionId, version: int, decode: Decoder
) -> tuple[ArchivedSession, Head, int]:
    """Write the file of a session, and have it on the disk under its name."""
    head = _head(connection, session_id, version)
    folder = folder_of(connection)
    folder.mkdir(mode=0o700, exist_ok=True)
    name = f"{session_id}.{version}.ndjson.zst"
    draft = folder / f".{name}.part"
    frames: list[FrameIndex] = []
    digest, size, stored = sha256(), 0, 0
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            for frame in pack_frames(session_id, start(session_id), _sound_rows(connection, session_id, head, decode)):
                frames.append(FrameIndex(frame.after, frame.last, size, len(frame.packed), frame.raw))
                stream.write(frame.packed)
                digest.update(frame.packed)
                size += len(frame.packed)
                stored += frame.raw
            stream.flush()
            os.fsync(descriptor)
        draft.replace(folder / name)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    for each in (folder, folder.parent):
        _sync_folder(each)
    tombstone = ArchivedSession(
        session_id=session_id, file=name, sha256=digest.digest(), bytes=size, frames=frames, title="", at_unix_ms=0
    )
    return tombstone, head, stored


def _head(connection: apsw.Connection, session_id: SessionId, version: int) -> Head:
    head, is_purged = head_of(connection, session_id)
    if head is None:
        raise UsageError(f"there is no session {session_id}", remedy=_LIST)
    if is_purged:
        raise UsageError(f"session {session_id} was purged: there is nothing left of it to move")
    if archived(connection, session_id) is not None:
        raise UsageError(
            f"session {session_id} is in an archive file already", remedy="`interlock log restore` undoes it"
        )
    if head.version != version:
        raise UsageError(
            f"session {session_id} was not moved: it is at event {head.version} now, and not at {version}",
            remedy="try again when no one works in it",
        )
    return head


def _sound_rows(connection: apsw.Connection, session_id: SessionId, head: Head, decode: Decoder) -> Iterator[ChainRow]:
    """Every row, in order, each proven by the chain. What is not sound is refused: a file would hide the damage."""
    inspector = Inspector(session_id, decode)
    cursor = 0
    while True:
        rows = rows_of(connection, session_id, cursor, _PAGE)
        for row in rows:
            _refuse_damage(session_id, (one for one in inspector.see(row) if isinstance(one, LogDamage)))
            yield row
        if len(rows) < _PAGE:
            break
        cursor = rows[-1].seq
    _refuse_damage(session_id, inspector.end(head))


def _refuse_damage(session_id: SessionId, found: Iterator[LogDamage]) -> None:
    for one in found:
        raise DamagedSession(
            f"session {session_id} is damaged at event {one.first_seq}: {one.message}; it was not moved, see "
            f"`interlock log verify {session_id}`"
        )


def _bury(connection: apsw.Connection, *, tombstone: ArchivedSession, head: Head) -> None:
    if _head(connection, tombstone.session_id, head.version) != head:
        raise UsageError(f"session {tombstone.session_id} changed while it was moved", remedy="try again")
    frames = msgspec.json.encode(tombstone.frames).decode()
    values = (tombstone.session_id, tombstone.file, tombstone.sha256, tombstone.bytes, frames)
    connection.execute(_INSERT, (*values, tombstone.title, tombstone.at_unix_ms))
    connection.execute("DELETE FROM events WHERE session_id = ?", (tombstone.session_id,))


def _unbury(connection: apsw.Connection, *, session_id: SessionId, decode: Decoder) -> SessionSummary:
    tombstone = archived(connection, session_id)
    head, is_purged = head_of(connection, session_id)
    if tombstone is None or head is None or is_purged:
        raise UsageError(f"session {session_id} is in no archive file", remedy=_LIST)
    inspector = Inspector(session_id, decode)
    folder = folder_of(connection)
    try:
        for frame in tombstone.frames:
            rows = frame_rows(folder, tombstone, frame)
            for row in rows:
                _refuse_damage(session_id, (one for one in inspector.see(row) if isinstance(one, LogDamage)))
            connection.executemany(_INSERT_ROW, rows)
    except ArchiveFault as fault:
        raise DamagedSession(f"session {session_id} was not restored, and is as it was: {fault}") from fault
    _refuse_damage(session_id, inspector.end(head))
    connection.execute("DELETE FROM archived WHERE session_id = ?", (session_id,))
    return summary_of(connection, session_id)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
