"""The tree of a step proves it only while it is the worktree that was made for its session, on its own branch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from interlock.agents.git.snapshot import TreeSnapshots
from interlock.agents.git.worktrees import make_worktree, plan_worktree
from interlock.lifecycle.children.workflow_plan import StepOutput
from interlock.runtime.children.step_outputs import items_of, look_at
from interlock.runtime.children.step_places import PlaceLook, StepPlace, tree_of_ours
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SessionId
from tests.agents.git.repositories import git, new_repository

OWNER = SessionId("ses_step_123456789")


def place_of(root: Path, home: Path) -> StepPlace:
    """A worktree for a step of a plan in that repository."""
    new_repository(root, a_txt="one\n")
    plan = plan_worktree(str(root), home, str(OWNER), title="step", name="", base="")
    make_worktree(plan)
    return StepPlace(folder=plan.path, root=plan.path, owner=OWNER, branch=plan.branch, base=plan.base)


def look_of(place: StepPlace, root: Path) -> PlaceLook:
    return PlaceLook(place, root, TreeSnapshots(), "wf_1.a")


def removed(place: StepPlace, root: Path) -> None:
    shutil.rmtree(place.folder)


def replaced(place: StepPlace, root: Path) -> None:
    shutil.rmtree(place.folder)
    place.folder.mkdir()


def without_git(place: StepPlace, root: Path) -> None:
    (place.folder / ".git").unlink()


def of_its_own(place: StepPlace, root: Path) -> None:
    (place.folder / ".git").unlink()
    new_repository(place.folder)


def of_another(place: StepPlace, root: Path) -> None:
    """A worktree of another repository that is locked and named as ours are."""
    other = root.parent / "other"
    new_repository(other)
    why = next((root / ".git" / "worktrees").glob("*/locked")).read_text().strip()
    shutil.rmtree(place.folder)
    git(other, "worktree", "add", "-q", "--lock", "--reason", why, str(place.folder), "-b", "x")


@pytest.mark.parametrize("spoil", [removed, replaced, without_git, of_its_own, of_another])
def test_a_tree_that_is_not_ours_any_more_proves_nothing(
    tmp_path: Path, spoil: Callable[[StepPlace, Path], None]
) -> None:
    root = tmp_path / "project"
    place = place_of(root, tmp_path / "home")
    look = look_of(place, root)
    assert look.tree() is not None
    spoil(place, root)
    for ask in (look.tree, lambda: tree_of_ours(place, root)):
        with pytest.raises(UsageError, match="is gone"):
            ask()


def test_work_is_kept_on_the_branch_of_the_step_and_on_no_other(tmp_path: Path) -> None:
    """An agent may point HEAD at the user's branch: the next commit there would be ours."""
    root = tmp_path / "project"
    place = place_of(root, tmp_path / "home")
    look = look_of(place, root)
    (place.folder / "a.txt").write_text("two\n")
    seen = look.tree()
    assert seen is not None
    before = git(root, "rev-parse", "main")
    git(place.folder, "symbolic-ref", "HEAD", "refs/heads/main")
    with pytest.raises(UsageError, match="branch main is checked out"):
        look.keep(seen, "Work of step a", is_on_branch=True)
    assert git(root, "rev-parse", "main") == before
    git(place.folder, "symbolic-ref", "HEAD", f"refs/heads/{place.branch}")
    kept = look.keep(seen, "Work of step a", is_on_branch=True)
    assert git(root, "rev-parse", place.branch) == kept


def test_what_changed_after_the_checks_is_not_kept_as_proven(tmp_path: Path) -> None:
    root = tmp_path / "project"
    place = place_of(root, tmp_path / "home")
    look = look_of(place, root)
    (place.folder / "a.txt").write_text("good\n")
    seen = look.tree()
    assert seen is not None
    (place.folder / "a.txt").write_text("evil\n")
    with pytest.raises(UsageError, match="changed while they were proven"):
        look.keep(seen, "Work of step a", is_on_branch=True)


LIST = StepOutput(name="items", path="items.json", type="json", is_list=True)


def checkpoint(folder: Path, digest: str = "") -> Json:
    return {"folder": str(folder), "outputs": [{"name": "items", "path": "items.json", "sha256": digest}]}


def test_a_pipe_in_the_place_of_an_output_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "items.json")
    assert look_at(tmp_path, LIST).problem
    with pytest.raises(OSError, match="no regular file"):
        items_of(tmp_path, checkpoint(tmp_path), "items")


def test_an_item_that_the_log_cannot_keep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "items.json").write_bytes(msgspec.json.encode(["good", "a\0b"]))
    found = look_at(tmp_path, LIST)
    assert found.sha256
    with pytest.raises(ValueError, match="no text"):
        items_of(tmp_path, checkpoint(tmp_path, found.sha256), "items")
