"""Running the model loop in a test: a scripted server or a scripted caller behind it, and a reader of what it tells."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from interlock.agents.model import ModelDriver, Tool
from interlock.agents.model.calls import (
    CallFault,
    CallUsage,
    ModelAnswer,
    ModelQuestion,
    ModelTextDelta,
    Piece,
    RequestedCall,
)
from interlock.agents.model.driver import ModelHandle
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    MessageEnded,
    Observation,
    ReasoningKept,
    TextArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    UsageReported,
)
from interlock.agents.port import AgentSpec, Prompt
from interlock.projections.replay.provider_input import provider_items
from interlock.vocabulary.events.audit import TurnFailed
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    Reasoning,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.conversation import ToolCall as ToolCallPayload
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import CallId, EventId, PromptId, SessionId, SpawnId, TurnId, sortable_id
from interlock.vocabulary.states import TurnState

LIMIT_SECONDS: Final = 100.0
MODELS: Final = {
    "anthropic": "anthropic:claude-haiku-4-5",
    "openai": "openai-chat:gpt-4.1",
    "responses": "openai-responses:gpt-4.1",
}
QUICK: Final[Json] = {"first_pause_seconds": 0, "max_pause_seconds": 0, "max_attempts": 3}
T = TypeVar("T")
React = Callable[[Observation], Awaitable[None]]


class Reader:
    """Reads one handle, turn by turn."""

    def __init__(self, handle: ModelHandle) -> None:
        self._handle = handle
        self._seen = handle.observations()

    async def until(self, kind: type[Observation], react: React | None = None) -> list[Observation]:
        """Everything up to the first of this kind, which is the last in the list."""
        told: list[Observation] = []
        async with asyncio.timeout(LIMIT_SECONDS):
            async for seen in self._seen:
                told.append(seen)
                if react is not None:
                    await react(seen)
                if isinstance(seen, kind):
                    return told
        return told

    async def turn(
        self, text: str, *, history: Sequence[Json] = (), react: React | None = None, turn_id: str = "trn_1"
    ) -> list[Observation]:
        await self._handle.submit(
            Prompt(prompt_id=PromptId("prm_1"), turn_id=TurnId(turn_id), text=text, history=history)
        )
        return await self.until(TurnEnded, react)

    async def rest(self) -> list[Observation]:
        async with asyncio.timeout(LIMIT_SECONDS):
            return [seen async for seen in self._seen]


def ended(told: Sequence[Observation]) -> TurnEnded:
    """How the turn ended, after checking what holds for every turn."""
    ends = [one for one in told if isinstance(one, TurnEnded)]
    assert len(ends) == 1
    assert told[-1] is ends[0]
    called = [one.call_id for one in told if isinstance(one, ToolCalled)]
    returned = [one.call_id for one in told if isinstance(one, ToolReturned)]
    assert sorted(called) == sorted(returned), "every call has exactly one result"
    assert len(set(called)) == len(called)
    asked = [one.request_id for one in told if isinstance(one, ApprovalAsked)]
    gone = [one.request_id for one in told if isinstance(one, ApprovalGone)]
    assert sorted(asked) == sorted(gone), "every question is closed"
    return ends[0]


def of(told: Sequence[Observation], kind: type[T]) -> list[T]:
    return [one for one in told if isinstance(one, kind)]


def spec(
    cwd: str = ".",
    *,
    url: str = "",
    dialect: str = "anthropic",
    permissions: Json = None,
    stop: Json = None,
    options: Mapping[str, Json] | None = None,
) -> AgentSpec:
    base = "" if not url else url if dialect == "anthropic" else f"{url}/v1"
    named: dict[str, Json] = {"base_url": base, "permissions": permissions, "stop": stop}
    given = {"retry": QUICK, **{name: value for name, value in named.items() if value}, **(options or {})}
    environment = {"ANTHROPIC_API_KEY": "none", "OPENAI_API_KEY": "none"}
    return AgentSpec(
        agent="model", driver="model", cwd=cwd, environment=environment, model=MODELS[dialect], options=given
    )


def own_spawn_id() -> SpawnId:
    """An id that nobody else on this machine has: a stop ends every process that carries it."""
    return SpawnId(sortable_id("spn", time.time_ns() // 1_000_000, secrets.token_bytes(10)))


async def spawn(wanted: AgentSpec, driver: ModelDriver | None = None) -> ModelHandle:
    return await (driver or ModelDriver()).spawn(wanted, own_spawn_id())


@dataclass
class PlayedModel:
    """A `ModelCaller` that plays answers from a list, and keeps what it was asked. Nothing in it takes time."""

    answers: list[ModelAnswer | CallFault]
    asked: list[ModelQuestion] = field(default_factory=list)
    name: str = "played:model"
    window_tokens: int | None = None
    is_closed: bool = False
    open_calls: int = 0

    async def call(self, question: ModelQuestion) -> AsyncGenerator[Piece, None]:
        self.asked.append(question)
        answer = self.answers.pop(0) if self.answers else ModelAnswer(text="That is all.")
        self.open_calls += 1
        try:
            await asyncio.sleep(0)
            if isinstance(answer, CallFault):
                yield ModelTextDelta("half an ans")
                raise answer
            for word in answer.text.split(" "):
                await asyncio.sleep(0)
                yield ModelTextDelta(word)
            yield answer
        finally:
            self.open_calls -= 1

    async def close(self) -> None:
        self.is_closed = True


def calls(*names: str, text: str = "", tokens: int = 10, **args: Json) -> ModelAnswer:
    """An answer that calls tools."""
    requested = tuple(
        RequestedCall(call_id=f"c{number}", name=name, args=dict(args)) for number, name in enumerate(names)
    )
    return ModelAnswer(text=text, calls=requested, usage=CallUsage(input_tokens=tokens, output_tokens=0))


def as_json(items: Sequence[object]) -> list[Json]:
    return [msgspec.to_builtins(item) for item in items]


def instant(name: str, give: Callable[[], object]) -> Tool:
    """A tool without arguments."""

    async def run(_: dict[str, Json]) -> object:
        await asyncio.sleep(0)
        return give()

    return Tool(name=name, description="", schema={"type": "object", "properties": {}}, run=run)


def logged_items(turns: Sequence[tuple[str, str, Sequence[Observation]]], model: str) -> list[Json]:
    """What the replay projection makes of a log of these turns (id, prompt, what was told), written as a runtime would.

    Text that no `MessageEnded` made whole is logged as a partial, and usage as audit: neither may be seen again.
    """
    payloads: list[tuple[str, Payload]] = []
    for turn_id, prompt, told in turns:
        payloads.append((turn_id, UserMessage(text=prompt)))
        payloads += [(turn_id, payload) for one in told if (payload := _payload(one)) is not None]
    log = [
        new_event(
            payload,
            id=EventId(f"evt_{number}"),
            session_id=SessionId("ses_1"),
            seq=number,
            ts=datetime.fromtimestamp(number, UTC),
            turn_id=TurnId(turn_id),
        )
        for number, (turn_id, payload) in enumerate(payloads, start=1)
    ]
    return as_json(provider_items(log, model=model))


def _payload(seen: Observation) -> Payload | None:
    match seen:
        case ReasoningKept(item=item, model=model, dialect=dialect):
            return Reasoning(item=item, model=model, dialect=dialect)
        case TextArrived(text=text):
            return AssistantMessage(text=text, metadata=MessageMetadata(partial=True))
        case MessageEnded(text=text):
            return AssistantMessage(text=text)
        case ToolCalled(call_id=call_id, name=name, args=args):
            return ToolCallPayload(call_id=CallId(call_id), name=name, args=args)
        case ToolReturned(call_id=call_id, output=output, error=error):
            return ToolResult(call_id=CallId(call_id), ok=error is None, output=output, error=error)
        case UsageReported():
            return TurnFailed(terminal_status=TurnState.FAILED, error_kind="x", error_message="audit")
        case _:
            return None
