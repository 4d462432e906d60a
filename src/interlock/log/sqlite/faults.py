"""What can go wrong with a database file: each fault as a clear error, and the rows around a damaged page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import apsw

from interlock.log.archive.reading import archived_rows
from interlock.log.chain import ChainRow
from interlock.log.port import LogUnavailable
from interlock.vocabulary.ids import SessionId

# What a lost page or a mangled record looks like to a reader.
UNREADABLE: Final = (apsw.CorruptError, apsw.IOError, apsw.FormatError, apsw.MismatchError, UnicodeDecodeError)
# What does not pass by itself: the file is not what it should be.
_LASTING: Final = (
    apsw.NotADBError,
    apsw.CorruptError,
    apsw.ConstraintError,
    apsw.FormatError,
    apsw.SchemaChangeError,
    apsw.MismatchError,
)
# A hole is first searched row by row for what is still there; one that is larger than this is left by leaps.
_CLOSE_SEARCH: Final = 4096

# Columns are read as they are: in a damaged record any of them may be of any type.
_COLUMNS: Final = "position, CAST(session_id AS BLOB), seq, line, digest, schema_version"
_OF_SESSION: Final = f"SELECT {_COLUMNS} FROM events WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_ONE: Final = f"SELECT {_COLUMNS} FROM events WHERE session_id = ? AND seq = ?"
_BY_POSITION: Final = f"SELECT {_COLUMNS} FROM events NOT INDEXED WHERE position > ? ORDER BY position LIMIT ?"
_INDEX: Final = (
    "SELECT position, CAST(session_id AS BLOB), seq, x'', x'', 0 FROM events INDEXED BY sqlite_autoindex_events_1"
)


def unavailable(error: apsw.Error, path: str) -> LogUnavailable:
    """Say what is wrong with the file and what to do about it."""
    message, next_action = _describe(error)
    may_pass = not isinstance(error, _LASTING)
    return LogUnavailable(f"{path}: {message} ({error})", next_action=next_action, may_pass=may_pass)


def _describe(error: apsw.Error) -> tuple[str, str]:
    match error:
        case apsw.FullError():
            return "the disk is full", "free some space; nothing was half written"
        case apsw.BusyError() | apsw.LockedError():
            return (
                "another process keeps the log locked",
                "close what holds it (a database browser, a backup), and try again",
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return "the log cannot be written", "make the file and its folder writable for its owner"
        case apsw.CantOpenError():
            return "the log cannot be opened", "check that the file and its folder belong to you and are no symlinks"
        case apsw.NotADBError():
            return "this is not a database", "move the file away, and import an export or a copy"
        case apsw.CorruptError() | apsw.ConstraintError() | apsw.FormatError() | apsw.SchemaChangeError():
            return "the log is damaged", "run `interlock log verify`, then `interlock log repair`"
        case apsw.IOError():
            return "the disk refused to read or write", "check the disk and its space, then try again"
        case _:
            return "the log cannot be used", "try again; if it stays, run `interlock log verify`"


def rows_of(connection: apsw.Connection, session_id: SessionId, after: int, limit: int) -> list[ChainRow]:
    """The rows of a session after a `seq`: the next `limit`, or, where pages are damaged, all that can be had. Those of
    an archived one are in its file; `ArchiveFault` where that cannot be read."""
    try:
        rows = [_row(columns) for columns in connection.execute(_OF_SESSION, (session_id, after, limit))]
    except UNREADABLE:
        return _salvage(connection, session_id, after)
    return rows or archived_rows(connection, session_id, after, limit)


def rows_after(connection: apsw.Connection, position: int, limit: int) -> list[ChainRow]:
    """The rows of all sessions after a position: the next `limit`, or, where pages are damaged, all that can be had."""
    try:
        return [_row(columns) for columns in connection.execute(_BY_POSITION, (position, limit))]
    except UNREADABLE:
        found = {row.position: row for row in _index(connection) if row.position > position}
        found |= {row.position: row for row in scan(connection, position)}
        return sorted(found.values())


def scan(connection: apsw.Connection, position: int = 0) -> Iterator[ChainRow]:
    """Every row of the table that can be read, in the order of positions, without the help of an index."""
    last, lost = position, 0
    top = top_position(connection)
    while last < top:
        try:
            for columns in connection.execute(_BY_POSITION, (last, -1)):
                row = _row(columns)
                last, lost = max(last, row.position), 0
                yield row
        except UNREADABLE:
            lost += 1
            last += 1 if lost < _CLOSE_SEARCH else lost
        else:
            return


def _salvage(connection: apsw.Connection, session_id: SessionId, after: int) -> list[ChainRow]:
    """Three ways to the same rows: by what the index knows, one by one, and by a walk over the table without it."""
    known = {row.seq: row for row in _index(connection, session_id) if row.seq > after}
    for seq in list(known):
        try:
            known.update((seq, _row(columns)) for columns in connection.execute(_ONE, (session_id, seq)))
        except UNREADABLE:
            continue
    for row in scan(connection):
        if row.session_id == session_id and row.seq > after and not (row.seq in known and known[row.seq].line):
            known[row.seq] = row
    return [known[seq] for seq in sorted(known)]


def _index(connection: apsw.Connection, session_id: SessionId | None = None) -> Iterator[ChainRow]:
    """What the index alone knows of rows; their lines stay empty. Ends where it is damaged itself."""
    sql, values = (_INDEX, ()) if session_id is None else (f"{_INDEX} WHERE session_id = ? ORDER BY seq", (session_id,))
    try:
        for columns in connection.execute(sql, values):
            yield _row(columns)
    except UNREADABLE:
        return


def top_position(connection: apsw.Connection) -> int:
    """The highest position that was ever given."""
    for sql in ("SELECT seq FROM sqlite_sequence WHERE name = 'events'", "SELECT max(position) FROM events"):
        try:
            for (top,) in connection.execute(sql):
                if isinstance(top, int):
                    return top
        except UNREADABLE:
            continue
    return 0


def _row(columns: Iterable[object]) -> ChainRow:
    position, session_id, seq, line, digest, schema_version = columns
    return ChainRow(
        position if isinstance(position, int) else 0,
        SessionId(session_id.decode("utf-8", "replace") if isinstance(session_id, bytes) else ""),
        seq if isinstance(seq, int) else 0,
        line if isinstance(line, bytes) else b"",
        digest if isinstance(digest, bytes) else b"",
        schema_version if isinstance(schema_version, int) else 0,
    )
