"""The order of a conversation: every call paired, nothing between a call and its result that could part them.

Laws:
1. What is placed stays. Only items beyond `placed`, which stand in for what is not yet known, can still change.
2. A round is output of the agent (text, reasoning, calls), then the results of all its calls. Whatever else arrives
   while a call is open (a subagent's fact, a prompt of the same turn, output after the first result) waits in line.
3. A prompt of another turn closes every open call with one synthetic result. A real result that comes later is left
   out: the model has been told otherwise, and what it was told is not taken back.
4. A call is known by its turn, call id and occurrence. One that repeats an open call, and a result without one, are
   left out. A key whose call is answered may be used again: then position decides. A call of another turn that bears
   the id of an open one waits too, so that a provider, which sees no turns, never meets two open calls of one id.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from interlock.lifecycle.decisions.toolcall import EndKind
from interlock.projections.replay.items import ReplayItem, ResultItem, item_of
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    Reasoning,
    ToolCall,
    ToolError,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import CallId, TurnId

ORPHAN: Final = ToolError(
    kind=EndKind.ORPHAN_TOOL_CALL.value, message="no result of this call was recorded; it may have run"
)


class LeftOut(StrEnum):
    """Why a replay event has no item in this conversation."""

    BLANK_MESSAGE = "blank_message"
    OTHER_MODEL = "other_model"
    REPEATED_CALL = "repeated_call"
    LATE_RESULT = "late_result"
    RESULT_WITHOUT_CALL = "result_without_call"
    LATE_EVENT = "late_event"
    STALE_SPAWN = "stale_spawn"


class Placed(NamedTuple):
    """An item and the position of the event that it came from; for a synthetic result, of the call."""

    item: ReplayItem
    position: int


_Key: TypeAlias = tuple[TurnId | None, CallId, int]
_Arrival: TypeAlias = tuple[int, Event]


class Conversation:
    """Replay events of one session, taken one by one. The cost of the next one does not depend on how many came."""

    def __init__(self, *, model: str = "", dialect: str = "") -> None:
        self.placed: list[Placed] = []
        self.left_out: list[tuple[int, LeftOut]] = []
        self._model, self._dialect = model, dialect
        self._open: dict[_Key, tuple[int, ToolCall]] = {}
        self._open_ids: set[tuple[CallId, int]] = set()
        self._is_answering = False  # the round's output is over: only results are placed until each call has one
        self._line: deque[_Arrival] = deque()
        self._asked_in_line: set[_Key] = set()
        self._answers_in_line: dict[_Key, deque[_Arrival]] = {}
        self._orphaned: set[_Key] = set()

    @property
    def is_settled(self) -> bool:
        """Whether every item is placed for good: no call is open, and so nothing waits."""
        return not self._open

    def take(self, position: int, event: Event) -> None:
        """Take the next replay event, any but a compaction. Never raises on what a log may hold."""
        reason = self._refusal(event)
        if reason is not None:
            self.left_out.append((position, reason))
        elif isinstance(event.data, ToolResult):
            self._take_result(position, event, event.data)
        elif self._open and self._begins_another_turn(event):
            self.settle()
            self._place(position, event)
        elif self._must_wait(event):
            self._line_up(position, event)
        else:
            self._place(position, event)

    def settle(self) -> None:
        """Close every open call with a synthetic result, and place all that waited."""
        while self._open:
            for key, (position, call) in list(self._open.items()):
                self._orphaned.add(key)
                self._close(key, orphan_result(call), position)
            self._move_up()

    def closing(self) -> list[Placed]:
        """What `settle` would place, without settling: the rest of the input if it is taken now."""
        if not self._open:
            return []
        trial = Conversation(model=self._model, dialect=self._dialect)
        trial._open, trial._open_ids, trial._is_answering = dict(self._open), set(self._open_ids), self._is_answering
        trial._line = deque(self._line)
        trial._answers_in_line = {key: deque(answers) for key, answers in self._answers_in_line.items()}
        trial.settle()
        return trial.placed

    def _refusal(self, event: Event) -> LeftOut | None:
        match event.data:
            case AssistantMessage() as message if message.is_blank:
                return LeftOut.BLANK_MESSAGE
            case Reasoning(model=model, dialect=dialect) if (model, dialect) != (self._model, self._dialect):
                return LeftOut.OTHER_MODEL
            case ToolCall() as call if (key := _key(event, call)) in self._open or key in self._asked_in_line:
                return LeftOut.REPEATED_CALL
            case _:
                return None

    def _begins_another_turn(self, event: Event) -> bool:
        if not isinstance(event.data, UserMessage):
            return False
        return event.turn_id is None or all(turn_id != event.turn_id for turn_id, _, _ in self._open)

    def _must_wait(self, event: Event) -> bool:
        if not self._open or self._is_answering:
            return bool(self._open)
        if isinstance(event.data, ToolCall):
            return (event.data.call_id, event.data.occurrence) in self._open_ids
        return not isinstance(event.data, AssistantMessage | Reasoning)

    def _line_up(self, position: int, event: Event) -> None:
        self._line.append((position, event))
        if isinstance(event.data, ToolCall):
            self._asked_in_line.add(_key(event, event.data))
            self._is_answering = True  # what follows this call must not overtake it

    def _take_result(self, position: int, event: Event, result: ToolResult) -> None:
        key = _key(event, result)
        if key in self._open:
            self._close(key, item_of(result), position)
            self._move_up()
        elif key in self._asked_in_line:
            self._asked_in_line.discard(key)
            self._line.append((position, event))
            self._answers_in_line.setdefault(key, deque()).append((position, event))
        else:
            is_late = key in self._orphaned
            self.left_out.append((position, LeftOut.LATE_RESULT if is_late else LeftOut.RESULT_WITHOUT_CALL))

    def _place(self, position: int, event: Event) -> None:
        self.placed.append(Placed(item_of(event.data), position))
        if isinstance(event.data, ToolCall):
            key = _key(event, event.data)
            if key not in self._answers_in_line:  # else the mark is that of a later call of the same key
                self._asked_in_line.discard(key)
            self._open[key] = (position, event.data)
            self._open_ids.add(key[1:])

    def _close(self, key: _Key, result: ReplayItem, position: int) -> None:
        del self._open[key]
        self._open_ids.discard(key[1:])
        self._is_answering = bool(self._open)
        self.placed.append(Placed(result, position))

    def _move_up(self) -> None:
        """Place what waits, as far as the open calls allow."""
        while self._line:
            position, event = self._line[0]
            if isinstance(event.data, ToolResult):
                self._line.popleft()
                self._answer_from_line(_key(event, event.data), up_to=position)
            elif not self._must_wait(event):
                self._line.popleft()
                self._place(position, event)
            else:
                for key in list(self._open):
                    self._answer_from_line(key)
                if self._open:
                    self._is_answering = True  # nor may what comes next overtake what waits
                    return

    def _answer_from_line(self, key: _Key, up_to: int | None = None) -> None:
        """Close an open call by its result in line, if that came. A result that was used ahead of its turn is spent."""
        answers = self._answers_in_line.get(key)
        if not answers or (up_to is not None and answers[0][0] > up_to):
            return
        position, event = answers.popleft()
        if not answers:
            del self._answers_in_line[key]
        self._close(key, item_of(event.data), position)


def orphan_result(call: ToolCall) -> ResultItem:
    """What stands in for a result that nobody recorded."""
    return ResultItem(call_id=call.call_id, ok=False, error=ORPHAN, occurrence=call.occurrence, synthetic=True)


def _key(event: Event, data: ToolCall | ToolResult) -> _Key:
    return event.turn_id, data.call_id, data.occurrence
