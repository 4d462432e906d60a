"""Restarts are counted by the log: a server that was started again does not begin a new window."""

from __future__ import annotations

from datetime import timedelta

from interlock.agents.port import AgentSpec
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.session.state import Session
from interlock.runtime.session_fold import SessionFold
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import DriverKind, ExitReason

DUE = ProcessEvent(kind=ProcessEventKind.RESTART_DUE, attempt=1, delay_seconds=1.0)
FREE = ProcessEvent(kind=ProcessEventKind.RESTART_DUE, attempt=0, delay_seconds=0.0)


def taken_up(*payloads: ProcessEvent, later: timedelta) -> Session:
    book = SessionFold.of(SessionId("ses_scribe"), Scribe().write(*payloads, spawn="spn_1"))
    now = Instant(EPOCH + later, 50.0)
    spec = AgentSpec(agent="a", driver="puppet")
    return Session(book, spec, DriverKind.STREAM, lambda prefix: f"{prefix}_1", RunPolicy(), now)


def verdict(session: Session) -> str:
    return session.restarts.after(ExitReason.CRASHED, session.now.seconds).message


def test_restarts_before_the_server_was_started_again_count() -> None:
    assert "restart 3 of 3" in verdict(taken_up(DUE, DUE, FREE, later=timedelta(minutes=1)))
    assert "not restarted" in verdict(taken_up(DUE, DUE, DUE, later=timedelta(minutes=50)))


def test_those_of_an_hour_ago_and_those_before_an_explained_end_do_not() -> None:
    assert "restart 1 of 3" in verdict(taken_up(DUE, DUE, DUE, later=timedelta(hours=2)))
    stopped = ProcessEvent(kind=ProcessEventKind.EXITED, exit_reason=ExitReason.STOPPED)
    assert "restart 1 of 3" in verdict(taken_up(DUE, DUE, stopped, later=timedelta(minutes=1)))
