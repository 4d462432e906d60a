"""Our conversation in the words of pydantic-ai, and its answer in ours. Imports pydantic-ai: load it late.

Laws:
1. Every item is rendered, in order, and nothing else is: what a request holds is what the items say.
2. Items of a longer conversation begin with the messages of a shorter one.
3. Call ids may repeat from turn to turn, but not on the wire: a repeated one is counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final, assert_never

import msgspec
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from interlock.agents.model.calls import CallUsage, ModelAnswer, RequestedCall
from interlock.projections.replay.items import (
    AssistantText,
    BranchMemory,
    CallItem,
    CompactionMemory,
    ReasoningItem,
    ReplayItem,
    ResultItem,
    SubagentFact,
    UserText,
)
from interlock.vocabulary.events.registry import Json

MAX_UNREADABLE_CHARACTERS: Final = 4096


class _Thought(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reasoning item that we keep. What does not look like one is left out: it is not ours."""

    content: str = ""
    id: str | None = None
    signature: str | None = None
    provider_name: str | None = None
    provider_details: dict[str, Json] | None = None


def messages_of(items: Iterable[ReplayItem], instructions: str) -> list[ModelMessage]:
    """The messages of a request."""
    writer = _Writer()
    for item in items:
        writer.take(item)
    messages = writer.messages
    for message in messages:
        if isinstance(message, ModelRequest):
            message.instructions = instructions or None
    return messages


class _Writer:
    """Joins what the agent put out in one round to one message, and what it was given after it to the next."""

    def __init__(self) -> None:
        self.messages: list[ModelMessage] = []
        self._wire_ids: dict[tuple[str, int], str] = {}
        self._names: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def take(self, item: ReplayItem) -> None:
        match item:
            case AssistantText(text=text):
                self._put_out(TextPart(content=text))
            case ReasoningItem():
                self._take_thought(item)
            case CallItem():
                self._put_out(self._call(item))
            case ResultItem():
                self._give(self._result(item))
            case UserText() | CompactionMemory() | BranchMemory() | SubagentFact():
                self._give(UserPromptPart(content=_told(item)))
            case _:
                assert_never(item)

    def _take_thought(self, item: ReasoningItem) -> None:
        try:
            kept = msgspec.convert(item.item, _Thought)
        except msgspec.ValidationError:
            return
        thought = ThinkingPart(
            content=kept.content,
            id=kept.id,
            signature=kept.signature,
            provider_name=kept.provider_name,
            provider_details=kept.provider_details,
        )
        self._put_out(thought, provider_name=kept.provider_name)

    def _call(self, item: CallItem) -> ToolCallPart:
        self._counts[item.call_id] += 1
        count = self._counts[item.call_id]
        wire_id = item.call_id if count == 1 else f"{item.call_id}~{count}"
        self._wire_ids[item.call_id, item.occurrence] = wire_id
        self._names[wire_id] = item.name
        args = item.args if isinstance(item.args, dict) else {} if item.args is None else {"unreadable": item.args}
        return ToolCallPart(tool_name=item.name, args=args, tool_call_id=wire_id)

    def _result(self, item: ResultItem) -> ToolReturnPart:
        wire_id = self._wire_ids.get((item.call_id, item.occurrence), item.call_id)
        name = self._names.get(wire_id, "unknown")
        if item.error is None:
            return ToolReturnPart(tool_name=name, content=_content(item.output), tool_call_id=wire_id)
        told = f"{item.error.kind}: {item.error.message}"
        content = told if item.output is None else f"{told}\n{_content(item.output)}"
        return ToolReturnPart(tool_name=name, content=content, tool_call_id=wire_id, outcome="failed")

    def _put_out(self, part: ModelResponsePart, provider_name: str | None = None) -> None:
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, ModelResponse):
            last = ModelResponse(parts=[])
            self.messages.append(last)
        last.parts = [*last.parts, part]
        last.provider_name = last.provider_name or provider_name

    def _give(self, part: ModelRequestPart) -> None:
        last = self.messages[-1] if self.messages else None
        is_result = isinstance(part, ToolReturnPart)
        if isinstance(last, ModelRequest) and (is_result or not isinstance(last.parts[-1], ToolReturnPart)):
            last.parts = [*last.parts, part]
        else:
            self.messages.append(ModelRequest(parts=[part]))


def _content(output: Json) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, sort_keys=True)


def _told(item: UserText | CompactionMemory | BranchMemory | SubagentFact) -> str:
    match item:
        case UserText(text=text, resources=resources):
            names = ", ".join(resource.name for resource in resources)
            return f"{text}\n[attached: {names}]" if names else text
        case CompactionMemory(summary=summary, limitations=limitations):
            notes = "".join(f"\n({note})" for note in limitations)
            return f"[Summary of the conversation so far]\n{summary}{notes}"
        case BranchMemory(summary=summary):
            return f"[Summary of the branch this conversation came from]\n{summary}"
        case SubagentFact():
            return f"[Subagent {item.subagent_id} is {item.status.value}] {item.summary or item.reason}".rstrip()
        case _:
            assert_never(item)


def answer_of(response: ModelResponse) -> ModelAnswer:
    """A whole response in our words. Reasoning is kept only where the provider wants to see it again."""
    text: list[str] = []
    reasoning: list[Json] = []
    calls: list[RequestedCall] = []
    for part in response.parts:
        if isinstance(part, TextPart):
            text.append(clean(part.content))
        elif isinstance(part, ThinkingPart):
            reasoning.append(_thought(part))
        elif isinstance(part, ToolCallPart):
            calls.append(_requested(part))
    return ModelAnswer(
        text="".join(text),
        reasoning=tuple(reasoning),
        calls=tuple(calls),
        usage=_usage(response.usage),
        model=response.model_name or "",
        is_truncated=response.finish_reason == "length",
    )


def _thought(part: ThinkingPart) -> Json:
    kept = _Thought(clean(part.content), part.id, part.signature, part.provider_name, part.provider_details)
    # What a provider puts into its details is not ours to trust: whatever is no JSON is written as text.
    written: Json = json.loads(msgspec.json.encode(kept, enc_hook=str))
    return written


def clean(text: str) -> str:
    """Text that can be written: half a character, as JSON lets a provider send it, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def _requested(part: ToolCallPart) -> RequestedCall:
    """A call whose arguments are read strictly: what is no JSON object is kept as text, and never run."""
    args, unreadable = None, ""
    try:
        raw = part.args if isinstance(part.args, str) else msgspec.json.encode(part.args or {}).decode()
        args = msgspec.json.decode(raw, type=dict[str, Json]) if raw.strip() else {}
    except (msgspec.DecodeError, RecursionError, TypeError, ValueError):
        unreadable = clean(str(part.args))[:MAX_UNREADABLE_CHARACTERS]
    return RequestedCall(call_id=clean(part.tool_call_id), name=clean(part.tool_name), args=args, unreadable=unreadable)


def _usage(usage: RequestUsage) -> CallUsage:
    if usage.unmeasured_requests or not (usage.input_tokens or usage.output_tokens):
        return CallUsage()
    return CallUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_input_tokens=usage.cache_read_tokens or None,  # the library does not say whether 0 was reported
        cost_usd=None if usage.cost is None else float(usage.cost),
    )
