"""The one presenter: events, live and replayed, to display items. Whoever draws them decides nothing.

Laws:
1. Only the clean answer of a completed turn is on the `answer` channel. It is held back until the turn is closed, since
   the closing batch may still say that it failed. What the classifier takes for an answer no more is commentary.
2. Live text is `partial`, and labelled, until its message comes; `live_text` decides whose it is and when it is void.
   Kept partial text is labelled too, and its status is never `completed`.
3. What was drawn of an attempt that died is taken back: when a stream starts again, and when another takes its place.
   Live text that ended without a message is said to have broken off.
4. A turn that did not complete is an `error` with its own message and its own next actions, never an older turn's.
5. Results are paired by turn, call id and occurrence. A wait or a workflow that came to less than all is not succeeded.
   Of a call that was recorded twice, each record needs a result.
6. What the classifier refuses (late, of another spawn or run) is a diagnostic, and its text is not drawn.
7. A turn that a newer one overtook without an end holds nothing back: its text is labelled as unconfirmed.
8. A prompt that provably did not reach the agent has failed; where that is unknown, it says so.
9. An event that nobody knows how to draw is a diagnostic. Nothing here raises.
10. A turn of which events are lost is `unknown`: nothing of it is an answer, its text is labelled, and its end says
   which events cannot be read. That end stands in the place of the first lost event that no other turn's end has.
11. The next event costs the same, however long the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from msgspec import structs

from interlock.lifecycle.queue import is_progress
from interlock.lifecycle.turn import MAX_LOSSES, Finding, FindingKind, TurnFacts, lose_owner
from interlock.lifecycle.turns import TurnFold, record_of
from interlock.projections.present.display import (
    END_STATUS,
    DisplayChannel,
    Item,
    ReceiptItem,
    Show,
    ShowTool,
    ToolKind,
    ToolStatus,
)
from interlock.projections.present.live_text import UNSUPERVISED, LiveStream, StreamFold
from interlock.projections.present.notice_items import diagnostic, notice
from interlock.projections.present.tool_text import one_line, output_text, shorten
from interlock.projections.replay.tool_outcomes import outcome_of
from interlock.projections.turn_evidence import REFUSALS
from interlock.vocabulary.actions import decide
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DecisionUndelivered,
    DeliveryReceipt,
    DeliveryStage,
    PermissionBehavior,
    PermissionDecision,
    RunState,
    SessionDeleted,
    ToolCallDecided,
    ToolCallSuspended,
    TurnFailed,
)
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import IMPORTED_TURN_PREFIX, CallId, PromptId, SessionId, SpawnId, TurnId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.frames import MessageStatus, Role

CUT_SHORT: Final = "partial: the turn did not complete"
UNCONFIRMED: Final = "partial: the turn has not ended"
EVENTS_LOST: Final = "partial: events of the turn are lost"
UNVERIFIED: Final = "unverified: read off a screen"
WORDLESS: Final = "the agent finished; no text of its answer could be had"
NO_RESULT: Final = "the turn ended, and no result of this call was recorded"

_DOUBTS: Final[Mapping[DeliveryStage, tuple[MessageStatus, str]]] = {
    DeliveryStage.UNKNOWN: (MessageStatus.UNKNOWN, "it is unknown whether the agent received this"),
    DeliveryStage.NOT_DELIVERED: (MessageStatus.FAILED, "not delivered to the agent"),
}
_DECIDED: Final[Mapping[PermissionBehavior, str]] = {
    PermissionBehavior.ALLOW: "allowed",
    PermissionBehavior.DENY: "denied",
}
_Key = tuple[SessionId, TurnId | None]
_CallRef = tuple[CallId, int]
_NOBODY: Final = "no server runs this session any more"


@dataclass(slots=True)
class _Call:
    """A call as it was last drawn, and how many records of it have no result."""

    shown: ShowTool
    open: int = 1


@dataclass(slots=True)
class _Turn:
    """What must be remembered of a turn that is being drawn. `partials` is kept text that is marked partial, in order;
    `told` of those are drawn. `questions`: which call an id that a decision may name is about, and what was asked.
    `by_rule`: the calls that a rule answered, and how. `owner` is the spawn that has the turn."""

    turn_id: TurnId | None
    is_begun: bool = False
    owner: SpawnId | None = None
    held: Show | None = None
    is_held_told: bool = False
    is_lost: bool = False
    partials: list[Show] = field(default_factory=list)
    told: int = 0
    calls: dict[_CallRef, _Call] = field(default_factory=dict)
    questions: dict[str, tuple[_CallRef, str]] = field(default_factory=dict)
    by_rule: dict[_CallRef, str] = field(default_factory=dict)


class Presenter:
    """Feed it every event of a session, in order, logged or not (`add`); draw what it returns. Whoever folds the turns
    already shares that fold, and asks for `draw`."""

    def __init__(self, turns: TurnFold | None = None) -> None:
        self._fold = TurnFold() if turns is None else turns
        self._turns: dict[_Key, _Turn] = {}
        self._newest: dict[SessionId, _Key] = {}
        self._ends: dict[tuple[SessionId, int], TurnId] = {}  # of turns of which events are lost
        self._at_work: dict[tuple[SessionId, ToolKind, str, int], ShowTool] = {}
        self._prompts: dict[PromptId, int | None] = {}
        self._stages: dict[PromptId, DeliveryStage] = {}
        self._streams: dict[SessionId, StreamFold] = {}
        self._deleted: set[SessionId] = set()
        self._is_supervised = True

    def add(self, event: Event) -> list[Item]:
        """The items that an event gives rise to."""
        known = len(self._fold.findings)
        facts = self._fold.add(event)
        findings = self._fold.findings[known:]
        lost = self.doubt(event.session_id, findings, event.ts) if findings else []
        refusal = next((one for one in findings if one.kind in REFUSALS), None)
        if refusal is not None:
            return [*lost, diagnostic(event, f"not counted, {refusal.kind.value.replace('_', ' ')}: {refusal.message}")]
        return lost + self.draw(event, facts)

    def draw(self, event: Event, facts: TurnFacts | None) -> list[Item]:
        """The items of an event that the classifier counted, with its turn as it stands now; None if it has none."""
        return list(self._aside(event) if facts is None else self._of_turn(event, facts))

    def hear(self, event: Event, delta: TextDelta | ReasoningDelta) -> Iterable[Item]:
        """The items of live text: it is drawn if it is of the open turn, of the spawn that owns it, and somebody runs
        the session."""
        key, stream = self._key_of(event), self._stream(event.session_id)
        facts = None if key[1] is None else self._fold.turns.get((key[0], key[1]))
        if facts is None or (why_not := self._refuses(event, key, facts)):
            return stream.refuse(event, delta.stream_id, "it is of no turn" if facts is None else why_not)
        if isinstance(delta, TextDelta):
            return stream.hear(event, delta, facts.turn_id)
        return stream.think(event, delta, facts.turn_id)

    def set_supervised(self, session_id: SessionId, is_supervised: bool) -> list[Item]:
        """Say whether somebody runs the sessions. Where nobody does, nothing is live."""
        self._is_supervised = is_supervised
        return [] if is_supervised else list(self._stream(session_id).break_off(UNSUPERVISED, _NOBODY))

    def live(self, session_id: SessionId) -> LiveStream | None:
        """The live text that is open."""
        return self._stream(session_id).current

    def doubt(self, session_id: SessionId, findings: Iterable[Finding], at: Moment | None) -> list[Item]:
        """The items of what the classifier found, where it found that events of turns are lost."""
        items: list[Item] = []
        for one in findings:
            facts = self._fold.turns.get((session_id, one.turn_id)) if one.kind is FindingKind.EVENTS_LOST else None
            if facts is not None:
                items += self._lost(facts, self._turn((session_id, one.turn_id)), at)
        return items

    def _lost(self, facts: TurnFacts, turn: _Turn, at: Moment | None) -> Iterator[Item]:
        turn.is_lost = True
        yield from _hold_nothing(turn)
        place = self._place_of_end(facts)
        if place is not None:
            yield structs.replace(_end(facts, facts.state, "events of it are lost", at), seq=place)

    def _place_of_end(self, facts: TurnFacts) -> int | None:
        """The place of the first lost event that no other turn has taken; None where each is taken."""
        for lost in facts.lost[: MAX_LOSSES - 1]:  # the last may span events that were read: theirs is no free place
            for seq in range(lost.first_seq, (lost.last_seq or lost.first_seq) + 1):
                if self._ends.setdefault((facts.session_id, seq), facts.turn_id) == facts.turn_id:
                    return seq
        return None

    def pending(self, *, owner_alive: bool = True) -> list[Item]:
        """What is known of open turns and not drawn yet, labelled as what it is. It is not taken as drawn by this."""
        items: list[Item] = []
        for key, facts in self._fold.turns.items():
            if facts.is_terminal or facts.state is TurnState.UNKNOWN:
                continue  # drawn
            turn = self._turns.get(key)
            if turn is not None:
                items += turn.partials[turn.told :]
                items += [] if turn.held is None or turn.is_held_told else [_unconfirmed(turn.held)]
            if facts.failure is not None:
                items.append(_end(facts, facts.failure.terminal_status, "its end is not recorded"))
            elif facts.state is TurnState.ABANDONED or not owner_alive:
                items.append(_end(lose_owner(facts), TurnState.ABANDONED, "it has no end, and no owner lives"))
        return items

    def _stream(self, session_id: SessionId) -> StreamFold:
        stream = self._streams.get(session_id)
        if stream is None:
            stream = self._streams[session_id] = StreamFold()
        return stream

    def _is_live(self, session_id: SessionId) -> bool:
        """Whether anything of a session can be live at all."""
        return self._is_supervised and session_id not in self._deleted

    def _turn(self, key: _Key) -> _Turn:
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn(key[1])
        return turn

    # Events of a turn

    def _of_turn(self, event: Event, facts: TurnFacts) -> Iterator[Item]:
        key = (facts.session_id, facts.turn_id)
        turn = self._turn(key)
        if not turn.is_begun:
            turn.is_begun = True
            yield from self._overtake(key)
        is_newest = self._newest[facts.session_id] == key
        shown = [*self._draw(event, facts, turn)]
        if facts.is_terminal:
            shown += _close(event, facts, self._turns.pop(key))
        elif facts.is_over:
            shown += _close_unknown(event, self._turns.pop(key))
        elif turn.is_lost or not is_newest:
            shown += _hold_nothing(turn)
        yield from shown
        if is_newest:
            stream, is_live = self._stream(facts.session_id), self._is_live(facts.session_id)
            yield from stream.follow(event, facts, turn.owner, shown, is_live=is_live)
        turn.owner = facts.spawn_id

    def _overtake(self, key: _Key) -> Iterator[Item]:
        before = self._newest.get(key[0])
        self._newest[key[0]] = key
        turn = None if before is None else self._turns.get(before)
        if turn is not None:
            yield from _hold_nothing(turn)
        yield from self._stream(key[0]).overtake(is_open=turn is not None)

    def _draw(self, event: Event, facts: TurnFacts, turn: _Turn) -> Iterator[Item]:
        is_followed = isinstance(event.data, AssistantMessage | ToolCall | ToolResult)
        if turn.held is not None and (is_followed or facts.answer is None):
            yield _said(turn.held, DisplayChannel.COMMENTARY, Role.COMMENTARY, MessageStatus.COMPLETED)
            turn.held = None
        if is_followed:
            yield from _tell_partials(turn)
        match event.data:
            case UserMessage() as asked:
                yield self._prompt(event, asked, turn)
            case AssistantMessage() as message:
                self._stream(event.session_id).settle_thought()
                yield from _message(event, message, turn)
            case ToolCall() as call:
                self._stream(event.session_id).settle_thought()
                yield _call(event, call, turn)
            case ToolResult() as result:
                yield _result(event, result, turn)
            case RunState(status=status):
                yield from _run(event, status, turn)
            case _:
                pass  # a failure is drawn when the turn closes; the rest has nothing to draw

    def _prompt(self, event: Event, asked: UserMessage, turn: _Turn) -> Show:
        stage = None
        if asked.prompt_id is not None:
            self._prompts[asked.prompt_id] = event.seq
            stage = self._stages.get(asked.prompt_id)
        status, label = _delivered(stage)
        return Show(
            channel=DisplayChannel.PROMPT,
            turn_id=turn.turn_id,
            seq=event.seq,
            at=event.ts,
            text=asked.text,
            label=label,
            role=Role.USER,
            status=status,
            prompt_id=asked.prompt_id,
            delivery=stage if stage in _DOUBTS else None,
        )

    # Events that decide about no turn

    def _aside(self, event: Event) -> Iterator[Item]:
        match event.data:
            case TextDelta() | ReasoningDelta():
                yield from self.hear(event, event.data)
            case SessionDeleted():
                self._deleted.add(event.session_id)
                yield from notice(event)
                yield from self._stream(event.session_id).cancel()
            case DeliveryReceipt() as receipt:
                yield from self._receipt(event, receipt)
            case ToolCallSuspended():
                yield from self._question(event)
            case ToolCallDecided() | DecisionUndelivered():
                yield from self._question(event)
                yield from notice(event)
            case PermissionDecision():
                yield from self._by_rule(event, event.data)
                yield from notice(event)
            case UserMessage() | AssistantMessage() | ToolCall() | ToolResult() | TurnFailed() | RunState():
                yield diagnostic(event, f"not counted: a {event.type} that belongs to no turn")
            case _:
                for item in notice(event):
                    yield self._placed(event, item) if isinstance(item, ShowTool) else item

    def _receipt(self, event: Event, receipt: DeliveryReceipt) -> Iterator[Item]:
        prompt_id, stage = receipt.prompt_id, receipt.stage
        known = self._stages.get(prompt_id)
        if known is not None and not is_progress(known, stage):
            return
        self._stages[prompt_id] = stage
        status, label = _delivered(stage)
        yield ReceiptItem(
            channel=DisplayChannel.STATUS,
            turn_id=event.turn_id,
            seq=self._prompts.get(prompt_id),
            prompt_id=prompt_id,
            stage=stage,
            delivery=stage if stage in _DOUBTS else None,
            status=status,
            label=label,
        )

    def _question(self, event: Event) -> Iterator[Item]:
        """A question about a tool call, or its answer. Of a turn that is over, or of another spawn, it says nothing."""
        key = self._key_of(event)
        facts = None if key[1] is None else self._fold.turns.get((key[0], key[1]))
        turn = self._turns.get(key)
        if turn is None or facts is None or _is_foreign(event, facts):
            return
        match event.data:
            case ToolCallSuspended(call_id=call_id, occurrence=occurrence, ticket=ticket):
                asked = ((call_id, occurrence), ticket.suspension.message)
                turn.questions |= dict.fromkeys((call_id, ticket.suspension.id, ticket.pending.id), asked)
                yield from _move(event, turn, *asked, ToolStatus.WAITING)
            case ToolCallDecided(target_id=target, action=DecisionAction.RESUME) if target in turn.questions:
                yield from _move(event, turn, turn.questions[target][0], "", ToolStatus.RUNNING)
            case DecisionUndelivered(target_id=target) if target in turn.questions:
                yield from _move(event, turn, *turn.questions[target], ToolStatus.WAITING)
            case _:
                pass

    def _by_rule(self, event: Event, decided: PermissionDecision) -> Iterator[Item]:
        """A rule answered what the agent asked about a call: the call says so from now on."""
        turn, said = self._turns.get(self._key_of(event)), _DECIDED.get(decided.decision)
        if turn is None or said is None:
            return
        ref = (decided.call_id, decided.occurrence)
        turn.by_rule[ref] = f"{said} by rule {decided.rule or 'unknown'}"
        call = turn.calls.get(ref)
        if call is not None and call.open:
            call.shown = structs.replace(call.shown, label=turn.by_rule[ref])
            yield structs.replace(call.shown, seq=event.seq)

    def _key_of(self, event: Event) -> _Key:
        """The turn of an event that decides about none. In an imported log it is the newest."""
        if event.turn_id is not None:
            return event.session_id, event.turn_id
        newest = self._newest.get(event.session_id)
        is_imported = newest is not None and newest[1] is not None and newest[1].startswith(IMPORTED_TURN_PREFIX)
        return newest if newest is not None and is_imported else (event.session_id, None)

    def _placed(self, event: Event, item: ShowTool) -> ShowTool:
        """A child, a workflow or a step: what was said of it before stays, where this does not say otherwise."""
        key = (event.session_id, item.kind, item.id, item.occurrence)
        first = self._at_work.get(key)
        if first is None:
            placed = structs.replace(item, begun_seq=event.seq, at=event.ts)
        else:
            placed = structs.replace(
                item,
                begun_seq=first.begun_seq,
                at=first.at,
                turn_id=first.turn_id,
                asked=item.asked or first.asked,
                child_session_id=item.child_session_id or first.child_session_id,
            )
        self._at_work[key] = placed
        return placed

    # Live text

    def _refuses(self, event: Event, key: _Key, facts: TurnFacts) -> str:
        """Why live text is not to be drawn; empty if it is."""
        if facts.is_over:
            return f"the turn is already {facts.state.value if facts.is_terminal else 'over'}"
        if _is_foreign(event, facts):
            return f"spawn {event.spawn_id} does not own this turn"
        if self._newest.get(key[0]) != key:
            return "another turn began"
        return "" if self._is_live(key[0]) else _NOBODY


def present(events: Iterable[Event], *, with_partials: bool = True, owner_alive: bool = True) -> list[Item]:
    """Draw a whole history. Without partials, a transcript of what is clean, of tools and of failures is left."""
    presenter = Presenter()
    items = [item for event in events for item in presenter.add(event)]
    items += presenter.pending(owner_alive=owner_alive)
    return [item for item in items if with_partials or item.channel is not DisplayChannel.PARTIAL]


def _delivered(stage: DeliveryStage | None) -> tuple[MessageStatus, str]:
    """What a prompt's message says at a stage. That it arrives needs no words; where that is in doubt, it says so."""
    return (MessageStatus.COMPLETED, "") if stage is None else _DOUBTS.get(stage, (MessageStatus.COMPLETED, ""))


def _is_foreign(event: Event, facts: TurnFacts) -> bool:
    """Whether an event is of a spawn that does not own the turn."""
    return None not in (event.spawn_id, facts.spawn_id) and event.spawn_id != facts.spawn_id


def _message(event: Event, message: AssistantMessage, turn: _Turn) -> Iterator[Item]:
    if message.is_blank:
        return
    shown = _text(event, message, turn)
    if message.metadata.intermediate:
        yield _said(shown, DisplayChannel.COMMENTARY, Role.COMMENTARY, MessageStatus.COMPLETED)
    elif message.metadata.partial:
        turn.partials.append(_said(shown, DisplayChannel.PARTIAL, Role.ANSWER, MessageStatus.PARTIAL, CUT_SHORT))
    else:
        turn.held, turn.is_held_told = shown, False


def _tell_partials(turn: _Turn) -> Iterator[Item]:
    """Draw the partial text that was kept back until it is known what follows it."""
    yield from turn.partials[turn.told :]
    turn.told = len(turn.partials)


def _hold_nothing(turn: _Turn) -> Iterator[Item]:
    yield from _tell_partials(turn)
    if turn.held is not None and not turn.is_held_told:
        turn.is_held_told = True
        yield _unconfirmed(turn.held, EVENTS_LOST if turn.is_lost else UNCONFIRMED)


def _unconfirmed(held: Show, label: str = UNCONFIRMED) -> Show:
    return _said(held, DisplayChannel.PARTIAL, Role.ANSWER, MessageStatus.UNKNOWN, label)


def _said(shown: Show, channel: DisplayChannel, role: Role, status: MessageStatus, label: str = "") -> Show:
    """A text, as what it turned out to be."""
    labels = (label, "" if shown.is_verified else UNVERIFIED)
    return structs.replace(
        shown, channel=channel, role=role, status=status, label="; ".join(note for note in labels if note)
    )


def _text(event: Event, message: AssistantMessage, turn: _Turn) -> Show:
    return Show(
        channel=DisplayChannel.PARTIAL,
        turn_id=turn.turn_id,
        seq=event.seq,
        at=event.ts,
        text=message.text,
        stream_id=message.metadata.stream_id,
        is_verified=message.is_verified,
    )


def _close_unknown(event: Event, turn: _Turn) -> Iterator[Item]:
    """The end of a run of which events are lost: it ends what is live, and proves nothing else."""
    yield from _end_calls(event, turn)
    yield from _hold_nothing(turn)


def _end_calls(event: Event, turn: _Turn) -> Iterator[Item]:
    for call in turn.calls.values():
        if call.open:
            yield _tool(event, call.shown, ToolStatus.UNKNOWN, NO_RESULT)


def _close(event: Event, facts: TurnFacts, turn: _Turn) -> Iterator[Item]:
    yield from _end_calls(event, turn)
    status, is_completed = END_STATUS[facts.state], facts.state is TurnState.COMPLETED
    for at, partial in enumerate(turn.partials):
        if at >= turn.told or not is_completed:
            yield structs.replace(partial, status=MessageStatus.PARTIAL if is_completed else status)
    if not is_completed:
        if turn.held is not None:
            yield _said(turn.held, DisplayChannel.PARTIAL, Role.ANSWER, status, CUT_SHORT)
        yield _end(facts, facts.state, at=event.ts)
    elif turn.held is not None:
        answer = _said(turn.held, DisplayChannel.ANSWER, Role.ANSWER, MessageStatus.COMPLETED)
        yield structs.replace(answer, state=TurnState.COMPLETED)
    else:
        yield Show(
            channel=DisplayChannel.STATUS,
            turn_id=facts.turn_id,
            seq=facts.last_seq,
            at=event.ts,
            text="",
            label=WORDLESS,
            role=Role.END,
            state=TurnState.COMPLETED,
        )


def _end(facts: TurnFacts, state: TurnState, note: str = "", at: Moment | None = None) -> Show:
    """A turn that did not complete, in its own words. The record is that of this turn, and of no other."""
    record = record_of(facts)
    message = record.error_message or record.error_kind.replace("_", " ")
    return Show(
        channel=DisplayChannel.ERROR,
        turn_id=facts.turn_id,
        seq=facts.last_seq,
        at=at,
        text=message or state.value.replace("_", " "),
        label=f"{state.value}: {note}" if note else "",
        role=Role.END,
        status=END_STATUS.get(state, MessageStatus.UNKNOWN),
        state=state,
        error_kind=record.error_kind,
        next_actions=record.next_actions,
    )


def _run(event: Event, status: RunStatus, turn: _Turn) -> Iterator[Item]:
    match status:
        case RunStatus.RUNNING:
            yield Show(channel=DisplayChannel.STATUS, turn_id=turn.turn_id, seq=event.seq, text="running")
        case RunStatus.WAITING:
            yield Show(
                channel=DisplayChannel.STATUS,
                turn_id=turn.turn_id,
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
    known = turn.calls.get(ref)
    if known is not None:
        known.open += 1
        return diagnostic(event, f"call {call.call_id} was recorded twice")
    shown = ShowTool(
        channel=DisplayChannel.TOOL,
        turn_id=turn.turn_id,
        seq=event.seq,
        at=event.ts,
        kind=ToolKind.TOOL,
        id=call.call_id,
        occurrence=call.occurrence,
        name=call.name,
        status=ToolStatus.RUNNING,
        asked=one_line(call.args),
        begun_seq=event.seq,
        label=turn.by_rule.get(ref, ""),
    )
    turn.calls[ref] = _Call(shown)
    return shown


def _result(event: Event, result: ToolResult, turn: _Turn) -> Item:
    call = turn.calls.get((result.call_id, result.occurrence))
    if call is None or not call.open:
        what = "a second result" if call is not None else "a result"
        return diagnostic(event, f"{what} for call {result.call_id}, which is not awaited")
    call.open -= 1
    status = ToolStatus(outcome_of(call.shown.name, result).value)
    error = result.error
    if error is not None:
        return _tool(event, call.shown, status, error.message, error.kind)
    return _tool(event, call.shown, status, output_text(result.output))


def _move(event: Event, turn: _Turn, ref: _CallRef, question: str, status: ToolStatus) -> Iterator[Item]:
    call = turn.calls.get(ref)
    if call is not None and call.open:
        yield _tool(event, call.shown, status, question)


def _tool(event: Event, shown: ShowTool, status: ToolStatus, text: str = "", error_kind: str = "") -> ShowTool:
    """A call in another state."""
    return structs.replace(
        shown,
        seq=event.seq,
        status=status,
        text=shorten(text),
        text_length=len(text),
        error_kind=error_kind,
        next_actions=(decide(),) if status is ToolStatus.WAITING else (),
    )
