"""The hub: every session of the log as its rooms show it, kept up to date by what the runtime publishes.

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
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Final

from interlock.log.port import Log, LogDamage, Slice, without_damaged
from interlock.projections.task.view import TaskView
from interlock.runtime.runtime import EventWatcher, Runtime
from interlock.server.http.problems import NotReady, UnknownTask
from interlock.server.live.outbox import Outbox, Traffic
from interlock.server.live.rooms import Rooms
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import EventId, SessionId
from interlock.vocabulary.states import Activity
from interlock.vocabulary.wire.encoding import encode
from interlock.vocabulary.wire.requests import BoardJoin, ServerClosing, TaskJoin, TaskResume

SERVICE_RESTART: Final = 1012
GOING_AWAY: Final = 1001
MAX_ASIDE: Final = 10_000
READ_SECONDS: Final = 30.0
_PAGE: Final = 1_000
_BURST: Final = 16
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

    def __init__(self, runtime: Runtime, log: Log, *, look_seconds: float = 0.5) -> None:
        self._runtime = runtime
        self._log = log
        self._look_seconds = look_seconds
        self.rooms = Rooms(lambda: datetime.now(UTC))
        self.traffic = Traffic()
        self.times_missed = 0
        self.times_failed = 0
        self._outboxes: dict[Outbox, None] = {}
        self._aside: dict[SessionId, list[Event]] = {}
        self._trouble: dict[SessionId, _Trouble] = {}
        self._awaited: dict[SessionId, dict[asyncio.Future[None], int]] = {}
        self._scans_wanted = 1
        self._scans_done = 0
        self._is_closing = False
        self._bell = asyncio.Event()
        self._looked = asyncio.Event()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._numbers = count(1)

    # For routes

    @property
    def views(self) -> Mapping[SessionId, TaskView]:
        return self.rooms.views

    def view(self, task_id: SessionId) -> TaskView | None:
        """What is known of a task; None: it is not known here."""
        self._look(task_id)
        return self.rooms.views.get(task_id)

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
        """Whether every session of the log is here, and up to date."""
        is_following = bool(self._tasks) and not any(task.done() for task in self._tasks)
        return is_following and not (self._is_closing or self._needs_scan or self._aside)

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
        """Refuse to speak of a task that is not known, or of which more is known to be there than could be read."""
        is_unknown = task_id not in self.rooms.views
        if task_id in self._trouble or (is_unknown and not self.is_ready):
            raise NotReady("the log of this task has not been read to its end")
        if is_unknown:
            raise UnknownTask(task_id)

    def join(self, outbox: Outbox, request: TaskJoin | TaskResume) -> None:
        """Let a client into a room, and answer it."""
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
        """Follow the runtime. The log has been read once when this returns; see `is_ready` for whether that worked."""
        if self._tasks:
            raise UsageError("this hub was started already", remedy="make another")
        self._tasks = (asyncio.create_task(self._follow()), asyncio.create_task(self._keep()))
        await self._looked.wait()

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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
        if self._needs_scan:
            await self._scan()
        for task_id in tuple(self._aside):
            await self._mend(task_id)
        self._look_who_runs()
        self.rooms.refresh()

    async def _scan(self) -> None:
        """Find every session of the log. One that cannot be read keeps nobody from the others."""
        wanted, after = self._scans_wanted, None
        try:
            while True:
                async with asyncio.timeout(READ_SECONDS):
                    page = await self._log.sessions(after=after)
                for one in page.sessions:
                    view = self.rooms.views.get(one.session_id)
                    if not one.is_purged and (view is None or view.version < one.version):
                        self._aside.setdefault(one.session_id, [])
                        await self._mend(one.session_id)
                after = page.next_after
                if after is None:
                    self._scans_done = wanted
                    return
        except Exception as error:
            self.times_failed += 1
            _logger.warning("the sessions of the log cannot be listed: %s", error)

    async def _mend(self, task_id: SessionId) -> None:
        """Bring one session to where the log is, then go on with what was put aside."""
        trouble = self._trouble.get(task_id)
        if trouble is not None and asyncio.get_running_loop().time() < trouble.not_before:
            return
        try:
            found = await self._read(task_id, after=0 if trouble else self._version(task_id))
        except Exception as error:
            self._note_failure(task_id, error)
            return
        if self._try(task_id, partial(self._take_up, task_id, found, is_anew=trouble is not None)):
            self._trouble.pop(task_id, None)
            for event in _not_stale(self._aside.pop(task_id, []), found.version):
                self._hear(event)

    def _take_up(self, task_id: SessionId, found: Slice, *, is_anew: bool) -> None:
        is_supervised = self._is_supervised(task_id)
        if is_anew:
            self._fold_anew(task_id, found, is_supervised=is_supervised)
        else:
            self.rooms.load(task_id, found.events, found.damage, is_supervised=is_supervised)
        if is_supervised:
            self._show_agent(task_id)

    def _fold_anew(self, task_id: SessionId, found: Slice, *, is_supervised: bool) -> None:
        view, old = TaskView(task_id), self.rooms.views.get(task_id)
        for event in found.events:
            view.add(event)
        for one in found.damage:
            view.lose(one.first_seq, one.last_seq)
        view.set_supervised(is_supervised)
        # Ticks of a room never go back while the server lives.
        view.tick = max(view.tick, 0 if old is None else old.tick) + 1
        self.rooms.replace(view)

    def _show_agent(self, task_id: SessionId) -> None:
        """What an agent is seen to do was published before we listened, and holds until something else is."""
        status, last_at = self._runtime.status(task_id), self.rooms.views[task_id].summary().last_at
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

    def _is_supervised(self, task_id: SessionId) -> bool:
        try:
            return not self._runtime.supervisor(task_id).is_over
        except UsageError:
            return False

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
        running = {one for one in self._runtime.sessions if self._is_supervised(one)}
        changed = [one for one, view in self.rooms.views.items() if view.is_supervised != (one in running)]
        for task_id in changed:
            self._look(task_id)


def _not_stale(aside: list[Event], version: int) -> list[Event]:
    """What was put aside, without what was published before `version` was: that is folded, or over."""
    last = max(
        (place for place, event in enumerate(aside) if event.seq is not None and event.seq <= version), default=-1
    )
    return aside[last + 1 :]
