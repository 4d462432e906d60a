"""Runs one session: observations, commands and the clock go into its machine; appends, published events and calls to
the agent come out, in the machine's order.

Laws:
1. Append durably, then publish, then act. While the log takes nothing, nothing of an append is published, done or
   confirmed, and the agent is not read from. That lasts as long as the disk is full; the status says so, and commands
   are refused, but for a stop: an agent that fills the disk can be ended while it is full.
2. One task decides; calls to the agent run beside it, and what came of them is an input.
3. Whatever happens, when it is closed no task and no process of ours is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, TypeVar

from msgspec import structs, to_builtins

from interlock.agents.port import (
    AgentHandle,
    AgentSpec,
    Driver,
)
from interlock.log.port import LogUnavailable, VersionConflict
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.session.agent.calls import AgentCalls, Item, Services, started
from interlock.runtime.session.agent.life import AgentStage
from interlock.runtime.session.effects import Append, Confirm, Effect, Publish, Refuse
from interlock.runtime.session.inputs import Command, News, Observed, Release, SessionTimerFired, StopAgentInput
from interlock.runtime.session.mailbox import Mailbox
from interlock.runtime.session.router import SessionMachine
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.errors import ContractError, InterlockError, UsageError
from interlock.vocabulary.events.audit import Anomaly, RunState
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.evidence import LOG_UNAVAILABLE, Evidence, EvidenceSource
from interlock.vocabulary.ids import EventId, SpawnId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import Activity, Attention, ExitReason

_BATCH: Final = 256
_MAX_WAITING: Final = 1024
_STOP_SECONDS: Final = 60.0
# For a log that is damaged or has another owner. One on a full disk is waited for as long as that lasts.
_LOG_PATIENCE_SECONDS: Final = 120.0
_LOG_RETRY_SECONDS: Final = 2.0
_LOG_TOLD_AFTER_SECONDS: Final = 1.0
_KEPT: Final = "the command is kept and recorded when it does"
_NOT_TAKEN: Final = "this was not taken"
_logger: Final = logging.getLogger("interlock.runtime")

ResultT = TypeVar("ResultT")


class SessionFailed(InterlockError):
    """The supervisor of a session ended on an error. What it wrote is in the log; nothing is known beyond it."""


class Supervisor:
    """One session in motion. `run` it in a task; give commands with `order`."""

    def __init__(
        self, book: SessionFold, spec: AgentSpec, driver: Driver, policy: RunPolicy, services: Services
    ) -> None:
        self.session_id = book.session_id
        self.spec = spec
        self.driver = driver
        self._services = services
        home_id = services.home.home_id
        now, rules = services.clock(), services.rules
        self.machine = SessionMachine(book, spec, driver.kind, services.new_id, policy, now, home_id, rules)
        self._mailbox: Mailbox[Item] = Mailbox(_MAX_WAITING)
        self.agent = AgentCalls(self.machine, spec, driver, services, self._mailbox.put, self._hear_now, self._fail)
        self._version = book.version
        self.status = Status(activity=Activity.UNKNOWN)
        self._live_id = services.new_id("evt")
        self._live_numbers = count(1)
        self._deadline: float | None = None  # not later than the machine's own
        self._first: list[Item] = []
        self._doing: list[Item] = []
        self._stepping = asyncio.Lock()  # held while the machine is ahead of the log
        self._waiting: list[Callable[[], bool]] = []  # each looks again, and says whether its wait is over
        self._waiting_for_text = 0  # how many of them a piece of text may end
        self._failure: BaseException | None = None
        self._call_failure: BaseException | None = None
        self._is_over = False
        self._log_fault: LogUnavailable | None = None
        self._fault_told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._status_before: Status | None = None

    @property
    def book(self) -> SessionFold:
        return self.machine.book

    # For callers

    async def order(self, command: Command) -> Json:
        """Give a command; returns once it is durable and begun. `UsageError` where it is refused, `LogUnavailable`
        where the log takes nothing: its message tells whether the command was refused or is kept."""
        self._refuse_unkept(command)
        if self._log_fault is not None and not isinstance(command, StopAgentInput):
            raise _refused(self._log_fault, _NOT_TAKEN)
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
        item = Item(what, done)
        await self._mailbox.put(item)
        if self.is_over:
            done.cancel()  # nobody reads the mailbox any more
            self._raise_if_over()
        try:
            if not isinstance(what, News):
                await asyncio.wait((done, self._fault_told), return_when=asyncio.FIRST_COMPLETED)
                if not done.done() and self._log_fault is not None:
                    item.is_dropped = not item.is_heard and not isinstance(what, StopAgentInput)
                    raise _refused(self._log_fault, _NOT_TAKEN if item.is_dropped else _KEPT)
            return await done
        finally:
            done.cancel()  # what comes when its giver is gone has nobody to be told to

    async def until(self, look: Callable[[SessionMachine], ResultT | None], *, sees_text: bool = True) -> ResultT:
        """Wait for something to be so. It is looked at now, and after each step; without `sees_text` not after a piece
        of text in the midst of others, which changes no machine."""
        async with self._stepping:
            found = look(self.machine)
            if found is not None:
                return found
            self._raise_if_over()
            waiting: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()

            def look_again() -> bool:
                """A look that raises ends this wait only."""
                if waiting.done():
                    return True
                try:
                    found = look(self.machine)
                    if found is None:
                        self._raise_if_over()
                except Exception as error:
                    waiting.set_exception(error)
                else:
                    if found is not None:
                        waiting.set_result(found)
                return waiting.done()

            self._waiting.append(look_again)
            self._waiting_for_text += sees_text
        try:
            return await waiting
        finally:
            self._waiting_for_text -= sees_text

    def _look_again(self) -> None:
        self._waiting = [look for look in self._waiting if not look()]

    @property
    def has_foreign_agent(self) -> bool:
        """Whether its agent was adopted: we end it only if a person asks for that by its name."""
        life = self.machine.agent
        return life is not None and life.capabilities.is_foreign

    async def record(self, *payloads: Payload, is_of_turn: bool = True, spawn_id: SpawnId | None = None) -> None:
        """Append facts about this session that its agent did not make (its children, its workflows), and publish them.

        They are durable when this returns. `is_of_turn`: they belong to the turn that is open, if one is.
        """
        async with self._stepping:
            self._raise_if_over()
            turn_id = self.book.turn_id if is_of_turn and self.book.turn is not None else None
            events = [
                new_event(
                    data,
                    id=EventId(self._services.new_id("evt")),
                    session_id=self.session_id,
                    ts=self._services.clock().at,
                    turn_id=turn_id,
                    spawn_id=spawn_id,
                )
                for data in payloads
            ]
            await self._write(events)
            for event in events:
                self.book.add(event)
            self._look_again()

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
        """Take an agent that was adopted, before `run`. The machine hears of it before anything else: without an agent
        it would start one."""
        self._first.append(Item(started(handle, is_adopted=True)))
        self.agent.hold(handle)

    async def let_go(self) -> bool:
        """Before `run` is cancelled: an agent that outlives us is left running, any other is stopped. Whether one is
        left. It is `run` that lets go of it, when nobody listens to it any more: its silence is no end."""
        life = self.machine.agent
        is_kept = life is not None and life.capabilities.outlives_runtime and life.stage is not AgentStage.STOPPING
        if self.is_over or not is_kept:
            await self.stop_agent(is_closing=True)
            return False
        with suppress(LogUnavailable):  # it is not recorded then; the next runtime finds the agent all the same
            await self.order(Release())
        return True

    async def stop_agent(self, reason: ExitReason = ExitReason.STOPPED, *, is_closing: bool = False) -> None:
        """Stop the agent and wait until it is gone; one that is being started, too."""
        if self.is_over:
            return
        spawn_id, reading = self.machine.running_spawn, self.agent.reading
        try:
            await self.order(StopAgentInput(reason=reason, is_closing=is_closing))
        except LogUnavailable:
            await self.agent.stop()  # the command is heard before the end that this brings
            if is_closing:
                return
            raise
        async with asyncio.timeout(_STOP_SECONDS):
            await self.until(lambda machine: None if spawn_id and machine.running_spawn == spawn_id else True)
            if reading is not None:
                await asyncio.wait((reading,))  # with the census
                await self._given(SessionTimerFired())  # and with its record

    # The loop

    async def run(self) -> None:
        """Supervise until cancelled. Another end is a failure, which `order` and `until` then raise."""
        self._doing = [*self._first, Item(SessionTimerFired())]  # what an earlier runtime left to do is looked at once
        try:
            while True:
                async with self._stepping:  # whoever looks sees only what is durable
                    await self._perform(self._doing)
                    if self._waiting:
                        self._look_again()
                self._doing = await self._next_items()
        except asyncio.CancelledError:
            self._is_over = True
            raise
        except Exception as error:
            _logger.error("session %s is not supervised any more", self.session_id, exc_info=error)
            self._failure = error
            self._show_failure(error)
            raise
        finally:
            await self._end()

    def _show_failure(self, error: Exception) -> None:
        """What was shown last is not known to be so any more."""
        why = Evidence(source=EvidenceSource.LOG, rule="supervisor_failed", where=str(error) or type(error).__name__)
        lost = Status(activity=Activity.UNKNOWN, attention=Attention.ERROR, evidence=(why,))
        self._show(Publish(lost), self._services.clock())

    async def _end(self) -> None:
        try:
            await self.agent.close()
        finally:
            self._mailbox.close()
            self._fail_waiting()
            async with self._stepping:
                self._look_again()

    def _fail_waiting(self) -> None:
        """Whoever waits for what is not done any more is told."""
        self._doing += self._mailbox.take(len(self._mailbox))
        for item in self._doing:
            if item.done is not None and not item.done.done():
                item.done.set_exception(SessionFailed(f"session {self.session_id} is not supervised any more"))

    def _fail(self, error: BaseException) -> None:
        """A call beside the loop failed in a way that nothing provides for: it ends the supervision, and is told."""
        self._call_failure = self._call_failure or error
        self._mailbox.wake()

    async def _next_items(self) -> list[Item]:
        deadline = self._deadline = self.machine.deadline
        while not self._mailbox and self._call_failure is None:
            left = None if deadline is None else deadline - self._services.clock().seconds
            if left is not None and left <= 0:
                return [Item(SessionTimerFired())]
            await self._mailbox.wait(left)
            deadline = self._deadline = self.machine.deadline  # what was heard meanwhile may have moved it away
        if self._call_failure is not None:
            raise self._call_failure
        items = self._mailbox.take(_BATCH)
        if deadline is not None and deadline <= self._services.clock().seconds:
            items.insert(0, Item(SessionTimerFired()))  # a due deadline comes before what makes us look
        return items

    def _hear_now(self, observed: Observed) -> bool:
        """Show a piece of text in the midst of others at once: nothing waits before it, nobody steps, and nothing is
        due. Whether that was done; if not, it is an item like any other. It changes no machine: only who waits
        for text looks again."""
        if not self._mailbox.is_awaited or self._stepping.locked():
            return False
        now = self._services.clock()
        if self._deadline is not None and self._deadline <= now.seconds:
            return False
        try:
            piece = self.machine.hear_piece(observed, now)
            if piece is None:
                return False
            self._show(piece, now)
            if self._waiting_for_text:
                self._look_again()
        except Exception as error:
            self._fail(error)
        return True

    async def _perform(self, items: list[Item]) -> None:
        """Hear all items. What they append is written together, and what is shown live keeps its place among it."""
        waiting: list[Event | Publish] = []
        machine, now = self.machine, self._services.clock()
        for item in items:
            if item.is_dropped:
                continue
            item.is_heard, what = True, item.what
            is_news = isinstance(what, News)
            effects = machine.hear(what, now) if isinstance(what, News) else machine.order(what, now)
            for effect in effects:
                if isinstance(effect, Append):
                    waiting += effect.events
                elif waiting and isinstance(effect, Publish):
                    waiting.append(effect)
                else:
                    now = await self._settle(waiting, now)
                    self._perform_effect(effect, item.done, now)
            if item.done is not None and is_news:
                now = await self._settle(waiting, now)
                if not item.done.done():
                    item.done.set_result(None)
        await self._settle(waiting, now)

    async def _settle(self, waiting: list[Event | Publish], now: Instant) -> Instant:
        """Write what waits, if anything does, and tell the time after it."""
        if not waiting:
            return now
        await self._write(waiting)
        waiting.clear()
        return self._services.clock()

    async def _write(self, told: Sequence[Event | Publish]) -> None:
        """Append the events, then publish everything in order."""
        events = [one for one in told if isinstance(one, Event)]
        loop = asyncio.get_running_loop()
        give_up_at, told_at, pause = loop.time() + _LOG_PATIENCE_SECONDS, loop.time() + _LOG_TOLD_AFTER_SECONDS, 0.05
        is_written = False
        while not is_written:
            try:
                self._version = await self._services.log.append(self.session_id, events, expected_version=self._version)
                is_written = True
            except VersionConflict as conflict:
                is_written = await self._rebase(events, conflict.actual)
            except LogUnavailable as fault:
                if loop.time() >= give_up_at and not fault.may_pass:
                    raise
                if loop.time() >= told_at:
                    self._tell_log_fault(fault)
                await asyncio.sleep(pause)
                pause = min(_LOG_RETRY_SECONDS, pause * 2)
        if self._log_fault is not None:
            self._tell_log_back()
        seq, now = self._version - len(events), self._services.clock()
        for one in told:
            if isinstance(one, Event):
                seq += 1
                self._services.publish(structs.replace(one, seq=seq))
            else:
                self._show(one, now)

    def _tell_log_fault(self, fault: LogUnavailable) -> None:
        """A live status, never logged: what the session does meanwhile is not known to anybody."""
        if self._log_fault is None:
            self._status_before = self.status
        if self._log_fault is None or str(fault) != str(self._log_fault):
            why = Evidence(source=EvidenceSource.LOG, rule=LOG_UNAVAILABLE, where=str(fault))
            lost = Status(activity=Activity.UNKNOWN, attention=Attention.ERROR, evidence=(why,))
            self._show(Publish(lost), self._services.clock())
        self._log_fault = fault
        if not self._fault_told.done():
            self._fault_told.set_result(None)

    def _tell_log_back(self) -> None:
        self._log_fault = None
        self._fault_told = asyncio.get_running_loop().create_future()
        if self._status_before is not None:
            self._show(Publish(self._status_before), self._services.clock())

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

    def _perform_effect(self, effect: Effect, done: asyncio.Future[Json] | None, now: Instant) -> None:
        match effect:
            case Publish():
                self._show(effect, now)
            case Append():
                raise AssertionError("appends are written before anything else is done")
            case Confirm() | Refuse():
                _reply(effect, done)
            case _:
                self.agent.perform(effect)

    def _show(self, shown: Publish, now: Instant) -> None:
        if isinstance(shown.data, Status):
            self.status = shown.data
        # Nothing refers to what is not logged: a number is name enough, and many of these are shown each second.
        event_id = EventId(f"{self._live_id}.{next(self._live_numbers)}")
        self._services.publish(
            new_event(shown.data, id=event_id, session_id=self.session_id, ts=now.at, turn_id=shown.turn_id)
        )


def _refused(fault: LogUnavailable, what: str) -> LogUnavailable:
    return LogUnavailable(f"the log takes nothing, {what}: {fault.message}", next_action=fault.next_action)


def _reply(reply: Confirm | Refuse, done: asyncio.Future[Json] | None) -> None:
    if done is None or done.done():
        return
    if isinstance(reply, Confirm):
        done.set_result(reply.result)
    else:
        error = UsageError(reply.message)  # the message names the remedy already
        error.remedy = reply.remedy
        done.set_exception(error)
