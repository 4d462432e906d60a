"""Reading a session whose events are in an archive file, by the tombstone that the database keeps of it.

Laws:
1. The tombstone names the file, its digest and its frames. A file that is missing, cut, changed or another's is an
   `ArchiveFault` that names it, and the events that it costs; nothing is concluded from it.
2. Nothing is opened but a plain file of that name in the folder `archive` of the home.
"""

from __future__ import annotations

import os
import re
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final

import apsw
import msgspec

from interlock.log.archive.frames import BadFrame, FrameIndex, unpack_frame
from interlock.log.chain import ChainRow
from interlock.vocabulary.ids import SessionId

FOLDER: Final = "archive"
ARCHIVE_NAME: Final = re.compile(r"\.?(?P<session>.+)\.\d+\.ndjson\.zst(\.part)?")
"""Of a file there, or of the draft of one."""
TABLES: Final = """
CREATE TABLE archived (                        -- sessions whose events are in a file, and not in the table of events
  session_id TEXT NOT NULL PRIMARY KEY,
  file TEXT NOT NULL,                          -- its name in the folder `archive` beside this file
  sha256 BLOB NOT NULL,                        -- of the whole file
  bytes INTEGER NOT NULL,                      -- its size
  frames TEXT NOT NULL,                        -- JSON: where each of its frames is
  title TEXT NOT NULL,                         -- of the session, so that it is found by it
  at_unix_ms INTEGER NOT NULL                  -- when it was moved
) STRICT, WITHOUT ROWID;
"""
_SELECT: Final = "SELECT file, sha256, bytes, frames, title, at_unix_ms FROM archived WHERE session_id = ?"
_CHUNK: Final = 1024 * 1024


class ArchivedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The tombstone of a session whose events are in a file."""

    session_id: SessionId
    file: str
    sha256: bytes
    bytes: int
    frames: list[FrameIndex]
    title: str
    at_unix_ms: int


class ArchiveFault(apsw.CorruptError):
    """Events of an archived session that cannot be read, and why. `rows` are those before them that were asked for."""

    def __init__(self, message: str, first_seq: int, last_seq: int) -> None:
        super().__init__(message)
        self.first_seq = first_seq
        self.last_seq = last_seq
        self.rows: list[ChainRow] = []


def archived(connection: apsw.Connection, session_id: SessionId) -> ArchivedSession | None:
    """The tombstone of a session; None: its events are in the database. A log of an older schema has none."""
    try:
        found = connection.execute(_SELECT, (session_id,)).fetchall()
    except apsw.SQLError:
        return None
    for file, digest, size, frames, title, at_unix_ms in found:
        try:
            decoded = msgspec.json.decode(str(frames), type=list[FrameIndex])
        except msgspec.MsgspecError as error:
            raise apsw.CorruptError(f"what is kept of the archived session {session_id} is mangled") from error
        return ArchivedSession(
            session_id=session_id,
            file=str(file),
            sha256=digest if isinstance(digest, bytes) else b"",
            bytes=size if isinstance(size, int) else 0,
            frames=decoded,
            title=str(title),
            at_unix_ms=at_unix_ms if isinstance(at_unix_ms, int) else 0,
        )
    return None


def archived_files(connection: apsw.Connection, first: str, last: str) -> dict[str, str]:
    """The file of every archived session from one id to another, by its id."""
    sql = "SELECT session_id, file FROM archived WHERE session_id BETWEEN ? AND ?"
    try:
        return {str(key): str(file) for key, file in connection.execute(sql, (first, last))}
    except (apsw.SQLError, apsw.CorruptError):
        return {}


def archived_rows(connection: apsw.Connection, session_id: SessionId, after: int, limit: int) -> list[ChainRow]:
    """The rows of an archived session after a `seq`, at most `limit` (-1: all of them); none of one that is not."""
    tombstone = archived(connection, session_id)
    if tombstone is None:
        return []
    rows: list[ChainRow] = []
    for frame in tombstone.frames:
        if frame.last <= after:
            continue
        if 0 <= limit <= len(rows):
            break
        try:
            rows += (row for row in frame_rows(folder_of(connection), tombstone, frame) if row.seq > after)
        except ArchiveFault as fault:
            fault.rows = rows
            raise
    return rows if limit < 0 else rows[:limit]


def folder_of(connection: apsw.Connection) -> Path:
    return Path(connection.filename).parent / FOLDER


def frame_rows(folder: Path, tombstone: ArchivedSession, frame: FrameIndex) -> list[ChainRow]:
    """The rows of one frame."""
    try:
        descriptor = _open(folder, tombstone)
        try:
            packed = os.pread(descriptor, frame.length, frame.offset)
        finally:
            os.close(descriptor)
        return unpack_frame(tombstone.session_id, frame, packed)
    except (OSError, BadFrame) as error:
        raise ArchiveFault(_told(folder, tombstone, error), frame.after + 1, frame.last) from error


def file_problem(folder: Path, tombstone: ArchivedSession) -> str:
    """What is wrong with a file as a whole; blank: it is the one that was written."""
    try:
        descriptor = _open(folder, tombstone)
        try:
            found, size = sha256(), 0
            while piece := os.pread(descriptor, _CHUNK, size):
                found.update(piece)
                size += len(piece)
        finally:
            os.close(descriptor)
    except (OSError, BadFrame) as error:
        return _told(folder, tombstone, error)
    is_same = (found.digest(), size) == (tombstone.sha256, tombstone.bytes)
    return "" if is_same else _told(folder, tombstone, BadFrame("it is not what was written there"))


def _open(folder: Path, tombstone: ArchivedSession) -> int:
    if Path(tombstone.file).name != tombstone.file:
        raise BadFrame("that is no name of a file")
    descriptor = os.open(folder / tombstone.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadFrame("it is not a plain file")
    return descriptor


def _told(folder: Path, tombstone: ArchivedSession, error: OSError | BadFrame) -> str:
    why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return f"its archive file {folder / tombstone.file} cannot be read: {why}; put it back from a backup"
