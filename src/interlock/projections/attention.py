"""Edges into needing a person: which changes of a board are worth telling, each once.

Laws:
1. One notice an edge. An edge is known by its task, its turn and what is asked. A failed end says what an error says.
2. Never twice: what the ledger knows is not told again, neither after a flap, nor after a reconnect or a restart.
3. A question is told once it has stood for `quiet_seconds`; what was answered meanwhile is told to nobody. An end is
   told at once.
4. Older than what is known (a lower version) says nothing. What ended before the ledger began is no news.
5. A blank question is no other question. One whose words come later is still the same; words that come after those
   are another. A question that is open again, since a decision did not reach the agent, is another edge: it is told
   again, with the reason.
6. What nobody wants to hear is noted all the same, so that it is no news on the day that somebody does.
7. A stall is told as a question is, once a turn; a crash as an end is, with its count. That all is quiet is told once
   the whole board was seen, and has stood as long as a question must (`fleet_rest`).
8. Text of a notice is one line without control characters, and no longer than `MAX_TEXT`; what is
   asked, with the command or the file that it is about, than `MAX_QUESTION`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias, assert_never

from msgspec import structs

from interlock.projections.attention_ledger import (
    DEFAULT_KINDS,
    REASONS,
    Notice,
    NoticeKind,
    NoticeLedger,
    is_told,
    keys_of,
    note,
)
from interlock.projections.badge import badge_of
from interlock.projections.fleet_rest import FleetRest, is_busy
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity, Attention, Outcome, TaskStatus
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import TaskSummary

MAX_TEXT: Final = 300
MAX_QUESTION: Final = 4_000
# Whatever could move a cursor, end a sequence, reorder a text or hide in it.
_UNSAFE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]+"
)
_ENDS: Final[Mapping[Outcome | None, NoticeKind]] = {
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.PARTIAL: NoticeKind.FAILED,
    Outcome.TIMED_OUT: NoticeKind.FAILED,
    Outcome.INTERRUPTED: NoticeKind.INTERRUPTED,
    Outcome.DONE: NoticeKind.COMPLETED,
}
_END_REASONS: Final[Mapping[Outcome | None, str]] = {
    Outcome.PARTIAL: "failed; a partial answer was kept",
    Outcome.TIMED_OUT: "ran out of time",
}
_END_KINDS: Final = frozenset({*_ENDS.values(), NoticeKind.CRASHED})  # what happened at a time, and is told at once
_ASKS: Final = frozenset({NoticeKind.APPROVAL, NoticeKind.QUESTION, NoticeKind.PLAN, NoticeKind.DECISION})
_ASKED: Final = "asks"


@dataclass(frozen=True, slots=True)
class Sighted:
    """A line of the board, as it came."""

    summary: TaskSummary


@dataclass(frozen=True, slots=True)
class AttentionTimerFired:
    """The earliest deadline is due."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The board cannot be seen any more: what waits to be told is not known to stand, and waits anew when it is."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Every line that the board had was seen."""


Input: TypeAlias = Sighted | AttentionTimerFired | Lost | Surveyed


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPolicy:
    """What to tell, and how long a question must stand first."""

    kinds: frozenset[NoticeKind] = frozenset(DEFAULT_KINDS)
    quiet_seconds: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionState:
    """`standing`: the keys of what each task needs now. `pending`: notices that wait, by key, each with its time."""

    ledger: NoticeLedger
    policy: AttentionPolicy = AttentionPolicy()
    versions: Mapping[SessionId, int] = field(default_factory=dict)
    standing: Mapping[SessionId, frozenset[str]] = field(default_factory=dict)
    pending: Mapping[str, tuple[datetime, Notice]] = field(default_factory=dict)
    fleet: FleetRest = field(default_factory=FleetRest)

    @property
    def deadline(self) -> datetime | None:
        """When to come back, if nothing else happens."""
        return min((due for due, _ in self.pending.values()), default=None)


def step(state: AttentionState, given: Input, now: datetime) -> tuple[AttentionState, tuple[Notice, ...]]:
    """Take in what was seen, and give what is to be told. What is told is in the ledger of the state given back."""
    state, told = _fire(state, now)
    match given:
        case Sighted():
            state, more = _see(state, given, now)
            state, last = _heed_rest(state, now)
            return state, (*told, *more, *last)
        case Surveyed():
            state, last = _heed_rest(replace(state, fleet=replace(state.fleet, is_whole=True)), now)
            return state, (*told, *last)
        case AttentionTimerFired():
            return state, told
        case Lost():
            return replace(state, pending={}, fleet=FleetRest()), told
        case unreachable:
            assert_never(unreachable)


def scrub(text: str, limit: int = MAX_TEXT) -> str:
    """One line that a terminal, a desktop and a person can be shown, cut where it is longer than the limit."""
    line = " ".join(_UNSAFE.sub(" ", text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _see(state: AttentionState, given: Sighted, now: datetime) -> tuple[AttentionState, list[Notice]]:
    task, version = given.summary.task_id, given.summary.version
    noted = state.ledger.tasks.get(task)
    if version < max(state.versions.get(task, 0), 0 if noted is None else noted.version):
        return state, []
    badge = given.summary.badge or badge_of(given.summary, now)
    needs = _needs(given.summary, badge, now)
    end = next((one for one in needs if one.kind in _ENDS.values()), None)
    state = replace(state, fleet=state.fleet.see(task, end, is_busy=is_busy(given.summary, badge)))
    before = state.standing.get(task, frozenset())
    state = replace(
        state,
        versions={**state.versions, task: version},
        standing={**state.standing, task: frozenset(one.key for one in needs)},
    )
    told: list[Notice] = []
    for notice in needs:
        state, more = _raise(state, notice, before, now)
        told += more
    return state, told


def _fire(state: AttentionState, now: datetime) -> tuple[AttentionState, tuple[Notice, ...]]:
    """Tell what has stood long enough; what no longer stands is let go."""
    told: list[Notice] = []
    for when, notice in sorted(state.pending.values(), key=lambda one: (one[0], one[1].key)):
        if when > now:
            break
        state = replace(state, pending={key: one for key, one in state.pending.items() if key != notice.key})
        stands = notice.kind is NoticeKind.ALL_QUIET or notice.key in state.standing.get(notice.task_id, ())
        if stands and not _is_known(state, notice, frozenset()):
            state, more = _tell(state, notice)
            told += more
    return state, tuple(told)


def _heed_rest(state: AttentionState, now: datetime) -> tuple[AttentionState, list[Notice]]:
    """Let that all is quiet wait to be told, or no longer."""
    notice = state.fleet.rest(state.ledger)
    others = {key: one for key, one in state.pending.items() if one[1].kind is not NoticeKind.ALL_QUIET}
    if notice is None:
        return (state if len(others) == len(state.pending) else replace(state, pending=others)), []
    if not state.policy.quiet_seconds:
        return _tell(state, notice)
    due = now + timedelta(seconds=state.policy.quiet_seconds)
    known = state.pending.get(notice.key, (due, notice))
    return replace(state, pending={**others, notice.key: known}), []


def _raise(
    state: AttentionState, notice: Notice, before: frozenset[str], now: datetime
) -> tuple[AttentionState, list[Notice]]:
    if _is_known(state, notice, before):
        # An end that is old news needs no note: the horizon knows it. A blank that tells nothing new must have none, or
        # the words of the next question would count as its own.
        is_noted = notice.kind not in _END_KINDS and notice.key != _key(notice, _ASKED)
        return replace(state, ledger=note(state.ledger, notice)) if is_noted else state, []
    if notice.kind in _END_KINDS or not state.policy.quiet_seconds:
        return _tell(state, notice)
    due = now + timedelta(seconds=state.policy.quiet_seconds)
    if notice.key in state.pending:  # it came back, perhaps with more to say: its time runs on
        due = state.pending[notice.key][0]
    return replace(state, pending={**state.pending, notice.key: (due, notice)}), []


def _tell(state: AttentionState, notice: Notice) -> tuple[AttentionState, list[Notice]]:
    state = replace(state, ledger=note(state.ledger, notice))
    return state, [notice] if notice.kind in state.policy.kinds else []


def _is_known(state: AttentionState, notice: Notice, before: frozenset[str]) -> bool:
    if is_told(state.ledger, notice):
        return True
    if notice.kind in _END_KINDS:
        return notice.at <= state.ledger.horizon
    keys = keys_of(state.ledger, notice.task_id)
    if notice.kind is NoticeKind.ERROR:
        return _key(notice, NoticeKind.FAILED) in keys
    blank = _key(notice, _group(notice.kind))
    if notice.key == blank:  # nothing shows that it is another question than one that was told
        return notice.kind in _ASKS and any(key.startswith(f"{blank}:") for key in keys)
    if blank not in before or blank not in keys:
        return False
    # Its words have come, unless they came before these.
    return not any(f"/{_ASKED}:" in key for key in keys[keys.index(blank) + 1 :])


def _needs(summary: TaskSummary, badge: Badge, now: datetime) -> tuple[Notice, ...]:
    """What the badge says that a person is needed for: the end first, for it may explain the rest."""
    end = None if summary.task_status is TaskStatus.DELETE else _ENDS.get(badge.outcome)
    needs = _mishaps(summary, badge, now)
    if end is not None:
        notice = _notice(summary, end, summary.status_updated_at or now, "")
        needs.append(structs.replace(notice, reason=_END_REASONS.get(badge.outcome, notice.reason)))
    if badge.is_blocked:
        kind = NoticeKind(badge.attention.value)
        asked = summary.held if kind is NoticeKind.HELD else _edge(summary)
        notice = _notice(summary, kind, now, "" if kind is NoticeKind.ERROR else asked)
        needs.append(_again(notice, summary.question_problem) if kind in _ASKS else notice)
    return tuple(needs)


def _mishaps(summary: TaskSummary, badge: Badge, now: datetime) -> list[Notice]:
    """That its process crashed, and that its turn is stalled and asks nothing."""
    found: list[Notice] = []
    if summary.crashed_at and summary.task_status is not TaskStatus.DELETE:
        at = summary.crashed_at[-1]
        notice = _notice(summary, NoticeKind.CRASHED, at, "")
        count = f" {badge.crashes} times in an hour" if badge.crashes > 1 else ""
        key = f"{summary.task_id}/{NoticeKind.CRASHED.value}/{at.isoformat()}"
        found.append(structs.replace(notice, key=key, reason=f"{notice.reason}{count}"))
    if badge.activity is Activity.STALLED and badge.attention is Attention.NONE and not badge.is_over:
        found.append(_notice(summary, NoticeKind.STALLED, now, ""))
    return found


def _edge(summary: TaskSummary) -> str:
    """The name of what is asked, and of each time that it is asked again."""
    asked = summary.approval_id or summary.question
    if summary.asks is Attention.DECISION and summary.asked_at is not None:  # a step may wait again, under its one id
        return f"{asked}@{summary.asked_at.isoformat()}"
    return f"{asked}#{summary.undelivered}" if asked and summary.undelivered else asked


def _again(notice: Notice, problem: str) -> Notice:
    """A notice that says why the question is open again, if it is."""
    if not problem:
        return notice
    return structs.replace(notice, reason=scrub(f"{notice.reason}; a decision did not reach the agent: {problem}"))


def _notice(summary: TaskSummary, kind: NoticeKind, at: datetime, asked: str) -> Notice:
    notice = Notice(
        key="",
        kind=kind,
        task_id=summary.task_id,
        version=summary.version,
        turn_id=summary.turn_id,
        agent=scrub(summary.agent),
        title=scrub(summary.title),
        reason=REASONS[kind],
        question="" if kind in _END_KINDS or kind is NoticeKind.STALLED else scrub(_asked(summary), MAX_QUESTION),
        at=at,
    )
    digest = hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return structs.replace(notice, key=_key(notice, f"{_ASKED}:{digest}" if asked else _group(kind)))


def _asked(summary: TaskSummary) -> str:
    """What is asked: the words, and what would run if they were answered with yes."""
    return " \u00b7 ".join(part for part in (summary.question, summary.called_with) if part)


def _group(kind: NoticeKind) -> str:
    return _ASKED if kind in _ASKS else kind.value


def _key(notice: Notice, what: str) -> str:
    return f"{notice.task_id}/{notice.turn_id or ''}/{what}"
