"""Seams under attack: callers that give up, servers that lie, a client that is closed or dropped in the middle."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from weakref import ref

import msgspec
import pytest

from interlock.client.machine.client_machine import PushedFrame
from interlock.client.sync import LoopThread, SyncClient
from interlock.client.transport.connection import Connection
from interlock.client.transport.discovery import Address, FoundServer, base_url, fixed_address
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.states import TaskStatus, TurnState
from interlock.vocabulary.wire.requests import ChatCancel
from tests.client.fake_room import FakeRoom
from tests.client.fake_server import TOKEN, Answering, FakeServer, HttpAnswer, HttpCall
from tests.client.test_client import PROMPT, world
from tests.client.test_connection import chunk
from tests.client.waiting import QUICK, until
from tests.contract.harness import run
from tests.task_scenarios.words import said

# Callers that give up


def test_a_cancel_that_nobody_waits_for_any_more_does_not_stick() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            here.room.begin_turn("trn_1", PROMPT)
            here.room.say("text")
            await task.wait(lambda state: state.stream is not None, 10)
            here.server.on_request = lambda _socket, _request: None
            pressed = asyncio.create_task(task.cancel())
            await until(lambda: task.state.is_stopping)
            pressed.cancel()
            await asyncio.gather(pressed, return_exceptions=True)
            assert not task.state.is_stopping, "whether it was taken is for the server to say"

    run(story())


def test_a_cancel_of_no_turn_is_sent_in_one_way_only() -> None:
    """Said twice without a name, it could end a turn that began in between. By HTTP its key keeps it from that."""

    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            await task.cancel()
            assert not [one for one in here.server.requests if isinstance(one, ChatCancel)]
            (call,) = [one for one in here.server.calls if one.path.endswith("/cancel")]
            assert call.headers["idempotency-key"]

    run(story())


def test_a_command_that_a_close_meets_says_so() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            here.server.on_request = lambda _socket, _request: None
            sending = asyncio.create_task(task.send("hello"))
            await until(lambda: any(one.id for one in here.server.requests if one.__class__.__name__ == "ChatSend"))
            await here.client.close()
            (ended,) = await asyncio.gather(sending, return_exceptions=True)
            assert isinstance(ended, UsageError | Unreachable), repr(ended)

    run(story())


def test_a_closed_client_asks_nobody() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            await here.client.close()
            asked = len(here.server.calls)
            for ask in (here.client.tasks, task.turns, task.start):
                with pytest.raises(UsageError, match="closed"):
                    await ask()
            assert len(here.server.calls) == asked

    run(story())


def test_a_closed_task_is_not_kept() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            gone = ref(task)
            task.close()
            del task
            gc.collect()
            assert gone() is None, "with its whole transcript, for as long as the client lives"

    run(story())


def test_a_task_that_is_only_followed_is_kept() -> None:
    async def story() -> None:
        async with world() as here:
            await here.joined()
            gc.collect()
            assert here.task().state.tick is not None

    run(story())


# Servers that lie


def endless(call: HttpCall) -> HttpAnswer:
    before = dict(one.split("=") for one in call.target.partition("?")[2].split("&") if one).get("before", "0")
    return HttpAnswer(body={"items": [], "next": str(int(before) + 1)})


def repeating(call: HttpCall) -> Answering:
    """Always the same page, under another name each time."""
    again: dict[str, Json] = msgspec.to_builtins(said(7, "again"))
    following = endless(call).body
    assert isinstance(following, dict)
    return HttpAnswer(body={"items": [again], "next": following["next"]})


@pytest.mark.parametrize("lie", [endless, repeating])
def test_a_transcript_without_an_end_is_not_read_for_ever(lie: Callable[[HttpCall], Answering]) -> None:
    async def story() -> None:
        async with world() as here:
            here.room.set_status(TaskStatus.COMPLETED, "trn_0")
            task = await here.joined()
            honest = here.server.on_http
            here.server.on_http = lambda call: lie(call) if call.path.endswith("/messages") else honest(call)
            with pytest.raises(PeerFault, match="older"):
                await task.wait_turn(PROMPT, 10)

    run(story())


def test_a_hole_without_an_end_is_not_read_for_ever() -> None:
    async def story() -> None:
        async with world() as here:
            here.room.limit = 2
            for number in range(6):
                here.room.add_message(f"message {number}")
            here.room.set_status(TaskStatus.COMPLETED, "trn_0")
            honest = here.server.on_http
            here.server.on_http = lambda call: endless(call) if call.path.endswith("/messages") else honest(call)
            task = await here.joined()
            with pytest.raises(PeerFault, match="older"):
                async with asyncio.timeout(100):
                    await anext(task.frames(history=True))

    run(story())


def test_what_was_waiting_before_a_loss_is_not_said_to_wait_now() -> None:
    """A record that runs, and a word from before the loss that it waits for somebody: nobody is told that it does."""

    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            here.room.begin_turn("trn_1", PROMPT)
            here.room.set_status(TaskStatus.PENDING_CONFIRMATION, "trn_1")
            await task.wait(lambda state: state.status == TaskStatus.PENDING_CONFIRMATION, 10)
            here.room.record("trn_1", TurnState.RUNNING)
            honest = here.server.on_http
            down = HttpAnswer(503, {"title": "Not now", "status": 503, "code": "busy"})
            here.server.on_http = lambda call: down if call.path.endswith("/runtime-check") else honest(call)
            here.server.refuse_sockets = down
            here.server.socket.abort()
            await task.wait(lambda state: not state.is_verified, 10)
            with pytest.raises(TimeoutError):
                await task.wait_turn(PROMPT, 0.3, until_blocked=True)

    run(story())


# Secrets


def test_no_token_is_logged_or_repeated(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            await task.send("hello")
            assert TOKEN not in repr(here.client) + repr(task) + repr(task.state) + repr(vars(here.client))

    with caplog.at_level(logging.DEBUG):
        run(story())
    assert TOKEN not in caplog.text
    with pytest.raises(UsageError) as refused:
        base_url("http://127.0.0.1/?token=hush-hush")
    assert "hush" not in str(refused.value)


# The connection


def test_after_a_bug_it_can_be_revived() -> None:
    async def story() -> None:
        def fail(_: PushedFrame) -> None:
            raise ZeroDivisionError

        async with FakeServer() as server:
            connection = Connection(
                fixed_address(server.url, TOKEN), on_push=fail, on_edge=lambda *_: None, patience=QUICK
            )
            connection.ensure()
            await until(lambda: connection.is_connected)
            server.socket.send(chunk(1))
            await until(lambda: connection.problem)
            connection.revive()
            await until(lambda: connection.is_connected)
            await connection.close()

    run(story())


def test_a_stranger_at_the_old_port_does_not_hide_the_server() -> None:
    async def story() -> None:
        async with FakeServer() as stranger, FakeServer() as server:
            stranger.refuse_sockets = HttpAnswer(404, {"title": "What?", "status": 404, "code": "no"})
            found = [stranger]
            address = Address(lambda: FoundServer(found[0].url, TOKEN))
            connection = Connection(address, on_push=lambda _: None, on_edge=lambda *_: None, patience=QUICK)
            connection.ensure()
            await until(lambda: connection.problem)
            found[0] = server
            connection.revive()
            await until(lambda: connection.is_connected)
            assert server.sockets
            await connection.close()

    run(story())


# Threads


def test_whoever_calls_while_it_is_closed_is_told_and_never_left_waiting() -> None:
    """Each round is a race that the close must win in every way that it can be run."""
    for _ in range(30):
        thread = LoopThread()
        begun, ended = threading.Event(), threading.Event()

        def ask(thread: LoopThread = thread, begun: threading.Event = begun, ended: threading.Event = ended) -> None:
            async def answer() -> int:
                return 1

            try:
                while True:
                    assert thread.call(answer()) == 1
                    begun.set()
            except UsageError:
                ended.set()

        callers = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        for caller in callers:
            caller.start()
        assert begun.wait(10)
        thread.stop()
        for caller in callers:
            caller.join(10)
        assert not any(caller.is_alive() for caller in callers), "somebody waits for a loop that is gone"
        assert ended.is_set()


def test_whoever_comes_after_the_end_was_asked_for_is_turned_away() -> None:
    thread = LoopThread()
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        may_go.wait(10)

    async def answer() -> int:
        return 1

    thread._loop.call_soon_threadsafe(hold)
    assert is_held.wait(10)
    stopping = threading.Thread(target=thread.stop)
    stopping.start()
    for _ in range(10_000):
        if thread._is_stopping:
            break
        may_go.wait(0.001)
    threading.Timer(0.1, may_go.set).start()  # else a call that was let in would wait for us, and we for it
    with pytest.raises(UsageError, match="is closed"):
        thread.call(answer())
    may_go.set()
    stopping.join(10)
    assert not stopping.is_alive()


def test_a_call_into_a_loop_that_ended_by_itself_is_refused() -> None:
    thread = LoopThread()
    thread._loop.call_soon_threadsafe(thread._loop.stop)
    thread._thread.join(10)

    async def answer() -> int:
        return 1

    with pytest.raises(UsageError, match="closed"):
        thread.call(answer())


def test_closing_from_two_threads_at_once_is_closing() -> None:
    server = LoopThread()
    fake = FakeServer()
    room = FakeRoom(fake)
    server.call(fake.start())
    try:
        for _ in range(10):
            client = SyncClient(fake.url, token=TOKEN, patience=QUICK)
            client.task(room.check().task_id)
            failed: list[BaseException] = []

            def close(client: SyncClient = client, failed: list[BaseException] = failed) -> None:
                try:
                    client.close()
                except BaseException as error:
                    failed.append(error)

            closers = [threading.Thread(target=close) for _ in range(3)]
            for closer in closers:
                closer.start()
            for closer in closers:
                closer.join(20)
            assert not failed
    finally:
        server.call(fake.stop())
        server.stop()


def test_a_close_that_returns_has_closed_also_where_another_one_began() -> None:
    """Who returned earlier ended the loop, and with it the farewell of the other: its socket was left open."""

    async def story() -> None:
        async with world() as here:
            await here.joined()
            await until(lambda: here.client.is_connected)
            first, second = (asyncio.create_task(here.client.close()) for _ in range(2))
            await second
            assert not [one for one in asyncio.all_tasks() if one.get_name() == "interlock connection"]
            await first

    run(story())
