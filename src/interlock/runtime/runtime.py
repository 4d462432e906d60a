"""The runtime: every session of one log, supervised, from recovery at the start to a clean end.

async with Runtime(log, drivers=[...]) as runtime:
    session_id = await runtime.open_session(AgentSpec(agent="claude", driver="claude-stream", ...))
    prompt_id = await runtime.send(session_id, "make the test pass")
    record = await runtime.wait_turn(session_id, prompt_id)
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs, to_builtins

from interlock.agents.evidence.hooks import HookListener
from interlock.agents.observations import ApprovalOption
from interlock.agents.pool.pool import Pool, PoolLimits
from interlock.agents.pool.slots import Slots
from interlock.agents.port import AgentSpec, Driver, ScreenSeen, StopReport
from interlock.lifecycle.queue import PromptState, QueuedPrompt
from interlock.lifecycle.turns import TurnRecord, record_of
from interlock.log.home_identity import HomeStanding
from interlock.log.port import Log, LogUnavailable, VersionConflict
from interlock.monitor.observer.reply import asked_text
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.recovery import Recovered, recover
from interlock.runtime.redaction.outlet import RedactedFeed, RedactedLog, redacted
from interlock.runtime.redaction.redactor import Redactor
from interlock.runtime.session.agent.calls import Services
from interlock.runtime.session.inputs import (
    AnswerQuestion,
    CancelTurnInput,
    EditQueuedPrompt,
    RemovePrompt,
    Send,
    SetGate,
    StartAgentInput,
)
from interlock.runtime.session.router import SessionMachine
from interlock.runtime.session.supervisor import ResultT, Supervisor
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.audit import ReplyContract, SessionDeleted, SessionOpened
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.ids import EventId, PromptId, SessionId, TurnId, is_valid_id, sortable_id
from interlock.vocabulary.states import ExitReason

MAX_UNREAD = 10_000
_logger = logging.getLogger("interlock.runtime")

SpecSource = Callable[[SessionId, SessionOpened], AgentSpec | None]
"""How to run a session of the log again: the log keeps no secrets, so whoever has them is asked."""


def new_id(prefix: str) -> str:
    return sortable_id(prefix, time.time_ns() // 1_000_000, os.urandom(10))


def wall_clock() -> Instant:
    return Instant(datetime.now(UTC), time.monotonic())


def spec_from_log(_: SessionId, opened: SessionOpened) -> AgentSpec:
    """As the log has it. Variables that were set for the agent are unknown, whatever our own environment holds."""
    return AgentSpec(
        agent=opened.agent,
        driver=opened.driver,
        argv=opened.argv,
        cwd=opened.cwd or ".",
        model=opened.model,
        options=opened.options if isinstance(opened.options, dict) else {},
        forgotten=opened.environment,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownReport:
    """What was left when the runtime ended."""

    left_running: tuple[SessionId, ...] = ()
    stopped: tuple[SessionId, ...] = ()
    problems: Mapping[SessionId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptReport:
    """Whether the agent got the request to end its turn, which for a terminal means: the turn was seen to end.
    `is_killed`: it did not, and its process was ended for it."""

    is_delivered: bool
    problem: str = ""
    is_killed: bool = False


class EventWatcher:
    """Published events, for one reader, without a gap. It ends with the runtime. One that falls behind ends where its
    gap begins (`has_missed`), and goes on from the log."""

    def __init__(self) -> None:
        self._unread: deque[Event | None] = deque()
        self._reader: asyncio.Future[None] | None = None
        self.has_missed = False

    def put(self, event: Event | None) -> None:
        """Show an event; None: there will be no more."""
        self.has_missed = self.has_missed or len(self._unread) >= MAX_UNREAD
        if not self.has_missed:
            self._unread.append(event)
            if self._reader is not None and not self._reader.done():
                self._reader.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._unread:
            if self.has_missed:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        event = self._unread.popleft()
        if event is None:
            raise StopAsyncIteration
        return event


class Runtime:
    """Use it as a context manager. Commands are durable when they return.

    `hooks` is the socket on which it hears the hooks of its agents; None: it does not listen. `redactor` knows what
    must not be told beside the environments of the agents, such as the tokens of a server. `home` is whose agents are
    ours: those of another home are left alone.
    """

    def __init__(
        self,
        log: Log,
        drivers: Iterable[Driver],
        *,
        policy: RunPolicy | None = None,
        limits: PoolLimits | None = None,
        specs: SpecSource = spec_from_log,
        hooks: Path | None = None,
        clock: Callable[[], Instant] = wall_clock,
        ids: Callable[[str], str] = new_id,
        redactor: Redactor | None = None,
        home: HomeStanding | None = None,
    ) -> None:
        self.redactor = redactor or Redactor()
        self._home = home or HomeStanding()
        self._log: Log = RedactedLog(log, self.redactor)
        self._feed = RedactedFeed(self._tell_watchers, self.redactor)
        self._drivers: Mapping[str, Driver] = {driver.name: driver for driver in drivers}
        self._policy = policy or RunPolicy()
        self._specs = specs
        self._clock = clock
        self._ids = ids
        self._slots = Slots(limits)
        self._supervisors: dict[SessionId, Supervisor] = {}
        self._runs: dict[SessionId, asyncio.Task[None]] = {}
        self._watchers: set[EventWatcher] = set()
        self._changing: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._hooks = hooks
        self._hearing: asyncio.Task[None] | None = None
        self.recovered: tuple[Recovered, ...] = ()

    async def __aenter__(self) -> Self:
        try:
            if self._hooks is not None:
                listener = await HookListener(self._hooks).__aenter__()
                self._hearing = asyncio.create_task(self._hear_hooks(listener))
            self.recovered = await self._recover()
        except BaseException:
            await self.shutdown()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    # Sessions

    async def open_session(
        self,
        spec: AgentSpec,
        *,
        title: str = "",
        policy: RunPolicy | None = None,
        session_id: SessionId | None = None,
    ) -> SessionId:
        """Begin a session. Its agent is started when there is something to do, or by `start`."""
        driver = self._driver(spec.driver)
        self.redactor.learn(spec.environment)
        session_id = session_id or SessionId(self._ids("ses"))
        if session_id in self._supervisors:
            raise UsageError(f"session {session_id} is open already", remedy="choose another id")
        opened = SessionOpened(
            agent=spec.agent,
            driver=spec.driver,
            kind=driver.kind,
            argv=self.redactor.argv(spec.argv),
            cwd=spec.cwd,
            model=spec.model,
            environment=tuple(sorted(spec.environment)),
            title=title,
            options=to_builtins(spec.options) or None,
            policy=None if policy is None else to_builtins(policy),
        )
        now = self._clock()
        event = new_event(opened, id=EventId(self._ids("evt")), session_id=session_id, ts=now.at)
        event = redacted(event, self.redactor)  # what the log has of it is what a request is compared with
        try:
            await self._log.append(session_id, [event], expected_version=0)
        except VersionConflict as conflict:
            raise UsageError(f"session {session_id} is in the log already", remedy="choose another id") from conflict
        event = structs.replace(event, seq=1)
        self._publish(event)
        book = SessionFold.of(session_id, [event])
        self._supervise(Supervisor(book, spec, driver, policy or self._policy, self._services()))
        return session_id

    async def reopen(self, session_id: SessionId) -> Recovered | None:
        """Take up a session again that is not supervised: its supervisor failed, or it could not be recovered. What is
        done is what a new runtime would do."""
        async with self._changing[session_id]:
            known = self._supervisors.get(session_id)
            if known is not None and not known.is_over:
                raise UsageError(f"session {session_id} is open already", remedy="use it")
            if session_id in self._runs:
                await asyncio.gather(self._runs.pop(session_id), return_exceptions=True)
            self._supervisors.pop(session_id, None)
            return await self._recover_one(session_id)

    async def start(self, session_id: SessionId) -> None:
        """Start or restart a session's agent."""
        await self._of(session_id).order(StartAgentInput())

    async def stop(self, session_id: SessionId, reason: ExitReason = ExitReason.STOPPED) -> None:
        """Stop the agent of a session with everything that it started, and wait for it. An open turn is interrupted."""
        await self._of(session_id).stop_agent(reason)

    async def delete(self, session_id: SessionId, *, decided_by: str = "") -> None:
        """Put a session away: its agent is stopped, what waits is taken back, and nothing runs in it again. Its log
        stays as it is."""
        async with self._changing[session_id]:
            supervisor = self._of(session_id)
            await supervisor.stop_agent(is_closing=True)
            for prompt in supervisor.book.queue.waiting:
                await supervisor.order(RemovePrompt(prompt_id=prompt.prompt_id))
            await supervisor.record(SessionDeleted(decided_by=decided_by), is_of_turn=False)
            del self._supervisors[session_id]
            run = self._runs.pop(session_id)
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)

    # Prompts

    async def send(
        self,
        session_id: SessionId,
        text: str,
        *,
        prompt_id: PromptId | None = None,
        reply: ReplyContract | None = None,
    ) -> PromptId:
        """Accept a prompt. It is in the log when this returns; the same id with the same words is the same prompt.

        `reply`: the form that its answer must have. The agent is told so, and the log tells whether the answer has it.
        """
        prompt_id = prompt_id or PromptId(self._ids("prm"))
        if not is_valid_id(prompt_id):
            raise UsageError(f"{prompt_id!r} cannot name a prompt", remedy="use letters, digits and . _ : -")
        asked = asked_text(text, reply) if text.strip() else text
        await self._of(session_id).order(Send(prompt_id=prompt_id, text=asked, reply=reply))
        return prompt_id

    async def edit(self, session_id: SessionId, prompt_id: PromptId, text: str) -> None:
        """Change a prompt that was not dispatched yet."""
        await self._of(session_id).order(EditQueuedPrompt(prompt_id=prompt_id, text=text))

    async def remove(self, session_id: SessionId, prompt_id: PromptId) -> None:
        """Take back a prompt that was not dispatched yet."""
        await self._of(session_id).order(RemovePrompt(prompt_id=prompt_id))

    async def set_gate(self, session_id: SessionId, *, is_open: bool, reason: str = "", decided_by: str = "") -> None:
        """Hold back queued prompts, or let them go."""
        await self._of(session_id).order(SetGate(is_open=is_open, reason=reason, decided_by=decided_by))

    def queue(self, session_id: SessionId) -> tuple[QueuedPrompt, ...]:
        """The prompts that wait."""
        return self._of(session_id).book.queue.waiting

    # Turns

    async def cancel(
        self, session_id: SessionId, turn_id: TurnId | None = None, *, decided_by: str = "", is_forced: bool = False
    ) -> None:
        """Ask for the open turn to end. That it did is for `wait_turn` to say. A turn that goes on all the same is left
        alone, and the cancel is taken back; forced, the agent's process is ended."""
        await self._of(session_id).order(CancelTurnInput(turn_id=turn_id, decided_by=decided_by, is_forced=is_forced))

    async def wait_interrupt(
        self, session_id: SessionId, turn_id: TurnId, seconds: float, *, is_forced: bool = False
    ) -> InterruptReport:
        """After a `cancel`: wait, so long at most, until the agent got the request to stop, or needs none any more;
        after a forced one: until the turn is over."""

        def look(machine: SessionMachine) -> InterruptReport | None:
            life, facts = machine.agent, machine.book.turn
            if facts is None or facts.turn_id != turn_id or life is None:
                return InterruptReport(is_delivered=True, is_killed=machine.killed_turn == turn_id)
            if life.was_interrupted and not is_forced:
                return InterruptReport(is_delivered=True)
            if not facts.cancel_requested:  # every attempt failed, and the cancel was taken back
                return InterruptReport(is_delivered=False, problem=self.redactor.diagnostic(life.interrupt_problem))
            return None

        try:
            async with asyncio.timeout(seconds):
                return await self._of(session_id).until(look)
        except TimeoutError:
            life = self._of(session_id).machine.agent
            problem = ("" if life is None else life.interrupt_problem) or "the agent has not answered yet"
            return InterruptReport(is_delivered=False, problem=self.redactor.diagnostic(problem))

    async def decide(self, session_id: SessionId, answer: AnswerQuestion) -> None:
        """Answer a question of the agent. The answer is persisted when this returns, and then given. An option may be
        named as it is shown, also where a secret in it is masked."""
        supervisor = self._of(session_id)
        question = supervisor.machine.questions.questions.get(answer.approval_id)
        options = () if question is None else question.asked.options
        await supervisor.order(replace(answer, option=self._as_asked(answer.option, options)))

    def _as_asked(self, shown: str, options: Iterable[ApprovalOption]) -> str:
        """The label of an option as the agent gave it, by its label or id as a person sees them."""
        known = [(option.label, option.id) for option in options]
        if not shown or any(shown in one for one in known):
            return shown
        found = [label for label, name in known if shown in (self.redactor.text(label), self.redactor.text(name))]
        if len(found) > 1:
            raise UsageError(f"{len(found)} options are shown as {shown!r}", remedy="choose by the id of the option")
        return found[0] if found else shown

    async def wait_turn(self, session_id: SessionId, prompt_id: PromptId) -> TurnRecord:
        """Wait until the turn of a prompt is terminal, and say how it ended. `UsageError` if it will have none."""

        def look(machine: SessionMachine) -> TurnRecord | None:
            prompt = machine.book.queue.prompts.get(prompt_id)
            if prompt is None or prompt.state is PromptState.REMOVED:
                raise UsageError(f"prompt {prompt_id} is not in this session", remedy="send it, or look at the queue")
            if prompt.state is PromptState.QUEUED and not machine.book.queue.is_open:
                why = machine.book.queue.gate_reason or "somebody asked for it"
                raise UsageError(f"the queue is held: {why}", remedy="mend that, and open its gate")
            return ended_turn(machine.book, prompt_id)

        return await self.until(session_id, look)

    async def until(self, session_id: SessionId, look: Callable[[SessionMachine], ResultT | None]) -> ResultT:
        """Wait for something to be so. It is looked at now, and after each step."""
        return await self._of(session_id).until(look)

    # Looking

    def supervisor(self, session_id: SessionId) -> Supervisor:
        return self._of(session_id)

    @property
    def sessions(self) -> tuple[SessionId, ...]:
        return tuple(self._supervisors)

    @property
    def drivers(self) -> Mapping[str, Driver]:
        return dict(self._drivers)

    @property
    def pool(self) -> Pool:
        """Who has a slot, and who waits for one. To be looked at only."""
        return self._slots.pool

    def status(self, session_id: SessionId) -> Status:
        """What a person should see of a session now."""
        return self.redactor.payload(self._of(session_id).status)

    def screen(self, session_id: SessionId) -> ScreenSeen | None:
        """What the terminal of a session's agent showed when it was last seen; None where there is nothing to show."""
        seen = self._of(session_id).agent.screen
        if seen is None:
            return None
        problem = self.redactor.diagnostic(seen.problem)
        return replace(seen, snapshot=self.redactor.snapshot(seen.snapshot), problem=problem)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[EventWatcher]:
        """Everything that is published from now on: events of the log with their `seq`, and live ones without."""
        watcher = EventWatcher()
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    # Ends

    async def shutdown(self, *, stop_agents: bool = False) -> ShutdownReport:
        """End every supervisor. Agents that outlive us are left running unless told otherwise; others are stopped."""
        left: list[SessionId] = []
        stopped: list[SessionId] = []
        problems: dict[SessionId, str] = {}

        async def close(supervisor: Supervisor) -> None:
            session_id, has_agent = supervisor.session_id, supervisor.machine.running_spawn is not None
            try:
                if stop_agents:
                    await supervisor.stop_agent(is_closing=True)
                elif await supervisor.let_go():
                    left.append(session_id)
                    has_agent = False
            except (InterlockError, TimeoutError) as error:
                problems[session_id] = str(error) or type(error).__name__
            finally:
                self._runs[session_id].cancel()
                await asyncio.gather(self._runs[session_id], return_exceptions=True)
            if has_agent and session_id not in problems:
                stopped.append(session_id)

        await asyncio.gather(*(close(supervisor) for supervisor in self._supervisors.values()))
        self._supervisors.clear()
        self._runs.clear()
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
            self._hearing = None
        for watcher in self._watchers:
            watcher.put(None)
        return ShutdownReport(left_running=tuple(sorted(left)), stopped=tuple(sorted(stopped)), problems=problems)

    # Within

    async def _hear_hooks(self, listener: HookListener) -> None:
        """Give each hook to the agent in whose process tree it fired. One that is nobody's says nothing."""
        try:
            async for heard in listener:
                any(supervisor.agent.hear_hook(heard) for supervisor in self._supervisors.values())
        except Exception as error:
            _logger.error("hooks are not heard any more", exc_info=error)
        finally:
            await listener.__aexit__(None, None, None)

    def _publish(self, event: Event) -> None:
        self._feed.publish(event)

    def _tell_watchers(self, event: Event) -> None:
        for watcher in self._watchers:
            watcher.put(event)

    def _services(self) -> Services:
        return Services(
            log=self._log,
            clock=self._clock,
            new_id=self._ids,
            publish=self._publish,
            admit=self._slots.acquire,
            dismiss=self._slots.release,
            home=self._home,
        )

    def _supervise(self, supervisor: Supervisor) -> None:
        self._supervisors[supervisor.session_id] = supervisor
        self._runs[supervisor.session_id] = asyncio.create_task(supervisor.run())

    def _driver(self, name: str) -> Driver:
        if name not in self._drivers:
            known = ", ".join(sorted(self._drivers)) or "none"
            raise UsageError(f"there is no driver {name!r}", remedy=f"the drivers are {known}")
        return self._drivers[name]

    def _of(self, session_id: SessionId) -> Supervisor:
        if session_id not in self._supervisors:
            raise UsageError(f"there is no open session {session_id}", remedy="list the sessions")
        return self._supervisors[session_id]

    async def _recover(self) -> tuple[Recovered, ...]:
        done: list[Recovered | None] = []
        after: SessionId | None = None
        while True:
            page = await self._log.sessions(after=after)
            done += [await self._recover_one(one.session_id) for one in page.sessions if not one.is_purged]
            after = page.next_after
            if after is None:
                return tuple(one for one in done if one is not None)

    def _spec_of(self, session_id: SessionId, opened: SessionOpened) -> AgentSpec | None:
        spec = self._specs(session_id, opened)
        if spec is not None:
            self.redactor.learn(spec.environment)
        return spec

    async def _recover_one(self, session_id: SessionId) -> Recovered | None:
        """A session that cannot be recovered is told, and keeps nobody from the others."""
        try:
            recovered, supervisor = await recover(
                session_id, self._log, self._drivers, self._spec_of, self._policy, self._services()
            )
        except LogUnavailable:
            raise
        except InterlockError as error:
            return Recovered(session_id=session_id, stopped=StopReport(), problem=str(error) or type(error).__name__)
        if supervisor is not None:
            self._supervise(supervisor)
        return recovered


def ended_turn(book: SessionFold, prompt_id: PromptId) -> TurnRecord | None:
    """How the turn of a prompt ended; None while it has not. One of which events are lost is as over as it gets."""
    turn_id = book.turn_of.get(prompt_id)
    facts = None if turn_id is None else book.turns.turns.get((book.session_id, turn_id))
    return record_of(facts) if facts is not None and book.is_over(facts) else None
