"""Asking by HTTP over real sockets: answers, problems, and every way in which no answer comes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from interlock.client.errors import Refusal, Unavailable
from interlock.client.timeouts import ClientTimeouts
from interlock.client.transport.api import Api
from interlock.client.transport.discovery import Address, FoundServer, fixed_address
from interlock.client.transport.http import Http
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import ApprovalDecide
from interlock.vocabulary.wire.resources import Page
from tests.client.fake_server import TOKEN, Answering, Breaking, FakeServer, HttpAnswer, HttpCall, Silence
from tests.client.waiting import QUICK, other_tasks, until
from tests.contract.harness import run

TASK = SessionId("ses_1")
CHECK = {
    "task_id": "ses_1",
    "task_status": "RUNNING",
    "version": 3,
    "turn_id": "trn_1",
    "status_updated_at": None,
    "active_stream": None,
}


def problem(status: int, **more: object) -> HttpAnswer:
    return HttpAnswer(status, {"title": "It is not done", "status": status, "code": "why", **more})


def in_turn(*answers: Answering) -> Callable[[HttpCall], Answering]:
    rest = iter(answers)
    return lambda _: next(rest)


@asynccontextmanager
async def asking(
    server: FakeServer, patience: ClientTimeouts = QUICK, token: str = TOKEN
) -> AsyncIterator[tuple[Http, Api]]:
    http = Http(fixed_address(server.url, token), patience=patience)
    try:
        yield http, Api(http)
    finally:
        await http.close()


def test_an_answer_is_a_struct_and_the_token_is_in_a_header() -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = lambda _: HttpAnswer(body={**CHECK, "of_a_newer_server": True})
            check = await api.runtime_check(TASK, seconds=5)
            assert (check.task_status, check.version) == ("RUNNING", 3)
            (call,) = server.calls
            assert (call.method, call.target) == ("GET", "/api/tasks/ses_1/runtime-check")
            assert call.headers["authorization"] == f"Bearer {TOKEN}"

    run(story())


def test_a_problem_is_an_error_with_its_remedy() -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            action = {"kind": "send_again", "command": ""}
            server.on_http = lambda _: problem(409, detail="a turn is open", remedy="wait", next_actions=[action])
            with pytest.raises(Refusal, match="a turn is open; wait") as refused:
                await api.send(TASK, "hello", PromptId("prm_1"))
            assert (refused.value.code, refused.value.status) == ("why", 409)
            assert [one.kind for one in refused.value.next_actions] == [NextActionKind.SEND_AGAIN]
            assert not isinstance(refused.value, Unreachable)
            assert len(server.calls) == 1

    run(story())


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "token of this server"), (403, "operator's acts"), (421, "address")]
)
def test_access_that_is_refused_names_the_remedy_also_without_a_problem(status: int, hint: str) -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = lambda _: HttpAnswer(status, b"<html>no</html>")
            with pytest.raises(Refusal, match=hint):
                await api.queue(TASK)
            assert len(server.calls) == 1

    run(story())


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_server_that_does_not_know_is_unreachable_too(status: int) -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = lambda _: problem(status)
            with pytest.raises(Unavailable) as failed:
                await api.queue(TASK)
            assert isinstance(failed.value, Unreachable)
            assert len(server.calls) == (QUICK.http_attempts if status == 503 else 1)

    run(story())


def test_every_command_bears_its_key_and_a_repeat_the_same_one() -> None:
    standing = HttpAnswer(body={"prompt_id": "prm_1", "state": "queued", "stage": "queued"})

    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = in_turn(Breaking, problem(503), standing)
            assert (await api.send(TASK, "hello", PromptId("prm_1"))).prompt_id == "prm_1"
            assert [call.headers["idempotency-key"] for call in server.calls] == ["prm_1"] * 3
            assert [call.json() for call in server.calls] == [{"text": "hello"}] * 3

    run(story())


def test_all_commands_have_a_key_and_their_route() -> None:
    async def call_all(api: Api) -> None:
        decision = ApprovalDecide(id="-", task_id=TASK, approval_id="apr/1", is_allowed=True, decision_id="dec_1")
        for command in (
            api.edit(TASK, PromptId("prm_1"), "x", "k"),
            api.remove(TASK, PromptId("prm_1"), "k"),
            api.set_gate(TASK, is_open=False, reason="lunch", key="k"),
            api.cancel(TASK, TurnId("trn_1"), "k"),
            api.cancel(TASK, None, "k"),
            api.decide(decision),
            api.start(TASK, "k"),
            api.stop(TASK, "k"),
            api.delete(TASK, "k"),
        ):
            with pytest.raises(Refusal):
                await command

    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = lambda _: problem(409)
            await call_all(api)
            routes = [f"{call.method} {call.target.removeprefix('/api/tasks/ses_1')}" for call in server.calls]
            assert routes == [
                "PATCH /prompts/prm_1",
                "DELETE /prompts/prm_1",
                "PUT /queue/gate",
                "POST /cancel",
                "POST /cancel",
                "POST /approvals/apr%2F1/decision",
                "POST /start",
                "POST /stop",
                "DELETE ",
            ]
            keys = [call.headers["idempotency-key"] for call in server.calls]
            assert keys == ["k", "k", "k", "k", "k", "dec_1", "k", "k", "k"]
            assert [call.json() for call in server.calls[3:5]] == [{"turn_id": "trn_1"}, {}]

    run(story())


def test_nobody_there_is_unreachable_after_so_many_attempts() -> None:
    async def story() -> None:
        server = FakeServer()
        await server.start()
        await server.stop()
        async with asking(server) as (http, api):
            with pytest.raises(Unreachable, match="cannot be reached"):
                await api.queue(TASK)
            assert http.asked == QUICK.http_attempts

    run(story())


def test_a_server_that_is_elsewhere_now_is_found_there() -> None:
    async def story() -> None:
        first = FakeServer()
        await first.start()
        async with FakeServer() as second:
            second.on_http = lambda _: HttpAnswer(body={})
            here = [first.url, second.url]
            http = Http(Address(lambda: FoundServer(here.pop(0), TOKEN)), patience=QUICK)
            await first.stop()
            await Api(http).queue(TASK)
            await Api(http).queue(TASK)
            assert len(second.calls) == 2
            await http.close()

    run(story())


def test_a_silent_server_is_unreachable_at_the_deadline() -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server, replace(QUICK, answer_seconds=0.1)) as (_, api):
            server.on_http = lambda _: Silence
            with pytest.raises(Unreachable, match=r"did not answer within 0\.1 s"):
                await api.queue(TASK)
            with pytest.raises(Unreachable, match=r"did not answer within 0\.05 s"):
                await api.runtime_check(TASK, seconds=0.05)

    run(story())


def test_one_deadline_is_for_all_attempts_and_the_last_problem_is_named() -> None:
    async def story() -> None:
        patience = replace(QUICK, answer_seconds=0.2, first_delay_seconds=30.0, max_delay_seconds=30.0)
        async with FakeServer() as server:
            http = Http(fixed_address(server.url, TOKEN), patience=patience, chance=lambda: 1.0)
            server.on_http = lambda _: problem(503, detail="still reading")
            with pytest.raises(Unreachable, match=r"did not answer within.*still reading"):
                await Api(http).queue(TASK)
            await http.close()

    run(story())


@pytest.mark.parametrize("cut", [0, 3])
def test_half_an_answer_is_none_and_is_asked_for_again(cut: int) -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = in_turn(HttpAnswer(body={"waiting": []}, cut=cut), HttpAnswer(body={"is_open": False}))
            assert not (await api.queue(TASK)).is_open
            assert len(server.calls) == 2

    run(story())


def test_a_check_is_asked_once() -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = lambda _: problem(503)
            with pytest.raises(Unavailable):
                await api.runtime_check(TASK, seconds=5)
            assert len(server.calls) == 1

    run(story())


@pytest.mark.parametrize("body", [b"<html>", b'{"version": "x"}', b""])
def test_an_answer_that_cannot_be_read_is_the_servers_fault(body: bytes) -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = lambda _: HttpAnswer(body=body)
            with pytest.raises(PeerFault, match="cannot be read"):
                await api.runtime_check(TASK, seconds=5)

    run(story())


def test_too_long_an_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.client.transport.http.MAX_ANSWER_BYTES", 1000)

    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = lambda _: HttpAnswer(body=b" " * 2000 + b"{}")
            with pytest.raises(PeerFault, match="longer than 1000 bytes"):
                await api.queue(TASK)

    run(story())


def test_no_redirect_is_followed() -> None:
    async def story() -> None:
        async with FakeServer() as other, FakeServer() as server, asking(server) as (_, api):
            server.on_http = lambda _: HttpAnswer(307, headers={"Location": f"{other.url}/api/tasks/ses_1/queue"})
            with pytest.raises(Refusal, match="status 307"):
                await api.queue(TASK)
            assert not other.calls

    run(story())


def test_a_plain_address_needs_no_certificates_and_any_other_has_them_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[tuple[str, bool]] = []
    read: list[str] = []

    class Recorded(httpx.AsyncClient):
        def __init__(self, *, verify: bool, trust_env: bool, timeout: httpx.Timeout, limits: httpx.Limits) -> None:
            def answer(request: httpx.Request) -> httpx.Response:
                checked.append((request.url.scheme, verify))
                return httpx.Response(200, json={})

            httpx.AsyncHTTPTransport(verify=verify, trust_env=trust_env)  # as it would be made
            super().__init__(transport=httpx.MockTransport(answer), timeout=timeout, limits=limits)

    async def story() -> None:
        found = FoundServer("http://a.invalid", TOKEN)
        http = Http(Address(lambda: found), patience=QUICK)
        await Api(http).queue(TASK)
        assert not read
        for url in ("https://a.invalid", "HTTP://a.invalid", "https://b.invalid"):
            http._address = fixed_address(url, TOKEN)
            await Api(http).queue(TASK)
        await http.close()
        assert checked == [("http", False), ("https", True), ("http", False), ("https", True)]
        assert len(read) == 1, "one client for each scheme"

    monkeypatch.setattr(httpx, "AsyncClient", Recorded)
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: read.append("the bundle"))
    run(story())


def test_the_proxy_of_the_environment_gets_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with FakeServer() as proxy, FakeServer() as server:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.setenv("NO_PROXY", "")
            async with asking(server) as (_, api):
                server.on_http = lambda _: HttpAnswer(body={})
                await api.queue(TASK)
            assert not proxy.calls

    run(story())


def pages(*found: tuple[Iterable[str], str | None]) -> Callable[[HttpCall], Answering]:
    return in_turn(
        *(
            HttpAnswer(body={"items": [{"task_id": task, "version": 1} for task in tasks], "next": following})
            for tasks, following in found
        )
    )


def test_lists_are_read_page_by_page() -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = pages((["ses_1", "ses_2"], "ses_2"), (["ses_3"], None))
            assert [task.task_id async for task in api.tasks()] == ["ses_1", "ses_2", "ses_3"]
            assert [call.target for call in server.calls] == [
                "/api/tasks?limit=200",
                "/api/tasks?after=ses_2&limit=200",
            ]

    run(story())


def test_pages_that_lead_to_themselves_end() -> None:
    async def story() -> None:
        async with FakeServer() as server, asking(server) as (_, api):
            server.on_http = pages(([], "x"), ([], "x"))
            with pytest.raises(PeerFault, match="same page"):
                assert [task async for task in api.tasks()] == []

    run(story())


def test_what_cannot_be_a_token_is_refused_before_it_is_sent() -> None:
    for odd in ("two words", "line\nbreak", "é"):
        with pytest.raises(UsageError, match="cannot be a token"):
            fixed_address("http://127.0.0.1:1", odd)


def test_a_cancelled_call_leaves_nothing() -> None:
    async def story() -> None:
        async with FakeServer() as server:
            async with asking(server) as (http, _):
                server.on_http = lambda _: Silence
                waiting = asyncio.create_task(http.get("/x", Page[TaskSummary]))
                while not server.calls:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                waiting.cancel()
                assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError)
            await server.stop()
            await until(lambda: not other_tasks(), "the end of every task", 30)

    run(story())
