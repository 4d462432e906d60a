"""A log that takes nothing: who asks for the board is told, until it takes something again."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from interlock.log.memory import MemoryLog
from interlock.log.port import LogUnavailable
from interlock.server.log_watch import WatchedLog, problem_of
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import run
from tests.server.http_harness import house


class FullDisk(MemoryLog):
    """Takes nothing while it is full."""

    is_full = False

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        if self.is_full:
            raise LogUnavailable("the disk is full", next_action="make room")
        return await super().append(session_id, events, expected_version=expected_version)


def some_event() -> tuple[SessionId, list[Event]]:
    scribe = Scribe("ses_1")
    return scribe.session, scribe.write(Anomaly(kind="odd", message="odd"))


def test_the_board_says_that_nothing_is_recorded_until_it_is_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        disk = FullDisk()
        log = WatchedLog(disk)
        session_id, events = some_event()

        async def problem() -> str:
            found = str((await server.observer.get("/api/tasks")).json()["log_problem"])
            health = (await server.observer.get("/health")).json()
            metrics = (await server.observer.get("/metrics")).text
            assert health["recording"] is not bool(found)
            assert f"\ninterlock_recording {int(not found)}\n" in metrics
            return found

        async with house(log=log) as server:
            assert await problem() == ""
            disk.is_full = True
            for _ in range(2):
                with pytest.raises(LogUnavailable):
                    await log.append(session_id, events)
            assert "the disk is full; make room" in await problem()
            disk.is_full = False
            assert await log.append(session_id, events) == 1
            assert await problem() == ""

    with caplog.at_level(logging.ERROR, "interlock.server"):
        run(story())
    said = [one.getMessage() for one in caplog.records if one.name == "interlock.server"]
    assert [one.split(":")[0] for one in said] == ["the log takes nothing", "the log takes events again"]


def test_another_log_has_no_problem_that_is_known() -> None:
    assert problem_of(MemoryLog()) == ""
