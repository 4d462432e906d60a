"""The client's task machine under anything: it never raises, never guesses, always has a next step, and converges."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.client.machine import inputs
from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckReason,
    DetailSynced,
    FrameArrived,
    JoinAcked,
    Opened,
    StatusHeard,
    TaskInput,
)
from interlock.client.machine.state import SYNC_MOVES, TaskState, digest_of
from interlock.client.machine.task_machine import step
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.approval import ApprovalState
from interlock.vocabulary.wire.frames import (
    ApprovalOpened,
    ChatChunk,
    Message,
    MessageStatus,
    RuntimeCheck,
    TaskFrame,
    TaskSnapshot,
    TaskStatusChanged,
)
from tests.client.task_world import DEEDS, World
from tests.task_scenarios import words
from tests.task_scenarios.vectors import TASK

STATUSES = st.none() | st.sampled_from([status.value for status in TaskStatus])
TURNS = st.none() | st.sampled_from([words.A, words.B])
STREAMS = st.sampled_from(["s1", "s2", "s3"])
TEXTS = st.sampled_from(["", "a", "b", "ab", "🙂"])
VERSIONS = st.integers(0, 6)
TICKS = st.integers(1, 8)
OFFSETS = st.integers(0, 3)
MESSAGES = st.builds(
    lambda number, text, version, stream, turn: words.said(number, text, version=version, stream=stream, turn=turn),
    st.integers(1, 4),
    TEXTS,
    st.integers(1, 6),
    st.none() | STREAMS,
    TURNS,
)
PIECES = st.none() | st.builds(words.piece, STREAMS, TEXTS, OFFSETS, TURNS)
CHECKS: st.SearchStrategy[RuntimeCheck] = st.builds(
    words.check, STATUSES, VERSIONS, TURNS, st.none() | STREAMS, OFFSETS
)
SNAPSHOTS: st.SearchStrategy[TaskSnapshot] = st.builds(
    lambda status, version, tick, turn, messages, stream, is_whole, has_question: words.snapshot(
        status,
        version,
        tick,
        turn,
        messages=tuple({one.message_id: one for one in messages}.values()),
        stream=stream,
        is_whole=is_whole,
        approvals=(words.question("q1"),) if has_question else (),
    ),
    STATUSES,
    VERSIONS,
    st.integers(0, 8),
    TURNS,
    st.lists(MESSAGES, max_size=3),
    PIECES,
    st.booleans(),
    st.booleans(),
)
_CHUNKS = st.builds(words.chunk, TICKS, VERSIONS, STREAMS, OFFSETS, TEXTS, TURNS)
_WORDS = st.builds(words.status, TICKS, VERSIONS, STATUSES, TURNS)
FRAMES: st.SearchStrategy[TaskFrame] = st.one_of(
    _WORDS,
    _CHUNKS,
    _WORDS.map(lambda word: word),  # branches that are the same count once, and these two are the most telling
    _CHUNKS.map(lambda chunk: chunk),
    st.builds(words.start, TICKS, VERSIONS, STREAMS, TURNS),
    st.builds(words.done, TICKS, VERSIONS, STREAMS, TURNS),
    st.builds(words.broke, TICKS, VERSIONS, STREAMS, TURNS),
    st.builds(words.cancelled, TICKS, VERSIONS, STREAMS, TURNS),
    st.builds(words.told, TICKS, VERSIONS, MESSAGES, TURNS),
    st.builds(
        lambda tick, version, state: ApprovalOpened(
            task_id=TASK, tick=tick, version=version, approval=words.question("q1", state)
        ),
        TICKS,
        VERSIONS,
        st.sampled_from(ApprovalState),
    ),
)
HEARD = {"task_status": STATUSES, "version": VERSIONS, "turn_id": TURNS}
PLAIN: st.SearchStrategy[TaskInput] = st.one_of(
    st.just(Opened()),
    st.just(inputs.Closed()),
    st.builds(inputs.CheckRequested, st.sampled_from(CheckReason)),
    st.builds(FrameArrived, FRAMES),
    st.builds(inputs.FellBehind, VERSIONS, TICKS),
    st.just(inputs.Connected()),
    st.just(inputs.Disconnected("cut")),
    st.builds(DetailSynced, **HEARD),
    st.builds(StatusHeard, **HEARD),
    st.builds(inputs.SendAccepted, st.sampled_from([PromptId("p1"), PromptId("p2")])),
    st.just(inputs.StopPressed()),
    st.builds(inputs.CancelAcked, st.booleans()),
    st.just(inputs.CancelFailed("no")),
    st.builds(inputs.QueueHeld, st.integers(0, 2)),
    st.just(inputs.TimerFired()),
)
# An answer is to what is open now (0), or to something else.
ANSWERS = st.one_of(
    st.tuples(st.just("check"), CHECKS),
    st.tuples(st.just("join"), SNAPSHOTS),
    st.tuples(st.just("check_failed"), st.booleans()),
    st.tuples(st.just("join_failed"), st.booleans()),
)
MOVES = st.tuples(
    st.sampled_from([0.0, 0.0, 0.5, 3.0, 11.0, 4000.0]),
    st.sampled_from("ffffffaap").flatmap({"f": st.builds(FrameArrived, FRAMES), "a": ANSWERS, "p": PLAIN}.__getitem__),
    st.sampled_from([0, 0, 0, 0, 1]),
)
RUNS = st.lists(MOVES, min_size=8, max_size=40)
Move = tuple[float, "TaskInput | tuple[str, object]", int]
Trail = list[tuple[TaskState, TaskInput, TaskState, float]]


def near(state: TaskState, choice: int) -> int:
    """A version near the one that is known: mostly not older."""
    return max(0, state.version + (-1, 0, 0, 0, 1, 1, 2)[choice])


def as_input(state: TaskState, move: TaskInput | tuple[str, object], off: int) -> TaskInput:
    match move:
        case FrameArrived(frame=frame):  # mostly the next one, else a double or one too early
            tick = max(1, (state.tick or 0) + (1, 1, 1, 1, 1, 1, 0, 2)[frame.tick - 1])
            return FrameArrived(msgspec.structs.replace(frame, tick=tick, version=near(state, frame.version)))
        case DetailSynced() | StatusHeard():
            return replace(move, version=near(state, move.version))
        case (kind, what):
            return as_answer(state, kind, what, off)
        case _:
            return move


def as_answer(state: TaskState, kind: str, what: object, off: int) -> TaskInput:
    check = (0 if state.check is None else state.check.generation) + off
    join = (0 if state.joining is None else state.joining.generation) + off
    if isinstance(what, RuntimeCheck):
        return CheckAnswered(check, msgspec.structs.replace(what, version=near(state, what.version)))
    if isinstance(what, TaskSnapshot):
        return JoinAcked(join, msgspec.structs.replace(what, version=near(state, what.version)))
    if kind == "check_failed":
        return inputs.CheckFailed(check, "no", is_gone=bool(what))
    return inputs.JoinFailed(join, "no", is_final=bool(what))


def run(moves: list[Move]) -> Trail:
    state, now = TaskState(task_id=TASK), 0.0
    trail: Trail = []
    joined = words.snapshot("RUNNING", 3, 3, stream=words.piece("s1", "ab"))
    begun: list[Move] = [
        (0.0, inputs.Connected(), 0),
        (0.0, Opened(), 0),
        (0.0, ("check", words.check("RUNNING", 4)), 0),
        (0.0, ("join", joined), 0),
    ]
    for seconds, move, off in begun + moves:
        now += seconds
        given_input = as_input(state, move, off)
        after, _ = step(state, given_input, now)
        trail.append((state, given_input, after, now))
        state = after
    return trail


def spoken_statuses(given_input: TaskInput) -> set[str | None]:
    match given_input:
        case CheckAnswered(check=check):
            return {check.task_status}
        case JoinAcked(snapshot=snapshot):
            return {snapshot.task_status}
        case FrameArrived(frame=TaskStatusChanged(task_status=status)):
            return {status}
        case DetailSynced(task_status=heard) | StatusHeard(task_status=heard):
            return {heard}
        case _:
            return set()


@given(RUNS)
@settings(max_examples=settings().max_examples * 3)
def test_no_sequence_of_inputs_breaks_a_law(moves: list[Move]) -> None:
    trail = run(moves)
    check_shape(trail)
    check_terminal(trail)
    check_text(trail)


def check_shape(trail: Trail) -> None:
    known: set[str | None] = {None}
    for before, given_input, after, now in trail:
        hash(after)
        known |= spoken_statuses(given_input)
        assert after.status in known, "a status that nobody said"
        assert after.sync is before.sync or after.sync in SYNC_MOVES[before.sync]
        assert (after.tick is not None) <= after.is_connected
        assert (after.sync.value == "joining") == (after.joining is not None)
        assert after.sync.value != "joined" or after.tick is not None
        assert after.generation >= before.generation
        assert after.check is not None or after.follow_up is None, "a question that nobody will ask"
        assert after.sync.value != "waiting_socket" or after.needs_room
        assert after.deadline is None or after.deadline > now, "a deadline that is due was left"
        if after.is_unstable or after.check is not None or after.joining is not None:
            assert after.deadline is not None
            assert after.deadline <= now + 30
        assert len(after.early) <= 64
        if not isinstance(given_input, inputs.Closed):
            assert after.version >= before.version
            assert after.synced_version >= before.synced_version or isinstance(given_input, JoinAcked)


def check_terminal(trail: Trail) -> None:
    """A terminal status is left only by another turn of a higher version."""
    for before, _, after, _ in trail:
        if not after.is_open or classify(before.status) is not StatusClass.TERMINAL:
            continue
        if (before.status, before.turn_id) == (after.status, after.turn_id):
            continue
        note("left terminal")
        assert before.status != TaskStatus.DELETE or after.status == TaskStatus.DELETE
        if after.status != TaskStatus.DELETE:
            assert after.version > before.status_version
            assert after.turn_id != before.turn_id or after.turn_id is None
            assert after.turn_id is not None or after.status == TaskStatus.PENDING


def check_text(trail: Trail) -> None:
    """Text is never pushed together, and a message never streams again."""
    for before, given_input, after, _ in trail:
        shown = after.stream
        if shown is None:
            continue
        assert shown.cursor == len(shown.text)
        assert all(one.stream_id != shown.stream_id for one in after.messages)
        assert all(one.stream_id != shown.stream_id for one in after.interrupted)
        is_own = shown.turn_id is None or shown.turn_id == after.turn_id
        assert not (is_own and after.flags.is_terminal), "a stream of a turn that is over"
        assert all(copy.status is MessageStatus.INTERRUPTED for copy in after.interrupted)
        if not isinstance(given_input, FrameArrived) or not isinstance(given_input.frame, ChatChunk):
            continue
        old, more = before.stream, given_input.frame
        is_taken = before.tick is not None and after.tick == more.tick == before.tick + 1
        if is_taken and old is not None and old.stream_id == shown.stream_id == more.stream_id:
            if more.turn_id in before.past_turns:  # behind the fence, whatever stream it names
                assert shown.text == old.text
                continue
            is_gap = more.offset > len(old.text)
            note("a gap" if is_gap else "grew or was cut")
            assert shown.text == (old.text if is_gap else old.text[: more.offset] + more.text)
            assert not is_gap or after.joining is not None


@given(RUNS, SNAPSHOTS)
@settings(max_examples=settings().max_examples)
def test_a_whole_snapshot_is_the_truth(moves: list[Move], last: TaskSnapshot) -> None:
    """After whatever happened, a whole and newest snapshot gives exactly what the server has."""
    state, now = run(moves)[-1][2], 1e6
    for given_input in (inputs.Closed(), Opened(), inputs.Connected()):
        state, _ = step(state, given_input, now)
    assert state.check is not None
    version = last.version + 1  # there is something to join for
    state, _ = step(
        state, CheckAnswered(state.check.generation, words.check(last.task_status, version, last.turn_id)), now
    )
    if state.status == TaskStatus.DELETE:
        return
    assert state.joining is not None
    snapshot = words.snapshot(
        last.task_status,
        version,
        last.tick,
        last.turn_id,
        messages=last.messages,
        stream=None if last.stream is None else words.piece(last.stream.stream_id, "text", 0, last.stream.turn_id),
        approvals=last.approvals,
    )
    state, _ = step(state, JoinAcked(state.joining.generation, snapshot), now)
    truth = digest_of(snapshot)
    has_message = any(one.stream_id == (snapshot.stream and snapshot.stream.stream_id) for one in snapshot.messages)
    if snapshot.stream is not None and (has_message or state.flags.is_terminal):
        note("a server that contradicts itself")
        return
    assert state.digest() == truth
    doubles: list[TaskFrame] = [words.chunk(tick, 1, "s1", 0, "zz") for tick in range(1, last.tick + 1)]
    for frame in doubles:
        state, _ = step(state, FrameArrived(frame), now)
    assert state.digest() == truth


CHAOS = st.lists(
    st.one_of(
        st.tuples(st.just("act"), st.sampled_from(DEEDS)),
        st.tuples(st.just("act"), st.sampled_from(["accept", "start", "write", "write", "complete"])),
        st.tuples(st.sampled_from(["deliver", "deliver", "lose", "double"]), st.sampled_from([0, 0, 0, 1, 2])),
        st.tuples(st.sampled_from(["answer_old", "answer_new", "enter", "enter", "fail", "refuse"]), st.just(0)),
        st.tuples(st.sampled_from(["connect", "disconnect"]), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([1, 4, 40])),
        st.tuples(st.just("own"), st.sampled_from(["send", "stop", "close", "open", "visible"])),
        st.tuples(st.just("act"), st.sampled_from(["write", "write", "finish_message", "ask", "reply", "restart"])),
    ),
    min_size=10,
    max_size=60,
)
OWN: dict[str, TaskInput] = {
    "send": inputs.SendAccepted(PromptId("p1")),
    "stop": inputs.StopPressed(),
    "close": inputs.Closed(),
    "open": Opened(),
    "visible": inputs.CheckRequested(CheckReason.PAGE_VISIBLE),
}


def begin() -> World:
    """A client in the room of a task that runs and streams."""
    world = World()
    world.give(Opened())
    world.connect()
    for deed in ("accept", "start", "write"):
        world.act(deed)
    world.settle()
    assert world.state.digest() == digest_of(world.server.snapshot())
    assert world.state.stream is not None
    return world


def play(world: World, name: str, what: str | int) -> None:
    match name, what:
        case "act", str(deed):
            world.act(deed)
        case "own", str(deed):
            world.give(OWN[deed])
        case "deliver" | "lose" | "double", int(place):
            getattr(world, name)(place)
        case "answer_old" | "answer_new", _:
            world.answer(is_fresh=name == "answer_new")
        case "wait", int(seconds):
            world.wait(seconds)
        case _:
            getattr(world, name)()


@given(CHAOS)
@settings(max_examples=settings().max_examples * 4)
def test_whatever_was_lost_the_client_comes_to_stand_where_the_server_stands(
    chaos: list[tuple[str, str | int]],
) -> None:
    world = begin()
    for name, what in chaos:
        play(world, name, what)
    world.settle()
    state = world.state
    note(f"{state.sync.value}, {state.status}")
    assert state.is_verified, world.story()
    assert not state.is_unstable, world.story()
    assert state.digest() == digest_of(world.server.snapshot()), world.story()
    assert not state.early
    assert state.anomalies == 0, world.story()


def follow_to_its_end(world: World) -> bool:
    """Follow one more turn, all of whose frames arrive, and lose the socket. False if the task takes none."""
    for deed in ("accept", "start", "write", "complete"):
        world.settle()
        world.connect()
        world.settle()
        world.act(deed)
        while world.pipe:
            world.deliver()
    world.disconnect()
    return world.server.status is TaskStatus.COMPLETED


@given(CHAOS)
@settings(max_examples=settings().max_examples)
def test_a_task_that_was_followed_to_its_end_needs_no_further_socket(chaos: list[tuple[str, str | int]]) -> None:
    world = begin()
    for name, what in chaos:
        play(world, name, what)
    if not follow_to_its_end(world):
        return
    note("followed")
    world.settle()
    assert not world.state.is_connected, world.story()
    assert world.state.digest() == digest_of(world.server.snapshot()), world.story()
    world.act("rewrite")  # it may change even then; the next socket tells
    world.connect()
    world.settle()
    assert world.state.digest() == digest_of(world.server.snapshot()), world.story()


@given(CHAOS)
@settings(max_examples=settings().max_examples * 2)
def test_what_is_shown_was_once_true(chaos: list[tuple[str, str | int]]) -> None:
    """Whatever is lost, shown messages are the server's, and shown text is where the server's stream once stood."""
    world = begin()
    texts: dict[str, str] = {} if world.server.stream is None else dict([world.server.stream])
    told: set[Message] = set()
    for name, what in chaos:
        play(world, name, what)
        told |= set(world.server.messages.values())
        if world.server.stream is not None:
            texts[world.server.stream[0]] = world.server.stream[1]
        assert set(world.state.messages) <= told, world.story()
        for shown in world.state.transcript[len(world.state.messages) :]:
            assert texts[shown.stream_id or ""].startswith(shown.text), world.story()
        for one, other in pairwise(world.state.messages):
            assert one.message_id < other.message_id
