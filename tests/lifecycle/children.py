"""What the tests of children share: a small clock, and a child in its first states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from interlock.lifecycle.children.subagent import StartChild, SubagentInput, SubagentRecord, queue_child, step
from interlock.vocabulary.ids import SessionId, SubagentId

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
TIMEOUT_MS: Final = 2000


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def queued(name: str = "sub_1", *, model_visible: bool = True) -> SubagentRecord:
    return queue_child(
        SubagentId(name), agent="reviewer", task="review", timeout_ms=TIMEOUT_MS, model_visible=model_visible
    )


def session(attempt: int) -> SessionId:
    return SessionId(f"ses_{attempt}")


def running(started_at: float = 0) -> SubagentRecord:
    return after(queued(), StartChild(session(1)), started_at)


def after(child: SubagentRecord, input: SubagentInput, seconds: float) -> SubagentRecord:
    return step(child, input, at(seconds))[0]
