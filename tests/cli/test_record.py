"""`interlock debug record`: what a pane shows, written down for `track` and `score`, nothing changed in the pane."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from interlock.agents.recording_files import open_recording
from interlock.monitor.scoring.recording import Frame, Header
from tests.agents.tmux.harness import Stage, shows, stage
from tests.cli.harness import COMMAND, interlock
from tests.contract.harness import run

AGENT: Final = (sys.executable, "-m", "interlock.testing.scripted_agent")


async def recorded(on: Stage, path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    where = (on.pane.pane_id, "--socket", on.server.socket, "--output", str(path))
    return await asyncio.to_thread(interlock, "record", *where, *more)


@asynccontextmanager
async def recording(on: Stage, path: Path) -> AsyncIterator[Process]:
    """A recorder that has begun. It is ended here, whatever happened."""
    where = (on.pane.pane_id, "--socket", on.server.socket, "--output", str(path))
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "record", *where, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        assert b"recording" in await process.stderr.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def read(path: Path) -> tuple[Header, list[Frame]]:
    with open_recording(str(path)) as records:
        header, *rest = records
    assert isinstance(header, Header)
    return header, [one for one in rest if isinstance(one, Frame)]


def test_a_recording_of_some_seconds_can_be_tracked(tmp_path: Path) -> None:
    path = tmp_path / "r.ndjson.gz"

    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, "enter to submit")
            done = await recorded(on, path, "--seconds", "1", "--json")
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout)
            assert (told["file"], told["cli"]) == (str(path), "scripted")
            assert told["frames"] == len(read(path)[1]) > 0
            assert not (await on.pane.capture()).snapshot.is_dead

    run(main())
    header, frames = read(path)
    assert (header.cli, header.cols, header.rows) == ("scripted", 80, 24)
    assert "enter to submit" in (frames[0].ansi or "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    tracked = interlock("track", str(path), "--json")
    assert tracked.returncode == 0
    assert {json.loads(line)["business_state"] for line in tracked.stdout.splitlines()} == {"idle"}


def test_it_ends_with_the_program_and_says_that_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "r.ndjson"

    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, "enter to submit")
            async with recording(on, path) as writing:
                await on.pane.send_text("exit 0")
                await shows(on.pane, "> exit 0")
                await on.pane.send_keys("Enter")
                await writing.communicate()
            assert writing.returncode == 0

    run(main())
    assert read(path)[1][-1].dead
    events = [event for line in interlock("track", str(path), "--json").stdout.splitlines() for event in _events(line)]
    assert events[-1] == "gone"


def _events(line: str) -> list[str]:
    return list(json.loads(line)["events"])


def test_ctrl_c_leaves_a_whole_file_and_a_living_agent(tmp_path: Path) -> None:
    path = tmp_path / "r.ndjson.gz"

    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, "enter to submit")
            async with recording(on, path) as writing:
                writing.send_signal(signal.SIGINT)
                said, wrong = await writing.communicate()
            assert writing.returncode == 4
            assert b"frames of scripted" in said
            assert b"Traceback" not in wrong
            assert not (await on.pane.capture()).snapshot.is_dead

    run(main())
    assert read(path)[0].cli == "scripted"


def test_no_file_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r.ndjson"
    path.write_text("somebody's", encoding="utf-8")

    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, "enter to submit")
            done = await recorded(on, path, "--seconds", "1")
            assert done.returncode == 2
            assert "is there already" in done.stderr

    run(main())
    assert path.read_text(encoding="utf-8") == "somebody's"


def test_a_pane_that_is_not_there_is_unreachable_and_leaves_no_file(tmp_path: Path) -> None:
    done = interlock("record", "%9", "--socket", str(tmp_path / "none"), "--output", str(tmp_path / "r.ndjson"))
    assert done.returncode == 8
    assert not (tmp_path / "r.ndjson").exists()
