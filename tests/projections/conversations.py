"""Logs that hang together: turns as the runtime writes them, with tool rounds, failures, children, compactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st
from msgspec import structs

from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.turns import fold_turns
from interlock.projections.replay.compaction import CompactionPlan, plan_compaction
from interlock.projections.replay.items import (
    AssistantText,
    CallItem,
    CompactionMemory,
    ReasoningItem,
    ReplayItem,
    ResultItem,
)
from interlock.testing.scribe import Scribe
from interlock.testing.strategies import TEXT, events, structs_of
from interlock.vocabulary.events.audit import Anomaly, ProviderUsage, StreamCheckpoint, TurnFailed, TurnStarted
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    HistoryCompaction,
    MessageMetadata,
    MessageSource,
    Reasoning,
    SeqRange,
    SubagentEvent,
    ToolCall,
    ToolError,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, UnknownEvent, audience
from interlock.vocabulary.events.registry import Audience, Json, Payload
from interlock.vocabulary.ids import CallId, RunId, SessionId, StreamId, SubagentId, TurnId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, StopCode, TerminationReason
from interlock.vocabulary.states import DriverKind, SubagentState, TurnState

PARTIAL = AssistantMessage(text="half an ans", metadata=MessageMetadata(partial=True))
UNVERIFIED = AssistantMessage(text="off a screen", metadata=MessageMetadata(source=MessageSource.SURFACE))
FAILURE = TurnFailed(terminal_status=TurnState.FAILED, error_kind="network", error_message="gone")
HIDDEN_FACT = SubagentEvent(subagent_id=SubagentId("sub_0"), status=SubagentState.COMPLETED, summary="not for you")
AUDIT: Sequence[Payload] = (
    ProviderUsage(model="m", input_tokens=3),
    Anomaly(kind="odd"),
    StreamCheckpoint(stream_id=StreamId("st"), offset=4, text="half"),
    PARTIAL,
    UNVERIFIED,
    FAILURE,
    HIDDEN_FACT,
)


def user(text: str = "do it") -> UserMessage:
    return UserMessage(text=text)


def said(text: str = "done", *, intermediate: bool = False) -> AssistantMessage:
    return AssistantMessage(text=text, metadata=MessageMetadata(intermediate=intermediate))


def call(call_id: str = "a", *, occurrence: int = 1, name: str = "bash", path: str = "") -> ToolCall:
    args: Json = {"path": path} if path else None
    return ToolCall(call_id=CallId(call_id), name=name, args=args, occurrence=occurrence)


def result(call_id: str = "a", *, occurrence: int = 1, output: str = "ok") -> ToolResult:
    return ToolResult(call_id=CallId(call_id), ok=True, output=output, occurrence=occurrence)


def fact(summary: str = "child is done", status: SubagentState = SubagentState.COMPLETED) -> SubagentEvent:
    return SubagentEvent(subagent_id=SubagentId("sub_1"), status=status, summary=summary, model_visible=True)


def thought(model: str = "m", dialect: str = "") -> Reasoning:
    return Reasoning(item={"opaque": [1, 2.5]}, model=model, dialect=dialect)


def compaction(to_seq: int, summary: str = "so far") -> HistoryCompaction:
    return HistoryCompaction(range=SeqRange(from_seq=1, to_seq=to_seq), summary=summary, strategy="s")


def close_turn(scribe: Scribe, turn: str, reason: TerminationReason = NATURAL_END, text: str = "done") -> None:
    """End a turn by the batch that the runtime would write."""
    facts = fold_turns(scribe.events).turns[scribe.session, TurnId(turn)]
    seconds = 1.0 if reason.stop_code == StopCode.TIMEOUT else None
    run_id = RunId(f"run_{turn}")
    ending = Ending(run_id=run_id, reason=reason, text=text, budget_seconds=seconds, elapsed_seconds=seconds)
    scribe.write(*closing_batch(facts, ending), turn=turn)


def whole_turn(scribe: Scribe, turn: str, text: str = "done") -> None:
    """A turn with one tool round that completes: eight events, of which four are replayed."""
    start = (TurnStarted(driver=DriverKind.MODEL), user(f"prompt of {turn}"))
    scribe.write(*start, call(path="src/x.py"), ProviderUsage(model="m"), result(), turn=turn)
    scribe.write(Anomaly(kind="odd"))
    close_turn(scribe, turn, text=text)


def check_rounds(items: Iterable[ReplayItem]) -> None:
    """Every call has one result; from the first result of a round to its last there is nothing else."""
    waiting: list[tuple[str, int]] = []
    is_answering = False
    for index, item in enumerate(items):
        match item:
            case CallItem(call_id=call_id, occurrence=occurrence):
                assert not is_answering
                assert (call_id, occurrence) not in waiting
                waiting.append((call_id, occurrence))
            case ResultItem(call_id=call_id, occurrence=occurrence):
                waiting.remove((call_id, occurrence))
                is_answering = bool(waiting)
            case AssistantText() | ReasoningItem():
                assert not is_answering
            case CompactionMemory():
                assert index == 0
            case _:
                assert not waiting
    assert not waiting


ENDINGS = st.sampled_from(
    [
        NATURAL_END,
        NATURAL_END,
        CANCELLED,
        TerminationReason.error("provider is gone"),
        TerminationReason.stopped(StopCode.TIMEOUT),
        TerminationReason.stopped(StopCode.MAX_ROUNDS),
        None,  # the runtime dies here
    ]
)
NOISE = st.sampled_from(AUDIT)
THOUGHTS = st.builds(thought, st.sampled_from(["m", "other"]), st.sampled_from(["", "dialect"]))
TEXTS = st.builds(lambda text: said(text, intermediate=True), TEXT)
FACTS = st.builds(fact, TEXT, st.sampled_from(SubagentState))


@st.composite
def rounds(draw: st.DrawFn, used: dict[str, int]) -> list[Payload]:
    """Output with calls, then their results in any order, most of them, with whatever may come in between."""
    calls: list[ToolCall] = []
    for call_id in draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3)):
        used[call_id] = used.get(call_id, 0) + 1
        calls.append(call(call_id, occurrence=used[call_id], path=draw(st.sampled_from(["", "src/x.py"]))))
    output: list[Payload] = []
    for each in calls:
        output += [*draw(st.lists(THOUGHTS | TEXTS | NOISE, max_size=2)), each]
    some = draw(st.lists(st.sampled_from(calls), unique_by=lambda one: (one.call_id, one.occurrence)))
    error = ToolError(kind="exit", message="1")
    results = [
        result(one.call_id, occurrence=one.occurrence, output=draw(TEXT))
        if draw(st.booleans())
        else ToolResult(call_id=one.call_id, ok=False, error=error, occurrence=one.occurrence)
        for one in (some if draw(st.integers(0, 3)) == 0 else calls)
    ]
    between = draw(st.lists(NOISE | FACTS | st.builds(user, TEXT) | TEXTS, max_size=3))
    return output + draw(st.permutations([*results, *between]))


@st.composite
def histories(draw: st.DrawFn, *, compactions: bool = True, max_turns: int = 4) -> list[Event]:
    """The log of one session, one turn after the other; some turns fail, and some are never ended."""
    scribe = Scribe()
    for number in range(draw(st.integers(1, max_turns))):
        turn, used = f"t{number}", dict[str, int]()
        scribe.write(TurnStarted(driver=DriverKind.MODEL), UserMessage(text=draw(TEXT)), turn=turn)
        for _ in range(draw(st.integers(0, 2))):
            scribe.write(*draw(rounds(used)), turn=turn)
            if compactions and draw(st.integers(0, 5)) == 0:
                compact(scribe, draw(st.integers(1, 2)))
        reason = draw(ENDINGS)
        if reason is not None:
            close_turn(scribe, turn, reason, draw(TEXT))
        scribe.write(*draw(st.lists(NOISE | FACTS, max_size=2)))
        if compactions and draw(st.integers(0, 2)) == 0:
            compact(scribe, draw(st.integers(1, 2)))
    return scribe.events


def compact(scribe: Scribe, keep_turns: int) -> None:
    plan = plan_compaction(scribe.events, keep_turns=keep_turns)
    if isinstance(plan, CompactionPlan):
        scribe.write(plan.payload)


# Few names, and calls and results more often than the rest, so that random events meet each other.
_CALLS = st.builds(call, st.sampled_from(["a", "b"]), occurrence=st.sampled_from([1, 1, 2]))
_RESULTS = st.builds(result, st.sampled_from(["a", "b"]), occurrence=st.sampled_from([1, 1, 2]))
_MEETING = st.one_of(
    structs_of(UserMessage),
    structs_of(AssistantMessage),
    THOUGHTS,
    st.builds(compaction, st.integers(1, 12)),
    FACTS,
    *(_CALLS, _RESULTS) * 3,
)
UNKNOWN = st.builds(lambda text: UnknownEvent(type="from_the_future", body=text), TEXT)
TURN_IDS = st.sampled_from(["t1", "t1", "t1", "t2", None])
REPLAY_EVENTS = events(_MEETING, turn_ids=TURN_IDS, spawn_ids=st.none()).map(
    lambda event: structs.replace(event, session_id=SessionId("s"))
)
# Half of them what could most easily be taken for conversation.
OTHER_EVENTS = (events(NOISE | UNKNOWN, turn_ids=TURN_IDS) | events(turn_ids=TURN_IDS)).filter(
    lambda event: audience(event) is not Audience.REPLAY
)
ANY_LOGS = st.lists(REPLAY_EVENTS | REPLAY_EVENTS | events(turn_ids=TURN_IDS) | OTHER_EVENTS, max_size=14)


def stamped(log: Iterable[Event]) -> list[Event]:
    """Give every event the sequence number of its place, as a log would."""
    return [structs.replace(event, seq=seq) for seq, event in enumerate(log, start=1)]


def inserted(log: Sequence[Event], places: Iterable[tuple[int, Event]]) -> list[Event]:
    """The log as it would be if other events had been appended in between: renumbered, its ranges moved along."""
    row = [(event.seq, event) for event in log]
    for place, event in places:
        row.insert(place % (len(row) + 1), (None, event))
    moved_to = {old: seq for seq, (old, _) in enumerate(row, start=1) if old is not None}
    renumbered: list[Event] = []
    for seq, (old, event) in enumerate(row, start=1):
        data: Payload = event.data
        if old is not None and isinstance(data, HistoryCompaction):
            bounds = SeqRange(from_seq=moved_to[data.range.from_seq], to_seq=moved_to[data.range.to_seq])
            data = structs.replace(data, range=bounds)
        renumbered.append(structs.replace(event, seq=seq, data=data))
    return renumbered
