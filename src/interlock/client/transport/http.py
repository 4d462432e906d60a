"""Asking a server by HTTP: answers as structs, problems as errors, repetition where it is safe and helps.

Laws:
1. Everything that is asked may be asked again: it only looks, or it bears an `Idempotency-Key` that makes twice once.
2. It is asked again, so many times, where nobody answered or the server said to come back. A refusal stands.
3. One deadline is for all the attempts together. What was not answered by then is not known: `Unreachable`.
4. The token goes to the server that it is for: no redirect is followed, and no proxy of the environment is used.
5. Certificates are checked wherever there are any. The bundle to check them by is read for no plain address.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import httpx
import msgspec

from interlock.client.errors import Refusal, problem_of_body, refusal_of
from interlock.client.timeouts import Chance, ClientTimeouts, delay_before, told_delay
from interlock.client.transport.discovery import Address
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
MAX_CONNECTIONS: Final = 16
KEY_HEADER: Final = "Idempotency-Key"
PLAIN: Final = "http"
_COME_BACK: Final = frozenset({429, 503})

T = TypeVar("T")
Query = Mapping[str, str | int | None]


@dataclass(slots=True)
class _Asked:
    method: str
    path: str
    params: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""


class Http:
    """One server. `asked` counts the attempts, for those who want to know what a client costs."""

    def __init__(
        self, address: Address, *, patience: ClientTimeouts | None = None, chance: Chance = random.random
    ) -> None:
        self._address = address
        self._patience = patience or ClientTimeouts()
        self._chance = chance
        self.asked = 0
        self._is_closed = False
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
        self._is_closed = True
        for client in self._clients.values():
            await client.aclose()

    def _client(self, url: str) -> httpx.AsyncClient:
        """One for each scheme: a server may come back at another address, and the plain one checks no certificate."""
        scheme = httpx.URL(url).scheme
        if scheme not in self._clients:
            self._clients[scheme] = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=self._patience.open_seconds),
                limits=httpx.Limits(max_connections=MAX_CONNECTIONS),
                trust_env=False,
                verify=scheme != PLAIN,
            )
        return self._clients[scheme]

    async def get(
        self,
        path: str,
        kind: type[T],
        *,
        query: Query | None = None,
        seconds: float | None = None,
        attempts: int | None = None,
    ) -> T:
        """Look."""
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        asked = _Asked("GET", path, params=given)
        return _decode(await self._ask(asked, seconds or self._patience.answer_seconds, attempts), kind)

    async def command(
        self, method: str, path: str, kind: type[T], *, key: str, body: object = None, seconds: float | None = None
    ) -> T:
        """Do something, once, however often it is asked with the same `key`."""
        asked = _Asked(method, path, headers={KEY_HEADER: key})
        if body is not None:
            asked.headers["Content-Type"] = "application/json"
            asked.content = msgspec.json.encode(body)
        return _decode(await self._ask(asked, seconds or self._patience.command_seconds), kind)

    async def _ask(self, asked: _Asked, seconds: float, attempts: int | None = None) -> bytes:
        left = attempts or self._patience.http_attempts
        tried: InterlockFault | None = None
        try:
            async with asyncio.timeout(seconds):
                for attempt in range(1, left + 1):
                    try:
                        return await self._ask_once(asked)
                    except (Unreachable, Refusal) as failed:
                        if attempt == left or not _may_help(failed):
                            raise
                        tried = failed
                    await asyncio.sleep(self._delay(attempt, tried))
        except TimeoutError as late:
            why = f": {tried}" if tried is not None else ""
            raise Unreachable(f"the server did not answer within {seconds:g} s{why}") from late
        raise AssertionError("the last attempt returns or raises")

    def _delay(self, attempt: int, failed: InterlockFault) -> float:
        if isinstance(failed, Refusal) and failed.retry_after_seconds is not None:
            return told_delay(failed.retry_after_seconds, self._chance, self._patience)
        return delay_before(attempt, self._chance, self._patience)

    async def _ask_once(self, asked: _Asked) -> bytes:
        if self._is_closed:
            raise UsageError("this client is closed", remedy="make a new one")
        self.asked += 1
        found = self._address.found
        client = self._client(found.url)
        headers = {"Authorization": f"Bearer {found.token}"} if found.token else {}
        request = client.build_request(
            asked.method,
            found.url + asked.path,
            params=asked.params,
            headers={**headers, **asked.headers},
            content=asked.content,
        )
        try:
            response = await client.send(request, stream=True)
            try:
                body = await _read(response)
            finally:
                await response.aclose()
        except httpx.RequestError as failed:
            self._address.look_again()
            raise Unreachable(f"the server cannot be reached: {str(failed) or type(failed).__name__}") from failed
        if response.is_success:
            return body
        raise refusal_of(problem_of_body(response.status_code, body))


InterlockFault = Unreachable | Refusal


def _may_help(failed: InterlockFault) -> bool:
    """Whether to ask again: nobody answered, or the answer was to come back."""
    return failed.status in _COME_BACK if isinstance(failed, Refusal) else True


async def _read(response: httpx.Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise PeerFault(f"the server's answer is longer than {MAX_ANSWER_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body or b"null", type=kind)
    except msgspec.MsgspecError as error:
        raise PeerFault(f"the server's answer cannot be read: {error}") from error
