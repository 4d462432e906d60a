"""Sessions as NDJSON: one canonical line an event, as it is stored, so that logs are portable and greppable.

Export writes what is sound and reports the rest. Import reads what export wrote, and events from elsewhere:
- A line is one event by the strict codec, at most `MAX_LINE_BYTES` long, its keys in any order; unknown types stay.
  CRLF, a byte order mark at the start, blank lines and a last line without a newline are accepted. A line that is cut
  off, holds a NUL or is no event is refused with its number and field; so is an event that is only shown live.
- An event without a `seq` gets the next one of its session in the file. Several sessions may stand in one file.
- Batches are appended whole, so an import that ended early, in whatever way, is run again: what is there already with
  the same content is skipped, and what is there with another content is refused.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from msgspec import Struct, structs

from interlock.log.port import Log, LogDamage, VersionConflict
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import session_ids as known_sessions
from interlock.vocabulary.errors import ContractError, MalformedEvent, PeerFault, UsageError
from interlock.vocabulary.events.codec import MAX_LINE_BYTES, decode_event, encode_event
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import DECLARATIONS, Durability
from interlock.vocabulary.ids import SessionId, is_valid_id

EXPORT_PAGE: Final = 500
BATCH_LINES: Final = 500
BATCH_BYTES: Final = 4 * 1024 * 1024
MAX_PROBLEMS: Final = 100
_WINDOW: Final = 256
_MAX_WINDOWS: Final = 64
_BOM: Final = b"\xef\xbb\xbf"

Progress: TypeAlias = Callable[[int, int | None], None]
"""Told how many bytes of the file are done, and of how many (None: not known)."""


class Exported(Struct, frozen=True, kw_only=True):
    """What was written, and what could not be because it is damaged."""

    sessions: int
    events: int
    damage: tuple[LogDamage, ...] = ()


async def export(log: SqliteLog, stream: BinaryIO, session_ids: Sequence[SessionId] | None = None) -> Exported:
    """Write sessions (None: all, by id) to a stream, one after the other, in whole lines."""
    if session_ids is None:
        session_ids = sorted(filter(is_valid_id, await log.query(known_sessions)))
    events = 0
    damage: list[LogDamage] = []
    for session_id in session_ids:
        after: int | None = 0
        while after is not None:
            page = await log.read(session_id, after=after, limit=EXPORT_PAGE)
            await asyncio.to_thread(stream.write, b"".join(encode_event(event) + b"\n" for event in page.events))
            events += len(page.events)
            damage += page.damage
            after = page.events[-1].seq if len(page.events) == EXPORT_PAGE else None
    await asyncio.to_thread(stream.flush)
    return Exported(sessions=len(session_ids), events=events, damage=tuple(damage))


async def export_file(
    log: SqliteLog, path: Path, session_ids: Sequence[SessionId] | None = None, *, replace: bool = False
) -> Exported:
    """Write sessions to a file that only its owner can read. It appears whole, or not at all."""
    try:
        with _appearing(path, replace) as stream:
            return await export(log, stream, session_ids)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", remedy="free some space, or name another place"
        ) from error


@contextmanager
def _appearing(path: Path, replace: bool) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its name once it is complete and on the disk."""
    if not replace and (path.exists() or path.is_symlink()):
        raise UsageError(f"{path} is there already", remedy="name another file, or say that it may be replaced")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".interlock-export-", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class LineProblem(Struct, frozen=True, kw_only=True):
    """Why a line of a file cannot be imported, and what to do about it."""

    line: int
    field: str
    reason: str
    next_action: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: {self.reason}; {self.next_action}"


class ImportRefused(PeerFault):
    """A line cannot be imported. Whole batches before it are there, nothing of its own batch is."""

    def __init__(self, problem: LineProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Imported(Struct, frozen=True, kw_only=True):
    """What an import did. `skipped` events were there already; of many problems the first `MAX_PROBLEMS` are told."""

    sessions: int
    events: int
    skipped: int
    problem_count: int = 0
    problems: tuple[LineProblem, ...] = ()


async def import_file(
    log: Log, path: Path, *, on_progress: Progress | None = None, keep_going: bool = False
) -> Imported:
    """Import the lines of a file; see `import_events`."""
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return await import_events(log, stream, bytes_total=size, on_progress=on_progress, keep_going=keep_going)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="check its name and its mode") from error


async def import_events(
    log: Log,
    stream: BinaryIO,
    *,
    bytes_total: int | None = None,
    on_progress: Progress | None = None,
    keep_going: bool = False,
) -> Imported:
    """Append the events of an NDJSON stream, in batches that are durable before the next one is read.

    Stops at the first problem with `ImportRefused`. With `keep_going` a session ends at its first problem instead, and
    the others go on. `on_progress` is called after each batch.
    """
    work = _Import(log, keep_going)
    lines = _lines(stream)
    while batch := await asyncio.to_thread(_take, lines):
        for line in batch:
            await work.take(line)
        await work.flush()
        if on_progress is not None:
            on_progress(batch[-1].bytes_done, bytes_total)
    return work.report()


class _Line(NamedTuple):
    number: int
    bytes_done: int
    found: Event | MalformedEvent


def _take(lines: Iterator[_Line]) -> list[_Line]:
    batch: list[_Line] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH_LINES or line.bytes_done - batch[0].bytes_done > BATCH_BYTES:
            break
    return batch


def _lines(stream: BinaryIO) -> Iterator[_Line]:
    """The events of a stream. However long a line is, no more than one of the largest size is held of it."""
    done = 0
    for number in count(1):
        line = stream.readline(MAX_LINE_BYTES + 2)
        if not line:
            return
        done += len(line)
        is_whole = line.endswith(b"\n")
        if not is_whole and len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(BATCH_BYTES)
                done += len(line)
            yield _Line(number, done, MalformedEvent(f"longer than {MAX_LINE_BYTES} bytes"))
            continue
        line = line.removeprefix(_BOM) if number == 1 else line
        if line.strip():
            yield _Line(number, done, _decode(line.rstrip(b"\r\n"), is_whole))


def _decode(line: bytes, is_whole: bool) -> Event | MalformedEvent:
    try:
        return decode_event(line)
    except MalformedEvent as fault:
        if is_whole:
            return fault
        return MalformedEvent(f"the file ends in the middle of this line ({fault.reason})", field=fault.field)


@dataclass(slots=True)
class _Target:
    """A session that is written to: how far it is, how far the file is, and what waits for the end of the batch."""

    version: int
    last_in_file: int = 0
    pending: list[Event] = field(default_factory=list)
    is_over: bool = False


class _Refused(Exception):
    def __init__(self, reason: str, next_action: str, field: str = "$") -> None:
        self.reason, self.next_action, self.field = reason, next_action, field


class _Import:
    def __init__(self, log: Log, keep_going: bool) -> None:
        self._log = log
        self._keep_going = keep_going
        self._targets: dict[SessionId, _Target] = {}
        self._windows: dict[SessionId, dict[int, Event]] = {}
        self._problems: list[LineProblem] = []
        self._problem_count = self._events = self._skipped = 0

    async def take(self, line: _Line) -> None:
        """Put the event of a line where it belongs, or say why it cannot be."""
        try:
            if isinstance(line.found, MalformedEvent):
                raise _Refused(line.found.reason, "fix or remove the line and import again", line.found.field)
            await self._place(line.found)
        except _Refused as refused:
            problem = LineProblem(
                line=line.number, field=refused.field, reason=refused.reason, next_action=refused.next_action
            )
            if not self._keep_going:
                raise ImportRefused(problem) from None
            self._problem_count += 1
            if len(self._problems) < MAX_PROBLEMS:
                self._problems.append(problem)
            if isinstance(line.found, Event) and line.found.session_id in self._targets:
                self._targets[line.found.session_id].is_over = True

    async def flush(self) -> None:
        """Append what waits, one batch a session. Batches that are given together share a commit."""
        waiting = {key: target for key, target in self._targets.items() if target.pending}
        appending = asyncio.gather(
            *(self._log.append(key, one.pending, expected_version=one.version) for key, one in waiting.items()),
            return_exceptions=True,
        )
        try:
            done = await asyncio.shield(appending)
        except asyncio.CancelledError:
            await appending  # what is on its way to the disk arrives before the next import could look
            raise
        for target, result in zip(waiting.values(), done, strict=True):
            if isinstance(result, VersionConflict):
                raise UsageError(str(result), remedy="let nothing else write to it, and import again") from result
            if isinstance(result, BaseException):
                raise result
            self._events += len(target.pending)
            target.version, target.pending = result, []

    def report(self) -> Imported:
        return Imported(
            sessions=len(self._targets),
            events=self._events,
            skipped=self._skipped,
            problem_count=self._problem_count,
            problems=tuple(self._problems),
        )

    async def _place(self, event: Event) -> None:
        target = await self._target(event.session_id)
        if target.is_over:
            return
        _refuse_ephemeral(event)
        seq = target.last_in_file + 1 if event.seq is None else event.seq
        due = target.version + len(target.pending) + 1
        if not 1 <= seq <= due:
            reason = f"event {seq} of session {event.session_id} comes where {due} is due"
            raise _Refused(reason, "import the lines before it first; numbers count from 1", "seq")
        event = structs.replace(event, seq=seq)
        line = _encode(event)
        target.last_in_file = seq
        if seq == due:
            target.pending.append(event)
            return
        if line != _encode(await self._there(target, event.session_id, seq)):
            reason = f"event {seq} of session {event.session_id} is there already, and is another one"
            raise _Refused(reason, "import into another home (INTERLOCK_HOME), and compare the two")
        self._skipped += 1

    async def _target(self, session_id: SessionId) -> _Target:
        if session_id not in self._targets:
            page = await self._log.sessions(prefix=session_id, limit=1)  # of all with this prefix, it comes first
            found = [one for one in page.sessions if one.session_id == session_id]
            if found and found[0].is_purged:
                raise _Refused(
                    f"session {session_id} was purged from this log", "import into another home", "session_id"
                )
            self._targets[session_id] = _Target(version=found[0].version if found else 0)
        return self._targets[session_id]

    async def _there(self, target: _Target, session_id: SessionId, seq: int) -> Event:
        """The event that has this number already, from the log or from those that wait."""
        if seq > target.version:
            return target.pending[seq - target.version - 1]
        if seq not in self._windows.get(session_id, {}):
            if len(self._windows) == _MAX_WINDOWS:
                self._windows.clear()
            page = await self._log.read(session_id, after=seq - 1, limit=_WINDOW)
            self._windows[session_id] = {event.seq: event for event in page.events if event.seq is not None}
        if seq not in self._windows[session_id]:
            reason = f"event {seq} of session {session_id} is damaged in this log, so the two cannot be compared"
            raise _Refused(reason, f"run `interlock log verify {session_id}`, or import into another home")
        return self._windows[session_id][seq]


def _refuse_ephemeral(event: Event) -> None:
    declared = DECLARATIONS.get(event.type)
    if declared is not None and declared.durability is Durability.EPHEMERAL:
        raise _Refused(f"{event.type} is shown live and never logged", "remove the line and import again", "type")


def _encode(event: Event) -> bytes:
    try:
        return encode_event(event)
    except ContractError as error:
        raise _Refused(str(error), "fix or remove the line and import again") from error
