"""The JSON-RPC peer: ids by direction, deadlines, and nothing that a line can break."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine

import pytest

from interlock.agents.port import DeliveryUnknown, NotDelivered
from interlock.agents.processes.lines import Line
from interlock.agents.streams.jsonrpc import (
    METHOD_NOT_FOUND,
    Answered,
    JsonRpcPeer,
    Notified,
    PeerRefused,
    RpcRefused,
    RpcRequest,
    Unread,
)


class Wire:
    """What we wrote, and a peer that writes to it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, object]] = []
        self.peer = JsonRpcPeer(self._write)

    async def _write(self, data: bytes) -> None:
        assert data.endswith(b"\n")
        assert data.count(b"\n") == 1
        self.sent.append(json.loads(data))


def line(**message: object) -> Line:
    return Line(json.dumps(message).encode())


def played(story: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(100):
            await story

    asyncio.run(bounded())


def test_an_answer_settles_the_request_of_its_id() -> None:
    async def story() -> None:
        wire = Wire()
        first = asyncio.create_task(wire.peer.request("one", {"a": 1}))
        second = asyncio.create_task(wire.peer.request("two", {}))
        await asyncio.sleep(0)
        assert wire.sent == [
            {"id": 0, "method": "one", "params": {"a": 1}},
            {"id": 1, "method": "two", "params": {}},
        ]
        assert wire.peer.take(line(id=1, result={"n": 2})) == Answered("two", {"n": 2})
        assert wire.peer.take(line(id=0, result={"n": 1})) == Answered("one", {"n": 1})
        assert (await first, await second) == ({"n": 1}, {"n": 2})

    played(story())


def test_ids_count_by_direction() -> None:
    async def story() -> None:
        wire = Wire()
        asking = asyncio.create_task(wire.peer.request("ours", {}))
        await asyncio.sleep(0)
        assert wire.peer.take(line(id=0, method="theirs", params={"x": 1})) == RpcRequest(0, "theirs", {"x": 1})
        await wire.peer.answer(0, {"yes": True})
        assert not asking.done()
        wire.peer.take(line(id=0, result={}))
        assert await asking == {}
        assert wire.sent[1] == {"id": 0, "result": {"yes": True}}

    played(story())


def test_a_refusal_is_raised_where_it_was_asked() -> None:
    async def story() -> None:
        wire = Wire()
        asking = asyncio.create_task(wire.peer.request("ours", {}))
        await asyncio.sleep(0)
        error = {"code": -5, "message": "no"}
        assert wire.peer.take(line(id=0, error=error)) == PeerRefused("ours", "no")
        with pytest.raises(RpcRefused, match="ours: no") as raised:
            await asking
        assert raised.value.code == -5

    played(story())


def test_a_request_without_an_answer_ends_at_its_deadline_and_its_late_answer_is_nothing() -> None:
    async def story() -> None:
        wire = Wire()
        with pytest.raises(DeliveryUnknown, match="no answer"):
            await wire.peer.request("ours", {}, within_seconds=0.01)
        assert isinstance(wire.peer.take(line(id=0, result={})), Unread)

    played(story())


def test_the_end_of_the_connection_ends_every_request() -> None:
    async def story() -> None:
        wire = Wire()
        asking = asyncio.create_task(wire.peer.request("ours", {}))
        await asyncio.sleep(0)
        wire.peer.close("the process ended")
        with pytest.raises(DeliveryUnknown, match="the process ended"):
            await asking
        with pytest.raises(NotDelivered):
            await wire.peer.request("ours", {})
        assert len(wire.sent) == 1

    played(story())


def test_a_request_that_is_cancelled_is_forgotten() -> None:
    async def story() -> None:
        wire = Wire()
        asking = asyncio.create_task(wire.peer.request("ours", {}))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait((asking,))
        assert isinstance(wire.peer.take(line(id=0, result={})), Unread)

    played(story())


def test_an_unknown_method_is_refused_by_the_code_of_the_protocol() -> None:
    async def story() -> None:
        wire = Wire()
        await wire.peer.refuse("word", "what/ever")
        assert wire.sent == [
            {"id": "word", "error": {"code": METHOD_NOT_FOUND, "message": "Method not found: what/ever"}}
        ]

    played(story())


def test_a_notification_has_no_id() -> None:
    assert Wire().peer.take(line(method="told", params={"x": 1})) == Notified("told", {"x": 1})
    assert Wire().peer.take(line(method="told", params=[1])) == Notified("told", {})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"word",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'"\\ud800"',
        b"[" * 100_000,
        b"{}",
        b'{"id": 0}',
        b'{"id": 0, "result": {}}',
        b'{"id": 1.5, "method": "x"}',
        b'{"id": null, "method": "x"}',
        b'{"id": true, "method": "x"}',
        b'{"id": {}, "method": "x"}',
        b'{"method": ["x"]}',
    ],
    ids=lambda data: repr(data[:24]),
)
def test_what_is_no_message_is_unread(data: bytes) -> None:
    assert Wire().peer.take(Line(data)) == Unread(Line(data))


def test_a_line_that_is_not_all_there_is_unread_even_if_it_could_be_read() -> None:
    for torn in (Line(b'{"method": "x"}', is_whole=False), Line(b'{"method": "x"}', is_cut=True)):
        assert Wire().peer.take(torn) == Unread(torn)
