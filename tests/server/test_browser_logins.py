"""A browser at the door: links, cookies, what a cookie is good for, and pages of others that try to use it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.server.http_harness import OBSERVER, SETTINGS, House, client, house, problem

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/open-the-dashboard.md"


def own(server: House, **more: str) -> dict[str, str]:
    """What a page of the server sends with what it asks to be done."""
    return {"Origin": server.url, "Content-Type": "application/json", "X-Interlock": "1", **more}


async def ticket_of(server: House, role: str = "operator", **more: Any) -> str:  # noqa: ANN401
    answer = await server.operator.post("/api/login/tickets", json={"role": role, **more})
    assert answer.status_code == 201, answer.text
    told: str = answer.json()["ticket"]
    return told


@asynccontextmanager
async def logged_in(server: House, role: str = "operator", device: str = "a phone") -> AsyncIterator[httpx.AsyncClient]:
    """A browser with a cookie, as a test client that keeps it."""
    async with client(server.url, "") as browser:
        body = {"ticket": await ticket_of(server, role), "device": device}
        answer = await browser.post("/api/login", json=body, headers=own(server))
        assert (answer.status_code, answer.content) == (204, b"")
        yield browser


def test_a_link_logs_a_browser_in_once() -> None:
    async def story() -> None:
        async with house() as server:
            made = (await server.operator.post("/api/login/tickets", json={"role": "operator", "name": "me"})).json()
            assert made["url"] == f"{server.url}/login#t={made['ticket']}"
            ticket = {"ticket": made["ticket"], "device": "Firefox"}
            for method in ("GET", "HEAD"):  # a preview of a link uses nothing up
                assert (await server.stranger.request(method, "/login", params=ticket)).status_code == 200
                assert (await server.stranger.request(method, "/api/login", params=ticket)).status_code == 405
            answer = await server.stranger.post("/api/login", json=ticket, headers=own(server))
            assert answer.status_code == 204
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith("interlock-")
            assert cookie.endswith("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict")
            told = (await server.stranger.get("/api/server")).json()
            assert told["role"] == "operator"
            again = await server.stranger.post("/api/login", json=ticket, headers=own(server))
            problem(again, 401, "bad_ticket")
            logins = (await server.stranger.get("/api/logins")).json()["items"]
            assert [(one["device"], one["role"], one["is_this"]) for one in logins] == [("me", "operator", True)]
            assert made["ticket"] not in str(logins)

    run(story())


def test_only_an_operator_makes_links_and_what_they_say_is_bounded() -> None:
    async def story() -> None:
        async with house() as server:
            problem(await server.observer.post("/api/login/tickets", json={"role": "operator"}), 403, "forbidden")
            problem(await server.stranger.post("/api/login/tickets", json={"role": "observer"}), 401, "unauthenticated")
            wrong: tuple[dict[str, Any], ...] = (
                {},
                {"role": "root"},
                {"role": "operator", "seconds": 301},
                {"role": "operator", "seconds": 0},
                {"role": "operator", "name": "x" * 61},
                {"role": "operator", "more": 1},
            )
            for body in wrong:
                problem(await server.operator.post("/api/login/tickets", json=body), 400, "bad_request")
            async with logged_in(server, "observer") as browser:
                refused = await browser.post("/api/login/tickets", json={"role": "operator"}, headers=own(server))
                problem(refused, 403, "forbidden")

    run(story())


def test_guesses_are_few() -> None:
    async def story() -> None:
        async with house() as server:
            good = await ticket_of(server)
            for _ in range(10):
                answer = await server.stranger.post("/api/login", json={"ticket": "wrong"}, headers=own(server))
                problem(answer, 401, "bad_ticket")
            answer = await server.stranger.post("/api/login", json={"ticket": good}, headers=own(server))
            problem(answer, 429, "too_many")
            assert int(answer.headers["retry-after"]) > 1

    run(story())


def test_a_huge_body_and_a_body_that_is_none_log_nobody_in() -> None:
    async def story() -> None:
        async with house(settings=replace(SETTINGS, max_request_bytes=10_000)) as server:
            huge = await server.stranger.post("/api/login", json={"ticket": "x" * 20_000}, headers=own(server))
            problem(huge, 413, "too_large")
            for body in (b"", b"[]", b"{", b'{"ticket": 1}', b'{"ticket": "' + b"x" * 200 + b'"}'):
                answer = await server.stranger.post("/api/login", content=body, headers=own(server))
                problem(answer, 400, "bad_request")
            assert (await server.operator.get("/api/logins")).json()["items"] == []

    run(story())


# Forgery: another port of localhost is the same site, so that its pages send the cookie along

WRONG_WRITES: tuple[dict[str, str | None], ...] = (
    {"Origin": None},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost:1"},
    {"Origin": "null"},
    {"Origin": "http://evil.example"},
    {"X-Interlock": None},
    {"X-Interlock": "0"},
    {"Content-Type": None},
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/x-www-form-urlencoded"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "none"},
)


def changed(headers: dict[str, str], change: dict[str, str | None]) -> dict[str, str]:
    found: dict[str, str | None] = {**headers, **change}
    return {name: value for name, value in found.items() if value is not None}


def test_a_cookie_acts_for_a_page_of_this_origin_only() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            stop = f"/api/tasks/{task_id}/rename"
            async with logged_in(server) as browser:
                version = server.state.hub.views[task_id].version
                for change in WRONG_WRITES:
                    answer = await browser.post(stop, content=b'{"title": "x"}', headers=changed(own(server), change))
                    assert (answer.status_code, answer.json()["code"]) in (
                        (403, "forged_request"),
                        (403, "wrong_origin"),
                    ), change
                assert server.state.hub.views[task_id].version == version
                fetched = own(server, **{"Sec-Fetch-Site": "same-origin"})
                for headers in (own(server), fetched):
                    answer = await browser.post(stop, content=b'{"title": "x"}', headers=headers)
                    assert answer.status_code == 200, answer.text

    run(story())


@pytest.mark.parametrize("change", WRONG_WRITES)
def test_a_login_is_for_a_page_of_this_origin_only(change: dict[str, str | None]) -> None:
    async def story() -> None:
        async with house() as server:
            body = b'{"ticket": "%s"}' % (await ticket_of(server)).encode()
            answer = await server.stranger.post("/api/login", content=body, headers=changed(own(server), change))
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers
            assert (await server.stranger.post("/api/login", content=body, headers=own(server))).status_code == 204

    run(story())


def test_looking_by_cookie_is_not_for_pages_of_other_origins() -> None:
    async def story() -> None:
        async with house() as server, logged_in(server) as browser:
            for site in ("cross-site", "same-site", "odd"):
                for path in ("/api/tasks", "/api/server", "/metrics"):
                    answer = await browser.get(path, headers={"Sec-Fetch-Site": site})
                    problem(answer, 403, "forged_request")
                assert (await browser.get("/", headers={"Sec-Fetch-Site": site})).status_code == 200
            for site in ("same-origin", "none"):
                assert (await browser.get("/api/tasks", headers={"Sec-Fetch-Site": site})).status_code == 200
            assert (
                await server.observer.get("/api/tasks", headers={"Sec-Fetch-Site": "cross-site"})
            ).status_code == 200

    run(story())


def test_a_cookie_and_a_token_together_are_refused_and_bad_cookies_are_nobody() -> None:
    async def story() -> None:
        async with house() as server, logged_in(server) as browser:
            both = await browser.get("/api/tasks", headers={"Authorization": f"Bearer {OBSERVER}"})
            problem(both, 400, "two_credentials")
            name, value = next(iter(browser.cookies.items()))
            for cookie in (f"{name}=x", f"{name}=", f"{name}={value}x", f"{name}={OBSERVER}"):
                answer = await server.stranger.get("/api/tasks", headers={"Cookie": cookie})
                problem(answer, 401, "unauthenticated")
            for cookie in (f"interlock={value}", f"__Host-interlock={value}", f"X{name}={value}", "a=b"):
                problem(await server.stranger.get("/api/tasks", headers={"Cookie": cookie}), 401, "unauthenticated")
            tossed = {"Cookie": f"{name}=tossed; {name}={value}"}
            assert (await server.stranger.get("/api/tasks", headers=tossed)).status_code == 200
            assert (await server.stranger.get("/", headers={"Cookie": f"{name}=x"})).status_code == 200

    run(story())


def test_an_observer_of_a_cookie_only_looks_and_logs_out_itself_only() -> None:
    async def story() -> None:
        async with house() as server, logged_in(server, "observer") as browser, logged_in(server) as other:
            task_id = await server.open()
            for path, body in ((f"/api/tasks/{task_id}/prompts", {"text": "x"}), (f"/api/tasks/{task_id}/stop", {})):
                problem(await browser.post(path, json=body, headers=own(server)), 403, "forbidden")
            logins = (await browser.get("/api/logins")).json()["items"]
            mine = next(one["login_id"] for one in logins if one["is_this"])
            others = next(one["login_id"] for one in logins if not one["is_this"])
            problem(await browser.delete(f"/api/logins/{others}", headers=own(server)), 403, "forbidden")
            problem(await server.observer.delete(f"/api/logins/{others}"), 403, "forbidden")
            gone = await browser.delete(f"/api/logins/{mine}", headers=own(server))
            assert gone.status_code == 204
            assert "Max-Age=0" in gone.headers["set-cookie"]
            assert (await other.get("/api/logins")).json()["items"][0]["login_id"] == others

    run(story())


def test_a_decision_names_the_device_that_made_it() -> None:
    async def story() -> None:
        async with house() as server, logged_in(server, device="Anna's\x1b phone") as browser:
            task_id = await server.open()
            path = f"/api/tasks/{task_id}/queue/gate"
            answer = await browser.put(path, json={"is_open": False}, headers=own(server))
            assert answer.status_code == 200
            found = (await server.observer.get(f"/api/tasks/{task_id}/log")).text
            assert "operator@Anna's phone" in found

    run(story())


# Sockets


def test_a_socket_by_cookie_needs_an_own_origin() -> None:
    async def story() -> None:
        async with house() as server, logged_in(server, "observer") as browser:
            url = server.url.replace("http", "ws") + "/api/socket"
            name, value = next(iter(browser.cookies.items()))
            cookie = {"Cookie": f"{name}={value}"}
            port = int(server.url.rpartition(":")[2])
            for origin in (
                None,
                "null",
                f"http://127.0.0.1:{port + 1}",
                f"http://localhost:{port}",
                "http://evil.example",
            ):
                with pytest.raises(InvalidStatus) as told:
                    async with connect(url, additional_headers=cookie, origin=origin, proxy=None):  # type: ignore[arg-type]
                        pass
                assert told.value.response.status_code == 403, origin
            both = {**cookie, "Authorization": f"Bearer {OBSERVER}"}
            with pytest.raises(InvalidStatus) as told:
                async with connect(url, additional_headers=both, origin=server.url, proxy=None):  # type: ignore[arg-type]
                    pass
            assert told.value.response.status_code == 400
            async with connect(url, additional_headers=cookie, origin=server.url, proxy=None) as socket:  # type: ignore[arg-type]
                assert '"role":"observer"' in str(await socket.recv())

    run(story())


def test_a_revoked_login_loses_its_sockets_and_streams_at_once_and_no_others() -> None:
    async def story() -> None:
        async with house() as server, logged_in(server) as browser, logged_in(server) as other:
            task_id = await server.open()
            url = server.url.replace("http", "ws") + "/api/socket"
            headers = [{"Cookie": "{}={}".format(*next(iter(one.cookies.items())))} for one in (browser, other)]
            logins = (await browser.get("/api/logins")).json()["items"]
            mine = next(one["login_id"] for one in logins if one["is_this"])
            async with (
                connect(url, additional_headers=headers[0], origin=server.url, proxy=None) as socket,  # type: ignore[arg-type]
                connect(url, additional_headers=headers[1], origin=server.url, proxy=None) as bystander,  # type: ignore[arg-type]
                browser.stream("GET", f"/api/tasks/{task_id}/events") as events,
            ):
                lines = events.aiter_lines()
                while not (await anext(lines)).startswith("data:"):
                    pass
                await socket.recv()
                assert (await server.operator.delete(f"/api/logins/{mine}")).status_code == 204
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
                assert socket.close_code == 4001
                assert [line async for line in lines if line] == []
                problem(await browser.get("/api/tasks"), 401, "unauthenticated")
                await bystander.recv()
                await bystander.send('{"type": "ping", "id": "1"}')
                assert '"type":"ack"' in str(await bystander.recv())
            await soon(lambda: server.state.hub.connections == 0)

    run(story())


# Behind a proxy that speaks https


def test_a_command_whose_body_comes_after_the_login_is_revoked_is_not_done() -> None:
    async def story() -> None:
        async with house() as server, logged_in(server) as browser:
            (login,) = (await browser.get("/api/logins")).json()["items"]
            is_revoked = asyncio.Event()

            async def body() -> AsyncIterator[bytes]:
                yield b'{"role": '
                gone = await server.operator.delete(f"/api/logins/{login['login_id']}")
                assert gone.status_code == 204
                is_revoked.set()
                yield b'"operator"}'

            answer = await browser.post("/api/login/tickets", content=body(), headers=own(server))
            assert is_revoked.is_set()
            problem(answer, 401, "unauthenticated")

    run(story())


def test_behind_https_the_cookie_is_secure_and_the_origin_is_that_of_the_proxy() -> None:
    async def story() -> None:
        settings = replace(SETTINGS, allowed_hosts=("box.example",), allowed_origins=("https://box.example",))
        async with house(settings=settings) as server:
            there = {"Host": "box.example"}
            made = await server.operator.post("/api/login/tickets", json={"role": "observer"}, headers=there)
            assert made.json()["url"].startswith("https://box.example/login#t=")
            page = own(server, Origin="https://box.example", **there)
            plain = own(server, Origin="http://box.example", **there)
            ticket = {"ticket": made.json()["ticket"]}
            assert (await server.stranger.post("/api/login", json=ticket, headers=plain)).status_code == 403
            answer = await server.stranger.post("/api/login", json=ticket, headers=page)
            assert answer.status_code == 204
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith("__Host-interlock=")
            assert cookie.endswith("; Secure")
            told = await server.stranger.get("/api/server", headers={**there, "Cookie": cookie.partition(";")[0]})
            assert told.json()["role"] == "observer"

    run(story())


# Pages of other origins that are allowed: by a token, and never by a cookie


def test_an_allowed_origin_reads_by_its_token_and_is_told_so_before_it_sends_one() -> None:
    async def story() -> None:
        board = "https://board.example"
        async with house(settings=replace(SETTINGS, allowed_origins=(board,))) as server:
            asks = {"Origin": board, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-any"}
            before = await server.stranger.options("/api/tasks", headers=asks)
            assert (before.status_code, before.content) == (204, b"")
            assert before.headers["access-control-allow-origin"] == board
            allowed = {one.strip() for one in before.headers["access-control-allow-headers"].split(",")}
            assert allowed == {"authorization", "content-type", "idempotency-key", "last-event-id"}
            assert before.headers["access-control-max-age"] == "600"
            answers = (
                before,
                await server.operator.get("/api/tasks", headers={"Origin": board}),
                await server.operator.post("/api/tasks", json={}, headers={"Origin": board}),
                await server.stranger.get("/api/tasks", headers={"Origin": board}),
            )
            assert [one.status_code for one in answers] == [204, 200, 400, 401]
            for answer in answers:
                assert answer.headers["access-control-allow-origin"] == board
                assert "Origin" in answer.headers["vary"]
                assert answer.headers["access-control-expose-headers"] == "retry-after"
                assert "access-control-allow-credentials" not in answer.headers
            plain = await server.operator.get("/api/tasks")
            assert plain.headers["vary"] == "Origin"
            assert "access-control-allow-origin" not in plain.headers

    run(story())


def test_other_origins_and_cookies_of_allowed_ones_are_let_read_nothing() -> None:
    async def story() -> None:
        board = "http://localhost:5173"
        settings = replace(SETTINGS, allowed_origins=(board,))
        async with house(settings=settings) as server, logged_in(server) as browser:
            asks = {"Access-Control-Request-Method": "POST"}
            for origin in ("http://evil.example", "null", board + "/", board.upper(), server.url + "0"):
                answer = await server.stranger.options("/api/tasks", headers={**asks, "Origin": origin})
                problem(answer, 403, "wrong_origin")
                assert "access-control-allow-origin" not in answer.headers
            own_page = await server.stranger.options("/api/tasks", headers={**asks, "Origin": server.url})
            problem(own_page, 401, "unauthenticated")
            wrong_host = {**asks, "Origin": board, "Host": "evil.example"}
            problem(await server.stranger.options("/api/tasks", headers=wrong_host), 421, "wrong_host")
            no_preflight = await server.stranger.options("/api/tasks", headers={"Origin": board})
            problem(no_preflight, 401, "unauthenticated")
            task_id = await server.open()
            refused = await browser.post(f"/api/tasks/{task_id}/stop", json={}, headers=own(server, Origin=board))
            problem(refused, 403, "forged_request")
            problem(await browser.get("/api/tasks", headers={"Origin": board}), 403, "forged_request")

    run(story())


def test_the_page_can_be_typed() -> None:
    async def story() -> None:
        spelled = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
        assert spelled is not None
        section = msgspec.toml.decode(spelled[1])["server"]
        hosts, origins = tuple(section["allowed_hosts"]), tuple(section["allowed_origins"])
        async with house(settings=replace(SETTINGS, allowed_hosts=hosts, allowed_origins=origins)) as server:
            there = {"Host": "box.example"}
            made = await server.operator.post("/api/login/tickets", json={"role": "operator"}, headers=there)
            assert made.json()["url"].startswith("https://box.example/login#t=")

    run(story())
