"""The tables of schema 1, as the program wrote them that knew no other, so that they stay what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from interlock.log.paths import DATABASE_NAME
from interlock.log.sqlite.schema import APPLICATION_ID

TABLES_ONE: Final = """
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


def make_version_one(home: Path) -> None:
    """An empty log of schema 1."""
    home.mkdir(mode=0o700)
    connection = apsw.Connection(str(home / DATABASE_NAME))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(TABLES_ONE)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1")
    connection.close()
