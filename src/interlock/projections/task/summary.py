"""One line of a board, from the fold of a task. Its badge is computed here, on the server, and nowhere else.

Laws:
1. At rest means that a runtime which takes the session up finds nothing to do: no turn is open, no process may live or
   have left others, nothing is asked, nothing waits, no child or workflow is open, and no event is lost. In doubt it is
   not at rest.
2. The line of a session at rest is what a view of its whole log shows, byte for byte, whoever runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct, structs

from interlock.lifecycle.children.open_work import OpenWork
from interlock.lifecycle.decisions.dialogs import Dialogs
from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import record_of
from interlock.projections.approvals import called_with
from interlock.projections.badge import badge_of
from interlock.projections.usage import Usage
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind, SessionOpened, TurnStarted, WorkflowEvent
from interlock.vocabulary.events.conversation import SubagentEvent, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.workspace import INTENTS, WorktreeChanged
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import SpawnId, TurnId
from interlock.vocabulary.states import Activity, AgentState, Attention, Lifecycle, SubagentState, TurnState
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import ChildCounts, QueueView, TaskSummary

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_ENDING: Final = 200
_ENDED_BADLY: Final = frozenset({SubagentState.FAILED, SubagentState.TIMED_OUT, SubagentState.INTERRUPTED})


def with_facts(
    summary: TaskSummary,
    *,
    opened: SessionOpened | None,
    turn: TurnFacts | None,
    turn_state: TurnState | None,
    asked: Sequence[Approval],
    queue: QueueView,
    now: datetime | None,
) -> TaskSummary:
    """A line with what its parts say, and the badge of the whole. Without a time it is the time of its last event."""
    is_held = bool(queue.waiting) and not queue.is_open
    line = structs.replace(
        summary,
        turn_state=turn_state,
        agent="" if opened is None else opened.agent,
        driver="" if opened is None else opened.driver,
        title=summary.title or ("" if opened is None else opened.title),
        question=asked[0].question if asked else "",
        called_with=called_with(asked[0]) if asked else "",
        approval_id=asked[0].approval_id if asked else "",
        undelivered=asked[0].undelivered if asked else 0,
        question_problem=asked[0].problem if asked else "",
        asks=asked[0].attention if asked else Attention.NONE,
        asked_at=asked[0].asked_at if asked else None,
        open_approvals=len(asked),
        queued=len(queue.waiting),
        held=(queue.gate_reason or "the queue is paused") if is_held else "",
        is_paused=is_held and queue.is_paused,
        waits_for=queue.waits_for,
        folder="" if opened is None else opened.cwd,
        parent_id=summary.parent_id if opened is None or opened.parent_id is None else opened.parent_id,
        root_id=None if opened is None else opened.root_id,
        depth=0 if opened is None else opened.depth,
        model=summary.model or ("" if opened is None else opened.model),
        max_cost_usd=None if opened is None else _budget(opened),
        ending="" if turn is None else _ending(turn),
    )
    return structs.replace(line, badge=badge_of(line, now or summary.last_at or EPOCH))


def child_counts(states: Collection[SubagentState]) -> ChildCounts:
    """The children of a session by where they stand."""
    return ChildCounts(
        running=sum(state is SubagentState.RUNNING for state in states),
        waiting=sum(state is SubagentState.QUEUED for state in states),
        ended_badly=sum(state in _ENDED_BADLY for state in states),
    )


def _budget(opened: SessionOpened) -> float | None:
    limit = opened.policy.get("max_cost_usd") if isinstance(opened.policy, dict) else None
    return float(limit) if isinstance(limit, int | float) and not isinstance(limit, bool) else None


def _ending(turn: TurnFacts) -> str:
    """Why a turn did not complete, or is not known, on one line: its message, or its kind where it has none."""
    if turn.state is TurnState.COMPLETED or not (turn.is_terminal or turn.state is TurnState.UNKNOWN):
        return ""
    record = record_of(turn)
    said = " ".join((record.error_message or record.error_kind.replace("_", " ")).split())
    return said if len(said) <= _MAX_ENDING else f"{said[: _MAX_ENDING - 3]}..."


# Sessions at rest: what tells that nothing of one is open, and the line that lists show of it then.

NO_AGENT = Status(
    activity=Activity.GONE,
    evidence=(Evidence(source=EvidenceSource.LOG, rule="no_process"),),
    substate=AgentState.IDLE,
    lifecycle=Lifecycle.KILLED,
)
"""What a runtime says of a session that it could run, and of which no agent was started."""

NEWEST_TURNS = 500
"""Of how many turns of a session a list tells what they used."""

_BEGUN = (ProcessEventKind.SPAWN_REQUESTED, ProcessEventKind.SPAWNED, ProcessEventKind.ADOPTED)
_ENDED = (ProcessEventKind.EXITED, ProcessEventKind.SPAWN_FAILED)


@dataclass(slots=True)
class RestFold:
    """What a task view does not fold otherwise, as recovery reads it. `turn_id` is of the turn that was opened last.
    `is_between`: something was begun with its worktree that has no end. `is_sound`: every event is here."""

    turn_id: TurnId | None = None
    spawn_id: SpawnId | None = None
    is_between: bool = False
    is_unswept: bool = False
    is_sound: bool = True
    dialogs: Dialogs = field(default_factory=Dialogs)
    work: OpenWork = field(default_factory=OpenWork)

    @property
    def is_at_rest(self) -> bool:
        has_process = self.spawn_id is not None or self.is_unswept
        return self.is_sound and not has_process and not self.is_between and not self.dialogs.open and not self.work

    def add(self, event: Event, *, is_next: bool) -> None:
        """Fold one event of the log. `is_next`: none is missing before it."""
        self.is_sound &= is_next
        match event.data:
            case UserMessage() | TurnStarted():
                self.turn_id = event.turn_id or self.turn_id
            case ProcessEvent() as data:
                self._follow_process(data, event.spawn_id)
            case WorktreeChanged(phase=phase):
                self.is_between = phase in INTENTS
            case SubagentEvent() | WorkflowEvent() as data:
                self.work.add(data)
            case data:
                self.dialogs.add(data)

    def _follow_process(self, data: ProcessEvent, spawn_id: SpawnId | None) -> None:
        if data.kind is ProcessEventKind.EXITED:
            self.is_unswept = not data.message
        elif data.kind is ProcessEventKind.CENSUS:
            self.is_unswept = False
        if spawn_id is not None and data.kind in _BEGUN:
            self.spawn_id = spawn_id
        elif spawn_id == self.spawn_id and data.kind in _ENDED:
            self.spawn_id = None


class TaskTally(Struct, frozen=True, kw_only=True):
    """The share of one session in figures over all: turns by state, lives of agents that ended by reason."""

    turns: dict[TurnState, int] = {}
    spawns_ended: dict[str, int] = {}
    spawns_not_ended: int = 0
    usage: Usage = Usage()


class TaskLine(Struct, frozen=True, kw_only=True):
    """A session at rest. `summary` is as the log alone says it, of a session that somebody runs."""

    summary: TaskSummary
    opened: SessionOpened | None = None
    tally: TaskTally = TaskTally()
    newest_turns: tuple[tuple[TurnId, Usage], ...] = ()

    def shown(self, now: datetime | None, *, is_supervised: bool) -> TaskSummary:
        """What a list shows of it at that time. Law 2."""
        bare = self.summary
        line = structs.replace(
            bare,
            is_supervised=is_supervised,
            live=NO_AGENT if is_supervised else None,
            since=bare.last_at if is_supervised else bare.since,
        )
        return structs.replace(line, badge=badge_of(line, now or bare.last_at or EPOCH))
