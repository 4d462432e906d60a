"""Recordings of the tiny tool, for the commands that replay them."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from interlock.monitor.scoring.recording import Frame, Header, Input, Record, Truth
from interlock.screen.snapshot import Snapshot
from tests.screen.tiny import APPROVAL, DONE, IDLE, TINY, WORKING

HEADER: Final = Header(1, "tiny", "1.5", 80, 24, "a turn")


def frames(start: float, end: float, shown: Snapshot) -> list[Record]:
    """The screen, five times a second."""
    count = round((end - start) * 5)
    return [Frame(round(start + number / 5, 3), ansi=shown.raw_text) for number in range(count)]


def a_turn(shown_at_work: Snapshot = WORKING) -> list[Record]:
    """Idle, a submit, work, an approval, more work, done; with its truth."""
    return [
        HEADER,
        Truth(0.0, "idle", "ready"),
        *frames(0, 10, IDLE),
        Input(10.0),
        Truth(10.0, "working", "submitted"),
        *frames(10, 20, shown_at_work),
        Truth(20.0, "blocked", "approval"),
        *frames(20, 30, APPROVAL),
        Truth(30.0, "working", "tool_running"),
        *frames(30, 34, WORKING),
        Truth(34.0, "idle", "complete"),
        *frames(34, 44, DONE),
    ]


def write(path: Path, records: Iterable[Record]) -> Path:
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    return path


def configured(folder: Path) -> dict[str, str]:
    """The environment of a user who has a profile of the tiny tool."""
    profiles = folder / "config" / "interlock" / "profiles"
    profiles.mkdir(parents=True, exist_ok=True)
    (profiles / "tiny.toml").write_text(TINY, encoding="utf-8")
    return {"XDG_CONFIG_HOME": str(folder / "config")}
