"""Done until seen: by command, by looking, on every surface, once in the log, and after a crash of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.bodies import Body
from tests.cli.serving import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("seen")) as one:
        yield one


def badge(served: Served, task_id: str) -> Body:
    found: Body = served.task(task_id)["summary"]["badge"]
    return found


def stands(served: Served, task_id: str) -> tuple[str, bool]:
    shown = badge(served, task_id)
    return shown["group"], shown["is_seen"]


def seen_events(served: Served, task_id: str) -> list[Body]:
    lines = [json.loads(line) for line in served.api.lines(f"/api/tasks/{task_id}/log")]
    return [line["data"] for line in lines if line.get("type") == "session_seen"]


def test_done_is_unseen_until_it_is_marked_and_stays_seen_after_a_crash_of_the_server(served: Served) -> None:
    task_id = served.done("say hello", title="greets")
    assert stands(served, task_id) == ("done", False)
    assert "done · unseen" in served.cli("ps").stdout
    ended = badge(served, task_id)["since"]
    first = served.cli("seen", "greets")
    assert (first.returncode, first.stdout) == (0, f"{task_id}  seen\n")
    assert stands(served, task_id) == ("idle", True)
    assert "done · ready for a prompt" in served.cli("ps").stdout
    again = served.cli("seen", task_id)
    assert "nothing to see" in again.stdout
    told = served.json("seen", task_id)
    assert (told["session_id"], told["is_seen"]) == (task_id, True)
    assert len(seen_events(served, task_id)) == 1
    served.kill()
    served.start()
    assert stands(served, task_id) == ("idle", True)
    assert badge(served, task_id)["since"] == ended  # since the turn ended, and not since the server started
    served.send(task_id, "say more")
    served.shows(task_id, status="COMPLETED")
    assert stands(served, task_id) == ("done", False)


def test_a_failed_turn_needs_a_person_until_it_was_looked_at(served: Served) -> None:
    task_id = served.done("fail oh no", status="FAILED", title="breaks")
    assert (badge(served, task_id)["needs_person"], *stands(served, task_id)) == (True, "needs_you", False)
    assert task_id in [one["session_id"] for one in served.json("status")["needing_person"]]
    assert served.json("show", task_id)["session"]["badge"]["is_seen"] is False
    assert stands(served, task_id) == ("needs_you", False)  # a script looks at nothing
    assert served.cli("show", task_id).returncode == 0
    assert stands(served, task_id) == ("idle", True)
    assert badge(served, task_id)["needs_person"] is False


def test_an_open_turn_and_a_turn_of_the_past_are_not_marked(served: Served) -> None:
    task_id = served.done("say one", title="twice")
    past = str(served.task(task_id)["summary"]["turn_id"])
    served.send(task_id, "gate open; say two")
    served.gates.await_reached("open")
    assert served.api.ask("POST", f"/api/tasks/{task_id}/seen", {})["is_seen"] is True  # nothing has ended
    assert seen_events(served, task_id) == []
    served.gates.open("open")
    served.shows(task_id, status="COMPLETED")
    told = served.api.ask("POST", f"/api/tasks/{task_id}/seen", {"turn_id": past})
    assert (told["is_seen"], stands(served, task_id)) == (False, ("done", False))
    assert served.cli("seen", "nobody-knows-this").returncode == 2


def test_a_queue_that_a_person_paused_needs_nobody(served: Served) -> None:
    task_id = served.done("say one", title="paused")
    assert served.cli("queue", "hold", task_id).returncode == 0
    served.send(task_id, "say later")
    shown = badge(served, task_id)
    assert (shown["needs_person"], shown["attention"], shown["group"]) == (False, "none", "idle")
    assert "queue paused" in served.cli("ps").stdout
    assert served.cli("wait", task_id, "--until", "done", "--timeout", "60").returncode == 6
    assert served.cli("queue", "go", task_id).returncode == 0
    served.shows(task_id, status="COMPLETED")


def test_a_session_is_renamed_on_every_surface_and_after_a_crash_of_the_server(served: Served) -> None:
    task_id = served.done("say hello", title="before")
    done = served.cli("session", "rename", "before", "  after \x1b[31m all ")
    assert (done.returncode, done.stdout) == (0, f"{task_id}  renamed to after \\x1b[31m all\n"), done.stderr
    again = served.json("session", "rename", task_id, "after all")
    assert (again["session_id"], again["title"]) == (task_id, "after all")
    served.json("session", "rename", task_id, "after all")  # the same again records nothing
    lines = [json.loads(line) for line in served.api.lines(f"/api/tasks/{task_id}/log")]
    renamed = [line["data"] for line in lines if line.get("type") == "session_renamed"]
    assert [one["title"] for one in renamed] == ["after \x1b[31m all", "after all"]
    served.kill()
    served.start()
    assert served.json("show", "after")["session"]["title"] == "after all"
    blank = served.cli("session", "rename", task_id, "  ")
    assert (blank.returncode, "blank title" in blank.stderr) == (2, True)
