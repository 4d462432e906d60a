"""Claude Code's own status file: read when it changes, believed only when it is whole, and nothing beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from interlock.agents.evidence.session_files import SessionFile
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention

PID = 4711


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    return tmp_path


def write(folder: Path, status: str, at: float, **more: object) -> None:
    """As the agent does: whole. Each at its own time, so that no two look the same."""
    path = folder / "sessions" / f"{PID}.json"
    path.write_text(json.dumps({"status": status, "sessionId": "s1", "statusUpdatedAt": at * 1000, **more}))
    os.utime(path, (at, at))


NOW = 1_800_000_000.0


def test_each_new_status_is_claimed_once(folder: Path) -> None:
    file = SessionFile(folder, PID, SpawnId("spn_1"))
    assert file.look(100.0, NOW).claims == ()
    write(folder, "busy", NOW - 2)
    (claim,) = file.look(100.0, NOW).claims
    assert (claim.activity, claim.at_seconds, claim.spawn_id, claim.session_id) == (
        Activity.WORKING,
        98.0,
        "spn_1",
        "s1",
    )
    assert file.look(101.0, NOW + 1).claims == ()
    write(folder, "waiting", NOW, waitingFor="permission prompt")
    (claim,) = file.look(102.0, NOW + 2).claims
    assert (claim.attention, claim.is_dialog) == (Attention.APPROVAL, True)


def test_a_file_that_is_gone_takes_back_what_it_said(folder: Path) -> None:
    file = SessionFile(folder, PID)
    write(folder, "busy", NOW)
    file.look(1.0, NOW)
    file.path.unlink()
    (claim,) = file.look(2.0, NOW + 1).claims
    assert (claim.withdraws, claim.at_seconds) == (True, 2.0)
    assert file.look(3.0, NOW + 2).claims == ()


def test_a_half_written_file_is_read_again_and_a_broken_one_is_told_once(folder: Path) -> None:
    file = SessionFile(folder, PID)
    file.path.write_text('{"stat')
    assert file.look(1.0, NOW) == file.look(2.0, NOW)
    write(folder, "idle", NOW)
    assert len(file.look(3.0, NOW).claims) == 1
    file.path.write_text("broken")
    readings = [file.look(4.0 + number, NOW) for number in range(20)]
    assert sum(len(reading.anomalies) for reading in readings) == 1
    assert all(not reading.claims for reading in readings)


def test_a_file_that_cannot_be_read_says_nothing(folder: Path) -> None:
    """It does not say that the agent is gone, either."""
    file = SessionFile(folder, PID)
    write(folder, "busy", NOW)
    file.look(1.0, NOW)
    target = folder / "elsewhere"
    write(folder, "idle", NOW + 5)
    file.path.rename(target)
    file.path.symlink_to(target)
    assert file.look(2.0, NOW).claims == ()
    file.path.unlink()
    os.mkfifo(file.path)
    assert file.look(3.0, NOW).claims == ()


def test_nothing_else_in_the_folder_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "busy", NOW)
    for name in (f"{PID}.key", f"{PID}.token.json", "peer.json", "12.json", "x12.json", "٣.json"):
        (folder / "sessions" / name).write_text('{"peerToken": "secret"}')
    opened: list[str] = []
    really = os.open

    def watched(path: str | Path, flags: int, *more: int) -> int:
        opened.append(Path(path).name)
        return really(path, flags, *more)

    monkeypatch.setattr(os, "open", watched)
    SessionFile(folder, PID).look(1.0, NOW)
    assert opened == [f"{PID}.json"]


def test_a_folder_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    assert SessionFile(tmp_path / "none", PID).look(1.0, NOW).claims == ()
