"""A file that must be nobody else's is read whole, or refused with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.log.private_file import read_private_file
from interlock.vocabulary.errors import UsageError

SECRET = b'{"operator": "secret"}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.json"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


def refused(path: Path, max_bytes: int = 100) -> str:
    with pytest.raises(UsageError) as told:
        read_private_file(path, max_bytes=max_bytes)
    assert "secret" not in str(told.value)
    assert str(path) in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_it_is_read_whole(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert read_private_file(file, max_bytes=len(SECRET)) == SECRET


def test_one_that_is_not_there_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_private_file(tmp_path / "none", max_bytes=1)


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_one_that_others_can_use_is_refused_with_the_command_that_mends_it(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert f"others can read or write {file}; run `chmod 600 {file}`" in refused(file)


def test_one_of_another_user_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert "belongs to another user" in refused(file)


def test_a_longer_one_is_refused_and_not_cut(file: Path) -> None:
    assert "is larger than 21 bytes" in refused(file, len(SECRET) - 1)


def test_what_is_no_plain_file_is_refused_and_waited_for_by_nobody(tmp_path: Path, file: Path) -> None:
    link, folder, pipe = tmp_path / "link", tmp_path / "folder", tmp_path / "pipe"
    link.symlink_to(file)
    folder.mkdir(mode=0o700)
    os.mkfifo(pipe, 0o600)
    assert "is a symlink" in refused(link)
    assert "is not a plain file" in refused(folder)
    assert "is not a plain file" in refused(pipe)


def test_no_descriptor_is_left_open(file: Path) -> None:
    known = len(list(Path("/dev/fd").iterdir()))
    read_private_file(file, max_bytes=100)
    file.chmod(0o644)
    refused(file)
    assert len(list(Path("/dev/fd").iterdir())) == known


def test_it_costs_nothing_to_import() -> None:
    code = "import sys, interlock.log.private_file\nprint({'msgspec', 'apsw', 'asyncio'} & set(sys.modules) or '')"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == ""
