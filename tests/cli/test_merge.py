"""`interlock merge` with a real server: a branch takes the work of a session in, all of it or nothing."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.testing.scripted_agent import command, write_program
from tests.agents.git.repositories import git, new_repository
from tests.cli.serving import STREAM, Served, serving
from tests.cli.test_worktrees import opened, phases, stopped


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("merges")) as one:
        write_program(one.folder / "agent", command(STREAM, gates=one.folder / "gates", lifetime_seconds=300))
        yield one


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_repository(tmp_path / "project", a_txt="one\n", b_txt="two\n")
    return tmp_path / "project"


def begun(served: Served, root: Path, name: str) -> tuple[str, Path]:
    task = opened(served, root, "say hello", name=name)
    served.shows(str(task["task_id"]), status="COMPLETED")
    return str(task["task_id"]), Path(task["worktree"]["path"])


def test_work_is_committed_merged_and_then_its_worktree_goes(served: Served, root: Path) -> None:
    task_id, tree = begun(served, root, "whole")
    (tree / "a.txt").write_text("work\n")
    refused = served.cli("merge", task_id)
    assert (refused.returncode, "a.txt" in refused.stderr, "--commit" in refused.stderr) == (2, True, True)
    done = served.json("merge", task_id, "--commit", "-m", "The work")
    assert (done["target"], done["is_merged"], done["checkout"]) == ("main", True, str(root))
    assert git(root, "rev-parse", "main") == done["after"] == git(tree, "rev-parse", "HEAD")
    assert (git(root, "log", "-1", "--format=%s"), (root / "a.txt").read_text()) == ("The work", "work\n")
    assert "has it all already" in served.cli("merge", task_id).stdout
    assert phases(served, task_id) == ["planned", "created", "merging", "merged"]
    stopped(served, task_id)
    assert served.cli("worktree", "rm", task_id).returncode == 0
    assert git(root, "branch", "--format=%(refname:short)") == "main"


def test_squashed_work_counts_as_merged(served: Served, root: Path) -> None:
    task_id, tree = begun(served, root, "squashed")
    for text in ("first\n", "second\n"):
        (tree / "a.txt").write_text(text)
        git(tree, "commit", "-q", "-am", text)
    (root / "b.txt").write_text("meanwhile\n")
    git(root, "commit", "-q", "-am", "meanwhile")
    refused = served.cli("merge", task_id)
    assert (refused.returncode, "--squash" in refused.stderr) == (2, True)
    assert served.cli("merge", task_id, "--squash", "-m", "Both").returncode == 0
    assert (git(root, "log", "-1", "--format=%s"), git(root, "rev-list", "--count", "main")) == ("Both", "3")
    stopped(served, task_id)
    done = served.json("worktree", "rm", task_id)
    assert done["is_removed"]
    assert "interlock/squashed" not in git(root, "branch")


def test_conflicts_have_a_code_of_their_own_and_change_nothing(served: Served, root: Path) -> None:
    task_id, tree = begun(served, root, "conflict")
    (tree / "a.txt").write_text("theirs\n")
    git(tree, "commit", "-q", "-am", "theirs")
    (root / "a.txt").write_text("ours\n")
    git(root, "commit", "-q", "-am", "ours")
    before = git(root, "rev-parse", "main")
    told = served.cli("merge", task_id, "--squash")
    assert (told.returncode, "a.txt" in told.stdout) == (3, True)
    assert (git(root, "rev-parse", "main"), git(root, "status", "--short")) == (before, "")
    (root / "b.txt").write_text("not committed\n")
    git(root, "reset", "-q", "--soft", "HEAD~1")
    refused = served.cli("merge", task_id)
    assert (refused.returncode, "not clean" in refused.stderr) == (2, True)
    assert (root / "b.txt").read_text() == "not committed\n"


def test_a_branch_for_a_pull_request_is_made_and_not_pushed(served: Served, root: Path) -> None:
    task_id, tree = begun(served, root, "pull")
    (tree / "a.txt").write_text("work\n")
    git(tree, "commit", "-q", "-am", "work")
    told = served.json("merge", task_id, "--branch", "feature/pull")
    assert told["push"] == f"git -C {tree} push -u origin feature/pull"
    assert git(root, "rev-parse", "feature/pull") == git(tree, "rev-parse", "HEAD")
    assert git(root, "rev-parse", "main") != git(tree, "rev-parse", "HEAD")
    assert served.cli("merge", task_id, "--branch", "feature/pull").returncode == 2
    assert served.cli("merge", task_id, "--branch", "x", "--squash").returncode == 2
    stopped(served, task_id)
    assert served.json("worktree", "rm", task_id)["is_removed"]  # kept by the new branch


def test_an_open_turn_is_waited_for(served: Served, root: Path) -> None:
    task = opened(served, root, "gate wait; say hello", name="open")
    task_id = str(task["task_id"])
    served.shows(task_id, status="RUNNING")
    refused = served.cli("merge", task_id)
    assert (refused.returncode, f"interlock wait {task_id}" in refused.stderr) == (2, True)
    served.gates.open("wait")
    stopped(served, task_id)


def test_work_is_pushed_for_a_pull_request_which_gh_opens_or_a_command_that_is_printed(
    served: Served, root: Path
) -> None:
    task_id, tree = begun(served, root, "asked")
    git(root.parent, "init", "-q", "--bare", "remote.git")
    remote = root.parent / "remote.git"
    git(root, "remote", "add", "origin", str(remote))
    (tree / "a.txt").write_text("work\n")
    refused = served.cli("worktree", "pr", task_id, "--yes")
    assert (refused.returncode, "--commit" in refused.stderr) == (2, True)
    assert (served.cli("worktree", "pr", task_id).returncode, git(remote, "branch")) == (2, "")  # nobody to ask
    done = served.json("worktree", "pr", task_id, "--commit", "-m", "Work", "--yes")
    assert (done["branch"], done["address"], done["command"]) == ("interlock/asked", str(remote), None)
    assert git(remote, "rev-parse", "interlock/asked") == done["commit"] == git(tree, "rev-parse", "HEAD")
    assert git(root, "rev-parse", "origin/interlock/asked") == done["commit"]
    git(root, "config", "remote.origin.pushurl", "https://evil.example/x")
    refused = served.cli("worktree", "pr", task_id, "--yes")
    assert (refused.returncode, "--url" in refused.stderr) == (2, True)
    # A host that gh knows: the user's own configuration says where it is.
    own = root.parent / "gitconfig"
    own.write_text(f"[url {str(root.parent)!r}]\n\tinsteadOf = https://github.com/me\n".replace("'", '"'))
    named = ("worktree", "pr", task_id, "--url", "https://github.com/me/remote.git", "--title", "It's it", "--yes")
    bare = root.parent / "bin"
    bare.mkdir()
    (bare / "git").symlink_to(str(shutil.which("git")))
    told = served.cli(*named, PATH=str(bare), GIT_CONFIG_GLOBAL=str(own))
    assert told.returncode == 0, told.stderr
    words = shlex.split(told.stdout.splitlines()[-1])
    assert words[:5] == ["gh", "pr", "create", "--repo", "github.com/me/remote"]
    assert words[words.index("--title") + 1] == "It's it"
    (bare / "gh").write_text(
        f'#!/bin/sh\necho "$@" > {bare}/told\nls -a > {bare}/here\necho https://github.com/me/remote/1\n'
    )
    (bare / "gh").chmod(0o755)
    told = served.cli(*named, "--into", "next", PATH=f"{bare}:/usr/bin:/bin", GIT_CONFIG_GLOBAL=str(own))
    assert (told.returncode, "https://github.com/me/remote/1" in told.stdout) == (0, True), told.stderr
    assert "--repo github.com/me/remote --base next --head interlock/asked" in (bare / "told").read_text()
    assert (bare / "here").read_text().split() == [".", ".."]
    (bare / "gh").write_text("#!/bin/sh\necho no login >&2; exit 4\n")
    told = served.cli(*named, PATH=f"{bare}:/usr/bin:/bin", GIT_CONFIG_GLOBAL=str(own))
    assert (told.returncode, "no login" in told.stdout, "gh pr create" in told.stdout) == (3, True, True)
    stopped(served, task_id)
    assert served.cli("worktree", "rm", task_id).returncode == 0  # the remote has its commits
