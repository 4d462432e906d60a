"""The page about the client: every program in it runs against a real server and prints what is shown."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from interlock.client.task import TaskHandle
from tests.docs.running import run, samples, write_programs

PAGE = (Path(__file__).parents[2] / "docs/how-to/use-the-client.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for the page's server, which is ended with the test, whatever happened to it."""
    (tmp_path / "home").mkdir(mode=0o700)
    yield tmp_path
    announced = tmp_path / "home" / "server.json"
    if announced.exists():
        os.kill(msgspec.json.decode(announced.read_bytes())["pid"], signal.SIGKILL)


def test_every_command_prints_what_is_shown(folder: Path) -> None:
    programs = write_programs(PAGE, folder)
    shown = samples(PAGE)
    ran = {command.removeprefix("python ") for command, _ in shown if command.endswith(".py")}
    assert set(programs) == ran
    for command, printed in shown:
        assert run(command, folder) == printed, command


def test_every_call_that_is_named_exists() -> None:
    table = PAGE.partition("| To | Use |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)(?:\(|`)", table)) - {
        "status",
        "is_verified",
        "connection",
        "flags",
        "phase",
        "problem",
    }
    assert len(named) > 12
    assert [name for name in named if not hasattr(TaskHandle, name)] == []
