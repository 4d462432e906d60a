"""Which replay events the model is not given because the classifier refuses them: the fence of `lifecycle.turn`.

Laws:
1. A turn is closed by the end of its run (`run_state done`), and owned by the spawn that `turn_started` names, or else
   by the first spawn that speaks in it. What comes after the end, and what another spawn says, is out.
2. No other audit event counts here: a failure, a checkpoint, usage or an exit neither opens nor closes the fence.
   A turn whose run is not logged has no recorded end, so none of its text is late.
3. What was let through stays: a later end, or a new owner, takes nothing back.
4. A synthetic result is let through: it repairs a call that a dead runtime left open, also after its turn's end.
"""

from __future__ import annotations

from typing import Final

from interlock.lifecycle.turn import FindingKind, refusal_kind
from interlock.vocabulary.events.audit import RunState, TurnStarted
from interlock.vocabulary.events.conversation import AssistantMessage, Reasoning, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event, audience
from interlock.vocabulary.events.registry import Audience, PayloadClass
from interlock.vocabulary.ids import RunId, SessionId, SpawnId, TurnId
from interlock.vocabulary.run import RunStatus

_SPEECH: Final[frozenset[PayloadClass]] = frozenset({UserMessage, AssistantMessage, Reasoning, ToolCall, ToolResult})
_RECORDS: Final[frozenset[PayloadClass]] = frozenset({TurnStarted, RunState})


class _FencedTurn:
    """What the fence remembers of one turn."""

    __slots__ = ("is_closed", "run_id", "spawn_id")

    def __init__(self) -> None:
        self.is_closed = False
        self.spawn_id: SpawnId | None = None
        self.run_id: RunId | None = None

    def take(self, event: Event) -> FindingKind | None:
        refused = refusal_kind(event, is_terminal=self.is_closed, spawn_id=self.spawn_id, run_id=self.run_id)
        if refused is not None:
            return refused
        data = event.data
        if event.spawn_id is not None and (self.spawn_id is None or isinstance(data, TurnStarted)):
            self.spawn_id = event.spawn_id
        if isinstance(data, RunState):
            self.run_id, self.is_closed = data.run_id, data.status is RunStatus.DONE
        return None


class ReplayFence:
    """Fed every event of a log in order. The cost of the next event does not depend on history."""

    def __init__(self) -> None:
        self._turns: dict[tuple[SessionId, TurnId], _FencedTurn] = {}
        self._imported: dict[SessionId, _FencedTurn] = {}  # without turn ids, position decides

    def refuses(self, event: Event) -> FindingKind | None:
        """Why this event is not for the model, or None. Asked once for each event."""
        kind = type(event.data)
        if kind not in _RECORDS and (kind not in _SPEECH or audience(event) is not Audience.REPLAY):
            return None
        refused = self._turn(event).take(event)
        is_repair = isinstance(event.data, ToolResult) and event.data.synthetic
        return None if is_repair or kind in _RECORDS else refused

    def _turn(self, event: Event) -> _FencedTurn:
        session_id = event.session_id
        if event.turn_id is None:
            if isinstance(event.data, UserMessage) or session_id not in self._imported:
                self._imported[session_id] = _FencedTurn()
            return self._imported[session_id]
        turn = self._turns.get((session_id, event.turn_id))
        if turn is None:
            turn = self._turns[session_id, event.turn_id] = _FencedTurn()
            self._imported.pop(session_id, None)
        return turn
