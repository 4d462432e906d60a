"""The page about the client: every program in it runs against a real server and prints what is shown."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import interlock
from interlock.client.client import Client
from interlock.client.outcome import _ERRORS, TurnResult
from interlock.client.task import TaskHandle
from interlock.testing.scripted_agent import command as scripted
from tests.docs.running import run, samples, write_programs

NAME = re.compile(r"`(\w+)`")
PAGE = (Path(__file__).parents[2] / "docs/how-to/use-the-client.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for the page's server, which is ended with the test, whatever happened to it."""
    (tmp_path / "home").mkdir(mode=0o700)
    config = f'[agents.claude]\ndriver = "claude-stream"\nargv = {json.dumps(scripted("stream-json"))}\n'
    (tmp_path / "config.toml").write_text(config, encoding="utf-8")
    yield tmp_path
    announced = tmp_path / "home" / "server.json"
    if announced.exists():
        os.kill(msgspec.json.decode(announced.read_bytes())["pid"], signal.SIGKILL)


def test_every_command_prints_what_is_shown(folder: Path) -> None:
    programs = write_programs(PAGE, folder)
    shown = samples(PAGE)
    ran = {command.removeprefix("python ") for command, _ in shown if command.endswith(".py")}
    assert set(programs) - {"ask.py"} == ran  # that is the first of `ends.py`, with a question for a real agent
    begin = shown[0][0].partition(" && ")[0]
    for command, printed in shown:
        assert run(f"{begin} && {command}", folder) == printed, command


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
    calls = {*dir(TaskHandle), *dir(Client)}
    assert [name for name in named if name not in calls] == []


def test_every_public_name_is_in_the_page_and_can_be_imported() -> None:
    table = PAGE.partition("## Every name")[2]
    named = {name for row in table.splitlines() if row.startswith("| `") for name in NAME.findall(row.split("|")[1])}
    assert named == set(interlock.__all__)
    assert [name for name in interlock.__all__ if getattr(interlock, name).__name__ != name] == []
    with pytest.raises(AttributeError):
        _ = interlock.Nothing


def test_the_table_of_results_names_every_result_and_its_error() -> None:
    table = PAGE.partition("| The turn |")[2].partition("\n\n")[0]
    for result in TurnResult:
        assert f"`{result.value}`" in table
        if result in _ERRORS:
            assert re.search(rf"`{result.value}` \| `{_ERRORS[result].__name__}`", table), result
