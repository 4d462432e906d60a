"""What the agent says and shows, taken in: one observation at a time."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

from interlock.agents import observations as seen
from interlock.agents.observations import Observation
from interlock.lifecycle.decisions.approvals import CallFinished, CallRequested
from interlock.lifecycle.decisions.toolcall import CallKey
from interlock.lifecycle.process import AgentEvent, AgentEventType, Mark
from interlock.runtime.session import turn_control
from interlock.runtime.session.agent import process_control
from interlock.runtime.session.agent.life import (
    AgentStage,
    ChannelBroke,
    ChildrenSeen,
    DraftAppeared,
    DraftGone,
    Heard,
    ReadySeen,
    RestSeen,
    StandingShown,
)
from interlock.runtime.session.questions import by_rule
from interlock.runtime.session.state import OpenTurn, Session
from interlock.runtime.session.turn_way import TurnOrigin, TurnStage
from interlock.vocabulary.events.audit import (
    AgentSession,
    DeliveryStage,
    DialogOutcome,
    LastScreen,
    ProviderUsage,
    QueueGate,
    SurfaceEvent,
)
from interlock.vocabulary.events.conversation import HistoryCompaction, Reasoning, SeqRange
from interlock.vocabulary.events.presenter import ContextPressure, PressureTier, ReasoningDelta
from interlock.vocabulary.ids import CallId, SpawnId
from interlock.vocabulary.states import Activity, Attention

OfATurn: TypeAlias = (  # what comes most often first: they are told apart in this order
    seen.TextArrived
    | seen.PromptReached
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
    | seen.Progressed
    | seen.ToolsSeen
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
    | seen.ComposerSeen
    | seen.ScreenLeft
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
# The end of a turn proves no channel: it may be our own conclusion.
_PROVES_A_CHANNEL: Final = (
    seen.TextArrived,
    seen.ThoughtArrived,
    seen.MessageEnded,
    seen.ToolCalled,
    seen.ApprovalAsked,
    seen.ToolReturned,
    seen.PromptReached,
    seen.BecameReady,
)
# What a terminal shows beside progress: that it is drawn, and how we read it.
_NO_PROGRESS: Final = (
    seen.StandingSeen,
    seen.ComposerSeen,
    seen.ScreenLeft,
    seen.Warned,
    seen.Traced,
    seen.SessionNamed,
    seen.RetryBegun,
    seen.ChannelLost,
)
_MOVES_ON: Final = (seen.TextArrived, seen.MessageEnded, seen.ThoughtArrived, seen.ToolCalled)
_AFTER_THE_FACT: Final = (seen.PromptReached, seen.TextVoided, seen.ToolReturned)


def observe(session: Session, spawn_id: SpawnId, what: Observation) -> None:
    """Take in one observation. What another spawn says is of the past, and changes nothing."""
    if session.agent_spawn_id != spawn_id:
        return
    event = seen.agent_event(what)
    if event is not None:
        session.step_process(event)
    if session.turn is not None and not isinstance(what, seen.Exited):
        _sign_of_life(session, session.turn, what)
    if session.life.is_lost and isinstance(what, _PROVES_A_CHANNEL):
        session.step_life(Heard())
    if isinstance(what, OfATurn):
        _on_work(session, what)
    elif isinstance(what, OfTheAgent):
        _on_agent(session, what)
    else:
        _on_aside(session, what)


def _sign_of_life(session: Session, turn: OpenTurn, what: Observation) -> None:
    if session.life.standing is None or not isinstance(what, _NO_PROGRESS):
        turn_control.on_progress(session, turn, what)
    if turn.way.has_started or _is_of_another_prompt(session, turn):
        return
    is_silence = isinstance(what, seen.TurnEnded) and what.ending is seen.TurnEnding.SILENT
    is_of_the_turn = isinstance(what, _PROVES_A_START) and not is_silence and not getattr(what, "sub_agent", "")
    if isinstance(what, seen.TurnEnded) and what.ending is seen.TurnEnding.NATURAL and not what.text:
        is_of_the_turn = turn_control.is_shown_to_have_begun(session, turn)
    if is_of_the_turn:
        turn_control.record_receipt(session, DeliveryStage.STARTED)


def _is_of_another_prompt(session: Session, turn: OpenTurn) -> bool:
    """Whether what a terminal does cannot be of our prompt, since nothing was typed: a person's draft kept it out, or
    the agent had begun a turn by itself. A stream that refused a prompt may still turn out to have taken it."""
    is_refused = turn.way.stage is TurnStage.RETRYING and session.life.standing is not None
    return is_refused or turn.way.stage is TurnStage.KEPT_OUT


# What says how the agent itself is


def _on_agent(session: Session, what: OfTheAgent) -> None:
    match what:
        case seen.BecameReady():
            _on_ready(session)
        case seen.SessionNamed():
            _on_named(session, what)
        case seen.ChildrenChanged(open=children):
            session.step_life(ChildrenSeen(children))
        case seen.StandingSeen():
            _on_standing(session, what)
        case seen.Progressed():
            pass  # a sign of life, and no more
        case seen.ToolsSeen(open=tools):
            _on_tools_seen(session, tools)
        case seen.ChannelLost(message=message):
            session.step_life(ChannelBroke())
            session.note("channel_lost", message)
        case seen.TurnEnded():
            turn_control.on_turn_ended(session, what)
        case seen.Exited():
            process_control.on_exited(session, what)
        case _:
            assert_never(what)


def _on_ready(session: Session) -> None:
    """At rest. A turn that it began unasked is over then: of such a turn an agent need not say more."""
    turn = session.turn
    if turn is not None and session.book.prompt_id is None:
        turn_control.on_turn_ended(session, seen.TurnEnded(ending=seen.TurnEnding.NATURAL))
    elif turn is not None and turn.way.origin is TurnOrigin.TAKEN_UP and turn.way.has_started:
        turn_control.on_turn_ended(session, _END_UNSEEN)
    session.questions.close_left(DialogOutcome.WITHDRAWN)
    turn_control.sync_questions(session)
    session.step_life(ReadySeen())


def _on_named(session: Session, what: seen.SessionNamed) -> None:
    named = AgentSession(
        native_session_id=what.native_session_id,
        model=what.model,
        version=what.version,
        transcript_path=what.transcript_path,
    )
    book = session.book
    # Also the same name again, by another process: that is the proof that it took up the conversation.
    if named != book.native or book.native_spawn != session.agent_spawn_id:
        session.append(named)


def _on_standing(session: Session, what: seen.StandingSeen) -> None:
    before, standing = session.life.standing, what.standing
    session.step_life(StandingShown(standing))
    if before is None or (before.activity, before.attention) != (standing.activity, standing.attention):
        session.append(
            SurfaceEvent(
                activity=standing.activity,
                attention=standing.attention,
                evidence=standing.evidence,
                rows=what.rows,
                frame_sha256=what.frame_sha256,
                profile=what.profile,
            )
        )
    if standing.attention is Attention.NONE:
        session.questions.close_left(DialogOutcome.WITHDRAWN)
        turn_control.sync_questions(session)
    if session.life.stage is AgentStage.WINDING_DOWN and session.life.is_seen_at_rest:
        session.step_life(RestSeen())
    is_stalled = standing.activity is Activity.STALLED
    if is_stalled and session.turn is not None and session.policy.stalled_is_terminal:
        turn_control.fail_stalled(session)


def _on_tools_seen(session: Session, tools: tuple[tuple[str, str], ...]) -> None:
    """What the agent works at. What it does after its last tool is not told, so nothing is said of it."""
    if session.turn is None:
        return
    known, shown = {tool.id for tool in session.process.tools}, dict(tools)
    for call_id in known - shown.keys():
        session.step_process(AgentEvent(AgentEventType.TOOL_RESULT, tool_use_id=call_id))
    for call_id, name in tools:
        if call_id not in known:
            session.step_process(AgentEvent(AgentEventType.TOOL_USE, tool_name=name, tool_use_id=call_id))
    if known and not session.process.open_tools:
        session.step_process(Mark.IDLE)


# Questions, figures, and what is only kept


def _on_aside(session: Session, what: Aside) -> None:
    match what:
        case seen.ApprovalGone(request_id=request_id, is_answered=is_answered):
            session.questions.gone(request_id, session.now, is_answered=is_answered)
            turn_control.sync_questions(session)
        case seen.ApprovalAsked():
            _on_asked(session, what)
        case seen.UsageReported():
            _on_usage(session, what)
        case seen.ContextFilled(used_tokens=used, window_tokens=window):
            session.publish(ContextPressure(tier=_tier(used, window), used_tokens=used, window_tokens=window))
        case seen.RetryBegun(message=message, attempt=attempt):
            session.note("provider_retry", message, {"attempt": attempt})
        case seen.ComposerSeen(has_draft=has_draft):
            session.step_life(DraftAppeared() if has_draft else DraftGone())
        case seen.ScreenLeft(rows=rows, columns=columns):
            session.append(LastScreen(rows=rows, columns=columns))
        case seen.Warned(kind=kind, message=message, details=details):
            session.note(kind, message, details)
        case seen.Traced():
            pass  # a sign of life, and no more
        case _:
            assert_never(what)


def _on_asked(session: Session, asked: seen.ApprovalAsked) -> None:
    question = session.questions.ask(asked, session.now, session.policy.approval_seconds)
    if question is not None:
        by_rule.answer(session, question)
    turn_control.sync_questions(session)


def _on_usage(session: Session, what: seen.UsageReported) -> None:
    session.append(
        ProviderUsage(
            scope=what.scope,
            model=what.model,
            input_tokens=what.input_tokens,
            output_tokens=what.output_tokens,
            cached_input_tokens=what.cached_input_tokens,
            cost_usd=what.cost_usd,
        )
    )
    used = session.book.usage.total
    tokens, cost = used.tokens, used.cost_usd
    limit_tokens, limit_cost = session.policy.max_tokens, session.policy.max_cost_usd
    over = ""
    if limit_tokens is not None and tokens is not None and tokens >= limit_tokens:
        over = f"{tokens} of {limit_tokens} tokens are used"
    elif limit_cost is not None and cost is not None and cost >= limit_cost:
        over = f"{cost:.4g} of {limit_cost:.4g} US dollars are used"
    if over and session.book.queue.is_open:
        session.append(QueueGate(is_open=False, reason=over))


def _tier(used: int | None, window: int | None) -> PressureTier:
    if used is None or not window:
        return PressureTier.UNKNOWN
    share = used / window
    for floor, tier in ((0.95, PressureTier.CRITICAL), (0.85, PressureTier.WARNING), (0.7, PressureTier.ADVISORY)):
        if share >= floor:
            return tier
    return PressureTier.NONE


# What belongs to a turn


def _on_work(session: Session, what: OfATurn) -> None:
    """Work relayed from a child is a sign of life only. After a turn that we ended, and in a stop, work is late."""
    if getattr(what, "sub_agent", ""):
        return
    if session.turn is None:
        is_late = session.life.stage in (AgentStage.WINDING_DOWN, AgentStage.SPENT, AgentStage.STOPPING)
        if is_late or isinstance(what, _AFTER_THE_FACT):
            return
        turn_control.begin_unasked(session)
    if session.turn is not None:
        if isinstance(what, _MOVES_ON):
            session.questions.moved_on()
            turn_control.sync_questions(session)
        if isinstance(what, seen.PromptReached) or not _is_of_another_prompt(session, session.turn):
            _work(session, session.turn, what)


def _work(session: Session, turn: OpenTurn, what: OfATurn) -> None:
    now = session.now.seconds
    match what:
        case seen.TextArrived(text=text):
            session.emit(turn.answer.arrive(text, now))
        case seen.PromptReached(stage=stage):
            turn_control.record_receipt(session, stage)
        case seen.TextVoided():
            session.emit(turn.answer.void(now))
        case seen.MessageEnded(text=text, model=model):
            session.emit(turn.answer.end_message(text, model, now))
        case seen.ThoughtArrived(text=text):
            session.publish(ReasoningDelta(stream_id=turn.thoughts, offset=turn.thought_offset, text=text))
            turn.thought_offset += len(text)
        case seen.ReasoningKept(item=item, model=model, dialect=dialect):
            session.append(Reasoning(item=item, model=model, dialect=dialect))
        case seen.HistoryCompacted():
            _on_compacted(session, what)
        case seen.ToolCalled():
            _on_tool_called(session, turn, what)
        case seen.ToolReturned():
            _on_tool_returned(session, what)
        case _:
            assert_never(what)


def _on_compacted(session: Session, what: seen.HistoryCompacted) -> None:
    """The summary stands for everything before the open turn."""
    facts = session.book.turn
    if facts is None or facts.first_seq is None or facts.first_seq <= 1:
        session.note("compaction_of_nothing", "there is nothing before this turn that a summary could stand for")
        return
    session.append(
        HistoryCompaction(
            range=SeqRange(from_seq=1, to_seq=facts.first_seq - 1),
            summary=what.summary,
            strategy=what.strategy,
            trigger=what.trigger,
            limitations=what.limitations,
        )
    )


def _on_tool_called(session: Session, turn: OpenTurn, what: seen.ToolCalled) -> None:
    session.emit(turn.answer.set_aside())
    if session.book.turn_id is not None:
        call = CallRequested(session.book.turn_id, CallId(what.call_id), what.name or "tool", what.args)
        session.questions.step(call, session.now)


def _on_tool_returned(session: Session, what: seen.ToolReturned) -> None:
    if session.book.calls is None or session.book.turn_id is None:
        return
    call = session.book.calls.latest(CallId(what.call_id))
    if call is None or call.is_open or call.decision is None:
        key = CallKey(session.book.turn_id, CallId(what.call_id)) if call is None else call.key
        session.questions.step(CallFinished(key, what.output, what.error), session.now)
    # else it is the agent's own word on a call that was refused: its result is in the log already
    for question in session.questions.of_call(what.call_id):
        session.questions.gone(question.asked.request_id, session.now, is_answered=question.decision is not None)
    turn_control.sync_questions(session)
