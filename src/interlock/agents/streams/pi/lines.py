"""What pi prints by `--mode rpc` or `--mode json`, line by line. Pure.

Laws:
1. Only `agent_end` ends a prompt: `turn_end` comes with each model call.
2. An `agent_end` by an error is held, since a retry or a compaction may take the prompt up again. It holds once the
   agent has answered a question that was asked after it (`wants_state`), or has exited.
3. A retry that is called off ends the prompt, and nothing else says so.
4. A message that ended by an error or an abort is not whole; a retry voids its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.agents.acp.calls import content_text
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalOption,
    MessageEnded,
    Observation,
    OptionKind,
    PromptReached,
    RetryBegun,
    SessionNamed,
    TextArrived,
    TextVoided,
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
from interlock.agents.port import Decision
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import amount, count, decode_object, mapping, sequence, string
from interlock.vocabulary.states import Attention

# What extensions of pi ask a person, and how an answer is put. pi itself asks nothing: its tools run at once.

_DIALOGS: Final = frozenset({"select", "confirm", "input", "editor"})
_YES_NO: Final = (
    ApprovalOption(label="Yes", id="yes", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(label="No", id="no", kind=OptionKind.REJECT_ONCE),
)


def question(event: Mapping[str, Json]) -> list[Observation]:
    """The question of a dialog; nothing for a notice, which awaits no answer."""
    method, request_id = string(event.get("method")), string(event.get("id"))
    if method not in _DIALOGS or not request_id:
        return []
    words = [string(event.get(name)) for name in ("title", "message")]
    named = tuple(
        ApprovalOption(label=label, id=label) for one in sequence(event.get("options")) if (label := string(one))
    )
    return [
        ApprovalAsked(
            request_id=request_id,
            name=method,
            attention=Attention.APPROVAL if method == "confirm" else Attention.QUESTION,
            question="\n".join(word for word in words if word),
            options=_YES_NO if method == "confirm" else named,
        )
    ]


def answer(asked: ApprovalAsked, decision: Decision) -> Json:
    """The line to write for a decision."""
    said: dict[str, Json] = {"type": "extension_ui_response", "id": asked.request_id}
    if asked.name == "confirm":
        return {**said, "confirmed": decision.is_allowed}
    value = decision.option_id or decision.option_label or decision.text
    return {**said, "value": value} if decision.is_allowed and value else {**said, "cancelled": True}


_QUIET: Final = frozenset({"turn_start", "turn_end", "message_start", "queue_update", "compaction_start"})
_CANCELLED: Final = "Retry cancelled"


class PiLines:
    """One pi process."""

    def __init__(self) -> None:
        self.wants_state = False
        self._session_id = ""
        self._held: TurnEnded | None = None
        self._is_waiting_to_retry = False
        self._has_text = False

    def feed(self, line: bytes) -> list[Observation]:
        """What one line means. It never raises."""
        event = decode_object(line)
        if event is None:
            return [traced(line)]
        kind = string(event.get("type"))
        is_echo = kind == "message_end" and mapping(event.get("message")).get("role") in ("user", "toolResult")
        if kind in _QUIET or is_echo:
            return []
        if kind == "response" and event.get("command") == "get_state":
            return self._state(mapping(event.get("data")))
        return self._run(kind, event) or self._content(kind, event) or [traced(line)]

    def ended(self) -> list[Observation]:
        """The output is over: nothing takes a prompt up any more."""
        held, self._held = self._held, None
        return [held] if held else []

    def _run(self, kind: str, event: Mapping[str, Json]) -> list[Observation]:
        """What tells the course of the prompt."""
        match kind:
            case "agent_start":
                self._held, self._is_waiting_to_retry = None, False
                return [PromptReached(stage=DeliveryStage.STARTED)]
            case "agent_end":
                return self._agent_ended(event)
            case "auto_retry_start":
                return self._retry(string(event.get("errorMessage")), count(event.get("attempt")))
            case "auto_retry_end" if event.get("success") is not True:
                return self._retries_over(string(event.get("finalError")))
            case "compaction_end" if self._held and event.get("willRetry") is True:
                return self._retry("the context was compacted", None)
            case "compaction_end" if self._held:
                return self.ended()
            case "session":
                return self._named(string(event.get("id")), "", "")
            case _:
                return []

    def _content(self, kind: str, event: Mapping[str, Json]) -> list[Observation]:
        match kind:
            case "message_update":
                return self._piece(mapping(event.get("assistantMessageEvent")))
            case "message_end":
                return self._message(mapping(event.get("message")))
            case "tool_execution_start" if string(event.get("toolCallId")):
                name = string(event.get("toolName")) or "tool"
                return [ToolCalled(call_id=string(event.get("toolCallId")), name=name, args=event.get("args"))]
            case "tool_execution_end" if string(event.get("toolCallId")):
                return [_returned(event)]
            case "extension_ui_request":
                return question(event)
            case "extension_error":
                return [Warned(kind="pi_extension_error", message=string(event.get("error")))]
            case _:
                return []

    def _agent_ended(self, event: Mapping[str, Json]) -> list[Observation]:
        ends = [mapping(one) for one in sequence(event.get("messages"))]
        last = next((one for one in reversed(ends) if one.get("role") == "assistant"), {})
        match string(last.get("stopReason")):
            case "stop" | "toolUse":
                return [TurnEnded(ending=TurnEnding.NATURAL)]
            case "length":
                return [TurnEnded(ending=TurnEnding.STOPPED, stop_code="token_budget")]
            case "aborted":
                return [TurnEnded(ending=TurnEnding.INTERRUPTED)]
            case reason:
                message = string(last.get("errorMessage")) or f"the agent ended by {reason[:200]!r}"
                self._held = TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message=message)
                self.wants_state = True
                return [Warned(kind="pi_run_failed", message=message)]

    def _retry(self, message: str, attempt: int | None) -> list[Observation]:
        self._held, self._is_waiting_to_retry = None, True
        voided: list[Observation] = [TextVoided(reason=message)] if self._has_text else []
        self._has_text = False
        return [*voided, RetryBegun(message=message, attempt=attempt)]

    def _retries_over(self, message: str) -> list[Observation]:
        if not self._is_waiting_to_retry:
            return [Warned(kind="pi_retries_over", message=message)]
        self._is_waiting_to_retry = False
        if message == _CANCELLED:
            return [TurnEnded(ending=TurnEnding.INTERRUPTED)]
        return [TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message=message)]

    def _state(self, data: Mapping[str, Json]) -> list[Observation]:
        model, file = string(mapping(data.get("model")).get("id")), string(data.get("sessionFile"))
        named = self._named(string(data.get("sessionId")), model, file)
        is_at_rest = not data.get("isStreaming") and not data.get("isCompacting")
        return [*named, *(self.ended() if is_at_rest else [])]

    def _named(self, session_id: str, model: str, file: str) -> list[Observation]:
        if not session_id or session_id == self._session_id:
            return []
        self._session_id = session_id
        return [SessionNamed(native_session_id=session_id, model=model, transcript_path=file)]

    def _piece(self, event: Mapping[str, Json]) -> list[Observation]:
        delta = string(event.get("delta"))
        match event.get("type"):
            case "text_delta" if delta:
                self._has_text = True
                return [TextArrived(text=delta)]
            case "thinking_delta" if delta:
                return [ThoughtArrived(text=delta)]
            case _:
                return []

    def _message(self, message: Mapping[str, Json]) -> list[Observation]:
        if message.get("role") != "assistant":
            return []
        model, text = string(message.get("model")), content_text(message.get("content"))
        used = _usage(mapping(message.get("usage")), model)
        if message.get("stopReason") in ("error", "aborted") or not text:
            return used
        self._has_text = False
        return [MessageEnded(text=text, message_id=string(message.get("responseId")), model=model), *used]


def _returned(event: Mapping[str, Json]) -> ToolReturned:
    call_id, result = string(event.get("toolCallId")), mapping(event.get("result"))
    text = content_text(result.get("content"))
    if event.get("isError") is True:
        return ToolReturned(call_id=call_id, error=ToolError(kind="tool_failed", message=text or "no reason was given"))
    return ToolReturned(call_id=call_id, output=text or event.get("result"))


def _usage(usage: Mapping[str, Json], model: str) -> list[Observation]:
    """The figures of one model call. A model without a price costs 0 in pi's eyes, which nobody knows to be true."""
    given, made = count(usage.get("input")), count(usage.get("output"))
    if not given and not made:
        return []
    report = UsageReported(
        scope=UsageScope.CALL,
        model=model,
        input_tokens=given,
        output_tokens=made,
        cached_input_tokens=count(usage.get("cacheRead")),
        cost_usd=amount(mapping(usage.get("cost")).get("total")) or None,
    )
    return [report]
