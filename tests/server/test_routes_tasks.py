"""Tasks over HTTP: opened once, listed by pages, looked at, started, stopped and put away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.agents.observations import TextArrived, TurnEnded, TurnEnding
from interlock.client.client import Client
from interlock.log.memory import MemoryLog
from interlock.log.sqlite.store import SqliteLog
from interlock.server.live.hub import Hub
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import event, run
from tests.runtime.conducting import soon
from tests.server.http_harness import OBSERVER, PUPPET, House, house, problem


def done(text: str = "done") -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


async def run_turn(server: House, task_id: SessionId, text: str = "hello") -> str:
    """One turn from its prompt to its end; gives the turn's id."""
    await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": text})
    puppet = await server.prompted()
    puppet.say(TextArrived(text="hi"), done("hi there"))
    await server.shown(task_id, "COMPLETED")
    turns = (await server.observer.get(f"/api/tasks/{task_id}/turns")).json()["items"]
    return str(turns[-1]["turn_id"])


def test_a_task_from_its_opening_to_its_answer() -> None:
    async def story() -> None:
        async with house() as server:
            opened = await server.operator.post("/api/tasks", json={**PUPPET, "title": "a task", "prompt": "hello"})
            assert opened.status_code == 201
            told = opened.json()
            task_id = SessionId(told["task_id"])
            assert opened.headers["location"] == f"/api/tasks/{task_id}"
            assert told["is_new"] is True
            (await server.prompted()).say(TextArrived(text="hi"), done("hi there"))
            await server.shown(task_id, "COMPLETED")
            detail = (await server.observer.get(f"/api/tasks/{task_id}")).json()
            assert (detail["summary"]["title"], detail["summary"]["task_status"]) == ("a task", "COMPLETED")
            assert detail["turns"] == 1
            turn = (await server.observer.get(f"/api/tasks/{task_id}/turns")).json()["items"][0]
            assert turn["state"] == "completed"
            assert (await server.observer.get(f"/api/tasks/{task_id}/turns/{turn['turn_id']}")).json() == turn
            messages = (await server.observer.get(f"/api/tasks/{task_id}/messages")).json()["items"]
            assert [(one["role"], one["text"]) for one in messages] == [("user", "hello"), ("answer", "hi there")]

    run(story())


def test_what_a_command_did_is_there_to_be_read_at_once() -> None:
    async def story() -> None:
        async with house() as server:
            for number in range(20):
                task_id = await server.open()
                assert (await server.observer.get(f"/api/tasks/{task_id}")).status_code == 200
                await server.operator.put(f"/api/tasks/{task_id}/queue/gate", json={"is_open": False})
                prompt_id = f"prm_{number}"
                await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "x", "prompt_id": prompt_id})
                queue = (await server.observer.get(f"/api/tasks/{task_id}/queue")).json()
                assert [one["prompt_id"] for one in queue["waiting"]] == [prompt_id]

    run(story())


def test_a_key_opens_one_task_however_often_and_also_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        body = {**PUPPET, "title": "once", "argv": ["run", "--api-key", "sk-abcdefgh12345678"], "prompt": "hello"}
        async with await SqliteLog.open(tmp_path) as log:
            async with house(log=log) as server:
                first = await server.operator.post("/api/tasks", json=body, headers={"Idempotency-Key": "ses_one"})
                again = await server.operator.post("/api/tasks", json=body, headers={"Idempotency-Key": '"ses_one"'})
            async with house(log=log, driver=PuppetDriver(is_ready_at_once=False)) as server:
                later = await server.operator.post("/api/tasks", json=body, headers={"Idempotency-Key": "ses_one"})
                other = await server.operator.post(
                    "/api/tasks", json={**body, "title": "other"}, headers={"Idempotency-Key": "ses_one"}
                )
                said = await server.operator.post(
                    "/api/tasks", json={**body, "prompt": "other"}, headers={"Idempotency-Key": "ses_one"}
                )
                page = (await server.observer.get("/api/tasks")).json()
        assert [(one.status_code, one.json()["is_new"]) for one in (first, again, later)] == [
            (201, True),
            (200, False),
            (200, False),
        ]
        assert {one.json()["prompt_id"] for one in (first, again, later)} == {"prm_ses_one"}
        problem(other, 409, "key_reused")
        problem(said, 409, "key_reused")
        assert [one["task_id"] for one in page["items"]] == ["ses_one"]

    run(story())


def test_many_at_once_with_one_key_open_one_task() -> None:
    async def story() -> None:
        async with house() as server:
            asked = [
                server.operator.post("/api/tasks", json=PUPPET, headers={"Idempotency-Key": "ses_k"}) for _ in range(12)
            ]
            answers = await asyncio.gather(*asked)
            assert sorted(one.status_code for one in answers) == [200] * 11 + [201]

    run(story())


def test_tasks_come_in_pages_in_the_order_of_their_ids() -> None:
    async def story() -> None:
        async with house() as server:
            for number in (3, 1, 2, 5, 4):
                await server.open(f"ses_{number}")
            seen: list[str] = []
            after: str | None = ""
            while after is not None:
                query = {"limit": "2", **({"after": after} if after else {})}
                page = (await server.observer.get("/api/tasks", params=query)).json()
                assert page["is_complete"] is True
                seen += [one["task_id"] for one in page["items"]]
                after = page["next"]
            assert seen == [f"ses_{number}" for number in range(1, 6)]

    run(story())


def test_turns_and_messages_come_in_pages() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            await run_turn(server, task_id, "one")
            await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "two"})
            (await server.prompted(2)).say(done("second"))
            await server.shown(task_id, "COMPLETED")
            first = (await server.observer.get(f"/api/tasks/{task_id}/turns?limit=1")).json()
            rest = (await server.observer.get(f"/api/tasks/{task_id}/turns?limit=1&after={first['next']}")).json()
            assert [len(page["items"]) for page in (first, rest)] == [1, 1]
            assert (first["next"], rest["next"]) == ("1", None)
            newest = (await server.observer.get(f"/api/tasks/{task_id}/messages?limit=3")).json()
            older = (await server.observer.get(f"/api/tasks/{task_id}/messages?limit=3&before={newest['next']}")).json()
            assert [one["text"] for one in older["items"] + newest["items"]] == ["one", "hi there", "two", "second"]
            assert older["next"] is None

    run(story())


def test_the_state_document_is_served_with_its_version() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            path = f"/api/tasks/{task_id}/state"
            assert (await server.observer.get(path)).json()["state"] == {}
            await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "hello"})
            puppet = await server.prompted()
            view = server.state.hub.view(task_id)
            assert view is not None
            await soon(lambda: view.turn_id)
            told = (await server.observer.get(path)).json()
            assert told.keys() == {"task_id", "version", "turn_id", "state"}
            assert (told["task_id"], told["version"], told["turn_id"]) == (task_id, view.version, view.turn_id)
            assert told["state"]["__run"]["status"] == "running"
            puppet.say(done())
            await soon(lambda: view.check().task_status == "COMPLETED")
            run_record = (await server.observer.get(path)).json()["state"]["__run"]
            assert (run_record["status"], run_record["done_reason"]) == ("done", "natural")

    run(story())


def test_a_check_says_what_a_join_would_and_never_has_a_body() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open(prompt="hello")
            (await server.prompted()).say(TextArrived(text="a secret answer"))
            view = server.state.hub.view(task_id)
            assert view is not None
            await soon(lambda: view.check().active_stream)
            told = await server.observer.get(f"/api/tasks/{task_id}/runtime-check")
            snapshot = view.snapshot()
            assert snapshot.stream is not None
            assert told.json().keys() == {
                "task_id",
                "task_status",
                "version",
                "turn_id",
                "status_updated_at",
                "active_stream",
                "tick",
            }
            assert told.json()["active_stream"].keys() == {"stream_id", "cursor", "last_activity_at"}
            assert told.json()["task_status"] == snapshot.task_status == "RUNNING"
            assert (told.json()["version"], told.json()["turn_id"]) == (snapshot.version, snapshot.turn_id)
            assert told.json()["tick"] == snapshot.tick > 0
            assert told.json()["active_stream"]["cursor"] == snapshot.stream.cursor == len("a secret answer")
            assert "secret" not in told.text

    run(story())


def test_an_agent_is_started_and_stopped_and_a_task_is_put_away() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            first = (await server.operator.post(f"/api/tasks/{task_id}/start")).json()
            assert first["is_running"] != first["is_starting"]  # asked for, or there: never both
            await soon(lambda: server.driver.puppets)
            await soon(lambda: server.runtime.supervisor(task_id).machine.agent)
            started = (await server.operator.post(f"/api/tasks/{task_id}/start")).json()
            running = {"task_id": task_id, "is_running": True, "is_starting": False}
            assert (started, len(server.driver.puppets)) == (running, 1)
            for _ in range(2):
                stopped = await server.operator.post(f"/api/tasks/{task_id}/stop")
                assert stopped.json() == {"task_id": task_id, "is_running": False, "is_starting": False}
            for _ in range(2):
                assert (await server.operator.delete(f"/api/tasks/{task_id}")).status_code == 204
            assert (await server.observer.get(f"/api/tasks/{task_id}/runtime-check")).json()["task_status"] == "DELETE"
            told = problem(
                await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "more"}), 409, "conflict"
            )
            assert told["remedy"] == "open another one"
            problem(await server.operator.post(f"/api/tasks/{task_id}/start"), 409, "conflict")

    run(story())


def test_what_nobody_runs_is_read_and_commands_say_what_to_do() -> None:
    async def story() -> None:
        log = MemoryLog()
        await log.append(SessionId("ses_imported"), [event(SessionId("ses_imported"), data=UserMessage(text="old"))])
        async with house() as server:
            task_id = await server.open("ses_of_another_driver")
        for one in (await server.log.read(task_id)).events:
            await log.append(task_id, [one])
        async with house(log=log, driver=PuppetDriver(name="another")) as server:
            page = (await server.observer.get("/api/tasks")).json()["items"]
            assert [one["is_supervised"] for one in page] == [False, False]
            for path in (
                "",
                "/runtime-check",
                "/state",
                "/turns",
                "/messages",
                "/queue",
                "/why",
                "/diagnostics",
                "/usage",
                "/log",
            ):
                answer = await server.observer.get(f"/api/tasks/ses_imported{path}")
                assert answer.status_code == 200, (path, answer.text)
            turns = (await server.observer.get("/api/tasks/ses_imported/turns")).json()["items"]
            assert [one["state"] for one in turns] == ["abandoned"]
            turn = (await server.observer.get(f"/api/tasks/ses_imported/turns/{turns[0]['turn_id']}")).json()
            assert turn == turns[0]
            explained = (await server.observer.get("/api/tasks/ses_imported/why")).json()
            assert explained["record"]["state"] == "abandoned"
            report = (await server.observer.get("/api/tasks/ses_imported/diagnostics")).json()
            assert [one["state"] for one in report["turns"]] == ["abandoned"]
            told = problem(
                await server.operator.post("/api/tasks/ses_imported/prompts", json={"text": "more"}),
                409,
                "not_supervised",
            )
            assert "POST /api/tasks/ses_imported/start" in str(told["remedy"])
            problem(await server.operator.post("/api/tasks/ses_imported/start"), 409, "not_supervised")
            told = problem(await server.operator.post(f"/api/tasks/{task_id}/start"), 409, "not_supervised")
            assert "there is no driver" in str(told["detail"])

    run(story())


def test_a_server_that_has_not_read_its_log_says_so_and_never_that_there_is_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with house() as server:
            monkeypatch.setattr(Hub, "is_ready", False)
            for path in ("/api/tasks", "/api/approvals", "/api/tasks/ses_a", "/api/tasks/ses_a/runtime-check"):
                answer = await server.observer.get(path)
                problem(answer, 503, "not_ready")
                assert answer.headers["retry-after"] == "2"
            assert (await server.stranger.get("/health")).json()["ready"] is False
            await server.open("ses_a")
            page = (await server.observer.get("/api/tasks")).json()
            assert (len(page["items"]), page["is_complete"]) == (1, False)
            assert (await server.observer.get("/api/tasks/ses_a")).status_code == 200
            monkeypatch.undo()

    run(story())


def test_start_takes_up_a_task_whose_supervisor_failed() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            supervisor = server.runtime.supervisor(task_id)

            def fail(*_: object) -> None:
                raise RuntimeError("broken on purpose")

            supervisor._perform = fail  # type: ignore[method-assign, assignment]
            problem(
                await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "x"}), 409, "not_supervised"
            )
            told = problem(
                await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "x"}), 409, "not_supervised"
            )
            assert "/start" in str(told["remedy"])
            assert (await server.operator.post(f"/api/tasks/{task_id}/start")).status_code == 200
            sent = await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "x"})
            assert sent.status_code == 202

    run(story())


def test_a_nul_is_refused_before_it_meets_tmux_or_the_log() -> None:
    async def story() -> None:
        pane = {"socket": "/nowhere/tmux", "pane": "%1", "cli": "claude", "title": "t"}
        async with house() as server:
            for field in pane:
                asked = {**pane, field: "a\x00b"}
                problem(await server.operator.post("/api/adoptions", json=asked), 422, "unfit")
            task_id = (await server.operator.post("/api/tasks", json=PUPPET)).json()["task_id"]
            asked = {"title": "a\x00b"}
            problem(await server.operator.post(f"/api/tasks/{task_id}/rename", json=asked), 422, "unfit")

    run(story())


def test_an_agent_cannot_be_opened_as_nobody_could_run_or_keep_it() -> None:
    async def story() -> None:
        bad: list[dict[str, object]] = [
            {"driver": "nobody's"},
            {"prompt": "  "},
            {"prompt": "a\x00b"},
            {"argv": ["a\x00b"]},
            {"environment": {"A=B": "c"}},
            {"environment": {"A": "b\x00"}},
            {"policy": {"unknown": 1}},
            {"policy": {"turn_budget_seconds": -1}},
            {"policy": {"turn_budget_seconds": 1e300}},
            {"policy": {"resubmit_attempts": 1.5}},
            {"options": {"n": 2**70}},
        ]
        worse: list[object] = [
            {"agent": ""},
            {"unknown": 1},
            {"argv": "text"},
            {"title": "x" * 501},
            {"title": 5},
            {"policy": {"stalled_is_terminal": "true"}},
        ]
        async with house() as server:
            for body in bad:
                problem(await server.operator.post("/api/tasks", json={**PUPPET, **body}), 422, "unfit")
            for wrong in worse:
                assert isinstance(wrong, dict)
                problem(await server.operator.post("/api/tasks", json={**PUPPET, **wrong}), 400, "bad_request")
            problem(await server.operator.post("/api/tasks", content=b"{"), 400, "bad_request")
            deep = b'{"agent":"puppet","driver":"puppet","options":{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}}"
            answer = await server.operator.post("/api/tasks", content=deep)
            problem(answer, 400, "bad_request")
            problem(
                await server.operator.post("/api/tasks", json=PUPPET, headers={"Idempotency-Key": "no key"}),
                422,
                "unfit",
            )
            assert (await server.observer.get("/api/tasks")).json()["items"] == []

    run(story())


def test_what_is_not_there_is_said_to_be_not_there() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            for path in (
                "",
                "/runtime-check",
                "/state",
                "/turns",
                "/messages",
                "/queue",
                "/approvals",
                "/why",
                "/log",
                "/events",
            ):
                problem(await server.observer.get(f"/api/tasks/ses_none{path}"), 404, "unknown_task")
            problem(await server.observer.get(f"/api/tasks/{task_id}/turns/trn_none"), 404, "not_found")
            problem(await server.observer.get(f"/api/tasks/{task_id}/why?turn=trn_none"), 404, "not_found")
            problem(await server.observer.get("/api/nothing"), 404, "no_route")
            problem(await server.operator.put("/api/tasks", json={}), 405, "method_not_allowed")
            problem(await server.observer.get("/api/tasks?limit=0"), 400, "bad_request")
            problem(await server.observer.get("/api/tasks?limit=many"), 400, "bad_request")
            problem(await server.observer.get(f"/api/tasks/{task_id}/turns?after=x"), 422, "unfit")
            problem(await server.observer.get("/api/approvals?after=x"), 422, "unfit")

    run(story())


def test_a_task_without_a_prompt_has_no_status_and_one_that_nobody_runs_is_unknown() -> None:
    """Null had two meanings: nothing was ever asked of it, and nobody can say how its turn stands."""

    async def story() -> None:
        async with house() as server:
            fresh, open_one = await server.open("ses_new"), await server.open("ses_open", prompt="go")
            await server.prompted()
            await server.shown(open_one, "RUNNING")
            checked = (await server.observer.get(f"/api/tasks/{fresh}/runtime-check")).json()
            assert (checked["task_status"], checked["turn_id"]) == (None, None)
            for task_id in (fresh, open_one):
                server.state.hub.rooms.set_supervised(task_id, False)
            lines = (await server.observer.get("/api/tasks")).json()["items"]
            assert [(one["task_id"], one["task_status"]) for one in lines] == [
                ("ses_new", None),
                ("ses_open", "UNKNOWN"),
            ]
            checked = (await server.observer.get(f"/api/tasks/{open_one}/runtime-check")).json()
            assert checked["task_status"] == "UNKNOWN"
            assert checked["turn_id"] is not None

    run(story())


def test_a_client_may_send_to_a_task_that_was_never_prompted() -> None:
    """`blocks_queued_dispatch` was true for ever there, so that a message that a page held back was never sent."""

    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            async with Client(server.url, token=OBSERVER) as client:
                state = await client.task(task_id).wait(lambda state: state.is_verified)
                assert (state.status, state.flags.blocks_queued_dispatch) == (None, False)

    run(story())
