"""One turn with all that a log says of it: what counted, what was refused and why, and by which steps it came to stand.

`why` explains a dossier and `diagnose` checks many. Nothing here judges: the classifier of `lifecycle.turns` does, and
this only keeps, event by event, what it said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from interlock.lifecycle.turn import Finding, FindingKind, TurnFacts, lose_owner
from interlock.lifecycle.turns import TurnFold, TurnRecord, record_of
from interlock.log.port import LogDamage, TurnSlice
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import TurnState

TurnKey = tuple[SessionId, TurnId]

REFUSALS: Final = frozenset({FindingKind.LATE_EVENT, FindingKind.STALE_SPAWN, FindingKind.FOREIGN_RUN})
"""The findings that say that an event was not taken into account at all."""


class Move(NamedTuple):
    """An event that changed how a turn stands. The first one opens the turn: there was nothing before it."""

    event: Event
    before: TurnState | None
    after: TurnState


class RefusedFact(NamedTuple):
    """An event that changed nothing, and the finding that says why."""

    event: Event
    finding: Finding


@dataclass(frozen=True, slots=True)
class Dossier:
    """`facts` and `record` as read now: with no living owner, an open turn is abandoned. The events are in order."""

    facts: TurnFacts
    record: TurnRecord
    counted: tuple[Event, ...]
    refused: tuple[RefusedFact, ...]
    path: tuple[Move, ...]

    @property
    def key(self) -> TurnKey:
        return self.facts.session_id, self.facts.turn_id

    @property
    def turn_id(self) -> TurnId:
        return self.facts.turn_id

    @property
    def state(self) -> TurnState:
        return self.record.state


class _Pages:
    """What is noted of one turn while a log is read."""

    def __init__(self) -> None:
        self.counted: list[Event] = []
        self.refused: list[RefusedFact] = []
        self.path: list[Move] = []

    def note(self, event: Event, facts: TurnFacts, findings: list[Finding]) -> None:
        refusal = next((finding for finding in findings if finding.kind in REFUSALS), None)
        if refusal is not None:
            self.refused.append(RefusedFact(event, refusal))
            return
        self.counted.append(event)
        before = self.path[-1].after if self.path else None
        if facts.state is not before:
            self.path.append(Move(event, before, facts.state))


def dossiers_of(
    events: Iterable[Event], damage: Iterable[LogDamage] = (), *, owner_alive: bool = True
) -> list[Dossier]:
    """One dossier a turn, in the order in which the turns began. Works on any list of events."""
    return _fold(TurnFold(), events, damage, owner_alive=owner_alive)


def dossiers_in(part: TurnSlice, *, owner_alive: bool = True) -> list[Dossier]:
    """One dossier for each turn that begins in a part of a log: what `dossiers_of` says of it for the whole log."""
    fold = TurnFold(only=part.turns, prompts_before=part.prompts_before, after=part.after)
    return _fold(fold, part.found.events, part.found.damage, owner_alive=owner_alive)


def _fold(fold: TurnFold, events: Iterable[Event], damage: Iterable[LogDamage], *, owner_alive: bool) -> list[Dossier]:
    pages: dict[TurnKey, _Pages] = {}
    for event in events:
        known = len(fold.findings)
        facts = fold.add(event)
        if facts is not None:
            key = facts.session_id, facts.turn_id
            pages.setdefault(key, _Pages()).note(event, facts, fold.findings[known:])
    lose_damaged(fold, damage)
    return [_dossier(turn if owner_alive else lose_owner(turn), pages[key]) for key, turn in fold.turns.items()]


def lose_damaged(fold: TurnFold, damage: Iterable[LogDamage]) -> None:
    """Tell a fold what a reader could not give it, after all that it could."""
    for one in damage:
        fold.lose(one.session_id, one.first_seq, one.last_seq)


def _dossier(facts: TurnFacts, pages: _Pages) -> Dossier:
    return Dossier(facts, record_of(facts), tuple(pages.counted), tuple(pages.refused), tuple(pages.path))
