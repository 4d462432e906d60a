"""Plans, in the hands of a caller: run one, wait for it, decide what it asks.

    workflow = await client.plans.run("release", params={"version": "1.2.0"})
    outcome = await workflow.wait()
    if outcome.questions:
        await workflow.answer(outcome.questions[0].step_id, "go")

Laws:
1. How a workflow stands is what its log says. Only `completed` means that every step is proven.
2. A plan file runs as `interlock plan run` would run it: one that lies outside the user's configuration has to be
   trusted as it stands. The text of a plan is the caller's own.
3. A wait ends when somebody has to decide; the limit of a wait says nothing of the workflow.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from interlock.client.opening import open_request
from interlock.client.transport.api import Api, new_id
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId, WorkflowId
from interlock.vocabulary.states import StepState, WorkflowState
from interlock.vocabulary.wire.resources import AskedWorktree
from interlock.vocabulary.wire.workflow import AnswerStep, BeginWorkflow, DecideStep, StepStanding, WorkflowStanding

LOOK_SECONDS: Final = 0.3
_WAITS: Final = (StepState.HELD, StepState.NEEDS_ORCHESTRATOR)
_DEPENDENCY_LOST: Final = "dependency_lost"


class PlanResult(StrEnum):
    """How a workflow stands. `unknown`: no server runs it, so that it stands still."""

    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    HELD = "held"
    RUNNING = "running"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutcome:
    """How a workflow stands, and what is known of it. `questions` are the steps that wait for a decision."""

    result: PlanResult
    standing: WorkflowStanding

    @property
    def is_completed(self) -> bool:
        return self.result is PlanResult.COMPLETED

    @property
    def questions(self) -> tuple[StepStanding, ...]:
        return tuple(one for one in self.standing.steps if one.state in _WAITS and one.reason != _DEPENDENCY_LOST)

    def step(self, step_id: str) -> StepStanding:
        """A step by its name."""
        found = next((one for one in self.standing.steps if one.step_id == step_id), None)
        if found is None:
            names = ", ".join(one.step_id for one in self.standing.steps)
            raise UsageError(f"the workflow has no step {step_id!r}", remedy=f"it has {names}")
        return found

    def check(self) -> PlanOutcome:
        """The outcome, if it is completed; else `PlanNotCompletedError`."""
        if not self.is_completed:
            raise PlanNotCompletedError(self)
        return self


class PlanNotCompletedError(InterlockError):
    """A workflow did not complete, or not yet. `outcome` is all that is known of it."""

    def __init__(self, outcome: PlanOutcome) -> None:
        standing = outcome.standing
        why = f": {standing.reason}" if standing.reason else ""
        told = f"workflow {standing.workflow_id} is {outcome.result.value.replace('_', ' ')}{why}"
        ready = f"{standing.ready} of {len(standing.steps)} steps are ready"
        super().__init__(f"{told}; {ready}; `interlock why {standing.task_id}` shows the evidence")
        self.outcome = outcome


class WorkflowHandle:
    """One workflow. It goes on without this."""

    def __init__(self, api: Api, workflow_id: WorkflowId) -> None:
        self._api = api
        self.workflow_id = workflow_id

    @property
    def session_id(self) -> SessionId:
        """The session in whose log it is."""
        return SessionId(f"ses_{self.workflow_id}")

    async def outcome(self) -> PlanOutcome:
        """How it stands now."""
        return _outcome(await self._api.workflow(self.workflow_id))

    async def wait(self, timeout: float | None = None, *, past_questions: bool = False) -> PlanOutcome:  # noqa: ASYNC109
        """Wait until it has ended, or a person has to decide; with `past_questions`, until it has ended. At the time
        limit `TimeoutError`: it goes on."""
        async with asyncio.timeout(timeout):
            while True:
                found = await self.outcome()
                goes_on = found.result is PlanResult.RUNNING or (past_questions and found.result is PlanResult.HELD)
                if not goes_on:
                    return found
                await asyncio.sleep(LOOK_SECONDS)

    async def answer(self, gate: str, choice: str, reason: str = "") -> PlanOutcome:
        """Answer a gate with one of its choices."""
        return await self._decide(f"steps/{gate}/answer", AnswerStep(choice=choice, reason=reason))

    async def release(self, step: str, reason: str) -> PlanOutcome:
        """Run a step again that waits for a decision."""
        return await self._decide(f"steps/{step}/release", DecideStep(reason=reason))

    async def give_up(self, step: str, reason: str) -> PlanOutcome:
        """Give up a step that waits for a decision."""
        return await self._decide(f"steps/{step}/give-up", DecideStep(reason=reason))

    async def stop(self, reason: str) -> PlanOutcome:
        """End it with its children and commands."""
        return await self._decide("stop", DecideStep(reason=reason))

    async def _decide(self, path: str, asked: DecideStep | AnswerStep) -> PlanOutcome:
        if isinstance(asked, DecideStep) and not asked.reason.strip():
            raise UsageError("a decision needs a reason", remedy="say why")
        return _outcome(await self._api.decide_workflow(self.workflow_id, path, asked, new_id("cmd")))


class Plans:
    """The plans of one server."""

    def __init__(self, api: Api, home: Path | None) -> None:
        self._api = api
        self._home = home

    async def run(
        self,
        plan: str | Path,
        *,
        params: Mapping[str, Json] | None = None,
        cwd: str | Path | None = None,
        workflow_id: str = "",
    ) -> WorkflowHandle:
        """Run a plan in a folder, by default the one that we are in: a file, the name of one that `interlock plan run`
        would find, or the text of one, which has more than one line. It is in the log when this returns. `workflow_id`
        (`wf_...`) names it: the same id runs it only once."""
        from interlock.lifecycle.plans.plan_file import read_plan  # what reads plans is not everybody's to pay

        folder = await asyncio.to_thread(lambda: Path(cwd or ".").expanduser().absolute())
        text = await asyncio.to_thread(self._text_of, plan, folder)
        name = WorkflowId(workflow_id or new_id("wf"))
        values = dict(params or {})
        steps = read_plan(text, values, name).steps
        agents = {
            agent: open_request(agent, cwd=folder, worktree=AskedWorktree())
            for agent in dict.fromkeys(one.agent for one in steps if one.agent)
        }
        asked = BeginWorkflow(plan=text, folder=str(folder), agents=agents, params=values)
        begun = await self._api.begin_workflow(asked, name)
        return WorkflowHandle(self._api, begun.workflow.workflow_id)

    def get(self, workflow_id: str) -> WorkflowHandle:
        """A workflow by its id."""
        return WorkflowHandle(self._api, WorkflowId(workflow_id))

    async def list(self) -> tuple[WorkflowStanding, ...]:
        """Every workflow, oldest first."""
        return (await self._api.workflows()).items

    def _text_of(self, plan: str | Path, folder: Path) -> str:
        from interlock.log.paths import default_home
        from interlock.runtime.config.plan_files import find_plan, require_trust

        if isinstance(plan, str) and "\n" in plan:
            return plan
        found = find_plan(str(plan), os.environ, folder)
        require_trust(self._home or default_home(os.environ), found)
        return found.text


def _outcome(standing: WorkflowStanding) -> PlanOutcome:
    result = PlanResult(standing.status.value)
    if standing.was_stopped:
        result = PlanResult.STOPPED
    elif standing.status in (WorkflowState.RUNNING, WorkflowState.HELD) and not standing.is_owned:
        result = PlanResult.UNKNOWN
    return PlanOutcome(result=result, standing=standing)
