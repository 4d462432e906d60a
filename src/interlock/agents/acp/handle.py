"""One living ACP agent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from interlock.agents.acp.link import AcpLink, AcpRefused, AcpWire, LinkGone
from interlock.agents.acp.questions import answer, cancelled
from interlock.agents.acp.translate import AcpTranslator
from interlock.agents.observations import BecameReady
from interlock.agents.port import (
    AgentSpec,
    Capabilities,
    Decision,
    NotDelivered,
    Prompt,
    StaleResume,
)
from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.handle import ChildHandle
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import mapping, sequence, string
from interlock.vocabulary.ids import SpawnId

# From a started program to a session that takes prompts: the agent's greeting, its session, its model and its mode.

# The code for a thing that is not there, and what agents say that use another.
_NOT_FOUND_CODE: Final = -32002
_NOT_FOUND: Final = re.compile(
    r"not found|no such|unknown session|does not exist|no conversation|no previous|invalid session|could not find",
    re.IGNORECASE,
)
_MAX_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class AcpSessionOpened:
    """A session that takes prompts."""

    session_id: str
    can_resume: bool


async def open_session(link: AcpLink, spec: AgentSpec, cwd: str) -> AcpSessionOpened:
    """Greet the agent and begin or take up a session. `UsageError`: it wants a login, or cannot do what was asked."""
    greeting = await link.initialize()
    offers = mapping(greeting.get("agentCapabilities"))
    can_resume = bool(offers.get("loadSession")) or "resume" in mapping(offers.get("sessionCapabilities"))
    try:
        if spec.resume:
            result = await _take_up(link, spec.resume, cwd, offers)
        else:
            result = await link.new_session(cwd)
    except AcpRefused as error:
        raise _explained(error, spec, greeting) from error
    session_id = string(result.get("sessionId")) or spec.resume
    if not session_id:
        raise PeerFault("the agent opened a session and did not name it")
    await _choose_model(link, session_id, spec.model, result)
    await _choose_mode(link, session_id, spec, result)
    return AcpSessionOpened(session_id, can_resume)


async def _take_up(link: AcpLink, session_id: str, cwd: str, offers: Mapping[str, Json]) -> Mapping[str, Json]:
    if "resume" in mapping(offers.get("sessionCapabilities")):
        return await link.resume_session(cwd, session_id)
    if offers.get("loadSession"):
        return await link.load_session(cwd, session_id)
    raise UsageError("this agent cannot take up a session", remedy="start it without a session id to resume")


def _explained(error: AcpRefused, spec: AgentSpec, greeting: Mapping[str, Json]) -> PeerFault | UsageError:
    said = str(error)[:_MAX_SHOWN]
    if error.wants_login:
        methods = [mapping(method) for method in sequence(greeting.get("authMethods"))]
        names = ", ".join(string(method.get("name")) for method in methods) or "see its documentation"
        return UsageError(
            f"the agent wants a login ({said})", remedy=f"log in with its own program first; it offers: {names}"
        )
    if spec.resume and (error.code == _NOT_FOUND_CODE or _NOT_FOUND.search(said)):
        return StaleResume(f"the agent knows no session {spec.resume!r}: {said}")
    return PeerFault(f"the agent opened no session: {said}")


async def _choose_model(link: AcpLink, session_id: str, model: str, result: Mapping[str, Json]) -> None:
    if not model:
        return
    options = [mapping(option) for option in sequence(result.get("configOptions"))]
    option = next((one for one in options if one.get("category") == "model"), None)
    if option is not None:
        params: Json = {"sessionId": session_id, "configId": option.get("id"), "value": model}
        await _choose(link, "session/set_config_option", params, f"model {model!r}")
    elif mapping(result.get("models")):
        await _choose(link, "session/set_model", {"sessionId": session_id, "modelId": model}, f"model {model!r}")
    else:
        raise UsageError("this agent offers no choice of models", remedy="name the model in its own arguments")


async def _choose_mode(link: AcpLink, session_id: str, spec: AgentSpec, result: Mapping[str, Json]) -> None:
    mode = string(spec.options.get("mode"))
    if mode:
        offered = [mapping(one) for one in sequence(mapping(result.get("modes")).get("availableModes"))]
        names = [string(one.get("id")) for one in offered]
        if mode not in names:
            raise UsageError(f"the agent has no mode {mode!r}", remedy=f"choose from: {', '.join(names) or 'none'}")
        await _choose(link, "session/set_mode", {"sessionId": session_id, "modeId": mode}, f"mode {mode!r}")


async def _choose(link: AcpLink, method: str, params: Json, what: str) -> None:
    try:
        await link.ask(method, params)
    except AcpRefused as error:
        raise UsageError(
            f"the agent does not take {what}: {str(error)[:_MAX_SHOWN]}", remedy="choose another"
        ) from error


# After a session was loaded its past may still be on the way; a prompt is taken when the agent has fallen silent.
_QUIET_SECONDS: Final = 0.3
_QUIET_LIMIT_SECONDS: Final = 5.0


class AcpHandle(ChildHandle):
    """See `AgentHandle`. Made by the driver, which opens the session before anybody else gets hold of it."""

    def __init__(
        self, child: ChildProcess, argv: tuple[str, ...], spawn_id: SpawnId, capabilities: Capabilities
    ) -> None:
        super().__init__(child, spawn_id, argv)
        self.capabilities = capabilities
        self._translator = AcpTranslator()
        self._wire = AcpWire(child, self._translator, self._outlet)
        self._link = AcpLink(self._wire)
        self._session_id = ""
        self._prompting: asyncio.Task[None] | None = None
        self._following = self._start_reader(self._follow())

    async def open(self, spec: AgentSpec, cwd: str) -> None:
        """Begin the session. Until this has returned, no prompt may be given."""
        opened: AcpSessionOpened = await open_session(self._link, spec, cwd)
        self._session_id = opened.session_id
        self.capabilities = replace(self.capabilities, can_resume=opened.can_resume)
        if self._translator.is_replaying:
            await self._wire.quiet(_QUIET_SECONDS, _QUIET_LIMIT_SECONDS)
            self._translator.is_replaying = False
        await self._outlet.put([BecameReady()])

    async def submit(self, prompt: Prompt) -> DeliveryStage:
        """Written is as far as is known at once: that the agent works on it shows later. One prompt at a time."""
        if self._translator.is_turn_open:
            raise NotDelivered("the agent is busy with the prompt before")
        self._wire.prompt_written.clear()
        self._prompting = asyncio.create_task(self._prompt(prompt.text))
        written = asyncio.create_task(self._wire.prompt_written.wait())
        try:
            await asyncio.wait((self._prompting, written), return_when=asyncio.FIRST_COMPLETED)
        finally:
            written.cancel()
        if not self._wire.prompt_written.is_set() and self._prompting.done():
            self._prompting.result()
        return DeliveryStage.TYPED

    async def _prompt(self, text: str) -> None:
        """One prompt to its end. How it ended is told where its answer passes; here only the writing can go wrong."""
        try:
            await self._link.prompt(self._session_id, text)
        except AcpRefused:
            return
        except LinkGone as error:
            if not self._wire.prompt_written.is_set():
                raise NotDelivered("the agent is gone") from error

    async def interrupt(self) -> None:
        """Cancel the turn, and take back the questions that it left open, as the protocol wants it."""
        if not self._translator.is_turn_open:
            raise NotDelivered("no turn is open")
        await self._link.cancel(self._session_id)
        for question in list(self._translator.questions.values()):
            if not question.is_answered:
                await self._wire.write({"jsonrpc": "2.0", "id": question.rpc_id, "result": cancelled()})

    async def decide(self, decision: Decision) -> None:
        question = self._translator.questions.get(decision.request_id)
        if question is None or question.is_answered:
            raise NotDelivered(f"no question {decision.request_id!r} is open")
        reply: dict[str, Json] = {"jsonrpc": "2.0", "id": question.rpc_id, "result": answer(question, decision)}
        self._translator.answering(question, is_allowed=decision.is_allowed)
        try:
            await self._wire.write(reply)
        except NotDelivered:
            question.is_answered = False
            raise

    async def _told_all(self) -> None:
        await self._following
        if self._prompting is not None:
            await asyncio.gather(self._prompting, return_exceptions=True)

    async def _follow(self) -> None:
        """Tell the end, once everything before it is told."""
        await self._wire.over.wait()
        exited = await self._child.exited()
        self._outlet.close([*self._translator.ended(), exited])
        await self._link.close()
