"""The one module that knows the `agent-client-protocol` library: our requests, their answers, and its errors as ours.

Requests of an agent that nobody here serves (files, terminals, and what is outside the protocol) are answered with
"method not found", as the capabilities that we declare say beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NoReturn

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

from interlock.agents.acp.translate import AUTH_REQUIRED, PROMPT, error_text
from interlock.agents.acp.wire import AcpWire
from interlock.agents.port import NotDelivered
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
