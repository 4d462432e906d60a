"""Anthropic Messages: `POST /v1/messages`."""

from __future__ import annotations

from typing import Final

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

_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class _Part(msgspec.Struct, frozen=True):
    type: str = "text"
    text: str = ""


class _Message(msgspec.Struct, frozen=True):
    role: str = "user"
    content: str | list[_Part] = ""


class _Tool(msgspec.Struct, frozen=True):
    name: str
    type: str = "custom"


class _Present(msgspec.Struct, frozen=True):
    """Something is there; what is in it does not matter."""


class _OutputConfig(msgspec.Struct, frozen=True):
    format: _Present | None = None


class _Body(msgspec.Struct, frozen=True):
    model: str = ""
    system: str | list[_Part] = ""
    messages: list[_Message] = []
    tools: list[_Tool] = []
    stream: bool = False
    max_tokens: int | None = None
    output_format: _Present | None = None
    output_config: _OutputConfig = _OutputConfig()


def read(path: str, body: bytes) -> ModelConversation:
    """The request as a conversation."""
    asked = msgspec.json.decode(body, type=_Body)
    return ModelConversation(
        model=asked.model,
        system=_text(asked.system),
        said=tuple(said for message in asked.messages for said in _said(message)),
        tools={tool.name: tool.type for tool in asked.tools},
        is_stream=asked.stream,
        wants_json=(asked.output_format or asked.output_config.format) is not None,
        max_tokens=asked.max_tokens,
    )


def _text(content: str | list[_Part]) -> str:
    return content if isinstance(content, str) else joined(part.text for part in content)


def _said(message: _Message) -> list[ModelSaid]:
    if message.role == "assistant":
        return [ModelSaid(ModelRole.ASSISTANT, _text(message.content))]
    if message.role != "user":
        return []  # Claude Code puts notes of the system's between the messages.
    if isinstance(message.content, str):
        return [ModelSaid(ModelRole.USER, message.content)]
    return [
        ModelSaid(ModelRole.TOOL if part.type == "tool_result" else ModelRole.USER, part.text)
        for part in message.content
    ]


class MessagesReply(ModelReply):
    def start(self) -> bytes:
        return sse({"type": "message_start", "message": self._message([], None)}, "message_start")

    def start_block(self, block: ContentBlock) -> bytes:
        empty: Json = (
            {"type": "text", "text": ""}
            if block.kind == "text"
            else {"type": "thinking", "thinking": "", "signature": ""}
        )
        return self._block_event("content_block_start", {"content_block": empty})

    def delta(self, block: ContentBlock, text: str) -> bytes:
        delta: Json = (
            {"type": "text_delta", "text": text}
            if block.kind == "text"
            else {"type": "thinking_delta", "thinking": text}
        )
        return self._block_event("content_block_delta", {"delta": delta})

    def stop_block(self, block: ContentBlock) -> bytes:
        signed = b""
        if block.kind == "think":
            signature: Json = {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="}
            signed = self._block_event("content_block_delta", {"delta": signature})
        return signed + self._block_event("content_block_stop", {})

    def call_events(self, block: ContentBlock) -> bytes:
        assert block.call is not None
        head: Json = {"type": "tool_use", "id": f"toolu_{block.id}", "name": block.call.name, "input": {}}
        arguments = msgspec.json.encode(dict(block.call.arguments)).decode()
        return (
            self._block_event("content_block_start", {"content_block": head})
            + self._block_event(
                "content_block_delta", {"delta": {"type": "input_json_delta", "partial_json": arguments}}
            )
            + self._block_event("content_block_stop", {})
        )

    def _block_event(self, name: str, fields: dict[str, Json]) -> bytes:
        return sse({"type": name, "index": len(self.blocks) - 1, **fields}, name)

    def end(self) -> bytes:
        delta: Json = {"stop_reason": self._stop_reason, "stop_sequence": None}
        usage: Json = {"output_tokens": self.tokens}
        return sse({"type": "message_delta", "delta": delta, "usage": usage}, "message_delta") + sse(
            {"type": "message_stop"}, "message_stop"
        )

    def whole(self) -> Json:
        return self._message([_document(block) for block in self.blocks], self._stop_reason)

    @property
    def _stop_reason(self) -> str:
        return "tool_use" if self.calls_tools else "end_turn"

    def _message(self, content: list[Json], stop_reason: str | None) -> Json:
        return {
            "id": f"msg_{self.number:04d}",
            "type": "message",
            "role": "assistant",
            "model": self.conversation.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": self.tokens},
        }

    def error(self, status: int, message: str) -> Json:
        return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}

    def error_events(self, status: int, message: str) -> bytes:
        return sse(self.error(status, message), "error")


def _document(block: ContentBlock) -> Json:
    if block.call is not None:
        return {
            "type": "tool_use",
            "id": f"toolu_{block.id}",
            "name": block.call.name,
            "input": dict(block.call.arguments),
        }
    if block.kind == "text":
        return {"type": "text", "text": block.text}
    return {"type": "thinking", "thinking": block.text, "signature": "c2NyaXB0ZWQ="}
