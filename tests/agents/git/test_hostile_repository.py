"""A repository whose configuration would run programs: looking at it, keeping it and comparing it runs none of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from interlock.agents.git.comparing import compare, damage_of, entry_at, patch
from interlock.agents.git.repository import NoRepository, OddRepository, find_repository
from interlock.agents.git.running import Git, GitFailed
from interlock.agents.git.snapshot import TreeSnapshots, ref_of
from tests.agents.git.repositories import git, new_repository

REF = ref_of("ses_1")
HOOKS = ("post-index-change", "reference-transaction", "pre-commit", "post-commit", "post-checkout", "pre-auto-gc")
SETTINGS = (
    "core.fsmonitor",
    "core.sshCommand",
    "core.pager",
    "core.editor",
    "core.gitProxy",
    "core.askPass",
    "core.alternateRefsCommand",
    "pager.diff-tree",
    "pager.ls-files",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "merge.evil.driver",
    "gpg.program",
    "gpg.ssh.program",
    "credential.helper",
    "alias.ls-files",
    "alias.diff-tree",
    "uploadpack.packObjectsHook",
    "remote.evil.uploadpack",
    "trace2.eventTarget",
)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark when it runs."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/sprung'\ncat\n")
    program.chmod(0o755)
    return program


def is_sprung(trap: Path) -> str:
    mark = trap.parent / "sprung"
    return mark.read_text() if mark.exists() else ""


def plant(folder: Path, trap: Path) -> None:
    for name in SETTINGS:
        git(folder, "config", name, str(trap))
    for name in ("commit.gpgSign", "filter.evil.required", "core.untrackedCache"):
        git(folder, "config", name, "true")
    (folder / ".git" / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        (folder / ".git" / "hooks" / name).write_text(trap.read_text())
        (folder / ".git" / "hooks" / name).chmod(0o755)
    attributes = "* filter=evil diff=evil merge=evil text=auto\n"
    (folder / ".gitattributes").write_text(attributes)
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text(attributes)


def test_nothing_that_a_repository_configures_is_run(tmp_path: Path, trap: Path) -> None:
    """Trap 19 of the plan."""
    folder = tmp_path / "repository"
    new_repository(folder, a_txt="one\r\n", b_txt="two\n")
    plant(folder, trap)
    snapshots = TreeSnapshots()
    first = snapshots.take(find_repository(folder), REF)
    (folder / "a.txt").write_text("three\r\n")
    (folder / "new.txt").write_text("new\n")
    repository = find_repository(folder)
    second = snapshots.take(repository, REF)
    with repository.objects() as objects:
        assert [one.path for one in compare(objects, first.tree, second.tree)] == ["a.txt", "new.txt"]
        assert "+three" in patch(objects, first.tree, second.tree)  # neither a driver nor an attribute hides it
        assert (entry_at(objects, second.tree, "b.txt") or "").startswith("100644 blob ")
        assert damage_of(objects, second.commit, second.tree) == ""
    assert is_sprung(trap) == ""
    subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False, timeout=60)  # the traps are real
    assert is_sprung(trap) != ""


def test_a_missing_object_is_never_fetched(tmp_path: Path, trap: Path) -> None:
    folder = tmp_path / "repository"
    repository = new_repository(folder)
    lost = git(folder, "rev-parse", "HEAD:a.txt")
    (folder / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "evil",
        "remote.evil.promisor": "true",
        "remote.evil.url": f"ext::{trap} x",
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
    }.items():
        git(folder, "config", name, value)
    taken = TreeSnapshots().take(find_repository(folder), REF)  # written again, from the file that is there
    with repository.objects() as objects:
        assert damage_of(objects, taken.commit, taken.tree) == ""
        (folder / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
        assert damage_of(objects, taken.commit, taken.tree) != ""
    with pytest.raises(GitFailed):
        find_repository(folder).git.run("cat-file", "-p", lost)
    assert is_sprung(trap) == ""


def test_a_repository_that_names_another_work_tree_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "repository"
    new_repository(folder)
    (tmp_path / "home" / "secret").write_text("x")
    git(folder, "config", "core.worktree", str(tmp_path / "home"))
    with pytest.raises(OddRepository, match="another work tree"):
        find_repository(folder)


def test_a_folder_outside_of_a_repository_and_a_broken_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NoRepository) as none:
        find_repository(tmp_path)
    assert not isinstance(none.value, OddRepository)
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    with pytest.raises(OddRepository):
        find_repository(tmp_path)


def test_git_that_hangs_or_floods_is_ended(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "repository")
    git(tmp_path / "repository", "config", "include.path", str(tmp_path / "pipe"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GitFailed, match=r"more than 0\.2 s"):
        Git(repository.root).run("rev-parse", "HEAD", seconds=0.2)
    (tmp_path / "pipe").unlink()
    with pytest.raises(GitFailed, match="more than 5 bytes"):
        repository.git.run("rev-parse", "HEAD", max_bytes=5)
