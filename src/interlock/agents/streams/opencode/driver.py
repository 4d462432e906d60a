"""opencode by `opencode serve`: one server on loopback for one session, with a port and a password of its own.

Options: `agent`, one of opencode's own agents (`build`, `plan`). The model is `provider/model`. What asks and what does
not is in the user's opencode configuration.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from typing import Final
from urllib.parse import quote

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    ChannelLost,
    Observation,
    SessionNamed,
    TurnEnded,
    traced,
)
from interlock.agents.port import (
    AgentSpec,
    Capabilities,
    Decision,
    DeliveryUnknown,
    NotDelivered,
    Prompt,
    StaleResume,
)
from interlock.agents.processes.child import ChildProcess, inherited_environment
from interlock.agents.processes.handle import ChildHandle
from interlock.agents.streams.opencode.events import OpencodeEvents
from interlock.agents.streams.opencode.http import LocalHttp
from interlock.agents.streams.opencode.questions import answer
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import decode_object, mapping, string
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

START_SECONDS: Final = 60.0
CAPABILITIES: Final = Capabilities(
    reports_approvals=True, streams_text=True, reports_usage=True, reports_thoughts=True, can_resume=True
)
_USER: Final = "interlock"
_LISTENING: Final = re.compile(rb"listening on http://127\.0\.0\.1:\d+")
_LAST_EVENTS_SECONDS: Final = 1.0
_MAX_SHOWN: Final = 500


class OpencodeDriver:
    """See `Driver`. `start_seconds` is how long the server may take from its start to an open session."""

    name = "opencode-serve"
    kind = DriverKind.STREAM

    def __init__(self, *, start_seconds: float = START_SECONDS) -> None:
        self._start_seconds = start_seconds

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> OpencodeHandle:
        """Start a server and open a session in it. `StaleResume` if it does not know the one to resume."""
        port, password = _free_port(), secrets.token_urlsafe(24)
        argv = opencode_argv(spec, port)
        secret = {"OPENCODE_SERVER_USERNAME": _USER, "OPENCODE_SERVER_PASSWORD": password}
        environment = {**inherited_environment(spec.environment), **secret}
        child = await ChildProcess.start(argv, cwd=spec.cwd, environment=environment, spawn_id=spawn_id)
        handle = OpencodeHandle(child, spawn_id, argv, LocalHttp(port, _USER, password), spec)
        try:
            async with asyncio.timeout(self._start_seconds):
                await handle.open(spec.resume)
        except TimeoutError as error:
            await handle.stop()
            raise PeerFault(f"opencode opened no session within {self._start_seconds:g} s") from error
        except BaseException:
            await handle.stop()
            raise
        return handle


def opencode_argv(spec: AgentSpec, port: int) -> tuple[str, ...]:
    """What is started for a spec. Its own choice of a port is always the same one first."""
    unknown = sorted(set(spec.options) - {"agent"})
    if unknown:
        raise UsageError(f"{spec.driver} has no option {unknown[0]!r}", remedy="it has: agent")
    if spec.model and "/" not in spec.model:
        raise UsageError(f"{spec.model!r} names no provider", remedy="write it as provider/model")
    return (*(spec.argv or ("opencode",)), "serve", "--hostname", "127.0.0.1", "--port", str(port))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class OpencodeHandle(ChildHandle):
    """One living server with its session; see `AgentHandle`."""

    capabilities = CAPABILITIES

    def __init__(
        self, child: ChildProcess, spawn_id: SpawnId, argv: tuple[str, ...], http: LocalHttp, spec: AgentSpec
    ) -> None:
        super().__init__(child, spawn_id, argv)
        self._http, self._spec = http, spec
        self._events = OpencodeEvents("")
        self._asked: dict[str, ApprovalAsked] = {}
        self._is_listening, self._is_connected = asyncio.Event(), asyncio.Event()
        self._hearing: asyncio.Task[None] | None = None
        self._following = self._start_reader(self._follow())

    async def open(self, resume: str) -> None:
        """Wait for the server, listen to it, and begin or find the session."""
        await self._or_the_end(self._is_listening)
        self._hearing = self._start_reader(self._hear())
        await self._or_the_end(self._is_connected)
        if resume:
            status, body = await self._http.ask("GET", f"/session/{quote(resume, safe='')}")
        else:
            status, body = await self._http.ask("POST", "/session", {})
        info = decode_object(body)
        session_id = string(info.get("id")) if info is not None else ""
        if resume and status in (400, 404):
            raise StaleResume(f"opencode knows no session {resume!r}")
        if status != 200 or info is None or not session_id:
            raise PeerFault(f"opencode opened no session: {_shown(status, body)}")
        self._events.session_id = session_id
        named = SessionNamed(native_session_id=session_id, model=self._spec.model, version=string(info.get("version")))
        await self._outlet.put([named, BecameReady()])

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Give a prompt. The server's word that it has it is what is known."""
        if self._events.is_turn_open:
            raise NotDelivered("the agent is busy with the prompt before")
        self._events.begin()
        try:
            status, body = await self._http.ask("POST", f"{self._path}/prompt_async", self._prompt(prompt.text))
        except NotDelivered:
            self._events.undo()
            raise
        if 400 <= status < 500:
            self._events.undo()
            raise NotDelivered(f"opencode refused the prompt: {_shown(status, body)}")
        if status >= 300:
            raise DeliveryUnknown(f"opencode failed over the prompt: {_shown(status, body)}")
        return DeliveryStage.ACCEPTED

    async def interrupt(self) -> None:
        if not self._events.is_turn_open:
            raise NotDelivered("no turn is open")
        self._events.interrupting()
        await self._carried_out(f"{self._path}/abort", None)

    async def decide(self, decision: Decision) -> None:
        asked = self._asked.get(decision.request_id)
        if asked is None:
            raise NotDelivered(f"no question {decision.request_id!r} is open")
        path, body = answer(asked, decision)
        await self._carried_out(path, body)

    @property
    def _path(self) -> str:
        return f"/session/{quote(self._events.session_id, safe='')}"

    def _prompt(self, text: str) -> Json:
        provider, _, model = self._spec.model.partition("/")
        agent = string(self._spec.options.get("agent"))
        body: dict[str, Json] = {"parts": [{"type": "text", "text": text}]}
        return {
            **body,
            **({"model": {"providerID": provider, "modelID": model}} if model else {}),
            **({"agent": agent} if agent else {}),
        }

    async def _carried_out(self, path: str, body: Json) -> None:
        """Ask for something. What the server refuses it has not done; where it failed, nobody knows."""
        status, said = await self._http.ask("POST", path, body)
        if status >= 500:
            raise DeliveryUnknown(f"opencode failed over it: {_shown(status, said)}")
        if status >= 300:
            raise NotDelivered(f"opencode did not do it: {_shown(status, said)}")

    async def _or_the_end(self, sign: asyncio.Event) -> None:
        """Wait for a sign of the server; `PeerFault` if it ends first, or nobody hears it any more."""
        waiting = asyncio.create_task(sign.wait())
        readers = (self._following,) if self._hearing is None else (self._following, self._hearing)
        try:
            await asyncio.wait((waiting, *readers), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not sign.is_set():
            raise PeerFault(f"opencode ended at its start; it said: {self._child.stderr_tail[-_MAX_SHOWN:].strip()}")

    async def _told_all(self) -> None:
        await self._following

    async def _hear(self) -> None:
        """The server's events as observations, until it ends."""
        try:
            async for event in self._http.events("/event"):
                if event.get("type") == "server.connected":
                    self._is_connected.set()
                await self._outlet.put(self._noted(self._events.feed(event)))
        except PeerFault as error:
            if self._child.is_alive:
                await self._outlet.put([ChannelLost(message=str(error))])
        else:
            if self._child.is_alive:
                await self._outlet.put([ChannelLost(message="opencode ended its stream of events")])

    def _noted(self, seen: list[Observation]) -> list[Observation]:
        """Keep count of the open questions; those that a turn leaves open are gone with it."""
        kept: list[Observation] = []
        for one in seen:
            if isinstance(one, ApprovalAsked):
                self._asked[one.request_id] = one
            elif isinstance(one, ApprovalGone):
                self._asked.pop(one.request_id, None)
            elif isinstance(one, TurnEnded):
                kept += [ApprovalGone(request_id=name, is_answered=False) for name in self._asked]
                self._asked.clear()
            kept.append(one)
        return kept

    async def _follow(self) -> None:
        """Read what the server prints, to its end, and tell that end last."""
        async for line in self._child.lines():
            if _LISTENING.search(line.data):
                self._is_listening.set()
            else:
                await self._outlet.put([traced(line.data)])
        exited = await self._child.exited()
        if self._hearing is not None:
            await asyncio.wait((self._hearing,), timeout=_LAST_EVENTS_SECONDS)
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        self._outlet.close([*self._noted(self._events.ended()), exited])


def _shown(status: int, body: bytes) -> str:
    said = decode_object(body) or {}
    message = string(mapping(said.get("data")).get("message")) or string(said.get("message"))
    return f"status {status} {message or body[:_MAX_SHOWN].decode('utf-8', 'replace')}".strip()
