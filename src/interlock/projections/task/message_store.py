"""The transcript of a task: the messages that the presenter's items say, kept by id. It decides nothing.

Laws:
1. A message is known by its id. Whatever changes it gives it the version at which that happened, and tells it again.
2. What says nothing new is not told.
3. To keep a message costs the same, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import structs

from interlock.projections.present.display import Item, ReceiptItem, Show, ShowTool, ToolStatus
from interlock.vocabulary.wire.frames import Message, MessageStatus, Role

_TOOL_STATUS: Final[Mapping[ToolStatus, MessageStatus]] = {
    ToolStatus.RUNNING: MessageStatus.RUNNING,
    ToolStatus.WAITING: MessageStatus.WAITING,
    ToolStatus.SUCCEEDED: MessageStatus.COMPLETED,
    ToolStatus.PARTIAL: MessageStatus.PARTIAL,
    ToolStatus.FAILED: MessageStatus.FAILED,
    ToolStatus.CANCELLED: MessageStatus.CANCELLED,
    ToolStatus.UNKNOWN: MessageStatus.UNKNOWN,
}

PAGE_CHARACTERS: Final = 4_000_000
"""How much text a page may hold: a client must be able to take it as one frame. A longer text is a page by itself."""


class MessageStore:
    """Every message, by id."""

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}
        self._ids: list[int] = []
        self._changes: list[tuple[int, int]] = []  # (version, id), as they came

    def take(self, items: Iterable[Item], version: int) -> list[Message]:
        """Keep what items say at a version of the log. The messages that are new or changed, in the order to tell."""
        return [told for item in items for message in self._said(item) for told in self._put(message, version)]

    def get(self, message_id: int) -> Message | None:
        return self._messages.get(message_id)

    def since(self, version: int) -> tuple[Message, ...]:
        """What is new or changed after a version, in order."""
        changed = self._changes[bisect_right(self._changes, version, key=lambda change: change[0]) :]
        return tuple(self._messages[one] for one in sorted({message_id for _, message_id in changed}))

    def page(self, before: int | None, limit: int) -> tuple[tuple[Message, ...], int | None]:
        """The newest messages older than `before`, in order, and the cursor of the next older page."""
        end = len(self._ids) if before is None else bisect_left(self._ids, before)
        page: list[Message] = []
        characters = 0
        for message_id in reversed(self._ids[max(0, end - max(1, limit)) : end]):
            message = self._messages[message_id]
            characters += _size(message)
            if page and characters > PAGE_CHARACTERS:
                break
            page.append(message)
        is_first = len(page) == end
        return tuple(reversed(page)), None if is_first else page[-1].message_id

    def _said(self, item: Item) -> Iterator[Message]:
        """The message that an item is, or the one that it changes."""
        match item:
            case Show(role=Role() as role) if item.seq and item.at:
                yield _text(item, role, item.seq)
            case ShowTool(begun_seq=int() as seq):
                yield from _tool(item, seq)
            case ReceiptItem(seq=int() as seq) if seq in self._messages:
                known = self._messages[seq]
                yield structs.replace(known, status=item.status, label=item.label, delivery=item.delivery)
            case _:
                pass

    def _put(self, message: Message, version: int) -> Iterator[Message]:
        """Keep a message, and tell it if it says something new."""
        known = self._messages.get(message.message_id)
        if known is not None and structs.replace(message, version=known.version) == known:
            return
        if known is None:
            insort(self._ids, message.message_id)
        told = structs.replace(message, version=version)
        self._messages[message.message_id] = told
        self._changes.append((version, message.message_id))
        yield told


def is_page(messages: tuple[Message, ...], limit: int) -> bool:
    """Whether so many messages may be told at once."""
    return len(messages) <= max(1, limit) and sum(map(_size, messages)) <= PAGE_CHARACTERS


def _size(message: Message) -> int:
    return len(message.text) + len(message.detail)


def _text(item: Show, role: Role, seq: int) -> Message:
    assert item.at is not None, "what is in the log has a time"
    return Message(
        message_id=seq,
        version=seq,
        role=role,
        status=item.status,
        text=item.text,
        at=item.at,
        turn_id=item.turn_id,
        prompt_id=item.prompt_id,
        stream_id=item.stream_id,
        is_verified=item.is_verified,
        label=item.label,
        delivery=item.delivery,
        error_kind=item.error_kind,
        next_actions=item.next_actions,
    )


def _tool(item: ShowTool, seq: int) -> Iterator[Message]:
    if item.at is not None:
        yield Message(
            message_id=seq,
            version=seq,
            role=Role.TOOL,
            status=_TOOL_STATUS[item.status],
            text=item.asked,
            at=item.at,
            turn_id=item.turn_id,
            label=item.label,
            kind=item.kind,
            item_id=item.id,
            name=item.name,
            detail=item.text,
            detail_length=item.text_length,
            child_session_id=item.child_session_id,
            error_kind=item.error_kind,
            next_actions=item.next_actions,
        )
