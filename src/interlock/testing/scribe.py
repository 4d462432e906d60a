"""Write event histories by hand: ids, sequence numbers and times are counted, so that a history reads the same twice.

scribe = Scribe()
scribe.write(UserMessage(text="hello"), turn="t1")
assert scribe.events[0].seq == 1
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import SessionId, SpawnId, TurnId, new_event_id

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Scribe:
    """A growing history of one session, one event a second."""

    def __init__(self, session: str = "ses_scribe") -> None:
        self.session = SessionId(session)
        self.events: list[Event] = []

    def write(self, *payloads: Payload, turn: str | None = None, spawn: str | None = None) -> list[Event]:
        """Stamp and keep one event for each payload, and return the new ones."""
        first = len(self.events) + 1
        new = [self._stamp(payload, seq, turn, spawn) for seq, payload in enumerate(payloads, start=first)]
        self.events += new
        return new

    def _stamp(self, payload: Payload, seq: int, turn: str | None, spawn: str | None) -> Event:
        at = EPOCH + timedelta(seconds=seq)
        return new_event(
            payload,
            id=new_event_id(int(at.timestamp() * 1000), seq.to_bytes(10, "big")),
            session_id=self.session,
            seq=seq,
            ts=at,
            turn_id=None if turn is None else TurnId(turn),
            spawn_id=None if spawn is None else SpawnId(spawn),
        )
