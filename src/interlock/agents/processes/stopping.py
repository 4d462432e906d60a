"""The stop ladder: an agent is asked to end, told to end, ended; then everything that it started.

Laws:
1. INT to the leader's group, TERM to it, KILL to it, each with a deadline. A rung is left as soon as it has worked:
   INT when the leader is gone, the others when the whole group is. Then the census: TERM and KILL to each that is left.
2. Only that very process is signalled: its start time is compared while its number cannot be used again.
   Never we ourselves, what we run in, or number 1.
3. What is gone already is no error, and stopping twice is the same as once.
4. A stop that is cancelled first kills what it can find, without waiting.
5. The report names what was seen to live and then to be gone, with the last signal that it got, and what still lives.
   What began and ended between two looks is not in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from signal import SIGCONT, SIGINT, SIGKILL, SIGTERM, Signals
from typing import Final

from interlock.agents.port import ProcessIdentity, StopReport
from interlock.agents.processes.census import Census, FoundBy, FoundProcess, look_soon
from interlock.agents.processes.identity import identity_of, is_alive
from interlock.log.host import host
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.events.audit import EndedProcess
from interlock.vocabulary.ids import SpawnId

_FIRST_LOOK_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 0.1
# What forks while it is being killed may be missed by a look; so many times it is looked for again.
_KILL_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPolicy:
    """How long each rung of the ladder may take."""

    interrupt_seconds: float = 2.0
    terminate_seconds: float = 5.0
    kill_seconds: float = 5.0


async def stop_tree(
    process: ProcessIdentity | None,
    spawn_id: SpawnId,
    policy: StopPolicy | None = None,
    *,
    leader_seen_ticks: int | None = None,
) -> StopReport:
    """End a spawn: its process and everything that it started. Without a process, what carries the spawn id.

    `UsageError` if we run inside it. `leader_seen_ticks`: see `Census`.
    """
    stop = _Stop(Census(process, spawn_id, leader_seen_ticks=leader_seen_ticks), policy or StopPolicy())
    try:
        return await stop.run()
    except asyncio.CancelledError:
        stop.kill_at_once()
        raise


class _Stop:
    def __init__(self, census: Census, policy: StopPolicy) -> None:
        self._census = census
        self._policy = policy
        self._sent: dict[ProcessIdentity, Signals] = {}

    async def run(self) -> StopReport:
        found = await self._look()
        leader = self._census.leader
        if leader is not None and leader.pid in self._census.protected and _may_live(leader):
            raise UsageError(f"we run inside of process {leader.pid}", remedy="stop it from outside of it")
        if any(FoundBy.LEADER in one.found_by for one in found):
            await self._climb()
            found = await self._look()
        return self._report(await self._end_the_rest(found))

    def kill_at_once(self) -> None:
        """The last rung, without a wait."""
        found = self._census.look()
        self._signal_group(found, SIGKILL)
        self._signal_each(self._census.look(), SIGKILL)

    async def _climb(self) -> None:
        policy = self._policy
        rungs: tuple[tuple[Signals, float, Callable[[FoundProcess], bool]], ...] = (
            (SIGINT, policy.interrupt_seconds, lambda one: FoundBy.LEADER in one.found_by),
            (SIGTERM, policy.terminate_seconds, self._is_in_group),
            (SIGKILL, policy.kill_seconds, self._is_in_group),
        )
        for signal, seconds, is_waited_for in rungs:
            found = await self._look()
            self._signal_group(found, signal)
            await _wait_for_end((one.identity for one in found if is_waited_for(one)), seconds)

    async def _end_the_rest(self, found: tuple[FoundProcess, ...]) -> tuple[FoundProcess, ...]:
        self._signal_each(found, SIGTERM)
        await _wait_for_end((one.identity for one in found), self._policy.terminate_seconds)
        for _ in range(_KILL_ROUNDS):
            found = await self._look()
            if not found:
                break
            self._signal_group(found, SIGKILL)
            self._signal_each(found, SIGKILL)
            await _wait_for_end((one.identity for one in found), self._policy.kill_seconds)
        else:
            found = await self._look()
        return found

    async def _look(self) -> tuple[FoundProcess, ...]:
        return await look_soon(self._census)

    def _is_in_group(self, one: FoundProcess) -> bool:
        leader = self._census.leader
        is_leader = FoundBy.LEADER in one.found_by
        return is_leader or (FoundBy.GROUP in one.found_by and leader is not None and one.group == leader.pid)

    def _signal_group(self, found: Iterable[FoundProcess], signal: Signals) -> None:
        """Signal the whole group at once: also what forks meanwhile, and is seen in no look, gets it."""
        members = [one for one in found if self._is_in_group(one)]
        leader = self._census.leader
        if leader is None or not self._group_can_be_signalled(leader):
            self._signal_each(members, signal)
            return
        try:
            _send_all(signal, lambda one: os.killpg(leader.pid, one))
        except (ProcessLookupError, PermissionError):
            return
        self._sent.update((one.identity, signal) for one in members)

    def _group_can_be_signalled(self, leader: ProcessIdentity) -> bool:
        """While a group has members its number is given to no new process. If one has it, the group is another's."""
        if not self._census.group_is_ours or self._census.group_holds_us:
            return False
        try:
            return identity_of(leader.pid) in (None, leader)
        except Unreachable:
            return False

    def _signal_each(self, found: Iterable[FoundProcess], signal: Signals) -> None:
        for one in found:
            if _send(one.identity, signal):
                self._sent[one.identity] = signal

    def _report(self, living: tuple[FoundProcess, ...]) -> StopReport:
        alive = {one.identity for one in living}
        known = self._census.known.items()
        return StopReport(
            ended=tuple(self._told(one) for identity, one in known if identity not in alive),
            survivors=tuple(self._told(one) for identity, one in known if identity in alive),
        )

    def _told(self, one: FoundProcess) -> EndedProcess:
        signal = self._sent.get(one.identity)
        return EndedProcess(
            pid=one.identity.pid,
            command=one.command,
            found_by="+".join(way for way in FoundBy if way in one.found_by),
            signal="" if signal is None else signal.name,
        )


def _send(process: ProcessIdentity, signal: Signals) -> bool:
    """Signal that very process; False if it is gone, or not ours to signal."""
    system = host()
    # While this is open the number is not given to another process, where the system can do that.
    holder = system.hold(process.pid)
    try:
        if holder is None:
            return is_alive(process) and _send_all(signal, lambda one: os.kill(process.pid, one))
        return is_alive(process) and _send_all(signal, lambda one: system.signal_held(holder, one))
    except (OSError, Unreachable):
        return False
    finally:
        if holder is not None:
            os.close(holder)


def _send_all(signal: Signals, send: Callable[[Signals], None]) -> bool:
    send(signal)
    if signal is not SIGKILL:
        with suppress(ProcessLookupError, PermissionError):  # gone by the signal, and reaped: it had it all the same
            send(SIGCONT)  # a stopped process hears nothing before it goes on
    return True


def _may_live(process: ProcessIdentity) -> bool:
    try:
        return is_alive(process)
    except Unreachable:
        return True  # something has its number and hides: it is not known to be gone


async def _wait_for_end(processes: Iterable[ProcessIdentity], seconds: float) -> None:
    """Wait until none of them lives, or the time is up."""
    waiting, pause = list(processes), _FIRST_LOOK_SECONDS
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while waiting := [process for process in waiting if _may_live(process)]:
        left = deadline - loop.time()
        if left <= 0:
            return
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, _LOOK_SECONDS)
