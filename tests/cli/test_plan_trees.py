"""Plans in a git repository: steps work in worktrees of their own, see what they need, and lose nothing in a crash."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.bodies import Body
from tests.cli import test_plan_commands as plans
from tests.cli.serving import Served, until
from tests.cli.test_plan_commands import plan, shown, states

served = plans.served

BUILD: Final = """
plan = 1
[defaults]
agent = "helper"
timeout = "5m"

[[step]]
id = "build"
prompt = "say done; gate built"
write = ["out.txt"]
rounds = 2
checks = [["sh", "-c", "mkdir FIRST 2>/dev/null && exit 3; grep made out.txt"]]
outputs.change = { type = "commit" }

[[step]]
id = "count"
needs = ["build"]
run = ["grep", "-c", "made", "out.txt"]

[[step]]
id = "more"
needs = ["build"]
prompt = "say {{ steps.build.diff }}; gate more"
write = ["more.txt"]
checks = [["test", "-f", "out.txt"]]

[[step]]
id = "keep"
needs = ["count", "more"]
gate = "Keep it?"
show = ["steps.more.diff", "steps.build.outputs.change"]
"""


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    return subprocess.run(("git", *who, *words), cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(served: Served) -> Iterator[Path]:
    folder = served.folder / "work"
    (folder / "old.txt").write_text("old\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    yield folder
    assert git(folder, "status", "--porcelain").replace(" M old.txt\n", "") == ""


def begin(served: Served, text: str, code: int = 0, where: str = "work") -> str:
    (served.folder / "config" / "plans" / "trees.plan.toml").write_text(text)
    return plan(served, "run", "trees", "--cwd", str(served.folder / where), "--id", "wf_1", code=code)


def step(served: Served, name: str) -> Body:
    found: Body = next(one for one in shown(served)["steps"] if one["step_id"] == name)
    return found


def has_tree(served: Served, name: str) -> bool:
    return bool(step(served, name)["worktree"])


def tree_of(served: Served, name: str) -> Path:
    """The worktree of a step, once its agent is prompted there."""
    until(lambda: step(served, name)["worktree"] and plans.is_prompted(served), f"{name} has its tree")
    return Path(step(served, name)["worktree"])


def test_steps_work_in_trees_of_their_own_and_on_what_they_need(served: Served, repository: Path) -> None:
    begin(served, BUILD.replace("FIRST", str(served.folder / "first")))
    built = tree_of(served, "build")
    (built / "out.txt").write_text("made\n")
    served.gates.open("built")
    more = tree_of(served, "more")
    assert (more != built, (more / "out.txt").read_text()) == (True, "made\n")
    first = step(served, "build")
    assert (first["state"], first["proof"], first["round"], first["attempt"]) == ("checkpoint_ready", "checked", 2, 1)
    assert git(repository, "show", f"{first['branch']}:out.txt") == "made\n"
    (more / "more.txt").write_text("more\n")
    served.gates.open("more")
    plan(served, "wait", "wf_1", code=6)
    counted = step(served, "count")
    assert (counted["worktree"], counted["summary"]) == (str(built), "1")
    served.kill()
    served.start()
    told = plan(served, "show", "wf_1", code=6)
    assert f"build: branch {first['branch']} in {built}" in told
    assert "ready (round 2 of 2)" in told
    question = step(served, "keep")["question"]
    assert "+more" in question
    assert "+made" not in question  # that is the work of the other step
    assert git(repository, "rev-parse", first["branch"]).strip() in question
    plan(served, "answer", "wf_1", "keep", "go")
    plan(served, "wait", "wf_1")
    listed = served.json("worktree", "ls")["worktrees"]
    assert {str(built), str(more)} == {one["path"] for one in listed}
    commit = step(served, "build")["checkpoint"]["tree"]["commit"]
    assert served.cli("worktree", "rm", first["worktree_task_id"]).returncode == 0
    assert git(repository, "show", f"{commit}:out.txt") == "made\n"  # what was removed is kept


CONFLICT: Final = """
plan = 1
[defaults]
agent = "helper"
[[step]]
id = "a"
prompt = "say done; gate a"
write = ["old.txt"]
checks = [["true"]]
[[step]]
id = "b"
prompt = "say done; gate b"
write = ["old.txt"]
checks = [["true"]]
[[step]]
id = "join"
needs = ["a", "b"]
run = ["true"]
"""


def test_work_that_cannot_be_merged_holds_the_step_with_its_paths(served: Served, repository: Path) -> None:
    begin(served, CONFLICT)
    for name in ("a", "b"):  # both write the same file at once, each in its own tree
        until(partial(has_tree, served, name), "it has its tree")
    for name in ("a", "b"):
        (tree_of(served, name) / "old.txt").write_text(f"{name}\n")
    served.gates.open("a")
    served.gates.open("b")
    plan(served, "wait", "wf_1", code=6)
    assert states(served) == {"a": "checkpoint_ready", "b": "checkpoint_ready", "join": "needs_orchestrator"}
    assert "conflicts in old.txt" in step(served, "join")["reason"]


ONE: Final = """
plan = 1
[[step]]
id = "a"
agent = "helper"
prompt = "say done; gate a"
write = ["out.txt"]
checks = [["sh", "-c", "{check}"]]
{more}
"""


@pytest.mark.parametrize(
    ("check", "outside", "state", "reason"),
    [
        ("true", False, "checkpoint_ready", ""),
        ("echo x > old.txt", False, "partial", "the checks changed files: old.txt"),
        ("echo x > new.txt", False, "partial", "the checks changed files: new.txt"),
        ("true", True, "needs_orchestrator", "main_checkout_changed: old.txt"),
    ],
)
def test_what_a_step_or_its_check_writes_elsewhere_is_seen(
    served: Served, repository: Path, check: str, outside: bool, state: str, reason: str
) -> None:
    begin(served, ONE.format(check=check, more=""))
    tree = tree_of(served, "a")
    until(lambda: _is_recorded(served), "the tree at its start is recorded")
    (tree / "out.txt").write_text("made")
    if outside:
        (repository / "old.txt").write_text("by an absolute path\n")
    served.gates.open("a")
    plan(served, "wait", "wf_1", code={"checkpoint_ready": 0, "partial": 3, "needs_orchestrator": 6}[state])
    assert (step(served, "a")["state"], reason in step(served, "a")["reason"]) == (state, True)


def _is_recorded(served: Served) -> bool:
    session = step(served, "a")["worktree_task_id"]
    page = json.loads(served.api.ask_raw("GET", f"/api/tasks/{session}/changes"))
    return bool(page)


def test_without_a_repository_all_is_shared_and_a_tree_is_refused(served: Served) -> None:
    more = 'worktree = "own"\nbase = "head"\noutputs.x = { type = "commit" }'
    begin(served, ONE.format(check="true", more=more), code=2)
    assert plan(served, "ls") == ""
    begin(served, ONE.format(check="true", more=""))
    until(lambda: plans.is_prompted(served), "its agent has its prompt")
    assert step(served, "a")["worktree"] == ""
    served.gates.open("a")
    plan(served, "wait", "wf_1")
