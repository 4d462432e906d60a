"""Qwen Code by `--output-format stream-json`: one process for one prompt.

Option: `approval_mode`. Nobody is asked in this mode: what would need an answer is declined, and the model is told so.
For questions, drive `qwen --acp`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    ApprovalOption,
    MessageEnded,
    Observation,
    OptionKind,
    PromptReached,
    SessionNamed,
    TextArrived,
    ThoughtArrived,
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
from interlock.vocabulary.foreign_json import count, decode_object, mapping, sequence, string
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

# What Qwen Code prints by `stream-json` or into its `--json-file`, line by line. Pure.
#
# Laws:
# 1. Text comes in pieces, and whole in `assistant`; the pieces are not told again.
# 2. Only `result` ends the turn; it may come seconds after the last message. `is_error` decides, whatever the subtype.
# 3. After a broken connection the agent repeats the text in the same message, without a word: the pieces of the dead
#    attempt cannot be told from the answer, neither here nor in the `assistant` line.
# 4. The agent writes an error of the provider behind the model's text, as one more piece. It is a warning, and the
#    message that it breaks off is never whole.
# 5. A `result` that calls such an error a success (0.23) is an error: where its text is that line and nothing was used,
#    or where the last message was broken off by one.

_DECLINED: Final = re.compile(r"permission .{0,80}declined|cancell?ed by the user", re.IGNORECASE | re.DOTALL)
_API_ERROR: Final = re.compile(r"\s*\[API Error: .*\]\s*", re.DOTALL)
_TURN_LIMITS: Final = frozenset({"error_max_turns", "error_max_session_turns"})
_OPTION_KINDS: Final = {"allow": OptionKind.ALLOW_ONCE, "deny": OptionKind.REJECT_ONCE}


class QwenLines:
    """One run of the program."""

    def __init__(self) -> None:
        self._session_id = ""
        self._has_started = False
        self._api_error = ""
        self._broke_off = ""

    def feed(self, line: bytes) -> list[Observation]:
        """What one line means. It never raises."""
        event = decode_object(line)
        if event is None:
            return [traced(line)]
        child = string(event.get("parent_tool_use_id"))
        match event.get("type"):
            case "system":
                return self._named(event) or [traced(line)]
            case "stream_event":
                return self._started(self._piece(mapping(event.get("event")), child)) or [traced(line)]
            case "assistant":
                return self._started(self._message(mapping(event.get("message")), child)) or [traced(line)]
            case "user":
                return _results(mapping(event.get("message")), child) or [PromptReached(stage=DeliveryStage.ACCEPTED)]
            case "control_request":
                return _question(event) or [traced(line)]
            case "control_response" if string(mapping(event.get("response")).get("request_id")):
                return [ApprovalGone(request_id=string(mapping(event.get("response")).get("request_id")))]
            case "result":
                return self._result(event)
            case _:
                return [traced(line)]

    def _named(self, event: Mapping[str, Json]) -> list[Observation]:
        session_id = string(event.get("session_id"))
        if event.get("subtype") not in ("init", "session_start") or session_id in ("", self._session_id):
            return []
        self._session_id = session_id
        version = string(event.get("qwen_code_version")) or string(mapping(event.get("data")).get("version"))
        return [SessionNamed(native_session_id=session_id, model=string(event.get("model")), version=version)]

    def _started(self, seen: list[Observation]) -> list[Observation]:
        if not seen or self._has_started:
            return seen
        self._has_started = True
        return [PromptReached(stage=DeliveryStage.STARTED), *seen]

    def _piece(self, event: Mapping[str, Json], child: str) -> list[Observation]:
        delta = mapping(event.get("delta"))
        if text := string(delta.get("text")):
            if _API_ERROR.fullmatch(text):
                self._api_error = text
                return [Warned(kind="api_error", message=text.strip())]
            return [TextArrived(text=text, sub_agent=child)]
        thought = string(delta.get("thinking"))
        return [ThoughtArrived(text=thought, sub_agent=child)] if thought else []

    def _message(self, message: Mapping[str, Json], child: str) -> list[Observation]:
        blocks = [mapping(block) for block in sequence(message.get("content"))]
        text = "".join(string(block.get("text")) for block in blocks if block.get("type") == "text")
        is_broken = bool(self._api_error) and text.endswith(self._api_error)
        if not child:
            self._broke_off = self._api_error.strip() if is_broken else ""
        self._api_error = ""
        names = {"message_id": string(message.get("id")), "model": string(message.get("model"))}
        whole: list[Observation] = [MessageEnded(text=text, sub_agent=child, **names)] if text and not is_broken else []
        return [*whole, *_calls(blocks, child)]

    def _result(self, event: Mapping[str, Json]) -> list[Observation]:
        usage, text = mapping(event.get("usage")), string(event.get("result"))
        is_line = _API_ERROR.fullmatch(text) is not None and not count(usage.get("output_tokens"))
        problem = text.strip() if is_line else self._broke_off
        self._broke_off = ""
        return _result(event, problem)


def _calls(blocks: list[Mapping[str, Json]], child: str) -> list[Observation]:
    return [
        ToolCalled(
            call_id=string(block.get("id")),
            name=string(block.get("name")) or "tool",
            args=block.get("input"),
            sub_agent=child,
        )
        for block in blocks
        if block.get("type") == "tool_use" and string(block.get("id"))
    ]


def _results(message: Mapping[str, Json], child: str) -> list[Observation]:
    blocks = [mapping(block) for block in sequence(message.get("content"))]
    return [_returned(block, child) for block in blocks if string(block.get("tool_use_id"))]


def _returned(block: Mapping[str, Json], child: str) -> ToolReturned:
    call_id, content = string(block.get("tool_use_id")), block.get("content")
    if not block.get("is_error"):
        return ToolReturned(call_id=call_id, output=content, sub_agent=child)
    message = string(content) or "the agent gave no reason"
    kind = "denied" if _DECLINED.search(message[:500]) else "tool_failed"
    return ToolReturned(call_id=call_id, error=ToolError(kind=kind, message=message), sub_agent=child)


def _question(event: Mapping[str, Json]) -> list[Observation]:
    request, request_id = mapping(event.get("request")), string(event.get("request_id"))
    if request.get("subtype") != "can_use_tool" or not request_id:
        return []
    offered = [mapping(one) for one in sequence(request.get("permission_suggestions"))]
    options = tuple(
        ApprovalOption(
            label=string(one.get("label")), kind=_OPTION_KINDS.get(string(one.get("type")), OptionKind.CHOICE)
        )
        for one in offered
    )
    name, call_id = string(request.get("tool_name")), string(request.get("tool_use_id"))
    args = request.get("input")
    return [ApprovalAsked(request_id=request_id, call_id=call_id, name=name, args=args, options=options)]


def _result(event: Mapping[str, Json], problem: str) -> list[Observation]:
    usage, subtype = mapping(event.get("usage")), string(event.get("subtype"))
    given, made = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    cached = count(usage.get("cache_read_input_tokens"))
    report = UsageReported(scope=UsageScope.TURN, input_tokens=given, output_tokens=made, cached_input_tokens=cached)
    used: list[Observation] = [report] if given is not None or made is not None else []
    if subtype == "success" and not event.get("is_error") and problem:
        return [*used, TurnEnded(ending=TurnEnding.ERROR, error_kind="api_error", error_message=problem)]
    if subtype == "success" and not event.get("is_error"):
        text = event.get("result")
        return [*used, TurnEnded(ending=TurnEnding.NATURAL, text=text if isinstance(text, str) else None)]
    if subtype in _TURN_LIMITS:
        return [*used, TurnEnded(ending=TurnEnding.STOPPED, stop_code="max_rounds")]
    message = string(mapping(event.get("error")).get("message")) or string(event.get("result")) or subtype
    return [*used, TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message=message)]


APPROVAL_MODES: Final = frozenset({"plan", "default", "auto-edit", "auto", "yolo"})


class QwenStreamDriver:
    """See `Driver`."""

    name = "qwen-stream"
    kind = DriverKind.STREAM

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> AgentHandle:
        """Start it. That a session to resume is unknown shows at its exit, as `is_stale_resume`."""
        return await start(spec, spawn_id, qwen_argv(spec), QwenLines(), _is_stale)


def qwen_argv(spec: AgentSpec) -> tuple[str, ...]:
    """What is started for a spec. The approval mode is named always, and once: given twice, it breaks the program."""
    mode = choice(spec, "approval_mode", APPROVAL_MODES) or "default"
    return (
        *(spec.argv or ("qwen",)),
        *("--output-format", "stream-json", "--include-partial-messages"),
        *("--approval-mode", mode),
        *(("--model", spec.model) if spec.model else ()),
        *(("--resume", spec.resume) if spec.resume else ()),
    )


def _is_stale(last_words: str) -> bool:
    return "No saved session found" in last_words or "No previous sessions" in last_words
