"""Hostile clients: whatever one of them sends or leaves unread, it is let go cleanly, and nobody else notices."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.agents.observations import TextArrived
from interlock.server.live.outbox import TRY_AGAIN_LATER
from interlock.server.live.socket import BAD_PAYLOAD, SocketConnection
from interlock.server.live.socket_protocol import SILENT, TOO_BIG
from interlock.vocabulary.wire.requests import Ack, Refused, TaskJoined
from tests.contract.harness import run
from tests.held_time import clock, run_with_jumps
from tests.server.raw_frames import Opcode, frame, handshake_of, raw_socket
from tests.server.socket_harness import BEAT_SECONDS, QUICK, Bench, Client, serving, soon

PING = b'{"type":"ping","id":"a"}'
PROTOCOL_ERROR = 1002
LIMIT = 4_096


@asynccontextmanager
async def with_bystander(**changes: object) -> AsyncIterator[tuple[Bench, Client]]:
    """A server with an honest client, which must be well at the end."""
    given = replace(QUICK, max_request_bytes=LIMIT, **changes)  # type: ignore[arg-type]
    async with serving(given) as bench, bench.client() as bystander:
        await bystander.ask("ping")
        yield bench, bystander
        assert isinstance(await bystander.ask("ping"), Ack)
        await soon(lambda: bench.hub.connections == 1)


CASES: dict[str, tuple[list[bytes], set[int | None]]] = {
    "unmasked": ([frame(Opcode.TEXT, PING, is_masked=False)], {PROTOCOL_ERROR}),
    "oversized": ([frame(Opcode.TEXT, b"x" * (LIMIT + 1))], {TOO_BIG}),
    "oversized by its header alone": ([frame(Opcode.TEXT, b"", said_length=1 << 40)], {TOO_BIG}),
    "just too large, by its header alone": ([frame(Opcode.TEXT, b"", said_length=LIMIT + 1)], {TOO_BIG}),
    "a length with its top bit": ([frame(Opcode.TEXT, b"", said_length=(1 << 64) - 1)], {PROTOCOL_ERROR, TOO_BIG}),
    "oversized in fragments": (
        [frame(Opcode.TEXT, b"x" * 3_000, is_final=False), frame(Opcode.CONTINUATION, b"x" * 3_000)],
        {TOO_BIG},
    ),
    "not UTF-8": ([frame(Opcode.TEXT, b'{"type":"\xff\xfe"}')], {BAD_PAYLOAD}),
    "a surrogate in UTF-8": ([frame(Opcode.TEXT, b"\xed\xa0\x80")], {BAD_PAYLOAD}),
    "a continuation of nothing": ([frame(Opcode.CONTINUATION, b"x")], {PROTOCOL_ERROR}),
    "a text within a text": (
        [frame(Opcode.TEXT, b"a", is_final=False), frame(Opcode.TEXT, b"b")],
        {PROTOCOL_ERROR},
    ),
    "reserved bits": ([frame(Opcode.TEXT, PING, reserved=7)], {PROTOCOL_ERROR}),
    "a reserved opcode": ([frame(3, PING)], {PROTOCOL_ERROR}),
    "a ping in fragments": ([frame(Opcode.PING, b"", is_final=False)], {PROTOCOL_ERROR}),
    "a ping that is too long": ([frame(Opcode.PING, b"x" * 126)], {PROTOCOL_ERROR}),
    "a close with half a code": ([frame(Opcode.CLOSE, b"\x03")], {PROTOCOL_ERROR}),
    "a close with a code that is none": ([frame(Opcode.CLOSE, b"\x00\x01")], {PROTOCOL_ERROR}),
    "a close, politely": ([frame(Opcode.CLOSE, b"\x03\xe8")], {1000}),
    "three that are no requests": ([frame(Opcode.TEXT, b"{}")] * 3, {BAD_PAYLOAD}),
}


def test_a_frame_that_nobody_should_send_ends_its_connection_only() -> None:
    async def story() -> None:
        async with with_bystander() as (bench, bystander):
            for name, (sent, codes) in CASES.items():
                async with raw_socket(bench.port) as hostile:
                    await hostile.send(*sent)
                    assert await hostile.close_code() in codes, name
                assert isinstance(await bystander.ask("ping"), Ack), name

    run(story())


def test_honest_frames_by_hand_are_served() -> None:
    """The fuzzer itself is right: what it sends masked and whole, or in honest fragments, is answered."""

    async def story() -> None:
        async with with_bystander() as (bench, _), raw_socket(bench.port) as honest:
            await honest.send(frame(Opcode.TEXT, PING))
            await honest.send(
                frame(Opcode.TEXT, PING[:5], is_final=False),
                frame(Opcode.PING, b"between"),
                frame(Opcode.CONTINUATION, PING[5:]),
            )
            hello, *acks = await honest.texts(3)
            assert b'"hello"' in hello
            assert acks == [b'{"type":"ack","id":"a","result":null}'] * 2

    run(story())


@pytest.mark.parametrize("part", [1, 2, 5, 9])
def test_half_a_frame_and_then_nothing_is_let_go(part: int) -> None:
    async def story() -> None:
        async with (
            with_bystander(heartbeat_seconds=BEAT_SECONDS) as (bench, bystander),
            raw_socket(bench.port) as hostile,
        ):
            await hostile.send(frame(Opcode.TEXT, PING)[:part])
            ending = asyncio.create_task(hostile.close_code())
            while not ending.done():
                assert isinstance(await bystander.ask("ping"), Ack)
                clock().advance(BEAT_SECONDS / 4)
                await asyncio.wait((ending,), timeout=0.03)
            await ending

    run_with_jumps(story())


def test_a_client_that_talks_and_answers_no_ping_is_let_go() -> None:
    async def story() -> None:
        async with (
            with_bystander(heartbeat_seconds=BEAT_SECONDS) as (bench, bystander),
            raw_socket(bench.port) as hostile,
        ):
            ending = asyncio.create_task(hostile.close_code())
            while not ending.done():
                hostile.writer.write(frame(Opcode.TEXT, PING))
                assert isinstance(await bystander.ask("ping"), Ack)
                clock().advance(BEAT_SECONDS / 4)
                await asyncio.wait((ending,), timeout=0.03)
            assert await ending == SILENT

    run_with_jumps(story())


def test_a_connection_that_is_cut_in_the_middle_of_a_frame_leaves_nothing() -> None:
    async def story() -> None:
        async with with_bystander() as (bench, _):
            async with raw_socket(bench.port) as hostile:
                await soon(lambda: bench.hub.connections == 2)
                await hostile.send(frame(Opcode.TEXT, PING)[:7])
            await soon(lambda: bench.hub.connections == 1)

    run(story())


def test_a_handshake_that_never_ends_keeps_nobody_waiting() -> None:
    async def story() -> None:
        async with with_bystander() as (bench, bystander):
            _, writer = await asyncio.open_connection("127.0.0.1", bench.port)
            for byte in handshake_of(bench.port)[:40]:
                writer.write(bytes([byte]))
                await writer.drain()
                assert isinstance(await bystander.ask("ping"), Ack)
            assert bench.hub.connections == 1, "who has not shaken hands is no connection"
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    run(story())


BYTES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        frame,
        st.integers(0, 15),
        st.binary(max_size=40),
        is_final=st.booleans(),
        is_masked=st.booleans(),
        reserved=st.sampled_from([0, 0, 0, 1, 4]),
        said_length=st.none() | st.integers(0, 1 << 63),
    ),
    st.builds(lambda text: frame(Opcode.TEXT, text.encode()), st.text(max_size=30)),
    st.just(frame(Opcode.TEXT, PING)),
)


LIVES = st.lists(st.lists(BYTES, min_size=1, max_size=6), min_size=10, max_size=10)


async def _bear(lives: list[list[bytes]]) -> None:
    """Each list is what one hostile client sends before it just goes."""
    async with with_bystander() as (bench, _):
        for sent in lives:
            async with raw_socket(bench.port) as hostile:
                with suppress(ConnectionError):
                    await hostile.send(*sent)


@settings(max_examples=6)
@given(LIVES)
def test_whatever_comes_the_server_stays_well(lives: list[list[bytes]]) -> None:
    run(_bear(lives))


@pytest.mark.deep
@settings(max_examples=150)
@given(LIVES)
def test_whatever_comes_the_server_stays_well_for_long(lives: list[list[bytes]]) -> None:
    run(_bear(lives))


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.deep)])
def test_thousands_of_rooms_are_asked_for(count: int) -> None:
    async def story() -> None:
        settings = {"max_rooms": 50, "requests_per_second": 1e6, "request_burst": 10**6, "heartbeat_seconds": 60.0}
        settings["outbox_frames"] = 200  # who asks much at once, and reads, is not taken for one that does not read
        async with with_bystander(**settings) as (bench, _), bench.client() as hostile:
            tasks = [await bench.open_task() for _ in range(60)]

            async def ask() -> None:
                for number in range(count):
                    await hostile.send("task:join", task_id=tasks[number] if number < 60 else f"ses_{number}")

            asking = asyncio.create_task(ask())
            seen = {TaskJoined: 0, 404: 0, 429: 0}
            await hostile.read()
            for _ in range(count):
                answer = await hostile.read()
                seen[answer.problem.status if isinstance(answer, Refused) else type(answer)] += 1
            await asking
            assert seen == {TaskJoined: 50, 404: 0, 429: count - 50}
            assert len(bench.hub.views) == 60, "to ask for a room does not make one"
            assert len(bench.hub.rooms._members) == 50

    run(story())


def test_requests_in_the_wrong_order_are_answered_and_harmless() -> None:
    async def story() -> None:
        async with with_bystander() as (bench, _), bench.client() as client:
            task_id = await bench.open_task()
            assert isinstance(await client.ask("task:leave", task_id=task_id), Ack)
            assert isinstance(await client.ask("board:leave"), Ack)
            assert isinstance(await client.ask("task:resume", task_id=task_id, version=10**9), TaskJoined)
            far = await client.ask("task:resume", task_id=task_id, version=0, stream_id="no", cursor=10**9)
            assert isinstance(far, TaskJoined)
            for kind, fields in (
                ("queue:remove", {"prompt_id": "prm_none"}),
                ("queue:edit", {"prompt_id": "prm_none", "text": "x"}),
                ("approval:decide", {"approval_id": "none", "is_allowed": True}),
            ):
                refused = await client.ask(kind, task_id=task_id, **fields)
                assert isinstance(refused, Refused)
                assert 400 <= refused.problem.status < 500
            assert bench.hub.is_ready

    run(story())


def test_texts_that_no_log_can_keep_are_refused_and_the_task_lives() -> None:
    async def story() -> None:
        async with with_bystander() as (bench, _), bench.client() as client:
            task_id = await bench.open_task()
            for text in ("a\x00b", " ", ""):
                refused = await client.ask("chat:send", task_id=task_id, text=text)
                assert isinstance(refused, Refused)
                assert 400 <= refused.problem.status < 500
            assert isinstance(await client.ask("chat:send", task_id=task_id, text="hello"), Ack)

    run(story())


def unread(bench: Bench) -> socket.socket:
    """A client that will not read, with buffers as small as they can be."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.connect(("127.0.0.1", bench.port))
    raw.setblocking(False)
    return raw


def narrow(bench: Bench) -> None:
    """Let the system keep little of what is sent. By itself it takes megabytes for a peer that reads nothing: on a busy
    machine its missing heartbeat ends it before so much was sent, and it never falls behind."""
    for one in bench.protocols:
        one.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)


def test_a_client_that_does_not_read_its_answers_is_let_go() -> None:
    async def story() -> None:
        limits = {"outbox_frames": 10, "requests_per_second": 1e6, "request_burst": 1_000_000}
        async with with_bystander(**limits) as (bench, bystander):
            raw, loop = unread(bench), asyncio.get_running_loop()
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            puppet.say(TextArrived(text="z" * 50_000))
            await soon(lambda: bench.hub.views[task_id].check().active_stream)
            join = msgspec.json.encode({"type": "task:join", "id": "j", "task_id": task_id})
            await loop.sock_sendall(raw, handshake_of(bench.port))
            await soon(lambda: bench.hub.connections == 2)
            for _ in range(400):  # each answer is 50 kB: soon no buffer takes more
                if bench.hub.traffic.overflows:
                    break
                await loop.sock_sendall(raw, frame(Opcode.TEXT, join))
                assert isinstance(await bystander.ask("ping"), Ack)
            await soon(lambda: bench.hub.traffic.overflows == 1)
            closing = [box.closing for box in bench.hub._outboxes if box.closing]
            assert [one.code for one in closing] in ([TRY_AGAIN_LATER], [])
            raw.close()
            await soon(lambda: bench.hub.connections == 1)

    run(story())


def test_a_client_that_reads_nothing_is_given_up_and_costs_no_more_than_its_bound() -> None:
    async def story() -> None:
        limits = {"outbox_frames": 10, "outbox_bytes": 200_000, "heartbeat_seconds": BEAT_SECONDS}
        async with with_bystander(**limits) as (bench, bystander):
            raw, loop = unread(bench), asyncio.get_running_loop()
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            join = msgspec.json.encode({"type": "task:join", "id": "j", "task_id": task_id})
            await loop.sock_sendall(raw, handshake_of(bench.port))
            await soon(lambda: bench.hub.connections == 2)
            await loop.sock_sendall(raw, frame(Opcode.TEXT, join))
            await soon(lambda: bench.hub.rooms._members.get(task_id))
            narrow(bench)
            most = 0
            for _ in range(300):
                puppet.say(TextArrived(text="z" * 20_000))
                assert isinstance(await bystander.ask("ping"), Ack)
                most = max(most, *(box._bytes for box in bench.hub._outboxes))
            assert most <= 200_000
            assert bench.hub.rooms.times_behind >= 1

            async def alone() -> None:
                while bench.hub.connections > 1:
                    assert isinstance(await bystander.ask("ping"), Ack)
                    clock().advance(BEAT_SECONDS / 4)
                    await asyncio.sleep(0.02)

            await alone()
            raw.close()

    run_with_jumps(story())


def test_the_fuzzer_speaks_of_frames_as_the_standard_does() -> None:
    assert frame(Opcode.TEXT, b"Hello", is_masked=False) == bytes.fromhex("810548656c6c6f")
    assert frame(Opcode.PING, b"Hello", is_masked=False) == bytes.fromhex("890548656c6c6f")
    assert frame(Opcode.BINARY, b"x" * 256, is_masked=False)[:4] == bytes.fromhex("827e0100")


def test_a_connection_that_we_fail_over_is_told_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client sees only that it ends."""

    async def story() -> None:
        async def fail(_: object) -> None:
            raise RuntimeError("broken on purpose")

        async with with_bystander() as (bench, _):
            monkeypatch.setattr(SocketConnection, "_read", fail)
            async with bench.client() as client:
                await client.closed()
            await soon(lambda: "broken on purpose" in caplog.text)

    run(story())
