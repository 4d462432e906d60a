"""A pane of a real tmux, recorded: what is written can be read back, replayed, and claims no more than was seen."""

from __future__ import annotations

import asyncio
import stat
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.agents.recorder import RecordingFile, record_pane
from interlock.agents.recording_files import open_recording
from interlock.agents.tmux.panes import Pane
from interlock.monitor.scoring.recording import FORMAT, Frame, Header, Record, RecordedStatus, snapshot_of
from interlock.monitor.scoring.replay import replay_timeline
from interlock.screen.selection import select_reader
from interlock.vocabulary.errors import UsageError
from tests.agents.tmux.harness import FOREVER, private_server, shows, stage
from tests.contract.harness import run

AGENT: Final = (sys.executable, "-m", "interlock.testing.scripted_agent")
HEADER: Final = Header(0, "scripted", "1.0", 80, 24)


async def recorded(pane: Pane, is_enough: object = None, **options: object) -> list[Record]:
    """The records of a pane until `is_enough` says so of them, or the pane ends."""
    found: list[Record] = []
    async with asyncio.timeout(100), aclosing(record_pane(pane, HEADER, hz=20, **options)) as records:  # type: ignore[arg-type]
        async for record in records:
            found.append(record)
            if callable(is_enough) and is_enough(found):
                break
    return found


def test_a_header_comes_first_then_frames_whose_screens_are_told_only_when_they_change() -> None:
    async def main() -> None:
        async with stage("sh", "-c", "printf one; exec sleep 600") as on:
            await shows(on.pane, "one")
            header, first, *rest = await recorded(on.pane, lambda found: len(found) == 6)
            assert header == Header(FORMAT, "scripted", "1.0", 80, 24)
            assert isinstance(first, Frame)
            assert first.ansi is not None
            assert first.ansi.startswith("one")
            assert (first.cols, first.rows, first.dead) == (80, 24, False)
            assert [frame.ansi for frame in rest if isinstance(frame, Frame)] == [None] * 4
            times = [frame.t for frame in (first, *rest) if isinstance(frame, Frame)]
            assert times == sorted(times)

    run(main())


def test_what_changes_is_in_the_next_frame() -> None:
    async def main() -> None:
        async with stage("cat") as on:
            await shows(on.pane, lambda capture: True)
            writing = asyncio.ensure_future(
                recorded(on.pane, lambda found: any("hello" in (getattr(one, "ansi", "") or "") for one in found))
            )
            await on.pane.send_text("hello")
            assert isinstance((await writing)[-1], Frame)

    run(main())


def test_a_program_that_ended_is_the_last_frame_and_dead() -> None:
    async def main() -> None:
        async with stage("sh", "-c", "printf bye; read line") as on:
            await shows(on.pane, "bye")
            writing = asyncio.ensure_future(recorded(on.pane))
            await on.pane.send_keys("Enter")
            found = await writing
            frames = [one for one in found if isinstance(one, Frame)]
            assert [frame.dead for frame in frames].count(True) >= 1
            assert frames[-1].dead

    run(main())


def test_of_a_pane_that_cannot_be_seen_any_more_no_death_is_claimed() -> None:
    async def main() -> None:
        async with private_server() as server:
            from interlock.agents.tmux.client import TmuxClient
            from interlock.agents.tmux.panes import OWN_SESSION, start_pane

            info = await start_pane(server, FOREVER, columns=80, rows=24)
            async with await TmuxClient.attach(server, OWN_SESSION) as client:
                seen = asyncio.Event()

                def is_enough(found: list[Record]) -> bool:
                    seen.set()
                    return False

                writing = asyncio.ensure_future(recorded(Pane(client, info.pane_id), is_enough))
                await seen.wait()
                await server.kill()
                found = await writing
        assert not any(one.dead for one in found if isinstance(one, Frame))

    run(main())


def test_what_the_shim_tells_meanwhile_is_recorded_in_its_place(tmp_path: Path) -> None:
    told = tmp_path / "status"
    told.write_text('{"old": 1}\n{"old": 2}\n', encoding="utf-8")

    async def main() -> None:
        async with stage(*FOREVER) as on:

            def is_enough(found: list[Record]) -> bool:
                if len(found) == 3:
                    with told.open("a", encoding="utf-8") as file:
                        file.write('no json\n{"state": "working"}\n{"half": ')
                return any(isinstance(one, RecordedStatus) for one in found)

            found = await recorded(on.pane, is_enough, status_file=told)
            (status,) = [one for one in found if isinstance(one, RecordedStatus)]
            assert (status.source, bytes(status.data)) == ("shim", b'{"state": "working"}')

    run(main())


@pytest.mark.parametrize("name", ["r.ndjson", "r.ndjson.gz"])
def test_a_file_is_read_back_as_it_was_written_and_only_its_owner_can(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    written: list[Record] = [Header(FORMAT, "tiny"), Frame(0.0, ansi="a"), Frame(1.0), RecordedStatus(1.0, "shim")]
    file = RecordingFile(path)
    for record in written:
        file.write(record)
    file.close()
    assert file.frames == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with open_recording(str(path)) as records:
        assert list(records) == [written[0], written[1], Frame(1.0, ansi="a"), written[3]]


def test_no_file_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r.ndjson"
    path.write_text("somebody's", encoding="utf-8")
    with pytest.raises(UsageError, match="is there already"):
        RecordingFile(path)
    assert path.read_text(encoding="utf-8") == "somebody's"
    with pytest.raises(UsageError, match="cannot be written"):
        RecordingFile(tmp_path / "none" / "r.ndjson")


def test_a_recording_shows_what_the_pane_showed_and_replays_to_a_verdict() -> None:
    async def main() -> None:
        async with stage(*AGENT) as on:
            live = await shows(on.pane, "enter to submit")
            found = await recorded(on.pane, lambda found: len(found) == 4)
        assert isinstance(found[0], Header)
        filled = [one if not isinstance(one, Frame) or one.ansi is not None else None for one in found]
        frame = next(one for one in filled if isinstance(one, Frame))
        assert snapshot_of(frame, found[0]) == live.snapshot
        reader = select_reader(builtin_profiles(), "scripted")
        ((_, verdict),) = replay_timeline(found[0], [frame], reader)
        assert verdict.business_state == "idle"

    run(main())
