"""What the agent says and shows, taken in. See the laws of `conductor`."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from interlock.agents import observations as seen
from interlock.agents.observations import Observation
from interlock.lifecycle import process
from interlock.lifecycle.approvals import CallFinished, CallRequested
from interlock.lifecycle.toolcall import CallKey
from interlock.runtime.agent_keeping import AgentKeeping
from interlock.runtime.agent_side import AgentSide, OpenTurn
from interlock.vocabulary.audit import (
    AgentSession,
    DeliveryStage,
    DialogOutcome,
    ProviderUsage,
    QueueGate,
    SurfaceEvent,
)
from interlock.vocabulary.conversation import HistoryCompaction, Reasoning, SeqRange
from interlock.vocabulary.ids import CallId
from interlock.vocabulary.presenter import ContextPressure, PressureTier, ReasoningDelta
from interlock.vocabulary.states import Activity, Attention

OfATurn: TypeAlias = (
    seen.PromptReached
    | seen.TextArrived
    | seen.TextVoided
    | seen.MessageEnded
    | seen.ThoughtArrived
    | seen.ReasoningKept
    | seen.HistoryCompacted
    | seen.ToolCalled
    | seen.ToolReturned
)
OfTheAgent: TypeAlias = (
    seen.BecameReady
    | seen.SessionNamed
    | seen.ChildrenChanged
    | seen.StandingSeen
    | seen.ChannelLost
    | seen.TurnEnded
    | seen.Exited
)
Aside: TypeAlias = (
    seen.ApprovalAsked
    | seen.ApprovalGone
    | seen.UsageReported
    | seen.ContextFilled
    | seen.RetryBegun
    | seen.Warned
    | seen.Traced
)


_END_UNSEEN: Final = seen.TurnEnded(
    ending=seen.TurnEnding.SILENT,
    error_kind="end_unseen",
    error_message="the turn ended while no runtime watched, and nothing shows how",
)


_PROVES_A_START: Final = (
    seen.TextArrived,
    seen.ThoughtArrived,
    seen.MessageEnded,
    seen.ToolCalled,
    seen.ApprovalAsked,
    seen.TurnEnded,
)
_PROVES_A_CHANNEL: Final = (*_PROVES_A_START, seen.ToolReturned, seen.PromptReached, seen.BecameReady)


class Hearing(AgentKeeping):
    """One observation at a time."""

    def _on_observed(self, agent: AgentSide, what: Observation) -> None:
        event = seen.agent_event(what)
        if event is not None:
            agent.process, _ = process.step(agent.process, event, self._now.seconds)
        if self._open is not None and not isinstance(what, seen.Exited):
            self._sign_of_life(self._open, what)
        if isinstance(what, _PROVES_A_CHANNEL):
            agent.is_lost = agent.is_lost and isinstance(what, seen.TurnEnded)  # which may be our own conclusion
        if isinstance(what, OfATurn):
            self._on_work(agent, what)
        elif isinstance(what, OfTheAgent):
            self._on_agent(agent, what)
        else:
            self._on_aside(agent, what)

    def _on_agent(self, agent: AgentSide, what: OfTheAgent) -> None:
        """What says how the agent itself is."""
        match what:
            case seen.BecameReady():
                self._on_ready(agent)
            case seen.SessionNamed():
                self._on_named(what)
            case seen.ChildrenChanged(open=children):
                agent.children = children
                agent.settle_by_seconds = self._now.seconds + self.policy.settle_seconds if children else None
            case seen.StandingSeen():
                self._on_standing(agent, what)
            case seen.ChannelLost(message=message):
                agent.is_lost = True
                self._note("channel_lost", message)
            case seen.TurnEnded():
                self._on_turn_ended(agent, what)
            case seen.Exited():
                self._on_exited(agent, what)
            case _:
                assert_never(what)

    def _on_ready(self, agent: AgentSide) -> None:
        """At rest. A turn that it began unasked is over then: of such a turn an agent need not say more."""
        turn = self._open
        if turn is not None and self.book.prompt_id is None and not agent.is_winding_down:
            self._on_turn_ended(agent, seen.TurnEnded(ending=seen.TurnEnding.NATURAL))
        elif turn is not None and turn.is_taken_up and turn.start_by is None:
            self._on_turn_ended(agent, _END_UNSEEN)
        self._asking.close_left(DialogOutcome.WITHDRAWN)
        self._sync_run()
        if agent.is_winding_down:
            self._rest(agent)
        agent.is_ready, agent.presumed_ready_at = not agent.is_spent, None

    def _on_aside(self, agent: AgentSide, what: Aside) -> None:
        """Questions, figures, and what is only kept."""
        match what:
            case seen.ApprovalGone(request_id=request_id, is_answered=is_answered):
                self._asking.gone(request_id, is_answered=is_answered)
                self._sync_run()
            case seen.ApprovalAsked():
                self._asking.ask(what, self._now.at, self.policy.approval_seconds)
                self._sync_run()
            case seen.UsageReported():
                self._on_usage(what)
            case seen.ContextFilled(used_tokens=used, window_tokens=window):
                self._publish(ContextPressure(tier=_tier(used, window), used_tokens=used, window_tokens=window))
            case seen.RetryBegun(message=message, attempt=attempt):
                self._note("provider_retry", message, {"attempt": attempt})
            case seen.Warned(kind=kind, message=message, details=details):
                self._note(kind, message, details)
            case seen.Traced(raw=raw):
                agent.traces.append(raw)
            case _:
                assert_never(what)

    def _on_work(self, agent: AgentSide, what: OfATurn) -> None:
        """What belongs to a turn. Relayed from a child it is a sign of life; after a turn that we ended it is late."""
        is_late = agent.is_winding_down or (agent.is_spent and self._open is None)
        if getattr(what, "sub_agent", "") or is_late:
            return
        is_after_the_fact = isinstance(what, seen.PromptReached | seen.TextVoided | seen.ToolReturned)
        if self._open is None and not is_after_the_fact:
            self._begin_unasked()
        if self._open is not None:
            if isinstance(what, seen.TextArrived | seen.MessageEnded | seen.ThoughtArrived | seen.ToolCalled):
                self._asking.moved_on()
                self._sync_run()
            self._work(self._open, what)

    def _work(self, turn: OpenTurn, what: OfATurn) -> None:
        now = self._now.seconds
        match what:
            case seen.PromptReached(stage=stage):
                self._receipt(stage)
            case seen.TextArrived(text=text):
                self._emit(turn.talk.arrive(text, now))
            case seen.TextVoided():
                self._emit(turn.talk.void(now))
            case seen.MessageEnded(text=text, model=model):
                self._emit(turn.talk.end_message(text, model, now))
            case seen.ThoughtArrived(text=text):
                self._publish(ReasoningDelta(stream_id=turn.thoughts, offset=turn.thought_offset, text=text))
                turn.thought_offset += len(text)
            case seen.ReasoningKept(item=item, model=model, dialect=dialect):
                self._append(Reasoning(item=item, model=model, dialect=dialect))
            case seen.HistoryCompacted():
                self._on_compacted(what)
            case seen.ToolCalled():
                self._on_tool_called(turn, what)
            case seen.ToolReturned():
                self._on_tool_returned(turn, what)
            case _:
                assert_never(what)

    def _sign_of_life(self, turn: OpenTurn, what: Observation) -> None:
        turn.last_sign, turn.is_stalled = self._now.seconds, False
        is_silence = isinstance(what, seen.TurnEnded) and what.ending is seen.TurnEnding.SILENT
        is_of_the_turn = isinstance(what, _PROVES_A_START) and not is_silence and not getattr(what, "sub_agent", "")
        if is_of_the_turn and turn.start_by is not None:
            self._receipt(DeliveryStage.STARTED)

    def _on_named(self, what: seen.SessionNamed) -> None:
        named = AgentSession(
            native_session_id=what.native_session_id,
            model=what.model,
            version=what.version,
            transcript_path=what.transcript_path,
        )
        if named != self.book.native:
            self._append(named)

    def _on_standing(self, agent: AgentSide, what: seen.StandingSeen) -> None:
        agent.is_lost = False
        before, agent.standing = agent.standing, what.standing
        if before is None or (before.activity, before.attention) != (what.standing.activity, what.standing.attention):
            self._append(
                SurfaceEvent(
                    activity=what.standing.activity,
                    attention=what.standing.attention,
                    evidence=what.standing.evidence,
                    rows=what.rows,
                    frame_sha256=what.frame_sha256,
                    profile=what.profile,
                )
            )
        if what.standing.attention is Attention.NONE:
            self._asking.close_left(DialogOutcome.WITHDRAWN)
            self._sync_run()
        if agent.is_winding_down and agent.is_seen_at_rest:
            self._rest(agent)
            agent.is_ready = True
        is_stalled = what.standing.activity is Activity.STALLED
        if is_stalled and self._open is not None and self.policy.stalled_is_terminal:
            self._fail_stalled()

    def _on_usage(self, what: seen.UsageReported) -> None:
        self._append(
            ProviderUsage(
                scope=what.scope,
                model=what.model,
                input_tokens=what.input_tokens,
                output_tokens=what.output_tokens,
                cached_input_tokens=what.cached_input_tokens,
                cost_usd=what.cost_usd,
            )
        )
        used = self.book.usage.total
        tokens, cost = used.tokens, used.cost_usd
        limit_tokens, limit_cost = self.policy.max_tokens, self.policy.max_cost_usd
        over = ""
        if limit_tokens is not None and tokens is not None and tokens >= limit_tokens:
            over = f"{tokens} of {limit_tokens} tokens are used"
        elif limit_cost is not None and cost is not None and cost >= limit_cost:
            over = f"{cost:.4g} of {limit_cost:.4g} US dollars are used"
        if over and self.book.queue.is_open:
            self._append(QueueGate(is_open=False, reason=over))

    def _on_compacted(self, what: seen.HistoryCompacted) -> None:
        """The summary stands for everything before the open turn."""
        facts = self.book.turn
        if facts is None or facts.first_seq is None or facts.first_seq <= 1:
            self._note("compaction_of_nothing", "there is nothing before this turn that a summary could stand for")
            return
        self._append(
            HistoryCompaction(
                range=SeqRange(from_seq=1, to_seq=facts.first_seq - 1),
                summary=what.summary,
                strategy=what.strategy,
                trigger=what.trigger,
                limitations=what.limitations,
            )
        )

    def _on_tool_called(self, turn: OpenTurn, what: seen.ToolCalled) -> None:
        self._emit(turn.talk.set_aside())
        turn.open_tools.add(what.call_id)
        if self.book.turn_id is not None:
            call = CallRequested(self.book.turn_id, CallId(what.call_id), what.name or "tool", what.args)
            self._asking.step(call, self._now.at)

    def _on_tool_returned(self, turn: OpenTurn, what: seen.ToolReturned) -> None:
        turn.open_tools.discard(what.call_id)
        if self.book.calls is None or self.book.turn_id is None:
            return
        call = self.book.calls.latest(CallId(what.call_id))
        if call is None or call.is_open or call.decision is None:
            key = CallKey(self.book.turn_id, CallId(what.call_id)) if call is None else call.key
            self._asking.step(CallFinished(key, what.output, what.error), self._now.at)
        # else it is the agent's own word on a call that was refused: its result is in the log already
        for question in list(self._asking.questions.values()):
            if question.key is not None and question.key.call_id == what.call_id:
                self._asking.gone(question.asked.request_id, is_answered=question.decision is not None)
        self._sync_run()


def _tier(used: int | None, window: int | None) -> PressureTier:
    if used is None or not window:
        return PressureTier.UNKNOWN
    share = used / window
    for floor, tier in ((0.95, PressureTier.CRITICAL), (0.85, PressureTier.WARNING), (0.7, PressureTier.ADVISORY)):
        if share >= floor:
            return tier
    return PressureTier.NONE
