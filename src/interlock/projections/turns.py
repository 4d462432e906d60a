"""Turn states over a stored session, slice by found. The verdicts are those of `lifecycle.turns`, and of nothing else.

A view may be fed overlapping slices, as a reader that starts again gets them: what it has seen is not folded twice. It
refuses a slice that leaves out events without a word about damage, for such a view would speak of another session.
"""

from __future__ import annotations

from interlock.lifecycle.turn import Finding, lose_owner
from interlock.lifecycle.turns import TurnFold, TurnRecord, record_of
from interlock.log.port import LogDamage, Slice
from interlock.projections.turn_evidence import lose_damaged
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, TurnId


class TurnsView:
    """Every turn of one session as of `version`. Asking again costs what the open turns cost, not what the log does."""

    def __init__(self) -> None:
        self.version = 0
        self.damage: tuple[LogDamage, ...] = ()
        self._fold = TurnFold()
        # Terminal is final, so what a closed turn amounts to is worked out once.
        self._closed: dict[tuple[SessionId, TurnId], TurnRecord] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._fold.findings)

    def feed(self, found: Slice) -> None:
        """Fold what is new. `version` becomes the `seq` of the last event fed; a refused slice changes nothing."""
        new = self._unseen(found)
        for event in new:
            self._fold.add(event)
        lose_damaged(self._fold, found.damage)
        self.version = max((self.version, *(event.seq or 0 for event in new)))
        self.damage = tuple(dict.fromkeys((*self.damage, *found.damage)))

    def records(self, *, owner_alive: bool = True) -> list[TurnRecord]:
        """How each turn stands, in the order in which the turns began."""
        fold = self._fold
        for key, turn in fold.turns.items():
            if turn.is_terminal and key not in self._closed:
                self._closed[key] = record_of(turn)
        return [
            self._closed.get(key) or record_of(turn if owner_alive else lose_owner(turn))
            for key, turn in fold.turns.items()
        ]

    def _unseen(self, found: Slice) -> list[Event]:
        new: list[Event] = []
        version = self.version
        for event in found.events:
            if event.seq is None:
                raise ContractError(f"event {event.id} bears no seq: feed what a log gave, not what is yet to be kept")
            if event.seq <= version:
                continue
            if event.seq > version + 1 and not found.damage:
                raise ContractError(f"events {version + 1}..{event.seq - 1} were left out: read on after {version}")
            new.append(event)
            version = event.seq
        return new
