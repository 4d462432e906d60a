"""The session machine: it takes an input, steps the machines of a session in a fixed order, and says what to do.

Laws:
1. Append, then act: whatever is done about a fact or a command comes after the append that records it.
2. A prompt is dispatched when no turn is open, nothing is asked, the queue's gate is open and the agent says that it
   takes one: never because a flag looks right. Its turn is in the log before the agent is told.
3. A prompt that may have reached the agent is never given again. One that provably did not may be.
4. Every turn gets its closing batch: by the agent's word, its death, a deadline or a cancel, whichever comes first.
   What an agent says of a turn that is over changes nothing.
5. Every wait has a deadline, and each rung of the way from asking to killing has its own.
6. What an agent does unasked is a turn as well, without a prompt.

The machines: the agent's life (`agent.life`), the way of the open turn (`turn_way`), the questions (`questions`); under
them the run, the process, the prompts, the tool calls and the dialogs of `lifecycle`. The order within one input: the
machine that it is for, then those that follow from it, then the queue, then what is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from interlock.agents.port import AgentSpec, Decision
from interlock.lifecycle.restarts import Restarts
from interlock.runtime.deadlines import earliest
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.rules.source import RuleSource, no_rules
from interlock.runtime.session import observe, text_flow, turn_control
from interlock.runtime.session.agent import process_control
from interlock.runtime.session.agent.life import AgentDeadlinePassed as LifeDeadlinePassed
from interlock.runtime.session.agent.life import AgentLife, AgentStage
from interlock.runtime.session.effects import Confirm, DecideForAgent, Effect, Publish, Refuse
from interlock.runtime.session.inputs import (
    AgentNotStarted,
    AgentStarted,
    AnswerQuestion,
    Attended,
    CancelTurnInput,
    Command,
    Decided,
    EditQueuedPrompt,
    InterruptOutcome,
    News,
    Observed,
    Release,
    RemovePrompt,
    Send,
    SessionTimerFired,
    SetGate,
    StartAgentInput,
    StopAgentInput,
    Stopped,
    Submitted,
)
from interlock.runtime.session.questions.open_questions import SessionQuestions
from interlock.runtime.session.state import OpenTurn, Session
from interlock.runtime.session.status import idle_deadline, status_of
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage, ProcessEvent, ProcessEventKind
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import SpawnId, TurnId
from interlock.vocabulary.states import DriverKind

_REACHES_AGENT: Final = (Send, AnswerQuestion, CancelTurnInput, StopAgentInput)


def _refuse_read_only(session: Session, command: Command) -> None:
    """Nothing reaches an agent that somebody else started and that is only watched, and none is stopped in passing."""
    life = session.life
    if not life.is_running or not life.capabilities.is_read_only or not isinstance(command, _REACHES_AGENT):
        return
    where = None if session.book.spawn is None else session.book.spawn.event.where
    place = where if isinstance(where, dict) else {}
    if place.get("outside"):
        raise UsageError(
            "this agent is only watched: somebody else started it, outside tmux", remedy="use it where it runs"
        )
    named = f"{place.get('pane_id')} --socket {place.get('socket')}"
    raise UsageError(
        "this agent is only watched: somebody else started it, in a terminal of theirs",
        remedy=f"`interlock adopt {named} --control` lets commands reach it",
    )


class SessionMachine:
    """Tell it what was asked (`order`) and what happened (`hear`); do what it returns, in order. Fire `deadline`."""

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
        self._session = Session(book, spec, kind, new_id, policy, now, home_id, rules)

    # Looking

    @property
    def book(self) -> SessionFold:
        return self._session.book

    @property
    def policy(self) -> RunPolicy:
        return self._session.policy

    @policy.setter
    def policy(self, policy: RunPolicy) -> None:
        self._session.policy, self._session.flow = policy, None

    @property
    def agent(self) -> AgentLife | None:
        """The agent whose process runs."""
        return self._session.life if self._session.life.is_running else None

    @property
    def life(self) -> AgentLife:
        """The agent's life, also while there is no process."""
        return self._session.life

    @property
    def running_spawn(self) -> SpawnId | None:
        """The spawn that runs, or may run any moment."""
        return self._session.life.spawn_id

    @property
    def problem(self) -> str:
        """Why it could not do what it was to do last, such as start its agent; blank: it could."""
        return self._session.problem

    @property
    def open_turn(self) -> OpenTurn | None:
        return self._session.turn

    @property
    def killed_turn(self) -> TurnId | None:
        """The last turn whose interrupt became the end of its process."""
        return self._session.killed_turn

    @property
    def questions(self) -> SessionQuestions:
        return self._session.questions

    @property
    def status(self) -> Status:
        """What a person should see now."""
        return status_of(self._session)

    @property
    def idle_deadline(self) -> float | None:
        """When an agent that is not used is stopped."""
        return idle_deadline(self._session)

    @property
    def deadline(self) -> float | None:
        """When to hear `SessionTimerFired`, in the seconds of `Instant`; None: never, as things stand."""
        session, turn = self._session, self._session.turn
        of_questions = session.questions.deadline(session.now)
        if turn is None:
            return earliest(session.life.deadline, of_questions, idle_deadline(session))
        return earliest(session.life.deadline, of_questions, turn.way.deadline, session.stall_at(turn))

    # Inputs

    def order(self, command: Command, now: Instant) -> tuple[Effect, ...]:
        """Carry out a command, or refuse it and change nothing. What is due comes first: it may answer the command."""
        self._session.now, self._session.flow = now, None
        due = self.deadline
        if due is not None and due <= now.seconds:
            self._on_timer()
        try:
            self._obey(command)
        except UsageError as error:
            return (*self._session.take_effects(), Refuse(str(error), error.remedy))
        self._session.do(Confirm())
        self._advance()
        return self._session.take_effects()

    def hear(self, news: News, now: Instant) -> tuple[Effect, ...]:
        """Take in what happened. Never refuses: what does not fit is an anomaly, or nothing."""
        piece = self.hear_piece(news, now) if isinstance(news, Observed) else None
        if piece is not None:
            return (piece,)
        session = self._session
        session.now, session.flow, before = now, None, text_flow.footing(session)
        self._take_in(news)
        self._advance()
        effects = session.take_effects()
        session.flow = text_flow.flow_after(session, news, before, effects)
        return effects

    def hear_piece(self, news: Observed, now: Instant) -> Publish | None:
        """Take in a piece of text in the midst of others: `hear` would do this one thing. None: only `hear` can tell,
        and nothing was done. It brings no deadline nearer."""
        self._session.now = now
        return text_flow.next_piece(self._session, news)

    def _take_in(self, news: News) -> None:
        session = self._session
        match news:
            case Observed(spawn_id=spawn_id, seen=what):
                observe.observe(session, spawn_id, what)
            case AgentStarted():
                process_control.on_started(session, news)
            case AgentNotStarted():
                process_control.on_not_started(session, news)
            case Submitted():
                turn_control.on_submitted(session, news)
            case Decided(request_id=request_id, problem=problem, is_unknown=is_unknown):
                self._give(session.questions.delivered(request_id, problem, is_unknown, session.now))
            case InterruptOutcome(problem=problem):
                turn_control.on_interrupted(session, problem)
            case Stopped(spawn_id=spawn_id, report=report):
                process_control.on_stopped(session, spawn_id, report)
            case Attended(spawn_id=spawn_id, is_attended=is_attended):
                process_control.on_attended(session, spawn_id, is_attended=is_attended)
            case SessionTimerFired():
                self._on_timer()
            case _:
                assert_never(news)

    def _obey(self, command: Command) -> None:
        session = self._session
        _refuse_read_only(session, command)
        match command:
            case Send():
                self._accept(command)
            case EditQueuedPrompt() | RemovePrompt() | SetGate():
                self._change_queue(command)
            case AnswerQuestion():
                decision = session.questions.answer(command, session.now)
                self._give(decision)
            case CancelTurnInput(turn_id=turn_id, is_forced=is_forced):
                turn_control.cancel(session, turn_id, is_forced=is_forced)
            case StartAgentInput():
                session.problem, session.restarts = "", Restarts()
                process_control.spawn(session)
            case StopAgentInput(reason=reason, is_closing=is_closing):
                process_control.stop_for_operator(session, reason, is_closing=is_closing)
            case Release():
                session.is_closing = True
                session.append(ProcessEvent(kind=ProcessEventKind.RELEASED))
            case _:
                assert_never(command)

    def _give(self, decision: Decision | None) -> None:
        """Have a decision given to the agent, if there is one to give; the run follows what is open now."""
        turn_control.sync_questions(self._session)
        if decision is not None:
            self._session.do(DecideForAgent(decision))

    def _accept(self, send: Send) -> None:
        session, queue = self._session, self._session.book.queue
        queued = queue.accept(send.prompt_id, send.text, send.reply)
        if queued is None:
            return
        limit, waiting = session.policy.max_queued, len(queue.waiting)
        if limit is not None and waiting >= limit:
            raise UsageError(
                f"the queue is full: {waiting} waiting, and no more than {limit} may (run.max_queued)",
                remedy="send it when one of them has begun, or take one back",
            )
        session.append(queued, DeliveryReceipt(prompt_id=send.prompt_id, stage=DeliveryStage.QUEUED))

    def _change_queue(self, command: EditQueuedPrompt | RemovePrompt | SetGate) -> None:
        session, queue = self._session, self._session.book.queue
        match command:
            case EditQueuedPrompt(prompt_id=prompt_id, text=text):
                session.append(queue.edit(prompt_id, text))
            case RemovePrompt(prompt_id=prompt_id):
                session.append(queue.remove(prompt_id))
            case SetGate(is_open=is_open, reason=reason, decided_by=who):
                session.append(queue.gate(is_open=is_open, reason=reason, decided_by=who))
                session.problem = ""

    def _advance(self) -> None:
        """Send what waits, if everything allows it; start the agent, if that is what is missing; show what changed."""
        session, queue = self._session, self._session.book.queue
        is_free = session.turn is None and session.book.turn is None and not session.is_closing
        if is_free and queue.is_open and queue.head is not None and not session.questions.open_count:
            if session.life.stage is AgentStage.ABSENT:
                process_control.spawn(session)
            elif session.life.can_take_prompt:
                turn_control.dispatch(session)
        turn_control.tell_what_keeps_prompt(session)
        status = self.status
        if status != session.shown:
            session.shown = status
            session.publish(status)

    # Time

    def _on_timer(self) -> None:
        """The deadlines of the turn, the questions, the agent and the countdown, in this order."""
        session = self._session
        if session.turn is not None:
            turn_control.watch(session, session.turn)
        for decision in session.questions.due(session.now):
            session.do(DecideForAgent(decision))
        turn_control.sync_questions(session)
        process_control.on_life_outputs(session, session.step_life(LifeDeadlinePassed()))
        process_control.watch_idle(session)
