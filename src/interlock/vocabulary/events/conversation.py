"""Event types that a model may see again: the conversation itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.registry import Audience, Json, Payload, declare
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import CallId, PromptId, SessionIdField, StreamId, SubagentId
from interlock.vocabulary.states import SubagentState, TurnState

# 2**53 - 1 is the largest integer that every JSON reader, a browser included, reads back as it was written.
MAX_COUNT: Final = 2**53 - 1
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Ordinal = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Name = Annotated[str, Meta(min_length=1)]


class Resource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attachment by description and hash; its bytes live elsewhere."""

    name: str
    media_type: str = ""
    sha256: str = ""
    size_bytes: Count | None = None


@declare("user_message", Audience.REPLAY)
class UserMessage(Payload, frozen=True, kw_only=True):
    """A prompt that was accepted for the agent."""

    text: str
    resources: tuple[Resource, ...] = ()
    prompt_id: PromptId | None = None


class MessageSource(StrEnum):
    """Where an answer's text came from. `none`: the turn is proven complete, and no text could be had."""

    STREAM = "stream"
    TRANSCRIPT = "transcript"
    SURFACE = "surface"
    NONE = "none"


class Truncation(StrEnum):
    """Whether the provider cut its own output. Unknown is never read as truncated."""

    NOT_TRUNCATED = "not_truncated"
    TRUNCATED = "truncated"
    UNKNOWN = "unknown"


class MessageMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What kind of answer text this is, and how far to trust it.

    `partial`: the turn failed before the text was whole. `intermediate`: clean text before a tool call, not the answer.
    `surface_accepted`: a caller chose to trust text that was read off a screen.
    """

    partial: bool = False
    intermediate: bool = False
    source: MessageSource = MessageSource.STREAM
    surface_accepted: bool = False
    model: str = ""
    stream_id: StreamId | None = None
    truncation: Truncation = Truncation.UNKNOWN
    terminal_status: TurnState | None = None
    error_kind: str = ""
    error_message: str = ""
    lost_after_offset: Count | None = None

    def __post_init__(self) -> None:
        if self.partial and self.intermediate:
            raise ContractError("a message is either partial or intermediate, not both")
        if self.lost_after_offset is not None and not self.partial:
            raise ContractError("a message of which some is known to be lost is partial")


@declare("assistant_message", Audience.REPLAY)
class AssistantMessage(Payload, frozen=True, kw_only=True):
    """Text that the agent produced. Audit only when it is partial or was read off a screen without proof."""

    text: str
    metadata: MessageMetadata = MessageMetadata()

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def is_verified(self) -> bool:
        return self.metadata.source is not MessageSource.SURFACE or self.metadata.surface_accepted


@declare("reasoning", Audience.REPLAY)
class Reasoning(Payload, frozen=True, kw_only=True):
    """An opaque reasoning item. It is replayed to the same model and dialect only."""

    item: Json
    model: Name
    dialect: str = ""


@declare("tool_call", Audience.REPLAY)
class ToolCall(Payload, frozen=True, kw_only=True):
    """The agent asked for a tool. `occurrence` tells apart calls of one turn that reuse an id."""

    call_id: CallId
    name: Name
    args: Json = None
    occurrence: Ordinal = 1


class ToolError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a tool call gave no output."""

    kind: Name
    message: str
    details: Json = None


@declare("tool_result", Audience.REPLAY)
class ToolResult(Payload, frozen=True, kw_only=True):
    """What a tool call gave. `synthetic` results are repairs, written so that no call stays unpaired."""

    call_id: CallId
    ok: bool
    output: Json = None
    error: ToolError | None = None
    occurrence: Ordinal = 1
    synthetic: bool = False

    def __post_init__(self) -> None:
        if self.ok == (self.error is not None):
            raise ContractError("a tool result carries an error exactly when it is not ok")


class SeqRange(Struct, frozen=True, kw_only=True):
    """A closed range of sequence numbers."""

    from_seq: Count
    to_seq: Count

    def __post_init__(self) -> None:
        if self.from_seq > self.to_seq:
            raise ContractError(f"range {self.from_seq}..{self.to_seq} runs backwards")


class CompactionTrigger(StrEnum):
    """Why a compaction was made."""

    MANUAL = "manual"
    OVERFLOW_RECOVERY = "overflow_recovery"
    CRITICAL_PRESSURE = "critical_pressure"


@declare("history_compaction", Audience.REPLAY)
class HistoryCompaction(Payload, frozen=True, kw_only=True):
    """A summary that stands for a range of the log in what the model sees. The log itself keeps everything."""

    range: SeqRange
    summary: str
    strategy: Name
    trigger: CompactionTrigger = CompactionTrigger.MANUAL
    limitations: tuple[str, ...] = ()


@declare("branch_summary", Audience.REPLAY)
class BranchSummary(Payload, frozen=True, kw_only=True):
    """What happened on the branch that this session was forked from."""

    parent_session_id: SessionIdField
    range: SeqRange
    summary: str


@declare("subagent_event", Audience.REPLAY)
class SubagentEvent(Payload, frozen=True, kw_only=True):
    """A fact about a child session. Replayed only when it is terminal and marked `model_visible`.

    Build terminal ones with `lifecycle.children.subagent_evidence`, which knows the fields that each state requires.
    """

    subagent_id: SubagentId
    status: SubagentState
    child_session_id: SessionIdField | None = None
    agent: str = ""
    task: str = ""
    summary: str = ""
    checkpoint: Json = None
    reason: str = ""
    attempt: Ordinal = 1
    timeout_ms: Count | None = None
    elapsed_ms: Count | None = None
    deadline_at: Moment | None = None
    next_actions: tuple[NextAction, ...] = ()
    model_visible: bool = False
