"""The one thread that writes: it takes what has queued up, commits it as one transaction, then tells who waits.

Laws:
1. What a request raises is its own failure and leaves nothing behind: an append is judged before anything of it is
   written, and other work runs in a savepoint of its own.
2. The lease is checked inside every transaction. Once it is lost, nothing more is written.
3. A request is answered after its commit is on the disk, in the order of the queue.
4. A failed commit is rolled back, and its connection is kept. After a failed fsync the system may drop what was
   written and call the next fsync a success; but the next commit writes again, to the same place, every frame that was
   not acknowledged, so its fsync covers them. A new connection would instead find the frames in the file and believe
   them, so they are at once written over by a heartbeat: what was refused does not come back after a crash either.
5. Whatever a group fails on, the thread lives: its requests are answered with the failure, and the next group is tried.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import apsw

from interlock.log import lease
from interlock.log.lease import LeaseLost
from interlock.log.port import LogUnavailable
from interlock.log.sqlite.appending import Appender, PendingAppend
from interlock.log.sqlite.faults import UNREADABLE, unavailable
from interlock.log.sqlite.schema import Work, disconnect
from interlock.log.sqlite.snapshot_table import CacheWork
from interlock.vocabulary.ids import SessionId

MAX_GROUP: Final = 512
_logger: Final = logging.getLogger("interlock.log")


class Request(NamedTuple):
    """Something to do inside a transaction. `session_id` says whose followers to wake (None: everybody's)."""

    work: Work[Any] | PendingAppend | CacheWork
    session_id: SessionId | None
    answer: asyncio.Future[Any]


class WriteOutcome(NamedTuple):
    """What became of a request. With `is_done` its effects are durable, and `value` is what its work returned."""

    request: Request
    is_done: bool
    value: object = None
    error: Exception | None = None


class Writer:
    """Owns the connection that writes. `submit` and `stop` are called by one thread, `settle` by the writer's own."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        connection: apsw.Connection,
        token: int,
        *,
        settle: Callable[[list[WriteOutcome]], None],
        clock: Callable[[], float],
        heartbeat_seconds: float,
    ) -> None:
        self._connect = connect
        self._connection: apsw.Connection | None = connection
        self._path = connection.filename
        self._inode = _inode(self._path)
        self._token = token
        self._settle = settle
        self._clock = clock
        self._heartbeat_seconds = heartbeat_seconds
        self._beat_at = clock()
        self._lost: LeaseLost | None = None
        self._appender = Appender()
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        # A daemon, so that a program that forgets to close still ends; its lease is then taken over from the dead.
        self._thread = threading.Thread(target=self._run, name="interlock-log-writer", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        self._queue.put(request)

    def stop(self) -> None:
        """Do what was submitted, let go of the lease and end. Returns at once; `join` waits."""
        self._queue.put(None)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        is_running = True
        while is_running:
            group, is_running = self._take()
            if group:
                self._settle(self._commit(group))
            elif is_running:
                self._commit([])
        self._let_go()

    def _take(self) -> tuple[list[Request], bool]:
        """What has queued up: at least one request, or none when it is time for a heartbeat."""
        group: list[Request] = []
        try:
            request = self._queue.get(timeout=self._heartbeat_seconds)
            while request is not None:
                group.append(request)
                if len(group) == MAX_GROUP:
                    return group, True
                request = self._queue.get_nowait()
        except queue.Empty:
            return group, True
        return group, False

    def _commit(self, group: list[Request]) -> list[WriteOutcome]:
        """Do a group in one transaction. Either its successes are all durable, or none of it is."""
        if self._lost:
            return [WriteOutcome(request, is_done=False, error=self._lost) for request in group]
        try:
            connection = self._connection = self._connection or self._connect()
            connection.execute("BEGIN IMMEDIATE")
            self._refuse_other_file()
            lease.check(connection, self._token)
            outcomes = [self._attempt(connection, request) for request in group]
            self._appender.flush(connection)
            if not group or self._clock() - self._beat_at >= self._heartbeat_seconds:
                self._beat_at = self._clock()
                lease.beat(connection, round(self._beat_at * 1000))
            connection.execute("COMMIT")
        except (apsw.Error, LogUnavailable) as error:
            failure = self._give_up(error)
            if isinstance(error, (apsw.ConstraintError, *UNREADABLE)) and len(group) > 1:
                # One session's table is damaged. Each alone, so that its neighbours do not pay for it.
                return [outcome for request in group for outcome in self._commit([request])]
            return [WriteOutcome(request, is_done=False, error=failure) for request in group]
        except Exception as error:
            _logger.error("a group of %d writes failed in a way that nothing provides for", len(group), exc_info=error)
            failure = self._give_up(_unforeseen(error, self._path))
            if len(group) > 1:  # it may be the fault of one of them
                return [outcome for request in group for outcome in self._commit([request])]
            return [WriteOutcome(request, is_done=False, error=failure) for request in group]
        return outcomes

    def _refuse_other_file(self) -> None:
        """What stands at the path must be what we write: after a salvage, ours is kept aside as the broken one.

        Where nothing stands there, nobody has taken its place: the file was moved, and may come back.
        """
        found = _inode(self._path)
        if not found:
            raise LogUnavailable(f"{self._path}: the log is not there any more", next_action="move it back")
        if found != self._inode:
            raise LeaseLost

    def _attempt(self, connection: apsw.Connection, request: Request) -> WriteOutcome:
        if request.answer.cancelled():
            return WriteOutcome(request, is_done=False)
        if isinstance(request.work, PendingAppend):
            return self._take_append(connection, request, request.work)
        self._appender.flush(connection)
        if not isinstance(request.work, CacheWork):
            self._appender.forget()  # whatever this work does to the tables
        connection.execute("SAVEPOINT request")
        try:
            value = request.work(connection)
        except Exception as error:
            # A full disk or a failed write hits the whole transaction, and some faults have already rolled it back.
            if isinstance(error, apsw.FullError | apsw.IOError) or not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO request; RELEASE request")
            failure = unavailable(error, self._path) if isinstance(error, apsw.Error) else error
            return WriteOutcome(request, is_done=False, error=failure)
        connection.execute("RELEASE request")
        return WriteOutcome(request, is_done=True, value=value)

    def _take_append(self, connection: apsw.Connection, request: Request, asked: PendingAppend) -> WriteOutcome:
        """Only reads, until the group is flushed: whatever it raises is this append's own failure."""
        try:
            return WriteOutcome(request, is_done=True, value=self._appender.take(connection, asked))
        except apsw.Error as error:
            if not connection.in_transaction:
                raise
            return WriteOutcome(request, is_done=False, error=unavailable(error, self._path))
        except Exception as error:  # a caller's mistake must not cost the thread that everybody's appends need
            return WriteOutcome(request, is_done=False, error=error)

    def _give_up(self, error: apsw.Error | LogUnavailable) -> LogUnavailable:
        """Forget the transaction that failed; say why."""
        self._appender.forget()
        if isinstance(error, LeaseLost):
            self._lost = error
        self._roll_back()
        if isinstance(error, apsw.IOError) and self._connection is not None:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                lease.check(self._connection, self._token)
                lease.beat(self._connection, round(self._clock() * 1000))
                self._connection.execute("COMMIT")
            except (apsw.Error, LeaseLost):  # its fsync may fail too: the frames are in their place all the same
                self._roll_back()
        return error if isinstance(error, LogUnavailable) else unavailable(error, self._path)

    def _roll_back(self) -> None:
        try:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:
            connection, self._connection = self._connection, None
            if connection is not None:
                disconnect(connection)

    def _let_go(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
            lease.check(connection, self._token)
            lease.let_go(connection)
            connection.execute("COMMIT")
            # So that the one file holds everything, whoever closes last; it is complete without it as well.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except (apsw.Error, LeaseLost):
            self._roll_back()
        disconnect(connection)


def _unforeseen(error: Exception, path: str) -> LogUnavailable:
    message = f"{path}: writing failed ({type(error).__name__}: {error})"
    return LogUnavailable(message, next_action="look at the server's log", may_pass=False)


def _inode(path: str) -> int:
    """What file stands at a path; 0 if there is none."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - the path is SQLite's own spelling, and this is on every commit
    except OSError:
        return 0
