"""The pages about a log after an incident: every command in them runs, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import StreamCheckpoint
from interlock.vocabulary.ids import StreamId
from tests.cli.homes import begin_turn, end_turn, make_home, standing, tool_round
from tests.docs.running import blocks

DOCS = Path(__file__).parents[2] / "docs"


def incident() -> Scribe:
    """A turn that completed, one whose stream broke, and one that was open when the machine went down."""
    scribe = Scribe("ses_shop")
    begin_turn(scribe, "t1", "Fix the failing test")
    tool_round(scribe, "t1")
    end_turn(scribe, "t1")
    begin_turn(scribe, "t2", "Now the flaky one")
    end_turn(scribe, "t2", "partial_failed")
    begin_turn(scribe, "t3", "Try again")
    scribe.write(StreamCheckpoint(stream_id=StreamId("str_3"), offset=12, text="The flake is"), turn="t3")
    return scribe


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A folder with the home of the page, and `interlock` on the path."""
    make_home(tmp_path / "state", incident(), standing("ses_api", "completed"))
    script = tmp_path / "bin" / "interlock"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m interlock.cli "$@"\n')
    script.chmod(0o755)
    return tmp_path


def run(command: str, folder: Path) -> str:
    """What a person would see of a command."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ("sh", "-c", command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env={**os.environ, "PATH": path, "INTERLOCK_HOME": "state"},
        check=False,
        timeout=100,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("page", "count"), [("how-to/read-a-log-after-an-incident.md", 12), ("explanation/log-integrity.md", 1)]
)
def test_the_page_shows_what_its_commands_print(page: str, count: int, shell: Path) -> None:
    found = blocks((DOCS / page).read_text(encoding="utf-8"), "console")
    samples = [sample for block in found for sample in block.split("$ ")[1:]]
    assert len(samples) == count
    for sample in samples:
        command, _, shown = sample.partition("\n")
        # A line of dots stands for any lines.
        pattern = re.escape(shown).replace(re.escape("...\n"), "(?:.*\n)*")
        printed = run(command, shell)
        assert re.fullmatch(pattern, printed), f"$ {command}\n{printed}"
