"""The shell over real sockets: what the machines ask for is done, and what came of it is told, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from interlock.client.machine.inputs import CheckReason, CheckRequested, JoinAcked, TaskInput
from interlock.client.machine.probe import RuntimeStabilityProbe
from interlock.client.machine.state import SyncState, TaskState, digest_of
from interlock.client.shell import ClientShell
from interlock.client.timeouts import ClientTimeouts
from interlock.client.transport.discovery import fixed_address
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import ChatChunk, TaskSummary
from interlock.vocabulary.wire.requests import (
    BoardBehind,
    BoardJoin,
    BoardTask,
    Problem,
    Refused,
    Request,
    TaskBehind,
    TaskJoin,
    TaskLeave,
    TaskResume,
)
from tests.client.fake_room import AT, TASK, FakeRoom
from tests.client.fake_server import TOKEN, Breaking, FakeServer, FakeSocket, HttpAnswer, Silence
from tests.client.waiting import QUICK, other_tasks, until
from tests.contract.harness import run


@dataclass
class Watch:
    steps: list[tuple[TaskState, TaskInput, TaskState]] = field(default_factory=list)
    lines: list[TaskSummary] = field(default_factory=list)

    def stepped(self, before: TaskState, input: TaskInput, after: TaskState) -> None:
        self.steps.append((before, input, after))


@dataclass
class World:
    server: FakeServer
    room: FakeRoom
    shell: ClientShell
    watch: Watch

    @property
    def state(self) -> TaskState:
        state = self.shell.state(TASK)
        assert state is not None
        return state

    def is_converged(self) -> bool:
        is_settled = self.state.is_verified and not self.state.needs_room
        return is_settled and self.state.digest() == digest_of(self.room.snapshot())

    async def converge(self) -> None:
        await until(self.is_converged, f"the state of the server, from {self.state}")


@asynccontextmanager
async def world(patience: ClientTimeouts = QUICK, *, is_open: bool = True) -> AsyncIterator[World]:
    async with FakeServer() as server:
        room, watch = FakeRoom(server), Watch()
        shell = ClientShell(fixed_address(server.url, TOKEN), patience=patience, on_lines=watch.lines.extend)
        try:
            if is_open:
                shell.open(TASK, watch)
            yield World(server, room, shell, watch)
        finally:
            await shell.close()


def joins(world: World) -> list[Request]:
    return [one for one in world.server.requests if isinstance(one, TaskJoin | TaskResume)]


def boards(world: World) -> list[Request]:
    return [one for one in world.server.requests if isinstance(one, BoardJoin)]


def test_a_check_comes_before_the_socket_and_a_join_after_it() -> None:
    async def story() -> None:
        async with world(is_open=False) as here:
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.say("hello")
            here.shell.open(TASK, here.watch)
            await here.converge()
            first, second, *_ = [call.path.rpartition("/")[2] for call in here.server.calls]
            assert (first, second) == ("runtime-check", "runtime-check")  # before the socket, and after it
            assert len(here.server.upgrades) == 1
            assert joins(here) == [TaskJoin(id="r1", task_id=TASK)]
            assert here.state.sync is SyncState.JOINED

    run(story())


def test_where_nothing_is_missing_no_socket_is_opened() -> None:
    async def story() -> None:
        async with world(is_open=False) as here:
            here.room.version = 0
            here.shell.open(TASK, here.watch)
            await until(lambda: here.state.is_verified)
            assert not here.server.upgrades

    run(story())


def test_what_the_room_says_is_heard_in_order() -> None:
    async def story() -> None:
        async with world() as here:
            await here.converge()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            for word in ("one ", "two ", "three"):
                here.room.say(word)
            here.room.end_stream()
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            await here.converge()
            assert [message.text for message in here.state.messages] == ["one two three"]

    run(story())


def test_doubled_and_reordered_frames_are_put_right_without_asking() -> None:
    async def story() -> None:
        async with world() as here:
            await here.converge()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.is_quiet = True
            frames = [frame for word in ("one ", "two ", "three") for frame in here.room.say(word)]
            here.room.is_quiet = False
            asked = len(joins(here))
            for frame in (frames[0], frames[0], frames[1], frames[0], frames[2], frames[2], frames[3]):
                here.server.socket.send(frame)
            await here.converge()
            assert len(joins(here)) == asked
            assert here.state.stream is not None
            assert here.state.stream.text == "one two three"

    run(story())


def test_a_lost_frame_is_made_up_for_by_a_resume_of_what_is_missing() -> None:
    async def story() -> None:
        async with world() as here:
            await here.converge()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.say("one ")
            await here.converge()
            here.room.is_quiet = True
            here.room.say("two ")
            here.room.is_quiet = False
            here.room.say("three")
            await here.converge()
            resume = joins(here)[-1]
            assert isinstance(resume, TaskResume)
            assert (resume.stream_id, resume.cursor) == ("str_1", 4)
            piece = here.room.snapshots[-1].stream
            assert piece is not None
            assert piece.text == "two three"

    run(story())


def test_a_client_that_was_too_slow_resumes() -> None:
    async def story() -> None:
        async with world() as here:
            await here.converge()
            here.room.is_quiet = True
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.server.socket.send(TaskBehind(task_id=TASK, version=here.room.version, tick=here.room.tick))
            await here.converge()
            assert isinstance(joins(here)[-1], TaskResume)

    run(story())


def test_after_a_restart_only_what_is_missing_is_sent() -> None:
    async def story() -> None:
        async with world() as here:
            for number in range(20):
                here.room.add_message(f"message {number}")
            await here.converge()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.say("x" * 1000)
            await here.converge()
            await here.server.stop()
            await until(lambda: not here.state.is_connected)
            assert here.state.connection == "disconnected"
            assert not here.state.is_verified
            assert here.state.status == TaskStatus.RUNNING
            here.room.restart()
            here.room.say("and more")
            here.room.add_message("the 21st")
            await here.server.start()
            await here.converge()
            told = here.room.snapshots[-1]
            assert [message.text for message in told.messages] == ["the 21st"]
            assert told.stream is not None
            assert told.stream.text == "and more"

    run(story())


@pytest.mark.parametrize(("fault", "seconds"), [(Breaking, 60.0), (Silence, 0.3)])
def test_a_check_that_fails_is_told_and_made_again_by_the_timer(
    fault: type[Breaking | Silence], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.client.machine.task_machine.CHECK_SECONDS", seconds)
    monkeypatch.setattr(
        "interlock.client.machine.task_machine.PROBE", RuntimeStabilityProbe(grace_seconds=0.01, cap_seconds=0.05)
    )

    async def story() -> None:
        async with world(is_open=False) as here:
            here.server.on_http = lambda _: fault
            here.shell.open(TASK, here.watch)
            await until(lambda: here.state.problem)
            assert here.state.status is None
            assert not here.state.is_verified
            here.server.on_http = here.room.on_http
            await here.converge()

    run(story())


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_task_that_is_not_for_us_is_an_error_until_somebody_asks(status: int) -> None:
    async def story() -> None:
        async with world(is_open=False) as here:
            here.server.on_http = lambda _: HttpAnswer(status, {"title": "Not for you", "status": status, "code": "no"})
            here.shell.open(TASK, here.watch)
            await until(lambda: here.state.sync is SyncState.ERROR)
            assert "Not for you" in here.state.problem
            assert here.state.deadline is None
            here.server.on_http = here.room.on_http
            here.shell.feed(TASK, CheckRequested(CheckReason.MANUAL_REFRESH))
            await here.converge()

    run(story())


def test_a_join_that_is_refused_for_good_is_an_error() -> None:
    def refuse(socket: FakeSocket, request: Request) -> None:
        problem = Problem(title="Not for you", status=403, code="forbidden")
        socket.send(Refused(id=request.id, problem=problem))

    async def story() -> None:
        async with world(is_open=False) as here:
            here.server.on_request = refuse
            here.shell.open(TASK, here.watch)
            await until(lambda: here.state.sync is SyncState.ERROR)

    run(story())


def test_a_socket_that_drops_in_the_middle_of_a_join_is_made_again() -> None:
    async def story() -> None:
        async with world(is_open=False) as here:
            real = here.server.on_request

            def drop(socket: FakeSocket, request: Request) -> None:
                here.server.on_request = real
                socket.abort()

            here.server.on_request = drop
            here.shell.open(TASK, here.watch)
            await here.converge()
            assert len(here.server.sockets) == 2

    run(story())


def test_frames_right_after_the_ack_are_taken_after_it() -> None:
    """They come in one piece of bytes; none of them may overtake the answer."""

    async def story() -> None:
        async with world(is_open=False) as here:
            real = here.server.on_request

            def answer(socket: FakeSocket, request: Request) -> None:
                real(socket, request)
                if isinstance(request, TaskJoin):
                    for _ in range(100):
                        here.room.say("x")

            here.server.on_request = answer
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.shell.open(TASK, here.watch)
            await here.converge()
            assert len(joins(here)) == 1
            assert sum(isinstance(step[1], JoinAcked) for step in here.watch.steps) == 1

    run(story())


# The board


def test_a_task_at_rest_is_in_its_room_again_after_a_loss() -> None:
    async def story() -> None:
        async with world() as here:
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            await here.converge()
            await here.server.stop()
            await until(lambda: not here.state.is_connected)
            here.room.restart()
            await here.server.start()
            await until(lambda: here.state.sync is SyncState.JOINED)
            asked = len(joins(here))
            here.room.set_status(TaskStatus.RUNNING, "trn_2")
            here.room.say("somebody else began this")
            await here.converge()
            assert len(joins(here)) == asked, "the room told it"
            assert not boards(here), "one task is no reason to follow all of them"

    run(story())


def test_a_followed_task_that_ended_waits_for_no_further_socket() -> None:
    """Its last status completed what is here: once a check confirms that, nothing is looked at again."""

    async def story() -> None:
        async with world() as here:
            await here.converge()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            here.room.say("one")
            here.room.end_stream()
            here.room.set_status(TaskStatus.COMPLETED, "trn_1")
            asked = len(joins(here))
            await here.converge()
            assert len(joins(here)) == asked, "the room told it"
            here.server.refuse_sockets = HttpAnswer(503, {"title": "Later", "status": 503, "code": "later"})
            here.server.socket.abort()
            await until(lambda: not here.state.is_connected)
            here.shell.feed(TASK, CheckRequested(CheckReason.MANUAL_REFRESH))
            await until(lambda: here.state.is_verified)
            assert here.state.sync is SyncState.IDLE
            assert here.state.deadline is None

    run(story())


def test_the_board_is_joined_again_after_a_gap_and_only_news_is_told() -> None:
    line = TaskSummary(task_id=SessionId("ses_2"), version=1)

    async def story() -> None:
        async with world(is_open=False) as here:
            here.shell.want_board()
            here.shell.want_board()
            await until(lambda: here.shell.board.is_joined)
            assert len(here.watch.lines) == 1
            here.server.socket.send(BoardTask(tick=1, task=line))
            here.server.socket.send(BoardTask(tick=1, task=line))
            await until(lambda: len(here.watch.lines) == 2)
            here.room.board_tick = 7
            here.server.socket.send(BoardTask(tick=7, task=line))
            await until(lambda: len(boards(here)) == 2 and here.shell.board.tick == 7)
            here.server.socket.send(BoardBehind(tick=9))
            await until(lambda: len(boards(here)) == 3 and here.shell.board.is_joined)
            assert len(here.watch.lines) == 2
            await here.server.stop()
            here.room.restart()
            await here.server.start()
            await until(lambda: len(boards(here)) == 4)
            assert here.server.upgrades

    run(story())


def test_a_board_that_is_refused_is_asked_for_again() -> None:
    async def story() -> None:
        async with world(is_open=False) as here:
            real = here.server.on_request

            def refuse(socket: FakeSocket, request: Request) -> None:
                here.server.on_request = real
                problem = Problem(title="Too fast", status=429, code="too_many")
                socket.send(Refused(id=request.id, problem=problem))

            here.server.on_request = refuse
            here.shell.want_board()
            await until(lambda: here.shell.board.is_joined)

    run(story())


# Ends


def test_a_closed_task_leaves_its_room_and_hears_nothing() -> None:
    async def story() -> None:
        async with world() as here:
            await here.converge()
            here.shell.close_task(TASK)
            await until(lambda: any(isinstance(one, TaskLeave) for one in here.server.requests))
            await until(lambda: not here.room.members)
            chunk = ChatChunk(task_id=TASK, version=9, tick=9, stream_id=StreamId("s"), offset=0, text="x", at=AT)
            here.server.socket.send(chunk)
            await until(lambda: here.shell._machine.manager.dropped)
            assert here.shell.state(TASK) is None

    run(story())


def test_closing_leaves_nothing_behind() -> None:
    async def story() -> None:
        async with FakeServer() as server:
            room = FakeRoom(server)
            shell = ClientShell(fixed_address(server.url, TOKEN), patience=QUICK)
            shell.open(TASK, Watch())
            await until(lambda: room.members)
            server.on_http = lambda _: Silence
            shell.feed(TASK, CheckRequested(CheckReason.MANUAL_REFRESH))
            await until(lambda: shell._pulling)
            async with asyncio.timeout(QUICK.answer_seconds / 2):  # the check would wait for longer
                await shell.close()
            await server.stop()
            await until(lambda: not other_tasks(), "the end of every task", 30)
            with pytest.raises(UsageError, match="closed"):
                shell.open(TASK, Watch())

    run(story())


def test_a_step_that_leads_to_a_step_does_not_begin_before_its_end() -> None:
    """A join that cannot even be asked for fails at once, while the step that asked for it is under way."""

    async def story() -> None:
        async with world() as here:
            await here.converge()
            depth: list[int] = []

            def nested(before: TaskState, input: TaskInput, after: TaskState) -> None:
                depth.append(len(depth))
                if len(depth) == 1:
                    here.shell.feed(TASK, CheckRequested(CheckReason.PAGE_VISIBLE))
                    assert depth == [0]

            here.watch.stepped = nested  # type: ignore[method-assign]
            here.shell.feed(TASK, CheckRequested(CheckReason.MANUAL_REFRESH))
            assert len(depth) >= 2
            await asyncio.sleep(0)

    run(story())
