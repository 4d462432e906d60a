"""Waiting for a change: one look at first, one for all that was heard, and an end when the time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.server.api import SocketFrame
from interlock.cli.work import changes as changes_module
from interlock.cli.work.changes import SessionChanges, TimeUp
from interlock.vocabulary.errors import Unreachable
from tests.bodies import Body
from tests.cli.serving import until


class Room:
    """Frames that a test lets be heard, as `logs.frames` would give them."""

    def __init__(self, *frames: SocketFrame, error: Exception | None = None) -> None:
        self._frames = frames
        self._error = error
        self.is_over = threading.Event()

    def __call__(self, home: Path, task_id: str, *, patience_seconds: float, was_there: bool) -> Iterator[SocketFrame]:
        assert was_there, "who waits has asked the server before: it is waited for from the first moment on"
        yield from self._frames
        if self._error is not None:
            raise self._error
        self.is_over.wait()


@pytest.fixture
def far_off() -> float:
    return time.monotonic() + 60


def heard(monkeypatch: pytest.MonkeyPatch, room: Room, count: int) -> SessionChanges:
    """Changes that have heard so many frames, or errors."""
    monkeypatch.setattr(changes_module, "frames", room)
    changes = SessionChanges(Path("home"), ["ses_1"], patience_seconds=1)
    until(lambda: changes._heard.qsize() >= count, "all is heard")
    return changes


def frame(event: str) -> SocketFrame:
    data: Body = {"type": event}
    return SocketFrame("1", event, data)


def test_there_is_one_look_at_first_and_one_for_all_that_was_heard(
    monkeypatch: pytest.MonkeyPatch, far_off: float
) -> None:
    told = [frame("task:joined"), frame("chat:chunk"), frame("task:status")]
    looks = heard(monkeypatch, Room(*told), 2).looks(far_off)
    assert next(looks) == {"ses_1": []}
    assert next(looks) == {"ses_1": [told[0], told[2]]}  # text alone is no reason to look


def test_the_time_is_up_also_where_there_is_always_something_to_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = heard(monkeypatch, Room(*[frame("task:status")] * 3), 3).looks(time.monotonic() - 1)
    assert next(looks) == {"ses_1": []}  # there is always one look: what is so already is true at once
    with pytest.raises(TimeUp):
        next(looks)


def test_the_time_is_up_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = heard(monkeypatch, Room(), 0).looks(time.monotonic() + 0.05)
    next(looks)
    with pytest.raises(TimeUp):
        next(looks)


def test_what_ends_the_hearing_is_raised_where_somebody_waits(monkeypatch: pytest.MonkeyPatch, far_off: float) -> None:
    looks = heard(monkeypatch, Room(error=Unreachable("gone for good")), 1).looks(far_off)
    next(looks)
    with pytest.raises(Unreachable, match="gone for good"):
        next(looks)


def test_a_look_in_a_hurry_comes_without_a_frame(monkeypatch: pytest.MonkeyPatch, far_off: float) -> None:
    monkeypatch.setattr(changes_module, "SOON_SECONDS", 0.01)
    changes = heard(monkeypatch, Room(), 0)
    looks = changes.looks(far_off)
    next(looks)
    changes.hurry()
    assert next(looks) == {"ses_1": []}
