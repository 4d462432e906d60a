"""Each event type declares, once, who it is for and whether it is kept.

*replay*: the model sees it again. *audit*: kept, never replayed. *presenter*: shown live, never logged.
A type that does not declare itself cannot be made into an event, and a test fails for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from interlock.vocabulary.errors import ContractError

if TYPE_CHECKING:
    Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
else:
    Json = Any  # msgspec cannot build a decoder for a recursive alias; the codec checks such values itself.


class Audience(StrEnum):
    """Who an event is for."""

    REPLAY = "replay"
    AUDIT = "audit"
    PRESENTER = "presenter"


class Durability(StrEnum):
    """Whether an event is written to the log."""

    CANONICAL = "canonical"
    EPHEMERAL = "ephemeral"


class Payload(Struct, frozen=True, omit_defaults=True):
    """Base of what an event carries in `data`."""


PayloadClass: TypeAlias = type[Payload]


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one event type says of itself."""

    type: str
    payload: PayloadClass
    audience: Audience

    @property
    def durability(self) -> Durability:
        return Durability.EPHEMERAL if self.audience is Audience.PRESENTER else Durability.CANONICAL


PayloadT = TypeVar("PayloadT", bound=Payload)
_declared: dict[str, Declaration] = {}
DECLARATIONS: Final[Mapping[str, Declaration]] = MappingProxyType(_declared)


def declare(type_name: str, audience: Audience) -> Callable[[type[PayloadT]], type[PayloadT]]:
    """Register a payload struct under its event type."""

    def register(payload: type[PayloadT]) -> type[PayloadT]:
        if type_name in _declared:
            raise ContractError(f"event type {type_name!r} is declared twice")
        _declared[type_name] = Declaration(type_name, payload, audience)
        return payload

    return register
