"""What each face says of a session's transcript, in one shape, read from what that face gives and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from interlock.cli.tables import Line, Tone
from interlock.client.machine.state import TaskState
from interlock.projections.present.display import (
    BeginStream,
    DisplayChannel,
    EndStream,
    Item,
    ReceiptItem,
    Retract,
    Show,
    ShowTool,
)
from interlock.vocabulary.wire.frames import Message, TaskSnapshot
from tests.bodies import Body

_AS_MESSAGE: Final = {"succeeded": "completed"}
_NAMES: Final = {"user": "you", "answer": "agent", "commentary": "agent, at work", "end": "end of the turn"}
_PLAIN: Final = {
    "completed": "",
    "partial": "partial",
    "failed": "failed",
    "cancelled": "cancelled",
    "timed_out": "timed out",
    "unknown": "not known to be whole",
}
_HEADING: Final = re.compile(r"^(\S.*?)(?:  \d\d:\d\d:\d\d)?(?:  \[(.*)\])?$")


@dataclass(frozen=True, slots=True)
class Said:
    """One message: what it is, how far to trust it, and its words."""

    message_id: int
    role: str
    kind: str
    item_id: str
    name: str
    status: str
    label: str
    text: str
    detail: str
    error_kind: str
    actions: tuple[str, ...]

    @property
    def is_answer(self) -> bool:
        return self.role == "answer" and self.status == "completed"

    @property
    def heading(self) -> str:
        """Who speaks, as faces for people call it."""
        if self.role == "tool":
            return f"{self.kind} {self.item_id if self.kind == 'workflow' else self.name}"
        return _NAMES[self.role]

    @property
    def bracket(self) -> str:
        """What stands in brackets beside it on faces for people."""
        if self.role == "tool":
            return f"{self.status}: {self.label}" if self.label else self.status
        return self.label or _PLAIN[self.status]


def of_body(message: Body) -> Said:
    """A message as JSON has it."""
    return Said(
        message_id=message["message_id"],
        role=message["role"],
        kind=message.get("kind") or "",
        item_id=message.get("item_id", ""),
        name=message.get("name", ""),
        status=message["status"],
        label=message.get("label", ""),
        text=message.get("text", ""),
        detail=message.get("detail", ""),
        error_kind=message.get("error_kind", ""),
        actions=tuple(one["kind"] for one in message.get("next_actions", ())),
    )


def of_messages(messages: Iterable[Message]) -> list[Said]:
    return [of_body(msgspec.to_builtins(message)) for message in messages]


def of_items(items: Iterable[Item]) -> list[Said]:
    """The items of the presenter, as whoever draws them: a later one of the same place takes its place."""
    drawn: dict[int, Said] = {}
    for item in items:
        match item:
            case Show(role=role, seq=int() as seq) if role is not None:
                drawn[seq] = Said(
                    message_id=seq,
                    role=role.value,
                    kind="",
                    item_id="",
                    name="",
                    status=item.status.value,
                    label=item.label,
                    text=item.text,
                    detail="",
                    error_kind=item.error_kind,
                    actions=tuple(one.kind.value for one in item.next_actions),
                )
            case ShowTool(begun_seq=int() as seq):
                drawn[seq] = Said(
                    message_id=seq,
                    role="tool",
                    kind=item.kind.value,
                    item_id=item.id,
                    name=item.name,
                    status=_AS_MESSAGE.get(item.status.value, item.status.value),
                    label=item.label,
                    text=item.asked,
                    detail=item.text,
                    error_kind=item.error_kind,
                    actions=tuple(one.kind.value for one in item.next_actions),
                )
            case ReceiptItem(seq=int() as seq):
                drawn[seq] = replace(drawn[seq], status=item.status.value, label=item.label)
            case _:
                pass
    return [drawn[seq] for seq in sorted(drawn)]


@dataclass(frozen=True, slots=True)
class LiveSaid:
    """Live text: whose it is, its words, and how it is labelled."""

    stream_id: str
    turn_id: str | None
    text: str
    label: str


@dataclass(frozen=True, slots=True)
class LiveFace:
    """The live text that is open, and texts that broke off and have no message."""

    open: LiveSaid | None = None
    broken: tuple[LiveSaid, ...] = ()


def live_of(items: Iterable[Item]) -> LiveFace:
    """The live text that is on the screen of who draws the presenter's items."""
    shown: LiveSaid | None = None
    broken: dict[str, LiveSaid] = {}
    for item in items:
        match item:
            case BeginStream(stream_id=stream_id):
                shown = LiveSaid(stream_id, item.turn_id, "", item.label)
                broken.pop(stream_id, None)
            case Retract(channel=DisplayChannel.PARTIAL) if shown is not None and shown.stream_id == item.stream_id:
                shown = replace(shown, text=shown.text[: item.offset])
            case Show(channel=DisplayChannel.PARTIAL, offset=int() as offset):
                assert shown is not None, "what is drawn was begun"
                assert (shown.stream_id, len(shown.text)) == (item.stream_id, offset), "the text has no hole"
                shown = replace(shown, text=shown.text + item.text, label=item.label)
            case EndStream(stream_id=stream_id):
                assert shown is not None
                assert (shown.stream_id, len(shown.text)) == (stream_id, item.cursor)
                if item.message_seq is None and shown.text:
                    broken[stream_id] = replace(shown, label=item.label)
                shown = None
            case Show(stream_id=str() as stream_id, role=role) if role is not None:
                broken.pop(stream_id, None)
            case _:
                pass
    return LiveFace(shown, tuple(broken.values()))


def live_of_snapshot(snapshot: TaskSnapshot, label: str) -> LiveSaid | None:
    """The live text in a snapshot, which is as whole as the label of all live text says."""
    piece = snapshot.stream
    return None if piece is None else LiveSaid(piece.stream_id, piece.turn_id, piece.text, label)


def live_of_client(state: TaskState) -> LiveFace:
    """The live text that a client shows: what is in its transcript, and in no log."""
    local = [one for one in state.transcript if one.message_id == 0]
    said = [LiveSaid(one.stream_id or "", one.turn_id, one.text, one.label) for one in local]
    is_open = state.stream is not None
    return LiveFace(said[-1] if is_open else None, tuple(said[:-1] if is_open else said))


@dataclass(frozen=True, slots=True)
class Printed:
    """One message on a face for people: its heading, what is in brackets, and the lines below it."""

    heading: str
    bracket: str
    body: tuple[str, ...] = ()


def headings(lines: Sequence[Line]) -> list[Printed]:
    """The messages among painted lines: each begins with a heading."""
    shown: list[Printed] = []
    for line in lines:
        if line and line[0][1] == Tone.HEAD.value:
            brackets = [text.strip()[1:-1] for text, _ in line[1:] if text.startswith("  [")]
            shown.append(Printed(line[0][0], "; ".join(brackets)))
    return shown


def printed(text: str) -> list[Printed]:
    """The messages of a printed transcript. Only headings begin at the margin, apart from advice."""
    shown: list[Printed] = []
    for line in text.split("\n"):
        found = None if line.startswith((" ", "next: ")) else _HEADING.match(line)
        if found is not None:
            shown.append(Printed(found[1], found[2] or ""))
        elif line and shown:
            last = shown[-1]
            shown[-1] = Printed(last.heading, last.bracket, (*last.body, line))
    return shown


def as_printed(said: Said, advice: Sequence[str] = ()) -> Printed:
    """How a message must stand in a printed transcript; its words are short here."""
    words = [f"  {line}" for line in said.text.split("\n")] if said.text.strip() else []
    came = [f"    {line}" for line in said.detail.split("\n")] if said.detail.strip() else []
    return Printed(said.heading, _with_kind(said), (*words, *came, *(f"next: {line}" for line in advice)))


def as_heading(said: Said) -> Printed:
    return Printed(said.heading, _with_kind(said))


def _with_kind(said: Said) -> str:
    """An end also names its kind, where that says more than the state and the words do."""
    same = {said.status, "interrupted", "timeout", "", said.text.replace(" ", "_")}
    is_told = said.role != "end" or said.label != "" or said.error_kind in same
    return said.bracket if is_told else f"{said.bracket}: {said.error_kind}"
