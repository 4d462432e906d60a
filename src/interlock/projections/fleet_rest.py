"""When the last session that worked has finished: all that a board shows, folded to that one edge. Pure.

Laws:
1. It is told of a board that was seen as a whole; of one that is lost, or is not read yet, nothing is said.
2. A session that works, is stuck or unknown, asks, or has prompts that go on by themselves is not at rest. What is not
   known is not quiet.
3. The edge is known by the turn that ended last, so that it is the same one after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from interlock.lifecycle.task_status import has_open_turn
from interlock.projections.attention_ledger import REASONS, Notice, NoticeKind, NoticeLedger, is_told
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import TaskSummary

_AT_REST: Final = (Activity.QUIET, Activity.GONE)


@dataclass(frozen=True, slots=True)
class FleetRest:
    """`busy`: what is not at rest. `last_end`: the newest end of a turn that was seen."""

    is_whole: bool = False
    busy: frozenset[SessionId] = frozenset()
    last_end: Notice | None = None

    def see(self, task: SessionId, end: Notice | None, *, is_busy: bool) -> FleetRest:
        """With what one session does now, and how its turn ended, if it did."""
        busy = self.busy | {task} if is_busy else self.busy - {task}
        last = self.last_end
        if end is not None and (last is None or (end.at, end.key) > (last.at, last.key)):
            last = end
        return replace(self, busy=busy, last_end=last)

    def rest(self, ledger: NoticeLedger) -> Notice | None:
        """That all is quiet, where it is and was not told."""
        if not self.is_whole or self.busy or self.last_end is None or self.last_end.at <= ledger.horizon:
            return None
        end, kind = self.last_end, NoticeKind.ALL_QUIET
        key = f"{end.task_id}/{end.turn_id or ''}/{kind.value}"
        notice = structs.replace(end, key=key, kind=kind, reason=REASONS[kind])
        return None if is_told(ledger, notice) else notice


def is_busy(summary: TaskSummary, badge: Badge) -> bool:
    """Law 2."""
    if badge.is_over:
        return False
    goes_on = bool(summary.queued) and not summary.held and not summary.is_paused
    return badge.activity not in _AT_REST or has_open_turn(summary.task_status) or goes_on
