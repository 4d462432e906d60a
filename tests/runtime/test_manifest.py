"""Which files changed in a folder without git, by hashes: whole, or not at all."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.agents.git.looking import TooMuch
from interlock.log.paths import DATABASE_NAME
from interlock.runtime.workspace.manifest import ManifestLimits, Manifests, digest_of
from tests.agents.git.repositories import without_rights_of_root

NAMES = ("a", "b", "d/a", "d/e/b")
STATES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("", "one", "two")), max_size=4)


def write(root: Path, state: dict[str, str]) -> None:
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if name in state:
            (root / name).write_text(state[name])
        else:
            (root / name).unlink(missing_ok=True)


@settings(max_examples=30)
@given(st.lists(STATES, min_size=2, max_size=4))
def test_what_differs_between_two_looks_is_what_was_done(
    tmp_path_factory: pytest.TempPathFactory, states: list[dict[str, str]]
) -> None:
    root, manifests = tmp_path_factory.mktemp("plain"), Manifests()
    write(root, states[0])
    before = manifests.take(root)
    for old, new in itertools.pairwise(states):
        write(root, new)
        now = manifests.take(root)
        told = {one.path: one.change for one in now.changes_since(before)}
        words = {name: "A" if name not in old else "D" if name not in new else "M" for name in NAMES}
        assert told == {name: words[name] for name in NAMES if old.get(name) != new.get(name)}
        assert now.digest == Manifests().take(root).digest
        assert (now.digest == before.digest) is (not told)
        assert all(one.after == digest_of(root / one.path) for one in now.changes_since(before))
        before = now


def test_modes_and_links_are_told_and_nothing_is_followed(tmp_path: Path) -> None:
    root, manifests = tmp_path / "plain", Manifests()
    root.mkdir()
    (tmp_path / "outside").write_text("secret")
    (root / "a").write_text("a")
    (root / "b").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe")
    before = manifests.take(root)
    assert before.not_kept == {b"pipe": "no regular file"}
    (tmp_path / "outside").write_text("changed")
    (root / "a").chmod(0o755)
    (root / "b").unlink()
    (root / "b").write_text("b")
    assert [(one.path, one.change) for one in manifests.take(root).changes_since(before)] == [("a", "M"), ("b", "T")]


def test_other_repositories_and_homes_are_named_and_not_looked_into(tmp_path: Path) -> None:
    for name in ("inner/.git", "home"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "inner" / "x").write_text("x")
    (tmp_path / "home" / DATABASE_NAME).write_text("")
    found = Manifests().take(tmp_path)
    assert (found.files, set(found.not_kept)) == ({}, {b"inner/", b"home/"})


def test_a_folder_that_cannot_be_read_is_named_and_what_was_in_it_is_not_taken_for_deleted() -> None:
    """Trap 20 of the plan, without git."""
    with without_rights_of_root() as folder:
        (folder / "closed").mkdir()
        (folder / "closed" / "a").write_text("a")
        (folder / "b").write_text("b")
        manifests = Manifests()
        before = manifests.take(folder)
        (folder / "closed").chmod(0)
        (folder / "b").chmod(0)
        now = manifests.take(folder)
        (folder / "closed").chmod(0o700)
        assert now.changes_since(before) == ()
        assert now.not_kept == {b"closed/": "a folder that cannot be read", b"b": "Permission denied"}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (ManifestLimits(files=2), "more than 2 files"),
        (ManifestLimits(total_bytes=8), "more than 8 bytes"),
        (ManifestLimits(seconds=0), "took more than 0 s"),
    ],
)
def test_a_look_beyond_its_limits_is_no_list(tmp_path: Path, limits: ManifestLimits, said: str) -> None:
    for name in "abc":
        (tmp_path / name).write_text("four")
    with pytest.raises(TooMuch, match=said):
        Manifests(limits).take(tmp_path)


def test_a_file_within_a_tick_of_the_clock_is_read_again_and_one_that_changed_late_is_told(tmp_path: Path) -> None:
    manifests = Manifests()
    (tmp_path / "a").write_text("one")
    found = manifests.take(tmp_path)
    stamp = (tmp_path / "a").stat()
    (tmp_path / "a").write_text("two")
    os.utime(tmp_path / "a", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    now = manifests.take(tmp_path, since_ns=0)
    assert ([one.path for one in now.changes_since(found)], now.late) == (["a"], [b"a"])
    assert manifests.take(tmp_path, since_ns=time.time_ns() + 10**12).late == []
    soon = time.time_ns() + 10**12
    os.utime(tmp_path / "a", ns=(soon, soon))
    assert manifests.take(tmp_path).files[b"a"].stamp is None


def test_what_went_before_the_first_look_is_told_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    assert Manifests().take(tmp_path, since_ns=0).late == [b"./", b"d/"]
    assert Manifests().take(tmp_path, since_ns=time.time_ns() + 10**12).late == []
