"""Children of a session, over a real log and puppets: every end is recorded in the parent's log, with its evidence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest

from interlock.agents.observations import BecameReady, Exited, TextArrived, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec, Capabilities, Prompt
from interlock.lifecycle.children.subagent_evidence import missing_evidence
from interlock.lifecycle.children.subagents import WaitStatus, subagents_from
from interlock.lifecycle.turns import turn_states
from interlock.log.memory import MemoryLog
from interlock.projections.checks.diagnose import ReportStatus, diagnose
from interlock.runtime.children.child_results import MAX_SUMMARY_CHARACTERS, ChildResult, checkpoint_in
from interlock.runtime.children.subagents import Subagents
from interlock.runtime.children.tree_limits import TreeLimits
from interlock.runtime.policy import Instant
from interlock.runtime.runtime import Runtime, wall_clock
from interlock.runtime.session.supervisor import SessionFailed
from interlock.testing.puppet import EVERYTHING, Puppet, PuppetDriver
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import Anomaly, DeliveryStage
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId, SpawnId, SubagentId
from interlock.vocabulary.states import SubagentState, TurnState
from tests.contract.harness import run
from tests.each_row import each_row
from tests.held_time import clock, loop_instant, run_with_jumps
from tests.projections.whole_logs import provider_input
from tests.runtime.conducting import soon

SPEC = AgentSpec(agent="puppet", driver="puppet")
TASK = "review the change"
S = SubagentState


def done(text: str = "looks good") -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


@dataclass
class Stage:
    """A runtime with one parent session, whose children are puppets."""

    log: MemoryLog
    driver: PuppetDriver
    runtime: Runtime
    subagents: Subagents
    parent: SessionId

    async def facts(self) -> list[SubagentEvent]:
        return [event.data for event in await self.events() if isinstance(event.data, SubagentEvent)]

    async def states(self) -> list[SubagentState]:
        return [fact.status for fact in await self.facts()]

    async def events(self, session: SessionId | None = None) -> tuple[Event, ...]:
        return (await self.log.read(session or self.parent)).events

    async def given(self, count: int = 1) -> Puppet:
        """The newest puppet, once so many prompts were given to puppets."""
        await soon(lambda: True if sum(len(one.prompts) for one in self.driver.puppets) >= count else None)
        return self.driver.latest

    async def child_turn(self, child: SubagentId) -> TurnState:
        session = self.subagents.fact(child).child_session_id
        assert session is not None
        return turn_states(await self.events(session))[-1].state


PARENT = SessionId("ses_parent")


@asynccontextmanager
async def stage(
    log: MemoryLog | None = None,
    driver: PuppetDriver | None = None,
    *,
    max_running: int = 6,
    clock: Callable[[], Instant] = wall_clock,
) -> AsyncIterator[Stage]:
    log, driver = log or MemoryLog(), driver or PuppetDriver()
    async with (
        Runtime(log, [driver]) as runtime,
        Subagents(runtime, log, limits=TreeLimits(max_running=max_running), clock=clock) as some,
    ):
        # By its id: those of one millisecond are in no order, and a child is often opened within it.
        parent = PARENT if PARENT in runtime.sessions else await runtime.open_session(SPEC, session_id=PARENT)
        yield Stage(log, driver, runtime, some, parent)


def test_a_child_completes_with_what_it_said_and_its_agent_is_gone() -> None:
    async def story() -> None:
        async with stage() as on:
            child = await on.subagents.start(on.parent, SPEC, TASK, timeout_seconds=60)
            puppet = await on.given()
            assert (await on.facts())[-1].status is S.RUNNING
            assert puppet.prompts[0].text == TASK
            puppet.say(TextArrived(text="looks"), done())
            outcome = await on.subagents.wait(child)
            assert outcome.status is WaitStatus.COMPLETED
            assert await on.states() == [S.QUEUED, S.RUNNING, S.COMPLETED]
            last = (await on.facts())[-1]
            assert (last.summary, last.checkpoint, missing_evidence(last)) == ("looks good", None, ())
            assert last.elapsed_ms is not None
            assert await on.child_turn(child) is TurnState.COMPLETED
            await soon(lambda: True if puppet.is_gone else None)
            assert on.subagents.live == frozenset()
            assert diagnose(await on.events(), owner_alive=True).status is ReportStatus.READY

    run(story())


def test_running_is_recorded_before_the_child_is_told_anything() -> None:
    async def story() -> None:
        seen: list[SubagentState] = []

        class Told(Puppet):
            async def submit(self, prompt: Prompt) -> DeliveryStage:
                seen.extend(await on.states())
                return await super().submit(prompt)

        class Driver(PuppetDriver):
            async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
                puppet = Told(spec, spawn_id, self.capabilities)
                self.puppets.append(puppet)
                puppet.say(BecameReady())
                return puppet

        async with stage(driver=Driver()) as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            assert (await on.states())[0] is S.QUEUED  # durable when `start` returns
            (await on.given()).say(done())
            await on.subagents.wait(child)
            assert seen == [S.QUEUED, S.RUNNING]

    run(story())


def test_a_wait_is_no_success_while_a_child_only_exists() -> None:
    async def story() -> None:
        async with stage() as on:
            assert (await on.subagents.wait()).status is WaitStatus.NOTHING_TO_WAIT_FOR
            assert (await on.subagents.wait(SubagentId("nobody"))).status is WaitStatus.NOTHING_TO_WAIT_FOR
            child = await on.subagents.start(on.parent, SPEC, TASK)
            other = await on.subagents.start(on.parent, SPEC, TASK)
            waited = await on.subagents.wait(child, other, timeout_seconds=0)
            assert (waited.status, waited.buckets[S.COMPLETED]) == (WaitStatus.INCOMPLETE, ())
            (await on.given()).say(TextArrived(text="so far"))
            await on.given(2)
            on.driver.puppets[0].say(done())
            assert (await on.subagents.wait(child)).status is WaitStatus.COMPLETED
            assert (await on.subagents.wait(child, other, timeout_seconds=0.01)).status is WaitStatus.INCOMPLETE
            on.driver.puppets[1].say(Exited(code=0))
            assert (await on.subagents.wait(child, other)).status is WaitStatus.PARTIAL

    run(story())


@pytest.mark.parametrize(
    ("said", "reason", "status"),
    [
        ((done(" \n"),), "empty_answer", S.FAILED),
        ((TextArrived(text="half"), TurnEnded(ending=TurnEnding.ERROR, error_kind="network")), "partial_", S.FAILED),
        ((TurnEnded(ending=TurnEnding.ERROR, error_kind="network", error_message="gone"),), "network", S.FAILED),
        ((Exited(signal=9),), "process_died", S.FAILED),
        ((TextArrived(text="half"), Exited(code=0)), "partial_process_died", S.FAILED),
        ((TurnEnded(ending=TurnEnding.INTERRUPTED),), "interrupted_elsewhere", S.INTERRUPTED),
    ],
)
def test_any_other_end_of_its_turn_is_no_completion(
    said: Sequence[TurnEnded | TextArrived | Exited], reason: str, status: SubagentState
) -> None:
    async def story() -> None:
        async with stage() as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            (await on.given()).say(*said)
            assert (await on.subagents.wait(child)).status is WaitStatus.PARTIAL
            last = on.subagents.fact(child)
            assert last.status is status
            assert last.reason.startswith(reason)
            assert missing_evidence(last) == ()
            assert "half" not in last.summary

    run(story())


def test_a_child_that_uses_up_its_time_is_timed_out_and_stopped() -> None:
    async def story() -> None:
        async with stage(clock=loop_instant) as on:
            child = await on.subagents.start(on.parent, SPEC, TASK, timeout_seconds=20)
            puppet = await on.given()
            puppet.say(TextArrived(text="half"))
            clock().advance(20)
            assert (await on.subagents.wait(child)).status is WaitStatus.PARTIAL
            last = on.subagents.fact(child)
            assert (last.status, last.timeout_ms, last.reason) == (S.TIMED_OUT, 20_000, "timeout")
            assert (last.elapsed_ms or 0) >= 20_000
            assert last.next_actions[0].command == f"interlock debug turns {last.child_session_id}"
            await soon(lambda: True if puppet.is_gone else None)
            of_the_child = on.runtime.supervisor(last.child_session_id or on.parent)
            await of_the_child.until(lambda machine: True if machine.agent is None else None)  # after what it appended
            assert await on.child_turn(child) is TurnState.INTERRUPTED

    run_with_jumps(story())


def test_time_runs_from_the_start_of_a_child_and_not_in_the_queue() -> None:
    async def story() -> None:
        async with stage(max_running=1, clock=loop_instant) as on:
            first = await on.subagents.start(on.parent, SPEC, TASK, timeout_seconds=600)
            second = await on.subagents.start(on.parent, SPEC, TASK, timeout_seconds=20)
            puppet = await on.given()
            clock().advance(60)
            await on.subagents.wait(second, timeout_seconds=0.1)
            assert (len(on.driver.puppets), on.subagents.fact(second).status) == (1, S.QUEUED)
            puppet.say(done())
            await on.given(2)
            clock().advance(20)
            assert (await on.subagents.wait(first, second)).buckets[S.TIMED_OUT] == (second,)

    run_with_jumps(story())


def test_no_more_children_run_than_may() -> None:
    async def story() -> None:
        async with stage(max_running=2) as on:
            children = [await on.subagents.start(on.parent, SPEC, TASK) for _ in range(5)]
            waiting = asyncio.create_task(on.subagents.wait(*children))
            answered = 0
            while not waiting.done():
                living = [one for one in on.driver.puppets if not one.is_gone]
                assert len(living) <= 2
                if len(on.driver.puppets) > answered and on.driver.puppets[answered].prompts:
                    on.driver.puppets[answered].say(done())
                    answered += 1
                await asyncio.sleep(0.001)
            assert (await waiting).counts[S.COMPLETED] == 5

    run(story())


def test_a_cancelled_child_is_recorded_and_its_agent_is_stopped() -> None:
    async def story() -> None:
        async with stage(max_running=1) as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            queued = await on.subagents.start(on.parent, SPEC, TASK)
            puppet = await on.given()
            assert (await on.subagents.cancel(queued, "not needed")).reason == "closed_before_start"
            last = await on.subagents.cancel(child, "not needed")
            assert (last.status, last.reason, puppet.is_gone) == (S.INTERRUPTED, "not needed", True)
            assert await on.child_turn(child) is TurnState.INTERRUPTED
            assert len(on.driver.puppets) == 1
            with pytest.raises(UsageError):
                await on.subagents.cancel(child)
            assert (await on.subagents.wait(child, queued)).status is WaitStatus.PARTIAL

    run(story())


def test_a_detached_child_goes_on_and_what_it_does_later_changes_nothing() -> None:
    async def story() -> None:
        async with stage() as on:
            child = await on.subagents.start(on.parent, SPEC, TASK, model_visible=True)
            puppet = await on.given()
            last = await on.subagents.detach(child, "it takes long")
            assert (last.status, last.model_visible, puppet.is_gone) == (S.DETACHED, False, False)
            assert any(action.command for action in last.next_actions)
            puppet.say(done())
            assert last.child_session_id is not None
            book = on.runtime.supervisor(last.child_session_id).book
            await soon(lambda: True if book.turn is None else None)
            assert await on.states() == [S.QUEUED, S.RUNNING, S.DETACHED]
            with pytest.raises(UsageError):
                await on.subagents.send_input(child, "more")
            assert (await on.subagents.wait(child)).status is WaitStatus.PARTIAL

    run(story())


def test_new_input_reopens_a_child_in_its_own_session() -> None:
    async def story() -> None:
        async with stage() as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            (await on.given()).say(done("first"))
            await on.subagents.wait(child)
            await on.subagents.send_input(child, "and now the tests")
            assert on.subagents.fact(child).status is S.RUNNING
            (await on.given(2)).say(done("second"))
            await on.subagents.wait(child)
            last = on.subagents.fact(child)
            assert (last.summary, last.attempt) == ("second", 2)
            assert len({fact.child_session_id for fact in await on.facts() if fact.child_session_id}) == 1
            (reading,) = subagents_from(await on.facts()).values()
            assert reading.anomalies == ()

    run(story())


@pytest.mark.parametrize("driver", ["no_such", "puppet"])
def test_a_child_that_cannot_be_set_up_fails_and_says_why(driver: str) -> None:
    async def story() -> None:
        async with stage() as on:
            on.driver.next_failure = UsageError("there is no such program", remedy="install it")
            child = await on.subagents.start(on.parent, AgentSpec(agent="x", driver=driver), TASK)
            await on.subagents.wait(child)
            last = on.subagents.fact(child)
            assert (last.status, missing_evidence(last)) == (S.FAILED, ())
            assert last.reason == ("setup_failed" if driver == "no_such" else "agent_not_started")
            assert "no such program" in last.summary or "no driver" in last.summary

    run(story())


def test_a_child_whose_task_somebody_took_back_has_failed() -> None:
    async def story() -> None:
        async with stage(driver=PuppetDriver(is_ready_at_once=False)) as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            await soon(lambda: on.driver.puppets or None)
            session = on.subagents.fact(child).child_session_id
            assert session is not None
            (waiting,) = on.runtime.queue(session)
            await on.runtime.remove(session, waiting.prompt_id)
            await on.subagents.wait(child)
            assert (on.subagents.fact(child).status, on.subagents.fact(child).reason) == (S.FAILED, "agent_not_started")

    run(story())


@pytest.mark.parametrize(
    "wrong", [{"task": " "}, {"timeout_seconds": 0}, {"subagent_id": "not an id"}, {"timeout_seconds": 1e12}]
)
def test_what_no_child_can_be_is_refused_and_not_recorded(wrong: dict[str, object]) -> None:
    async def story() -> None:
        async with stage() as on:
            given: dict[str, object] = {"task": TASK, **wrong}
            with pytest.raises(UsageError):
                await on.subagents.start(on.parent, SPEC, **given)  # type: ignore[arg-type]
            with pytest.raises(UsageError):
                await on.subagents.start(SessionId("ses_nobody"), SPEC, TASK)
            assert await on.facts() == []

    run(story())


def test_only_what_was_chosen_for_the_model_reaches_it() -> None:
    async def story() -> None:
        async with stage() as on:
            before = provider_input(await on.events())
            for is_visible, answer in ((False, "for the record"), (True, "for the model")):
                child = await on.subagents.start(on.parent, SPEC, TASK, model_visible=is_visible)
                (await on.given(1 + is_visible)).say(done(answer))
                await on.subagents.wait(child)
                given = provider_input(await on.events())
                assert (answer.encode() in given) is is_visible
                assert (given == before) is not is_visible

    run(story())


def test_the_facts_of_a_child_belong_to_the_turn_that_is_open() -> None:
    async def story() -> None:
        async with stage() as on:
            prompt = await on.runtime.send(on.parent, "go")
            mine = await on.given()
            child = await on.subagents.start(on.parent, SPEC, TASK)
            (await on.given(2)).say(done())
            await on.subagents.wait(child)
            mine.say(done("all done"))
            turn = await on.runtime.wait_turn(on.parent, prompt)
            later = await on.subagents.start(on.parent, SPEC, TASK)
            (await on.given(3)).say(done())
            await on.subagents.wait(later)
            told = [event.turn_id for event in await on.events() if isinstance(event.data, SubagentEvent)]
            assert told == [turn.turn_id] * 3 + [None] * 3
            assert turn.state is TurnState.COMPLETED
            assert [event.seq for event in await on.events()] == list(range(1, len(await on.events()) + 1))

    run(story())


# What a child has to show


@each_row(
    ("answer", "checkpoint"),
    [
        ("all is well", None),
        ('{"status": "checkpoint_ready"}', {"status": "checkpoint_ready"}),
        ('Done.\n```json\n{"status": "partial"}\n```\n', {"status": "partial"}),
        ('```\n{"status": "failed"}\n```\nno:\n```json\n{"status": "held"}\n```', {"status": "held"}),
        ('```json\n{"status": 3}\n```', None),
        ('```json\n{"summary": "no status"}\n```', None),
        ('```json\n{"status": "partial"', None),
        ("```json\n" * 20_000, None),
        ("[" * 100_000, None),
        ('{"a":' * 50_000, None),
    ],
)
def test_a_checkpoint_is_explicit_or_there_is_none(answer: str, checkpoint: Json) -> None:
    assert checkpoint_in(answer) == checkpoint


def test_a_long_answer_is_cut_in_the_parent_and_whole_in_the_child() -> None:
    async def story() -> None:
        async with stage() as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            (await on.given()).say(done("x" * 100_000))
            await on.subagents.wait(child)
            assert len(on.subagents.fact(child).summary) < MAX_SUMMARY_CHARACTERS + 100

    run(story())


def test_a_caller_may_read_the_result_elsewhere() -> None:
    async def story() -> None:
        def read(events: Sequence[Event]) -> ChildResult:
            assert {event.type for event in events} >= {"user_message", "run_state"}
            return ChildResult(checkpoint={"status": "checkpoint_ready"})

        async with stage() as on:
            child = await on.subagents.start(on.parent, SPEC, TASK, read=read)
            (await on.given()).say(done("words"))
            await on.subagents.wait(child)
            last = on.subagents.fact(child)
            assert (last.summary, last.checkpoint) == ("", {"status": "checkpoint_ready"})

    run(story())


# The end of the runtime, and the next one


OUTLIVING = Capabilities(reports_approvals=True, streams_text=True, outlives_runtime=True)


@pytest.mark.parametrize(("capabilities", "status"), [(EVERYTHING, S.INTERRUPTED), (OUTLIVING, S.DETACHED)])
def test_a_clean_end_leaves_no_child_open(capabilities: Capabilities, status: SubagentState) -> None:
    async def story() -> None:
        async with stage(driver=PuppetDriver(capabilities), max_running=1) as on:
            await on.subagents.start(on.parent, SPEC, TASK)
            await on.subagents.start(on.parent, SPEC, TASK)
            puppet = await on.given()
        assert puppet.is_gone is not capabilities.outlives_runtime
        readings = subagents_from(await on.facts())
        assert sorted(reading.fact.status for reading in readings.values()) == sorted([status, S.INTERRUPTED])
        assert all(not reading.missing and not reading.anomalies for reading in readings.values())
        assert len(on.driver.puppets) == 1
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []

    run(story())


async def left_behind(
    driver: PuppetDriver,
    *,
    say: Sequence[TurnEnded | TextArrived] = (),
    timeout_seconds: float = 60,
    is_given: bool = True,
) -> tuple[MemoryLog, SubagentId]:
    """A log as a killed runtime leaves it, with one child running and one queued. `is_given`: it has its task."""
    log = MemoryLog()
    runtime = Runtime(log, [driver])
    async with runtime:
        subagents = Subagents(runtime, log, limits=TreeLimits(max_running=1))
        parent = await runtime.open_session(SPEC, session_id=SessionId("a_parent"))
        child = await subagents.start(parent, SPEC, TASK, timeout_seconds=timeout_seconds)
        await subagents.start(parent, SPEC, TASK)
        puppet = await soon(lambda: next((one for one in driver.puppets if one.prompts), None))
        copy = MemoryLog()
        if say:
            session = subagents.fact(child).child_session_id
            assert session is not None
            before = (await log.read(parent)).events
            puppet.say(*say)
            await soon(lambda: True if runtime.supervisor(session).book.turn is None else None)
            await copy.append(session, (await log.read(session)).events)
            await copy.append(parent, before)
        else:
            for summary in (await log.sessions()).sessions:
                events = (await log.read(summary.session_id)).events
                is_parent = summary.session_id == parent
                await copy.append(summary.session_id, events if is_given or is_parent else events[:1])
        await subagents.close()
    return copy, child


def test_a_child_that_a_dead_runtime_left_running_is_settled_by_its_own_log() -> None:
    async def story() -> None:
        log, child = await left_behind(PuppetDriver())
        async with stage(log) as on:
            fact = on.subagents.fact(child)
            assert (fact.status, missing_evidence(fact)) == (S.FAILED, ())
            assert sorted(one.status for one in on.subagents.recovered) == [S.FAILED, S.INTERRUPTED]
            assert (await on.subagents.wait(child)).status is WaitStatus.PARTIAL
            assert on.driver.puppets == []

    run(story())


def test_a_child_that_had_ended_in_time_is_completed_however_late_we_look() -> None:
    async def story() -> None:
        log, child = await left_behind(PuppetDriver(), say=(done("in time"),), timeout_seconds=5)

        def later() -> Instant:
            now = wall_clock()
            return Instant(now.at + timedelta(hours=1), now.seconds)

        async with stage(log, clock=later) as on:
            assert (on.subagents.fact(child).status, on.subagents.fact(child).summary) == (S.COMPLETED, "in time")
            assert not [event for event in await on.events() if isinstance(event.data, Anomaly)]

    run(story())


def test_a_child_whose_agent_outlived_the_runtime_is_taken_up_with_the_deadline_it_had() -> None:
    async def story() -> None:
        driver = PuppetDriver(OUTLIVING)
        log, child = await left_behind(driver)
        driver.puppets[0].is_gone = False  # the copy of the log is from before its end
        async with stage(log, driver) as on:
            fact = on.subagents.fact(child)
            assert (fact.status, child in on.subagents.live) == (S.RUNNING, True)
            driver.puppets[0].say(done("still here"))
            assert (await on.subagents.wait(child)).status is WaitStatus.COMPLETED
            assert on.subagents.fact(child).deadline_at is None

    run(story())


@pytest.mark.parametrize("is_given", [True, False])
def test_a_child_whose_session_nobody_can_run_is_settled_or_detached(is_given: bool) -> None:
    async def story() -> None:
        log, child = await left_behind(PuppetDriver(), is_given=is_given)
        specs = {"a_parent": AgentSpec(agent="other", driver="other")}
        runtime = Runtime(log, [PuppetDriver(name="other")], specs=lambda session, _: specs.get(session))
        async with runtime, Subagents(runtime, log) as subagents:
            fact = subagents.fact(child)
            assert fact.status is (S.FAILED if is_given else S.DETACHED)
            assert fact.next_actions[0].command == f"interlock debug turns {fact.child_session_id}"

    run(story())


def test_a_task_that_did_not_reach_its_child_before_the_crash_is_sent_once() -> None:
    async def story() -> None:
        log, child = await left_behind(PuppetDriver(), is_given=False)
        async with stage(log) as on:
            puppet = await on.given()
            puppet.say(done())
            assert (await on.subagents.wait(child)).status is WaitStatus.COMPLETED
            assert [prompt.text for prompt in puppet.prompts] == [TASK]

    run(story())


class Slow(MemoryLog):
    """A log whose appends wait at a gate, if one is set."""

    gate: asyncio.Event | None = None
    waiting = 0

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        if self.gate is not None:
            self.waiting += 1
            await self.gate.wait()
        return await super().append(session_id, events, expected_version=expected_version)


async def cancelled_at_the_gate(log: Slow, work: Coroutine[object, object, object]) -> None:
    """Begin something, cancel it while it is being written down, and let that be done."""
    log.gate = asyncio.Event()
    task = asyncio.create_task(work)
    await soon(lambda: True if log.waiting else None)
    task.cancel()
    log.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_start_that_is_cancelled_leaves_no_child_open() -> None:
    async def story() -> None:
        log = Slow()
        async with stage(log) as on:
            await cancelled_at_the_gate(log, on.subagents.start(on.parent, SPEC, TASK))
            (reading,) = subagents_from(await on.facts()).values()
            assert (reading.fact.status, reading.anomalies) == (S.INTERRUPTED, ())
            assert on.subagents.live == frozenset()

    run(story())


class Full(MemoryLog):
    """A log that takes nothing of one session any more."""

    refuses: SessionId | None = None

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        if session_id == self.refuses:
            raise ValueError("the disk is on fire")
        return await super().append(session_id, events, expected_version=expected_version)


def test_a_wait_says_so_when_the_end_of_a_child_cannot_be_recorded() -> None:
    async def story() -> None:
        log = Full()
        async with stage(log) as on:
            child = await on.subagents.start(on.parent, SPEC, TASK)
            puppet = await on.given()
            log.refuses = on.parent
            puppet.say(done())
            with pytest.raises(SessionFailed):
                await on.subagents.wait(child)
            assert on.subagents.fact(child).status is S.RUNNING
            log.refuses = None

    run(story())
