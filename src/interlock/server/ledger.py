"""What the log says of spawns, task by task. Each question reads only what is new since the last.

Laws:
1. The figures of a task are those of its log up to `version`, which is never behind what it was asked for.
2. One task is read by one reader at a time; others wait for it, and do not read it again.
3. The accounts of the tasks that were asked for last are held, and no others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from interlock.log.port import Log
from interlock.projections.spawns import SpawnLog
from interlock.vocabulary.ids import SessionId

_PAGE: Final = 2_000
_MAX_ACCOUNTS: Final = 500


@dataclass(slots=True)
class Account:
    """The spawns of one task, as of `version`."""

    version: int = 0
    spawns: SpawnLog = field(default_factory=SpawnLog)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class UsageLedger:
    """The accounts of every task that was asked about."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._accounts: dict[SessionId, Account] = {}

    async def account(self, task_id: SessionId, version: int) -> Account:
        """The account of a task, at least as of `version`. `LogUnavailable` where the log cannot be read."""
        account = self._accounts[task_id] = self._accounts.pop(task_id) if task_id in self._accounts else Account()
        while len(self._accounts) > _MAX_ACCOUNTS:
            del self._accounts[next(iter(self._accounts))]
        async with account.lock:
            is_end = False
            while account.version < version and not is_end:
                is_end = await self._read_on(task_id, account)
        return account

    async def _read_on(self, task_id: SessionId, account: Account) -> bool:
        """Take one page, and say whether it was the last. What is damaged is left out, and not waited for."""
        found = await self._log.read(task_id, after=account.version, limit=_PAGE)
        for event in found.events:
            account.spawns.add(event)
        is_end = len(found.events) < _PAGE
        account.version = found.version if is_end else (found.events[-1].seq or account.version)
        return is_end
