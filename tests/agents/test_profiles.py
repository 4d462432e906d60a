"""The profiles on this machine: a user's own win, a broken one is refused, and those that ship are good."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.profiles import builtin_profiles, load_profiles, read_profile_file, user_profiles_folder
from interlock.screen.profile import Profile
from interlock.screen.selection import select_reader
from interlock.vocabulary.errors import UsageError
from tests.screen.tiny import TINY


def test_a_users_own_come_first(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(TINY.replace("tiny-1", "mine-b"), encoding="utf-8")
    (tmp_path / "a.toml").write_text(TINY.replace("tiny-1", "mine-a"), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no profile", encoding="utf-8")
    found = load_profiles(tmp_path)
    assert [profile.id for profile in found[:2]] == ["mine-a", "mine-b"]
    assert found[2:] == builtin_profiles()
    assert select_reader(found, "tiny", "1.5").profile.id == "mine-a"


def test_no_folder_is_no_profile_of_ones_own(tmp_path: Path) -> None:
    assert load_profiles(tmp_path / "none") == builtin_profiles()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'id = "x"\n', "mine.toml:1: Object missing required field"),
        (b"\xff\xfe", "mine.toml: not UTF-8"),
        (b"x" * ((1 << 20) + 1), "mine.toml: a profile has at most 1048576 bytes"),
    ],
)
def test_a_broken_one_is_refused_by_its_file(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(UsageError) as refused:
        load_profiles(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path}/{says}")


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_profile_file(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("base", "folder"), [("/etc/x", "/etc/x"), ("", "/home/me/.config"), ("not/absolute", "/home/me/.config")]
)
def test_the_folder_is_where_configuration_lives(monkeypatch: pytest.MonkeyPatch, base: str, folder: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", base)
    monkeypatch.setenv("HOME", "/home/me")
    assert user_profiles_folder() == Path(folder) / "interlock" / "profiles"


@pytest.mark.parametrize("profile", builtin_profiles(), ids=lambda profile: profile.id)
def test_a_profile_that_ships_says_whom_it_reads_and_by_which_rules(profile: Profile) -> None:
    ids = [rule.id for rule in profile.rules]
    assert len(ids) == len(set(ids))
    assert profile.title
    assert profile.version_pattern is not None


def test_no_two_profiles_that_ship_share_an_id() -> None:
    ids = [profile.id for profile in builtin_profiles()]
    assert len(ids) == len(set(ids))
