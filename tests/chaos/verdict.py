"""The verdict on a world in which everything has come to rest: from the log, the agents' own ledger, and /proc.

Each law gives a list of sentences, one for each time that it was broken.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from interlock.lifecycle.turns import TurnRecord, turn_states
from interlock.log.port import Slice
from interlock.log.sqlite.store import SqliteLog
from interlock.log.verify import verify
from interlock.projections.checks.case import CheckStatus
from interlock.projections.checks.diagnose import diagnose
from interlock.vocabulary.events.audit import (
    DeliveryReceipt,
    DeliveryStage,
    ProcessEvent,
    ProcessEventKind,
    QueueEvent,
    RunState,
    TurnFailed,
)
from interlock.vocabulary.events.conversation import AssistantMessage, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.approval import ApprovalState
from tests.chaos.host import STREAM
from tests.chaos.living import wait_until
from tests.chaos.world import Sent, World
from tests.projections.whole_logs import approvals

TERMINAL_STATES: Final = frozenset(
    {TurnState.COMPLETED, TurnState.PARTIAL_FAILED, TurnState.FAILED, TurnState.INTERRUPTED, TurnState.TIMED_OUT}
)
_PROVEN: Final = (DeliveryStage.ACCEPTED, DeliveryStage.STARTED)
_ENDED_WITHIN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """What the log says of one prompt."""

    queued: int
    dispatched: int
    removed: int
    turns: tuple[TurnRecord, ...]
    stage: DeliveryStage | None
    answers: tuple[str, ...]


def judge(world: World) -> list[str]:
    """Everything that is wrong; nothing, if every law held."""
    found, unsound = asyncio.run(_read(world))
    received = Counter(world.received())
    problems = list(unsound)
    for session_id, read in found.items():
        problems += [f"{session_id}: {one}" for one in (*_turns(read), *_spawns(read.events))]
    for sent in world.sent.values():
        account = _account(found[sent.session_id].events, sent)
        wrong = [*_kept(world, sent, account), *_once(received[sent.text], account), *_answered(world, sent, account)]
        problems += [f"{sent.session_id} {sent.prompt_id} ({sent.text!r}): {one}; {account}" for one in wrong]
    ours = {sent.text for sent in world.sent.values()}
    problems += [f"an agent got a prompt that nobody sent: {text!r}" for text in received if text not in ours]
    known = {str(event.spawn_id) for read in found.values() for event in read.events if event.spawn_id is not None}
    return [*problems, *_orphans(world, known)]


async def _read(world: World) -> tuple[dict[str, Slice], list[str]]:
    async with await SqliteLog.open(world.home, readonly=True) as log:
        found = {session_id: await log.read(SessionId(session_id)) for session_id in world.sessions}
        unsound = [f"the chain does not verify: {report}" async for report in verify(log) if not report.sound]
    return found, unsound


def _turns(read: Slice) -> Iterator[str]:
    """Every turn has one end, after which nothing of it is written, and nothing in the log contradicts another."""
    events = read.events
    for turn in turn_states(events):
        if turn.state not in TERMINAL_STATES:
            yield f"turn {turn.turn_id} is {turn.state}"
        ends = [at for at, event in enumerate(events) if _ends(event, turn.turn_id)]
        if len(ends) != 1:
            yield f"turn {turn.turn_id} has {len(ends)} ends"
            continue
        late = [event for event in events[ends[0] + 1 :] if event.turn_id == turn.turn_id and _is_work(event)]
        if late:
            yield f"turn {turn.turn_id} goes on after its end: {late}"
        failures = sum(isinstance(event.data, TurnFailed) and event.turn_id == turn.turn_id for event in events)
        if failures != (turn.state is not TurnState.COMPLETED):
            yield f"turn {turn.turn_id} is {turn.state} with {failures} failures"
    report = diagnose(events, read.damage, owner_alive=False)
    for check in report.checks:
        if check.status is CheckStatus.FAILED:
            yield f"diagnose: {check}"
    for one in approvals(events):
        if one.state is ApprovalState.OPEN:
            yield f"a question is open for ever: {one}"


def _ends(event: Event, turn_id: TurnId) -> bool:
    return event.turn_id == turn_id and isinstance(event.data, RunState) and event.data.status is RunStatus.DONE


def _is_work(event: Event) -> bool:
    return isinstance(event.data, RunState | TurnFailed | AssistantMessage | UserMessage)


def _spawns(events: tuple[Event, ...]) -> Iterator[str]:
    """Every spawn that began has one end."""
    kinds: dict[ProcessEventKind, Counter[str]] = {kind: Counter() for kind in ProcessEventKind}
    for event in events:
        if isinstance(event.data, ProcessEvent):
            kinds[event.data.kind][str(event.spawn_id)] += 1
    for spawn_id, times in kinds[ProcessEventKind.SPAWNED].items():
        exits = kinds[ProcessEventKind.EXITED][spawn_id]
        if (times, exits) != (1, 1):
            yield f"spawn {spawn_id} began {times} times and ended {exits} times"


def _account(events: tuple[Event, ...], sent: Sent) -> Account:
    queue = Counter(
        event.data.kind.value for event in events if _is_of(event, sent) and isinstance(event.data, QueueEvent)
    )
    stages = [event.data.stage for event in events if isinstance(event.data, DeliveryReceipt) and _is_of(event, sent)]
    ids = {event.turn_id for event in events if isinstance(event.data, UserMessage) and _is_of(event, sent)}
    answers = tuple(
        event.data.text
        for event in events
        if isinstance(event.data, AssistantMessage) and event.turn_id in ids and not event.data.metadata.intermediate
    )
    turns = tuple(turn for turn in turn_states(events) if turn.turn_id in ids)
    stage = stages[-1] if stages else None
    return Account(queue["queued"], queue["dispatched"], queue["removed"], turns, stage, answers)


def _is_of(event: Event, sent: Sent) -> bool:
    return getattr(event.data, "prompt_id", None) == sent.prompt_id


def _kept(world: World, sent: Sent, account: Account) -> Iterator[str]:
    """What was acknowledged is in the log, once, and came to an end."""
    if sent.prompt_id in world.acknowledged and account.queued == 0:
        yield "it was acknowledged, and is lost"
    if account.queued > 1 or account.dispatched > 1 or len(account.turns) > 1:
        yield "it is in the log more than once"
    if account.queued and not account.removed and not account.turns:
        yield "it was never dispatched, and everything has come to rest"


def _once(times: int, account: Account) -> Iterator[str]:
    """It reached an agent at most once, and the log claims no more than is true."""
    if times > 1:
        yield f"it reached an agent {times} times"
    if times and not account.turns:
        yield "it reached an agent without a turn"
    if times and account.stage is DeliveryStage.NOT_DELIVERED:
        yield "it reached an agent, and the log says that it did not"
    if not times and account.stage in _PROVEN:
        yield "it reached no agent, and the log says that it did"
    for turn in account.turns:
        if turn.state is TurnState.COMPLETED and not times:
            yield "it reached no agent, and the turn is complete"
        if turn.error_kind == "delivery_unknown" and account.stage is not DeliveryStage.UNKNOWN:
            yield "the turn says that its delivery is unknown, the receipt does not"
        is_open_question = account.stage in (None, DeliveryStage.QUEUED, DeliveryStage.TYPED)
        if is_open_question:
            yield "nobody knows whether it reached the agent, and the log does not say so"


def _answered(world: World, sent: Sent, account: Account) -> Iterator[str]:
    """An answer that counts is the agent's own, to this very prompt."""
    for turn in account.turns:
        if turn.state is not TurnState.COMPLETED or not sent.answer:
            continue
        is_stream = world.sessions[sent.session_id] == STREAM
        texts = [text for text in account.answers if is_stream or text]
        if any(sent.answer not in text for text in texts) or (is_stream and len(texts) != 1):
            yield f"the answer is {account.answers}, and should be {sent.answer!r}"


def _orphans(world: World, known: set[str]) -> Iterator[str]:
    """Nothing that was ever spawned lives."""
    wait_until(lambda: not world.spawned(), _ENDED_WITHIN_SECONDS)
    for pid, (spawn_id, command) in world.spawned().items():
        whose = f"spawn {spawn_id}" if spawn_id in known else f"spawn {spawn_id}, which the log does not know"
        yield f"process {pid} of {whose} is left: {command}"
