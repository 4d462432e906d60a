"""The event envelope: `{id, session_id, seq, ts, type, turn_id?, spawn_id?, data}`.

Each declared payload has its own wire class, a tagged subclass of `Event`, so that one decoder checks a whole line.
Code matches on the payload: `match event.data: case ToolCall(call_id=call_id): ...`.
Ids and times are arguments of the constructor; nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, Final, cast

from msgspec import Struct, defstruct

from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events import audit, conversation, presenter, workspace
from interlock.vocabulary.events.conversation import AssistantMessage, Count, SubagentEvent
from interlock.vocabulary.events.registry import DECLARATIONS, Audience, Declaration, Json, Payload
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import EventIdField, SessionIdField, SpawnIdField, TurnIdField
from interlock.vocabulary.states import SubagentState

_DECLARING: Final = (conversation, audit, presenter, workspace)
"""Payloads are declared when their module is imported."""

UnknownField = tuple[tuple[str | int, ...], Json]
"""A field that this version does not know, by its path in the line."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="event"):
    """One fact of a session. `seq` is None until the log stamps it. Build one with `new_event`."""

    id: EventIdField
    session_id: SessionIdField
    seq: Count | None = None
    ts: Moment
    turn_id: TurnIdField | None = None
    spawn_id: SpawnIdField | None = None
    data: Payload
    unknown_fields: tuple[UnknownField, ...] = ()

    @property
    def type(self) -> str:
        return self.data.type if isinstance(self.data, UnknownEvent) else TYPE_OF[type(self.data)]


class UnknownEvent(Payload, frozen=True, kw_only=True):
    """An event of a type that this version does not know. Its body is kept as it came; it is never replayed."""

    type: str
    body: Json


class UnknownWire(Event, frozen=True, kw_only=True, omit_defaults=True, tag="__unknown__"):
    """The wire class of `UnknownEvent`; its tag never leaves this process."""

    data: UnknownEvent


def _wire_class(declaration: Declaration) -> type[Event]:
    name = "".join(word.title() for word in declaration.type.split("_"))
    wire = defstruct(
        f"{name}Event",
        [("data", declaration.payload)],
        bases=(Event,),
        tag=declaration.type,
        tag_field="type",
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        module=__name__,
    )
    return cast("type[Event]", wire)


TYPE_OF: Final[Mapping[type[Payload], str]] = {d.payload: d.type for d in DECLARATIONS.values()}
WIRE_CLASSES: Final[Mapping[type[Payload], type[Event]]] = {
    **{declaration.payload: _wire_class(declaration) for declaration in DECLARATIONS.values()},
    UnknownEvent: UnknownWire,
}
# A runtime union for msgspec; a type checker only needs to know that each member is an `Event`.
AnyEvent: Final[Any] = reduce(or_, (cls for payload, cls in WIRE_CLASSES.items() if payload is not UnknownEvent))


def new_event(
    data: Payload,
    *,
    id: EventIdField,
    session_id: SessionIdField,
    ts: Moment,
    turn_id: TurnIdField | None = None,
    spawn_id: SpawnIdField | None = None,
    seq: int | None = None,
) -> Event:
    """Wrap a payload. Fails with `ContractError` for a payload that never declared its audience."""
    wire = WIRE_CLASSES.get(type(data))
    if wire is None:
        raise ContractError(f"{type(data).__name__} is not a declared event type")
    return wire(id=id, session_id=session_id, seq=seq, ts=ts, turn_id=turn_id, spawn_id=spawn_id, data=data)


def audience(event: Event) -> Audience:
    """Say who an event is for. The declared audience, except where it depends on what the event says."""
    match event.data:
        case UnknownEvent():
            return Audience.AUDIT
        case AssistantMessage() as message:
            return Audience.AUDIT if message.metadata.partial or not message.is_verified else Audience.REPLAY
        case SubagentEvent() as fact:
            return Audience.REPLAY if _is_for_the_model(fact) else Audience.AUDIT
        case payload:
            return DECLARATIONS[TYPE_OF[type(payload)]].audience


def _is_for_the_model(fact: SubagentEvent) -> bool:
    is_open = fact.status in (SubagentState.QUEUED, SubagentState.RUNNING)
    return fact.model_visible and not is_open and fact.status is not SubagentState.DETACHED
