"""The supervisor of one session: the hands of its conductor. Observations, commands and the clock go in; appends,
published events and calls to the agent come out, in the conductor's order.

Laws:
1. Append durably, then publish, then act. While the log takes nothing, nothing is published, done or confirmed, and
   the agent is not read from.
2. One task decides; calls to the agent run beside it, and what came of them is news.
3. Whatever happens, when it is closed no task and no process of ours is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final, TypeVar, assert_never

from msgspec import structs, to_builtins

from interlock.agents.port import (
    AgentHandle,
    AgentSpec,
    Driver,
)
from interlock.log.port import LogUnavailable, VersionConflict
from interlock.runtime.acts import (
    Act,
    Append,
    AskAttended,
    Command,
    Confirm,
    DecideForAgent,
    InterruptAgent,
    News,
    Publish,
    Refuse,
    Release,
    SpawnAgent,
    Stop,
    StopAgent,
    SubmitPrompt,
    TimerFired,
)
from interlock.runtime.book import SessionBook
from interlock.runtime.conductor import Conductor
from interlock.runtime.errands import Errands, Item, Services, started
from interlock.runtime.policy import RunPolicy
from interlock.vocabulary.audit import Anomaly, RunState
from interlock.vocabulary.codec import encode_event
from interlock.vocabulary.errors import ContractError, InterlockError, UsageError
from interlock.vocabulary.events import Event, new_event
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import EventId
from interlock.vocabulary.presenter import Status
from interlock.vocabulary.registry import Json, Payload
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import Activity, Attention, ExitReason

_BATCH: Final = 256
_STOP_SECONDS: Final = 60.0
_LOG_PATIENCE_SECONDS: Final = 120.0

ResultT = TypeVar("ResultT")


class SessionFailed(InterlockError):
    """The supervisor of a session ended on an error. What it wrote is in the log; nothing is known beyond it."""


class Supervisor(Errands):
    """One session in motion. `run` it in a task; give commands with `order`."""

    def __init__(
        self, book: SessionBook, spec: AgentSpec, driver: Driver, policy: RunPolicy, services: Services
    ) -> None:
        super().__init__(book, spec, driver, policy, services)
        self._version = book.version
        self.status = Status(activity=Activity.UNKNOWN)
        self._live_id = services.new_id("evt")
        self._live_numbers = count(1)
        self._first: list[Item] = []
        self._doing: list[Item] = []
        self._moved = asyncio.Condition()
        self._failure: BaseException | None = None
        self._is_over = False

    # For callers

    async def order(self, command: Command) -> Json:
        """Give a command; returns once it is durable and begun. `UsageError` where it is refused."""
        self._refuse_unkept(command)
        return await self._given(command)

    def _refuse_unkept(self, command: Command) -> None:
        """What the log could not keep as it is (a NUL, half a surrogate pair) is refused here, where that costs only
        the command: an append that fails would cost the supervisor."""
        told = Anomaly(kind="command", source="runtime", message="", details=to_builtins(command))
        try:
            encode_event(new_event(told, id=EventId("evt"), session_id=self.session_id, ts=self._services.clock().at))
        except ContractError as error:
            raise UsageError(
                "that could not be kept in the log as it is", remedy="leave out what is no plain text"
            ) from error

    async def _given(self, what: Command | News) -> Json:
        self._raise_if_over()
        done: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        await self._mailbox.put(Item(what, done))
        if self.is_over:
            done.cancel()  # nobody reads the mailbox any more
            self._raise_if_over()
        return await done

    async def until(self, look: Callable[[Conductor], ResultT | None]) -> ResultT:
        """Wait for something to be so. It is looked at now, and after each step."""
        async with self._moved:
            while (found := look(self._conductor)) is None:
                self._raise_if_over()
                await self._moved.wait()
            return found

    async def record(self, *payloads: Payload, is_of_turn: bool = True) -> None:
        """Append facts about this session that its agent did not make (its children, its workflows), and publish them.

        They are durable when this returns. `is_of_turn`: they belong to the turn that is open, if one is.
        """
        async with self._moved:
            self._raise_if_over()
            turn_id = self.book.turn_id if is_of_turn and self.book.turn is not None else None
            events = [
                new_event(
                    data,
                    id=EventId(self._services.new_id("evt")),
                    session_id=self.session_id,
                    ts=self._services.clock().at,
                    turn_id=turn_id,
                )
                for data in payloads
            ]
            await self._write(events)
            for event in events:
                self.book.add(event)
            self._moved.notify_all()

    @property
    def is_over(self) -> bool:
        """Whether nobody supervises this session any more."""
        return self._is_over or self._failure is not None

    def _raise_if_over(self) -> None:
        if self._failure is not None:
            raise SessionFailed(f"session {self.session_id} is not supervised any more: {self._failure}")
        if self._is_over:
            raise UsageError(f"session {self.session_id} is closed", remedy="open the runtime again")

    def hold(self, handle: AgentHandle) -> None:
        """Take an agent that was adopted, before `run`. The conductor hears of it before anything else: without an
        agent it would start one."""
        self._first.append(Item(started(handle, is_adopted=True)))
        self._handle = handle
        # It runs whether or not there is room: where there is none, the next slot is its own.
        self._adoption = asyncio.create_task(self._services.admit(self.session_id, self.spec.agent))
        self._keep(self._adoption)
        self._listen(handle, is_new=False)

    async def let_go(self) -> bool:
        """Before `run` is cancelled: an agent that outlives us is left running, any other is stopped. Whether one is
        left. It is `run` that lets go of it, when nobody listens to it any more: its silence is no end."""
        agent = self._conductor.agent
        if self.is_over or agent is None or not agent.capabilities.outlives_runtime or agent.stopping is not None:
            await self.stop_agent(is_closing=True)
            return False
        await self.order(Release())
        return True

    async def stop_agent(self, reason: ExitReason = ExitReason.STOPPED, *, is_closing: bool = False) -> None:
        """Stop the agent and wait until it is gone; one that is being started, too."""
        if self.is_over:
            return
        spawn_id, reading = self._conductor.running_spawn, self._reading
        await self.order(Stop(reason=reason, is_closing=is_closing))
        async with asyncio.timeout(_STOP_SECONDS):
            await self.until(lambda conductor: None if spawn_id and conductor.running_spawn == spawn_id else True)
            if reading is not None:
                await asyncio.wait((reading,))  # with the census
                await self._given(TimerFired())  # and with its record

    # The loop

    async def run(self) -> None:
        """Supervise until cancelled. Another end is a failure, which `order` and `until` then raise."""
        self._doing = [*self._first, Item(TimerFired())]  # what an earlier runtime left to do is looked at once
        try:
            while True:
                async with self._moved:  # whoever looks sees only what is durable
                    await self._perform(self._doing)
                    self._moved.notify_all()
                self._doing = await self._next_items()
        except asyncio.CancelledError:
            self._is_over = True
            raise
        except Exception as error:
            self._failure = error
            self._show_failure(error)
            raise
        finally:
            await self._end()

    def _show_failure(self, error: Exception) -> None:
        """What was shown last is not known to be so any more."""
        why = Evidence(source=EvidenceSource.LOG, rule="supervisor_failed", where=str(error) or type(error).__name__)
        self._show(Publish(Status(activity=Activity.UNKNOWN, attention=Attention.ERROR, evidence=(why,))))

    async def _end(self) -> None:
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, *self._stops.values(), return_exceptions=True)
            if self._handle is not None:
                await self._handle.release()
        finally:
            self._handle = None
            self._services.dismiss(self.session_id)
            self._fail_waiting()
            async with self._moved:
                self._moved.notify_all()

    def _fail_waiting(self) -> None:
        """Whoever waits for what is not done any more is told."""
        while not self._mailbox.empty():
            self._doing.append(self._mailbox.get_nowait())
        for item in self._doing:
            if item.done is not None and not item.done.done():
                item.done.set_exception(SessionFailed(f"session {self.session_id} is not supervised any more"))

    async def _next_items(self) -> list[Item]:
        deadline, items = self._conductor.deadline, list[Item]()
        if self._mailbox.empty():
            left = None if deadline is None else max(0.0, deadline - self._services.clock().seconds)
            try:
                async with asyncio.timeout(left):
                    items = [await self._mailbox.get()]
            except TimeoutError:
                return [Item(TimerFired())]
        while len(items) < _BATCH and not self._mailbox.empty():
            items.append(self._mailbox.get_nowait())
        if deadline is not None and deadline <= self._services.clock().seconds:
            items.insert(0, Item(TimerFired()))  # a due deadline comes before what makes us look
        return items

    async def _perform(self, items: list[Item]) -> None:
        waiting: list[Event] = []
        for item in items:
            now = self._services.clock()
            what, conductor = item.what, self._conductor
            is_news = isinstance(what, News)
            acts = conductor.hear(what, now) if isinstance(what, News) else conductor.order(what, now)
            for act in acts:
                if isinstance(act, Append):
                    waiting += act.events
                    continue
                if waiting:
                    await self._write(waiting)
                    waiting = []
                self._act(act, item.done)
            if item.done is not None and is_news:
                if waiting:
                    await self._write(waiting)
                    waiting = []
                if not item.done.done():
                    item.done.set_result(None)
        if waiting:
            await self._write(waiting)

    async def _write(self, events: list[Event]) -> None:
        loop = asyncio.get_running_loop()
        give_up_at, pause = loop.time() + _LOG_PATIENCE_SECONDS, 0.05
        is_written = False
        while not is_written:
            try:
                self._version = await self._services.log.append(self.session_id, events, expected_version=self._version)
                is_written = True
            except VersionConflict as conflict:
                is_written = await self._rebase(events, conflict.actual)
            except LogUnavailable:
                if loop.time() >= give_up_at:
                    raise
                await asyncio.sleep(pause)
                pause = min(5.0, pause * 2)
        first = self._version - len(events) + 1
        for offset, event in enumerate(events):
            self._services.publish(structs.replace(event, seq=first + offset))

    async def _rebase(self, events: list[Event], actual: int) -> bool:
        """Somebody else appended: a command on the same session, or we, before an answer that was lost. Whether ours
        are in the log already. An end of our turn that is not ours cannot be rebased on."""
        found = await self._services.log.read(self.session_id, after=self._version)
        ids = [event.id for event in found.events]
        if ids[-len(events) :] == [event.id for event in events]:
            self._version = found.version
            return True
        for event in found.events:
            is_end = isinstance(event.data, RunState) and event.data.status is RunStatus.DONE
            if is_end and event.turn_id == self.book.turn_id:
                raise SessionFailed(f"turn {event.turn_id} was ended by somebody else")
        self._version = actual
        return False

    def _act(self, act: Act, done: asyncio.Future[Json] | None) -> None:
        match act:
            case Append():
                raise AssertionError("appends are written before anything else is done")
            case Publish():
                self._show(act)
            case Confirm() | Refuse():
                _reply(act, done)
            case SpawnAgent():
                self._starting = asyncio.create_task(self._spawn(act))
                self._keep(self._starting)
            case SubmitPrompt(prompt):
                self._start(self._submit(prompt))
            case InterruptAgent():
                self._start(self._interrupt())
            case DecideForAgent(decision):
                self._start(self._decide(decision))
            case AskAttended():
                self._start(self._look_for_people())
            case StopAgent():
                self._start(self._stop())
            case _:
                assert_never(act)

    def _show(self, act: Publish) -> None:
        if isinstance(act.data, Status):
            self.status = act.data
        # Nothing refers to what is not logged: a number is name enough, and many of these are shown each second.
        event_id, at = EventId(f"{self._live_id}.{next(self._live_numbers)}"), self._services.clock().at
        self._services.publish(new_event(act.data, id=event_id, session_id=self.session_id, ts=at, turn_id=act.turn_id))


def _reply(act: Confirm | Refuse, done: asyncio.Future[Json] | None) -> None:
    if done is None or done.done():
        return
    if isinstance(act, Confirm):
        done.set_result(act.result)
    else:
        error = UsageError(act.message)  # the message names the remedy already
        error.remedy = act.remedy
        done.set_exception(error)
