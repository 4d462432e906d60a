"""kill -9 at every step of making, removing and merging a worktree: the next start finishes it, or all is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest

from interlock.agents.git.merging import Merge, finish_merge, plan_merge
from interlock.agents.git.worktree_removal import Removal, check_removal, finish_removal, remove_worktree
from interlock.agents.git.worktree_state import state_of
from interlock.agents.git.worktrees import WorktreePlan, find_ours, make_worktree
from tests.agents.git.repositories import git, new_repository
from tests.agents.git.test_worktrees import made, planned, removal

pytestmark = pytest.mark.deep
MOST_STEPS: Final = 200
_SCRIPT: Final = """
import os, shutil, signal, sys, msgspec
from pathlib import Path
from interlock.agents.git import merging, running, worktree_removal, worktrees

left = int(sys.argv[1])
def step():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def deadly(work):
    def call(*given, **named):
        step()
        done = work(*given, **named)
        step()
        return done
    return call

running._call = deadly(running._call)
Path.rename = deadly(Path.rename)
shutil.rmtree = deadly(shutil.rmtree)
shutil.move = deadly(shutil.move)
os.rmdir = deadly(os.rmdir)
os.unlink = deadly(os.unlink)
kind, told = sys.argv[2:4]
if kind == "make":
    worktrees.make_worktree(msgspec.json.decode(told, type=worktrees.WorktreePlan, dec_hook=lambda t, v: t(v)))
elif kind == "remove":
    asked = msgspec.json.decode(told, type=worktree_removal.Removal, dec_hook=lambda t, v: t(v))
    worktree_removal.remove_worktree(asked, sys.argv[4], Path(sys.argv[5]))
else:
    merging.apply_merge(msgspec.json.decode(told, type=merging.Merge, dec_hook=lambda t, v: t(v)))
"""


def was_killed(step: int, kind: str, asked: WorktreePlan | Removal | Merge, *more: str) -> bool:
    """Do it in a process that kills itself at a step; False: it got to its end before that."""
    told = msgspec.json.encode(asked, enc_hook=str).decode()
    command = [sys.executable, "-c", _SCRIPT, str(step), kind, told, *more]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0


def test_a_worktree_that_was_half_made_is_finished(tmp_path: Path) -> None:
    for step in range(1, MOST_STEPS):
        root, home = tmp_path / f"project{step}", tmp_path / f"home{step}"
        new_repository(root, a_txt="one\n", b_txt="two\n")
        plan = planned(root, home, name="it")
        killed = was_killed(step, "make", plan)
        if killed:
            make_worktree(plan, is_again=True)
        ours = find_ours(plan.common, plan.path, plan.owner)
        assert ours is not None
        assert (state_of(ours).is_clean, ours.branch, ours.head) == (True, plan.branch, plan.base)
        assert git(plan.path, "status", "--short") == ""
        assert len(git(root, "worktree", "list").splitlines()) == 2
        assert sorted(one.name for one in plan.path.iterdir()) == [".git", "a.txt", "b.txt"]
        assert git(root, "branch", "--format=%(refname:short)").split() == ["interlock/it", "main"]
        if not killed:
            assert step > 10
            return
    raise AssertionError("it never got to its end")


def is_lost(root: Path, plan: WorktreePlan, attic: Path, content: str) -> bool:
    """Whether the content of a file is neither in the worktree nor kept."""
    places = [*plan.path.parent.rglob("work.*"), *attic.rglob("work.*")]
    refs = git(root, "for-each-ref", "--format=%(refname)", "refs/interlock").split()
    shown = [
        git(root, "show", f"{ref}:{name}")
        for ref in refs
        for name in git(root, "ls-tree", "--name-only", ref).splitlines()
        if name.startswith("work.")
    ]
    return content not in [*(one.read_text() for one in places), *shown]


@pytest.mark.parametrize("force", [False, True])
def test_a_removal_that_was_broken_off_loses_nothing(tmp_path: Path, *, force: bool) -> None:
    for step in range(1, MOST_STEPS):
        folder = tmp_path / str(step)
        root, attic = folder / "project", folder / "attic"
        new_repository(root, a_txt="one\n", _gitignore="*.db\n")
        plan = made(root, folder / "home", name="it")
        git(plan.path, "commit", "-q", "--allow-empty", "-m", "work")
        work = git(plan.path, "rev-parse", "HEAD")
        if force:
            (plan.path / "work.txt").write_text("not tracked")
            (plan.path / "work.db").write_text("ignored")
        else:
            git(root, "merge", "-q", "--ff-only", plan.branch)
        asked = removal(plan, force=force)
        tip = check_removal(asked)
        killed = was_killed(step, "remove", asked, tip, str(attic))
        if killed and not finish_removal(asked, tip):
            ours = find_ours(plan.common, plan.path, plan.owner)
            assert ours is not None
            assert (ours.head, (plan.path / "a.txt").read_text()) == (work, "one\n")
            if force:
                assert not any(is_lost(root, plan, attic, one) for one in ("not tracked", "ignored"))
            remove_worktree(asked, check_removal(asked), attic)
        assert not plan.path.exists()
        assert list(plan.path.parent.iterdir()) == []
        assert git(root, "branch", "--format=%(refname:short)").split() == ["main"]
        assert len(git(root, "worktree", "list").splitlines()) == 1
        assert work in git(root, "rev-list", "--all")
        if force:
            assert not any(is_lost(root, plan, attic, one) for one in ("not tracked", "ignored"))
        if not killed:
            assert step > 10
            return
    raise AssertionError("it never got to its end")


def test_a_merge_that_was_broken_off_is_whole_or_not_at_all(tmp_path: Path) -> None:
    outcomes = set()
    for step in range(1, MOST_STEPS):
        root = tmp_path / f"project{step}"
        new_repository(root, a_txt="one\n", b_txt="two\n")
        (root / "notes").write_text("mine\n")
        plan = made(root, tmp_path / f"home{step}", name="it")
        (plan.path / "a.txt").write_text("work\n")
        (plan.path / "b.txt").unlink()
        (plan.path / "c.txt").write_text("new\n")
        git(plan.path, "add", "-A")
        git(plan.path, "commit", "-q", "-m", "work")
        merge = plan_merge(plan.common, git(plan.path, "rev-parse", "HEAD"), "main", is_squash=False, message="")
        assert isinstance(merge, Merge)
        killed = was_killed(step, "merge", merge)
        assert git(root, "rev-parse", "main") in (merge.before, merge.after)
        problem = finish_merge(merge) if killed else ""
        outcomes.add(bool(problem))
        where = merge.before if problem else merge.after
        assert git(root, "rev-parse", "main") == where
        assert git(root, "status", "--short") == "?? notes"
        assert ((root / "notes").read_text(), git(root, "fsck", "--no-dangling")) == ("mine\n", "")
        assert (root / "a.txt").read_text() == ("one\n" if problem else "work\n")
        if not killed:
            assert outcomes == {True, False}
            return
    raise AssertionError("it never got to its end")


def test_the_script_kills_by_its_steps(tmp_path: Path) -> None:
    new_repository(tmp_path / "project")
    assert was_killed(1, "make", planned(tmp_path / "project", tmp_path / "home"))
    assert not os.path.lexists(tmp_path / "home")
