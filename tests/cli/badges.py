"""Summaries as a server sends them: with the badge that belongs to the rest."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from interlock.cli.server.api import Body
from interlock.projections.badge import badge_of
from interlock.vocabulary.wire.frames import TaskSummary


def with_badge(summary: Body, now: datetime | None = None) -> Body:
    """The summary with its badge, and else as it was given."""
    read = msgspec.convert({"version": 1, **summary, "task_id": "ses_any"}, TaskSummary)
    return {**summary, "badge": msgspec.to_builtins(badge_of(read, now or datetime.now(UTC)))}
