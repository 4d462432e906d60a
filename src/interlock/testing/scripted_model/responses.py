"""OpenAI Responses: `POST /v1/responses`."""

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
    type: str = ""
    text: str = ""


class _Item(msgspec.Struct, frozen=True):
    type: str = "message"
    role: str = ""
    content: str | list[_Part] | None = None


class _Tool(msgspec.Struct, frozen=True):
    type: str = "function"
    name: str = ""


class _Format(msgspec.Struct, frozen=True):
    type: str = "text"


class _TextOptions(msgspec.Struct, frozen=True):
    format: _Format | None = None


class _Body(msgspec.Struct, frozen=True):
    model: str = ""
    instructions: str | None = None
    input: str | list[_Item] = []
    tools: list[_Tool] | None = None
    stream: bool = False
    text: _TextOptions | None = None
    max_output_tokens: int | None = None


def read(path: str, body: bytes) -> ModelConversation:
    """The request as a conversation. Developer and system items count as the system's words."""
    asked = msgspec.json.decode(body, type=_Body)
    items = [_Item(role="user", content=asked.input)] if isinstance(asked.input, str) else asked.input
    system = [_text(item) for item in items if item.role in ("developer", "system")]
    form = asked.text.format if asked.text is not None else None
    return ModelConversation(
        model=asked.model,
        system=joined([asked.instructions or "", *system]),
        said=tuple(said for item in items for said in _said(item)),
        tools={tool.name or tool.type: tool.type for tool in asked.tools or ()},
        is_stream=asked.stream,
        wants_json=form is not None and form.type != "text",
        max_tokens=asked.max_output_tokens,
    )


def _text(item: _Item) -> str:
    if isinstance(item.content, str):
        return item.content
    return joined(part.text for part in item.content or ())


def _said(item: _Item) -> list[ModelSaid]:
    if item.type.endswith("_output"):
        return [ModelSaid(ModelRole.TOOL)]
    if item.type != "message" or item.role == "assistant":
        return [ModelSaid(ModelRole.ASSISTANT, _text(item))]
    if item.role != "user":
        return []
    if isinstance(item.content, str):
        return [ModelSaid(ModelRole.USER, item.content)]
    return [ModelSaid(ModelRole.USER, part.text) for part in item.content or ()]


class ResponsesReply(ModelReply):
    def __init__(self, conversation: ModelConversation, number: int) -> None:
        super().__init__(conversation, number)
        self._sequence = 0

    def start(self) -> bytes:
        return self._event("response.created", {"response": self._response("in_progress")})

    def start_block(self, block: ContentBlock) -> bytes:
        item = self._item(block, "in_progress") | {"content" if block.kind == "text" else "summary": []}
        added = self._block_event("response.output_item.added", {"item": item})
        if block.kind == "text":
            part: Json = {"type": "output_text", "text": "", "annotations": []}
            return added + self._block_event("response.content_part.added", self._at(block) | {"part": part})
        part = {"type": "summary_text", "text": ""}
        return added + self._block_event("response.reasoning_summary_part.added", self._at(block) | {"part": part})

    def delta(self, block: ContentBlock, text: str) -> bytes:
        name = "response.output_text.delta" if block.kind == "text" else "response.reasoning_summary_text.delta"
        return self._block_event(name, self._at(block) | {"delta": text})

    def stop_block(self, block: ContentBlock) -> bytes:
        part: Json = {"type": "output_text" if block.kind == "text" else "summary_text", "text": block.text}
        text, done = (
            ("response.output_text.done", "response.content_part.done")
            if block.kind == "text"
            else ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done")
        )
        return (
            self._block_event(text, self._at(block) | {"text": block.text})
            + self._block_event(done, self._at(block) | {"part": part})
            + self._block_event("response.output_item.done", {"item": self._item(block)})
        )

    def call_events(self, block: ContentBlock) -> bytes:
        item = self._item(block)
        field = "input" if item["type"] == "custom_tool_call" else "arguments"
        name = "custom_tool_call_input" if field == "input" else "function_call_arguments"
        return (
            self._block_event("response.output_item.added", {"item": item | {field: "", "status": "in_progress"}})
            + self._block_event(f"response.{name}.delta", {"item_id": item["id"], "delta": item[field]})
            + self._block_event(f"response.{name}.done", {"item_id": item["id"], field: item[field]})
            + self._block_event("response.output_item.done", {"item": item})
        )

    def _at(self, block: ContentBlock) -> dict[str, Json]:
        index = "content_index" if block.kind == "text" else "summary_index"
        return {"item_id": _item_id(block), index: 0}

    def _item(self, block: ContentBlock, status: str = "completed") -> dict[str, Json]:
        if block.call is not None:
            return self._call_item(block, status)
        if block.kind == "think":
            return {
                "type": "reasoning",
                "id": _item_id(block),
                "summary": [{"type": "summary_text", "text": block.text}],
                "encrypted_content": None,
            }
        return {
            "type": "message",
            "id": _item_id(block),
            "role": "assistant",
            "status": status,
            "content": [{"type": "output_text", "text": block.text, "annotations": []}],
        }

    def _call_item(self, block: ContentBlock, status: str) -> dict[str, Json]:
        assert block.call is not None
        name, arguments = block.call.name, block.call.arguments
        head: dict[str, Json] = {
            "id": _item_id(block),
            "call_id": f"call_{block.id}",
            "name": name,
            "status": status,
        }
        if self.conversation.tools.get(name) == "custom":
            return head | {"type": "custom_tool_call", "input": str(arguments.get("input", ""))}
        return head | {"type": "function_call", "arguments": msgspec.json.encode(dict(arguments)).decode()}

    def _block_event(self, name: str, fields: dict[str, Json]) -> bytes:
        return self._event(name, {"output_index": len(self.blocks) - 1} | fields)

    def _event(self, name: str, fields: dict[str, Json]) -> bytes:
        self._sequence += 1
        return sse({"type": name, "sequence_number": self._sequence - 1, **fields}, name)

    def end(self) -> bytes:
        return self._event("response.completed", {"response": self.whole()})

    def whole(self) -> Json:
        usage: Json = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": self.tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 100 + self.tokens,
        }
        return self._response("completed") | {"usage": usage}

    def _response(self, status: str) -> dict[str, Json]:
        return {
            "id": f"resp_{self.number:04d}",
            "object": "response",
            "created_at": 0,
            "status": status,
            "model": self.conversation.model,
            "output": [self._item(block) for block in self.blocks] if status == "completed" else [],
            "error": None,
        }

    def error(self, status: int, message: str) -> Json:
        return {"error": {"message": message, "type": "server_error" if status >= 500 else "invalid_request_error"}}

    def error_events(self, status: int, message: str) -> bytes:
        failed = self._response("failed") | {"error": {"code": "server_error", "message": message}}
        return self._event("response.failed", {"response": failed})


def _item_id(block: ContentBlock) -> str:
    prefix = {"think": "rs", "text": "msg", "call": "fc"}[block.kind]
    return f"{prefix}_{block.id}"
