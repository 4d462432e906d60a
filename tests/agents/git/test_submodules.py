"""Submodules of a worktree: checked out from what the source has, and removed only with proof (trap 15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.git.submodules import make_submodules
from interlock.agents.git.worktree_removal import check_removal, remove_worktree
from interlock.agents.git.worktrees import WorktreePlan, find_ours
from interlock.vocabulary.errors import UsageError
from tests.agents.git.repositories import git, new_repository
from tests.agents.git.test_hostile_repository import SETTINGS, is_sprung, trap
from tests.agents.git.test_worktrees import made, removal

__all__ = ["trap"]
ALLOW = ("-c", "protocol.file.allow=always")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a submodule, which has one of its own."""
    new_repository(tmp_path / "inner", i_txt="inner\n")
    new_repository(tmp_path / "lib", l_txt="lib\n")
    git(tmp_path / "lib", *ALLOW, "submodule", "add", "-q", str(tmp_path / "inner"), "deep/inner")
    git(tmp_path / "lib", "commit", "-q", "-m", "with inner")
    new_repository(tmp_path / "project", a_txt="a\n")
    git(tmp_path / "project", *ALLOW, "submodule", "add", "-q", str(tmp_path / "lib"), "lib")
    git(tmp_path / "project", *ALLOW, "submodule", "update", "-q", "--init", "--recursive")
    git(tmp_path / "project", "commit", "-q", "-m", "with lib")
    return tmp_path / "project"


def filled(plan: WorktreePlan) -> tuple[str, ...]:
    ours = find_ours(plan.common, plan.path, plan.owner)
    assert ours is not None
    return make_submodules(plan.source, ours, plan.base)


def gone(plan: WorktreePlan, attic: Path) -> bool:
    asked = removal(plan)
    remove_worktree(asked, check_removal(asked), attic)
    return not plan.path.exists()


def test_submodules_are_checked_out_without_their_remote_and_go_when_nothing_is_lost(root: Path) -> None:
    for one in ("inner", "lib"):
        (root.parent / one).rename(root.parent / f"{one}-away")
    plan = made(root, root.parent / "home")
    assert filled(plan) == ()
    assert filled(plan) == ()  # again, after a crash
    assert (plan.path / "lib" / "deep" / "inner" / "i.txt").read_text() == "inner\n"
    assert git(plan.path, "status", "--porcelain") == ""
    listed = git(plan.path, "submodule", "status", "--recursive").splitlines()
    assert [line.split()[1] for line in listed] == ["lib", "lib/deep/inner"]
    assert not [line for line in listed if line[0] in "-+U"]
    assert git(plan.path / "lib", "remote", "get-url", "origin") == str(root.parent / "lib")
    assert git(plan.path / "lib", "fsck") == ""
    assert gone(plan, root.parent / "attic")
    assert git(root, "submodule", "status").split()[1] == "lib"


def test_what_the_source_does_not_have_is_told_and_nothing_is_fetched(root: Path) -> None:
    git(root, "submodule", "deinit", "-q", "-f", "lib")
    plan = made(root, root.parent / "home")
    (told,) = filled(plan)
    assert "nothing is fetched" in told
    assert list((plan.path / "lib").iterdir()) == []


def test_a_git_directory_elsewhere_is_not_taken_for_a_submodule(root: Path) -> None:
    (root / "lib" / ".git").write_text(f"gitdir: {root.parent / 'lib' / '.git'}\n")
    (told,) = filled(made(root, root.parent / "home"))
    assert told.startswith("submodule lib is not checked out")


@pytest.mark.parametrize("how", ["changed", "new", "committed", "deep", "stash", "moved", "ignored"])
def test_a_dirty_submodule_keeps_its_worktree(root: Path, how: str) -> None:
    plan = made(root, root.parent / "home")
    assert filled(plan) == ()
    lib = plan.path / "lib"
    if how in ("changed", "stash"):
        (lib / "l.txt").write_text("work\n")
    if how == "stash":
        git(lib, "stash", "-q")
    if how == "new":
        (lib / "new").write_text("work\n")
    if how == "ignored":
        (lib / ".git").read_text()
        (Path(git(lib, "rev-parse", "--absolute-git-dir")) / "info").mkdir(exist_ok=True)
        (Path(git(lib, "rev-parse", "--absolute-git-dir")) / "info" / "exclude").write_text("*.db\n")
        (lib / "local.db").write_text("work\n")
    if how == "committed":
        git(lib, "commit", "-q", "--allow-empty", "-m", "work")
    if how == "deep":
        (lib / "deep" / "inner" / "i.txt").write_text("work\n")
    if how == "moved":
        git(root / "lib", "commit", "-q", "--allow-empty", "-m", "later")  # so that its commit is kept elsewhere
        git(lib, *ALLOW, "fetch", "-q", str(root / "lib"))
        git(lib, "checkout", "-q", "FETCH_HEAD")
    with pytest.raises(UsageError, match="submodule lib"):
        check_removal(removal(plan))
    asked = removal(plan, force=True)
    kept = remove_worktree(asked, check_removal(asked), root.parent / "attic")
    assert str(root.parent / "attic") in kept
    assert (root.parent / "attic" / "lib" / "l.txt").is_file()
    if how in ("committed", "stash"):
        module = root.parent / "attic" / ".git-of-worktree" / "modules" / "lib"
        assert "work" in git(module, f"--git-dir={module}", "log", "--all", "--format=%s") or how == "stash"


def test_nothing_that_a_submodule_configures_runs(root: Path, trap: Path) -> None:
    """Trap 19 of the plan, for submodules."""
    git(root, "config", "submodule.lib.update", f"!{trap}")
    for name in SETTINGS:
        git(root / "lib", "config", name, str(trap))
    plan = made(root, root.parent / "home")
    assert filled(plan) == ()
    for name in SETTINGS:
        git(plan.path / "lib", "config", name, str(trap))
    (Path(git(plan.path / "lib", "rev-parse", "--absolute-git-dir")) / "info").mkdir()
    (Path(git(plan.path / "lib", "rev-parse", "--absolute-git-dir")) / "info" / "attributes").write_text(
        "* filter=evil\n"
    )
    assert gone(plan, root.parent / "attic")
    assert not is_sprung(trap)
