"""What a presenter is told to draw: items on named channels, for a terminal and for a client alike.

`answer` carries nothing but the clean answers of completed turns. Everything that is less goes elsewhere, and says so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.ids import StreamId, TurnId
from interlock.vocabulary.states import TurnState


class Channel(StrEnum):
    """What kind of thing an item is, so that no presenter has to guess from its words."""

    PROMPT = "prompt"
    ANSWER = "answer"
    COMMENTARY = "commentary"
    THOUGHT = "thought"
    PARTIAL = "partial"
    STATUS = "status"
    ERROR = "error"
    TOOL = "tool"
    DIAGNOSTIC = "diagnostic"


class _Item(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="item"):
    """Base of every item. `seq` names the event that it comes from, None for what was never logged."""

    channel: Channel
    turn_id: TurnId | None = None
    seq: int | None = None


class Show(_Item, frozen=True, kw_only=True, tag="show"):
    """Text to draw. Partial text has a label that says what it is.

    With `stream_id` and `offset` it is the next live piece of a stream. With `stream_id` alone it is the whole text,
    and takes the place of whatever was drawn of that stream.
    """

    text: str
    label: str = ""
    stream_id: StreamId | None = None
    offset: int | None = None
    state: TurnState | None = None
    error_kind: str = ""
    next_actions: tuple[NextAction, ...] = ()


class Retract(_Item, frozen=True, kw_only=True, tag="retract"):
    """Take back what was drawn of a stream from `offset` on: it belongs to nothing that is alive."""

    stream_id: StreamId
    offset: int
    reason: str


class ToolKind(StrEnum):
    """What is drawn like a tool: something that was set to work and ends one way or another."""

    TOOL = "tool"
    SUBAGENT = "subagent"
    WORKFLOW = "workflow"
    STEP = "step"


class ToolStatus(StrEnum):
    """How far it is. Only `succeeded` may be drawn as completed; `unknown` is not a kind of success."""

    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class ShowTool(_Item, frozen=True, kw_only=True, tag="tool"):
    """One thing at work, known by kind, id and occurrence; a later item of the same three takes its place."""

    kind: ToolKind
    id: str
    occurrence: int = 1
    name: str
    status: ToolStatus
    text: str = ""
    next_actions: tuple[NextAction, ...] = ()


Item: TypeAlias = Show | Retract | ShowTool
