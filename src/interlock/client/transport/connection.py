"""One WebSocket to a server, kept up from the moment that it is wanted.

Laws:
1. Nothing is opened before it is wanted. What is wanted is opened again after each loss, later and later, by chance.
2. What can only fail again is not tried again: a token that is refused, a protocol that we do not speak. `problem` says
   so, until `revive`.
3. Every request has one answer, in the order of the wire with what is pushed: the server's, that it was lost, or that
   none came in time. A loss answers all that wait.
4. A server that says nothing for three heartbeats is gone. One that is silent for one is asked.
5. A frame that we cannot read is a newer server's: ignored, and counted. What is not JSON ends the connection.
6. What waits is bounded: requests that were not answered, and bytes of one frame.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from interlock.client.errors import problem_of_body, refusal_of
from interlock.client.machine.client_machine import PushedFrame
from interlock.client.timeouts import Chance, ClientTimeouts, delay_before, told_delay
from interlock.client.transport.discovery import Address
from interlock.client.transport.pending_answers import Answer, OnAnswer, PendingAnswers
from interlock.client.transport.sockets import open_socket
from interlock.vocabulary.errors import ContractError, InterlockError, PeerFault, Unreachable, UsageError
from interlock.vocabulary.wire.requests import (
    PROTOCOL,
    Ack,
    BoardJoined,
    Hello,
    Ping,
    Refused,
    Request,
    ServerClosing,
    ServerFrame,
    TaskJoined,
)

MAX_ASKED: Final = 2_000
SILENT_HEARTBEATS: Final = 3
_FINAL_STATUSES: Final = frozenset({400, 401, 403, 404, 421, 426})
_MIN_HEARTBEAT_SECONDS: Final = 0.01

OnPush: TypeAlias = Callable[[PushedFrame], None]
OnEdge: TypeAlias = Callable[[bool, str], None]

_FRAMES: Final[msgspec.json.Decoder[ServerFrame]] = msgspec.json.Decoder(ServerFrame)
_ENCODER: Final = msgspec.json.Encoder()


class _Named(msgspec.Struct):
    """As much as can be read of a frame that cannot be read: which request it answers."""

    id: str = ""


_NAMES: Final = msgspec.json.Decoder(_Named)


class Connection:
    """`on_push` and `on_edge` are called in the loop, one frame at a time, and must not wait.

    `on_edge(is_connected, reason)` is called for each change, and for each new reason why there is no connection.
    `ignored` counts what could not be read.
    """

    def __init__(
        self,
        address: Address,
        *,
        on_push: OnPush,
        on_edge: OnEdge,
        patience: ClientTimeouts | None = None,
        chance: Chance = random.random,
    ) -> None:
        self._address = address
        self._on_push = on_push
        self._on_edge = on_edge
        self._patience = patience or ClientTimeouts()
        self._chance = chance
        self._keeping: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._farewell = asyncio.Event()
        self._outbox: asyncio.Queue[bytes] | None = None
        self._questions = PendingAnswers()
        self._numbers = 0
        self._heard_at = self._sent_at = 0.0
        self._told_delay: float | None = None
        self._retire_at: float | None = None
        self.is_closed = False
        self.hello: Hello | None = None
        self.problem: InterlockError | None = None
        self.reason = "not connected yet"
        self.ignored = 0
        self.attempts = 0

    @property
    def is_connected(self) -> bool:
        return self._outbox is not None

    def ensure(self) -> None:
        """From now on, be connected. Returns at once; where it cannot be, `problem` says so."""
        if not self.is_closed and self.problem is None and self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name="interlock connection")

    def revive(self) -> None:
        """Try now: whatever was wrong may be mended. Does nothing for a connection that nobody wanted."""
        if not self.is_connected:
            self._hurry.set()
        if self.problem is not None:
            self.problem = None
            self._address.look_again()
            self.ensure()

    async def close(self) -> None:
        """End it for good."""
        was_closed, self.is_closed = self.is_closed, True
        if self._keeping is not None:
            if not was_closed:  # once: another cancel would break off the farewell, and leave the socket open
                self._keeping.cancel()
            await asyncio.wait((self._keeping,))

    # Asking

    def new_id(self) -> str:
        self._numbers += 1
        return f"r{self._numbers}"

    def post(self, request: Request, on_answer: OnAnswer, seconds: float | None = None) -> None:
        """Ask, and be called with the answer, once. Raises where it cannot even be asked."""
        if self._outbox is None:
            raise Unreachable(f"not connected to the server: {self.reason}")
        if len(self._questions) >= MAX_ASKED or self._outbox.full():
            raise UsageError("too much was asked that is not answered yet", remedy="wait for some of the answers")
        data = _ENCODER.encode(request)
        if self.hello is not None and len(data) > self.hello.max_frame_bytes:
            raise UsageError(
                f"{len(data)} bytes are more than the server takes ({self.hello.max_frame_bytes})", remedy="say less"
            )
        seconds = self._patience.answer_seconds if seconds is None else seconds
        self._questions.ask(request.id, on_answer, seconds)
        self._outbox.put_nowait(data)

    async def request(self, request: Request, seconds: float | None = None) -> Answer:
        """Ask, and wait for the answer. A refusal, a loss and a late answer are raised."""
        answered: asyncio.Future[Answer | InterlockError] = asyncio.get_running_loop().create_future()

        def settle(outcome: Answer | InterlockError) -> None:
            if not answered.done():
                answered.set_result(outcome)

        self.post(request, settle, seconds)
        try:
            outcome = await answered
        finally:
            self._questions.forget(request.id)
        if isinstance(outcome, InterlockError):
            raise outcome
        return outcome

    def _settle(self, request_id: str, outcome: Answer | InterlockError) -> None:
        if not self._questions.settle(request_id, outcome):
            self.ignored += 1  # it came too late, or twice

    # Keeping it up

    async def _keep(self) -> None:
        """Hold one connection after the other, until one fails in a way that will not change."""
        loop, failures = asyncio.get_running_loop(), 0
        try:
            while True:
                self.attempts += 1
                began = loop.time()
                try:
                    await self._hold()
                except Unreachable as lost:
                    self._address.look_again()
                    self._lose(str(lost))
                failures = 1 if loop.time() - began >= self._patience.steady_seconds else failures + 1
                await self._pause(failures)
        except InterlockError as final:
            self.problem = final
            self._keeping = None
            self._lose(str(final))
        except asyncio.CancelledError:
            self._lose("this client was closed")
            raise
        except Exception as bug:
            self.problem = ContractError(f"the client itself failed: {bug!r}")
            self._keeping = None
            self._lose(str(self.problem))
            raise

    async def _pause(self, failures: int) -> None:
        delay = delay_before(failures, self._chance, self._patience)
        if self._told_delay is not None:
            delay, self._told_delay = self._told_delay, None
        await _heard(self._hurry, delay)

    def _lose(self, reason: str) -> None:
        """Tell everybody who waits, and then that it is over."""
        was_connected, self._outbox = self._outbox is not None, None
        has_news, self.reason = was_connected or reason != self.reason, reason
        self._questions.lose(reason)
        if has_news:
            self._on_edge(False, reason)

    async def _hold(self) -> None:
        """One connection, from its opening to its loss. Always raises."""
        socket = await self._open()
        try:
            self._outbox = asyncio.Queue(MAX_ASKED)
            self._heard_at = self._sent_at = asyncio.get_running_loop().time()
            self._retire_at = None
            self._farewell.clear()
            self._on_edge(True, "")
            await _first_of(self._read(socket), self._write(socket, self._outbox), self._beat())
        except (ConnectionClosed, Unreachable) as ended:
            reason = _describe_close(ended) if isinstance(ended, ConnectionClosed) else str(ended)
            self._lose(reason)  # before the farewell, which may take its time
            raise Unreachable(reason) from ended
        finally:
            await socket.close()

    async def _open(self) -> ClientConnection:
        """A socket with its greeting. Raises `Unreachable` if it may work later, and another error if it will not."""
        try:
            async with asyncio.timeout(self._patience.open_seconds):
                found = self._address.found
                socket = await open_socket(found.url, found.token, closing_seconds=self._patience.closing_seconds)
                try:
                    self.hello = _greeted(await socket.recv(decode=False))
                except BaseException:
                    await socket.close()
                    raise
                return socket
        except TimeoutError as late:
            raise Unreachable(f"the server did not greet us within {self._patience.open_seconds:g} s") from late
        except InvalidStatus as refused:
            status = refused.response.status_code
            refusal = refusal_of(problem_of_body(status, bytes(refused.response.body or b"")))
            if status in _FINAL_STATUSES:
                raise refusal from refused
            raise Unreachable(str(refusal)) from refused
        except ConnectionClosed as closed:
            raise Unreachable(_describe_close(closed)) from closed
        except (OSError, WebSocketException) as failed:
            raise Unreachable(f"the server cannot be reached: {failed}") from failed

    # What runs while it is up

    async def _read(self, socket: ClientConnection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            data = await socket.recv(decode=False)
            self._heard_at = loop.time()
            self._take(data)

    async def _write(self, socket: ClientConnection, outbox: asyncio.Queue[bytes]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await socket.send(await outbox.get(), text=True)
            self._sent_at = loop.time()

    async def _beat(self) -> None:
        """Ask a silent server whether it is there, and give up one that stays silent or said goodbye long ago."""
        loop = asyncio.get_running_loop()
        every = max(_MIN_HEARTBEAT_SECONDS, self.hello.heartbeat_seconds if self.hello is not None else 0.0)
        asked_at = loop.time()
        while True:
            now = loop.time()
            ask_at = max(asked_at, min(self._heard_at, self._sent_at)) + every
            # A loop that stood still has not listened: nobody is given up who was not asked, and given a heartbeat.
            dead_at = max(self._heard_at + SILENT_HEARTBEATS * every, asked_at + every)
            if now >= dead_at and asked_at > self._heard_at:
                raise Unreachable(f"the server said nothing for {SILENT_HEARTBEATS} heartbeats")
            if self._retire_at is not None and now >= self._retire_at:
                raise Unreachable("the server said that it goes away")
            if now >= ask_at:
                asked_at = now
                with suppress(UsageError):  # so much waits to be sent that no ping is needed
                    self.post(Ping(id=self.new_id()), lambda _: None, SILENT_HEARTBEATS * every)
                continue
            wake_at = min(ask_at, ask_at if self._retire_at is None else self._retire_at)
            await _heard(self._farewell, wake_at - now)

    def _take(self, data: bytes) -> None:
        try:
            frame = _FRAMES.decode(data)
        except msgspec.ValidationError as error:
            self._ignore(data, error)
            return
        except msgspec.DecodeError as error:
            raise Unreachable(f"the server sent what is not JSON: {error}") from error
        match frame:
            case Ack() | TaskJoined() | BoardJoined():
                self._settle(frame.id, frame)
            case Refused():
                self._settle(frame.id, refusal_of(frame.problem))
            case ServerClosing():
                self._told_delay = told_delay(frame.retry_after_seconds, self._chance, self._patience)
                self._retire_at = asyncio.get_running_loop().time() + self._patience.closing_seconds
                self._farewell.set()
            case Hello():
                self.ignored += 1
            case _:
                self._on_push(frame)

    def _ignore(self, data: bytes, error: msgspec.ValidationError) -> None:
        """An answer that we cannot read is an answer all the same: nobody waits for a better one."""
        self.ignored += 1
        try:
            request_id = _NAMES.decode(data).id
        except msgspec.MsgspecError:
            return
        if request_id in self._questions:
            self._settle(request_id, PeerFault(f"the server's answer cannot be read: {error}"))


def _greeted(data: bytes) -> Hello:
    try:
        frame = _FRAMES.decode(data)
    except msgspec.MsgspecError as error:
        raise PeerFault(f"this is no server of ours: its greeting cannot be read: {error}") from error
    match frame:
        case Hello(protocol=protocol):
            if protocol != PROTOCOL:
                raise UsageError(
                    f"the server speaks protocol {protocol}, and this client protocol {PROTOCOL}",
                    remedy="use the client of the server's version",
                )
            return frame
        case ServerClosing():
            raise Unreachable("the server goes away")
        case _:
            raise PeerFault("this is no server of ours: it did not greet us")


def _describe_close(closed: ConnectionClosed) -> str:
    if closed.rcvd is None:
        return "the connection broke off"
    why = f": {closed.rcvd.reason}" if closed.rcvd.reason else ""
    return f"the server closed the connection ({closed.rcvd.code}{why})"


async def _heard(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not longer than so. One that was heard is forgotten."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
            event.clear()


async def _first_of(*works: Coroutine[None, None, None]) -> None:
    """Do all of them until the first ends, and raise what it raised. None is left behind."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
