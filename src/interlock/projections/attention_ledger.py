"""Notices, and the ledger of those that were told, so that each is told once.

Laws:
1. A ledger only learns: what it knows of a task's newest turn it keeps, up to `MAX_KEYS`.
2. A newer turn takes the place of an older one, of which nothing can come any more.
3. It is bounded: it forgets the tasks that it noted longest ago. Their ends then count as told, up to `horizon`.
4. Merging two ledgers loses nothing that either would keep silent about.
5. A crash is known by its time, and belongs to no turn; that all is quiet, by the time of the end that made it so.
6. What is still to be delivered stands in the stored ledger alone, by channel, from the note on until it was tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionId, SessionIdField, TurnId

MAX_TASKS: Final = 2_000
MAX_KEYS: Final = 200
MAX_OWED: Final = 1_000


class NoticeKind(StrEnum):
    """What a notice is about: the attentions that need a person, the ends of turns, then what else befell a session."""

    APPROVAL = "approval"
    QUESTION = "question"
    PLAN = "plan"
    DECISION = "decision"
    AUTH = "auth"
    QUOTA = "quota"
    ERROR = "error"
    HELD = "held"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"
    STALLED = "stalled"
    CRASHED = "crashed"
    ALL_QUIET = "all_quiet"


_ON_REQUEST: Final = (NoticeKind.COMPLETED, NoticeKind.ALL_QUIET)
DEFAULT_KINDS: Final = tuple(kind for kind in NoticeKind if kind not in _ON_REQUEST)
REASONS: Final[Mapping[NoticeKind, str]] = {
    NoticeKind.APPROVAL: "waits for an approval",
    NoticeKind.QUESTION: "asks a question",
    NoticeKind.PLAN: "wants its plan approved",
    NoticeKind.DECISION: "waits for a decision about a step",
    NoticeKind.AUTH: "needs you to sign in",
    NoticeKind.QUOTA: "has used up its quota",
    NoticeKind.ERROR: "reports an error",
    NoticeKind.HELD: "has prompts waiting behind a paused queue",
    NoticeKind.FAILED: "did not complete its turn",
    NoticeKind.INTERRUPTED: "was interrupted",
    NoticeKind.COMPLETED: "completed its turn",
    NoticeKind.STALLED: "is stalled: its turn shows no progress",
    NoticeKind.CRASHED: "crashed",
    NoticeKind.ALL_QUIET: "finished last: no session works any more",
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
    crashed_at: Moment | None = None


class Undelivered(Struct, frozen=True, kw_only=True):
    """A notice that was noted, and that a channel has yet to deliver."""

    channel: str
    notice: Notice


class NoticeLedger(Struct, frozen=True, kw_only=True):
    """What was told. Ends up to `horizon` count as told. `tasks` stand in the order of their last note."""

    horizon: Moment
    tasks: dict[SessionIdField, Noted] = {}
    quiet_at: Moment | None = None
    undelivered: tuple[Undelivered, ...] = ()


def keys_of(ledger: NoticeLedger, task_id: SessionId) -> tuple[str, ...]:
    """What was told of a task in its newest turn."""
    noted = ledger.tasks.get(task_id)
    return () if noted is None else noted.keys


def is_told(ledger: NoticeLedger, notice: Notice) -> bool:
    """Whether the ledger knows this edge."""
    if notice.kind is NoticeKind.ALL_QUIET:
        return ledger.quiet_at is not None and notice.at <= ledger.quiet_at
    noted = ledger.tasks.get(notice.task_id)
    if notice.kind is NoticeKind.CRASHED:
        return noted is not None and noted.crashed_at is not None and notice.at <= noted.crashed_at
    return noted is not None and notice.key in noted.keys


def note(ledger: NoticeLedger, notice: Notice) -> NoticeLedger:
    """The ledger that knows this edge too."""
    if is_told(ledger, notice):
        return ledger
    if notice.kind is NoticeKind.ALL_QUIET:
        return structs.replace(ledger, quiet_at=notice.at)
    noted = ledger.tasks.get(notice.task_id)
    if notice.kind is NoticeKind.CRASHED:
        known = noted or Noted(version=notice.version, at=notice.at, turn_id=notice.turn_id)
        return _with(ledger, notice.task_id, structs.replace(known, crashed_at=notice.at, at=notice.at))
    keys = noted.keys if noted is not None and _is_same_turn(noted, notice) else ()
    turn_id = notice.turn_id or (None if noted is None else noted.turn_id)
    added = Noted(
        version=notice.version,
        at=notice.at,
        turn_id=turn_id,
        keys=(*keys, notice.key)[-MAX_KEYS:],
        crashed_at=None if noted is None else noted.crashed_at,
    )
    return _with(ledger, notice.task_id, added)


def owe(ledger: NoticeLedger, notices: Sequence[Notice], channels: Sequence[str]) -> NoticeLedger:
    """The ledger that says of these that every channel has yet to deliver them."""
    owed = [Undelivered(channel=channel, notice=notice) for notice in notices for channel in channels]
    return structs.replace(ledger, undelivered=(*ledger.undelivered, *owed)[-MAX_OWED:]) if owed else ledger


def strike(ledger: NoticeLedger, key: str, channel: str) -> NoticeLedger:
    """The ledger that owes nothing of this notice by this channel."""
    left = tuple(one for one in ledger.undelivered if (one.notice.key, one.channel) != (key, channel))
    return ledger if len(left) == len(ledger.undelivered) else structs.replace(ledger, undelivered=left)


def _with(ledger: NoticeLedger, task_id: SessionId, noted: Noted) -> NoticeLedger:
    tasks = {task: one for task, one in ledger.tasks.items() if task != task_id}
    return _bounded(structs.replace(ledger, tasks={**tasks, task_id: noted}))


def merge(one: NoticeLedger, other: NoticeLedger) -> NoticeLedger:
    """What both know together. Of a task in two turns the one with the higher version holds. `one` is what is stored:
    what is owed is known to it alone."""
    tasks = dict(one.tasks)
    for task, noted in other.tasks.items():
        known = tasks.get(task)
        tasks[task] = noted if known is None else _merged(known, noted)
    ordered = dict(sorted(tasks.items(), key=lambda entry: entry[1].at))
    horizon, quiet_at = max(one.horizon, other.horizon), _later(one.quiet_at, other.quiet_at)
    return _bounded(NoticeLedger(horizon=horizon, tasks=ordered, quiet_at=quiet_at, undelivered=one.undelivered))


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _merged(known: Noted, noted: Noted) -> Noted:
    newer, older = (noted, known) if noted.version >= known.version else (known, noted)
    newer = structs.replace(newer, crashed_at=_later(newer.crashed_at, older.crashed_at))
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
    return structs.replace(ledger, horizon=horizon, tasks=tasks)
