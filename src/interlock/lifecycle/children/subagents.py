"""Many children: what a log says of each, and what a wait for some of them comes to.

Laws:
1. Reading never raises. The last fact of a child holds, by position; what the machine would not have written is noted.
2. Terminal is final: only a `running` fact of a higher attempt reopens, as new input does, and nothing reopens
   `detached`. A fact of an older attempt never changes a newer one.
3. A wait is `completed` only if every child that was asked for exists, is completed and proves it. To wait for nothing
   is `nothing_to_wait_for`; one child that is still open makes it `incomplete`; any other end makes it `partial`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interlock.lifecycle.children.subagent import MACHINE
from interlock.lifecycle.children.subagent_evidence import TERMINAL, missing_evidence
from interlock.vocabulary.actions import NextAction, NextActionKind
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.ids import SubagentId
from interlock.vocabulary.states import SubagentState

_MOVES: Final = frozenset((edge.source, edge.target) for edge in MACHINE.edges)


@dataclass(frozen=True, slots=True)
class ChildReading:
    """The fact that holds for a child, and what was odd about those that were read."""

    fact: SubagentEvent
    anomalies: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        return missing_evidence(self.fact)


class SubagentFold:
    """The facts of a log, one by one, in its order. `last`: the fact that holds for each child, in order of first
    appearance. A further fact costs the same, however many there were."""

    def __init__(self) -> None:
        self.last: dict[SubagentId, SubagentEvent] = {}
        self._odd: dict[SubagentId, list[str]] = {}
        self._alone: Counter[WaitStatus] = Counter()

    def add(self, fact: SubagentEvent) -> None:
        child, known = fact.subagent_id, self.last.get(fact.subagent_id)
        self.last[child], anomaly = _read(known, fact)
        if known is not None:
            self._alone[_alone(known)] -= 1
        self._alone[_alone(self.last[child])] += 1
        notes = self._odd.setdefault(child, [])
        if anomaly:
            notes.append(anomaly)

    def readings(self) -> Mapping[SubagentId, ChildReading]:
        return {child: ChildReading(fact, tuple(self._odd[child])) for child, fact in self.last.items()}

    def waits_for_one(self) -> frozenset[WaitStatus]:
        """What a wait for one child may come to now, over all children."""
        return frozenset(status for status, count in self._alone.items() if count)

    def wait_for_all(self) -> WaitStatus:
        """What a wait for every child that is known comes to now."""
        alone = self.waits_for_one()
        if len(alone) < 2:
            return next(iter(alone), WaitStatus.NOTHING_TO_WAIT_FOR)
        return WaitStatus.INCOMPLETE if WaitStatus.INCOMPLETE in alone else WaitStatus.PARTIAL


def subagents_from(facts: Iterable[SubagentEvent]) -> Mapping[SubagentId, ChildReading]:
    """Fold the facts of a log, in its order, to one reading a child, in order of first appearance."""
    fold = SubagentFold()
    for fact in facts:
        fold.add(fact)
    return fold.readings()


def _alone(fact: SubagentEvent) -> WaitStatus:
    """What a wait for this child alone comes to."""
    return wait_outcome({fact.subagent_id: fact}, wanted=[fact.subagent_id]).status


def _read(last: SubagentEvent | None, fact: SubagentEvent) -> tuple[SubagentEvent, str]:
    """The fact that holds after both, and what is odd about the second."""
    if last is None:
        return fact, "" if fact.status is MACHINE.initial else f"its first fact is {fact.status.value}"
    if fact == last:
        return last, ""
    change = f"{last.status.value} (attempt {last.attempt}) to {fact.status.value} (attempt {fact.attempt})"
    is_move = (last.status, fact.status) in _MOVES
    # Only a retry and new input begin a new attempt; every other move stays in the one it is in.
    begins_attempt = fact.status is SubagentState.QUEUED or last.status in TERMINAL
    is_legal = is_move and (fact.attempt > last.attempt if begins_attempt else fact.attempt == last.attempt)
    if is_legal:
        return fact, ""
    if last.status in TERMINAL:
        return last, f"after its end: {change}"
    if fact.attempt < last.attempt:
        return last, f"of an older attempt: {change}"
    return fact, f"out of order: {change}"


class WaitStatus(StrEnum):
    """What a wait came to."""

    COMPLETED = "completed"
    PARTIAL = "partial"
    INCOMPLETE = "incomplete"
    NOTHING_TO_WAIT_FOR = "nothing_to_wait_for"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOutcome:
    """Who ended how. Each wanted child is in one bucket or `unknown`; the `unproven` are completed without evidence."""

    status: WaitStatus
    buckets: Mapping[SubagentState, tuple[SubagentId, ...]]
    unknown: tuple[SubagentId, ...]
    unproven: tuple[SubagentId, ...]
    next_actions: tuple[NextAction, ...]

    @property
    def counts(self) -> Mapping[SubagentState, int]:
        return {state: len(children) for state, children in self.buckets.items()}


def wait_outcome(children: Mapping[SubagentId, SubagentEvent], *, wanted: Iterable[SubagentId]) -> WaitOutcome:
    """Say how the wanted children stand, by their last facts. Asking twice for one child counts once."""
    ids = tuple(dict.fromkeys(wanted))
    known = {child: children[child] for child in ids if child in children}
    unproven = tuple(
        child for child, fact in known.items() if fact.status is SubagentState.COMPLETED and missing_evidence(fact)
    )
    buckets = {state: tuple(child for child, fact in known.items() if fact.status is state) for state in SubagentState}
    unknown = tuple(child for child in ids if child not in known)
    status = _wait_status(known, unproven, unknown)
    return WaitOutcome(
        status=status,
        buckets=buckets,
        unknown=unknown,
        unproven=unproven,
        next_actions=_advice(status, known, unproven, unknown),
    )


def _wait_status(
    known: Mapping[SubagentId, SubagentEvent], unproven: tuple[SubagentId, ...], unknown: tuple[SubagentId, ...]
) -> WaitStatus:
    states = {fact.status for fact in known.values()}
    if not known:
        return WaitStatus.NOTHING_TO_WAIT_FOR
    if states - TERMINAL:
        return WaitStatus.INCOMPLETE
    if states == {SubagentState.COMPLETED} and not unproven and not unknown:
        return WaitStatus.COMPLETED
    return WaitStatus.PARTIAL


def _advice(
    status: WaitStatus,
    known: Mapping[SubagentId, SubagentEvent],
    unproven: tuple[SubagentId, ...],
    unknown: tuple[SubagentId, ...],
) -> tuple[NextAction, ...]:
    wait = [NextAction(NextActionKind.WAIT_AGAIN)] if status is WaitStatus.INCOMPLETE else []
    ask = [NextAction(NextActionKind.ASK_OPERATOR)] if unknown or unproven else []
    theirs = (action for fact in known.values() for action in fact.next_actions)
    return tuple(dict.fromkeys((*wait, *theirs, *ask)))
