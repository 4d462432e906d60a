"""`interlock log export` and `import`: sessions as NDJSON, one event a line, as it is stored."""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, Final

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import (
    DryRunFlag,
    ForceFlag,
    HomeOption,
    JsonFlag,
    SessionArgument,
    has_log,
    read_log,
    tell_damage,
    use_home,
    write_log,
)
from interlock.cli.log.stored_sessions import find_session
from interlock.cli.progress import progress
from interlock.log.memory import MemoryLog
from interlock.log.ndjson import Exported, Imported, export_file, import_events, import_file
from interlock.log.ndjson import export as export_stream
from interlock.log.port import Log, SessionPage, Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId

# Standard input, or a named pipe, for a thread to read, which ends when whoever waits for it leaves.
#
# A thread that reads from a terminal or a pipe cannot be interrupted, and a program that ends waits for its threads:
# after Ctrl-C it would hang until somebody types. Here the reader looks up now and then, and finds the end.

_LOOK_SECONDS: Final = 0.1


@contextmanager
def readable_input(pipe: Path | None = None) -> Iterator[BinaryIO]:
    """Standard input, or a named pipe, for the block. Afterwards it is at its end, whatever else would come."""
    if pipe is None and sys.stdin is None:
        raise UsageError("standard input is closed", remedy="name a file")
    # Not to block: a pipe that nobody writes to could not be opened otherwise, and not be left.
    descriptor = sys.stdin.fileno() if pipe is None else os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    over = threading.Event()
    try:
        yield io.BufferedReader(_Until(descriptor, over))
    finally:
        over.set()
        if pipe is not None:
            os.close(descriptor)


class _Until(io.RawIOBase):
    def __init__(self, descriptor: int, over: threading.Event) -> None:
        self._descriptor = descriptor
        self._over = over

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # as `BufferedReader` calls it
        while not self._over.is_set():
            ready, _, _ = select.select([self._descriptor], [], [], _LOOK_SECONDS)
            if ready and not self._over.is_set():
                return os.readv(self._descriptor, [buffer])
        return 0


_STDIN = Path("-")


def export(
    session: SessionArgument | None = None,
    /,
    *,
    every: Annotated[bool, Parameter(name="--all", negative="", help="Every session of the home.")] = False,
    to: Annotated[Path | None, Parameter(name="--output", help="A new file; else it goes to a pipe.")] = None,
    replace: Annotated[bool, Parameter(negative="", help="Overwrite an existing file.")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Write events as NDJSON. A file appears whole or not at all. What is damaged is left out: exit code 9.

    With --output, --json prints a report; without it the events themselves are the answer.
    """
    if every == (session is not None):
        raise UsageError("export takes one session, or --all", remedy="name one of the two")
    if to is None and (sys.stdout is None or sys.stdout.isatty()):
        remedy = "name a file with --output, or read it with `interlock log show --json`"
        raise UsageError("an export is raw, and not for a terminal", remedy=remedy)
    if to is not None and to.exists() and not to.is_file():
        raise UsageError(f"{to} is no plain file, and is not replaced by one", remedy="name another file")
    if to is not None and to.exists() and not replace:
        raise UsageError(f"{to} is there already", remedy="name another file, or add --replace")

    async def work(log: SqliteLog) -> int:
        ids = None if session is None else [(await find_session(log, session)).session_id]
        if to is None:
            done = await export_stream(log, sys.stdout.buffer, ids)
        else:
            done = await export_file(log, to, ids, replace=replace)
        return _told(done, json=json and to is not None)

    return read_log(home, work)


def _told(done: Exported, *, json: bool) -> int:
    if json:
        output.print_json(done)
    else:
        output.note(f"exported {done.events} events of {done.sessions} sessions")
    return ExitCode.DAMAGED_LOG if tell_damage(done.damage) else ExitCode.COMPLETED


def import_(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True, help="An NDJSON file, or - for standard input.")],
    /,
    *,
    dry_run: DryRunFlag = False,
    keep_going: Annotated[bool, Parameter(negative="")] = False,
    force: ForceFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Append the events of a file. What is there already with the same content is skipped, so it can be run again.

    Exit code 1 at the first line that cannot be imported; what came before it is kept.

    Parameters
    ----------
    keep_going
        Leave out the rest of a session after a bad line, and go on with the others: exit code 3.
    """
    is_pipe = file == _STDIN or file.is_fifo()
    work = partial(_import, file=file, is_pipe=is_pipe, keep_going=keep_going, json=json)
    if not dry_run:
        return write_log(home, work, force=force, create=True)

    async def rehearsed(folder: Path) -> int:
        if not has_log(folder):
            return await work(MemoryLog())
        async with await SqliteLog.open(folder, readonly=True) as log:
            return await work(Rehearsal(log))

    return use_home(home, rehearsed, create=True)


async def _import(log: Log, *, file: Path, is_pipe: bool, keep_going: bool, json: bool) -> int:
    with progress("importing") as report:
        if is_pipe:
            with readable_input(None if file == _STDIN else file) as stream:
                done = await import_events(log, stream, on_progress=report, keep_going=keep_going)
        else:
            done = await import_file(log, file, on_progress=report, keep_going=keep_going)
    if json:
        output.print_json(done)
    else:
        _print_import(done, is_written=isinstance(log, SqliteLog))
    return ExitCode.PARTIAL if done.problem_count else ExitCode.COMPLETED


def _print_import(done: Imported, *, is_written: bool) -> None:
    verb = "imported" if is_written else "would import"
    output.print_text(f"{verb} {done.events} events of {done.sessions} sessions; {done.skipped} were there already")
    for problem in done.problems:
        output.note(output.escape(str(problem)))
    if done.problem_count > len(done.problems):
        output.note(f"and {done.problem_count - len(done.problems)} more lines")


class Rehearsal(MemoryLog):
    """Reads from a log as it is, and keeps what is appended for itself, so that an import can be tried out."""

    def __init__(self, stored: SqliteLog) -> None:
        super().__init__()
        self._stored = stored
        self._added: dict[SessionId, tuple[int, list[Event]]] = {}

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        first, added = self._added.setdefault(session_id, (expected_version or 0, []))
        added += events
        return first + len(added)

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        first, added = self._added.get(session_id, (0, []))
        if not added or after < first:
            return await self._stored.read(session_id, after=after, limit=limit)
        end = None if limit is None else after - first + limit
        return Slice(events=tuple(added[after - first : end]), version=first + len(added))

    async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage:
        return await self._stored.sessions(prefix=prefix, after=after, limit=limit)
