"""The spawn log: every life of an agent's process, from its start to its end, folded from the log.

Laws:
1. One row a spawn, in the order in which they began. What names no spawn makes no row.
2. An end is final: whatever comes after it adds what the census ended, and changes nothing else.
3. A spawn without an end runs only if the caller says that it lives. Told that it does not, it is `unclean`; and where
   nobody looked, nothing is claimed.
4. Arguments and errors are shown as they were written down: whoever wrote them has masked them.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from interlock.vocabulary.events.audit import EndedProcess, ProcessEvent, ProcessEventKind, SessionOpened
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, SpawnId
from interlock.vocabulary.states import ExitReason


class SpawnStanding(StrEnum):
    """How a spawn stands."""

    RUNNING = "running"
    EXITED = "exited"
    FAILED = "failed"
    UNCLEAN = "unclean"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRow:
    """One life. `attempt` is the number of the restart that it was, if it was one; 0 is a free attempt. `is_foreign`:
    somebody else started it, and it was only taken up."""

    spawn_id: SpawnId
    session_id: SessionId
    agent: str = ""
    standing: SpawnStanding = SpawnStanding.UNKNOWN
    argv: tuple[str, ...] = ()
    pid: int | None = None
    start_time: str = ""
    began: datetime | None = None
    ended: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: ExitReason | None = None
    stderr_tail: str = ""
    duration_seconds: float | None = None
    attempt: int | None = None
    is_adopted: bool = False
    is_foreign: bool = False
    is_released: bool = False
    stop_requested: datetime | None = None
    message: str = ""
    census: tuple[EndedProcess, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.standing in (SpawnStanding.EXITED, SpawnStanding.FAILED)


class SpawnLog:
    """Feed it events, of any sessions, in the order of their logs; ask it for rows."""

    def __init__(self) -> None:
        self._rows: dict[tuple[SessionId, SpawnId], SpawnRow] = {}
        self._agents: dict[SessionId, str] = {}
        self._next_attempts: dict[SessionId, int | None] = {}

    def add(self, event: Event) -> None:
        """Take one event. Those that say nothing of a process are passed over."""
        data = event.data
        if isinstance(data, SessionOpened):
            self._agents[event.session_id] = data.agent
        elif isinstance(data, ProcessEvent):
            if data.kind is ProcessEventKind.RESTART_DUE:
                self._next_attempts[event.session_id] = data.attempt
            elif event.spawn_id is not None:
                self._add_process(event, event.spawn_id, data)

    def rows(self, living: Container[SpawnId] | None = None) -> tuple[SpawnRow, ...]:
        """Every spawn. `living` names those that are known to live; None: nobody looked."""
        return tuple(replace(row, standing=_standing(row, living)) for row in self._rows.values())

    def _add_process(self, event: Event, spawn_id: SpawnId, data: ProcessEvent) -> None:
        key = event.session_id, spawn_id
        row = self._rows.get(key)
        if row is None:
            is_foreign = data.kind is ProcessEventKind.ADOPTED
            row = replace(self._new_row(event, spawn_id), is_foreign=is_foreign)
        if not row.is_over:
            row = _told(row, data, event.ts)
        self._rows[key] = replace(row, census=tuple(dict.fromkeys((*row.census, *data.ended))))

    def _new_row(self, event: Event, spawn_id: SpawnId) -> SpawnRow:
        session_id = event.session_id
        attempt = self._next_attempts.pop(session_id, None)
        return SpawnRow(
            spawn_id=spawn_id, session_id=session_id, agent=self._agents.get(session_id, ""), attempt=attempt
        )


def _standing(row: SpawnRow, living: Container[SpawnId] | None) -> SpawnStanding:
    if row.is_over:
        return row.standing
    if living is None:
        return SpawnStanding.UNKNOWN
    return SpawnStanding.RUNNING if row.spawn_id in living else SpawnStanding.UNCLEAN


def _told(row: SpawnRow, data: ProcessEvent, at: datetime) -> SpawnRow:
    kind = ProcessEventKind
    match data.kind:
        case kind.SPAWNED:
            return _begun(row, data, at)
        case kind.ADOPTED:
            return replace(_begun(row, data, at), is_adopted=True, is_released=False)
        case kind.EXITED:
            return _ended(row, data, at)
        case kind.SPAWN_FAILED:
            return replace(row, standing=SpawnStanding.FAILED, ended=at, message=data.message)
        case kind.STOP_REQUESTED:
            return replace(row, stop_requested=row.stop_requested or at)
        case kind.RELEASED:
            return replace(row, is_released=True)
        case kind.SPAWN_REQUESTED | kind.CENSUS | kind.RESTARTS_EXHAUSTED | kind.RESTART_DUE:
            return row
        case unreachable:
            assert_never(unreachable)


def _begun(row: SpawnRow, data: ProcessEvent, at: datetime) -> SpawnRow:
    """A start. An adoption of a spawn that is known already keeps when and how it was started."""
    return replace(
        row,
        argv=row.argv or data.argv,
        pid=row.pid if row.pid is not None else data.pid,
        start_time=row.start_time or data.start_time,
        began=row.began or at,
        attempt=row.attempt if data.attempt is None else data.attempt,
    )


def _ended(row: SpawnRow, data: ProcessEvent, at: datetime) -> SpawnRow:
    counted = None if row.began is None else max(0.0, (at - row.began).total_seconds())
    return replace(
        row,
        standing=SpawnStanding.EXITED,
        ended=at,
        exit_code=data.exit_code,
        signal=data.signal,
        reason=data.exit_reason,
        stderr_tail=data.stderr_tail,
        duration_seconds=counted if data.duration_seconds is None else data.duration_seconds,
        message=data.message,
    )
