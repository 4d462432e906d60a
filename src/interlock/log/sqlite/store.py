"""The log in a SQLite database: `log.sqlite3` in a folder of its own, one writing process, any number of readers.

An append is durable (WAL, `synchronous=FULL`) before it is answered and before a follower sees it. Concurrent appends
share a commit. Reads run in threads, each on a connection of its own, and check the chain as they go.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import apsw
from msgspec import structs

from interlock.log import lease, paths
from interlock.log.archive.reading import ARCHIVE_NAME, FOLDER
from interlock.log.chain import ChainRow, check_session_id
from interlock.log.memory import FOLLOW_PAGE, Followers, check_page, closed, page_of
from interlock.log.port import (
    Committed,
    Followed,
    LogDamage,
    LogUnavailable,
    SessionPage,
    SessionSummary,
    Slice,
    TurnSlice,
)
from interlock.log.search.index_file import remove_index
from interlock.log.sqlite import snapshot_table, turn_index
from interlock.log.sqlite.appending import PendingAppend
from interlock.log.sqlite.faults import rows_of, unavailable
from interlock.log.sqlite.readers import (
    Readers,
    Walk,
    WalkAll,
    count_events,
    read_slice,
    read_turns,
    summaries,
    summary_of,
)
from interlock.log.sqlite.schema import CURRENT, Schema, Work, connect, disconnect
from interlock.log.sqlite.snapshot_table import CacheWork, SqliteSnapshots
from interlock.log.sqlite.writer import Request, WriteOutcome, Writer
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId

T = TypeVar("T")
MAX_PENDING: Final = 1024
HEARTBEAT_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.1


class SqliteLog:
    """A store of the log (see the port for its promises). Belongs to the event loop that opened it.

    A cancelled `append` is either not done at all, or done and published whole; the version tells which. The same
    holds for one that failed because the disk did, should the process die before it can write again.
    After `close`, followers are given what was committed before it, and end. `events_read` counts what `read` has gone
    through since it was opened.
    """

    def __init__(self, path: Path, schema: Schema, readers: Readers, *, max_pending: int) -> None:
        """Use `open`."""
        self.path = path
        self.schema = schema
        self.snapshots = SqliteSnapshots(self)
        self._readers = readers
        self._writer: Writer | None = None
        self._followers = Followers()
        self._places = asyncio.Semaphore(max_pending)
        self._loop = asyncio.get_running_loop()
        self._is_closing = False
        self._is_closed = False
        self.events_read = 0
        self._clock: Callable[[], float] = time.time

    @classmethod
    async def open(
        cls,
        home: Path,
        *,
        readonly: bool = False,
        force: bool = False,
        clock: Callable[[], float] = time.time,
        schema: Schema = CURRENT,
        vfs: str | None = None,
        busy_timeout_seconds: float = 5.0,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        max_pending: int = MAX_PENDING,
    ) -> SqliteLog:
        """Open the log in a folder, to write (and then it is made if need be) or only to read.

        Raises `LeaseHeld` if another process may be writing; `force` takes the log from one that cannot be reached.
        `clock` gives Unix seconds, for records about the log itself. `vfs` names a SQLite file layer.
        At most `max_pending` appends wait for the disk; further callers wait for a place among them.
        """
        path = await asyncio.to_thread(paths.check_home if readonly else paths.prepare_home, home)
        reading = partial(connect, path, readonly=True, vfs=vfs, busy_timeout_seconds=busy_timeout_seconds)
        await asyncio.to_thread(_refuse_unknown, reading, path, schema)
        log = cls(path, schema, Readers(reading, str(path)), max_pending=max_pending)
        if not readonly:
            log._clock = clock
            writing = partial(connect, path, readonly=False, vfs=vfs, busy_timeout_seconds=busy_timeout_seconds)
            connection, token = await _take_over(writing, path, schema, round(clock() * 1000), force=force)
            log._writer = Writer(
                writing, connection, token, settle=log._settle, clock=clock, heartbeat_seconds=heartbeat_seconds
            )
        return log

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        check_session_id(session_id)
        asked = PendingAppend(session_id, tuple(events), expected_version, self.schema.version)
        version: int = await self._submit(asked, session_id)
        return version

    async def maintain(self, action: str, details: Json, work: Work[T]) -> T:
        """Change the database by hand: `work` runs whole or not at all, and leaves a row in `maintenance`."""

        def noted(connection: apsw.Connection) -> T:
            lease.note(connection, round(self._clock() * 1000), action, json.dumps(details))
            return work(connection)

        return await self._submit(noted, None)

    async def cache(self, work: CacheWork) -> int:
        """Write a cache beside the events. It leaves no trace in `maintenance`, and slows no append."""
        kept: int = await self._submit(work, None)
        return kept

    async def purge(self, session_id: SessionId) -> SessionSummary:
        """Delete the events of a session, also what repair set aside of them, and overwrite them in the file.

        Its summary stays, with the head of its chain, and takes no more events. The write-ahead file keeps them until
        the log is closed; a file that salvage set aside keeps its own copy.
        """
        check_session_id(session_id)
        await asyncio.to_thread(remove_index, self.path.parent)  # no word of it stays there; it is made anew
        summary = await self.maintain("purge", {"session_id": session_id}, partial(_purge, session_id=session_id))
        await self.sweep()
        return structs.replace(summary, archive="")

    async def sweep(self) -> int:
        """Delete the archive files of sessions that were purged, and say how many there were. A purge does so once it
        is on the disk, for before that it must not cost anything; the next one finishes one that was broken off."""
        left = await self.query(_purged_files)
        for session_id, file in left:
            await asyncio.to_thread((self.path.parent / FOLDER / file).unlink, missing_ok=True)
            await self.maintain("purge_file", {"session_id": session_id}, partial(_forget_file, session_id=session_id))
        stray = await self.query(partial(_purged_strays, folder=self.path.parent / FOLDER))
        for path in stray:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        return len(left) + len(stray)

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        check_session_id(session_id)
        check_page(after, limit)
        decode = self.schema.decode
        return await self.query(lambda c: read_slice(c, session_id, decode, after, limit, self._count_read))

    def _count_read(self, events: int) -> None:
        """For who watches a long read. Threads may lose a page of another's: it counts no more than was read."""
        self.events_read += events

    async def count_events(self) -> int:
        """How many events the sessions of the log have by their summaries, without those that were purged."""
        return await self.query(count_events)

    async def read_turns(self, session_id: SessionId, *, last: int = 1) -> TurnSlice:
        check_session_id(session_id)
        check_page(0, last)
        return await self.query(lambda connection: read_turns(connection, session_id, self.schema.decode, last))

    async def rows(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> list[ChainRow]:
        """What is stored of a session, not decoded and not checked. A row whose page is lost has an empty line."""
        check_session_id(session_id)
        check_page(after, limit)
        return await self.query(
            lambda connection: rows_of(connection, session_id, after, -1 if limit is None else limit)
        )

    async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage:
        check_page(0, limit)
        return page_of(await self.query(lambda c: summaries(c, prefix, after or "", limit + 1)), limit)

    async def query(self, work: Work[T]) -> T:
        """Do `work` in a thread, on a connection that only reads, in one snapshot."""
        if self._is_closing:
            raise closed()
        return await self._readers.run(work)

    async def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Followed, None]:
        check_session_id(session_id)
        check_page(after, None)
        walk = Walk(session_id, self.schema.decode, after)
        with self.listen(session_id) as bell:
            while True:
                bell.clear()
                is_closed = self._is_closed
                found, is_last = await self._readers.run(partial(walk.page, limit=FOLLOW_PAGE))
                for item in found:
                    yield item
                if is_last:
                    if is_closed:
                        return
                    await self._wait(bell)

    async def follow_all(self, *, after: int = 0) -> AsyncGenerator[Committed | LogDamage, None]:
        check_page(after, None)
        walk = WalkAll(self.schema.decode, after)
        with self.listen(None) as bell:
            while True:
                bell.clear()
                is_closed = self._is_closed
                found = await self._readers.run(partial(walk.page, limit=FOLLOW_PAGE))
                for item in found:
                    yield item
                if not found:
                    if is_closed:
                        return
                    await self._wait(bell)

    async def close(self) -> None:
        self._is_closing = True
        try:
            if self._writer is not None:
                self._writer.stop()
                await asyncio.to_thread(self._writer.join)
        finally:  # also when the caller does not wait for the end: followers are not left waiting
            self._is_closed = True
            self._followers.ring(None)
            if not self._followers:
                self._readers.close()

    async def _submit(self, work: Work[T] | PendingAppend | CacheWork, session_id: SessionId | None) -> T:
        if self._writer is None:
            raise LogUnavailable("this log was opened only to read", next_action="open it to write", may_pass=False)
        await self._places.acquire()
        if self._is_closing:
            self._places.release()
            raise closed()
        answer: asyncio.Future[T] = self._loop.create_future()
        self._writer.submit(Request(work, session_id, answer))
        return await answer

    def _settle(self, outcomes: list[WriteOutcome]) -> None:
        """Called by the writer's thread. A loop that is closed has nobody left to tell."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answer, outcomes)

    def _answer(self, outcomes: list[WriteOutcome]) -> None:
        for request, is_done, value, error in outcomes:
            self._places.release()
            if not request.answer.done():
                request.answer.set_exception(error) if error else request.answer.set_result(value)
            if is_done and not isinstance(request.work, CacheWork):
                self._followers.ring(request.session_id)

    @contextmanager
    def listen(self, session_id: SessionId | None) -> Iterator[asyncio.Event]:
        """A bell for the block, which is set with every commit of a session, or of any (None)."""
        if self._is_closing:
            raise closed()
        try:
            with self._followers.listen(session_id) as bell:
                yield bell
        finally:
            if self._is_closed and not self._followers:
                self._readers.close()

    async def _wait(self, bell: asyncio.Event) -> None:
        """Until there is news. What another process commits rings no bell here, so a reader looks now and then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS if self._writer is None else None):
                await bell.wait()


def _refuse_unknown(connecting: Callable[[], apsw.Connection], path: Path, schema: Schema) -> None:
    """Refuse a file that is not ours or too new, by a connection that cannot change it."""
    try:
        connection = connecting()
        try:
            schema.found(connection)
        finally:
            disconnect(connection)
    except apsw.Error as error:
        raise unavailable(error, str(path)) from error


async def _take_over(
    connecting: Callable[[], apsw.Connection], path: Path, schema: Schema, now_unix_ms: int, *, force: bool
) -> tuple[apsw.Connection, int]:
    """Become the writer. If the caller is cancelled, the lease does not stay with nobody."""
    taking = asyncio.ensure_future(asyncio.to_thread(_take, connecting, path, schema, now_unix_ms, force))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        connection, _ = await taking
        with connection:
            lease.let_go(connection)
        disconnect(connection)
        raise


def _take(
    connecting: Callable[[], apsw.Connection], path: Path, schema: Schema, now_unix_ms: int, force: bool
) -> tuple[apsw.Connection, int]:
    """In one transaction: make the tables if there are none, take the lease, bring older tables up to date."""
    try:
        connection = connecting()
        try:
            # Heeded by a file that is still empty: so it can give room back in steps, see `log/archive/vacuum.py`.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if schema.found(connection) == 0:
                schema.create(connection)
            token = lease.take(connection, lease.this_process(), now_unix_ms, force=force)
            schema.migrate(connection)
            connection.execute("COMMIT")
        except BaseException:
            disconnect(connection)
            raise
    except apsw.Error as error:
        raise unavailable(error, str(path)) from error
    return connection, token


def _purged_files(connection: apsw.Connection) -> list[tuple[SessionId, str]]:
    sql = "SELECT session_id, file FROM archived JOIN sessions USING (session_id) WHERE is_purged = 1"
    return [(SessionId(str(key)), Path(str(file)).name) for key, file in connection.execute(sql)]


def _purged_strays(connection: apsw.Connection, *, folder: Path) -> list[Path]:
    """What a move that was broken off left of sessions that are purged: no tombstone names it."""
    named = [(path, one["session"]) for path in folder.glob("*") if (one := ARCHIVE_NAME.fullmatch(path.name))]
    sql = "SELECT 1 FROM sessions WHERE session_id = ? AND is_purged = 1"
    return [path for path, session_id in named if connection.execute(sql, (session_id,)).fetchall()]


def _forget_file(connection: apsw.Connection, *, session_id: SessionId) -> None:
    connection.execute("DELETE FROM archived WHERE session_id = ?", (session_id,))


def _purge(connection: apsw.Connection, *, session_id: SessionId) -> SessionSummary:
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("DELETE FROM events WHERE session_id = ?", (session_id,))
    turn_index.forget(connection, session_id)
    snapshot_table.forget(connection, session_id)
    connection.execute("UPDATE quarantine SET line = x'' WHERE session_id = ?", (session_id,))
    connection.execute("UPDATE sessions SET is_purged = 1 WHERE session_id = ?", (session_id,))
    if connection.changes() == 0:
        raise UsageError(f"there is no session {session_id}", remedy="list them with `interlock log ls`")
    return summary_of(connection, session_id)
