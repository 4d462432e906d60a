"""Notices, and the ledger of those that were told, so that each is told once.

Laws:
1. A ledger only learns: what it knows of a task's newest turn it keeps, up to `MAX_KEYS`.
2. A newer turn takes the place of an older one, of which nothing can come any more.
3. It is bounded: it forgets the tasks that it noted longest ago. Their ends then count as told, up to `horizon`.
4. Merging two ledgers loses nothing that either would keep silent about.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionId, SessionIdField, TurnId

MAX_TASKS: Final = 2_000
MAX_KEYS: Final = 200


class NoticeKind(StrEnum):
    """What a notice is about: the attentions that need a person, then the ends of turns."""

    APPROVAL = "approval"
    QUESTION = "question"
    PLAN = "plan"
    AUTH = "auth"
    QUOTA = "quota"
    ERROR = "error"
    HELD = "held"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"


DEFAULT_KINDS: Final = tuple(kind for kind in NoticeKind if kind is not NoticeKind.COMPLETED)
REASONS: Final[Mapping[NoticeKind, str]] = {
    NoticeKind.APPROVAL: "waits for an approval",
    NoticeKind.QUESTION: "asks a question",
    NoticeKind.PLAN: "wants its plan approved",
    NoticeKind.AUTH: "needs you to sign in",
    NoticeKind.QUOTA: "has used up its quota",
    NoticeKind.ERROR: "reports an error",
    NoticeKind.HELD: "has prompts waiting behind a paused queue",
    NoticeKind.FAILED: "did not complete its turn",
    NoticeKind.INTERRUPTED: "was interrupted",
    NoticeKind.COMPLETED: "completed its turn",
}


class Notice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person is told. `key` is the same for the same edge, for whoever drops doubles of their own."""

    key: str
    kind: NoticeKind
    task_id: SessionIdField
    version: int
    turn_id: TurnId | None = None
    agent: str = ""
    title: str = ""
    reason: str
    question: str = ""
    at: Moment


class Noted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was told of one task in its newest turn: `keys`, oldest first."""

    version: int
    at: Moment
    turn_id: TurnId | None = None
    keys: tuple[str, ...] = ()


class NoticeLedger(Struct, frozen=True, kw_only=True):
    """What was told. Ends up to `horizon` count as told. `tasks` stand in the order of their last note."""

    horizon: Moment
    tasks: dict[SessionIdField, Noted] = {}


def keys_of(ledger: NoticeLedger, task_id: SessionId) -> tuple[str, ...]:
    """What was told of a task in its newest turn."""
    noted = ledger.tasks.get(task_id)
    return () if noted is None else noted.keys


def is_told(ledger: NoticeLedger, notice: Notice) -> bool:
    """Whether the ledger knows this edge."""
    noted = ledger.tasks.get(notice.task_id)
    return noted is not None and notice.key in noted.keys


def note(ledger: NoticeLedger, notice: Notice) -> NoticeLedger:
    """The ledger that knows this edge too."""
    if is_told(ledger, notice):
        return ledger
    noted = ledger.tasks.get(notice.task_id)
    keys = noted.keys if noted is not None and _is_same_turn(noted, notice) else ()
    turn_id = notice.turn_id or (None if noted is None else noted.turn_id)
    added = Noted(version=notice.version, at=notice.at, turn_id=turn_id, keys=(*keys, notice.key)[-MAX_KEYS:])
    tasks = {task: one for task, one in ledger.tasks.items() if task != notice.task_id}
    return _bounded(structs.replace(ledger, tasks={**tasks, notice.task_id: added}))


def merge(one: NoticeLedger, other: NoticeLedger) -> NoticeLedger:
    """What both know together. Of a task in two turns the one with the higher version holds."""
    tasks = dict(one.tasks)
    for task, noted in other.tasks.items():
        known = tasks.get(task)
        tasks[task] = noted if known is None else _merged(known, noted)
    ordered = dict(sorted(tasks.items(), key=lambda entry: entry[1].at))
    return _bounded(NoticeLedger(horizon=max(one.horizon, other.horizon), tasks=ordered))


def _merged(known: Noted, noted: Noted) -> Noted:
    newer, older = (noted, known) if noted.version >= known.version else (known, noted)
    if newer.turn_id != older.turn_id and newer.turn_id is not None and older.turn_id is not None:
        return newer
    keys = (*older.keys, *(key for key in newer.keys if key not in older.keys))
    turn_id = newer.turn_id or older.turn_id
    return structs.replace(newer, keys=keys[-MAX_KEYS:], turn_id=turn_id, at=max(newer.at, older.at))


def _is_same_turn(noted: Noted, notice: Notice) -> bool:
    return notice.turn_id is None or noted.turn_id is None or notice.turn_id == noted.turn_id


def _bounded(ledger: NoticeLedger) -> NoticeLedger:
    if len(ledger.tasks) <= MAX_TASKS:
        return ledger
    tasks, horizon = dict(ledger.tasks), ledger.horizon
    while len(tasks) > MAX_TASKS:
        horizon = max(horizon, tasks.pop(next(iter(tasks))).at)
    return NoticeLedger(horizon=horizon, tasks=tasks)
