"""Turns: begun, given to the agent, cancelled and closed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from interlock.agents import observations as seen
from interlock.agents.port import Prompt
from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.decisions import approvals
from interlock.lifecycle.decisions.approvals import Persist
from interlock.lifecycle.decisions.toolcall import EndKind
from interlock.lifecycle.queue import is_progress
from interlock.lifecycle.run import run_input, settle
from interlock.monitor.observer.reply import MAX_REPLY_CHARACTERS, NoReply, contract_of
from interlock.runtime.session import turn_way
from interlock.runtime.session.agent.life import (
    AgentStage,
    InterruptAnswered,
    InterruptRequested,
    InterruptWithdrawn,
    TurnBegan,
    TurnClosed,
    TurnReported,
)
from interlock.runtime.session.effects import SubmitPrompt
from interlock.runtime.session.endings import (
    ending_by_agent,
    ending_by_cancel,
    ending_by_clock,
    ending_by_failure,
)
from interlock.runtime.session.inputs import Submitted
from interlock.runtime.session.state import OPEN_RUN, OpenTurn, Session
from interlock.runtime.session.status import stall_evidence
from interlock.runtime.session.streamed_answer import StreamedAnswer
from interlock.runtime.session.turn_way import (
    AnswerGiven,
    CancelRequested,
    CancelUndelivered,
    EndReported,
    FellSilent,
    PromptGiven,
    PromptKeptOut,
    PromptNotDelivered,
    SignSeen,
    TurnDeadlinePassed,
    TurnOutput,
    TurnStage,
    TurnWay,
    TurnWayClosed,
    WorkSeen,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import (
    DeliveryReceipt,
    DeliveryStage,
    QueueGate,
    RunState,
    SurfaceEvent,
    TurnReply,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import MessageSource, UserMessage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import RunId, StreamId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, StopCode
from interlock.vocabulary.states import Activity

_INTERRUPT_ATTEMPTS = 2
_SIGN: Final = SignSeen()
DRAFT_IN_COMPOSER: Final = "a draft of somebody stands in the composer"

# Beginning


def dispatch(session: Session) -> None:
    """Give the next prompt to the agent. Its turn is in the log before the agent is told."""
    head = session.book.queue.head
    if head is None:
        return
    session.append(
        session.book.queue.dispatch(head.prompt_id),
        UserMessage(text=head.text, prompt_id=head.prompt_id),
        *_first_records(session),
        turn_id=TurnId(session.new_id("trn")),
    )
    session.problem = ""
    session.step_life(TurnBegan(is_prompted=True))
    session.turn = _open(session, turn_way.dispatched(session.now.seconds, session.policy))
    _submit(session)


def begin_unasked(session: Session) -> OpenTurn:
    """What an agent does unasked is a turn as well, without a prompt."""
    session.append(*_first_records(session), turn_id=TurnId(session.new_id("trn")))
    session.step_life(TurnBegan(is_prompted=False))
    session.turn = _open(session, turn_way.unasked(session.now.seconds, session.policy))
    return session.turn


def take_up(session: Session) -> None:
    """An agent that outlived us is back, with its turn still open."""
    book, now = session.book, session.now
    elapsed = max(0.0, (now.at - (book.turn_began_at or now.at)).total_seconds())
    has_started = _delivery_stage(session) is DeliveryStage.STARTED
    way = turn_way.taken_up(now.seconds, elapsed, book.budget_seconds, session.policy, has_started=has_started)
    session.step_life(TurnBegan(is_prompted=book.prompt_id is not None))
    session.turn = _open(session, way)
    if session.is_cancel_requested:
        session.step_turn(session.turn, CancelRequested())
        session.step_life(InterruptRequested())


def _first_records(session: Session) -> tuple[TurnStarted, RunState]:
    spec, budget = session.spec, session.policy.turn_budget_seconds
    started = TurnStarted(driver=session.kind, agent=spec.agent, model=spec.model, budget_seconds=budget)
    return started, RunState(run_id=RunId(session.new_id("run")), status=RunStatus.RUNNING)


def _open(session: Session, way: TurnWay) -> OpenTurn:
    answer = StreamedAnswer(lambda: StreamId(session.new_id("str")), session.now.seconds)
    return OpenTurn(way, answer, StreamId(session.new_id("str")))


# Delivery


def _submit(session: Session) -> None:
    prompt_id, turn_id = session.book.prompt_id, session.book.turn_id
    prompt = None if prompt_id is None else session.book.queue.prompts.get(prompt_id)
    if prompt is not None and turn_id is not None:
        given = Prompt(prompt_id=prompt.prompt_id, turn_id=turn_id, text=prompt.text, reply=prompt.reply)
        session.do(SubmitPrompt(given))


def on_submitted(session: Session, submitted: Submitted) -> None:
    turn = session.turn
    if turn is None or submitted.prompt_id != session.book.prompt_id:
        return
    if submitted.stage is DeliveryStage.NOT_DELIVERED:
        _on_not_delivered(session, turn, submitted)
        return
    record_receipt(session, submitted.stage)
    if submitted.stage is DeliveryStage.UNKNOWN:
        turn.delivery_problem = submitted.message
        session.note("delivery_unknown", submitted.message)


def _on_not_delivered(session: Session, turn: OpenTurn, submitted: Submitted) -> None:
    """Given again, if nothing speaks against it. The agent has nothing of this prompt, and is left alone."""
    message = submitted.message
    if _has_arrived(session):
        session.note("delivery_disputed", message)
        return
    if session.is_cancel_requested:
        _end_unsent(session, ending_by_cancel(session.run_id))
        return
    if submitted.waits_for:
        turn.waits_for = submitted.waits_for
        session.step_turn(turn, PromptKeptOut())
        return
    session.step_turn(turn, PromptNotDelivered())
    if turn.way.stage is TurnStage.RETRYING:
        session.note("not_delivered_yet", message, {"attempt": turn.way.submits})
        return
    _end_unsent(session, ending_by_failure(session.run_id, "", "not_delivered", message))
    give_up(session, message)  # the next prompt would meet the same


def tell_what_keeps_prompt(session: Session) -> None:
    """Write down why the next prompt waits, or that of the open turn, if that is news: a draft of a person's, work or a
    dialog that the agent began by itself."""
    queue, turn = session.book.queue, session.turn
    prompt, why = queue.head, ""
    if turn is None and queue.is_open and session.life.is_kept_by_draft:
        why = DRAFT_IN_COMPOSER
    if turn is not None and session.book.prompt_id is not None:
        prompt = queue.prompts.get(session.book.prompt_id)
        why = turn.waits_for if turn.way.stage is TurnStage.KEPT_OUT else ""
    waits_for = "" if session.questions.open_count else why
    if prompt is None or prompt.stage is not DeliveryStage.QUEUED or prompt.waits_for == waits_for:
        return
    if turn is not None and turn.way.stage is TurnStage.DISPATCHED:
        return  # it is being tried again
    session.append(DeliveryReceipt(prompt_id=prompt.prompt_id, stage=DeliveryStage.QUEUED, waits_for=waits_for))


def _end_unsent(session: Session, ending: Ending) -> None:
    record_receipt(session, DeliveryStage.NOT_DELIVERED)
    close(session, ending, is_at_rest=True)


def give_up(session: Session, message: str) -> None:
    """Nothing that we can do would help: the queue is held with the reason, and nothing is tried in a loop."""
    session.problem = message
    if session.book.queue.is_open and session.book.queue.head is not None:
        session.append(QueueGate(is_open=False, reason=message))


def _delivery_stage(session: Session) -> DeliveryStage | None:
    """How far the prompt of the newest turn is known to have got; None for a turn without a prompt."""
    prompt_id = session.book.prompt_id
    known = None if prompt_id is None else session.book.queue.prompts.get(prompt_id)
    return None if known is None else known.stage


def _has_arrived(session: Session) -> bool:
    """Whether the agent is known to have the prompt of the open turn."""
    return _delivery_stage(session) in (DeliveryStage.ACCEPTED, DeliveryStage.STARTED)


def record_receipt(session: Session, stage: DeliveryStage) -> None:
    """Write down how far the open turn's prompt got, if that is news."""
    if session.turn is not None:
        if stage is DeliveryStage.STARTED:
            session.step_turn(session.turn, WorkSeen())
        elif stage is not DeliveryStage.NOT_DELIVERED:
            session.step_turn(session.turn, PromptGiven())
    prompt_id, known = session.book.prompt_id, _delivery_stage(session)
    if prompt_id is not None and known is not None and is_progress(known, stage):
        session.append(DeliveryReceipt(prompt_id=prompt_id, stage=stage))


# The agent's own word


def on_turn_ended(session: Session, said: seen.TurnEnded) -> None:
    turn = session.turn
    if turn is not None and _is_of_another(session, said):
        return  # its turn was closed by us; the agent has the next prompt by now, or is about to get it
    is_told = said.ending is not seen.TurnEnding.SILENT or session.life.is_seen_at_rest
    is_winding_down = session.life.stage is AgentStage.WINDING_DOWN
    session.step_life(TurnReported(is_told))
    if turn is None or is_winding_down:
        session.questions.end()
    elif not is_told and not said.error_kind and turn.way.silent_by_seconds is None:
        session.step_turn(turn, FellSilent(said))
    else:
        end_by_agent(session, turn, said)


def _is_of_another(session: Session, said: seen.TurnEnded) -> bool:
    """Whether this is known to be the end of another turn than the one that is open."""
    mine = session.book.turn_id if session.book.prompt_id is not None else ""
    return said.turn_id is not None and said.turn_id != mine


def end_by_agent(session: Session, turn: OpenTurn, said: seen.TurnEnded) -> None:
    """Close the turn by the agent's word; hold it, if a question of its own is open and the word is a clean end."""
    way, is_natural = turn.way, said.ending is seen.TurnEnding.NATURAL
    if is_natural and not said.text and not is_shown_to_have_begun(session, turn):
        _end_unproven(session, turn)
        return
    if is_natural and (way.was_stopped_asking or (session.is_cancel_requested and session.life.was_interrupted)):
        # Stopped with a question open, it takes the end of its input for a no. Asked to stop, it ends what it does. In
        # both cases what it then says is no proven answer to the prompt.
        said = replace(said, ending=seen.TurnEnding.INTERRUPTED)
    elapsed = session.now.seconds - way.began_seconds
    ending = ending_by_agent(
        said,
        session.run_id,
        session.kind,
        turn.answer.text,
        cancel_asked=session.is_cancel_requested,
        elapsed_seconds=elapsed,
    )
    if session.life.is_running and settle(ending.reason, session.questions.own_open_count) == SUSPENDED:
        session.step_turn(turn, EndReported(said))
        session.note("end_while_asking", "the agent reported its end while a question of its own is open")
        return
    close(session, ending, said.surface, is_at_rest=True)


def is_shown_to_have_begun(session: Session, turn: OpenTurn) -> bool:
    """Whether anything but the end itself shows that the agent took up the prompt. An agent that tells its own turns
    proves it by its end; where the end is our own conclusion from a screen at rest, that screen proves nothing."""
    is_own_word = session.life.capabilities.owns_text or session.book.prompt_id is None
    return is_own_word or turn.way.has_started or _has_arrived(session)


def _end_unproven(session: Session, turn: OpenTurn) -> None:
    message = "the agent is at rest, and nothing shows that it took the prompt"
    message = f"{message}: {turn.delivery_problem}" if turn.delivery_problem else message
    session.problem = message
    close(session, ending_by_failure(session.run_id, turn.answer.text, "delivery_unknown", message), is_at_rest=True)


def sync_questions(session: Session) -> None:
    """While a decision is open the run waits; once none is, it goes on, or ends as the agent reported meanwhile."""
    turn, facts = session.turn, session.book.turn
    if turn is None or facts is None:
        return
    if turn.way.stage is TurnStage.HELD and turn.way.report is not None and not session.questions.own_open_count:
        if session.questions.is_answer_pending:
            session.step_turn(turn, AnswerGiven())
            if session.life.stage in (AgentStage.READY, AgentStage.SILENT):
                session.step_life(TurnBegan(is_prompted=False))
        else:
            end_by_agent(session, turn, turn.way.report)
            return
    if facts.run_id is None:
        return
    open_count = session.questions.open_count
    given = run_input(OPEN_RUN[facts.state], None, open_count, cancel_requested=facts.cancel_requested)
    if given is not None:
        session.step_run(given)


# Cancelling


def cancel(session: Session, turn_id: TurnId | None, *, is_forced: bool = False) -> None:
    """Ask for the open turn to end; forced: by the end of its process, if asking does not help."""
    facts, turn = session.book.turn, session.turn
    if facts is None or turn is None or (turn_id is not None and turn_id != facts.turn_id):
        raise UsageError("that turn is not open", remedy="look at the session's turns")
    if facts.cancel_requested:
        if is_forced:
            session.step_life(InterruptRequested(is_forced=True))
        return
    if turn.way.stage in (TurnStage.RETRYING, TurnStage.KEPT_OUT):  # the agent has no prompt, and shall not get it
        _end_unsent(session, ending_by_cancel(session.run_id))
        return
    session.tell_cancel(cancel_requested=True)
    if turn.way.stage is TurnStage.HELD:  # the agent is done; only its question keeps the turn open
        close(session, ending_by_cancel(session.run_id, turn.answer.text), is_at_rest=True)
        return
    session.step_turn(turn, CancelRequested())
    session.step_life(InterruptRequested(is_forced=is_forced))


def on_interrupted(session: Session, problem: str) -> None:
    """How asking the agent went. A cancel that had no effect in all its attempts is taken back, and told."""
    session.step_life(InterruptAnswered(problem))
    if not problem:
        return
    session.note("interrupt_not_delivered", problem)
    life, turn = session.life, session.turn
    is_in_vain = life.interrupts >= _INTERRUPT_ATTEMPTS and not life.was_interrupted
    if turn is None or turn.way.stage is not TurnStage.STOPPING or not is_in_vain or not life.is_running:
        return
    if life.stage is not AgentStage.STOPPING and not life.is_forced:
        take_back_cancel(session, turn)


def take_back_cancel(session: Session, turn: OpenTurn) -> None:
    """The turn goes on, though its end was asked for. A person decides whether its process is to be ended for it."""
    problem = session.life.interrupt_problem or "the agent was asked, and did not end it"
    session.tell_cancel(cancel_requested=False)
    session.step_turn(turn, CancelUndelivered())
    session.step_life(InterruptWithdrawn())
    session.problem = f"the interrupt did not end the turn: {problem}"
    session.note("interrupt_without_effect", f"{session.problem}; the turn goes on")


# Closing


def close(session: Session, ending: Ending, surface: SurfaceEvent | None = None, *, is_at_rest: bool = False) -> None:
    """Write the closing batch. An agent that is not at rest is asked to end its turn, and not ready until then.

    `surface`: what its terminal showed, where the end was seen there; it is written with the batch.
    """
    turn, facts = session.turn, session.book.turn
    if facts is None or turn is None:
        session.turn = None
        return
    record_receipt(session, DeliveryStage.UNKNOWN)  # unless more is known
    session.step_turn(turn, TurnWayClosed())
    session.turn = None
    session.questions.end(is_clean=ending.reason == NATURAL_END)
    _cancel_open_calls(session, ending)
    facts = session.book.turn or facts
    if facts.turn_id == session.killed_turn and ending.reason == CANCELLED:
        ending = replace(ending, error_kind="killed", error_message=session.killed_why)
    answer = turn.answer
    ending = replace(ending, model=ending.model or answer.model, stream_id=answer.stream_id)
    told = [one for one in (surface, _reply(session, ending)) if one is not None]
    session.append(*told, *closing_batch(facts, ending))
    session.step_life(TurnClosed(is_at_rest or session.life.is_seen_at_rest))


def _reply(session: Session, ending: Ending) -> TurnReply | None:
    """Whether a clean end has the reply that its prompt asked for; None where it asked for none."""
    prompt_id = session.book.prompt_id
    prompt = None if prompt_id is None else session.book.queue.prompts.get(prompt_id)
    if prompt is None or prompt.reply is None or ending.reason != NATURAL_END:
        return None
    contract = contract_of(prompt.reply)
    if ending.source is MessageSource.NONE:
        return TurnReply(kind=contract.kind, is_met=False, problem="no channel gives the words of the answer")
    try:
        found = contract.read(ending.text)
    except NoReply as wrong:
        return TurnReply(kind=contract.kind, is_met=False, problem=str(wrong))
    return TurnReply(kind=contract.kind, is_met=True, text=found.text[:MAX_REPLY_CHARACTERS])


def _cancel_open_calls(session: Session, ending: Ending) -> None:
    kind = EndKind.RUN_TIMED_OUT if ending.reason.stop_code == StopCode.TIMEOUT else None
    if ending.reason == CANCELLED:
        kind = EndKind.RUN_CANCELLED
    if kind is not None and session.book.calls is not None:
        _, outputs = approvals.cancel_open(session.book.calls, kind, "The turn was over before the tool gave a result")
        for output in outputs:
            if isinstance(output, Persist):
                session.append(output.record)


# Deadlines


def watch(session: Session, turn: OpenTurn) -> None:
    """Do what the first due deadline of the turn asks for."""
    now = session.now.seconds
    silent_since = session.last_sign(turn)
    for output in session.step_turn(turn, TurnDeadlinePassed(session.stall_at(turn))):
        if output is TurnOutput.SILENCE_OVER and turn.way.report is not None:
            end_by_agent(session, turn, turn.way.report)
        elif output is TurnOutput.BUDGET_SPENT:
            _end_by_budget(session, turn)
        elif output is TurnOutput.NEVER_BEGAN:
            kind = "never_began" if _has_arrived(session) else "delivery_unknown"
            message = "the prompt was given to the agent, and nothing shows that it began"
            session.problem = message
            close(session, ending_by_failure(session.run_id, turn.answer.text, kind, message))
        elif output is TurnOutput.SUBMIT:
            _submit(session)
        elif output is TurnOutput.STALLED:
            _on_stalled(session, turn, now - silent_since)
            if session.policy.stalled_is_terminal:
                fail_stalled(session)


def _on_stalled(session: Session, turn: OpenTurn, silent_seconds: float) -> None:
    turn.stalled_seconds = session.now.seconds
    shown, proof = session.life.standing, stall_evidence(session, turn)
    details: Json = {"elapsed_seconds": round(silent_seconds, 3), "last_progress": proof.where}
    session.note("stalled_entered", f"no progress for {silent_seconds:.0f} seconds", details)
    if shown is not None:
        session.append(SurfaceEvent(activity=Activity.STALLED, attention=shown.attention, evidence=(proof,)))


def on_progress(session: Session, turn: OpenTurn, what: seen.Observation) -> None:
    """The agent gets on with its turn: a stall is over."""
    shown = session.life.standing
    if shown is not None:
        turn.progress_seconds = session.now.seconds
        turn.progress = what if isinstance(what, seen.Progressed) else None
    has_recovered = TurnOutput.RECOVERED in session.step_turn(turn, _SIGN)
    if not has_recovered or turn.stalled_seconds is None or isinstance(what, seen.TurnEnded | seen.ChannelLost):
        return  # what ended, or cannot be seen any more, was not seen to recover
    lasted = session.now.seconds - turn.stalled_seconds
    session.note("stalled_recovered", "the agent gets on again", {"elapsed_stalled_seconds": round(lasted, 3)})
    if shown is not None:
        session.append(SurfaceEvent(activity=shown.activity, attention=shown.attention, evidence=shown.evidence))


def _end_by_budget(session: Session, turn: OpenTurn) -> None:
    elapsed = session.now.seconds - turn.way.began_seconds
    budget = session.book.budget_seconds or session.policy.turn_budget_seconds
    ending = ending_by_clock(session.run_id, turn.answer.text, budget_seconds=budget, elapsed_seconds=elapsed)
    close(session, ending)


def fail_stalled(session: Session) -> None:
    text = "" if session.turn is None else session.turn.answer.text
    close(session, ending_by_failure(session.run_id, text, "stalled", "the agent gave no sign for too long"))
