"""Reading requests within bounds: heads that are too large or too slow end their connection, and nobody else's."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import replace

import pytest

from interlock.server.http.http_protocol import MAX_HEAD_BYTES, MAX_HEADERS
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.server.http_harness import OPERATOR, SETTINGS, House, house, problem

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


async def talk(server: House, *pieces: bytes) -> bytes:
    """Send pieces as they are, and read all that comes until the server closes."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    except ConnectionResetError:
        return b"reset"
    finally:
        writer.close()


def test_a_head_that_is_too_large_is_refused_however_it_is_made() -> None:
    async def story() -> None:
        async with house() as server:
            many = b"".join(b"X-%d: y\r\n" % number for number in range(MAX_HEADERS + 1))
            wide = b"X: " + b"y" * MAX_HEAD_BYTES + b"\r\n"
            sums = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 4_000) for number in range(20))
            url = b"GET /" + b"x" * MAX_HEAD_BYTES + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
            for wrong in (HEAD + many + b"\r\n", HEAD + wide + b"\r\n", HEAD + sums + b"\r\n", url):
                answer = await talk(server, wrong)
                assert answer == b"reset" or answer.startswith(b"HTTP/1.1 400"), answer[:200]
            fit = HEAD + b"".join(b"X-%d: y\r\n" % number for number in range(MAX_HEADERS - 5))
            good = await talk(server, fit + b"Connection: close\r\n\r\n")
            assert good.startswith(b"HTTP/1.1 200")

    run(story())


def test_a_line_without_an_end_is_refused_before_it_is_long() -> None:
    async def story() -> None:
        async with house() as server:
            pieces = [HEAD + b"X: "] + [b"y" * 8_192] * 40
            answer = await talk(server, *pieces)
            assert answer == b"reset" or answer.startswith(b"HTTP/1.1 400")
            assert (await server.stranger.get("/health")).status_code == 200

    run(story())


def test_a_head_and_a_body_that_do_not_come_end_their_connection() -> None:
    async def story() -> None:
        hasty = replace(SETTINGS, hello_seconds=0.2, command_seconds=0.3)
        async with house(settings=hasty) as server:
            token = b"Authorization: Bearer " + OPERATOR.encode() + b"\r\n"
            body = b"POST /api/tasks HTTP/1.1\r\nHost: localhost\r\n" + token + b"Content-Length: 100\r\n\r\n{"
            for unfinished in (b"", b"GET /hea", HEAD, HEAD + b"X: y\r\n"):
                assert await talk(server, unfinished) == b""
            assert not (await talk(server, body)).startswith(b"HTTP/1.1 2")
            assert (await server.stranger.get("/health")).status_code == 200

    run(story())


def test_an_answer_that_goes_on_is_not_taken_for_a_slow_request() -> None:
    async def story() -> None:
        hasty = replace(SETTINGS, command_seconds=0.1, heartbeat_seconds=0.15)
        async with house(settings=hasty) as server:
            task_id = await server.open()
            async with server.observer.stream("GET", f"/api/tasks/{task_id}/events") as answer:
                beats = 0
                async for line in answer.aiter_lines():
                    beats += line.startswith(":")
                    if beats == 3:
                        break
            assert beats == 3

    run(story())


def test_a_large_body_in_one_piece_with_its_head_is_no_large_head() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            answer = await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "x" * 900_000})
            assert answer.status_code == 202
            again = await server.operator.get("/api/tasks")
            assert again.status_code == 200

    run(story())


def test_what_is_no_request_is_refused() -> None:
    async def story() -> None:
        async with house() as server:
            for wrong in (b"\x16\x03\x01\x00\xa5\x01", b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
                answer = await talk(server, wrong + b"\r\n\r\n")
                assert answer == b"reset" or answer.startswith(b"HTTP/1.1 4"), answer[:100]
            bare = await talk(server, b"GET /health HTTP/1.0\r\n\r\n")
            assert bare.startswith(b"HTTP/1.1 421")

    run(story())


def test_a_peer_that_does_not_read_its_answers_is_let_go() -> None:
    async def story() -> None:
        async with house(settings=replace(SETTINGS, heartbeat_seconds=0.1)) as server:
            held = server.server._uvicorn.server_state.connections
            host, _, port = server.url.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port))) as deaf:
                deaf.setblocking(False)
                asked = b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
                await asyncio.get_running_loop().sock_sendall(deaf, asked * 200)  # more than any buffer holds
                await soon(lambda: len(held) == 1)
                await soon(lambda: not held)
                assert (await server.stranger.get("/health")).status_code == 200

    run(story())


def test_a_client_that_hangs_up_in_its_body_leaves_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with house() as server:
            token = b"Authorization: Bearer " + OPERATOR.encode() + b"\r\n"
            body = b"POST /api/tasks HTTP/1.1\r\nHost: localhost\r\n" + token + b"Content-Length: 100\r\n\r\n{"
            host, _, port = server.url.removeprefix("http://").partition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(body)
            requests = server.server._uvicorn.server_state.tasks
            await soon(lambda: requests)
            writer.close()
            await soon(lambda: not requests)
            assert (await server.stranger.get("/health")).status_code == 200

    with caplog.at_level(logging.INFO):
        run(story())
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []
    assert "Traceback" not in caplog.text


def test_a_body_that_says_to_be_something_else_than_json_is_refused() -> None:
    async def story() -> None:
        async with house() as server:
            good = b'{"agent": "puppet", "driver": "puppet"}'
            for wrong in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
                answer = await server.operator.post("/api/tasks", content=good, headers={"Content-Type": wrong})
                told = problem(answer, 415, "wrong_media_type")
                assert "application/json" in str(told["remedy"])
            assert (await server.observer.get("/api/tasks")).json()["items"] == []
            for right in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
                answer = await server.operator.post("/api/tasks", content=good, headers={"Content-Type": right})
                assert answer.status_code == 201
            assert (await server.operator.post("/api/tasks", content=good)).status_code == 201

    run(story())
