"""The tools about other agents: start, tell, await and end children; run a plan; leave a checkpoint.

Laws:
1. Who calls is known by the spawn whose loop runs the call, and never by an argument.
2. They are offered where the options of the agent name whom it may start (`children`), which plans it may run
   (`plans`) or the checkpoint tool (`tools`), and nowhere by default.
3. A wait comes back within a bounded time, and says `incomplete` where there is more to wait for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal, Protocol, runtime_checkable

from msgspec import Meta

from interlock.agents.model.tools.tool import Tool, ToolFailure, tool_from
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId

CHECKPOINT_TOOL: Final = "submit_checkpoint"
# What a person need not be asked about: it looks, waits, tells its own parent, or ends what the caller itself began.
HARMLESS_RULES: Final = tuple(f"allow {name}" for name in ("wait_agent", "list_agents", "stop_agent", CHECKPOINT_TOOL))
MAX_WAIT_SECONDS: Final = 45.0
_TOOL_SECONDS: Final = 120.0  # the longest wait, and the commands around it

Wait = Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS)]
Lifetime = Annotated[float, Meta(gt=0, le=31_536_000)]
ClaimedStatus = Literal["checkpoint_ready", "partial", "failed", "held", "needs_orchestrator"]


class ChildCalls(Protocol):
    """Carries out the calls of these tools. `UsageError` is told to the model, with its remedy."""

    async def spawn_agent(self, caller: SpawnId, agent: str, task: str, timeout_seconds: float) -> Json: ...

    async def send_to_agent(self, caller: SpawnId, child: str, text: str) -> Json: ...

    async def wait_agent(self, caller: SpawnId, ids: Sequence[str], seconds: float, *, every: bool) -> Json: ...

    async def list_agents(self, caller: SpawnId) -> Json: ...

    async def stop_agent(self, caller: SpawnId, child: str, reason: str) -> Json: ...

    async def run_plan(
        self, caller: SpawnId, plan: str, params: Mapping[str, Json], workflow: str, seconds: float
    ) -> Json: ...

    async def submit_checkpoint(
        self, caller: SpawnId, checkpoint_id: str, status: str, summary: str, outputs: Mapping[str, Json]
    ) -> Json: ...


@runtime_checkable
class TakesChildCalls(Protocol):
    """A driver whose agents may have these tools, once somebody carries out their calls."""

    def use_child_calls(self, calls: ChildCalls) -> None: ...


def child_tools(
    calls: ChildCalls, caller: SpawnId, *, children: Sequence[str], plans: Sequence[str], has_checkpoint: bool
) -> tuple[Tool, ...]:
    """The tools of one spawn: as its options have them."""
    of = _Calls(calls, caller)
    made: list[Tool] = []
    if children:
        may_start = f" You may start: {', '.join(children)}."
        made.append(_tool(of.spawn_agent, may_start))
        made += [_tool(one) for one in (of.send_to_agent, of.wait_agent, of.list_agents, of.stop_agent)]
    if plans:
        made.append(_tool(of.run_plan, f" You may run: {', '.join(plans)}."))
    if has_checkpoint:
        made.append(_tool(of.submit_checkpoint))
    return tuple(made)


def _tool(function: Callable[..., object], more: str = "") -> Tool:
    made = tool_from(function, timeout_seconds=_TOOL_SECONDS)
    return replace(made, description=f"{made.description}{more}")


class _Calls:
    """The tools of one caller, as its model reads them."""

    def __init__(self, calls: ChildCalls, caller: SpawnId) -> None:
        self._calls = calls
        self._caller = caller

    async def spawn_agent(self, agent: str, task: str, timeout_seconds: Lifetime = 3600.0) -> Json:
        """Start another agent on a task of its own, beside you, in your folder. It sees nothing of this conversation:
        the task says all that it needs. The answer names its id; wait for it with wait_agent. It is ended when its time
        is over."""
        return await _told(self._calls.spawn_agent(self._caller, agent, task, timeout_seconds))

    async def send_to_agent(self, id: str, text: str) -> Json:
        """Give an agent that you started, and that has ended, more to do in the same conversation."""
        return await _told(self._calls.send_to_agent(self._caller, id, text))

    async def wait_agent(
        self,
        ids: tuple[str, ...] = (),
        all: bool = False,  # noqa: A002
        timeout_seconds: Wait = MAX_WAIT_SECONDS,
    ) -> Json:
        """Wait until agents that you started are at their end: those that `ids` names, or `all` of them. It comes back
        within 45 seconds; `status` is then `incomplete` if some still work, and you wait again. Only `completed` means
        that every one did its task; `proof` says `claimed` where that is its word alone."""
        return await _told(self._calls.wait_agent(self._caller, ids, timeout_seconds, every=all))

    async def list_agents(self) -> Json:
        """List the agents and plans that you started, and how each stands."""
        return await _told(self._calls.list_agents(self._caller))

    async def stop_agent(self, id: str, reason: str) -> Json:
        """End an agent, or a plan, that you started. What it did stays."""
        return await _told(self._calls.stop_agent(self._caller, id, reason))

    async def run_plan(
        self,
        plan: str,
        params: dict[str, str] | None = None,
        workflow_id: str = "",
        timeout_seconds: Wait = MAX_WAIT_SECONDS,
    ) -> Json:
        """Run a plan by its name, and wait for it, at most 45 seconds. Its `status` is then how it stands: `running`
        (call this again with the `workflow_id` that you were given), `held` (a person decides), or its end. Only
        `completed` means that every step is proven."""
        return await _told(self._calls.run_plan(self._caller, plan, params or {}, workflow_id, timeout_seconds))

    async def submit_checkpoint(
        self,
        checkpoint_id: str,
        status: ClaimedStatus,
        summary: str,
        outputs: dict[str, Json] | None = None,
    ) -> Json:
        """Say how your step of a plan stands, when you are done: `checkpoint_id` as your task gives it, `status`
        checkpoint_ready only if the work is whole and others may build on it. The last one counts. Then end with a
        short answer in words."""
        asked = self._calls.submit_checkpoint(self._caller, checkpoint_id, status, summary, outputs or {})
        return await _told(asked)


async def _told(asked: Awaitable[Json]) -> Json:
    """The answer of a call. What the caller did wrong is told to it, with what to do instead."""
    try:
        return await asked
    except UsageError as refused:
        raise ToolFailure("refused", str(refused)) from refused
