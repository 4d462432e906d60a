"""`interlock log ls`, `show` and `tail`: what is in the log, read a page at a time."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import Annotated

import apsw
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import PAGE, HomeOption, JsonFlag, SessionArgument, read_log, slices, tell_damage
from interlock.cli.log.event_lines import EventPrinter, clock_time
from interlock.cli.log.stored_sessions import find_session
from interlock.cli.tables import Column, plain, table
from interlock.log.port import Committed, LogDamage, SessionSummary
from interlock.log.sqlite.readers import WalkAll
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.conversation import MAX_COUNT
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import DECLARATIONS
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionId

_COLUMNS = (
    Column("SESSION"),
    Column("EVENTS", is_number=True),
    Column("FIRST", 10, wraps=True),
    Column("LAST", 10, gives=1, wraps=True),
    Column("HEAD", 6, gives=2),
    Column(""),
)
Limit = Annotated[int, Parameter(help="How many to print.")]


def ls(
    *,
    prefix: str = "",
    limit: Limit = 100,
    after: str = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """List sessions in the order of their ids, which is that of their birth.

    Parameters
    ----------
    prefix
        Only sessions whose id starts so.
    after
        Only sessions whose id comes after this one: the last one of the page before.
    """
    if limit < 1:
        raise UsageError(f"--limit {limit} lists nothing", remedy="give 1 or more")
    check_counts(limit=limit)

    async def work(log: SqliteLog) -> int:
        page = await log.sessions(prefix=prefix, after=SessionId(after) if after else None, limit=limit)
        if json:
            output.print_json(page)
            return ExitCode.COMPLETED
        if page.sessions:
            print_sessions(page.sessions)
        else:
            output.note("no session" + (f" whose id starts with {prefix!r}" if prefix else ""))
        if page.next_after is not None:
            output.note(f"there are more: add --after {page.next_after}")
        return ExitCode.COMPLETED

    return read_log(home, work)


def print_sessions(sessions: tuple[SessionSummary, ...]) -> None:
    """A table of sessions, tombstones among them. The head is cut: `verify` and `--json` print it whole."""
    rows = [
        plain((one.session_id, str(one.version), _time(one.first_at), _time(one.last_at), one.head[:12], _fate(one)))
        for one in sessions
    ]
    output.print_painted(table(_COLUMNS, rows))


def _fate(session: SessionSummary) -> str:
    return "purged" if session.is_purged else "in a file" if session.archive else ""


def _time(at: Moment | None) -> str:
    """A time as `--before` takes it, to the second."""
    return "unknown" if at is None else clock_time(at).replace("T", " ").partition(".")[0] + "Z"


def show(
    session: SessionArgument,
    /,
    *,
    after: int = 0,
    limit: int | None = None,
    type: tuple[str, ...] = (),
    turn: str = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Print events, oldest first. What is damaged is said on stderr, and the exit code is 9.

    Parameters
    ----------
    after
        Only events with a higher sequence number.
    limit
        How many to print; all of them without it.
    type
        Only events of this type; may be given several times.
    turn
        Only events that name this turn.
    """
    check_counts(after=after, limit=limit)
    for name in set(type) - DECLARATIONS.keys():
        output.note(f"this version knows no event type {name!r}; docs/reference/events.md lists those it knows")

    def is_wanted(event: Event) -> bool:
        return (not type or event.type in type) and turn in ("", event.turn_id)

    async def work(log: SqliteLog) -> int:
        printer = EventPrinter(json=json)
        left = limit
        is_damaged = False
        async for found in slices(log, (await find_session(log, session)).session_id, after=after):
            wanted = [event for event in found.events if is_wanted(event)][:left]
            for event in wanted:
                printer.show(event)
            is_damaged |= tell_damage(found.damage)
            left = None if left is None else left - len(wanted)
            if left == 0:
                break
        return ExitCode.DAMAGED_LOG if is_damaged else ExitCode.COMPLETED

    return read_log(home, work)


def tail(
    session: SessionArgument | None = None,
    /,
    *,
    every: Annotated[bool, Parameter(name="--all", negative="")] = False,
    limit: Limit = 10,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative="")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Print the last events of a session, or of all sessions in the order of their commits.

    Parameters
    ----------
    every
        Every session of the home, instead of one.
    follow
        Go on with each new event until Ctrl-C, which here is a clean end: exit code 0.
    """
    check_counts(limit=limit)
    if every == (session is not None):
        raise UsageError("tail takes one session, or --all", remedy="name one of the two")
    printer = EventPrinter(json=json, with_session=every)
    tailing = _Tail(printer, limit, follow=follow)
    try:
        return read_log(home, tailing.everything if session is None else partial(tailing.session, named=session))
    except KeyboardInterrupt:
        if follow:
            return tailing.code
        raise


class _Tail:
    """The end of a log. `code` is what the process ends with: damage that was seen is not forgotten."""

    def __init__(self, printer: EventPrinter, limit: int, *, follow: bool) -> None:
        self.code = ExitCode.COMPLETED
        self._printer = printer
        self._limit = limit
        self._follow = follow

    async def session(self, log: SqliteLog, *, named: str) -> int:
        found = await find_session(log, named)
        after = max(found.version - self._limit, 0)
        if self._follow:
            async with aclosing(log.follow(found.session_id, after=after)) as news:
                async for item in news:
                    self._print(item, is_live=True)
            return self.code
        part = await log.read(found.session_id, after=after)
        for event in part.events:
            self._print(event)
        for damage in part.damage:
            self._print(damage)
        return self.code

    async def everything(self, log: SqliteLog) -> int:
        after = await log.query(self._position)
        if self._follow:
            async with aclosing(log.follow_all(after=after)) as news:
                async for item in news:
                    self._print(item, is_live=True)
            return self.code
        walk = WalkAll(log.schema.decode, after)
        while found := await log.query(partial(walk.page, limit=PAGE)):
            for item in found:
                self._print(item)
        return self.code

    def _position(self, connection: apsw.Connection) -> int:
        """The position before the last `limit` events."""
        last = "SELECT position FROM events ORDER BY position DESC LIMIT ?"
        ((first,),) = connection.execute(f"SELECT min(position) FROM ({last})", (self._limit,)).fetchall()
        top = "SELECT coalesce(max(position), 0) FROM events"
        ((end,),) = connection.execute(top).fetchall()
        return int(str(end)) if first is None else int(str(first)) - 1

    def _print(self, item: Event | Committed | LogDamage, *, is_live: bool = False) -> None:
        if isinstance(item, LogDamage):
            tell_damage((item,))
            self.code = ExitCode.DAMAGED_LOG
        else:
            self._printer.show(item.event if isinstance(item, Committed) else item)
        if is_live:
            output.flush()


def check_counts(**given: int | None) -> None:
    """Refuse a negative count where it is named, before anything is opened."""
    for name, value in given.items():
        if value is not None and not 0 <= value <= MAX_COUNT:
            raise UsageError(f"--{name} is out of range", remedy=f"give a number from 0 to {MAX_COUNT}")
