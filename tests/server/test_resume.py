"""A client that comes back names the highest version that it has heard, wherever its connection ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from interlock.agents.observations import TextArrived, ToolCalled, TurnEnded, TurnEnding
from interlock.vocabulary.ids import CallId, SessionId
from tests.contract.harness import run
from tests.server.http_harness import OBSERVER, House, house

Frame = dict[str, Any]


@asynccontextmanager
async def socket_of(server: House) -> AsyncIterator[ClientConnection]:
    url = f"{server.url.replace('http', 'ws', 1)}/api/socket"
    async with connect(url, additional_headers={"Authorization": f"Bearer {OBSERVER}"}, proxy=None) as socket:
        assert json.loads(await socket.recv())["type"] == "hello"
        yield socket


async def ask(socket: ClientConnection, **request: object) -> Frame:
    """What a request is answered; frames that come before are passed over."""
    await socket.send(json.dumps({"id": "x", **request}))
    while (told := json.loads(await socket.recv())).get("id") != "x":
        pass
    snapshot: Frame = told["snapshot"]
    return snapshot


def keep(known: dict[int, Frame], messages: list[Frame]) -> None:
    """As the page says: of two copies the one with the higher version holds."""
    for one in messages:
        if one["version"] >= known.get(one["message_id"], one)["version"]:
            known[one["message_id"]] = one


async def failing(server: House, socket: ClientConnection) -> tuple[SessionId, Frame, list[Frame]]:
    """A turn that fails with half an answer and an open tool: the snapshot before it, and every frame of it."""
    task_id = await server.open()
    before = await ask(socket, type="task:join", task_id=task_id)
    await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "go"})
    puppet = await server.prompted()
    puppet.say(TextArrived(text="let me"), ToolCalled(call_id=CallId("call_1"), name="write", args={}))
    puppet.say(TextArrived(text="half of"), TurnEnded(ending=TurnEnding.ERROR, error_message="it broke"))
    frames: list[Frame] = []
    while not frames or frames[-1].get("task_status") != "FAILED":
        frames.append(json.loads(await socket.recv()))
    return task_id, before, frames


def test_a_resume_at_the_last_version_that_was_heard_loses_no_message_of_a_failed_turn() -> None:
    async def story() -> None:
        async with house() as server, socket_of(server) as socket:
            task_id, before, frames = await failing(server, socket)
            whole = (await ask(socket, type="task:join", task_id=task_id))["messages"]
            assert "end" in [one["role"] for one in whole]
            versions = [frame["version"] for frame in frames if frame["type"] == "chat:message"]
            assert len(versions) > len(set(versions)), "one version has several messages here"
            for heard in range(len(frames) + 1):
                known: dict[int, Frame] = {}
                keep(known, before["messages"])
                keep(known, [one["message"] for one in frames[:heard] if one["type"] == "chat:message"])
                version = max([before["version"], *(one["version"] for one in frames[:heard])])
                async with socket_of(server) as later:
                    rest = await ask(later, type="task:resume", task_id=task_id, version=version)
                assert not rest["is_whole"]
                keep(known, rest["messages"])
                assert [known[one] for one in sorted(known)] == whole, f"the connection ended after frame {heard}"

    run(story())


def test_a_resume_at_a_version_that_this_log_does_not_have_is_told_everything() -> None:
    async def story() -> None:
        async with house() as server, socket_of(server) as socket:
            task_id, _, _ = await failing(server, socket)
            whole = await ask(socket, type="task:join", task_id=task_id)
            foreign = await ask(socket, type="task:resume", task_id=task_id, version=whole["version"] + 1)
            assert foreign["is_whole"]
            assert foreign["messages"] == whole["messages"]

    run(story())
