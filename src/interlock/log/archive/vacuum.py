"""Giving back the room that purged and archived events took in the database, step by step.

Laws:
1. A step moves a bounded number of pages and is one small write among others: whoever appends waits for a step.
2. A file from before steps were possible is rewritten once, whole, and only while nobody else has the log.
"""

from __future__ import annotations

import asyncio
from typing import Final

import apsw
from msgspec import Struct

from interlock.log.sqlite.faults import unavailable
from interlock.log.sqlite.schema import connect, disconnect
from interlock.log.sqlite.store import SqliteLog

STEP_PAGES: Final = 1000


class VacuumStep(Struct, frozen=True, kw_only=True):
    """What a step gave back, and how much is left. `needs_rewrite`: it is of an older kind, steps free none."""

    freed_bytes: int
    left_bytes: int
    needs_rewrite: bool = False


async def vacuum_step(log: SqliteLog) -> VacuumStep:
    """Give back up to `STEP_PAGES` pages."""
    return await log.maintain("vacuum", {"pages": STEP_PAGES}, _step)


def _step(connection: apsw.Connection) -> VacuumStep:
    page_bytes, before = _number(connection, "page_size"), _number(connection, "page_count")
    if _number(connection, "auto_vacuum") == 0:
        free = _number(connection, "freelist_count")
        return VacuumStep(freed_bytes=0, left_bytes=free * page_bytes, needs_rewrite=free > 0)
    connection.execute(f"PRAGMA incremental_vacuum({STEP_PAGES})").fetchall()
    freed = before - _number(connection, "page_count")
    return VacuumStep(freed_bytes=freed * page_bytes, left_bytes=_number(connection, "freelist_count") * page_bytes)


async def rewrite(log: SqliteLog) -> int:
    """Write the file anew without its free pages, so that from then on steps are possible; the bytes that it freed.

    `log` has the lease: nobody else writes meanwhile.
    """
    return await asyncio.to_thread(_rewrite, log)


def _rewrite(log: SqliteLog) -> int:
    try:
        connection = connect(log.path, readonly=False)
        try:
            before = _number(connection, "page_count")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("VACUUM")
            freed = before - _number(connection, "page_count")
            return freed * _number(connection, "page_size")
        finally:
            disconnect(connection)
    except apsw.Error as error:
        raise unavailable(error, str(log.path)) from error


def _number(connection: apsw.Connection, name: str) -> int:
    ((value,),) = connection.execute(f"PRAGMA {name}").fetchall()
    return int(str(value))
