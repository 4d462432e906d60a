"""What the log says of one session, as far as whoever runs it must know. A fold: `add` every event, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from interlock.lifecycle.decisions import approvals
from interlock.lifecycle.decisions.decisions import ToolCalls, evolve
from interlock.lifecycle.decisions.dialogs import Dialogs
from interlock.lifecycle.decisions.toolcall import ToolCallState
from interlock.lifecycle.queue import SendQueue
from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import TurnFold
from interlock.log.port import LogDamage
from interlock.projections.turn_evidence import lose_damaged
from interlock.projections.usage import UsageFold
from interlock.vocabulary.events.audit import (
    AgentSession,
    DialogClosed,
    PermissionBehavior,
    PermissionDecision,
    ProcessEvent,
    ProcessEventKind,
    SessionDeleted,
    SessionOpened,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.workspace import WorktreeChanged
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import PromptId, SessionId, SpawnId, TurnId
from interlock.vocabulary.states import ExitReason

_RESTARTS_KEPT: Final = 100
_EXPLAINED: Final = frozenset({ExitReason.CLEAN, ExitReason.STOPPED, ExitReason.IDLE_TTL, ExitReason.REPLACED})


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingSpawn:
    """A spawn whose end is not in the log. It may never have begun: then `event` is that it was asked for."""

    spawn_id: SpawnId
    event: ProcessEvent
    began_at: Moment


class SessionFold:
    """One session: its turns, its queue, its questions, its process, what it has used."""

    def __init__(self, session_id: SessionId) -> None:
        self.session_id = session_id
        self.version = 0
        self.turns = TurnFold()
        self.queue = SendQueue()
        self.dialogs = Dialogs()
        self.opened: SessionOpened | None = None
        self.worktree: WorktreeChanged | None = None
        self.is_deleted = False
        self.native: AgentSession | None = None
        self.native_spawn: SpawnId | None = None
        self.spawn: LivingSpawn | None = None
        self.turn_id: TurnId | None = None
        self.turn: TurnFacts | None = None  # the open one; None between turns
        self.calls: ToolCalls | None = None
        self._looked_at: ToolCalls | None = None
        self._suspended: tuple[ToolCallState, ...] = ()
        self.closed_questions: set[str] = set()  # of the newest turn
        self.allowed_by_rule: Counter[str] = Counter()  # in the newest turn, by the digest of what was allowed
        self.prompt_id: PromptId | None = None
        self.budget_seconds: float | None = None
        self.turn_began_at: Moment | None = None
        self.usage = UsageFold()
        self.turn_of: dict[PromptId, TurnId] = {}
        self.restarts_at: tuple[Moment, ...] = ()
        self._given_up: TurnId | None = None

    @classmethod
    def of(cls, session_id: SessionId, events: Iterable[Event], damage: Iterable[LogDamage] = ()) -> SessionFold:
        book = cls(session_id)
        for event in events:
            book._fold(event)
        lose_damaged(book.turns, damage)
        book._find_open_turn()
        return book

    def is_over(self, turn: TurnFacts) -> bool:
        """Whether nobody runs a turn any more, as far as the log tells or recovery found out."""
        return turn.is_over or turn.turn_id == self._given_up

    def give_up_turn(self) -> None:
        """Nobody runs the open turn, of which events are lost: whether it ended is not known, and no end is written."""
        self._given_up = self.turn_id
        self._find_open_turn()

    @property
    def suspended(self) -> tuple[ToolCallState, ...]:
        """The calls of the newest turn that wait for a decision. They are looked for when a call changes, not when they
        are asked for: that is done for every piece of text."""
        if self._looked_at is not self.calls:
            self._looked_at = self.calls
            self._suspended = () if self.calls is None else approvals.open_suspended(self.calls)
        return self._suspended

    def add(self, event: Event) -> None:
        """Fold one event that was just written. A gap is no loss here: the log may give it another number."""
        if event.seq is not None:
            self.turns.pass_over(self.session_id, event.seq - 1)
        self._fold(event)

    def _fold(self, event: Event) -> None:
        self.version = event.seq or self.version + 1
        data = event.data
        self.turns.add(event)
        self.queue.add(data)
        self.dialogs.add(data)
        self.usage.add(event)
        self.worktree = data if isinstance(data, WorktreeChanged) else self.worktree
        match data:
            case UserMessage(prompt_id=prompt_id) if event.turn_id is not None:
                self._open(event.turn_id, event.ts)
                self.prompt_id = prompt_id
                if prompt_id is not None:
                    self.turn_of[prompt_id] = event.turn_id
            case TurnStarted(budget_seconds=budget) if event.turn_id is not None:
                if event.turn_id != self.turn_id:  # a turn that nobody prompted
                    self._open(event.turn_id, event.ts)
                self.budget_seconds = budget
            case DialogClosed(dialog_id=dialog_id):
                self.closed_questions.add(dialog_id)
            case SessionOpened():
                self.opened = data
            case AgentSession():
                self.native, self.native_spawn = data, event.spawn_id
            case ProcessEvent():
                self._absorb_process(event, data)
            case _:
                self.is_deleted |= isinstance(data, SessionDeleted)
                self._count_rule(data)
                if self.calls is not None and event.turn_id == self.turn_id:
                    self.calls = evolve(self.calls, data)
        self._find_open_turn()

    def _find_open_turn(self) -> None:
        facts = None if self.turn_id is None else self.turns.turns.get((self.session_id, self.turn_id))
        self.turn = None if facts is None or self.is_over(facts) else facts

    def _count_rule(self, data: object) -> None:
        if isinstance(data, PermissionDecision) and data.decision is PermissionBehavior.ALLOW:
            self.allowed_by_rule[data.arguments_digest] += 1

    def _open(self, turn_id: TurnId, at: Moment) -> None:
        self.turn_id, self.calls, self.turn_began_at = turn_id, ToolCalls(turn_id), at
        self.prompt_id = self.budget_seconds = None
        self.closed_questions = set()
        self.allowed_by_rule = Counter()

    def _absorb_process(self, event: Event, data: ProcessEvent) -> None:
        if data.kind is ProcessEventKind.RESTART_DUE and data.attempt:  # 0: a free one
            self.restarts_at = (*self.restarts_at, event.ts)[-_RESTARTS_KEPT:]
        elif data.kind is ProcessEventKind.EXITED and data.exit_reason in _EXPLAINED:
            self.restarts_at = ()
        if event.spawn_id is None:
            return
        kind = ProcessEventKind
        if data.kind in (kind.SPAWN_REQUESTED, kind.SPAWNED, kind.ADOPTED):
            began = event.ts if self.spawn is None or self.spawn.spawn_id != event.spawn_id else self.spawn.began_at
            self.spawn = LivingSpawn(spawn_id=event.spawn_id, event=data, began_at=began)
        elif data.kind in (kind.EXITED, kind.SPAWN_FAILED) and self.spawn is not None:
            self.spawn = None if self.spawn.spawn_id == event.spawn_id else self.spawn
