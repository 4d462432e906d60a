"""The runtime over a real log and puppets: durable, published and done in that order, through failures and restarts."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents.evidence import hook_program
from interlock.agents.evidence.hooks import HookHeard
from interlock.agents.observations import (
    ApprovalAsked,
    BecameReady,
    Exited,
    MessageEnded,
    PromptReached,
    SessionNamed,
    TextArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.pool.pool import PoolLimits
from interlock.agents.port import AgentSpec, Capabilities, DeliveryUnknown, NotDelivered, StaleResume, StopReport
from interlock.lifecycle.turns import turn_states
from interlock.log.memory import MemoryLog
from interlock.log.port import Log, LogUnavailable
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.policy import RunPolicy
from interlock.runtime.recovery import Recovered
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.testing.puppet import EVERYTHING, Puppet, PuppetDriver
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import (
    AgentSession,
    DeliveryReceipt,
    DeliveryStage,
    ProcessEvent,
    ProcessEventKind,
    ToolCallSuspended,
)
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, ToolError, ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import Status, TextDelta
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId, SpawnId
from interlock.vocabulary.states import Activity, DriverKind, ExitReason, TurnState
from tests.contract.harness import run
from tests.runtime.conducting import soon

SPEC = AgentSpec(agent="puppet", driver="puppet")


def first_prompt(driver: PuppetDriver, count: int = 1) -> Callable[[], Puppet | None]:
    return lambda: next((one for one in driver.puppets if len(one.prompts) >= count), None)


def done(text: str = "done") -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


async def events_of(log: Log, session_id: SessionId) -> tuple[Event, ...]:
    return (await log.read(session_id)).events


def test_a_turn_from_prompt_to_record() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC, title="a test")
            prompt_id = await runtime.send(session_id, "hello")
            puppet = await soon(first_prompt(driver))
            puppet.say(TextArrived(text="hi"), MessageEnded(text="hi there"), TurnEnded(ending=TurnEnding.NATURAL))
            record = await runtime.wait_turn(session_id, prompt_id)
            assert record.state is TurnState.COMPLETED
            assert runtime.status(session_id).activity is Activity.QUIET
        assert puppet.stops >= 1
        events = await events_of(log, session_id)
        assert [one.data.text for one in events if isinstance(one.data, AssistantMessage)] == ["hi there"]
        assert [turn.state for turn in turn_states(events)] == [TurnState.COMPLETED]

    run(story())


def test_what_is_published_is_in_the_log_first_with_its_number() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime, runtime.watch() as watcher:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "hello")
            (await soon(first_prompt(driver))).say(TextArrived(text="hi"), done("hi"))
            live = 0
            async for event in watcher:
                if event.seq is None:
                    live += isinstance(event.data, TextDelta | Status)
                else:
                    version = (await log.read(session_id)).version
                    assert event.seq <= version
                if event.type == "run_state" and live and (await log.read(session_id)).version == event.seq:
                    break

    run(story())


class Reluctant(MemoryLog):
    """A log that is not available for a while."""

    refusals = 0

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        if self.refusals:
            self.refusals -= 1
            raise LogUnavailable("the disk is full", next_action="make room")
        return await super().append(session_id, events, expected_version=expected_version)


def test_while_the_log_takes_nothing_nothing_is_confirmed_and_then_everything_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.runtime.session.supervisor._LOG_TOLD_AFTER_SECONDS", 60.0)

    async def story() -> None:
        driver, log = PuppetDriver(), Reluctant()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            log.refusals = 3
            sending = asyncio.create_task(runtime.send(session_id, "hello"))
            await soon(lambda: True if log.refusals < 3 else None)
            assert not sending.done()
            prompt_id = await sending
            (await soon(first_prompt(driver))).say(done())
            assert (await runtime.wait_turn(session_id, prompt_id)).state is TurnState.COMPLETED

    run(story())


def test_an_approval_is_answered_through_the_runtime() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "list")
            puppet = await soon(first_prompt(driver))
            puppet.say(ToolCalled(call_id="c1", name="ls"), ApprovalAsked(request_id="r1", call_id="c1", name="ls"))
            # The book alone is ahead of the log: a look through the runtime sees only what is durable.
            await runtime.until(session_id, lambda machine: machine.book.suspended or None)
            asked = next(e.data for e in await events_of(log, session_id) if isinstance(e.data, ToolCallSuspended))
            await runtime.decide(session_id, AnswerQuestion(approval_id=asked.ticket.suspension.id, is_allowed=True))
            await soon(lambda: puppet.decisions or None)
            puppet.say(ToolReturned(call_id="c1", output="files"), done())
            assert (await runtime.wait_turn(session_id, prompt_id)).state is TurnState.COMPLETED

    run(story())


@pytest.mark.parametrize(
    ("problem", "kind"),
    [(NotDelivered("a dialog is in the way"), "not_delivered"), (DeliveryUnknown("hm"), "delivery_unknown")],
)
def test_a_submit_that_failed_ends_the_turn_as_what_it_is(problem: NotDelivered | DeliveryUnknown, kind: str) -> None:
    async def story() -> None:
        driver, log = PuppetDriver(is_ready_at_once=False), MemoryLog()
        # Only what was not delivered waits for a start: and that by resubmitting, which is over at the first attempt.
        policy = RunPolicy(resubmit_attempts=1, start_seconds=60.0 if kind == "not_delivered" else 0.05)
        async with Runtime(log, [driver], policy=policy) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "hello")
            puppet = await soon(lambda: driver.puppets[0] if driver.puppets else None)
            puppet.next_submit = problem
            puppet.say(BecameReady())
            record = await runtime.wait_turn(session_id, prompt_id)
            assert (record.state, record.error_kind) == (TurnState.FAILED, kind)

    run(story())


def test_a_driver_that_cannot_start_is_told_and_the_prompt_is_kept() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        driver.next_failure = UsageError("there is no such program", remedy="install it")
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "hello")
            await soon(lambda: None if runtime.supervisor(session_id).book.queue.is_open else True)
            assert [prompt.text for prompt in runtime.queue(session_id)] == ["hello"]
            await runtime.set_gate(session_id, is_open=True)
            await soon(first_prompt(driver))

    run(story())


def test_a_crash_restarts_the_agent_which_resumes_its_own_session() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "hello")
            puppet = await soon(first_prompt(driver))
            puppet.say(SessionNamed(native_session_id="native-7"), Exited(signal=11))
            assert (await runtime.wait_turn(session_id, prompt_id)).error_kind == "process_died"
            again = await soon(lambda: driver.puppets[1] if len(driver.puppets) > 1 else None)
            assert again.spec.resume == "native-7"

    run(story())


def test_a_restart_whose_conversation_is_not_known_any_more_begins_a_new_one() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "hello")
            puppet = await soon(first_prompt(driver))
            driver.next_failure = StaleResume("it knows no session 'native-7'")
            puppet.say(SessionNamed(native_session_id="native-7"), Exited(signal=11))
            await runtime.wait_turn(session_id, prompt_id)
            again = await soon(lambda: driver.puppets[1] if len(driver.puppets) > 1 else None)
            assert again.spec.resume == ""
        named = [one.data for one in await events_of(log, session_id) if isinstance(one.data, AgentSession)]
        assert [(one.native_session_id, one.reason) for one in named] == [
            ("native-7", ""),
            ("", "it knows no session 'native-7'"),
        ]

    run(story())


def test_what_the_log_cannot_keep_costs_a_character_and_not_the_session() -> None:
    deep: Json = "bottom"
    for _ in range(200):
        deep = [deep]

    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "hello")
            puppet = await soon(first_prompt(driver))
            puppet.say(
                ToolCalled(call_id="c1", name="ls\x00", args={"\x00": [1 << 80, float("inf"), "\udfff"], "deep": deep}),
                ToolReturned(call_id="c1", error=ToolError(kind="failed", message="no\x00")),
                TextArrived(text="half a \ud83d"),
                Exited(signal=11, stderr_tail="boom \x00"),
            )
            assert (await runtime.wait_turn(session_id, prompt_id)).state is TurnState.PARTIAL_FAILED
        data = [one.data for one in await events_of(log, session_id)]
        assert [one.text for one in data if isinstance(one, AssistantMessage)][-1] == "half a \ufffd"
        (call,) = (one for one in data if isinstance(one, ToolCall))
        assert isinstance(call.args, dict)
        assert (call.name, call.args["\ufffd"]) == ("ls\ufffd", [str(1 << 80), "inf", "\ufffd"])
        assert [one.error and one.error.message for one in data if isinstance(one, ToolResult)] == ["no\ufffd"]
        assert [one.stderr_tail for one in data if isinstance(one, ProcessEvent) and one.stderr_tail] == ["boom \ufffd"]

    run(story())


def test_a_stop_returns_when_what_the_agent_left_was_looked_for() -> None:
    class Slow(Puppet):
        looked = asyncio.Event()

        async def stop(self) -> StopReport:
            report = await super().stop()
            await self.looked.wait()
            return report

    class Driver(PuppetDriver):
        async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
            self.puppets.append(Slow(spec, spawn_id, EVERYTHING))
            self.latest.say(BecameReady())
            return self.latest

    async def story() -> None:
        driver, log = Driver(), MemoryLog()
        Slow.looked = asyncio.Event()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            await runtime.start(session_id)
            puppet = await soon(lambda: driver.latest if driver.puppets else None)
            stopping = asyncio.create_task(runtime.stop(session_id))
            await soon(lambda: puppet.is_gone and runtime.status(session_id).activity is Activity.GONE)
            assert not stopping.done()
            Slow.looked.set()
            await stopping

    run(story())


def test_caps_hold_and_nobody_is_forgotten() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        policy = RunPolicy(idle_ttl_seconds=0.05)
        async with Runtime(log, [driver], limits=PoolLimits(total=2), policy=policy) as runtime:
            sessions = [await runtime.open_session(SPEC) for _ in range(5)]
            prompts = [await runtime.send(session_id, f"number {n}") for n, session_id in enumerate(sessions)]

            async def serve() -> None:
                answered: set[int] = set()
                while True:
                    for puppet in driver.puppets:
                        if puppet.prompts and id(puppet) not in answered:
                            answered.add(id(puppet))
                            assert sum(not one.is_gone for one in driver.puppets) <= 2
                            puppet.say(done())
                    await asyncio.sleep(0.001)

            serving = asyncio.create_task(serve())
            records = await asyncio.gather(
                *(
                    runtime.wait_turn(session_id, prompt_id)
                    for session_id, prompt_id in zip(sessions, prompts, strict=True)
                )
            )
            serving.cancel()
            assert [record.state for record in records] == [TurnState.COMPLETED] * 5

    run(story())


def test_waiting_for_a_turn_that_a_held_queue_keeps_from_beginning_is_refused_with_the_reason() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        driver.next_failure = UsageError("there is no such program", remedy="install it")
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "hello")
            with pytest.raises(UsageError, match="no such program"):
                await runtime.wait_turn(session_id, prompt_id)

    run(story())


class HookedPuppet(Puppet):
    """A puppet that hears hooks."""

    def __init__(self, spec: AgentSpec, spawn_id: SpawnId, capabilities: Capabilities) -> None:
        super().__init__(spec, spawn_id, capabilities)
        self.heard: list[str] = []

    def hear_hook(self, heard: HookHeard) -> None:
        self.heard.append(heard.event)


class HookedDriver(PuppetDriver):
    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
        self.puppets.append(HookedPuppet(spec, spawn_id, self.capabilities))
        return self.latest


def test_a_hook_reaches_the_agent_in_whose_process_tree_it_fired_and_no_other() -> None:
    async def story(folder: Path) -> None:
        driver, socket = HookedDriver(), folder / "hooks.sock"
        async with Runtime(MemoryLog(), [driver], hooks=socket) as runtime:
            for _ in range(2):
                await runtime.start(await runtime.open_session(SPEC))
            one, other = await soon(lambda: two(driver))
            for spawn_id in (one.spawn_id, "spn_of_nobody"):
                environment = {**os.environ, "INTERLOCK_HOOK_SOCKET": str(socket), "INTERLOCK_SPAWN_ID": spawn_id}
                hook = await asyncio.create_subprocess_exec(
                    sys.executable, hook_program.__file__, env=environment, stdin=asyncio.subprocess.PIPE
                )
                await hook.communicate(b'{"hook_event_name": "Stop", "session_id": "s"}')
                assert hook.returncode == 0
            assert isinstance(one, HookedPuppet)
            assert isinstance(other, HookedPuppet)
            await soon(lambda: one.heard or None)
            assert (one.heard, other.heard) == (["Stop"], [])
        assert not socket.exists()

    with tempfile.TemporaryDirectory(prefix="il-") as folder:  # a short path: a socket's may not be long
        run(story(Path(folder)))


def two(driver: PuppetDriver) -> list[Puppet] | None:
    return driver.puppets if len(driver.puppets) == 2 else None


# Restarts of the runtime


def test_the_options_and_limits_of_a_session_outlive_the_runtime() -> None:
    async def story() -> None:
        log, spec = MemoryLog(), replace(SPEC, options={"mode": "plan"})
        async with Runtime(log, [PuppetDriver()]) as first:
            session_id = await first.open_session(spec, policy=RunPolicy(turn_budget_seconds=7, max_tokens=9))
        async with Runtime(log, [PuppetDriver()]) as second:
            supervisor = second.supervisor(session_id)
            assert supervisor.spec.options == {"mode": "plan"}
            assert supervisor.machine.policy == RunPolicy(turn_budget_seconds=7, max_tokens=9)

    run(story())


async def die(runtime: Runtime) -> None:
    """End a runtime as SIGKILL would: no task goes on, nothing is written, no agent is told."""
    for task in runtime._runs.values():
        task.cancel()
    for supervisor in runtime._supervisors.values():
        supervisor.agent._handle = None
        for task in supervisor.agent._tasks:
            task.cancel()
    await asyncio.gather(*runtime._runs.values(), return_exceptions=True)


def test_what_was_accepted_and_not_sent_is_sent_after_a_restart() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        first = Runtime(log, [driver])
        await first.__aenter__()
        session_id = await first.open_session(SPEC)
        await first.send(session_id, "one")
        await soon(first_prompt(driver))
        second_prompt = await first.send(session_id, "two")
        await die(first)
        again = PuppetDriver()
        async with Runtime(log, [again]) as runtime:
            (recovered,) = runtime.recovered
            assert (recovered.settled_as, recovered.queued_prompts) == (TurnState.FAILED, 1)
            puppet = await soon(first_prompt(again))
            assert [prompt.text for prompt in puppet.prompts] == ["two"]
            puppet.say(done())
            assert (await runtime.wait_turn(session_id, second_prompt)).state is TurnState.COMPLETED
        states = [turn.state for turn in turn_states(await events_of(log, session_id))]
        assert states == [TurnState.FAILED, TurnState.COMPLETED]

    run(story())


def test_a_session_whose_agent_never_ran_is_recovered_with_its_queue_and_nothing_to_stop() -> None:
    async def story() -> None:
        log = MemoryLog()
        first = Runtime(log, [PuppetDriver()])
        await first.__aenter__()
        session_id = await first.open_session(SPEC)
        await first.set_gate(session_id, is_open=False, reason="not now")
        await first.send(session_id, "one")
        await die(first)
        async with Runtime(log, [PuppetDriver()]) as runtime:
            (recovered,) = runtime.recovered
        assert recovered == Recovered(session_id=session_id, stopped=StopReport(), queued_prompts=1)

    run(story())


@pytest.mark.parametrize(
    ("said", "kind", "state"),
    [
        ((), "delivery_unknown", TurnState.FAILED),
        ((PromptReached(stage=DeliveryStage.STARTED),), "abandoned", TurnState.FAILED),
        ((MessageEnded(text="half an answer"),), "abandoned", TurnState.PARTIAL_FAILED),
    ],
)
def test_a_turn_that_died_with_its_runtime_is_settled_by_what_is_known(
    said: tuple[PromptReached | MessageEnded, ...], kind: str, state: TurnState
) -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        first = Runtime(log, [driver])
        await first.__aenter__()
        session_id = await first.open_session(SPEC)
        await first.send(session_id, "one")
        puppet = await soon(first_prompt(driver))
        puppet.say(*said)
        await soon(lambda: True if puppet._said.empty() else None)
        await first.supervisor(session_id).until(lambda conductor: conductor.open_turn)
        await asyncio.sleep(0)
        await die(first)
        async with Runtime(log, [PuppetDriver()]) as runtime:
            (recovered,) = runtime.recovered
            assert recovered.is_delivery_unknown == (kind == "delivery_unknown")
        (turn,) = turn_states(await events_of(log, session_id))
        assert (turn.state, turn.error_kind) == (state, kind)
        is_asked = [action.kind for action in turn.next_actions][:1] == [NextActionKind.ASK_OPERATOR]
        assert is_asked == (kind == "delivery_unknown"), "only a person can see whether the prompt arrived"
        exits = [e.data for e in await events_of(log, session_id) if isinstance(e.data, ProcessEvent)]
        assert exits[-1].exit_reason is ExitReason.UNCLEAN

    run(story())


TERMINAL = Capabilities(reports_approvals=True, owns_text=False, outlives_runtime=True)


def test_an_agent_that_outlived_its_runtime_is_adopted_with_its_turn_still_open() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(TERMINAL, kind=DriverKind.TERMINAL), MemoryLog()
        first = Runtime(log, [driver])
        await first.__aenter__()
        session_id = await first.open_session(SPEC)
        prompt_id = await first.send(session_id, "one")
        await soon(first_prompt(driver))
        await die(first)
        async with Runtime(log, [driver]) as runtime:
            assert runtime.recovered[0].adopted == driver.latest.spawn_id
            driver.latest.say(PromptReached(stage=DeliveryStage.STARTED), done("by transcript"))
            assert (await runtime.wait_turn(session_id, prompt_id)).state is TurnState.COMPLETED
        kinds = [e.data.kind for e in await events_of(log, session_id) if isinstance(e.data, ProcessEvent)]
        assert kinds[:3] == [ProcessEventKind.SPAWN_REQUESTED, ProcessEventKind.SPAWNED, ProcessEventKind.ADOPTED]
        assert driver.latest.is_released
        assert len(driver.latest.prompts) == 1

    run(story())


@pytest.mark.parametrize(
    ("capabilities", "is_gone", "why"),
    [
        (EVERYTHING, False, "the runtime ended, and this kind of agent ends with it"),
        (TERMINAL, True, "the agent was not found again: no puppet lives as"),
    ],
)
def test_the_end_that_recovery_writes_says_why_there_is_no_agent(
    capabilities: Capabilities, is_gone: bool, why: str
) -> None:
    async def story() -> None:
        driver, log = PuppetDriver(capabilities), MemoryLog()
        first = Runtime(log, [driver])
        await first.__aenter__()
        session_id = await first.open_session(SPEC)
        await first.send(session_id, "one")
        (await soon(first_prompt(driver))).is_gone = is_gone
        await die(first)
        async with Runtime(log, [driver]) as runtime:
            (recovered,) = runtime.recovered
            assert (recovered.adopted, recovered.settled_as) == (None, TurnState.FAILED)
        (turn,) = turn_states(await events_of(log, session_id))
        (end,) = [e.data for e in await events_of(log, session_id) if is_end(e)]
        assert isinstance(end, ProcessEvent)
        assert end.message.startswith(why)
        assert turn.error_message.startswith(why)

    run(story())


def is_end(event: Event) -> bool:
    return isinstance(event.data, ProcessEvent) and event.data.kind is ProcessEventKind.EXITED


def test_a_clean_end_stops_an_agent_that_cannot_outlive_it_and_does_not_call_it_left_running() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        runtime = Runtime(log, [driver])
        await runtime.__aenter__()
        session_id = await runtime.open_session(SPEC)
        await runtime.send(session_id, "one")
        await soon(first_prompt(driver))
        report = await runtime.shutdown()
        assert (report.stopped, report.left_running) == ((session_id,), ())

    run(story())


def test_a_clean_end_leaves_terminals_running_and_says_so_unless_told_otherwise() -> None:
    async def story() -> None:
        for stop_agents in (False, True):
            driver, log = PuppetDriver(TERMINAL, kind=DriverKind.TERMINAL), MemoryLog()
            runtime = Runtime(log, [driver])
            await runtime.__aenter__()
            session_id = await runtime.open_session(SPEC)
            await runtime.send(session_id, "one")
            await soon(first_prompt(driver))
            report = await runtime.shutdown(stop_agents=stop_agents)
            if stop_agents:
                assert (report.stopped, report.left_running) == ((session_id,), ())
                assert turn_states(await events_of(log, session_id))[0].state is TurnState.INTERRUPTED
            else:
                assert (report.stopped, report.left_running) == ((), (session_id,))
                assert turn_states(await events_of(log, session_id))[0].state is TurnState.RUNNING

    run(story())


def test_the_same_over_a_real_database_file(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "log.db"
        driver = PuppetDriver(EVERYTHING)
        log = await open_log(path)
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "one", prompt_id=PromptId("mine"))
            assert await runtime.send(session_id, "one", prompt_id=PromptId("mine")) == prompt_id
            (await soon(first_prompt(driver))).say(done())
            await runtime.wait_turn(session_id, prompt_id)
        await log.close()
        log = await open_log(path)
        try:
            events = await events_of(log, session_id)
            receipts = [one.data.stage.value for one in events if isinstance(one.data, DeliveryReceipt)]
            assert receipts == ["queued", "typed", "started"]
        finally:
            await log.close()

    run(story())


open_log: Callable[[Path], Awaitable[SqliteLog]] = SqliteLog.open
