"""Checks of the log itself: is it whole, in order, all of one session, and where does the session come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from interlock.projections.checks.case import Case, Check, CheckId, Issue, failure, judged, of_type, warning
from interlock.vocabulary.actions import inspect_child
from interlock.vocabulary.events.audit import Anomaly, SessionFork
from interlock.vocabulary.events.conversation import BranchSummary, SubagentEvent
from interlock.vocabulary.events.envelope import Event, UnknownEvent
from interlock.vocabulary.events.registry import DECLARATIONS, Durability


def check_log(case: Case) -> Check:
    """Nothing is damaged, and every event is of a kind that this version knows."""
    return judged(CheckId.LOG, _log_issues(case), applies=True, passed=f"{len(case.events)} events, none damaged")


def _log_issues(case: Case) -> Iterator[Issue]:
    look = case.look_at_log()
    if not case.events and not case.damage:
        yield failure("empty_log", "the log holds no event at all")
    for damage in case.damage:
        where = "" if damage.first_seq is None else f" at {_span(damage.first_seq, damage.last_seq)}"
        message = f"the log is {damage.kind.value}{where}: {damage.message}"
        yield failure(f"damage_{damage.kind.value}", message, next_actions=damage.next_actions or look)
    unknown: dict[str, list[Event]] = defaultdict(list)
    for event, data in of_type(case.events, UnknownEvent):
        unknown[data.type].append(event)
    for type_name, found in unknown.items():
        message = f"{len(found)} events of type {type_name!r}, which this version does not know, were left out"
        yield warning("unknown_event", message, found, next_actions=look)
    odd = [event for event in case.events if event.unknown_fields]
    if odd:
        yield warning("unknown_fields", f"{len(odd)} events carry fields that this version does not know", odd)


def _span(first: int, last: int | None) -> str:
    return f"{first}" if last in (None, first) else f"{first}..{last}"


def check_sequence(case: Case) -> Check:
    """Sequence numbers count from 1 without a gap, a repeat or a step back, in one session."""
    issues = _sequence_issues(case)
    return judged(CheckId.SEQUENCE, issues, applies=bool(case.events), passed="numbered from 1 without a gap")


def _sequence_issues(case: Case) -> Iterator[Issue]:
    look = case.look_at_log()
    strangers = [event for event in case.events if event.session_id != case.session_id]
    if strangers:
        yield failure("foreign_session", f"{len(strangers)} events belong to another session", strangers)
    live = [event for event in case.events if _is_ephemeral(event)]
    if live:
        yield warning("ephemeral_event", f"{len(live)} events that are shown live stand in the log", live)
    previous = 0
    ids: set[str] = set()
    for event in case.events:
        if event.id in ids:
            message = f"event {event.id} stands in the log twice"
            yield failure("duplicate_event_id", message, [event], next_actions=look)
        ids.add(event.id)
        if event.seq is None:
            if not _is_ephemeral(event):
                yield failure("unstamped_event", f"event {event.id} has no sequence number", next_actions=look)
            continue
        if event.seq <= previous:
            kind = "duplicate_seq" if event.seq == previous else "out_of_order"
            message = f"sequence number {event.seq} comes after {previous}"
            yield failure(kind, message, [event], next_actions=look)
        elif event.seq > previous + 1:
            message = f"events {_span(previous + 1, event.seq - 1)} are missing"
            yield failure("sequence_gap", message, [event], next_actions=look)
        previous = max(previous, event.seq)
    lost = max((one.last_seq or one.first_seq or 0 for one in case.damage), default=0)
    if lost > previous:
        message = f"events {_span(previous + 1, lost)} are missing at the end"
        yield failure("sequence_gap", message, next_actions=look)


def _is_ephemeral(event: Event) -> bool:
    declared = DECLARATIONS.get(event.type)
    return declared is not None and declared.durability is Durability.EPHEMERAL


def check_anomalies(case: Case) -> Check:
    """The world surprised nobody."""
    kinds: dict[str, list[Event]] = defaultdict(list)
    for event, data in of_type(case.events, Anomaly):
        kinds[data.kind].append(event)
    issues = [
        warning(f"anomaly_{kind}", f"{len(found)} times {kind}: {_last_words(found)}", found)
        for kind, found in kinds.items()
    ]
    return judged(CheckId.ANOMALIES, issues, applies=False, passed="")


def _last_words(found: list[Event]) -> str:
    data = found[-1].data
    return data.message if isinstance(data, Anomaly) else ""


def check_session_tree(case: Case) -> Check:
    """Where the session came from is said once, at its start; the children that it names have logs."""
    kin = (SessionFork, BranchSummary, SubagentEvent)
    applies = any(isinstance(event.data, kin) for event in case.events)
    return judged(CheckId.SESSION_TREE, _tree_issues(case), applies=applies, passed="all relatives are accounted for")


def _tree_issues(case: Case) -> Iterator[Issue]:
    forks = list(of_type(case.events, SessionFork))
    for event, fork in forks:
        if fork.parent_session_id == event.session_id:
            yield failure("own_parent", "the session is recorded as a fork of itself", [event])
        if event is not case.events[0]:
            yield warning("late_fork", "where the session came from is not its first event", [event])
    if len(forks) > 1:
        yield failure("several_parents", f"{len(forks)} forks are recorded", [event for event, _ in forks])
    parents = {fork.parent_session_id for _, fork in forks}
    for event, summary in of_type(case.events, BranchSummary):
        if summary.parent_session_id not in parents:
            message = f"a summary of session {summary.parent_session_id}, which is not the parent"
            yield warning("foreign_branch_summary", message, [event])
    missing = {child for child, last_at in case.child_activity.items() if last_at is None}
    for event, fact in of_type(case.events, SubagentEvent):
        child = fact.child_session_id
        if child is not None and child in missing:
            missing.remove(child)
            message = f"child {fact.subagent_id} names session {child}, which has no log"
            yield warning("missing_child_log", message, [event], next_actions=(inspect_child(child),))
