"""`interlock debug profiles`: which screens are known, from where, and whether a file is a good profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.agents.profiles import builtin_profiles
from tests.cli.harness import interlock
from tests.cli.recordings import configured
from tests.screen.tiny import TINY


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return configured(tmp_path)


def test_ones_own_are_listed_before_those_that_ship(env: dict[str, str]) -> None:
    done = interlock("profiles", "--json", env=env)
    assert done.returncode == 0, done.stderr
    first, *rest = json.loads(done.stdout)["profiles"]
    assert (first["id"], first["source"], first["versions"]) == ("tiny-1", "yours", "from 1.0 before 2.0")
    assert [one["id"] for one in rest] == [profile.id for profile in builtin_profiles()]
    assert {one["source"] for one in rest} == {"built in"}


def test_the_table_says_where_ones_own_are_read_from(env: dict[str, str]) -> None:
    done = interlock("profiles", env=env)
    assert done.returncode == 0
    assert done.stdout.split()[:4] == ["PROFILE", "CLI", "VERSIONS", "RULES"]
    assert f"{env['XDG_CONFIG_HOME']}/interlock/profiles" in done.stdout


def test_a_file_can_be_checked_without_being_installed(tmp_path: Path, env: dict[str, str]) -> None:
    path = tmp_path / "draft.toml"
    path.write_text(TINY.replace("tiny-1", "draft-1"), encoding="utf-8")
    done = interlock("profiles", str(path), "--json", env=env)
    (one,) = json.loads(done.stdout)["profiles"]
    assert (one["id"], one["source"]) == ("draft-1", str(path))


def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, env: dict[str, str]) -> None:
    path = tmp_path / "draft.toml"
    path.write_text(TINY + '\n[[rule]]\nid = "x"\nstate = "resting"\nwhen = []\n', encoding="utf-8")
    done = interlock("profiles", str(path), env=env)
    assert (done.returncode, done.stdout) == (2, "")
    line = TINY.count("\n") + 4
    assert f"{path}:{line}: rule[5].state: Invalid enum value 'resting'" in done.stderr


def test_a_broken_profile_of_ones_own_stops_what_would_read_by_it(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "config/interlock/profiles/bad.toml").write_text("id = 5\n", encoding="utf-8")
    for command in (("profiles",), ("track", "none.ndjson")):
        done = interlock(*command, env=env)
        assert done.returncode == 2
        assert "bad.toml:1: " in done.stderr
