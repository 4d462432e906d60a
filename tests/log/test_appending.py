"""What is taken for a group of appends is written with the group, or not at all."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
from msgspec import structs

from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.appending import Appender, PendingAppend
from interlock.log.sqlite.schema import CURRENT
from interlock.testing.scribe import Scribe
from tests.contract.harness import A, B, batch
from tests.lifecycle.test_lost_events import turn
from tests.log.edits import make_home

TABLES = ("events", "sessions", "turns")


def rows_of_a(connection: apsw.Connection) -> list[object]:
    return [connection.execute(f"SELECT * FROM {table} WHERE session_id = ?", (A,)).fetchall() for table in TABLES]


def test_what_is_forgotten_is_not_written_with_the_next_append(tmp_path: Path) -> None:
    """Neither its events, nor its summary, nor its turn: its caller was told that it failed."""
    scribe = Scribe(A)
    turn(scribe, "t1")
    events = tuple(structs.replace(event, seq=None) for event in scribe.events)
    appender = Appender()
    with closing(apsw.Connection(str(make_home(tmp_path / "home") / DATABASE_NAME))) as connection:
        before = rows_of_a(connection)
        assert appender.take(connection, PendingAppend(A, events, None, CURRENT.version)) == 9 + len(events)
        appender.forget()
        assert appender.take(connection, PendingAppend(B, tuple(batch(1, B)), None, CURRENT.version)) == 5
        appender.flush(connection)
        assert rows_of_a(connection) == before
        assert appender.take(connection, PendingAppend(A, events, None, CURRENT.version)) == 9 + len(events)
