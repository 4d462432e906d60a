"""The messages between us and an ACP agent: our child's pipes, in the shape that the protocol library reads.

Laws:
1. Every message is translated where it passes, so that observations have the order of the wire.
2. The library sees only answers to our requests, and requests that neither it nor we know: no line of an agent can
   break its loop. Questions for a person are kept here, since only we know what became of an answer.
3. What was not written says so: the child's `NotDelivered` and `DeliveryUnknown` reach the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.agents.acp.translate import PERMISSION, PROMPT, AcpTranslator
from interlock.agents.observations import Observation, Warned, traced
from interlock.agents.port import DeliveryUnknown, NotDelivered
from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.lines import Line, object_on
from interlock.agents.processes.observation_queue import ObservationQueue
from interlock.vocabulary.events.registry import Json


class AcpWire:
    """One agent's messages. The library calls `send`, `receive` and `close`; `over` is set when no more will come."""

    def __init__(self, child: ChildProcess, translator: AcpTranslator, outlet: ObservationQueue) -> None:
        self._child, self._translator, self._outlet = child, translator, outlet
        self._lines = child.lines()
        self.over = asyncio.Event()
        self.prompt_written = asyncio.Event()
        self._heard = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message of the library. A reply that nobody can get any more is no fault of the caller."""
        try:
            await self.write(message)
        except (NotDelivered, DeliveryUnknown) as error:
            if "method" in message:
                raise
            await self._outlet.put([Warned(kind="acp_reply_not_written", message=str(error))])

    async def write(self, message: Mapping[str, Json]) -> None:
        """Write one message."""
        self._translator.sent(message)
        try:
            await self._child.write(msgspec.json.encode(message) + b"\n")
        except NotDelivered:
            self._translator.unsent(message)
            raise
        if message.get("method") == PROMPT:
            self.prompt_written.set()

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is the library's affair; None when the agent's output is over."""
        try:
            async for line in self._lines:
                self._heard.set()
                message = object_on(line)
                seen = _unreadable(line) if message is None else self._translator.received(message)
                await self._outlet.put(seen)
                if message is not None and (forwarded := _for_library(message)) is not None:
                    return forwarded
        except BaseException as error:
            if isinstance(error, Exception):  # the library says no more of it than that the connection is over
                self._outlet.fail(error)
            self.over.set()
            raise
        self.over.set()
        return None

    async def quiet(self, quiet_seconds: float, limit_seconds: float) -> None:
        """Wait until the agent has said nothing for so long, or until the limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_seconds):
                while not self.over.is_set():
                    self._heard.clear()
                    await asyncio.sleep(quiet_seconds)
                    if not self._heard.is_set():
                        return

    async def close(self) -> None:
        """Nothing: the child is stopped by whoever started it."""


def _unreadable(line: Line) -> list[Observation]:
    if line.is_cut:
        return [Warned(kind="line_too_long", message=f"a line of over {len(line.data)} bytes"), traced(line.data)]
    if not line.is_whole:
        return [Warned(kind="line_not_ended", message="the agent died in mid-line"), traced(line.data)]
    return [traced(line.data)]


def _for_library(message: Mapping[str, Json]) -> dict[str, Json] | None:
    """The message as the library may see it; None for what is not its affair."""
    method, rpc_id = message.get("method"), message.get("id")
    if isinstance(method, str) and method:
        is_request = isinstance(rpc_id, int | str) and method != PERMISSION
        return {"id": rpc_id, "method": method} if is_request else None
    if not isinstance(rpc_id, int):
        return None
    if "error" in message:
        error = message["error"]
        return {"id": rpc_id, "error": error if isinstance(error, dict) else {}}
    return {"id": rpc_id, "result": message.get("result")}
