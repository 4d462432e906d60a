"""`docs/how-to/write-a-profile.md`: its profile is a good one, and reads what the page says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.exit_codes import ExitCode
from interlock.screen.assessment import BlockKind, BusinessState, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.profile_file import read_profile
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import read_snapshot
from interlock.testing.scripted_agent import command
from tests.docs.running import blocks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/write-a-profile.md"
RECORDINGS = ROOT / "tests/recordings/tui/pi"
WAIT_SECONDS = 100.0
RULE = "─" * 20


def read(*rows: str, title: str = "") -> ScreenReading:
    file, _ = blocks(PAGE.read_text(encoding="utf-8"), "toml")
    reader = select_reader([read_profile(file, PAGE.name)], "mytool", "1.2")
    return reader.parse_snapshot(read_snapshot("\n".join(rows), columns=80, title=title))


def test_its_profile_reads_a_dialog_with_its_options() -> None:
    found = read("thinking", "╭────────", "│ Run it?", "│ › 1. Yes", "│   2. No", "╰────────").assessment
    assert found.business_state is BusinessState.AWAITING_OPERATOR
    assert found.block is not None
    assert found.block.kind is BlockKind.APPROVAL
    assert [(option.text, option.is_selected) for option in found.block.options] == [("Yes", True), ("No", False)]


def test_its_steps_of_an_interrupt_are_good_ones_and_differ_by_version() -> None:
    file, steps = blocks(PAGE.read_text(encoding="utf-8"), "toml")
    keys, override = steps.split("\n\n")
    whole = re.sub(r"(?m)^\[keys\](?:.*\n.*=)+.*$", lambda _: keys, file) + override
    profile = read_profile(whole, PAGE.name)
    pressed = [[step.press for step in profile.at_version(version).keys.interrupt] for version in ((1, 5), (1, 3))]
    assert pressed == [["Escape", "Escape"], ["Escape", "C-c"]]


def test_a_quoted_dialog_above_the_composer_is_none() -> None:
    found = read("╭────────", "│ › 1. Yes", "╰────────", RULE, "> ", RULE, title="My Tool - ready").assessment
    assert found.submit_ready


def test_its_profile_reads_work_a_draft_and_a_placeholder() -> None:
    working = read("⠹ Thinking (3s)", RULE, "> and then", RULE)
    assert working.assessment.business_state is BusinessState.WORKING
    assert working.draft == "and then"
    assert read(RULE, "> \x1b[2mask me\x1b[0m", RULE).draft == ""


def test_a_screen_without_a_rule_is_unknown_and_an_ending_is_read() -> None:
    assert read("hello").assessment.business_state is BusinessState.UNKNOWN
    assert read("■ Stopped", RULE, ">", RULE, title="My Tool - ready").assessment.turn_end is TurnEnd.INTERRUPTED


# Its commands, in a folder with a tmux of its own


@pytest.fixture
def folder() -> Iterator[Path]:
    """With an agent in a pane, and with recordings that know the truth. The path is short, as sockets are below it."""
    with tempfile.TemporaryDirectory(prefix="p-") as short:
        place = Path(short)
        shutil.copytree(RECORDINGS, place / "mine")
        tmux(place, "-f", os.devnull, "new-session", "-d", "-x", "100", "-y", "30", *command("tui"))
        try:
            yield place
        finally:
            tmux(place, "kill-server")


def environment(place: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TMUX", "INTERLOCK_"))}
    return {**kept, "TMUX_TMPDIR": str(place), "HOME": str(place), "PATH": path}


def tmux(place: Path, *words: str) -> str:
    done = subprocess.run(
        ("tmux", *words),
        env=environment(place),
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT_SECONDS,
        check=True,
    )
    return done.stdout


def typed(line: str, place: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ("sh", "-c", line),
        cwd=place,
        env=environment(place),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT_SECONDS,
        check=False,
    )


def record(line: str, place: Path) -> int:
    """Until the command says that it has a frame; then Ctrl-C."""
    with subprocess.Popen(
        ("sh", "-c", f"exec {line}"), cwd=place, env=environment(place), stderr=subprocess.PIPE, encoding="utf-8"
    ) as recording:
        assert recording.stderr is not None
        try:
            assert any("recording" in told for told in recording.stderr)
        finally:
            recording.send_signal(signal.SIGINT)
        return recording.wait(WAIT_SECONDS)


@pytest.mark.deep
def test_a_pane_is_recorded_tracked_and_scored_as_the_page_says(folder: Path) -> None:
    lines = [line for block in blocks(PAGE.read_text(encoding="utf-8"), "sh") for line in block.splitlines()]
    first, *others = lines
    pane = tmux(folder, "list-panes", "-F", "#{pane_id}").strip()
    assert record(first.replace("%3", pane), folder) in (ExitCode.COMPLETED, ExitCode.INTERRUPTED)
    assert len(others) == 3
    for line in others:
        done = typed(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert done.stdout
