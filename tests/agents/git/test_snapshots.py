"""Snapshots of work trees against plain git on copies: the same trees, the same differences, and nothing touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.agents.git.comparing import compare, damage_of
from interlock.agents.git.looking import LookLimits, TooMuch, look_at_one
from interlock.agents.git.repository import find_repository
from interlock.agents.git.snapshot import TreeSnapshots, ref_of
from tests.agents.git.repositories import git, new_repository, without_rights_of_root
from tests.effort import examples

REF: Final = ref_of("ses_1")
NAMES: Final = ("a.txt", "b.txt", "dir/c.txt", "dir/deep/d", 'odd "name"\n\\', "ünïcode", "-dash", "ignored.log", "dir")

paths = st.sampled_from(NAMES)
edits = st.one_of(
    st.tuples(st.just("write"), paths, st.sampled_from([b"", b"x\n", b"x\r\n", b"\0\xff", b"longer\nlines\n"])),
    st.tuples(st.just("delete"), paths, st.just(b"")),
    st.tuples(st.just("rename"), paths, paths.map(os.fsencode)),
    st.tuples(st.just("mode"), paths, st.just(b"")),
    st.tuples(st.just("link"), paths, st.sampled_from([b"a.txt", b"/nowhere", b"dir"])),
    st.tuples(st.just("stage"), paths, st.just(b"")),
    st.tuples(st.just("commit"), paths, st.just(b"")),
    st.tuples(st.just("clone"), paths, st.just(b"")),
)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make_room(root: Path, path: Path) -> None:
    """What stands in the way of a file goes."""
    for parent in reversed(path.relative_to(root).parents):
        place = root / parent
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            place.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    remove(path)


def edit(root: Path, what: str, name: str, detail: bytes) -> None:
    path = root / name
    match what:
        case "write":
            make_room(root, path)
            path.write_bytes(detail)
        case "link":
            make_room(root, path)
            path.symlink_to(os.fsdecode(detail))
        case "delete" if os.path.lexists(path):
            remove(path)
        case "rename" if path.is_file() and os.fsdecode(detail) != name:
            content = path.read_bytes()
            make_room(root, root / os.fsdecode(detail))
            (root / os.fsdecode(detail)).write_bytes(content)
            path.unlink(missing_ok=True)
        case "mode" if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ 0o100)
        case "stage":
            git(root, "add", "-A")
        case "commit":
            git(root, "add", "-A")
            git(root, "commit", "-q", "--allow-empty", "-m", "more")
        case "clone" if not (root / "nested").exists():
            new_repository(root / "nested")
        case _:
            pass


def by_plain_git(root: Path) -> tuple[str, Path]:
    """The tree that plain git makes of a copy, which it is left in."""
    copy = Path(tempfile.mkdtemp(dir=root.parent)) / "copy"
    shutil.copytree(root, copy, symlinks=True)
    shutil.rmtree(copy / "nested", ignore_errors=True)
    git(copy, "rm", "-rq", "--cached", "--ignore-unmatch", "nested")
    git(copy, "add", "-A")
    return git(copy, "write-tree"), copy


def state_of(root: Path) -> tuple[bytes, str, str]:
    return (root / ".git" / "index").read_bytes(), git(root, "rev-parse", "HEAD"), git(root, "stash", "list")


@settings(max_examples=examples(12, 100))
@given(turns=st.lists(st.lists(edits, max_size=6), min_size=1, max_size=4))
def test_trees_and_differences_are_those_of_plain_git(turns: list[list[tuple[str, str, bytes]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "repository")
        repository = new_repository(root, a_txt="a\n", b_txt="b\r\n", _gitignore="*.log\n")
        snapshots, before, copies = TreeSnapshots(), "", list[tuple[str, Path]]()
        for turn in turns:
            for one in turn:
                edit(root, *one)
            untouched = state_of(root)
            taken = snapshots.take(repository, REF)
            assert state_of(root) == untouched
            expected, copy = by_plain_git(root)
            assert taken.tree == expected
            assert ((root / "nested").exists()) == bool({b"nested", b"nested/"} & taken.not_kept.keys())
            if before:
                listed = git(copy, "diff-tree", "-r", "-z", "--name-status", "--no-renames", before, expected)
                with repository.objects() as objects:
                    found = compare(objects, before, expected)
                assert "\0".join(f"{one.change}\0{one.path}" for one in found) == listed.removesuffix("\0")
            before = expected
            copies.append((expected, copy))
        with repository.objects() as objects:
            assert damage_of(objects, repository.resolve(REF), before) == ""
        commits = git(root, "rev-list", REF).split()
        assert {git(root, "rev-parse", f"{one}^{{tree}}") for one in commits} == {tree for tree, _ in copies}


def test_a_file_within_a_tick_of_the_clock_is_read_again(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "repository")
    file, snapshots = repository.root / "a.txt", TreeSnapshots()
    first = snapshots.take(repository, REF)
    before = file.stat()
    with file.open("r+b") as same:
        same.write(b"b\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert snapshots.take(repository, REF).tree != first.tree


def test_what_changed_after_the_moment_is_told_and_a_file_that_went_too(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "repository", a_txt="a\n", b_txt="b\n")
    (repository.root / "dir").mkdir()
    (repository.root / "dir" / "c").write_text("c")
    snapshots = TreeSnapshots()
    snapshots.take(repository, REF)
    newest = max(one.lstat().st_ctime_ns for one in (repository.root, *repository.root.rglob("*")))
    assert snapshots.take(repository, REF, since_ns=newest + 1).changed_after == ()
    (repository.root / "dir" / "c").unlink()
    gone_at = (repository.root / "dir").stat().st_mtime_ns
    assert snapshots.take(repository, REF, since_ns=gone_at).changed_after == (b"dir/c",)


def test_what_cannot_be_kept_is_named_and_never_taken_for_deleted(tmp_path: Path) -> None:
    """Trap 20 of the plan: a nested clone."""
    repository = new_repository(tmp_path / "repository", a_txt="a\n", b_txt="b\n")
    snapshots = TreeSnapshots(LookLimits(file_bytes=100))
    first = snapshots.take(repository, REF)
    (repository.root / "a.txt").write_text("x" * 101)
    (repository.root / "b.txt").unlink()
    os.mkfifo(repository.root / "b.txt")
    taken = snapshots.take(repository, REF)
    assert taken.not_kept == {b"a.txt": "larger than 100 bytes", b"b.txt": "no regular file"}
    assert taken.tree == first.tree
    other = new_repository(tmp_path / "other")
    (other.root / "new").write_text("more than a byte")
    with pytest.raises(TooMuch):
        TreeSnapshots(LookLimits(total_bytes=1)).take(other, REF)


def test_a_folder_that_cannot_be_read_is_named_and_what_was_in_it_is_not_taken_for_deleted() -> None:
    """Trap 20 of the plan."""
    with without_rights_of_root() as folder:
        repository = new_repository(folder / "repository")
        closed, never_open = repository.root / "closed", repository.root / "never-open"
        for one in (closed, never_open):
            one.mkdir()
            (one / "new").write_text("new\n")
        never_open.chmod(0)
        snapshots = TreeSnapshots()
        first = snapshots.take(repository, REF)
        assert first.not_kept == {b"never-open/": "a folder that cannot be read"}
        closed.chmod(0)
        taken = snapshots.take(repository, REF)
        assert taken.tree == first.tree
        assert {b"closed/", b"closed/new", b"never-open/"} == set(taken.not_kept)
        for one in (closed, never_open):
            one.chmod(0o700)


def test_what_is_in_the_folder_of_a_submodule_that_is_not_checked_out_is_named(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "repository")
    git(repository.root, "update-index", "--add", "--cacheinfo", f"160000,{repository.head},module")
    (repository.root / "module").mkdir()
    assert TreeSnapshots().take(repository, REF).not_kept == {}
    (repository.root / "module" / "new").write_text("git lists it nowhere\n")
    assert TreeSnapshots().take(repository, REF).not_kept == {b"module": "submodule or nested repository"}


def test_objects_that_somebody_pruned_are_written_again(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "repository")
    snapshots = TreeSnapshots()
    (repository.root / "new").write_text("untracked\n")
    snapshots.take(repository, REF)
    git(repository.root, "update-ref", "-d", REF)
    git(repository.root, "gc", "--prune=now", "-q")
    (repository.root / "another").write_text("too\n")
    taken = snapshots.take(repository, REF)
    with repository.objects() as objects:
        assert damage_of(objects, taken.commit, taken.tree) == ""


def test_a_linked_work_tree_is_looked_at_by_itself(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "repository")
    git(repository.root, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    linked = find_repository(tmp_path / "linked")
    (linked.root / "new").write_text("x")
    assert (linked.common, linked.branch) == (repository.common, "other")
    taken = TreeSnapshots().take(linked, REF)
    assert "new" in git(repository.root, "ls-tree", "--name-only", taken.tree).split()
    assert look_at_one(linked, b"new") == git(repository.root, "ls-tree", taken.tree, "new").split("\t")[0]


KILLER = """\
#!/bin/sh
count=$(cat "$0.count"); count=$((count - 1)); echo $count > "$0.count"
if [ $count -le 0 ]; then kill -9 $PPID; exit 1; fi
exec {git} "$@"
"""
TAKE = """\
import sys
from interlock.agents.git.repository import find_repository
from interlock.agents.git.snapshot import TreeSnapshots
TreeSnapshots().take(find_repository(sys.argv[1]), sys.argv[2])
print("taken")
"""


def test_killed_at_any_call_of_git_nothing_is_lost_and_the_next_snapshot_is_whole(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    repository = new_repository(root)
    (root / "new").write_text("untracked\n")
    git(root, "add", "a.txt")
    untouched, expected = state_of(root), by_plain_git(root)[0]
    killer = tmp_path / "bin" / "git"
    killer.parent.mkdir()
    killer.write_text(KILLER.format(git=shutil.which("git")))
    killer.chmod(0o755)
    environment = {**os.environ, "PATH": f"{killer.parent}{os.pathsep}{os.environ['PATH']}"}
    for step in range(1, 30):
        (killer.parent / "git.count").write_text(str(step))
        command = [sys.executable, "-c", TAKE, str(root), REF]
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=100)
        assert state_of(root) == untouched
        git(root, "fsck", "--strict")
        kept = repository.resolve(REF)
        assert not kept or git(root, "rev-parse", f"{kept}^{{tree}}") == expected
        if done.stdout == b"taken\n":
            break
    else:
        pytest.fail("it never came to an end")
    assert step > 5
    assert TreeSnapshots().take(repository, REF).tree == expected
