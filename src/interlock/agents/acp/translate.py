"""ACP messages to observations. Pure: it sees every message in both directions, in the order of the wire.

Laws:
1. Only the answer to the open prompt ends a turn. Answers to other requests, and a second prompt's error, do not.
2. A message is ended before a tool call, before a question and at the end of a turn, and never where its attempt died.
3. `in_progress` is no proof that a tool runs: a question about the call may still come, and is always told.
4. What a resumed session repeats of its past is not news, and is left out until whoever loaded it says so: some agents
   answer the request first and repeat the past then.
5. A question is gone when the agent says something of that call, goes on writing, or ends the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.agents.acp import usage
from interlock.agents.acp.calls import AcpCalls, content_text
from interlock.agents.acp.questions import AcpQuestion, read_options, request_id_of
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    MessageEnded,
    Observation,
    PromptReached,
    RetryBegun,
    SessionNamed,
    TextArrived,
    TextVoided,
    ThoughtArrived,
    TurnEnded,
    TurnEnding,
    Warned,
    traced,
)
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import as_text, mapping, sequence, string

PROMPT: Final = "session/prompt"
PERMISSION: Final = "session/request_permission"
AUTH_REQUIRED: Final = -32000
_UPDATE: Final = "session/update"
_OPENING: Final = ("session/new", "session/load", "session/resume")
# Known, and nothing that happens in a turn.
_QUIET: Final = frozenset(
    {"available_commands_update", "current_mode_update", "config_option_update", "session_info_update"}
)
_ENDINGS: Final = {
    "end_turn": TurnEnded(ending=TurnEnding.NATURAL),
    "max_tokens": TurnEnded(ending=TurnEnding.STOPPED, stop_code="token_budget"),
    "max_turn_requests": TurnEnded(ending=TurnEnding.STOPPED, stop_code="max_rounds"),
    "refusal": TurnEnded(ending=TurnEnding.ERROR, error_kind="refusal", error_message="the agent refused the prompt"),
    "cancelled": TurnEnded(ending=TurnEnding.INTERRUPTED),
}


class AcpTranslator:
    """One ACP session. Give it what was sent and what was received; it says what that means."""

    def __init__(self) -> None:
        self.session_id = ""
        self.version = ""
        self.questions: dict[str, AcpQuestion] = {}
        self._asked: dict[Json, str] = {}
        self._prompt_id: Json = None
        self._has_started = False
        self.is_replaying = False
        self._text: list[str] = []
        self._message_id = ""
        self._calls = AcpCalls()
        self._usage = usage.AcpTurnUsage()

    @property
    def is_turn_open(self) -> bool:
        return self._prompt_id is not None

    def sent(self, message: Mapping[str, Json]) -> None:
        """A message of ours is being written: its answer may come before the writing is over."""
        method, rpc_id = string(message.get("method")), message.get("id")
        if not method or not isinstance(rpc_id, int | str):
            return
        self._asked[rpc_id] = method
        if method == PROMPT:
            self._prompt_id, self._has_started = rpc_id, False
            self._text, self._message_id = [], ""
            self._calls.forget()
        elif method in ("session/load", "session/resume"):
            self.session_id = string(mapping(message.get("params")).get("sessionId"))
            self.is_replaying = method == "session/load"
            self._usage.resumed()

    def unsent(self, message: Mapping[str, Json]) -> None:
        """A message that was told as sent did certainly not reach the agent."""
        rpc_id = message.get("id")
        if isinstance(rpc_id, int | str) and self._asked.pop(rpc_id, "") == PROMPT and rpc_id == self._prompt_id:
            self._prompt_id = None

    def answering(self, question: AcpQuestion, *, is_allowed: bool) -> None:
        """An answer of ours to this question is being written."""
        question.is_answered, question.is_refused = True, not is_allowed
        if not is_allowed:
            self._calls.refuse(question.call_id)

    def received(self, message: Mapping[str, Json]) -> list[Observation]:
        """What a message of the agent means."""
        method, params = string(message.get("method")), mapping(message.get("params"))
        if not method:
            return self._answer(message)
        if method == PERMISSION and isinstance(message.get("id"), int | str):
            return self._permission(message.get("id"), params)
        if method == _UPDATE and "id" not in message:
            return self._update(params)
        if method == "_session/retrying":
            return self._retry(params)
        return [_trace(message)]

    def ended(self) -> list[Observation]:
        """The agent's output is over. A turn that is still open ended without a word."""
        if not self.is_turn_open:
            return []
        self._prompt_id = None
        asked = list(self.questions)
        self.questions.clear()
        gone = [ApprovalGone(request_id=name, is_answered=False) for name in asked]  # what was written may not be read
        return [*self._calls.rest(), *gone, TurnEnded(ending=TurnEnding.SILENT)]

    # Answers to our requests

    def _answer(self, message: Mapping[str, Json]) -> list[Observation]:
        rpc_id = message.get("id")
        method = self._asked.pop(rpc_id, "") if isinstance(rpc_id, int | str) else ""
        result = mapping(message.get("result"))
        if not method:
            return [_trace(message)]
        if method == "initialize":
            self.version = string(mapping(result.get("agentInfo")).get("version"))
        if method in _OPENING:
            return self._opened(result) if "result" in message else []
        if method != PROMPT:
            return []
        if rpc_id != self._prompt_id:
            return [Warned(kind="acp_other_prompt", message="an answer to a prompt that is not the open one")]
        return self._turn_ended(message, result)

    def _opened(self, result: Mapping[str, Json]) -> list[Observation]:
        self.session_id = string(result.get("sessionId")) or self.session_id
        named = SessionNamed(native_session_id=self.session_id, model=current_model(result), version=self.version)
        return [named] if self.session_id else []

    def _turn_ended(self, message: Mapping[str, Json], result: Mapping[str, Json]) -> list[Observation]:
        ending = _ending(message, result)
        is_whole = ending.ending in (TurnEnding.NATURAL, TurnEnding.STOPPED) or ending.error_kind == "refusal"
        last = self._end_message() if is_whole else []
        used = self._usage.of_turn(result, is_clean=ending.ending is TurnEnding.NATURAL)
        self._prompt_id = None
        return [*self._calls.rest(), *last, *self._withdraw(), *used, ending]

    # What the agent tells by itself

    def _update(self, params: Mapping[str, Json]) -> list[Observation]:
        update = mapping(params.get("update"))
        kind = string(update.get("sessionUpdate"))
        if self.is_replaying or kind in _QUIET:
            return []
        if kind == "usage_update":
            return usage.of_update(update)
        if not self.is_turn_open or string(params.get("sessionId")) != self.session_id:
            return [_trace(params)]
        return self._work(kind, update)

    def _work(self, kind: str, update: Mapping[str, Json]) -> list[Observation]:
        match kind:
            case "user_message_chunk":
                return [] if self._has_started else [PromptReached(stage=DeliveryStage.ACCEPTED)]
            case "agent_message_chunk":
                return [*self._started(), *self._gone(), *self._write(update)]
            case "agent_thought_chunk":
                thought = content_text([update.get("content")])
                return [*self._started(), *self._gone(), *([ThoughtArrived(text=thought)] if thought else [])]
            case "tool_call" | "tool_call_update":
                call_id = string(update.get("toolCallId"))
                word = self._calls.word(update, is_announcement=kind == "tool_call")
                told = [*self._end_message(), *word] if word else [_trace(update)]
                return [*self._started(), *self._gone(call_id), *told]
            case _:
                return [*self._started(), _trace(update)]

    def _write(self, update: Mapping[str, Json]) -> list[Observation]:
        text, message_id = content_text([update.get("content")]), string(update.get("messageId"))
        last = self._end_message() if message_id != self._message_id else []
        used = usage.of_chunk(mapping(update.get("_meta")))
        if not text:
            return [*last, *used]
        self._text.append(text)
        self._message_id = message_id
        return [*last, TextArrived(text=text, message_id=message_id), *used]

    def _permission(self, rpc_id: Json, params: Mapping[str, Json]) -> list[Observation]:
        call, first = self._calls.asked(mapping(params.get("toolCall")))
        request_id, options = request_id_of(rpc_id), read_options(params)
        self.questions[request_id] = AcpQuestion(rpc_id, call.call_id if call else "", options)
        asked = ApprovalAsked(
            request_id=request_id,
            call_id=call.call_id if call else "",
            name=call.tool if call else "",
            args=call.args if call else None,
            question=call.title if call else "",
            options=options,
        )
        return [*self._started(), *self._end_message(), *first, asked]

    def _retry(self, params: Mapping[str, Json]) -> list[Observation]:
        said = [string(params.get("category")), string(params.get("detail"))]
        reason = ": ".join(word for word in said if word) or "the agent gave no reason"
        voided: list[Observation] = [TextVoided(reason=reason)] if self._text else []
        self._text, self._message_id = [], ""
        return [*self._started(), *voided, RetryBegun(message=reason)]

    # Pieces

    def _started(self) -> list[Observation]:
        if self._has_started or not self.is_turn_open:
            return []
        self._has_started = True
        return [PromptReached(stage=DeliveryStage.STARTED)]

    def _end_message(self) -> list[Observation]:
        text, message_id = "".join(self._text), self._message_id
        self._text, self._message_id = [], ""
        return [MessageEnded(text=text, message_id=message_id)] if text else []

    def _gone(self, call_id: str = "") -> list[Observation]:
        """Questions that were answered, and that the agent has left behind: all, or those about one call."""
        over = [
            name
            for name, question in self.questions.items()
            if question.is_answered and (not call_id or call_id == question.call_id)
        ]
        asked = [self.questions.pop(name) for name in over]
        # Where the agent goes on with something else, a call that was refused is over without a word of its own.
        refused = [] if call_id else self._calls.refused(one.call_id for one in asked if one.is_refused)
        return [*(ApprovalGone(request_id=name) for name in over), *refused]

    def _withdraw(self) -> list[Observation]:
        asked = dict(self.questions)
        self.questions.clear()
        gone = [ApprovalGone(request_id=name, is_answered=one.is_answered) for name, one in asked.items()]
        return [*gone, *self._calls.refused(one.call_id for one in asked.values() if one.is_refused)]


def current_model(result: Mapping[str, Json]) -> str:
    """The model that a session begins with, in either of the ways in which agents say it."""
    named = string(mapping(result.get("models")).get("currentModelId"))
    options = [mapping(option) for option in sequence(result.get("configOptions"))]
    chosen = next((string(one.get("currentValue")) for one in options if one.get("category") == "model"), "")
    return named or chosen


def _ending(message: Mapping[str, Json], result: Mapping[str, Json]) -> TurnEnded:
    if "error" in message:
        error = mapping(message.get("error"))
        kind = "auth_required" if error.get("code") == AUTH_REQUIRED else "agent_error"
        return TurnEnded(ending=TurnEnding.ERROR, error_kind=kind, error_message=error_text(error))
    reason = string(result.get("stopReason"))
    unknown = TurnEnded(
        ending=TurnEnding.ERROR, error_kind="unknown_stop_reason", error_message=f"the agent ended by {reason[:200]!r}"
    )
    return _ENDINGS.get(reason, unknown)


def error_text(error: Mapping[str, Json]) -> str:
    """What a JSON-RPC error says, with the detail that many agents put beside a message that says nothing."""
    message, data = string(error.get("message")), error.get("data")
    detail = string(mapping(data).get("details")) or string(data)
    return ": ".join(part for part in (message, detail) if part) or f"error {string(error.get('code')) or 'unknown'}"


def _trace(message: Mapping[str, Json]) -> Observation:
    return traced(as_text(dict(message)))
