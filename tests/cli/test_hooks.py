"""`interlock hooks`: what it changes, what it says, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import interlock

CLIS = [("claude", "settings.json", b'{\n  "model": "opus"\n}\n'), ("codex", "config.toml", b'model = "x" # mine')]


@pytest.mark.parametrize(("cli", "name", "before"), CLIS)
def test_hooks_are_installed_shown_and_taken_out_again(cli: str, name: str, before: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(before)
    where = (cli, "--config-dir", str(tmp_path), "--json")
    assert interlock("hooks", "status", *where).returncode == 1
    installed = interlock("hooks", "install", *where)
    told = json.loads(installed.stdout)
    assert (installed.returncode, told["installation"], told["changed"], told["missing"]) == (0, "installed", True, [])
    assert Path(told["backup"]).read_bytes() == before
    again = interlock("hooks", "install", *where)
    assert json.loads(again.stdout)["changed"] is False
    status = interlock("hooks", "status", *where)
    assert (status.returncode, json.loads(status.stdout)["events"]) == (0, told["events"])
    assert bool(told["notes"]) is (cli == "codex")  # it runs none before a person trusts them
    gone = interlock("hooks", "uninstall", *where)
    assert (gone.returncode, json.loads(gone.stdout)["installation"]) == (0, "absent")
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_a_malformed_file_is_a_usage_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{"a": 1, // no\n}')
    done = interlock("hooks", "install", "claude", "--config-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}: the settings are not JSON" in done.stderr
    assert path.read_bytes() == b'{"a": 1, // no\n}'


def test_for_a_person_it_says_where_what_and_what_is_left_to_do(tmp_path: Path) -> None:
    done = interlock("hooks", "install", "codex", env={"CODEX_HOME": str(tmp_path / "codex")})
    assert done.returncode == 0
    assert f"codex: hooks installed; {tmp_path}/codex/config.toml changed" in done.stdout
    assert "reports: SessionStart, UserPromptSubmit" in done.stdout
    assert "note: Codex asks at its next start whether to trust" in done.stdout


@pytest.mark.parametrize("words", [("install",), ("install", "vim"), ("explode", "claude")])
def test_what_it_does_not_know_is_refused(words: tuple[str, ...]) -> None:
    assert interlock("hooks", *words).returncode == 2
