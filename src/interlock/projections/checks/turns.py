"""Checks of turns: is every end recorded as the contract wants it, and does nothing claim more than it can prove."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Final, TypeAlias, assert_never

from interlock.lifecycle.turn import Basis, Finding, FindingKind, is_clean_end
from interlock.projections.checks.case import Case, Check, CheckId, Issue, failure, judged, look_at, of_type, warning
from interlock.projections.task.run_document import RunDocument, fold_run_event
from interlock.projections.turn_evidence import Dossier, TurnKey
from interlock.vocabulary.actions import decide
from interlock.vocabulary.ending_words import AGENT, TIMED_BY, failure_words
from interlock.vocabulary.events.audit import (
    DecisionUndelivered,
    ProcessEvent,
    ProcessEventKind,
    RunState,
    ToolCallDecided,
    ToolCallSuspended,
    TurnFailed,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import CallId, SessionId, SpawnId
from interlock.vocabulary.states import DriverKind, TurnState

# Checks of the state document: does every recorded step of a run follow from the one before.


def run_issues(case: Case) -> Iterator[Issue]:
    """Run events that the classifier took, and that the reducer of the state document refuses."""
    places = {turn.key: place for place, turn in enumerate(case.turns)}
    late = {id(refused.event) for turn in case.turns for refused in turn.refused}
    newest: dict[SessionId, int] = {}
    documents: dict[SessionId, RunDocument] = {}
    for event in case.events:
        if not isinstance(event.data, RunState) or id(event) in late:
            continue
        session, turn = event.session_id, case.turn(event)
        place = -1 if turn is None else places[turn.key]
        if place < newest.get(session, -1):
            continue  # a turn that was overtaken: the overlap is an issue of its own
        newest[session] = place
        documents[session], _, refusal = fold_run_event(documents.get(session, RunDocument()), event)
        if refusal:
            actions = case.look_at_log() if turn is None else look_at(turn)
            yield failure("run_refused", refusal, [event], turn_id=event.turn_id, next_actions=actions)


_Process: TypeAlias = tuple[SessionId, SpawnId]
_Ref: TypeAlias = tuple[CallId, int]
_Asked: TypeAlias = tuple[Event, ToolCallSuspended]

SILENT_AFTER: Final = timedelta(seconds=300)

_GRAVE: Final = frozenset({FindingKind.STATES_DISAGREE, FindingKind.FAILURE_NOT_RECORDED})
_OF_A_QUESTION: Final = (ToolCallSuspended, ToolResult, ToolCallDecided, DecisionUndelivered)
# What a run that ended cleanly may still have failed of.
_CLEAN_END_FAILURES: Final = frozenset({"empty_answer", "unpaired_tool_call"})


def check_turn_evidence(case: Case) -> Check:
    """All that is recorded of a turn agrees, belongs to it, came in time, and nothing of it is damaged."""
    issues = [issue for turn in case.turns for issue in (*_finding_issues(turn), *_damage_issues(turn))]
    issues += run_issues(case)
    passed = f"{len(case.turns)} turns, no evidence against any"
    return judged(CheckId.TURN_EVIDENCE, issues, applies=bool(case.turns), passed=passed)


def _finding_issues(turn: Dossier) -> Iterator[Issue]:
    found: dict[FindingKind, list[Finding]] = defaultdict(list)
    for finding in (*turn.record.findings, *(refused.finding for refused in turn.refused)):
        found[finding.kind].append(finding)
    found.pop(FindingKind.UNPAIRED_TOOL_CALLS, None)  # `tool_pairing` says it, call by call
    for kind, findings in found.items():
        make = failure if kind in _GRAVE else warning
        times = f" ({len(findings)} times)" if len(findings) > 1 else ""
        message = f"turn {turn.turn_id}: {findings[0].message}{times}"
        seqs = {finding.seq for finding in findings}
        events = [event for event in (*turn.counted, *(r.event for r in turn.refused)) if event.seq in seqs]
        yield make(kind.value, message, events, turn_id=turn.turn_id, next_actions=look_at(turn))


def _damage_issues(turn: Dossier) -> Iterator[Issue]:
    """A turn that is read across damage may have ended otherwise than what is left of it says."""
    if turn.state is TurnState.UNKNOWN:
        message = f"turn {turn.turn_id} is unknown: {turn.record.error_message}"
        actions = turn.record.next_actions
        yield failure("read_across_damage", message, turn_id=turn.turn_id, next_actions=actions)


def check_turn_completion(case: Case) -> Check:
    """Every turn has a prompt, an owner and an end, or is still at work."""
    exits = _exits(case)
    issues = [issue for turn in case.turns for issue in (*_opening_issues(turn), *_open_issues(case, turn, exits))]
    overlaps = (
        _overlap_issue(turn, following)
        for turn, following in pairwise(case.turns)
        if turn.state in (TurnState.RUNNING, TurnState.WAITING) and turn.key[0] == following.key[0]
    )
    passed = "every turn has ended, or is at work"
    return judged(CheckId.TURN_COMPLETION, [*issues, *overlaps], applies=bool(case.turns), passed=passed)


def _opening_issues(turn: Dossier) -> Iterator[Issue]:
    if turn.state is TurnState.UNKNOWN:
        return  # what is missing may be among the lost events
    types = {type(event.data) for event in turn.counted}
    first = turn.counted[:1]
    if UserMessage not in types and turn.facts.driver is not DriverKind.TERMINAL:
        message = f"turn {turn.turn_id} has no prompt"
        yield warning("turn_without_prompt", message, first, turn_id=turn.turn_id, next_actions=look_at(turn))
    if turn.facts.basis is Basis.RUN_EVENTS and TurnStarted not in types:
        message = f"it is not recorded that they took turn {turn.turn_id}"
        yield warning("owner_not_recorded", message, first, turn_id=turn.turn_id, next_actions=look_at(turn))


def _open_issues(case: Case, turn: Dossier, exits: Mapping[_Process, list[Event]]) -> Iterator[Issue]:
    if turn.state.is_terminal:
        return
    name, last, actions = turn.turn_id, turn.counted[-1:], turn.record.next_actions or look_at(turn)
    if turn.state is TurnState.UNKNOWN:
        message = f"it is not known whether and how turn {name} ended"
        yield warning("end_unknown", message, last, turn_id=name, next_actions=actions)
        return
    if turn.facts.failure is not None:
        message = f"turn {name} has a failure record, and its run never ended"
        yield failure("end_not_recorded", message, last, turn_id=name, next_actions=actions)
    if turn.state is TurnState.ABANDONED:
        settles = turn.record.settles_as
        is_idle = all(isinstance(event.data, UserMessage) for event in turn.counted)
        what = "was accepted and nothing came of it" if is_idle else "has no end, and no owner lives"
        message = f"turn {name} {what}; recovery will record it as {settles.value if settles else 'failed'}"
        kind = "no_activity" if is_idle else "abandoned_turn"
        yield warning(kind, message, last, turn_id=name, next_actions=actions)
        return
    spawn_id = turn.facts.spawn_id
    ends = [] if spawn_id is None else exits.get((turn.key[0], spawn_id), [])
    if ends:
        message = f"turn {name} is {turn.state.value}, and its process has exited"
        yield failure("open_turn_of_dead_process", message, ends, turn_id=name, next_actions=actions)
    if case.now is not None and turn.state is TurnState.RUNNING and case.now - last[0].ts >= SILENT_AFTER:
        message = f"nothing was recorded of turn {name} for {(case.now - last[0].ts).total_seconds():.0f} s"
        yield warning("silent_turn", message, last, turn_id=name, next_actions=actions)


def _exits(case: Case) -> Mapping[_Process, list[Event]]:
    """Every end of a process, by session and spawn."""
    exits: dict[_Process, list[Event]] = {}
    for event, data in of_type(case.events, ProcessEvent):
        if event.spawn_id is not None and data.kind is ProcessEventKind.EXITED:
            exits.setdefault((event.session_id, event.spawn_id), []).append(event)
    return exits


def _overlap_issue(turn: Dossier, following: Dossier) -> Issue:
    message = f"turn {following.turn_id} began while turn {turn.turn_id} was {turn.state.value}"
    events = following.counted[:1]
    return failure("overlapping_turns", message, events, turn_id=turn.turn_id, next_actions=look_at(turn))


def check_turn_failure_evidence(case: Case) -> Check:
    """Turns that failed say how, why and what to do next."""
    applies = any(isinstance(event.data, TurnFailed) for event in case.events)
    issues = [issue for turn in case.turns for issue in _failure_issues(turn)]
    return judged(CheckId.TURN_FAILURE_EVIDENCE, issues, applies=applies, passed="no turn failed")


def _failure_issues(turn: Dossier) -> Iterator[Issue]:
    failures = list(of_type(turn.counted, TurnFailed))
    name, actions = turn.turn_id, turn.record.next_actions or look_at(turn)
    for event, failed in failures:
        said = failure_words(turn.state.value, failed.error_kind, failed.error_message, failed.details)
        message = f"turn {name} is {said}"
        yield warning("turn_failed", message, [event], turn_id=name, next_actions=actions)
        if lacks := _lacks(failed):
            message = f"the failure record of turn {name} lacks {', '.join(lacks)}"
            yield failure("incomplete_failure", message, [event], turn_id=name, next_actions=look_at(turn))
    if len(failures) > 1:
        message = f"turn {name} has {len(failures)} failure records"
        events = [event for event, _ in failures]
        yield failure("several_failures", message, events, turn_id=name, next_actions=look_at(turn))
    reason, kind = turn.facts.reason, turn.record.error_kind
    if failures and reason is not None and is_clean_end(reason) and kind not in _CLEAN_END_FAILURES:
        message = f"turn {name} failed by {kind}, and its run ended cleanly ({reason.type.value})"
        events = [event for event, _ in failures]
        yield failure("run_and_failure_disagree", message, events, turn_id=name, next_actions=look_at(turn))


def _lacks(failed: TurnFailed) -> list[str]:
    lacks = [] if failed.error_message.strip() else ["a message"]
    if not failed.next_actions:
        lacks.append("next actions")
    details = failed.details if isinstance(failed.details, dict) else {}
    if failed.terminal_status is TurnState.TIMED_OUT:
        measured = ("elapsed_seconds",) if details.get(TIMED_BY) == AGENT else ("budget_seconds", "elapsed_seconds")
        lacks += [key for key in measured if details.get(key) is None]
    return lacks


def check_continuation(case: Case) -> Check:
    """The session can go on: nothing waits for a person."""
    asked = _open_questions(case)
    issues = [issue for turn in case.turns for issue in _waiting_issues(case, turn, asked.get(turn.key, []))]
    return judged(CheckId.CONTINUATION, issues, applies=bool(case.turns), passed="nothing waits for a decision")


def _waiting_issues(case: Case, turn: Dossier, asked: list[_Asked]) -> Iterator[Issue]:
    if turn.facts.is_over:
        return
    for event, call in asked:
        is_overdue = case.now is not None and call.deadline_at is not None and call.deadline_at <= case.now
        how = "should have been decided by now" if is_overdue else "waits for a decision"
        message = f"{call.name} ({call.call_id}) of turn {turn.turn_id} {how}"
        kind = "decision_overdue" if is_overdue else "decision_open"
        yield warning(kind, message, [event], turn_id=turn.turn_id, next_actions=(decide(),))
    if turn.state is TurnState.UNKNOWN:
        message = f"it is not known whether turn {turn.turn_id} waits for a decision"
        actions = turn.record.next_actions
        yield warning("decision_unknown", message, turn.counted[-1:], turn_id=turn.turn_id, next_actions=actions)
    if not asked and turn.state is TurnState.WAITING:
        message = f"turn {turn.turn_id} waits for a person"
        actions = turn.record.next_actions
        yield warning("turn_waits", message, turn.counted[-1:], turn_id=turn.turn_id, next_actions=actions)


def _open_questions(case: Case) -> Mapping[TurnKey, list[_Asked]]:
    """The calls of each turn that were suspended, and neither decided nor settled since."""
    turns: dict[TurnKey, _Questions] = {}
    for event in case.events:
        turn = case.turn(event)
        if turn is not None and isinstance(event.data, _OF_A_QUESTION):
            turns.setdefault(turn.key, _Questions()).add(event, event.data)
    return {key: list(questions.asked.values()) for key, questions in turns.items()}


class _Questions:
    """The questions of one turn. `by_name`: which calls an id that a decision may name is about."""

    def __init__(self) -> None:
        self.asked: dict[_Ref, _Asked] = {}
        self.decided: dict[_Ref, _Asked] = {}
        self.by_name: dict[str, dict[_Ref, None]] = {}

    def add(self, event: Event, data: ToolCallSuspended | ToolResult | ToolCallDecided | DecisionUndelivered) -> None:
        match data:
            case ToolCallSuspended(call_id=call_id, occurrence=occurrence):
                self.asked[call_id, occurrence] = event, data
                for name in _names(data):
                    self.by_name.setdefault(name, {})[call_id, occurrence] = None
            case ToolResult(call_id=call_id, occurrence=occurrence):
                self.asked.pop((call_id, occurrence), None)
            case ToolCallDecided(target_id=target):
                self._move(target, self.asked, self.decided)
            case DecisionUndelivered(target_id=target):
                self._move(target, self.decided, self.asked)
            case unreachable:
                assert_never(unreachable)

    def _move(self, target: str, source: dict[_Ref, _Asked], into: dict[_Ref, _Asked]) -> None:
        for ref in self.by_name.get(target, ()):
            one = source.get(ref)
            if one is not None and target in _names(one[1]):
                into[ref] = source.pop(ref)


def _names(call: ToolCallSuspended) -> tuple[str, ...]:
    return call.call_id, call.ticket.suspension.id, call.ticket.pending.id
