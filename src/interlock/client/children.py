"""The children of a task, in the hands of a caller: start them, wait for them, end them.

    child = await task.children.start("claude", "review the change")
    outcome = await task.children.wait(child.subagent_id, timeout=600)

Law: how a child ended is what the log of its parent says. Only `completed` means that every one of them did its task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import structs

from interlock.client.opening import open_request
from interlock.client.transport.api import Api, new_id
from interlock.lifecycle.children.subagent_evidence import TERMINAL
from interlock.lifecycle.children.subagents import WaitStatus
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import SubagentState
from interlock.vocabulary.wire.resources import ChildStanding, OpenChild

LOOK_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenOutcome:
    """How the children that were waited for stand. `unknown` are names that the task has no child by."""

    status: WaitStatus
    children: tuple[ChildStanding, ...]
    unknown: tuple[str, ...] = ()

    @property
    def is_completed(self) -> bool:
        return self.status is WaitStatus.COMPLETED

    @property
    def summaries(self) -> dict[str, str]:
        """What each child that completed has to say."""
        done = (one for one in self.children if one.status is SubagentState.COMPLETED)
        return {one.subagent_id: one.summary for one in done}


class TaskChildren:
    """The children of one task."""

    def __init__(self, api: Api, task_id: SessionId) -> None:
        self._api = api
        self._task_id = task_id

    async def list(self) -> tuple[ChildStanding, ...]:
        """Every child, oldest first."""
        return (await self._api.children(self._task_id)).items

    async def start(
        self,
        agent: str,
        prompt: str,
        *,
        cwd: str | Path | None = None,
        mode: str = "",
        model: str = "",
        timeout_seconds: float = 3_600.0,
        model_visible: bool = False,
        subagent_id: str = "",
    ) -> ChildStanding:
        """Start an agent of the configuration as a child, with its task. `subagent_id` names it: given again it starts
        nothing new. `model_visible`: the parent's model sees how it ended."""
        task = structs.replace(open_request(agent, cwd=cwd, mode=mode, model=model), prompt=prompt)
        asked = OpenChild(task=task, timeout_seconds=timeout_seconds, model_visible=model_visible)
        return (await self._api.open_child(self._task_id, asked, subagent_id or new_id("sub"))).child

    async def wait(self, *subagent_ids: str, timeout: float | None = None) -> ChildrenOutcome:  # noqa: ASYNC109
        """Wait until these children, or all where none is named, are at their end; at the time limit, `incomplete`."""
        end = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            found = _outcome(await self.list(), subagent_ids)
            is_late = end is not None and asyncio.get_running_loop().time() >= end
            if found.status is not WaitStatus.INCOMPLETE or is_late:
                return found
            await asyncio.sleep(LOOK_SECONDS)

    async def cancel(self, subagent_id: str, reason: str) -> ChildStanding:
        """End a child. One that has ended stays as it ended."""
        if not reason.strip():
            raise UsageError("a child is not ended without a reason", remedy="say why")
        return await self._api.cancel_child(self._task_id, subagent_id, reason, new_id("cmd"))


def _outcome(children: Iterable[ChildStanding], wanted: tuple[str, ...]) -> ChildrenOutcome:
    known = {one.subagent_id: one for one in children}
    shown = tuple(known[one] for one in dict.fromkeys(wanted or known) if one in known)
    unknown = tuple(one for one in dict.fromkeys(wanted) if one not in known)
    states = {one.status for one in shown}
    if not shown:
        status = WaitStatus.NOTHING_TO_WAIT_FOR
    elif states - TERMINAL:
        status = WaitStatus.INCOMPLETE
    else:
        is_whole = states == {SubagentState.COMPLETED} and not unknown
        status = WaitStatus.COMPLETED if is_whole else WaitStatus.PARTIAL
    return ChildrenOutcome(status=status, children=shown, unknown=unknown)
