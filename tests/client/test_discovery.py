"""Finding a server by its home: what is used, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.client.sync import connect
from interlock.client.transport.discovery import find_server
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.wire.requests import AccessRole

URL = "http://127.0.0.1:4711"


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "server.json", f'{{"url": "{URL}", "pid": 1, "started_at": "then"}}')
    write(tmp_path / "tokens.json", '{"operator": "op-token", "observer": "ob-token"}')
    return tmp_path


def test_the_address_and_the_token_of_the_role(home: Path) -> None:
    found = find_server(home)
    assert (found.url, found.token) == (URL, "op-token")
    assert find_server(home, role=AccessRole.OBSERVER).token == "ob-token"
    assert "op-token" not in repr(found)


def test_by_default_the_home_of_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(home))
    assert find_server().url == URL


def test_without_a_server_it_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"no server runs in .*; start one with"):
        find_server(tmp_path)
    with pytest.raises(Unreachable):
        find_server(tmp_path / "nowhere")


def test_without_tokens(home: Path) -> None:
    (home / "tokens.json").unlink()
    with pytest.raises(UsageError, match="no tokens"):
        find_server(home)


@pytest.mark.parametrize("name", ["server.json", "tokens.json"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_use_is_refused(home: Path, name: str, mode: int) -> None:
    (home / name).chmod(mode)
    with pytest.raises(UsageError, match=r"others can read or write .*chmod 600"):
        find_server(home)


@pytest.mark.parametrize("name", ["server.json", "tokens.json"])
def test_a_symlink_is_refused(home: Path, name: str) -> None:
    (home / name).rename(home / "elsewhere")
    (home / name).symlink_to(home / "elsewhere")
    with pytest.raises(UsageError, match="is a symlink"):
        find_server(home)


def test_a_pipe_is_refused_and_waited_for_by_nobody(home: Path) -> None:
    (home / "server.json").unlink()
    os.mkfifo(home / "server.json", 0o600)
    with pytest.raises(UsageError, match="not a plain file"):
        find_server(home)


def test_a_file_of_another_user_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UsageError, match="another user"):
        find_server(home)


@pytest.mark.parametrize("text", ["", "{", '{"operator": 1}', "[]"])
def test_a_damaged_file_is_named_and_its_content_is_not(home: Path, text: str) -> None:
    write(home / "tokens.json", text + "secret")
    with pytest.raises(UsageError, match="cannot be understood") as refused:
        find_server(home)
    assert refused.value.__cause__ is None
    assert "secret" not in str(refused.value)


def test_a_server_that_ended_without_a_word_is_not_asked(home: Path) -> None:
    """Its port may be somebody else's by now."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    write(home / "server.json", f'{{"url": "{URL}", "pid": {ended.pid}}}')
    with pytest.raises(
        Unreachable, match=r"is gone: it ended without a word; start it again with `interlock up --home"
    ):
        connect(home)
