"""A JSON-RPC 2.0 peer over lines: both sides ask, both sides answer.

Laws:
1. Ids count by direction: our request 0 and theirs are two things, and an answer of theirs settles only ours.
2. Every request of ours ends: by its answer, by its deadline, or by the end of the connection.
3. `take` never raises and tells everything in the order of the lines, answers too.
4. Whatever is no message is `Unread`, and so is an answer to nothing that we asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from interlock.agents.port import DeliveryUnknown, NotDelivered
from interlock.agents.processes.lines import Line, object_on
from interlock.vocabulary.errors import PeerFault
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, count_of, inner, text

METHOD_NOT_FOUND: Final = -32601
REQUEST_SECONDS: Final = 30.0

PeerId: TypeAlias = int | str


class RpcRefused(PeerFault):
    """The peer answered a request with an error: it did not do it."""

    def __init__(self, method: str, message: str, code: int | None = None) -> None:
        super().__init__(f"{method}: {message or 'refused without a word'}")
        self.method = method
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """The peer asks, and waits for an answer with this id."""

    id: PeerId
    method: str
    params: Fields


@dataclass(frozen=True, slots=True)
class Notified:
    """The peer tells something."""

    method: str
    params: Fields


@dataclass(frozen=True, slots=True)
class Answered:
    """The peer did what we asked for by `method`."""

    method: str
    result: Fields


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """The peer did not do what we asked for by `method`."""

    method: str
    message: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that is no message, or answers nothing."""

    line: Line


Incoming: TypeAlias = RpcRequest | Notified | Answered | PeerRefused | Unread


@dataclass(frozen=True, slots=True)
class _Pending:
    method: str
    answer: asyncio.Future[Fields]


class JsonRpcPeer:
    """Our end. Feed `take` with every line that comes; `close` it once no more will."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._pending: dict[int, _Pending] = {}
        self._next_id = 0
        self._is_closed = False

    async def request(self, method: str, params: Fields, *, within_seconds: float = REQUEST_SECONDS) -> Fields:
        """Ask, and return the answer.

        `RpcRefused` if the peer says no, `NotDelivered` if it cannot have heard us, `DeliveryUnknown` if nothing came.
        """
        if self._is_closed:
            raise NotDelivered(f"{method}: the connection is over")
        own_id, self._next_id = self._next_id, self._next_id + 1
        pending = _Pending(method, asyncio.get_running_loop().create_future())
        self._pending[own_id] = pending
        try:
            await self._send({"id": own_id, "method": method, "params": params})
            async with asyncio.timeout(within_seconds):
                return await pending.answer
        except TimeoutError as error:
            raise DeliveryUnknown(f"{method}: no answer within {within_seconds:g} s") from error
        finally:
            self._pending.pop(own_id, None)
            # Cancelled or not, nobody looks at it any more: an error in it is no news.
            if pending.answer.done() and not pending.answer.cancelled():
                pending.answer.exception()

    async def notify(self, method: str) -> None:
        await self._send({"method": method})

    async def answer(self, peer_id: PeerId, result: Fields) -> None:
        """Answer a request of the peer."""
        await self._send({"id": peer_id, "result": result})

    async def refuse(self, peer_id: PeerId, method: str) -> None:
        """Say that we do not know what the peer asks for."""
        error: Fields = {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method[:200]}"}
        await self._send({"id": peer_id, "error": error})

    def take(self, line: Line) -> Incoming:
        """One line of the peer. An answer also wakes who waits for it."""
        said = object_on(line)
        if said is None:
            return Unread(line)
        method, peer_id = text(said, "method"), said.get("id")
        if not method:
            return self._settle(said) or Unread(line)
        if "id" not in said:
            return Notified(method, inner(said, "params"))
        if isinstance(peer_id, int | str) and not isinstance(peer_id, bool):
            return RpcRequest(peer_id, method, inner(said, "params"))
        return Unread(line)

    def close(self, reason: str) -> None:
        """No more lines will come: whatever is still asked will not be answered."""
        self._is_closed = True
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(DeliveryUnknown(f"{pending.method}: {reason}"))

    def _settle(self, said: Fields) -> Answered | PeerRefused | None:
        own_id = count_of(said, "id")
        pending = self._pending.get(own_id) if own_id is not None else None
        if pending is None or pending.answer.done() or not ("result" in said or "error" in said):
            return None
        if "error" in said:
            error = inner(said, "error")
            message, code = text(error, "message"), error.get("code")
            refused = RpcRefused(pending.method, message, code if isinstance(code, int) else None)
            pending.answer.set_exception(refused)
            return PeerRefused(pending.method, message)
        result = inner(said, "result")
        pending.answer.set_result(result)
        return Answered(pending.method, result)

    async def _send(self, message: dict[str, Json]) -> None:
        await self._write(msgspec.json.encode(message) + b"\n")
