"""The client of a task and a small server, walked through everything that a bad network can do to them.

The client is the real `step`, the server's side the real `TaskView` over a fixed story. Between them: pushes that are
lost, doubled and overtaken, in a channel that holds two; a check and a join that are lost, late or answered twice; a
socket that comes and goes; timers that fire whenever they like. Time itself, generations and counters are forgotten, as
far as nothing but their order matters, so that the walk is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeAlias, TypeVar

import pytest

from interlock.client.machine.inputs import (
    CheckAnswered,
    CheckReason,
    CheckRequested,
    Connected,
    Disconnected,
    FrameArrived,
    Join,
    JoinAcked,
    Opened,
    Output,
    PullRuntime,
    TaskInput,
    TimerFired,
)
from interlock.client.machine.probe import Probe
from interlock.client.machine.state import SyncState, TaskState, digest_of
from interlock.client.machine.task_machine import step
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.projections.task.view import TaskView
from interlock.testing.explore import Exploration, explore
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import TurnFailed
from interlock.vocabulary.events.conversation import AssistantMessage, UserMessage
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, SessionId, StreamId, TurnId
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.frames import RuntimeCheck, TaskFrame, TaskSnapshot

TASK: Final = SessionId("ses_walk")
DEPTH: Final = 2
UNBOUNDED: Final = -1
CHECK, JOIN, STALE, LAST = 1, 2, 0, 3  # what generations are renamed to: of the check, of the join, of neither
CHECK_DUE, JOIN_DUE, PROBE_DUE = 10.0, 20.0, 30.0

HARM: Final = frozenset({"double push", "lose push", "disconnect", "check is late", "join is late"})

Story: TypeAlias = tuple[tuple[Payload, str], ...]


def delta(stream: str, offset: int, text: str) -> Payload:
    return TextDelta(stream_id=StreamId(stream), offset=offset, text=text)


FAILURE: Final = TurnFailed(terminal_status=TurnState.FAILED, error_kind="error", error_message="died")
# Two versions a turn: its prompt and its end. What lies between them is live.
FIRST: Final[Story] = (
    (UserMessage(text="go"), "t1"),
    (delta("s1", 0, "a"), "t1"),
    (delta("s1", 1, "b"), "t1"),
    (AssistantMessage(text="ab"), "t1"),
)
SECOND: Final[Story] = (
    (UserMessage(text="on"), "t2"),
    (FAILURE, "t2"),
)


class Server:
    """A story, as it stands after each of its events."""

    def __init__(self, story: Story) -> None:
        self.last = len(story)
        self.views: list[TaskView] = []
        self.frames: dict[int, TaskFrame] = {}
        events = list(_stamped(story))
        for count in range(len(events) + 1):
            view = TaskView(TASK)
            for event in events[:count]:
                self.frames.update((frame.tick, frame) for frame in view.add(event))
            self.views.append(view)
        self.statuses = {(view.version, view.status, view.turn_id) for view in self.views}
        shown = (view.snapshot().stream for view in self.views)
        self.texts = {(piece.stream_id, piece.text) for piece in shown if piece is not None}


def _stamped(story: Story) -> Iterator[Event]:
    seq = 0
    for number, (payload, turn) in enumerate(story):
        is_live = isinstance(payload, TextDelta)
        seq += not is_live
        yield new_event(
            payload,
            id=EventId(f"e{number}"),
            session_id=TASK,
            seq=None if is_live else seq,
            ts=EPOCH,
            turn_id=TurnId(turn),
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """A check on its way, since the server stood at `since`: its answer may be of any moment after that."""

    generation: int
    since: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A join on its way: to the server, or back with what it said when it stood at `at`."""

    generation: int
    after_version: int | None
    stream_id: StreamId | None
    cursor: int
    at: int | None = None


class Known:
    """A client's state, once: worlds with the same one hold the same object, and comparing them costs nothing."""

    def __init__(self, state: TaskState) -> None:
        self.state = state

    def __repr__(self) -> str:
        return repr(self.state)


@cache
def known(state: TaskState) -> Known:
    return Known(state)


@dataclass(frozen=True, slots=True)
class World:
    """Both sides and what is between them. `told`: the room's last tick that was put on the wire for this client; None
    outside. `looked`: somebody looked since the server last changed, while nothing of the room was on its way. `mercy`:
    so many more things may go wrong."""

    mind: Known
    at: int = 0
    told: int | None = None
    pushes: tuple[int, ...] = ()
    asks: tuple[Ask, ...] = ()
    entries: tuple[Entry, ...] = ()
    looked: bool = False
    mercy: int = UNBOUNDED

    @property
    def client(self) -> TaskState:
        return self.mind.state


Move: TypeAlias = tuple[str, int]
"""What happens, and to which of several."""


class Walk:
    """How the world moves. `keeps_late`: an answer that nobody waits for any more still arrives."""

    def __init__(self, story: Story, *, keeps_late: bool, mercy: int) -> None:
        self.server = Server(story)
        self._keeps_late = keeps_late
        self._mercy = mercy

    def start(self) -> World:
        return self._feed(World(known(TaskState(task_id=TASK)), mercy=self._mercy), Opened())

    def moves(self, world: World) -> Iterator[Move]:
        return (move for move in self._possible(world) if world.mercy != 0 or not self._is_harm(world, move))

    def _is_harm(self, world: World, move: Move) -> bool:
        """What a good network does not do. To look is free once the story is over."""
        name, place = move
        is_early_look = name == "look" and world.at < self.server.last
        return name in HARM or is_early_look or (name == "take push" and place > 0)

    def _possible(self, world: World) -> Iterator[Move]:
        server = self.server
        # The server goes on when all that it said is on the wire: what waits longer would be lost, and loss is a move.
        if world.at < server.last and world.told in (None, server.views[world.at].tick):
            yield "happen", 0
        if world.told is not None and world.told < server.views[world.at].tick and len(world.pushes) < DEPTH:
            yield "push", 0
        for place in range(len(world.pushes)):
            yield from (("take push", place), ("double push", place), ("lose push", place))
        for place, ask in enumerate(world.asks):
            yield from (("take check", place * 100 + at) for at in range(ask.since, world.at + 1))
        for place, entry in enumerate(world.entries):
            yield ("serve join", place) if entry.at is None else ("take join", place)
        yield ("disconnect", 0) if world.client.is_connected else ("connect", 0)
        yield "look", 0
        if world.client.check is not None:
            yield "check is late", 0
        if world.client.joining is not None:
            yield "join is late", 0
        if world.client.probe.due_at is not None:
            yield "probe", 0

    def move(self, world: World, move: Move) -> World:
        name, place = move
        if world.mercy > 0 and self._is_harm(world, move):
            world = replace(world, mercy=world.mercy - 1)
        acts: dict[str, Callable[[World, int], World]] = {
            "happen": lambda world, _: replace(world, at=world.at + 1, looked=False),
            "push": self._push,
            "take push": lambda world, place: self._take_push(world, place, is_kept=False),
            "double push": lambda world, place: self._take_push(world, place, is_kept=True),
            "lose push": lambda world, place: replace(world, pushes=_without(world.pushes, place)),
            "take check": lambda world, place: self._take_check(world, *divmod(place, 100)),
            "serve join": self._serve_join,
            "take join": self._take_join,
            "disconnect": self._disconnect,
            "connect": lambda world, _: self._feed(world, Connected()),
            "look": self._look,
            "check is late": lambda world, _: self._feed(replace(world, looked=False), TimerFired(), CHECK_DUE),
            "join is late": self._expire_join,
            "probe": lambda world, _: self._feed(world, TimerFired(), PROBE_DUE),
        }
        return acts[name](world, place)

    # What the wire does

    def _push(self, world: World, _: int) -> World:
        told = (world.told or 0) + 1
        return replace(world, told=told, pushes=tuple(sorted((*world.pushes, told))))

    def _take_push(self, world: World, place: int, *, is_kept: bool) -> World:
        frame = self.server.frames[world.pushes[place]]
        if not is_kept:
            world = replace(world, pushes=_without(world.pushes, place))
        return self._feed(world, FrameArrived(frame))

    def _take_check(self, world: World, place: int, at: int) -> World:
        ask = world.asks[place]
        world = replace(world, asks=_without(world.asks, place))
        return self._feed(world, CheckAnswered(ask.generation, self._check(at)))

    def _serve_join(self, world: World, place: int) -> World:
        served = replace(world.entries[place], at=world.at)
        # What was said to the room before goes out all the same, where the client was in it already.
        told = self.server.views[world.at].tick if world.told is None else world.told
        return replace(world, entries=_with(world.entries, place, served), told=told)

    def _take_join(self, world: World, place: int) -> World:
        entry = world.entries[place]
        world = replace(world, entries=_without(world.entries, place))
        return self._feed(world, JoinAcked(entry.generation, self._snapshot(entry)))

    def _disconnect(self, world: World, _: int) -> World:
        return self._feed(replace(world, told=None, pushes=(), entries=()), Disconnected())

    def _look(self, world: World, _: int) -> World:
        """Somebody looks. That settles everything if nothing of the room is on its way: a check that text overtakes is
        not held against that text, for the rest of it is expected to come as well."""
        is_calm = not world.pushes and not world.entries and world.told in (None, self.server.views[world.at].tick)
        return self._feed(replace(world, looked=is_calm), CheckRequested(CheckReason.PAGE_VISIBLE))

    def _expire_join(self, world: World, _: int) -> World:
        """The join's deadline comes before the check's, for once."""
        joining = world.client.joining
        assert joining is not None
        client = replace(world.client, joining=replace(joining, deadline_at=CHECK_DUE / 2))
        return self._feed(replace(world, mind=known(client)), TimerFired(), CHECK_DUE / 2)

    @cache  # noqa: B019 - a walk lives as long as its test
    def _check(self, at: int) -> RuntimeCheck:
        return self.server.views[at].check()

    @cache  # noqa: B019
    def _snapshot(self, entry: Entry) -> TaskSnapshot:
        assert entry.at is not None
        return self.server.views[entry.at].snapshot(
            after_version=entry.after_version, stream_id=entry.stream_id, cursor=entry.cursor
        )

    # What the client does

    def _feed(self, world: World, given: TaskInput, now: float = 0.0) -> World:
        client, outputs = self._step(world.mind, given, now)
        asks, entries = world.asks, world.entries
        for output in outputs:
            match output:
                case PullRuntime(generation=generation):
                    asks = (*asks, Ask(generation, world.at))
                case Join(generation=generation, after_version=version, stream_id=stream_id, cursor=cursor):
                    entries = (*entries, Entry(generation, version, stream_id, cursor))
                case _:
                    pass
        return _forget(replace(world, asks=asks, entries=entries), client, keeps_late=self._keeps_late)

    @cache  # noqa: B019 - far fewer clients than worlds
    def _step(self, mind: Known, given: TaskInput, now: float) -> tuple[TaskState, tuple[Output, ...]]:
        return step(mind.state, given, now)

    # Laws

    def digest_holds(self, world: World) -> bool:
        return self._equals(world.mind, world.at)

    @cache  # noqa: B019
    def _equals(self, mind: Known, at: int) -> bool:
        return mind.state.digest() == digest_of(self.server.views[at].snapshot())

    def is_at_rest(self, world: World) -> bool:
        client = world.client
        is_quiet = not (world.pushes or world.asks or world.entries) and client.deadline is None
        view = self.server.views[world.at]
        return (
            is_quiet and (world.told is None or world.told == view.tick) and client.sync is not SyncState.WAITING_SOCKET
        )

    def says_what_was_true(self, world: World) -> bool:
        client = world.client
        word = (client.status_version, client.status, client.turn_id)
        return client.status_version == 0 or word in self.server.statuses

    def shows_a_beginning(self, world: World) -> bool:
        stream = world.client.stream
        if stream is None:
            return True
        return any(sid == stream.stream_id and text.startswith(stream.text) for sid, text in self.server.texts)

    def is_true_in_the_room(self, world: World) -> bool:
        """Whoever has heard all that the room said stands where it stands; its version tells of more than frames."""
        client = world.client
        has_heard_all = client.tick == self.server.views[world.at].tick and not client.early
        return (
            not has_heard_all or client.sync is not SyncState.JOINED or self._equals_but_version(world.mind, world.at)
        )

    @cache  # noqa: B019
    def _equals_but_version(self, mind: Known, at: int) -> bool:
        theirs = digest_of(self.server.views[at].snapshot())
        return replace(mind.state.digest(), version=0) == replace(theirs, version=0)

    def is_true_after_a_look(self, world: World) -> bool:
        return not (world.looked and self.is_at_rest(world)) or self.digest_holds(world)


T = TypeVar("T")
Q = TypeVar("Q", Ask, Entry)


def _without(items: tuple[T, ...], place: int) -> tuple[T, ...]:
    return items[:place] + items[place + 1 :]


def _with(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])


def _forget(world: World, client: TaskState, *, keeps_late: bool) -> World:
    """Keep of times and generations only what can matter; of late answers one, or none."""
    names = {}
    if client.check is not None:
        names[client.check.generation] = CHECK
    if client.joining is not None:
        names[client.joining.generation] = JOIN
    asks = tuple(Ask(names.get(ask.generation, STALE), ask.since) for ask in world.asks)
    entries = tuple(
        Entry(names.get(one.generation, STALE), one.after_version, one.stream_id, one.cursor, one.at)
        for one in world.entries
    )
    return replace(
        world,
        mind=known(_forget_times(client)),
        asks=_keep_few(asks, CHECK, late=keeps_late),
        entries=_keep_few(entries, JOIN, late=keeps_late),
    )


@cache
def _forget_times(client: TaskState) -> TaskState:
    check, joining, stream = client.check, client.joining, client.stream
    if check is not None:
        check = replace(check, generation=CHECK, deadline_at=CHECK_DUE, reason=CheckReason.PAGE_VISIBLE)
    if joining is not None:
        joining = replace(joining, generation=JOIN, deadline_at=JOIN_DUE)
    return replace(
        client,
        check=check,
        joining=joining,
        stream=None if stream is None else replace(stream, last_chunk_at=None),
        follow_up=None if client.follow_up is None else CheckReason.PAGE_VISIBLE,
        probe=Probe(None if client.probe.due_at is None else PROBE_DUE),
        generation=LAST,
        last_reason=None,
        problem="",
        anomalies=0,
    )


def _keep_few(sent: tuple[Q, ...], current: int, *, late: int) -> tuple[Q, ...]:
    """The one that is waited for, and the newest `late` of those that are not."""
    waited = [one for one in sent if one.generation == current]
    stale = [one for one in sent if one.generation != current]
    return tuple(stale[len(stale) - late :] + waited[-1:])


def walk(story: Story, limit: int, *, keeps_late: bool = False, mercy: int = UNBOUNDED) -> Exploration[World, Move]:
    """Everything that can happen, held against every law."""
    way = Walk(story, keeps_late=keeps_late, mercy=mercy)

    def never_goes_back(before: World, _: Move, after: World) -> bool:
        return after.client.version >= before.client.version

    def terminal_is_left_by_another_turn(before: World, _: Move, after: World) -> bool:
        was, now = before.client, after.client
        is_same = (was.status, was.turn_id) == (now.status, now.turn_id)
        return is_same or classify(was.status) is not StatusClass.TERMINAL or was.turn_id != now.turn_id

    def finished_text_is_not_live(world: World) -> bool:
        live = world.client.stream
        return live is None or all(message.stream_id != live.stream_id for message in world.client.messages)

    found = explore(
        start=[way.start()],
        inputs=way.moves,
        step=way.move,
        label=lambda world: world.client.sync.value,
        named=lambda move: move[0],
        state_laws={
            "a status that the server had": way.says_what_was_true,
            "text that the server said": way.shows_a_beginning,
            "what is finished is not live": finished_text_is_not_live,
            "whoever doubts has a deadline": lambda world: (
                not world.client.is_unstable or world.client.deadline is not None
            ),
            "whoever heard everything stands there": way.is_true_in_the_room,
            "one look is enough": way.is_true_after_a_look,
        },
        step_laws={
            "the version never goes back": never_goes_back,
            "terminal is left by another turn only": terminal_is_left_by_another_turn,
        },
        limit=limit,
    )
    at_the_end = [world for world in found.parents if world.at == way.server.last and way.is_at_rest(world)]
    assert any(way.digest_holds(world) for world in at_the_end)
    stuck = found.stuck(lambda world: world.at == way.server.last and way.is_at_rest(world) and way.digest_holds(world))
    assert not stuck, f"from here nothing leads to where the server is:\n{found.trace(stuck[0])}"
    return found


def record(found: Exploration[World, Move], name: str, tell: Callable[[str, object], None]) -> None:
    clients = len({world.mind for world in found.parents})
    tell("explored", found.summary(f"task client ({name}, {clients} states of the client)"))
    assert found.reached() >= {state.value for state in SyncState} - {"error", "closed"}


def test_a_turn_that_begins_in_a_network_without_mercy(record_property: Callable[[str, object], None]) -> None:
    found = walk(FIRST[:2], limit=50_000)
    record(found, "a prompt and a piece of text, any number of faults", record_property)


def test_late_answers_change_nothing(record_property: Callable[[str, object], None]) -> None:
    found = walk(FIRST[:1], limit=50_000, keeps_late=True)
    record(found, "a prompt, and answers that nobody waits for", record_property)


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_text_that_grows_in_a_network_without_mercy(record_property: Callable[[str, object], None]) -> None:
    found = walk(FIRST[:3], limit=400_000)
    record(found, "a prompt and two pieces of text, any number of faults", record_property)


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_two_turns_and_no_fault_but_time(record_property: Callable[[str, object], None]) -> None:
    """Every order in which things can come. The walk is cut there: no more than that goes wrong."""
    found = walk(FIRST + SECOND, limit=400_000, mercy=0)
    record(found, "two turns, cut at no fault", record_property)
