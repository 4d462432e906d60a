"""What a presenter is told to draw: items on named channels, for a terminal and for a client alike.

`answer` carries nothing but the clean answers of completed turns. Everything that is less goes elsewhere, and says so.
An item with a role is a message of the transcript, known by the `seq` of its event: the fields of the message are in
the item, and whoever keeps messages decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import PromptId, SessionId, StreamId, TurnId
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.frames import MessageStatus, Role
from interlock.vocabulary.wire.frames import ToolKind as ToolKind


class DisplayChannel(StrEnum):
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
    """Base of every item. `seq` names the event that it comes from, None for what was never logged. `at` is the time of
    that event, where the item is a message."""

    channel: DisplayChannel
    turn_id: TurnId | None = None
    seq: int | None = None
    at: Moment | None = None


class Show(_Item, frozen=True, kw_only=True, tag="show"):
    """Text to draw. Partial text has a label that says what it is.

    With `stream_id` and `offset` it is the next live piece of a stream; what stood from the offset on was taken back.
    With `stream_id` alone it is the whole text, and takes the place of whatever was drawn of that stream. A later text
    of the same `seq` takes the place of this.
    """

    text: str
    label: str = ""
    role: Role | None = None
    status: MessageStatus = MessageStatus.COMPLETED
    stream_id: StreamId | None = None
    offset: int | None = None
    is_verified: bool = True
    prompt_id: PromptId | None = None
    delivery: DeliveryStage | None = None
    state: TurnState | None = None
    error_kind: str = ""
    next_actions: tuple[NextAction, ...] = ()


class BeginStream(_Item, frozen=True, kw_only=True, tag="begin_stream"):
    """Live text begins, empty. It takes the place of the live text that is open. `label` is how to label what grows."""

    stream_id: StreamId
    label: str


class Retract(_Item, frozen=True, kw_only=True, tag="retract"):
    """Take back what was drawn of a stream from `offset` on: it belongs to nothing that is alive."""

    stream_id: StreamId
    offset: int
    reason: str


class StreamEnding(StrEnum):
    """How live text ended."""

    WHOLE = "whole"
    CANCELLED = "cancelled"
    BROKEN_OFF = "broken_off"


END_STATUS: Final[Mapping[TurnState, MessageStatus]] = {
    TurnState.COMPLETED: MessageStatus.COMPLETED,
    TurnState.PARTIAL_FAILED: MessageStatus.PARTIAL,
    TurnState.FAILED: MessageStatus.FAILED,
    TurnState.INTERRUPTED: MessageStatus.CANCELLED,
    TurnState.TIMED_OUT: MessageStatus.TIMED_OUT,
}
"""What an answer is when its turn ended so."""


def ending_of(status: MessageStatus) -> StreamEnding:
    """How live text ended whose message has that status."""
    known = {MessageStatus.COMPLETED: StreamEnding.WHOLE, MessageStatus.CANCELLED: StreamEnding.CANCELLED}
    return known.get(status, StreamEnding.BROKEN_OFF)


class EndStream(_Item, frozen=True, kw_only=True, tag="end_stream"):
    """Live text ended after `cursor` code points. The message of `message_seq` takes its place. Where there is none,
    the text is no message at all, however it ended: a face that still draws it draws the label, too."""

    stream_id: StreamId
    cursor: int
    ending: StreamEnding
    message_seq: int | None = None
    label: str = ""
    error_kind: str = ""
    error_message: str = ""


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
    """One thing at work, known by kind, id and occurrence; a later item of the same three takes its place.

    `begun_seq` is the event by which it was first known, `at` is when. `asked` is what it was set to do, on one line.
    `text` is what came of it: output, error, summary or the question of a call that waits; of a long one its beginning
    and its end, while `text_length` counts the whole. `label` says what the status alone does not.
    """

    kind: ToolKind
    id: str
    occurrence: int = 1
    name: str
    status: ToolStatus
    label: str = ""
    asked: str = ""
    text: str = ""
    text_length: int = 0
    begun_seq: int | None = None
    child_session_id: SessionId | None = None
    error_kind: str = ""
    next_actions: tuple[NextAction, ...] = ()


class ReceiptItem(_Item, frozen=True, kw_only=True, tag="receipt"):
    """How far a prompt got. `seq` is that of the prompt, None while that is not in the log. The rest is for its
    message; `delivery` is the stage where that puts the delivery in doubt."""

    prompt_id: PromptId
    stage: DeliveryStage
    delivery: DeliveryStage | None = None
    status: MessageStatus
    label: str = ""


Item: TypeAlias = Show | BeginStream | Retract | EndStream | ShowTool | ReceiptItem
