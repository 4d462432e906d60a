"""What one session knows, and how it writes. Machines decide; nothing here does.

What is appended is taken as written at once: the shell does nothing else before it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from interlock.agents.observations import Progressed
from interlock.agents.port import AgentSpec
from interlock.lifecycle import process
from interlock.lifecycle import run as run_machine
from interlock.lifecycle.process import ProcessInput, ProcessState
from interlock.lifecycle.restarts import Restarts
from interlock.lifecycle.run import RunInput, RunLifecycleState
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.rules.source import RuleSource, no_rules
from interlock.runtime.session import turn_way
from interlock.runtime.session.agent import life as agent_life
from interlock.runtime.session.agent.life import AgentLife, LifeInput, LifeOutput
from interlock.runtime.session.effects import Append, Effect, InterruptAgent, Publish, StopAgent
from interlock.runtime.session.questions.open_questions import SessionQuestions
from interlock.runtime.session.streamed_answer import StreamedAnswer
from interlock.runtime.session.turn_way import TurnInput, TurnOutput, TurnWay
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.events.presenter import Status, TextDelta
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import EventId, RunId, SpawnId, StreamId, TurnId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import Activity, Attention, DriverKind, TurnState

OPEN_RUN: Final[Mapping[TurnState, RunStatus]] = {
    TurnState.RUNNING: RunStatus.RUNNING,
    TurnState.WAITING: RunStatus.WAITING,
    TurnState.ABANDONED: RunStatus.RUNNING,
    TurnState.UNKNOWN: RunStatus.RUNNING,
}
MAY_STALL: Final = (Activity.WORKING, Activity.QUIET, Activity.SETTLING)
"""What is seen of an agent whose open turn is shown at work: also rest, with and without background work, while the end
of the turn is not proven."""

_KEPT: Final = (turn_way.TurnStage.KEPT_OUT, turn_way.TurnStage.DISPATCHED)  # or tried again, for a moment
_BEGUN: Final = (turn_way.TurnStage.STARTED, turn_way.TurnStage.STOPPING)


@dataclass(slots=True)
class OpenTurn:
    """The open turn: its machine's state, and the text that streams. `delivery_problem`: why nobody knows whether the
    agent has the prompt. `progress_seconds`: when its terminal last showed progress; `progress` what it was.
    `stalled_seconds`: since when it is stalled. `waits_for`: what kept its prompt out when it was last tried."""

    way: TurnWay
    answer: StreamedAnswer
    thoughts: StreamId
    thought_offset: int = 0
    delivery_problem: str = ""
    progress_seconds: float = -math.inf
    progress: Progressed | None = None
    stalled_seconds: float | None = None
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class TextFlow:
    """The last input was a piece of text of this spawn, which did nothing but make the text of this turn longer; the
    log had this version."""

    spawn_id: SpawnId
    turn_id: TurnId | None
    version: int


class Session:
    """The parts of one session: the fold of its log, its machines, and the effects of the step that is being taken."""

    def __init__(
        self,
        book: SessionFold,
        spec: AgentSpec,
        kind: DriverKind,
        new_id: Callable[[str], str],
        policy: RunPolicy,
        now: Instant,
        home_id: str = "",
        rules: RuleSource = no_rules,
    ) -> None:
        self.book = book
        self.home_id = home_id
        self.rules = rules
        self.spec = spec
        self.kind = kind
        self.new_id = new_id
        self.policy = policy
        self.now = now
        self.life = AgentLife()
        self.process = ProcessState(last_active=now.seconds)
        self.turn: OpenTurn | None = None
        self.questions = SessionQuestions(book, self.append, new_id, policy.confirm_seconds)
        self.restarts = Restarts()
        self.restarts.recall(now.seconds - (now.at - at).total_seconds() for at in book.restarts_at)
        self.is_closing = False  # nothing is started or dispatched any more
        self.problem = ""
        self.killed_turn: TurnId | None = None  # the last turn whose interrupt became the end of its process
        self.killed_why = ""
        self.shown: Status | None = None
        self.flow: TextFlow | None = None
        self._began = now
        self._effects: list[Effect] = []

    # Machines

    def step_life(self, given: LifeInput) -> tuple[LifeOutput, ...]:
        """Step the agent's life, do what it asks of the agent, and return what else it wants."""
        self.life, outputs = agent_life.step(self.life, given, self.now.seconds, self.policy)
        for output in outputs:
            if output is LifeOutput.INTERRUPT:
                self.do(InterruptAgent())
            elif output is LifeOutput.STOP:
                self.do(StopAgent())
        return outputs

    def step_turn(self, turn: OpenTurn, given: TurnInput) -> tuple[TurnOutput, ...]:
        """Step the way of the open turn."""
        turn.way, outputs = turn_way.step(turn.way, given, self.now.seconds, self.policy)
        return outputs

    def step_process(self, given: ProcessInput) -> None:
        self.process, _ = process.step(self.process, given, self.now.seconds)

    @property
    def run(self) -> RunLifecycleState | None:
        """The run of the open turn, as the log has it."""
        facts = self.book.turn
        if facts is None or facts.run_id is None:
            return None
        return RunLifecycleState(id=facts.run_id, status=OPEN_RUN[facts.state])

    def step_run(self, given: RunInput) -> None:
        """Step the run of the open turn, and write down what it became."""
        run = self.run
        if run is not None:
            _, events = run_machine.step(run, given, round(self.now.at.timestamp() * 1000))
            self.append(*events)

    def tell_cancel(self, *, cancel_requested: bool) -> None:
        """Write down that the run of the open turn is asked to end, or is not asked any more."""
        run = self.run
        if run is not None:
            self.append(run_machine.tell_cancel(run, cancel_requested=cancel_requested))

    # The log and the shell

    def append(self, *payloads: Payload, turn_id: TurnId | None = None, spawn_id: SpawnId | None = None) -> None:
        """Have events written, all or none, and take them as written: the shell does nothing else before they are."""
        facts = self.book.turn
        turn_id = turn_id or (None if facts is None else facts.turn_id)
        spawn_id = spawn_id or self.agent_spawn_id
        events = tuple(
            new_event(
                data,
                id=EventId(self.new_id("evt")),
                session_id=self.book.session_id,
                ts=self.now.at,
                turn_id=turn_id,
                spawn_id=spawn_id,
            )
            for data in payloads
        )
        for seq, event in enumerate(events, self.book.version + 1):
            self.book.add(structs.replace(event, seq=seq))  # the log gives it this number, or another one later
        self._effects.append(Append(events))

    def publish(self, data: Payload) -> None:
        """Show something live. It is never logged."""
        facts = self.book.turn
        self._effects.append(Publish(data, None if facts is None else facts.turn_id))

    def emit(self, payloads: Iterable[Payload]) -> None:
        """Publish pieces of text, and append all else, in order."""
        for payload in payloads:
            if isinstance(payload, TextDelta):
                self.publish(payload)
            else:
                self.append(payload)

    def note(self, kind: str, message: str, details: Json = None) -> None:
        """Write down something surprising."""
        self.append(Anomaly(kind=kind, source="runtime", message=message, details=details))

    def do(self, effect: Effect) -> None:
        """Have the shell do something, after everything that was appended before."""
        self._effects.append(effect)

    def take_effects(self) -> tuple[Effect, ...]:
        effects, self._effects = tuple(self._effects), []
        return effects

    # Derived

    @property
    def agent_spawn_id(self) -> SpawnId | None:
        """The spawn whose process runs."""
        return self.life.spawn_id if self.life.is_running else None

    @property
    def run_id(self) -> RunId:
        """The run of the open turn; a new one where it has none."""
        facts = self.book.turn
        return RunId(self.new_id("run")) if facts is None or facts.run_id is None else facts.run_id

    @property
    def is_cancel_requested(self) -> bool:
        facts = self.book.turn
        return facts is not None and facts.cancel_requested

    def moment(self, seconds: float) -> datetime:
        """When that was, or will be: the same each time, where two readings of two clocks differ a little."""
        return self._began.at + timedelta(seconds=seconds - self._began.seconds)

    def stall_at(self, turn: OpenTurn) -> float | None:
        """When a turn without progress becomes a stall. A tool that runs has more time, as has work in the background,
        an open question all of it. Who cannot be seen is not silent, and a terminal whose screen says nothing has a
        stall clock of its own. What the agent does by itself, and keeps the prompt out, has to get on as well."""
        life, way, tool, shown = self.life, turn.way, self.process.running_tool, self.life.standing
        is_moving = way.progress is turn_way.TurnProgress.MOVING
        is_watched = is_moving and (way.has_started or (bool(turn.waits_for) and way.stage in _KEPT))
        if self.questions.open_count or not is_watched or not life.is_running or life.is_lost:
            return None
        is_settling = shown is not None and shown.activity is Activity.SETTLING
        is_at_rest = is_settling or (shown is not None and shown.activity is Activity.QUIET)
        if is_at_rest and way.stage not in _BEGUN:
            return None  # its prompt is not typed, or may not be
        if shown is not None and (shown.activity not in MAY_STALL or shown.attention is not Attention.NONE):
            return None
        is_long = tool is not None or is_settling or (is_at_rest and bool(life.children))
        limit = self.policy.stall_tool_after_seconds if is_long else self.policy.stall_after_seconds
        if limit is None:
            return None
        since = self.last_sign(turn)
        return limit + (since if tool is None else max(since, tool.since))

    def last_sign(self, turn: OpenTurn) -> float:
        """When the agent was last seen to get on with this turn."""
        seen = self.process.last_active if self.life.standing is None else turn.progress_seconds
        return max(turn.way.watched_since_seconds, seen)
