"""The client for scripts: the same calls, without `async`. One thread runs the loop that does the work.

with connect() as client:
    print(client.run("claude", "Which tests are slow?").answer())

Laws:
1. Nothing is kept here: each call is one call of the async client, and what that says is what is said.
2. An interrupt (Ctrl-C) ends the wait that it meets, here and in the loop, and nothing else.
3. After `close` no thread is left. A program that forgets it can end all the same.
4. A callback is called in the thread of the caller, and may use the client.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar

from interlock.client.children import TaskChildren
from interlock.client.client import Client
from interlock.client.machine.state import TaskState
from interlock.client.outcome import TurnOutcome, answer_of, check_completed, open_questions
from interlock.client.plans import Plans, WorkflowHandle
from interlock.client.task import TaskHandle
from interlock.client.timeouts import ClientTimeouts
from interlock.client.transport.discovery import Address, fixed_address, server_address
from interlock.client.turn import OnQuestion, TurnHandle
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import Message, QueueView, TaskFrame, TaskSummary
from interlock.vocabulary.wire.requests import AccessRole

T = TypeVar("T")

CLOSING_SECONDS: Final = 10.0
_END: Final = object()


class _Errand(Generic[T]):
    """One piece of work in the loop. An interrupt may come at any moment, also before the work has begun there."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_ended = False

    async def run(self) -> T:
        if self._is_ended:
            self._work.close()
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._work

    def drop(self) -> None:
        """It will not be done."""
        self._work.close()

    def end(self) -> None:
        """Called in the loop."""
        self._is_ended = True
        if self._task is not None:
            self._task.cancel()


class LoopThread:
    """A loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._door = threading.Lock()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="interlock client", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in the loop, and wait for it. Whatever ends the wait ends the work."""
        errand = _Errand(work)
        try:
            return self._begin(errand).result()
        except CancelledError as ended:
            errand.drop()  # it may have been ended before it began
            raise UsageError("this client was closed meanwhile", remedy="make a new one") from ended
        except BaseException:
            with suppress(RuntimeError):  # the loop is gone, and the work with it
                self._loop.call_soon_threadsafe(errand.end)
            raise

    def _begin(self, errand: _Errand[T]) -> Future[T]:
        """Hand it to the loop. Whatever came in before the door was shut is done or ended; nothing comes in after."""
        with self._door:
            is_open = self._thread.is_alive() and not self._is_stopping
            if is_open and threading.current_thread() is not self._thread:
                return asyncio.run_coroutine_threadsafe(errand.run(), self._loop)
        errand.drop()
        raise UsageError("this client is closed, or was called from its own loop", remedy="make a new one")

    def iterate(self, make: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """What an async iterator gives, one by one."""

        async def begin() -> AsyncIterator[T]:
            return make()

        async def advance(source: AsyncIterator[T]) -> T | object:
            return await anext(source, _END)

        source = self.call(begin())  # now, and not when the first is asked for: nothing in between is missed

        def give() -> Iterator[T]:
            while (item := self.call(advance(source))) is not _END:
                yield item  # type: ignore[misc]

        return give()

    def stop(self) -> None:
        """End the loop and its thread."""
        with self._door:
            is_first, self._is_stopping = not self._is_stopping, True
            if is_first and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


P = ParamSpec("P")
InnerT = TypeVar("InnerT")
InnerT_co = TypeVar("InnerT_co", covariant=True)


class _Facing(Protocol[InnerT_co]):
    """Something that stands for an object of the loop."""

    @property
    def _thread(self) -> LoopThread: ...
    @property
    def _inner(self) -> InnerT_co: ...


def blocking(
    method: Callable[Concatenate[InnerT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Facing[InnerT], P], T]:
    """The same method, waited for."""

    @wraps(method)
    def call(self: _Facing[InnerT], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(method(self._inner, *args, **kwargs))

    return call


def in_loop(method: Callable[Concatenate[InnerT, P], T]) -> Callable[Concatenate[_Facing[InnerT], P], T]:
    """The same method, called in the loop, where nothing changes meanwhile."""

    @wraps(method)
    def call(self: _Facing[InnerT], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(_get(lambda: method(self._inner, *args, **kwargs)))

    return call


async def _get(look: Callable[[], T]) -> T:
    return look()


class SyncTurn:
    """The turn of one prompt, as `TurnHandle`."""

    def __init__(self, thread: LoopThread, turn: TurnHandle, on_question: OnQuestion | None) -> None:
        self._thread = thread
        self._inner = turn
        self._on_question = on_question
        self.prompt_id = turn.prompt_id
        self.task = SyncTask(thread, turn.task)

    cancel = blocking(TurnHandle.cancel)

    def outcome(self, timeout: float | None = None) -> TurnOutcome:
        """Wait until the turn is over, or cannot be waited for, and say how it stands."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            found = self._thread.call(self._inner.soon(left))
            if isinstance(found, TurnOutcome):
                return found
            self._take(found)

    def answer(self, timeout: float | None = None, *, unverified: bool = False) -> str:
        """The answer of a turn that completed; for any other turn, the `TurnError` that says how it stands. With
        `unverified`, also text that was read off a screen. `TimeoutError`: the wait was bounded, the turn goes on."""
        return answer_of(self.outcome(timeout), unverified=unverified)

    def text(self) -> Iterator[str]:
        """The text of the turn, piece by piece as it is written. It ends when the turn completed; a turn that ended in
        any other way raises its `TurnError` behind the last piece."""
        while True:
            found = self._thread.call(self._inner.next(with_text=True))
            if isinstance(found, TurnOutcome):
                check_completed(found)
                return
            if isinstance(found, str):
                yield found
            self._take(found)

    def _take(self, found: str | Approval) -> None:
        if isinstance(found, Approval):
            verdict = None if self._on_question is None else self._on_question(found)
            self._thread.call(self._inner.decide(found, verdict))


def _pass_on(_: Approval) -> None:
    """Questions are wanted, and answered in the caller's thread."""


class SyncChildren:
    """The children of a task, as `TaskChildren`."""

    def __init__(self, thread: LoopThread, inner: TaskChildren) -> None:
        self._thread = thread
        self._inner = inner

    list = blocking(TaskChildren.list)
    start = blocking(TaskChildren.start)
    wait = blocking(TaskChildren.wait)
    cancel = blocking(TaskChildren.cancel)


class SyncWorkflow:
    """One workflow, as `WorkflowHandle`."""

    def __init__(self, thread: LoopThread, inner: WorkflowHandle) -> None:
        self._thread = thread
        self._inner = inner
        self.workflow_id = inner.workflow_id
        self.session_id = inner.session_id

    outcome = blocking(WorkflowHandle.outcome)
    wait = blocking(WorkflowHandle.wait)
    answer = blocking(WorkflowHandle.answer)
    release = blocking(WorkflowHandle.release)
    give_up = blocking(WorkflowHandle.give_up)
    stop = blocking(WorkflowHandle.stop)


class SyncPlans:
    """The plans of a server, as `Plans`."""

    def __init__(self, thread: LoopThread, inner: Plans) -> None:
        self._thread = thread
        self._inner = inner

    list = blocking(Plans.list)
    _run = blocking(Plans.run)

    def run(
        self,
        plan: str | Path,
        *,
        params: Mapping[str, Json] | None = None,
        cwd: str | Path | None = None,
        workflow_id: str = "",
    ) -> SyncWorkflow:
        """Run a plan: see `Plans.run`."""
        begun = self._run(plan, params=params, cwd=cwd, workflow_id=workflow_id)
        return SyncWorkflow(self._thread, begun)

    def get(self, workflow_id: str) -> SyncWorkflow:
        """A workflow by its id."""
        return SyncWorkflow(self._thread, self._inner.get(workflow_id))


class SyncTask:
    """A task that is followed, as `TaskHandle`."""

    def __init__(self, thread: LoopThread, handle: TaskHandle) -> None:
        self._thread = thread
        self._inner = handle
        self.task_id = handle.task_id
        self.children = SyncChildren(thread, handle.children)

    @property
    def first_prompt(self) -> PromptId | None:
        return self._inner.first_prompt

    @property
    def state(self) -> TaskState:
        return self._thread.call(_get(lambda: self._inner.state))

    @property
    def queue(self) -> QueueView:
        return self.state.queue

    @property
    def approvals(self) -> tuple[Approval, ...]:
        return open_questions(self.state.approvals)

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.state.transcript

    detail = blocking(TaskHandle.detail)
    turns = blocking(TaskHandle.turns)
    turn = blocking(TaskHandle.turn)
    message_page = blocking(TaskHandle.message_page)
    why = blocking(TaskHandle.why)
    screen = blocking(TaskHandle.screen)
    turn_changes = blocking(TaskHandle.turn_changes)
    diff = blocking(TaskHandle.diff)
    review_file = blocking(TaskHandle.review_file)
    state_document = blocking(TaskHandle.state_document)
    wait = blocking(TaskHandle.wait)
    settled = blocking(TaskHandle.settled)
    wait_turn = blocking(TaskHandle.wait_turn)
    refresh = blocking(TaskHandle.refresh)
    send = blocking(TaskHandle.send)
    edit = blocking(TaskHandle.edit)
    remove = blocking(TaskHandle.remove)
    gate = blocking(TaskHandle.gate)
    cancel = blocking(TaskHandle.cancel)
    decide = blocking(TaskHandle.decide)
    start = blocking(TaskHandle.start)
    stop = blocking(TaskHandle.stop)
    mark_seen = blocking(TaskHandle.mark_seen)
    rename = blocking(TaskHandle.rename)
    delete = blocking(TaskHandle.delete)
    queued_message_blocked = in_loop(TaskHandle.queued_message_blocked)
    sync_task_detail = in_loop(TaskHandle.sync_task_detail)
    close = in_loop(TaskHandle.close)

    def changes(self) -> Iterator[TaskState]:
        return self._thread.iterate(self._inner.changes)

    def frames(self, *, history: bool = False) -> Iterator[TaskFrame]:
        return self._thread.iterate(lambda: self._inner.frames(history=history))

    def run(
        self,
        prompt: str,
        *,
        reply: ReplyContract | None = None,
        on_question: OnQuestion | None = None,
        wait_for_person: bool = False,
    ) -> SyncTurn:
        """Send a prompt, and return its turn: see `follow`."""
        return self.follow(self.send(prompt, reply=reply), on_question=on_question, wait_for_person=wait_for_person)

    def follow(
        self, prompt_id: PromptId, *, on_question: OnQuestion | None = None, wait_for_person: bool = False
    ) -> SyncTurn:
        """The turn of a prompt that was sent. `on_question` is given each question of the task once, and answers it."""
        taken = None if on_question is None else _pass_on
        work = _get(lambda: self._inner.follow(prompt_id, on_question=taken, wait_for_person=wait_for_person))
        return SyncTurn(self._thread, self._thread.call(work), on_question)


def _opening(
    method: Callable[Concatenate[InnerT, P], Coroutine[Any, Any, TaskHandle]],
) -> Callable[Concatenate[_Facing[InnerT], P], SyncTask]:
    """The same method, waited for, with a task of ours."""

    @wraps(method)
    def call(self: _Facing[InnerT], /, *args: P.args, **kwargs: P.kwargs) -> SyncTask:
        return SyncTask(self._thread, self._thread.call(method(self._inner, *args, **kwargs)))

    return call


class SyncClient:
    """Use it as a context manager; `connect()` makes one."""

    def __init__(
        self,
        url: str | Address,
        *,
        token: str = "",
        patience: ClientTimeouts | None = None,
        home: str | Path | None = None,
    ) -> None:
        address = fixed_address(url, token) if isinstance(url, str) else url
        self._thread = LoopThread()
        self._inner = self._thread.call(_get(lambda: Client(address, patience=patience, home=home)))
        self.plans = SyncPlans(self._thread, self._inner.plans)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Follow nothing any more, and end the thread. Tasks go on."""
        try:
            with suppress(UsageError):  # somebody else closes it at the same time, or has
                self._thread.call(self._inner.close())
        finally:
            self._thread.stop()

    @property
    def is_connected(self) -> bool:
        return self._inner.is_connected

    @property
    def problem(self) -> InterlockError | None:
        """Why there will be no socket, until `refresh`."""
        return self._inner.problem

    server = blocking(Client.server)
    tasks = blocking(Client.tasks)
    search = blocking(Client.search)
    approvals = blocking(Client.approvals)
    refresh = in_loop(Client.refresh)
    page_visible = in_loop(Client.page_visible)
    network_online = in_loop(Client.network_online)
    _task = in_loop(Client.task)

    def board(self) -> Iterator[TaskSummary]:
        return self._thread.iterate(self._inner.board)

    def task(self, task_id: SessionId | str) -> SyncTask:
        """Follow a task."""
        return SyncTask(self._thread, self._task(task_id))

    open_task = _opening(Client.open_task)

    def run(
        self,
        agent: str,
        prompt: str,
        *,
        cwd: str | Path | None = None,
        mode: str = "",
        model: str = "",
        title: str = "",
        worktree: str | bool = False,
        base: str = "",
        reply: ReplyContract | None = None,
        on_question: OnQuestion | None = None,
        wait_for_person: bool = False,
    ) -> SyncTurn:
        """Start an agent of the configuration with a prompt, and return its turn: see `Client.run`. `on_question` is
        called in this thread, while the turn is waited for."""
        work = self._inner.run(
            agent,
            prompt,
            cwd=cwd,
            mode=mode,
            model=model,
            title=title,
            worktree=worktree,
            base=base,
            reply=reply,
            on_question=None if on_question is None else _pass_on,
            wait_for_person=wait_for_person,
        )
        return SyncTurn(self._thread, self._thread.call(work), on_question)


def connect(
    home: str | Path | None = None,
    *,
    url: str = "",
    token: str = "",
    role: AccessRole = AccessRole.OPERATOR,
    patience: ClientTimeouts | None = None,
) -> SyncClient:
    """A client without `async`: see `connect_async`."""
    return SyncClient(server_address(home, url, token, role), patience=patience, home=home)
