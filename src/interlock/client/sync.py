"""The client for scripts: the same calls, without `async`. One thread runs the loop that does the work.

with SyncClient.of_home() as client:
    task = client.task(task_id)
    print(task.wait_turn(task.send("make the test pass")).state)

Laws:
1. Nothing is kept here: each call is one call of the async client, and what that says is what is said.
2. An interrupt (Ctrl-C) ends the wait that it meets, here and in the loop, and nothing else.
3. After `close` no thread is left. A program that forgets it can end all the same.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from interlock.client.client import Client
from interlock.client.machine.state import TaskState
from interlock.client.shapes import AgentStanding, ApprovalStanding, Cancelled, Page, PromptStanding, ServerInfo
from interlock.client.task import TaskHandle
from interlock.client.timeouts import ClientTimeouts
from interlock.client.transport.discovery import Address, fixed_address, home_address
from interlock.lifecycle.turns import TurnRecord
from interlock.projections.why import Explanation
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import Message, QueueView, StateDocument, TaskFrame, TaskSummary
from interlock.vocabulary.wire.requests import AccessRole
from interlock.vocabulary.wire.task_screen import TaskScreen

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


class SyncTask:
    """A task that is followed, as `TaskHandle`."""

    def __init__(self, thread: LoopThread, handle: TaskHandle) -> None:
        self._thread = thread
        self._handle = handle
        self.task_id = handle.task_id

    @property
    def first_prompt(self) -> PromptId | None:
        return self._handle.first_prompt

    @property
    def state(self) -> TaskState:
        return self._thread.call(self._get(lambda: self._handle.state))

    @property
    def queue(self) -> QueueView:
        return self.state.queue

    @property
    def approvals(self) -> tuple[Approval, ...]:
        return self._thread.call(self._get(lambda: self._handle.approvals))

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.state.transcript

    def turns(self) -> tuple[TurnRecord, ...]:
        return self._thread.call(self._handle.turns())

    def turn(self, turn_id: TurnId) -> TurnRecord:
        return self._thread.call(self._handle.turn(turn_id))

    def message_page(self, *, before: str | int | None = None, limit: int = 200) -> Page[Message]:
        return self._thread.call(self._handle.message_page(before=before, limit=limit))

    def why(self, turn_id: TurnId | None = None) -> Explanation:
        return self._thread.call(self._handle.why(turn_id))

    def screen(self, since: str = "") -> TaskScreen:
        return self._thread.call(self._handle.screen(since))

    def state_document(self) -> StateDocument:
        return self._thread.call(self._handle.state_document())

    def changes(self) -> Iterator[TaskState]:
        return self._thread.iterate(self._handle.changes)

    def frames(self, *, history: bool = False) -> Iterator[TaskFrame]:
        return self._thread.iterate(lambda: self._handle.frames(history=history))

    def wait(self, until: Callable[[TaskState], bool], timeout: float | None = None) -> TaskState:
        """Wait for a state. `until` is called in the client's thread, and must not wait."""
        return self._thread.call(self._handle.wait(until, timeout))

    def settled(self, timeout: float | None = None) -> TaskState:
        return self._thread.call(self._handle.settled(timeout))

    def wait_turn(
        self, prompt_id: PromptId, timeout: float | None = None, *, until_blocked: bool = False
    ) -> TurnRecord:
        return self._thread.call(self._handle.wait_turn(prompt_id, timeout, until_blocked=until_blocked))

    def refresh(self) -> None:
        self._thread.call(self._handle.refresh())

    def send(self, text: str, *, prompt_id: PromptId | None = None, reply: ReplyContract | None = None) -> PromptId:
        return self._thread.call(self._handle.send(text, prompt_id=prompt_id, reply=reply))

    def edit(self, prompt_id: PromptId, text: str) -> PromptStanding:
        return self._thread.call(self._handle.edit(prompt_id, text))

    def remove(self, prompt_id: PromptId) -> PromptStanding:
        return self._thread.call(self._handle.remove(prompt_id))

    def gate(self, *, is_open: bool, reason: str = "") -> None:
        self._thread.call(self._handle.gate(is_open=is_open, reason=reason))

    def cancel(self, turn_id: TurnId | None = None, *, is_forced: bool = False) -> Cancelled:
        return self._thread.call(self._handle.cancel(turn_id, is_forced=is_forced))

    def decide(
        self,
        approval_id: str,
        *,
        is_allowed: bool,
        option: str = "",
        text: str = "",
        data: Json = None,
        decision_id: str = "",
    ) -> ApprovalStanding:
        work = self._handle.decide(
            approval_id, is_allowed=is_allowed, option=option, text=text, data=data, decision_id=decision_id
        )
        return self._thread.call(work)

    def start(self) -> AgentStanding:
        return self._thread.call(self._handle.start())

    def stop(self) -> AgentStanding:
        return self._thread.call(self._handle.stop())

    def delete(self) -> None:
        self._thread.call(self._handle.delete())

    def close(self) -> None:
        self._thread.call(self._get(self._handle.close))

    async def _get(self, look: Callable[[], T]) -> T:
        """Look in the loop, where nothing changes meanwhile."""
        return look()


class SyncClient:
    """Use it as a context manager."""

    def __init__(self, url: str | Address, *, token: str = "", patience: ClientTimeouts | None = None) -> None:
        address = fixed_address(url, token) if isinstance(url, str) else url
        self._thread = LoopThread()
        self._client = self._thread.call(_make(address, patience))

    @classmethod
    def of_home(
        cls, home: Path | None = None, *, role: AccessRole = AccessRole.OPERATOR, patience: ClientTimeouts | None = None
    ) -> Self:
        """A client of the server that runs in a home folder."""
        address = home_address(home, role=role)
        _ = address.found
        return cls(address, patience=patience)

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
                self._thread.call(self._client.close())
        finally:
            self._thread.stop()

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    def server(self) -> ServerInfo:
        return self._thread.call(self._client.server())

    def tasks(self) -> tuple[TaskSummary, ...]:
        return self._thread.call(self._client.tasks())

    def approvals(self) -> tuple[Approval, ...]:
        return self._thread.call(self._client.approvals())

    def board(self) -> Iterator[TaskSummary]:
        return self._thread.iterate(self._client.board)

    def task(self, task_id: SessionId | str) -> SyncTask:
        async def open_handle() -> TaskHandle:
            return self._client.task(task_id)

        return SyncTask(self._thread, self._thread.call(open_handle()))

    def open_task(
        self,
        *,
        agent: str,
        driver: str,
        argv: Iterable[str] = (),
        cwd: str | Path | None = None,
        model: str = "",
        options: Mapping[str, Json] | None = None,
        environment: Mapping[str, str] | None = None,
        title: str = "",
        policy: Mapping[str, bool | int | float | None] | None = None,
        prompt: str | None = None,
        reply: ReplyContract | None = None,
        task_id: SessionId | None = None,
    ) -> SyncTask:
        """Open a task and follow it."""
        work = self._client.open_task(
            agent=agent,
            driver=driver,
            argv=argv,
            cwd=cwd,
            model=model,
            options=options,
            environment=environment,
            title=title,
            policy=policy,
            prompt=prompt,
            reply=reply,
            task_id=task_id,
        )
        return SyncTask(self._thread, self._thread.call(work))


async def _make(address: Address, patience: ClientTimeouts | None) -> Client:
    return Client(address, patience=patience)
