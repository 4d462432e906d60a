"""The census: every process that belongs to a spawn, however far it has gone from where it was started.

Laws:
1. A process is ours if it is the leader, if it is in the leader's group or session, if its environment names the spawn,
   if a process of ours is its parent, or if it was ours at an earlier look (the same number and start time).
2. The leader's group is ours only while that is proven: the leader was seen alive, or a member is older than its end.
   Group numbers are used again, and a daemon of somebody else may be in a group of the same number.
3. We ourselves, what we run in, and number 1 are never ours, and what we started is not found through us.
4. The dead are not counted, and zombies are dead.
5. A census sees a table whose reading began after the census was asked for. What asks while one is read shares the next
   one (`look_soon`): stopping a thousand agents side by side reads the table a few times, not a few thousand times.

What cannot be found: a process that left the group and the session, cleared its environment, and whose parent ended,
all before the first look; one outside of the group that becomes a new process faster than the table is read; and what
another system runs for the agent, such as a container.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from interlock.agents.pool.masking import masked_text
from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.identity import Seen, Table, TableReader, command_of, read_table, ticks_of
from interlock.vocabulary.ids import SpawnId

COMMAND_MAX_CHARACTERS: Final = 200
# A command line may hold a whole prompt. What is read of it is more than what is kept: masking makes it shorter.
_READ_CHARACTERS: Final = 20 * COMMAND_MAX_CHARACTERS


class FoundBy(StrEnum):
    """How a process was found to be ours."""

    LEADER = "leader"
    GROUP = "group"
    ENVIRONMENT = "environment"
    PARENT = "parent"


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """One process of the spawn. `command` is masked and cut."""

    identity: ProcessIdentity
    group: int
    found_by: frozenset[FoundBy]
    command: str = ""


class Census:
    """Looks for the processes of one spawn, again and again while it is being stopped.

    `leader_seen_ticks` is when the leader was last known to live, in the unit of `ticks_of`, for a leader that
    is gone already.
    """

    def __init__(
        self,
        leader: ProcessIdentity | None,
        spawn_id: SpawnId,
        *,
        leader_seen_ticks: int | None = None,
        read: TableReader = read_table,
    ) -> None:
        self.leader = leader
        self.known: dict[ProcessIdentity, FoundProcess] = {}
        self.protected: frozenset[int] = frozenset({os.getpid()})
        self.group_holds_us = False
        self._spawn_id = spawn_id
        self._leader_seen_ticks = leader_seen_ticks
        self.group_is_ours = False
        self._read = read

    def look(self) -> tuple[FoundProcess, ...]:
        """Those that live now, the leader first, then by number. It blocks while it reads the table."""
        return self.look_at(self._read())

    def look_at(self, table: Table) -> tuple[FoundProcess, ...]:
        """The same by a table that was read just now. It blocks while it reads the command lines of what it found."""
        self.protected = frozenset(_ourselves(table))
        self.group_holds_us = any(self._is_in_group(table[pid]) for pid in self.protected if pid in table)
        ways = self._ways(table)
        found = [self._found(table[pid], frozenset(by)) for pid, by in sorted(ways.items())]
        self.known = {**self.known, **{one.identity: one for one in found}}
        return tuple(sorted(found, key=lambda one: FoundBy.LEADER not in one.found_by))

    def _ways(self, table: Table) -> dict[int, set[FoundBy]]:
        ways: dict[int, set[FoundBy]] = defaultdict(set)
        self.group_is_ours = self.group_is_ours or self._proves_group(table)
        for pid, seen in table.items():
            if pid in self.protected:
                continue
            if seen.identity == self.leader:
                ways[pid].add(FoundBy.LEADER)
            if self.group_is_ours and self._is_in_group(seen):
                ways[pid].add(FoundBy.GROUP)
            if self._spawn_id in seen.spawn_ids:
                ways[pid].add(FoundBy.ENVIRONMENT)
            if seen.identity in self.known:
                ways[pid] |= self.known[seen.identity].found_by
        # What we run in is no root, so that the walk down from the roots does not come to us.
        for pid in _descendants(table, ways):
            ways[pid].add(FoundBy.PARENT)
        return ways

    def _proves_group(self, table: Table) -> bool:
        """Whether the group of the leader's number is the leader's (law 2)."""
        if self.leader is None:
            return False
        at_its_number = table.get(self.leader.pid)
        if at_its_number is not None:
            return at_its_number.identity == self.leader and at_its_number.group == self.leader.pid
        return any(self._is_in_group(seen) and self._is_older_than_its_end(seen) for seen in table.values())

    def _is_in_group(self, seen: Seen) -> bool:
        return self.leader is not None and self.leader.pid in (seen.group, seen.session)

    def _is_older_than_its_end(self, seen: Seen) -> bool:
        """A session of that number, at a time when the leader held the number, can only have been its own."""
        began = ticks_of(seen.identity)
        return began is not None and self._leader_seen_ticks is not None and began <= self._leader_seen_ticks

    def _found(self, seen: Seen, by: frozenset[FoundBy]) -> FoundProcess:
        known = self.known.get(seen.identity)
        # A process may have become another program since: the name by which it was first found is kept.
        command = known.command if known else masked_text(command_of(seen)[:_READ_CHARACTERS])[:COMMAND_MAX_CHARACTERS]
        return FoundProcess(seen.identity, seen.group, by, command)


def _ourselves(table: Table) -> Iterator[int]:
    """We, and everything that we run in."""
    pid = os.getpid()
    yield from (0, 1, pid)
    walked = {pid}
    while (seen := table.get(pid)) is not None and seen.parent not in walked:
        pid = seen.parent
        walked.add(pid)
        yield pid


def _descendants(table: Table, roots: Iterable[int]) -> Iterator[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for pid, seen in table.items():
        children[seen.parent].append(pid)
    walked: set[int] = set()
    waiting = list(roots)
    while waiting:
        for child in children[waiting.pop()]:
            if child not in walked:
                walked.add(child)
                waiting.append(child)
                yield child


_Found: TypeAlias = tuple[FoundProcess, ...]
_Asked: TypeAlias = tuple[Census, asyncio.Future[_Found]]


class _Rounds:
    """The censuses of one event loop."""

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._reading: asyncio.Task[None] | None = None

    async def look(self, census: Census) -> _Found:
        done: asyncio.Future[_Found] = asyncio.get_running_loop().create_future()
        self._asked.append((census, done))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        return await done

    async def _read(self) -> None:
        asked: list[_Asked] = []
        try:
            while self._asked:
                asked, self._asked = self._asked, []
                found = await asyncio.to_thread(_look_all, [census for census, _ in asked])
                for (_, done), one in zip(asked, found, strict=True):
                    _tell(done, one)
        finally:
            self._reading = None
            for _, done in (*asked, *self._asked):
                done.cancel()
            self._asked = []


_rounds: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds]] = WeakKeyDictionary()


async def look_soon(census: Census) -> tuple[FoundProcess, ...]:
    """`Census.look` without blocking the event loop, by the next reading of the process table."""
    loop = asyncio.get_running_loop()
    rounds = _rounds.get(loop)
    if rounds is None:
        rounds = _rounds[loop] = _Rounds()
    return await rounds.look(census)


def _look_all(censuses: Sequence[Census]) -> list[_Found | Exception]:
    try:
        table = read_table()
    except Exception as error:  # nobody can see: each is told so
        return [error for _ in censuses]
    found: list[_Found | Exception] = []
    for census in censuses:
        try:
            found.append(census.look_at(table))
        except Exception as error:
            found.append(error)
    return found


def _tell(done: asyncio.Future[_Found], found: _Found | Exception) -> None:
    if done.done():
        return
    if isinstance(found, Exception):
        done.set_exception(found)
    else:
        done.set_result(found)
