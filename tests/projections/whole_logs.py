"""Folds of a whole log at once, as tests state laws by them."""

from __future__ import annotations

from collections.abc import Container, Iterable

from interlock.projections.approvals import ApprovalFold
from interlock.projections.replay.items import encode_items
from interlock.projections.replay.provider_input import provider_items
from interlock.projections.spawns import SpawnLog, SpawnRow
from interlock.projections.usage import Usage, UsageFold
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.wire.approval import Approval


def approvals(events: Iterable[Event]) -> tuple[Approval, ...]:
    """Every question of a log, oldest first."""
    fold = ApprovalFold()
    for event in events:
        fold.add(event)
    return tuple(fold.approvals.values())


def provider_input(events: Iterable[Event], *, model: str = "", dialect: str = "") -> bytes:
    """What a model is given of a log, one canonical JSON item a line, as `interlock debug replay --json` prints it."""
    return encode_items(provider_items(events, model=model, dialect=dialect))


def spawn_rows(events: Iterable[Event], living: Container[SpawnId] | None = None) -> tuple[SpawnRow, ...]:
    """The spawns of a log."""
    log = SpawnLog()
    for event in events:
        log.add(event)
    return log.rows(living)


def usage(events: Iterable[Event]) -> Usage:
    """What a whole log used."""
    fold = UsageFold()
    for event in events:
        fold.add(event)
    return fold.total
