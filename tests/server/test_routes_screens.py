"""The terminal of an agent over HTTP: what is shown, how old it is, and why there is none."""

from __future__ import annotations

import time

from interlock.agents.port import ScreenSeen
from interlock.screen.snapshot import read_snapshot
from interlock.testing.puppet import Puppet
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.server.http_harness import House, house, problem


def show(puppet: Puppet, text: str, *, age_seconds: float = 0.0, why: str = "") -> None:
    """Give a puppet a terminal."""
    seen = ScreenSeen(
        snapshot=read_snapshot(text, columns=80, height=24, cursor=(0, 0)),
        captured_at_seconds=time.monotonic() - age_seconds,
        problem=why,
    )
    vars(puppet)["screen"] = seen


async def running(server: House, key: str) -> tuple[SessionId, Puppet]:
    before = len(server.driver.puppets)
    task_id = await server.open(key, prompt="hello")
    await soon(lambda: len(server.driver.puppets) > before)
    puppet = server.driver.latest
    await soon(lambda: puppet.prompts)
    return task_id, puppet


def test_who_may_look_sees_the_screen_and_an_unchanged_one_costs_little() -> None:
    async def story() -> None:
        async with house() as server:
            task_id, puppet = await running(server, "ses_a")
            show(puppet, "\x1b[1mhello\x1b[0m \x1b]0;x\x07world\u202e", age_seconds=100.0)
            path = f"/api/tasks/{task_id}/screen"
            first = (await server.observer.get(path)).json()
            assert (first["rows"], first["paint"]) == (["hello world\ufffd"], [[0, 0, 5, "1"]])
            assert (first["is_live"], first["columns"], first["height"], first["cursor"]) == (True, 80, 24, [0, 0])
            assert 100.0 <= first["age_seconds"] < 160.0
            again = (await server.observer.get(path, params={"since": first["digest"]})).json()
            assert (again["is_unchanged"], again["rows"]) == (True, [])
            assert again["age_seconds"] >= first["age_seconds"]
            show(puppet, "other")
            assert (await server.observer.get(path, params={"since": first["digest"]})).json()["rows"] == ["other"]
            problem(await server.stranger.get(path), 401, "unauthenticated")
            problem(await server.observer.get(path, params={"since": "x" * 65}), 400, "bad_request")

    run(story())


def test_a_screen_that_nobody_sees_now_says_so() -> None:
    async def story() -> None:
        async with house() as server:
            task_id, puppet = await running(server, "ses_a")
            show(puppet, "hello", why="tmux cannot be reached now")
            told = (await server.observer.get(f"/api/tasks/{task_id}/screen")).json()
            assert (told["is_live"], told["problem"]) == (False, "tmux cannot be reached now")
            assert told["rows"] == ["hello"]

    run(story())


def test_where_there_is_no_screen_the_remedy_is_told() -> None:
    async def story() -> None:
        async with house() as server:
            problem(await server.observer.get("/api/tasks/ses_none/screen"), 404, "unknown_task")
            idle = await server.open("ses_idle")
            path = f"/api/tasks/{idle}/screen"
            told = problem(await server.observer.get(path), 404, "not_found")
            assert (told["detail"], told["remedy"]) == (
                f"no agent runs in task {idle}",
                f"take it up again: POST /api/tasks/{idle}/start",
            )
            stream, puppet = await running(server, "ses_stream")
            told = problem(await server.observer.get(f"/api/tasks/{stream}/screen"), 404, "not_found")
            assert told["detail"] == f"the agent of task {stream} has no terminal"
            assert "messages" in str(told["remedy"])
            vars(puppet)["screen"] = None
            told = problem(await server.observer.get(f"/api/tasks/{stream}/screen"), 404, "not_found")
            assert "yet" in str(told["detail"])
            await server.runtime.delete(stream)
            told = problem(await server.observer.get(f"/api/tasks/{stream}/screen"), 404, "not_found")
            assert str(told["detail"]).startswith(f"no server runs task {stream}")

    run(story())
