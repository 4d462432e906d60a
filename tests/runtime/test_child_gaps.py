"""Deaths of a server in narrow gaps of the work of children and workflows, and what the next one makes of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents.processes.command import run_command
from interlock.agents.processes.identity import read_table
from interlock.lifecycle.children.workflow_plan import StepSpec, WorkflowSpec
from interlock.log.home_identity import HomeStanding
from interlock.log.memory import MemoryLog
from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.children.step_work import StepWork
from interlock.runtime.children.stored_plan import StoredPlan
from interlock.runtime.children.subagents import Subagents
from interlock.runtime.children.tree_limits import LimitReached, TreeLimits
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.audit import ChildEnded, QueueEvent, WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE, SessionId, StepId
from interlock.vocabulary.states import StepState, SubagentState, WorkflowState
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.runtime.test_child_owner import OUTLIVING, ROOT, SPEC, WF, Owned, hours_later, owned, prompted

A = StepId("a")


async def cut(log: MemoryLog, is_last: Callable[[Event], bool]) -> MemoryLog:
    """A log as a server leaves it that is killed before the first such fact of the root is written."""
    copy = MemoryLog()
    for one in (await log.sessions()).sessions:
        events = (await log.read(one.session_id)).events
        if one.session_id == ROOT:
            end = next(at for at, event in enumerate(events) if is_last(event))
            events = events[:end]
        await copy.append(one.session_id, events)
    return copy


def says(status: SubagentState) -> Callable[[Event], bool]:
    return lambda event: isinstance(event.data, SubagentEvent) and event.data.status is status


async def working(on: Owned, seconds: float = 60) -> SessionId:
    child = await on.start(seconds=seconds)
    await prompted(on)
    return on.session_of(child)


def test_a_cancel_of_which_only_the_child_was_told_is_told_to_its_parent_by_the_next_server() -> None:
    async def story() -> None:
        async with owned() as on:
            session = await working(on)
            (child,) = on.owner.subagents.live
            await on.owner.subagents.cancel(child, "not needed")
            log = await cut(on.log, says(SubagentState.INTERRUPTED))
        for _ in range(2):
            async with owned(log) as on:
                assert on.driver.puppets == []
                facts = [one for one in await on.told(SubagentEvent) if isinstance(one, SubagentEvent)]
                assert [(one.status, one.reason) for one in facts][-1] == (SubagentState.INTERRUPTED, "not needed")
                assert [one.status for one in facts].count(SubagentState.INTERRUPTED) == 1
                assert len(await on.told(ChildEnded, session)) == 1

    run(story())


def test_a_timeout_of_which_only_the_child_was_told_is_told_to_its_parent_by_the_next_server() -> None:
    async def story() -> None:
        async with owned() as on:
            session = await working(on, seconds=0.2)
            (child,) = await on.owner.subagents.children_of(ROOT)
            await on.owner.subagents.wait(child.subagent_id)
            (before,) = await on.told(ChildEnded, session)
            log = await cut(on.log, says(SubagentState.TIMED_OUT))
        async with owned(log, clock=hours_later) as on:
            fact = on.owner.subagents.fact(child.subagent_id)
            assert isinstance(before, ChildEnded)
            assert fact.status is SubagentState.TIMED_OUT
            assert fact.elapsed_ms is not None
            assert before.elapsed_ms is not None
            assert fact.elapsed_ms - before.elapsed_ms < 60_000  # when it was ended, and not when that was found
            assert await on.told(ChildEnded, session) == [before]

    run(story())


def test_the_agent_of_a_child_that_was_ended_is_stopped_by_the_next_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It outlives the server, which died after it had recorded the end and before it had stopped the agent."""

    async def nothing(self: Subagents, child: object) -> None: ...

    async def story() -> None:
        log, driver = MemoryLog(), PuppetDriver(OUTLIVING)
        async with owned(log, driver) as on:
            session = await working(on)
            (child,) = on.owner.subagents.live
            with monkeypatch.context() as patched:
                patched.setattr(Subagents, "_stop_agent", nothing)
                await on.owner.subagents.cancel(child, "enough")
            assert on.runtime.supervisor(session).book.turn is not None
        async with owned(log, driver) as on:
            assert on.runtime.supervisor(session).book.turn is None
            assert on.runtime.supervisor(session).machine.agent is None

    run(story())


def test_a_child_of_a_workflow_that_is_over_does_not_go_on(tmp_path: Path) -> None:
    """The end of the workflow is written, and then its children are ended: the server died between the two."""

    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, StepSpec(id=A, task="deploy"))
            await prompted(on)
            (child,) = on.owner.subagents.live
            session = on.session_of(child)
            before = (await on.log.read(session)).events
            queued = next(at for at, event in enumerate(before) if isinstance(event.data, QueueEvent))
            await on.owner.workflows.stop(WF, "enough")
            events = await on.events()
        end = next(
            at
            for at, event in enumerate(events)
            if isinstance(event.data, WorkflowEvent) and event.data.kind is WorkflowEventKind.WORKFLOW_FINISHED
        )
        log = MemoryLog()
        await log.append(ROOT, events[: end + 1])
        await log.append(session, before[: queued + 1])
        async with owned(log) as on:
            await on.owner.subagents.wait(child)
            assert on.owner.subagents.fact(child).reason == f"workflow {WF} is over"
            assert [one for one in on.driver.puppets if one.prompts] == []

    run(story())


def test_a_step_whose_agent_is_not_there_any_more_waits_for_a_person(tmp_path: Path) -> None:
    async def story() -> None:
        log = MemoryLog()
        steps = (StepSpec(id=A, gate="go?"), StepSpec(id=StepId("b"), task="x", depends_on=(A,)))
        spec = WorkflowSpec(id=WF, steps=steps)
        async with owned(log) as on:
            stored = StoredPlan(spec=spec, folder=str(tmp_path))
            await on.owner.workflows.begin(ROOT, spec, lambda _: replace(SPEC, cwd=str(tmp_path)), stored=stored)
        async with owned(log) as on:
            await on.owner.workflows.answer(WF, A, "go")
            assert (await on.owner.workflows.wait(WF)).status is WorkflowState.HELD
            assert on.shown(WF, StepId("b")).state is StepState.NEEDS_ORCHESTRATOR
            assert "no agent that is known" in on.shown(WF, StepId("b")).reason

    run(story())


@pytest.mark.parametrize("value", ['"\\u0000"', "1e999", "123456789012345678901234567890", "[" * 70 + "]" * 70])
def test_a_checkpoint_that_cannot_be_kept_is_none_and_its_child_ends(value: str) -> None:
    """What an agent writes is its own choice: it must not keep the end of its child out of the log."""

    async def story() -> None:
        async with owned() as on:
            child = await on.start()
            await on.ended(child, f'{{"status": "checkpoint_ready", "summary": {value}}}')
            fact = on.owner.subagents.fact(child)
            assert (fact.status, fact.checkpoint) == (SubagentState.COMPLETED, None)

    run(story())


def work(folder: Path, home_id: str = "hom_1") -> StepWork:
    return StepWork(parent=ROOT, workflow_id=WF, home_id=home_id, folder=folder, timeout_ms=60_000, is_strict=True)


def marked(mark: str) -> list[int]:
    return [pid for pid, seen in read_table().items() if mark in seen.spawn_ids]


def test_a_command_that_a_dead_server_left_is_ended_by_the_next_one_of_its_home_and_by_no_other(tmp_path: Path) -> None:
    """Ids of workflows are chosen by people: two homes have the same ones."""
    mark = work(tmp_path).mark_of(A)
    assert mark != work(tmp_path, "hom_2").mark_of(A)
    environment = {**os.environ, SPAWN_ID_VARIABLE: mark}
    with subprocess.Popen((sys.executable, "-c", "import time; time.sleep(300)"), env=environment) as left:
        try:

            async def next_server(home_id: str) -> None:
                log, home = MemoryLog(), HomeStanding(home_id, frozenset({home_id}))
                async with Runtime(log, [PuppetDriver()], home=home) as runtime, ChildOwner(runtime, log) as owner:
                    await owner.ready()

            run(next_server("hom_2"))
            assert left.poll() is None
            run(next_server("hom_1"))
            assert left.wait(20) < 0
        finally:
            left.kill()


def test_a_command_gets_no_secret_of_the_server_and_knows_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-server")
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))

    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, StepSpec(id=A, run=("env",)))
            await on.owner.workflows.wait(WF)
            words = on.shown(WF, A).summary
            names = {line.partition("=")[0] for line in words.splitlines()}
            assert {"PATH", "INTERLOCK_STEP", "INTERLOCK_WORKFLOW", SPAWN_ID_VARIABLE} <= names
            assert names.isdisjoint({"ANTHROPIC_API_KEY", "INTERLOCK_HOME"})
            assert f"INTERLOCK_STEP={A}" in words

    run(story())


def test_a_command_whose_daemons_hide_from_the_census_leaves_none(tmp_path: Path) -> None:
    """Without an environment and without a parent there is only the group by which they can be found."""
    end = run_command(("sh", "-c", "env -i sleep 300 >/dev/null 2>&1 & echo $!"), tmp_path, dict(os.environ), 60)
    assert end.exit_code == 0
    until = time.monotonic() + 20
    while int(end.output) in read_table() and time.monotonic() < until:
        time.sleep(0.01)
    assert int(end.output) not in read_table()


def test_a_command_that_floods_or_says_what_is_no_text_is_kept_short(tmp_path: Path) -> None:
    flood = "import sys\nwhile True: sys.stdout.buffer.write(bytes(range(256)) * 4096)"
    spec = StepSpec(id=A, run=(sys.executable, "-c", flood), timeout_ms=700)

    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, spec)
            await on.owner.workflows.wait(WF)
            shown = on.shown(WF, A)
            assert shown.state is StepState.TIMED_OUT
            assert len(shown.summary) <= 4_000
        assert marked(work(tmp_path).mark_of(A)) == []

    run(story())


def test_children_of_children_that_start_all_at_once_stay_within_every_limit() -> None:
    """Each of them is refused or in its place, also where all are asked for in the same moment."""

    async def story() -> None:
        limits = TreeLimits(max_depth=2, max_running=2, max_open=4, max_children=9)
        async with owned(limits=limits) as on:
            found = await asyncio.gather(*(on.start() for _ in range(8)), return_exceptions=True)
            assert sum(isinstance(one, LimitReached) for one in found) == 4
            first = [one for one in found if isinstance(one, str)]
            await soon(lambda: True if sum(on.is_running(one) for one in first) == 2 else None)
            parents = [on.session_of(one) for one in first if on.is_running(one)]
            below = await asyncio.gather(*(on.start(one) for one in parents * 6), return_exceptions=True)
            assert sum(isinstance(one, LimitReached) for one in below) == 7
            assert sum(isinstance(one, str) for one in below) == 5  # nine of the tree, with the four above
            with pytest.raises(LimitReached, match="max_children"):
                await on.start(parents[0])

    run(story())


def test_a_hundred_children_one_after_another_at_six_places_are_all_taken() -> None:
    async def story() -> None:
        log = MemoryLog()
        async with owned(log) as on:
            for _ in range(50):
                await on.ended(await on.start())
        async with owned(log) as on:
            for _ in range(50):
                await on.ended(await on.start())
            assert len(await on.owner.subagents.children_of(ROOT)) == 100
            assert on.owner.subagents.live == frozenset()

    run(story())
