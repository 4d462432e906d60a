"""The desk of a conductor: what it knows, and how it writes. Nothing here decides.

What is appended is taken as written at once: the shell does nothing else before it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import structs

from interlock.agents.port import AgentSpec, Decision
from interlock.lifecycle.restarts import Restarts
from interlock.runtime.acts import (
    Act,
    Append,
    DecideForAgent,
    InterruptAgent,
    Publish,
)
from interlock.runtime.agent_side import AgentSide, OpenTurn, Push, status_of
from interlock.runtime.asking import Asking
from interlock.runtime.book import SessionBook
from interlock.runtime.policy import Instant, RunPolicy
from interlock.vocabulary.audit import (
    Anomaly,
)
from interlock.vocabulary.events import new_event
from interlock.vocabulary.ids import EventId, RunId, SpawnId, TurnId
from interlock.vocabulary.presenter import Status, TextDelta
from interlock.vocabulary.registry import Json, Payload
from interlock.vocabulary.states import DriverKind, ExitReason


class Desk:
    """The state of one session's conductor, and what it wants done."""

    def __init__(
        self,
        book: SessionBook,
        spec: AgentSpec,
        kind: DriverKind,
        new_id: Callable[[str], str],
        policy: RunPolicy,
        now: Instant,
    ) -> None:
        self.book = book
        self.policy = policy
        self._spec = spec
        self._kind = kind
        self._new_id = new_id
        self._now = now
        self._acts: list[Act] = []
        self._asking = Asking(book, self._append, new_id)
        self._agent: AgentSide | None = None
        self._spawning: SpawnId | None = None
        self._stop_start: ExitReason | None = None
        self._is_closing = False
        self._open: OpenTurn | None = None
        self._push: Push | None = None
        self._restarts = Restarts()
        self._respawn_at: float | None = None
        self._problem = ""
        self._idle: tuple[float, datetime] | None = None
        self._shown: Status | None = None

    @property
    def agent(self) -> AgentSide | None:
        return self._agent

    @property
    def running_spawn(self) -> SpawnId | None:
        """The spawn that runs, or may run any moment."""
        return self._spawning if self._agent is None else self._agent.spawn_id

    @property
    def open_turn(self) -> OpenTurn | None:
        return self._open

    @property
    def status(self) -> Status:
        """What a person should see now."""
        is_spawning = self._spawning is not None
        attention = self._asking.attention
        problem = self._problem or self._asking.problem
        return status_of(self._agent, self._open, attention, is_spawning=is_spawning, problem=problem)

    def _run_id(self) -> RunId:
        turn = self.book.turn
        return RunId(self._new_id("run")) if turn is None or turn.run_id is None else turn.run_id

    def _note(self, kind: str, message: str, details: Json = None) -> None:
        self._append(Anomaly(kind=kind, source="runtime", message=message, details=details))

    def _emit(self, payloads: Iterable[Payload]) -> None:
        for payload in payloads:
            if isinstance(payload, TextDelta):
                self._publish(payload)
            else:
                self._append(payload)

    def _publish(self, data: Payload) -> None:
        turn = self.book.turn
        self._acts.append(Publish(data, None if turn is None else turn.turn_id))

    def _append(self, *payloads: Payload, turn_id: TurnId | None = None, spawn_id: SpawnId | None = None) -> None:
        """Have events written, all or none, and take them as written: the shell does nothing else before they are."""
        turn = self.book.turn
        turn_id = turn_id or (None if turn is None else turn.turn_id)
        spawn_id = spawn_id or (None if self._agent is None else self._agent.spawn_id)
        events = tuple(
            new_event(
                data,
                id=EventId(self._new_id("evt")),
                session_id=self.book.session_id,
                ts=self._now.at,
                turn_id=turn_id,
                spawn_id=spawn_id,
            )
            for data in payloads
        )
        for offset, event in enumerate(events, self.book.version + 1):
            self.book.add(structs.replace(event, seq=offset))  # the log gives it this number, or another one later
        self._acts.append(Append(events))

    def _take_acts(self) -> tuple[Act, ...]:
        acts, self._acts = tuple(self._acts), []
        return acts

    def _ask_to_end(self) -> None:
        if self._agent is not None and not self._agent.capabilities.can_interrupt:
            self._push = Push(self._now.seconds, rung=1)  # the last rung is the only one, and due at once
            return
        self._push = Push(self._now.seconds + self.policy.interrupt_seconds)
        self._acts.append(InterruptAgent())

    def _give(self, decision: Decision) -> None:
        question = self._asking.of_request(decision.request_id)
        if question is not None:
            question.confirm_by_seconds = self._now.seconds + self.policy.confirm_seconds
        self._acts.append(DecideForAgent(decision))
