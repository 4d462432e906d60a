"""The server of a simulation: a log in memory, the real rooms and views over it, and runtimes that write.

Laws:
1. What is appended is durable; it is published after that, one event at a time and in order, if the server lives.
2. A kill loses rooms, views, live text and what was not published yet. A restart reads the log, without an owner at
   first, and then each session is recovered.
3. Every status that any view of this server ever had is remembered by its version: it is what a client may show.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random

from interlock.server.live.rooms import Rooms
from interlock.testing.clock import VirtualClock
from interlock.testing.scribe import EPOCH
from interlock.testing.sim.session import SimulatedSession
from interlock.testing.sim.weather import Fault
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, SessionId, SpawnId, StreamId, TurnId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.frames import RuntimeCheck


class SimulatedServer:
    """`rooms` is None while nothing serves. `on_kill` is called with every connection's end still to be told."""

    def __init__(
        self, clock: VirtualClock, chance: Random, tally: Counter[Fault], trace: Callable[[str], None]
    ) -> None:
        self.rooms: Rooms | None = None
        self.is_recovered = False
        self.sessions: dict[SessionId, SimulatedSession] = {}
        self.logs: dict[SessionId, list[Event]] = {}
        self.statuses: dict[SessionId, dict[int, set[tuple[TaskStatus | None, TurnId | None]]]] = {}
        self.texts: dict[StreamId, list[str]] = defaultdict(list)
        self._clock = clock
        self._chance = chance
        self._tally = tally
        self._trace = trace
        self._outgoing: deque[Event] = deque()
        self._is_publishing = False
        self._pause_chance = 0.15
        self._numbers = 0
        self._life = 0

    # The log

    def open_session(self, task_id: SessionId) -> None:
        self.logs[task_id] = []
        self.statuses[task_id] = defaultdict(set)
        session = self.sessions[task_id] = SimulatedSession(task_id, self, self._chance)
        session.open()

    def append(self, task_id: SessionId, payloads: list[Payload], turn: TurnId | None, spawn: SpawnId | None) -> None:
        """One atomic append."""
        log = self.logs[task_id]
        events = [
            self._stamp(task_id, payload, len(log) + place, turn, spawn) for place, payload in enumerate(payloads, 1)
        ]
        log += events
        for event in events:
            self.sessions[task_id].fold(event)
        self._send_out(events)

    def show(self, task_id: SessionId, payload: Payload, turn: TurnId | None, spawn: SpawnId | None) -> None:
        """Live, and kept nowhere."""
        self._send_out([self._stamp(task_id, payload, None, turn, spawn)])

    def _stamp(
        self, task_id: SessionId, payload: Payload, seq: int | None, turn: TurnId | None, spawn: SpawnId | None
    ) -> Event:
        self._numbers += 1
        return new_event(
            payload,
            id=EventId(f"evt_{self._numbers}"),
            session_id=task_id,
            seq=seq,
            ts=EPOCH + timedelta(seconds=self._clock()),
            turn_id=turn,
            spawn_id=spawn,
        )

    # Publishing

    def _send_out(self, events: Iterable[Event]) -> None:
        self._outgoing.extend(events)
        if not self._is_publishing:
            self._publish()

    def _publish(self) -> None:
        """Tell the rooms, sometimes with a pause in which others ask for what is half told."""
        self._is_publishing = False
        while self._outgoing and self.rooms is not None:
            event = self._outgoing.popleft()
            self.rooms.publish(event)
            self._note(event.session_id)
            if self._outgoing and self._chance.random() < self._pause_chance:
                self._is_publishing = True
                self._publish_later(self._life)
                return

    def _publish_later(self, life: int) -> None:
        def go_on() -> None:
            if life == self._life:
                self._publish()

        self._clock.call_at(self._clock() + self._chance.random(), go_on)

    def flush(self) -> None:
        """Publish all that waits, and from now on without pauses."""
        self._pause_chance = 0.0
        self._life += 1
        self._publish()

    def _note(self, task_id: SessionId) -> None:
        """Remember what may be shown."""
        if self.rooms is None:
            return
        view = self.rooms.views[task_id]
        check = view.check()
        self.statuses[task_id][view.version].add((check.task_status, check.turn_id))
        stream = view.snapshot(after_version=view.version).stream
        if stream is not None:
            known = self.texts[stream.stream_id]
            if known and stream.text.startswith(known[-1]):
                known[-1] = stream.text
            else:
                known.append(stream.text)

    # Life and death

    def start(self) -> None:
        """Read the log. Nobody runs anything until `recover`."""
        self.rooms = Rooms()
        self.is_recovered = False
        self._life += 1
        for task_id, log in self.logs.items():
            self.rooms.load(task_id, log, is_supervised=False)
            self._note(task_id)

    def recover(self) -> None:
        """Take up every session, one way or the other."""
        if self.rooms is None or self.is_recovered:
            return
        self.is_recovered = True
        for task_id, session in self.sessions.items():
            is_adopted = self._chance.random() < 0.4
            if session.turn is not None:
                self._tally[Fault.TURN_ADOPTED if is_adopted else Fault.TURN_ABANDONED] += 1
            if is_adopted or self._chance.random() < 0.5:
                self._supervise(task_id)
                session.recover(is_adopted=is_adopted)
            else:
                session.recover(is_adopted=is_adopted)
                self._supervise(task_id)

    def _supervise(self, task_id: SessionId) -> None:
        if self.rooms is not None:
            self.rooms.set_supervised(task_id, True)
            self._note(task_id)

    def kill(self) -> None:
        self._tally[Fault.SERVER_KILLED] += 1
        if any(event.seq is not None for event in self._outgoing):
            self._tally[Fault.KILLED_BEFORE_PUBLISH] += 1
        self._trace(f"server killed with {len(self._outgoing)} events not published")
        self.rooms = None
        self._outgoing.clear()
        self._is_publishing = False
        self._life += 1

    # Asking it

    def check(self, task_id: SessionId) -> RuntimeCheck | None:
        """What the HTTP route answers; None while nothing serves."""
        return None if self.rooms is None else self.rooms.views[task_id].check()
