"""OpenAI Chat Completions: `POST /v1/chat/completions`."""

from __future__ import annotations

import msgspec

from interlock.testing.scripted_model.dialect import (
    ContentBlock,
    ModelConversation,
    ModelReply,
    ModelRole,
    ModelSaid,
    joined,
    sse,
)
from interlock.vocabulary.events.registry import Json


class _Part(msgspec.Struct, frozen=True):
    type: str = "text"
    text: str = ""


class _Message(msgspec.Struct, frozen=True):
    role: str = "user"
    content: str | list[_Part] | None = None


class _Function(msgspec.Struct, frozen=True):
    name: str = ""


class _Tool(msgspec.Struct, frozen=True):
    type: str = "function"
    function: _Function = _Function()


class _Format(msgspec.Struct, frozen=True):
    type: str = "text"


class _Body(msgspec.Struct, frozen=True):
    model: str = ""
    messages: list[_Message] = []
    tools: list[_Tool] | None = None
    stream: bool | None = None
    response_format: _Format | None = None
    max_tokens: int | None = None


def read(path: str, body: bytes) -> ModelConversation:
    """The request as a conversation."""
    asked = msgspec.json.decode(body, type=_Body)
    return ModelConversation(
        model=asked.model,
        system=joined(_text(message) for message in asked.messages if message.role in ("system", "developer")),
        said=tuple(said for message in asked.messages for said in _said(message)),
        tools={tool.function.name: tool.type for tool in asked.tools or ()},
        is_stream=bool(asked.stream),
        wants_json=asked.response_format is not None and asked.response_format.type != "text",
        max_tokens=asked.max_tokens,
    )


def _text(message: _Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return joined(part.text for part in message.content or ())


def _said(message: _Message) -> list[ModelSaid]:
    match message.role:
        case "assistant":
            return [ModelSaid(ModelRole.ASSISTANT, _text(message))]
        case "tool" | "function":
            return [ModelSaid(ModelRole.TOOL)]
        case "user" if isinstance(message.content, list):
            return [ModelSaid(ModelRole.USER, part.text) for part in message.content]
        case "user":
            return [ModelSaid(ModelRole.USER, _text(message))]
        case _:
            return []


class ChatReply(ModelReply):
    def start(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def delta(self, block: ContentBlock, text: str) -> bytes:
        return self._chunk({"content" if block.kind == "text" else "reasoning_content": text})

    def call_events(self, block: ContentBlock) -> bytes:
        index = sum(one.kind == "call" for one in self.blocks) - 1
        return self._chunk({"tool_calls": [{"index": index, **_call(block)}]})

    def _chunk(self, delta: Json) -> bytes:
        return self._choice({"index": 0, "delta": delta, "finish_reason": None})

    def _choice(self, choice: Json, **more: Json) -> bytes:
        return sse(self._head("chat.completion.chunk") | {"choices": [choice]} | more)

    def end(self) -> bytes:
        last: Json = {"index": 0, "delta": {}, "finish_reason": self._finish_reason}
        return self._choice(last, usage=self._usage) + b"data: [DONE]\n\n"

    def whole(self) -> Json:
        calls: list[Json] = [_call(block) for block in self.blocks if block.kind == "call"]
        message: dict[str, Json] = {
            "role": "assistant",
            "content": "".join(block.text for block in self.blocks if block.kind == "text") or None,
        }
        if calls:
            message["tool_calls"] = calls
        choice: Json = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return self._head("chat.completion") | {"choices": [choice], "usage": self._usage}

    @property
    def _finish_reason(self) -> str:
        return "tool_calls" if self.calls_tools else "stop"

    @property
    def _usage(self) -> Json:
        return {"prompt_tokens": 100, "completion_tokens": self.tokens, "total_tokens": 100 + self.tokens}

    def _head(self, kind: str) -> dict[str, Json]:
        return {
            "id": f"chatcmpl-{self.number:04d}",
            "object": kind,
            "created": 0,
            "model": self.conversation.model,
        }

    def error(self, status: int, message: str) -> Json:
        return {"error": {"message": message, "type": "server_error", "code": status}}


def _call(block: ContentBlock) -> dict[str, Json]:
    assert block.call is not None
    arguments = msgspec.json.encode(dict(block.call.arguments)).decode()
    return {
        "id": f"call_{block.id}",
        "type": "function",
        "function": {"name": block.call.name, "arguments": arguments},
    }
