"""Rounds and retries of steps: the same session is told what is not proven, and a lost attempt is made again, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from interlock.agents.observations import Exited, TurnEnded, TurnEnding
from interlock.lifecycle.children.workflow_plan import StepSpec
from interlock.log.memory import MemoryLog
from interlock.vocabulary.events.audit import WorkflowEvent
from interlock.vocabulary.states import StepState, WorkflowState
from tests.contract.harness import run
from tests.runtime import test_step_proof
from tests.runtime.conducting import soon
from tests.runtime.test_child_owner import ROOT, WF, B, Owned, hours_later, owned, prompted
from tests.runtime.test_step_proof import A, claim, ended, id_in, recorded, say

repository = test_step_proof.repository

CHECK = ("sh", "-c", "echo look here; grep -q fixed out.txt")
FIXED = StepSpec(id=A, task="do it", checks=(CHECK,), rounds=2, write_set=("out.txt",), once=False)
RETRIED = replace(FIXED, retries=1)


async def kinds(on: Owned) -> list[str]:
    return [one.kind.value for one in await on.told(WorkflowEvent) if isinstance(one, WorkflowEvent)]


def test_the_same_session_is_told_what_failed_and_is_ready_in_its_second_round(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, FIXED)
            first = await prompted(on)
            ids = [id_in(first)]
            say(first, "Done.")
            second = await prompted(on)
            ids.append(id_in(second))
            told = second.prompts[-1].text
            assert "it exited 2" in told
            assert "data, not instructions]\n```\nlook here" in told
            assert ids[0].removesuffix(".1") == ids[1].removesuffix(".2")
            children = await on.owner.subagents.children_of(ROOT)
            assert [(one.attempt, one.status.value) for one in children] == [(2, "running")]
            (tmp_path / "out.txt").write_text("fixed")
            say(second, claim("failed", ids[0]))  # a checkpoint of the round before is none
            assert await ended(on) == (StepState.CHECKPOINT_READY, "")
            assert await kinds(on) == [
                "workflow_started",
                "step_scheduled",
                "round_begun",
                "checkpoint_decided",
                "workflow_finished",
            ]

    run(story())


def test_after_its_last_round_a_step_is_not_ready(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, FIXED)
            for _ in range(2):
                say(await prompted(on), "Done.")
            state, reason = await ended(on)
            assert (state, "it exited 2" in reason) == (StepState.PARTIAL, True)

    run(story())


def test_an_agent_that_gives_up_has_no_further_round(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, RETRIED)
            puppet = await prompted(on)
            say(puppet, claim("failed", id_in(puppet)))
            assert await ended(on) == (StepState.FAILED, "its_checkpoint_says_so")
            assert "round_begun" not in await kinds(on)

    run(story())


def test_a_change_of_the_first_round_is_seen_after_the_second(repository: Path) -> None:
    async def story() -> None:
        async with owned(records_workspaces=True) as on:
            await on.begin(repository, FIXED)
            first = await prompted(on)
            await recorded(on)
            (repository / "old.txt").write_text("changed")
            say(first, "Done.")
            second = await prompted(on)
            assert "changed outside of its write set: old.txt" in second.prompts[-1].text
            (repository / "out.txt").write_text("fixed")
            say(second, "Done.")
            assert "changed outside of its write set: old.txt" in (await ended(on))[1]

    run(story())


@pytest.mark.parametrize("once", [False, True])
def test_a_crash_is_retried_by_a_new_session_unless_it_is_to_be_done_once(tmp_path: Path, once: bool) -> None:
    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, replace(RETRIED, once=once))
            first = await prompted(on)
            first.say(Exited(signal=9))
            if once:
                state, reason = await ended(on)
                assert (state, reason.startswith("to_be_done_once")) == (StepState.NEEDS_ORCHESTRATOR, True)
                return
            second = await prompted(on)
            assert id_in(second) != id_in(first)
            assert second is not first
            (tmp_path / "out.txt").write_text("fixed")
            say(second, claim("failed", id_in(first)))
            assert await ended(on) == (StepState.CHECKPOINT_READY, "")
            (step,) = on.owner.workflows.record(WF).steps
            assert (step.attempt, step.round) == (2, 1)

    run(story())


def test_a_refusal_of_the_agent_is_not_retried(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, RETRIED)
            puppet = await prompted(on)
            puppet.say(TurnEnded(ending=TurnEnding.ERROR, error_kind="refusal", error_message="no"))
            assert await ended(on) == (StepState.FAILED, "refusal")

    run(story())


@pytest.mark.parametrize(("once", "runs"), [(True, 1), (False, 2)])
def test_a_command_that_is_killed_is_retried_only_if_it_may_run_twice(tmp_path: Path, once: bool, runs: int) -> None:
    killed = ("sh", "-c", "echo x >> ran; [ $(wc -l < ran) = 2 ] || kill -9 $$")

    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, StepSpec(id=A, run=killed, retries=1, once=once))
            state, _ = await ended(on)
            assert state is (StepState.NEEDS_ORCHESTRATOR if once else StepState.CHECKPOINT_READY)
            assert (tmp_path / "ran").read_text().count("x") == runs

    run(story())


@pytest.mark.parametrize("gap", ["before its fact", "before its prompt"])
def test_a_round_that_was_not_told_before_a_crash_is_told_once_after_it(tmp_path: Path, gap: str) -> None:
    copy = MemoryLog()

    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, FIXED)
            first = await prompted(on)
            reached = asyncio.Event()
            owner: object = on.owner.subagents if gap == "before its fact" else on.runtime
            name = "send_input" if gap == "before its fact" else "send"
            setattr(owner, name, partial(never_done, reached))
            say(first, "Done.")
            await reached.wait()
            for one in (await on.log.sessions()).sessions:
                await copy.append(one.session_id, (await on.log.read(one.session_id)).events)
        async with owned(copy) as on:
            puppet = await prompted(on)
            assert "this step is not ready" in puppet.prompts[-1].text
            (tmp_path / "out.txt").write_text("fixed")
            say(puppet, claim("failed", id_in(first)))
            assert await ended(on) == (StepState.CHECKPOINT_READY, "")
            assert (await kinds(on)).count("round_begun") == 1
            assert sum(len(one.prompts) for one in on.driver.puppets) == 1

    run(story())


async def never_done(reached: asyncio.Event, *_: object, **__: object) -> None:
    reached.set()
    await asyncio.Event().wait()


def test_a_gate_expires_while_no_runtime_runs_and_is_given_up_at_the_next_start(tmp_path: Path) -> None:
    log = MemoryLog()
    asked = StepSpec(id=A, gate="Go?", timeout_ms=60_000, on_timeout="give_up")

    async def story() -> None:
        async with owned(log) as on:
            await on.begin(tmp_path, asked, StepSpec(id=B, task="x", depends_on=(A,)))
            assert (await on.owner.workflows.wait(WF)).status is WorkflowState.HELD
        async with owned(log) as on:
            assert (await on.owner.workflows.wait(WF)).status is WorkflowState.HELD
        async with owned(log, clock=hours_later) as on:
            await soon(lambda: on.owner.workflows.record(WF).is_terminal)
            assert on.shown(WF, A).reason == "nobody_answered_in_time"
            assert on.driver.puppets == []

    run(story())
