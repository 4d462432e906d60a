"""The task view on any history: a client that joins anywhere, or comes back, stands where the server stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, json, structs

from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.patch import apply_patch
from interlock.lifecycle.turns import fold_turns, turn_states
from interlock.projections.task.view import TaskView
from interlock.runtime.session.streamed_answer import StreamedAnswer
from interlock.testing.scribe import EPOCH, Scribe
from interlock.testing.strategies import structs_of
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DeliveryReceipt,
    DeliveryStage,
    DialogAnswered,
    DialogClosed,
    DialogOpened,
    DialogOutcome,
    PendingCall,
    QueueEvent,
    QueueEventKind,
    QueueGate,
    RunState,
    SessionDeleted,
    SessionOpened,
    StreamCheckpoint,
    Suspension,
    SuspensionTicket,
    ToolCallDecided,
    ToolCallSuspended,
    TurnFailed,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    MessageSource,
    ToolCall,
    ToolError,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import ReasoningDelta, Status, TextDelta
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import (
    CallId,
    EventId,
    PromptId,
    RunId,
    SessionId,
    SpawnId,
    StreamId,
    TurnId,
)
from interlock.vocabulary.run import CANCELLED, NATURAL_END, SUSPENDED, RunStatus, TerminationReason
from interlock.vocabulary.states import Activity, Attention, DriverKind, TaskStatus, TurnState
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import (
    AgentStatusChanged,
    ApprovalClosed,
    ApprovalDecided,
    ApprovalOpened,
    ChatCancelled,
    ChatChunk,
    ChatDone,
    ChatError,
    ChatMessage,
    ChatStart,
    Message,
    MessageStatus,
    QueueChanged,
    QueueView,
    Role,
    StatePatched,
    TaskFrame,
    TaskSnapshot,
    TaskStatusChanged,
)
from interlock.vocabulary.wire.patch import Patch
from tests.projections.logs import LOGS, WILD_LOGS

SESSION: Final = SessionId("s")
EVERYTHING: Final = 1 << 40
PRESENTER: Final = (TextDelta, ReasoningDelta, Status)
Step = Event | bool
"""An event that is published, or: whether somebody runs the session from now on."""


@dataclass
class Client:
    """The least that a client must do, and no more."""

    status: tuple[TaskStatus | None, TurnId | None, object] = (None, None, None)
    messages: dict[int, Message] = field(default_factory=dict)
    stream: tuple[StreamId, TurnId | None, str, object, object] | None = None
    approvals: dict[str, Approval] = field(default_factory=dict)
    queue: QueueView = field(default_factory=QueueView)
    agent: Status | None = None
    document: Json = field(default_factory=dict)
    tick: int = 0
    version: int = 0
    """Up to which everything is known: of the version of the last frame more frames may be to come."""

    def join(self, snapshot: TaskSnapshot) -> None:
        if snapshot.is_whole:
            self.messages.clear()
        for message in snapshot.messages:
            self._keep(message)
        piece = snapshot.stream
        if piece is None:
            self.stream = None
        else:
            known = "" if self.stream is None or self.stream[0] != piece.stream_id else self.stream[2]
            text = known[: piece.offset] + piece.text
            assert len(text) == piece.cursor
            self.stream = (piece.stream_id, piece.turn_id, text, piece.started_at, piece.last_activity_at)
        self.status = (snapshot.task_status, snapshot.turn_id, snapshot.status_updated_at)
        self.approvals = {approval.approval_id: approval for approval in snapshot.approvals}
        self.queue, self.agent, self.document = snapshot.queue, snapshot.agent, snapshot.document
        self.tick, self.version = snapshot.tick, snapshot.version

    def apply(self, frame: TaskFrame) -> None:
        assert frame.tick == self.tick + 1
        self.tick, self.version = frame.tick, max(self.version, frame.version - 1)
        match frame:
            case ChatStart(stream_id=stream_id, started_at=at):
                self.stream = (stream_id, frame.turn_id, "", at, at)
            case ChatChunk(stream_id=stream_id, offset=offset, text=text, at=at):
                assert self.stream is not None
                assert self.stream[0] == stream_id
                assert offset <= len(self.stream[2])
                self.stream = (stream_id, frame.turn_id, self.stream[2][:offset] + text, self.stream[3], at)
            case ChatDone() | ChatError() | ChatCancelled():
                assert self.stream is not None
                assert (frame.stream_id, frame.cursor) == (self.stream[0], len(self.stream[2]))
                assert frame.message_id is None or frame.message_id in self.messages
                self.stream = None
            case ChatMessage(message=message):
                assert message.version == frame.version
                self._keep(message)
            case ApprovalOpened(approval=approval):
                self.approvals[approval.approval_id] = approval
            case ApprovalDecided(approval=approval) | ApprovalClosed(approval=approval):
                self.approvals.pop(approval.approval_id, None)
            case QueueChanged(queue=queue):
                self.queue = queue
            case TaskStatusChanged(task_status=status, status_updated_at=at):
                assert (status, frame.turn_id) != self.status[:2]
                self.status = (status, frame.turn_id, at)
            case AgentStatusChanged(status=agent):
                assert agent != self.agent
                self.agent = agent
            case _:
                self._patch(frame)

    def _patch(self, frame: TaskFrame) -> None:
        if isinstance(frame, StatePatched):
            changed = apply_patch(self.document, Patch(frame.ops))
            assert changed != self.document
            self.document = changed

    def _keep(self, message: Message) -> None:
        known = self.messages.get(message.message_id)
        if known is None or known.version < message.version:
            self.messages[message.message_id] = message

    def assert_stands_at(self, snapshot: TaskSnapshot) -> None:
        piece = snapshot.stream
        assert self.status == (snapshot.task_status, snapshot.turn_id, snapshot.status_updated_at)
        assert tuple(self.messages[one] for one in sorted(self.messages)) == snapshot.messages
        assert (self.stream is None) == (piece is None)
        if piece is not None:
            shown = (piece.stream_id, piece.turn_id, piece.text, piece.started_at, piece.last_activity_at)
            assert self.stream == shown
        assert tuple(self.approvals.values()) == snapshot.approvals
        assert self.queue == snapshot.queue
        assert self.document == snapshot.document
        # There is no frame for "nothing is known": it is told as a status that says so.
        assert (self.agent or UNSEEN) == (snapshot.agent or UNSEEN)
        assert self.tick == snapshot.tick


UNSEEN: Final = Status(activity=Activity.UNKNOWN)


def whole(view: TaskView) -> TaskSnapshot:
    return view.snapshot(limit=EVERYTHING)


def advance(view: TaskView, step: Step) -> tuple[TaskFrame, ...]:
    return view.set_supervised(step) if isinstance(step, bool) else view.add(step)


def folded(steps: Iterable[Step]) -> TaskView:
    view = TaskView(SESSION)
    for step in steps:
        advance(view, step)
    return view


# Histories where anything may follow anything, of few names, so that things hang together.

TEXTS: Final = st.sampled_from(["", " ", "a", "ab", "abc", "xyz", "abcd\N{GRINNING FACE}"])
STREAMS: Final = st.sampled_from([StreamId("st1"), StreamId("st1"), StreamId("st2"), StreamId("st3")])
CALLS: Final = st.sampled_from([CallId("c1"), CallId("c2")])
PROMPTS: Final = st.sampled_from([PromptId("p1"), PromptId("p2")])
ASKED: Final = st.sampled_from(["q1", "q2"])
RUN: Final = RunId("r")
METADATA: Final = st.builds(
    lambda kind, stream_id, source: MessageMetadata(
        partial=kind == "partial", intermediate=kind == "intermediate", stream_id=stream_id, source=source
    ),
    st.sampled_from(["", "", "partial", "intermediate"]),
    st.none() | STREAMS,
    st.sampled_from([MessageSource.STREAM, MessageSource.STREAM, MessageSource.SURFACE, MessageSource.NONE]),
)
REASONS: Final = st.sampled_from(
    [NATURAL_END, NATURAL_END, CANCELLED, TerminationReason.error("it broke"), TerminationReason.stopped("timeout")]
)
RUNS: Final = st.one_of(
    st.builds(lambda asked: RunState(run_id=RUN, status=RunStatus.RUNNING, cancel_requested=asked), st.booleans()),
    st.just(RunState(run_id=RUN, status=RunStatus.WAITING, reason=SUSPENDED)),
    st.builds(lambda reason: RunState(run_id=RUN, status=RunStatus.DONE, reason=reason), REASONS),
    st.just(RunState(run_id=RunId("another"), status=RunStatus.DONE, reason=NATURAL_END)),
)


def suspended(call_id: CallId, asked: str) -> ToolCallSuspended:
    ticket = SuspensionTicket(
        suspension=Suspension(id=asked, action="tool:read", message=f"May I, {asked}?"),
        pending=PendingCall(id=f"pending_{asked}", name="read"),
    )
    return ToolCallSuspended(call_id=call_id, name="read", ticket=ticket)


def checkpoint(stream_id: StreamId, text: str, attempt: int) -> StreamCheckpoint:
    return StreamCheckpoint(stream_id=stream_id, offset=len(text), text=text, attempt=attempt)


TALK: Final = st.one_of(
    st.builds(UserMessage, text=TEXTS, prompt_id=st.none() | PROMPTS),
    st.builds(AssistantMessage, text=TEXTS, metadata=METADATA),
    st.builds(AssistantMessage, text=TEXTS, metadata=METADATA),
    st.builds(
        ToolCall, call_id=CALLS, name=st.sampled_from(["read", "wait_agent"]), args=structs_of(Suspension).map(str)
    ),
    st.builds(lambda call_id: ToolResult(call_id=call_id, ok=True), CALLS),
    st.builds(
        lambda call_id: ToolResult(call_id=call_id, ok=False, error=ToolError(kind="denied", message="no")), CALLS
    ),
    st.builds(checkpoint, STREAMS, TEXTS, st.integers(1, 2)),
)
TURNS_MOVE: Final = st.one_of(
    RUNS,
    RUNS,
    st.builds(TurnStarted, driver=st.sampled_from([DriverKind.STREAM, DriverKind.TERMINAL])),
    st.builds(
        TurnFailed,
        terminal_status=st.sampled_from([TurnState.PARTIAL_FAILED, TurnState.FAILED, TurnState.TIMED_OUT]),
        error_kind=st.just("network"),
        error_message=st.just("the line went dead"),
    ),
)
QUESTIONS: Final = st.one_of(
    st.builds(suspended, CALLS, ASKED),
    st.builds(ToolCallDecided, target_id=ASKED | CALLS, action=st.sampled_from(DecisionAction)),
    st.builds(DialogOpened, dialog_id=ASKED, attention=st.just(Attention.QUESTION), question=TEXTS),
    st.builds(DialogAnswered, dialog_id=ASKED, option=TEXTS),
    st.builds(DialogClosed, dialog_id=ASKED, outcome=st.sampled_from(DialogOutcome)),
)
OTHERS: Final = st.one_of(
    st.builds(QueueEvent, kind=st.sampled_from(QueueEventKind), prompt_id=PROMPTS, text=TEXTS),
    st.builds(QueueEvent, kind=st.just(QueueEventKind.QUEUED), prompt_id=PROMPTS, text=TEXTS),
    st.builds(QueueGate, is_open=st.booleans(), reason=TEXTS),
    st.builds(DeliveryReceipt, prompt_id=PROMPTS, stage=st.sampled_from(DeliveryStage)),
    st.builds(SessionOpened, agent=st.just("a"), driver=st.just("d"), kind=st.just(DriverKind.STREAM), title=TEXTS),
)
LIVE: Final = st.one_of(
    st.builds(TextDelta, stream_id=STREAMS, offset=st.integers(0, 4), text=TEXTS),
    st.builds(TextDelta, stream_id=STREAMS, offset=st.just(0), text=TEXTS),
    st.builds(ReasoningDelta, stream_id=STREAMS, offset=st.just(0), text=TEXTS),
    st.builds(Status, activity=st.sampled_from([Activity.WORKING, Activity.QUIET])),
)


def _event(data: Payload, turn_id: str | None, spawn_id: str | None) -> Event:
    return new_event(
        data,
        id=EventId("e"),
        session_id=SESSION,
        ts=EPOCH,
        turn_id=None if turn_id is None else TurnId(turn_id),
        spawn_id=None if spawn_id is None else SpawnId(spawn_id),
    )


def _numbered(steps: Sequence[Step]) -> list[Step]:
    """Number what the log would hold, from 1, and let time pass."""
    numbers = count(1)
    clock = (EPOCH.replace(year=EPOCH.year + number) for number in count(1))
    return [
        step
        if isinstance(step, bool)
        else structs.replace(step, ts=next(clock), seq=None if isinstance(step.data, PRESENTER) else next(numbers))
        for step in steps
    ]


TURN_IDS: Final = st.sampled_from(["t1", "t1", "t1", "t2", None])
SPAWN_IDS: Final = st.sampled_from([None, None, None, None, "s1", "s2"])
STEPS: Final[st.SearchStrategy[Step]] = st.one_of(
    *(
        st.builds(_event, payloads, TURN_IDS, SPAWN_IDS)
        for payloads in (TALK, TALK, TALK, TURNS_MOVE, TURNS_MOVE, QUESTIONS, OTHERS, LIVE, LIVE, LIVE)
    ),
    st.sampled_from([True, True, False]),
)
DELETED: Final = _event(SessionDeleted(), None, None)
CHAOS: Final = st.builds(
    lambda before, after: _numbered([*before, *after]),
    st.lists(STEPS, max_size=30),
    st.just([]) | st.just([]) | st.lists(STEPS, max_size=4).map(lambda more: [DELETED, *more]),
)


# Histories as the runtime writes them.


class Stage:
    """A session that is run as it should be: the real `Talk`, the real closing batch."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._scribe = Scribe(SESSION)
        self._numbers = count(1)
        self._now = 0.0
        self._turn = ""
        self._talk = self._new_talk()

    def _new_talk(self) -> StreamedAnswer:
        return StreamedAnswer(lambda: StreamId(f"st{next(self._numbers)}"), self._now)

    def write(self, *payloads: Payload) -> None:
        for data in payloads:
            if isinstance(data, PRESENTER):
                at = EPOCH.replace(hour=1 + len(self.steps) // 3600)
                live = new_event(data, id=EventId("live"), session_id=SESSION, ts=at, turn_id=TurnId(self._turn))
                self.steps.append(live)
            else:
                self.steps += self._scribe.write(data, turn=self._turn or None)

    def play(self, acts: Sequence[tuple[str, str]], reason: TerminationReason) -> None:
        number = next(self._numbers)
        prompt_id, text = PromptId(f"p{number}"), f"prompt {number}"
        self._turn = ""
        self.write(QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=prompt_id, text=text))
        self._turn, run_id = f"t{number}", RunId(f"run{number}")
        self._talk = self._new_talk()
        self.write(
            QueueEvent(kind=QueueEventKind.DISPATCHED, prompt_id=prompt_id),
            UserMessage(text=text, prompt_id=prompt_id),
            TurnStarted(driver=DriverKind.STREAM),
            RunState(run_id=run_id, status=RunStatus.RUNNING),
        )
        for act, said in acts:
            self._now += 0.6
            self._act(act, said)
        facts = fold_turns(self._scribe.events).turns[SESSION, TurnId(self._turn)]
        ending = Ending(run_id=run_id, reason=reason, text=self._talk.text, budget_seconds=1.0, elapsed_seconds=2.0)
        self.write(*closing_batch(facts, ending))

    def _act(self, act: str, said: str) -> None:
        call_id = CallId(f"c{next(self._numbers)}")
        match act:
            case "say":
                self.write(*self._talk.arrive(said, self._now))
            case "void":
                self.write(*self._talk.void(self._now))
            case "whole":
                self.write(*self._talk.end_message(self._talk.text + said, "", self._now))
            case "use":
                self.write(*self._talk.set_aside(), ToolCall(call_id=call_id, name="read", args={"path": said}))
                self.write(ToolResult(call_id=call_id, ok=True))
            case "ask":
                self.write(*self._talk.set_aside(), ToolCall(call_id=call_id, name="read"))
                self.write(suspended(call_id, f"q_{call_id}"))
                self.write(ToolCallDecided(target_id=call_id, action=DecisionAction.RESUME))
            case _:
                self.write(Status(activity=Activity.WORKING))


ACTS: Final = st.tuples(
    st.sampled_from(["say", "say", "say", "void", "whole", "use", "ask", "look"]),
    st.sampled_from(["Hello", " ", "world", "\N{GRINNING FACE}", ", and more"]),
)
TURNS: Final = st.lists(st.tuples(st.lists(ACTS, max_size=8), REASONS), min_size=1, max_size=3)


def _play(turns: Sequence[tuple[Sequence[tuple[str, str]], TerminationReason]]) -> list[Step]:
    stage = Stage()
    for acts, reason in turns:
        stage.play(acts, reason)
    return stage.steps


PLAYED: Final = TURNS.map(_play)
HISTORIES: Final = CHAOS | PLAYED


@given(HISTORIES)
def test_a_snapshot_anywhere_and_the_frames_after_it_lead_to_the_same_place(steps: list[Step]) -> None:
    view = TaskView(SESSION)
    clients = [Client()]
    clients[0].join(whole(view))
    for step in steps:
        frames = advance(view, step)
        now = whole(view)
        for client in clients:
            for frame in frames:
                client.apply(frame)
            client.assert_stands_at(now)
        clients.append(Client())
        clients[-1].join(now)


@given(HISTORIES, st.data())
def test_a_client_that_lost_frames_comes_back_with_nothing_missing_and_nothing_wrong(
    steps: list[Step], data: st.DataObject
) -> None:
    joins_at = data.draw(st.integers(0, len(steps)), label="joins before step")
    back_at = data.draw(st.integers(joins_at, len(steps)), label="back before step")
    kept = data.draw(st.integers(0, 12), label="frames kept in between")
    view, client = TaskView(SESSION), Client()
    for number, step in enumerate(steps):
        if number == joins_at:
            client.join(whole(view))
        if number == back_at:
            _resume(view, client)
        frames = advance(view, step)
        if joins_at <= number < back_at:
            frames, kept = frames[:kept], max(0, kept - len(frames))
        for frame in frames if number >= joins_at else ():
            client.apply(frame)
    if len(steps) in (joins_at, back_at):
        _resume(view, client)
    client.assert_stands_at(whole(view))


def _resume(view: TaskView, client: Client) -> None:
    known = client.stream
    client.join(
        view.snapshot(
            after_version=client.version,
            stream_id=None if known is None else known[0],
            cursor=0 if known is None else len(known[2]),
            limit=EVERYTHING,
        )
    )


@given(HISTORIES)
def test_the_log_alone_gives_the_same(steps: list[Step]) -> None:
    live, replayed = TaskView(SESSION), TaskView(SESSION)
    for step in steps:
        advance(live, step)
        if isinstance(step, bool) or step.seq is not None:
            advance(replayed, step)
        is_quiet = live.check().active_stream is None and replayed.check().active_stream is None
        ours, theirs = (structs.replace(whole(view), tick=0, agent=None, badge=None) for view in (live, replayed))
        if not is_quiet:
            ours, theirs = (structs.replace(shot, stream=None) for shot in (ours, theirs))
        assert ours == theirs


@given(HISTORIES)
def test_a_check_says_what_a_snapshot_says_and_so_does_the_board(steps: list[Step]) -> None:
    view = TaskView(SESSION)
    for step in steps:
        advance(view, step)
        check, shot, line = view.check(), whole(view), view.summary()
        for told in (shot, line):
            assert (check.task_status, check.version, check.turn_id, check.status_updated_at) == (
                told.task_status,
                told.version,
                told.turn_id,
                told.status_updated_at,
            )
        assert (check.active_stream is None) == (shot.stream is None)
        if check.active_stream is not None and shot.stream is not None:
            assert check.active_stream.stream_id == shot.stream.stream_id
            assert check.active_stream.cursor == shot.stream.cursor == len(shot.stream.text)
            assert check.active_stream.last_activity_at == shot.stream.last_activity_at
        assert (line.open_approvals, line.queued) == (len(shot.approvals), len(shot.queue.waiting))


@given(HISTORIES)
def test_ticks_have_no_gap_and_versions_never_decrease(steps: list[Step]) -> None:
    view, tick, version = TaskView(SESSION), 0, 0
    for step in steps:
        for frame in advance(view, step):
            assert frame.tick == tick + 1
            assert frame.version == view.version >= version
            tick, version = frame.tick, frame.version
        assert view.tick == tick
        if isinstance(step, Event) and step.seq is not None:
            assert view.version == step.seq


@given(HISTORIES)
def test_a_terminal_status_stays_until_a_prompt_another_turn_or_the_end_of_the_session(steps: list[Step]) -> None:
    view = TaskView(SESSION)
    ended = {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED}
    for step in steps:
        before = (view.status, view.turn_id, view.status_updated_at)
        advance(view, step)
        if before[0] is TaskStatus.DELETE:
            assert view.status is TaskStatus.DELETE
        newest = next(reversed(view.turns.turns.values()), None)
        is_same_turn = newest is not None and newest.turn_id == before[1]
        is_free = view.queue.head is None and view.status is not TaskStatus.DELETE
        if before[0] in ended and is_same_turn and is_free:
            assert (view.status, view.turn_id, view.status_updated_at) == before


@given(HISTORIES)
def test_an_answer_is_completed_only_where_the_classifier_says_so(steps: list[Step]) -> None:
    view, log = TaskView(SESSION), list[Event]()
    for step in steps:
        advance(view, step)
        log += [step] if isinstance(step, Event) and step.seq is not None else []
        states = {record.turn_id: record.state for record in turn_states(log)}
        payloads = {event.seq: event.data for event in log}
        for message in whole(view).messages:
            assert message.turn_id is not None
            if message.role is Role.ANSWER and message.status is MessageStatus.COMPLETED:
                assert states[message.turn_id] is TurnState.COMPLETED
            said = payloads[message.message_id]
            if isinstance(said, AssistantMessage) and said.metadata.partial and message.role is not Role.END:
                assert message.status is not MessageStatus.COMPLETED
                assert message.role is Role.ANSWER
            if message.role is Role.END:
                assert states[message.turn_id].is_terminal


@given(PLAYED)
def test_what_the_runtime_writes_is_all_told(steps: list[Step]) -> None:
    """Of every closed turn there is an answer or an end, every text is there, and nothing is left open."""
    view = folded(steps)
    log = [step for step in steps if isinstance(step, Event) and step.seq is not None]
    shot = whole(view)
    assert shot.stream is None
    assert shot.approvals == ()
    assert all(message.status not in (MessageStatus.RUNNING, MessageStatus.WAITING) for message in shot.messages)
    for record in turn_states(log):
        roles = [message.role for message in shot.messages if message.turn_id == record.turn_id]
        is_answered = Role.ANSWER in roles and record.state is TurnState.COMPLETED
        assert roles.count(Role.END) == (0 if is_answered else 1)
    said = {event.seq: event.data.text for event in log if isinstance(event.data, AssistantMessage)}
    shown = {message.message_id: message.text for message in shot.messages}
    assert {seq: shown.get(seq or 0) for seq in said} == said


@given(HISTORIES, st.integers(1, 5))
def test_pages_and_a_short_snapshot_hold_every_message_once(steps: list[Step], limit: int) -> None:
    view = folded(steps)
    shot = view.snapshot(limit=limit)
    found, before = list(shot.messages), shot.history_before
    assert len(found) <= limit
    while before is not None:
        page, before_that = view.page(before=before, limit=limit)
        assert 0 < len(page) <= limit
        found, before = [*page, *found], before_that
    assert tuple(found) == whole(view).messages


class _Wire(Struct):
    frames: list[TaskFrame]
    snapshot: TaskSnapshot


@given(HISTORIES | LOGS.map(list))
def test_what_it_says_can_be_written_and_read(steps: list[Step]) -> None:
    view = TaskView(SESSION)
    said = _Wire([frame for step in steps for frame in advance(view, step)], whole(view))
    assert json.decode(json.encode(said), type=_Wire) == said


@given(st.lists(STEPS, max_size=20) | WILD_LOGS.map(list), st.randoms(use_true_random=False))
def test_it_never_raises_and_a_repeat_changes_nothing(steps: list[Step], chance: object) -> None:
    """Shuffled, twice, numbered at random, of several sessions."""
    wild = [
        structs.replace(step, session_id=SESSION, seq=number % 9 if number % 3 else None)
        if isinstance(step, Event) and number % 7
        else step
        for number, step in enumerate([*steps, *steps])
    ]
    chance.shuffle(wild)  # type: ignore[attr-defined]
    view, client = TaskView(SESSION), Client()
    for step in wild:
        for frame in advance(view, step):
            client.apply(frame)
        client.assert_stands_at(whole(view))
        if isinstance(step, Event) and step.seq is not None:
            assert view.add(step) == ()
            client.assert_stands_at(whole(view))
