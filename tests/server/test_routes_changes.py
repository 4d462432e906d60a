"""What turns changed, over HTTP: how much, which lines, and the review of it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.agents.observations import TurnEnded, TurnEnding
from interlock.vocabulary.events.workspace import FileReviewAct, FileReviewed, WorkspaceChanged
from interlock.vocabulary.ids import SessionId
from tests.agents.git.repositories import new_repository
from tests.contract.harness import run
from tests.runtime.conducting import soon
from tests.server.http_harness import House, house, problem

CLEARLY_NS = 100_000_000


async def rest(root: Path) -> None:
    """Until the last change lies clearly before whatever edge comes next."""
    newest = newest_change(root)
    await soon(lambda: time.time_ns() > newest + CLEARLY_NS)


def newest_change(root: Path) -> int:
    return max(one.lstat().st_ctime_ns for one in (root, *root.rglob("*")))


async def trees(server: House, task_id: SessionId, count: int) -> list[WorkspaceChanged]:
    """The records of a task, once there are so many."""
    while True:
        found = [one.data for one in (await server.log.read(task_id)).events if isinstance(one.data, WorkspaceChanged)]
        if len(found) >= count:
            return found
        await asyncio.sleep(0.005)


async def turn(server: House, root: Path, task_id: SessionId, prompt: str, change: Callable[[], object]) -> None:
    """One turn in which something is changed, with both of its trees recorded."""
    known = len(await trees(server, task_id, 0))
    puppet = server.driver.latest
    before = len(puppet.prompts)
    await rest(root)
    if prompt:
        sent = await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": prompt})
        assert sent.status_code < 300, sent.text
    await soon(lambda: len(puppet.prompts) > before if prompt else puppet.prompts)
    await trees(server, task_id, known + 1)
    change()
    await rest(root)
    puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text="done"))
    await trees(server, task_id, known + 2)
    await server.shown(task_id, "COMPLETED")


async def first_turn(server: House, root: Path, change: Callable[[], object]) -> SessionId:
    await rest(root)
    task_id = await server.open("ses_a", prompt="begin", cwd=str(root))
    await soon(lambda: server.driver.puppets and server.driver.latest.prompts)
    await trees(server, task_id, 1)
    change()
    await rest(root)
    server.driver.latest.say(TurnEnded(ending=TurnEnding.NATURAL, text="done"))
    await trees(server, task_id, 2)
    await server.shown(task_id, "COMPLETED")
    return task_id


def edit(root: Path, **files: str | None) -> Callable[[], object]:
    def work() -> None:
        for name, text in files.items():
            file = root / name.replace("_", ".")
            file.unlink() if text is None else file.write_text(text)

    return work


async def summary(server: House, task_id: SessionId) -> dict[str, Any]:
    told: dict[str, Any] = (await server.observer.get(f"/api/tasks/{task_id}")).json()["summary"]
    return told


async def diff(server: House, task_id: SessionId, **query: str) -> dict[str, Any]:
    answer = await server.observer.get(f"/api/tasks/{task_id}/diff", params=query)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def reviews(server: House, task_id: SessionId) -> list[FileReviewed]:
    return [one.data for one in (await server.log.read(task_id)).events if isinstance(one.data, FileReviewed)]


def test_the_turns_their_counts_and_the_difference_of_one(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n", b_txt="two\n")
        async with house(records_workspaces=True) as server:
            task_id = await first_turn(server, root, edit(root, a_txt="one\nmore\n", c_txt="new\n"))
            await turn(server, root, task_id, "again", edit(root, a_txt="one\nother\n", b_txt=None))
            listed = (await server.observer.get(f"/api/tasks/{task_id}/changes")).json()["items"]
            told = [(one["number"], one["is_known"], one["file_count"], one["added"], one["removed"]) for one in listed]
            assert told == [(1, True, 2, 2, 0), (2, True, 2, 1, 2)]
            last = await diff(server, task_id)
            assert (last["number"], last["turns"], [one["path"] for one in last["files"]]) == (2, 2, ["a.txt", "b.txt"])
            assert "+other" in last["patch"]
            assert "-two" in last["patch"]
            one = await diff(server, task_id, turn="1", path="c.txt")
            assert ("+new" in one["patch"], "+more" in one["patch"]) == (True, False)
            assert (await diff(server, task_id, turn=listed[0]["turn_id"], stat="true"))["patch"] == ""
            counts = (await summary(server, task_id))["changes"]
            assert counts == {"files": 3, "added": 3, "removed": 2, "unknown_turns": 0}
            assert (await summary(server, task_id))["branch"] == "main"
            for query in ({"turn": "3"}, {"turn": "1", "path": "b.txt"}):
                problem(await server.observer.get(f"/api/tasks/{task_id}/diff", params=query), 404, "not_found")

    run(story())


def test_a_patch_is_cut_at_a_bound_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root)
        async with house(records_workspaces=True) as server:
            task_id = await first_turn(server, root, edit(root, big_txt="many words\n" * 200_000))
            told = await diff(server, task_id)
            assert (told["is_cut"], told["files"][0]["added"]) == (True, 200_000)
            assert told["patch"].endswith("\n")
            assert len(told["patch"]) <= 1024 * 1024

    run(story())


def test_a_session_without_trees_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(records_workspaces=True) as server:
            task_id = await server.open("ses_a", cwd=str(tmp_path))
            assert (await summary(server, task_id))["changes"] is None
            problem(await server.observer.get(f"/api/tasks/{task_id}/diff"), 404, "not_found")

    run(story())


async def review(server: House, task_id: SessionId, number: int, path: str, act: str, **more: str) -> Any:  # noqa: ANN401 - an answer
    listed = (await server.observer.get(f"/api/tasks/{task_id}/changes")).json()["items"]
    body = {"turn_id": listed[number - 1]["turn_id"], "path": path, "act": act}
    headers = {"Idempotency-Key": more.pop("key")} if "key" in more else {}
    return await server.operator.post(f"/api/tasks/{task_id}/review", json={**body, **more}, headers=headers)


def test_a_file_is_accepted_in_one_turn_and_new_again_in_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n")
        async with house(records_workspaces=True) as server:
            task_id = await first_turn(server, root, edit(root, a_txt="two\n"))
            for _ in range(2):
                assert (await review(server, task_id, 1, "a.txt", "accept")).json()["review"] == "accepted"
            (recorded,) = await reviews(server, task_id)
            explained = (await server.observer.get(f"/api/tasks/{task_id}/why/lines")).json()["lines"]
            files = "\n".join(explained[explained.index("files:") + 1 :])
            assert "the files when the turn ended were kept: 1 changed since the tree before (+1 -1)" in files
            assert "the change of 'a.txt' was accepted by 'operator@127.0.0.1'" in files
            assert (recorded.act, recorded.path, recorded.decided_by) == (
                FileReviewAct.ACCEPTED,
                "a.txt",
                "operator@127.0.0.1",
            )
            await turn(server, root, task_id, "again", edit(root, a_txt="three\n"))
            told = [(await diff(server, task_id, turn=str(number)))["files"][0]["review"] for number in (1, 2)]
            assert told == ["accepted", "new"]
            problem(await review(server, task_id, 1, "b.txt", "accept"), 404, "not_found")
            refused = await server.observer.post(f"/api/tasks/{task_id}/review", json={})
            problem(refused, 403, "forbidden")

    run(story())


def test_what_is_sent_back_is_a_prompt_that_names_file_and_turn(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n")
        async with house(records_workspaces=True) as server:
            task_id = await first_turn(server, root, edit(root, a_txt="two\n"))
            problem(await review(server, task_id, 1, "a.txt", "send_back", comment="  "), 409, "conflict")
            for _ in range(2):
                sent = await review(server, task_id, 1, "a.txt", "send_back", comment="shorter", key="prm_back")
                assert (sent.json()["review"], sent.json()["prompt_id"]) == ("sent_back", "prm_back"), sent.text
            await soon(lambda: len(server.driver.latest.prompts) > 1)
            assert server.driver.latest.prompts[-1].text == (
                'Your change of "a.txt" in turn 1 was reviewed, and is sent back:\n\nshorter'
            )
            assert [one.act for one in await reviews(server, task_id)] == [FileReviewAct.SENT_BACK]

    run(story())


def test_a_discarded_file_is_as_it_was_and_its_content_is_got_back(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n", b_txt="two\n")
        index = (root / ".git" / "index").read_bytes()
        async with house(records_workspaces=True) as server:
            task_id = await first_turn(server, root, edit(root, a_txt="changed\n", b_txt=None, c_txt="new\n"))
            commands = {}
            for path in ("a.txt", "b.txt", "c.txt"):
                first, done = [await review(server, task_id, 1, path, "discard") for _ in range(2)]
                assert first.text == done.text  # twice is once
                assert done.json()["review"] == "discarded", done.text
                commands[path] = done.json()["get_back"]
            assert [(root / name).read_text() for name in ("a.txt", "b.txt")] == ["one\n", "two\n"]
            assert sorted(one.name for one in root.iterdir()) == [".git", "a.txt", "b.txt"]
            assert (root / ".git" / "index").read_bytes() == index
            acts = [(one.path, one.act.value) for one in await reviews(server, task_id)]
            assert acts == [(path, act) for path in ("a.txt", "b.txt", "c.txt") for act in ("discarding", "discarded")]
            problem(await review(server, task_id, 1, "a.txt", "accept"), 409, "conflict")
            for path, text in (("a.txt", "changed\n"), ("c.txt", "new\n")):
                await asyncio.to_thread(subprocess.run, commands[path], check=True, timeout=60)
                assert (root / path).read_text() == text
            assert commands["b.txt"] == []  # there is no content to get back

    run(story())


def test_a_file_that_changed_since_and_a_tree_that_is_worked_in_are_left_alone(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n", b_txt="two\n")
        async with house(records_workspaces=True) as server:
            task_id = await first_turn(server, root, edit(root, a_txt="changed\n", b_txt="changed\n"))
            (root / "a.txt").write_text("by a person\n")
            refused = problem(await review(server, task_id, 1, "a.txt", "discard"), 409, "conflict")
            assert "changed since" in str(refused["detail"])
            assert (root / "a.txt").read_text() == "by a person\n"
            assert [one.act.value for one in await reviews(server, task_id)] == ["discarding", "kept"]
            await server.operator.post(f"/api/tasks/{task_id}/prompts", json={"text": "more"})
            await soon(lambda: len(server.driver.latest.prompts) > 1)
            refused = problem(await review(server, task_id, 1, "b.txt", "discard"), 409, "conflict")
            assert "is open" in str(refused["detail"])
            assert (root / "b.txt").read_text() == "changed\n"

    run(story())


def test_an_agent_does_not_review_its_own_changes(tmp_path: Path) -> None:
    async def story() -> None:
        root = tmp_path / "project"
        new_repository(root, a_txt="one\n")
        async with house(records_workspaces=True) as server:
            task_id = await first_turn(server, root, edit(root, a_txt="two\n"))
            own = str(server.driver.latest.spawn_id)
            problem(await review(server, task_id, 1, "a.txt", "accept", from_spawn=own), 403, "own_changes")
            assert await reviews(server, task_id) == []

    run(story())
