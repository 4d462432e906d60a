"""The owner of children and workflows: limits, deadlines over a restart, and workflows that go on after one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.agents.observations import TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec, Capabilities
from interlock.lifecycle.children.workflow_plan import StepOutput, StepSpec, WorkflowSpec
from interlock.lifecycle.children.workflow_step import StepEvidence
from interlock.log.memory import MemoryLog
from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.children.stored_plan import StoredPlan, digest_of
from interlock.runtime.children.tree_limits import LimitReached, TreeLimits
from interlock.runtime.policy import Instant
from interlock.runtime.runtime import Runtime, new_id, wall_clock
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.events.audit import ChildEnded, SessionOpened, WorkflowEvent
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import SessionId, StepId, SubagentId, WorkflowId
from interlock.vocabulary.states import DriverKind, StepState, SubagentState, WorkflowState
from tests.contract.harness import run
from tests.runtime.conducting import soon

SPEC = AgentSpec(agent="puppet", driver="puppet")
ROOT = SessionId("ses_root")
S, W, C = StepState, WorkflowState, SubagentState
A, B = StepId("a"), StepId("b")
PLAN = "plan = 1"
WF = WorkflowId(new_id("wf"))  # processes of a step are known by it: no two tests at once have the same
AGENTS = {"": SessionOpened(agent="puppet", driver="puppet", kind=DriverKind.STREAM)}
CLAIM = 'Done.\n```json\n{"status": "checkpoint_ready", "summary": "all of it"}\n```'
OUTLIVING = Capabilities(reports_approvals=True, streams_text=True, outlives_runtime=True)


@dataclass
class Owned:
    """A runtime with its owner, and a root session."""

    log: MemoryLog
    driver: PuppetDriver
    runtime: Runtime
    owner: ChildOwner
    heard: list[Puppet] = field(default_factory=list)

    async def start(self, parent: SessionId = ROOT, seconds: float = 60) -> SubagentId:
        return await self.owner.subagents.start(parent, SPEC, "look", timeout_seconds=seconds)

    async def ended(self, child: SubagentId, text: str = "done") -> None:
        puppet = await prompted(self)
        puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text=text))
        await self.owner.subagents.wait(child)

    def session_of(self, child: SubagentId) -> SessionId:
        session = self.owner.subagents.fact(child).child_session_id
        assert session is not None
        return session

    def is_running(self, child: SubagentId) -> bool:
        return self.owner.subagents.fact(child).status is C.RUNNING

    async def events(self, session: SessionId = ROOT) -> tuple[Event, ...]:
        return (await self.log.read(session)).events

    async def told(self, kind: type[Payload], session: SessionId = ROOT) -> list[Payload]:
        return [event.data for event in await self.events(session) if isinstance(event.data, kind)]

    async def begin(self, folder: Path, *steps: StepSpec, timeout_ms: int = 60_000) -> WorkflowId:
        spec = WorkflowSpec(id=WF, steps=steps, timeout_ms=timeout_ms)
        stored = StoredPlan(spec=spec, folder=str(folder), agents=AGENTS, text=PLAN, digest=digest_of(PLAN))
        return await self.owner.workflows.begin(ROOT, spec, lambda _: replace(SPEC, cwd=str(folder)), stored=stored)

    def shown(self, workflow: WorkflowId, step: StepId) -> StepEvidence:
        known = next(one for one in self.owner.workflows.record(workflow).steps if one.id == step)
        assert known.evidence is not None
        return known.evidence


@asynccontextmanager
async def owned(
    log: MemoryLog | None = None,
    driver: PuppetDriver | None = None,
    *,
    limits: TreeLimits | None = None,
    clock: Callable[[], Instant] = wall_clock,
    records_workspaces: bool = False,
) -> AsyncIterator[Owned]:
    log, driver = log or MemoryLog(), driver or PuppetDriver()
    async with (
        Runtime(log, [driver], records_workspaces=records_workspaces) as runtime,
        ChildOwner(runtime, log, limits=limits or TreeLimits(), clock=clock) as owner,
    ):
        await owner.ready()
        if ROOT not in runtime.sessions:
            await runtime.open_session(SPEC, session_id=ROOT)
        yield Owned(log, driver, runtime, owner)


def hours_later() -> Instant:
    now = wall_clock()
    return Instant(now.at + timedelta(hours=1), now.seconds)


def test_a_child_names_its_place_in_the_tree() -> None:
    async def story() -> None:
        async with owned() as on:
            child = await on.start()
            await soon(lambda: on.owner.subagents.fact(child).child_session_id)
            session = on.session_of(child)
            grandchild = await on.start(session)
            await soon(lambda: on.owner.subagents.fact(grandchild).child_session_id)
            for one, parent, depth in ((child, ROOT, 1), (grandchild, session, 2)):
                (opened,) = await on.told(SessionOpened, on.session_of(one))
                assert isinstance(opened, SessionOpened)
                assert (opened.parent_id, opened.root_id, opened.depth, opened.subagent_id) == (
                    parent,
                    ROOT,
                    depth,
                    one,
                )

    run(story())


@pytest.mark.parametrize("depth", [0, 1])
def test_a_child_that_would_be_too_deep_is_refused_and_nothing_is_reserved(depth: int) -> None:
    async def story() -> None:
        async with owned(limits=TreeLimits(max_depth=depth)) as on:
            parent = ROOT
            if depth:
                child = await on.start()
                await soon(lambda: on.owner.subagents.fact(child).child_session_id)
                parent = on.session_of(child)
            before = await on.events(parent)
            sessions = on.runtime.sessions
            with pytest.raises(
                LimitReached, match=rf"max_depth: .* would be {depth + 1} levels below ses_root, of {depth}"
            ):
                await on.start(parent)
            assert (await on.events(parent), on.runtime.sessions) == (before, sessions)

    run(story())


def test_a_child_that_ended_holds_no_place_and_one_that_is_open_does() -> None:
    async def story() -> None:
        async with owned(limits=TreeLimits(max_open=2)) as on:
            for _ in range(10):
                await on.ended(await on.start())
            await on.start()
            last = await on.start()
            with pytest.raises(LimitReached, match="max_open: 2 of 2 children of ses_root are queued or running"):
                await on.start()
            await on.owner.subagents.cancel(last)
            await on.start()

    run(story())


def test_a_tree_that_starts_one_child_after_another_meets_its_last_limit_also_after_a_restart() -> None:
    async def story() -> None:
        limits, log = TreeLimits(max_children=3), MemoryLog()
        async with owned(log, limits=limits) as on:
            for _ in range(3):
                await on.ended(await on.start())
        async with owned(log, limits=limits) as on:
            with pytest.raises(LimitReached, match="max_children: the tree of ses_root has had 3 of 3 children"):
                await on.start()

    run(story())


def test_a_child_that_its_parent_cancelled_says_so_in_its_own_log_and_one_that_ended_does_not() -> None:
    async def story() -> None:
        async with owned() as on:
            child, other = await on.start(), await on.start()
            await on.ended(child)
            await soon(lambda: on.owner.subagents.fact(other).child_session_id)
            await on.owner.subagents.cancel(other, "not needed")
            (told,) = await on.told(ChildEnded, on.session_of(other))
            assert isinstance(told, ChildEnded)
            assert (told.parent_session_id, told.status, told.reason) == (ROOT, C.INTERRUPTED, "not needed")
            assert await on.told(ChildEnded, on.session_of(child)) == []

    run(story())


def test_a_deadline_that_passes_while_no_server_runs_is_in_the_log_of_parent_and_child() -> None:
    async def story() -> None:
        log, driver = MemoryLog(), PuppetDriver(OUTLIVING)
        async with owned(log, driver) as on:
            child = await on.start(seconds=20)
            await soon(lambda: next((one for one in driver.puppets if one.prompts), None))
            session = on.session_of(child)
        assert on.owner.subagents.fact(child).status is C.RUNNING  # the end of a server is none of its children
        async with owned(log, driver, clock=hours_later) as on:
            await on.owner.subagents.wait(child)
            fact = on.owner.subagents.fact(child)
            assert (fact.status, fact.timeout_ms) == (C.TIMED_OUT, 20_000)
            assert fact.elapsed_ms is not None
            assert fact.elapsed_ms >= 3_000_000
            (told,) = await on.told(ChildEnded, session)
            assert isinstance(told, ChildEnded)
            assert (told.status, told.timeout_ms, told.elapsed_ms) == (C.TIMED_OUT, 20_000, fact.elapsed_ms)

    run(story())


def test_a_gate_is_answered_after_a_restart_and_what_needs_it_runs(tmp_path: Path) -> None:
    async def story() -> None:
        log = MemoryLog()
        gate = StepSpec(id=A, gate="go on?")
        async with owned(log) as on:
            workflow = await on.begin(tmp_path, gate, StepSpec(id=B, run=("true",), depends_on=(A,)))
            assert (await on.owner.workflows.wait(workflow)).status is W.HELD
        async with owned(log) as on:
            assert on.owner.workflows.result(workflow).held_steps == (A,)
            await on.owner.workflows.answer(workflow, A, "go", decided_by="ann")
            assert (await on.owner.workflows.wait(workflow)).status is W.COMPLETED
            shown = on.shown(workflow, B).checkpoint
            assert isinstance(shown, dict)
            assert (shown["status"], shown["proof"]) == ("checkpoint_ready", "exit_code")
        async with owned(log) as on:
            assert on.owner.workflows.known() == {}  # it is over: nothing is taken up

    run(story())


def test_a_step_whose_child_ended_with_the_server_is_held_for_a_decision_and_can_run_again(tmp_path: Path) -> None:
    async def story() -> None:
        log = await killed_with_a_step(tmp_path)
        async with owned(log) as on:
            workflow = WF
            assert (await on.owner.workflows.wait(workflow)).needs_orchestrator_steps == (A,)
            assert on.shown(workflow, A).reason.startswith("server_ended")
            assert on.driver.puppets == []
            await on.owner.workflows.release(workflow, A, "once more")
            puppet = await prompted(on)
            (tmp_path / "out.txt").write_text("made")
            puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="done"))
            assert (await on.owner.workflows.wait(workflow)).status is W.COMPLETED

    run(story())


async def prompted(on: Owned) -> Puppet:
    """The newest puppet, once it has its prompt: each is prompted once here."""
    puppet = await soon(lambda: next((one for one in on.driver.puppets if one.prompts and one not in on.heard), None))
    on.heard.append(puppet)
    return puppet


OUTPUT = StepOutput(name="out", path="out.txt")


async def killed_with_a_step(folder: Path) -> MemoryLog:
    """A log as a killed server leaves it, with a step whose child is in its turn."""
    copy = MemoryLog()
    async with owned() as on:
        await on.begin(folder, StepSpec(id=A, task="do it", outputs=(OUTPUT,)))
        await prompted(on)
        for one in (await on.log.sessions()).sessions:
            await copy.append(one.session_id, (await on.log.read(one.session_id)).events)
    return copy


def test_the_deadline_of_a_workflow_holds_while_no_server_runs(tmp_path: Path) -> None:
    async def story() -> None:
        log = await killed_with_a_step(tmp_path)
        async with owned(log, clock=hours_later) as on:
            await soon(lambda: True if on.owner.workflows.record(WF).is_terminal else None)
            assert on.owner.workflows.result(WF).status is W.TIMED_OUT
            assert on.driver.puppets == []

    run(story())


def test_the_plan_and_its_digest_are_in_the_log(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned() as on:
            await on.begin(tmp_path, StepSpec(id=A, run=("true",)))
            started = (await on.told(WorkflowEvent))[0]
            assert isinstance(started, WorkflowEvent)
            assert isinstance(started.plan, dict)
            assert (started.plan["text"], started.plan["digest"]) == (PLAN, digest_of(PLAN))
            assert started.deadline_at is not None

    run(story())


@pytest.mark.parametrize(
    ("step", "writes", "state", "reason"),
    [
        (StepSpec(id=A, task="x"), False, S.PARTIAL, "no_explicit_checkpoint"),
        (StepSpec(id=A, task="x", checks=(("true",),)), False, S.CHECKPOINT_READY, ""),
        (
            StepSpec(id=A, task="x", checks=(("true",), ("false",))),
            False,
            S.PARTIAL,
            "unproven: check false: it exited 1",
        ),
        (StepSpec(id=A, task="x", checks=(("no-such-program-here",),)), False, S.PARTIAL, "unproven: check no-such"),
        (StepSpec(id=A, task="x", outputs=(OUTPUT,)), False, S.PARTIAL, "unproven: output out"),
        (StepSpec(id=A, task="x", outputs=(OUTPUT,)), True, S.CHECKPOINT_READY, ""),
        (
            StepSpec(id=A, task="x", outputs=(StepOutput(name="o", path="out.txt", type="json"),)),
            True,
            S.PARTIAL,
            "unproven: output o: out.txt is no JSON",
        ),
    ],
)
def test_a_step_is_ready_by_what_was_proven_and_never_by_words(
    tmp_path: Path, step: StepSpec, writes: bool, state: StepState, reason: str
) -> None:
    async def story() -> None:
        async with owned() as on:
            workflow = await on.begin(tmp_path, step)
            puppet = await prompted(on)
            if writes:
                (tmp_path / "out.txt").write_text("made")
            puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text=CLAIM))
            await on.owner.workflows.wait(workflow)
            shown = on.shown(workflow, A)
            assert (shown.state, shown.reason[: len(reason)]) == (state, reason)

    run(story())


def test_an_output_from_before_the_step_is_none(tmp_path: Path) -> None:
    async def story() -> None:
        old = tmp_path / "out.txt"
        old.write_text("of an older turn")
        os.utime(old, (1, 1))
        async with owned() as on:
            workflow = await on.begin(tmp_path, StepSpec(id=A, run=("true",), outputs=(OUTPUT,)))
            await on.owner.workflows.wait(workflow)
            assert "not written since the step began" in on.shown(workflow, A).reason

    run(story())


@pytest.mark.parametrize(
    ("argv", "state", "reason"),
    [
        (("sh", "-c", "echo words; exit 3"), S.FAILED, "exit_code_3"),
        (("no-such-program-here",), S.FAILED, "cannot_be_run"),
        (("sleep", "60"), S.TIMED_OUT, "timeout"),
    ],
)
def test_a_command_that_does_not_exit_0_is_not_ready(
    tmp_path: Path, argv: tuple[str, ...], state: StepState, reason: str
) -> None:
    async def story() -> None:
        async with owned() as on:
            timeout_ms = 100 if state is S.TIMED_OUT else None
            workflow = await on.begin(tmp_path, StepSpec(id=A, run=argv, timeout_ms=timeout_ms))
            await on.owner.workflows.wait(workflow)
            assert (on.shown(workflow, A).state, on.shown(workflow, A).reason) == (state, reason)

    run(story())


def test_a_command_ends_with_its_workflow_and_is_not_run_again_by_the_next_server(tmp_path: Path) -> None:
    async def story() -> None:
        log, copy = MemoryLog(), MemoryLog()
        ran = tmp_path / "ran"
        command = ("sh", "-c", f"echo x >> {ran}; exec sleep 60")
        async with owned(log) as on:
            workflow = await on.begin(tmp_path, StepSpec(id=A, run=command))
            await soon(lambda: True if ran.exists() else None)
            for one in (await log.sessions()).sessions:
                await copy.append(one.session_id, (await log.read(one.session_id)).events)
            assert (await on.owner.workflows.stop(workflow, "enough")).status is W.FAILED
        async with owned(copy) as on:
            assert (await on.owner.workflows.wait(workflow)).needs_orchestrator_steps == (A,)
            assert on.shown(workflow, A).reason.startswith("server_ended")
        assert ran.read_text() == "x\n"

    run(story())


def test_a_step_that_its_tree_has_no_place_for_is_held_and_says_which_limit(tmp_path: Path) -> None:
    async def story() -> None:
        async with owned(limits=TreeLimits(max_depth=0)) as on:
            workflow = await on.begin(tmp_path, StepSpec(id=A, task="x"))
            result = await on.owner.workflows.wait(workflow)
            assert (result.status, result.needs_orchestrator_steps) == (W.HELD, (A,))
            assert on.shown(workflow, A).reason.startswith("limit max_depth")
            assert await on.told(SubagentEvent) == []

    run(story())
