"""The conductor of one session: it decides, and does nothing itself. The supervisor is its hands.

Laws:
1. Append, then act: whatever is done about a fact or a command comes after the append that records it.
2. A prompt is dispatched when no turn is open, nothing is asked, the queue's gate is open and the agent says that it
   takes one: never because a flag looks right. Its turn is in the log before the agent is told.
3. A prompt that may have reached the agent is never given again. One that provably did not may be.
4. Every turn gets its closing batch: by the agent's word, its death, a deadline or a cancel, whichever comes first.
   What an agent says of a turn that is over changes nothing.
5. Every wait has a deadline, and each rung of the way from asking to killing has its own.
6. What an agent does unasked is a turn as well, without a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from interlock.agents.observations import Observation
from interlock.agents.port import StopReport
from interlock.lifecycle.restarts import Restarts
from interlock.runtime.acts import (
    Act,
    AgentNotStarted,
    AgentStarted,
    Answer,
    Attended,
    Cancel,
    Command,
    Confirm,
    Decided,
    EditPrompt,
    Interrupted,
    News,
    Observed,
    Refuse,
    Release,
    RemovePrompt,
    Send,
    SetGate,
    Start,
    Stop,
    Stopped,
    Submitted,
    TimerFired,
)
from interlock.runtime.agent_side import AgentSide
from interlock.runtime.endings import ending_by_cancel
from interlock.runtime.hearing import Hearing
from interlock.runtime.policy import Instant
from interlock.vocabulary.audit import (
    DeliveryReceipt,
    DeliveryStage,
    ProcessEvent,
    ProcessEventKind,
    QueueGate,
    RunState,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SpawnId, TurnId
from interlock.vocabulary.run import SUSPENDED, RunStatus
from interlock.vocabulary.states import TurnState

_MAX_DELIVERIES: Final = 3


class Conductor(Hearing):
    """Tell it what was asked (`order`) and what happened (`hear`); do what it returns, in order. Fire `deadline`."""

    def order(self, command: Command, now: Instant) -> tuple[Act, ...]:
        """Carry out a command, or refuse it and change nothing."""
        self._now = now
        try:
            self._obey(command)
        except UsageError as error:
            return (*self._take_acts(), Refuse(str(error), error.remedy))
        self._advance()
        return self._take_acts()

    def hear(self, news: News, now: Instant) -> tuple[Act, ...]:
        """Take in what happened. Never refuses: what does not fit is an anomaly, or nothing."""
        self._now = now
        match news:
            case AgentStarted():
                self._on_started(news)
            case AgentNotStarted():
                self._on_not_started(news)
            case Observed(spawn_id=spawn_id, seen=what):
                self._on_observed_of(spawn_id, what)
            case Submitted():
                self._on_submitted(news)
            case Decided():
                self._on_decided(news)
            case Interrupted(problem=problem):
                self._on_interrupted(problem)
            case Stopped(spawn_id=spawn_id, report=report):
                self._on_stopped(spawn_id, report)
            case Attended(spawn_id=spawn_id, is_attended=is_attended):
                self._on_attended(spawn_id, is_attended=is_attended)
            case TimerFired():
                self._on_timer()
            case _:
                assert_never(news)
        self._advance()
        return self._take_acts()

    def _on_observed_of(self, spawn_id: SpawnId, what: Observation) -> None:
        """What another spawn says is of the past, and changes nothing."""
        if self._agent is not None and self._agent.spawn_id == spawn_id:
            self._on_observed(self._agent, what)

    def _on_stopped(self, spawn_id: SpawnId, report: StopReport) -> None:
        if report.ended or report.survivors:
            left = f"{len(report.survivors)} processes could not be ended" if report.survivors else ""
            census = ProcessEvent(kind=ProcessEventKind.CENSUS, ended=report.ended, message=left)
            self._append(census, spawn_id=spawn_id)

    def _on_interrupted(self, problem: str) -> None:
        if self._open is not None:
            self._open.interrupt_problem = problem
        if problem:
            self._note("interrupt_not_delivered", problem)

    @property
    def deadline(self) -> float | None:
        """When to hear `TimerFired`, in the seconds of `Instant`; None: never, as things stand."""
        return min((at for at in self._deadlines() if at is not None), default=None)

    def _deadlines(self) -> Iterable[float | None]:
        yield None if self._push is None else self._push.due_seconds
        yield self._respawn_at
        yield self.idle_deadline
        if self._agent is not None:
            yield from (self._agent.settle_by_seconds, self._agent.presumed_ready_at)
        if self._open is not None:
            turn = self._open
            yield from (turn.deadline, turn.start_by, turn.resubmit_at, turn.silent_by, self._stall_at(turn))
        for question in self._asking.questions.values():
            yield question.confirm_by_seconds
            if question.decision is None and question.deadline_at is not None:
                yield self._now.seconds + (question.deadline_at - self._now.at).total_seconds()

    def _obey(self, command: Command) -> None:
        match command:
            case Send():
                self._accept(command)
            case EditPrompt(prompt_id=prompt_id, text=text):
                self._append(self.book.queue.edit(prompt_id, text))
            case RemovePrompt(prompt_id=prompt_id):
                self._append(self.book.queue.remove(prompt_id))
            case SetGate(is_open=is_open, reason=reason, decided_by=who):
                self._append(QueueGate(is_open=is_open, reason=reason, decided_by=who))
                self._problem = ""
            case Answer():
                self._answer(command)
            case Cancel(turn_id=turn_id):
                self._cancel(turn_id)
            case Start():
                self._problem, self._restarts = "", Restarts()
                self._spawn_now()
            case Stop(reason=reason, is_closing=is_closing):
                self._stop_for_operator(reason, is_closing=is_closing)
            case Release():
                self._is_closing = True
                self._append(ProcessEvent(kind=ProcessEventKind.RELEASED))
            case _:
                assert_never(command)
        self._acts.append(Confirm())

    def _accept(self, send: Send) -> None:
        queued = self.book.queue.accept(send.prompt_id, send.text)
        if queued is not None:
            self._refuse_full()
            self._append(queued, DeliveryReceipt(prompt_id=send.prompt_id, stage=DeliveryStage.QUEUED))

    def _refuse_full(self) -> None:
        limit, waiting = self.policy.max_queued, len(self.book.queue.waiting)
        if limit is not None and waiting >= limit:
            raise UsageError(
                f"the queue is full: {waiting} waiting, and no more than {limit} may (run.max_queued)",
                remedy="send it when one of them has begun, or take one back",
            )

    def _answer(self, given: Answer) -> None:
        decision = self._asking.answer(given, self._now.at)
        self._sync_run()
        if decision is not None:
            self._give(decision)

    def _cancel(self, turn_id: TurnId | None) -> None:
        turn = self.book.turn
        if turn is None or self._open is None or (turn_id is not None and turn_id != turn.turn_id):
            raise UsageError("that turn is not open", remedy="look at the session's turns")
        if self._open.cancel_asked:
            return
        self._open.cancel_asked = True
        if self._open.resubmit_at is not None:  # the agent does not have the prompt, and shall not get it
            self._end_unsent(ending_by_cancel(self._run_id()))
            return
        if turn.run_id is not None:
            is_waiting = turn.state is TurnState.WAITING
            status, reason = (RunStatus.WAITING, SUSPENDED) if is_waiting else (RunStatus.RUNNING, None)
            self._append(RunState(run_id=turn.run_id, status=status, reason=reason, cancel_requested=True))
        self._ask_to_end()

    def _on_decided(self, news: Decided) -> None:
        question = self._asking.of_request(news.request_id)
        if question is None or question.decision is None:
            return
        question.attempts += 1
        question.is_given = not news.problem or news.is_unknown
        if not news.problem:
            question.confirm_by_seconds = self._now.seconds + self.policy.confirm_seconds
        elif news.is_unknown:
            question.problem = f"nobody knows whether a decision reached the agent: {news.problem}"
            self._note("decision_delivery_unknown", news.problem)
        elif question.attempts < _MAX_DELIVERIES:
            self._note("decision_not_delivered_yet", news.problem)
            self._give(question.decision)
        else:
            question.confirm_by_seconds = None
            question.problem = f"a decision did not reach the agent: {news.problem}"
            self._note("decision_not_delivered", news.problem)

    def _on_timer(self) -> None:
        now = self._now.seconds
        if self._open is not None:
            self._watch_turn(self._open, now)
        for decision in list(self._asking.expire(self._now.at)):
            self._give(decision)
        self._sync_run()
        for question in self._asking.questions.values():
            if question.confirm_by_seconds is not None and question.confirm_by_seconds <= now:
                question.confirm_by_seconds = None
                question.problem = "an answer was given, and nothing shows that the agent took it"
                self._note("decision_unconfirmed", question.problem, {"approval_id": question.approval_id})
        if self._push is not None and self._push.due_seconds <= now:
            self._next_rung(self._push)
        if self._respawn_at is not None and self._respawn_at <= now:
            self._spawn_now()
        if self._agent is not None:
            self._watch_agent(self._agent, now)
        if self.idle_deadline is not None and self.idle_deadline <= now:
            self._ask_before_idle_stop()

    def _watch_agent(self, agent: AgentSide, now: float) -> None:
        if agent.settle_by_seconds is not None and agent.settle_by_seconds <= now:
            agent.children, agent.settle_by_seconds = frozenset(), None
            self._note("children_never_ended", "background work was not seen to end; the queue goes on without it")
        if agent.presumed_ready_at is not None and agent.presumed_ready_at <= now:
            agent.presumed_ready_at, agent.is_ready = None, not (agent.is_spent or agent.is_winding_down)
