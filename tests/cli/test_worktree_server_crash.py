"""A server that is killed while it makes, merges or removes a worktree: the next one finishes it, or tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.agents.git.worktrees import repository_lock
from interlock.testing.scripted_agent import command, write_program
from interlock.vocabulary.errors import InterlockError
from tests.agents.git.repositories import git, new_repository
from tests.bodies import Body
from tests.cli.serving import STREAM, Served, serving, until
from tests.cli.test_worktrees import EVENT, opened, phases, stopped, summary_of

pytestmark = pytest.mark.deep


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as one:
        write_program(one.folder / "agent", command(STREAM, gates=one.folder / "gates", lifetime_seconds=300))
        yield one


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_repository(tmp_path / "project", a_txt="one\n")
    return tmp_path / "project"


def asked_for(served: Served, path: str, body: Body, key: str = "") -> None:
    """Ask, of a server that will be killed before it answers."""
    with suppress(InterlockError):
        served.api.ask("POST", path, body, key=key)


def has_phases(served: Served, task_id: str, *wanted: str) -> None:
    def look() -> bool:
        with suppress(InterlockError):
            return tuple(phases(served, task_id)) == wanted
        return False

    until(look, f"{task_id} has come through {wanted}")


def killed_when(served: Served, root: Path, path: str, body: Body, task_id: str, *seen: str, key: str = "") -> None:
    """Hold the lock of the repository, so that the server waits in the midst; kill it there, and start another."""
    with ThreadPoolExecutor(1) as pool:
        with repository_lock(root / ".git"):
            asking = pool.submit(asked_for, served, path, body, key)
            has_phases(served, task_id, *seen)
            served.kill()
        asking.result()
    served.start()


def test_a_worktree_that_was_planned_is_made_by_the_next_server(served: Served, root: Path) -> None:
    """Trap 22 of the plan."""
    argv = [str(served.folder / "agent")]
    body: Body = {
        "agent": "scripted",
        "driver": "claude-stream",
        "argv": argv,
        "cwd": str(root),
        "worktree": {"name": "half"},
    }
    killed_when(served, root, "/api/tasks", body, "ses_half", "planned", key="ses_half")
    has_phases(served, "ses_half", "planned", "created")
    tree = Path(summary_of(served, "ses_half")["worktree"]["path"])
    assert (tree / "a.txt").read_text() == "one\n"
    again: Body = served.api.ask("POST", "/api/tasks", {**body, "prompt": "say hello"}, key="ses_half")
    assert (again["is_new"], again["worktree"]["path"]) == (False, str(tree))
    stopped(served, "ses_half")


def test_a_setup_that_may_have_run_is_not_run_again_and_told(served: Served, root: Path) -> None:
    mark = root.parent / "ran"
    flag = root.parent / "goes-on"
    flag.touch()
    setup = ["sh", "-c", f"echo ran >> '{mark}'; while [ -e '{flag}' ]; do sleep 0.2; done"]
    with ThreadPoolExecutor(1) as pool:
        argv = [str(served.folder / "agent")]
        body: Body = {
            "agent": "scripted",
            "driver": "claude-stream",
            "argv": argv,
            "cwd": str(root),
            "worktree": {"name": "set", "setup": setup},
        }
        asking = pool.submit(asked_for, served, "/api/tasks", body, "ses_set")
        until(mark.exists, "the setup command runs")
        served.kill()
        flag.unlink()
        asking.result()
    served.start()
    has_phases(served, "ses_set", "planned", "failed")
    told = served.cli("send", "ses_set", "say hello")
    assert (told.returncode, "is not known" in told.stderr) == (2, True)
    assert mark.read_text() == "ran\n"


def test_a_merge_in_the_midst_of_it_is_whole_or_not_at_all(served: Served, root: Path) -> None:
    task = opened(served, root, "say hello", name="merging")
    task_id, tree = str(task["task_id"]), Path(task["worktree"]["path"])
    served.shows(task_id, status="COMPLETED")
    (tree / "a.txt").write_text("work\n")
    git(tree, "commit", "-q", "-am", "work")
    before = git(root, "rev-parse", "main")
    path = f"/api/tasks/{task_id}/worktree/merge"
    killed_when(served, root, path, {}, task_id, "planned", "created", "merging")
    has_phases(served, task_id, "planned", "created", "merging", "created")
    assert (git(root, "rev-parse", "main"), git(root, "status", "--short")) == (before, "")
    assert "as it was" in summary_of(served, task_id)["worktree"]["problem"]
    assert served.json("merge", task_id)["is_merged"]
    assert (root / "a.txt").read_text() == "work\n"


@pytest.mark.parametrize(("mark", "phase"), [(".removed-", "removed"), (".removing-", "created")])
def test_a_removal_is_finished_if_it_was_proven_and_else_taken_back(
    served: Served, root: Path, mark: str, phase: str
) -> None:
    """Trap 22 of the plan."""
    task = opened(served, root, "say hello", name="removing")
    task_id, tree = str(task["task_id"]), Path(task["worktree"]["path"])
    stopped(served, task_id)
    served.kill()
    events = [json.loads(line) for line in served.cli("log", "show", task_id, "--json").stdout.splitlines()]
    last = events[-1]
    (made,) = (one for one in events if one.get("type") == EVENT and one["data"]["phase"] == "created")
    data = {**made["data"], "phase": "removing", "head": made["data"]["base"]}
    intent = {**made, "id": "evt_intent", "seq": last["seq"] + 1, "data": data}
    (root.parent / "intent.ndjson").write_text(json.dumps(intent) + "\n")
    imported = served.cli("log", "import", str(root.parent / "intent.ndjson"))
    assert imported.returncode == 0, imported.stderr
    tree.rename(tree.with_name(f"{mark}{tree.name}"))
    served.start()
    has_phases(served, task_id, "planned", "created", "removing", phase)
    assert [one.name for one in tree.parent.iterdir()] == ([] if phase == "removed" else [tree.name])
    assert git(root, "branch", "--format=%(refname:short)").split()[-1] == "main"
    assert served.json("worktree", "rm", task_id)["is_removed"]
    assert git(root, "branch", "--format=%(refname:short)") == "main"
