"""`interlock log archive`, `restore` and `vacuum`: old sessions into compressed files, back, and the room they took.

Where a server runs it does the work, for it is the log's one writer; else the command takes the log itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import PAGE, DryRunFlag, HomeOption, JsonFlag, SessionArgument, read_log, write_log
from interlock.cli.log.purge import is_older, parse_day
from interlock.cli.log.stored_sessions import find_session
from interlock.cli.progress import progress
from interlock.cli.server.api import ANSWER_SECONDS, ServerApi, decode, home_folder
from interlock.log.archive.moving import DamagedSession, MovedSession, restore_session
from interlock.log.archive.vacuum import VacuumStep, rewrite, vacuum_step
from interlock.log.port import SessionSummary
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.retention import archive_at_rest, look_at_rest
from interlock.vocabulary.errors import StillStarting, Unreachable, UsageError
from interlock.vocabulary.ids import SessionId

_AGE: Final = re.compile(r"(\d{1,6})([hdw])")
_HOURS: Final = {"h": 1, "d": 24, "w": 24 * 7}
# A long session is read, packed, read back and deleted within one request.
_MOVE_SECONDS: Final = 15 * ANSWER_SECONDS
_STALE: Final = 10_000


class RefusedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A session that stays where it is, and why."""

    session_id: SessionId
    reason: str


def archive(
    *,
    before: Annotated[str, Parameter(help="A day, a time with its zone, or an age: 90d, 12h, 8w.")] = "",
    session: Annotated[tuple[str, ...], Parameter(help="Only this session; may be given several times.")] = (),
    dry_run: DryRunFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Move ended sessions into compressed files in the folder `archive` of the home. They are found and read as before.

    One that somebody may still work in stays, and is told with the reason. Exit code 3: a session that was named stays.
    """
    if not before and not session:
        raise UsageError("nothing says which sessions", remedy="give --before 90d, or --session SESSION")
    choice = _Choice(session, None if not before else _limit(before))
    if dry_run:
        return read_log(home, lambda log: _plan(log, choice, json=json))
    moving = _Moving(session, json=json)
    api = _server(home_folder(home))
    if api is None:

        async def work(log: SqliteLog) -> int:
            await log.sweep()
            return await moving.run(await choice.of(log), lambda one: archive_at_rest(log, one, _now()))

        return write_log(home, work, force=False)

    async def ask(log: SqliteLog) -> int:
        async def move(one: SessionId) -> MovedSession:
            return decode(api.ask_raw("POST", f"/api/tasks/{one}/archive", seconds=_MOVE_SECONDS), MovedSession)

        return await moving.run(await choice.of(log), move)

    return read_log(home, ask)


class _Choice(NamedTuple):
    """Which sessions are meant: those named, or all that are not in a file yet; and of these what is older."""

    named: tuple[str, ...]
    limit: datetime | None

    async def of(self, log: SqliteLog) -> list[SessionSummary]:
        found = [await find_session(log, one) for one in self.named]
        if not found:
            found = [one async for one in _all(log) if not one.is_purged and not one.archive]
        return [one for one in found if self.limit is None or is_older(one, self.limit)]


async def _plan(log: SqliteLog, choice: _Choice, *, json: bool) -> int:
    chosen: list[SessionSummary] = []
    refused: list[RefusedMove] = []
    for one in await choice.of(log):
        reason = "it is in an archive file already" if one.archive else (await look_at_rest(log, one.session_id)).reason
        if reason:
            refused.append(RefusedMove(session_id=one.session_id, reason=reason))
        else:
            chosen.append(one)
    return _tell_plan(chosen, refused, json=json)


class _Moving:
    """Moves sessions one by one, and tells what became of each."""

    def __init__(self, named: tuple[str, ...], *, json: bool) -> None:
        self._is_named = bool(named)
        self._json = json

    async def run(self, chosen: list[SessionSummary], move: Callable[[SessionId], Awaitable[MovedSession]]) -> int:
        moved: list[MovedSession] = []
        refused: list[RefusedMove] = []
        has_failed = False
        with progress("archiving", of_bytes=False) as report:
            for number, one in enumerate(chosen):
                report(number, len(chosen))
                try:
                    moved.append(await move(one.session_id))
                except (UsageError, DamagedSession) as error:
                    refused.append(RefusedMove(session_id=one.session_id, reason=str(error)))
                    has_failed |= isinstance(error, DamagedSession)
        if self._json:
            output.print_json({"archived": moved, "refused": refused})
        else:
            for one_moved in moved:
                output.print_text(
                    f"{one_moved.session_id}: {one_moved.version} events, {_size(one_moved.stored_bytes)} -> "
                    f"{_size(one_moved.file_bytes)} in archive/{one_moved.file}"
                )
        for stays in refused:
            output.note(f"{stays.session_id} stays: {stays.reason}")
        output.note(
            f"{len(moved)} sessions archived, {len(refused)} stay; `interlock log vacuum` gives their room back"
        )
        return ExitCode.PARTIAL if refused and (self._is_named or has_failed) else ExitCode.COMPLETED


def _tell_plan(chosen: list[SessionSummary], refused: list[RefusedMove], *, json: bool) -> int:
    if json:
        output.print_json({"would_archive": chosen, "refused": refused})
    else:
        for one in chosen:
            output.print_text(f"{one.session_id}: {one.version} events")
    for stays in refused:
        output.note(f"{stays.session_id} stays: {stays.reason}")
    output.note(f"{len(chosen)} sessions would be archived, {len(refused)} stay")
    return ExitCode.COMPLETED


def restore(session: SessionArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Move an archived session back into the database, byte by byte as it was. Its file is removed afterwards."""

    def tell(summary: SessionSummary) -> int:
        if json:
            output.print_json(summary)
        else:
            output.print_text(f"restored {summary.session_id}: {summary.version} events, head {summary.head}")
        return ExitCode.COMPLETED

    api = _server(home_folder(home))
    if api is None:

        async def work(log: SqliteLog) -> int:
            return tell(await restore_session(log, (await find_session(log, session)).session_id))

        return write_log(home, work, force=False)

    async def ask(log: SqliteLog) -> int:
        found = await find_session(log, session)
        raw = api.ask_raw("POST", f"/api/tasks/{found.session_id}/restore", seconds=_MOVE_SECONDS)
        return tell(decode(raw, SessionSummary))

    return read_log(home, ask)


def vacuum(*, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Give the room of purged and archived events back to the disk, in small steps beside a server that runs.

    A log that an older version made is written anew once, which needs that no server runs: exit code 2 while one does.
    """
    api = _server(home_folder(home))
    if api is not None:
        freed, last = _steps(lambda: decode(api.ask_raw("POST", "/api/log/vacuum"), VacuumStep))
        if last.needs_rewrite:
            raise UsageError(
                f"{_size(last.left_bytes)} can be freed, but an older version made this log, and it has to be written "
                "anew once",
                remedy="`interlock down`, `interlock log vacuum`, `interlock up`",
            )
        return _tell_freed(freed, last.left_bytes, json=json)

    async def work(log: SqliteLog) -> int:
        freed, step = 0, await vacuum_step(log)
        freed += step.freed_bytes
        if step.needs_rewrite:
            return _tell_freed(await rewrite(log), 0, json=json)
        while step.freed_bytes and step.left_bytes:
            step = await vacuum_step(log)
            freed += step.freed_bytes
        return _tell_freed(freed, step.left_bytes, json=json)

    return write_log(home, work, force=False)


def _steps(take: Callable[[], VacuumStep]) -> tuple[int, VacuumStep]:
    freed, step = 0, take()
    with progress("vacuum") as report:
        while True:
            freed += step.freed_bytes
            report(freed, freed + step.left_bytes)
            if not (step.freed_bytes and step.left_bytes):
                return freed, step
            step = take()


def _tell_freed(freed: int, left: int, *, json: bool) -> int:
    if json:
        output.print_json({"freed_bytes": freed, "left_bytes": left})
    else:
        output.print_text(f"{_size(freed)} freed" + (f", {_size(left)} left" if left else ""))
    return ExitCode.COMPLETED


def _server(home: Path) -> ServerApi | None:
    """The server of a home; None: none runs, and the log can be taken."""
    try:
        return ServerApi.of_home(home)
    except StillStarting:
        raise
    except Unreachable:
        return None


async def _all(log: SqliteLog) -> AsyncIterator[SessionSummary]:
    page = await log.sessions(limit=PAGE)
    while True:
        for one in page.sessions:
            yield one
        if page.next_after is None:
            return
        page = await log.sessions(after=page.next_after, limit=PAGE)


def _limit(text: str) -> datetime:
    found = _AGE.fullmatch(text)
    if found is None:
        return parse_day(text)
    return datetime.now(UTC) - timedelta(hours=min(int(found[1]), _STALE * 24) * _HOURS[found[2]])


def _now() -> int:
    return time.time_ns() // 1_000_000


def _size(count: int) -> str:
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count = count // 1024
    return f"{count:.0f} GB"
