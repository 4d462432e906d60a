"""Gemini CLI by `--output-format stream-json`: one process for one prompt.

Option: `approval_mode`. Nobody is asked in this mode: a tool that the mode does not allow is not offered to the model,
and calling it fails as `tool_not_registered`. For questions, drive `gemini --acp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.agents.observations import (
    MessageEnded,
    Observation,
    PromptReached,
    SessionNamed,
    TextArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
    Warned,
    traced,
)
from interlock.agents.port import AgentHandle, AgentSpec, Capabilities
from interlock.agents.streams.one_shot import CAPABILITIES, choice, start
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import count, decode_object, mapping, string
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

# What Gemini CLI prints by `stream-json`, line by line. Pure.
#
# Laws:
# 1. Only `result` ends the turn, and by its `status`: an `error` line is a warning, however severe it calls itself.
# 2. A message is whole before a tool call and at a `result` that is a success, and not before.

_AUTH: Final = "FatalAuthenticationError"
_CANCELLED: Final = "FatalCancellationError"
_TURN_LIMIT: Final = "FatalTurnLimitedError"


class GeminiLines:
    """One run of the program."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._has_started = False

    def feed(self, line: bytes) -> list[Observation]:
        """What one line means. It never raises."""
        event = decode_object(line)
        if event is None:
            return [traced(line)]
        match event.get("type"):
            case "init" if string(event.get("session_id")):
                session, model = string(event.get("session_id")), string(event.get("model"))
                return [SessionNamed(native_session_id=session, model=model)]
            case "message":
                return self._message(event) or [traced(line)]
            case "tool_use" if string(event.get("tool_id")):
                return [*self._started(), *self._end_message(), _called(event)]
            case "tool_result" if string(event.get("tool_id")):
                return [_returned(event)]
            case "error":
                return [Warned(kind="gemini_error", message=string(event.get("message")))]
            case "result":
                return self._result(event)
            case _:
                return [traced(line)]

    def _message(self, event: Mapping[str, Json]) -> list[Observation]:
        text, role = string(event.get("content")), event.get("role")
        if role == "user":
            return [PromptReached(stage=DeliveryStage.ACCEPTED)]
        if role != "assistant" or not text:
            return []
        if event.get("delta") is not True:
            return [*self._started(), *self._end_message(), MessageEnded(text=text)]
        self._text.append(text)
        return [*self._started(), TextArrived(text=text)]

    def _result(self, event: Mapping[str, Json]) -> list[Observation]:
        used = _usage(mapping(event.get("stats")))
        if event.get("status") == "success":
            return [*self._end_message(), *used, TurnEnded(ending=TurnEnding.NATURAL)]
        return [*used, _failed(mapping(event.get("error")))]

    def _started(self) -> list[Observation]:
        if self._has_started:
            return []
        self._has_started = True
        return [PromptReached(stage=DeliveryStage.STARTED)]

    def _end_message(self) -> list[Observation]:
        text = "".join(self._text)
        self._text = []
        return [MessageEnded(text=text)] if text else []


def _called(event: Mapping[str, Json]) -> ToolCalled:
    name = string(event.get("tool_name")) or "tool"
    return ToolCalled(call_id=string(event.get("tool_id")), name=name, args=event.get("parameters"))


def _returned(event: Mapping[str, Json]) -> ToolReturned:
    call_id, output = string(event.get("tool_id")), event.get("output")
    if event.get("status") == "success":
        return ToolReturned(call_id=call_id, output=output)
    error = mapping(event.get("error"))
    kind = string(error.get("type")) or "tool_failed"
    message = string(error.get("message")) or string(output) or "the agent gave no reason"
    return ToolReturned(call_id=call_id, error=ToolError(kind=kind, message=message))


def _usage(stats: Mapping[str, Json]) -> list[Observation]:
    given, made, cached = (count(stats.get(name)) for name in ("input_tokens", "output_tokens", "cached"))
    if given is None and made is None:
        return []
    return [UsageReported(scope=UsageScope.TURN, input_tokens=given, output_tokens=made, cached_input_tokens=cached)]


def _failed(error: Mapping[str, Json]) -> TurnEnded:
    kind, message = string(error.get("type")), string(error.get("message")) or "the agent gave no reason"
    if kind == _CANCELLED:
        return TurnEnded(ending=TurnEnding.INTERRUPTED)
    if kind == _TURN_LIMIT:
        return TurnEnded(ending=TurnEnding.STOPPED, stop_code="max_rounds", error_message=message)
    named = "auth_required" if kind == _AUTH else "agent_error"
    return TurnEnded(ending=TurnEnding.ERROR, error_kind=named, error_message=message, details=dict(error))


APPROVAL_MODES: Final = frozenset({"default", "auto_edit", "yolo", "plan"})


class GeminiStreamDriver:
    """See `Driver`."""

    name = "gemini-stream"
    kind = DriverKind.STREAM

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> AgentHandle:
        """Start it. That a session to resume is unknown shows at its exit, as `is_stale_resume`."""
        return await start(spec, spawn_id, gemini_argv(spec), GeminiLines(), _is_stale)


def gemini_argv(spec: AgentSpec) -> tuple[str, ...]:
    """What is started for a spec."""
    mode = choice(spec, "approval_mode", APPROVAL_MODES)
    return (
        *(spec.argv or ("gemini",)),
        *("--output-format", "stream-json"),
        *(("--approval-mode", mode) if mode else ()),
        *(("--model", spec.model) if spec.model else ()),
        *(("--resume", spec.resume) if spec.resume else ()),
    )


def _is_stale(last_words: str) -> bool:
    return "Error resuming session" in last_words or "No previous sessions" in last_words
