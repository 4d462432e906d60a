"""The two doors by which events leave the runtime: into the log, and to whoever watches. Both redact.

The runtime itself works on what it was told: what it submits to an agent is not redacted, and what it decides does not
depend on what is masked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from msgspec import structs

from interlock.log.port import Committed, Followed, Log, LogDamage, SessionPage, Slice, TurnSlice
from interlock.runtime.redaction.live_text import LiveText
from interlock.runtime.redaction.redactor import Redactor
from interlock.vocabulary.audit import SessionDeleted, StreamCheckpoint
from interlock.vocabulary.events import Event, new_event
from interlock.vocabulary.ids import EventId, SessionId
from interlock.vocabulary.presenter import ReasoningDelta, TextDelta


def redacted(event: Event, redactor: Redactor) -> Event:
    """The event without secrets; the event itself where it has none."""
    data = redactor.payload(event.data)
    return event if data is event.data else structs.replace(event, data=data)


class RedactedLog:
    """A log that is given no secret. It does what the log does otherwise."""

    def __init__(self, log: Log, redactor: Redactor) -> None:
        self._log = log
        self._redactor = redactor

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        clean = [redacted(event, self._redactor) for event in events]
        return await self._log.append(session_id, clean, expected_version=expected_version)

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        return await self._log.read(session_id, after=after, limit=limit)

    async def read_turns(self, session_id: SessionId, *, last: int = 1) -> TurnSlice:
        return await self._log.read_turns(session_id, last=last)

    def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Followed, None]:
        return self._log.follow(session_id, after=after)

    def follow_all(self, *, after: int = 0) -> AsyncGenerator[Committed | LogDamage, None]:
        return self._log.follow_all(after=after)

    async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage:
        return await self._log.sessions(prefix=prefix, after=after, limit=limit)

    async def close(self) -> None:
        await self._log.close()


class RedactedFeed:
    """What is published. Live text is held back where a secret may have begun."""

    def __init__(self, publish: Callable[[Event], None], redactor: Redactor) -> None:
        self._publish = publish
        self._redactor = redactor
        self._live: dict[SessionId, LiveText] = {}

    def publish(self, event: Event) -> None:
        match event.data:
            case TextDelta() | ReasoningDelta() as delta:
                shown = self._live_text(event.session_id).delta(delta)
                if shown is not None:
                    self._publish(event if shown is delta else structs.replace(event, data=shown))
                return
            case StreamCheckpoint() as checkpoint:
                held = self._live_text(event.session_id).before_checkpoint(checkpoint)
                if held is not None:
                    self._publish(_beside(event, held))
            case SessionDeleted():
                self._live.pop(event.session_id, None)
            case _:
                pass
        self._publish(redacted(event, self._redactor))

    def _live_text(self, session_id: SessionId) -> LiveText:
        live = self._live.get(session_id)
        if live is None:
            live = self._live[session_id] = LiveText(self._redactor)
        return live


def _beside(event: Event, held: TextDelta) -> Event:
    name = EventId(f"{event.id}.held")
    return new_event(held, id=name, session_id=event.session_id, ts=event.ts, turn_id=event.turn_id)
