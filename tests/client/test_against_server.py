"""The client against the real server, over puppets: what it says is what the server's log holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    BecameReady,
    MessageEnded,
    Observation,
    TextArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.client.client import Client
from interlock.client.errors import Refusal
from interlock.client.iterators import Frames
from interlock.client.machine.inputs import JoinAcked, TaskInput
from interlock.client.machine.state import SyncState, TaskState, digest_of
from interlock.client.task import TaskHandle
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.server.http.access import Tokens
from interlock.server.serving import Running, bind, running
from interlock.server.settings import ServerSettings
from interlock.testing.puppet import EVERYTHING, Puppet, PuppetDriver
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import TaskStatus, TurnState
from interlock.vocabulary.wire.frames import (
    ChatChunk,
    ChatMessage,
    Role,
    StatePatched,
    TaskFrame,
    TaskSnapshot,
    TaskStatusChanged,
)
from interlock.vocabulary.wire.requests import AccessRole
from tests.client.waiting import QUICK, until
from tests.contract.harness import run

TOKENS = Tokens("operator-token-for-the-client-tests", "observer-token-for-the-client-tests")
TASK = SessionId("ses_1")


@dataclass
class House:
    """A server that can be ended and begun again over the same log, at the same port."""

    log: MemoryLog = field(default_factory=MemoryLog)
    # Agents outlive the runtime, as those in terminals do: so a turn goes on while the server is away.
    driver: PuppetDriver = field(default_factory=lambda: PuppetDriver(replace(EVERYTHING, outlives_runtime=True)))
    port: int = 0
    server: Running | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Running]:
        settings = ServerSettings(port=self.port, requests_per_second=10_000.0, closing_seconds=2.0)
        with bind(settings) as listening:
            self.port = listening.getsockname()[1]
            async with (
                Runtime(self.log, [self.driver]) as runtime,
                running(runtime, self.log, TOKENS, settings, listening) as self.server,
            ):
                yield self.server

    def client(self, role: AccessRole = AccessRole.OPERATOR) -> Client:
        token = TOKENS.operator if role is AccessRole.OPERATOR else TOKENS.observer
        return Client(self.url, token=token, patience=QUICK)

    @asynccontextmanager
    async def client_later(self) -> AsyncIterator[Callable[[], tuple[Client, Client]]]:
        """Two clients that outlive servers: made when the port is known, closed at the end."""
        made: list[Client] = []

        def make() -> tuple[Client, Client]:
            made.extend((self.client(), self.client()))
            return made[0], made[1]

        try:
            yield make
        finally:
            for client in made:
                await client.close()

    async def prompted(self, count: int = 1) -> Puppet:
        return await until(lambda: next((one for one in self.driver.puppets if len(one.prompts) >= count), None))

    def is_equal(self, state: TaskState) -> bool:
        """Whether a client stands where the server stands."""
        assert self.server is not None
        view = self.server.state.hub.view(TASK)
        is_settled = state.is_verified and not state.needs_room
        return view is not None and is_settled and state.digest() == digest_of(view.snapshot())


async def opened(client: Client, prompt: str | None = None) -> TaskHandle:
    return await client.open_task(agent="puppet", driver="puppet", task_id=TASK, prompt=prompt)


def done(text: str = "done") -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


def test_a_task_from_its_opening_to_its_record() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            assert (await client.server()).role is AccessRole.OPERATOR
            task = await opened(client)
            prompt_id = await task.send("hello")
            puppet = await house.prompted()
            puppet.say(TextArrived(text="hi"))
            # Seen live first: the answer must then take its place and not stand beside it, also where it says more.
            await task.wait(lambda state: state.stream is not None and state.stream.text == "hi", 20)
            puppet.say(done("hi there"))
            record = await task.wait_turn(prompt_id, 20)
            assert record.state is TurnState.COMPLETED
            await task.wait(house.is_equal, 20)
            assert [(one.role, one.text) for one in task.messages] == [(Role.USER, "hello"), (Role.ANSWER, "hi there")]
            assert [one.turn_id for one in await task.turns()] == [record.turn_id]
            assert (await task.why()).turn_id == record.turn_id
            assert [one.task_status for one in await client.tasks()] == [TaskStatus.COMPLETED]
            page = await task.message_page(limit=1)
            assert [one.text for one in page.items] == ["hi there"]
            assert [one.text for one in (await task.message_page(before=page.next, limit=1)).items] == ["hello"]
            assert (await task.detail()).turns == 1

    run(story())


def test_a_reply_contract_goes_with_a_prompt_by_the_socket_and_by_http() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            shape = ReplyContract(json_schema={"type": "array"})
            task = await client.open_task(agent="puppet", driver="puppet", task_id=TASK, prompt="list", reply=shape)
            assert task.first_prompt is not None
            puppet = await house.prompted()
            assert puppet.prompts[0].reply == shape
            puppet.say(done("[1, 2]"))
            first = await task.wait_turn(task.first_prompt, 20)
            met = (await task.why(first.turn_id)).reply
            assert met is not None
            assert (met.kind, met.is_met, met.text) == ("json", True, "[1,2]")
            await task.settled(20)
            assert client.is_connected
            mark = ReplyContract(sentinel="w")
            prompt_id = await task.send("write", reply=mark)
            await house.prompted(2)
            assert puppet.prompts[1].reply == mark
            # The same by the other way is the same prompt; without its contract it is another one.
            assert (await client._shell.api.send(TASK, "write", prompt_id, mark)).prompt_id == prompt_id
            with pytest.raises(Refusal, match="asked for before with other content"):
                await client._shell.api.send(TASK, "write", prompt_id)
            puppet.say(done("no marks"))
            missed = (await task.why((await task.wait_turn(prompt_id, 20)).turn_id)).reply
            assert missed is not None
            assert (missed.is_met, missed.problem != "") == (False, True)

    run(story())


def test_the_state_document_is_kept_by_patches_and_is_the_one_that_is_served() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            task = await opened(client)
            await task.settled(20)
            assert (task.state.document, task.state.run) == ({}, None)
            frames = task.frames()
            prompt_id = await task.send("hello")
            puppet = await house.prompted()
            await task.wait(lambda state: state.run is not None and state.run.status is RunStatus.RUNNING, 20)
            puppet.say(done())
            record = await task.wait_turn(prompt_id, 20)
            await task.wait(house.is_equal, 20)
            run_record = task.state.run
            assert run_record is not None
            assert (run_record.id, run_record.status, run_record.done_reason) == (record.run_id, "done", "natural")
            served = await task.state_document()
            assert (served.state, served.version, served.turn_id) == (
                task.state.document,
                task.state.version,
                record.turn_id,
            )
            patches = [frame async for frame in until_completed(frames) if isinstance(frame, StatePatched)]
            assert [frame.source for frame in patches] == ["run_state", "run_state"]
            assert {frame.turn_id for frame in patches} == {record.turn_id}

    async def until_completed(frames: Frames) -> AsyncIterator[TaskFrame]:
        async for frame in frames:
            yield frame
            if isinstance(frame, TaskStatusChanged) and frame.task_status is TaskStatus.COMPLETED:
                return

    run(story())


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        ((TextArrived(text="all of it"), done("all of it")), TurnState.COMPLETED),
        ((TextArrived(text="half"), TurnEnded(ending=TurnEnding.ERROR, error_message="no")), TurnState.PARTIAL_FAILED),
        ((TurnEnded(ending=TurnEnding.ERROR, error_message="no"),), TurnState.FAILED),
        ((done(""),), TurnState.FAILED),
    ],
)
def test_wait_turn_tells_the_truth(said: tuple[Observation, ...], ending: TurnState) -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            task = await opened(client, "do it")
            assert task.first_prompt is not None
            (await house.prompted()).say(*said)
            assert (await task.wait_turn(task.first_prompt, 20)).state is ending
            await task.wait(house.is_equal, 20)

    run(story())


def test_a_cancel_is_delivered_and_the_turn_is_interrupted() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            task = await opened(client, "do it")
            puppet = await house.prompted()
            puppet.say(TextArrived(text="half"))
            await task.wait(lambda state: state.stream is not None, 20)
            assert (await task.cancel()).delivered
            assert puppet.interrupts == 1
            await task.wait(lambda state: state.status == TaskStatus.CANCELLING, 20)
            puppet.say(TurnEnded(ending=TurnEnding.INTERRUPTED))
            assert task.first_prompt is not None
            assert (await task.wait_turn(task.first_prompt, 20)).state is TurnState.INTERRUPTED
            await task.wait(house.is_equal, 20)
            assert not task.state.is_stopping

    run(story())


def test_a_question_is_heard_and_answered() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            task = await opened(client, "clean")
            puppet = await house.prompted()
            puppet.say(ToolCalled(call_id="c1", name="rm"), ApprovalAsked(request_id="r1", call_id="c1", name="rm"))
            assert task.first_prompt is not None
            record = await task.wait_turn(task.first_prompt, 20, until_blocked=True)
            assert not record.state.is_terminal
            await task.wait(lambda state: bool(state.approvals), 20)
            (asked,) = task.approvals
            assert [one.approval_id for one in await client.approvals()] == [asked.approval_id]
            await task.decide(asked.approval_id, is_allowed=True)
            await until(lambda: puppet.decisions)
            puppet.say(ToolReturned(call_id="c1", output="gone"), done("clean"))
            assert (await task.wait_turn(task.first_prompt, 20)).state is TurnState.COMPLETED
            await task.wait(house.is_equal, 20)

    run(story())


def test_what_waits_can_be_changed_held_and_taken_back() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            task = await opened(client)
            await task.gate(is_open=False, reason="lunch")
            first, second = await task.send("first"), await task.send("second")
            await task.edit(first, "first, better")
            await task.remove(second)
            await task.wait(lambda state: [one.text for one in state.queue.waiting] == ["first, better"], 20)
            assert (task.queue.is_open, task.queue.gate_reason) == (False, "lunch")
            await task.gate(is_open=True)
            assert (await house.prompted()).prompts[0].text == "first, better"

    run(story())


def test_a_prompt_that_will_have_no_turn_is_said_to_have_none() -> None:
    """Taken back while somebody waits for it, and gone with its task: the wait ends, with the reason."""

    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            task = await opened(client, "first")
            await house.prompted()
            second, third = await task.send("second"), await task.send("third")
            waits = [asyncio.create_task(task.wait_turn(one, 20)) for one in (second, third)]
            await task.wait(lambda state: len(state.queue.waiting) == 2, 20)
            await task.edit(third, "third, in other words")
            await task.remove(second)
            with pytest.raises(UsageError, match=second):
                await waits[0]
            assert not waits[1].done()
            await task.delete()
            with pytest.raises(UsageError):
                await waits[1]
            assert task.first_prompt is not None
            assert (await task.wait_turn(task.first_prompt, 20)).state.is_terminal

    run(story())


def test_the_same_prompt_twice_is_one_prompt_by_whichever_way() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as first, house.client() as second:
            task = await opened(first)
            await task.settled(20)
            prompt_id = PromptId("prm_same")
            await task.send("hello", prompt_id=prompt_id)
            await second.task(TASK).send("hello", prompt_id=prompt_id)  # by HTTP: it has no socket yet
            with pytest.raises(Refusal) as refused:
                await task.send("other words", prompt_id=prompt_id)
            assert refused.value.status == 409
            puppet = await house.prompted()
            puppet.say(done())
            await task.wait_turn(prompt_id, 20)
            assert len(puppet.prompts) == 1

    run(story())


def test_two_clients_converge_also_through_a_restart() -> None:
    async def story() -> None:
        house = House()
        async with house.client_later() as clients:
            async with house.serving():
                first, second = clients()
                tasks = [await opened(first), second.task(TASK)]
                prompt_id = await tasks[0].send("hello")
                puppet = await house.prompted()
                puppet.say(TextArrived(text="one "))
                for task in tasks:
                    await task.wait(lambda state: state.stream is not None and house.is_equal(state), 20)
            for task in tasks:
                await task.wait(lambda state: not state.is_connected, 20)
                assert not task.state.is_verified
                assert task.state.status == TaskStatus.RUNNING
            async with house.serving():
                house.driver.latest.say(TextArrived(text="two"), done("one two"))
                for task in tasks:
                    assert (await task.wait_turn(prompt_id, 20)).state.is_terminal
                    await task.wait(house.is_equal, 20)

    run(story(), 60)


def test_frames_across_a_restart_are_whole_and_a_resume_sends_only_what_is_missing() -> None:
    async def story() -> None:
        house = House()
        async with house.client_later() as clients:
            seen: list[TaskFrame] = []
            async with house.serving():
                (client, other) = clients()
                task = await opened(client)
                frames = task.frames()
                for number in range(5):
                    prompt_id = await task.send(f"prompt {number}")
                    (await house.prompted(number + 1)).say(TextArrived(text="a"), done("an answer"))
                    await task.wait_turn(prompt_id, 20)
                await task.wait(house.is_equal, 20)
                seen += await take_all(frames)
                known = task.state.synced_version
                snapshots = record_joins(task)
            async with house.serving():
                house.driver.latest.say(BecameReady())
                prompt_id = await other.task(TASK).send("while we were away")
                (await house.prompted(6)).say(TextArrived(text="b"), done("a last answer"))
                await task.wait_turn(prompt_id, 20)
                await task.wait(house.is_equal, 20)
                seen += await take_all(frames)
            messages = [one.message for one in seen if isinstance(one, ChatMessage)]
            answers = [one.text for one in messages if one.role is Role.ANSWER]
            assert answers == ["an answer"] * 5 + ["a last answer"]
            ids = [(one.message_id, one.version) for one in messages]
            assert len(ids) == len(set(ids))
            statuses = [(one.task_status, one.turn_id) for one in seen if isinstance(one, TaskStatusChanged)]
            assert all(one != other for one, other in pairwise(statuses))
            assert statuses[-1][0] is TaskStatus.COMPLETED
            assert snapshots
            assert all(one.version >= known for snapshot in snapshots for one in snapshot.messages)
            assert not any(snapshot.is_whole for snapshot in snapshots)

    run(story(), 60)


def record_joins(task: TaskHandle) -> list[TaskSnapshot]:
    """What joins and resumes give from now on."""
    snapshots: list[TaskSnapshot] = []
    stepped = task.stepped

    def record(before: TaskState, input: TaskInput, after: TaskState) -> None:
        if isinstance(input, JoinAcked):
            snapshots.append(input.snapshot)
        stepped(before, input, after)

    task.stepped = record  # type: ignore[method-assign]
    return snapshots


async def take_all(frames: Frames) -> list[TaskFrame]:
    """What waits to be read."""
    taken: list[TaskFrame] = []
    while frames._feed._waiting:
        taken.append(await anext(frames))
    return taken


def test_an_observer_looks_and_does_nothing() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as operator, house.client(AccessRole.OBSERVER) as observer:
            await opened(operator)
            task = observer.task(TASK)
            await task.wait(lambda state: state.sync is SyncState.JOINED, 20)
            with pytest.raises(Refusal) as refused:
                await task.send("hello")
            assert refused.value.status == 403

    run(story())


def test_a_wrong_token_is_told() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), Client(house.url, token="x" * 40, patience=QUICK) as client:
            with pytest.raises(Refusal) as refused:
                await client.tasks()
            assert refused.value.status == 401
            with pytest.raises(Refusal, match="token"):
                async with asyncio.timeout(100):
                    await anext(client.board())

    run(story())


def test_a_task_that_is_not_there() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            task = client.task("ses_none")
            await task.wait(lambda state: state.sync is SyncState.ERROR, 20)
            assert "no task ses_none" in task.state.problem

    run(story())


def test_a_deleted_task_is_deleted_everywhere() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client, house.client() as other:
            task = await opened(client)
            seen = other.task(TASK)
            await seen.settled(20)
            await task.delete()
            await seen.wait(lambda state: state.status == TaskStatus.DELETE, 20)

    run(story())


def test_the_board_follows_every_task() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client, house.client() as other:
            board = client.board()
            task = await opened(other, "go")
            (await house.prompted()).say(done())
            async with asyncio.timeout(100):
                async for line in board:
                    if line.task_status is TaskStatus.COMPLETED:
                        break
            assert line.task_id == task.task_id

    run(story())


def test_live_text_arrives_as_it_is_said() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.client() as client:
            task = await opened(client, "go")
            frames = task.frames()
            puppet = await house.prompted()
            text = ""
            for word in ("one ", "two ", "drei€"):
                puppet.say(TextArrived(text=word))
                async with asyncio.timeout(100):
                    async for frame in frames:
                        if isinstance(frame, ChatChunk):
                            assert frame.offset == len(text)
                            text += frame.text
                            break
            assert text == "one two drei€"
            puppet.say(MessageEnded(text=text), done(text))

    run(story())
