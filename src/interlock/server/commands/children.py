"""Commands about children: begin one, list them, end one. The laws are those of `commands`: twice is once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.children.tree_limits import LimitReached
from interlock.runtime.runtime import Runtime, new_id
from interlock.server.commands.command_runner import Performer
from interlock.server.commands.validation import check_id, check_open, fit_policy, spec_of
from interlock.server.http.problems import KeyReused, NotFound, TreeFull, Unfit
from interlock.server.live.hub import Hub
from interlock.server.settings import ServerSettings
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.ids import SessionId, SubagentId
from interlock.vocabulary.wire.resources import ChildOpened, ChildStanding, OpenChild

_STARTED_WITHIN_SECONDS: Final = 2.0


class ChildCommands(Performer):
    """The commands about the children of one server."""

    def __init__(self, runtime: Runtime, hub: Hub, settings: ServerSettings, owner: ChildOwner) -> None:
        super().__init__(runtime, hub, settings)
        self._owner = owner

    async def open(self, parent: SessionId, asked: OpenChild, *, key: str = "") -> ChildOpened:
        """Begin a child; it is in its parent's log when this returns. `key` is its id, where one is given."""
        task = asked.task
        if key:
            check_id(key, "child")
        if task.prompt is None:
            raise Unfit("a child needs a prompt: what it is to do", remedy="give task.prompt")
        if task.worktree is not None or task.reply is not None:
            raise Unfit("a child has no worktree and no reply form of its own", remedy="leave both out")
        check_open(task, self._runtime.drivers)
        return await self._in_time(self._open(parent, asked, SubagentId(key or new_id("sub"))))

    async def _open(self, parent: SessionId, asked: OpenChild, child: SubagentId) -> ChildOpened:
        await self._owner.ready()
        await self._wake(parent)
        self._supervised(parent)
        known = next((one for one in await self._owner.subagents.children_of(parent) if one.subagent_id == child), None)
        if known is not None:
            if (known.task, known.agent) != (asked.task.prompt, asked.task.agent):
                raise KeyReused("the key names another child", remedy="choose another key")
            return ChildOpened(child=_standing(parent, known), is_new=False)
        try:
            await self._owner.subagents.start(
                parent,
                spec_of(asked.task),
                asked.task.prompt or "",
                timeout_seconds=asked.timeout_seconds,
                model_visible=asked.model_visible,
                policy=fit_policy(asked.task),
                subagent_id=child,
            )
        except LimitReached as refused:
            raise TreeFull(refused) from refused
        fact = await self._begun(child)
        await self._shown(parent)
        return ChildOpened(child=_standing(parent, fact), is_new=True)

    async def _begun(self, child: SubagentId) -> SubagentEvent:
        """Its fact once it has a session, which most have at once; one that waits is told as it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STARTED_WITHIN_SECONDS):
                await self._owner.subagents.left_queue(child)
        return self._owner.subagents.fact(child)

    async def list(self, parent: SessionId) -> tuple[ChildStanding, ...]:
        """The children of a task, oldest first."""
        await self._in_time(self._owner.ready())
        return tuple(_standing(parent, one) for one in await self._owner.subagents.children_of(parent))

    def live(self, parent: SessionId) -> frozenset[SubagentId] | None:
        """The children of a task that this server attends to; None while that is not known."""
        return self._owner.subagents.attended(parent) if self._owner.is_ready else None

    async def cancel(self, parent: SessionId, child: SubagentId, reason: str) -> ChildStanding:
        """End a child. One that is at its end already stays as it ended."""
        return await self._in_time(self._cancel(parent, child, reason))

    async def _cancel(self, parent: SessionId, child: SubagentId, reason: str) -> ChildStanding:
        await self._owner.ready()
        await self._wake(parent)
        facts = {one.subagent_id: one for one in await self._owner.subagents.children_of(parent)}
        if child not in facts:
            raise NotFound(f"task {parent} has no child {child}", remedy=f"list them: GET /api/tasks/{parent}/children")
        if child in self._owner.subagents.live:
            await self._owner.subagents.cancel(child, reason.strip() or "cancelled by a person")
            await self._shown(parent)
        return _standing(parent, self._owner.subagents.fact(child))


def _standing(parent: SessionId, fact: SubagentEvent) -> ChildStanding:
    return ChildStanding(
        subagent_id=fact.subagent_id,
        parent_id=parent,
        task_id=fact.child_session_id,
        status=fact.status,
        agent=fact.agent,
        task=fact.task,
        summary=fact.summary,
        reason=fact.reason,
        attempt=fact.attempt,
        timeout_ms=fact.timeout_ms,
        elapsed_ms=fact.elapsed_ms,
        deadline_at=fact.deadline_at,
        model_visible=fact.model_visible,
    )
