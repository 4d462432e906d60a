"""The id of a home: kept over a rename, another one in a copy, taken over only where the original is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from stat import S_IMODE

import pytest

from interlock.log.home_identity import IDENTITY_FILE, copy_is_settled, look_at_home, settle_home, take_over
from interlock.log.private_file import folder_key
from interlock.vocabulary.errors import UsageError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def copy(home: Path, name: str = "copy") -> Path:
    return Path(shutil.copytree(home, home.with_name(name)))


def test_a_home_has_one_id_from_its_first_use_on(home: Path) -> None:
    assert not look_at_home(home).home_id
    first = settle_home(home)
    assert first.home_id.startswith("hom_")
    assert (first.is_copy, first.owns(first.home_id), first.owns("hom_other"), first.owns("")) == (
        False,
        True,
        False,
        True,
    )
    assert settle_home(home) == look_at_home(home) == first
    assert S_IMODE((home / IDENTITY_FILE).stat().st_mode) == 0o600


def test_a_home_that_was_renamed_is_the_same(home: Path) -> None:
    first = settle_home(home)
    moved = home.rename(home.with_name("moved"))
    assert look_at_home(moved) == first == settle_home(moved)
    assert json.loads((moved / IDENTITY_FILE).read_text())["path"] == str(moved)


def test_a_home_whose_device_has_another_number_after_a_reboot_is_the_same(home: Path) -> None:
    first = settle_home(home)
    kept = json.loads((home / IDENTITY_FILE).read_text())
    kept["folder"] = f"999:{folder_key(home).partition(':')[2]}"
    (home / IDENTITY_FILE).write_text(json.dumps(kept))
    assert settle_home(home) == first
    assert json.loads((home / IDENTITY_FILE).read_text())["folder"] == folder_key(home)


def test_a_copy_owns_nothing_of_its_original_before_and_after_it_is_opened(home: Path) -> None:
    first = settle_home(home)
    other = copy(home)
    fresh = look_at_home(other)
    assert (fresh.is_copy, fresh.copied_from, fresh.home_id) == (True, str(home), "")
    assert not fresh.owns(first.home_id)
    assert not fresh.owns("")  # a log of before there were ids tells of the original
    opened = settle_home(other)
    assert (opened.is_copy, opened.is_fresh_copy, opened.owns(opened.home_id)) == (True, True, True)
    assert not opened.owns(first.home_id)
    assert settle_home(other).is_fresh_copy  # until it was gone through: a crash in between changes nothing
    copy_is_settled(other)
    assert (settle_home(other).is_copy, settle_home(other).is_fresh_copy) == (True, False)
    assert look_at_home(home) == first


def test_a_copy_in_the_place_of_its_original_is_a_copy(home: Path) -> None:
    settle_home(home)
    away = home.rename(home.with_name("away"))
    copy(away, "home")
    assert look_at_home(home).is_copy
    assert not look_at_home(away).is_copy


@pytest.mark.parametrize("is_opened", [False, True])
def test_a_copy_takes_over_only_when_its_original_is_gone(home: Path, is_opened: bool) -> None:
    first = settle_home(home)
    other = copy(home)
    own = settle_home(other).home_id if is_opened else first.home_id
    with pytest.raises(UsageError, match=f"the original home is still at {home}"):
        take_over(other)
    shutil.rmtree(home)
    assert take_over(other) == str(home)
    taken = look_at_home(other)
    assert (taken.is_copy, taken.home_id) == (False, own)
    assert taken.owns(first.home_id)
    assert taken.owns(own)
    with pytest.raises(UsageError, match="is not a copy"):
        take_over(other)


def test_an_identity_that_cannot_be_read_owns_nothing_and_is_not_overwritten(home: Path) -> None:
    first = settle_home(home)
    (home / IDENTITY_FILE).write_text("{")
    assert not look_at_home(home).owns(first.home_id)
    assert not look_at_home(home).owns("")
    with pytest.raises(UsageError, match="cannot be understood"):
        settle_home(home)
    assert (home / IDENTITY_FILE).read_text() == "{"
