"""Questions over HTTP: listed over all tasks, decided once, and never twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalOption,
    OptionKind,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.log.memory import MemoryLog
from interlock.log.sqlite.store import SqliteLog
from interlock.testing.puppet import EVERYTHING, PuppetDriver
from interlock.vocabulary.events.audit import Anomaly, DecisionUndelivered, ToolCallDecided
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.server.http_harness import House, house, problem

YES = {"is_allowed": True}
OPTIONS = (
    ApprovalOption(label="Yes", kind=OptionKind.ALLOW_ONCE),
    ApprovalOption(label="Always", kind=OptionKind.ALLOW_ALWAYS),
    ApprovalOption(label="No", kind=OptionKind.REJECT_ONCE),
)


async def asked(
    server: House,
    key: str,
    agents: int = 1,
    *,
    call: bool = True,
    options: tuple[ApprovalOption, ...] = (),
    tool: str = "shell",
) -> tuple[SessionId, str]:
    """A task whose agent asks something: the task, and the question."""
    task_id = await server.open(key, prompt="hello")
    await soon(lambda: len(server.driver.puppets) >= agents)
    puppet = server.driver.latest
    await soon(lambda: puppet.prompts)
    if call:
        puppet.say(ToolCalled(call_id="c1", name=tool, args={"command": "ls"}))
    puppet.say(
        ApprovalAsked(
            request_id="r1", question=f"May I, {key}?", call_id="c1" if call else "", name=tool, options=options
        )
    )
    await server.shown(task_id, "PENDING_CONFIRMATION")
    view = server.state.hub.view(task_id)
    assert view is not None
    return task_id, view.snapshot().approvals[0].approval_id


def test_what_is_asked_is_listed_over_all_tasks_in_pages() -> None:
    async def story() -> None:
        async with house() as server:
            expected = [await asked(server, f"ses_{number}", number) for number in (1, 2, 3)]
            seen: list[tuple[str, str]] = []
            after: str | None = ""
            while after is not None:
                query = {"limit": "1", **({"after": after} if after else {})}
                page = (await server.observer.get("/api/approvals", params=query)).json()
                seen += [(one["session_id"], one["approval_id"]) for one in page["items"]]
                after = page["next"]
            assert seen == expected

    run(story())


def test_a_decision_is_given_once_by_its_key_and_again_changes_nothing() -> None:
    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a")
            path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
            key = {"Idempotency-Key": "dec_1"}
            for _ in range(3):
                answer = await server.operator.post(path, json={"is_allowed": True}, headers=key)
                assert answer.status_code == 200, answer.text
                assert answer.json()["approval_id"] == approval_id
                assert answer.json()["state"] in ("decided", "closed")
            puppet = server.driver.latest
            await soon(lambda: puppet.decisions)
            refused = await server.operator.post(path, json={"is_allowed": False}, headers=key)
            assert refused.status_code == 409
            puppet.say(ToolReturned(call_id="c1", output="x"), TurnEnded(ending=TurnEnding.NATURAL, text="done"))
            await server.shown(task_id, "COMPLETED")
            over = await server.operator.post(path, json={"is_allowed": True}, headers=key)
            assert (over.status_code, over.json()["state"]) == (200, "closed")
            problem(await server.operator.post(path, json={"is_allowed": False}, headers=key), 409, "key_reused")
            late = await server.operator.post(path, json={"is_allowed": True}, headers={"Idempotency-Key": "dec_2"})
            assert (late.status_code, late.json()["state"]) == (200, "closed"), "the same decision, by another key"
            other = await server.operator.post(path, json={"is_allowed": False}, headers={"Idempotency-Key": "dec_2"})
            assert "allowed" in str(problem(other, 409, "already_decided")["detail"])
            assert [one.is_allowed for one in puppet.decisions] == [True]
            states = (await server.observer.get(f"/api/tasks/{task_id}/approvals")).json()["items"]
            assert [(one["state"], one["decided_by"]) for one in states] == [("closed", "operator@127.0.0.1")]

    run(story())


def test_a_decision_survives_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path) as log:
            async with house(log=log) as server:
                task_id, approval_id = await asked(server, "ses_a", call=False)
                path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
                key = {"Idempotency-Key": "dec_1"}
                first = await server.operator.post(path, json={"is_allowed": True, "text": "yes please"}, headers=key)
                assert first.status_code == 200
            async with house(log=log) as server:
                again = await server.operator.post(path, json={"is_allowed": True, "text": "yes please"}, headers=key)
                assert (again.status_code, again.json()["state"]) == (200, "closed")
                problem(
                    await server.operator.post(path, json={"is_allowed": True, "text": "no"}, headers=key),
                    409,
                    "key_reused",
                )

    run(story())


def test_questions_of_a_task_are_listed_by_state_and_page() -> None:
    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a")
            path = f"/api/tasks/{task_id}/approvals"
            await server.operator.post(f"{path}/{approval_id}/decision", json={"is_allowed": True})
            server.driver.latest.say(
                ToolReturned(call_id="c1", output="x"),
                ToolCalled(call_id="c2", name="shell", args={}),
                ApprovalAsked(request_id="r2", question="And this?", call_id="c2", name="shell"),
            )
            await soon(lambda: len(server.state.hub.views[task_id].approvals.approvals) == 2)
            for state, count in (("open", 1), ("closed", 1), ("decided", 0), (None, 2)):
                query = {} if state is None else {"state": state}
                items = (await server.observer.get(path, params=query)).json()["items"]
                assert len(items) == count
                assert all(one["state"] == (state or one["state"]) for one in items)
            first = (await server.observer.get(path, params={"limit": "1"})).json()
            rest = (await server.observer.get(path, params={"limit": "1", "after": first["next"]})).json()
            assert [one["question"] for one in first["items"] + rest["items"]] == ["May I, ses_a?", "And this?"]
            assert rest["next"] is None
            problem(await server.observer.get(path, params={"state": "unheard"}), 400, "bad_request")

    run(story())


def test_what_nobody_can_answer_is_listed_as_such() -> None:
    async def story() -> None:
        log = MemoryLog()
        driver = PuppetDriver(replace(EVERYTHING, outlives_runtime=True))
        async with house(log=log, driver=driver) as server:
            task_id, approval_id = await asked(server, "ses_a")
            path = f"/api/tasks/{task_id}/approvals"
            for where in ("/api/approvals", path):
                (item,) = (await server.observer.get(where)).json()["items"]
                assert item.get("is_answerable", True)
        async with house(log=log, driver=PuppetDriver(name="another")) as server:
            for where in ("/api/approvals", path, f"{path}?state=open"):
                (item,) = (await server.observer.get(where)).json()["items"]
                assert (item["approval_id"], item["state"], item["is_answerable"]) == (approval_id, "open", False)
            (item,) = (await server.observer.get(f"/api/tasks/{task_id}")).json()["approvals"]
            assert item["is_answerable"] is False
            problem(await server.operator.post(f"{path}/{approval_id}/decision", json=YES), 409, "not_supervised")

    run(story())


def test_what_cannot_be_decided_is_refused() -> None:
    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a", call=False)
            path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
            missing = f"/api/tasks/{task_id}/approvals/apr_none/decision"
            problem(await server.operator.post(missing, json=YES), 404, "not_found")
            problem(await server.operator.post(path, json={**YES, "option": "none of them"}), 422, "unfit")
            problem(await server.operator.post(path, json={**YES, "text": "\x00"}), 422, "unfit")
            problem(await server.operator.post(path, json={**YES, "data": 2**70}), 422, "unfit")
            problem(await server.operator.post(path, json={"is_allowed": "yes"}), 422, "unfit")
            view = server.state.hub.view(task_id)
            assert view is not None
            assert view.status == "PENDING_CONFIRMATION"

    run(story())


NO_VERDICT: list[Json] = [
    {},
    {"text": "yes"},
    {"option": "Yes"},
    {"data": {"a": 1}},
    {"is_allowed": None},
    [],
    "yes",
    None,
]


@pytest.mark.parametrize("call", [True, False])
def test_a_decision_that_does_not_name_its_verdict_decides_nothing(call: bool) -> None:
    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a", call=call, options=OPTIONS)
            path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
            before = (await server.log.read(task_id)).version
            for body in NO_VERDICT:
                problem(await server.operator.post(path, json=body), 422, "unfit")
            problem(await server.operator.post(path), 422, "unfit")
            assert (await server.log.read(task_id)).version == before
            assert server.driver.latest.decisions == []

    run(story())


@pytest.mark.parametrize("call", [True, False])
@pytest.mark.parametrize("tool", ["Bash", "shell", "execute", "run_shell_command", ""])
def test_a_lasting_allow_is_neither_offered_nor_taken_for_a_shell(call: bool, tool: str) -> None:
    """A tool without a name may be one."""

    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a", call=call, options=OPTIONS, tool=tool)
            (told,) = (await server.observer.get(f"/api/tasks/{task_id}/approvals")).json()["items"]
            assert [one["label"] for one in told["options"]] == ["Yes", "No"]
            path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
            before = (await server.log.read(task_id)).version
            answer = await server.operator.post(path, json={"is_allowed": True, "option": "Always"})
            assert "there is no option 'Always'" in str(problem(answer, 422, "unfit")["detail"])
            assert (await server.log.read(task_id)).version == before
            assert server.driver.latest.decisions == []

    run(story())


def test_a_lasting_allow_is_offered_for_another_tool() -> None:
    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a", options=OPTIONS, tool="Edit")
            path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
            answer = await server.operator.post(path, json={"is_allowed": True, "option": "Always"})
            assert answer.is_success
            await soon(lambda: server.driver.latest.decisions)
            assert server.driver.latest.decisions[0].option_label == "Always"

    run(story())


def test_what_a_sub_agent_asks_for_is_told_in_full() -> None:
    async def story() -> None:
        async with house() as server:
            task_id = await server.open("ses_a", prompt="hello")
            await soon(lambda: server.driver.puppets and server.driver.latest.prompts)
            wanted: Json = {"command": "rm -rf build"}
            server.driver.latest.say(
                ApprovalAsked(request_id="r1", question="May I?", sub_agent="c", call_id="c1", name="Bash", args=wanted)
            )
            await server.shown(task_id, "PENDING_CONFIRMATION")
            (told,) = (await server.observer.get(f"/api/tasks/{task_id}/approvals")).json()["items"]
            assert (told["tool"], told["arguments"]) == ("Bash", wanted)

    run(story())


@pytest.mark.parametrize("call", [True, False])
@pytest.mark.parametrize(("option", "is_allowed"), [("No", True), ("Yes", False), ("Always", False)])
def test_an_option_that_contradicts_the_verdict_decides_nothing(call: bool, option: str, is_allowed: bool) -> None:
    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a", call=call, options=OPTIONS, tool="Edit")
            path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
            before = (await server.log.read(task_id)).version
            answer = await server.operator.post(path, json={"is_allowed": is_allowed, "option": option})
            assert "contradicts itself" in str(problem(answer, 422, "unfit")["detail"])
            assert (await server.log.read(task_id)).version == before
            assert server.driver.latest.decisions == []

    run(story())


def test_an_agent_may_not_decide_what_it_asks_itself() -> None:
    """Trap 29 of the plan."""

    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a")
            path = f"/api/tasks/{task_id}/approvals/{approval_id}/decision"
            own = {"is_allowed": True, "from_spawn": server.driver.latest.spawn_id}
            problem(await server.operator.post(path, json=own), 403, "own_question")
            events = (await server.log.read(task_id)).events
            assert [one.data.kind for one in events if isinstance(one.data, Anomaly)] == ["own_question_decided"]
            assert [one for one in events if isinstance(one.data, ToolCallDecided)] == []
            assert server.driver.latest.decisions == []
            answer = await server.operator.post(path, json={"is_allowed": True, "from_spawn": "spn_of_another"})
            assert answer.status_code == 200

    run(story())


def test_a_decision_that_the_agent_does_not_take_opens_its_question_again_with_the_reason() -> None:
    async def story() -> None:
        async with house() as server:
            task_id, approval_id = await asked(server, "ses_a", options=OPTIONS)
            puppet = server.driver.latest
            puppet.refusals = 3
            path = f"/api/tasks/{task_id}/approvals"
            await server.operator.post(f"{path}/{approval_id}/decision", json=YES)
            await soon(lambda: puppet.refusals == 0)
            view = server.state.hub.views[task_id]
            await soon(lambda: view.approvals.approvals[approval_id].problem)
            (item,) = (await server.observer.get(f"{path}?state=open")).json()["items"]
            assert (item["state"], item["problem"]) == ("open", "the puppet does not take it")
            lost = [one for one in (await server.log.read(task_id)).events if isinstance(one.data, DecisionUndelivered)]
            assert len(lost) == 1
            again = await server.operator.post(f"{path}/{approval_id}/decision", json={"is_allowed": False})
            assert again.status_code == 200
            await soon(lambda: [one.is_allowed for one in puppet.decisions] == [False])

    run(story())
