"""Commands about workflows: begin one, see how it stands, decide its steps, stop it.

Laws:
1. A workflow has a session of its own, `ses_` and its id, in whose log all of it is. Its id is its key: given again
   with the same plan it is the same workflow, and with another plan it is refused.
2. How a workflow stands is read from that log, the same while it runs, after a restart and when it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import structs, to_builtins

from interlock.agents.observations import OptionKind
from interlock.lifecycle.children.step_trees import with_trees
from interlock.lifecycle.children.workflow import MACHINE, WORKFLOW_TIMEOUT
from interlock.lifecycle.children.workflow_plan import InvalidWorkflow, StepSpec, WorkflowSpec
from interlock.lifecycle.children.workflow_step import StepRecord
from interlock.lifecycle.plans.plan_file import read_plan
from interlock.log.port import Log
from interlock.projections.approvals import GIVE_UP, RELEASE, decision_of
from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.children.spending import BUDGET, Spent
from interlock.runtime.children.step_places import head_of, resolve_bases
from interlock.runtime.children.stored_plan import StoredPlan, StoredWorkflow, digest_of, workflow_in
from interlock.runtime.lineage import Lineage
from interlock.runtime.runtime import Runtime, new_id
from interlock.server.commands.command_runner import Performer
from interlock.server.commands.idempotency import refuse_unfit_option
from interlock.server.commands.validation import check_id, check_open, fit_policy, opened_of, spec_of
from interlock.server.http.problems import AlreadyDecided, KeyReused, NotFound, Unfit
from interlock.server.live.hub import Hub
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import WorkflowEvent
from interlock.vocabulary.ids import SessionId, StepId, WorkflowId
from interlock.vocabulary.states import StepState
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.requests import ApprovalDecide
from interlock.vocabulary.wire.resources import ApprovalStanding
from interlock.vocabulary.wire.workflow import BeginWorkflow, StepStanding, WorkflowBegun, WorkflowStanding

PREFIX: Final = "wf_"
_PAGE: Final = 500
_WAITS: Final = (StepState.HELD, StepState.NEEDS_ORCHESTRATOR)


@dataclass(frozen=True, slots=True)
class _Decision:
    """What somebody decides about a step. `id`: its name, if it has one."""

    step: StepId
    choice: str
    reason: str
    decided_by: str
    id: str = ""

    def is_that_of(self, fact: WorkflowEvent) -> bool:
        """Whether a fact follows from this very decision."""
        is_answer = isinstance(fact.checkpoint, dict) and "choice" in fact.checkpoint
        reason = fact.checkpoint.get("reason") if isinstance(fact.checkpoint, dict) and is_answer else fact.reason
        return (decision_of(fact), reason, fact.decided_by) == (self.choice, self.reason, self.decided_by)


class WorkflowCommands(Performer):
    """The commands about the workflows of one server."""

    def __init__(self, runtime: Runtime, hub: Hub, settings: ServerSettings, owner: ChildOwner, log: Log) -> None:
        super().__init__(runtime, hub, settings)
        self._owner = owner
        self._log = log
        self._beginning = asyncio.Lock()
        self._deciding = asyncio.Lock()

    async def begin(
        self, asked: BeginWorkflow, *, key: str = "", decided_by: str = "", lineage: Lineage | None = None
    ) -> WorkflowBegun:
        """Begin a workflow; its plan is in the log when this returns. `lineage`: below which session it is."""
        workflow_id = WorkflowId(key or new_id(PREFIX.removesuffix("_")))
        check_id(workflow_id, "workflow")
        if not workflow_id.startswith(PREFIX):
            raise Unfit(f"{workflow_id!r} is no id of a workflow", remedy=f"begin it with {PREFIX}")
        if not await asyncio.to_thread(_is_folder, asked.folder):
            raise Unfit(f"there is no folder {asked.folder}", remedy="give the absolute path of one that is there")
        try:
            spec = read_plan(asked.plan, asked.params, workflow_id)
            self._check_agents(spec, asked)
            spec, bases = await asyncio.to_thread(_with_trees, spec, asked.folder)
        except InvalidWorkflow as wrong:
            raise Unfit(str(wrong).removesuffix(f"; {wrong.remedy}"), remedy=wrong.remedy) from wrong
        return await self._in_time(self._begin(spec, asked, bases, decided_by, lineage))

    def _check_agents(self, spec: WorkflowSpec, asked: BeginWorkflow) -> None:
        for step in spec.steps:
            if step.task and step.agent not in asked.agents:
                raise Unfit(f"step {step.id} names the agent {step.agent!r}", remedy="say in `agents` how to run it")
        if not asked.agents:
            raise Unfit("no agent is given", remedy="a workflow needs one for its session, also if no step prompts it")
        for agent in asked.agents.values():
            check_open(agent, self._runtime.drivers)

    async def _begin(
        self,
        spec: WorkflowSpec,
        asked: BeginWorkflow,
        bases: dict[str, str],
        decided_by: str,
        lineage: Lineage | None,
    ) -> WorkflowBegun:
        await self._owner.ready()
        digest = digest_of(asked.plan)
        async with self._beginning:  # two that bear the same id are one after the other
            known = await self._read(spec.id)
            if known is not None:
                if (known.plan.digest, known.plan.params, known.plan.folder) != (digest, asked.params, asked.folder):
                    raise KeyReused(f"workflow {spec.id} is one of another plan", remedy="choose another id")
                return WorkflowBegun(workflow=await self._standing(spec.id, known), is_new=False)
            session = session_of(spec.id)
            specs = {name: replace(spec_of(agent), cwd=asked.folder) for name, agent in asked.agents.items()}
            await self._wake(session)
            if session not in self._runtime.sessions:
                first = next(iter(specs.values()))
                await self._runtime.open_session(
                    first, title=f"plan {spec.name}".strip(), session_id=session, lineage=lineage
                )
            stored = StoredPlan(
                spec=spec,
                folder=asked.folder,
                agents={
                    name: structs.replace(
                        opened_of(
                            agent,
                            kind=self._runtime.drivers[agent.driver].kind,
                            argv=self._runtime.redactor.argv(agent.argv),
                        ),
                        policy=to_builtins(fit_policy(agent)),
                    )
                    for name, agent in asked.agents.items()
                },
                text=asked.plan,
                params=asked.params,
                digest=digest,
                bases=bases,
                worktree=next((agent.worktree for agent in asked.agents.values() if agent.worktree), None),
            )
            await self._owner.workflows.begin(
                session, spec, lambda step: specs[step.agent], stored=stored, decided_by=decided_by
            )
        return WorkflowBegun(workflow=await self.get(spec.id), is_new=True)

    async def list(self) -> tuple[WorkflowStanding, ...]:
        """Every workflow of the log, oldest first."""
        await self._in_time(self._owner.ready())
        page = await self._log.sessions(prefix=session_of(WorkflowId(PREFIX)), limit=_PAGE)
        found = []
        for one in page.sessions:
            workflow_id = WorkflowId(one.session_id.removeprefix("ses_"))
            known = await self._read(workflow_id)
            if known is not None:
                found.append(await self._standing(workflow_id, known))
        return tuple(found)

    async def get(self, workflow_id: WorkflowId) -> WorkflowStanding:
        """How a workflow stands."""
        await self._in_time(self._owner.ready())
        known = await self._read(workflow_id)
        if known is None:
            raise NotFound(f"there is no workflow {workflow_id}", remedy="`interlock plan ls` lists them")
        return await self._standing(workflow_id, known)

    def live(self) -> frozenset[WorkflowId] | None:
        """The workflows that this server runs; None while that is not known."""
        return frozenset(self._owner.workflows.known()) if self._owner.is_ready else None

    async def stop(self, workflow_id: WorkflowId, reason: str, *, decided_by: str = "") -> WorkflowStanding:
        """End a workflow, and wait until nothing of it runs."""
        await self._owned(workflow_id)
        await self._in_time(self._owner.workflows.stop(workflow_id, reason, decided_by=decided_by))
        return await self.get(workflow_id)

    async def release(
        self, workflow_id: WorkflowId, step: StepId, reason: str, *, decided_by: str = "", decision_id: str = ""
    ) -> WorkflowStanding:
        """Let a step that waits for a decision run again."""
        decision = _Decision(step, RELEASE, reason, decided_by, decision_id)
        return await self._decided(workflow_id, decision, partial(self._owner.workflows.release, reason=reason))

    async def give_up(
        self, workflow_id: WorkflowId, step: StepId, reason: str, *, decided_by: str = "", decision_id: str = ""
    ) -> WorkflowStanding:
        """Decide that a step that waits is not to run."""
        decision = _Decision(step, GIVE_UP, reason, decided_by, decision_id)
        return await self._decided(workflow_id, decision, partial(self._owner.workflows.give_up, reason=reason))

    async def answer(
        self,
        workflow_id: WorkflowId,
        step: StepId,
        choice: str,
        reason: str,
        decided_by: str,
        decision_id: str = "",
    ) -> WorkflowStanding:
        """Answer a gate."""
        decision = _Decision(step, choice, reason, decided_by, decision_id)
        answering = partial(self._owner.workflows.answer, choice=choice, reason=reason)
        return await self._decided(workflow_id, decision, answering)

    async def decide(self, asked: ApprovalDecide, question: Approval, *, decided_by: str) -> ApprovalStanding:
        """Decide about a step as any other question is answered: by a choice that it offers. The caller has refused
        what comes from an agent."""
        workflow_id = WorkflowId(asked.task_id.removeprefix("ses_"))
        step = StepId(asked.approval_id.removeprefix(f"{workflow_id}:"))
        choice = chosen(asked, question)
        known = await self._read(workflow_id)
        if known is not None and any(one.gate for one in known.record.spec.steps if one.id == step):
            await self.answer(workflow_id, step, choice, asked.text, decided_by, asked.decision_id)
        else:
            act = self.release if choice == RELEASE else self.give_up
            reason = asked.text or f"answered: {choice}"
            await act(workflow_id, step, reason, decided_by=decided_by, decision_id=asked.decision_id)
        await self._shown(asked.task_id)
        return ApprovalStanding(approval_id=asked.approval_id, state=ApprovalState.CLOSED)

    async def _decided(
        self, workflow_id: WorkflowId, decision: _Decision, deciding: Callable[..., Coroutine[None, None, None]]
    ) -> WorkflowStanding:
        """Decide about a step: the first decision holds. The same one again has the same answer, also where it named
        itself and the step waits once more; another one is told whose the first was."""
        async with self._deciding:
            past = await self._decisions(workflow_id, decision.step)
            same = [fact for _, fact in past if decision.id and fact.decision_id == decision.id]
            if any(decision_of(fact) == decision.choice for fact in same):
                return await self.get(workflow_id)
            if same:
                raise KeyReused(f"decision {decision.id} was {decision_of(same[0])}", remedy="choose another id")
            try:
                await self._owned(workflow_id)
                work = deciding(workflow_id, decision.step, decided_by=decision.decided_by, decision_id=decision.id)
                await self._in_time(work)
            except UsageError as refused:
                past = await self._decisions(workflow_id, decision.step)
                if past and decision.is_that_of(past[-1][1]):
                    return await self.get(workflow_id)
                raise await self._past_decision(workflow_id, decision.step) or refused from None
        return await self.get(workflow_id)

    async def _decisions(self, workflow_id: WorkflowId, step: StepId) -> Sequence[tuple[datetime, WorkflowEvent]]:
        """What was decided about a step, and when, oldest first."""
        return [
            (one.ts, one.data)
            for one in (await self._log.read(session_of(workflow_id))).events
            if isinstance(one.data, WorkflowEvent) and one.data.step_id == step and one.data.decided_by
        ]

    async def _past_decision(self, workflow_id: WorkflowId, step: StepId) -> AlreadyDecided | None:
        """Who decided about a step that does not wait any more, and when."""
        past = await self._decisions(workflow_id, step)
        known = await self._read(workflow_id)
        states = {} if known is None else known.record.states
        if not past or states.get(step) in _WAITS:
            return None
        at, fact = past[-1]
        when = at.isoformat(timespec="seconds")
        said = f"step {step} was decided already: {decision_of(fact)}, by {fact.decided_by} at {when}"
        return AlreadyDecided(said, remedy=f"see how it stands: `interlock plan show {workflow_id}`")

    async def _owned(self, workflow_id: WorkflowId) -> None:
        standing = await self.get(workflow_id)
        if standing.status in MACHINE.terminal:
            raise UsageError(
                f"workflow {workflow_id} has ended: {standing.status.value}",
                remedy="run its plan again under another id",
            )
        if not standing.is_owned:
            raise UsageError(f"no server runs workflow {workflow_id}", remedy="run its plan again under another id")

    async def _read(self, workflow_id: WorkflowId) -> StoredWorkflow | None:
        events = (await self._log.read(session_of(workflow_id))).events
        spine = [one for one in events if isinstance(one.data, WorkflowEvent) and one.data.workflow_id == workflow_id]
        facts = [one.data for one in spine if isinstance(one.data, WorkflowEvent)]
        return workflow_in(facts, spine[0].ts) if spine else None

    async def _question(self, workflow_id: WorkflowId, step: StepSpec) -> str:
        """What a gate asks, with what it shows where its workflow is run here."""
        is_owned = bool(step.gate) and workflow_id in self._owner.workflows.known()
        return await self._owner.workflows.question(workflow_id, step.id) if is_owned else step.gate

    def _tree(self, step: StepRecord) -> dict[str, str]:
        """The worktree in which a step works: as it was recorded at its end, else that of its child's session."""
        checkpoint = None if step.evidence is None else step.evidence.checkpoint
        tree = checkpoint.get("tree") if isinstance(checkpoint, dict) else None
        if isinstance(tree, dict):
            return {key: str(tree.get(key) or "") for key in ("root", "branch", "session_id")}
        child = step.child
        known = child is not None and self._owner.subagents.knows(child)
        session = self._owner.subagents.fact(child).child_session_id if known and child is not None else None
        if session is None or session not in self._runtime.sessions:
            return {}
        told = self._runtime.supervisor(session).book.worktree
        return {} if told is None else {"root": told.path, "branch": told.branch, "session_id": session}

    async def _standing(self, workflow_id: WorkflowId, known: StoredWorkflow) -> WorkflowStanding:
        steps = {step.id: step for step in known.record.spec.steps}
        states = list(known.record.states.values())
        is_over = known.status in MACHINE.terminal
        is_owned = workflow_id in self._owner.workflows.known()
        spec = known.record.spec
        is_limited = spec.max_cost_usd is not None or spec.max_tokens is not None
        spent = await self._owner.workflows.spent(workflow_id) if is_owned and is_limited else Spent()
        return WorkflowStanding(
            workflow_id=workflow_id,
            task_id=session_of(workflow_id),
            name=known.record.spec.name,
            status=known.status,
            was_stopped=is_over and known.reason not in ("", WORKFLOW_TIMEOUT) and not known.reason.startswith(BUDGET),
            reason=known.reason,
            is_owned=is_owned,
            folder=known.plan.folder,
            digest=known.plan.digest,
            params=to_builtins(known.plan.params),
            ready=states.count(StepState.CHECKPOINT_READY),
            held=sum(state in _WAITS for state in states),
            steps=tuple(
                [
                    _step(steps[one.id], one, await self._question(workflow_id, steps[one.id]), self._tree(one))
                    for one in known.record.steps
                ]
            ),
            deadline_at=None if is_over else known.record.deadline,
            next_actions=known.next_actions,
            cost_usd=spent.cost_usd,
            tokens=spent.tokens,
            max_cost_usd=known.record.spec.max_cost_usd,
            max_tokens=known.record.spec.max_tokens,
            unmetered=spent.unmetered,
        )


def chosen(asked: ApprovalDecide, question: Approval) -> str:
    """The choice that an answer names. Words that are none, and a yes or no where it is not known which choice that
    would be, decide nothing."""
    refuse_unfit_option(asked, question)
    labels = [one.label for one in question.options]
    said = asked.text.strip().casefold()
    verdict = OptionKind.ALLOW_ONCE if asked.is_allowed else OptionKind.REJECT_ONCE
    named = [one for one in labels if one == asked.option] if asked.option else []
    named = named or [one for one in labels if not asked.option and one.casefold() == said]
    named = named or [one.label for one in question.options if not asked.option and one.kind == verdict]
    if not named:
        raise Unfit("that is none of its choices", remedy=f"answer with one of {', '.join(map(repr, labels))}")
    return named[0]


def _with_trees(spec: WorkflowSpec, folder: str) -> tuple[WorkflowSpec, dict[str, str]]:
    """The workflow with a tree for each step, and the commits that their bases are now."""
    head = head_of(folder)
    chosen = with_trees(spec, has_repository=bool(head))
    names = tuple(base for step in chosen.steps for base in step.base)
    return chosen, resolve_bases(folder, names) if names else {}


def _is_folder(name: str) -> bool:
    return "\x00" not in name and Path(name).is_absolute() and Path(name).is_dir()


def session_of(workflow_id: WorkflowId) -> SessionId:
    """The session in whose log a workflow is."""
    return SessionId(f"ses_{workflow_id}")


def _step(step: StepSpec, known: StepRecord, question: str, tree: dict[str, str]) -> StepStanding:
    shown = known.evidence
    checkpoint = None if shown is None else shown.checkpoint
    proof = checkpoint.get("proof") if isinstance(checkpoint, dict) else None
    return StepStanding(
        step_id=step.id,
        kind="gate" if step.gate else "run" if step.run else "each" if step.each else "prompt",
        state=known.state,
        needs=step.depends_on,
        required=step.required,
        agent=step.agent,
        proof=str(proof) if proof else "claimed" if checkpoint is not None else "",
        summary="" if shown is None else shown.summary,
        reason="" if shown is None else shown.reason,
        question=question,
        choices=step.choices if step.gate else (),
        checkpoint=checkpoint,
        subagent_id=known.child,
        attempt=known.attempt,
        round=known.round,
        rounds=step.rounds,
        worktree=tree.get("root", ""),
        branch=tree.get("branch", ""),
        worktree_task_id=tree.get("session_id", ""),
        answer_by=known.answer_by if known.state is StepState.HELD else None,
        on_timeout=step.on_timeout if step.gate and step.timeout_ms is not None else "",
    )
