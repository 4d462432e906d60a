"""Worktrees: what is there is never taken over, what a repository configures never runs, nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents.git import worktree_removal, worktrees
from interlock.agents.git.looking import LookLimits
from interlock.agents.git.repository import NoRepository, find_repository
from interlock.agents.git.running import GitFailed
from interlock.agents.git.snapshot import TreeSnapshots
from interlock.agents.git.worktree_removal import Removal, check_removal, finish_removal, remove_worktree
from interlock.agents.git.worktree_setup import WorktreeSetupFailed, copy_ignored, link_ignored, run_setup
from interlock.agents.git.worktree_state import state_of
from interlock.agents.git.worktrees import WorktreePlan, find_ours, make_worktree, plan_worktree, repository_lock
from interlock.vocabulary.errors import UsageError
from tests.agents.git.repositories import git, new_repository, without_rights_of_root
from tests.agents.git.test_hostile_repository import is_sprung, plant, trap

__all__ = ["trap"]
OWNER = "ses_0123456789"


def planned(root: Path, home: Path, *, owner: str = OWNER, name: str = "", base: str = "") -> WorktreePlan:
    return plan_worktree(str(root), home, owner, name=name, title="Fix: the Parser!", base=base)


def made(root: Path, home: Path, *, owner: str = OWNER, name: str = "", base: str = "") -> WorktreePlan:
    plan = planned(root, home, owner=owner, name=name, base=base)
    make_worktree(plan)
    return plan


def removal(plan: WorktreePlan, *, keeps: bool = False, force: bool = False, copied: tuple[str, ...] = ()) -> Removal:
    return Removal(
        common=plan.common,
        path=plan.path,
        branch=plan.branch,
        base=plan.base,
        owner=plan.owner,
        source=str(plan.source),
        copied=copied,
        keeps_branch=keeps,
        is_forced=force,
    )


def removed(plan: WorktreePlan, attic: Path, *, keeps: bool = False, force: bool = False) -> tuple[str, ...]:
    asked = removal(plan, keeps=keeps, force=force)
    return remove_worktree(asked, check_removal(asked), attic)


def test_a_worktree_has_the_files_of_its_base_and_a_branch_of_its_own(tmp_path: Path) -> None:
    root, home = tmp_path / "project", tmp_path / "home"
    new_repository(root, a_txt="one\n", b_txt="two\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "second")
    (root / "a.txt").write_text("not committed\n")
    plan = made(root, home)
    assert plan.branch == "interlock/fix-the-parser-456789"
    assert (plan.target, plan.base) == ("main", git(root, "rev-parse", "HEAD"))
    assert (plan.path / "a.txt").read_text() == "one\n"
    assert (plan.path / "link").readlink() == Path("a.txt")
    assert os.access(plan.path / "run.sh", os.X_OK)
    assert git(plan.path, "status", "--short") == ""
    assert git(plan.path, "symbolic-ref", "--short", "HEAD") == plan.branch
    assert [one.stat().st_mode & 0o777 for one in (plan.path, plan.path.parent)] == [0o700, 0o700]
    assert (root / "a.txt").read_text() == "not committed\n"
    (plan.path / "a.txt").write_text("by an agent\n")
    git(plan.path, "commit", "-q", "-am", "third")
    assert git(root, "rev-parse", "main") == plan.base


def test_a_named_base_is_found_once(tmp_path: Path) -> None:
    """Trap 16 of the plan."""
    root = tmp_path / "project"
    new_repository(root)
    first = git(root, "rev-parse", "HEAD")
    git(root, "branch", "old")
    git(root, "commit", "-q", "--allow-empty", "-m", "second")
    plan = made(root, tmp_path / "home", base="old")
    assert (plan.target, plan.base) == ("old", first)
    by_id = planned(root, tmp_path / "home", name="other", base=first)
    assert (by_id.target, by_id.base) == ("", first)
    for base in ("never", "--upload-pack=x", "HEAD:a.txt"):
        with pytest.raises(UsageError, match="names no commit"):
            planned(root, tmp_path / "home", name="third", base=base)


def test_what_is_there_is_refused_and_stays(tmp_path: Path) -> None:
    """Trap 16 of the plan: an existing path or branch."""
    root, home = tmp_path / "project", tmp_path / "home"
    new_repository(root)
    plan = made(root, home, name="mine")
    (plan.path / "work").write_text("precious\n")
    with pytest.raises(UsageError, match="already"):
        planned(root, home, owner="ses_other", name="mine")
    with pytest.raises(UsageError, match="already"):
        make_worktree(plan)  # not by the same plan either, unless a half-made one is to be finished
    git(root, "branch", "interlock/taken")
    with pytest.raises(UsageError, match="branch interlock/taken already"):
        planned(root, home, name="taken")
    late = planned(root, home, name="late")
    git(root, "branch", "interlock/late")  # by somebody who was faster
    with pytest.raises(UsageError, match="already"):
        make_worktree(late)
    assert git(root, "rev-parse", "interlock/late") == plan.base
    assert (plan.path / "work").read_text() == "precious\n"
    for name in ("../up", "a/b", ".hidden", "x.lock", "a..b", "-x", "x" * 81):
        with pytest.raises(UsageError, match="cannot name"):
            planned(root, home, name=name)


def test_folders_without_a_base_are_told_what_to_do(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match="git init"):
        planned(tmp_path / "plain", home)
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(UsageError, match="no commit yet"):
        planned(tmp_path / "empty", home)
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(UsageError, match="bare repository"):
        planned(tmp_path / "bare.git", home)
    assert not home.exists()


def test_a_branch_that_is_in_the_way_of_all_is_told_and_stays(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root)
    git(root, "branch", "interlock")
    with pytest.raises(UsageError, match="git branch -m interlock"):
        planned(root, tmp_path / "home")
    assert git(root, "branch", "--format=%(refname:short)").split() == ["interlock", "main"]


def test_a_repository_that_git_does_not_understand_is_told_as_one(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root)
    (root / ".git" / "config").write_text("[")
    with pytest.raises(UsageError, match=r"bad config.*look at its"):
        planned(root, tmp_path / "home")


def test_the_folder_of_worktrees_may_be_a_link_to_another_disk(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root)
    for one in ("home", "disk"):
        (tmp_path / one).mkdir()
    (tmp_path / "home" / "worktrees").symlink_to(tmp_path / "disk")
    plan = made(root, tmp_path / "home", name="it")
    assert plan.path.is_relative_to(tmp_path / "disk")
    assert (plan.path / "a.txt").read_text() == "a\n"
    removed(plan, tmp_path / "attic")
    assert not plan.path.exists()


def test_a_disk_that_is_full_is_told_in_few_words_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    new_repository(root, **{f"f{number}": "x" for number in range(200)})
    plan = planned(root, tmp_path / "home", name="it")
    (tmp_path / "bin").mkdir()
    full = tmp_path / "bin" / "git"
    real = shutil.which("git")
    full.write_text(f'#!/bin/sh\ncase "$*" in *--reset*) trap \'\' XFSZ; ulimit -f 0;; esac\nexec {real} "$@"\n')
    full.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(worktrees, "_LITTLE_SPACE", 1 << 62)
    with pytest.raises(GitFailed, match=r"^\d+ bytes are free at .*: git read-tree failed") as failed:
        make_worktree(plan)
    assert len(str(failed.value)) < 1000
    assert not plan.path.exists()
    assert git(root, "branch", "--format=%(refname:short)") == "main"


def test_a_lock_that_somebody_holds_for_ever_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "project"
    new_repository(root)
    plan = planned(root, tmp_path / "home")
    monkeypatch.setattr(worktrees, "LOCK_SECONDS", 0.01)
    with repository_lock(plan.common), pytest.raises(GitFailed, match=r"another process has held .*\.lock for 0.01 s"):
        make_worktree(plan)
    make_worktree(plan)
    assert plan.path.is_dir()


def test_twenty_at_once_are_all_made(tmp_path: Path) -> None:
    """Trap 14 of the plan."""
    root, home = tmp_path / "project", tmp_path / "home"
    new_repository(root)
    plans = [planned(root, home, owner=f"ses_{number:06}", name=f"n{number}") for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(make_worktree, plans))
    assert all((plan.path / "a.txt").read_text() == "a\n" for plan in plans)
    listed = git(root, "worktree", "list", "--porcelain")
    assert listed.count("\nlocked interlock ses_") == 20
    assert sorted(git(root, "branch", "--format=%(refname:short)").split()) == sorted(
        ["main", *(plan.branch for plan in plans)]
    )


def test_nothing_that_a_repository_configures_runs(tmp_path: Path, trap: Path) -> None:
    root, home = tmp_path / "project", tmp_path / "home"
    new_repository(root, a_txt="one\n", _gitattributes="* filter=evil diff=evil merge=evil\n")
    plant(root, trap)
    plan = made(root, home)
    copy_ignored(root, plan.path, ["a.txt", ".env"])
    ours = find_ours(plan.common, plan.path, OWNER)
    assert ours is not None
    assert state_of(ours).is_clean
    (plan.path / "new").write_text("x")
    removed(plan, tmp_path / "attic", force=True)
    assert is_sprung(trap) == ""
    assert not plan.path.exists()


def test_ignored_files_are_copied_by_name_and_nothing_else(tmp_path: Path) -> None:
    """Trap 21 of the plan."""
    root = tmp_path / "project"
    new_repository(root, a_txt="one\n", _gitignore=".env\nconf/*\nout\nlink\n")
    (tmp_path / "secret").write_text("outside")
    (root / ".env").write_text("KEY=1\n")
    (root / ".env").chmod(0o600)
    (root / "conf").mkdir()
    (root / "conf" / "local.toml").write_text("a = 1\n")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "out").symlink_to(tmp_path)
    (root / "new.txt").write_text("not ignored\n")
    plan = made(root, tmp_path / "home")
    names = [".env", "conf/local.toml", "link", "out/secret", "new.txt", "a.txt", "../secret", "/etc/passwd", "never"]
    left = copy_ignored(root, plan.path, names)
    assert [one.split(" ")[0] for one in left] == names[2:]
    assert ((plan.path / ".env").read_text(), (plan.path / ".env").stat().st_mode & 0o777) == ("KEY=1\n", 0o600)
    assert (plan.path / "conf" / "local.toml").read_text() == "a = 1\n"
    assert not any(os.path.lexists(plan.path / one) for one in ("link", "out", "new.txt"))
    (plan.path / ".env").write_text("KEY=2\n")
    copy_ignored(root, plan.path, [".env"])
    assert (plan.path / ".env").read_text() == "KEY=2\n"


def test_a_setup_command_that_fails_hangs_or_floods_is_told(tmp_path: Path) -> None:
    """Trap 21 of the plan: the setup command."""
    environment = {"PATH": os.environ["PATH"]}
    run_setup(("sh", "-c", "echo done > here"), tmp_path, environment, 60.0)
    assert (tmp_path / "here").read_text() == "done\n"
    with pytest.raises(WorktreeSetupFailed, match=r"failed with 3\. It said: no network"):
        run_setup(("sh", "-c", "echo no network; exit 3"), tmp_path, environment, 60.0)
    with pytest.raises(WorktreeSetupFailed, match="took more than"):
        run_setup(("sleep", "1000"), tmp_path, environment, 0.2)
    with pytest.raises(WorktreeSetupFailed, match="cannot be run"):
        run_setup(("never-there",), tmp_path, environment, 1.0)
    flood = "import sys; sys.stdout.write('x' * 10_000_000 + 'end'); sys.exit(1)"
    with pytest.raises(WorktreeSetupFailed, match=r"xend$"):
        run_setup((sys.executable, "-c", flood), tmp_path, environment, 60.0)


# What is lost with it


def test_a_clean_worktree_goes_with_its_branch(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root)
    plan = made(root, tmp_path / "home")
    removed(plan, tmp_path / "attic")
    assert not plan.path.exists()
    assert git(root, "branch", "--format=%(refname:short)") == "main"
    assert "interlock" not in git(root, "worktree", "list")
    assert list(plan.path.parent.iterdir()) == []


LOSSES = {
    "changed": "changed: a.txt",
    "hidden": "changed: a.txt",
    "staged": "changed: a.txt",
    "deleted": "changed: a.txt",
    "new": "not tracked: new",
    "nested": "not tracked: inner/",
    "ignored": "ignored by git, and not copied there by us: local.db",
    "committed": "1 commits of branch interlock/it",
    "detached": "on no branch",
    "merging": "MERGE_HEAD is there",
    "other": "not listed by git: .git",
    "inner": "not listed by git: src/.git",
    "module": "not listed by git: module/",
    "cloned": "not listed by git: module/",
}


INNER = {"other": ".", "inner": "src"}
"""Where a repository of its own has a commit."""


def spoil(plan: WorktreePlan, how: str) -> None:
    """Do work in a worktree that would be lost with it."""
    path = plan.path
    match how:
        case "changed":
            (path / "a.txt").write_text("changed\n")
        case "hidden":
            git(path, "update-index", "--assume-unchanged", "a.txt")
            (path / "a.txt").write_text("changed\n")
        case "staged":
            (path / "a.txt").write_text("staged\n")
            git(path, "add", "a.txt")
            (path / "a.txt").write_text("a\n")
        case "deleted":
            (path / "a.txt").unlink()
        case "new":
            (path / "new").write_text("new\n")
        case "nested":
            git(path, "init", "-q", "inner")
            (path / "inner" / "x").write_text("x\n")
        case "committed":
            git(path, "commit", "-q", "--allow-empty", "-m", "work")
        case "detached":
            git(path, "checkout", "-q", "--detach")
            git(path, "commit", "-q", "--allow-empty", "-m", "work")
        case "merging":
            (Path(git(path, "rev-parse", "--absolute-git-dir")) / "MERGE_HEAD").write_text(f"{plan.base}\n")
        case _:
            spoil_unseen(path, how)


def spoil_unseen(path: Path, how: str) -> None:
    """Do work in it that `git status` does not show."""
    match how:
        case "ignored":
            (path / "local.db").write_text("rows\n")
        case "other":  # an agent that begins anew: its commits are in no store of ours
            (path / ".git").unlink()
            git(path, "init", "-q")
            git(path, "commit", "-q", "--allow-empty", "-m", "work")
        case "inner":
            git(path / "src", "init", "-q")
            git(path / "src", "commit", "-q", "--allow-empty", "-m", "work")
        case "module":
            (path / "module" / "new").write_text("new\n")
        case _:
            git(path / "module", "init", "-q")
            (path / "module" / "new").write_text("new\n")


@pytest.mark.parametrize("how", LOSSES)
def test_what_would_lose_something_is_refused_and_forced_it_is_kept(tmp_path: Path, how: str) -> None:
    """Trap 15 of the plan."""
    root = tmp_path / "project"
    new_repository(root, a_txt="a\n", _gitignore="*.db\n")
    (root / "src").mkdir()
    (root / "src" / "main").write_text("main\n")
    git(root, "add", "-A")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{git(root, 'rev-parse', 'HEAD')},module")
    git(root, "commit", "-q", "-m", "second")
    plan = made(root, tmp_path / "home", name="it")
    spoil(plan, how)
    inner = git(plan.path / INNER[how], "rev-parse", "--verify", "HEAD") if how in INNER else ""
    before = {one: one.read_bytes() for one in plan.path.rglob("*") if one.is_file() and ".git" not in one.parts}
    with pytest.raises(UsageError, match=LOSSES[how]):
        removed(plan, tmp_path / "attic")
    assert {one: one.read_bytes() for one in before} == before
    head = git(plan.source, "rev-parse", plan.branch) if how in INNER else git(plan.path, "rev-parse", "HEAD")
    kept = removed(plan, tmp_path / "attic", force=True)
    assert not inner or git(tmp_path / "attic" / INNER[how], "cat-file", "-t", inner) == "commit"
    assert not plan.path.exists()
    (files,) = (one for one in kept if one.endswith("/files"))
    for path, content in before.items():
        name = str(path.relative_to(plan.path))
        beside = tmp_path / "attic" / name
        if beside.exists():
            assert beside.read_bytes() == content
        else:
            assert git(root, "show", f"{files}:{name}") == content.decode().strip()
    assert git(root, "cat-file", "-t", head) == "commit"
    assert head in git(root, "for-each-ref", "--format=%(objectname)", "refs/interlock").split()
    if how == "staged":
        (staged,) = (one for one in kept if one.endswith("/staged"))
        assert git(root, "show", f"{staged}:a.txt") == "staged"


def test_a_folder_that_cannot_be_read_keeps_its_worktree() -> None:
    with without_rights_of_root() as folder:
        new_repository(folder / "project")
        plan = made(folder / "project", folder / "home")
        closed = plan.path / "closed"
        closed.mkdir()
        (closed / "new").write_text("new\n")
        closed.chmod(0)
        try:
            with pytest.raises(UsageError, match="not listed by git: closed/"):
                removed(plan, folder / "attic")
            with pytest.raises(PermissionError):
                removed(plan, folder / "attic", force=True)
        finally:
            closed.chmod(0o700)
        assert (closed / "new").read_text() == "new\n"


def test_what_is_too_much_for_a_ref_is_set_aside_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="a\n", _gitignore="*.db\n")
    plan = made(root, tmp_path / "home", name="it")
    for number in range(3):
        (plan.path / f"new{number}").write_text(f"{number}\n")
    (plan.path / "local.db").write_text("rows\n")
    monkeypatch.setattr(worktree_removal, "TreeSnapshots", lambda: TreeSnapshots(LookLimits(files=2)))
    attic = tmp_path / "new" / "attic"
    kept = removed(plan, attic, force=True)
    assert not plan.path.exists()
    assert str(attic) in kept
    assert [one.stat().st_mode & 0o777 for one in (attic.parent, attic)] == [0o700, 0o700]
    assert not any(one.endswith("/files") for one in kept)
    names = ("a.txt", "new0", "new1", "new2", "local.db")
    assert [(attic / one).read_text() for one in names] == ["a\n", "0\n", "1\n", "2\n", "rows\n"]


def test_commits_that_something_keeps_are_no_loss(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root)
    merged, kept = made(root, tmp_path / "home", name="merged"), made(root, tmp_path / "home", owner="s2", name="kept")
    for plan in (merged, kept):
        git(plan.path, "commit", "-q", "--allow-empty", "-m", "work")
    git(root, "merge", "-q", "--ff-only", merged.branch)
    removed(merged, tmp_path / "attic")
    head = git(kept.path, "rev-parse", "HEAD")
    removed(kept, tmp_path / "attic", keeps=True)
    assert git(root, "rev-parse", kept.branch) == head
    assert merged.branch not in git(root, "branch")


def test_neither_the_main_tree_nor_a_link_nor_a_foreign_worktree_is_ever_removed(tmp_path: Path) -> None:
    """Trap 15 of the plan: the main tree, and a link to it."""
    root = tmp_path / "project"
    new_repository(root)
    plan = made(root, tmp_path / "home")
    git(root, "worktree", "add", "-q", str(tmp_path / "theirs"))
    for path in (root, tmp_path / "theirs"):
        asked = Removal(common=plan.common, path=path, branch="main", base=plan.base, owner=OWNER, is_forced=True)
        with pytest.raises(UsageError, match="is not the worktree"):
            check_removal(asked)
    moved = plan.path.rename(tmp_path / "moved")
    plan.path.symlink_to(root)
    with pytest.raises(UsageError, match="a link"):
        check_removal(removal(plan, force=True))
    assert moved.is_dir()
    assert (root / "a.txt").exists()


def test_a_process_that_works_in_it_keeps_it(tmp_path: Path) -> None:
    """Trap 15 of the plan: a live process."""
    root = tmp_path / "project"
    new_repository(root)
    plan = made(root, tmp_path / "home")
    with subprocess.Popen(["cat"], cwd=plan.path, stdin=subprocess.PIPE) as process:
        with pytest.raises(UsageError, match=f"process {process.pid}"):
            check_removal(removal(plan, force=True))
        process.communicate()
    removed(plan, tmp_path / "attic")


def test_what_can_be_made_again_is_no_loss_and_is_not_set_aside(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="a\n", _gitignore="node_modules/\nout/\n*.db\n")
    plan = made(root, tmp_path / "home")
    for name in ("node_modules/x", "web/node_modules/x", "web/out/x", "out/x", "node_modules.db"):
        (plan.path / name).parent.mkdir(parents=True, exist_ok=True)
        (plan.path / name).write_text("x\n")
    asked = replace(removal(plan), disposable=("node_modules", "web/out/"))
    with pytest.raises(UsageError, match=r"not copied there by us: node_modules\.db, out/;"):
        check_removal(asked)
    forced = replace(asked, is_forced=True)
    remove_worktree(forced, check_removal(forced), tmp_path / "attic")
    assert sorted(one.name for one in (tmp_path / "attic").rglob("*")) == ["node_modules.db", "out", "x"]


def test_a_tracked_or_untracked_file_is_never_disposable(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root)
    plan = made(root, tmp_path / "home")
    (plan.path / "out").mkdir()
    (plan.path / "out" / "new").write_text("not ignored\n")
    with pytest.raises(UsageError, match="not tracked: out/new"):
        check_removal(replace(removal(plan), disposable=("out", "new")))


def test_a_copied_file_that_was_changed_is_a_loss(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="a\n", _gitignore=".env\n")
    (root / ".env").write_text("KEY=1\n")
    plan = made(root, tmp_path / "home")
    copy_ignored(root, plan.path, [".env"])
    assert check_removal(removal(plan, copied=(".env",))) == plan.base
    (plan.path / ".env").write_text("KEY=2\n")
    with pytest.raises(UsageError, match=r"\.env"):
        check_removal(removal(plan, copied=(".env",)))


def test_a_removal_that_was_broken_off_is_taken_back_or_finished_by_how_far_it_came(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root)
    plan = made(root, tmp_path / "home")
    plan.path.rename(plan.path.with_name(f".removing-{plan.path.name}"))
    assert not finish_removal(removal(plan), plan.base)  # nothing was proven
    assert (plan.path / "a.txt").exists()
    plan.path.rename(plan.path.with_name(f".removed-{plan.path.name}"))
    assert finish_removal(removal(plan), plan.base)
    assert finish_removal(removal(plan), plan.base)
    assert list(plan.path.parent.iterdir()) == []
    assert "interlock" not in git(root, "branch") + git(root, "worktree", "list")


def test_a_missing_object_leaves_nothing_half_made(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="one\n", b_txt="two\n")
    plan = planned(root, tmp_path / "home")
    lost = git(root, "rev-parse", "HEAD:b.txt")
    (root / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    with pytest.raises(GitFailed):
        make_worktree(plan)
    assert not plan.path.exists()
    assert git(root, "branch", "--format=%(refname:short)") == "main"
    assert len(git(root, "worktree", "list").splitlines()) == 1
    with pytest.raises(NoRepository):
        find_repository(plan.path)


def test_a_copy_goes_through_no_link_of_the_worktree(tmp_path: Path) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    outside.mkdir()
    new_repository(root, a_txt="one\n", _gitignore="*.toml\n")
    (root / "conf").symlink_to(outside)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a link")
    plan = made(root, tmp_path / "home")
    (root / "conf").unlink()
    (root / "conf").mkdir()
    (root / "conf" / "local.toml").write_text("a = 1\n")
    (left,) = copy_ignored(root, plan.path, ["conf/local.toml"])
    assert left.startswith("conf/local.toml was not copied")
    assert list(outside.iterdir()) == []


def test_one_of_twenty_gets_a_name_and_the_others_leave_it_alone(tmp_path: Path) -> None:
    root, home = tmp_path / "project", tmp_path / "home"
    new_repository(root)
    plans = [planned(root, home, owner=f"ses_{number:06}", name="one") for number in range(20)]

    def is_made(plan: WorktreePlan) -> bool:
        try:
            make_worktree(plan)
        except (UsageError, GitFailed):
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(is_made, plans)) == 1
    assert (plans[0].path / "a.txt").read_text() == "a\n"
    assert git(plans[0].path, "status", "--short") == ""
    assert git(root, "branch", "--format=%(refname:short)").split() == ["interlock/one", "main"]


# Links, and the command before the end


def test_ignored_files_and_folders_are_linked_by_name_and_nothing_else(tmp_path: Path) -> None:
    """Trap 21 of the plan, for links."""
    root = tmp_path / "project"
    new_repository(root, a_txt="one\n", _gitignore="data\ncache/\n.env\nlink\n")
    for name in ("data", "cache"):
        (root / name).mkdir()
        (root / name / "x").write_text("x\n")
    (root / ".env").write_text("KEY=1\n")
    (root / "link").symlink_to(tmp_path)
    plan = made(root, tmp_path / "home")
    (plan.path / ".env").write_text("its own\n")
    left = link_ignored(root, plan.path, ["data", "cache", ".env", "link", "a.txt", "../project", "never"])
    assert [one.split(" ")[0] for one in left] == ["cache", ".env", "link", "a.txt", "../project", "never"]
    assert "without a / at the end" in left[0]
    assert (plan.path / "data").readlink() == root / "data"
    assert not any(os.path.lexists(plan.path / one) for one in ("cache", "link"))
    assert (plan.path / ".env").read_text() == "its own\n"
    assert link_ignored(root, plan.path, ["data"]) == ()


def test_a_link_is_no_loss_and_what_took_its_place_is(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="one\n", _gitignore="data\n")
    (root / "data").mkdir()
    (root / "data" / "x").write_text("x\n")
    plan = made(root, tmp_path / "home")
    asked = replace(removal(plan), linked=("data",))
    assert link_ignored(root, plan.path, ["data"]) == ()
    (plan.path / "data").unlink()
    (plan.path / "data").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="not copied there by us: data"):
        check_removal(asked)
    (plan.path / "data").unlink()
    assert link_ignored(root, plan.path, ["data"]) == ()
    remove_worktree(asked, check_removal(asked), tmp_path / "attic")
    assert (plan.path.exists(), (root / "data" / "x").read_text()) == (False, "x\n")
