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
   again by the same id: with the steps as they are recorded, their children as they are, and the deadline it had.
6. With `resumes` a workflow whose plan is in the log is taken up by the next runtime. Closing leaves it open then. A
   command that ran when a runtime ended is not run again: a person decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from msgspec import convert, json, structs

from interlock.agents.git.snapshot import TreeSnapshots
from interlock.agents.port import AgentSpec
from interlock.lifecycle.children import workflow as machine
from interlock.lifecycle.children.checkpoint import ChangedFiles, checkpoint_id
from interlock.lifecycle.children.open_work import OpenWork
from interlock.lifecycle.children.subagent_evidence import TERMINAL
from interlock.lifecycle.children.workflow import (
    AddSteps,
    BudgetUsedUp,
    StopWorkflow,
    WorkflowInput,
    WorkflowRecord,
    WorkflowResult,
    WorkflowTimerFired,
)
from interlock.lifecycle.children.workflow_plan import (
    HEAD,
    OWN,
    STEP_BASE,
    StepSpec,
    WorkflowSpec,
    due_expansions,
    in_order_of_dependency,
    ready_steps,
)
from interlock.lifecycle.children.workflow_step import (
    AnswerGate,
    GiveUpStep,
    ReleaseStep,
    StartStep,
    StepEvidence,
    StepRecord,
    StepReported,
)
from interlock.lifecycle.plans.plan_file import read_items
from interlock.lifecycle.plans.templates import fill
from interlock.log.port import Log
from interlock.runtime.children.changed_files import changed_files, commands_beside, shared_beside
from interlock.runtime.children.child_results import ResultReader, result_of_log
from interlock.runtime.children.spending import Spent, spent_by, why_used_up
from interlock.runtime.children.step_outputs import items_of
from interlock.runtime.children.step_places import StepPlace, TreeKeeper, merged_base, place_in, place_of, tree_of_ours
from interlock.runtime.children.step_prompts import next_round, plan_prompt, step_prompt
from interlock.runtime.children.step_work import SERVER_ENDED, StepWork
from interlock.runtime.children.stored_plan import StoredPlan, plan_in, taken_up
from interlock.runtime.children.subagents import CLOSED, NEVER_SENT, Subagents
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.runtime import Runtime, new_id, wall_clock
from interlock.runtime.session.supervisor import SessionFailed
from interlock.vocabulary.errors import ContractError, InterlockError, PeerFault, UsageError
from interlock.vocabulary.events.audit import WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.events.workspace import WorktreeChanged
from interlock.vocabulary.ids import SessionId, StepId, SubagentId, WorkflowId
from interlock.vocabulary.states import StepState, SubagentState, WorkflowState
from interlock.vocabulary.wire.resources import AskedWorktree, OpenTask

CANCELLED: Final = "whoever ran the workflow was cancelled"

AgentChoice: TypeAlias = Callable[[StepSpec], AgentSpec]
"""How to run a step."""

StepPrompt: TypeAlias = Callable[[StepSpec, Mapping[StepId, StepEvidence]], str]
"""What to tell the child of a step, given what the steps that it depends on have to show."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An input, who waits for it to be taken, and who decided it."""

    what: WorkflowInput
    done: asyncio.Future[None] | None = None
    decided_by: str = ""
    decision_id: str = ""

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
    work: StepWork
    stored: StoredPlan | None = None
    began: dict[StepId, datetime] = field(default_factory=dict)
    children: set[SubagentId] = field(default_factory=set)
    inbox: asyncio.Queue[_Asked] = field(default_factory=asyncio.Queue)
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)
    watchers: dict[StepId, asyncio.Task[None]] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    problem: Exception | None = None
    is_over: bool = False
    is_left: bool = False

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
        resumes: bool = False,
        trees: TreeKeeper | None = None,
        clock: Callable[[], Instant] = wall_clock,
        ids: Callable[[str], str] = new_id,
    ) -> None:
        self._runtime = runtime
        self._subagents = subagents
        self._log = log
        self._prompt = prompt
        self._resumes = resumes
        self._trees = trees
        self._snapshots = TreeSnapshots()
        self._clock = clock
        self._ids = ids
        self._home_id = runtime.home.home_id or new_id("hom")
        self._flows: dict[WorkflowId, _Flow] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await (self._leave_open() if self._resumes else self.close())

    async def _leave_open(self) -> None:
        """Let go of every workflow without a fact: the next runtime takes them up as they are."""
        tasks = [flow.task for flow in self._flows.values() if flow.task is not None]
        for flow in self._flows.values():
            flow.is_left = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
        stored: StoredPlan | None = None,
        decided_by: str = "",
    ) -> WorkflowId:
        """Begin a workflow; its start is in the parent's log when this returns. `is_of_turn`: a tool of the parent's
        open turn runs it, and the turn does not end before it. `stored`: what a later runtime takes it up by."""
        if plan.id in self._flows:
            raise UsageError(f"workflow {plan.id} was begun before", remedy="give each run an id of its own")
        record, started = machine.begin(plan, self._clock().at)
        plan_kept = None if stored is None else json.decode(json.encode(stored))
        started = (structs.replace(started[0], plan=plan_kept, decided_by=decided_by), *started[1:])
        work = self._work_of(parent, plan, stored)
        flow = self._flows[plan.id] = _Flow(parent, record, agents, read, is_of_turn, work, stored)
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
                told = [await self._worded(flow, flow.record, fact) for fact in started]
                await self._runtime.supervisor(flow.parent).record(*told, is_of_turn=flow.is_of_turn)
        except BaseException:
            del self._flows[workflow_id]
            flow.is_over = True
            self._refuse_the_rest(flow)
            raise
        flow.task = asyncio.create_task(self._drive(flow))

    def _work_of(self, parent: SessionId, plan: WorkflowSpec, stored: StoredPlan | None) -> StepWork:
        folder = Path("." if stored is None else stored.folder)
        return StepWork(
            parent=parent,
            workflow_id=plan.id,
            home_id=self._home_id,
            folder=folder,
            timeout_ms=plan.timeout_ms,
            is_strict=self._resumes and stored is not None,
            snapshots=self._snapshots,
        )

    async def take_up(self, agents: Callable[[StoredPlan], AgentChoice]) -> dict[WorkflowId, str]:
        """Take up the workflows that a runtime left open; nothing of them moves before `go_on`. Give the others, each
        with why: it is over, or its plan is not in the log."""
        left: dict[WorkflowId, str] = {}
        for parent in self._runtime.sessions:
            events = [event for event in (await self._log.read(parent)).events if isinstance(event.data, WorkflowEvent)]
            told = [event.data for event in events if isinstance(event.data, WorkflowEvent)]
            is_open = OpenWork.of(told).workflows
            for workflow_id in {fact.workflow_id for fact in told} - self._flows.keys():
                if workflow_id not in is_open:
                    left[workflow_id] = "is over"
                elif not self._take_up(parent, workflow_id, events, agents):
                    left[workflow_id] = "could not be taken up"
        return left

    def _take_up(
        self,
        parent: SessionId,
        workflow_id: WorkflowId,
        events: Sequence[Event],
        agents: Callable[[StoredPlan], AgentChoice],
    ) -> bool:
        told = [(one.ts, one.data) for one in events if isinstance(one.data, WorkflowEvent)]
        spine = [(at, fact) for at, fact in told if fact.workflow_id == workflow_id]
        stored = plan_in(spine[0][1])
        if stored is None or stored.spec.id != workflow_id:
            return False
        record, _ = machine.begin(stored.spec, spine[0][0])
        try:
            record = taken_up(record, [fact for _, fact in spine])
        except UsageError:
            return False
        work = self._work_of(parent, stored.spec, stored)
        flow = _Flow(parent, record, agents(stored), result_of_log, is_of_turn=False, work=work, stored=stored)
        flow.began = {
            fact.step_id: at
            for at, fact in spine
            if fact.step_id and fact.kind is WorkflowEventKind.STEP_SCHEDULED and fact.step_state is StepState.RUNNING
        }
        self._flows[workflow_id] = flow
        return True

    def go_on(self) -> None:
        """Let what was taken up move."""
        for flow in self._flows.values():
            if flow.task is None and not flow.is_over:
                flow.task = asyncio.create_task(self._drive(flow))

    async def answer(
        self,
        workflow_id: WorkflowId,
        step_id: StepId,
        choice: str,
        *,
        reason: str = "",
        decided_by: str = "",
        decision_id: str = "",
    ) -> None:
        """Answer a gate."""
        answer = AnswerGate(step_id, choice, reason, decided_by)
        await self._ask(self._of(workflow_id), answer, decided_by, decision_id)

    async def release(
        self, workflow_id: WorkflowId, step_id: StepId, reason: str, *, decided_by: str = "", decision_id: str = ""
    ) -> None:
        """Decide that a step that waits is to run again."""
        await self._ask(self._of(workflow_id), ReleaseStep(step_id, reason), decided_by, decision_id)

    async def give_up(
        self, workflow_id: WorkflowId, step_id: StepId, reason: str, *, decided_by: str = "", decision_id: str = ""
    ) -> None:
        """Decide that a step that waits is not to run."""
        await self._ask(self._of(workflow_id), GiveUpStep(step_id, reason), decided_by, decision_id)

    async def stop(self, workflow_id: WorkflowId, reason: str, *, decided_by: str = "") -> WorkflowResult:
        """End a workflow now, with its children."""
        flow = self._of(workflow_id)
        await self._ask(flow, StopWorkflow(reason), decided_by)
        return await self.wait(workflow_id)

    # Looking

    def result(self, workflow_id: WorkflowId) -> WorkflowResult:
        """How a workflow stands."""
        return self._of(workflow_id).result

    def record(self, workflow_id: WorkflowId) -> WorkflowRecord:
        """The steps of a workflow, each with what it has to show."""
        return self._of(workflow_id).record

    async def question(self, workflow_id: WorkflowId, step_id: StepId) -> str:
        """What a gate asks, with what it shows of the steps that are ready."""
        flow = self._of(workflow_id)
        return fill(_step_of(flow, step_id).gate, await flow.work.shown(flow.record)).strip()

    def known(self) -> Mapping[WorkflowId, SessionId]:
        """The workflows that this runtime runs, or ran to their end, each with the session in whose log it is. One that
        could not be recorded any more is not among them: it stands still."""
        return {workflow_id: flow.parent for workflow_id, flow in self._flows.items() if flow.problem is None}

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
                if step.state is StepState.RUNNING:  # of a workflow that was taken up
                    await self._resume_step(flow, step)
            while not flow.record.is_terminal:
                await self._start_ready(flow)
                if not flow.record.is_terminal:
                    before, asked = flow.record, await self._next(flow)
                    if await self._close_if_spent(flow):
                        asked.tell(_too_late(flow))
                        break
                    await self._take(flow, asked)
                    self._begin_rounds(flow, before)
        except Exception as error:  # whoever waits is told: a task has nobody else to tell
            flow.problem = error
        finally:
            await (self._let_go(flow) if flow.is_left else self._end_children(flow))
            async with flow.moved:
                flow.is_over = True
                flow.moved.notify_all()
            self._refuse_the_rest(flow)

    async def spent(self, workflow_id: WorkflowId) -> Spent:
        """What a workflow used so far."""
        spec = self._of(workflow_id).record.spec
        return await spent_by(await self._subagents.sessions_of(workflow_id), spec, self._runtime, self._log)

    async def _close_if_spent(self, flow: _Flow) -> bool:
        """Let nothing more start once its budget is used up. Whether it is over by that."""
        spec = flow.record.spec
        if flow.record.closed or (spec.max_cost_usd is None and spec.max_tokens is None):
            return False
        if reason := why_used_up(await self.spent(spec.id), spec):
            await self._take(flow, _Asked(BudgetUsedUp(reason)))
        return flow.record.is_terminal

    async def _start_ready(self, flow: _Flow) -> None:
        await self._close_if_spent(flow)
        for step_id in () if flow.record.closed else due_expansions(flow.record.spec, flow.record.states):
            await self._take(flow, _Asked(await self._items_of(flow, _step_of(flow, step_id))))
        for step_id in ready_steps(flow.record.spec, flow.record.states):
            step = _step_of(flow, step_id)
            child = None if step.run else SubagentId(self._ids("sub"))
            began = flow.began[step_id] = self._clock().at
            await self._take(flow, _Asked(StartStep(step_id, child)))
            if flow.record.is_terminal:  # its time was up
                return
            if child is not None:
                await self._run_child(flow, step, child)
            else:
                self._watch(flow, step, None, self._run_command(flow, step, began))

    async def _items_of(self, flow: _Flow, step: StepSpec) -> AddSteps:
        """The steps that one stands for, by the output as it was when it was proven."""
        source, _, output = step.each.partition(".")
        try:
            if flow.stored is None:
                raise UsageError("the plan is not known", remedy="begin it again")
            checkpoint = _checkpoint(flow.record, StepId(source))
            items = await asyncio.to_thread(items_of, flow.work.folder, checkpoint, output)
            params = dict(flow.stored.params)
            return AddSteps(step.id, read_items(flow.stored.text, params, step, items, flow.record.spec.id))
        except (UsageError, ValueError, OSError) as error:
            return AddSteps(step.id, problem=f"no steps can be made of {step.each}: {error}")

    async def _resume_step(self, flow: _Flow, known: StepRecord) -> None:
        step = _step_of(flow, known.id)
        if known.child is not None and known.round > 1:
            self._begin_round(flow, known)
            return
        if known.child is not None:
            await self._run_child(flow, step, known.child)
            return
        if not step.once:
            self._watch(flow, step, None, self._run_command(flow, step, self._clock().at))
            return
        reason = f"{SERVER_ENDED}: the command may have run; look at what it did"
        evidence = StepEvidence(state=StepState.NEEDS_ORCHESTRATOR, reason=reason)
        flow.inbox.put_nowait(_Asked(StepReported(step.id, None, evidence)))

    async def _run_child(self, flow: _Flow, step: StepSpec, child: SubagentId) -> None:
        flow.children.add(child)
        try:
            if not self._subagents.knows(child):
                spec, tree = await self._tree_of(flow, step)
                await self._subagents.start(
                    flow.parent,
                    spec,
                    await self._task_of(flow, step, child),
                    timeout_seconds=(step.timeout_ms or flow.record.spec.timeout_ms) / 1000,
                    model_visible=step.model_visible,
                    policy=_policy_of(flow, step),
                    subagent_id=child,
                    workflow_id=flow.record.spec.id,
                    read=flow.read,
                    tree=tree,
                )
        except (
            UsageError,
            PeerFault,
            OSError,
        ) as refused:  # a limit, or an agent that is not there any more: a person can mend it
            evidence = StepEvidence(state=StepState.NEEDS_ORCHESTRATOR, reason=str(refused))
            flow.inbox.put_nowait(_Asked(StepReported(step.id, child, evidence)))
            return
        self._watch(flow, step, child, self._end_of_child(flow, step, child))

    async def _tree_of(self, flow: _Flow, step: StepSpec) -> tuple[AgentSpec, OpenTask | None]:
        """How to run a step's child: in a worktree that is to be made for it, or in a folder that is there."""
        spec = flow.agents(step)
        if step.worktree == OWN:
            return spec, await self._asked_tree(flow, step, spec)
        if step.tree:
            return replace(spec, cwd=str(self._place_in(flow, step).folder)), None
        return spec, None

    async def _asked_tree(self, flow: _Flow, step: StepSpec, spec: AgentSpec) -> OpenTask:
        stored = flow.stored
        if stored is None:
            raise UsageError("no worktrees are made here", remedy='give the step worktree = "shared"')
        commits = []
        for base in self._bases(flow, step):
            needed = place_of(_checkpoint(flow.record, StepId(base.removeprefix(STEP_BASE))))
            commits.append(needed.base if base.startswith(STEP_BASE) and needed else stored.bases.get(base, ""))
        if not all(commits):
            raise UsageError(f"the base of step {step.id} is not known", remedy="begin the plan again")
        base = await asyncio.to_thread(merged_base, stored.folder, tuple(commits), step)
        return OpenTask(
            agent=spec.agent,
            driver=spec.driver,
            argv=spec.argv,
            cwd=stored.folder,
            environment=dict(spec.environment),
            title=f"{flow.record.spec.id} {step.id}",
            worktree=structs.replace(stored.worktree or AskedWorktree(), name="", base=base),
        )

    def _bases(self, flow: _Flow, step: StepSpec) -> Iterator[str]:
        """The bases of a step; of one that stands for others, those of all of them."""
        for base in step.base or (HEAD,):
            name = base.removeprefix(STEP_BASE)
            if base.startswith(STEP_BASE) and any(one.is_expanded for one in flow.record.spec.steps if one.id == name):
                items = [one.id for one in flow.record.spec.steps if one.id.startswith(f"{name}:")]
                yield from (f"{STEP_BASE}{one}" for one in items)
            else:
                yield base

    def _place_in(self, flow: _Flow, step: StepSpec) -> StepPlace:
        """The tree of the step that it goes on in, as the last ready step left it."""
        of_tree = [one.id for one in in_order_of_dependency(flow.record.spec.steps) if one.tree == step.tree]
        places = [place for one in of_tree if (place := place_of(_checkpoint(flow.record, one)))]
        if not places:
            raise UsageError(f"the tree of step {step.tree} is not known", remedy="begin the plan again")
        tree_of_ours(places[-1], flow.work.folder)
        return places[-1]

    async def _run_command(self, flow: _Flow, step: StepSpec, began: datetime) -> StepEvidence:
        try:
            place = await self._place_of_command(flow, step)
        except (InterlockError, OSError) as error:
            return StepEvidence(state=StepState.NEEDS_ORCHESTRATOR, reason=str(error) or type(error).__name__)
        return await flow.work.run(step, began, place)

    async def _place_of_command(self, flow: _Flow, step: StepSpec) -> StepPlace | None:
        """Where a command runs. A worktree of its own is that of a session in which no agent is started."""
        if not step.tree or step.worktree != OWN:
            return self._place_in(flow, step) if step.tree else None
        if flow.stored is None or self._trees is None or not flow.stored.agents:
            raise UsageError("no worktrees are made here", remedy='give the step worktree = "shared"')
        spec = flow.agents(replace(step, agent=next(iter(flow.stored.agents))))
        tree, session = await self._asked_tree(flow, step, spec), SessionId(self._ids("ses"))

        async def begin(asked: OpenTask, told: WorktreeChanged) -> None:
            own = replace(spec, cwd=asked.cwd)
            await self._runtime.open_session(own, title=asked.title, session_id=session, worktree=told)

        await self._trees.open(tree, session, begin)
        await self._trees.make(session, tree)
        return self._place_of_session(session)

    def _place_of_session(self, session: SessionId, base: str = "") -> StepPlace | None:
        """The worktree of a session; None: it has none."""
        if session not in self._runtime.sessions:
            return None
        book = self._runtime.supervisor(session).book
        if book.worktree is None or book.opened is None:
            return None
        return place_in(book.worktree, book.opened.cwd, session, base)

    def _begin_rounds(self, flow: _Flow, before: WorkflowRecord) -> None:
        """Have the children go on whose steps began another round."""
        rounds = {step.id: step.round for step in before.steps}
        for known in flow.record.steps:
            if known.state is StepState.RUNNING and known.round > rounds.get(known.id, known.round):
                self._begin_round(flow, known)

    def _begin_round(self, flow: _Flow, known: StepRecord) -> None:
        step, child = _step_of(flow, known.id), known.child
        if child is not None:
            flow.children.add(child)
            self._watch(flow, step, child, self._round(flow, step, known, child))

    async def _round(self, flow: _Flow, step: StepSpec, known: StepRecord, child: SubagentId) -> StepEvidence | None:
        """One more round of a child, told once: what it was told before a crash is not sent again."""
        fact = self._subagents.fact(child)
        if fact.status in TERMINAL and (fact.attempt < known.round or fact.reason == NEVER_SENT):
            text = next_round(known.told, checkpoint_id(child, fact.attempt + 1))
            await self._subagents.send_input(child, text)
        return await self._end_of_child(flow, step, child)

    async def _task_of(self, flow: _Flow, step: StepSpec, child: SubagentId) -> str:
        if not flow.work.is_strict:
            return self._prompt(step, _shown(flow.record, step))
        return plan_prompt(step, await flow.work.shown(flow.record), checkpoint_id(child))

    async def _end_of_child(self, flow: _Flow, step: StepSpec, child: SubagentId) -> StepEvidence | None:
        await self._subagents.wait(child)
        fact = self._subagents.fact(child)
        session = fact.child_session_id
        place = None if session is None else self._place_of_session(session)
        if place is None and step.tree and step.worktree != OWN:
            place = self._place_in(flow, step)
        if step.worktree == OWN and place is None and fact.status is SubagentState.COMPLETED:
            raise UsageError(f"the worktree of step {step.id} is not known", remedy="run it again")
        changed = await self._changed_by(flow, step, session, place)
        return await flow.work.judge(step, fact, flow.began.get(step.id, self._clock().at), changed, place)

    async def _changed_by(
        self, flow: _Flow, step: StepSpec, session: SessionId | None, place: StepPlace | None
    ) -> ChangedFiles:
        if session is None or not flow.work.is_strict:
            return ChangedFiles(doubt="not looked at")
        if beside := commands_beside(flow.record.spec, step, flow.began.keys()):
            return ChangedFiles(doubt=f"commands ran in the same tree meanwhile: {', '.join(beside)}")
        await self._runtime.settle_workspace(session)
        folder = flow.work.folder if place is None else place.folder
        changed = await changed_files(self._log, session, folder)
        if place is None or shared_beside(flow.record.spec, step, flow.began.keys()):
            return replace(changed, main=())
        return changed

    def _watch(
        self, flow: _Flow, step: StepSpec, child: SubagentId | None, work: Coroutine[Any, Any, StepEvidence | None]
    ) -> None:
        """Report how a step ended, when its work is done."""

        async def report() -> None:
            try:
                evidence = await work
            except Exception as error:  # without evidence its step would run for ever
                reason = f"{'command' if child is None else 'child'}_is_not_known: {str(error) or type(error).__name__}"
                evidence = StepEvidence(state=StepState.NEEDS_ORCHESTRATOR, reason=reason)
            if evidence is not None:
                flow.inbox.put_nowait(_Asked(StepReported(step.id, child, evidence)))

        flow.watchers[step.id] = asyncio.create_task(report())

    async def _next(self, flow: _Flow) -> _Asked:
        deadline = flow.record.next_deadline
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
            told = [
                structs.replace(
                    await self._worded(flow, record, one), decided_by=asked.decided_by, decision_id=asked.decision_id
                )
                if isinstance(one, WorkflowEvent)
                else one
                for one in outputs
            ]
            if told:
                await self._runtime.supervisor(flow.parent).record(*told, is_of_turn=flow.is_of_turn)
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

    async def _worded(self, flow: _Flow, record: WorkflowRecord, fact: WorkflowEvent) -> WorkflowEvent:
        """A fact as it is recorded: what a gate asks is filled with what the steps before it have to show."""
        if not fact.question:
            return fact
        return structs.replace(fact, question=fill(fact.question, await flow.work.shown(record)).strip())

    async def _let_go(self, flow: _Flow) -> None:
        for watcher in flow.watchers.values():
            watcher.cancel()
        await asyncio.gather(*flow.watchers.values(), return_exceptions=True)

    async def _end_children(self, flow: _Flow) -> None:
        reason = flow.record.closed or "the workflow is over"
        for watcher in flow.watchers.values():
            watcher.cancel()
        living = self._subagents.live & flow.children
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

    async def _ask(self, flow: _Flow, what: WorkflowInput, decided_by: str, decision_id: str = "") -> None:
        if flow.is_over:
            raise _too_late(flow)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow.inbox.put_nowait(_Asked(what, done, decided_by, decision_id))
        await done

    def _of(self, workflow_id: WorkflowId) -> _Flow:
        if workflow_id not in self._flows:
            raise UsageError(f"there is no workflow {workflow_id}", remedy="look at the parent's log")
        return self._flows[workflow_id]


def _step_of(flow: _Flow, step_id: StepId) -> StepSpec:
    return next(step for step in flow.record.spec.steps if step.id == step_id)


def _policy_of(flow: _Flow, step: StepSpec) -> RunPolicy | None:
    """The limits of the step's agent, where it has its own."""
    opened = None if flow.stored is None else flow.stored.agents.get(step.agent)
    return None if opened is None or opened.policy is None else convert(opened.policy, RunPolicy)


def _checkpoint(record: WorkflowRecord, step_id: StepId) -> Json:
    """What a step that is ready has to show."""
    known = next((one for one in record.steps if one.id == step_id), None)
    is_ready = known is not None and known.state is StepState.CHECKPOINT_READY and known.evidence is not None
    return known.evidence.checkpoint if is_ready and known is not None and known.evidence is not None else None


def _shown(record: WorkflowRecord, step: StepSpec) -> dict[StepId, StepEvidence]:
    """What the steps that a step depends on have to show."""
    return {one.id: one.evidence for one in record.steps if one.id in step.depends_on and one.evidence is not None}


def _too_late(flow: _Flow) -> UsageError:
    return UsageError(f"workflow {flow.record.spec.id} is {flow.record.status.value}", remedy="begin another one")
