"""Workflows over children, with puppets for agents: what each end of a step makes of the whole, and of its log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

import pytest

from interlock.agents.observations import Exited, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec
from interlock.lifecycle.children import workflow
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.lifecycle.children.workflow_step import StartStep, StepEvidence
from interlock.log.memory import MemoryLog
from interlock.projections.checks.diagnose import diagnose
from interlock.runtime.children.child_results import checkpoint_in
from interlock.runtime.children.step_prompts import ASK_FOR_CHECKPOINT, step_prompt
from interlock.runtime.children.subagents import CLOSED
from interlock.runtime.children.workflows import Workflows
from interlock.runtime.runtime import wall_clock
from interlock.runtime.session.supervisor import SessionFailed
from interlock.testing.puppet import Puppet
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.ids import SessionId, StepId, SubagentId, WorkflowId
from interlock.vocabulary.states import StepState, SubagentState, WorkflowState
from tests.contract.harness import run
from tests.projections.whole_logs import provider_input
from tests.runtime.conducting import soon
from tests.runtime.test_subagents import SPEC, Full, Slow, Stage, cancelled_at_the_gate, stage

READY = 'Done.\n```json\n{"status": "checkpoint_ready", "summary": "all of it"}\n```'
HALF = "I did some of it."
K, W = WorkflowEventKind, WorkflowState


def steps(**needs: str) -> tuple[StepSpec, ...]:
    """Steps by name, each with the names of those it needs."""
    return tuple(
        StepSpec(id=StepId(name), task=f"do {name}", depends_on=tuple(map(StepId, needed)))
        for name, needed in needs.items()
    )


def plan(*given: StepSpec, name: str = "wf_1", max_concurrency: int = 6, timeout_ms: int = 120_000) -> WorkflowSpec:
    return WorkflowSpec(id=WorkflowId(name), steps=given, max_concurrency=max_concurrency, timeout_ms=timeout_ms)


def spec_of(_: StepSpec) -> AgentSpec:
    return SPEC


def only_the_task(step: StepSpec, _: Mapping[StepId, StepEvidence]) -> str:
    return step.task


@dataclass
class Floor:
    """A stage for workflows, and an audience that answers by the name of the step."""

    on: Stage
    workflows: Workflows

    async def puppet(self, name: str, nth: int = 0) -> Puppet:
        def asked() -> Puppet | None:
            found = [one for one in self.on.driver.puppets if any(p.text.startswith(f"do {name}") for p in one.prompts)]
            return found[nth] if len(found) > nth else None

        return await soon(asked)

    async def answer(self, name: str, text: str = READY, nth: int = 0) -> None:
        (await self.puppet(name, nth)).say(TurnEnded(ending=TurnEnding.NATURAL, text=text))

    async def spine(self) -> list[tuple[WorkflowEventKind, str, StepState | None]]:
        told = [event.data for event in await self.on.events() if isinstance(event.data, WorkflowEvent)]
        return [(fact.kind, fact.step_id or "", fact.step_state) for fact in told]

    async def is_sound(self) -> bool:
        return diagnose(await self.on.events(), owner_alive=True).ok


@asynccontextmanager
async def floor() -> AsyncIterator[Floor]:
    async with stage() as on, Workflows(on.runtime, on.subagents, on.log, prompt=only_the_task) as workflows:
        yield Floor(on, workflows)


def test_a_workflow_that_could_not_begin_can_be_begun_again() -> None:
    async def story() -> None:
        async with floor() as at:
            for _ in range(2):
                with pytest.raises(UsageError, match="ses_nowhere"):
                    await at.workflows.begin(SessionId("ses_nowhere"), plan(*steps(a="")), spec_of)
            running = asyncio.create_task(at.workflows.run(at.on.parent, plan(*steps(a="")), spec_of))
            await at.answer("a")
            assert (await running).ok

    run(story())


def test_a_workflow_completes_step_by_step_in_the_order_of_its_needs() -> None:
    async def story() -> None:
        async with floor() as at:
            running = asyncio.create_task(at.workflows.run(at.on.parent, plan(*steps(a="", b="", c="ab")), spec_of))
            await at.puppet("a")
            await at.answer("b")
            await soon(lambda: True if "b" in at.workflows.result(WorkflowId("wf_1")).usable_checkpoints else None)
            assert len(at.on.driver.puppets) == 2
            await at.answer("a")
            await at.answer("c")
            result = await running
            assert (result.ok, result.status) == (True, W.COMPLETED)
            assert set(result.usable_checkpoints) == {"a", "b", "c"}
            spine = await at.spine()
            assert (spine[0][0], spine[-1][0]) == (K.WORKFLOW_STARTED, K.WORKFLOW_FINISHED)
            assert spine.index((K.STEP_SCHEDULED, "c", StepState.RUNNING)) > max(
                spine.index((K.CHECKPOINT_DECIDED, name, StepState.CHECKPOINT_READY)) for name in "ab"
            )
            assert await at.is_sound()

    run(story())


def test_a_step_is_scheduled_in_the_log_before_its_child_exists() -> None:
    async def story() -> None:
        async with floor() as at:
            running = asyncio.create_task(at.workflows.run(at.on.parent, plan(*steps(a="", b="a")), spec_of))
            await at.answer("a")
            await at.answer("b")
            await running
            scheduled: set[object] = set()
            for event in await at.on.events():
                if isinstance(event.data, WorkflowEvent) and event.data.kind is K.STEP_SCHEDULED:
                    scheduled.add(event.data.subagent_id)
                if isinstance(event.data, SubagentEvent):
                    assert event.data.subagent_id in scheduled

    run(story())


def test_what_is_usable_and_not_whole_is_partial_and_holds_what_needs_it() -> None:
    async def story() -> None:
        async with floor() as at:
            running = asyncio.create_task(at.workflows.run(at.on.parent, plan(*steps(a="", b="", c="ab")), spec_of))
            await at.answer("a")
            await at.answer("b", HALF)
            result = await running
            assert (result.ok, result.status) == (False, W.PARTIAL)
            assert (result.usable_checkpoints, result.partial_steps, result.held_steps) == (("a",), ("b",), ("c",))
            assert result.safe_next_actions
            assert len(at.on.driver.puppets) == 2
            assert await at.is_sound()

    run(story())


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (TurnEnded(ending=TurnEnding.ERROR, error_message="no"), W.FAILED),
        (TurnEnded(ending=TurnEnding.NATURAL, text=" "), W.FAILED),
        (TurnEnded(ending=TurnEnding.INTERRUPTED), W.FAILED),
        (Exited(signal=9), W.FAILED),
        (TurnEnded(ending=TurnEnding.NATURAL, text='{"status": "failed", "summary": "no"}'), W.FAILED),
        (TurnEnded(ending=TurnEnding.NATURAL, text='{"status": "needs_orchestrator", "summary": "?"}'), W.HELD),
        (TurnEnded(ending=TurnEnding.NATURAL, text='{"status": "held", "summary": "?"}'), W.HELD),
        (TurnEnded(ending=TurnEnding.NATURAL, text='{"status": "checkpoint_ready"}'), W.COMPLETED),
        (
            TurnEnded(ending=TurnEnding.NATURAL, text='{"status": "checkpoint_ready", "dependent_safe": false}'),
            W.PARTIAL,
        ),
    ],
)
def test_the_end_of_the_only_step_is_the_end_of_the_workflow(said: TurnEnded | Exited, status: WorkflowState) -> None:
    async def story() -> None:
        async with floor() as at:
            running = asyncio.create_task(at.workflows.run(at.on.parent, plan(*steps(a="")), spec_of))
            (await at.puppet("a")).say(said)
            result = await running
            assert (result.status, result.ok) == (status, status is W.COMPLETED)

    run(story())


def test_a_step_that_runs_out_of_time_is_timed_out_and_so_is_the_workflow() -> None:
    async def story() -> None:
        async with floor() as at:
            step = StepSpec(id=StepId("a"), task="do a", timeout_ms=50)
            result = await at.workflows.run(at.on.parent, plan(step), spec_of)
            assert (result.status, result.timed_out_steps) == (W.TIMED_OUT, ("a",))
            assert [fact.status for fact in await at.on.facts()][-1] is SubagentState.TIMED_OUT
            assert await at.is_sound()

    run(story())


def test_a_workflow_that_runs_out_of_time_ends_its_children() -> None:
    async def story() -> None:
        async with floor() as at:
            given = [replace(step, timeout_ms=60_000) for step in steps(a="", b="a")]
            result = await at.workflows.run(at.on.parent, plan(*given, timeout_ms=300), spec_of)
            assert (result.status, result.timed_out_steps, result.held_steps) == (W.TIMED_OUT, ("a",), ("b",))
            assert at.on.subagents.live == frozenset()
            assert all(puppet.is_gone for puppet in at.on.driver.puppets)
            last = (await at.on.facts())[-1]
            assert (last.status, last.reason) == (SubagentState.INTERRUPTED, "workflow_timeout")
            assert await at.is_sound()

    run(story())


def test_no_more_steps_run_than_may() -> None:
    async def story() -> None:
        async with floor() as at:
            given = plan(*steps(a="", b="", c="", d=""), max_concurrency=2)
            running = asyncio.create_task(at.workflows.run(at.on.parent, given, spec_of))
            for name in "abcd":
                await at.puppet(name)
                assert sum(not one.is_gone for one in at.on.driver.puppets) <= 2
                states = at.workflows.result(given.id)
                assert len(states.open_steps) + len(states.usable_checkpoints) == 4
                await at.answer(name)
            assert (await running).ok

    run(story())


def test_stop_ends_everything_and_says_what_is_usable() -> None:
    async def story() -> None:
        async with floor() as at:
            given = plan(*steps(a="", b="", c="ab"))
            await at.workflows.begin(at.on.parent, given, spec_of)
            await at.answer("a")
            await at.puppet("b")
            await soon(lambda: True if at.workflows.result(given.id).usable_checkpoints else None)
            result = await at.workflows.stop(given.id, "enough")
            assert (result.status, result.failed_steps, result.held_steps) == (W.PARTIAL, ("b",), ("c",))
            assert all(puppet.is_gone for puppet in at.on.driver.puppets)
            with pytest.raises(UsageError):
                await at.workflows.stop(given.id, "again")
            assert await at.is_sound()

    run(story())


def test_a_cancelled_run_stops_its_workflow() -> None:
    async def story() -> None:
        async with floor() as at:
            running = asyncio.create_task(at.workflows.run(at.on.parent, plan(*steps(a="")), spec_of))
            puppet = await at.puppet("a")
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            assert puppet.is_gone
            assert at.workflows.result(WorkflowId("wf_1")).status is W.FAILED
            assert (await at.spine())[-1][0] is K.WORKFLOW_FINISHED

    run(story())


def test_closing_ends_what_is_open_with_a_fact() -> None:
    async def story() -> None:
        async with floor() as at:
            await at.workflows.begin(at.on.parent, plan(*steps(a="", b="a")), spec_of)
            puppet = await at.puppet("a")
        assert puppet.is_gone
        last = [event.data for event in await at.on.events() if isinstance(event.data, WorkflowEvent)][-1]
        assert (last.kind, last.reason) == (K.WORKFLOW_FINISHED, CLOSED)
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    run(story())


@pytest.mark.parametrize("is_released", [True, False])
def test_a_held_workflow_goes_on_by_a_decision(is_released: bool) -> None:
    async def story() -> None:
        async with floor() as at:
            given = plan(*steps(a="", b=""))
            await at.workflows.begin(at.on.parent, given, spec_of)
            await at.answer("a")
            await at.answer("b", '{"status": "needs_orchestrator", "summary": "which one?"}')
            held = await at.workflows.wait(given.id)
            assert (held.status, held.needs_orchestrator_steps, held.ok) == (W.HELD, ("b",), False)
            with pytest.raises(UsageError):
                await at.workflows.release(given.id, StepId("a"), "it is done already")
            with pytest.raises(UsageError):
                await at.workflows.release(given.id, StepId("b"), " ")
            if is_released:
                await at.workflows.release(given.id, StepId("b"), "the left one")
                await at.answer("b", nth=1)
            else:
                await at.workflows.give_up(given.id, StepId("b"), "neither")
            result = await at.workflows.wait(given.id)
            assert result.status is (W.COMPLETED if is_released else W.PARTIAL)
            assert await at.is_sound()

    run(story())


def test_a_child_that_somebody_detached_leaves_its_step_to_a_decision() -> None:
    async def story() -> None:
        async with floor() as at:
            await at.workflows.begin(at.on.parent, plan(*steps(a="")), spec_of)
            puppet = await at.puppet("a")
            (child,) = at.on.subagents.live
            await at.on.subagents.detach(child, "by hand")
            result = await at.workflows.wait(WorkflowId("wf_1"))
            assert (result.status, result.needs_orchestrator_steps) == (W.HELD, ("a",))
            await at.workflows.stop(WorkflowId("wf_1"), "enough")
            assert not puppet.is_gone

    run(story())


def test_a_child_that_cannot_be_judged_leaves_its_step_to_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: SubagentEvent) -> StepEvidence:
        raise RuntimeError("planted in a test")

    monkeypatch.setattr("interlock.runtime.children.step_work.step_evidence_from_child", fail)

    async def story() -> None:
        async with floor() as at:
            running = asyncio.create_task(at.workflows.run(at.on.parent, plan(*steps(a="")), spec_of))
            await at.answer("a")
            assert (await running).status is W.HELD
            told = [event.data for event in await at.on.events() if isinstance(event.data, WorkflowEvent)]
            assert any("planted in a test" in one.reason for one in told)

    run(story())


def test_a_workflow_that_cannot_begin_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with floor() as at:
            gate = asyncio.Event()

            async def fail(*_: object, **__: object) -> None:
                await gate.wait()
                raise RuntimeError("planted in a test")

            with monkeypatch.context() as patch:
                patch.setattr(at.on.log, "read", fail)
                beginning = asyncio.create_task(at.workflows.begin(at.on.parent, plan(*steps(a="")), spec_of))
                await soon(lambda: at.workflows._flows or None)  # it has no other sign yet
                stopping = asyncio.create_task(at.workflows.stop(WorkflowId("wf_1"), "over"))
                await asyncio.sleep(0)
                gate.set()
                ended = await asyncio.gather(beginning, stopping, return_exceptions=True)
            assert [type(one) for one in ended] == [RuntimeError, UsageError]

    run(story())


def test_a_workflow_leaves_the_input_of_the_model_as_it_was() -> None:
    async def story() -> None:
        async with floor() as at:
            prompt = await at.on.runtime.send(at.on.parent, "hello")
            mine = await at.on.given()
            mine.say(TurnEnded(ending=TurnEnding.NATURAL, text="hi"))
            await at.on.runtime.wait_turn(at.on.parent, prompt)
            before = provider_input(await at.on.events())
            running = asyncio.create_task(at.workflows.run(at.on.parent, plan(*steps(a="")), spec_of))
            await at.answer("a")
            assert (await running).ok
            assert provider_input(await at.on.events()) == before

    run(story())


def test_a_workflow_whose_log_takes_nothing_more_says_so_to_everybody() -> None:
    async def story() -> None:
        log = Full()
        async with stage(log) as on, Workflows(on.runtime, on.subagents, on.log, prompt=only_the_task) as workflows:
            at = Floor(on, workflows)
            await workflows.begin(on.parent, plan(*steps(a="")), spec_of)
            await at.puppet("a")
            log.refuses = on.parent
            with pytest.raises(ValueError, match="fire"):
                await workflows.stop(WorkflowId("wf_1"), "enough")
            with pytest.raises(SessionFailed):
                await workflows.wait(WorkflowId("wf_1"))
            log.refuses = None

    run(story())


def test_workflows_close_though_the_session_of_one_of_them_is_gone() -> None:
    async def story() -> None:
        async with floor() as at:
            await at.workflows.begin(at.on.parent, plan(*steps(a="")), spec_of)
            await at.puppet("a")
            await at.on.runtime.delete(at.on.parent)
            await at.workflows.close()
            with pytest.raises(SessionFailed):
                await at.workflows.wait(WorkflowId("wf_1"))

    run(story())


def test_a_plan_runs_once_and_only_in_an_open_session() -> None:
    async def story() -> None:
        async with floor() as at:
            await at.workflows.begin(at.on.parent, plan(*steps(a="")), spec_of)
            with pytest.raises(UsageError):
                await at.workflows.begin(at.on.parent, plan(*steps(a="")), spec_of)
            with pytest.raises(UsageError):
                await at.workflows.begin(SessionId("ses_nobody"), plan(*steps(a=""), name="wf_2"), spec_of)
            with pytest.raises(UsageError):
                at.workflows.result(WorkflowId("wf_2"))

    run(story())


def test_a_child_is_told_what_it_may_build_on_and_how_to_end() -> None:
    step = StepSpec(id=StepId("b"), task="do b", depends_on=(StepId("a"),))
    shown = StepEvidence(
        state=StepState.CHECKPOINT_READY, summary="a is in a.txt", checkpoint={"status": "checkpoint_ready"}
    )
    told = step_prompt(step, {StepId("a"): shown})
    assert told.startswith("do b")
    assert "a is in a.txt" in told
    assert ASK_FOR_CHECKPOINT in told
    assert checkpoint_in(told) is None  # an agent that only repeats its prompt leaves no checkpoint


def test_a_begin_that_is_cancelled_leaves_no_workflow_open() -> None:
    async def story() -> None:
        log = Slow()
        async with stage(log) as on, Workflows(on.runtime, on.subagents, log, prompt=only_the_task) as workflows:
            await cancelled_at_the_gate(log, workflows.run(on.parent, plan(*steps(a="")), spec_of))
            assert (await Floor(on, workflows).spine())[-1][0] is K.WORKFLOW_FINISHED
            assert on.subagents.live == frozenset()

    run(story())


# The next runtime


async def left_behind(*answered: str) -> MemoryLog:
    """A log as a killed runtime leaves it: `c` needs `a` and `b`, which were begun, and some of them are done."""
    copy = MemoryLog()
    async with floor() as at:
        given = plan(*steps(a="", b="", c="ab"))
        await at.workflows.begin(at.on.parent, given, spec_of)
        for name in "ab":
            await at.puppet(name)
        for name in answered:
            await at.answer(name)
        await soon(lambda: True if set(at.workflows.result(given.id).usable_checkpoints) >= set(answered) else None)
        for summary in (await at.on.log.sessions()).sessions:
            await copy.append(summary.session_id, (await at.on.log.read(summary.session_id)).events)
    return copy


def test_a_workflow_that_a_dead_runtime_left_goes_on_with_what_it_has() -> None:
    async def story() -> None:
        log = await left_behind("a")
        given = plan(*steps(a="", b="", c="ab"))
        async with stage(log) as on, Workflows(on.runtime, on.subagents, log, prompt=only_the_task) as workflows:
            result = await workflows.run(on.parent, given, spec_of)
            # Its agent died with the runtime, and nothing is done twice in silence.
            assert (result.status, result.usable_checkpoints) == (W.PARTIAL, ("a",))
            assert (result.failed_steps, result.held_steps) == (("b",), ("c",))
            assert diagnose(await on.events(), owner_alive=True).ok
            with pytest.raises(UsageError):
                await workflows.begin(on.parent, given, spec_of)
        async with stage(log) as on, Workflows(on.runtime, on.subagents, log, prompt=only_the_task) as workflows:
            with pytest.raises(UsageError) as refused:
                await workflows.begin(on.parent, given, spec_of)
            assert str(refused.value) == f"workflow {given.id} is over; give each run an id of its own"

    run(story())


def test_a_workflow_is_taken_up_by_its_own_plan_only() -> None:
    async def story() -> None:
        log = await left_behind()
        async with stage(log) as on, Workflows(on.runtime, on.subagents, log, prompt=only_the_task) as workflows:
            with pytest.raises(UsageError) as refused:
                await workflows.begin(on.parent, plan(*steps(a="")), spec_of)
            assert str(refused.value) == "step 'b' is not in this plan; begin it again with the same plan"
            with pytest.raises(UsageError):
                workflows.result(WorkflowId("wf_1"))

    run(story())


def test_a_step_that_was_scheduled_and_has_no_child_yet_is_run() -> None:
    async def story() -> None:
        log = MemoryLog()
        async with stage(log) as on:
            record, started = workflow.begin(plan(*steps(a="")), wall_clock().at)
            _, scheduled = workflow.step(record, StartStep(StepId("a"), SubagentId("sub_a")), wall_clock().at)
            await on.runtime.supervisor(on.parent).record(*started, *scheduled)
        async with stage(log) as on, Workflows(on.runtime, on.subagents, log, prompt=only_the_task) as workflows:
            at = Floor(on, workflows)
            running = asyncio.create_task(workflows.run(on.parent, plan(*steps(a="")), spec_of))
            await at.answer("a")
            assert (await running).ok
            assert on.subagents.fact(SubagentId("sub_a")).status is SubagentState.COMPLETED

    run(story())
