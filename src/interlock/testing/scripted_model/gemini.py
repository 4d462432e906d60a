"""Gemini: `POST /v1beta/models/NAME:streamGenerateContent` and `:generateContent`."""

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


class _Present(msgspec.Struct, frozen=True):
    """Something is there; what is in it does not matter."""


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    text: str = ""
    function_response: _Present | None = None


class _Content(msgspec.Struct, frozen=True):
    role: str = "user"
    parts: list[_Part] = []


class _Declaration(msgspec.Struct, frozen=True):
    name: str = ""


class _Tool(msgspec.Struct, frozen=True, rename="camel"):
    function_declarations: list[_Declaration] = []


class _Generation(msgspec.Struct, frozen=True, rename="camel"):
    response_mime_type: str = ""
    max_output_tokens: int | None = None


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    contents: list[_Content] = []
    system_instruction: _Content | None = None
    tools: list[_Tool] | None = None
    generation_config: _Generation | None = None


def read(path: str, body: bytes) -> ModelConversation:
    """The request as a conversation. The path names the model and says whether to stream."""
    asked = msgspec.json.decode(body, type=_Body)
    model, _, method = path.rpartition(":")
    options = asked.generation_config or _Generation()
    declared = [one for tool in asked.tools or () for one in tool.function_declarations]
    return ModelConversation(
        model=model.rpartition("/")[2],
        system=joined(part.text for part in asked.system_instruction.parts) if asked.system_instruction else "",
        said=tuple(said for content in asked.contents for said in _said(content)),
        tools={one.name: "function" for one in declared},
        is_stream=method == "streamGenerateContent",
        wants_json=options.response_mime_type == "application/json",
        max_tokens=options.max_output_tokens,
    )


def _said(content: _Content) -> list[ModelSaid]:
    if content.role == "model":
        return [ModelSaid(ModelRole.ASSISTANT, joined(part.text for part in content.parts))]
    return [
        ModelSaid(ModelRole.TOOL if part.function_response is not None else ModelRole.USER, part.text)
        for part in content.parts
    ]


class GeminiReply(ModelReply):
    def delta(self, block: ContentBlock, text: str) -> bytes:
        return sse(self._document([_part(block.kind, text)]))

    def call_events(self, block: ContentBlock) -> bytes:
        return sse(self._document([_call(block)]))

    def end(self) -> bytes:
        return sse(self._document([{"text": ""}], finish_reason="STOP"))

    def whole(self) -> Json:
        parts = [_part(one.kind, one.text) if one.call is None else _call(one) for one in self.blocks]
        return self._document(parts, finish_reason="STOP")

    def _document(self, parts: list[Json], finish_reason: str | None = None) -> Json:
        candidate: dict[str, Json] = {"index": 0, "content": {"role": "model", "parts": parts}}
        if finish_reason is not None:
            candidate["finishReason"] = finish_reason
        usage: Json = {
            "promptTokenCount": 100,
            "candidatesTokenCount": self.tokens,
            "totalTokenCount": 100 + self.tokens,
        }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.conversation.model}

    def error(self, status: int, message: str) -> Json:
        return {"error": {"code": status, "message": message, "status": "INTERNAL" if status >= 500 else "FAILED"}}


def _part(kind: str, text: str) -> Json:
    return {"text": text} if kind == "text" else {"text": text, "thought": True}


def _call(block: ContentBlock) -> Json:
    assert block.call is not None
    return {
        "functionCall": {"id": f"call_{block.id}", "name": block.call.name, "args": dict(block.call.arguments)},
    }
