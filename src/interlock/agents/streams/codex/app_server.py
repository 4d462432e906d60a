"""Codex by its app-server: one process and one thread a spawn, JSON-RPC over its pipes.

Laws:
1. A prompt is given only while no turn is open: Codex would mix it into the running one.
2. A process that dies in mid-turn ends the turn `silent`, and then is `Exited`.
3. Every question of Codex is passed on or refused. None is left without an answer, and none is answered by us.
4. A command that outlives its turn is asked after: of one that an interrupt ended at its start Codex says nothing more.
5. The child waits when nobody reads the observations, but never when a command waits for Codex's answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from interlock.agents.observations import BecameReady, Observation, Warned
from interlock.agents.pool.masking import masked_text
from interlock.agents.port import (
    AgentSpec,
    Capabilities,
    Decision,
    DeliveryUnknown,
    NotDelivered,
    ProcessIdentity,
    Prompt,
    StaleResume,
    StopReport,
)
from interlock.agents.processes.child import ChildProcess, inherited_environment
from interlock.agents.processes.lines import Line
from interlock.agents.streams.codex.app_server_messages import CodexThread
from interlock.agents.streams.codex.options import APPROVAL_POLICY, SANDBOX, check_resume, is_stale, options_of, program
from interlock.agents.streams.jsonrpc import REQUEST_SECONDS, JsonRpcPeer, RpcRefused, RpcRequest
from interlock.vocabulary.errors import PeerFault
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

CAPABILITIES: Final = Capabilities(
    reports_approvals=True, streams_text=True, reports_usage=True, reports_thoughts=True, can_resume=True
)
# The list of commands that run on is experimental. A Codex without it refuses that one request.
_CLIENT: Final[Fields] = {
    "clientInfo": {"name": "interlock", "title": "Interlock", "version": version("interlock")},
    "capabilities": {"experimentalApi": True},
}
_OPTIONS: Final = {"sandbox": SANDBOX, "approval_policy": APPROVAL_POLICY}
# Beyond so many observations that nobody took, no more lines are read.
_MAX_WAITING: Final = 1024
_LAST_WORDS_SECONDS: Final = 5.0
_ASK_AFTER_SECONDS: Final = 2.0
_SHOWN_CHARACTERS: Final = 300


class CodexAppServerDriver:
    """Starts `codex app-server`. Options: `sandbox`, `approval_policy`."""

    name = "codex-app-server"
    kind = DriverKind.STREAM
    capabilities = CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> CodexAppServer:
        """Start it, and open or resume a thread. `StaleResume` if Codex does not know the one to resume."""
        options = options_of(spec, _OPTIONS)
        check_resume(spec.resume)
        argv = (*program(spec), "app-server")
        environment = inherited_environment(spec.environment)
        child = await ChildProcess.start(argv, cwd=spec.cwd, environment=environment, spawn_id=spawn_id)
        agent = CodexAppServer(child, spawn_id, argv)
        try:
            await agent.open_thread(spec, options)
        except BaseException:
            await agent.stop()
            raise
        return agent


class CodexAppServer:
    """One app-server with one thread. Made by the driver; see `AgentHandle`."""

    capabilities = CAPABILITIES
    where: Json = None

    def __init__(self, child: ChildProcess, spawn_id: SpawnId, argv: tuple[str, ...]) -> None:
        self.spawn_id = spawn_id
        self.argv = argv
        self._child = child
        self._peer = JsonRpcPeer(child.write)
        self._thread = CodexThread()
        self._told: asyncio.Queue[Observation | None] = asyncio.Queue()
        self._may_read = asyncio.Event()
        self._has_begun = asyncio.Event()
        self._has_begun.set()
        self._in_a_hurry = 0
        self._asking_after: asyncio.Task[None] | None = None
        self._lists_commands = True
        self._reader = asyncio.create_task(self._read())

    @property
    def process(self) -> ProcessIdentity:
        return self._child.identity

    async def open_thread(self, spec: AgentSpec, options: Mapping[str, str]) -> None:
        """Greet the server, and open or resume the thread."""
        params = _thread_params(spec, options)
        try:
            await self._request("initialize", _CLIENT)
            await self._peer.notify("initialized")
            if spec.resume:
                await self._request("thread/resume", {**params, "threadId": spec.resume, "excludeTurns": True})
            else:
                await self._request("thread/start", params)
        except RpcRefused as error:
            if error.method == "thread/resume" and is_stale(error.message):
                raise StaleResume(f"Codex knows no session {spec.resume}") from error
            raise
        except (NotDelivered, DeliveryUnknown) as error:
            last_words = masked_text(self._child.stderr_tail.strip()[-_SHOWN_CHARACTERS:])
            raise PeerFault(f"Codex did not open a thread: {error}; {last_words}") from error
        if not self._thread.id:
            raise PeerFault("Codex opened a thread without an id")
        self._told.put_nowait(BecameReady())

    async def observations(self) -> AsyncIterator[Observation]:
        while (seen := await self._told.get()) is not None:
            self._may_read.set()
            yield seen
        await asyncio.wait((self._reader,))
        if not self._reader.cancelled():
            self._reader.result()

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Begin a turn. `accepted`: Codex named it; that it works on it shows as `PromptReached`."""
        if self._thread.is_busy:
            raise NotDelivered("a turn is open, and Codex would mix the prompt into it")
        words = prompt.text.encode("utf-8", "replace").decode()
        self._thread.prompt_sent()
        self._has_begun.clear()
        try:
            await self._request("turn/start", {"threadId": self._thread.id, "input": [{"type": "text", "text": words}]})
        except (RpcRefused, NotDelivered) as error:
            self._thread.prompt_failed()
            self._has_begun.set()
            raise NotDelivered(str(error)) from error
        return DeliveryStage.ACCEPTED

    async def interrupt(self) -> None:
        """Interrupt the turn; one that was accepted is first let begin, since Codex does not know it before."""
        try:
            with self._hurrying():
                async with asyncio.timeout(REQUEST_SECONDS):
                    await self._has_begun.wait()
        except TimeoutError as error:
            raise NotDelivered("the turn has not begun") from error
        turn_id = self._thread.turn_id
        if not turn_id:
            raise NotDelivered("no turn is open")
        try:
            await self._request("turn/interrupt", {"threadId": self._thread.id, "turnId": turn_id})
        except RpcRefused as error:
            raise NotDelivered(str(error)) from error

    async def decide(self, decision: Decision) -> None:
        peer_id, result = self._thread.reply(decision)
        try:
            await self._peer.answer(peer_id, result)
        except NotDelivered:
            self._thread.reply_failed(decision)
            raise

    async def stop(self) -> StopReport:
        with self._hurrying():
            report = await self._child.stop()
            await asyncio.wait((self._reader,), timeout=_LAST_WORDS_SECONDS)
        self._reader.cancel()
        await asyncio.wait((self._reader,))
        return report

    async def release(self) -> None:
        await self.stop()

    async def _request(self, method: str, params: Fields) -> Fields:
        with self._hurrying():
            return await self._peer.request(method, params)

    @contextmanager
    def _hurrying(self) -> Iterator[None]:
        """Read on, however many observations wait: somebody needs what comes behind them."""
        self._in_a_hurry += 1
        self._may_read.set()
        try:
            yield
        finally:
            self._in_a_hurry -= 1

    async def _read(self) -> None:
        """To the end of the process, which is told last. What this fails on is raised where the observations are."""
        try:
            async for line in self._child.lines():
                await self._take(line)
                if self._told.qsize() >= _MAX_WAITING and not self._in_a_hurry:
                    self._may_read.clear()
                    await self._may_read.wait()
            self._peer.close("the process ended")
            exited = await self._child.exited()
            self._tell([*self._thread.ended(), exited])
        finally:
            self._peer.close("no one listens any more")
            self._has_begun.set()
            self._told.put_nowait(None)
            if self._asking_after is not None:
                self._asking_after.cancel()
                await asyncio.wait((self._asking_after,))

    async def _take(self, line: Line) -> None:
        message = self._peer.take(line)
        self._tell(self._thread.read(message, line.data))
        if not self._thread.is_starting:
            self._has_begun.set()
        is_asked = self._asking_after is not None and not self._asking_after.done()
        if self._thread.has_commands_left and self._lists_commands and not is_asked:
            self._asking_after = asyncio.create_task(self._ask_after_commands())
        if isinstance(message, RpcRequest) and not self._thread.knows(message):
            with suppress(PeerFault):  # A server that is gone needs no answer, and its end is told as such.
                await self._peer.refuse(message.id, message.method)

    async def _ask_after_commands(self) -> None:
        """Until none is left. It ends with the reader, and at a Codex that does not tell."""
        try:
            while self._thread.has_commands_left:
                answer = await self._request("thread/backgroundTerminals/list", {"threadId": self._thread.id})
                self._tell(self._thread.commands_listed(answer))
                await asyncio.sleep(_ASK_AFTER_SECONDS)
        except PeerFault:
            self._lists_commands = False
        except Exception as error:  # its reader is not touched by it, and a task has nobody else to tell
            self._lists_commands = False
            self._tell([Warned(kind="commands_not_listed", message=f"{type(error).__name__}: {error}")])

    def _tell(self, seen: Iterable[Observation]) -> None:
        for one in seen:
            self._told.put_nowait(one)


def _thread_params(spec: AgentSpec, options: Mapping[str, str]) -> Fields:
    given = {"model": spec.model, "sandbox": options.get("sandbox"), "approvalPolicy": options.get("approval_policy")}
    return {"cwd": str(Path(spec.cwd).absolute()), **{name: value for name, value in given.items() if value}}
