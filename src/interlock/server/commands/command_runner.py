"""How commands are carried out: whole, in time, and seen before they are answered. The laws are those of `commands`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from interlock.agents.port import ProcessIdentity
from interlock.runtime.children.step_work import mark_of_home
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.supervisor import Supervisor
from interlock.runtime.session_fold import SessionFold
from interlock.server.http.problems import AskedByAgent, Deadline, NotSupervised, RequestRefusal, UnknownTask
from interlock.server.live.hub import Hub
from interlock.server.peer_process import PeerConnection, sender_of
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import TaskStatus

SHOW_SECONDS: Final = 2.0
_logger: Final = logging.getLogger("interlock.server")

T = TypeVar("T")


def _leader_of(book: SessionFold) -> ProcessIdentity | None:
    spawn = book.spawn
    pid = None if spawn is None else spawn.event.pid
    return None if spawn is None or pid is None else ProcessIdentity(pid, spawn.event.start_time)


class Performer:
    """The hands of `Commands`."""

    def __init__(self, runtime: Runtime, hub: Hub, settings: ServerSettings) -> None:
        self._runtime = runtime
        self._hub = hub
        self._settings = settings
        self._running: set[asyncio.Task[Any]] = set()
        self._locks: dict[SessionId, asyncio.Lock] = {}

    async def close(self) -> None:
        """Break off what still runs. What is in the log stays, and recovery does the rest."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _supervised(self, task_id: SessionId) -> Supervisor:
        """Whoever runs a task. Whoever asks for one that nobody runs is told what to do."""
        if task_id in self._runtime.sessions:
            supervisor = self._runtime.supervisor(task_id)
            if not supervisor.is_over:
                return supervisor
        view = self._hub.view(task_id)
        if view is None:
            raise UnknownTask(task_id)
        if view.status is TaskStatus.DELETE:
            raise RequestRefusal(f"task {task_id} is deleted", remedy="open another one")
        raise NotSupervised(task_id)

    async def refuse_agents(self, connection: PeerConnection | None, *, but: SessionId | None = None) -> None:
        """Refuse what a process of an agent or of a step asks, whatever it says of itself, and note that in the log of
        its session. `but`: the session whose agent may ask it."""
        books = [self._runtime.supervisor(one).book for one in self._runtime.sessions]
        of = {book.spawn.spawn_id: book for book in books if book.spawn is not None}
        if connection is None:
            return
        spawns = {spawn_id: _leader_of(book) for spawn_id, book in of.items()}
        marks = tuple(mark_of_home(one) for one in self._runtime.home.owned)
        sender = await asyncio.to_thread(sender_of, connection, spawns, marks)
        if sender is None or (sender in of and of[sender].session_id == but):
            return
        if sender in of:
            message = f"a process of spawn {sender} asked for what a person decides; it was refused"
            with suppress(InterlockError):
                await self._runtime.supervisor(of[sender].session_id).record(
                    Anomaly(kind="asked_by_agent", source="server", message=message)
                )
        raise AskedByAgent(
            f"a process of {sender} asks for this", remedy="a person decides it, in a terminal of their own"
        )

    async def _awake(self, task_id: SessionId) -> None:
        """Have a task here, and run, if it is at rest or under recovery: as long as a command may take."""
        await self._in_time(self._wake(task_id))

    async def _wake(self, task_id: SessionId) -> None:
        view = await self._hub.open(task_id)
        if view is not None and view.status is not TaskStatus.DELETE:
            await self._runtime.wake(task_id)

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Let it be done, and wait for it as long as a command may take."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(_take_note)
        done, _ = await asyncio.wait({task}, timeout=self._settings.command_seconds)
        if not done:
            raise Deadline(f"the command is not done after {self._settings.command_seconds:g} s")
        return task.result()

    async def _shown(self, task_id: SessionId, supervisor: Supervisor | None = None) -> None:
        """Wait until the hub shows all that is in the log of a task by now, but not for long."""
        supervisor = supervisor or self._runtime.supervisor(task_id)
        await self._hub.reached(task_id, supervisor.book.version, SHOW_SECONDS)

    def _alone(self, task_id: SessionId) -> asyncio.Lock:
        """For what must not be done twice at once: two that take up one task would both run it."""
        return self._locks.setdefault(task_id, asyncio.Lock())


def _take_note(task: asyncio.Task[Any]) -> None:
    """Errors go to whoever waits; one that comes too late for that is not lost in silence."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, InterlockError):
        _logger.error("a command failed: %s", type(error).__name__)
