"""The client against a fake server: what a caller sees, does and waits for, through every fault."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import pytest

import interlock
from interlock.client import prompt_watch, turn
from interlock.client.client import Client, connect_async
from interlock.client.errors import Refusal
from interlock.client.machine.state import LocalStream, SyncState, TaskState, digest_of
from interlock.client.task import TaskHandle
from interlock.client.timeouts import ClientTimeouts
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import PromptId, SessionId, StreamId
from interlock.vocabulary.states import Activity, TaskStatus, TurnState
from interlock.vocabulary.wire.frames import (
    ApprovalClosed,
    ApprovalOpened,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatMessage,
    ChatStart,
    QueueChanged,
    Role,
    TaskFrame,
    TaskStatusChanged,
    TaskSummary,
)
from interlock.vocabulary.wire.requests import Ack, BoardTask, ChatCancel, ChatSend, Problem, Refused, Request
from tests.client.fake_room import AT, TASK, FakeRoom
from tests.client.fake_server import HELLO, TOKEN, FakeServer, FakeSocket, HttpAnswer, Silence
from tests.client.waiting import QUICK, other_tasks, until
from tests.contract.harness import run

PROMPT = PromptId("prm_1")


@dataclass
class World:
    server: FakeServer
    room: FakeRoom
    client: Client

    def task(self) -> TaskHandle:
        return self.client.task(TASK)

    async def joined(self) -> TaskHandle:
        task = self.task()
        await task.wait(lambda state: state.sync is SyncState.JOINED, 10)
        return task

    async def lose(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """The server is killed; something happens; it is started again."""
        await self.server.stop()
        await until(lambda: not self.client.is_connected)
        self.room.restart()
        meanwhile()
        await self.server.start()


@asynccontextmanager
async def world(patience: ClientTimeouts = QUICK) -> AsyncIterator[World]:
    async with FakeServer() as server:
        room = FakeRoom(server)
        async with Client(server.url, token=TOKEN, patience=patience) as client:
            yield World(server, room, client)
        await server.stop()
        await until(lambda: not other_tasks(), "the end of every task", 30)


# Changes


LIMITS: Final = {
    "max_request_bytes": 1, "max_rooms": 1, "max_connections": 1, "requests_per_second": 1.0, "request_burst": 1,
    "command_seconds": 1.0, "heartbeat_seconds": 1.0,
}  # fmt: skip


def test_changes_begin_with_the_present_and_the_newest_wins() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            changes = task.changes()
            first = await anext(changes)
            assert first.status is None
            for status in (TaskStatus.RUNNING, TaskStatus.CANCELLING):
                here.room.set_status(status, "trn_1")
            await task.wait(lambda state: state.status == TaskStatus.CANCELLING, 10)
            assert (await anext(changes)).status == TaskStatus.CANCELLING
            here.room.set_status(TaskStatus.CANCELLED, "trn_1")
            assert (await anext(changes)).status == TaskStatus.CANCELLED
            task.close()
            with pytest.raises(StopAsyncIteration):
                await anext(changes)

    run(story())


def test_iterators_that_nobody_holds_are_gone() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            async for _ in task.changes():
                break
            frames = task.frames()
            assert len(task._feeds) == 1
            del frames
            assert len(task._bells) == len(task._feeds) == 0

    run(story())


# Frames


async def take(frames: AsyncIterator[TaskFrame], until_one: Callable[[TaskFrame], bool]) -> list[TaskFrame]:
    taken: list[TaskFrame] = []
    async with asyncio.timeout(100):
        async for frame in frames:
            taken.append(frame)
            if until_one(frame):
                return taken
    raise AssertionError("the frames ended")


def is_status(status: TaskStatus) -> Callable[[TaskFrame], bool]:
    return lambda frame: isinstance(frame, TaskStatusChanged) and frame.task_status is status


def text_of(frames: list[TaskFrame]) -> str:
    """What a reader of chunks has read at the end."""
    text = ""
    for frame in frames:
        if isinstance(frame, ChatStart):
            text = ""
        if isinstance(frame, ChatChunk):
            assert frame.offset <= len(text), "a hole"
            text = text[: frame.offset] + frame.text
    return text


def test_frames_are_those_of_the_room_in_order() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            frames = task.frames()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.say("hel")
            here.room.say("lo")
            here.room.end_stream()
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            seen = await take(frames, is_status(TaskStatus.COMPLETED))
            kinds = [type(frame) for frame in seen]
            assert kinds == [
                TaskStatusChanged, ChatStart, ChatChunk, ChatChunk, ChatMessage, ChatDone, TaskStatusChanged,
            ]  # fmt: skip
            assert [frame.tick for frame in seen] == list(range(1, 8))

    run(story())


def test_across_a_restart_nothing_is_lost_or_doubled_and_live_text_goes_on() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            frames = task.frames()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.add_message("a tool", Role.TOOL)
            here.room.say("one ")
            seen = await take(frames, lambda frame: isinstance(frame, ChatChunk))

            def meanwhile() -> None:
                here.room.add_message("another tool", Role.TOOL)
                here.room.say("two ")
                here.room.ask("apr_1")

            await here.lose(meanwhile)
            await until(lambda: here.room.members)
            here.room.say("three")
            here.room.end_stream()
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            seen += await take(frames, is_status(TaskStatus.COMPLETED))
            messages = [frame.message.text for frame in seen if isinstance(frame, ChatMessage)]
            assert messages == ["a tool", "another tool", "one two three"]
            assert text_of(seen) == "one two three"
            assert "".join(frame.text for frame in seen if isinstance(frame, ChatChunk)) == "one two three"
            assert [type(frame) for frame in seen].count(ApprovalOpened) == 1
            assert len([frame for frame in seen if isinstance(frame, TaskStatusChanged)]) == 2

    run(story())


def test_what_ended_meanwhile_is_told_as_it_is_known() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            frames = task.frames()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.ask("apr_1")
            here.room.hold(("prm_2", "next"))
            here.room.say("half an")
            seen = await take(frames, lambda frame: isinstance(frame, ChatChunk))

            def meanwhile() -> None:
                here.room.approvals = ()
                here.room.end_stream()
                here.room.hold()
                here.room.set_status(TaskStatus.COMPLETED, "trn_1")

            await here.lose(meanwhile)
            seen = await take(frames, is_status(TaskStatus.COMPLETED))
            assert [type(frame) for frame in seen] == [
                ChatMessage, ChatDone, QueueChanged, ApprovalClosed, TaskStatusChanged,
            ]  # fmt: skip
            closed = seen[3]
            assert isinstance(closed, ApprovalClosed)
            assert closed.approval.outcome == "unknown"

    run(story())


def test_a_stream_that_is_gone_without_a_word_broke_off() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            frames = task.frames()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.say("half an")
            await take(frames, lambda frame: isinstance(frame, ChatChunk))

            def meanwhile() -> None:
                here.room.stream = None
                here.room.set_status(TaskStatus.FAILED, "trn_1")

            await here.lose(meanwhile)
            ended, _ = await take(frames, is_status(TaskStatus.FAILED))
            assert isinstance(ended, ChatError)
            assert ended.error_kind == "lost"

    run(story())


def test_more_messages_than_a_snapshot_holds_are_read_from_the_pages() -> None:
    async def story() -> None:
        async with world() as here:
            here.room.limit = 3
            for number in range(4):
                here.room.add_message(f"m{number}")
            task = await here.joined()
            await task.settled(10)
            frames = task.frames()

            def meanwhile() -> None:
                for number in range(4, 14):
                    here.room.add_message(f"m{number}")
                here.room.set_status(TaskStatus.RUNNING, "trn_1")

            await here.lose(meanwhile)
            seen = await take(frames, is_status(TaskStatus.RUNNING))
            told = [frame.message.text for frame in seen if isinstance(frame, ChatMessage)]
            assert told == [f"m{number}" for number in range(4, 14)]
            again = await take(task.frames(history=True), is_status(TaskStatus.RUNNING))
            told = [frame.message.text for frame in again if isinstance(frame, ChatMessage)]
            assert told == [f"m{number}" for number in range(14)]

    run(story())


def test_a_fresh_handle_tells_what_there_is_first() -> None:
    async def story() -> None:
        async with world() as here:
            here.room.add_message("before")
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.say("live")
            seen = await take(here.task().frames(), is_status(TaskStatus.RUNNING))
            assert [type(frame) for frame in seen] == [ChatMessage, ChatStart, ChatChunk, TaskStatusChanged]

    run(story())


def test_a_slow_reader_is_told_the_difference() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            frames = task.frames()
            frames._feed._limit = 10
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            for _ in range(50):
                here.room.say("x")
            here.room.end_stream()
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            await task.wait(lambda state: state.status == TaskStatus.COMPLETED, 10)
            assert len(frames._feed._waiting) <= 10
            seen = await take(frames, is_status(TaskStatus.COMPLETED))
            assert [frame.message.text for frame in seen if isinstance(frame, ChatMessage)] == ["x" * 50]
            assert len(seen) < 20

    run(story())


def test_frames_of_a_task_that_cannot_be_followed_raise() -> None:
    async def story() -> None:
        async with world() as here:
            here.room.is_gone = True
            with pytest.raises(UsageError, match="cannot be followed: There is no such task"):
                async with asyncio.timeout(100):
                    await anext(here.task().frames())

    run(story())


# Commands


def test_a_prompt_goes_by_the_socket() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            assert await task.send("hello", prompt_id=PROMPT) == PROMPT
            assert here.room.prompts == {"prm_1": "hello"}
            assert not [call for call in here.server.calls if call.method == "POST"]
            other = await task.send("again")
            assert other.startswith("prm_")
            await until(lambda: task.queue.waiting)

    run(story())


def test_without_a_socket_it_goes_by_http() -> None:
    async def story() -> None:
        async with world() as here:
            task = here.task()
            await task.send("hello", prompt_id=PROMPT)
            assert here.room.prompts == {"prm_1": "hello"}
            (call,) = [call for call in here.server.calls if call.method == "POST"]
            assert call.headers["idempotency-key"] == "prm_1"
            assert [one.prompt_id for one in task.state.receipts] == [PROMPT]

    run(story())


def test_a_socket_that_drops_before_the_answer_makes_it_go_by_http_and_twice_is_once() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            real = here.server.on_request

            def take_and_drop(socket: FakeSocket, request: Request) -> None:
                if isinstance(request, ChatSend):
                    here.room._send(request.prompt_id, request.text)
                    socket.abort()
                else:
                    real(socket, request)

            here.server.on_request = take_and_drop
            prompt_id = await task.send("hello")
            assert here.room.prompts == {prompt_id: "hello"}
            posts = [call for call in here.server.calls if call.method == "POST"]
            assert [call.headers["idempotency-key"] for call in posts] == [prompt_id]

    run(story())


def test_a_refusal_is_raised_and_not_tried_by_another_way() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            refusals = [
                Problem(title="No", status=409, code="conflict"),
                Problem(title="Nothing is known yet", status=504, code="deadline"),
            ]
            here.server.on_request = lambda socket, request: socket.send(
                Refused(id=request.id, problem=refusals.pop(0))
            )
            with pytest.raises(Refusal, match="No"):
                await task.send("hello")
            with pytest.raises(Unreachable, match="Nothing is known yet"):
                await task.send("hello")
            assert not [call for call in here.server.calls if call.method == "POST"]

    run(story())


def test_a_cancel_names_the_turn_and_is_settled_by_the_server() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            here.room.begin_turn("trn_1", PROMPT)
            here.room.say("text")
            await task.wait(lambda state: state.stream is not None, 10)
            done = await task.cancel()
            assert done.delivered
            (asked,) = [one for one in here.server.requests if isinstance(one, ChatCancel)]
            assert asked.turn_id == "trn_1"
            assert task.state.is_stopping
            here.room.set_status(TaskStatus.CANCELLED, "trn_1")
            await task.wait(lambda state: not state.is_stopping, 10)

    run(story())


def test_a_cancel_that_fails_does_not_stick() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            here.room.begin_turn("trn_1", PROMPT)
            await task.wait(lambda state: state.status == TaskStatus.RUNNING, 10)
            problem = Problem(title="Nothing to cancel", status=409, code="conflict")
            here.server.on_request = lambda socket, request: socket.send(Refused(id=request.id, problem=problem))
            with pytest.raises(Refusal):
                await task.cancel()
            assert not task.state.is_stopping
            here.server.on_request = lambda socket, request: socket.send(
                Ack(id=request.id, result={"delivered": False, "problem": "the agent is gone"})
            )
            assert (await task.cancel()).problem == "the agent is gone"
            assert not task.state.is_stopping

    run(story())


# Waiting for a turn


def test_the_end_of_a_turn_is_what_the_record_says_and_not_the_status() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            waiting = asyncio.create_task(task.wait_turn(prompt_id, 20))
            here.room.begin_turn("trn_1", prompt_id)
            await task.wait(lambda state: state.status == TaskStatus.RUNNING, 10)
            here.room.record("trn_1", TurnState.RUNNING)
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")  # the status says so, the record does not
            await task.wait(lambda state: state.status == TaskStatus.COMPLETED, 10)
            await until(lambda: [call for call in here.server.calls if call.path.endswith("/turns/trn_1")])
            assert not waiting.done()
            here.room.record("trn_1", TurnState.PARTIAL_FAILED)
            here.room.add_message("an end", Role.END)
            assert (await waiting).state is TurnState.PARTIAL_FAILED

    run(story())


def house_says(state: TaskState, room: FakeRoom) -> bool:
    """Whether all the live text of the room is here."""
    return state.stream is not None and room.stream is not None and state.stream.text == room.stream.text


def test_while_a_turn_works_its_record_is_not_asked_for_with_every_frame() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.begin_turn("trn_1", prompt_id)
            waiting = asyncio.create_task(task.wait_turn(prompt_id, 20))
            for _ in range(15):
                here.room.say("x")
                await task.wait(lambda state: house_says(state, here.room), 10)
                await asyncio.sleep(0.003)  # time enough for a question, were it asked
            here.room.record("trn_1", TurnState.COMPLETED)
            here.room.end_stream()
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            assert (await waiting).state is TurnState.COMPLETED
            assert len([call for call in here.server.calls if "/turns/" in call.path]) <= 3

    run(story())


def test_a_wait_survives_a_restart_of_the_server() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.begin_turn("trn_1", prompt_id)
            waiting = asyncio.create_task(task.wait_turn(prompt_id, 20))

            def meanwhile() -> None:
                here.room.record("trn_1", TurnState.INTERRUPTED)
                here.room.set_status(TaskStatus.CANCELLED, "trn_1")

            await here.lose(meanwhile)
            assert (await waiting).state is TurnState.INTERRUPTED

    run(story())


def test_a_prompt_that_was_taken_back_has_no_turn() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            waiting = asyncio.create_task(task.wait_turn(prompt_id, 20))
            await until(lambda: task.queue.waiting)
            here.room.hold()
            here.room.set_status(None)
            with pytest.raises(UsageError, match="is not in this task"):
                await waiting

    run(story())


def test_a_prompt_behind_a_closed_gate_is_said_to_be() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.hold((prompt_id, "hello"), is_open=False, reason="too expensive")
            with pytest.raises(UsageError, match="the queue is held: too expensive"):
                await task.wait_turn(prompt_id, 20)

    run(story())


def test_nobody_waits_for_a_prompt_that_nobody_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_watch, "GRACE_SECONDS", 0.05)

    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.is_supervised = False
            with pytest.raises(UsageError, match=r"prompt \S+ waits, and no server runs it") as told:
                await task.wait_turn(prompt_id, 20)
            assert told.value.remedy == "start the task again"

    run(story())


def test_nobody_waits_for_a_turn_that_nobody_will_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_watch, "GRACE_SECONDS", 0.05)

    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.begin_turn("trn_1", prompt_id)
            here.room.record("trn_1", TurnState.RUNNING)
            waiting = asyncio.create_task(task.wait_turn(prompt_id, 20))
            await task.wait(lambda state: state.status == TaskStatus.RUNNING, 10)
            here.room.record("trn_1", TurnState.ABANDONED)
            here.room.set_status(None, "trn_1")
            with pytest.raises(UsageError, match="turn trn_1 has no end, and no server runs it"):
                await waiting

    run(story())


def test_nobody_waits_for_a_turn_of_which_events_are_lost() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.begin_turn("trn_1", prompt_id)
            here.room.record("trn_1", TurnState.UNKNOWN)
            here.room.set_status(None, "trn_1")
            assert (await task.wait_turn(prompt_id, 20)).state is TurnState.UNKNOWN

    run(story())


def test_a_task_that_is_taken_up_again_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_watch, "GRACE_SECONDS", 1.0)

    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.is_supervised = False
            waiting = asyncio.create_task(task.wait_turn(prompt_id, 20))
            await until(lambda: [call for call in here.server.calls if call.path.endswith("/ses_1")])
            here.room.is_supervised = True
            here.room.begin_turn("trn_1", prompt_id)
            here.room.record("trn_1", TurnState.COMPLETED)
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            assert (await waiting).state is TurnState.COMPLETED

    run(story())


def test_a_task_that_loses_its_owner_while_a_prompt_waits_is_noticed_by_what_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prompt_watch, "GRACE_SECONDS", 0.05)

    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            waiting = asyncio.create_task(task.wait_turn(prompt_id, 10))  # in silence it would be asked after 15 s
            await until(lambda: [call for call in here.server.calls if call.path.endswith("/ses_1")])
            here.room.is_supervised = False
            here.room.add_message("something is heard", Role.COMMENTARY)
            with pytest.raises(UsageError, match="no server runs it"):
                await waiting

    run(story())


def test_when_nobody_may_run_a_task() -> None:
    state = TaskState(task_id=TASK)
    assert turn.may_be_unowned(state)
    assert turn.may_be_unowned(replace(state, agent=Status(activity=Activity.UNKNOWN)))
    assert not turn.may_be_unowned(replace(state, agent=Status(activity=Activity.WORKING)))
    live = LocalStream(stream_id=StreamId("str_1"), started_at=AT)
    assert not turn.may_be_unowned(replace(state, stream=live))


def test_what_nobody_can_answer_is_no_question_to_anybody() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            here.room.ask("apr_1", is_answerable=False)
            here.room.ask("apr_2")
            await task.wait(lambda state: len(state.approvals) == 2, 10)
            assert [one.approval_id for one in task.approvals] == ["apr_2"]

    run(story())


def test_a_turn_that_waits_for_somebody_ends_the_wait_if_asked_for() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.begin_turn("trn_1", prompt_id)
            blocked = asyncio.create_task(task.wait_turn(prompt_id, 20, until_blocked=True))
            ended = asyncio.create_task(task.wait_turn(prompt_id, 20))
            here.room.ask("apr_1")
            here.room.record("trn_1", TurnState.WAITING)
            here.room.set_status(TaskStatus.PENDING_CONFIRMATION, "trn_1")
            assert (await blocked).state is TurnState.WAITING
            assert [one.approval_id for one in task.approvals] == ["apr_1"]
            assert not ended.done()
            here.room.record("trn_1", TurnState.FAILED)
            here.room.set_status(TaskStatus.FAILED, "trn_1")
            assert (await ended).state is TurnState.FAILED

    run(story())


def test_a_wait_that_is_too_long_says_what_was_last_known() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            here.room.begin_turn("trn_1", prompt_id)
            await task.wait(lambda state: state.status == TaskStatus.RUNNING, 10)
            with pytest.raises(TimeoutError, match=r"prompt .* within 0\.1 s; last known: RUNNING at version"):
                await task.wait_turn(prompt_id, 0.1)
            await here.server.stop()
            await until(lambda: not here.client.is_connected)
            with pytest.raises(TimeoutError, match="which is not known to hold now; disconnected"):
                await task.wait_turn(prompt_id, 0.1)

    run(story())


def test_a_turn_is_found_also_without_a_socket() -> None:
    async def story() -> None:
        async with world() as here:
            here.server.refuse_sockets = HttpAnswer(503)
            task = here.task()
            prompt_id = await task.send("hello")
            here.room.begin_turn("trn_1", prompt_id)
            here.room.record("trn_1", TurnState.COMPLETED)
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            assert (await task.wait_turn(prompt_id, 20)).state is TurnState.COMPLETED

    run(story())


def test_cancelled_waits_leave_nothing_behind() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            prompt_id = await task.send("hello")
            await until(lambda: task.queue.waiting)
            before = other_tasks()
            waits = [
                asyncio.create_task(task.wait_turn(prompt_id)),
                asyncio.create_task(task.wait(lambda _: False)),
                asyncio.create_task(take(task.frames(), lambda _: False)),
            ]
            await asyncio.sleep(0.01)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            del wait, waits
            await until(lambda: other_tasks() <= before)

            def is_forgotten() -> bool:
                gc.collect()  # what was raised holds what it went through
                return not task._bells and not task._feeds

            await until(is_forgotten)

    run(story())


# The connection


def test_another_protocol_is_told_to_whoever_waits() -> None:
    async def story() -> None:
        async with world() as here:
            here.server.hello = msgspec.structs.replace(HELLO, protocol=9)
            with pytest.raises(UsageError, match="speaks protocol 9"):
                async with asyncio.timeout(100):
                    await anext(here.task().frames())
            with pytest.raises(UsageError, match="speaks protocol 9"):
                await here.task().wait(lambda _: False, 10)
            with pytest.raises(UsageError, match="speaks protocol 9"):
                await anext(here.client.board())
            here.server.hello = HELLO
            here.client.refresh()
            await here.task().wait(lambda state: state.sync is SyncState.JOINED, 10)

    run(story())


def test_two_clients_converge() -> None:
    async def story() -> None:
        async with world() as here, Client(here.server.url, token=TOKEN, patience=QUICK) as second:
            tasks = [await here.joined(), second.task(TASK)]
            await tasks[1].wait(lambda state: state.sync is SyncState.JOINED, 10)
            await tasks[0].send("hello", prompt_id=PROMPT)
            here.room.begin_turn("trn_1", PROMPT)
            here.room.say("text")
            await here.lose(lambda: here.room.say(" and more"))

            def is_there(state: TaskState) -> bool:
                return state.is_verified and state.digest() == digest_of(here.room.snapshot())

            for task in tasks:
                await task.wait(is_there, 10)

    run(story())


def test_a_closed_client_says_so() -> None:
    async def story() -> None:
        async with FakeServer() as server:
            FakeRoom(server)
            client = Client(server.url, token=TOKEN, patience=QUICK)
            task = client.task(TASK)
            board = client.board()
            waiting = asyncio.create_task(task.wait(lambda _: False))
            await until(lambda: client.is_connected)
            await client.close()
            with pytest.raises(UsageError, match="not followed any more"):
                await waiting
            with pytest.raises(UsageError, match="closed"):
                client.task(TASK)
            async with asyncio.timeout(100):
                assert [line async for line in board] == []
            await server.stop()
            await until(lambda: not other_tasks(), "the end of every task", 30)

    run(story())


def test_a_handle_is_shared_and_can_be_opened_again() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            assert here.client.task("ses_1") is task
            task.close()
            task.close()
            assert task.state.sync is SyncState.JOINED  # as it was last seen
            again = await here.joined()
            assert again is not task
            assert task.is_open is False

    run(story())


def test_refresh_looks_now() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            here.room.is_quiet = True
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            await task.refresh()
            assert task.state.status == TaskStatus.RUNNING

    run(story())


# The board


def test_the_board_tells_each_task_and_then_each_change() -> None:
    second = TaskSummary(task_id=SessionId("ses_2"), version=1)

    async def story() -> None:
        async with world() as here:
            board = here.client.board()
            async with asyncio.timeout(100):
                assert (await anext(board)).task_status is None
                here.room.set_status(TaskStatus.RUNNING, "trn_1")
                assert (await anext(board)).task_status is TaskStatus.RUNNING
                here.server.socket.send(BoardTask(tick=here.room.board_tick + 1, task=second))
                assert (await anext(board)).task_id == "ses_2"
                await here.lose(lambda: here.room.set_status(TaskStatus.COMPLETED, "trn_1"))
                assert (await anext(board)).task_status is TaskStatus.COMPLETED
            late = here.client.board()
            assert (await anext(late)).task_status is TaskStatus.COMPLETED

    run(story())


def test_a_slow_reader_of_the_board_sees_the_newest_line_of_each() -> None:
    async def story() -> None:
        async with world() as here:
            board = here.client.board()
            await anext(board)
            for number in range(20):
                here.room.set_status(TaskStatus.RUNNING, f"trn_{number}")
            await until(lambda: here.client._shell.board.tick == 20)
            assert (await anext(board)).turn_id == "trn_19"
            assert not board._waiting

    run(story())


# Lists and beginnings


def test_lists_and_opening() -> None:
    bodies: dict[str, object] = {
        "GET /api/server": {"version": "1", "protocol": 1, "role": "operator", "limits": LIMITS},
        "GET /api/tasks": {"items": [{"task_id": "ses_1", "version": 4}], "next": None},
        "GET /api/approvals": {"items": [], "next": None},
        "GET /api/tasks/ses_1/turns": {"items": [], "next": None},
        "POST /api/tasks": {"task_id": "ses_1", "is_new": True, "prompt_id": "prm_9"},
    }

    async def story() -> None:
        async with world() as here:
            rest = here.server.on_http
            here.server.on_http = lambda call: (
                HttpAnswer(body=bodies[f"{call.method} {call.path}"])
                if f"{call.method} {call.path}" in bodies
                else rest(call)
            )
            assert (await here.client.server()).role == "operator"
            assert [one.version for one in await here.client.tasks()] == [4]
            assert await here.client.approvals() == ()
            task = await here.client.open_task(agent="a", driver="d", argv=["x"], prompt="go", task_id=TASK)
            assert (task.task_id, task.first_prompt) == (TASK, "prm_9")
            assert await task.turns() == ()
            (call,) = [call for call in here.server.calls if call.method == "POST"]
            assert call.headers["idempotency-key"] == TASK
            assert call.json() == {
                "agent": "a", "driver": "d", "argv": ["x"], "cwd": str(Path.cwd()), "prompt": "go",
            }  # fmt: skip

    run(story())


def test_a_silent_server_is_unreachable() -> None:
    async def story() -> None:
        patience = ClientTimeouts(answer_seconds=0.1, first_delay_seconds=0.01)
        async with world(patience) as here:
            here.server.on_http = lambda _: Silence
            with pytest.raises(Unreachable):
                await here.client.tasks()

    run(story())


def test_the_home_is_looked_at_when_the_client_is_made(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no server runs"):
        connect_async(tmp_path)


def test_a_client_of_a_home_finds_the_server_again_at_another_port(tmp_path: Path) -> None:
    def announce(server: FakeServer) -> None:
        for name, text in (
            ("server.json", f'{{"url": "{server.url}"}}'),
            ("tokens.json", f'{{"operator": "{TOKEN}", "observer": "x"}}'),
        ):
            path = tmp_path / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o600)

    async def story() -> None:
        first, second = FakeServer(), FakeServer()
        FakeRoom(first)
        room = FakeRoom(second)
        await first.start()
        announce(first)
        async with connect_async(tmp_path, patience=QUICK) as client:
            task = client.task(TASK)
            await task.wait(lambda state: state.sync is SyncState.JOINED, 10)
            room.set_status(TaskStatus.RUNNING, "trn_1")
            await first.stop()
            await second.start()
            announce(second)
            await task.wait(lambda state: state.status == TaskStatus.RUNNING and state.tick is not None, 10)
        await second.stop()

    run(story())


def test_the_front_door_has_both_clients() -> None:
    assert interlock.Client is Client
    assert interlock.SyncClient.__name__ == "SyncClient"
