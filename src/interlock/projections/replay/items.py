"""What a model is given to read: provider-neutral items, and their bytes.

An item holds what a replay event says and nothing of where it stands. Sequence numbers, times and event ids stay out,
because inserting an audit event moves them. A dialect renders items; it neither adds nor leaves out any. Call ids may
repeat from turn to turn: a dialect that needs them unique counts in the order of the items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    BranchSummary,
    HistoryCompaction,
    Reasoning,
    Resource,
    SubagentEvent,
    ToolCall,
    ToolError,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import CallId, SubagentId
from interlock.vocabulary.states import SubagentState


class _Item(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base of every item."""


class UserText(_Item, frozen=True, kw_only=True, tag="user_text"):
    """A prompt. Attachments are described; their bytes live elsewhere."""

    text: str
    resources: tuple[Resource, ...] = ()


class AssistantText(_Item, frozen=True, kw_only=True, tag="assistant_text"):
    """Clean text of the agent."""

    text: str


class ReasoningItem(_Item, frozen=True, kw_only=True, tag="reasoning"):
    """An opaque reasoning item, verbatim. It belongs to the model and dialect of the request."""

    item: Json


class CallItem(_Item, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call. Exactly one result follows it, before anything that is neither output of the agent nor a result."""

    call_id: CallId
    name: str
    args: Json = None
    occurrence: int = 1


class ResultItem(_Item, frozen=True, kw_only=True, tag="tool_result"):
    """The result of an earlier call. `synthetic`: nobody recorded one, and this stands in for it."""

    call_id: CallId
    ok: bool
    output: Json = None
    error: ToolError | None = None
    occurrence: int = 1
    synthetic: bool = False


class CompactionMemory(_Item, frozen=True, kw_only=True, tag="compaction_memory"):
    """What stands for all that came before; always the first item."""

    summary: str
    limitations: tuple[str, ...] = ()


class BranchMemory(_Item, frozen=True, kw_only=True, tag="branch_summary"):
    """What happened on the branch that this session was forked from."""

    summary: str


class SubagentFact(_Item, frozen=True, kw_only=True, tag="subagent_fact"):
    """How a child session ended."""

    subagent_id: SubagentId
    status: SubagentState
    agent: str = ""
    task: str = ""
    summary: str = ""
    checkpoint: Json = None
    reason: str = ""
    attempt: int = 1
    timeout_ms: int | None = None
    elapsed_ms: int | None = None


ReplayItem: TypeAlias = (
    UserText | AssistantText | ReasoningItem | CallItem | ResultItem | CompactionMemory | BranchMemory | SubagentFact
)

# Sorted keys: neither the order of fields here nor that of a tool's arguments can move a byte.
_encoder: Final = msgspec.json.Encoder(order="sorted")


def item_of(data: Payload) -> ReplayItem:
    """The item that a replay payload becomes. Whether it is replayed at all is not decided here."""
    match data:
        case UserMessage():
            return UserText(text=data.text, resources=data.resources)
        case AssistantMessage():
            return AssistantText(text=data.text)
        case Reasoning():
            return ReasoningItem(item=data.item)
        case ToolCall():
            return CallItem(call_id=data.call_id, name=data.name, args=data.args, occurrence=data.occurrence)
        case ToolResult():
            return _result_item(data)
        case HistoryCompaction():
            return CompactionMemory(summary=data.summary, limitations=data.limitations)
        case BranchSummary():
            return BranchMemory(summary=data.summary)
        case SubagentEvent():
            return _subagent_fact(data)
        case _:
            raise ContractError(f"{type(data).__name__} is not part of a conversation and has no replay item")


def _result_item(data: ToolResult) -> ResultItem:
    return ResultItem(
        call_id=data.call_id,
        ok=data.ok,
        output=data.output,
        error=data.error,
        occurrence=data.occurrence,
        synthetic=data.synthetic,
    )


def _subagent_fact(data: SubagentEvent) -> SubagentFact:
    return SubagentFact(
        subagent_id=data.subagent_id,
        status=data.status,
        agent=data.agent,
        task=data.task,
        summary=data.summary,
        checkpoint=data.checkpoint,
        reason=data.reason,
        attempt=data.attempt,
        timeout_ms=data.timeout_ms,
        elapsed_ms=data.elapsed_ms,
    )


def encode_items(items: Iterable[ReplayItem]) -> bytes:
    """Canonical JSON, one item a line, so that a longer conversation begins with the very bytes of a shorter one."""
    return b"".join(_encoder.encode(item) + b"\n" for item in items)


def prefix_digests(items: Iterable[ReplayItem]) -> tuple[str, ...]:
    """SHA-256 of the bytes of every prefix: of no item, of the first, and so on to all of them."""
    running = hashlib.sha256()
    digests = [running.hexdigest()]
    for item in items:
        running.update(encode_items((item,)))
        digests.append(running.hexdigest())
    return tuple(digests)
