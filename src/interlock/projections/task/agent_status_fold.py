"""What is seen of an agent, next to what the log knows of an answer that it was just given.

Laws:
1. What is seen is told as it is seen: an attention goes when the surface shows that it is gone, and not before.
2. Where the surface still shows what was answered, the first evidence says that the answer is on its way, and since
   when.
3. It says so no more once the surface showed something else, something is asked again, the turn is over, or the runtime
   doubts that the answer arrived. A surface that shows the same for too long is for whoever looks at the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec import structs

from interlock.projections.badge import ANSWER_ON_ITS_WAY as ANSWER_ON_ITS_WAY
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.evidence import Evidence, EvidenceSource, Moment
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import ApprovalDecided, ApprovalOpened, TaskFrame

# How the runtime records that an answer may not have arrived: then a person is needed again.
_DOUBTS: Final = frozenset({"decision_delivery_unknown", "decision_not_delivered", "decision_unconfirmed"})


@dataclass(slots=True)
class AgentStatusFold:
    """What was seen last, and the answer that it may not have taken yet."""

    seen: Status | None = None
    _given: Evidence | None = None

    def see(self, status: Status) -> None:
        """The agent is seen to do something."""
        if self.seen is None or status.attention is not self.seen.attention:
            self._given = None
        self.seen = status

    def forget(self) -> None:
        """Nobody looks any more."""
        self.seen = self._given = None

    def end_turn(self) -> None:
        """What the surface asks from here on is of no turn that was answered."""
        self._given = None

    def doubt(self, event: Event) -> None:
        """An event may say that an answer did not arrive."""
        if isinstance(event.data, Anomaly) and event.data.kind in _DOUBTS:
            self._given = None

    def hear(self, frame: TaskFrame, at: Moment) -> None:
        """A question was opened, or decided."""
        match frame:
            case ApprovalOpened():
                self._given = None
            case ApprovalDecided(approval=approval) if self._shows(approval):
                self._given = Evidence(
                    source=EvidenceSource.LOG, rule=ANSWER_ON_ITS_WAY, at=at, where=approval.approval_id
                )
            case _:
                pass

    def _shows(self, approval: Approval) -> bool:
        return self.seen is not None and self.seen.attention is approval.attention

    def told(self, *, is_asked: bool) -> Status | None:
        """What to tell of it. `is_asked`: another question is open."""
        if self.seen is None or self._given is None or is_asked:
            return self.seen
        return structs.replace(self.seen, evidence=(self._given, *self.seen.evidence))
