"""What went wrong, in one form for every surface: RFC 9457 problem details, with what to do next.

Laws:
1. One table from errors to codes and statuses; the nearest class in it decides. What is not in it is a 500.
2. An error that nobody foresaw, or that is our own fault, is told by a number only: its words go to our log.
3. Nothing here shows a traceback, and whatever looks like a secret is masked.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

from litestar.exceptions import HTTPException, ValidationException

from interlock.agents.pool.masking import masked_text
from interlock.log.port import LogUnavailable, VersionConflict
from interlock.runtime.session.supervisor import SessionFailed
from interlock.vocabulary.errors import InterlockError, PeerFault, Unreachable, UsageError
from interlock.vocabulary.ids import SessionId, sortable_id
from interlock.vocabulary.wire.requests import Problem

PROBLEM_TYPE: Final = "application/problem+json"
REOPEN: Final = "take it up again: POST /api/tasks/{}/start"
_MAX_DETAIL: Final = 2_000
_logger: Final = logging.getLogger("interlock.server")


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One row of the table: the word for programs, the status, and the sentence that is the same each time."""

    code: str
    status: int
    title: str


class RequestRefusal(UsageError):
    """A request that is not carried out. Each kind of refusal is a class, so that one table can name them all."""

    kind: ClassVar[ProblemKind] = ProblemKind("conflict", 409, "The task is not in a state in which this can be done")
    retry_after_seconds: float | None = None


class UnknownTask(RequestRefusal):
    """There is no such task."""

    kind = ProblemKind("unknown_task", 404, "There is no such task")

    def __init__(self, task_id: str) -> None:
        super().__init__(f"there is no task {task_id}", remedy="list the tasks: GET /api/tasks")


class NotFound(RequestRefusal):
    """The task is there, and has no such part."""

    kind = ProblemKind("not_found", 404, "There is no such thing")


class Unfit(RequestRefusal):
    """What was given can be read, and cannot be used."""

    kind = ProblemKind("unfit", 422, "What was given cannot be used")


class OwnChanges(RequestRefusal):
    """An agent reviews what it did itself."""

    kind = ProblemKind("own_changes", 403, "An agent may not review what it did")


class AskedByAgent(RequestRefusal):
    """A process of an agent, or of a step, asks for what a person decides."""

    kind = ProblemKind("asked_by_agent", 403, "An agent may not decide this")


class KeyReused(RequestRefusal):
    """An idempotency key stands for other content already."""

    kind = ProblemKind("key_reused", 409, "The key stands for another request")


class AlreadyDecided(RequestRefusal):
    """Somebody decided otherwise before, and that stands."""

    kind = ProblemKind("already_decided", 409, "The question was decided otherwise")


class OwnQuestion(RequestRefusal):
    """An agent answers what it asks itself."""

    kind = ProblemKind("own_question", 403, "An agent may not decide what it asks")


class NotSupervised(RequestRefusal):
    """A session of the log that nobody runs."""

    kind = ProblemKind("not_supervised", 409, "No server runs this task")

    def __init__(self, task_id: SessionId, why: str = "") -> None:
        super().__init__(f"no server runs task {task_id}{f': {why}' if why else ''}", remedy=REOPEN.format(task_id))


class Unauthenticated(RequestRefusal):
    """Without a token, or with one that nobody gave out."""

    kind = ProblemKind("unauthenticated", 401, "A token is needed")


class Forbidden(RequestRefusal):
    """The token is good, and not for this."""

    kind = ProblemKind("forbidden", 403, "This token may not do that")


class WrongOrigin(RequestRefusal):
    """A page of another site asks."""

    kind = ProblemKind("wrong_origin", 403, "Pages of this origin may not ask")


class ForgedRequest(RequestRefusal):
    """A request with a cookie that no page of this server sends."""

    kind = ProblemKind("forged_request", 403, "This is not what a page of this server sends")


class TwoCredentials(RequestRefusal):
    """Two ways to say who asks."""

    kind = ProblemKind("two_credentials", 400, "A cookie and a token were given")


class WrongHost(RequestRefusal):
    """A name that is not ours: perhaps a page that rebinds its own."""

    kind = ProblemKind("wrong_host", 421, "This server does not answer to that name")


class TooMany(RequestRefusal):
    """Too much, too fast."""

    kind = ProblemKind("too_many", 429, "Too many requests")

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message, remedy="wait, and ask again")
        self.retry_after_seconds = retry_after_seconds


class TreeFull(RequestRefusal):
    """A tree of sessions that is as large as it may be."""

    kind = ProblemKind("tree_full", 429, "The tree of sessions is as large as it may be")

    def __init__(self, refused: UsageError) -> None:
        super().__init__(str(refused).removesuffix(f"; {refused.remedy}"), remedy=refused.remedy)


class Deadline(InterlockError):
    """A command has not come back in time. It may be done yet."""

    remedy = "repeat it with the same key: it is not done twice"


class NotReady(Unreachable):
    """The server is not yet, or not for now, at the end of its log."""


class BrokenOff(RequestRefusal):
    """A client that hung up before its request was whole."""

    kind = ProblemKind("bad_request", 400, "The request cannot be read")


class WrongMediaType(RequestRefusal):
    """A body that says to be something else than JSON."""

    kind = ProblemKind("wrong_media_type", 415, "The body is of a kind that is not taken")


_USAGE: Final = RequestRefusal.kind
_KINDS: Final[Mapping[type[BaseException], ProblemKind]] = MappingProxyType(
    {
        UsageError: _USAGE,
        SessionFailed: NotSupervised.kind,
        VersionConflict: ProblemKind("version_conflict", 409, "Somebody else was first"),
        NotReady: ProblemKind("not_ready", 503, "The server is not ready"),
        LogUnavailable: ProblemKind("log_unavailable", 503, "The log cannot be used now"),
        Unreachable: ProblemKind("unreachable", 503, "It could not be asked, and nothing is known about it"),
        PeerFault: ProblemKind("agent_fault", 502, "The agent broke its side of the protocol"),
        Deadline: ProblemKind("deadline", 504, "Nothing is known yet"),
    }
)
_UNFORESEEN: Final = ProblemKind("internal", 500, "Something went wrong here")
_HTTP: Final[Mapping[int, ProblemKind]] = MappingProxyType(
    {
        400: ProblemKind("bad_request", 400, "The request cannot be read"),
        404: ProblemKind("no_route", 404, "There is nothing here"),
        405: ProblemKind("method_not_allowed", 405, "This cannot be done here"),
        413: ProblemKind("too_large", 413, "The request is too large"),
        415: WrongMediaType.kind,
    }
)
_RETRY_SECONDS: Final = 1.0


def problem_of(error: BaseException, *, instance: str = "", hide: Callable[[str], str] = masked_text) -> Problem:
    """The problem that an error is. One that is our own fault is logged here, and told by its number. `hide` takes
    secrets out of what is told."""
    if isinstance(error, HTTPException):
        return _of_http(error, instance, hide)
    kind = error.kind if isinstance(error, RequestRefusal) else _kind_of(error)
    if kind is _UNFORESEEN:
        return _unforeseen(error, instance)
    remedy = _remedy(error)
    return Problem(
        title=kind.title,
        status=kind.status,
        code=kind.code,
        detail=_shown(str(error).removesuffix(f"; {remedy}") if remedy else str(error), hide),
        instance=instance,
        remedy=_shown(remedy, hide),
        retry_after_seconds=_retry_after(error, kind),
    )


def statuses() -> Mapping[int, tuple[ProblemKind, ...]]:
    """Every status that a problem may have, with its kinds: what the documentation lists."""
    refusals: list[type[RequestRefusal]] = [RequestRefusal, *_all_subclasses(RequestRefusal)]
    kinds = [*(one.kind for one in refusals), *_KINDS.values(), *_HTTP.values(), _UNFORESEEN]
    found: dict[int, dict[ProblemKind, None]] = {}
    for kind in kinds:
        found.setdefault(kind.status, {})[kind] = None
    return {status: tuple(found[status]) for status in sorted(found)}


def _all_subclasses(kind: type[RequestRefusal]) -> list[type[RequestRefusal]]:
    return [found for one in kind.__subclasses__() for found in (one, *_all_subclasses(one))]


def _kind_of(error: BaseException) -> ProblemKind:
    return next((_KINDS[one] for one in type(error).__mro__ if one in _KINDS), _UNFORESEEN)


def _remedy(error: BaseException) -> str:
    if isinstance(error, UsageError | Deadline):
        return error.remedy
    if isinstance(error, LogUnavailable):
        return error.next_action
    return "GET the task, and take it up again by its start" if isinstance(error, SessionFailed) else ""


def _retry_after(error: BaseException, kind: ProblemKind) -> float | None:
    if isinstance(error, RequestRefusal):
        return error.retry_after_seconds
    return _RETRY_SECONDS if kind.status in (503, 504) else None


def _of_http(error: HTTPException, instance: str, hide: Callable[[str], str]) -> Problem:
    status = error.status_code
    if status >= 500:
        return _unforeseen(error, instance)
    kind = _HTTP.get(status, ProblemKind(f"http_{status}", status, "The request is refused"))
    return Problem(
        title=kind.title,
        status=kind.status,
        code=kind.code,
        detail=_shown(what_is_wrong(error) if kind.status == 400 else "", hide),
        instance=instance,
    )


def what_is_wrong(error: HTTPException) -> str:
    """Which field, and why. What was given is not repeated."""
    extra = error.extra if isinstance(error, ValidationException) and isinstance(error.extra, list) else []
    told = [f"{one.get('key', '')}: {one.get('message', '')}".lstrip(": ") for one in extra if isinstance(one, dict)]
    return "; ".join(told) or str(error.detail or "")


def _unforeseen(error: BaseException, instance: str) -> Problem:
    number = sortable_id("err", time.time_ns() // 1_000_000, os.urandom(10))
    _logger.error("%s at %s\n%s", number, instance, masked_text("".join(traceback.format_exception(error))))
    return Problem(
        title=_UNFORESEEN.title,
        status=_UNFORESEEN.status,
        code=_UNFORESEEN.code,
        detail=f"it is in the server's log as {number}",
        instance=instance,
        remedy="tell whoever runs this server",
    )


def _shown(text: str, hide: Callable[[str], str]) -> str:
    masked = hide(text)
    return masked if len(masked) <= _MAX_DETAIL else masked[: _MAX_DETAIL - 1] + "…"
