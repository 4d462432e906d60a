"""`interlock log purge`: delete whole sessions that are old, and leave a tombstone for each."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import PAGE, DryRunFlag, ForceFlag, HomeOption, JsonFlag, YesFlag, read_log, write_log
from interlock.cli.log.reading import print_sessions
from interlock.cli.log.session_changes import confirmed
from interlock.log.port import SessionSummary
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import UsageError


def purge(
    *,
    before: Annotated[str, Parameter(help="A day, begun at midnight UTC, or a time with its zone.")],
    yes: YesFlag = False,
    dry_run: DryRunFlag = False,
    force: ForceFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Delete the events of every session that began and ended before. Ids, versions and chain heads stay.

    A session of which it cannot be told how old it is stays whole.
    """
    limit = parse_day(before)

    async def work(log: SqliteLog) -> int:
        old = await _older(log, limit)
        if old and not dry_run and not yes:
            for one in old:
                output.note(f"  {one.session_id}: {one.version} events")
            if not confirmed(f"purge these {len(old)} sessions?"):
                return ExitCode.INTERRUPTED
        purged = old if dry_run else tuple([await log.purge(one.session_id) for one in old])
        if not dry_run and (left := await log.sweep()):
            output.note(f"{left} archive files of sessions that were purged before are deleted")
        if json:
            output.print_json({"sessions": purged})
        elif purged:
            print_sessions(purged)
        output.note(f"{len(purged)} sessions {'would be ' if dry_run else ''}purged")
        return ExitCode.COMPLETED

    return read_log(home, work) if dry_run else write_log(home, work, force=force)


async def _older(log: SqliteLog, limit: datetime) -> tuple[SessionSummary, ...]:
    found: list[SessionSummary] = []
    page = await log.sessions(limit=PAGE)
    while True:
        found += (one for one in page.sessions if not one.is_purged and is_older(one, limit))
        if page.next_after is None:
            return tuple(found)
        page = await log.sessions(after=page.next_after, limit=PAGE)


def is_older(session: SessionSummary, limit: datetime) -> bool:
    """By both ends: a fork is young though its last event may be the old copy of an older one."""
    return all(at is not None and at < limit for at in (session.first_at, session.last_at))


def parse_day(text: str) -> datetime:
    """The time that `--before` means."""
    try:
        if len(text) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise UsageError(
            f"{text!r} is no day and no time with its zone", remedy="write 2026-01-31, or 2026-01-31T12:00:00Z"
        )
    return at
