"""On any history every door prints the same of what needs a person, how the last turn ended, and what is asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.cli.look.session_lines import Shown, by_attention, shown_of
from interlock.cli.top.layout.facts import told
from interlock.client.machine.state import TaskState
from interlock.lifecycle.task_status import has_open_turn
from interlock.projections.attention_ledger import NoticeKind
from interlock.projections.badge import OUTCOMES, badge_of
from interlock.projections.task.view import TaskView
from interlock.server.live.rooms import RoomName, Rooms
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.states import Activity, Attention, BoardGroup, Outcome, TaskStatus, TurnState
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardJoin, TaskJoin
from tests.bodies import Body
from tests.properties.badge_doors import Doors
from tests.properties.badge_stories import OPEN_TURNS, STORIES, Scene, Story
from tests.properties.test_task_view_properties import HISTORIES, SESSION, Step

Said = tuple[bool, str, str]
"""Whether a person is needed, what is asked, and how the last turn ended; blank where it has not."""

LATER: Final = st.sampled_from([0, 1, 19, 21, 3_599, 3_601])
NOTICED: Final = {
    Outcome.DONE: NoticeKind.COMPLETED,
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.PARTIAL: NoticeKind.FAILED,
    Outcome.TIMED_OUT: NoticeKind.FAILED,
    Outcome.INTERRUPTED: NoticeKind.INTERRUPTED,
}


AT_REST: Final = (BoardGroup.IDLE, BoardGroup.DONE, BoardGroup.ENDED)


class World:
    """One session on a server, with a client in its room and on the board."""

    def __init__(self) -> None:
        self.now = EPOCH
        self.rooms = Rooms(lambda: self.now)
        self.inbox: deque[bytes] = deque()
        self.room: Badge | None = None
        self.line: Body | None = None
        self.rooms.set_supervised(SESSION, True)
        self.rooms.join(self, TaskJoin(id="j", task_id=SESSION))
        self.rooms.join_board(self, BoardJoin(id="b"))
        self._read()

    def offer(self, frame: bytes, _room: RoomName) -> bool:
        self.inbox.append(frame)
        return True

    def answer(self, frame: bytes) -> None:
        self.inbox.append(frame)

    def take(self, given: Step, later: int) -> None:
        """One step of the history, and then some time in which nothing is heard."""
        if isinstance(given, bool):
            self.rooms.set_supervised(SESSION, given)
        else:
            self.now = max(self.now, given.ts)
            self.rooms.publish(given)
        self.let_pass(later)

    def _read(self) -> None:
        while self.inbox:
            frame = msgspec.json.decode(self.inbox.popleft())
            self.line = frame.get("task", self.line)
            for line in frame.get("tasks", ()):
                self.line = line
            found = frame.get("badge") or frame.get("snapshot", {}).get("badge")
            if found is not None:
                self.room = msgspec.convert(found, Badge)

    def let_pass(self, later: int) -> None:
        """Some time in which nothing is heard."""
        self.now += timedelta(seconds=later)
        self.rooms.refresh()
        self._read()

    @property
    def doors(self) -> Doors:
        return Doors(self.rooms, SESSION)

    @property
    def summary(self) -> TaskSummary:
        """As HTTP gives it."""
        return msgspec.json.decode(
            msgspec.json.encode(self.rooms.views[SESSION].summary(self.rooms.now())), type=TaskSummary
        )


def of_badge(badge: Badge | None) -> Said:
    assert badge is not None
    return badge.needs_person, badge.attention.value, badge.outcome.value if badge.outcome else ""


def of_words(shown: Shown) -> Said:
    return shown.needs_person, shown.attention, shown.outcome


def of_json(session: Body) -> Said:
    """A session in the JSON of a command, whose badge says it all."""
    badge = session["badge"]
    return badge["needs_person"], badge["attention"], badge["outcome"] or ""


def of_metrics(doors: Doors) -> Said:
    found, needs = doors.metrics()
    assert found["activity"] == doors.http["badge"]["activity"]
    return needs == 1, found["attention"], "" if found["outcome"] == "none" else found["outcome"]


def surfaces(world: World) -> Iterator[tuple[str, Said]]:
    """Each surface that says all three."""
    summary = world.summary
    body: Body = msgspec.json.decode(msgspec.json.encode(summary))
    view = world.rooms.views[SESSION]
    yield "the snapshot of the room", of_badge(view.snapshot(now=world.now).badge)
    yield "the frames of the room", of_badge(world.room)
    assert world.line is not None
    yield "the frames of the board", of_words(shown_of(world.line))
    yield "ps", of_words(shown_of(by_attention([body])[0]))
    state = TaskState(task_id=SESSION, version=view.version, badge=world.room)
    yield "the head of a session in top", of_words(shown_of(told(body, state)))
    doors = world.doors
    yield "the text of /metrics", of_metrics(doors)
    yield "GET /api/tasks/{id}", of_words(shown_of(doors.http))


def words_for(badge: Badge, status: str | None) -> str:
    """The word that a person must find wherever a session is shown as text."""
    if status == TaskStatus.DELETE:
        return "archived"
    if badge.attention is not Attention.NONE:
        return badge.attention.value if badge.needs_person else f"{badge.attention.value} answered"
    return f"crashed {badge.crashes}x" if badge.crashes else ""


def check_texts(world: World) -> None:
    """What people read: the tables, the line of a status, the groups of the board."""
    doors, badge = world.doors, world.summary.badge
    assert badge is not None
    wanted = words_for(badge, world.summary.task_status)
    rows, shown = doors.ps(json=False), doors.show(json=False)
    assert wanted in rows
    assert wanted in shown
    if badge.attention is not Attention.NONE:
        assert ("answered" in rows) == (not badge.needs_person)
    assert ("needs you" in doors.status(json=False)) == badge.needs_person
    assert bool(msgspec.json.decode(doors.status(json=True))["needing_person"]) == badge.needs_person
    assert (doors.top() == ("needs you",)) == badge.needs_person


def check_wait(world: World) -> None:
    """`wait` is over by a question exactly where a person is needed, and reports the end that the badge tells."""
    doors, badge = world.doors, world.summary.badge
    assert badge is not None
    blocked = doors.wait("blocked")
    assert bool(blocked and blocked["is_met"]) == badge.is_blocked
    done = doors.wait("done")
    is_known = world.summary.is_supervised and world.summary.task_status is not TaskStatus.DELETE
    if is_known and done is not None and done["is_met"]:
        assert OUTCOMES[TurnState(done["state"])] is badge.outcome


def check_notices(world: World) -> None:
    """A person is told of what is asked, and of the end of a turn; the line that is read out says which."""
    summary = world.summary
    needs, attention, _ = of_badge(summary.badge)
    notices = world.doors.notices(world.now)
    kinds = {notice.kind.value for notice, _ in notices}
    ends = {kind.value for kind in NOTICED.values()}
    outcome = None if summary.badge is None else summary.badge.outcome
    is_end = outcome in NOTICED and summary.task_status is not TaskStatus.DELETE
    assert kinds & ends == ({NOTICED[outcome].value} if outcome is not None and is_end else set())
    # A failed end says what an error says.
    is_said = attention == "error" and NoticeKind.FAILED.value in kinds
    told = kinds - ends - {NoticeKind.CRASHED.value, NoticeKind.STALLED.value}  # they ask nothing of a person
    badge = summary.badge
    assert (NoticeKind.STALLED.value in kinds) <= (badge is not None and badge.activity is Activity.STALLED)
    assert told == ({attention} if needs and attention != "none" and not is_said else set())
    assert all(notice.reason in line for notice, line in notices)


def check_open_turn(summary: TaskSummary) -> None:
    """An open turn never stands among those that are idle, done or over; nor does a board say that its agent rests."""
    badge = summary.badge
    assert badge is not None
    if has_open_turn(summary.task_status):
        assert badge.group not in AT_REST
        assert badge.needs_person or badge.activity not in (Activity.QUIET, Activity.GONE)
        assert badge.outcome in (None, Outcome.UNKNOWN)
        assert not badge.is_over


def check_surfaces(world: World) -> None:
    check_open_turn(world.summary)
    expected = of_badge(world.summary.badge)
    for name, said in surfaces(world):
        assert said == expected, name


def check_all(world: World) -> None:
    """With the commands, which cost more."""
    check_surfaces(world)
    doors, expected = world.doors, of_badge(world.summary.badge)
    (line,) = msgspec.json.decode(doors.ps(json=True))["sessions"]
    assert of_json(line) == expected
    assert of_json(msgspec.json.decode(doors.show(json=True))["session"]) == expected
    check_texts(world)
    check_wait(world)
    check_notices(world)


@given(OPEN_TURNS, LATER)
def test_an_open_turn_is_never_idle_done_or_over(summary: TaskSummary, later: int) -> None:
    now = EPOCH + timedelta(seconds=later)
    check_open_turn(msgspec.structs.replace(summary, badge=badge_of(summary, now)))


@given(HISTORIES, st.data())
def test_every_surface_says_the_same(steps: list[Step], data: st.DataObject) -> None:
    world = World()
    for given_step in steps:
        world.take(given_step, data.draw(LATER, label="seconds of silence"))
        check_surfaces(world)
        check_notices(world)
    if steps:
        check_all(world)


def what_shows(summary: TaskSummary) -> tuple[object, ...]:
    assert summary.badge is not None
    status = None if summary.task_status is TaskStatus.UNKNOWN else summary.task_status
    return status, summary.badge.activity, summary.badge.attention


@given(HISTORIES)
def test_since_moves_when_the_badge_does_and_not_otherwise(steps: list[Step]) -> None:
    """Where something was heard of the agent before and after. What was answered changes by the time alone."""
    view = TaskView(SESSION)
    for given_step in steps:
        before = view.summary()
        if isinstance(given_step, bool):
            view.set_supervised(given_step)
            continue
        view.add(given_step)
        after = view.summary()
        is_text = isinstance(given_step.data, TextDelta | ReasoningDelta)
        if before.live is None or after.live is None or is_text or before.version > (given_step.seq or before.version):
            continue
        if what_shows(after) != what_shows(before):
            assert after.since == given_step.ts
        elif before.live.attention is Attention.NONE:
            assert after.since == before.since


@given(STORIES, st.data())
@example([("open", ""), ("prompt", ""), ("ask", "question"), ("answer", ""), ("lost", ""), ("close", "")], None)
@example([("open", ""), ("ask tool", ""), ("answer", ""), ("close", ""), ("end", "completed"), ("hold", "")], None)
@example([("open", ""), ("prompt", ""), ("crash", ""), ("crash", ""), ("end", "partial_failed")], None)
def test_every_surface_says_the_same_of_questions_crashes_and_ends(
    scenes: list[Scene], data: st.DataObject | None
) -> None:
    world = World()

    def take(given_step: Step) -> None:
        world.take(given_step, 0)

    story = Story(SESSION, lambda: world.now, take)
    for scene in scenes:
        story.scene(*scene)
        check_all(world)
        if data is not None:
            world.let_pass(data.draw(LATER, label="seconds of silence"))
            check_surfaces(world)


def test_the_stories_have_everything_that_a_badge_can_say() -> None:
    seen: set[str] = set()

    @settings(max_examples=300, derandomize=True, database=None)
    @given(STORIES)
    def collect(scenes: list[Scene]) -> None:
        world = World()
        story = Story(SESSION, lambda: world.now, lambda given_step: world.take(given_step, 0))
        for scene in scenes:
            story.scene(*scene)
            badge = world.summary.badge
            assert badge is not None
            asked = badge.attention.value if badge.needs_person else f"{badge.attention.value} answered"
            seen.update({asked, badge.activity.value, badge.outcome.value if badge.outcome else "open"})
            seen.update({"crashed"} if badge.crashes else ())

    collect()
    asks = {one.value for one in Attention if one is not Attention.NONE}
    assert seen >= {*asks, "approval answered", "question answered", "open", "crashed", *map(str, Outcome)}
    assert seen >= {one.value for one in Activity}
