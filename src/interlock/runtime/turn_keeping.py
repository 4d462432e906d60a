"""Turns: begun, submitted, waited for and closed. See the laws of `conductor`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from interlock.agents import observations as seen
from interlock.agents.port import Prompt
from interlock.lifecycle import approvals
from interlock.lifecycle.approvals import Persist
from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.queue import is_progress
from interlock.lifecycle.toolcall import EndKind
from interlock.runtime.acts import (
    SpawnAgent,
    SubmitPrompt,
    Submitted,
)
from interlock.runtime.agent_side import AgentSide, OpenTurn, Push
from interlock.runtime.desk import Desk
from interlock.runtime.endings import ending_by_agent, ending_by_cancel, ending_by_clock, ending_by_failure
from interlock.runtime.talk import Talk
from interlock.vocabulary.audit import (
    DeliveryReceipt,
    DeliveryStage,
    ProcessEvent,
    ProcessEventKind,
    QueueGate,
    RunState,
    TurnStarted,
)
from interlock.vocabulary.conversation import UserMessage
from interlock.vocabulary.ids import RunId, SpawnId, StreamId, TurnId
from interlock.vocabulary.run import CANCELLED, SUSPENDED, RunStatus, StopCode
from interlock.vocabulary.states import TurnState

# The pipes of a process that dies close a moment before its end is told, and that end says more than the silence.
_SILENT_SECONDS: Final = 1.0


class TurnKeeping(Desk):
    """What belongs to the open turn, and to how it begins and ends."""

    def _advance(self) -> None:
        """Send what waits, if everything allows it; start the agent, if that is what is missing."""
        queue, agent = self.book.queue, self._agent
        is_due = queue.is_open and queue.head is not None
        is_free = self._open is None and self.book.turn is None and not self._is_closing
        if is_free and is_due and not self._asking.open_count:
            if agent is None and self._respawn_at is None:
                self._spawn_now()
            elif agent is not None and agent.can_take_prompt:
                self._dispatch(agent)
        status = self.status
        if status != self._shown:
            self._shown = status
            self._publish(status)

    def _spawn_now(self) -> None:
        self._respawn_at = None
        if self._agent is not None or self._spawning is not None or self._is_closing:
            return
        self._spawning = SpawnId(self._new_id("spn"))
        # So that what is started can be found, should we die before we can say that it was.
        self._append(ProcessEvent(kind=ProcessEventKind.SPAWN_REQUESTED), spawn_id=self._spawning)
        native = self.book.native
        self._acts.append(
            SpawnAgent(spawn_id=self._spawning, resume="" if native is None else native.native_session_id)
        )

    def _dispatch(self, agent: AgentSide) -> None:
        head = self.book.queue.head
        if head is None:
            return
        turn_id, run_id = TurnId(self._new_id("trn")), RunId(self._new_id("run"))
        budget = self.policy.turn_budget_seconds
        self._append(
            self.book.queue.dispatch(head.prompt_id),
            UserMessage(text=head.text, prompt_id=head.prompt_id),
            self._turn_started(budget),
            RunState(run_id=run_id, status=RunStatus.RUNNING),
            turn_id=turn_id,
        )
        self._open = self._new_turn(self._now.seconds, budget)
        agent.is_spent = agent.capabilities.is_one_shot
        agent.is_ready = not agent.is_spent
        self._problem = ""
        self._submit(self._open)

    def _begin_unasked(self) -> None:
        turn_id, run_id = TurnId(self._new_id("trn")), RunId(self._new_id("run"))
        budget = self.policy.turn_budget_seconds
        started = self._turn_started(budget)
        self._append(started, RunState(run_id=run_id, status=RunStatus.RUNNING), turn_id=turn_id)
        self._open = self._new_turn(self._now.seconds, budget)
        self._open.submits, self._open.start_by = 1, None

    def _turn_started(self, budget: float | None) -> TurnStarted:
        spec = self._spec
        return TurnStarted(driver=self._kind, agent=spec.agent, model=spec.model, budget_seconds=budget)

    def _new_turn(self, began: float, budget: float | None) -> OpenTurn:
        now = self._now.seconds
        return OpenTurn(
            talk=Talk(lambda: StreamId(self._new_id("str")), now),
            began_seconds=began,
            deadline=None if budget is None else began + budget,
            start_by=now + self.policy.start_seconds,
            last_sign=now,
            thoughts=StreamId(self._new_id("str")),
        )

    def _submit(self, turn: OpenTurn) -> None:
        prompt_id = self.book.prompt_id
        prompt = None if prompt_id is None else self.book.queue.prompts.get(prompt_id)
        if prompt is None or self.book.turn_id is None:
            return
        turn.submits, turn.resubmit_at = turn.submits + 1, None
        self._acts.append(SubmitPrompt(Prompt(prompt_id=prompt.prompt_id, turn_id=self.book.turn_id, text=prompt.text)))

    def _on_submitted(self, news: Submitted) -> None:
        turn = self._open
        if turn is None or news.prompt_id != self.book.prompt_id:
            return
        if news.stage is DeliveryStage.NOT_DELIVERED:
            self._on_not_delivered(turn, news.message)
            return
        self._receipt(news.stage)
        if news.stage is DeliveryStage.UNKNOWN:
            self._note("delivery_unknown", news.message)

    def _on_not_delivered(self, turn: OpenTurn, message: str) -> None:
        """Given again, if nothing speaks against it. The agent has nothing of this prompt, and is left alone."""
        if self._has_arrived():
            self._note("delivery_disputed", message)
        elif turn.cancel_asked:
            self._end_unsent(ending_by_cancel(self._run_id()))
        elif turn.submits < self.policy.resubmit_attempts:
            turn.resubmit_at = self._now.seconds + self.policy.resubmit_seconds
            self._note("not_delivered_yet", message, {"attempt": turn.submits})
        else:
            self._end_unsent(ending_by_failure(self._run_id(), "", "not_delivered", message))
            self._give_up(message)  # the next prompt would meet the same

    def _end_unsent(self, ending: Ending) -> None:
        self._receipt(DeliveryStage.NOT_DELIVERED)
        self._end_turn(ending, is_agent_at_rest=True)

    def _give_up(self, message: str) -> None:
        """Nothing that we can do would help: whoever waits is told why, and nothing is tried in a loop."""
        self._problem = message
        if self.book.queue.is_open and self.book.queue.head is not None:
            self._append(QueueGate(is_open=False, reason=message))

    def _has_arrived(self) -> bool:
        """Whether the agent is known to have the prompt of the open turn."""
        known = None if self.book.prompt_id is None else self.book.queue.prompts.get(self.book.prompt_id)
        return known is not None and known.stage in (DeliveryStage.ACCEPTED, DeliveryStage.STARTED)

    def _receipt(self, stage: DeliveryStage) -> None:
        """Write down how far the open turn's prompt got, if that is news."""
        if self._open is not None and stage in (DeliveryStage.ACCEPTED, DeliveryStage.STARTED):
            self._open.resubmit_at = None
            self._open.start_by = None if stage is DeliveryStage.STARTED else self._open.start_by
        prompt_id = self.book.prompt_id
        known = None if prompt_id is None else self.book.queue.prompts.get(prompt_id)
        if prompt_id is not None and known is not None and is_progress(known.stage, stage):
            self._append(DeliveryReceipt(prompt_id=prompt_id, stage=stage))

    def _on_turn_ended(self, agent: AgentSide, said: seen.TurnEnded) -> None:
        if self._is_of_another(said):
            return  # its turn was closed by us; the agent has the next prompt by now, or is about to get it
        is_told = said.ending is not seen.TurnEnding.SILENT or agent.is_seen_at_rest
        agent.is_ready = is_told and not agent.is_spent
        agent.presumed_ready_at = None if is_told else self._now.seconds + self.policy.interrupt_seconds
        if agent.is_winding_down or self._open is None:
            self._asking.end()
            self._rest(agent)
            return
        if not is_told and not said.error_kind and self._open.silent is None:
            self._open.silent, self._open.silent_by = said, self._now.seconds + _SILENT_SECONDS
            return
        self._end_by_agent(self._open, said)

    def _end_by_agent(self, turn: OpenTurn, said: seen.TurnEnded) -> None:
        if turn.was_asking and said.ending is seen.TurnEnding.NATURAL:
            # It takes the end of its input for a no, and finishes: what it then says is no answer to the prompt.
            said = replace(said, ending=seen.TurnEnding.INTERRUPTED)
        elapsed = self._now.seconds - turn.began_seconds
        self._end_turn(
            ending_by_agent(
                said,
                self._run_id(),
                self._kind,
                turn.talk.text,
                cancel_asked=turn.cancel_asked,
                elapsed_seconds=elapsed,
            ),
            is_agent_at_rest=True,
        )

    def _is_of_another(self, said: seen.TurnEnded) -> bool:
        """Whether a turn is open, and this is known to be the end of another one."""
        if self._open is None or said.turn_id is None:
            return False
        return said.turn_id != (self.book.turn_id if self.book.prompt_id is not None else "")

    def _rest(self, agent: AgentSide) -> None:
        """The agent has nothing to do any more. One that was for one prompt only has to end now, or is ended."""
        agent.is_winding_down, self._push = False, None
        if agent.is_spent and agent.stopping is None:
            self._push = Push(self._now.seconds + self.policy.interrupt_seconds, rung=1)

    def _end_turn(self, ending: Ending, *, is_agent_at_rest: bool = False) -> None:
        """Write the closing batch. An agent that is not at rest is asked to end its turn, and not ready until then."""
        turn, facts = self._open, self.book.turn
        if facts is None or turn is None:
            self._open = None
            return
        self._receipt(DeliveryStage.UNKNOWN)  # unless more is known
        self._open = None
        self._asking.end()
        kind = EndKind.RUN_TIMED_OUT if ending.reason.stop_code == StopCode.TIMEOUT else None
        if ending.reason == CANCELLED:
            kind = EndKind.RUN_CANCELLED
        if kind is not None and self.book.calls is not None:
            _, outputs = approvals.cancel_open(self.book.calls, kind, "The turn was over before the tool gave a result")
            for output in outputs:
                if isinstance(output, Persist):
                    self._append(output.record)
        facts = self.book.turn or facts
        ending = replace(ending, model=ending.model or turn.talk.model, stream_id=turn.talk.stream_id)
        self._append(*closing_batch(facts, ending))
        agent = self._agent
        if agent is None or agent.stopping is not None:
            return
        agent.free_since = self._now.seconds
        if is_agent_at_rest or agent.is_seen_at_rest:
            self._rest(agent)
            return
        agent.is_winding_down, agent.is_ready = True, False
        if self._push is None:
            self._ask_to_end()

    def _sync_run(self) -> None:
        """While a decision is open the run waits; once none is, it goes on."""
        turn = self.book.turn
        if turn is None or turn.run_id is None or self._open is None:
            return
        is_asked = self._asking.open_count > 0
        if is_asked and turn.state is TurnState.RUNNING:
            self._append(RunState(run_id=turn.run_id, status=RunStatus.WAITING, reason=SUSPENDED))
        elif not is_asked and turn.state is TurnState.WAITING:
            self._append(RunState(run_id=turn.run_id, status=RunStatus.RUNNING))

    def _stall_at(self, turn: OpenTurn) -> float | None:
        """When silence becomes a stall. A tool that runs, and a question that is open, may take their time."""
        limit, agent = self.policy.stall_after_seconds, self._agent
        is_excused = turn.open_tools or self._asking.open_count or turn.is_stalled or turn.start_by is not None
        if limit is None or is_excused or agent is None or agent.is_lost or agent.standing is not None:
            return None  # who cannot be seen is not silent, and a terminal has a stall clock of its own
        return turn.last_sign + limit

    def _watch_turn(self, turn: OpenTurn, now: float) -> None:
        stall_at = self._stall_at(turn)
        if turn.silent is not None and turn.silent_by is not None and turn.silent_by <= now:
            self._end_by_agent(turn, turn.silent)
        elif turn.deadline is not None and turn.deadline <= now:
            budget = self.book.budget_seconds or turn.deadline - turn.began_seconds  # the difference is a little off
            elapsed = now - turn.began_seconds
            text = turn.talk.text
            self._end_turn(ending_by_clock(self._run_id(), text, budget_seconds=budget, elapsed_seconds=elapsed))
        elif turn.start_by is not None and turn.start_by <= now:
            kind = "never_began" if self._has_arrived() else "delivery_unknown"
            message = "the prompt was given to the agent, and nothing shows that it began"
            self._problem = message
            self._end_turn(ending_by_failure(self._run_id(), turn.talk.text, kind, message))
        elif turn.resubmit_at is not None and turn.resubmit_at <= now:
            self._submit(turn)
        elif stall_at is not None and stall_at <= now:
            turn.is_stalled = True
            self._note("stalled_entered", f"no sign of the agent for {now - turn.last_sign:.0f} seconds")
            if self.policy.stalled_is_terminal:
                self._fail_stalled()

    def _fail_stalled(self) -> None:
        text = "" if self._open is None else self._open.talk.text
        self._end_turn(ending_by_failure(self._run_id(), text, "stalled", "the agent gave no sign for too long"))
