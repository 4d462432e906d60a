"""Fork: a child session that begins as a copy of its parent up to the end of a turn.

Laws:
1. Only at a boundary (`boundaries`): inside a turn or a tool pair a fork is refused, and the nearest boundaries named.
2. The child's provider input is the parent's at that boundary, byte for byte; an asked-for branch summary follows it.
3. Copied are the replay events and the evidence of how each turn ended, so that `turn_states` reads the copied turns as
   it reads the parent's. A partial text is copied only with a turn that has ended, never without its failure.
4. Copies get new ids and sequence numbers; what they say, their turn and their time stay. Ranges of compactions are
   those of the copies. `session_fork` comes first and names the parent and the root of the whole lineage.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from msgspec import structs

from interlock.lifecycle.turns import TurnFold
from interlock.projections.replay.boundaries import find_cuts
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.events.audit import RunState, SessionFork, TurnFailed, TurnStarted
from interlock.vocabulary.events.conversation import AssistantMessage, BranchSummary, HistoryCompaction, SeqRange
from interlock.vocabulary.events.envelope import Event, audience, new_event
from interlock.vocabulary.events.registry import Audience, Payload
from interlock.vocabulary.ids import EventId, SessionId

FIRST_SEQ: Final = 1  # the log counts from 1; here stands `session_fork`
LIMITATIONS: Final = (
    "Audit evidence other than how each turn ended stays with the parent.",
    "Attachments are named by hash; their bytes stay with the parent until they are copied.",
)


class NotABoundary(UsageError):
    """The log cannot be cut after this event; the nearest places where it can are named."""

    def __init__(self, at_seq: int, *, before: int | None, after: int | None) -> None:
        places = [f"seq {seq}" for seq in (before, after) if seq is not None]
        remedy = f"fork at {' or '.join(places)}" if places else "fork once its first turn has ended"
        super().__init__(f"seq {at_seq} is not the end of a turn", remedy=remedy)
        self.at_seq, self.before, self.after = at_seq, before, after


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """The events of a new session, stamped from seq 1, to be appended at version 0 in one batch."""

    events: tuple[Event, ...]
    parent_session_id: SessionId
    at_seq: int
    copied: int
    left_out: int


def fork_points(events: Iterable[Event]) -> tuple[int, ...]:
    """Every `seq` after which this log may be forked."""
    log = _stamped(events)
    return tuple(log[position].seq or 0 for position in find_cuts(log).boundaries)


def plan_fork(
    events: Iterable[Event],
    *,
    at_seq: int,
    child_session_id: SessionId,
    ids: Iterable[EventId],
    at: datetime,
    branch_summary: str = "",
) -> ForkPlan:
    """Plan a child of the session whose log this is. `ids` yields a fresh id for each event of the child.

    `branch_summary` tells the model what the parent did after the boundary; `compaction.summarise` can write one.
    """
    log = _stamped(events)
    points = fork_points(log)
    if at_seq not in points:
        before = max((seq for seq in points if seq < at_seq), default=None)
        raise NotABoundary(at_seq, before=before, after=min((seq for seq in points if seq > at_seq), default=None))
    prefix = [event for event in log if (event.seq or 0) <= at_seq]
    parent = log[0].session_id
    if child_session_id == parent:
        raise ContractError(f"a session cannot be forked into itself ({parent})")
    lineage = SessionFork(
        parent_session_id=parent,
        fork_root_session_id=_root(log) or parent,
        parent_range=SeqRange(from_seq=log[0].seq or 0, to_seq=at_seq),
        limitations=LIMITATIONS,
    )
    copies = _copied(prefix)
    fresh = iter(ids)
    summary = _summary(log, at_seq, branch_summary)
    child = [
        new_event(lineage, id=_next(fresh), session_id=child_session_id, ts=at, seq=FIRST_SEQ),
        *_renumbered(copies, child_session_id, fresh),
    ]
    if summary is not None:
        seq = FIRST_SEQ + len(child)
        child.append(new_event(summary, id=_next(fresh), session_id=child_session_id, ts=at, seq=seq))
    return ForkPlan(tuple(child), parent, at_seq, len(copies), len(prefix) - len(copies))


def _stamped(events: Iterable[Event]) -> list[Event]:
    log = list(events)
    seqs = [event.seq for event in log if event.seq is not None]
    if len(seqs) < len(log):
        raise ContractError("a fork names sequence numbers; append the events first, then plan")
    if any(one >= following for one, following in pairwise(seqs)):
        raise UsageError("the sequence numbers of this log are out of order", remedy="diagnose the session first")
    if not log:
        raise UsageError("there is nothing to fork", remedy="fork a session that has at least one finished turn")
    return log


def _root(log: Sequence[Event]) -> SessionId | None:
    forks = (event.data.fork_root_session_id for event in log if isinstance(event.data, SessionFork))
    return next(forks, None)


def _next(ids: Iterator[EventId]) -> EventId:
    fresh = next(ids, None)
    if fresh is None:
        raise ContractError("too few ids for the events of the fork; give an endless supply")
    return fresh


def _copied(prefix: Sequence[Event]) -> list[Event]:
    turns = TurnFold()
    owners = [turns.add(event) for event in prefix]
    ended = {key for key, turn in turns.turns.items() if turn.is_terminal}
    return [
        event
        for event, owner in zip(prefix, owners, strict=True)
        if audience(event) is Audience.REPLAY
        or isinstance(event.data, TurnStarted | TurnFailed | RunState)
        or (isinstance(event.data, AssistantMessage) and owner and (owner.session_id, owner.turn_id) in ended)
    ]


def _renumbered(copies: Sequence[Event], child: SessionId, ids: Iterator[EventId]) -> Iterator[Event]:
    seqs = [event.seq or 0 for event in copies]
    for index, event in enumerate(copies):
        data: Payload = event.data
        if isinstance(data, HistoryCompaction):
            # The fork event comes before the copies, so a copy's seq is one more than its number in the row.
            last = FIRST_SEQ + bisect_right(seqs, data.range.to_seq, hi=index)
            first = FIRST_SEQ + 1 + bisect_left(seqs, data.range.from_seq, hi=index)
            data = structs.replace(data, range=SeqRange(from_seq=min(first, last), to_seq=last))
        seq = FIRST_SEQ + 1 + index
        yield structs.replace(event, id=_next(ids), session_id=child, seq=seq, data=data)


def _summary(log: Sequence[Event], at_seq: int, text: str) -> BranchSummary | None:
    if not text.strip():
        return None
    last = log[-1].seq or 0
    if last <= at_seq:
        raise UsageError(f"nothing follows seq {at_seq}", remedy="fork without a branch summary")
    branch = SeqRange(from_seq=at_seq + 1, to_seq=last)
    return BranchSummary(parent_session_id=log[0].session_id, range=branch, summary=text)
