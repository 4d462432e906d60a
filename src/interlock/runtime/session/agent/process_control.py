"""The agent's process: asked for, taken up again, stopped, and what follows from its end."""

from __future__ import annotations

from interlock.agents import observations as seen
from interlock.agents.pool.pool import ASKED_FOR, exit_reason
from interlock.agents.port import StopReport
from interlock.lifecycle.process import ProcessState
from interlock.runtime.session import turn_control
from interlock.runtime.session.agent.life import (
    AgentExited,
    AgentStage,
    CountdownRestarted,
    LifeOutput,
    RestartPlanned,
    SpawnFailed,
    SpawnRequested,
    Started,
    StopRequested,
)
from interlock.runtime.session.effects import AskAttended, SpawnAgent
from interlock.runtime.session.endings import ending_by_cancel, ending_by_death
from interlock.runtime.session.inputs import AgentNotStarted, AgentStarted
from interlock.runtime.session.state import Session
from interlock.runtime.session.status import idle_deadline
from interlock.runtime.session.turn_way import AgentStopped
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import AgentSession, ProcessEvent, ProcessEventKind, QueueGate
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import ExitReason


def spawn(session: Session) -> None:
    """Ask for a process, unless there is one or may be one any moment."""
    if session.life.stage not in (AgentStage.ABSENT, AgentStage.BACKING_OFF) or session.is_closing:
        return
    spawn_id = SpawnId(session.new_id("spn"))
    session.step_life(SpawnRequested(spawn_id))
    # So that what is started can be found, should we die before we can say that it was.
    session.append(ProcessEvent(kind=ProcessEventKind.SPAWN_REQUESTED, owner=session.home_id), spawn_id=spawn_id)
    native = session.book.native
    session.do(SpawnAgent(spawn_id=spawn_id, resume="" if native is None else native.native_session_id))


def on_started(session: Session, started: AgentStarted) -> None:
    before = session.life
    session.step_life(Started(started.spawn_id, started.capabilities, started.is_adopted))
    if session.life is before:
        session.note("unexpected_start", f"no call waited for spawn {started.spawn_id}")
        return
    session.process = ProcessState(last_active=session.now.seconds)
    identity = started.process
    session.append(
        ProcessEvent(
            kind=ProcessEventKind.ADOPTED if started.is_adopted else ProcessEventKind.SPAWNED,
            pid=None if identity is None else identity.pid,
            start_time="" if identity is None else identity.start_time,
            argv=started.argv,
            where=started.where,
            owner=session.home_id,
        )
    )
    if session.book.turn is not None and session.turn is None:
        turn_control.take_up(session)
    if before.stage is AgentStage.ABORTING and before.stop_reason is not None:
        stop(session, before.stop_reason)


def on_not_started(session: Session, failed: AgentNotStarted) -> None:
    before = session.life
    session.step_life(SpawnFailed(failed.spawn_id))
    session.append(ProcessEvent(kind=ProcessEventKind.SPAWN_FAILED, message=failed.message), spawn_id=failed.spawn_id)
    if before.stage is AgentStage.ABORTING or session.life is before:
        return
    if failed.is_hopeless:
        turn_control.give_up(session, failed.message)
        return
    if failed.is_stale_resume:
        _forget_resume(session, failed.message)
    _plan_restart(session, ExitReason.CRASHED, is_stale_resume=failed.is_stale_resume)


def on_exited(session: Session, exited: seen.Exited) -> None:
    life, turn = session.life, session.turn
    reason = exit_reason(exited, stop_requested=life.stop_reason)
    session.append(
        ProcessEvent(
            kind=ProcessEventKind.EXITED,
            exit_reason=reason,
            exit_code=exited.code,
            signal=exited.signal,
            stderr_tail=exited.stderr_tail,
            duration_seconds=max(0.0, session.now.seconds - life.started_seconds),
        )
    )
    if turn is not None and turn.way.report is not None and turn.way.silent_by_seconds is not None and exited.code == 0:
        turn_control.end_by_agent(session, turn, turn.way.report)
    elif turn is not None:
        is_asked, text = session.is_cancel_requested, turn.answer.text
        ending = ending_by_death(exited, reason, session.run_id, text, cancel_asked=is_asked)
        turn_control.close(session, ending, is_at_rest=True)
    session.questions.end(is_agent_gone=True)
    session.step_life(AgentExited())
    if exited.is_stale_resume:
        _forget_resume(session, "")
    if life.capabilities.is_foreign:
        _hold_queue(session, "the adopted agent has ended, and prompts are waiting")
    elif not life.is_used_up:  # else the next prompt starts the next one
        _plan_restart(session, reason, is_stale_resume=exited.is_stale_resume)


def on_stopped(session: Session, spawn_id: SpawnId, report: StopReport) -> None:
    """Write down what a stop ended beside the agent itself."""
    if report.ended or report.survivors:
        left = f"{len(report.survivors)} processes could not be ended" if report.survivors else ""
        census = ProcessEvent(kind=ProcessEventKind.CENSUS, ended=report.ended, message=left)
        session.append(census, spawn_id=spawn_id)


def _forget_resume(session: Session, why: str) -> None:
    session.append(AgentSession(native_session_id="", reason=why or "the agent knows no such session any more"))


def _plan_restart(session: Session, reason: ExitReason, *, is_stale_resume: bool = False) -> None:
    now = session.now.seconds
    decision = session.restarts.after(reason, now, is_stale_resume=is_stale_resume)
    if decision.restart_at is not None:
        session.step_life(RestartPlanned(decision.restart_at))
        session.append(
            ProcessEvent(
                kind=ProcessEventKind.RESTART_DUE,
                attempt=decision.attempt,
                delay_seconds=max(0.0, decision.restart_at - now),
                message=decision.message,
            )
        )
    elif decision.is_exhausted:
        session.append(ProcessEvent(kind=ProcessEventKind.RESTARTS_EXHAUSTED, message=decision.message))
        turn_control.give_up(session, decision.message)


def stop_for_operator(session: Session, reason: ExitReason, *, is_closing: bool) -> None:
    """What an operator stopped is not started again by what is queued; what is let go goes on with its queue."""
    if reason not in ASKED_FOR:
        raise UsageError(f"an agent is not stopped as {reason.value}", remedy="leave the reason out")
    session.is_closing |= is_closing
    stop(session, reason)
    if reason is ExitReason.STOPPED and not session.is_closing:
        _hold_queue(session, "the agent was stopped, and prompts are waiting")


def _hold_queue(session: Session, why: str) -> None:
    queue = session.book.queue
    if queue.is_open and queue.head is not None:
        session.append(QueueGate(is_open=False, reason=why))


def stop(session: Session, reason: ExitReason, why: str = "") -> None:
    """Stop the process, for one reason; again, if it was asked for before. `why`: where nobody asked for just that."""
    life = session.life
    if life.is_running and life.stage is not AgentStage.STOPPING:
        session.append(ProcessEvent(kind=ProcessEventKind.STOP_REQUESTED, message=why or reason.value))
    if session.turn is not None and life.is_running:
        session.step_turn(session.turn, AgentStopped(is_asked=session.questions.open_count > 0))
    session.step_life(StopRequested(reason))


def on_life_outputs(session: Session, outputs: tuple[LifeOutput, ...]) -> None:
    """What follows from a deadline of the agent's life, apart from the calls to the agent."""
    for output in outputs:
        if output is LifeOutput.LADDER_ENDED:
            _end_ladder(session)
        elif output is LifeOutput.RESTART_DUE:
            spawn(session)
        elif output is LifeOutput.CHILDREN_FORGOTTEN:
            message = "background work was not seen to end; the queue goes on without it"
            session.note("children_never_ended", message)


def _end_ladder(session: Session) -> None:
    """Asking was in vain. A kill that follows from a softer request is told as one, and never follows from a person's
    request that was not forced. An agent that cannot be asked has a process of its own for each turn: it is ended."""
    life, turn = session.life, session.turn
    if turn is not None and life.is_seen_at_rest:
        # It does rest, and only never said so: nothing is left to end but the turn.
        turn_control.close(session, ending_by_cancel(session.run_id, turn.answer.text), is_at_rest=True)
    elif turn is not None and session.is_cancel_requested and not life.is_forced and life.capabilities.can_interrupt:
        turn_control.take_back_cancel(session, turn)
    else:
        _kill(session)


def _kill(session: Session) -> None:
    life, turn = session.life, session.turn
    if life.is_used_up or not life.capabilities.can_interrupt:
        stop(session, ExitReason.STOPPED)  # nothing else ends its turn, and it takes no other prompt
        return
    whose = "the interrupt did not end the turn" if turn is not None else "its turn was over, and it did not stop"
    waited = f" within {session.policy.interrupt_seconds:g} s"
    tried = f": {life.interrupt_problem}" if life.interrupt_problem else waited
    why = f"the agent's process was killed, because {whose}{tried}"
    session.killed_turn = session.book.turn_id if turn is not None else None
    session.killed_why = why
    session.note("killed_after_interrupt", why, {"is_forced": life.is_forced, "interrupts": life.interrupts})
    stop(session, ExitReason.STOPPED, why)


def watch_idle(session: Session) -> None:
    """A person may be at its terminal. The countdown begins anew: if no answer comes, it is asked again."""
    deadline = idle_deadline(session)
    if deadline is not None and deadline <= session.now.seconds:
        session.step_life(CountdownRestarted())
        session.do(AskAttended())


def on_attended(session: Session, spawn_id: SpawnId, *, is_attended: bool) -> None:
    has_ttl = idle_deadline(session) is not None  # else it has work by now
    if session.agent_spawn_id == spawn_id and has_ttl and not is_attended:
        stop(session, ExitReason.IDLE_TTL)
