"""A push runs nothing that the repository configures, and never forces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.agents.git.pushing import check_address, push_commit, remote_address, web_repository
from interlock.agents.git.running import GitFailed
from interlock.vocabulary.errors import UsageError
from tests.agents.git.repositories import git, new_repository
from tests.agents.git.test_hostile_repository import is_sprung, plant, trap

__all__ = ["trap"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_repository(tmp_path / "project", a_txt="one\n")
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(tmp_path / "project", "remote", "add", "origin", str(tmp_path / "remote.git"))
    return tmp_path / "project"


def pushed(root: Path, name: str = "work") -> str:
    head = git(root, "rev-parse", "HEAD")
    push_commit(root / ".git", head, remote_address(root / ".git", "origin"), name, os.environ)
    return head


def test_a_commit_is_pushed_to_its_branch_and_a_branch_that_went_elsewhere_is_never_forced(root: Path) -> None:
    head, remote = pushed(root), root.parent / "remote.git"
    assert git(remote, "for-each-ref", "--format=%(objectname) %(refname)") == f"{head} refs/heads/work"
    git(root, "commit", "-q", "--amend", "-m", "another")
    git(root, "config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    with pytest.raises(GitFailed, match="rejected"):
        pushed(root)
    assert git(remote, "rev-parse", "work") == head
    with pytest.raises(UsageError, match="cannot name a branch"):
        pushed(root, "a..b")


def test_nothing_that_repository_or_remote_configures_runs(root: Path, trap: Path) -> None:
    """Trap 19 of the plan, for a push."""
    remote = root.parent / "remote.git"
    plant(root, trap)
    for name in ("remote.origin.receivepack", "remote.origin.vcs", "http.proxy", "core.sshCommand"):
        git(root, "config", name, str(trap))
    git(root, "config", "url.ext::evil.insteadOf", str(root.parent))
    git(root, "config", "push.gpgSign", "true")
    for folder in (root / ".git", remote):
        (folder / "hooks").mkdir(exist_ok=True)
        for name in ("pre-push", "pre-receive", "update", "post-receive", "reference-transaction", "post-update"):
            (folder / "hooks" / name).write_text(trap.read_text())
            (folder / "hooks" / name).chmod(0o755)
    git(remote, "config", "core.alternateRefsCommand", str(trap))
    (root.parent / "sprung").unlink(missing_ok=True)
    head = git(root, "rev-parse", "HEAD")
    (root.parent / "sprung").unlink(missing_ok=True)
    bound = {**os.environ, "GIT_COMMON_DIR": str(root / ".git"), "GIT_WORK_TREE": str(root)}  # as in a hook of git
    push_commit(root / ".git", head, str(remote), "work", bound)
    assert not is_sprung(trap)
    assert git(remote, "rev-parse", "work") == head


def test_where_a_push_would_go_is_what_the_remote_says_and_nothing_else(root: Path) -> None:
    git(root, "config", "remote.origin.pushurl", "https://evil.example/x.git")
    with pytest.raises(UsageError, match=r"elsewhere: https://evil\.example.*--url"):
        remote_address(root / ".git", "origin")
    git(root, "config", "--unset", "remote.origin.pushurl")
    git(root, "config", "--add", "remote.origin.url", "https://evil.example/x.git")
    with pytest.raises(UsageError, match="more than one"):
        remote_address(root / ".git", "origin")
    with pytest.raises(UsageError, match="no address"):
        remote_address(root / ".git", "never")


@pytest.mark.parametrize(
    "url", ["ext::sh -c x", "--upload-pack=x", "fd::3", "a b:c", "relative/path", "x\n", "", "evil::/x"]
)
def test_what_would_run_a_program_is_no_address(url: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        check_address(url)


def test_only_addresses_of_a_host_name_a_repository() -> None:
    for url in ("https://github.com/o/r.git", "git@github.com:o/r.git", "ssh://git@github.com:22/o/r"):
        check_address(url)
        assert web_repository(url) == "github.com/o/r"
    assert web_repository("/srv/r.git") == web_repository("https://github.com/o") == ""
