"""The way of every command to a log: which home, opened how, and what becomes of a log that cannot be used."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import apsw
import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.server import options as server_options
from interlock.log import paths
from interlock.log.lease import LeaseHeld, Life, judge, read_holder, this_process
from interlock.log.port import LogDamage, LogUnavailable, Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.ids import SessionId

HomeOption: TypeAlias = Annotated[
    Path | None, Parameter(help="Where the log is; else INTERLOCK_HOME, or the XDG state folder.")
]
JsonFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Print JSON for a script.")]
DryRunFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Print what would be done; change nothing.")]
ForceFlag: TypeAlias = Annotated[
    bool,
    Parameter(negative="", help="Take the log's lock from an owner that cannot be reached."),
]
SessionArgument: TypeAlias = server_options.SessionArgument
YesFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Do not ask for confirmation.")]

Work: TypeAlias = Callable[[SqliteLog], Coroutine[None, None, int]]

PAGE: Final = 1000
_HEED_SECONDS: Final = 0.25
_DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)


def read_log(home: Path | None, work: Work) -> int:
    """Open the log of a home only to read, do `work`, and return its exit code. Needs no lease, and disturbs nobody."""

    async def opened(folder: Path) -> int:
        async with await SqliteLog.open(folder, readonly=True) as log:
            return await work(log)

    return use_home(home, opened)


def write_log(home: Path | None, work: Work, *, force: bool, create: bool = False) -> int:
    """As `read_log`, but as the log's one writer. Refuses, with the holder named, while another process writes."""

    async def opened(folder: Path) -> int:
        async with await SqliteLog.open(folder, force=force) as log:
            return await work(log)

    return use_home(home, opened, create=create)


def use_home(home: Path | None, work: Callable[[Path], Coroutine[None, None, int]], *, create: bool = False) -> int:
    """Do `work` in the folder of a log. Each way in which a log cannot be used has its message and its exit code."""
    folder = home or paths.default_home(os.environ)
    try:
        if not create and not has_log(folder):
            raise LogUnavailable(
                f"there is no log in {folder} yet",
                next_action="fill it with `interlock log import FILE`, or name another folder with --home",
            )
        return asyncio.run(_heeding(work, folder))
    except LeaseHeld as wrong:
        output.error(f"{wrong}\n--force works only when the state of the lock's owner cannot be determined.")
        return ExitCode.UNREACHABLE
    except LogUnavailable as wrong:
        output.error(str(wrong))
        return ExitCode.DAMAGED_LOG if isinstance(wrong.__cause__, _DAMAGED) else ExitCode.UNREACHABLE


async def _heeding(work: Callable[[Path], Coroutine[None, None, int]], folder: Path) -> int:
    """Do it, and wake now and then: a Ctrl-C that comes just before the loop falls asleep is heard by one awake."""

    def wake() -> None:
        loop.call_later(_HEED_SECONDS, wake)

    loop = asyncio.get_running_loop()
    wake()
    return await work(folder)


def has_log(folder: Path) -> bool:
    """Tell a home that was never used, or is misspelt, from one whose log cannot be opened."""
    try:
        return (folder / paths.DATABASE_NAME).lstat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False


async def may_have_owner(log: SqliteLog) -> bool:
    """Whether a process may live that could still end an open turn. False only where it is proven that none does."""
    try:
        holder = await log.query(read_holder)
        return holder is not None and judge(holder, this_process()) is not Life.DEAD
    except (LogUnavailable, msgspec.MsgspecError, ValueError):
        return True  # what cannot be read proves nothing


async def slices(log: SqliteLog, session_id: SessionId, *, after: int = 0) -> AsyncIterator[Slice]:
    """A session page by page, so that a long one costs no more memory than a short one."""
    is_last = False
    while not is_last:
        found = await log.read(session_id, after=after, limit=PAGE)
        yield found
        is_last = len(found.events) < PAGE
        after = after if is_last else found.events[-1].seq or 0


def tell_damage(damage: Iterable[LogDamage]) -> bool:
    """Say on stderr which parts of a log cannot be trusted, and return whether there are any."""
    found = tuple(damage)
    for one in found:
        output.note(f"damaged: {describe_damage(one)}")
    return bool(found)


def describe_damage(damage: LogDamage) -> str:
    """One line: what is wrong, and where."""
    where = f"session {damage.session_id}"
    if damage.first_seq is not None:
        last = "" if damage.last_seq in (None, damage.first_seq) else f"..{damage.last_seq}"
        where += f", event {damage.first_seq}{last}"
    return f"{where}: {damage.kind.value}: {damage.message}"
