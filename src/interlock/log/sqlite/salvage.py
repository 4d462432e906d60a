"""Rescue what can be read from a database that SQLite calls malformed, into a fresh one that takes its place.

The broken file stays, untouched and complete with its WAL, under another name. Rows are copied as they are, with their
positions and digests: what was lost or changed in them is then seen by `verify` and treated by `repair`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import msgspec
from msgspec import Struct

from interlock.log import lease, paths
from interlock.log.chain import ChainRow
from interlock.log.lease import LeaseHeld, Life
from interlock.log.port import LogUnavailable
from interlock.log.sqlite import turn_index
from interlock.log.sqlite.faults import UNREADABLE, scan, top_position, unavailable
from interlock.log.sqlite.schema import CURRENT, Schema, connect
from interlock.vocabulary.ids import is_valid_id

_KEPT: Final = {  # table: its key, its columns
    "sessions": ("session_id", "session_id, version, head, first_at, last_at, is_purged"),
    "archived": ("session_id", "session_id, file, sha256, bytes, frames, title, at_unix_ms"),
    "maintenance": ("id", "id, at_unix_ms, action, details"),
    "quarantine": ("id", "id, at_unix_ms, position, session_id, seq, line, digest, reason"),
}
_QUARANTINE: Final = """
INSERT INTO quarantine (at_unix_ms, position, session_id, seq, line, digest, reason) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_NAMES: Final = ("salvage", "broken", "graft")
_PAGE_BYTES: Final = 4096
_MAPS_A_ROOT: Final = b"\x01"
_NO_OTHER: Final = "stop every other interlock on this home, then run the salvage again with force"


class Salvaged(Struct, frozen=True, kw_only=True):
    """What was rescued. The broken file is kept at `broken`; `highest_position` is how many events there ever were."""

    broken: str
    sessions: int
    events: int
    quarantined: int
    highest_position: int

    @property
    def next_action(self) -> str:
        return (
            f"run `interlock log repair`, then `interlock log verify`; what could not be read is still in {self.broken}"
        )


async def salvage(
    home: Path, *, force: bool = False, clock: Callable[[], float] = time.time, schema: Schema = CURRENT
) -> Salvaged:
    """Put a fresh database in the place of a broken one. Refused while another process writes, or might.

    Nothing is changed when it fails.
    """
    return await asyncio.to_thread(_salvage, home, force, round(clock() * 1000), schema)


def _salvage(home: Path, force: bool, now_unix_ms: int, schema: Schema) -> Salvaged:
    path = paths.check_home(home)
    _keep_writers_out(path, force, now_unix_ms)
    fresh, broken, grafted = (path.with_name(f"{path.name}.{name}-{now_unix_ms}") for name in _NAMES)
    try:
        try:
            salvaged = _rescue(path, fresh, schema, force, now_unix_ms, str(broken))
        except apsw.Error:
            _graft(path, grafted, schema)
            salvaged = _rescue(grafted, fresh, schema, force, now_unix_ms, str(broken))
            if not salvaged.events:
                raise
        _swap(path, fresh, broken)
    except apsw.FullError as error:
        raise unavailable(error, str(fresh)) from error
    except apsw.Error as error:
        raise LogUnavailable(
            f"not one event can be read from {path} ({error})",
            next_action="import an export, or restore a backup; the file was not changed",
        ) from error
    except OSError as error:
        raise LogUnavailable(
            f"{path} cannot be salvaged: {error.strerror}",
            next_action=f"free some space, make {home} writable, try again",
        ) from error
    finally:  # only what was made here
        for name in (fresh, grafted, *(grafted.with_name(grafted.name + end) for end in ("-wal", "-shm"))):
            name.unlink(missing_ok=True)
    return salvaged


def _keep_writers_out(path: Path, force: bool, now_unix_ms: int) -> None:
    """Take the lease of the broken file, so that nobody begins to write it while it is copied and replaced.

    Where that cannot be written, no writer can take it either. It stays with this process: a file that could not be
    salvaged is free again when the process ends.
    """
    try:
        with closing(connect(path, readonly=False)) as connection:
            # The broken file is kept as it is found, its write-ahead file beside it.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.execute("BEGIN IMMEDIATE")
            lease.take(connection, lease.this_process(), now_unix_ms, force=force)
            connection.execute("COMMIT")
    except apsw.BusyError as error:
        raise unavailable(error, str(path)) from error
    except (apsw.Error, ValueError):
        return


def _graft(path: Path, grafted: Path, schema: Schema) -> None:
    """Copy a file, and give the copy the first page of an empty log: the tables are always made in the same places.

    In a file that gives room back in steps the second page maps the others, and its first entry is that of a root.
    Where it does not, the file was made by an older version, and a table that was added later may be anywhere.
    """
    with path.open("rb") as stream:
        stream.seek(_PAGE_BYTES)
        is_mapped = stream.read(1) == _MAPS_A_ROOT
    empty = apsw.Connection(":memory:")
    if is_mapped:
        empty.execute("PRAGMA auto_vacuum = INCREMENTAL")
    schema.create(empty)
    if not is_mapped:
        empty.execute("DROP TABLE archived")
    page = bytearray(empty.serialize("main")[:_PAGE_BYTES])
    wal = path.with_name(f"{path.name}-wal")
    page[18:20] = b"\x02\x02" if wal.exists() else b"\x01\x01"  # how the file is written: with a WAL or without
    page[28:32] = (path.stat().st_size // _PAGE_BYTES).to_bytes(4, "big")
    for source, copy in ((path, grafted), (wal, grafted.with_name(f"{grafted.name}-wal"))):
        if source.exists():
            copy.touch(0o600, exist_ok=False)
            shutil.copyfile(source, copy)
    with grafted.open("r+b") as stream:
        stream.write(page)


def _rescue(
    source_path: Path, fresh_path: Path, schema: Schema, force: bool, now_unix_ms: int, broken: str
) -> Salvaged:
    fresh_path.unlink(missing_ok=True)
    with closing(connect(source_path, readonly=True)) as source:
        schema.found(source)
        source.execute("SELECT 1 FROM events LIMIT 0")  # fails if the list of tables cannot be read
        token = _refuse_writers(source, force)
        fresh_path.touch(0o600, exist_ok=False)
        with closing(connect(fresh_path, readonly=False)) as fresh:
            fresh.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with fresh:
                schema.create(fresh)
                salvaged = _copy(source, fresh, now_unix_ms, broken)
                turn_index.rebuild_all(fresh, schema.decode)
                fresh.execute("UPDATE lease SET token = ?", (token + 1,))
    return salvaged


def _refuse_writers(source: apsw.Connection, force: bool) -> int:
    """The token of the lease, if it is certain that nobody holds it, or by force if that cannot be told."""
    try:
        ((token,),) = source.execute("SELECT token FROM lease").fetchall()
        holder = lease.read_holder(source)
        life = lease.judge(holder, lease.this_process()) if holder else Life.DEAD
    except (*UNREADABLE, ValueError, msgspec.MsgspecError):
        token, holder, life = 0, None, Life.UNKNOWN
    if life is Life.ALIVE and holder is not None and holder.pid != os.getpid():
        raise LeaseHeld(f"{holder} is writing to this log", next_action="stop it first", holder=holder)
    if life is Life.UNKNOWN and not force:
        raise LeaseHeld("it cannot be told whether another process writes", next_action=_NO_OTHER, holder=holder)
    return token if isinstance(token, int) else 0


def _copy(source: apsw.Connection, fresh: apsw.Connection, now_unix_ms: int, broken: str) -> Salvaged:
    counts = {table: _copy_table(source, fresh, table) for table in _KEPT}
    events = quarantined = 0
    for row in scan(source):
        try:
            if not is_valid_id(row.session_id) or row.seq < 1 or not row.line or not row.digest:
                raise apsw.ConstraintError("not a whole row")
            fresh.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)
            events += 1
        except apsw.ConstraintError as error:
            _set_aside(fresh, now_unix_ms, row, f"salvage could not place it: {error}")
            quarantined += 1
    top = max(top_position(source), top_position(fresh))
    fresh.execute("DELETE FROM sqlite_sequence WHERE name = 'events'")
    fresh.execute("INSERT INTO sqlite_sequence VALUES ('events', ?)", (top,))
    details = {"from": broken, "events": events, "quarantined": quarantined, "sessions": counts["sessions"]}
    lease.note(fresh, now_unix_ms, "salvage", json.dumps(details))
    return Salvaged(
        broken=broken,
        sessions=counts["sessions"],
        events=events,
        quarantined=quarantined,
        highest_position=top,
    )


def _set_aside(fresh: apsw.Connection, now_unix_ms: int, row: ChainRow, reason: str) -> None:
    values = (now_unix_ms, row.position, row.session_id, row.seq, row.line, row.digest, reason)
    fresh.execute(_QUARANTINE, values)


def _copy_table(source: apsw.Connection, fresh: apsw.Connection, table: str) -> int:
    copied = 0
    for values in _from_both_ends(source, table):
        try:
            places = ", ".join("?" * len(values))
            fresh.execute(f"INSERT OR IGNORE INTO {table} ({_KEPT[table][1]}) VALUES ({places})", values)
            copied += fresh.changes()
        except apsw.ConstraintError:  # a value of another type: the record itself is mangled
            continue
    return copied


def _from_both_ends(source: apsw.Connection, table: str) -> Iterator[tuple[apsw.SQLiteValue, ...]]:
    """The rows before a damaged page, and those after it."""
    key, columns = _KEPT[table]
    for order in ("ASC", "DESC"):
        try:
            yield from source.execute(f"SELECT {columns} FROM {table} ORDER BY {key} {order}")
        except (*UNREADABLE, apsw.SQLError):  # also a table that an older log has not
            continue
        return


def _swap(path: Path, fresh: Path, broken: Path) -> None:
    """The WAL goes first, or it would be played into the fresh file. The database's name always has a file."""
    os.link(path, broken)
    for name in ("-wal", "-journal"):
        companion = path.with_name(path.name + name)
        if companion.exists():
            companion.rename(broken.with_name(broken.name + name))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    fresh.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
