"""The owner of every child and workflow of one runtime, from recovery at the start to an end that leaves them open.

Laws:
1. At the start, in this order: the queues of children are held (`recovery.py`), commands that were left running are
   ended, children are settled, workflows are taken up, then what waits is sent. No prompt of a child is sent before its
   parent's log was read.
2. Deadlines are absolute: one that passed while no server ran ends its child or workflow at the start.
3. What nobody can take up is held and shown: a child of a workflow that is over, or whose plan is not in the log.
4. The end of a server is no end of them: the next one takes them up. Commands wait until the start is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from interlock.agents.port import AgentSpec
from interlock.lifecycle.children.workflow_plan import StepSpec
from interlock.log.port import Log
from interlock.runtime.children.step_places import TreeKeeper
from interlock.runtime.children.step_work import stop_leftovers
from interlock.runtime.children.stored_plan import StoredPlan
from interlock.runtime.children.subagents import DEFAULT_LIMITS, Subagents
from interlock.runtime.children.tree_limits import TreeLimits
from interlock.runtime.children.workflows import AgentChoice, Workflows
from interlock.runtime.policy import Instant
from interlock.runtime.runtime import Runtime, new_id, wall_clock
from interlock.vocabulary.errors import UsageError

_logger: Final = logging.getLogger("interlock.runtime")


class ChildOwner:
    """Use it as a context manager, within the runtime's."""

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        *,
        limits: TreeLimits = DEFAULT_LIMITS,
        trees: TreeKeeper | None = None,
        clock: Callable[[], Instant] = wall_clock,
        ids: Callable[[str], str] = new_id,
    ) -> None:
        self._runtime = runtime
        self.subagents = Subagents(runtime, log, limits=limits, resumes=True, trees=trees, clock=clock, ids=ids)
        self.workflows = Workflows(runtime, self.subagents, log, resumes=True, trees=trees, clock=clock, ids=ids)
        self._start: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._start = asyncio.create_task(self._recover())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._start is not None:
            self._start.cancel()
            await asyncio.gather(self._start, return_exceptions=True)
        await self.workflows.__aexit__(kind, error, trace)
        await self.subagents.__aexit__(kind, error, trace)

    async def ready(self) -> None:
        """Wait until what an earlier server left open was taken up."""
        if self._start is not None:
            await asyncio.shield(self._start)

    @property
    def is_ready(self) -> bool:
        """Whether all of it was taken up. False where that goes on, or failed: then nobody knows what is run here."""
        start = self._start
        return start is not None and start.done() and not start.cancelled() and start.exception() is None

    async def _recover(self) -> None:
        try:
            await self._runtime.settled()
            await stop_leftovers(self._runtime.home.owned)
            await self.subagents.recover()
            left = await self.workflows.take_up(self._agents_of)
            await self.subagents.go_on(left=left)
            self.workflows.go_on()
        except Exception:
            _logger.exception("children and workflows could not all be taken up; what waits for them stays held")
            raise

    def _agents_of(self, stored: StoredPlan) -> AgentChoice:
        """How to run the steps of a workflow of the log: its agents as the log has them, with the secrets of today."""

        def agent_of(step: StepSpec) -> AgentSpec:
            known = stored.agents.get(step.agent)
            spec = None if known is None else self._runtime.spec_of(known)
            if spec is None:
                raise UsageError(f"step {step.id} names no agent that is known", remedy="begin the plan again")
            return spec

        return agent_of
