"""What the protocol library gets to see of an agent's messages: nothing that could break its loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from interlock.agents.acp.translate import PERMISSION, AcpTranslator
from interlock.agents.acp.wire import AcpWire
from interlock.agents.processes.child import ChildProcess
from interlock.agents.processes.lines import Line
from interlock.agents.processes.observation_queue import ObservationQueue
from interlock.vocabulary.events.registry import Json

Message = dict[str, Json]


def forwarded(*messages: Message) -> list[dict[str, Any]]:
    """What the library gets of these messages, until the agent's output is over."""

    async def lines() -> AsyncIterator[Line]:
        for message in messages:
            yield Line(msgspec.json.encode(message))

    async def story() -> list[dict[str, Any]]:
        child = cast("ChildProcess", SimpleNamespace(lines=lines))
        wire, got = AcpWire(child, AcpTranslator(), ObservationQueue()), []
        while (message := await wire.receive()) is not None:
            got.append(message)
        assert wire.over.is_set()
        return got

    return asyncio.run(story())


@pytest.mark.parametrize(
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
