"""What the protocol library gets to see of an agent's messages: nothing that could break its loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from interlock.agents.acp.link import AcpWire
from interlock.agents.acp.translate import PERMISSION, AcpTranslator
from interlock.agents.observations import Observation, Traced, Warned
from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.handle import ObservationQueue
from interlock.agents.processes.lines import Line
from interlock.vocabulary.events.registry import Json
from tests.each_row import each_row

Message = dict[str, Json]


def received(*lines: Line) -> tuple[list[dict[str, Any]], list[Observation]]:
    """What the library gets of these lines, until the agent's output is over; and what is observed."""

    async def said() -> AsyncIterator[Line]:
        for line in lines:
            yield line

    async def story() -> tuple[list[dict[str, Any]], list[Observation]]:
        child, outlet = cast("ChildProcess", SimpleNamespace(lines=said)), ObservationQueue()
        wire, got = AcpWire(child, AcpTranslator(), outlet), []
        while (message := await wire.receive()) is not None:
            got.append(message)
        assert wire.over.is_set()
        outlet.close(())
        return got, [seen async for seen in outlet.read()]

    return asyncio.run(story())


def forwarded(message: Message) -> list[dict[str, Any]]:
    return received(Line(msgspec.json.encode(message)))[0]


@each_row(
    ("message", "seen"),
    [
        ({"id": 1, "result": {"a": 1}}, {"id": 1, "result": {"a": 1}}),
        ({"id": 1}, {"id": 1, "result": None}),
        ({"id": 1, "error": {"code": 5}}, {"id": 1, "error": {"code": 5}}),
        ({"id": 1, "error": "no", "result": 2}, {"id": 1, "error": {}}),
        ({"id": "1", "result": {}}, None),
        ({"result": {}}, None),
        ({"id": 7, "method": "files/steal", "params": {"a": 1}}, {"id": 7, "method": "files/steal"}),
        ({"id": "x", "method": "files/steal"}, {"id": "x", "method": "files/steal"}),
        ({"id": [1], "method": "files/steal"}, None),
        ({"method": "session/update", "params": {}}, None),
        ({"id": 7, "method": PERMISSION, "params": {}}, None),
        *(
            ({"id": 7, "method": odd, "result": 2}, {"id": 7, "result": 2})
            for odd in ("", None, 5, [1], {"a": 1}, True)
        ),
    ],
)
def test_the_library_sees_answers_and_requests_with_a_name_and_nothing_else(
    message: Message, seen: dict[str, Any] | None
) -> None:
    assert forwarded(message) == ([] if seen is None else [seen])


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        (Line(b"not json"), []),
        (Line(b"[1]"), []),
        (Line(b'{"id": 1, "re', is_whole=False), ["line_not_ended: the agent died in mid-line"]),
        (Line(b'{"id": 1, "re', is_cut=True), ["line_too_long: a line of over 13 bytes"]),
    ],
)
def test_a_line_that_cannot_be_read_is_kept_as_trace_and_does_not_end_the_talk(line: Line, warned: list[str]) -> None:
    got, seen = received(line, Line(b'{"id": 1, "result": 2}'))
    assert got == [{"id": 1, "result": 2}]
    assert [f"{one.kind}: {one.message}" for one in seen if isinstance(one, Warned)] == warned
    assert line.data.decode() in [one.raw for one in seen if isinstance(one, Traced)]
