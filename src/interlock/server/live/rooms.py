"""Rooms: which connected client is told what, of which task. Synchronous, without a clock: a simulation can drive it.

Laws:
1. A join is one step. Its answer holds everything up to its tick, and what its member is offered next is the next tick.
2. A frame is encoded once, however many are in the room, and not at all where nobody is.
3. A member that has no place for a frame gets no other frame of that room before it has been told that it fell behind.
   Its other rooms go on.
4. The board is a room of its own. A line is told when it says something else; more text of a stream is not that.
5. Of a session at rest a line is enough. The board shows the newest of those (`resting`); others are asked for by page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, Protocol, TypeAlias, TypeVar

from msgspec import Struct, structs

from interlock.log.port import LogDamage
from interlock.projections.task.view import TaskView
from interlock.server.http.problems import UnknownTask
from interlock.server.live.below import SessionsBelow
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Attention
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.encoding import encode
from interlock.vocabulary.wire.frames import ChatChunk, ChatStart, ChatThought, TaskFrame, TaskSnapshot, TaskSummary
from interlock.vocabulary.wire.requests import (
    BoardBehind,
    BoardJoin,
    BoardJoined,
    BoardTask,
    TaskBehind,
    TaskJoin,
    TaskJoined,
    TaskResume,
)

RoomName: TypeAlias = SessionId | None
"""A task's room; None is the board."""

LineAge: TypeAlias = tuple[float, SessionId]
"""When the last event was, and the id."""

KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")

NEWEST: Final = 200
"""How many tasks at rest a board shows."""

_TEXT: Final = (ChatStart, ChatChunk, ChatThought)


class Member(Protocol):
    """One connected client. Members are told apart by identity."""

    def offer(self, frame: bytes, room: RoomName) -> bool:
        """A frame of a room. False: there is no place for it, and the member has fallen behind in that room."""
        ...

    def answer(self, frame: bytes) -> None:
        """What the member asked for. It is never refused."""
        ...


class RestingLine(Protocol):
    """What is shown of a task that is at rest, and whose view nobody needs."""

    @property
    def age(self) -> LineAge:
        """Its place among lines at rest, without making the line: see `line_age`."""
        ...

    def summary(self, now: datetime | None = None) -> TaskSummary: ...


class Rooms:
    """The tasks of one server that are open or looked at, and who looks at them."""

    def __init__(self, clock: Callable[[], datetime] | None = None) -> None:
        """`clock` gives the time of badges; without one it is the time of what was last heard of each task."""
        self._clock = clock
        self.views: dict[SessionId, TaskView] = {}
        self.resting: dict[SessionId, RestingLine] = {}
        self.frames_encoded = 0
        self.times_behind = 0
        self.board_tick = 0
        self._members: dict[RoomName, dict[Member, None]] = {}
        self._behind: dict[Member, dict[RoomName, None]] = {}
        self._joined: dict[Member, dict[RoomName, None]] = {}
        self._lines: dict[SessionId, tuple[object, ...]] = {}
        self._changes_at: datetime | None = None
        self.below = SessionsBelow()

    # What happens

    def load(
        self,
        task_id: SessionId,
        events: Iterable[Event],
        damage: Iterable[LogDamage] = (),
        *,
        is_supervised: bool,
        is_news: bool = True,
    ) -> None:
        """Fold what the log holds, and what of it is damaged. What was folded before is no change; whoever is in the
        room is told the rest. Without `is_news` the board knows it already."""
        view = self._view(task_id)
        for event in events:
            self._tell_room(task_id, view.add(event))
        for one in damage:
            self._tell_room(task_id, view.lose(one.first_seq, one.last_seq))
        self._tell_room(task_id, view.set_supervised(is_supervised))
        self._note_change(view)
        self._tell_above(view)
        if is_news:
            self._tell_board(task_id)

    def is_needed(self, task_id: SessionId) -> bool:
        """Whether somebody is in the room of a task, up to date or behind."""
        return task_id in self._members or any(task_id in rooms for rooms in self._behind.values())

    def forget(self, task_id: SessionId) -> None:
        """Drop the view of a task that is at rest, and in whose room nobody is."""
        del self.views[task_id]
        self._lines.pop(task_id, None)
        self.below.forget(task_id)

    def publish(self, event: Event) -> None:
        """Fold one event, logged or live, and tell the room."""
        task_id = event.session_id
        view = self._view(task_id)
        frames = view.add(event)
        self._tell_room(task_id, frames)
        if not frames or not all(isinstance(frame, _TEXT) for frame in frames):
            self._note_change(view)
            self._tell_above(view)
            self._tell_board(task_id)

    def set_supervised(self, task_id: SessionId, is_supervised: bool) -> None:
        """Somebody runs the session, or nobody does any more."""
        self._tell_room(task_id, self._view(task_id).set_supervised(is_supervised))
        self._tell_above(self._view(task_id))
        self._tell_board(task_id)

    def replace(self, view: TaskView) -> None:
        """Take another fold of the same task. Who is in its room cannot go on from what it has, and is told so."""
        self.views[view.task_id] = view
        for member in self._members.pop(view.task_id, {}):
            self._fall_behind(member, view.task_id)
            self.catch_up(member)
        self._tell_above(view)
        self._tell_board(view.task_id)

    def line(self, one: TaskView | RestingLine, now: datetime | None) -> TaskSummary:
        """The line of a task at that time, with what is below it."""
        return self.below.completed(one.summary(now))

    def now(self) -> datetime | None:
        """The time of badges."""
        return None if self._clock is None else self._clock()

    def refresh(self) -> None:
        """Tell the badges that changed by themselves: their time was up."""
        now = self.now()
        if now is None or self._changes_at is None or now < self._changes_at:
            return
        self._changes_at = None
        for task_id, view in self.views.items():
            self._tell_room(task_id, view.refresh(now))
            self._note_change(view)
            self._tell_above(view)
            self._tell_board(task_id)

    def _note_change(self, view: TaskView) -> None:
        until = view.changes_at
        if until is not None:
            self._changes_at = until if self._changes_at is None else min(self._changes_at, until)

    # Who looks

    def join(self, member: Member, request: TaskJoin | TaskResume) -> None:
        """Answer with a snapshot, and be in the room from there on. To join again is to be brought up to date."""
        view = self.views.get(request.task_id)
        if view is None:
            raise UnknownTask(request.task_id)
        answer = self._encode(TaskJoined(id=request.id, snapshot=snapshot_for(view, request, self.now())))
        self._enter(member, request.task_id)
        member.answer(answer)

    def leave(self, member: Member, task_id: SessionId) -> None:
        """No more frames of this room. Not to have been in it is no error."""
        self._exit(member, task_id)

    def join_board(self, member: Member, request: BoardJoin) -> None:
        """Answer with a line of every task, of those at rest the newest, and tell each line that changes from then."""
        now = self.now()
        tasks = {task_id: self.line(one, now) for task_id, one in (self.resting | self.views).items()}
        at_rest = [one for task_id, one in tasks.items() if self._is_at_rest(task_id)]
        for one in sorted(at_rest, key=line_age, reverse=True)[NEWEST:]:
            del tasks[one.task_id]
        answer = self._encode(BoardJoined(id=request.id, tick=self.board_tick, tasks=tuple(tasks.values())))
        if None not in self._members:
            self._lines = {task_id: _line(summary) for task_id, summary in tasks.items()}
        self._enter(member, None)
        member.answer(answer)

    def _is_at_rest(self, task_id: SessionId) -> bool:
        view = self.views.get(task_id)
        return view is None or view.is_at_rest

    def leave_board(self, member: Member) -> None:
        """No more lines."""
        self._exit(member, None)

    def drop(self, member: Member) -> None:
        """The client is gone: it is in no room any more."""
        for room in tuple(self._joined.get(member, ())):
            self._exit(member, room)

    def rooms_of(self, member: Member) -> int:
        """In how many rooms a member is."""
        return len(self._joined.get(member, ()))

    def is_in(self, member: Member, room: RoomName) -> bool:
        """Whether a member is in a room, up to date or behind."""
        return room in self._joined.get(member, ())

    def catch_up(self, member: Member) -> None:
        """The member has place again: tell it of each room in which it fell behind, and then it goes on there."""
        for room in tuple(self._behind.get(member, ())):
            if not member.offer(self._encode(self._behind_frame(room)), room):
                return
            self._enter(member, room)

    # Within

    def _view(self, task_id: SessionId) -> TaskView:
        view = self.views.get(task_id)
        if view is None:
            view = self.views[task_id] = TaskView(task_id)
        return view

    def _encode(self, frame: Struct) -> bytes:
        self.frames_encoded += 1
        return encode(frame)

    def _tell_room(self, task_id: SessionId, frames: Iterable[TaskFrame]) -> None:
        for frame in frames:
            self._tell(task_id, frame)

    def _tell(self, room: RoomName, frame: Struct) -> None:
        members = self._members.get(room)
        if not members:
            return
        encoded = self._encode(frame)
        fallen = [member for member in members if not member.offer(encoded, room)]
        for member in fallen:
            self._fall_behind(member, room)

    def _tell_board(self, task_id: SessionId) -> None:
        if None not in self._members:  # nobody is told: what was told last is no measure of what to tell next
            self._lines.clear()
            return
        summary = self.line(self.views[task_id], self.now())
        line = _line(summary)
        if self._lines.get(task_id) != line:
            self._lines[task_id] = line
            self.board_tick += 1
            self._tell(None, BoardTask(tick=self.board_tick, task=summary))

    def _tell_above(self, view: TaskView) -> None:
        """What changed below a session is told on its line, and on those above it."""
        for task_id in self.below.note(view):
            if task_id in self.views:
                self._tell_board(task_id)

    def _behind_frame(self, room: RoomName) -> TaskBehind | BoardBehind:
        if room is None:
            return BoardBehind(tick=self.board_tick)
        view = self.views[room]
        return TaskBehind(task_id=room, version=view.version, tick=view.tick)

    def _enter(self, member: Member, room: RoomName) -> None:
        self._forget_lag(member, room)
        self._members.setdefault(room, {})[member] = None
        self._joined.setdefault(member, {})[room] = None

    def _exit(self, member: Member, room: RoomName) -> None:
        self._forget_lag(member, room)
        _discard(self._members, room, member)
        _discard(self._joined, member, room)

    def _fall_behind(self, member: Member, room: RoomName) -> None:
        self.times_behind += 1
        _discard(self._members, room, member)
        self._behind.setdefault(member, {})[room] = None

    def _forget_lag(self, member: Member, room: RoomName) -> None:
        _discard(self._behind, member, room)


def snapshot_for(view: TaskView, request: TaskJoin | TaskResume, now: datetime | None = None) -> TaskSnapshot:
    """What a request is answered."""
    if isinstance(request, TaskJoin):
        return view.snapshot(after_version=request.after_version, now=now)
    # One version may have several frames, and whoever comes back may have had only the first of them.
    is_of_our_log = request.version <= view.version
    known = max(0, request.version - 1) if is_of_our_log else request.version
    return view.snapshot(after_version=known, stream_id=request.stream_id, cursor=request.cursor, now=now)


def line_age(line: TaskSummary) -> LineAge:
    """The order of lines at rest: by their last event."""
    return (0.0 if line.last_at is None else line.last_at.timestamp()), line.task_id


def _line(summary: TaskSummary) -> tuple[object, ...]:
    """What a line of the board says to its reader: all of it, but for the time of the last event, and for proof beyond
    what it rests on first. These are told with the rest only."""
    live, badge = summary.live, summary.badge
    told = structs.replace(summary, version=0, last_at=None, since=None, live=None, badge=None)
    return (
        told,
        None if live is None else (live.activity, live.attention, live.idle_at),
        None if badge is None else structs.replace(badge, since=None, until=None, evidence=()),
        None if badge is None else _first_proof(badge),
    )


def _first_proof(badge: Badge) -> tuple[str, ...]:
    """What a line says of the evidence: the words of its rule, and of an error where it is."""
    for proof in badge.evidence:
        return proof.source, proof.rule, proof.where if badge.attention is Attention.ERROR else ""
    return ()


def _discard(index: dict[KeyT, dict[ItemT, None]], key: KeyT, item: ItemT) -> None:
    """Take an item out, and its group with it when that is empty."""
    group = index.get(key)
    if group is not None:
        group.pop(item, None)
        if not group:
            del index[key]
