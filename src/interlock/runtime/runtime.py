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
from typing import Final, Self, cast

from msgspec import structs, to_builtins

from interlock.agents.evidence.hooks import HookListener
from interlock.agents.observations import ApprovalOption
from interlock.agents.pool.pool import Pool, PoolLimits
from interlock.agents.pool.slots import Slots
from interlock.agents.port import AgentHandle, AgentSpec, Driver, GivesUpClaim, ScreenSeen, StopReport
from interlock.lifecycle.queue import QueuedPrompt
from interlock.lifecycle.turns import TurnRecord, record_of
from interlock.log.home_identity import HomeStanding
from interlock.log.port import Log, LogUnavailable, VersionConflict
from interlock.monitor.observer.reply import asked_text
from interlock.runtime.lineage import Lineage
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.recovery import Recovered, can_adopt, recover
from interlock.runtime.redaction.outlet import RedactedFeed, RedactedLog, redacted
from interlock.runtime.redaction.redactor import Redactor
from interlock.runtime.rules.source import RuleSource, no_rules
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
from interlock.runtime.sleeping import line_fold
from interlock.runtime.workspace.recorder import WorkspaceRecorder
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.audit import ReplyContract, SessionDeleted, SessionOpened, SessionRenamed, SessionSeen
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.events.workspace import FileReviewed, WorkspaceChanged, WorktreeChanged
from interlock.vocabulary.ids import EventId, PromptId, SessionId, SpawnId, TurnId, is_valid_id, sortable_id
from interlock.vocabulary.states import ExitReason, PromptState

MAX_UNREAD = 10_000
_AT_ONCE = 64
_WORKSPACE_SECONDS: Final = 3.0  # for the trees of turns that end with us
_logger = logging.getLogger("interlock.runtime")

SpecSource = Callable[[SessionId, SessionOpened], AgentSpec | None]
"""How to run a session of the log again: the log keeps no secrets, so whoever has them is asked."""


# Entropy of ids to come, read many at a time: each reading gives way to any other thread, and then waits for its turn.
_entropy: Final[list[bytes]] = []
_ENTROPY_BYTES: Final = 10
_ENTROPY_READ: Final = 64
os.register_at_fork(after_in_child=_entropy.clear)  # two processes make no id twice


def new_id(prefix: str) -> str:
    if not _entropy:
        data = os.urandom(_ENTROPY_BYTES * _ENTROPY_READ)
        _entropy.extend(data[at : at + _ENTROPY_BYTES] for at in range(0, len(data), _ENTROPY_BYTES))
    try:
        entropy = _entropy.pop()
    except IndexError:  # another thread had the last of it
        entropy = os.urandom(_ENTROPY_BYTES)
    return sortable_id(prefix, time.time_ns() // 1_000_000, entropy)


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

    `rules` answer questions before a person does: see `runtime/rules`; without them every question waits for a person.

    `sleeps`: sessions that are known to be at rest are not taken up until somebody needs them, and the others are
    recovered side by side, in the background (`settled`). What is under recovery is run by nobody yet.

    `records_workspaces`: the git work tree of an agent is recorded at the start and the end of each turn.
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
        sleeps: bool = False,
        records_workspaces: bool = False,
        rules: RuleSource = no_rules,
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
        self._sleeps = sleeps
        self._workspaces = WorkspaceRecorder(self._record_workspace, self._folder_of) if records_workspaces else None
        self._rules = rules
        self._recovering: dict[SessionId, asyncio.Event] = {}
        self._recovery: asyncio.Task[tuple[Recovered, ...]] | None = None
        self._left: set[SessionId] = set()  # could not be taken up: not to be tried again by every command
        self.recovered: tuple[Recovered, ...] = ()

    async def __aenter__(self) -> Self:
        try:
            if self._hooks is not None:
                listener = await HookListener(self._hooks).__aenter__()
                self._hearing = asyncio.create_task(self._hear_hooks(listener))
            ids = await self._log.snapshots.missing(line_fold()) if self._sleeps else await self._all_ids()
            self._recovering = {session_id: asyncio.Event() for session_id in ids}
            self._recovery = asyncio.create_task(self._recover_all(ids))
            if not self._sleeps:
                await self.settled()
        except BaseException:
            await self.shutdown()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    @property
    def is_settled(self) -> bool:
        """Whether every session that another runtime left was looked at."""
        return self._recovery is not None and self._recovery.done()

    async def settled(self) -> None:
        """Wait until every session that another runtime left was looked at; `recovered` says what was done."""
        if self._recovery is not None:
            await asyncio.shield(self._recovery)

    # Sessions

    async def wake(self, session_id: SessionId) -> None:
        """Have a session supervised that is asleep or under recovery. One that cannot be run is left as it is."""
        pending = self._recovering.get(session_id)
        if pending is not None:
            await pending.wait()
        async with self._changing[session_id]:  # also while it is being opened
            if not self._sleeps or session_id in self._left or session_id in self._supervisors:
                return
            await self._recover_one(session_id, is_wanted=True)
            if session_id not in self._supervisors:
                self._left.add(session_id)

    def can_wake(self, session_id: SessionId, opened: SessionOpened | None) -> bool:
        """Whether a session that is at rest, and that nobody supervises, would be run if somebody needed it."""
        is_held = session_id in self._supervisors or session_id in self._recovering or session_id in self._left
        if not self._sleeps or is_held or opened is None:
            return False
        spec = self._spec_of(session_id, opened)
        return spec is not None and spec.driver in self._drivers

    async def open_session(
        self,
        spec: AgentSpec,
        *,
        title: str = "",
        policy: RunPolicy | None = None,
        session_id: SessionId | None = None,
        worktree: WorktreeChanged | None = None,
        lineage: Lineage | None = None,
    ) -> SessionId:
        """Begin a session. Its agent is started when there is something to do, or by `start`. `worktree`: the one that
        is to be made for it, which is in the log from the first moment. `lineage`: of which session it is a child."""
        driver = self._driver(spec.driver)
        self.redactor.learn(spec.environment)
        session_id = session_id or SessionId(self._ids("ses"))
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
        if lineage is not None:
            opened = structs.replace(
                opened,
                parent_id=lineage.parent_id,
                root_id=lineage.root_id,
                depth=lineage.depth,
                subagent_id=lineage.subagent_id,
                workflow_id=lineage.workflow_id,
            )
        async with self._changing[session_id]:  # nobody takes up from the log what is about to be supervised here
            await self._begin(session_id, opened, spec, driver, policy or self._policy, worktree=worktree)
        return session_id

    async def adopt(self, spec: AgentSpec, where: Json, *, title: str = "") -> SessionId:
        """Begin a session with an agent that somebody else started, where it runs. It is watched; `where` says whether
        it may be told things. `NotOurs` where it belongs to another home, `PeerFault` where it is not there."""
        driver = self._driver(spec.driver)
        adopter: object = driver
        if not can_adopt(adopter):
            raise UsageError(f"driver {spec.driver!r} cannot adopt an agent", remedy="adopt one in a terminal")
        self.redactor.learn(spec.environment)
        session_id = SessionId(self._ids("ses"))
        handle = await adopter.adopt(spec, SpawnId(self._ids("spn")), where)
        opened = SessionOpened(
            agent=spec.agent,
            driver=spec.driver,
            kind=driver.kind,
            argv=self.redactor.argv(spec.argv),
            cwd=spec.cwd,
            environment=tuple(sorted(spec.environment)),
            title=title,
        )
        try:
            async with self._changing[session_id]:
                await self._begin(session_id, opened, spec, driver, self._policy, handle)
        except BaseException:
            if isinstance(handle, GivesUpClaim):
                await handle.disown()
            await handle.release()
            raise
        return session_id

    def session_at(self, where: Json) -> SessionId | None:
        """The session whose agent is in the very pane, or is the process, that `where` names, and that was adopted.
        `UsageError` if it is one that we started."""
        for supervisor in self._supervisors.values():
            spawn = supervisor.book.spawn
            known = None if spawn is None else spawn.event.where
            if isinstance(known, dict) and isinstance(where, dict) and _pane_in(known) == _pane_in(where):
                if not supervisor.has_foreign_agent:
                    session_id = supervisor.session_id
                    raise UsageError(f"that agent is ours already: session {session_id}", remedy=f"use {session_id}")
                return supervisor.session_id
        return None

    async def set_control(self, session_id: SessionId, *, is_allowed: bool) -> None:
        """Say whether an adopted agent may be told things. It is let go of and taken up again, and goes on."""
        supervisor = self._of(session_id)
        spawn, life = supervisor.book.spawn, supervisor.machine.agent
        if spawn is None or life is None or not life.capabilities.is_foreign:
            raise UsageError(f"the agent of {session_id} was not adopted", remedy="it can be told things as it is")
        if life.capabilities.is_read_only is not is_allowed:
            return
        if supervisor.book.turn is not None and not is_allowed:
            raise UsageError("a turn of ours is open in it", remedy="wait for its end, or interrupt it")
        where = {**cast("dict[str, Json]", spawn.event.where), "control": is_allowed}
        await supervisor.record(structs.replace(spawn.event, where=where), is_of_turn=False, spawn_id=spawn.spawn_id)
        await supervisor.let_go()
        run = self._runs[session_id]
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await self.reopen(session_id)

    async def _begin(
        self,
        session_id: SessionId,
        opened: SessionOpened,
        spec: AgentSpec,
        driver: Driver,
        policy: RunPolicy,
        handle: AgentHandle | None = None,
        worktree: WorktreeChanged | None = None,
    ) -> None:
        if session_id in self._supervisors:
            raise UsageError(f"session {session_id} is open already", remedy="choose another id")
        told = [one for one in (opened, worktree) if one is not None]
        # What the log has of it is what a request is compared with.
        events = [redacted(self._event(session_id, one), self.redactor) for one in told]
        try:
            await self._log.append(session_id, events, expected_version=0)
        except VersionConflict as conflict:
            raise UsageError(f"session {session_id} is in the log already", remedy="choose another id") from conflict
        events = [structs.replace(event, seq=seq) for seq, event in enumerate(events, 1)]
        for event in events:
            self._publish(event)
        book = SessionFold.of(session_id, events)
        supervisor = Supervisor(book, spec, driver, policy, self._services())
        if handle is not None:
            supervisor.hold(handle)
        self._supervise(supervisor)

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
            self._left.discard(session_id)
            return await self._recover_one(session_id, is_wanted=True)

    async def start(self, session_id: SessionId) -> None:
        """Start or restart a session's agent."""
        await self._of(session_id).order(StartAgentInput())

    async def stop(self, session_id: SessionId, reason: ExitReason = ExitReason.STOPPED) -> None:
        """Stop the agent of a session with everything that it started, and wait for it. An open turn is interrupted."""
        await self._of(session_id).stop_agent(reason)

    async def delete(self, session_id: SessionId, *, decided_by: str = "") -> None:
        """Put a session away: its agent is stopped (an adopted one is let go of), what waits is taken back, and nothing
        runs in it again. Its log stays as it is."""
        async with self._changing[session_id]:
            supervisor = self._of(session_id)
            if supervisor.has_foreign_agent:
                await supervisor.agent.disown()
                await supervisor.let_go()
            else:
                await supervisor.stop_agent(is_closing=True)
            for prompt in supervisor.book.queue.waiting:
                await supervisor.order(RemovePrompt(prompt_id=prompt.prompt_id))
            await supervisor.record(SessionDeleted(decided_by=decided_by), is_of_turn=False)
            del self._supervisors[session_id]
            self._left.add(session_id)
            run = self._runs.pop(session_id)
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)

    async def mark_seen(self, session_id: SessionId, turn_id: TurnId, *, seen_by: str = "") -> None:
        """Record that somebody looked at how a turn ended."""
        await self._of(session_id).record(SessionSeen(turn_id=turn_id, seen_by=seen_by), is_of_turn=False)

    async def rename(self, session_id: SessionId, title: str, *, decided_by: str = "") -> None:
        """Record another title of the session."""
        await self._of(session_id).record(SessionRenamed(title=title, decided_by=decided_by), is_of_turn=False)

    async def record_review(self, session_id: SessionId, told: FileReviewed) -> None:
        """Record what somebody did with a file that a turn changed."""
        await self._of(session_id).record(told, is_of_turn=False)

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
                raise UsageError(f"the queue is held: {why}", remedy="fix that, and open its gate")
            return ended_turn(machine.book, prompt_id)

        return await self._of(session_id).until(look, sees_text=False)

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
    def home(self) -> HomeStanding:
        return self._home

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
        """End every supervisor. Agents that outlive us are left running unless told otherwise, adopted ones always;
        others are stopped."""
        left: list[SessionId] = []
        stopped: list[SessionId] = []
        problems: dict[SessionId, str] = {}
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)

        async def close(supervisor: Supervisor) -> None:
            session_id, has_agent = supervisor.session_id, supervisor.machine.running_spawn is not None
            try:
                if stop_agents and not supervisor.has_foreign_agent:
                    await supervisor.stop_agent(is_closing=True)
                elif await supervisor.let_go():
                    left.append(session_id)
                    has_agent = False
            except (InterlockError, TimeoutError) as error:
                problems[session_id] = str(error) or type(error).__name__
            finally:
                await self.settle_workspace(session_id)
                self._runs[session_id].cancel()
                await asyncio.gather(self._runs[session_id], return_exceptions=True)
            if has_agent and session_id not in problems:
                stopped.append(session_id)

        await asyncio.gather(*(close(supervisor) for supervisor in self._supervisors.values()))
        await self.settle_workspace(None)
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

    async def record_worktree(self, session_id: SessionId, told: WorktreeChanged) -> None:
        """Record what happened to the worktree of a session, also of one that nobody runs any more."""
        async with self._changing[session_id]:
            known = self._supervisors.get(session_id)
            if known is not None and not known.is_over:
                await known.record(told, is_of_turn=False)
                return
            version = (await self._log.read(session_id)).version
            event = redacted(self._event(session_id, told), self.redactor)
            await self._log.append(session_id, [event], expected_version=version)
            self._publish(structs.replace(event, seq=version + 1))

    def _event(self, session_id: SessionId, told: Payload) -> Event:
        return new_event(told, id=EventId(self._ids("evt")), session_id=session_id, ts=self._clock().at)

    def _publish(self, event: Event) -> None:
        if self._workspaces is not None:
            self._workspaces.hear(event)
        self._feed.publish(event)

    async def _record_workspace(self, session_id: SessionId, told: WorkspaceChanged) -> None:
        await self._of(session_id).record(told, is_of_turn=False)

    async def settle_workspace(self, session_id: SessionId | None) -> None:
        """Wait for the trees of a session, for a moment, until they are recorded; None: none is waited for any more."""
        if self._workspaces is None:
            return
        if session_id is None:
            await self._workspaces.close()
        else:
            await self._workspaces.settle(session_id, _WORKSPACE_SECONDS)

    def _folder_of(self, session_id: SessionId) -> str | None:
        supervisor = self._supervisors.get(session_id)
        return None if supervisor is None else supervisor.spec.cwd

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
            rules=self._rules,
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

    async def _all_ids(self) -> tuple[SessionId, ...]:
        ids: list[SessionId] = []
        after: SessionId | None = None
        while True:
            page = await self._log.sessions(after=after)
            ids += (one.session_id for one in page.sessions if not one.is_purged)
            after = page.next_after
            if after is None:
                return tuple(ids)

    async def _recover_all(self, ids: Iterable[SessionId]) -> tuple[Recovered, ...]:
        """Side by side: each waits for the log and for processes most of the time."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(session_id: SessionId) -> Recovered | None:
            async with places:
                try:
                    return await self._recover_one(session_id, is_wanted=not self._sleeps)
                finally:
                    self._recovering.pop(session_id).set()

        done = await asyncio.gather(*(one(session_id) for session_id in ids))
        self.recovered = tuple(found for found in done if found is not None)
        return self.recovered

    def spec_of(self, opened: SessionOpened) -> AgentSpec | None:
        """How to run an agent that the log has, for a session that is not there yet."""
        return self._spec_of(SessionId(""), opened)

    def _spec_of(self, session_id: SessionId, opened: SessionOpened) -> AgentSpec | None:
        spec = self._specs(session_id, opened)
        if spec is not None:
            self.redactor.learn(spec.environment)
        return spec

    async def _recover_one(self, session_id: SessionId, *, is_wanted: bool) -> Recovered | None:
        """A session that cannot be recovered is told, and keeps nobody from the others. `is_wanted`: it is supervised
        also if there is nothing to do for it now."""
        try:
            recovered, supervisor = await recover(
                session_id, self._log, self._drivers, self._spec_of, self._policy, self._services()
            )
        except InterlockError as error:
            if isinstance(error, LogUnavailable) and not self._sleeps:
                raise
            if self._sleeps:
                _logger.error("session %s cannot be taken up: %s", session_id, error)
            self._left.add(session_id)
            return Recovered(session_id=session_id, stopped=StopReport(), problem=str(error) or type(error).__name__)
        if supervisor is None:
            self._left.add(session_id)
        elif is_wanted or recovered is not None:
            self._supervise(supervisor)
        return recovered


def _pane_in(where: dict[str, Json]) -> tuple[Json, ...]:
    names = ("pid", "started") if where.get("outside") else ("pane_id", "pane_pid", "pane_started")
    return tuple(where.get(name) for name in names)


def ended_turn(book: SessionFold, prompt_id: PromptId) -> TurnRecord | None:
    """How the turn of a prompt ended; None while it has not. One of which events are lost is as over as it gets."""
    turn_id = book.turn_of.get(prompt_id)
    facts = None if turn_id is None else book.turns.turns.get((book.session_id, turn_id))
    return record_of(facts) if facts is not None and book.is_over(facts) else None
