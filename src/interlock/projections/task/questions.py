"""What a task asks, as the frames of a room tell it: opened, decided, closed.

Laws:
1. The fold of approvals decides; here its edges are told, once each.
2. The end of a turn closes its questions, whatever shows that end. So does the end of the session.
3. Only questions that are not closed are looked at: the cost of an event does not depend on those that are.
4. While no server runs the session an open question is told as one that cannot be answered. It is not closed: whoever
   takes the session up may find it still asked.
5. What is seen is told as it is seen: an attention goes when the surface shows that it is gone, and not before.
6. Where the surface still shows what was answered, the first evidence says that the answer is on its way, and since
   when.
7. It says so no more once the surface showed something else, something is asked again, the turn is over, or the runtime
   doubts that the answer arrived. A surface that shows the same for too long is for whoever looks at the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from interlock.projections.approvals import ApprovalFold
from interlock.projections.badge import ANSWER_ON_ITS_WAY as ANSWER_ON_ITS_WAY
from interlock.projections.task.live_frames import UNSTAMPED
from interlock.vocabulary.events.audit import (
    Anomaly,
    DecisionUndelivered,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    ToolCallDecided,
    ToolCallSuspended,
    WorkflowEvent,
)
from interlock.vocabulary.events.conversation import ToolResult
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.registry import PayloadClass
from interlock.vocabulary.evidence import Evidence, EvidenceSource, Moment
from interlock.vocabulary.ids import IMPORTED_TURN_PREFIX, SessionId, TurnId
from interlock.vocabulary.states import Attention
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import ApprovalClosed, ApprovalDecided, ApprovalOpened, TaskFrame

# The end of a run is told by `end_turn`: the fold would look through every question that there ever was.
_FOLDED: Final[frozenset[PayloadClass]] = frozenset(
    {
        ToolCallSuspended,
        DialogOpened,
        ToolCallDecided,
        DialogAnswered,
        DecisionUndelivered,
        DialogClosed,
        ToolResult,
        WorkflowEvent,
    }
)


class TaskQuestions:
    """The questions of one task that are not closed, oldest first."""

    def __init__(self, task_id: SessionId, fold: ApprovalFold) -> None:
        self._task_id = task_id
        self._fold = fold
        self._asked: dict[str, Approval] = {}
        self._is_answerable = True

    @property
    def open(self) -> tuple[Approval, ...]:
        """What waits for an answer."""
        return tuple(self.shown(one) for one in self._asked.values() if one.state is ApprovalState.OPEN)

    @property
    def any(self) -> bool:
        """Whether a question is not closed, answered or not."""
        return bool(self._asked)

    def shown(self, asked: Approval) -> Approval:
        """A question as it is told. Law 4."""
        is_moot = asked.state is ApprovalState.OPEN and not self._is_answerable
        return structs.replace(asked, is_answerable=False) if is_moot else asked

    def set_answerable(self, is_answerable: bool) -> Iterator[TaskFrame]:
        """Somebody runs the session, or nobody does: what is open is told again."""
        if is_answerable is not self._is_answerable:
            self._is_answerable = is_answerable
            yield from (self._frame(one) for one in self._asked.values() if one.state is ApprovalState.OPEN)

    def is_blocking(self, turn_id: TurnId | None) -> bool:
        """Whether a question is open that is of this turn, or of none. A decision about a step keeps no turn back."""
        return any(
            one.state is ApprovalState.OPEN
            and one.turn_id in (None, turn_id)
            and one.attention is not Attention.DECISION
            for one in self._asked.values()
        )

    def add(self, event: Event) -> Iterator[TaskFrame]:
        """Fold one event. The caller has fenced it: a question of a turn that is over is no question."""
        if type(event.data) not in _FOLDED:
            return
        self._fold.add(event)
        match event.data:
            case ToolCallSuspended(ticket=ticket):
                yield from self._look(ticket.suspension.id)
            case DialogOpened(dialog_id=dialog_id):
                yield from self._look(dialog_id)
            case WorkflowEvent(workflow_id=workflow_id, step_id=str() as step_id):
                yield from self._look(f"{workflow_id}:{step_id}")
            case _:
                for approval_id in tuple(self._asked):
                    yield from self._look(approval_id)

    def end_turn(self, event: Event, turn_id: TurnId) -> Iterator[TaskFrame]:
        """A turn is over, and nobody can answer its questions any more. In an imported log they name no turn."""
        names = (None, turn_id) if turn_id.startswith(IMPORTED_TURN_PREFIX) else (turn_id,)
        asked = [
            one for one in self._asked.values() if one.turn_id in names and one.attention is not Attention.DECISION
        ]
        yield from self._close(event, asked, DialogOutcome.TURN_ENDED)

    def end_session(self, event: Event) -> Iterator[TaskFrame]:
        """The session is gone, and all questions with it."""
        yield from self._close(event, list(self._asked.values()), DialogOutcome.WITHDRAWN)

    def _close(self, event: Event, asked: list[Approval], outcome: DialogOutcome) -> Iterator[TaskFrame]:
        for one in asked:
            closed = DialogClosed(dialog_id=one.approval_id, outcome=outcome)
            self._fold.add(new_event(closed, id=event.id, session_id=event.session_id, ts=event.ts))
            yield from self._look(one.approval_id)

    def _look(self, approval_id: str) -> Iterator[TaskFrame]:
        """Tell how a question stands, if that is news."""
        now, known = self._fold.approvals.get(approval_id), self._asked.get(approval_id)
        if now is None or now == known:
            return
        if known is not None and known.state is not now.state:
            del self._asked[approval_id]  # one that is asked again comes last
        if now.state is not ApprovalState.CLOSED:
            self._asked[approval_id] = now
        yield self._frame(now)

    def _frame(self, asked: Approval) -> TaskFrame:
        now = self.shown(asked)
        match now.state:
            case ApprovalState.OPEN:
                return ApprovalOpened(
                    task_id=self._task_id, version=UNSTAMPED, tick=UNSTAMPED, turn_id=now.turn_id, approval=now
                )
            case ApprovalState.DECIDED:
                return ApprovalDecided(
                    task_id=self._task_id, version=UNSTAMPED, tick=UNSTAMPED, turn_id=now.turn_id, approval=now
                )
            case ApprovalState.CLOSED:
                return ApprovalClosed(
                    task_id=self._task_id, version=UNSTAMPED, tick=UNSTAMPED, turn_id=now.turn_id, approval=now
                )


# What is seen of an agent, next to what the log knows of an answer that it was just given.

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
