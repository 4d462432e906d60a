"""The hub: the sessions of the log as their rooms show them, kept up to date by what the runtime publishes.

Laws:
1. It listens first and reads then. What comes for a session that is being read is put aside until the reading is done:
   nothing is lost, and nothing is folded twice.
2. A session whose published events show a gap is read again, from where its fold stands. What the reader finds damaged
   is told to the fold, after the events that are sound.
3. No failure of a log or of a fold ends it. What failed is tried again, later each time, and `is_ready` is false until
   it is mended; the other sessions go on.
4. It says that somebody runs a session only while somebody does. Whoever asks is told how that is when they ask.
5. However much is published, whoever else has something to do waits for a few events, not for all of them.
6. Whoever waits for a version is woken by the event that brings it, and by nothing else than that and its deadline.
7. Of a session at rest the store keeps a line, and nothing is held here once nobody looks at it (`resting.py`). Its
   view is folded again when somebody asks. Every list is the same, whether it comes from views or from lines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Final

from interlock.log.port import Log, LogDamage, LogUnavailable, Slice, without_damaged
from interlock.projections.task.summary import NO_AGENT, TaskLine, TaskTally
from interlock.projections.task.view import TaskView
from interlock.runtime.runtime import EventWatcher, Runtime
from interlock.runtime.session.supervisor import Supervisor
from interlock.server.http.problems import NotReady, UnknownTask
from interlock.server.live.outbox import FlushRound, Outbox, Traffic
from interlock.server.live.resting import RestingTask, RestingTasks
from interlock.server.live.rooms import NEWEST, Rooms
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import SessionDeleted, SessionOpened
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import EventId, SessionId, is_valid_id
from interlock.vocabulary.states import Activity, TaskStatus
from interlock.vocabulary.wire.encoding import encode
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardJoin, ServerClosing, TaskJoin, TaskResume

SERVICE_RESTART: Final = 1012
GOING_AWAY: Final = 1001
MAX_ASIDE: Final = 10_000
MAX_VIEWS_AT_REST: Final = 32
PATIENCE_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0
_PAGE: Final = 1_000
_BURST: Final = 16
_MANY: Final = 50
_REST_BETWEEN: Final = 4.0  # a fifth of one core, until every session was checked
_MAX_PAUSE_SECONDS: Final = 30.0
_RETRY_AFTER_SECONDS: Final = 1.0
_logger: Final = logging.getLogger("interlock.server")


@dataclass(slots=True)
class _Trouble:
    """A session that could not be read or folded: how often, and when to try again."""

    times: int
    not_before: float


class Hub:
    """Start it within a running runtime. `views` is what is known of each task now; clients connect by `connection`."""

    def __init__(
        self, runtime: Runtime, log: Log, *, look_seconds: float = 0.5, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._runtime = runtime
        self._log = log
        self._look_seconds = look_seconds
        self._patience_seconds = patience_seconds
        self.rooms = Rooms(lambda: datetime.now(UTC))
        self.resting = RestingTasks(log.snapshots, self._can_wake)
        self.traffic = Traffic()
        self._flushing = FlushRound()
        self.times_missed = 0
        self.times_failed = 0
        self._outboxes: dict[Outbox, None] = {}
        self._aside: dict[SessionId, list[Event]] = {}
        self._trouble: dict[SessionId, _Trouble] = {}
        self._awaited: dict[SessionId, dict[asyncio.Future[None], int]] = {}
        self._opening: dict[SessionId, asyncio.Lock] = {}
        self._used: dict[SessionId, None] = {}  # views that somebody asked for, the newest last
        self._stirred: dict[SessionId, None] = {}  # views that changed since it was looked which are at rest
        self._quiet: dict[SessionId, None] = {}  # those that were
        self._scans_wanted = 1
        self._scans_done = 0
        self._is_settled = False  # it was looked who runs what, after the runtime had looked at every session
        self._is_cache_lost = False
        self._last_tick = 0  # of the views that were dropped
        self._is_closing = False
        self._bell = asyncio.Event()
        self._looked = asyncio.Event()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._proof: asyncio.Task[None] | None = None
        self._numbers = count(1)

    # For routes

    @property
    def views(self) -> Mapping[SessionId, TaskView]:
        return self.rooms.views

    def view(self, task_id: SessionId) -> TaskView | None:
        """What is known of a task; None: it is not known here, or `open` has to read it first."""
        self._look(task_id)
        return self.rooms.views.get(task_id)

    async def open(self, task_id: SessionId) -> TaskView | None:
        """The view of a task, read if it is not here; None: the log has no such task, or it cannot be read now."""
        self._note_use(task_id)
        if task_id not in self.rooms.views and is_valid_id(task_id):
            await self._open(task_id)
        return self.view(task_id)

    def opened(self, task_id: SessionId) -> TaskView | None:
        """The same without reading: None where `open` has to say."""
        if task_id not in self.rooms.views:
            return None
        self._note_use(task_id)
        return self.view(task_id)

    def _note_use(self, task_id: SessionId) -> None:
        self._used.pop(task_id, None)
        self._used[task_id] = None
        while len(self._used) > MAX_VIEWS_AT_REST:  # also ids that nobody has: who asks for many costs no memory
            del self._used[next(iter(self._used))]

    async def _open(self, task_id: SessionId) -> None:
        lock = self._opening.setdefault(task_id, asyncio.Lock())
        try:
            async with lock:
                if task_id in self.rooms.views or task_id in self._trouble:
                    return
                try:
                    is_here = task_id in self._aside or await self._is_in_log(task_id)
                except LogUnavailable as error:
                    self._note_failure(task_id, error)
                    return
                if is_here:
                    self._aside.setdefault(task_id, [])
                    await self._mend(task_id, is_news=False)
        finally:
            if not lock.locked():
                self._opening.pop(task_id, None)

    async def _is_in_log(self, task_id: SessionId) -> bool:
        async with asyncio.timeout(READ_SECONDS):
            page = await self._log.sessions(prefix=task_id, limit=1)
        return any(one.session_id == task_id and not one.is_purged for one in page.sessions)

    async def page(self, after: SessionId | None, limit: int) -> tuple[tuple[TaskSummary, ...], bool]:
        """The lines of the tasks after an id, in the order of their ids, and whether there are more."""
        found = await self._resting_page(after, limit + 1)
        now = self.rooms.now()
        lines: dict[SessionId, TaskView | RestingTask] = {one.task_id: one for one in found}
        lines |= {key: view for key, view in self.rooms.views.items() if after is None or key > after}
        ids = sorted(lines)
        return tuple(self.rooms.line(lines[one], now) for one in ids[:limit]), len(ids) > limit

    async def lines(self, after: SessionId | None = None) -> AsyncGenerator[TaskView | RestingTask, None]:
        """Every task in the order of ids, whether it is open or at rest."""
        while True:
            found = await self._resting_page(after, _PAGE)
            last = found[-1].task_id if len(found) == _PAGE else None
            here = {
                task_id: view
                for task_id, view in self.rooms.views.items()
                if (after is None or task_id > after) and (last is None or task_id <= last)
            }
            known: dict[SessionId, TaskView | RestingTask] = {one.task_id: one for one in found} | here
            for task_id in sorted(known):
                yield known[task_id]
            if last is None:
                return
            after = last

    async def tallies(self) -> AsyncIterator[tuple[TaskSummary, TaskTally]]:
        """The line of every task, with its share in figures over all."""
        now = self.rooms.now()
        async for one in self.lines():
            yield one.summary(now), one.tally()

    async def _resting_page(self, after: SessionId | None, limit: int) -> list[RestingTask]:
        """A line that was changed is not believed: its session is folded again."""
        found = await self.resting.page(after, limit)
        for task_id in self.resting.take_changed():
            await self._open(task_id)
        if self.resting.is_broken and not self._is_cache_lost:
            self._is_cache_lost = True
            self._scans_wanted += 1
            _logger.error("the snapshots of sessions cannot be read: every session is read instead")
            await self._round()
        return found

    async def reached(self, task_id: SessionId, version: int, seconds: float) -> bool:
        """Wait until a task is shown as of a version or a later one; false: it is not, after so many seconds."""
        if self._version(task_id) >= version:
            return True
        awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._awaited.setdefault(task_id, {})
        waiting[awaited] = version
        try:
            async with asyncio.timeout(seconds):
                await awaited
        except TimeoutError:
            return False
        finally:
            waiting.pop(awaited, None)
            if not waiting and self._awaited.get(task_id) is waiting:
                del self._awaited[task_id]
        return True

    @property
    def is_ready(self) -> bool:
        """Whether every session of the log is here, and up to date, and it is known who runs it."""
        is_following = bool(self._tasks) and not any(task.done() for task in self._tasks)
        return is_following and self._is_settled and not (self._is_closing or self._needs_scan or self._aside)

    @property
    def is_listed(self) -> bool:
        """Whether it is known which tasks there are. Some may still have to be read."""
        return bool(self._scans_done)

    @property
    def _needs_scan(self) -> bool:
        return self._scans_done < self._scans_wanted

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    @property
    def connections(self) -> int:
        return len(self._outboxes)

    @contextmanager
    def connection(self, settings: ServerSettings) -> Iterator[Outbox]:
        """The outbox of one client, for as long as it is connected."""
        outbox = Outbox(
            self.rooms,
            max_frames=settings.outbox_frames,
            max_bytes=settings.outbox_bytes,
            traffic=self.traffic,
            flushing=self._flushing,
        )
        if self._is_closing:
            outbox.close(SERVICE_RESTART, "the server is closing")
        self._outboxes[outbox] = None
        try:
            yield outbox
        finally:
            self.rooms.drop(outbox)
            self._outboxes.pop(outbox, None)
            self._bell.set()

    def check_known(self, task_id: SessionId) -> None:
        """Refuse to speak of a task that is not known, or of which more is known to be there than could be read. Call
        `open` first: what is at rest may not be here."""
        is_unknown = task_id not in self.rooms.views
        if task_id in self._trouble or (is_unknown and not self.is_ready):
            raise NotReady("the log of this task has not been read to its end")
        if is_unknown:
            raise UnknownTask(task_id)

    def join(self, outbox: Outbox, request: TaskJoin | TaskResume) -> None:
        """Let a client into a room, and answer it. The task was opened before."""
        self.check_known(request.task_id)
        self._look(request.task_id)
        self.rooms.join(outbox, request)

    def join_board(self, outbox: Outbox, request: BoardJoin) -> None:
        """Show every task. Before the log was listed once, nobody knows which those are."""
        if not self._scans_done:
            raise NotReady("the log has not been read to its end")
        self._look_who_runs()
        self.rooms.join_board(outbox, request)

    # Its life

    async def start(self) -> None:
        """Follow the runtime. The log has been read once when this returns, unless that takes long, or many sessions
        are to be read; see `is_ready`."""
        if self._tasks:
            raise UsageError("this hub was started already", remedy="make another")
        self._tasks = (asyncio.create_task(self._follow()), asyncio.create_task(self._keep()))
        try:
            async with asyncio.timeout(self._patience_seconds):
                await self._looked.wait()
        except TimeoutError:
            pass  # much is to be read; meanwhile it answers, and says that it is not ready
        self._proof = asyncio.create_task(self._prove())

    async def close(self, reason: str, *, is_restart: bool = True, patience_seconds: float = 5.0) -> None:
        """Tell every client, end its connection when it has been told, and follow no more. Safe to call twice."""
        self._is_closing = True
        told = encode(ServerClosing(reason=reason, retry_after_seconds=_RETRY_AFTER_SECONDS))
        for outbox in self._outboxes:
            outbox.answer(told)
            outbox.close(SERVICE_RESTART if is_restart else GOING_AWAY, reason)
        try:
            async with asyncio.timeout(patience_seconds):
                while self._outboxes:
                    self._bell.clear()
                    await self._bell.wait()
        except TimeoutError:
            _logger.warning("%d connections did not end in time", len(self._outboxes))
        tasks = (*self._tasks, *(() if self._proof is None else (self._proof,)))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._let_rest()

    async def _follow(self) -> None:
        """Hear what is published. A watcher that missed something is replaced, and then every session is read again. So
        is one that we failed over: nobody else would hear of that."""
        while True:
            async with self._runtime.watch() as watcher:
                self._doubt_everything()
                try:
                    await self._hear_all(watcher)
                except Exception as error:
                    self._note_fault("what is published cannot be heard, and is read again", error)
                    await asyncio.sleep(self._look_seconds)
                    continue
            if not watcher.has_missed:
                return
            self.times_missed += 1

    async def _hear_all(self, watcher: EventWatcher) -> None:
        heard = 0
        async for event in watcher:
            self._hear(event)
            heard += 1
            if heard % _BURST == 0:  # as long as there is more, a watcher does not let others run
                await asyncio.sleep(0)

    def _doubt_everything(self) -> None:
        for task_id in self.rooms.views:
            self._aside[task_id] = []  # what was put aside before the gap is in the log, or lost
        self._scans_wanted += 1
        self._bell.set()

    def _hear(self, event: Event) -> None:
        task_id = event.session_id
        aside = self._aside.get(task_id)
        if aside is not None:
            if len(aside) >= MAX_ASIDE:
                aside.clear()  # the log has what counts; a live text with a hole is for the fold to judge
            aside.append(event)
        elif self._has_gap(event) or self._was_taken_up(task_id):
            self._put_aside(task_id, event)
        else:
            is_new = task_id not in self.rooms.views
            self._stirred[task_id] = None
            self._try(task_id, partial(self.rooms.publish, event))
            if is_new or isinstance(event.data, Status):  # a supervisor that fails shows that as its last
                self._look(task_id)

    def _has_gap(self, event: Event) -> bool:
        """Whether something came before this event that is not folded. The first of a new session has no gap."""
        view = self.rooms.views.get(event.session_id)
        if event.seq is None:
            return view is None
        return event.seq > (0 if view is None else view.version) + 1

    def _put_aside(self, task_id: SessionId, *events: Event) -> None:
        self._aside[task_id] = list(events)
        self._bell.set()

    def _try(self, task_id: SessionId, work: Callable[[], None]) -> bool:
        """Do something with a fold. One that fails is not trusted any more: the session is folded again."""
        try:
            work()
        except Exception as error:
            self._note_failure(task_id, error)
            return False
        self._wake(task_id)
        return True

    def _wake(self, task_id: SessionId) -> None:
        shown = self._version(task_id)
        for awaited, version in self._awaited.get(task_id, {}).items():
            if version <= shown and not awaited.done():
                awaited.set_result(None)

    def _note_fault(self, what: str, error: Exception) -> None:
        self.times_failed += 1
        _logger.error("%s: %s", what, error, exc_info=error)

    def _note_failure(self, task_id: SessionId, error: Exception) -> None:
        self.times_failed += 1
        times = self._trouble[task_id].times + 1 if task_id in self._trouble else 1
        pause = min(_MAX_PAUSE_SECONDS, self._look_seconds * 2 ** min(times - 1, 10))
        self._trouble[task_id] = _Trouble(times, asyncio.get_running_loop().time() + pause)
        self._aside.setdefault(task_id, [])
        if times == 1:
            _logger.error("task %s is not up to date: %s", task_id, error, exc_info=error)

    # Everything that needs the log is done by one task

    async def _keep(self) -> None:
        while True:
            self._bell.clear()
            try:
                await self._round()
            except Exception as error:  # the next round may go better, and without one nothing is mended any more
                self._note_fault("the sessions are not all up to date", error)
            self._looked.set()
            try:
                async with asyncio.timeout(self._look_seconds):
                    await self._bell.wait()
            except TimeoutError:
                pass  # it is time to look again

    async def _round(self) -> None:
        is_settled = self._runtime.is_settled
        if self._needs_scan:
            await self._scan()
        if len(self._aside) > _MANY:
            self._looked.set()  # a start that reads many of them accepts meanwhile
        for number, task_id in enumerate(tuple(self._aside), start=1):
            await self._mend(task_id)
            if number % _MANY == 0:  # whoever runs what, and what is at rest, does not wait for all of them
                self._look_who_runs()
                await self._let_rest()
        self._look_who_runs()
        self._is_settled |= is_settled
        self.rooms.refresh()
        await self._let_rest()

    async def _scan(self) -> None:
        """Find the sessions of the log that are not at rest, or not known to be. They are read by the round."""
        wanted = self._scans_wanted
        try:
            async with asyncio.timeout(READ_SECONDS):
                for task_id in await self.resting.missing():
                    if task_id not in self.rooms.views:
                        self._aside.setdefault(task_id, [])
                newest = await self.resting.newest()
                for one in newest:
                    self.rooms.below.note_line(one.line.summary)
                for task_id in self.resting.take_changed():
                    self._aside.setdefault(task_id, [])
            if not self._scans_done:
                self.rooms.resting = {one.task_id: one for one in newest if one.task_id not in self.rooms.views}
            self._scans_done = wanted
        except Exception as error:
            self.times_failed += 1
            _logger.warning("the sessions of the log cannot be listed: %s", error)

    # At rest

    async def _let_rest(self) -> None:
        """Keep the lines of sessions that came to rest, and drop the views that nobody needs."""
        at_rest = self._find_at_rest()
        try:
            await self.resting.keep(at_rest)
        except LogUnavailable as error:
            _logger.warning("the lines of sessions at rest cannot be kept: %s", error)
            return
        idle = [one for one in at_rest if self.resting.has(one) and not self._is_needed(one.task_id)]
        recent = set(self._used)
        spare = MAX_VIEWS_AT_REST - len(recent)
        for view in [one for one in idle if one.task_id not in recent][: max(0, len(idle) - spare)]:
            if self.rooms.views.get(view.task_id) is view and self._is_at_rest(view.task_id, view):
                self._forget(view)

    def _find_at_rest(self) -> list[TaskView]:
        """The views that are at rest. One that did not change is not looked at again: of many at work, none is."""
        views, stirred, self._stirred = self.rooms.views, self._quiet | self._stirred, {}
        found = [views[one] for one in stirred if one in views and self._is_at_rest(one, views[one])]
        self._quiet = {one.task_id: None for one in found}
        return found

    def _forget(self, view: TaskView) -> None:
        self._last_tick = max(self._last_tick, view.tick)
        self.rooms.forget(view.task_id)
        self._used.pop(view.task_id, None)
        self.rooms.resting[view.task_id] = self.resting.line_of(view)
        if len(self.rooms.resting) > NEWEST:
            del self.rooms.resting[min(one.age for one in self.rooms.resting.values())[1]]

    def _is_at_rest(self, task_id: SessionId, view: TaskView) -> bool:
        return task_id not in self._aside and task_id not in self._trouble and view.is_at_rest

    def _is_needed(self, task_id: SessionId) -> bool:
        is_awaited = task_id in self._awaited or task_id in self._opening
        return is_awaited or self._supervisor(task_id) is not None or self.rooms.is_needed(task_id)

    def _can_wake(self, task_id: SessionId, line: TaskLine) -> bool:
        return line.summary.task_status is not TaskStatus.DELETE and self._runtime.can_wake(task_id, line.opened)

    async def _prove(self) -> None:
        """Check the events of every session at rest against its chain, a few at a time: what was damaged since its line
        was kept is not hidden by it. A session that is damaged is read, and shown as it is."""
        after: SessionId | None = None
        loop = asyncio.get_running_loop()
        while True:
            try:
                page = await self.resting.page(after, _MANY)
                for one in page:
                    began = loop.time()
                    if not await self.resting.proves(one.task_id) and await self._is_in_log(one.task_id):
                        _logger.error("session %s is damaged: it is read again", one.task_id)
                        self._aside.setdefault(one.task_id, [])
                        self._bell.set()
                    await asyncio.sleep(_REST_BETWEEN * (loop.time() - began))
                if len(page) < _MANY:
                    return
                after = page[-1].task_id
            except Exception as error:
                self._note_fault("the events of sessions at rest cannot be checked", error)
                await asyncio.sleep(_MAX_PAUSE_SECONDS)

    async def _mend(self, task_id: SessionId, *, is_news: bool = True) -> None:
        """Bring one session to where the log is, then go on with what was put aside."""
        trouble = self._trouble.get(task_id)
        if trouble is not None and asyncio.get_running_loop().time() < trouble.not_before:
            return
        try:
            found = await self._read(task_id, after=0 if trouble else self._version(task_id))
        except Exception as error:
            self._note_failure(task_id, error)
            return
        if self._try(task_id, partial(self._take_up, task_id, found, is_anew=trouble is not None, is_news=is_news)):
            self._trouble.pop(task_id, None)
            for event in _not_stale(self._aside.pop(task_id, []), found.version):
                self._hear(event)

    def _take_up(self, task_id: SessionId, found: Slice, *, is_anew: bool, is_news: bool) -> None:
        self._stirred[task_id] = None
        if not found.events and not found.damage and task_id not in self.rooms.views:
            return  # purged meanwhile
        self.rooms.resting.pop(task_id, None)
        if is_anew:
            self._fold_anew(task_id, found)
        else:
            opened = None
            for one in found.events:
                if isinstance(one.data, SessionDeleted):
                    opened = None  # no server runs it any more
                    break
                opened = one.data if isinstance(one.data, SessionOpened) else opened
            is_supervised, is_new = self._is_supervised(task_id, opened), task_id not in self.rooms.views
            self.rooms.load(task_id, found.events, found.damage, is_supervised=is_supervised, is_news=is_news)
            view = self.rooms.views[task_id]
            view.tick = max(view.tick, self._last_tick) if is_new else view.tick  # as below: it may have been here
        if self.rooms.views[task_id].is_supervised:
            self._show_agent(task_id)

    def _fold_anew(self, task_id: SessionId, found: Slice) -> None:
        view, old = TaskView(task_id), self.rooms.views.get(task_id)
        for event in found.events:
            view.add(event)
        for one in found.damage:
            view.lose(one.first_seq, one.last_seq)
        view.set_supervised(self._is_supervised(task_id, view.opened))
        # Ticks of a room never go back while the server lives.
        view.tick = max(view.tick, 0 if old is None else old.tick) + 1
        self.rooms.replace(view)

    def _show_agent(self, task_id: SessionId) -> None:
        """What an agent is seen to do was published before we listened, and holds until something else is."""
        status = NO_AGENT if self._supervisor(task_id) is None else self._runtime.status(task_id)
        last_at = self.rooms.views[task_id].summary().last_at
        if last_at is not None and status.activity is not Activity.UNKNOWN:
            name = EventId(f"hub.{next(self._numbers)}")
            self.rooms.publish(new_event(status, id=name, session_id=task_id, ts=last_at))

    async def _read(self, task_id: SessionId, *, after: int) -> Slice:
        """Everything after a version: what is sound, what is damaged, and the version up to which that is."""
        events: list[Event] = []
        damage: list[LogDamage] = []
        while True:
            async with asyncio.timeout(READ_SECONDS):
                found = await self._log.read(task_id, after=after, limit=_PAGE)
            events += found.events
            damage += found.damage
            last = found.events[-1].seq if found.events else None
            after = (last or after) if len(found.events) == _PAGE else max(last or 0, after + _PAGE)
            if after >= found.version:
                sound = without_damaged(events, damage)
                return Slice(events=sound, version=found.version, damage=tuple(damage))

    def _version(self, task_id: SessionId) -> int:
        view = self.rooms.views.get(task_id)
        return 0 if view is None else view.version

    # Who runs what

    def _is_supervised(self, task_id: SessionId, opened: SessionOpened | None = None) -> bool:
        """Whether somebody runs a session, or would as soon as there is something to do."""
        supervisor = self._supervisor(task_id)
        return not supervisor.is_over if supervisor is not None else self._would_run(task_id, opened)

    def _would_run(self, task_id: SessionId, opened: SessionOpened | None) -> bool:
        """Whether a session that nobody supervises would be, as soon as there is something to do."""
        view = self.rooms.views.get(task_id)
        if view is not None and view.status is TaskStatus.DELETE:
            return False
        return self._runtime.can_wake(task_id, opened if view is None or view.opened is None else view.opened)

    def _supervisor(self, task_id: SessionId) -> Supervisor | None:
        try:
            return self._runtime.supervisor(task_id)
        except UsageError:
            return None

    def _was_taken_up(self, task_id: SessionId) -> bool:
        """Whether somebody runs a session now that nobody ran when it was last looked at."""
        view = self.rooms.views.get(task_id)
        return view is not None and not view.is_supervised and self._is_supervised(task_id)

    def _look(self, task_id: SessionId) -> None:
        """See whether somebody runs a session. That nobody does holds at once."""
        view = self.rooms.views.get(task_id)
        if view is not None and view.is_supervised and not self._is_supervised(task_id):
            self._try(task_id, partial(self.rooms.set_supervised, task_id, is_supervised=False))
        elif task_id not in self._aside and self._was_taken_up(task_id):
            self._put_aside(task_id)  # whoever took it up may have written first

    def _look_who_runs(self) -> None:
        known = {one: self._is_supervised(one) for one in self._runtime.sessions}
        changed = [
            one
            for one, view in self.rooms.views.items()
            if view.is_supervised != (known[one] if one in known else self._would_run(one, view.opened))
        ]
        for task_id in changed:
            self._look(task_id)


def _not_stale(aside: list[Event], version: int) -> list[Event]:
    """What was put aside, without what was published before `version` was: that is folded, or over."""
    last = max(
        (place for place, event in enumerate(aside) if event.seq is not None and event.seq <= version), default=-1
    )
    return aside[last + 1 :]
