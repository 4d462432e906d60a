"""Workflows: plans that run over children, step by step, with every decision in the parent's log.

async with Runtime(log, drivers) as runtime, Subagents(runtime, log) as subagents:
    async with Workflows(runtime, subagents, log) as workflows:
        result = await workflows.run(parent, plan, lambda step: spec)

Laws:
1. Every fact is made by the machine (`lifecycle.children.workflow`), and is in the parent's log before it is acted on.
2. A step is scheduled in the log before its child is queued, and its end follows from the child's last fact.
3. A result is `ok` on full completion alone. One that is `held` waits for a decision, and goes on after it.
4. A workflow that ends early (its time is up, `stop`, a cancelled `run`, closing) ends its children: whoever waited for
   it is told when none of them runs any more. Children that somebody detached are not its own any more.
5. The plan is the caller's, the state is the log's. A workflow that a dead runtime left open goes on when it is begun
   again by the same id: with the steps as they are recorded, their children as they are, and its whole time again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self, TypeAlias

from interlock.agents.port import AgentSpec
from interlock.lifecycle.children import workflow as machine
from interlock.lifecycle.children.workflow import (
    StopWorkflow,
    WorkflowInput,
    WorkflowRecord,
    WorkflowResult,
    WorkflowTimerFired,
)
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec, ready_steps
from interlock.lifecycle.children.workflow_step import (
    OUTCOMES,
    GiveUpStep,
    ReleaseStep,
    StartStep,
    StepEvidence,
    StepRecord,
    StepReported,
    step_evidence_from_child,
)
from interlock.log.port import Log
from interlock.runtime.children.child_results import ResultReader, result_of_log
from interlock.runtime.children.subagents import CLOSED, Subagents
from interlock.runtime.policy import Instant
from interlock.runtime.runtime import Runtime, new_id, wall_clock
from interlock.runtime.session.supervisor import SessionFailed
from interlock.vocabulary.errors import ContractError, InterlockError, UsageError
from interlock.vocabulary.events.audit import WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.ids import SessionId, StepId, SubagentId, WorkflowId
from interlock.vocabulary.states import StepState, WorkflowState

CANCELLED: Final = "whoever ran the workflow was cancelled"

# Words, and no example that could be read as a checkpoint itself where an agent repeats them.
ASK_FOR_CHECKPOINT: Final = (
    "When you are done, end your answer with one fenced JSON object. Its field `status` is one of checkpoint_ready (the"
    " work is whole and others may build on it), partial, failed, held, needs_orchestrator; its field `summary` says in"
    " a sentence or two what is ready and what is not."
)

AgentChoice: TypeAlias = Callable[[StepSpec], AgentSpec]
"""How to run a step."""

StepPrompt: TypeAlias = Callable[[StepSpec, Mapping[StepId, StepEvidence]], str]
"""What to tell the child of a step, given what the steps that it depends on have to show."""


def step_prompt(step: StepSpec, needed: Mapping[StepId, StepEvidence]) -> str:
    """The step's task, what came of the steps before it, and how to leave a checkpoint."""
    shown = (f"Step {step_id} is ready: {evidence.summary}" for step_id, evidence in needed.items())
    return "\n\n".join((step.task, *shown, ASK_FOR_CHECKPOINT))


@dataclass(frozen=True, slots=True)
class _Asked:
    """An input, and who waits for it to be taken."""

    what: WorkflowInput
    done: asyncio.Future[None] | None = None

    def tell(self, problem: Exception | None = None) -> None:
        """Answer whoever waits, if somebody still does."""
        if self.done is None or self.done.done():
            return
        if problem is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(problem)


@dataclass(slots=True)
class _Flow:
    """One workflow in motion."""

    parent: SessionId
    record: WorkflowRecord
    agents: AgentChoice
    read: ResultReader
    is_of_turn: bool
    inbox: asyncio.Queue[_Asked] = field(default_factory=asyncio.Queue)
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)
    watchers: dict[SubagentId, asyncio.Task[None]] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    problem: Exception | None = None
    is_over: bool = False

    @property
    def result(self) -> WorkflowResult:
        return machine.workflow_result(self.record.spec, self.record.steps, closed=self.record.closed)

    @property
    def is_resting(self) -> bool:
        """Whether nothing happens any more unless somebody decides something."""
        return self.is_over or self.record.status is WorkflowState.HELD


class Workflows:
    """Runs plans over children. Use it as a context manager, within that of the `Subagents`."""

    def __init__(
        self,
        runtime: Runtime,
        subagents: Subagents,
        log: Log,
        *,
        prompt: StepPrompt = step_prompt,
        clock: Callable[[], Instant] = wall_clock,
        ids: Callable[[str], str] = new_id,
    ) -> None:
        self._runtime = runtime
        self._subagents = subagents
        self._log = log
        self._prompt = prompt
        self._clock = clock
        self._ids = ids
        self._flows: dict[WorkflowId, _Flow] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop every workflow that is open."""
        for workflow_id, flow in list(self._flows.items()):
            if not flow.is_over:
                with suppress(InterlockError):
                    await self.stop(workflow_id, CLOSED)
        await asyncio.gather(*(flow.task for flow in self._flows.values() if flow.task is not None))

    # Commands

    async def run(
        self,
        parent: SessionId,
        plan: WorkflowSpec,
        agents: AgentChoice,
        *,
        read: ResultReader = result_of_log,
        is_of_turn: bool = False,
    ) -> WorkflowResult:
        """Begin a workflow and wait until it ends or is held. Cancelled, the workflow is stopped."""
        workflow_id = await self.begin(parent, plan, agents, read=read, is_of_turn=is_of_turn)
        try:
            return await self.wait(workflow_id)
        except asyncio.CancelledError:
            with suppress(InterlockError):
                await self.stop(workflow_id, CANCELLED)
            raise

    async def begin(
        self,
        parent: SessionId,
        plan: WorkflowSpec,
        agents: AgentChoice,
        *,
        read: ResultReader = result_of_log,
        is_of_turn: bool = False,
    ) -> WorkflowId:
        """Begin a workflow; its start is in the parent's log when this returns. `is_of_turn`: a tool of the parent's
        open turn runs it, and the turn does not end before it."""
        if plan.id in self._flows:
            raise UsageError(f"workflow {plan.id} was begun before", remedy="give each run an id of its own")
        record, started = machine.begin(plan, self._clock().at)
        flow = self._flows[plan.id] = _Flow(parent, record, agents, read, is_of_turn)
        beginning = asyncio.create_task(self._begin(flow, started))
        try:
            await asyncio.shield(beginning)
        except asyncio.CancelledError:  # nobody will wait for it: it is ended, with a fact
            await asyncio.wait([beginning])
            if plan.id in self._flows:
                with suppress(InterlockError):
                    await self.stop(plan.id, CANCELLED)
            raise
        return plan.id

    async def _begin(self, flow: _Flow, started: Sequence[WorkflowEvent]) -> None:
        workflow_id = flow.record.spec.id
        try:
            known = [event.data for event in (await self._log.read(flow.parent)).events]
            spine = [fact for fact in known if isinstance(fact, WorkflowEvent) and fact.workflow_id == workflow_id]
            if spine:
                flow.record = taken_up(flow.record, spine)
            else:
                await self._runtime.supervisor(flow.parent).record(*started, is_of_turn=flow.is_of_turn)
        except BaseException:
            del self._flows[workflow_id]
            flow.is_over = True
            self._refuse_the_rest(flow)
            raise
        flow.task = asyncio.create_task(self._drive(flow))

    async def release(self, workflow_id: WorkflowId, step_id: StepId, reason: str) -> None:
        """Decide that a step that waits is to run again."""
        await self._ask(self._of(workflow_id), ReleaseStep(step_id, reason))

    async def give_up(self, workflow_id: WorkflowId, step_id: StepId, reason: str) -> None:
        """Decide that a step that waits is not to run."""
        await self._ask(self._of(workflow_id), GiveUpStep(step_id, reason))

    async def stop(self, workflow_id: WorkflowId, reason: str) -> WorkflowResult:
        """End a workflow now, with its children."""
        flow = self._of(workflow_id)
        await self._ask(flow, StopWorkflow(reason))
        return await self.wait(workflow_id)

    # Looking

    def result(self, workflow_id: WorkflowId) -> WorkflowResult:
        """How a workflow stands."""
        return self._of(workflow_id).result

    async def wait(self, workflow_id: WorkflowId) -> WorkflowResult:
        """Wait until a workflow is at its end, or held."""
        flow = self._of(workflow_id)
        async with flow.moved:
            await flow.moved.wait_for(lambda: flow.is_resting)
        if flow.problem is not None:
            raise SessionFailed(f"workflow {workflow_id} cannot be recorded any more") from flow.problem
        return flow.result

    # One workflow

    async def _drive(self, flow: _Flow) -> None:
        """Everything that happens to one workflow, one thing at a time."""
        try:
            for step in flow.record.steps:
                if step.state is StepState.RUNNING and step.child is not None:  # of a workflow that was taken up
                    await self._run_step(flow, step.id, step.child)
            while not flow.record.is_terminal:
                await self._start_ready(flow)
                if not flow.record.is_terminal:
                    await self._take(flow, await self._next(flow))
        except Exception as error:  # whoever waits is told: a task has nobody else to tell
            flow.problem = error
        finally:
            await self._end_children(flow)
            async with flow.moved:
                flow.is_over = True
                flow.moved.notify_all()
            self._refuse_the_rest(flow)

    async def _start_ready(self, flow: _Flow) -> None:
        for step_id in ready_steps(flow.record.spec, flow.record.states):
            child = SubagentId(self._ids("sub"))
            await self._take(flow, _Asked(StartStep(step_id, child)))
            if flow.record.is_terminal:  # its time was up
                return
            await self._run_step(flow, step_id, child)

    async def _run_step(self, flow: _Flow, step_id: StepId, child: SubagentId) -> None:
        spec = flow.record.spec
        step = next(step for step in spec.steps if step.id == step_id)
        if not self._subagents.knows(child):
            await self._subagents.start(
                flow.parent,
                flow.agents(step),
                self._prompt(step, _shown(flow.record, step)),
                timeout_seconds=(step.timeout_ms or spec.timeout_ms) / 1000,
                subagent_id=child,
                read=flow.read,
            )
        flow.watchers[child] = asyncio.create_task(self._watch(flow, step_id, child))

    async def _watch(self, flow: _Flow, step_id: StepId, child: SubagentId) -> None:
        try:
            await self._subagents.wait(child)
            evidence = step_evidence_from_child(self._subagents.fact(child))
        except Exception as error:  # without evidence its step would run for ever
            reason = f"child_is_not_known: {str(error) or type(error).__name__}"
            evidence = StepEvidence(state=StepState.NEEDS_ORCHESTRATOR, reason=reason)
        if evidence is not None:
            flow.inbox.put_nowait(_Asked(StepReported(step_id, child, evidence)))

    async def _next(self, flow: _Flow) -> _Asked:
        deadline = flow.record.deadline
        left = None if deadline is None else (deadline - self._clock().at).total_seconds()
        try:
            async with asyncio.timeout(left):
                return await flow.inbox.get()
        except TimeoutError:
            return _Asked(WorkflowTimerFired())

    async def _take(self, flow: _Flow, asked: _Asked) -> None:
        """One step, recorded, then acted on, then told."""
        try:
            record, outputs = machine.step(flow.record, asked.what, self._clock().at)
            if outputs:
                await self._runtime.supervisor(flow.parent).record(*outputs, is_of_turn=flow.is_of_turn)
        except Exception as error:
            is_refused = isinstance(error, ContractError) and asked.done is not None
            asked.tell(UsageError(str(error), remedy="look at how the workflow stands") if is_refused else error)
            if is_refused:
                return
            raise
        flow.record = record
        asked.tell()
        async with flow.moved:
            flow.moved.notify_all()

    async def _end_children(self, flow: _Flow) -> None:
        reason = flow.record.closed or "the workflow is over"
        for watcher in flow.watchers.values():
            watcher.cancel()
        living = self._subagents.live & flow.watchers.keys()
        ended = await asyncio.gather(
            *flow.watchers.values(),
            *(self._subagents.cancel(child, reason) for child in living),
            return_exceptions=True,
        )
        # A child may come to its end by itself just now; any other refusal is told to whoever waits.
        wrong = (one for one in ended if isinstance(one, Exception) and not isinstance(one, UsageError))
        flow.problem = flow.problem or next(wrong, None)

    def _refuse_the_rest(self, flow: _Flow) -> None:
        while not flow.inbox.empty():
            flow.inbox.get_nowait().tell(_too_late(flow))

    async def _ask(self, flow: _Flow, what: WorkflowInput) -> None:
        if flow.is_over:
            raise _too_late(flow)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow.inbox.put_nowait(_Asked(what, done))
        await done

    def _of(self, workflow_id: WorkflowId) -> _Flow:
        if workflow_id not in self._flows:
            raise UsageError(f"there is no workflow {workflow_id}", remedy="look at the parent's log")
        return self._flows[workflow_id]


def taken_up(begun: WorkflowRecord, spine: Sequence[WorkflowEvent]) -> WorkflowRecord:
    """The workflow as its facts have it. `UsageError` if it is over, or if they are not those of this plan."""
    steps = {step.id: step for step in begun.steps}
    for fact in spine:
        if fact.kind is WorkflowEventKind.WORKFLOW_FINISHED:
            raise UsageError(f"workflow {fact.workflow_id} is over", remedy="give each run an id of its own")
        if fact.step_id is None or fact.step_state is None:
            continue
        if fact.step_id not in steps:
            raise UsageError(f"step {fact.step_id!r} is not in this plan", remedy="begin it again with the same plan")
        steps[fact.step_id] = _step_of(fact, fact.step_id, fact.step_state)
    record = replace(begun, steps=tuple(steps.values()))
    status = machine.MACHINE.next_state(record.status, machine.STEPS_CHANGED, record)
    return replace(record, status=status, deadline=record.deadline if status is WorkflowState.RUNNING else None)


def _step_of(fact: WorkflowEvent, step_id: StepId, state: StepState) -> StepRecord:
    if state not in OUTCOMES:
        return StepRecord(step_id, state, fact.subagent_id)
    evidence = StepEvidence(
        state=state,
        summary=fact.summary,
        checkpoint=fact.checkpoint,
        reason=fact.reason,
        timeout_ms=fact.timeout_ms,
        elapsed_ms=fact.elapsed_ms,
        next_actions=fact.next_actions,
    )
    return StepRecord(step_id, state, fact.subagent_id, evidence)


def _shown(record: WorkflowRecord, step: StepSpec) -> dict[StepId, StepEvidence]:
    """What the steps that a step depends on have to show."""
    return {one.id: one.evidence for one in record.steps if one.id in step.depends_on and one.evidence is not None}


def _too_late(flow: _Flow) -> UsageError:
    return UsageError(f"workflow {flow.record.spec.id} is {flow.record.status.value}", remedy="begin another one")
