"""The connection over real sockets, against a server that does each thing wrong that a server can do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec import structs

from interlock.client.errors import Refusal
from interlock.client.machine.client_machine import PushedFrame
from interlock.client.timeouts import ClientTimeouts, delay_before, told_delay
from interlock.client.transport.connection import MAX_ASKED, Connection
from interlock.client.transport.discovery import Address, FoundServer, base_url, fixed_address
from interlock.client.transport.sockets import socket_url
from interlock.vocabulary.errors import InterlockError, PeerFault, Unreachable, UsageError
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.wire.frames import ChatChunk
from interlock.vocabulary.wire.requests import (
    Ack,
    ChatSend,
    Ping,
    Problem,
    Refused,
    Request,
    ServerClosing,
    TaskJoin,
    TaskJoined,
)
from tests.client.fake_server import HELLO, TOKEN, FakeServer, FakeSocket, HttpAnswer
from tests.client.waiting import QUICK, other_tasks, until
from tests.contract.harness import run

TASK = SessionId("ses_1")
AT = datetime(2026, 1, 1, tzinfo=UTC)


def chunk(tick: int, text: str = "more") -> ChatChunk:
    return ChatChunk(task_id=TASK, version=1, tick=tick, stream_id=StreamId("str_1"), offset=0, text=text, at=AT)


@dataclass
class Seen:
    pushed: list[PushedFrame] = field(default_factory=list)
    edges: list[tuple[bool, str]] = field(default_factory=list)

    @property
    def reasons(self) -> str:
        return " | ".join(reason for _, reason in self.edges)


@asynccontextmanager
async def connected(
    server: FakeServer, patience: ClientTimeouts = QUICK, *, wait: bool = True
) -> AsyncIterator[tuple[Connection, Seen]]:
    seen = Seen()
    connection = Connection(
        fixed_address(server.url, TOKEN),
        on_push=seen.pushed.append,
        on_edge=lambda is_up, reason: seen.edges.append((is_up, reason)),
        patience=patience,
    )
    try:
        if wait:
            connection.ensure()
            await until(lambda: connection.is_connected, "a connection")
        yield connection, seen
    finally:
        await connection.close()


def ping(connection: Connection) -> Ping:
    return Ping(id=connection.new_id())


def send(connection: Connection, text: str = "hello") -> ChatSend:
    return ChatSend(id=connection.new_id(), task_id=TASK, text=text)


# Delays


def test_delays_double_up_to_a_ceiling_and_chance_decides_below_it() -> None:
    patience = ClientTimeouts()
    assert [delay_before(n, lambda: 1.0, patience) for n in range(1, 8)] == [0.5, 1, 2, 4, 5, 5, 5]
    assert delay_before(10_000, lambda: 1.0, patience) == 5
    assert delay_before(3, lambda: 0.0, patience) == 0
    assert delay_before(3, lambda: 0.5, patience) == 1


def test_a_told_delay_is_believed_within_reason_and_chance_added() -> None:
    patience = ClientTimeouts()
    assert told_delay(3.0, lambda: 0.0, patience) == 3.0
    assert told_delay(3.0, lambda: 0.5, patience) == 4.5
    assert told_delay(0.0, lambda: 1.0, patience) == 0.5
    assert told_delay(-5.0, lambda: 0.0, patience) == 0.0
    assert told_delay(1e9, lambda: 0.0, patience) == 60.0


# Addresses


def test_addresses() -> None:
    assert socket_url("http://127.0.0.1:80/") == "ws://127.0.0.1:80/api/socket"
    assert socket_url("https://example.org/il") == "wss://example.org/il/api/socket"
    assert base_url("http://[::1]:9/") == "http://[::1]:9"
    for odd in ("ftp://x", "127.0.0.1:80", "http://", "http://x/?token=y", "http://u:p@x"):
        with pytest.raises(UsageError):
            base_url(odd)


# Coming up


def test_nothing_is_opened_before_it_is_wanted_and_the_token_is_in_a_header() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server, wait=False) as (connection, seen):
            with pytest.raises(Unreachable, match="not connected"):
                await connection.request(ping(connection))
            assert not server.upgrades
            connection.ensure()
            connection.ensure()
            await until(lambda: connection.is_connected)
            assert connection.hello == HELLO
            assert seen.edges == [(True, "")]
            (upgrade,) = server.upgrades
            assert upgrade.headers["authorization"] == f"Bearer {TOKEN}"
            assert upgrade.target == "/api/socket"

    run(story())


def test_a_request_is_answered_and_a_refusal_is_raised_with_its_remedy() -> None:
    problem = Problem(title="No", status=409, code="conflict", detail="not now", remedy="wait")

    def answer(socket: FakeSocket, request: Request) -> None:
        is_refused = isinstance(request, ChatSend) and request.text == "bad"
        socket.send(Refused(id=request.id, problem=problem) if is_refused else Ack(id=request.id, result={"n": 1}))

    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, _):
            server.on_request = answer
            assert await connection.request(send(connection)) == Ack(id="r1", result={"n": 1})
            with pytest.raises(Refusal, match="not now; wait") as refused:
                await connection.request(send(connection, "bad"))
            assert (refused.value.code, refused.value.status) == ("conflict", 409)

    run(story())


def test_answers_and_pushes_come_in_the_order_of_the_wire() -> None:
    def answer(socket: FakeSocket, request: Request) -> None:
        for frame in (chunk(1), Ack(id=request.id), chunk(2)):
            socket.send(frame)

    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, seen):
            server.on_request = answer
            order: list[int] = []
            connection.post(send(connection), lambda _: order.append(len(seen.pushed)))
            await until(lambda: len(seen.pushed) == 2)
            assert order == [1]

    run(story())


# Not coming up


@pytest.mark.parametrize("status", [401, 403, 404, 421])
def test_a_refused_token_stops_it_and_says_so(status: int) -> None:
    problem = {"title": "A token is needed", "status": status, "code": "unauthenticated", "remedy": "give one"}

    async def story() -> None:
        async with FakeServer() as server, connected(server, wait=False) as (connection, seen):
            server.refuse_sockets = HttpAnswer(status, problem)
            connection.ensure()
            await until(lambda: connection.problem)
            assert isinstance(connection.problem, Refusal)
            assert "A token is needed; give one" in seen.reasons
            connection.ensure()
            assert not [task for task in other_tasks() if task.get_name() == "interlock connection"]
            assert len(server.upgrades) == 1
            with pytest.raises(Unreachable, match="A token is needed"):
                await connection.request(ping(connection))
            server.refuse_sockets = None
            connection.revive()
            await until(lambda: connection.is_connected)

    run(story())


def test_another_protocol_stops_it_and_says_so() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server, wait=False) as (connection, seen):
            server.hello = structs.replace(HELLO, protocol=2)
            connection.ensure()
            await until(lambda: connection.problem)
            assert "speaks protocol 2" in seen.reasons
            assert not connection.is_connected
            assert [is_up for is_up, _ in seen.edges] == [False]
            await until(lambda: server.socket.is_gone.is_set(), "the end of that socket")
            assert len(server.upgrades) == 1

    run(story())


@pytest.mark.parametrize("hello", [b"what?", b"{}", Ack(id="r1")])
def test_what_is_no_greeting_of_ours_stops_it(hello: bytes | Ack) -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server, wait=False) as (connection, _):
            server.hello = hello
            connection.ensure()
            assert isinstance(await until(lambda: connection.problem), PeerFault)

    run(story())


def test_a_server_that_does_not_greet_is_left_and_tried_again() -> None:
    async def story() -> None:
        async with (
            FakeServer() as server,
            connected(server, replace(QUICK, open_seconds=0.05), wait=False) as (
                connection,
                seen,
            ),
        ):
            server.hello = None
            connection.ensure()
            await until(lambda: len(server.upgrades) > 1)
            assert "did not greet us" in seen.reasons
            server.hello = HELLO
            await until(lambda: connection.is_connected)

    run(story())


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_tried_again(status: int) -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server, wait=False) as (connection, _):
            server.refuse_sockets = HttpAnswer(status)
            connection.ensure()
            await until(lambda: len(server.upgrades) > 2)
            server.refuse_sockets = None
            await until(lambda: connection.is_connected)

    run(story())


def test_no_redirect_is_followed() -> None:
    async def story() -> None:
        async with FakeServer() as other, FakeServer() as server, connected(server, wait=False) as (connection, _):
            server.refuse_sockets = HttpAnswer(302, headers={"Location": f"ws://127.0.0.1:{other.port}/api/socket"})
            connection.ensure()
            await until(lambda: len(server.upgrades) > 1)
            assert not other.upgrades

    run(story())


# Loss


def test_refused_then_there_then_killed_and_there_again_on_the_same_port() -> None:
    async def story() -> None:
        server = FakeServer()
        await server.start()
        await server.stop()
        async with connected(server, wait=False) as (connection, seen):
            connection.ensure()
            await until(lambda: connection.attempts > 2)
            assert "cannot be reached" in seen.reasons
            await server.start()
            await until(lambda: connection.is_connected)
            await server.stop()
            await until(lambda: not connection.is_connected)
            await server.start()
            await until(lambda: connection.is_connected)
            assert [is_up for is_up, _ in seen.edges if is_up] == [True, True]
            assert isinstance(await connection.request(ping(connection)), Ack)
        await server.stop()

    run(story())


def test_a_loss_answers_everybody_who_waits() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, seen):
            server.on_request = lambda socket, _: socket.abort() if len(socket.requests) == 2 else None
            asked = [asyncio.create_task(connection.request(send(connection))) for _ in range(2)]
            for outcome in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(outcome, Unreachable)
                assert "lost before the answer came" in str(outcome)
            await until(lambda: len(server.sockets) == 2 and connection.is_connected)
            assert [is_up for is_up, _ in seen.edges] == [True, False, True]

    run(story())


def test_half_an_answer_is_none() -> None:
    def half(socket: FakeSocket, request: Request) -> None:
        socket._writer.write(b"\x81\x7d" + b'{"type": "ack", "id": "')
        socket._writer.close()

    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, _):
            server.on_request = half
            with pytest.raises(Unreachable, match="lost before the answer"):
                await connection.request(send(connection))

    run(story())


def test_a_silent_server_is_asked_and_then_given_up() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server, wait=False) as (connection, seen):
            server.hello = structs.replace(HELLO, heartbeat_seconds=0.03)
            server.answers_pings = False
            connection.ensure()
            await until(lambda: len(server.sockets) > 1)
            assert "said nothing for 3 heartbeats" in seen.reasons
            assert any(isinstance(request, Ping) for request in server.sockets[0].requests)

    run(story())


def test_a_server_that_answers_pings_is_kept_however_quiet_it_is() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server, wait=False) as (connection, seen):
            server.hello = structs.replace(HELLO, heartbeat_seconds=0.15)
            connection.ensure()
            await until(lambda: server.sockets and len(server.socket.requests) > 4)
            assert seen.edges == [(True, "")]
            assert len(connection._questions) <= 1

    run(story())


def test_a_talkative_server_still_hears_from_us() -> None:
    """It closes clients that say nothing, however much it tells them."""

    async def story() -> None:
        async with FakeServer() as server, connected(server, wait=False) as (connection, seen):
            server.hello = structs.replace(HELLO, heartbeat_seconds=0.15)
            connection.ensure()
            await until(lambda: connection.is_connected)

            def talk() -> bool:
                server.socket.send(chunk(1))
                return len(server.socket.requests) > 2

            await until(talk)
            assert seen.edges == [(True, "")]

    run(story())


def test_no_answer_in_time_is_told_and_a_late_one_is_ignored() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, seen):
            server.on_request = lambda socket, request: None
            with pytest.raises(Unreachable, match=r"did not answer within 0\.05 s; whether it was done is not known"):
                await connection.request(send(connection), seconds=0.05)
            server.socket.send(Ack(id="r1"))
            await until(lambda: connection.ignored == 1)
            assert connection.is_connected
            assert [is_up for is_up, _ in seen.edges] == [True]

    run(story())


def test_a_server_that_is_elsewhere_now_is_found_there() -> None:
    async def story() -> None:
        first, second = FakeServer(), FakeServer()
        await first.start()
        here = [first]
        address = Address(lambda: FoundServer(here[0].url, TOKEN))
        connection = Connection(address, on_push=lambda _: None, on_edge=lambda *_: None, patience=QUICK)
        connection.ensure()
        await until(lambda: connection.is_connected)
        await first.stop()
        await second.start()
        here[0] = second
        await until(lambda: second.sockets and connection.is_connected)
        await connection.close()
        await second.stop()

    run(story())


# Going away


def test_a_server_that_goes_away_is_left_until_the_time_that_it_named() -> None:
    async def story() -> None:
        chances: list[float] = []

        def chance() -> float:
            chances.append(0.0)
            return 0.0

        async with FakeServer() as server:
            connection = Connection(
                fixed_address(server.url, TOKEN),
                on_push=lambda _: None,
                on_edge=lambda *_: None,
                patience=QUICK,
                chance=chance,
            )
            connection.ensure()
            await until(lambda: connection.is_connected)
            server.socket.send(ServerClosing(reason="restart", retry_after_seconds=30.0))
            server.socket.close(1012, "restart")
            await until(lambda: not connection.is_connected)
            assert "1012: restart" in connection.reason
            # Without the word of the server it would be back at once: chance is 0 here.
            for _ in range(20):
                await asyncio.sleep(0)
            assert connection.attempts == 1
            connection.revive()
            await until(lambda: connection.attempts == 2)
            await connection.close()

    run(story())


def test_a_server_that_says_goodbye_and_stays_is_left() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server, replace(QUICK, closing_seconds=0.05)) as (_, seen):
            server.socket.send(ServerClosing(reason="restart", retry_after_seconds=0.0))
            await until(lambda: len(server.sockets) == 2)
            assert "said that it goes away" in seen.reasons

    run(story())


def test_a_loss_is_told_before_the_farewell() -> None:
    """A server that does not answer takes its time also with the end of the connection; nobody waits for that."""

    async def story() -> None:
        async with FakeServer() as server:
            told: list[int | None] = []

            def edge(is_connected: bool, _: str) -> None:
                if not is_connected:
                    told.append(server.sockets[0].close_code)

            server.hello = structs.replace(HELLO, heartbeat_seconds=0.03)
            server.answers_pings = False
            address = fixed_address(server.url, TOKEN)
            connection = Connection(address, on_push=lambda _: None, on_edge=edge, patience=QUICK)
            connection.ensure()
            await until(lambda: server.sockets and server.sockets[0].close_code)
            assert told[0] is None
            await connection.close()

    run(story())


# Frames


def test_a_frame_of_a_newer_server_is_ignored_and_counted() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, seen):
            server.socket.send_raw(b'{"type": "chat:video", "task_id": "ses_1"}')
            server.socket.send_raw(b'{"type": "chat:chunk", "task_id": 7}')
            server.socket.send_raw(b'["a list"]')
            server.socket.send(HELLO)
            server.socket.send_raw(b'{"type": "chat:chunk", "new": 1,' + msgspec_tail(chunk(5)))
            await until(lambda: seen.pushed)
            assert connection.ignored == 4
            assert seen.pushed == [chunk(5)]
            assert connection.is_connected

    run(story())


def msgspec_tail(frame: ChatChunk) -> bytes:
    return msgspec.json.encode(frame).partition(b",")[2]


def test_an_answer_that_cannot_be_read_is_an_answer() -> None:
    def answer(socket: FakeSocket, request: Request) -> None:
        socket.send_raw(b'{"type": "task:joined", "id": "%s", "snapshot": {"odd": 1}}' % request.id.encode())

    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, _):
            server.on_request = answer
            with pytest.raises(PeerFault, match="cannot be read"):
                await connection.request(TaskJoin(id=connection.new_id(), task_id=TASK))
            assert connection.is_connected

    run(story())


def test_what_is_not_json_ends_the_connection_which_is_then_made_again() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, seen):
            server.socket.send_raw(b"{oh")
            await until(lambda: len(server.sockets) == 2 and connection.is_connected)
            assert "not JSON" in seen.reasons

    run(story())


def test_a_bug_in_what_hears_is_told_and_not_hidden() -> None:
    async def story() -> None:
        def fail(_: PushedFrame) -> None:
            raise ZeroDivisionError

        async with FakeServer() as server:
            address = fixed_address(server.url, TOKEN)
            connection = Connection(address, on_push=fail, on_edge=lambda *_: None, patience=QUICK)
            connection.ensure()
            await until(lambda: connection.is_connected)
            server.socket.send(chunk(1))
            await until(lambda: connection.problem)
            assert "ZeroDivisionError" in str(connection.problem)
            assert not connection.is_connected
            await connection.close()

    run(story())


# Bounds


def test_what_waits_is_bounded() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, _):
            server.on_request = lambda socket, request: None
            outcomes: list[Ack | TaskJoined | InterlockError | object] = []
            for _ in range(MAX_ASKED):
                connection.post(send(connection), outcomes.append)
            with pytest.raises(UsageError, match="too much"):
                connection.post(send(connection), outcomes.append)
            server.socket.abort()
            await until(lambda: len(outcomes) == MAX_ASKED)

    run(story())


def test_more_than_the_server_takes_is_not_sent() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, _):
            with pytest.raises(UsageError, match="more than the server takes"):
                await connection.request(send(connection, "x" * 100_001))
            assert not server.socket.requests
            assert not len(connection._questions)

    run(story())


# Ends


def test_closing_leaves_nothing_behind() -> None:
    async def story() -> None:
        async with FakeServer() as server:
            async with connected(server) as (connection, seen):
                server.on_request = lambda socket, request: None
                waiting = asyncio.create_task(connection.request(send(connection)))
                await until(lambda: server.requests)
                await connection.close()
                with pytest.raises(Unreachable, match="this client was closed"):
                    await waiting
                assert seen.edges[-1] == (False, "this client was closed")
                connection.ensure()
            await until(lambda: server.socket.is_gone.is_set())
            assert server.socket.close_code == 1000
            await server.stop()
            await until(lambda: not other_tasks(), "the end of every task", 30)

    run(story())


def test_a_cancelled_wait_is_forgotten() -> None:
    async def story() -> None:
        async with FakeServer() as server, connected(server) as (connection, _):
            server.on_request = lambda socket, request: None
            waiting = asyncio.create_task(connection.request(send(connection)))
            await until(lambda: server.requests)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert not len(connection._questions)

    run(story())
