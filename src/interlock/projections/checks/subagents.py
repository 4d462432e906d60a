"""Checks of child sessions: how each ended, on what evidence, and whether the open ones are still looked after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from interlock.lifecycle.children.subagent_evidence import TERMINAL
from interlock.lifecycle.children.subagents import ChildReading, subagents_from
from interlock.projections.checks.case import Case, Check, CheckId, Issue, failure, judged, of_type, warning
from interlock.vocabulary.actions import NextAction, NextActionKind, inspect_child
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SubagentId
from interlock.vocabulary.states import SubagentState

STALE_AFTER: Final = timedelta(seconds=300)


@dataclass(frozen=True, slots=True)
class CheckedChild:
    """A child as the log reads, with the events that speak of it."""

    id: SubagentId
    reading: ChildReading
    events: tuple[Event, ...]

    @property
    def fact(self) -> SubagentEvent:
        return self.reading.fact

    @property
    def is_open(self) -> bool:
        return self.fact.status not in TERMINAL

    @property
    def next_actions(self) -> tuple[NextAction, ...]:
        """What its last fact advises, or else to look at its log."""
        child = self.fact.child_session_id
        return self.fact.next_actions or (() if child is None else (inspect_child(child),))


def _children(case: Case) -> list[CheckedChild]:
    told: dict[SubagentId, list[Event]] = {}
    for event, fact in of_type(case.events, SubagentEvent):
        told.setdefault(fact.subagent_id, []).append(event)
    readings = subagents_from(fact for _, fact in of_type(case.events, SubagentEvent))
    return [CheckedChild(id, reading, tuple(told[id])) for id, reading in readings.items()]


def check_subagent_timeouts(case: Case) -> Check:
    """Children that ran out of time say how long they had, how long they took and what to do next."""
    late = [child for child in _children(case) if child.fact.status is SubagentState.TIMED_OUT]
    issues = [issue for child in late for issue in _ended_issues(child)]
    return judged(CheckId.SUBAGENT_TIMEOUTS, issues, applies=False, passed="")


def check_subagent_terminal_states(case: Case) -> Check:
    """Children end one way, in order, with the evidence that their end requires."""
    children = _children(case)
    issues = [
        issue
        for child in children
        for issue in (*_order_issues(child), *_ended_issues(child))
        if child.fact.status is not SubagentState.TIMED_OUT or issue.kind == _OUT_OF_ORDER
    ]
    passed = f"{len(children)} children, each as it should be"
    return judged(CheckId.SUBAGENT_TERMINAL_STATES, issues, applies=bool(children), passed=passed)


_OUT_OF_ORDER: Final = "subagent_facts_out_of_order"


def _order_issues(child: CheckedChild) -> Iterator[Issue]:
    if child.reading.anomalies:
        message = f"child {child.id}: {'; '.join(child.reading.anomalies)}"
        yield warning(_OUT_OF_ORDER, message, child.events, next_actions=child.next_actions)


def _ended_issues(child: CheckedChild) -> Iterator[Issue]:
    fact, missing = child.fact, child.reading.missing
    is_completed = fact.status is SubagentState.COMPLETED
    last = child.events[-1:]
    if not child.is_open and not is_completed:
        why = f": {fact.reason}" if fact.reason.strip() else ""
        message = f"child {child.id} is {fact.status.value}{why}"
        yield warning(f"subagent_{fact.status.value}", message, last, next_actions=child.next_actions)
    if missing:
        message = f"child {child.id} is {fact.status.value} without {', '.join(missing)}"
        # An end that proves nothing is a gap in the record; a success that proves nothing is a false claim.
        make, kind = (failure, "completed_without_evidence") if is_completed else (warning, "incomplete_evidence")
        yield make(kind, message, last, next_actions=child.next_actions)


def check_subagent_staleness(case: Case) -> Check:
    """Open children are within their time, and somebody watches them."""
    is_open = [child for child in _children(case) if child.is_open]
    issues = [issue for child in is_open for issue in _stale_issues(case, child)]
    passed = f"{len(is_open)} open children, none overdue"
    return judged(CheckId.SUBAGENT_STALENESS, issues, applies=bool(is_open), passed=passed)


def _stale_issues(case: Case, child: CheckedChild) -> Iterator[Issue]:
    fact, last = child.fact, child.events[-1:]
    actions = (*child.next_actions, NextAction(NextActionKind.WAIT_AGAIN))
    if not case.owner_alive:
        message = f"child {child.id} is {fact.status.value}, and no process that watches it is alive"
        yield warning("subagent_without_owner", message, last, next_actions=actions)
    if case.now is None:
        return
    if fact.deadline_at is not None and fact.deadline_at <= case.now:
        message = f"child {child.id} is {fact.status.value}, and its time was up at {fact.deadline_at.isoformat()}"
        yield warning("overdue_subagent", message, last, next_actions=actions)
    last_at = None if fact.child_session_id is None else case.child_activity.get(fact.child_session_id)
    if last_at is not None and case.now - last_at >= STALE_AFTER:
        message = f"child {child.id} has written nothing for {(case.now - last_at).total_seconds():.0f} s"
        yield warning("stale_subagent", message, last, next_actions=actions)


def check_subagent_manager_runtime(case: Case) -> Check:
    """What the owner says it runs is what the log says is open."""
    children = _children(case)
    issues = [*_runtime_issues(case, children)]
    applies = case.live_children is not None
    return judged(CheckId.SUBAGENT_MANAGER_RUNTIME, issues, applies=applies, passed="the owner and the log agree")


def _runtime_issues(case: Case, children: list[CheckedChild]) -> Iterator[Issue]:
    for child in children:
        if child.fact.status is SubagentState.RUNNING and child.fact.child_session_id is None:
            message = f"child {child.id} runs, and no session is named for it"
            yield failure("running_without_session", message, child.events[-1:], next_actions=case.look_at_log())
    if case.live_children is None:
        return
    is_open = {child.id: child for child in children if child.is_open}
    for id, child in is_open.items():
        if id not in case.live_children:
            message = f"child {id} is {child.fact.status.value} in the log, and its owner does not know it"
            yield warning("child_unknown_to_owner", message, child.events[-1:], next_actions=child.next_actions)
    for id in sorted(case.live_children - is_open.keys()):
        message = f"the owner runs child {id}, which is not open in the log"
        yield warning("child_not_open_in_log", message, next_actions=case.look_at_log())
