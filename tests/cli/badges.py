"""Summaries as a server sends them: with the badge that belongs to the rest."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from interlock.client.prompt_watch import PromptLook
from interlock.lifecycle.turns import TurnRecord
from interlock.projections.badge import badge_of
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.resources import TaskDetail
from tests.bodies import Body


def with_badge(summary: Body, now: datetime | None = None) -> Body:
    """The summary with its badge, and else as it was given."""
    read = msgspec.convert({"version": 1, **summary, "task_id": "ses_any"}, TaskSummary)
    return {**summary, "badge": msgspec.to_builtins(badge_of(read, now or datetime.now(UTC)))}


def look_of(
    summary: Body, turn: Body | None = None, *, queue: Body | None = None, approvals: Iterable[Body] = ()
) -> PromptLook:
    """One look at a session, with the badge that belongs to it."""
    line = with_badge({"version": 1, **summary})
    told = {"summary": line, "turns": 1, "queue": queue or {}, "approvals": list(approvals)}
    record = None if turn is None else {"session_id": "ses_1", "basis": "run_events", **turn}
    detail = msgspec.convert(told, TaskDetail)
    return PromptLook(detail=detail, turn=None if record is None else msgspec.convert(record, TurnRecord))
