"""Prompts over HTTP: queued once, changed, taken back, held and cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.agents.observations import TextArrived, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.policy import RunPolicy
from interlock.server.commands import commands
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.ids import SessionId, SpawnId
from tests.contract.harness import run
from tests.held_time import clock, loop_instant, run_with_jumps
from tests.server.http_harness import SETTINGS, House, house, problem


def done(text: str = "done") -> TurnEnded:
    return TurnEnded(ending=TurnEnding.NATURAL, text=text)


async def hold(server: House, task_id: SessionId) -> None:
    """Close the gate, so that prompts stay where they are."""
    held = await server.operator.put(f"/api/tasks/{task_id}/queue/gate", json={"is_open": False, "reason": "wait"})
    assert held.json()["is_open"] is False


async def waiting(server: House, task_id: SessionId) -> list[tuple[str, str]]:
    queue = (await server.observer.get(f"/api/tasks/{task_id}/queue")).json()
    return [(one["prompt_id"], one["text"]) for one in queue.get("waiting", [])]


def test_a_prompt_is_sent_once_by_its_key_and_also_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path) as log:
            async with house(log=log) as server:
                task_id = await server.open("ses_a")
                await hold(server, task_id)
                path, key = f"/api/tasks/{task_id}/prompts", {"Idempotency-Key": "prm_a"}
                first = await server.operator.post(path, json={"text": "hello"}, headers=key)
                again = await server.operator.post(path, json={"text": "hello"}, headers=key)
                named = await server.operator.post(path, json={"text": "hello", "prompt_id": "prm_a"})
                assert first.status_code == 202
                standing = {"prompt_id": "prm_a", "state": "queued", "stage": "queued"}
                assert first.json() == again.json() == named.json() == standing
                problem(await server.operator.post(path, json={"text": "other"}, headers=key), 409, "key_reused")
            async with house(log=log, driver=PuppetDriver()) as server:
                later = await server.operator.post(path, json={"text": "hello"}, headers=key)
                assert later.json() == standing
                problem(await server.operator.post(path, json={"text": "other"}, headers=key), 409, "key_reused")
                assert await waiting(server, task_id) == [("prm_a", "hello")]

    run(story())


def test_a_prompt_that_waits_is_changed_and_taken_back() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            await hold(server, task_id)
            for name in ("a", "b"):
                await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": name, "prompt_id": name})
            path = f"/api/tasks/{task_id}/prompts"
            for _ in range(2):
                changed = await server.operator.patch(f"{path}/a", json={"text": "other"})
                assert changed.json() == {"prompt_id": "a", "state": "queued", "stage": "queued"}
            version = (await server.observer.get(f"/api/tasks/{task_id}/runtime-check")).json()["version"]
            await server.operator.patch(f"{path}/a", json={"text": "other"})
            same = (await server.observer.get(f"/api/tasks/{task_id}/runtime-check")).json()["version"]
            assert same == version
            assert await waiting(server, task_id) == [("a", "other"), ("b", "b")]
            for _ in range(2):
                removed = await server.operator.delete(f"{path}/a")
                assert (removed.status_code, removed.json()["state"]) == (200, "removed")
            assert await waiting(server, task_id) == [("b", "b")]
            for text in ("x", "other"):
                problem(await server.operator.patch(f"{path}/a", json={"text": text}), 409, "conflict")
            problem(await server.operator.post(path, json={"text": "a", "prompt_id": "a"}), 409, "conflict")
            problem(await server.operator.patch(f"{path}/none", json={"text": "x"}), 404, "not_found")
            problem(await server.operator.delete(f"{path}/none"), 404, "not_found")
            opened = await server.operator.put(f"/api/tasks/{task_id}/queue/gate", json={"is_open": True})
            assert opened.json().get("is_open", True) is True
            await server.prompted()
            problem(await server.operator.delete(f"{path}/b"), 409, "conflict")
            sent = await server.operator.patch(f"{path}/b", json={"text": "b"})
            assert sent.json()["state"] == "dispatched"

    run(story())


def test_a_reply_contract_reaches_the_agent_and_the_log_says_whether_it_was_met() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            path, why = f"/api/tasks/{task_id}/prompts", f"/api/tasks/{task_id}/why"
            shape = {"json_schema": {"type": "array"}}
            for number, (reply, answer, told) in enumerate(
                [
                    (
                        {"sentinel": "w"},
                        "<<<w\nforty two\nw>>>",
                        {"kind": "sentinel", "is_met": True, "text": "forty two"},
                    ),
                    ({"sentinel": "w"}, "forty two", {"kind": "sentinel", "is_met": False}),
                    (shape, "[1]", {"kind": "json", "is_met": True, "text": "[1]"}),
                    (shape, "{}", {"kind": "json", "is_met": False}),
                ],
                start=1,
            ):
                key = {"Idempotency-Key": f"prm_{number}"}
                for _ in range(2):
                    sent = await server.operator.post(path, json={"text": "go", "reply": reply}, headers=key)
                    assert sent.status_code == 202
                problem(await server.operator.post(path, json={"text": "go"}, headers=key), 409, "key_reused")
                puppet = await server.prompted(number)
                given = puppet.prompts[-1]
                assert given.text.startswith("go\n\n")
                assert given.reply is not None
                await server.shown(task_id, "RUNNING")
                puppet.say(done(answer))
                await server.shown(task_id, "COMPLETED")
                found = (await server.observer.get(why)).json()
                assert found["record"]["state"] == "completed"
                assert {name: found["reply"].get(name) for name in told} == told
                assert bool(found["reply"].get("problem")) is not told["is_met"]
            for wrong in (
                {},
                {"sentinel": "w", "json_schema": {}},
                {"sentinel": "a b"},
                {"json_schema": {"type": "x"}},
            ):
                refused = await server.operator.post(path, json={"text": "go", "reply": wrong})
                assert refused.status_code in (400, 422), refused.text
            problem(await server.operator.post(path, json={"text": "go", "reply": {"word": "w"}}), 400, "bad_request")

    run(story())


def test_what_is_no_prompt_is_refused() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            path = f"/api/tasks/{task_id}/prompts"
            for text in ("", " \n", "a\x00b"):
                problem(await server.operator.post(path, json={"text": text}), 422, "unfit")
            lone = await server.operator.post(path, content=b'{"text": "\\ud800"}')
            assert lone.status_code in (400, 422)
            problem(await server.operator.post(path, json={}), 400, "bad_request")
            problem(await server.operator.post(path, json={"text": 5}), 400, "bad_request")
            problem(await server.operator.post(path, json={"text": "x", "prompt_id": "no id"}), 400, "bad_request")
            differ = await server.operator.post(
                path, json={"text": "x", "prompt_id": "a"}, headers={"Idempotency-Key": "b"}
            )
            problem(differ, 422, "unfit")
            large = await server.operator.post(path, json={"text": "x" * (1024 * 1024 + 1)})
            problem(large, 413, "too_large")
            gate = f"/api/tasks/{task_id}/queue/gate"
            problem(await server.operator.put(gate, json={"is_open": "false"}), 400, "bad_request")
            problem(await server.operator.put(gate, json={"is_open": False, "reason": "\x00"}), 422, "unfit")
            assert await waiting(server, task_id) == []
            assert (await server.operator.post(path, json={"text": "still well"})).status_code == 202

    run(story())


def test_a_gate_that_stands_so_is_left_as_it_is() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            view = server.state.hub.view(task_id)
            assert view is not None
            await hold(server, task_id)
            version = view.version
            await hold(server, task_id)
            assert view.version == version
            await server.operator.put(f"/api/tasks/{task_id}/queue/gate", json={"is_open": False, "reason": "other"})
            assert view.version == version + 1

    run(story())


def test_a_cancel_ends_the_open_turn_and_is_answered_when_the_agent_got_it() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open(prompt="hello")
            puppet = await server.prompted()
            await server.shown(task_id, "RUNNING")
            view = server.state.hub.view(task_id)
            assert view is not None
            turn_id = view.turn_id
            path = f"/api/tasks/{task_id}/cancel"
            answer = (await server.operator.post(path, json={"turn_id": turn_id})).json()
            assert answer == {"delivered": True, "problem": "", "turn_id": turn_id, "removed": [], "killed": False}
            assert puppet.interrupts == 1
            assert view.status == "CANCELLING"
            again = (await server.operator.post(path)).json()
            assert again == answer
            assert puppet.interrupts == 1
            puppet.say(TextArrived(text="so far"), TurnEnded(ending=TurnEnding.INTERRUPTED))
            await server.shown(task_id, "CANCELLED")
            later = (await server.operator.post(path, json={"turn_id": turn_id})).json()
            assert later == answer
            problem(await server.operator.post(path), 409, "conflict")
            problem(await server.operator.post(path, json={"turn_id": "trn_none"}), 404, "not_found")

    run(story())


def test_a_cancel_of_a_turn_that_had_ended_says_so_and_meets_no_other() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open(prompt="hello")
            puppet = await server.prompted()
            puppet.say(done())
            await server.shown(task_id, "COMPLETED")
            view = server.state.hub.view(task_id)
            assert view is not None
            old = view.turn_id
            await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "more"})
            await server.prompted(2)
            await server.shown(task_id, "RUNNING")
            answer = (await server.operator.post(f"/api/tasks/{task_id}/cancel", json={"turn_id": old})).json()
            assert answer == {
                "delivered": False,
                "problem": "the turn had ended already",
                "turn_id": old,
                "removed": [],
                "killed": False,
            }
            assert puppet.interrupts == 0

    run(story())


def test_a_cancel_with_no_open_turn_takes_back_what_waits() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open()
            await hold(server, task_id)
            for name in ("a", "b", "c"):
                await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": name, "prompt_id": name})
            await server.shown(task_id, "PENDING")
            answer = (await server.operator.post(f"/api/tasks/{task_id}/cancel")).json()
            removed = ["a", "b", "c"]
            assert answer == {
                "delivered": True,
                "problem": "",
                "turn_id": None,
                "removed": removed,
                "killed": False,
            }
            assert await waiting(server, task_id) == []
            await server.shown(task_id, None)

    run(story())


class Deaf(PuppetDriver):
    """Its puppets cannot be asked to stop."""

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> Puppet:
        puppet = await super().spawn(spec, spawn_id)

        async def never() -> None:
            await asyncio.Event().wait()

        puppet.interrupt = never  # type: ignore[method-assign]
        return puppet


def test_a_cancel_that_has_no_effect_is_told_and_nothing_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_INTERRUPT_SHARE", 0.05)  # 3 s of 60: no lateness brings it near another deadline

    async def story() -> None:
        policy = RunPolicy(interrupt_seconds=20.0)
        async with house(driver=Deaf(), policy=policy, clock=loop_instant) as server:
            task_id = await server.open(prompt="hello")
            await server.prompted()
            await server.shown(task_id, "RUNNING")
            asking = asyncio.create_task(server.operator.post(f"/api/tasks/{task_id}/cancel"))
            await clock().advance_past(SETTINGS.command_seconds * 0.05)
            answer = (await asking).json()
            assert answer["delivered"] is False
            assert answer["problem"]
            await server.shown(task_id, "CANCELLING")
            view = server.state.hub.view(task_id)
            assert view is not None
            while view.status == "CANCELLING":
                clock().advance(10.0)
                await asyncio.sleep(0.01)
            await server.shown(task_id, "RUNNING")
            assert not server.driver.latest.stops

    run_with_jumps(story())


def test_a_forced_cancel_that_has_no_effect_kills_the_agent_and_says_so() -> None:
    async def story() -> None:
        policy = RunPolicy(interrupt_seconds=20.0)
        async with house(driver=Deaf(), policy=policy, clock=loop_instant) as server:
            task_id = await server.open(prompt="hello")
            await server.prompted()
            await server.shown(task_id, "RUNNING")
            asking = asyncio.create_task(server.operator.post(f"/api/tasks/{task_id}/cancel", json={"force": True}))
            await server.shown(task_id, "CANCELLING")
            await clock().advance_past(20.0)
            answer = (await asking).json()
            assert (answer["delivered"], answer["killed"]) == (True, True)
            await server.shown(task_id, "CANCELLED")
            record = (await server.operator.get(f"/api/tasks/{task_id}/turns/{answer['turn_id']}")).json()
            assert "the agent's process was killed" in record["error_message"]

    run_with_jumps(story())


def test_where_a_prompt_stands_is_told_by_its_id_from_the_queue_to_the_end_of_its_turn(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path) as log:
            async with house(log=log) as server:
                task_id = await server.open("ses_a")
                path = f"/api/tasks/{task_id}/prompts"
                await hold(server, task_id)
                for name in ("a", "b"):
                    key = {"Idempotency-Key": name}
                    await server.operator.post(path, json={"text": f"do {name}"}, headers=key)
                waits = (await server.observer.get(f"{path}/b")).json()
                assert waits == {
                    "prompt_id": "b",
                    "text": "do b",
                    "state": "queued",
                    "stage": "queued",
                    "position": 2,
                    "waits_for": "",
                    "turn_id": None,
                    "turn_state": None,
                }
                await server.operator.delete(f"{path}/b")
                removed = (await server.observer.get(f"{path}/b")).json()
                assert (removed["state"], removed["position"]) == ("removed", None)
                await server.operator.put(f"/api/tasks/{task_id}/queue/gate", json={"is_open": True})
                puppet = await server.prompted()
                await server.shown(task_id, "RUNNING")
                running = (await server.observer.get(f"{path}/a")).json()
                assert (running["state"], running["position"]) == ("dispatched", None)
                assert running["turn_state"] == "running"
                puppet.say(done())
                await server.shown(task_id, "COMPLETED")
                ended = (await server.observer.get(f"{path}/a")).json()
                assert (ended["turn_id"], ended["turn_state"]) == (running["turn_id"], "completed")
                problem(await server.observer.get(f"{path}/none"), 404, "not_found")
            async with house(log=log, driver=PuppetDriver()) as server:
                assert (await server.observer.get(f"{path}/a")).json() == ended

    run(story())
