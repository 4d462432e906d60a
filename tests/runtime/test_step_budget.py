"""The budget of a workflow: one pool, spent by whatever its steps start, and nothing starts when it is used up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents.observations import TurnEnded, TurnEnding, UsageReported
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.log.memory import MemoryLog
from interlock.runtime.children.stored_plan import StoredPlan, digest_of
from interlock.testing.puppet import Puppet
from interlock.vocabulary.events.audit import UsageScope, WorkflowEvent
from interlock.vocabulary.ids import StepId
from interlock.vocabulary.states import StepState, WorkflowState
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.runtime.test_child_owner import AGENTS, PLAN, ROOT, SPEC, WF, Owned, owned, prompted

STEPS = tuple(
    StepSpec(id=StepId(f"s{number}"), task=f"do {number}", checks=(("true",),), rounds=2, retries=1, once=False)
    for number in range(10)
)


async def begin(
    on: Owned, folder: Path, *, usd: float | None = 1.0, tokens: int | None = None, at_once: int = 3
) -> None:
    spec = WorkflowSpec(id=WF, steps=STEPS, max_concurrency=at_once, max_cost_usd=usd, max_tokens=tokens)
    stored = StoredPlan(spec=spec, folder=str(folder), agents=AGENTS, text=PLAN, digest=digest_of(PLAN))
    await on.owner.workflows.begin(ROOT, spec, lambda _: replace(SPEC, cwd=str(folder)), stored=stored)


def done(puppet: Puppet, usd: float | None, tokens: int | None = None) -> None:
    used = UsageReported(scope=UsageScope.TURN, cost_usd=usd, output_tokens=tokens)
    puppet.say(*([used] if usd or tokens else []), TurnEnded(ending=TurnEnding.NATURAL, text="Done."))


@pytest.mark.parametrize("is_tokens", [False, True])
def test_of_ten_steps_none_starts_after_the_pool_is_used_up_in_mid_turn(tmp_path: Path, is_tokens: bool) -> None:
    async def story() -> None:
        async with owned() as on:
            await begin(on, tmp_path, usd=None if is_tokens else 1.0, tokens=10 if is_tokens else None)
            running = [await prompted(on) for _ in range(3)]
            for puppet in running:  # each of them would use up the pool by itself
                done(puppet, None if is_tokens else 1.5, 15 if is_tokens else None)
            result = await on.owner.workflows.wait(WF)
            assert result.status is WorkflowState.PARTIAL
            assert (len(result.usable_checkpoints), len(result.held_steps)) == (3, 7)
            assert len(on.driver.puppets) == 3
            reason = on.owner.workflows.record(WF).closed
            assert reason.endswith("of 10 tokens" if is_tokens else "of 1.00 USD")
            spent = await on.owner.workflows.spent(WF)
            assert (spent.cost_usd, spent.tokens) == ((None, 45) if is_tokens else (4.5, None))

    run(story())


def test_what_is_left_is_used_and_unknown_is_no_zero(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned() as on:
            await begin(on, tmp_path, at_once=1)
            for usd in (0.4, None, 0.4, 0.4):
                done(await prompted(on), usd)
            result = await on.owner.workflows.wait(WF)
            assert len(result.usable_checkpoints) == 4
            spent = await on.owner.workflows.spent(WF)
            assert (spent.cost_usd, len(spent.unmetered)) == (1.2, 1)

    run(story())


def test_a_used_up_pool_is_used_up_for_the_next_runtime(tmp_path: Path) -> None:
    copy = MemoryLog()

    async def story() -> None:
        async with owned() as on:
            await begin(on, tmp_path, at_once=2)
            first, _ = await prompted(on), await prompted(on)
            done(first, 1.5)
            await soon(lambda: on.owner.workflows.record(WF).closed)
            for one in (await on.log.sessions()).sessions:
                await copy.append(one.session_id, (await on.log.read(one.session_id)).events)
        async with owned(copy) as on:
            result = await on.owner.workflows.wait(WF)
            assert result.status is WorkflowState.PARTIAL
            assert on.owner.workflows.record(WF).closed == "budget_used_up: 1.50 of 1.00 USD"
            assert on.owner.workflows.record(WF).states[StepId("s2")] is StepState.HELD
            assert on.driver.puppets == []
            told = [one for one in await on.told(WorkflowEvent) if isinstance(one, WorkflowEvent)]
            assert [one.kind.value for one in told].count("budget_used_up") == 1

    run(story())
