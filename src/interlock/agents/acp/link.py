"""The one module that knows the `agent-client-protocol` library: our requests, their answers, and its errors as ours.

Requests of an agent that nobody here serves (files, terminals, and what is outside the protocol) are answered with
"method not found", as the capabilities that we declare say beforehand.

Laws:
1. Every message is translated where it passes, so that observations have the order of the wire.
2. The library sees only answers to our requests, and requests that neither it nor we know: no line of an agent can
   break its loop. Questions for a person are kept here, since only we know what became of an answer.
3. What was not written says so: the child's `NotDelivered` and `DeliveryUnknown` reach the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NoReturn

import msgspec
from acp import (
    PROTOCOL_VERSION,
    InitializeRequest,
    LoadSessionRequest,
    NewSessionRequest,
    PromptRequest,
    RequestError,
    text_block,
)
from acp.connection import Connection
from acp.schema import ClientCapabilities, Implementation, ResumeSessionRequest
from pydantic import BaseModel

from interlock.agents.acp.translate import AUTH_REQUIRED, PERMISSION, PROMPT, AcpTranslator, error_text
from interlock.agents.observations import Observation, Warned, traced
from interlock.agents.port import DeliveryUnknown, NotDelivered
from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.handle import ObservationQueue
from interlock.agents.processes.lines import Line, object_on
from interlock.vocabulary.errors import PeerFault
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import mapping


class AcpRefused(PeerFault):
    """The agent answered a request with an error."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code

    @property
    def wants_login(self) -> bool:
        return self.code == AUTH_REQUIRED


class LinkGone(PeerFault):
    """The agent ended, or had ended already, and there is no answer."""


class AcpLink:
    """Requests to one agent over its wire."""

    def __init__(self, wire: AcpWire) -> None:
        self._connection = Connection(_serve_nothing, wire)

    async def initialize(self) -> Mapping[str, Json]:
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(),
            client_info=Implementation(name="interlock", version=version("interlock")),
        )
        return await self.ask("initialize", _params(request))

    async def new_session(self, cwd: str) -> Mapping[str, Json]:
        return await self.ask("session/new", _params(NewSessionRequest(cwd=cwd, mcp_servers=[])))

    async def load_session(self, cwd: str, session_id: str) -> Mapping[str, Json]:
        """Take up a session; the agent repeats its past."""
        request = LoadSessionRequest(cwd=cwd, mcp_servers=[], session_id=session_id)
        return await self.ask("session/load", _params(request))

    async def resume_session(self, cwd: str, session_id: str) -> Mapping[str, Json]:
        """Take up a session without its past."""
        request = ResumeSessionRequest(cwd=cwd, mcp_servers=[], session_id=session_id)
        return await self.ask("session/resume", _params(request))

    async def prompt(self, session_id: str, text: str) -> None:
        """Give a prompt, and wait for the answer to it: the end of the turn."""
        request = PromptRequest(session_id=session_id, prompt=[text_block(text)])
        await self.ask(PROMPT, _params(request))

    async def cancel(self, session_id: str) -> None:
        """Ask for the end of the turn. Nothing answers this but the turn's own end."""
        try:
            await self._connection.send_notification("session/cancel", {"sessionId": session_id})
        except ConnectionError as error:
            raise NotDelivered("the agent is gone") from error

    async def ask(self, method: str, params: Json) -> Mapping[str, Json]:
        """A request and its answer. `AcpRefused` for an error, `LinkGone` where none came."""
        try:
            return mapping(await self._connection.send_request(method, params))
        except RequestError as error:
            said = error_text({"message": str(error), "data": error.data})
            raise AcpRefused(said, error.code) from error
        except ConnectionError as error:
            raise LinkGone(f"the agent was gone before it answered {method}") from error

    async def close(self) -> None:
        """End the library's tasks."""
        await self._connection.close()


async def _serve_nothing(method: str, params: Json | None, is_notification: bool) -> NoReturn:
    del params, is_notification
    raise RequestError.method_not_found(method)


def _params(request: BaseModel) -> dict[str, Any]:
    return request.model_dump(mode="json", by_alias=True, exclude_none=True)


# The messages between us and an ACP agent: our child's pipes, in the shape that the protocol library reads.


class AcpWire:
    """One agent's messages. The library calls `send`, `receive` and `close`; `over` is set when no more will come."""

    def __init__(self, child: ChildProcess, translator: AcpTranslator, outlet: ObservationQueue) -> None:
        self._child, self._translator, self._outlet = child, translator, outlet
        self._lines = child.lines()
        self.over = asyncio.Event()
        self.prompt_written = asyncio.Event()
        self._heard = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message of the library. A reply that nobody can get any more is no fault of the caller."""
        try:
            await self.write(message)
        except (NotDelivered, DeliveryUnknown) as error:
            if "method" in message:
                raise
            await self._outlet.put([Warned(kind="acp_reply_not_written", message=str(error))])

    async def write(self, message: Mapping[str, Json]) -> None:
        """Write one message."""
        self._translator.sent(message)
        try:
            await self._child.write(msgspec.json.encode(message) + b"\n")
        except NotDelivered:
            self._translator.unsent(message)
            raise
        if message.get("method") == PROMPT:
            self.prompt_written.set()

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is the library's affair; None when the agent's output is over."""
        try:
            async for line in self._lines:
                self._heard.set()
                message = object_on(line)
                seen = _unreadable(line) if message is None else self._translator.received(message)
                await self._outlet.put(seen)
                if message is not None and (forwarded := _for_library(message)) is not None:
                    return forwarded
        except BaseException as error:
            if isinstance(error, Exception):  # the library says no more of it than that the connection is over
                self._outlet.fail(error)
            self.over.set()
            raise
        self.over.set()
        return None

    async def quiet(self, quiet_seconds: float, limit_seconds: float) -> None:
        """Wait until the agent has said nothing for so long, or until the limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_seconds):
                while not self.over.is_set():
                    self._heard.clear()
                    await asyncio.sleep(quiet_seconds)
                    if not self._heard.is_set():
                        return

    async def close(self) -> None:
        """Nothing: the child is stopped by whoever started it."""


def _unreadable(line: Line) -> list[Observation]:
    if line.is_cut:
        return [Warned(kind="line_too_long", message=f"a line of over {len(line.data)} bytes"), traced(line.data)]
    if not line.is_whole:
        return [Warned(kind="line_not_ended", message="the agent died in mid-line"), traced(line.data)]
    return [traced(line.data)]


def _for_library(message: Mapping[str, Json]) -> dict[str, Json] | None:
    """The message as the library may see it; None for what is not its affair."""
    method, rpc_id = message.get("method"), message.get("id")
    if isinstance(method, str) and method:
        is_request = isinstance(rpc_id, int | str) and method != PERMISSION
        return {"id": rpc_id, "method": method} if is_request else None
    if not isinstance(rpc_id, int):
        return None
    if "error" in message:
        error = message["error"]
        return {"id": rpc_id, "error": error if isinstance(error, dict) else {}}
    return {"id": rpc_id, "result": message.get("result")}
