"""Recovery: what a runtime does at its start about sessions that another one left.

Laws:
1. Nothing is assumed: a process lives only if that very process (number and start time) is found.
2. An agent that outlived its runtime is adopted, with its turn still open. Any other is ended, with all it started,
   unless somebody else had started it.
   Where nobody can tell whether one lives, nothing is done about it, and whoever asked is told.
3. What is provably over gets its end: an open turn its closing batch, with the text of the last checkpoint; an open
   call its result; an open dialog its close. A turn of which events are lost gets none: its end may be among them, and
   what was written over it would pass for knowledge. It is `unknown` for ever; one anomaly says that nobody runs it,
   and the session goes on with the next prompt. If its agent lives it is adopted, and writes what it does.
4. A prompt that was on its way when the runtime died is not sent again: nobody knows whether it arrived, and the record
   says so.
5. What was accepted and not dispatched is still in the queue, and goes on; but a prompt that held a secret, which the
   log does not keep, holds the queue until somebody gives its text again.
6. An agent whose end is known may have left processes: unless the log says that they were looked for, they are.
7. An agent of another home (this one is a copy) is neither adopted nor ended, nor is what it started. While it may live
   its session is not run here. What waited in the queue when the copy was made is held: the original may send it.
8. What waits in the queue of a child is held until its parent takes the child up again (`lineage.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeGuard

from msgspec import ValidationError, convert, structs

from interlock.agents.port import Adopter, AgentHandle, AgentSpec, Driver, ProcessIdentity, StopReport
from interlock.agents.processes.identity import is_alive
from interlock.agents.processes.stopping import stop_tree
from interlock.agents.terminal.launch import is_foreign
from interlock.lifecycle.children.open_work import OpenWork
from interlock.lifecycle.closing import abandoned_ending, closing_batch
from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import LOG_DAMAGED, record_of
from interlock.log.home_identity import HomeStanding, NotOurs
from interlock.log.port import Log, Slice
from interlock.runtime.lineage import unowned_gate
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session.agent.calls import Services
from interlock.runtime.session.supervisor import Supervisor
from interlock.runtime.session_fold import LivingSpawn, SessionFold
from interlock.vocabulary.actions import NextAction, NextActionKind
from interlock.vocabulary.errors import PeerFault, Unreachable
from interlock.vocabulary.events.audit import (
    Anomaly,
    DeliveryReceipt,
    DeliveryStage,
    DialogClosed,
    DialogOutcome,
    ProcessEvent,
    ProcessEventKind,
    QueueGate,
    SessionOpened,
)
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, RunId, SessionId, SpawnId, TurnId
from interlock.vocabulary.states import ExitReason, TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What was done about one session."""

    session_id: SessionId
    stopped: StopReport
    adopted: SpawnId | None = None
    ended_spawn: SpawnId | None = None
    settled_turn: TurnId | None = None
    settled_as: TurnState | None = None
    is_delivery_unknown: bool = False
    queued_prompts: int = 0
    problem: str = ""


class _Specs(Protocol):
    def __call__(self, session_id: SessionId, opened: SessionOpened, /) -> AgentSpec | None: ...


async def recover(
    session_id: SessionId,
    log: Log,
    drivers: Mapping[str, Driver],
    specs: _Specs,
    policy: RunPolicy,
    services: Services,
) -> tuple[Recovered | None, Supervisor | None]:
    """Bring one session to a state that is true, and supervise it if it can be run. None: there was nothing to do."""
    found = await log.read(session_id)
    book = _book_of(session_id, found)
    if book.opened is None:
        return None, None
    spec = specs(session_id, book.opened)
    driver = None if spec is None else drivers.get(spec.driver)
    problem = "" if driver is not None else f"there is no driver {book.opened.driver!r} to run it with"
    handle, why = await _adopt(book, spec, driver, services.home)
    report = StopReport()
    ended = settled = settled_as = None
    is_unknown = False
    if handle is None:
        spawn, turn = book.spawn, book.turn
        ended = None if spawn is None else spawn.spawn_id
        report = await _stop_left(book, found.events, log, services)
        if spawn is not None or turn is not None or book.dialogs.open:
            is_unknown = await _settle(book, log, services, why, report)
        if turn is not None:
            problem, settled, settled_as = _result(book, turn, problem)
    if (held := _hold(book, services.home)) is not None and not book.is_deleted:
        await _append(book, log, services, [held])
    supervisor = None
    if spec is not None and driver is not None and not book.is_deleted:
        supervisor = Supervisor(book, spec, driver, policy_from_log(book.opened) or policy, services)
        if handle is not None:
            supervisor.hold(handle)
    queued = len(book.queue.waiting)
    recovered = Recovered(
        session_id=session_id,
        adopted=None if handle is None else handle.spawn_id,
        ended_spawn=ended,
        stopped=report,
        settled_turn=settled,
        settled_as=settled_as,
        is_delivery_unknown=is_unknown,
        queued_prompts=queued,
        problem=problem,
    )
    is_news = handle is not None or ended is not None or settled is not None or queued or problem
    is_news = is_news or bool(OpenWork.of(event.data for event in found.events))
    return recovered if is_news else None, supervisor


async def _stop_left(book: SessionFold, events: Sequence[Event], log: Log, services: Services) -> StopReport:
    """End what is left of the newest spawn, if it is ours."""
    spawn, home = book.spawn, services.home
    if spawn is not None and is_foreign(spawn.event.where):
        return StopReport()  # somebody else started it: nothing of it is ours to end
    if spawn is not None:
        return await stop_tree(_identity(spawn), spawn.spawn_id) if home.owns(spawn.event.owner) else StopReport()
    if (unswept := _unswept(events, home)) is None:
        return StopReport()
    report = await stop_tree(None, unswept)
    await _append(book, log, services, [_census(report)], unswept)
    return report


def policy_from_log(opened: SessionOpened) -> RunPolicy | None:
    """The limits that a session was opened with; None where it has none of its own, or they cannot be read."""
    try:
        return None if opened.policy is None else convert(opened.policy, RunPolicy)
    except ValidationError:
        return None


def _hold(book: SessionFold, home: HomeStanding) -> QueueGate | None:
    """Close the gate for a prompt that must not go by itself."""
    if home.is_fresh_copy and book.queue.is_open and book.queue.waiting:
        return QueueGate(is_open=False, reason=f"this home is a copy of {home.copied_from}, which may send them")
    unowned = unowned_gate(book.opened)
    if unowned is not None and book.queue.is_open and book.queue.waiting:
        return unowned
    return book.queue.hold_redacted()


def _unswept(events: Sequence[Event], home: HomeStanding) -> SpawnId | None:
    """The newest spawn, if its end is in the log and nothing tells that a census followed. An older one had its census:
    the next agent is not started before. The end that a recovery writes comes after its census, and says why."""
    for event in reversed(events):
        match event.data:
            case ProcessEvent(kind=ProcessEventKind.EXITED, message=""):
                return event.spawn_id if home.owns(_owner(events, event.spawn_id)) else None
            case ProcessEvent(kind=ProcessEventKind.EXITED | ProcessEventKind.CENSUS):
                return None
            case _:
                pass
    return None


def _owner(events: Sequence[Event], spawn_id: SpawnId | None) -> str:
    of_spawn = (one.data for one in reversed(events) if one.spawn_id == spawn_id and isinstance(one.data, ProcessEvent))
    return next((one.owner for one in of_spawn if one.owner), "")


def _result(book: SessionFold, turn: TurnFacts, problem: str) -> tuple[str, TurnId | None, TurnState | None]:
    """The problem to report, and the turn that was closed with its state. One of which events are lost is left open."""
    if turn.state is TurnState.UNKNOWN:
        book.give_up_turn()
        return "; ".join(one for one in (problem, record_of(turn).error_message) if one), None, None
    return problem, turn.turn_id, book.turns.turns[(book.session_id, turn.turn_id)].state


def _book_of(session_id: SessionId, found: Slice) -> SessionFold:
    """What the log says. A turn of which events are lost is not open again once a recovery said that nobody runs it."""
    book = SessionFold.of(session_id, found.events, found.damage)
    book.version = found.version
    noted = (one for one in found.events if isinstance(one.data, Anomaly) and one.data.kind == LOG_DAMAGED)
    if book.turn is not None and any(one.turn_id == book.turn.turn_id for one in noted):
        book.give_up_turn()
    return book


def _census(report: StopReport) -> ProcessEvent:
    """What a census found, also if that is nothing."""
    left = f"{len(report.survivors)} processes could not be ended" if report.survivors else ""
    return ProcessEvent(kind=ProcessEventKind.CENSUS, ended=report.ended, message=left)


async def _adopt(
    book: SessionFold, spec: AgentSpec | None, driver: Driver | None, home: HomeStanding
) -> tuple[AgentHandle | None, str]:
    """The living agent of a session; else why there is none. `Unreachable` where nobody can tell: such an agent is
    left alone, and so is its turn."""
    spawn = book.spawn
    if spawn is None:
        return None, "the runtime ended, and no agent was running"
    if not home.owns(spawn.event.owner):
        if (identity := _identity(spawn)) is None or is_alive(identity):
            raise NotOurs(home.refusal)
        return None, f"{home.refusal}, and it has ended"
    if spawn.event.where is None:
        return None, "the runtime ended, and this kind of agent ends with it"
    if spec is None or driver is None or not can_adopt(driver):
        identity = _identity(spawn)
        if identity is None or is_alive(identity):
            raise Unreachable(f"agent {spawn.event.pid or ''} may live, and nothing here can take it up")
        return None, "the agent ended while no runtime watched"
    try:
        handle = await driver.adopt(spec, spawn.spawn_id, spawn.event.where)
    except PeerFault as error:
        return None, f"the agent was not found again: {error}"
    except OSError as error:
        raise Unreachable(f"whether the agent lives cannot be told: {error}") from error
    prompt = book.queue.prompts.get(book.prompt_id) if book.turn is not None and book.prompt_id is not None else None
    if prompt is not None and not prompt.is_redacted and _can_expect(handle):
        handle.expect(prompt.text)
    return handle, ""


class _Expecting(Protocol):
    """An agent that can tell what became of a prompt which somebody else gave it."""

    def expect(self, prompt: str) -> None: ...


def _can_expect(handle: object) -> TypeGuard[_Expecting]:
    return hasattr(handle, "expect")


def can_adopt(driver: object) -> TypeGuard[Adopter]:
    return hasattr(driver, "adopt")


def _identity(spawn: LivingSpawn) -> ProcessIdentity | None:
    pid, started = spawn.event.pid, spawn.event.start_time
    return ProcessIdentity(pid, started) if pid is not None and started else None


async def _settle(book: SessionFold, log: Log, services: Services, why: str, report: StopReport) -> bool:
    """Write the ends that are missing, in one append. Whether a prompt's delivery is unknown."""
    now = services.clock().at
    is_unknown = book.turn is not None and _is_delivery_unknown(book)
    await _append(book, log, services, missing_ends(book, why, RunId(services.new_id("run")), now, report))
    return is_unknown


def missing_ends(
    book: SessionFold, why: str, run_id: RunId, now: datetime, report: StopReport | None = None
) -> list[Payload]:
    """The events that say how everything ended that a dead runtime left open."""
    spawn, turn = book.spawn, book.turn
    is_lost = turn is not None and turn.state is TurnState.UNKNOWN
    is_unproven = turn is not None and _is_delivery_unknown(book)
    closed_by = DialogOutcome.WITHDRAWN if is_lost else DialogOutcome.TURN_ENDED
    ends: list[Payload] = [DialogClosed(dialog_id=dialog_id, outcome=closed_by) for dialog_id in book.dialogs.open]
    if book.prompt_id is not None and is_unproven:
        ends.append(DeliveryReceipt(prompt_id=book.prompt_id, stage=DeliveryStage.UNKNOWN))
    if turn is not None and is_lost:
        message = f"{why}; {record_of(turn).error_message}"
        ends.append(Anomaly(kind=LOG_DAMAGED, source="recovery", message=message))
    elif turn is not None:
        ending = abandoned_ending(turn, turn.run_id or run_id, why)
        if is_unproven:
            message = f"{why}; it is unknown whether the prompt reached the agent"
            advice = (NextAction(NextActionKind.ASK_OPERATOR), NextAction(NextActionKind.SEND_AGAIN))
            ending = replace(ending, error_kind="delivery_unknown", error_message=message, next_actions=advice)
        ends += closing_batch(turn, ending)
    if spawn is not None:
        ends.append(
            ProcessEvent(
                kind=ProcessEventKind.EXITED,
                exit_reason=ExitReason.UNCLEAN,
                message=why,
                duration_seconds=max(0.0, (now - spawn.began_at).total_seconds()),
                ended=() if report is None else report.ended,
            )
        )
    return ends


def _is_delivery_unknown(book: SessionFold) -> bool:
    prompt = None if book.prompt_id is None else book.queue.prompts.get(book.prompt_id)
    unproven = (DeliveryStage.QUEUED, DeliveryStage.TYPED, DeliveryStage.UNKNOWN)
    return prompt is not None and prompt.stage in unproven


async def _append(
    book: SessionFold, log: Log, services: Services, payloads: list[Payload], spawn_id: SpawnId | None = None
) -> None:
    turn, spawn = book.turn, book.spawn
    now = services.clock().at
    events = [
        new_event(
            data,
            id=EventId(services.new_id("evt")),
            session_id=book.session_id,
            ts=now,
            turn_id=None if turn is None else turn.turn_id,
            spawn_id=spawn_id if spawn is None else spawn.spawn_id,
        )
        for data in payloads
    ]
    version = await log.append(book.session_id, events, expected_version=book.version)
    for seq, event in enumerate(events, version - len(events) + 1):
        kept = structs.replace(event, seq=seq)
        book.add(kept)
        services.publish(kept)
