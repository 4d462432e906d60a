"""Presenter projection: events, live and replayed, to display items. A presenter draws them and decides nothing.

Laws:
1. Only the clean answer of a completed turn is on the `answer` channel. It is held back until the turn is closed, since
   the closing batch may still say that it failed.
2. Live text is `partial`, and labelled, until its message comes. Kept partial text is labelled too.
3. What was drawn of an attempt that died is taken back: when a stream starts again, when another takes its place, and
   when the turn ends with nothing kept of it.
4. A turn that did not complete is an `error` with its own message and its own next actions, never an older turn's.
5. Results are paired by turn, call id and occurrence. A wait or a workflow that came to less than all is not succeeded.
6. What the classifier refuses (late, of another spawn or run) is a diagnostic, and its text is not drawn.
7. An event that nobody knows how to draw is a diagnostic. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, assert_never

from msgspec import structs

from interlock.lifecycle.turn import TurnFacts, lose_owner
from interlock.lifecycle.turns import TurnFold, record_of
from interlock.projections.display import Channel, Item, Retract, Show, ShowTool, ToolKind, ToolStatus
from interlock.projections.dossier import REFUSALS
from interlock.projections.notices import diagnostic, notice
from interlock.projections.tool_outcomes import outcome_of
from interlock.vocabulary.actions import decide
from interlock.vocabulary.audit import RunState, ToolCallSuspended, TurnFailed
from interlock.vocabulary.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events import Event
from interlock.vocabulary.ids import CallId, SessionId, StreamId, TurnId
from interlock.vocabulary.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import TurnState

LIVE: Final = "live"
CUT_SHORT: Final = "partial: the turn did not complete"
UNCONFIRMED: Final = "partial: the turn has not ended"
UNVERIFIED: Final = "unverified: read off the screen"

_Key = tuple[SessionId, TurnId | None]


@dataclass(slots=True)
class _Stream:
    """How much of a live stream is drawn."""

    id: StreamId
    channel: Channel
    cursor: int = 0
    is_settled: bool = False


@dataclass(slots=True)
class _Turn:
    """What must be remembered of a turn that is being drawn."""

    held: Show | None = None
    streams: dict[Channel, _Stream] = field(default_factory=dict)
    calls: dict[tuple[CallId, int], ToolCall] = field(default_factory=dict)
    settled: set[tuple[CallId, int]] = field(default_factory=set)
    dropped: set[StreamId] = field(default_factory=set)


class Presenter:
    """Feed it every event of a session, in order, logged or not; draw what it returns."""

    def __init__(self) -> None:
        self._fold = TurnFold()
        self._turns: dict[_Key, _Turn] = {}

    def add(self, event: Event) -> list[Item]:
        """The items that an event gives rise to."""
        match event.data:
            case TextDelta() as delta:
                return list(self._delta(event, delta, Channel.PARTIAL))
            case ReasoningDelta() as delta:
                return list(self._delta(event, delta, Channel.THOUGHT))
            case _:
                return list(self._canonical(event))

    def pending(self, *, owner_alive: bool = True) -> list[Item]:
        """What is known of open turns and not drawn yet, labelled as what it is. It is not taken as drawn by this."""
        items: list[Item] = []
        for key, facts in self._fold.turns.items():
            if facts.is_terminal:
                continue
            turn = self._turn(key)
            if turn.held is not None:
                items.append(_labelled(turn.held, Channel.PARTIAL, UNCONFIRMED))
            if facts.failure is not None:
                items.append(_end(facts, facts.failure.terminal_status, "its end is not recorded"))
            elif facts.state is TurnState.ABANDONED or not owner_alive:
                items.append(_end(lose_owner(facts), TurnState.ABANDONED, "it has no end, and no owner lives"))
        return items

    def _turn(self, key: _Key) -> _Turn:
        return self._turns.setdefault(key, _Turn())

    def _canonical(self, event: Event) -> Iterator[Item]:
        known = len(self._fold.findings)
        facts = self._fold.add(event)
        refusal = next((one for one in self._fold.findings[known:] if one.kind in REFUSALS), None)
        if refusal is not None:
            yield diagnostic(event, f"not counted, {refusal.kind.value.replace('_', ' ')}: {refusal.message}")
            return
        key = (event.session_id, event.turn_id) if facts is None else (facts.session_id, facts.turn_id)
        yield from self._draw(event, self._turn(key))
        if facts is not None and facts.is_terminal:
            yield from _close(facts, self._turns.pop(key))

    def _draw(self, event: Event, turn: _Turn) -> Iterator[Item]:
        match event.data:
            case UserMessage(text=text):
                yield Show(channel=Channel.PROMPT, turn_id=event.turn_id, seq=event.seq, text=text)
            case AssistantMessage() as message:
                yield from _message(event, message, turn)
            case ToolCall() as call:
                yield from _let_go(turn, Channel.COMMENTARY)
                _settle_thought(turn)
                yield _call(event, call, turn)
            case ToolResult() as result:
                yield from _let_go(turn, Channel.COMMENTARY)
                yield _result(event, result, turn)
            case ToolCallSuspended() as asked:
                yield _tool(event, asked, ToolStatus.WAITING, asked.ticket.suspension.message)
            case RunState(status=status):
                yield from _run(event, status)
            case TurnFailed():
                pass  # drawn when the turn closes
            case _:
                yield from notice(event)

    def _delta(self, event: Event, delta: TextDelta | ReasoningDelta, channel: Channel) -> Iterator[Item]:
        key = (event.session_id, event.turn_id)
        turn = self._turn(key)
        if why_not := self._refuses(event, turn, delta.stream_id, channel):
            if delta.stream_id not in turn.dropped:
                turn.dropped.add(delta.stream_id)
                yield diagnostic(event, f"live text was dropped: {why_not}")
            return
        stream = turn.streams.get(channel)
        if stream is None or stream.id != delta.stream_id:
            yield from _take_back(event.turn_id, stream, 0, "another stream takes its place")
            stream = turn.streams[channel] = _Stream(delta.stream_id, channel)
        if delta.offset < stream.cursor:
            yield from _take_back(event.turn_id, stream, delta.offset, "the stream started again")
        elif delta.offset > stream.cursor:
            yield diagnostic(event, f"{delta.offset - stream.cursor} code points of live text did not arrive")
        stream.cursor = delta.offset + len(delta.text)
        yield Show(
            channel=channel,
            turn_id=event.turn_id,
            text=delta.text,
            label=LIVE,
            stream_id=delta.stream_id,
            offset=delta.offset,
        )

    def _refuses(self, event: Event, turn: _Turn, stream_id: StreamId, channel: Channel) -> str:
        """Why live text is not to be drawn; empty if it is."""
        facts = None if event.turn_id is None else self._fold.turns.get((event.session_id, event.turn_id))
        if facts is not None and facts.is_terminal:
            return f"the turn is already {facts.state.value}"
        if facts is not None and None not in (event.spawn_id, facts.spawn_id) and event.spawn_id != facts.spawn_id:
            return f"spawn {event.spawn_id} does not own this turn"
        stream = turn.streams.get(channel)
        is_settled = stream is not None and stream.id == stream_id and stream.is_settled
        return "its message is there already" if is_settled else ""


def present(events: Iterable[Event], *, with_partials: bool = True, owner_alive: bool = True) -> list[Item]:
    """Draw a whole history. Without partials, a transcript of what is clean, of tools and of failures is left."""
    presenter = Presenter()
    items = [item for event in events for item in presenter.add(event)]
    items += presenter.pending(owner_alive=owner_alive)
    return [item for item in items if with_partials or item.channel is not Channel.PARTIAL]


def _message(event: Event, message: AssistantMessage, turn: _Turn) -> Iterator[Item]:
    yield from _let_go(turn, Channel.COMMENTARY)
    yield from _settle_text(event, message, turn)
    _settle_thought(turn)
    shown = _text(event, message, turn)
    if message.metadata.intermediate:
        yield structs.replace(shown, channel=Channel.COMMENTARY)
    elif message.metadata.partial and not message.is_blank:
        yield _labelled(shown, Channel.PARTIAL, CUT_SHORT)
    elif not message.is_blank:
        turn.held = shown


def _settle_text(event: Event, message: AssistantMessage, turn: _Turn) -> Iterator[Item]:
    """A message ends the live text of its turn. Text that it does not stand for was of a dead attempt."""
    stream = turn.streams.get(Channel.PARTIAL)
    if stream is None:
        return
    if message.is_blank or message.metadata.stream_id not in (None, stream.id):
        yield from _take_back(event.turn_id, stream, 0, "its message does not hold it")
    stream.is_settled = True


def _settle_thought(turn: _Turn) -> None:
    """What the agent did next is proof that it had thought to an end: later thoughts do not take the place of these."""
    stream = turn.streams.get(Channel.THOUGHT)
    if stream is not None:
        stream.is_settled = True


def _take_back(turn_id: TurnId | None, stream: _Stream | None, offset: int, reason: str) -> Iterator[Item]:
    if stream is not None and not stream.is_settled and stream.cursor > offset:
        yield Retract(channel=stream.channel, turn_id=turn_id, stream_id=stream.id, offset=offset, reason=reason)


def _let_go(turn: _Turn, channel: Channel, label: str = "") -> Iterator[Item]:
    """Draw the clean text that was held back, as what it turned out to be."""
    held, turn.held = turn.held, None
    if held is not None:
        yield _labelled(held, channel, label)


def _labelled(shown: Show, channel: Channel, label: str) -> Show:
    return structs.replace(shown, channel=channel, label="; ".join(note for note in (label, shown.label) if note))


def _text(event: Event, message: AssistantMessage, turn: _Turn) -> Show:
    live = turn.streams.get(Channel.PARTIAL)
    return Show(
        channel=Channel.PARTIAL,
        turn_id=event.turn_id,
        seq=event.seq,
        text=message.text,
        label="" if message.is_verified else UNVERIFIED,
        stream_id=message.metadata.stream_id or (None if live is None else live.id),
    )


def _close(facts: TurnFacts, turn: _Turn) -> Iterator[Item]:
    for ref, call in turn.calls.items():
        if ref not in turn.settled:
            yield _unsettled(facts, call)
    stream = turn.streams.get(Channel.PARTIAL)
    yield from _take_back(facts.turn_id, stream, 0, "the turn ended, and nothing of it was kept")
    if facts.state is not TurnState.COMPLETED:
        yield from _let_go(turn, Channel.PARTIAL, CUT_SHORT)
        yield _end(facts, facts.state)
    elif turn.held is not None:
        yield structs.replace(_labelled(turn.held, Channel.ANSWER, ""), state=TurnState.COMPLETED)
    else:
        text = "completed; no text of the answer could be had"
        yield Show(
            channel=Channel.STATUS, turn_id=facts.turn_id, seq=facts.last_seq, text=text, state=TurnState.COMPLETED
        )


def _end(facts: TurnFacts, state: TurnState, note: str = "") -> Show:
    """A turn that did not complete, in its own words. The record is that of this turn, and of no other."""
    record = record_of(facts)
    message = record.error_message or record.error_kind.replace("_", " ")
    return Show(
        channel=Channel.ERROR,
        turn_id=facts.turn_id,
        seq=facts.last_seq,
        text=message or state.value.replace("_", " "),
        label=f"{state.value}: {note}" if note else state.value,
        state=state,
        error_kind=record.error_kind,
        next_actions=record.next_actions,
    )


def _run(event: Event, status: RunStatus) -> Iterator[Item]:
    match status:
        case RunStatus.RUNNING:
            yield Show(channel=Channel.STATUS, turn_id=event.turn_id, seq=event.seq, text="running")
        case RunStatus.WAITING:
            yield Show(
                channel=Channel.STATUS,
                turn_id=event.turn_id,
                seq=event.seq,
                text="waiting for a decision",
                state=TurnState.WAITING,
                next_actions=(decide(),),
            )
        case RunStatus.DONE:
            pass  # drawn when the turn closes
        case unreachable:
            assert_never(unreachable)


def _call(event: Event, call: ToolCall, turn: _Turn) -> Item:
    ref = (call.call_id, call.occurrence)
    if ref in turn.calls:
        return diagnostic(event, f"call {call.call_id} was recorded twice")
    turn.calls[ref] = call
    return _tool(event, call, ToolStatus.RUNNING)


def _result(event: Event, result: ToolResult, turn: _Turn) -> Item:
    ref = (result.call_id, result.occurrence)
    call = turn.calls.get(ref)
    if call is None or ref in turn.settled:
        what = "a second result" if call is not None else "a result"
        return diagnostic(event, f"{what} for call {result.call_id}, which nobody waits for")
    turn.settled.add(ref)
    status = ToolStatus(outcome_of(call.name, result).value)
    return _tool(event, call, status, "" if result.error is None else result.error.message)


def _tool(event: Event, call: ToolCall | ToolCallSuspended, status: ToolStatus, text: str = "") -> ShowTool:
    return ShowTool(
        channel=Channel.TOOL,
        turn_id=event.turn_id,
        seq=event.seq,
        kind=ToolKind.TOOL,
        id=call.call_id,
        occurrence=call.occurrence,
        name=call.name,
        status=status,
        text=text,
        next_actions=(decide(),) if status is ToolStatus.WAITING else (),
    )


def _unsettled(facts: TurnFacts, call: ToolCall) -> ShowTool:
    return ShowTool(
        channel=Channel.TOOL,
        turn_id=facts.turn_id,
        seq=facts.last_seq,
        kind=ToolKind.TOOL,
        id=call.call_id,
        occurrence=call.occurrence,
        name=call.name,
        status=ToolStatus.UNKNOWN,
        text="the turn ended, and no result of this call was recorded",
    )
