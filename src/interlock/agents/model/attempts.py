"""One answer of the model, tried as often as the policy allows.

Laws:
1. A call that failed in a way that may pass is tried again, after a pause that is bounded and can be cancelled.
2. Before that the text of the dead attempt is voided, so that none of it stays. Where no attempt is left, the text of
   the last one stands: it is the partial answer.
3. A call that says nothing for too long has failed. Time that the reader of the observations takes is not counted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import count
from typing import Annotated, assert_never

from msgspec import Meta, Struct

from interlock.agents.model.calls import (
    CallFault,
    FaultKind,
    ModelAnswer,
    ModelCaller,
    ModelQuestion,
    ModelTextDelta,
    Piece,
    ThoughtDelta,
)
from interlock.agents.model.channel import LoopChannel
from interlock.agents.observations import RetryBegun, TextArrived, TextVoided, ThoughtArrived


class RetryPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a call is tried, and how long it may be silent. The pause doubles up to its limit."""

    max_attempts: Annotated[int, Meta(ge=1)] = 5
    first_pause_seconds: Annotated[float, Meta(ge=0)] = 0.5
    max_pause_seconds: Annotated[float, Meta(ge=0)] = 30.0
    silence_seconds: Annotated[float, Meta(gt=0)] = 300.0

    def pause_seconds(self, attempt: int, asked_seconds: float | None, chance: float) -> float:
        """The pause after the nth attempt. `chance`, from 0 to 1, keeps many agents from coming back at once."""
        doubled = self.first_pause_seconds * 2.0 ** min(attempt - 1, 30)
        wanted = doubled * (0.5 + chance / 2) if asked_seconds is None else max(asked_seconds, 0.0)
        return min(wanted, self.max_pause_seconds)


class Attempts:
    """Asks a model on behalf of one turn, and tells what comes while it comes."""

    def __init__(self, caller: ModelCaller, policy: RetryPolicy, channel: LoopChannel) -> None:
        self._caller = caller
        self._policy = policy
        self._channel = channel

    async def ask(self, question: ModelQuestion, message_id: str, so_far: str = "") -> ModelAnswer:
        """The whole answer. `so_far` is text of the same message that was told before. `CallFault` if all failed."""
        for attempt in count(1):
            telling = _Telling(self._channel, message_id)
            try:
                return await self._try(question, telling)
            except CallFault as fault:
                if not fault.is_retryable or attempt >= self._policy.max_attempts:
                    raise
                await self._void(telling, fault, so_far, attempt + 1)
                await asyncio.sleep(self._policy.pause_seconds(attempt, fault.retry_after_seconds, random.random()))
        raise AssertionError("unreachable: the attempts are counted")

    async def _try(self, question: ModelQuestion, telling: _Telling) -> ModelAnswer:
        async with aclosing(self._pieces(question)) as pieces:
            async for piece in pieces:
                match piece:
                    case ModelAnswer():
                        return piece
                    case ModelTextDelta() | ThoughtDelta():
                        await telling.tell(piece)
                    case _:
                        assert_never(piece)
        raise CallFault(FaultKind.CONNECTION, "the call ended without an answer")

    async def _pieces(self, question: ModelQuestion) -> AsyncGenerator[Piece, None]:
        """The pieces of one call, each within the time that a call may be silent."""
        async with aclosing(self._caller.call(question)) as pieces:
            while True:
                try:
                    async with asyncio.timeout(self._policy.silence_seconds):
                        piece = await anext(pieces)
                except TimeoutError as late:
                    message = f"the model said nothing for {self._policy.silence_seconds:g} s"
                    raise CallFault(FaultKind.TIMEOUT, message) from late
                except StopAsyncIteration:
                    return
                yield piece

    async def _void(self, telling: _Telling, fault: CallFault, so_far: str, attempt: int) -> None:
        if telling.has_text:
            await self._channel.tell(TextVoided(reason=fault.kind.value))
            if so_far:  # it came from calls that were whole
                await self._channel.tell(TextArrived(text=so_far, message_id=telling.message_id))
        await self._channel.tell(RetryBegun(message=f"{fault.kind.value}: {fault}", attempt=attempt))


class _Telling:
    """Tells the pieces of one attempt, and remembers whether there was text."""

    def __init__(self, channel: LoopChannel, message_id: str) -> None:
        self._channel = channel
        self.message_id = message_id
        self.has_text = False

    async def tell(self, piece: ModelTextDelta | ThoughtDelta) -> None:
        match piece:
            case ModelTextDelta(text):
                self.has_text = True
                await self._channel.tell(TextArrived(text=text, message_id=self.message_id))
            case ThoughtDelta(text):
                await self._channel.tell(ThoughtArrived(text=text))
            case _:
                assert_never(piece)
