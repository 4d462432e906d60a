"""A branch takes the work of a worktree in, all of it or nothing; a work tree that has it checked out loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.git import merging
from interlock.agents.git.merging import (
    Conflicts,
    Merge,
    apply_merge,
    commit_all,
    finish_merge,
    keep_as_branch,
    plan_merge,
)
from interlock.agents.git.running import GitFailed
from interlock.agents.git.worktree_state import state_of
from interlock.agents.git.worktrees import OurWorktree, WorktreePlan, find_ours
from interlock.vocabulary.errors import UsageError
from tests.agents.git.repositories import git, new_repository
from tests.agents.git.test_hostile_repository import is_sprung, plant, trap
from tests.agents.git.test_worktrees import made

__all__ = ["trap"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_repository(tmp_path / "project", a_txt="one\n", b_txt="two\n", _gitignore="*.db\n")
    return tmp_path / "project"


@pytest.fixture
def plan(root: Path, tmp_path: Path) -> WorktreePlan:
    return made(root, tmp_path / "home", name="it")


def worked(plan: WorktreePlan, text: str = "work\n") -> str:
    """A commit in the worktree."""
    (plan.path / "a.txt").write_text(text)
    (plan.path / "new.txt").write_text(text)
    git(plan.path, "add", "-A")
    git(plan.path, "commit", "-q", "-m", "work")
    return git(plan.path, "rev-parse", "HEAD")


def merge_of(plan: WorktreePlan, head: str, *, squash: bool = False) -> Merge:
    found = plan_merge(plan.common, head, "main", is_squash=squash, message="the work")
    assert isinstance(found, Merge)
    return found


def ours_of(plan: WorktreePlan) -> OurWorktree:
    found = find_ours(plan.common, plan.path, plan.owner)
    assert found is not None
    return found


def test_a_branch_that_is_checked_out_and_clean_moves_forward_with_its_files(root: Path, plan: WorktreePlan) -> None:
    (root / "notes").write_text("mine, and not tracked\n")
    head = worked(plan)
    apply_merge(merge_of(plan, head))
    assert git(root, "rev-parse", "main") == head
    assert git(root, "status", "--short") == "?? notes"
    assert ((root / "a.txt").read_text(), (root / "new.txt").read_text()) == ("work\n", "work\n")
    assert plan_merge(plan.common, head, "main", is_squash=False, message="") is None


def test_a_branch_that_is_not_checked_out_moves_alone(root: Path, plan: WorktreePlan) -> None:
    git(root, "checkout", "-q", "-b", "other")
    (root / "a.txt").write_text("in the midst of something\n")
    head = worked(plan)
    apply_merge(merge_of(plan, head))
    assert git(root, "rev-parse", "main") == head
    assert (root / "a.txt").read_text() == "in the midst of something\n"


@pytest.mark.parametrize("how", ["changed", "staged", "merging"])
def test_a_base_that_is_not_clean_is_refused_and_loses_nothing(root: Path, plan: WorktreePlan, how: str) -> None:
    head, before = worked(plan), git(root, "rev-parse", "main")
    if how == "merging":
        (root / ".git" / "MERGE_HEAD").write_text(f"{before}\n")
    else:
        (root / "b.txt").write_text("mine\n")
        if how == "staged":
            git(root, "add", "b.txt")
            (root / "b.txt").write_text("two\n")
    status = git(root, "status", "--short")
    with pytest.raises(UsageError, match="not clean"):
        merge_of(plan, head)
    assert (git(root, "rev-parse", "main"), git(root, "status", "--short")) == (before, status)


def test_an_untracked_file_in_the_way_refuses_the_merge_whole(root: Path, plan: WorktreePlan) -> None:
    (root / "new.txt").write_text("mine\n")
    head, before = worked(plan), git(root, "rev-parse", "main")
    with pytest.raises(GitFailed, match="overwritten"):
        apply_merge(merge_of(plan, head))
    assert git(root, "rev-parse", "main") == before
    assert ((root / "new.txt").read_text(), (root / "a.txt").read_text()) == ("mine\n", "one\n")


def test_one_commit_is_made_of_many_also_where_the_base_went_on(root: Path, plan: WorktreePlan) -> None:
    worked(plan, "first\n")
    head = worked(plan, "second\n")
    (root / "b.txt").write_text("meanwhile\n")
    git(root, "commit", "-q", "-am", "meanwhile")
    before = git(root, "rev-parse", "main")
    with pytest.raises(UsageError, match="--squash"):
        merge_of(plan, head)
    apply_merge(merge_of(plan, head, squash=True))
    assert git(root, "rev-parse", "main^") == before
    assert git(root, "log", "-1", "--format=%s") == "the work"
    assert ((root / "a.txt").read_text(), (root / "b.txt").read_text()) == ("second\n", "meanwhile\n")
    assert git(root, "status", "--short") == ""


def test_a_conflict_changes_nothing_and_names_its_paths(root: Path, plan: WorktreePlan) -> None:
    head = worked(plan)
    (root / "a.txt").write_text("otherwise\n")
    git(root, "commit", "-q", "-am", "meanwhile")
    before = git(root, "rev-parse", "main")
    found = plan_merge(plan.common, head, "main", is_squash=True, message="x")
    assert found == Conflicts(("a.txt",))
    assert (git(root, "rev-parse", "main"), git(root, "status", "--short")) == (before, "")


def test_a_branch_that_goes_on_meanwhile_is_not_moved_and_its_files_come_back(
    root: Path, plan: WorktreePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = worked(plan)
    merge = merge_of(plan, head)
    moved = merging._move

    def late(asked: Merge) -> None:
        faster = git(root, "commit-tree", "-p", asked.before, "-m", "faster", f"{asked.before}^{{tree}}")
        git(root, "update-ref", "refs/heads/main", faster)
        moved(asked)

    monkeypatch.setattr(merging, "_move", late)
    with pytest.raises(GitFailed):
        apply_merge(merge)
    assert git(root, "log", "-1", "--format=%s", "main") == "faster"
    assert (git(root, "status", "--short"), (root / "a.txt").read_text()) == ("", "one\n")


def test_a_merge_that_was_broken_off_is_finished_or_told(root: Path, plan: WorktreePlan) -> None:
    head = worked(plan)
    merge = merge_of(plan, head)
    assert "as it was" in finish_merge(merge)  # before anything was written
    assert git(root, "rev-parse", "main") == merge.before
    (root / "a.txt").write_text("wor")  # half a file, and no index yet
    assert "a.txt" in finish_merge(merge)
    assert (root / "a.txt").read_text() == "wor"
    git(root, "checkout", "-q", "a.txt")
    git(root, "read-tree", "-m", "-u", merge.before, merge.after)  # all files, and the branch not moved yet
    assert finish_merge(merge) == ""
    assert (git(root, "rev-parse", "main"), git(root, "status", "--short")) == (head, "")
    assert finish_merge(merge) == ""


def test_what_is_not_committed_becomes_a_commit_of_the_worktree(root: Path, plan: WorktreePlan) -> None:
    (plan.path / "a.txt").write_text("changed\n")
    (plan.path / "b.txt").unlink()
    (plan.path / "new.txt").write_text("new\n")
    (plan.path / "rows.db").write_text("ignored\n")
    ours = ours_of(plan)
    made_commit = commit_all(ours, state_of(ours), "all of it")
    assert git(plan.path, "rev-parse", "HEAD") == made_commit
    assert git(plan.path, "status", "--short") == ""
    assert git(plan.path, "show", "--name-status", "--format=%s", "HEAD").split() == [
        *("all", "of", "it"),
        *("M", "a.txt", "D", "b.txt", "A", "new.txt"),
    ]
    git(plan.path, "init", "-q", "inner")
    (plan.path / "inner" / "x").write_text("x")
    with pytest.raises(UsageError, match="inner/"):
        commit_all(ours, state_of(ours), "no")
    assert git(root, "rev-parse", plan.branch) == made_commit


def test_a_branch_for_a_pull_request_is_new(root: Path, plan: WorktreePlan) -> None:
    head = worked(plan)
    keep_as_branch(plan.common, head, "feature")
    assert git(root, "rev-parse", "feature") == head
    for name, said in (("feature", "already"), ("main", "already"), ("a..b", "cannot name"), ("-x", "cannot name")):
        with pytest.raises(UsageError, match=said):
            keep_as_branch(plan.common, head, name)


def test_nothing_that_a_repository_configures_runs(root: Path, plan: WorktreePlan, trap: Path) -> None:
    """Traps 15 and 19 of the plan: no signing program, no merge driver."""
    plant(root, trap)
    (root / ".gitattributes").unlink()
    (plan.path / "new.txt").write_text("new\n")
    ours = ours_of(plan)
    head = commit_all(ours, state_of(ours), "work")
    apply_merge(merge_of(plan, head))
    assert is_sprung(trap) == ""
    assert (root / "new.txt").read_text() == "new\n"


def test_files_that_a_filter_makes_are_left_to_git(root: Path, plan: WorktreePlan) -> None:
    (plan.path / ".gitattributes").write_text("*.bin filter=lfs\n")
    git(plan.path, "add", "-A")
    git(plan.path, "commit", "-q", "-m", "attributes")
    (plan.path / "big.bin").write_text("raw\n")
    ours = ours_of(plan)
    with pytest.raises(UsageError, match="Git LFS"):
        commit_all(ours, state_of(ours), "work")
    git(plan.path, "add", "-A")
    git(plan.path, "commit", "-q", "-m", "big")
    with pytest.raises(UsageError, match="Git LFS"):
        merge_of(plan, git(plan.path, "rev-parse", "HEAD"))
    assert git(root, "rev-parse", "main") == plan.base
