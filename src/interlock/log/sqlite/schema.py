"""The tables of the log's database, and how older ones and older events are read.

`PRAGMA user_version` holds the schema's version, `PRAGMA application_id` says that the file is ours. An older schema is
brought up to date in the transaction that takes the writer lease; a newer one is refused and nothing is touched.
Stored lines are never rewritten: each row knows the version it was written by, and upcasters mend it as it is read.
Only `lease` must keep its shape for ever: programs of any version agree by it on who may write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import apsw
import msgspec

from interlock.log.archive import reading as archive_reading
from interlock.log.port import LogUnavailable
from interlock.log.sqlite import snapshot_table, turn_index
from interlock.vocabulary.errors import MalformedEvent
from interlock.vocabulary.events.codec import decode_event
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json

T = TypeVar("T")
Work: TypeAlias = Callable[[apsw.Connection], T]
"""Something to do with the database, in a thread and a transaction that are given."""

APPLICATION_ID: Final = 0x494C4B31  # "ILK1"

# Pages that many sessions append to are written once a checkpoint, so a rare one costs less; this is 16 MB of WAL.
CHECKPOINT_PAGES: Final = 4000

_TABLES_1: Final = """
CREATE TABLE events (
  position INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of all commits; never used again, also after a purge
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  line BLOB NOT NULL,                          -- exactly what encode_event gave
  digest BLOB NOT NULL,                        -- chain.link(digest of seq - 1, line)
  schema_version INTEGER NOT NULL,             -- what wrote the line
  UNIQUE (session_id, seq)
) STRICT;
CREATE TABLE sessions (
  session_id TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,                    -- seq of the last event
  head BLOB NOT NULL,                          -- digest of the last event, kept apart from it
  first_at TEXT NOT NULL,                      -- ts of the first and the last event, ISO 8601
  last_at TEXT NOT NULL,
  is_purged INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE lease (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  token INTEGER NOT NULL,                      -- grows with every take-over
  holder TEXT NOT NULL,                        -- JSON of lease.Holder; empty when let go
  heartbeat_unix_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE maintenance (                     -- what was done to the log by hand or on our own judgement
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_unix_ms INTEGER NOT NULL,
  action TEXT NOT NULL,
  details TEXT NOT NULL                        -- JSON
) STRICT;
CREATE TABLE quarantine (                      -- what repair took out of events; nothing is ever deleted from here
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_unix_ms INTEGER NOT NULL,
  position INTEGER,
  session_id TEXT NOT NULL,
  seq INTEGER,
  line BLOB,
  digest BLOB,
  reason TEXT NOT NULL
) STRICT;
INSERT INTO lease VALUES (1, 0, '', 0);
"""
TABLES: Final = _TABLES_1 + turn_index.TABLES + archive_reading.TABLES + snapshot_table.TABLES

Raw: TypeAlias = dict[str, Json]
Migration: TypeAlias = Callable[[apsw.Connection], None]
Upcaster: TypeAlias = Callable[[Raw], Raw]


@dataclass(frozen=True, slots=True)
class Schema:
    """A version of the tables, the steps that lead to it, and what older events need to be read by it.

    `migrations[n]` turns the tables of version n into n + 1. `upcasters[type, n]` turns an event of that type, as
    version n wrote it, into what n + 1 would have written; no entry means that nothing changed.
    """

    version: int
    migrations: Mapping[int, Migration] = field(default_factory=dict)
    upcasters: Mapping[tuple[str, int], Upcaster] = field(default_factory=dict)

    def found(self, connection: apsw.Connection) -> int:
        """The version of the file (0: empty). Refuses what is not ours and what is newer, and changes nothing."""
        version, application_id = _pragma(connection, "user_version"), _pragma(connection, "application_id")
        if version == application_id == 0 and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
            return 0
        if application_id != APPLICATION_ID:
            raise LogUnavailable(
                f"{connection.filename} is a database of another program",
                next_action="move it away, or choose another folder with INTERLOCK_HOME",
            )
        if version > self.version:
            raise LogUnavailable(
                f"{connection.filename} has schema {version}, and this program knows {self.version}",
                next_action="upgrade interlock; nothing was changed",
            )
        return version

    def create(self, connection: apsw.Connection) -> None:
        """Make the tables of this version. Call it inside a transaction."""
        connection.execute(TABLES)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {self.version}")

    def migrate(self, connection: apsw.Connection) -> None:
        """Bring older tables up to date. Call it inside a transaction, with the lease in hand."""
        for step in range(self.found(connection), self.version):
            self.migrations[step](connection)
            connection.execute(f"PRAGMA user_version = {step + 1}")

    def decode(self, line: bytes, written_by: int) -> Event:
        """Read a stored line, mended if an older version wrote it. Raises `MalformedEvent`, and nothing else."""
        if written_by == self.version or not self.upcasters:
            return decode_event(line)
        try:
            raw = msgspec.json.decode(line, type=dict[str, Any])
            for step in range(written_by, self.version):
                upcast = self.upcasters.get((raw["type"], step))
                raw = raw if upcast is None else upcast(raw)
            line = msgspec.json.encode(raw)
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise MalformedEvent(
                f"an event of schema {written_by} cannot be read by {self.version}: {error!r}"
            ) from error
        return decode_event(line)


def _add_turn_index(connection: apsw.Connection) -> None:
    connection.execute(turn_index.TABLES)
    turn_index.rebuild_all(connection, lambda line, _: decode_event(line))


def _add_archive(connection: apsw.Connection) -> None:
    connection.execute(archive_reading.TABLES)


def _add_snapshots(connection: apsw.Connection) -> None:
    """Empty: they are made when sessions are next folded."""
    connection.execute(snapshot_table.TABLES)


# 3 was never released: its step changes nothing.
CURRENT: Final = Schema(
    version=5, migrations={1: _add_turn_index, 2: lambda _: None, 3: _add_archive, 4: _add_snapshots}
)


def _pragma(connection: apsw.Connection, name: str) -> int:
    return int(str(connection.execute(f"PRAGMA {name}").fetchall()[0][0]))


def connect(
    path: Path, *, readonly: bool, vfs: str | None = None, busy_timeout_seconds: float = 5.0
) -> apsw.Connection:
    """Open the database. A read-only connection changes nothing, and works beside a writer and without write access."""
    uri = path.as_uri()  # a URI for its options; it also spells odd characters of the path safely
    try:
        return _connect(uri, readonly=readonly, vfs=vfs, busy_timeout_seconds=busy_timeout_seconds)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if not readonly or path.with_name(f"{path.name}-wal").exists():
            raise
        # Nobody can make the files that WAL needs here, and there are none: nothing writes, and nothing is pending.
        uri = f"{uri}?immutable=1"
        return _connect(uri, readonly=True, vfs=vfs, busy_timeout_seconds=busy_timeout_seconds)
    except apsw.CorruptError:
        if not readonly:
            raise
        return _connect(uri, readonly=True, vfs=vfs, busy_timeout_seconds=busy_timeout_seconds, is_cut=True)


def _connect(
    uri: str, *, readonly: bool, vfs: str | None, busy_timeout_seconds: float, is_cut: bool = False
) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(uri, flags | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW, vfs)
    try:
        connection.set_busy_timeout(round(busy_timeout_seconds * 1000))
        if is_cut:  # on a connection that cannot write, this means: read what is left of a file that is too short
            connection.execute("PRAGMA writable_schema = ON")
        # FULL: a commit is acknowledged only once its bytes are on the disk. The other two make damage show early.
        connection.execute("PRAGMA synchronous = FULL; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF")
        connection.wal_autocheckpoint(CHECKPOINT_PAGES)
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except apsw.Error:
        disconnect(connection)
        raise
    return connection


def is_cut(connection: apsw.Connection) -> bool:
    """Whether the file is known to be too short, so that what is not found may be lost rather than not there."""
    return bool(connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, -1))


def disconnect(connection: apsw.Connection) -> None:
    """Close, and roll back what is open. Closing may try to tidy up the files, and that it cannot is no fault here."""
    with suppress(apsw.Error):
        connection.close(True)
