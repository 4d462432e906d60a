"""What is claimed of a session's agent now, with the rule that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.agents.pool.pool import IdleFacts, idle_deadline_seconds
from interlock.runtime.session.agent.life import AgentStage
from interlock.runtime.session.state import MAY_STALL, OpenTurn, Session
from interlock.runtime.session.turn_way import TurnProgress
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.evidence import NO_PROGRESS, Evidence, EvidenceSource
from interlock.vocabulary.states import Activity, AgentState, Attention, Lifecycle

_PROGRESS: Final[Mapping[str, str]] = {
    "turn.submitted": "the prompt",
    "turn.inferred": "the beginning of its work",
    "screen.new_text": "new text on its screen",
    "screen.new_tokens": "more tokens on its screen",
    "transcript.grew": "a new line of its transcript",
}
_AT_REST: Final[Mapping[AgentStage, tuple[Activity, str]]] = {
    AgentStage.READY: (Activity.QUIET, "stream.ready"),
    AgentStage.STOPPING: (Activity.QUIET, "stream.stopping"),
    AgentStage.SPENT: (Activity.QUIET, "stream.spent"),
    AgentStage.SILENT: (Activity.UNKNOWN, "stream.fell_silent"),
}


def status_of(session: Session) -> Status:
    """What a person should see now, with the end of the countdown."""
    life, process, (activity, rule) = session.life, session.process, _activity(session)
    attention, evidence = _attention(session, rule)
    if not life.is_running:
        lifecycle = Lifecycle.KILLED if life.spawn_id is None else Lifecycle.SPAWNING
        return Status(
            activity=activity, attention=attention, evidence=evidence, substate=AgentState.IDLE, lifecycle=lifecycle
        )
    deadline = idle_deadline(session)
    idle_at = None if deadline is None else session.moment(deadline)
    if life.is_lost:
        return Status(activity=activity, attention=attention, evidence=evidence, idle_at=idle_at)
    tool = process.running_tool
    return Status(
        activity=activity,
        attention=attention,
        evidence=evidence,
        idle_at=idle_at,
        substate=process.substate,
        tool="" if tool is None else tool.name,
        tool_since=None if tool is None else session.moment(tool.since),
        lifecycle=process.lifecycle,
    )


def _attention(session: Session, rule: str) -> tuple[Attention, tuple[Evidence, ...]]:
    """What a person is needed for, and what the claim rests on."""
    life, attention = session.life, session.questions.attention
    shown = life.standing if life.is_running else None
    if attention is Attention.NONE and shown is not None:
        attention = shown.attention
    problem = session.problem or session.questions.problem
    if attention is Attention.NONE and problem:
        return Attention.ERROR, (Evidence(source=EvidenceSource.LOG, rule="problem", where=problem),)
    if life.is_running and not life.is_lost:
        if shown is None:
            return attention, (Evidence(source=EvidenceSource.NATIVE_STATUS, rule=rule),)
        if session.turn is not None and rule == NO_PROGRESS:
            return attention, (stall_evidence(session, session.turn), *shown.evidence)
        if shown.evidence:
            return attention, shown.evidence
    return attention, (Evidence(source=EvidenceSource.LOG, rule=rule),)


def stall_evidence(session: Session, turn: OpenTurn) -> Evidence:
    """What was last seen of a turn that does not get on, and when."""
    seen, at = turn.progress, session.moment(session.last_sign(turn))
    source = EvidenceSource.LOG if seen is None else seen.source
    what = "the turn" if seen is None else _PROGRESS.get(seen.rule, seen.rule)
    return Evidence(source=source, rule=NO_PROGRESS, at=at, where=f"last progress at {at:%H:%M:%S %Z}: {what}")


def idle_deadline(session: Session) -> float | None:
    """When an agent that is not used is stopped: the countdown that is shown, and the one that kills."""
    life, queue = session.life, session.book.queue
    if session.turn is not None or not life.is_running or life.stage is AgentStage.STOPPING:
        return None
    if life.capabilities.is_foreign:  # nobody but a person ends it
        return None
    has_prompt = queue.is_open and queue.head is not None
    facts = IdleFacts(
        has_open_work=life.stage is AgentStage.WINDING_DOWN or bool(life.children) or has_prompt,
        free_since_seconds=life.free_since_seconds,
        is_adopted=life.is_adopted,
    )
    return idle_deadline_seconds(session.process, session.policy.idle_ttl_seconds, facts)


def _activity(session: Session) -> tuple[Activity, str]:
    life, turn = session.life, session.turn
    if not life.is_running:
        is_coming = life.stage in (AgentStage.SPAWNING, AgentStage.ABORTING)
        return (Activity.STARTING, "spawn.asked") if is_coming else (Activity.GONE, "no_process")
    if life.is_lost:
        return Activity.UNKNOWN, "channel_lost"
    is_stalled = turn is not None and turn.way.progress is TurnProgress.STALLED
    if life.standing is not None:
        if is_stalled and life.standing.activity in MAY_STALL:
            return Activity.STALLED, NO_PROGRESS
        is_settling = life.standing.activity is Activity.QUIET and turn is None and bool(life.children)
        return (Activity.SETTLING, "stream.children_open") if is_settling else (life.standing.activity, "terminal")
    if turn is not None:
        return (Activity.STALLED, "stream.silent") if is_stalled else (Activity.WORKING, "stream.turn_open")
    if life.stage is AgentStage.WINDING_DOWN:
        return Activity.WORKING, "stream.winding_down"
    if life.children:
        return Activity.SETTLING, "stream.children_open"
    return _AT_REST.get(life.stage, (Activity.STARTING, "stream.not_ready"))
