"""The pages about servers: every command in them runs against a real server and prints what is shown."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from interlock.server import __main__ as program
from interlock.server.browser.login_store import LOGIN_FILE
from interlock.server.http.access import OPEN_PATHS
from interlock.server.serving import SERVER_FILE
from interlock.server.settings import ServerSettings
from interlock.server.token_file import TOKEN_FILE
from tests.docs import curl
from tests.docs.running import run, samples

ROOT = Path(__file__).parents[2]
SERVING = (ROOT / "docs/how-to/run-a-server.md").read_text(encoding="utf-8")
FOLLOWING = (ROOT / "docs/how-to/follow-a-task-with-curl.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a page's server, which is ended with the test, whatever happened to it."""
    yield tmp_path
    announced = tmp_path / "home" / SERVER_FILE
    if announced.exists():
        os.kill(msgspec.json.decode(announced.read_bytes())["pid"], signal.SIGKILL)


def provide_curl(folder: Path) -> None:
    """A curl on the path of the page, where the machine has none."""
    if shutil.which("curl") is None:
        script = folder / ".bin" / "curl"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, curl.__file__])} "$@"\n', encoding="utf-8")
        script.chmod(0o700)


@pytest.mark.parametrize("page", [SERVING, FOLLOWING], ids=["serving", "following"])
def test_every_command_prints_what_is_shown(page: str, folder: Path) -> None:
    provide_curl(folder)
    shown = samples(page)
    assert len(shown) > 8
    for command, printed in shown:
        assert run(command, folder) == printed, command


def test_the_page_about_serving_is_true_of_the_code() -> None:
    files = re.findall(r"^\| `([\w.]+)` \|", SERVING, re.MULTILINE)
    assert files == [SERVER_FILE, TOKEN_FILE, LOGIN_FILE, "log.sqlite3"]
    codes = {int(code) for code in re.findall(r"^\| (\d) \|", SERVING, re.MULTILINE)}
    assert codes == {0, program._FAILED, program._USAGE, program._UNREACHABLE}
    needs_none = re.search(r"Every request needs a token, except ([^.]*(?:\.[^.]*)*?)\. An\s+\*observer\*", SERVING)
    assert needs_none is not None
    assert set(re.findall(r"`([^`]+)`", needs_none[1])) == OPEN_PATHS
    assert f"`closing_seconds` ({ServerSettings().closing_seconds:g})" in SERVING
    options = set(re.findall(r"--[a-z][a-z-]*", SERVING)) - {"--take-over"}  # of `interlock up`
    assert options <= {"--home", "--host", "--allow-remote", "--allow-host", "--allow-origin"}
    for option in options - {"--allow-remote"}:
        program.parse([option, "value"])
