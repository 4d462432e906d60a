"""One file is put back, if it is what is expected; whatever else is there is left alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.agents.git.comparing import compare
from interlock.agents.git.repository import Repository
from interlock.agents.git.restoring import FileEntry, NotRestored, restore_file
from interlock.agents.git.snapshot import TreeSnapshots
from tests.agents.git.repositories import new_repository

REF = "refs/interlock/sessions/ses_a"


def put_back(repository: Repository, before: str, after: str, path: str) -> None:
    with repository.objects() as objects:
        change = next(one for one in compare(objects, before, after) if one.path == path)
        restore_file(
            objects,
            repository.root,
            change.raw_path,
            expected=FileEntry(change.mode_after, change.after),
            wanted=FileEntry(change.mode_before, change.before),
        )


def changed(repository: Repository, change: Callable[[], object]) -> tuple[str, str]:
    """The trees before and after a change."""
    snapshots = TreeSnapshots()
    before = snapshots.take(repository, REF).tree
    change()
    return before, snapshots.take(repository, REF).tree


def test_modes_links_and_folders_come_back(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "p", run_sh="#!/bin/sh\n", plain_txt="x\n")
    root = repository.root
    (root / "run.sh").chmod(0o750)
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "f.txt").write_text("deep\n")
    (root / "link").symlink_to("plain.txt")
    (root / "plain.txt").chmod(0o600)

    def change() -> None:
        (root / "run.sh").chmod(0o640)
        (root / "deep" / "er" / "f.txt").unlink()
        (root / "deep" / "er").rmdir()
        (root / "deep").rmdir()
        (root / "link").unlink()
        (root / "link").write_text("no link any more\n")
        (root / "plain.txt").write_text("y\n")

    before, after = changed(repository, change)
    for path in ("run.sh", "deep/er/f.txt", "link", "plain.txt"):
        put_back(repository, before, after, path)
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert (root / "deep" / "er" / "f.txt").read_text() == "deep\n"
    assert os.readlink(root / "link") == "plain.txt"  # noqa: PTH115
    assert ((root / "plain.txt").read_text(), stat.S_IMODE((root / "plain.txt").stat().st_mode)) == ("x\n", 0o600)
    assert TreeSnapshots().take(repository, REF).tree == before
    assert not list(root.rglob(".interlock-*"))


def over(root: Path, made: Callable[[Path], object]) -> Callable[[], object]:
    def work() -> None:
        (root / "d" / "a.txt").unlink()
        made(root / "d" / "a.txt")

    return work


def standing(file: Path) -> tuple[object, ...] | None:
    """All that a look at a file leaves as it was: when it was read last is not of that."""
    if not os.path.lexists(file):
        return None
    found = os.lstat(file)
    return (*found[:7], found.st_mtime_ns, found.st_ctime_ns)


@pytest.mark.parametrize(
    "made",
    [
        lambda file: file.write_text("by a person\n"),
        lambda file: file.mkdir(),
        lambda file: file.symlink_to("/etc/passwd"),
        lambda file: os.mkfifo(file),
        lambda file: file,
        lambda file: (file.write_text("turn\n"), file.chmod(0o755)),
    ],
    ids=["content", "folder", "link", "pipe", "gone", "mode"],
)
def test_what_is_not_what_the_turn_left_is_left_alone(tmp_path: Path, made: Callable[[Path], object]) -> None:
    repository = new_repository(tmp_path / "p")
    file = repository.root / "d" / "a.txt"
    file.parent.mkdir()
    file.write_text("one\n")
    before, after = changed(repository, lambda: file.write_text("turn\n"))
    over(repository.root, made)()
    there = standing(file)
    with pytest.raises(NotRestored, match=r"d/a\.txt (changed since|is not there now)"):
        put_back(repository, before, after, "d/a.txt")
    assert standing(file) == there
    assert {one.name for one in file.parent.iterdir()} <= {"a.txt"}


def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "p")
    folder, outside = repository.root / "d", tmp_path / "outside"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    before, after = changed(repository, lambda: (folder / "a.txt").write_text("turn\n"))
    folder.rename(outside)
    folder.symlink_to(outside)
    with pytest.raises(NotRestored, match="is no folder now"):
        put_back(repository, before, after, "d/a.txt")
    assert (outside / "a.txt").read_text() == "turn\n"


def test_a_file_that_changes_in_that_moment_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = new_repository(tmp_path / "p", a_txt="one\n")
    file = repository.root / "a.txt"
    before, after = changed(repository, lambda: file.write_text("turn\n"))
    link = os.link

    def linked(*given: object, **more: object) -> None:
        link(*given, **more)  # type: ignore[arg-type]
        file.write_text("saved in that moment\n")

    monkeypatch.setattr(os, "link", linked)
    with pytest.raises(NotRestored, match="in this moment"):
        put_back(repository, before, after, "a.txt")
    assert file.read_text() == "saved in that moment\n"
    assert [one.name for one in repository.root.iterdir() if one.name != ".git"] == ["a.txt"]
