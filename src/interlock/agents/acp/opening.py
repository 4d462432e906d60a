"""From a started program to a session that takes prompts: the agent's greeting, its session, its model and its mode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interlock.agents.acp.link import Link, Refused
from interlock.agents.port import AgentSpec, StaleResume
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.foreign_json import mapping, sequence, string
from interlock.vocabulary.registry import Json

# The code for a thing that is not there, and what agents say that use another.
_NOT_FOUND_CODE: Final = -32002
_NOT_FOUND: Final = re.compile(
    r"not found|no such|unknown session|does not exist|no conversation|no previous|invalid session|could not find",
    re.IGNORECASE,
)
_MAX_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that takes prompts."""

    session_id: str
    can_resume: bool


async def open_session(link: Link, spec: AgentSpec, cwd: str) -> Opened:
    """Greet the agent and begin or take up a session. `UsageError`: it wants a login, or cannot do what was asked."""
    greeting = await link.initialize()
    offers = mapping(greeting.get("agentCapabilities"))
    can_resume = bool(offers.get("loadSession")) or "resume" in mapping(offers.get("sessionCapabilities"))
    try:
        if spec.resume:
            result = await _take_up(link, spec.resume, cwd, offers)
        else:
            result = await link.new_session(cwd)
    except Refused as error:
        raise _explained(error, spec, greeting) from error
    session_id = string(result.get("sessionId")) or spec.resume
    if not session_id:
        raise PeerFault("the agent opened a session and did not name it")
    await _choose_model(link, session_id, spec.model, result)
    await _choose_mode(link, session_id, spec, result)
    return Opened(session_id, can_resume)


async def _take_up(link: Link, session_id: str, cwd: str, offers: Mapping[str, Json]) -> Mapping[str, Json]:
    if "resume" in mapping(offers.get("sessionCapabilities")):
        return await link.resume_session(cwd, session_id)
    if offers.get("loadSession"):
        return await link.load_session(cwd, session_id)
    raise UsageError("this agent cannot take up a session", remedy="start it without a session id to resume")


def _explained(error: Refused, spec: AgentSpec, greeting: Mapping[str, Json]) -> PeerFault | UsageError:
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


async def _choose_model(link: Link, session_id: str, model: str, result: Mapping[str, Json]) -> None:
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


async def _choose_mode(link: Link, session_id: str, spec: AgentSpec, result: Mapping[str, Json]) -> None:
    mode = string(spec.options.get("mode"))
    if mode:
        offered = [mapping(one) for one in sequence(mapping(result.get("modes")).get("availableModes"))]
        names = [string(one.get("id")) for one in offered]
        if mode not in names:
            raise UsageError(f"the agent has no mode {mode!r}", remedy=f"choose from: {', '.join(names) or 'none'}")
        await _choose(link, "session/set_mode", {"sessionId": session_id, "modeId": mode}, f"mode {mode!r}")


async def _choose(link: Link, method: str, params: Json, what: str) -> None:
    try:
        await link.ask(method, params)
    except Refused as error:
        raise UsageError(
            f"the agent does not take {what}: {str(error)[:_MAX_SHOWN]}", remedy="choose another"
        ) from error
