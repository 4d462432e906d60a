"""Children of a session by its doors: `run --parent`, `ps --tree` and the routes, on a real server with real agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.server.api import ServerRefusal
from interlock.testing.scripted_agent import command, write_program
from tests.bodies import Body
from tests.cli.serving import STREAM, Served, serving, until


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as one:
        agent = write_program(one.folder / "agent", command(STREAM, gates=one.folder / "gates", lifetime_seconds=300))
        config = f'[agents.helper]\nargv = ["{agent}"]\ndriver = "claude-stream"\n'
        (one.folder / "interlock.toml").write_text(config)
        yield one


def task(served: Served, prompt: str) -> Body:
    return {
        "agent": "scripted",
        "driver": "claude-stream",
        "argv": [str(served.folder / "agent")],
        "cwd": str(served.folder),
        "prompt": prompt,
    }


def child(served: Served, parent: str, prompt: str, key: str = "", **more: object) -> Body:
    opened: Body = served.api.ask(
        "POST", f"/api/tasks/{parent}/children", {"task": task(served, prompt), **more}, key=key
    )
    return opened


def children(served: Served, parent: str) -> list[Body]:
    return list(json.loads(served.api.ask_raw("GET", f"/api/tasks/{parent}/children"))["items"])


def test_a_child_runs_to_its_end_and_every_door_shows_it(served: Served) -> None:
    parent = served.open("say hello", title="the parent")
    opened = child(served, parent, "say  done\n", key="sub_one")
    assert opened["is_new"]
    assert child(served, parent, "say  done\n", key="sub_one")["is_new"] is False
    with pytest.raises(ServerRefusal, match="another child"):
        child(served, parent, "say something else", key="sub_one")
    session = opened["child"]["task_id"]
    until(lambda: children(served, parent)[0]["status"] == "completed", "it completed")
    (told,) = children(served, parent)
    assert (told["summary"], told["task_id"], told["parent_id"]) == ("done", session, parent)
    summary = served.task(session)["summary"]
    assert (summary["parent_id"], summary["root_id"], summary["depth"]) == (parent, parent, 1)
    assert summary["title"] == "say done"
    assert served.task(parent)["summary"]["children"] == {"running": 0, "waiting": 0, "ended_badly": 0}
    tree = served.cli("ps", "--tree", "--all")
    assert tree.returncode == 0, tree.stderr
    lines = tree.stdout.splitlines()
    assert "the parent" in lines[0]
    assert lines[1].startswith("└─ ")


def test_a_child_that_is_cancelled_says_so_in_its_own_log(served: Served) -> None:
    parent = served.open("say hello", title="the parent")
    session = child(served, parent, "hang", key="sub_one")["child"]["task_id"]
    served.shows(session, status="RUNNING")
    assert served.task(parent)["summary"]["children"]["running"] == 1
    ended: Body = served.api.ask("POST", f"/api/tasks/{parent}/children/sub_one/cancel", {"reason": "not needed"})
    assert (ended["status"], ended["reason"]) == ("interrupted", "not needed")
    lines = served.api.ask_raw("GET", f"/api/tasks/{session}/log").splitlines()
    (told,) = (one["data"] for one in map(json.loads, lines) if one["type"] == "child_ended")
    assert (told["parent_session_id"], told["reason"]) == (parent, "not needed")
    assert served.task(parent)["summary"]["children"] == {"running": 0, "waiting": 0, "ended_badly": 1}


def test_a_child_that_uses_up_its_time_is_timed_out(served: Served) -> None:
    parent = served.open("say hello", title="the parent")
    child(served, parent, "hang", timeout_seconds=0.5)
    until(lambda: children(served, parent)[0]["status"] == "timed_out", "its time is over")


def test_run_with_a_parent_begins_a_child_and_waits_for_its_answer(served: Served) -> None:
    parent = served.open("say hello", title="the parent")
    config = {"INTERLOCK_CONFIG": str(served.folder / "interlock.toml")}
    done = served.cli("run", "helper", "say from below", "--parent", "the", "--wait", **config)
    assert (done.returncode, done.stdout) == (0, "from below\n"), done.stderr
    assert len(children(served, parent)) == 1
    begun = served.cli("run", "helper", "hang", "--parent", parent, "--json", **config)
    assert begun.returncode == 0, begun.stderr
    assert json.loads(begun.stdout)["parent_id"] == parent
    refused = served.cli("run", "helper", "--parent", parent, **config)
    assert refused.returncode == 2
    assert "a child needs a prompt" in refused.stderr


def test_a_tree_that_is_too_deep_is_refused_with_the_limit_and_what_to_do(served: Served) -> None:
    at = served.open("say hello", title="the parent")
    for _ in range(3):
        at = child(served, at, "hang")["child"]["task_id"]
    config = {"INTERLOCK_CONFIG": str(served.folder / "interlock.toml")}
    refused = served.cli("run", "helper", "say x", "--parent", at, **config)
    assert refused.returncode == 2
    assert "limit max_depth" in refused.stderr
    assert "without a parent" in refused.stderr
    assert children(served, at) == []


def test_the_limits_of_trees_are_keys_of_the_configuration(tmp_path: Path) -> None:
    with serving(tmp_path, INTERLOCK_TREE_MAX_DEPTH="0") as served:
        parent = served.open("say hello")
        with pytest.raises(ServerRefusal, match=r"limit max_depth: .* of 0"):
            served.api.ask("POST", f"/api/tasks/{parent}/children", {"task": task(served, "say x")})
        assert children(served, parent) == []
