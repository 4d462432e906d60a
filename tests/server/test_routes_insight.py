"""Evidence over HTTP: why, diagnostics, spawns, usage and the log, each as the library itself says it."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from interlock.agents.observations import Exited, ToolCalled, ToolReturned, TurnEnded, TurnEnding, UsageReported
from interlock.log.memory import MemoryLog
from interlock.log.ndjson import export
from interlock.log.port import LogUnavailable, Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.why import why
from interlock.runtime.session.router import SessionMachine
from interlock.server.ledger import UsageLedger
from interlock.vocabulary.events.audit import UsageScope
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.encoding import encode
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.server.http_harness import House, house, problem

USED = UsageReported(scope=UsageScope.TURN, input_tokens=10, output_tokens=5, cost_usd=0.25)


async def one_turn(server: House, key: str, *said: UsageReported) -> SessionId:
    """A task with one completed turn."""
    before = len(server.driver.puppets)
    task_id = await server.open(key, prompt="hello")
    await soon(lambda: len(server.driver.puppets) > before)
    puppet = server.driver.latest
    await soon(lambda: puppet.prompts)
    puppet.say(*said, TurnEnded(ending=TurnEnding.NATURAL, text="hi there"))
    await server.shown(task_id, "COMPLETED")
    return task_id


def is_running(conductor: SessionMachine, *, expected: bool) -> bool:
    return (conductor.running_spawn is not None) is expected


def test_why_and_diagnostics_say_what_the_library_says() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await one_turn(server, "ses_a")
            explained = await server.observer.get(f"/api/tasks/{task_id}/why")
            events = (await server.log.read(task_id)).events
            assert explained.json() == msgspec.json.decode(encode(why(events)))
            turn_id = explained.json()["turn_id"]
            named = await server.observer.get(f"/api/tasks/{task_id}/why", params={"turn": turn_id})
            assert named.json()["turn_id"] == turn_id
            report = (await server.observer.get(f"/api/tasks/{task_id}/diagnostics")).json()
            assert (report["session_id"], report["ok"]) == (task_id, True)
            assert [turn["state"] for turn in report["turns"]] == ["completed"]

    run(story())


def test_why_is_told_as_the_log_stood_at_any_event_and_time() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await one_turn(server, "ses_a")
            events = (await server.log.read(task_id)).events
            path = f"/api/tasks/{task_id}/why"
            states = set()
            for event in events:
                told = (await server.observer.get(path, params={"at": str(event.seq)})).json()
                assert told == msgspec.json.decode(encode(why(events, at=event.seq)))
                assert told["as_of_seq"] == event.seq
                states.add(None if told["record"] is None else told["record"]["state"])
            assert {None, "running", "completed"} <= states
            by_time = await server.observer.get(path, params={"at": events[-1].ts.isoformat()})
            assert by_time.json()["record"]["state"] == "completed"
            for wrong in ("yesterday", "2026-01-31T12:00:00", "-1", "9" * 16, "1e3", "\u0664"):
                problem(await server.observer.get(path, params={"at": wrong}), 422, "unfit")

    run(story())


def test_the_output_of_a_tool_is_told_whole_and_by_pieces_and_so_are_its_arguments() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open("ses_a", prompt="hello")
            puppet = await server.prompted()
            output = "\U0001f600".join(f"line {number}\n" for number in range(3_000))
            arguments: dict[str, Json] = {"command": "x" * 5_000, "nested": {"a": [1, None]}}
            puppet.say(ToolCalled(call_id="call_1", name="Bash", args=arguments))
            puppet.say(ToolCalled(call_id="call_2", name="Read", args={"path": "a"}))
            puppet.say(ToolReturned(call_id="call_1", output=output))
            error = ToolError(kind="denied", message="it was not allowed")
            puppet.say(ToolReturned(call_id="call_2", error=error))
            puppet.say(ToolCalled(call_id="call_3", name="Read", args={"path": "b"}))

            async def shown(call_id: str, status: str) -> dict[str, Any]:
                found = (await server.observer.get(f"/api/tasks/{task_id}/messages")).json()["items"]
                return next((one for one in found if (one["item_id"], one["status"]) == (call_id, status)), {})

            view = server.state.hub.views[task_id]
            await soon(lambda: any(one.item_id == "call_3" for one in view.page()[0]))
            message = await shown("call_1", "completed")
            assert message["detail_length"] == len(output) > len(message["detail"])
            path = f"/api/tasks/{task_id}/messages/{message['message_id']}/output"
            pieces, offset = [], 0
            while offset < len(output):
                piece = (await server.observer.get(path, params={"offset": offset, "limit": 7_000})).json()
                assert (piece["offset"], piece["length"], piece["arguments"]) == (offset, len(output), arguments)
                pieces.append(piece["text"])
                offset += len(piece["text"])
            assert "".join(pieces) == output
            beyond = (await server.observer.get(path, params={"offset": 10**9})).json()
            assert (beyond["text"], beyond["length"]) == ("", len(output))
            failed, running = await shown("call_2", "failed"), await shown("call_3", "running")
            for one, text in ((failed, "it was not allowed"), (running, "")):
                told = await server.observer.get(f"/api/tasks/{task_id}/messages/{one['message_id']}/output")
                assert (told.json()["text"], told.json()["call_id"]) == (text, one["item_id"])

            for wrong in ("0", "1", "x", "-1", "9" * 15, "9" * 5_000, "\u0664", "1.0"):
                refused = await server.observer.get(f"/api/tasks/{task_id}/messages/{wrong}/output")
                problem(refused, 404, "not_found")
            for query in ({"offset": -1}, {"limit": 0}, {"limit": 100_001}, {"offset": "x"}):
                problem(await server.observer.get(path, params=query), 400, "bad_request")

    run(story())


def test_spawns_are_told_by_task_and_over_all_in_pages() -> None:
    async def story() -> None:
        async with house() as server:
            for key in ("ses_a", "ses_b"):
                task_id = await one_turn(server, key)
                server.driver.latest.say(Exited(code=0))
                conductor = server.runtime.supervisor(task_id).machine
                await soon(partial(is_running, conductor, expected=False))
                await server.operator.post(f"/api/tasks/{task_id}/start")
                await soon(partial(is_running, conductor, expected=True))
            rows = (await server.observer.get("/api/tasks/ses_a/spawns")).json()["items"]
            assert [(row["standing"], row["session_id"]) for row in rows] == [("exited", "ses_a"), ("running", "ses_a")]
            seen: list[str] = []
            after: str | None = ""
            while after is not None:
                query = {"limit": "1", **({"after": after} if after else {})}
                page = (await server.observer.get("/api/spawns", params=query)).json()
                seen += [row["spawn_id"] for row in page["items"]]
                after = page["next"]
            others = (await server.observer.get("/api/tasks/ses_b/spawns")).json()["items"]
            assert seen == [row["spawn_id"] for row in rows + others]
            whole = (await server.observer.get("/api/spawns")).json()
            assert (len(whole["items"]), whole["next"]) == (4, None)
            problem(await server.observer.get("/api/spawns?after=x~y"), 422, "unfit")

    run(story())


def test_a_spawn_of_a_task_that_nobody_runs_any_more_is_not_said_to_run() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await one_turn(server, "ses_a")
            supervisor = server.runtime.supervisor(task_id)

            async def fail(*_: object) -> None:
                raise RuntimeError("broken on purpose")

            supervisor._perform = fail  # type: ignore[method-assign, assignment]
            await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "x"})
            await soon(lambda: supervisor.is_over)
            rows = (await server.observer.get(f"/api/tasks/{task_id}/spawns")).json()["items"]
            assert [row["standing"] for row in rows] == ["unknown"]

    run(story())


def test_usage_is_what_was_reported_and_nothing_where_nothing_was() -> None:
    async def story() -> None:
        async with house() as server:
            told = await one_turn(server, "ses_a", USED)
            silent = await one_turn(server, "ses_b")
            usage = (await server.observer.get(f"/api/tasks/{told}/usage")).json()
            nothing = {"cached_input_tokens": None, "turns_without_report": 0}
            assert usage["total"] == {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25, **nothing}
            assert usage["turns"][0]["usage"] == usage["total"]
            # Over all tasks it is said alike, page by page.
            items, after = [], None
            for _ in range(3):
                page = (
                    await server.observer.get("/api/usage", params={"limit": 1, **({"after": after} if after else {})})
                ).json()
                items += page["items"]
                assert page["is_complete"]
                after = page["next"]
                if after is None:
                    break
            assert [one["task_id"] for one in items] == sorted([told, silent])
            assert usage in items
            unknown = (await server.observer.get(f"/api/tasks/{silent}/usage")).json()
            figures = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
            assert unknown["total"] == {**dict.fromkeys(figures), "turns_without_report": 1}

    run(story())


def test_the_log_is_given_as_it_is_exported(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path) as log, house(log=log) as server:
            task_id = await one_turn(server, "ses_a", USED)
            answer = await server.observer.get(f"/api/tasks/{task_id}/log")
            assert answer.headers["content-type"] == "application/x-ndjson"
            stream = io.BytesIO()
            await export(log, stream, [task_id])
            lines = stream.getvalue().splitlines()
            assert answer.content.splitlines() == lines
            rest = await server.observer.get(f"/api/tasks/{task_id}/log", params={"after": "3"})
            assert rest.content.splitlines() == lines[3:]
            none = await server.observer.get(f"/api/tasks/{task_id}/log", params={"after": "999"})
            assert (none.status_code, none.content) == (200, b"")
            problem(await server.observer.get(f"/api/tasks/{task_id}/log?after=-1"), 422, "unfit")

    run(story())


class Moody(MemoryLog):
    """A log that can refuse to be read, and counts what is read of it."""

    is_broken = False
    read_after: list[int]

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        if self.is_broken:
            raise LogUnavailable("the disk is gone", next_action="bring it back")
        self.read_after.append(after)
        return await super().read(session_id, after=after, limit=limit)


def test_a_log_that_cannot_be_read_is_told_with_its_remedy() -> None:
    async def story() -> None:
        log = Moody()
        log.read_after = []
        async with house(log=log) as server:
            task_id = await one_turn(server, "ses_a")
            log.is_broken = True
            for path in ("why", "diagnostics", "spawns"):
                answer = await server.observer.get(f"/api/tasks/{task_id}/{path}")
                told = problem(answer, 503, "log_unavailable")
                assert (told["remedy"], answer.headers["retry-after"]) == ("bring it back", "2")
            assert (await server.observer.get(f"/api/tasks/{task_id}/usage")).status_code == 200, "it is in the view"
            log.is_broken = False
            assert (await server.observer.get(f"/api/tasks/{task_id}/spawns")).status_code == 200

    run(story())


def test_an_account_reads_only_what_is_new_and_does_not_wait_for_what_is_not_there() -> None:
    async def story() -> None:
        log = Moody()
        log.read_after = []
        async with house(log=log) as server:
            task_id = await one_turn(server, "ses_a", USED)
            version = server.state.hub.views[task_id].version
            ledger = UsageLedger(log)
            log.read_after = []
            account = await ledger.account(task_id, version)
            for _ in range(2):
                assert await ledger.account(task_id, version) is account
            assert log.read_after == [0]
            assert len(account.spawns.rows()) == 1
            account = await ledger.account(task_id, version + 100)
            assert log.read_after[1:] == [account.version]
            assert len(account.spawns.rows()) == 1

    run(story())
