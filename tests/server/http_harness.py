"""A server over puppets on a free port of loopback, in the loop of the test, with a client for each role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx

from interlock.log.memory import MemoryLog
from interlock.log.port import Log
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.runtime import Runtime, wall_clock
from interlock.server.commands.configured import ConfiguredAgents
from interlock.server.http.access import Tokens
from interlock.server.serving import Running, bind, running
from interlock.server.settings import ServerSettings
from interlock.server.state import ServerState
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from tests.runtime.conducting import soon

OPERATOR: Final = "operator-token-of-these-tests-000001"
OBSERVER: Final = "observer-token-of-these-tests-000002"
TOKENS: Final = Tokens(OPERATOR, OBSERVER)
SETTINGS: Final = ServerSettings(command_seconds=60.0, closing_seconds=4.0, requests_per_second=10_000.0)
PUPPET: Final[dict[str, Json]] = {"agent": "puppet", "driver": "puppet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A server that runs. `operator`, `observer` and `stranger` are clients; `driver` holds the puppets."""

    server: Running
    runtime: Runtime
    driver: PuppetDriver
    log: Log
    operator: httpx.AsyncClient
    observer: httpx.AsyncClient
    stranger: httpx.AsyncClient

    @property
    def state(self) -> ServerState:
        return self.server.state

    @property
    def url(self) -> str:
        return self.server.url

    async def open(self, key: str = "", **more: Json) -> SessionId:
        """Open a task by the API, and give its id."""
        headers = {"Idempotency-Key": key} if key else {}
        answer = await self.operator.post("/api/tasks", json={**PUPPET, **more}, headers=headers)
        assert answer.status_code in (200, 201), answer.text
        return SessionId(answer.json()["task_id"])

    async def prompted(self, count: int = 1) -> Puppet:
        """The first puppet that was given so many prompts."""
        return await soon(lambda: next((one for one in self.driver.puppets if len(one.prompts) >= count), None))

    async def shown(self, task_id: SessionId, status: str | None) -> None:
        """Until the task shows a status."""

        def look() -> bool:
            view = self.state.hub.view(task_id)
            return view is not None and (None if view.status is None else view.status.value) == status

        await soon(look)


@asynccontextmanager
async def house(
    *,
    log: Log | None = None,
    driver: PuppetDriver | None = None,
    settings: ServerSettings = SETTINGS,
    policy: RunPolicy | None = None,
    clock: Callable[[], Instant] = wall_clock,
    records_workspaces: bool = False,
    agents: ConfiguredAgents | None = None,
) -> AsyncIterator[House]:
    """A server for the block. A log that is given is left open, so that another server can take it up."""
    log, driver = log or MemoryLog(), driver or PuppetDriver()
    with bind(settings) as listening:
        async with (
            Runtime(log, [driver], policy=policy, clock=clock, records_workspaces=records_workspaces) as runtime,
            running(runtime, log, TOKENS, settings, listening, agents=agents) as server,
            client(server.url, OPERATOR) as operator,
            client(server.url, OBSERVER) as observer,
            client(server.url, "") as stranger,
        ):
            yield House(
                server=server,
                runtime=runtime,
                driver=driver,
                log=log,
                operator=operator,
                observer=observer,
                stranger=stranger,
            )


def client(url: str, token: str) -> httpx.AsyncClient:
    """A client with a token, or without one. It speaks plain HTTP: to read the list of authorities takes 40 ms."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=100.0, trust_env=False, verify=False)


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Json]:
    """The problem that an answer is; it must be this one."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told: dict[str, Json] = answer.json()
    assert (answer.status_code, told["status"], told["code"]) == (status, status, code), answer.text
    return told
