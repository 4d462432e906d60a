"""Server-sent events: the room of a task for curl and scripts."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.observations import TextArrived, TurnEnded, TurnEnding
from interlock.server.http.problems import NotReady, Unfit
from interlock.server.live.sse import Cursor, EventStream, parse_cursor, task_events
from interlock.vocabulary.ids import SessionId, StreamId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import ChatChunk, ChatStart
from interlock.vocabulary.wire.requests import TaskJoin, TaskJoined
from tests.contract.harness import run
from tests.each_row import each_row
from tests.server.socket_harness import FRAMES, QUICK, Bench, Reader, digest, serving, soon, whole

PATIENCE_SECONDS = 100.0


class Events:
    """Reads an event stream as its specification says."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.last_id = ""
        self.comments = 0
        self.retry = ""

    async def next(self) -> tuple[str, dict[str, Any]]:
        kind, data = "", ""
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if line.startswith(":"):
                    self.comments += 1
                elif name == "id":
                    self.last_id = value
                elif name == "event":
                    kind = value
                elif name == "retry":
                    self.retry = value
                elif name == "data":
                    data += value
                elif not line and kind:
                    return kind, json.loads(data)
        return "", {}

    async def until(self, kind: str) -> dict[str, Any]:
        while True:
            found, data = await self.next()
            assert found, "the stream ended"
            if found == kind:
                return data


@asynccontextmanager
async def events_of(bench: Bench, task_id: str, **options: Any) -> AsyncIterator[Events]:  # noqa: ANN401
    async with (
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS, verify=False) as http,
        http.stream("GET", f"http://127.0.0.1:{bench.port}/api/tasks/{task_id}/events", **options) as response,
    ):
        yield Events(response)


def test_it_begins_with_where_the_task_stands_and_then_tells_every_frame() -> None:
    async def story() -> None:
        async with serving() as bench:
            task_id = await bench.open_task()
            async with events_of(bench, task_id) as events:
                assert events.response.headers["content-type"].startswith("text/event-stream")
                assert events.response.headers["cache-control"] == "no-store"
                kind, joined = await events.next()
                assert (kind, joined["type"]) == ("task:joined", "task:joined")
                assert events.last_id == "1"
                puppet = await bench.at_work(task_id)
                puppet.say(TextArrived(text="h\u00e9\U0001f600"))
                chunk = await events.until("chat:chunk")
                assert events.last_id == f"{chunk['version']}:{chunk['stream_id']}:3", "code points, not bytes"
                puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="h\u00e9\U0001f600"))
                while (await events.until("task:status"))["task_status"] != "COMPLETED":
                    pass
                assert events.last_id == str(bench.hub.views[task_id].version)
            await soon(lambda: not bench.hub.connections)
            assert not bench.hub.rooms._joined

    run(story())


def test_a_reader_that_comes_back_gets_what_it_lacks() -> None:
    async def story() -> None:
        async with serving() as bench:
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            puppet.say(TextArrived(text="hello"))
            await soon(lambda: bench.hub.views[task_id].check().active_stream)
            async with events_of(bench, task_id) as events:
                await events.next()
                cursor = parse_cursor(events.last_id)
                assert cursor.cursor == 5
            puppet.say(TextArrived(text=" world"))
            await soon(lambda: (stream := bench.hub.views[task_id].check().active_stream) and stream.cursor == 11)
            async with events_of(bench, task_id, headers={"Last-Event-ID": events.last_id}) as again:
                _, joined = await again.next()
                snapshot = joined["snapshot"]
                assert not snapshot["is_whole"]
                assert snapshot["stream"]["text"] == " world"
                assert all(one["version"] >= cursor.version for one in snapshot["messages"])
            async with events_of(bench, task_id, params={"after": 1}) as later:
                _, joined = await later.next()
                assert not joined["snapshot"]["is_whole"]
                assert joined["snapshot"]["stream"]["text"] == "hello world"
                assert [one["version"] > 1 for one in joined["snapshot"]["messages"]] == [True]

    run(story())


def test_a_reader_that_had_only_the_first_of_two_frames_gets_the_second() -> None:
    """One event may change two messages. Whoever had one of them names the version of both."""

    async def story() -> None:
        async with serving() as bench:
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="hi"))
            await soon(lambda: bench.hub.views[task_id].status is TaskStatus.COMPLETED)
            newest = whole(bench.hub.views[task_id]).messages[-1]
            async with events_of(bench, task_id, headers={"Last-Event-ID": str(newest.version)}) as events:
                _, joined = await events.next()
                assert newest.message_id in [one["message_id"] for one in joined["snapshot"]["messages"]]
            async with events_of(bench, task_id, params={"after": newest.version}) as events:
                _, joined = await events.next()
                assert joined["snapshot"]["messages"] == []

    run(story())


def test_something_comes_each_heartbeat() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, heartbeat_seconds=0.02)) as bench:
            task_id = await bench.open_task()
            async with events_of(bench, task_id) as events:
                await events.next()
                waiting = asyncio.create_task(events.next())
                await soon(lambda: events.comments >= 2)
                await bench.runtime.send(task_id, "hello")
                assert (await waiting)[0]

    run(story())


@each_row("given_id", ["x", "-1", "1:", "1:a", "1::2", "1:a:x", "9" * 16, "1:a:-2", "\u0661"])
def test_an_id_that_is_none_is_refused(given_id: str) -> None:
    with pytest.raises(Unfit):
        parse_cursor(given_id)


@given(st.integers(0, 10**9), st.text(min_size=1, max_size=8), st.integers(0, 10**9))
def test_a_cursor_reads_back_as_it_was_written(version: int, name: str, cursor: int) -> None:
    written = Cursor(version, StreamId(name), cursor).spelled()
    assert "\n" not in written
    assert "\r" not in written
    read = parse_cursor(written)
    assert read.version == version
    assert read.stream_id in (None, name)
    if name.isprintable():
        assert read == Cursor(version, StreamId(name), cursor)
    assert parse_cursor(Cursor(version).spelled()) == Cursor(version)


def test_unknown_tasks_bad_ids_and_too_many_readers_are_refused_before_anything_is_sent() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, max_connections=1)) as bench:
            task_id = await bench.open_task()
            async with events_of(bench, "ses_none") as events:
                assert events.response.status_code >= 400
            async with events_of(bench, task_id, headers={"Last-Event-ID": "nonsense"}) as events:
                assert events.response.status_code >= 400
            assert bench.hub.connections == 0
            async with events_of(bench, task_id) as first:
                await first.next()
                async with events_of(bench, task_id) as second:
                    assert second.response.status_code >= 400

    run(story())


def test_a_server_that_closes_says_so_and_when_to_come_back() -> None:
    async def story() -> None:
        async with serving() as bench:
            task_id = await bench.open_task()
            async with events_of(bench, task_id) as events:
                await events.next()
                await bench.hub.close("a new version")
                kind, closing = await events.next()
                assert (kind, closing["reason"]) == ("server:closing", "a new version")
                assert events.retry == "1000"
                assert await events.next() == ("", {})

    run(story())


def test_a_slow_reader_is_told_and_gets_its_snapshot_again() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, outbox_frames=4)) as bench:
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            events = EventStream(bench.hub, bench.state.settings, TaskJoin(id="e", task_id=task_id))
            mirror = Reader(bench.hub.rooms)  # reads what the stream says, by its data
            first = await anext(events)
            assert first.startswith(b"id: ")
            mirror._take(data_of(first))
            for _ in range(30):
                puppet.say(TextArrived(text="word "))
            view = bench.hub.views[task_id]
            await soon(lambda: (stream := view.check().active_stream) and stream.cursor == 150)
            kinds: list[bytes] = []
            raw = b""
            while b"task:joined" not in kinds:
                raw = await anext(events)
                kinds.append(kind_of(raw))
                if kinds[-1] == b"task:behind":
                    assert not raw.startswith(b"id:"), "whoever breaks off here has not got what it lacks"
                else:
                    mirror._take(data_of(raw))
            assert kinds.count(b"task:behind") == 1
            again = FRAMES.decode(data_of(raw))
            assert again.snapshot.stream.offset > 0, "only what it lacked"  # type: ignore[union-attr]
            assert digest(mirror.tasks[task_id].snapshot) == digest(whole(view))
            await events.aclose()
            await events.aclose()
            assert not bench.hub.connections

    run(story())


def kind_of(raw: bytes) -> bytes:
    return next(line[7:] for line in raw.split(b"\n") if line.startswith(b"event: "))


def data_of(raw: bytes) -> bytes:
    return next(line[6:] for line in raw.split(b"\n") if line.startswith(b"data: "))


def test_a_stream_that_is_given_up_leaves_its_room() -> None:
    async def story() -> None:
        async with serving() as bench:
            task_id = SessionId(await bench.open_task())
            events = EventStream(bench.hub, bench.state.settings, TaskJoin(id="e", task_id=task_id))
            assert bench.hub.connections == 0, "nothing is held before it is read"
            await anext(events)
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            assert bench.hub.connections == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert bench.hub.connections == 0

    run(story())


def id_of(raw: bytes) -> bytes | None:
    return next((line[4:] for line in raw.split(b"\n") if line.startswith(b"id: ")), None)


def text_after(known: str, raw: bytes) -> str:
    """The live text of a reader that had `known`, and now has this event too."""
    frame = FRAMES.decode(data_of(raw))
    match frame:
        case TaskJoined(snapshot=snapshot):
            stream = snapshot.stream
            return "" if stream is None else known[: stream.offset] + stream.text
        case ChatStart():
            return ""
        case ChatChunk(offset=offset, text=text):
            return known[:offset] + text
        case _:
            return known


def test_an_id_never_names_text_that_its_reader_has_not_got() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, outbox_frames=4)) as bench:
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            events = EventStream(bench.hub, bench.state.settings, TaskJoin(id="e", task_id=task_id))
            view, known, said = bench.hub.views[task_id], text_after("", await anext(events)), 0
            kinds = []
            for _ in range(200):
                for _ in range(3 if said < 100 else 0):
                    said += 1
                    puppet.say(TextArrived(text=f"{said:04d} "))
                    expected = 5 * said
                    await soon(
                        lambda expected=expected: (stream := view.check().active_stream) and stream.cursor == expected  # type: ignore[misc]
                    )
                raw = await anext(events)
                known = text_after(known, raw)
                kinds.append(kind_of(raw))
                given_id = id_of(raw)
                if given_id is not None and b":" in given_id:
                    cursor = parse_cursor(given_id.decode()).cursor
                    assert known[:cursor] == "".join(f"{n:04d} " for n in range(1, said + 1))[:cursor]
                    assert len(known) == cursor
                if len(known) >= 500:
                    break
            assert kinds.count(b"task:behind") > 1
            assert kinds.count(b"task:joined") == kinds.count(b"task:behind")
            await events.aclose()

    run(story())


def test_what_it_has_of_a_stream_is_remembered_beyond_the_event_that_said_so() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, outbox_frames=4)) as bench:
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            events = EventStream(bench.hub, bench.state.settings, TaskJoin(id="e", task_id=task_id))
            await anext(events)
            puppet.say(TextArrived(text="hello"))
            while kind_of(await anext(events)) != b"chat:chunk":
                pass
            await bench.runtime.send(task_id, "later")
            while kind_of(await anext(events)) != b"queue:changed":
                pass
            bench.hub.rooms.replace(bench.hub.views[task_id])  # it is told that it is behind, with nothing before
            while kind_of(await anext(events)) != b"task:behind":
                pass
            raw = await anext(events)
            joined = FRAMES.decode(data_of(raw))
            assert joined.snapshot.stream.offset == 5  # type: ignore[union-attr]
            await events.aclose()

    run(story())


def test_a_reader_that_takes_nothing_holds_nothing_for_long() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, heartbeat_seconds=0.02)) as bench:
            task_id = await bench.open_task()
            events = EventStream(bench.hub, bench.state.settings, TaskJoin(id="e", task_id=task_id))
            await anext(events)
            assert bench.hub.connections == 1
            await soon(lambda: bench.hub.connections == 0)
            assert not bench.hub.rooms._joined
            with pytest.raises(StopAsyncIteration):
                await anext(events)

    run(story())


def test_a_reader_that_takes_what_it_is_given_is_not_given_up() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, heartbeat_seconds=0.02)) as bench:
            task_id = await bench.open_task()
            events = EventStream(bench.hub, bench.state.settings, TaskJoin(id="e", task_id=task_id))
            await anext(events)
            for _ in range(10):
                assert await anext(events) == b": still here\n\n"
            await events.aclose()

    run(story())


def test_a_client_that_goes_while_it_is_written_to_leaves_its_room_at_once() -> None:
    async def story() -> None:
        async with serving(replace(QUICK, heartbeat_seconds=60.0)) as bench:
            task_id = await bench.open_task()
            puppet = await bench.at_work(task_id)
            raw, loop = socket.socket(), asyncio.get_running_loop()
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            raw.connect(("127.0.0.1", bench.port))
            raw.setblocking(False)
            await loop.sock_sendall(raw, f"GET /api/tasks/{task_id}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await soon(lambda: bench.hub.connections == 1)
            outbox = next(iter(bench.hub._outboxes))
            for _ in range(5_000):  # until it waits for the client, with more to send
                puppet.say(TextArrived(text="z" * 100_000))
                await asyncio.sleep(0.002)
                if outbox._bytes > 300_000:
                    break
            assert outbox._bytes > 300_000
            raw.close()
            await soon(lambda: bench.hub.connections == 0)

    run(story())


def test_nobody_is_let_in_while_the_server_closes() -> None:
    async def story() -> None:
        async with serving() as bench:
            task_id = await bench.open_task()
            await bench.hub.close("a new version")
            with pytest.raises(NotReady):
                task_events(bench.state, task_id)

    run(story())


def test_a_reader_that_knows_more_than_the_log_is_told_to_forget() -> None:
    async def story() -> None:
        async with serving() as bench:
            task_id = await bench.open_task()
            version = bench.hub.views[task_id].version
            for ahead, is_whole in ((0, False), (1, True), (5, True)):
                async with events_of(bench, task_id, headers={"Last-Event-ID": str(version + ahead)}) as events:
                    _, joined = await events.next()
                    assert joined["snapshot"]["is_whole"] is is_whole, ahead

    run(story())


def test_whoever_is_behind_when_the_server_closes_is_told_that_it_closes() -> None:
    async def story() -> None:
        async with serving() as bench:
            task_id = await bench.open_task()
            events = EventStream(bench.hub, bench.state.settings, TaskJoin(id="e", task_id=task_id))
            await anext(events)
            bench.hub.rooms.replace(bench.hub.views[task_id])
            assert kind_of(await anext(events)) == b"task:behind"
            closing = asyncio.create_task(bench.hub.close("a new version"))
            await asyncio.sleep(0)
            assert kind_of(await anext(events)) == b"server:closing"
            with pytest.raises(StopAsyncIteration):
                await anext(events)
            await closing

    run(story())


def test_when_an_answer_is_over_however_it_ended_its_reader_is_in_no_room() -> None:
    async def story() -> None:
        async with serving() as bench:
            task_id = await bench.open_task()
            answer = task_events(bench.state, task_id)
            await anext(aiter(cast("EventStream", answer.iterator)))
            assert bench.hub.connections == 1
            assert answer.background is not None
            await answer.background()
            assert bench.hub.connections == 0

    run(story())
