"""The real Claude Code in a terminal outside tmux, adopted by its process and watched by its own files."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from interlock.testing.scripted_model import ScriptedModel
from tests.cli.serving import serving, until
from tests.cli.test_adopt_outside import adopt, found, shows
from tests.real.recipes import CLAUDE, LabFolder, common_environment
from tests.real.stories import TURN

pytestmark = pytest.mark.real


@contextmanager
def at_a_terminal(
    argv: tuple[str, ...], environment: dict[str, str], cwd: Path
) -> Iterator[tuple[int, int, bytearray]]:
    """A program at a pseudo-terminal: its number, our end, and what it has drawn so far."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ("setsid", "--ctty", *argv), stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=cwd
    )
    os.close(theirs)
    drawn = bytearray()

    def read() -> None:
        with suppress(OSError):
            while piece := os.read(ours, 65_536):
                drawn.extend(piece)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield process.pid, ours, drawn
    finally:
        process.kill()
        process.wait()
        reader.join(20)
        os.close(ours)


def test_claude_outside_tmux_is_seen_working_and_at_rest_and_its_end_is_proven(
    claude_executable: Path, tmp_path: Path
) -> None:
    (tmp_path / "served").mkdir()
    place = LabFolder(tmp_path / "lab")
    with ScriptedModel({"turn": TURN}) as model, serving(tmp_path / "served") as served:
        place.make()
        CLAUDE.seed(place, model.url)
        environment = {**common_environment(place), **CLAUDE.environment(place, model.url), "TERM": "xterm-256color"}
        with at_a_terminal((str(claude_executable), *CLAUDE.arguments), environment, place.project) as (
            pid,
            ours,
            drawn,
        ):
            until(lambda: bool(found(served, pid)), "its status file names its process")
            session = adopt(served, pid)["session_id"]
            shows(served, session, "quiet", "claude.session_file.idle")
            os.write(ours, b"SCN:turn go on")
            until(lambda: b"SCN:turn" in drawn, "the prompt is drawn")  # with the return at once it would be a paste
            os.write(ours, b"\r")
            model.wait_reached("thinking")
            shows(served, session, "working", "claude.session_file.busy")
            model.release("thinking")
            model.wait_reached("streaming")
            model.release("streaming")
            shows(served, session, "quiet", "claude.session_file.idle")
        assert served.cli("wait", session, "--until", "gone", "--timeout", "60").returncode == 0
