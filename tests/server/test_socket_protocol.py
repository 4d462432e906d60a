"""The transport under a socket: what a peer leaves unread is bounded, and so is how long it is waited for."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.server import ServerState as UvicornState

from interlock.agents.observations import TextArrived
from interlock.server.live.socket import socket_options
from interlock.server.live.socket_protocol import MAX_FRAGMENTS, TOO_BIG, WIRE, BoundedSocket
from interlock.server.live.write_watch import STUCK_LOOKS, WriteWatch
from interlock.vocabulary.wire.requests import Ack
from tests.contract.harness import run
from tests.each_row import each_row
from tests.held_time import clock, run_with_jumps
from tests.server.raw_frames import Opcode, frame, handshake_of
from tests.server.socket_harness import BEAT_SECONDS, QUICK, serving, soon
from tests.server.test_socket_hostile import narrow, unread


class Pipe(asyncio.Transport):
    """A transport whose peer reads when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = b""
        self.is_closed = False
        self.is_aborted = False

    def write(self, data: Any) -> None:  # noqa: ANN401
        self.unsent += bytes(data)

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = self.is_closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def opened() -> tuple[BoundedSocket, Pipe]:
    """A socket that was accepted; what it has sent so far is read."""

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    config = uvicorn.Config(app, log_config=None, lifespan="off", **socket_options(QUICK))
    config.load()
    socket, pipe = BoundedSocket(config, UvicornState(), {}), Pipe()
    socket.connection_made(pipe)
    socket.data_received(handshake_of(1))
    await soon(lambda: pipe.unsent)
    pipe.unsent = b""
    return socket, pipe


def test_pongs_that_are_not_read_do_not_pile_up_and_the_last_is_sent_when_there_is_place() -> None:
    async def story() -> None:
        socket, pipe = await opened()
        socket.data_received(frame(Opcode.PING, b"first"))
        assert pipe.unsent == frame(Opcode.PONG, b"first", is_masked=False)
        socket.pause_writing()
        before = len(pipe.unsent)
        for number in range(1_000):
            socket.data_received(frame(Opcode.PING, b"%d" % number))
        assert len(pipe.unsent) == before
        pipe.unsent = b""
        socket.resume_writing()
        assert pipe.unsent == frame(Opcode.PONG, b"999", is_masked=False)
        pipe.unsent = b""
        socket.pause_writing()
        socket.resume_writing()
        assert pipe.unsent == b"", "a pong is sent once"
        socket.connection_lost(None)

    run(story())


def test_a_pong_that_waited_is_not_sent_after_the_end() -> None:
    async def story() -> None:
        socket, pipe = await opened()
        socket.pause_writing()
        socket.data_received(frame(Opcode.PING, b"x"))
        socket.data_received(frame(Opcode.CLOSE, b"\x03\xe8"))
        pipe.unsent = b""
        socket.resume_writing()
        assert pipe.unsent == b""
        socket.connection_lost(None)

    run(story())


@each_row("size", [0, 1, 125, 126, 65_535, 65_536, 70_000])
def test_what_waits_goes_out_in_one_write_as_the_standard_spells_it(size: int) -> None:
    async def story() -> None:
        socket, pipe = await opened()
        wire = socket.scope["extensions"][WIRE]
        await wire.send_texts([b"x" * size, b"y"])  # type: ignore[attr-defined]
        expected = [frame(Opcode.TEXT, one, is_masked=False) for one in (b"x" * size, b"y")]
        assert pipe.unsent == b"".join(expected)
        socket.connection_lost(None)

    run(story())


def test_nothing_is_sent_to_a_peer_that_is_full_or_gone() -> None:
    async def story() -> None:
        socket, pipe = await opened()
        socket.pause_writing()
        sending = asyncio.create_task(socket.send_texts([b"x"]))
        await asyncio.sleep(0)
        assert not sending.done()
        assert pipe.unsent == b""
        socket.data_received(frame(Opcode.CLOSE, b"\x03\xe8"))
        pipe.unsent = b""
        socket.resume_writing()
        with pytest.raises(ClientDisconnected):
            await sending
        assert pipe.unsent == b""
        socket.connection_lost(None)
        with pytest.raises(ClientDisconnected):
            await socket.send_texts([b"x"])

    run(story())


def test_a_message_without_end_in_empty_fragments_ends_its_connection() -> None:
    async def story() -> None:
        socket, pipe = await opened()
        socket.data_received(frame(Opcode.TEXT, b"", is_final=False))
        for _ in range(MAX_FRAGMENTS - 1):
            socket.data_received(frame(Opcode.CONTINUATION, b"", is_final=False))
        assert not pipe.is_closing()
        for _ in range(3):
            socket.data_received(frame(Opcode.CONTINUATION, b"", is_final=False))
        assert pipe.is_closing()
        assert pipe.unsent[2:4] == struct.pack("!H", TOO_BIG)
        assert len(socket.frames) <= MAX_FRAGMENTS
        socket.connection_lost(None)

    run(story())


# The watch


def watched(pipe: Pipe) -> WriteWatch:
    watch = WriteWatch(pipe, look_seconds=3_600.0)
    watch.stop()  # the test looks
    return watch


def look(watch: WriteWatch, times: int = 1) -> None:
    for _ in range(times):
        watch._look()
        watch.stop()


def test_a_peer_that_is_full_and_reads_nothing_is_cut() -> None:
    async def story() -> None:
        pipe = Pipe()
        watch = watched(pipe)
        pipe.write(b"x" * 100)
        watch.pause()
        look(watch, STUCK_LOOKS)
        assert not pipe.is_aborted
        look(watch)
        assert pipe.is_aborted

    run(story())


def test_a_peer_that_reads_however_slowly_is_not_cut() -> None:
    async def story() -> None:
        pipe = Pipe()
        watch = watched(pipe)
        pipe.write(b"x" * 100)
        watch.pause()
        for _ in range(20):
            pipe.unsent = pipe.unsent[1:]
            look(watch)
        for _ in range(20):  # it takes much, and as much is written again
            watch.resume()
            watch.pause()
            look(watch)
        assert not pipe.is_aborted

    run(story())


def test_a_peer_with_nothing_or_little_to_read_is_not_cut() -> None:
    async def story() -> None:
        pipe = Pipe()
        watch = watched(pipe)
        look(watch, 10)
        pipe.write(b"x")
        look(watch, 10)
        assert not pipe.is_aborted
        pipe.unsent = b""
        pipe.close()
        look(watch, 10)
        assert not pipe.is_aborted, "it ends by itself"

    run(story())


def test_a_connection_that_closes_waits_for_its_peer_no_longer() -> None:
    async def story() -> None:
        pipe = Pipe()
        watch = watched(pipe)
        pipe.write(b"x")
        pipe.close()
        look(watch, STUCK_LOOKS + 1)
        assert pipe.is_aborted

    run(story())


# Both, on a real socket


def test_a_peer_that_reads_nothing_keeps_no_connection_of_ours() -> None:
    async def story() -> None:
        given = replace(QUICK, outbox_frames=10, outbox_bytes=200_000, heartbeat_seconds=BEAT_SECONDS)
        async with serving(given) as bench, bench.client() as bystander:
            raw, loop = unread(bench), asyncio.get_running_loop()
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            await loop.sock_sendall(raw, handshake_of(bench.port))
            await soon(lambda: bench.hub.connections == 2)
            join = b'{"type":"task:join","id":"j","task_id":"%s"}' % task_id.encode()
            await loop.sock_sendall(raw, frame(Opcode.TEXT, join))
            await soon(lambda: bench.hub.rooms._members.get(task_id))
            narrow(bench)
            for _ in range(300):
                puppet.say(TextArrived(text="z" * 20_000))
                assert isinstance(await bystander.ask("ping"), Ack)
                waiting = max(one.transport.get_write_buffer_size() for one in bench.protocols)
                assert waiting < 400_000, "what waits in the transport is bounded too"
            assert bench.hub.rooms.times_behind

            async def alone() -> None:
                while len(bench.protocols) > 1:
                    assert isinstance(await bystander.ask("ping"), Ack)
                    clock().advance(BEAT_SECONDS / 4)
                    await asyncio.sleep(0.02)

            await alone()
            assert bench.hub.connections == 1
            raw.close()

    run_with_jumps(story())


def test_a_server_that_closes_does_not_wait_for_those_who_do_not_read() -> None:
    async def story() -> None:
        given = replace(QUICK, outbox_frames=10, outbox_bytes=200_000, heartbeat_seconds=BEAT_SECONDS)
        async with serving(given) as bench:
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            loop, stuck = asyncio.get_running_loop(), [unread(bench) for _ in range(3)]
            join = b'{"type":"task:join","id":"j","task_id":"%s"}' % task_id.encode()
            for raw in stuck:
                await loop.sock_sendall(raw, handshake_of(bench.port))
            await soon(lambda: bench.hub.connections == 3)
            for raw in stuck:
                await loop.sock_sendall(raw, frame(Opcode.TEXT, join))
            await soon(lambda: len(bench.hub.rooms._members.get(task_id, ())) == 3)
            narrow(bench)
            async with bench.client() as well:
                await well.ask("task:join", task_id=task_id)
                while bench.hub.rooms.times_behind < 3:
                    puppet.say(TextArrived(text="z" * 20_000))
                    assert isinstance(await well.ask("ping"), Ack)
                closing = asyncio.create_task(bench.hub.close("over", patience_seconds=10.0))
                assert (await well.closed())[0] == 1012
                while bench.protocols:
                    clock().advance(BEAT_SECONDS / 4)
                    await asyncio.sleep(0.02)
                await closing
            assert bench.hub.connections == 0
            for raw in stuck:
                raw.close()

    run_with_jumps(story())


def test_nobody_is_sent_before_who_waited() -> None:
    async def story() -> None:
        socket, pipe = await opened()
        free = [socket.is_free]
        socket.pause_writing()
        free.append(socket.is_free)
        sending = asyncio.create_task(socket.send_texts([b"first"]))
        await asyncio.sleep(0)
        socket.resume_writing()
        free.append(socket.is_free)  # somebody waited, and has not gone on yet
        await sending
        free.append(socket.is_free)
        assert pipe.unsent == frame(Opcode.TEXT, b"first", is_masked=False)
        socket.data_received(frame(Opcode.CLOSE, b"\x03\xe8"))
        free.append(socket.is_free)
        assert free == [True, False, False, True, False]
        socket.connection_lost(None)

    run(story())


def test_a_socket_tells_its_watch_when_it_is_full_and_when_it_is_over() -> None:
    async def story() -> None:
        socket, pipe = await opened()
        watch = socket._write_watch
        pipe.write(b"x")
        socket.pause_writing()
        socket.resume_writing()
        look(watch, 2 * STUCK_LOOKS)
        assert not pipe.is_closing(), "there was place again"
        socket.pause_writing()
        look(watch, STUCK_LOOKS + 1)
        assert pipe.is_closing()
        watch._arm()
        socket.connection_lost(None)
        assert watch._timer.cancelled()

    run(story())
