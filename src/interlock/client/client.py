"""A client of a server.

async with connect_async() as client:
    turn = await client.run("claude", "Which tests are slow?")
    print(await turn.answer())
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet, WeakValueDictionary

from msgspec import structs

from interlock.client.iterators import Lines, Wakeup
from interlock.client.machine.inputs import CheckReason
from interlock.client.opening import open_request
from interlock.client.plans import Plans
from interlock.client.shell import ClientShell
from interlock.client.task import TaskHandle
from interlock.client.timeouts import Chance, ClientTimeouts
from interlock.client.transport.api import new_id
from interlock.client.transport.discovery import Address, fixed_address, server_address
from interlock.client.turn import AsyncOnQuestion, TurnHandle
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.unsafe_text import first_words
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import Role, TaskSummary
from interlock.vocabulary.wire.requests import AccessRole
from interlock.vocabulary.wire.resources import AskedWorktree, OpenTask, SearchPage, ServerInfo


class Client:
    """Use it as a context manager. It connects when something is to be followed, and not before."""

    def __init__(
        self,
        url: str | Address,
        *,
        token: str = "",
        patience: ClientTimeouts | None = None,
        chance: Chance = random.random,
        home: str | Path | None = None,
    ) -> None:
        """`home`: whose trust in plan files counts; by default `INTERLOCK_HOME`, or the XDG state folder."""
        address = fixed_address(url, token) if isinstance(url, str) else url
        self._patience = patience or ClientTimeouts()
        self._shell = ClientShell(
            address, patience=self._patience, chance=chance, on_lines=self._tell_lines, on_edge=self._wake
        )
        self.plans = Plans(self._shell.api, None if home is None else Path(home))
        # Whatever is followed is held by the shell. What was closed is its holder's alone, with all that it knows.
        self._handles: WeakValueDictionary[SessionId, TaskHandle] = WeakValueDictionary()
        self._lines: WeakSet[Lines] = WeakSet()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Follow nothing any more, and end the connection. Tasks go on."""
        for handle in tuple(self._handles.values()):
            handle.close()
        self._handles.clear()
        for lines in tuple(self._lines):
            lines.end()
        await self._shell.close()

    # Looking

    @property
    def is_connected(self) -> bool:
        """Whether there is a socket. Without one, much can be asked and done all the same."""
        return self._shell.connection.is_connected

    @property
    def problem(self) -> InterlockError | None:
        """Why there will be no socket, until `refresh`."""
        return self._shell.problem

    async def server(self) -> ServerInfo:
        """Which server this is, and what we may do there."""
        return await self._shell.api.server()

    async def tasks(self) -> tuple[TaskSummary, ...]:
        """Every task, a line each."""
        return tuple([one async for one in self._shell.api.tasks()])

    async def search(
        self,
        words: str,
        *,
        task_id: SessionId | str = "",
        agent: str = "",
        role: Role | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 20,
    ) -> SearchPage:
        """Messages of every task, found by their words, the newest first. `after` is the `next` of the page before.
        While the server makes its index, `is_complete` is false: there may be more."""
        return await self._shell.api.search(
            {
                "q": words,
                "task": task_id or None,
                "agent": agent or None,
                "role": role,
                "since": None if since is None else since.isoformat(),
                "until": None if until is None else until.isoformat(),
                "after": after,
                "limit": limit,
            }
        )

    async def approvals(self) -> tuple[Approval, ...]:
        """Everything that somebody is asked now, over all tasks."""
        return tuple([one async for one in self._shell.api.open_approvals()])

    def board(self) -> Lines:
        """Every task's line, and then each line that changed, across lost connections."""
        board = self._shell.board
        lines = Lines(board.tasks, lambda: self._shell.problem, Wakeup())
        self._lines.add(lines)
        self._shell.want_board()
        return lines

    def refresh(self) -> None:
        """Look now: connect again, and check every task that is followed."""
        self._shell.look_again(CheckReason.MANUAL_REFRESH)

    def page_visible(self) -> None:
        """Say that somebody looks again, as when a window is shown: as `refresh`, and recorded as the reason."""
        self._shell.look_again(CheckReason.PAGE_VISIBLE)

    def network_online(self) -> None:
        """Say that this machine is on a network again: as `refresh`, and recorded as the reason."""
        self._shell.look_again(CheckReason.NETWORK_ONLINE)

    # Tasks

    def task(self, task_id: SessionId | str) -> TaskHandle:
        """Follow a task. The same task is the same handle while it is open."""
        task_id = SessionId(task_id)
        handle = self._handles.get(task_id)
        if handle is None or not handle.is_open:
            handle = TaskHandle(self._shell, task_id, self._patience.command_seconds)
            self._handles[task_id] = handle
        return handle

    async def run(
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
        on_question: AsyncOnQuestion | None = None,
        wait_for_person: bool = False,
    ) -> TurnHandle:
        """Start an agent of the configuration with a prompt, and return its turn. `mode` is `tui`, `stream` or `acp`;
        blank: as configured. `on_question` answers what the agent asks: see `TaskHandle.follow`. The agent stays for
        the next prompt (`turn.task.run`), until `turn.task.stop()` or its idle time is over. `worktree`: it works in a
        git worktree of its own, from `base` or what is checked out; a text is the name of its branch."""
        if worktree == "":
            raise UsageError("the name of the worktree is blank", remedy="True names it after the title")
        tree = AskedWorktree(name=worktree if isinstance(worktree, str) else "", base=base) if worktree else None
        title = title or first_words(prompt)
        asked = open_request(agent, cwd=cwd, mode=mode, model=model, title=title, worktree=tree)
        asked = structs.replace(asked, prompt=prompt, reply=reply)
        task = await self._open(asked, None)
        assert task.first_prompt is not None, "a prompt was sent with it"
        return task.follow(task.first_prompt, on_question=on_question, wait_for_person=wait_for_person)

    async def open_task(
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
        worktree: AskedWorktree | None = None,
    ) -> TaskHandle:
        """Open a task and follow it. With `prompt`, that is sent at once, and is the handle's `first_prompt`; `reply`
        is the form that its answer must have. To repeat this with the same `task_id` opens nothing new. `cwd` is by
        default the folder that we are in; with `worktree` the task works in a git worktree of that."""
        asked = OpenTask(
            agent=agent,
            driver=driver,
            argv=tuple(argv),
            cwd=str(Path.cwd() if cwd is None else cwd),
            model=model,
            options=dict(options or {}),
            environment=dict(environment or {}),
            title=title,
            policy=None if policy is None else dict(policy),
            prompt=prompt,
            reply=reply,
            worktree=worktree,
        )
        return await self._open(asked, task_id)

    async def _open(self, asked: OpenTask, task_id: SessionId | None) -> TaskHandle:
        opened = await self._shell.api.open_task(asked, task_id or SessionId(new_id("ses")))
        handle = self.task(opened.task_id)
        handle.first_prompt = opened.prompt_id
        return handle

    # Within

    def _tell_lines(self, changed: Iterable[TaskSummary]) -> None:
        for lines in tuple(self._lines):
            for line in changed:
                lines.put(line)

    def _wake(self) -> None:
        """The connection changed: whoever waits looks whether that is the end of the wait."""
        for handle in tuple(self._handles.values()):
            handle.wake()
        for lines in tuple(self._lines):
            lines.wake()


def connect_async(
    home: str | Path | None = None,
    *,
    url: str = "",
    token: str = "",
    role: AccessRole = AccessRole.OPERATOR,
    patience: ClientTimeouts | None = None,
) -> Client:
    """A client of the server that runs in a home (by default `INTERLOCK_HOME`, or the XDG state folder), also when that
    is started again at another port; or of the server at `url`, with its `token`. It starts no server: where none runs
    it raises `Unreachable`, which says how to start one."""
    return Client(server_address(home, url, token, role), patience=patience, home=home)
