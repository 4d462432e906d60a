"""The agent's process: started, taken up again, stopped, and what follows from its end. See `conductor`."""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from interlock.agents import observations as seen
from interlock.agents.pool.exits import ASKED_FOR, exit_reason
from interlock.agents.pool.idle import IdleFacts, idle_deadline_seconds
from interlock.agents.pool.masking import masked_argv, masked_text
from interlock.lifecycle.process import ProcessState
from interlock.runtime.acts import (
    AgentNotStarted,
    AgentStarted,
    AskAttended,
    InterruptAgent,
    StopAgent,
)
from interlock.runtime.agent_side import AgentSide, Push
from interlock.runtime.endings import ending_by_cancel, ending_by_death
from interlock.runtime.turn_keeping import TurnKeeping
from interlock.vocabulary.audit import (
    AgentSession,
    DeliveryStage,
    ProcessEvent,
    ProcessEventKind,
    QueueGate,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.presenter import Status
from interlock.vocabulary.states import ExitReason


class AgentKeeping(TurnKeeping):
    """What belongs to the process of the agent."""

    def _on_started(self, news: AgentStarted) -> None:
        is_expected = news.is_adopted or news.spawn_id == self._spawning
        if self._agent is not None or not is_expected:
            self._note("unexpected_start", f"nobody waited for spawn {news.spawn_id}")
            return
        self._spawning = None
        seconds = self._now.seconds
        self._agent = AgentSide(
            news.spawn_id, news.capabilities, seconds, ProcessState(last_active=seconds), is_adopted=news.is_adopted
        )
        kind = ProcessEventKind.ADOPTED if news.is_adopted else ProcessEventKind.SPAWNED
        identity = news.process
        self._append(
            ProcessEvent(
                kind=kind,
                pid=None if identity is None else identity.pid,
                start_time="" if identity is None else identity.start_time,
                argv=masked_argv(news.argv),
                where=news.where,
            )
        )
        if self.book.turn is not None and self._open is None:
            self._take_up()
        if self._stop_start is not None:
            self._stop(self._stop_start)
            self._stop_start = None

    def _take_up(self) -> None:
        """An agent that outlived us is back, with its turn still open."""
        began, budget = self.book.turn_began_at or self._now.at, self.book.budget_seconds
        so_far = max(0.0, (self._now.at - began).total_seconds())
        self._open = self._new_turn(self._now.seconds - so_far, budget)
        self._open.submits, self._open.is_taken_up = 1, True
        self._open.cancel_asked = bool(self.book.turn and self.book.turn.cancel_requested)
        prompt = self.book.queue.prompts.get(self.book.prompt_id) if self.book.prompt_id is not None else None
        if prompt is not None and prompt.stage is DeliveryStage.STARTED:
            self._open.start_by = None
        if self._open.cancel_asked:
            self._ask_to_end()

    def _on_not_started(self, news: AgentNotStarted) -> None:
        is_stopped, self._spawning, self._stop_start = self._stop_start is not None, None, None
        self._append(ProcessEvent(kind=ProcessEventKind.SPAWN_FAILED, message=news.message), spawn_id=news.spawn_id)
        if is_stopped:
            return
        if news.is_hopeless:
            self._give_up(news.message)
            return
        if news.is_stale_resume:
            self._forget_resume(news.message)
        self._plan_restart(ExitReason.CRASHED, is_stale_resume=news.is_stale_resume)

    def _forget_resume(self, why: str) -> None:
        self._append(AgentSession(native_session_id="", reason=why or "the agent knows no such session any more"))

    def _plan_restart(self, reason: ExitReason, *, is_stale_resume: bool = False) -> None:
        decision = self._restarts.after(reason, self._now.seconds, is_stale_resume=is_stale_resume)
        if decision.restart_at is not None:
            self._respawn_at = decision.restart_at
            delay = max(0.0, decision.restart_at - self._now.seconds)
            self._append(
                ProcessEvent(
                    kind=ProcessEventKind.RESTART_DUE,
                    attempt=decision.attempt,
                    delay_seconds=delay,
                    message=decision.message,
                )
            )
        elif decision.is_exhausted:
            self._append(ProcessEvent(kind=ProcessEventKind.RESTARTS_EXHAUSTED, message=decision.message))
            self._give_up(decision.message)

    def _on_exited(self, agent: AgentSide, exited: seen.Exited) -> None:
        reason = exit_reason(exited, stop_requested=agent.stopping)
        self._append(
            ProcessEvent(
                kind=ProcessEventKind.EXITED,
                exit_reason=reason,
                exit_code=exited.code,
                signal=exited.signal,
                stderr_tail=masked_text(exited.stderr_tail),
                duration_seconds=max(0.0, self._now.seconds - agent.started_seconds),
            )
        )
        if self._open is not None and self._open.silent is not None and exited.code == 0:
            self._end_by_agent(self._open, self._open.silent)
        elif self._open is not None:
            asked = self._open.cancel_asked
            text = self._open.talk.text
            ending = ending_by_death(exited, reason, self._run_id(), text, cancel_asked=asked)
            self._end_turn(ending, is_agent_at_rest=True)
        self._asking.end(is_agent_gone=True)
        self._agent, self._push = None, None
        if exited.is_stale_resume:
            self._forget_resume("")
        if not agent.is_spent:  # else the next prompt starts the next one
            self._plan_restart(reason, is_stale_resume=exited.is_stale_resume)

    def _stop_for_operator(self, reason: ExitReason, *, is_closing: bool) -> None:
        """What an operator stopped is not started again by what is queued; what is let go goes on with its queue."""
        if reason not in ASKED_FOR:
            raise UsageError(f"an agent is not stopped as {reason.value}", remedy="leave the reason out")
        self._is_closing |= is_closing
        is_running = self.running_spawn is not None or self._respawn_at is not None
        is_held = is_running and reason is ExitReason.STOPPED and not self._is_closing
        self._stop(reason)
        if is_held and self.book.queue.is_open and self.book.queue.head is not None:
            self._append(QueueGate(is_open=False, reason="the agent was stopped, and prompts are waiting"))

    def _stop(self, reason: ExitReason) -> None:
        self._respawn_at = None
        if self._spawning is not None:
            self._stop_start = reason
            self._acts.append(StopAgent())
        if self._agent is None:
            return
        if self._agent.stopping is None:
            self._append(ProcessEvent(kind=ProcessEventKind.STOP_REQUESTED, message=reason.value))
        self._agent.stopping = reason
        if self._open is not None:
            self._open.was_asking |= self._asking.open_count > 0
        self._push = None
        self._acts.append(StopAgent())

    def _next_rung(self, push: Push) -> None:
        push.rung += 1
        if push.rung == 1:
            push.due_seconds = self._now.seconds + self.policy.interrupt_seconds
            self._acts.append(InterruptAgent())
        elif self._open is not None and self._agent is not None and self._agent.is_seen_at_rest:
            # It does rest, and only never said so: nothing is left to end but the turn.
            self._end_turn(ending_by_cancel(self._run_id(), self._open.talk.text), is_agent_at_rest=True)
        else:
            self._stop(ExitReason.STOPPED)

    def _ask_before_idle_stop(self) -> None:
        """A person may be at its terminal. The countdown begins anew: if no answer comes, it is asked again."""
        if self._agent is not None:
            self._agent.free_since = self._now.seconds
            self._acts.append(AskAttended())

    def _on_attended(self, spawn_id: SpawnId, *, is_attended: bool) -> None:
        agent = self._agent
        has_ttl = self.idle_deadline is not None  # else it has work by now
        if agent is not None and agent.spawn_id == spawn_id and has_ttl and not is_attended:
            self._stop(ExitReason.IDLE_TTL)

    @property
    def status(self) -> Status:
        """What a person should see now, with the end of the countdown."""
        deadline = self.idle_deadline
        if deadline is None:
            return super().status
        if self._idle is None or self._idle[0] != deadline:  # spelled once: two readings of a clock differ a little
            self._idle = deadline, self._now.at + timedelta(seconds=deadline - self._now.seconds)
        return structs.replace(super().status, idle_at=self._idle[1])

    @property
    def idle_deadline(self) -> float | None:
        """When an agent that is not used is stopped: the countdown that is shown, and the one that kills."""
        agent, queue = self._agent, self.book.queue
        if agent is None or agent.stopping is not None:
            return None
        has_prompt = queue.is_open and queue.head is not None
        facts = IdleFacts(
            has_open_work=self._open is not None or agent.is_winding_down or bool(agent.children) or has_prompt,
            free_since_seconds=agent.free_since,
            is_adopted=agent.is_adopted,
        )
        return idle_deadline_seconds(agent.process, self.policy.idle_ttl_seconds, facts)
