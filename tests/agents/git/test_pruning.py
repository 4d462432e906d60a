"""What was kept for sessions that are over goes by proof alone, after the journal has it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.git.pruning import JOURNAL, KeptRef, attic_loss, kept_refs, proof_of, prune_attic, prune_ref
from interlock.agents.git.running import GitFailed
from interlock.agents.git.snapshot import TreeSnapshots, ref_of
from tests.agents.git.repositories import git, new_repository

OWNER = "ses_0123456789"
_SCRIPT: Final = """
import os, shutil, signal, sys
from pathlib import Path
from interlock.agents.git import pruning, running

left = int(sys.argv[1])
def deadly(work):
    def call(*given, **named):
        global left
        for at in (0, 1):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            done = done if at else work(*given, **named)
        return done
    return call

running._call = deadly(running._call)
Path.rename, shutil.rmtree, os.write, os.fsync = map(deadly, (Path.rename, shutil.rmtree, os.write, os.fsync))
common, attic, source, journal = map(Path, sys.argv[2:])
for ref in pruning.kept_refs(common):
    why = pruning.proof_of(ref, is_purged=False)
    if why:
        pruning.prune_ref(ref, journal, "ses_0123456789", why)
for folder in pruning.attic_folders(attic):
    if not pruning.attic_loss(folder, source):
        pruning.prune_attic(folder, source, journal, "ses_0123456789")
"""


def kept(root: Path, owner: str = OWNER) -> KeptRef:
    from interlock.agents.git.repository import find_repository

    TreeSnapshots().take(find_repository(root), ref_of(owner))
    (found,) = (one for one in kept_refs(root / ".git") if one.name == ref_of(owner))
    return found


def test_a_ref_goes_only_with_a_proof_and_its_objects_can_be_collected(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="one\n")
    (root / "b.txt").write_text("work\n")
    ref = kept(root)
    blob = git(root, "rev-parse", f"{ref.name}:b.txt")
    assert proof_of(ref, is_purged=False) == ""
    assert proof_of(ref, is_purged=True) == "its session was purged"
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")
    assert proof_of(ref, is_purged=False) == "its files are those of refs/heads/main"
    git(root, "commit", "-q", "--allow-empty", "-m", "more")
    (root / "c.txt").write_text("c\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "went on")
    assert proof_of(ref, is_purged=False) == ""
    merges = [(git(root, "rev-parse", "HEAD~2"), git(root, "rev-parse", "HEAD"))]
    assert "were merged as" in proof_of(ref, is_purged=False, merges=merges)
    git(root, "reset", "-q", "--hard", "HEAD~3")
    assert proof_of(ref, is_purged=False, merges=merges) == ""
    git(root, "reflog", "expire", "--expire=all", "--all")
    git(root, "gc", "-q", "--prune=now")
    assert git(root, "cat-file", "-t", blob) == "blob"
    prune_ref(ref, tmp_path / JOURNAL, OWNER, "its session was purged")
    assert kept_refs(root / ".git") == ()
    (line,) = (tmp_path / JOURNAL).read_text().splitlines()
    assert json.loads(line)["commit"] == ref.object_id
    git(root, "update-ref", ref.name, ref.object_id)  # what the journal has brings it back
    git(root, "update-ref", "-d", ref.name)
    git(root, "gc", "-q", "--prune=now")
    assert subprocess.run(("git", "cat-file", "-e", blob), cwd=root, check=False, capture_output=True).returncode != 0


def test_what_a_removal_set_aside_stays_although_its_session_was_purged(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="one\n")
    tree = git(root, "commit-tree", "-m", "lost", git(root, "mktree", "--missing"))
    git(root, "update-ref", f"refs/interlock/removed/{OWNER}/files", tree)
    git(root, "update-ref", f"refs/interlock/removed/{OWNER}/branch", "HEAD")
    branch, files = kept_refs(root / ".git")
    assert proof_of(files, is_purged=True) == ""
    assert proof_of(branch, is_purged=True) == "its commit is in refs/heads/main"


def test_a_ref_that_moved_since_the_proof_stays(tmp_path: Path) -> None:
    root = tmp_path / "project"
    new_repository(root, a_txt="one\n")
    ref = kept(root)
    (root / "a.txt").write_text("two\n")
    later = kept(root)
    with pytest.raises(GitFailed):
        prune_ref(ref, tmp_path / JOURNAL, OWNER, "its session was purged")
    assert kept_refs(root / ".git") == (later,)


def test_a_folder_of_the_attic_goes_only_if_the_source_has_every_file_of_it(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "attic" / f"it-{OWNER}"
    for place in (source, folder):
        (place / "sub").mkdir(parents=True)
        (place / "sub" / "x.db").write_text("rows\n")
    (folder / "link").symlink_to(tmp_path)
    assert attic_loss(folder, source) == "link"
    (folder / "link").unlink()
    (folder / "sub" / "x.db").write_text("more\n")
    assert attic_loss(folder, source) == "sub/x.db"
    assert not prune_attic(folder, source, tmp_path / JOURNAL, OWNER)
    assert (folder / "sub" / "x.db").read_text() == "more\n"
    (source / "sub" / "x.db").write_text("more\n")
    assert prune_attic(folder, source, tmp_path / JOURNAL, OWNER)
    assert list(folder.parent.iterdir()) == []


@pytest.mark.deep
def test_killed_at_any_step_nothing_is_lost_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """Trap 22 of the plan, for what is pruned."""
    for step in range(1, 200):
        folder = tmp_path / str(step)
        root, attic, journal = folder / "project", folder / "attic", folder / JOURNAL
        new_repository(root, a_txt="one\n", _gitignore="*.db\n")
        (root / "x.db").write_text("rows\n")
        for name, content in (("gone", "rows\n"), ("stays", "mine\n")):
            (attic / f"{name}-{OWNER}").mkdir(parents=True)
            (attic / f"{name}-{OWNER}" / "x.db").write_text(content)
        merged = kept(root)
        (root / "b.txt").write_text("work\n")
        lossy = kept(root, "ses_other")
        command = [sys.executable, "-c", _SCRIPT]
        places = [str(one) for one in (root / ".git", attic, root, journal)]
        done = subprocess.run([*command, str(step), *places], check=False, timeout=120, capture_output=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        told = journal.read_text() if journal.exists() else ""
        assert merged in kept_refs(root / ".git") or merged.object_id in told
        if done.returncode:
            subprocess.run([*command, "0", *places], check=True, timeout=120, capture_output=True)
        assert kept_refs(root / ".git") == (lossy,)
        assert [one.name for one in attic.iterdir()] == [f"stays-{OWNER}"]
        assert git(root, "show", f"{lossy.name}:b.txt") == "work"
        if not done.returncode:
            assert step > 10
            return
    raise AssertionError("it never got to its end")
