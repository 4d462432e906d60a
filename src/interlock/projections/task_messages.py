"""The transcript of a task: what the log says, as messages of which each says how far to trust it.

Laws:
1. A clean text is an answer only where the classifier counted it as one and closed the turn as completed. Until then
   it is held back. What something else followed is commentary.
2. Text of a turn that did not complete, and text that is marked partial, is never `completed`.
3. A message is known by the `seq` of its event. Whatever changes it gives it a higher version and tells it again.
4. A turn that left no clean answer has one `end`, in its own words.
5. Nothing is cut but the line that sums up a tool's arguments.
6. The next event costs the same, however long the history.

Give it only what the classifier counted: what it refused is in no transcript.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from interlock.lifecycle.turn import TurnFacts
from interlock.lifecycle.turns import record_of
from interlock.projections.task_tool_lines import one_line
from interlock.projections.tool_outcomes import ToolOutcome, outcome_of
from interlock.vocabulary.audit import DecisionAction, ToolCallDecided, ToolCallSuspended
from interlock.vocabulary.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events import Event
from interlock.vocabulary.frames import Message, MessageStatus, Role
from interlock.vocabulary.ids import CallId, TurnId
from interlock.vocabulary.states import TurnState

END_STATUS: Final[Mapping[TurnState, MessageStatus]] = {
    TurnState.COMPLETED: MessageStatus.COMPLETED,
    TurnState.PARTIAL_FAILED: MessageStatus.PARTIAL,
    TurnState.FAILED: MessageStatus.FAILED,
    TurnState.INTERRUPTED: MessageStatus.CANCELLED,
    TurnState.TIMED_OUT: MessageStatus.TIMED_OUT,
}
_TOOL_STATUS: Final[Mapping[ToolOutcome, MessageStatus]] = {
    ToolOutcome.SUCCEEDED: MessageStatus.COMPLETED,
    ToolOutcome.PARTIAL: MessageStatus.PARTIAL,
    ToolOutcome.FAILED: MessageStatus.FAILED,
    ToolOutcome.CANCELLED: MessageStatus.CANCELLED,
    ToolOutcome.UNKNOWN: MessageStatus.UNKNOWN,
}

PAGE_CHARACTERS: Final = 4_000_000
"""How much text a page may hold: a client must be able to take it as one frame. A longer text is a page by itself."""

_CallRef = tuple[CallId, int]


@dataclass(slots=True)
class _Turn:
    """What must be remembered of an open turn. `calls`: the messages of calls without a result, the newest last."""

    answer: Message | None = None
    partials: list[Message] = field(default_factory=list)
    calls: dict[_CallRef, list[int]] = field(default_factory=dict)
    tickets: dict[str, _CallRef] = field(default_factory=dict)


class Transcript:
    """Every message, by id. Methods give the messages that are new or changed, in the order to tell them."""

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}
        self._ids: list[int] = []
        self._changes: list[tuple[int, int]] = []  # (version, id), as they came
        self._turns: dict[TurnId, _Turn] = {}
        self._version = 0

    def add(self, event: Event, facts: TurnFacts) -> list[Message]:
        """Fold an event of a turn, with the turn as it stands after it."""
        self._version = event.seq or self._version
        turn = self._turns.setdefault(facts.turn_id, _Turn())
        told = list(self._let_go(facts, turn))
        if isinstance(event.data, AssistantMessage | ToolCall | ToolResult):
            told += self._tell_partials(turn)
        told += self._draw(event, facts, turn)
        if facts.is_terminal:
            told += self._close(event, facts, self._turns.pop(facts.turn_id))
        return told

    def ask(self, event: Event, turn_id: TurnId) -> list[Message]:
        """Fold a question about a tool call, or its answer."""
        self._version = event.seq or self._version
        turn = self._turns.get(turn_id)
        match event.data:
            case ToolCallSuspended(call_id=call_id, occurrence=occurrence, ticket=ticket) if turn is not None:
                ref = (call_id, occurrence)
                turn.tickets |= dict.fromkeys((call_id, ticket.suspension.id, ticket.pending.id), ref)
                return list(self._move_call(turn, ref, MessageStatus.WAITING))
            case ToolCallDecided(target_id=target, action=DecisionAction.RESUME) if turn is not None:
                known = turn.tickets.get(target)
                return [] if known is None else list(self._move_call(turn, known, MessageStatus.RUNNING))
            case _:
                return []

    def overtake(self, turn_id: TurnId, seq: int) -> list[Message]:
        """A newer turn began, and this one has no end: what was held back of it is told as what it is, unknown."""
        turn, self._version = self._turns.get(turn_id), seq
        if turn is None:
            return []
        told = list(self._tell_partials(turn))
        if turn.answer is not None:
            told += self._put(structs.replace(turn.answer, status=MessageStatus.UNKNOWN))
        return told

    def get(self, message_id: int) -> Message | None:
        return self._messages.get(message_id)

    def __len__(self) -> int:
        return len(self._ids)

    def since(self, version: int) -> tuple[Message, ...]:
        """What is new or changed after a version, in order."""
        changed = self._changes[bisect_right(self._changes, version, key=lambda change: change[0]) :]
        return tuple(self._messages[one] for one in sorted({message_id for _, message_id in changed}))

    def page(self, before: int | None, limit: int) -> tuple[tuple[Message, ...], int | None]:
        """The newest messages older than `before`, in order, and the cursor of the next older page."""
        end = len(self._ids) if before is None else bisect_left(self._ids, before)
        page: list[Message] = []
        characters = 0
        for message_id in reversed(self._ids[max(0, end - max(1, limit)) : end]):
            message = self._messages[message_id]
            characters += len(message.text)
            if page and characters > PAGE_CHARACTERS:
                break
            page.append(message)
        is_first = len(page) == end
        return tuple(reversed(page)), None if is_first else page[-1].message_id

    def _put(self, message: Message) -> Iterator[Message]:
        """Keep a message, and tell it if it says something new."""
        known = self._messages.get(message.message_id)
        if known is not None and structs.replace(message, version=known.version) == known:
            return
        if known is None:
            insort(self._ids, message.message_id)
        told = structs.replace(message, version=self._version)
        self._messages[message.message_id] = told
        self._changes.append((self._version, message.message_id))
        yield told

    def _let_go(self, facts: TurnFacts, turn: _Turn) -> Iterator[Message]:
        """Tell a held text that the classifier takes for an answer no more."""
        held = turn.answer
        if held is not None and (facts.answer is None or facts.answer.proof.seq != held.message_id):
            turn.answer = None
            yield from self._put(structs.replace(held, role=Role.COMMENTARY, status=MessageStatus.COMPLETED))

    def _tell_partials(self, turn: _Turn) -> Iterator[Message]:
        for partial in turn.partials:
            yield from self._put(partial)

    def _draw(self, event: Event, facts: TurnFacts, turn: _Turn) -> Iterator[Message]:
        match event.data:
            case UserMessage(text=text, prompt_id=prompt_id):
                asked = _message(event, facts, Role.USER, MessageStatus.COMPLETED, text)
                yield from self._put(structs.replace(asked, prompt_id=prompt_id))
            case AssistantMessage() as said if not said.is_blank:
                yield from self._draw_text(event, facts, turn, said)
            case ToolCall(call_id=call_id, occurrence=occurrence, name=name, args=args):
                call = _message(event, facts, Role.TOOL, MessageStatus.RUNNING, one_line(args))
                turn.calls.setdefault((call_id, occurrence), []).append(call.message_id)
                yield from self._put(structs.replace(call, name=name))
            case ToolResult() as result:
                yield from self._settle_call(turn, result)
            case _:
                pass

    def _draw_text(self, event: Event, facts: TurnFacts, turn: _Turn, said: AssistantMessage) -> Iterator[Message]:
        text = structs.replace(
            _message(event, facts, Role.ANSWER, MessageStatus.PARTIAL, said.text),
            stream_id=said.metadata.stream_id,
            is_verified=said.is_verified,
        )
        if said.metadata.intermediate:
            yield from self._put(structs.replace(text, role=Role.COMMENTARY, status=MessageStatus.COMPLETED))
        elif said.metadata.partial:
            turn.partials.append(text)
        else:
            turn.answer = text

    def _move_call(self, turn: _Turn, ref: _CallRef, status: MessageStatus) -> Iterator[Message]:
        for message_id in turn.calls.get(ref, ())[-1:]:
            yield from self._put(structs.replace(self._messages[message_id], status=status))

    def _settle_call(self, turn: _Turn, result: ToolResult) -> Iterator[Message]:
        """The newest call of that name is settled, as the classifier does it. A result of no call settles nothing."""
        ref = (result.call_id, result.occurrence)
        for message_id in turn.calls.get(ref, ())[-1:]:
            name = self._messages[message_id].name
            yield from self._move_call(turn, ref, _TOOL_STATUS[outcome_of(name, result)])
            turn.calls[ref].pop()

    def _close(self, event: Event, facts: TurnFacts, turn: _Turn) -> Iterator[Message]:
        for ref, message_ids in turn.calls.items():
            while message_ids:
                yield from self._move_call(turn, ref, MessageStatus.UNKNOWN)
                message_ids.pop()
        status = END_STATUS[facts.state]
        is_completed = facts.state is TurnState.COMPLETED
        for partial in turn.partials:
            yield from self._put(structs.replace(partial, status=MessageStatus.PARTIAL if is_completed else status))
        if turn.answer is not None:
            yield from self._put(structs.replace(turn.answer, status=status))
        if not is_completed or turn.answer is None:
            record = record_of(facts)
            end = _message(event, facts, Role.END, status, record.error_message)
            yield from self._put(
                structs.replace(end, error_kind=record.error_kind, next_actions=record.next_actions),
            )


def is_page(messages: tuple[Message, ...], limit: int) -> bool:
    """Whether so many messages may be told at once."""
    return len(messages) <= max(1, limit) and sum(len(one.text) for one in messages) <= PAGE_CHARACTERS


def _message(event: Event, facts: TurnFacts, role: Role, status: MessageStatus, text: str) -> Message:
    return Message(
        message_id=event.seq or 0,
        version=event.seq or 0,
        role=role,
        status=status,
        text=text,
        at=event.ts,
        turn_id=facts.turn_id,
    )
