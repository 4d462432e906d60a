"""Play one part of a script as the answer to one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import assert_never

from interlock.testing.scripted_model.dialect import ModelReply, dumps
from interlock.testing.scripted_model.http import Exchange
from interlock.testing.scripted_model.record import RequestOutcome
from interlock.testing.scripted_model.script import (
    Cut,
    End,
    Error,
    Gate,
    Hang,
    Script,
    ScriptedCall,
    Shell,
    Step,
    Text,
    Think,
)

Hold = Callable[[Gate], Awaitable[bool]]


class ModelPlayer:
    """One answer under way. `hold` waits at a gate and says whether it was opened in time.

    A client that asked for no stream gets the same steps at the same pace, and its one document at the end.
    """

    def __init__(self, reply: ModelReply, exchange: Exchange, *, attempt: int, hold: Hold) -> None:
        self._reply = reply
        self._exchange = exchange
        self._attempt = attempt
        self._hold = hold
        self._is_stream = reply.conversation.is_stream

    async def play(self, part: Script) -> RequestOutcome:
        """Send everything but the last bytes, which leave when the caller closes, and say how it ended."""
        for step in part:
            outcome = await self._act(step)
            if outcome is not None:
                return outcome
        return self._end()

    async def _act(self, step: Step) -> RequestOutcome | None:
        match step:
            case Think(text):
                await self._emit(self._begin() + self._reply.think(text))
            case Text():
                await self._speak(step)
            case ScriptedCall():
                await self._emit(self._begin() + self._reply.call(step))
            case Shell():
                await self._emit(self._begin() + self._reply.call(self._reply.conversation.resolve(step)))
            case Gate():
                return None if await self._hold(step) else RequestOutcome.EXPIRED
            case Error() | Cut() | Hang():
                return await self._fault(step) if step.times is None or self._attempt < step.times else None
            case End():
                return self._end()
            case _:
                assert_never(step)
        return None

    async def _speak(self, step: Text) -> None:
        for index, chunk in enumerate(step.chunks):
            if index and step.pace_seconds:
                await asyncio.sleep(step.pace_seconds)
            await self._emit(self._begin() + self._reply.text(chunk))

    async def _fault(self, step: Error | Cut | Hang) -> RequestOutcome:
        match step:
            case Hang():
                await asyncio.Event().wait()  # Nobody sets it: the client's hanging up or the server's end cancels it.
            case Error(status, message) if self._exchange.has_begun:
                self._exchange.end_stream(self._reply.error_events(status, message))
            case Error(status, message):
                self._exchange.end_whole(status, dumps(self._reply.error(status, message)).encode())
            case Cut():
                return RequestOutcome.CUT
            case _:
                assert_never(step)
        return RequestOutcome.FAILED

    def _end(self) -> RequestOutcome:
        if self._is_stream:
            self._exchange.end_stream(self._begin() + self._reply.settle() + self._reply.end())
        else:
            self._exchange.end_whole(200, dumps(self._reply.whole()).encode())
        return RequestOutcome.ANSWERED

    def _begin(self) -> bytes:
        """The opening event, before the first other one."""
        return b"" if self._exchange.has_begun else self._reply.start()

    async def _emit(self, data: bytes) -> None:
        if self._is_stream:
            await self._exchange.send(data)
