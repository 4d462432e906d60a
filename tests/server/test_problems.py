"""Every error as the problem that it is: one table, no secrets, no tracebacks."""

from __future__ import annotations

import logging

import pytest
from litestar.exceptions import (
    HTTPException,
    InternalServerException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)

from interlock.agents.port import NotDelivered
from interlock.log.lease import LeaseHeld
from interlock.log.port import LogUnavailable, VersionConflict
from interlock.runtime.session.supervisor import SessionFailed
from interlock.server.http.problems import (
    BrokenOff,
    Deadline,
    Forbidden,
    KeyReused,
    NotFound,
    NotReady,
    NotSupervised,
    RequestRefusal,
    TooMany,
    Unauthenticated,
    Unfit,
    UnknownTask,
    WrongHost,
    WrongMediaType,
    WrongOrigin,
    problem_of,
    statuses,
)
from interlock.vocabulary.errors import ContractError, InterlockError, PeerFault, Unreachable, UsageError
from interlock.vocabulary.ids import SessionId
from tests.each_row import each_row

S = SessionId("ses_a")

TABLE: tuple[tuple[BaseException, int, str], ...] = (
    (UsageError("no", remedy="do"), 409, "conflict"),
    (RequestRefusal("no"), 409, "conflict"),
    (UnknownTask("ses_a"), 404, "unknown_task"),
    (NotFound("no"), 404, "not_found"),
    (Unfit("no"), 422, "unfit"),
    (KeyReused("no"), 409, "key_reused"),
    (NotSupervised(S), 409, "not_supervised"),
    (SessionFailed("no"), 409, "not_supervised"),
    (Unauthenticated("no"), 401, "unauthenticated"),
    (Forbidden("no"), 403, "forbidden"),
    (WrongOrigin("no"), 403, "wrong_origin"),
    (WrongHost("no"), 421, "wrong_host"),
    (BrokenOff("no"), 400, "bad_request"),
    (WrongMediaType("no"), 415, "wrong_media_type"),
    (TooMany("no", retry_after_seconds=2.5), 429, "too_many"),
    (VersionConflict(S, expected=1, actual=2), 409, "version_conflict"),
    (LogUnavailable("full", next_action="make room"), 503, "log_unavailable"),
    (LeaseHeld("held", next_action="wait", holder=None), 503, "log_unavailable"),
    (NotReady("no"), 503, "not_ready"),
    (Unreachable("no"), 503, "unreachable"),
    (PeerFault("no"), 502, "agent_fault"),
    (NotDelivered("no"), 502, "agent_fault"),
    (Deadline("slow"), 504, "deadline"),
    (ValidationException(detail="bad"), 400, "bad_request"),
    (NotFoundException(), 404, "no_route"),
    (MethodNotAllowedException(), 405, "method_not_allowed"),
    (HTTPException(status_code=413), 413, "too_large"),
    (HTTPException(status_code=415), 415, "wrong_media_type"),
    (HTTPException(status_code=418), 418, "http_418"),
    (InternalServerException(), 500, "internal"),
    (ContractError("our own fault"), 500, "internal"),
    (InterlockError("some other"), 500, "internal"),
    (RuntimeError("some other"), 500, "internal"),
    (TimeoutError(), 500, "internal"),
)


@each_row(("error", "status", "code"), TABLE, ids=[f"{type(row[0]).__name__}" for row in TABLE])
def test_the_table(error: BaseException, status: int, code: str) -> None:
    problem = problem_of(error, instance="/api/x")
    assert (problem.status, problem.code, problem.instance) == (status, code, "/api/x")
    assert problem.title


def test_every_status_of_the_table_is_told_to_the_documentation() -> None:
    told = {(status, kind.code) for status, kinds in statuses().items() for kind in kinds}
    assert {(status, code) for _, status, code in TABLE if status != 418} <= told
    assert all(kind.status == status for status, kinds in statuses().items() for kind in kinds)


def test_the_remedy_stands_apart_from_the_detail() -> None:
    problem = problem_of(UsageError("the queue is held", remedy="open its gate"))
    assert (problem.detail, problem.remedy) == ("the queue is held", "open its gate")
    bare = UsageError("the queue is held; open its gate")
    bare.remedy = "open its gate"
    assert problem_of(bare).detail == "the queue is held"
    log = problem_of(LogUnavailable("the disk is full", next_action="make room"))
    assert (log.detail, log.remedy, log.retry_after_seconds) == ("the disk is full", "make room", 1.0)
    assert problem_of(TooMany("slow", retry_after_seconds=2.5)).retry_after_seconds == 2.5
    assert problem_of(Deadline("slow")).remedy == "repeat it with the same key: it is not done twice"
    assert problem_of(NotSupervised(S)).remedy == "take it up again: POST /api/tasks/ses_a/start"
    assert problem_of(Unfit("no")).retry_after_seconds is None


def test_what_nobody_foresaw_is_told_by_its_number_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "interlock.server"):
        try:
            raise RuntimeError("password=hunter2secret at /home/somebody")
        except RuntimeError as error:
            problem = problem_of(error)
    number = problem.detail.rpartition(" ")[2]
    assert number.startswith("err_")
    assert "somebody" not in problem.detail + problem.title + problem.remedy
    assert number in caplog.text
    assert "Traceback" in caplog.text
    assert "hunter2" not in caplog.text


def test_secrets_are_masked_and_long_texts_are_cut() -> None:
    problem = problem_of(PeerFault("it said: token=abcdef123456, Bearer abcdefghijkl"))
    assert "abcdef" not in problem.detail
    assert "it said" in problem.detail
    assert len(problem_of(UsageError("x y " * 5_000)).detail) == 2_000


def test_a_field_is_named_and_its_value_is_not() -> None:
    error = ValidationException(detail="no", extra=[{"key": "limit", "message": "Expected `int`", "source": "query"}])
    assert problem_of(error).detail == "limit: Expected `int`"
    assert problem_of(NotFoundException(detail="/api/secret-path")).detail == ""
