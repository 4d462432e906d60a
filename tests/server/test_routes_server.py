"""The server about itself: health, limits, agents, pool and figures; headers on everything; and what a door refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from interlock.server.http.access import SUBPROTOCOL, TOKEN_SUBPROTOCOL
from interlock.server.http.app import create_app
from interlock.vocabulary.wire.requests import PROTOCOL
from tests.contract.harness import run
from tests.each_row import each_row
from tests.runtime.conducting import soon
from tests.server.http_harness import OBSERVER, OPERATOR, SETTINGS, client, house, problem


def test_health_tells_three_things_to_anybody() -> None:
    async def story() -> None:
        async with house() as server:
            answer = (await server.stranger.get("/health")).json()
            assert answer.keys() == {"alive", "ready", "recording", "version"}
            assert (answer["alive"], answer["ready"], answer["recording"]) == (True, True, True)

    run(story())


def test_the_server_tells_each_caller_its_role_and_its_limits() -> None:
    async def story() -> None:
        async with house() as server:
            for caller, role in ((server.operator, "operator"), (server.observer, "observer")):
                told = (await caller.get("/api/server")).json()
                assert (told["role"], told["protocol"]) == (role, PROTOCOL)
                assert told["limits"]["max_request_bytes"] == SETTINGS.max_request_bytes

    run(story())


def test_agents_and_pool() -> None:
    async def story() -> None:
        async with house() as server:
            agents = (await server.observer.get("/api/agents")).json()["items"]
            assert [(one["name"], one["kind"], one["capabilities"]["streams_text"]) for one in agents] == [
                ("puppet", "stream", True)
            ]
            task_id = await server.open()
            await server.operator.post(f"/api/tasks/{task_id}/start")
            await soon(lambda: server.driver.puppets)
            pool = (await server.observer.get("/api/pool")).json()
            assert pool["in_use"] == [{"task_id": task_id, "agent": "puppet"}]
            assert (pool["total"], pool["waiting"]) == (None, [])

    run(story())


def test_every_answer_bears_the_headers_and_no_banner() -> None:
    async def story() -> None:
        async with house() as server:
            answers = [
                await server.stranger.get("/health"),
                await server.stranger.get("/docs"),
                await server.stranger.get("/api/tasks"),
                await server.observer.get("/api/tasks"),
                await server.observer.get("/api/nothing"),
                await server.operator.post("/api/tasks", json={}),
            ]
            for answer in answers:
                headers = answer.headers
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["cache-control"] == "no-store"
                assert "frame-ancestors 'none'" in headers["content-security-policy"]
                assert "default-src 'none'" in headers["content-security-policy"]
                assert headers["referrer-policy"] == "no-referrer"
                assert "server" not in headers
                assert not [name for name in headers if name.startswith("access-control")]
            assert answers[2].headers["www-authenticate"] == "Bearer"

    run(story())


def test_the_door_over_the_wire() -> None:
    async def story() -> None:
        async with house() as server:
            wrong_host = await server.operator.get("/api/tasks", headers={"Host": "evil.example"})
            problem(wrong_host, 421, "wrong_host")
            problem(await server.stranger.get("/health", headers={"Host": "evil.example"}), 421, "wrong_host")
            wrong_origin = await server.operator.get("/api/tasks", headers={"Origin": "http://evil.example"})
            problem(wrong_origin, 403, "wrong_origin")
            same = await server.operator.get("/api/tasks", headers={"Origin": server.url})
            assert same.status_code == 200
            in_url = await server.stranger.get("/api/tasks", params={"token": OPERATOR, "access_token": OPERATOR})
            problem(in_url, 401, "unauthenticated")
            preflight = await server.stranger.options(
                "/api/tasks", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
            )
            problem(preflight, 403, "wrong_origin")
            task_id = await server.open()
            events = await server.observer.get(
                f"/api/tasks/{task_id}/events", headers={"Origin": "http://evil.example"}
            )
            problem(events, 403, "wrong_origin")

    run(story())


def test_whoever_asks_too_fast_is_told_when_to_come_back() -> None:
    async def story() -> None:
        hasty = replace(SETTINGS, requests_per_second=0.001, request_burst=3)
        async with house(settings=hasty) as server:
            answers = [await server.observer.get("/api/server") for _ in range(4)]
            assert [one.status_code for one in answers] == [200, 200, 200, 429]
            told = problem(answers[-1], 429, "too_many")
            assert int(answers[-1].headers["retry-after"]) >= 2
            assert isinstance(told["retry_after_seconds"], float)
            assert (await server.operator.get("/api/server")).status_code == 200

    run(story())


SOCKETS: tuple[tuple[dict[str, str], list[str], int], ...] = (
    ({}, [], 401),
    ({"Authorization": "Bearer wrong"}, [], 401),
    ({}, [SUBPROTOCOL, TOKEN_SUBPROTOCOL + "wrong"], 401),
    ({"Authorization": f"Bearer {OBSERVER}", "Origin": "http://evil.example"}, [], 403),
    ({"Origin": "http://evil.example"}, [SUBPROTOCOL, TOKEN_SUBPROTOCOL + OBSERVER], 403),
)


@each_row(("headers", "offered", "status"), SOCKETS)
def test_a_socket_is_refused_before_it_is_one(headers: dict[str, str], offered: list[str], status: int) -> None:
    async def story() -> None:
        async with house() as server:
            url = server.url.replace("http", "ws") + "/api/socket"
            with pytest.raises(InvalidStatus) as told:
                async with connect(
                    url,
                    additional_headers=headers,
                    subprotocols=list(map(Subprotocol, offered)) or None,
                    compression=None,
                    proxy=None,
                ):
                    pass
            assert told.value.response.status_code == status
            assert told.value.response.headers["content-type"] == "application/problem+json"

    run(story())


def test_a_socket_is_let_in_by_header_or_by_subprotocol_and_the_token_is_not_repeated() -> None:
    async def story() -> None:
        async with house() as server:
            url = server.url.replace("http", "ws") + "/api/socket"
            by_header = {"Authorization": f"Bearer {OBSERVER}"}
            async with connect(url, additional_headers=by_header, proxy=None) as socket:
                assert '"role":"observer"' in str(await socket.recv())
                assert socket.subprotocol is None
            offered = [TOKEN_SUBPROTOCOL + OPERATOR, SUBPROTOCOL]
            async with connect(url, subprotocols=offered, origin=server.url, proxy=None) as socket:  # type: ignore[arg-type]
                assert '"role":"operator"' in str(await socket.recv())
                assert socket.subprotocol == SUBPROTOCOL

    run(story())


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_what_was_shown_at_the_door_goes_no_further(kind: str) -> None:
    async def story() -> None:
        async with house() as server:
            seen: list[dict[str, Any]] = []

            async def within(scope: Any, receive: object, send: object) -> None:  # noqa: ANN401, ARG001, RUF100
                seen.append(dict(scope))

            door = create_app(server.state)
            door.app = within  # type: ignore[assignment]
            offered = [TOKEN_SUBPROTOCOL + OPERATOR, SUBPROTOCOL]
            scope: dict[str, Any] = {
                "type": kind,
                "method": "GET",
                "path": "/api/socket",
                "scheme": kind.replace("websocket", "ws"),
                "client": ("127.0.0.1", 5),
                "headers": [(b"host", b"localhost"), (b"accept", b"x")],
                "subprotocols": offered,
            }
            if kind == "http":
                scope["headers"].append((b"Authorization", f"Bearer {OPERATOR}".encode()))
            else:
                scope["headers"].append((b"Sec-WebSocket-Protocol", ", ".join(offered).encode()))
            await door(scope, None, None)  # type: ignore[arg-type]
            (told,) = seen
            assert (told["auth"], told["user"]) == ("operator", "operator@127.0.0.1")
            assert told["headers"] == [(b"host", b"localhost"), (b"accept", b"x")]
            assert kind == "http" or told["subprotocols"] == [SUBPROTOCOL]

    run(story())


def test_events_are_streamed_and_a_stranger_gets_none() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            async with server.observer.stream("GET", f"/api/tasks/{task_id}/events") as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                lines = answer.aiter_lines()
                first = [await anext(lines) for _ in range(4)]
                assert any(line == "event: task:joined" for line in first)
            problem(await server.stranger.get(f"/api/tasks/{task_id}/events"), 401, "unauthenticated")
            problem(await server.observer.get(f"/api/tasks/{task_id}/events?after=x"), 422, "unfit")

    run(story())


def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with house() as server:
            async with client(server.url, OPERATOR) as other:
                await other.get("/api/tasks", params={"token": "query-secret-1"})
                secret = {"argv": ["--api-key", "sk-abcdefgh12345678"], "environment": {"TOKEN": "value-secret-2"}}
                opened = await other.post("/api/tasks", json={"agent": "puppet", "driver": "puppet", **secret})
                assert opened.status_code == 201
                log = await other.get(f"/api/tasks/{opened.json()['task_id']}/log")
                assert "sk-abcdefgh" not in log.text
                assert "value-secret-2" not in log.text
            url = server.url.replace("http", "ws") + "/api/socket?token=query-secret-3"
            async with connect(url, subprotocols=[TOKEN_SUBPROTOCOL + OPERATOR, SUBPROTOCOL], proxy=None) as socket:  # type: ignore[list-item]
                await socket.recv()

    with caplog.at_level("INFO"):
        run(story())
    ours = [one for one in caplog.records if one.name.startswith("interlock")]
    for secret in (OPERATOR, OBSERVER, "sk-abcdefgh", "value-secret-2", "query-secret"):
        assert not [one for one in ours if secret in one.getMessage()]


def test_an_error_of_our_own_shows_a_number_and_no_words(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> httpx.Response:
        async with house() as server:
            task_id = await server.open()
            view = server.state.hub.views[task_id]

            def broken() -> None:
                raise RuntimeError("words that nobody should see")

            view.check = broken  # type: ignore[method-assign, assignment]
            answer = await server.observer.get(f"/api/tasks/{task_id}/runtime-check")
            assert (await server.observer.get(f"/api/tasks/{task_id}")).status_code == 200
            return answer

    answer = run(story())
    told = problem(answer, 500, "internal")
    assert "words" not in answer.text
    assert str(told["detail"]).rpartition(" ")[2] in caplog.text
