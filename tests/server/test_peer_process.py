"""A decision from inside the process tree of the agent that asks is refused, whatever the request says of itself."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.agents.observations import BecameReady
from interlock.agents.port import AgentSpec, ProcessIdentity
from interlock.agents.processes.identity import identity_of
from interlock.server.peer_process import PeerConnection, connection_of, is_of_spawn
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.events.audit import Anomaly, ToolCallDecided, WorkflowEvent
from interlock.vocabulary.ids import SessionId, SpawnId
from tests.contract.harness import run
from tests.server.http_harness import OPERATOR, House, house
from tests.server.test_routes_approvals import asked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is at the other end")


class LivingPuppet(Puppet):
    """A puppet that stands for a real process."""

    identity: ProcessIdentity | None = None

    @property
    def process(self) -> ProcessIdentity | None:
        return self.identity


class LivingDriver(PuppetDriver):
    """Gives its puppets the process that the test started."""

    def __init__(self, identity: ProcessIdentity | None) -> None:
        super().__init__()
        self._identity = identity

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
        puppet = LivingPuppet(spec, spawn_id, self.capabilities)
        puppet.identity = self._identity
        puppet.say(BecameReady())
        self.puppets.append(puppet)
        return puppet


@asynccontextmanager
async def shell() -> AsyncIterator[Process]:
    """A shell that does what it reads, in a session of its own, as the process of an agent is."""
    started = await asyncio.create_subprocess_exec(
        "sh", stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
    )
    try:
        yield started
    finally:
        assert started.stdin is not None
        started.stdin.close()
        await started.wait()


@asynccontextmanager
async def living_house(agent: Process) -> AsyncIterator[House]:
    async with house(driver=LivingDriver(identity_of(agent.pid))) as server:
        yield server


PLAIN_HTTP = """env -i {python} -c '
import urllib.error, urllib.request
asked = urllib.request.Request("{url}", b"{{\\"is_allowed\\": true}}")
asked.add_header("Authorization", "Bearer {token}")
asked.add_header("Content-Type", "application/json")
try:
    print(urllib.request.urlopen(asked).status)
except urllib.error.HTTPError as refused:
    print(refused.code)
'
"""
SOCKET = """env -i {python} -c '
import json, websockets.sync.client as client
with client.connect("{url}", additional_headers={{"Authorization": "Bearer {token}"}}) as wire:
    wire.recv()
    wire.send(json.dumps({frame}))
    said = json.loads(wire.recv())
    print(said["type"], said.get("problem", {{}}).get("status"))
'
"""


async def does(process: Process, line: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line.encode())
    await process.stdin.drain()
    return (await process.stdout.readline()).decode().strip()


def plain_http(server: House, path: str) -> str:
    return PLAIN_HTTP.format(python=sys.executable, token=OPERATOR, url=f"{server.url}{path}")


def socket_of(server: House, task_id: str, approval_id: str) -> str:
    frame = {"type": "approval:decide", "id": "1", "task_id": task_id, "approval_id": approval_id}
    return SOCKET.format(
        python=sys.executable,
        url=f"{server.url.replace('http', 'ws', 1)}/api/socket",
        token=OPERATOR,
        frame=json.dumps(frame).removesuffix("}") + ', "is_allowed": True}',
    )


@pytest.mark.parametrize("door", ["http", "websocket"])
def test_a_plain_request_from_inside_the_agent_is_refused_and_from_outside_taken(door: str) -> None:
    async def story() -> None:
        async with shell() as agent, shell() as person, living_house(agent) as server:
            task_id, approval_id = await asked(server, "ses_a")
            path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
            is_http = door == "http"
            line = plain_http(server, path) if is_http else socket_of(server, task_id, approval_id)
            assert await does(agent, line) == ("403" if is_http else "refused 403")
            events = (await server.log.read(task_id)).events
            (noted,) = [one.data for one in events if isinstance(one.data, Anomaly)]
            assert noted.kind == "own_question_decided"
            assert server.driver.latest.spawn_id in noted.message
            assert [one for one in events if isinstance(one.data, ToolCallDecided)] == []
            assert server.driver.latest.decisions == []
            assert await does(person, line) == ("200" if is_http else "ack None")

    run(story())


def asking(server: House, path: str, body: object) -> str:
    line = plain_http(server, path)
    spelled = json.dumps(body).replace('"', '\\"')
    return line.replace('b"{\\"is_allowed\\": true}"', f'b"{spelled}"')


def test_an_agent_decides_no_workflow_and_begins_children_of_itself_alone() -> None:
    """Whatever it says of itself: it has the token of the operator, and an empty environment."""

    async def story() -> None:
        async with shell() as agent, shell() as person, living_house(agent) as server:
            own, _ = await asked(server, "ses_a")
            await server.open("ses_b")
            stop = asking(server, "/api/workflows/wf_1/stop", {"reason": "x"})
            child = {"task": {"agent": "puppet", "driver": "puppet", "argv": ["x"], "prompt": "look"}}
            other = asking(server, "/api/tasks/ses_b/children", child)
            assert [await does(agent, stop), await does(person, stop)] == ["403", "404"]
            assert [await does(agent, other), await does(person, other)] == ["403", "201"]
            assert await does(agent, asking(server, f"/api/tasks/{own}/children", child)) == "201"
            noted = [one.data for one in (await server.log.read(own)).events if isinstance(one.data, Anomaly)]
            assert [one.kind for one in noted] == ["asked_by_agent"] * 2

    run(story())


def test_an_agent_answers_no_gate_as_a_question(tmp_path: Path) -> None:
    plan = 'plan = 1\nname = "x"\n[[step]]\nid = "go_on"\ngate = "Go on?"\n'
    agents = {"puppet": {"agent": "puppet", "driver": "puppet", "argv": ["puppet"]}}
    question = "/api/tasks/ses_wf_1/approvals/wf_1%3Ago_on/decision"

    async def story() -> None:
        async with shell() as agent, shell() as person, living_house(agent) as server:
            await asked(server, "ses_a")
            body = {"plan": plan, "folder": str(tmp_path), "agents": agents}
            begun = await server.operator.post("/api/workflows", json=body, headers={"Idempotency-Key": "wf_1"})
            assert begun.status_code == 201, begun.text
            assert await does(agent, plain_http(server, question)) == "403"
            assert await does(agent, socket_of(server, "ses_wf_1", "wf_1:go_on")) == "refused 403"
            own = await server.operator.post(question, json={"is_allowed": True, "from_spawn": "spn_of_another"})
            assert own.status_code == 403
            events = [one.data for one in (await server.log.read(SessionId("ses_wf_1"))).events]
            assert [one.step_state for one in events if isinstance(one, WorkflowEvent) and one.step_id] == ["held"]
            assert await does(person, plain_http(server, question)) == "200"

    run(story())


def test_a_connection_of_somebody_else_is_nobodys() -> None:
    """Nor is one that is not in the table: of another machine, or over already."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        scope = {"client": client.getsockname(), "server": listener.getsockname()}
        found = connection_of(scope)
        assert found is not None
        assert not is_of_spawn(found, None, SpawnId("spn_nobody"))
    far = connection_of({"client": ("192.0.2.1", 5000), "server": ("192.0.2.2", 80)})
    assert isinstance(far, PeerConnection)
    assert not is_of_spawn(far, identity_of(1), SpawnId("spn_nobody"))


@pytest.mark.parametrize("client", [None, ("/run/socket", None), ("not an address", 5), ()])
def test_what_is_no_address_is_no_connection(client: object) -> None:
    assert connection_of({"client": client, "server": ("127.0.0.1", 80)}) is None
