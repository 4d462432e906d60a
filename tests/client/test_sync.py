"""The client for scripts: the same answers from a thread of its own, which an interrupt and an end leave in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, signature

import pytest

from interlock.client.client import Client
from interlock.client.machine.state import SyncState, TaskState
from interlock.client.sync import LoopThread, SyncClient, SyncTask, SyncTurn, _Errand, connect
from interlock.client.task import TaskHandle
from interlock.client.turn import TurnHandle
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.states import TaskStatus, TurnState
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import ChatMessage, TaskStatusChanged
from interlock.vocabulary.wire.requests import ChatSend
from tests.client.fake_room import TASK, FakeRoom
from tests.client.fake_server import TOKEN, FakeServer
from tests.client.waiting import QUICK


@contextmanager
def served() -> Iterator[tuple[FakeServer, FakeRoom, Callable[[Callable[[], object]], None]]]:
    """A fake server in a loop of its own, and a way to make something happen there."""
    thread = LoopThread()
    server = FakeServer()
    room = FakeRoom(server)

    async def do(act: Callable[[], object]) -> None:
        act()

    try:
        thread.call(server.start())
        yield server, room, lambda act: thread.call(do(act))
    finally:
        thread.call(server.stop())
        thread.stop()


def clients_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "interlock client"]


def test_a_script_sends_waits_and_reads() -> None:
    with served() as (server, room, make), SyncClient(server.url, token=TOKEN, patience=QUICK) as client:
        task = client.task(TASK)
        task.wait(lambda state: state.sync is SyncState.JOINED, 10)
        prompt_id = task.send("hello")

        def finish() -> None:
            room.begin_turn("trn_1", prompt_id)
            room.add_message("hi")
            room.record("trn_1", TurnState.COMPLETED)
            room.set_status(TaskStatus.COMPLETED, "trn_1")

        frames = task.frames()
        threading.Timer(0.01, make, (finish,)).start()
        assert task.wait_turn(prompt_id, 20).state is TurnState.COMPLETED
        told = []
        for frame in frames:
            if isinstance(frame, ChatMessage):
                told.append(frame.message.text)
            if isinstance(frame, TaskStatusChanged) and frame.task_status is TaskStatus.COMPLETED:
                break
        assert told[-1] == "hi"
        assert [one.text for one in task.messages] == ["do it", "hi"]
        assert task.queue.waiting == ()
        assert task.approvals == ()
        assert next(task.changes()).status == TaskStatus.COMPLETED
        assert next(client.board()).task_id == TASK
        assert client.is_connected


def test_a_script_gives_a_prompt_its_reply_contract() -> None:
    with served() as (server, _, _make), SyncClient(server.url, token=TOKEN, patience=QUICK) as client:
        task = client.task(TASK)
        task.wait(lambda state: state.sync is SyncState.JOINED, 20)
        task.send("write", reply=ReplyContract(sentinel="w"))
        (sent,) = (one for one in server.requests if isinstance(one, ChatSend))
        assert sent.reply == ReplyContract(sentinel="w")


def test_errors_are_those_of_the_client() -> None:
    with served() as (server, room, make), SyncClient(server.url, token=TOKEN, patience=QUICK) as client:
        task = client.task(TASK)
        task.settled(10)  # what is gone while it is joined is refused at once, by `refresh` too
        with pytest.raises(TimeoutError, match="last known"):
            task.wait(lambda _: False, 0.05)
        make(lambda: setattr(room, "is_gone", True))
        task.refresh()
        with pytest.raises(UsageError, match="cannot be followed"):
            task.wait(lambda _: False, 10)


def test_an_iteration_ends_with_the_task() -> None:
    with served() as (server, _, _make), SyncClient(server.url, token=TOKEN, patience=QUICK) as client:
        task = client.task(TASK)
        changes = task.changes()
        next(changes)
        closing = threading.Thread(target=task.close)
        closing.start()
        for _ in changes:
            pass
        closing.join()


def test_after_close_no_thread_is_left_and_calls_say_so() -> None:
    with served() as (server, _, _make):
        before = len(clients_threads())
        client = SyncClient(server.url, token=TOKEN, patience=QUICK)
        task = client.task(TASK)
        assert len(clients_threads()) == before + 1
        client.close()
        client.close()
        assert len(clients_threads()) == before
        with pytest.raises(UsageError, match="closed"):
            task.send("hello")


def test_a_close_ends_the_waits_of_other_threads() -> None:
    with served() as (server, _, _make):
        client = SyncClient(server.url, token=TOKEN, patience=QUICK)
        task = client.task(TASK)
        ended: list[BaseException] = []

        def wait() -> None:
            try:
                task.wait(lambda _: False)
            except UsageError as error:
                ended.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        client.close()
        waiting.join(10)
        assert len(ended) == 1


def test_a_server_that_is_not_there_leaves_no_thread() -> None:
    before = len(clients_threads())
    with pytest.raises(Unreachable):
        connect()
    with pytest.raises(UsageError):
        SyncClient("nonsense", token=TOKEN)
    assert len(clients_threads()) == before


def test_a_callback_is_called_in_the_thread_of_the_caller_and_may_use_the_client() -> None:
    with served() as (server, room, make), SyncClient(server.url, token=TOKEN, patience=QUICK) as client:
        task = client.task(TASK)
        task.wait(lambda state: state.sync is SyncState.JOINED, 20)
        asked: list[tuple[threading.Thread, int]] = []

        def decide(_: Approval) -> bool:
            asked.append((threading.current_thread(), task.detail().summary.version))
            make(room.close_questions)
            make(lambda: room.add_message("done"))
            make(lambda: room.record("trn_1", TurnState.COMPLETED))
            make(lambda: room.set_status(TaskStatus.COMPLETED, "trn_1"))
            return True

        turn = task.run("hello", on_question=decide)
        make(lambda: room.begin_turn("trn_1", turn.prompt_id))
        make(lambda: room.ask("apr_1"))
        make(lambda: room.set_status(TaskStatus.PENDING_CONFIRMATION, "trn_1"))
        assert turn.answer(20) == "done"
        assert [thread for thread, _ in asked] == [threading.current_thread()]


def test_an_interrupt_ends_the_wait_and_nothing_else() -> None:
    with served() as (server, _, _make), SyncClient(server.url, token=TOKEN, patience=QUICK) as client:
        task = client.task(TASK)
        task.wait(lambda state: state.sync is SyncState.JOINED, 10)
        pressed = threading.Event()

        def interrupt(_: TaskState) -> bool:
            """Called in the loop, while the script waits: only then is it safe to press Ctrl-C here."""
            if not pressed.is_set():
                pressed.set()
                os.kill(os.getpid(), signal.SIGINT)
            return False

        with pytest.raises(KeyboardInterrupt):
            task.wait(interrupt)

        async def left() -> list[str]:
            return [name for one in asyncio.all_tasks() if "TaskHandle" in (name := repr(one.get_coro()))]

        for _ in range(1000):
            if not client._thread.call(left()):
                break
        else:
            raise AssertionError("the wait goes on in the loop")
        assert task.state.sync is SyncState.JOINED


def test_an_interrupt_before_the_work_has_begun_ends_it_too() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("begun")

    async def story() -> None:
        errand = _Errand(work())
        errand.end()
        with pytest.raises(asyncio.CancelledError):
            await errand.run()

    asyncio.run(story())
    assert not begun


def test_a_script_that_forgets_to_close_ends() -> None:
    script = "from interlock import SyncClient; SyncClient('http://127.0.0.1:9', token='t'); print('over')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout == "over\n"


@pytest.mark.parametrize(("facade", "original"), [(SyncTask, TaskHandle), (SyncClient, Client), (SyncTurn, TurnHandle)])
def test_the_facade_has_every_call_with_the_same_parameters(facade: type, original: type) -> None:
    within = {"wake", "stepped", "is_open", "in_time", "new_bell", "followed", "next", "soon", "ended"}
    left_out = within | ({"decide"} if original is TurnHandle else set())
    names = {name for name in vars(original) if not name.startswith("_")} - left_out
    assert names <= set(vars(facade)) | {"first_prompt", "task_id"}
    for name in names:
        given = vars(original)[name]
        if callable(given):
            assert _parameters(getattr(facade, name)) == _parameters(getattr(original, name)), name


def _parameters(call: Callable[..., object]) -> list[tuple[str, object, object]]:
    found: list[Parameter] = list(signature(call).parameters.values())
    return [(one.name, one.kind, one.default) for one in found]
