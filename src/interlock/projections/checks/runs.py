"""Checks of the state document: does every recorded step of a run follow from the one before."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.projections.checks.case import Case, Issue, failure, look_at
from interlock.projections.run_document import RunDocument, fold_run_event
from interlock.vocabulary.audit import RunState
from interlock.vocabulary.ids import SessionId


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
