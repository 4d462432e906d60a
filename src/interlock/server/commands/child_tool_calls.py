"""What the agents of a server ask of it by tools: to start, tell, await and end children, to run a plan, to submit a
checkpoint.

Laws:
1. Who asks is the session whose agent has that spawn now. It sees its own children and workflows, and no others.
2. It starts the agents and runs the plans that its own options name, in its own folder. What it starts may do no more:
   of agents and plans what both may, and a tool only as far as the rules of all above it let it.
3. A plan is run only by its name, and only as a person trusts it.
4. A wait is bounded, and nothing rests on it: what it waits for goes on without it, also after a restart.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import json, structs, to_builtins

from interlock.agents.model.driver import DRIVER_NAME, ModelOptions, read_options
from interlock.lifecycle.children.checkpoint import checkpoint_id as id_of_checkpoint
from interlock.lifecycle.children.subagents import WaitStatus, wait_outcome
from interlock.lifecycle.plans.plan_file import read_plan
from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.config.plan_files import FoundPlan, find_plan, require_trust
from interlock.runtime.lineage import Lineage, lineage_below
from interlock.runtime.runtime import Runtime, new_id
from interlock.server.commands.children import ChildCommands
from interlock.server.commands.configured import AgentsByName
from interlock.server.commands.workflows import PREFIX, WorkflowCommands, session_of
from interlock.server.live.hub import Hub
from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import SessionOpened
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId, SpawnId, SubagentId, WorkflowId
from interlock.vocabulary.states import Attention, SubagentState, WorkflowState
from interlock.vocabulary.wire.resources import OpenChild, OpenTask
from interlock.vocabulary.wire.workflow import BeginWorkflow, StepStanding, WorkflowStanding

_WORDS_OF_ALL: Final = 40_000  # an answer is cut at 100,000 characters, and one that is cut has no status
_MAX_OUTPUTS: Final = 4_000
_OPEN: Final = (WorkflowState.RUNNING, WorkflowState.HELD)


@dataclass(frozen=True, slots=True)
class _Caller:
    """The session of a call, as its log has it, and what its options grant."""

    session: SessionId
    opened: SessionOpened
    options: ModelOptions


class ChildToolCalls:
    """Carries out these calls for the agents of one server: a `ChildCalls` of the model driver. It is made before the
    runtime, which may start agents at once; a call waits until `bind` has named who does the work."""

    _runtime: Runtime
    _hub: Hub
    _owner: ChildOwner
    _children: ChildCommands
    _workflows: WorkflowCommands

    def __init__(self, *, agents: AgentsByName, home: Path) -> None:
        self._agents = agents
        self._home = home
        self._is_bound = asyncio.Event()
        self._beginning = asyncio.Lock()

    def bind(
        self, runtime: Runtime, hub: Hub, owner: ChildOwner, children: ChildCommands, workflows: WorkflowCommands
    ) -> None:
        """From here on calls are carried out."""
        self._runtime, self._hub, self._owner = runtime, hub, owner
        self._children, self._workflows = children, workflows
        self._is_bound.set()

    # Children

    async def spawn_agent(self, caller: SpawnId, agent: str, task: str, timeout_seconds: float) -> Json:
        """Start a child, and say how it stands."""
        me = await self._caller(caller)
        if agent not in me.options.children:
            known = ", ".join(me.options.children)
            raise UsageError(f"you may not start the agent {agent!r}", remedy=f"you may start: {known}")
        asked = OpenChild(task=self._task(me, agent, task), timeout_seconds=timeout_seconds)
        opened = await self._children.open(me.session, asked)
        return await self._outcome(me, [SubagentId(opened.child.subagent_id)])

    async def send_to_agent(self, caller: SpawnId, child: str, text: str) -> Json:
        """Give an ended child more to do."""
        me = await self._caller(caller)
        mine = await self._own(me, child)
        await self._owner.subagents.send_input(mine, text)
        return await self._outcome(me, [mine])

    async def wait_agent(self, caller: SpawnId, ids: Sequence[str], seconds: float, *, every: bool) -> Json:
        """Wait until children are at their end, or so many seconds."""
        me = await self._caller(caller)
        if not ids and not every:
            told = await self._outcome(me, [])
            return {**told, "hint": "name children in `ids`, or say `all`"}
        facts = await self._facts(me)
        wanted = [SubagentId(one) for one in ids]
        if every:
            wanted += list(facts)
        await self._owner.subagents.wait(*(one for one in wanted if one in facts), timeout_seconds=seconds)
        return await self._outcome(me, wanted)

    async def list_agents(self, caller: SpawnId) -> Json:
        """Every child and workflow of the caller, and how each stands."""
        me = await self._caller(caller)
        told = await self._outcome(me, list(await self._facts(me)))
        return {**told, "workflows": [_workflow(one) for one in await self._own_workflows(me)]}

    async def stop_agent(self, caller: SpawnId, child: str, reason: str) -> Json:
        """End a child or a workflow of the caller. One that has ended stays as it ended."""
        me = await self._caller(caller)
        if child.startswith(PREFIX):
            workflow = await self._own_workflow(me, child)
            if workflow.status in _OPEN:
                workflow = await self._workflows.stop(
                    workflow.workflow_id, reason or "ended by its agent", decided_by=f"agent of {me.session}"
                )
            return self._plan_outcome(me, workflow)
        mine = await self._own(me, child)
        await self._children.cancel(me.session, mine, reason or "ended by its parent's agent")
        return await self._outcome(me, [mine])

    # Plans

    async def run_plan(
        self, caller: SpawnId, plan: str, params: Mapping[str, Json], workflow: str, seconds: float
    ) -> Json:
        """Run a plan that the caller may run, or go on waiting for one; say how it stands after so many seconds."""
        me = await self._caller(caller)
        if workflow:
            workflow_id = (await self._own_workflow(me, workflow)).workflow_id
        else:
            workflow_id = await self._begin(me, plan, params)
        with suppress(TimeoutError, UsageError):  # one that is over, and not known to this runtime, is not awaited
            async with asyncio.timeout(seconds):
                await self._owner.workflows.wait(workflow_id)
        return self._plan_outcome(me, await self._workflows.get(workflow_id))

    async def _begin(self, me: _Caller, plan: str, params: Mapping[str, Json]) -> WorkflowId:
        if plan not in me.options.plans:
            raise UsageError(f"you may not run the plan {plan!r}", remedy=f"you may run: {', '.join(me.options.plans)}")
        if "/" in plan or plan.endswith(".toml"):
            raise UsageError(f"{plan!r} is no name of a plan", remedy="a plan is run by its name alone")
        folder, found = await asyncio.to_thread(self._trusted, plan, me.opened.cwd)
        workflow_id = WorkflowId(new_id(PREFIX.removesuffix("_")))
        spec = read_plan(found.text, params, workflow_id)
        names = dict.fromkeys(step.agent for step in spec.steps if step.agent) or {me.opened.agent: None}
        asked = BeginWorkflow(
            plan=found.text,
            folder=str(folder),
            agents={name: self._task(me, name, None) for name in names},
            params=dict(params),
        )
        root, depth = lineage_below(me.session, me.opened)
        lineage = Lineage(parent_id=me.session, root_id=root, depth=depth, workflow_id=workflow_id)
        by = f"agent of {me.session}"
        async with self._beginning:  # calls of one turn come at once, and each counts for the next
            mine = await self._own_workflows(me)
            is_open = sum(one.status in _OPEN for one in mine)
            self._owner.subagents.check_room(me.session, root, depth + 1, is_open=is_open, ever=len(mine))
            begun = await self._workflows.begin(asked, key=workflow_id, decided_by=by, lineage=lineage)
        return begun.workflow.workflow_id

    def _trusted(self, plan: str, cwd: str) -> tuple[Path, FoundPlan]:
        """The plan of that name, as it was read and as a person trusts it, and where it was looked for."""
        folder = Path(cwd).absolute()
        found = find_plan(plan, os.environ, folder)
        require_trust(self._home, found)
        return folder, found

    # Checkpoints

    async def submit_checkpoint(
        self, caller: SpawnId, checkpoint_id: str, status: str, summary: str, outputs: Mapping[str, Json]
    ) -> Json:
        """Take a checkpoint of the attempt that the caller works on. It is kept as the call and its result, in the log
        of the caller, and read from there."""
        me = await self._caller(caller)
        child, parent = me.opened.subagent_id, me.opened.parent_id
        if child is None or parent is None or me.opened.workflow_id is None:
            raise UsageError("you work on no step of a plan", remedy="answer in words")
        if checkpoint_id != id_of_checkpoint(child, self._owner.subagents.fact(child).attempt):
            wrong = f"checkpoint_id {checkpoint_id!r} is not that of this attempt"
            raise UsageError(wrong, remedy="give the one that your task names")
        if not summary.strip():
            raise UsageError("a checkpoint needs a summary", remedy="say what is ready and what is not")
        return {"status": "recorded", "checkpoint_id": checkpoint_id}

    # Who asks, and what is theirs

    async def _caller(self, caller: SpawnId) -> _Caller:
        await self._is_bound.wait()
        for one in self._runtime.sessions:
            book = self._runtime.supervisor(one).book
            if book.spawn is not None and book.spawn.spawn_id == caller and book.opened is not None:
                given = book.opened.options if isinstance(book.opened.options, dict) else {}
                options = read_options(given) if book.opened.driver == DRIVER_NAME else ModelOptions()
                return _Caller(one, book.opened, options)
        raise UsageError("no session runs this agent now", remedy="nothing can be asked of it any more")

    async def _facts(self, me: _Caller) -> dict[SubagentId, SubagentEvent]:
        return {fact.subagent_id: fact for fact in await self._owner.subagents.children_of(me.session)}

    async def _own(self, me: _Caller, child: str) -> SubagentId:
        if SubagentId(child) not in await self._facts(me):
            raise UsageError(f"you have no agent {child!r}", remedy="list yours with list_agents")
        return SubagentId(child)

    async def _own_workflows(self, me: _Caller) -> list[WorkflowStanding]:
        """Those that it began, oldest first. Lines say whose they are: no other log is read for it."""
        first = session_of(WorkflowId(PREFIX))
        ids: list[WorkflowId] = []
        async for one in self._hub.lines(first):
            if not one.task_id.startswith(first):
                break
            if one.summary().parent_id == me.session:
                ids.append(WorkflowId(one.task_id.removeprefix("ses_")))
        return [await self._workflows.get(one) for one in ids]

    async def _own_workflow(self, me: _Caller, workflow: str) -> WorkflowStanding:
        if not workflow.startswith(PREFIX) or not await self._is_below(me, WorkflowId(workflow)):
            raise UsageError(f"you run no plan {workflow!r}", remedy="list yours with list_agents")
        return await self._workflows.get(WorkflowId(workflow))

    async def _is_below(self, me: _Caller, workflow_id: WorkflowId) -> bool:
        view = await self._hub.open(session_of(workflow_id))
        return view is not None and view.summary().parent_id == me.session

    def _task(self, me: _Caller, agent: str, prompt: str | None) -> OpenTask:
        """How to run an agent below the caller. Law 2."""
        spec, policy = self._agents(agent, me.opened.cwd)
        options = dict(spec.options)
        if spec.driver == DRIVER_NAME:
            options |= narrowed(read_options(options), me.options)
        return OpenTask(
            agent=spec.agent,
            driver=spec.driver,
            argv=spec.argv,
            cwd=me.opened.cwd,
            model=spec.model,
            options=options,
            environment=dict(spec.environment),
            policy=policy,
            prompt=prompt,
        )

    # What it is told

    async def _outcome(self, me: _Caller, wanted: Sequence[SubagentId]) -> dict[str, Json]:
        facts = await self._facts(me)
        outcome = wait_outcome(facts, wanted=wanted)
        shown = [facts[one] for one in dict.fromkeys(wanted) if one in facts]
        words = _WORDS_OF_ALL // max(1, len(shown))
        return {
            "status": outcome.status.value,
            "children": [self._child(one, words) for one in shown],
            "unknown": list(outcome.unknown),
            **self._room(me),
            "next_actions": _advice(outcome.next_actions, waits=outcome.status is WaitStatus.INCOMPLETE),
        }

    def _plan_outcome(self, me: _Caller, standing: WorkflowStanding) -> Json:
        words = _WORDS_OF_ALL // max(1, len(standing.steps))
        return {
            "status": standing.status.value,
            "ok": standing.status is WorkflowState.COMPLETED,
            "workflow_id": standing.workflow_id,
            "reason": standing.reason,
            "children": [_step(one, words) for one in standing.steps],
            "unknown": [],
            **self._room(me),
            "next_actions": _advice(standing.next_actions, waits=standing.status is WorkflowState.RUNNING),
        }

    def _room(self, me: _Caller) -> dict[str, Json]:
        view = self._hub.view(me.session)
        line = None if view is None else view.summary()
        budget = None if line is None else line.max_cost_usd
        left = None if line is None or budget is None else max(0.0, budget - (line.cost_usd or 0.0))
        return {"slots_free": self._owner.subagents.slots_free(me.session), "budget_left": left}

    def _child(self, fact: SubagentEvent, words: int) -> dict[str, Json]:
        claimed = fact.checkpoint.get("outputs") if isinstance(fact.checkpoint, dict) else None
        return {
            "id": fact.subagent_id,
            "session_id": fact.child_session_id,
            "agent": fact.agent,
            "status": fact.status.value,
            "proof": "claimed" if fact.status is SubagentState.COMPLETED else "",
            "summary": fact.summary[:words],
            "outputs": _small(claimed),
            "reason": fact.reason or self._waits_for(fact),
            "elapsed_ms": fact.elapsed_ms,
        }

    def _waits_for(self, fact: SubagentEvent) -> str:
        """That a child which works waits for a person. What it asks is theirs to read."""
        view = None if fact.child_session_id is None else self._hub.view(fact.child_session_id)
        badge = None if view is None or fact.status is not SubagentState.RUNNING else view.summary().badge
        attention = Attention.NONE if badge is None else badge.attention
        return "" if attention is Attention.NONE else f"waits for a person: {attention.value}"


def narrowed(options: ModelOptions, above: ModelOptions) -> dict[str, Any]:
    """What the options of a model become below another one: it may start, run and write no more than that one."""
    own = structs.replace(
        options,
        children=tuple(one for one in options.children if one in above.children),
        plans=tuple(one for one in options.plans if one in above.plans),
        permissions_above=(above.permissions, *above.permissions_above),
        write_policy=(*options.write_policy, *(one for one in above.write_policy if not one.startswith("allow"))),
    )
    changed = ("children", "plans", "permissions_above", "write_policy")
    return {name: json.decode(json.encode(getattr(own, name))) for name in changed}  # as the log has them: lists


def _advice(actions: Sequence[NextAction], *, waits: bool) -> Json:
    """Advice to a model: to wait again is its own to do, and commands are a person's."""
    own: list[Json] = [{"kind": "wait_again"}] if waits else []
    return [*own, *(to_builtins(one) for one in actions if one.kind.value != "wait_again")]


def _step(step: StepStanding, words: int) -> Json:
    claimed = step.checkpoint.get("outputs") if isinstance(step.checkpoint, dict) else None
    return {
        "id": step.step_id,
        "session_id": None,
        "agent": step.agent,
        "status": step.state.value,
        "proof": step.proof,
        "summary": step.summary[:words],
        "outputs": _small(claimed),
        "reason": step.reason or (f"a person decides: {', '.join(step.choices)}" if step.choices else ""),
        "elapsed_ms": None,
    }


def _workflow(one: WorkflowStanding) -> Json:
    return {
        "id": one.workflow_id,
        "name": one.name,
        "status": one.status.value,
        "ready": one.ready,
        "total": len(one.steps),
        "held": one.held,
    }


def _small(outputs: Json) -> Json:
    """Outputs, if they are no more than can be told."""
    return outputs if outputs is not None and len(json.encode(outputs)) <= _MAX_OUTPUTS else []
