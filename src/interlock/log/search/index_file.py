"""The index of words: `search.sqlite3` beside the log, with FTS5.

Laws:
1. It is a cache. Without it, or with one of another version or another log, it is made anew from the log, and then
   every search gives the same again. A broken one is as one that is not there.
2. No text is kept in it, only which words are where: a hit is read from the log, which proves it.
3. Hits come newest first, by the position of their commit, which is their number here. So a page costs what it shows.
4. How far it is stands in the transaction of what was added: whatever moment it is killed at, nothing is added twice or
   left out. `anchor` is an event of the log that it was made from.
5. A purge deletes it whole, before anything else: no word of what was purged stays.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Self

import apsw

from interlock.log.search.words import TOKENIZER
from interlock.vocabulary.ids import SessionId

NAME: Final = "search.sqlite3"
PIECE: Final = 200_000
"""So many characters of a text are one entry. The words of a search have to be in the same entry."""
_PIECES: Final = 4096
_TABLES: Final = f"""
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), version TEXT NOT NULL, position INTEGER NOT NULL,
  maintained INTEGER NOT NULL, has_archives INTEGER NOT NULL, anchor_session TEXT NOT NULL, anchor_seq INTEGER NOT NULL,
  anchor_digest BLOB NOT NULL) STRICT;
CREATE TABLE sessions (number INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL,
  title TEXT NOT NULL, last_seq INTEGER NOT NULL) STRICT;
CREATE TABLE entries (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL,
  at_unix_ms INTEGER NOT NULL) STRICT;
CREATE VIRTUAL TABLE words USING fts5 (text, scope, content = '', tokenize = '{TOKENIZER}');
"""
_HITS: Final = """
SELECT e.id, s.session_id, s.agent, s.title, e.seq, e.role, e.at_unix_ms
FROM words JOIN entries e ON e.id = words.rowid JOIN sessions s ON s.number = e.session
WHERE words MATCH ? AND words.rowid < ? AND e.at_unix_ms >= ? AND e.at_unix_ms < ? ORDER BY words.rowid DESC
"""
_STEPS: Final = 10_000
_LAST: Final = 2**63 - 1


class SearchText(NamedTuple):
    """A text of the log that can be found."""

    position: int
    session_id: SessionId
    seq: int
    role: str
    at: datetime
    text: str


class Opening(NamedTuple):
    """Which agent runs in a session, and what it is called."""

    session_id: SessionId
    agent: str
    title: str


class Added(NamedTuple):
    """What was read of the log: texts, openings and later titles, and up to which event of each session that is."""

    texts: Sequence[SearchText]
    openings: Sequence[Opening]
    titles: Sequence[tuple[SessionId, str]]
    last_seqs: dict[SessionId, int]


class IndexAnchor(NamedTuple):
    """An event of the log, by its digest."""

    session_id: SessionId
    seq: int
    digest: bytes


class Scope(NamedTuple):
    """Where to search. `before`: only hits with a lower number."""

    session_id: str = ""
    agent: str = ""
    role: str = ""
    since_unix_ms: int = -_LAST
    until_unix_ms: int = _LAST
    before: int = _LAST


class Hit(NamedTuple):
    """One entry that was found. `piece` is which part of a long text it is."""

    number: int
    session_id: SessionId
    agent: str
    title: str
    seq: int
    role: str
    at_unix_ms: int

    @property
    def piece(self) -> int:
        return self.number % _PIECES


class State(NamedTuple):
    """How far the index is. `maintained`: the last row of `maintenance` that was heeded; -1: none was
    looked at."""

    position: int
    maintained: int
    has_archives: bool
    anchor: IndexAnchor


def remove_index(home: Path) -> None:
    """Delete the index of a home, if there is one."""
    for name in ("", "-wal", "-shm", "-journal"):
        (home / f"{NAME}{name}").unlink(missing_ok=True)


class SearchIndex:
    """An index that is open, for one thread at a time."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Use `open` or `read`."""
        self._connection = connection

    @classmethod
    def open(cls, home: Path, version: str) -> Self:
        """To write. One that is of another version or cannot be read is made anew."""
        full = sha256(f"{version}\n{_TABLES}\n{PIECE}".encode()).hexdigest()
        with suppress(apsw.Error):
            index = cls(_connect(home / NAME, apsw.SQLITE_OPEN_READWRITE))
            try:
                if index._connection.execute("SELECT version FROM state").fetchall() == [(full,)]:
                    return index
            except apsw.Error:
                pass
            index.close()
        remove_index(home)
        os.close(os.open(home / NAME, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        index = cls(_connect(home / NAME, apsw.SQLITE_OPEN_READWRITE))
        index._connection.execute("PRAGMA journal_mode = WAL")
        with index._connection:
            index._connection.execute(_TABLES)
            index._connection.execute("INSERT INTO state VALUES (1, ?, 0, -1, 0, '', 0, x'')", (full,))
        return index

    @classmethod
    def read(cls, home: Path) -> Self:
        """Only to search, beside the one that writes."""
        return cls(_connect(home / NAME, apsw.SQLITE_OPEN_READONLY))

    def close(self) -> None:
        with suppress(apsw.Error):
            self._connection.close(True)

    def state(self) -> State:
        sql = "SELECT position, maintained, has_archives, anchor_session, anchor_seq, anchor_digest FROM state"
        ((position, maintained, has_archives, session_id, seq, digest),) = self._connection.execute(sql).fetchall()
        assert isinstance(digest, bytes), "a table that is STRICT"
        anchor = IndexAnchor(SessionId(str(session_id)), int(str(seq)), digest)
        return State(int(str(position)), int(str(maintained)), bool(has_archives), anchor)

    def last_seq(self, session_id: SessionId) -> int:
        """Up to which event a session is in it."""
        sql = "SELECT last_seq FROM sessions WHERE session_id = ?"
        return next((int(str(seq)) for (seq,) in self._connection.execute(sql, (session_id,))), 0)

    def add(self, added: Added, state: State) -> None:
        """Add what was read, and note how far that is. Law 4."""
        with self._connection:
            for session_id, last_seq in added.last_seqs.items():
                self._connection.execute(
                    "INSERT INTO sessions (session_id, agent, title, last_seq) VALUES (?, '', '', ?)"
                    " ON CONFLICT DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)",
                    (session_id, last_seq),
                )
            for one in added.openings:
                values = (one.agent, one.title, one.session_id)
                self._connection.execute("UPDATE sessions SET agent = ?, title = ? WHERE session_id = ?", values)
            for renamed, title in added.titles:
                self._connection.execute("UPDATE sessions SET title = ? WHERE session_id = ?", (title, renamed))
            for text in added.texts:
                self._put(text)
            self._connection.execute(
                "UPDATE state SET position = ?, maintained = ?, has_archives = ?,"
                " anchor_session = ?, anchor_seq = ?, anchor_digest = ?",
                (state.position, state.maintained, state.has_archives, *state.anchor),
            )

    def _put(self, text: SearchText) -> None:
        sql = "SELECT number, agent FROM sessions WHERE session_id = ?"
        ((number, agent),) = self._connection.execute(sql, (text.session_id,)).fetchall()
        scope = f"{_session_token(int(str(number)))} {_agent_token(str(agent))} {_role_token(text.role)}"
        at = round(text.at.timestamp() * 1000)
        for piece in range(min(_PIECES, -(-len(text.text) // PIECE))):
            key = text.position * _PIECES + piece
            entry = (key, number, text.seq, text.role, at)
            self._connection.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?)", entry)
            if self._connection.changes():
                words = (key, piece_of(text.text, piece), scope)
                self._connection.execute("INSERT INTO words (rowid, text, scope) VALUES (?, ?, ?)", words)

    def find(self, spelled: str, scope: Scope, limit: int, seconds: float) -> tuple[list[Hit], bool]:
        """Up to so many hits, newest first, and whether the time was over before all were looked at."""
        match = f"{{text}} : ({spelled})"
        if scope.session_id:
            sql = "SELECT number FROM sessions WHERE session_id = ?"
            known = self._connection.execute(sql, (scope.session_id,)).fetchall()
            if not known:
                return [], False
            match += f" AND {{scope}} : {_session_token(int(str(known[0][0])))}"
        match += f" AND {{scope}} : {_agent_token(scope.agent)}" if scope.agent else ""
        match += f" AND {{scope}} : {_role_token(scope.role)}" if scope.role else ""
        ends_at = time.monotonic() + seconds
        self._connection.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS)
        hits: list[Hit] = []
        try:
            asked = (match, scope.before, scope.since_unix_ms, scope.until_unix_ms)
            for row in self._connection.execute(_HITS, asked):
                hits.append(Hit(*row))
                if len(hits) == limit:
                    break
        except apsw.InterruptError:
            return hits, True
        finally:
            self._connection.set_progress_handler(None)
        return hits, False


def piece_of(text: str, piece: int) -> str:
    """One entry of a text."""
    return text[piece * PIECE : (piece + 1) * PIECE]


def _session_token(number: int) -> str:
    return f"s{number}"


def _agent_token(agent: str) -> str:
    """A name in one word of letters and digits, whatever is in it."""
    return f"a{agent.encode('utf-8', 'replace').hex()}"


def _role_token(role: str) -> str:
    return f"r{role}"


def _connect(path: Path, flags: int) -> apsw.Connection:
    uri = path.resolve(strict=False).as_uri()
    connection = apsw.Connection(uri, flags | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW)
    connection.set_busy_timeout(5000)
    connection.execute("PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
    return connection
