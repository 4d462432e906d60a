"""The reads that are answered without the framework: the same answer to the byte, behind the same door."""

from __future__ import annotations

from typing import Final

import httpx
import pytest

from interlock.server.http import app
from interlock.server.http.short_way import short_answer
from tests.contract.harness import run
from tests.server.http_harness import House, house

_ROUTE: Final = "?by=route"
"""With a query a request goes to the framework."""


def told(answer: httpx.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    headers = sorted((name, value) for name, value in answer.headers.items() if name != "date")
    return answer.status_code, headers, answer.content


async def paths(server: House) -> tuple[str, ...]:
    task_id = await server.open()
    return "/health", f"/api/tasks/{task_id}/runtime-check", "/api/tasks/ses_none/runtime-check"


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were answered the short way."""
    found: list[str] = []

    def noting(head: dict[str, object], state: object) -> bytes | None:
        body = short_answer(head, state)  # type: ignore[arg-type]
        if body is not None:
            found.append(str(head["path"]))
        return body

    monkeypatch.setattr(app, "short_answer", noting)
    return found


def test_the_short_way_answers_as_the_route_does(answered: list[str]) -> None:
    async def story() -> None:
        async with house() as server:
            asked = await paths(server)
            for path in asked:
                for caller in (server.observer, server.operator, server.stranger):
                    assert told(await caller.get(path)) == told(await caller.get(path + _ROUTE)), path
                assert told(await server.observer.head(path)) == told(await server.observer.head(path + _ROUTE)), path
            assert sorted(answered) == sorted(asked[:1] * 3 + asked[1:2] * 2), "not the unknown task, and no stranger"

    run(story())


def test_the_door_stands_before_the_short_way(answered: list[str]) -> None:
    async def story() -> None:
        async with house() as server:
            for path in (await paths(server))[:2]:
                for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                    refused = await server.operator.get(path, headers=headers)
                    assert told(refused) == told(await server.operator.get(path + _ROUTE, headers=headers))
                    assert refused.status_code in (403, 421)
        assert answered == []

    run(story())
