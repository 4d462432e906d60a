"""A call of a model in our own words: what is asked, what comes back piece by piece, and how it fails.

The loop knows these words only. `provider.py` speaks them to real models; a test may speak them itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from interlock.projections.replay.items import ReplayItem
from interlock.vocabulary.errors import PeerFault
from interlock.vocabulary.events.registry import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """One request: the whole conversation, and the tools on offer."""

    items: Sequence[ReplayItem]
    instructions: str = ""
    tools: Sequence[ToolOffer] = ()


@dataclass(frozen=True, slots=True)
class ModelTextDelta:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """More of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCall:
    """A call that the model asks for. `args` is None with `unreadable` set where the arguments are no JSON object."""

    call_id: str
    name: str
    args: Json = None
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """What a call used. A figure that was not reported is None."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def total(self) -> int:
        return (self.input_tokens or 0) + (self.output_tokens or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """A whole answer, told once, last. `text` is every text delta joined."""

    text: str = ""
    reasoning: tuple[Json, ...] = ()
    calls: tuple[RequestedCall, ...] = ()
    usage: CallUsage = CallUsage()
    model: str = ""
    is_truncated: bool = False


Piece: TypeAlias = ModelTextDelta | ThoughtDelta | ModelAnswer


class FaultKind(StrEnum):
    """What went wrong with a call, as far as it matters for what to do next. The words are `error_kind`s of a turn."""

    RATE_LIMIT = "rate_limit"
    TIMEOUT = "model_timeout"
    CONNECTION = "connection"
    SERVER = "server"
    AUTH = "auth"
    QUOTA = "quota"
    CLIENT = "client"
    CONTENT_FILTER = "content_filter"
    CONTEXT_OVERFLOW = "context_overflow"


RETRYABLE: Final = frozenset({FaultKind.RATE_LIMIT, FaultKind.TIMEOUT, FaultKind.CONNECTION, FaultKind.SERVER})


class CallFault(PeerFault):
    """A call of the model failed."""

    def __init__(self, kind: FaultKind, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_seconds = retry_after_seconds

    @property
    def is_retryable(self) -> bool:
        return self.kind in RETRYABLE


class ModelCaller(Protocol):
    """A model that can be asked. Closing the generator early ends the call; `CallFault` is all that it raises."""

    @property
    def name(self) -> str:
        """Whose reasoning may be shown to whom: `provider:model`."""
        ...

    @property
    def window_tokens(self) -> int | None: ...

    def call(self, question: ModelQuestion) -> AsyncGenerator[Piece, None]: ...

    async def close(self) -> None: ...
