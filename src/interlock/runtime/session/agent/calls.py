"""Calls to the agent and to its driver, beside the loop of its supervisor. What came of each is an input.

One agent a session: what the one before it left is ended, and its slot given back, before the next is started.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, assert_never

from msgspec import to_builtins

from interlock.agents.evidence.hooks import HearsHooks, HookHeard
from interlock.agents.keepable import keepable
from interlock.agents.observations import Exited, Observation, TextArrived, Warned
from interlock.agents.pool.masking import MASK
from interlock.agents.port import (
    AgentHandle,
    AgentSpec,
    Decision,
    Driver,
    GivesUpClaim,
    HasTerminal,
    KeptOut,
    NotDelivered,
    Prompt,
    ScreenSeen,
    ShowsScreen,
    StaleResume,
    StopReport,
)
from interlock.log.home_identity import HomeStanding
from interlock.log.port import Log
from interlock.projections.replay.provider_input import provider_items
from interlock.runtime.policy import Instant
from interlock.runtime.rules.source import RuleSource, no_rules
from interlock.runtime.session.effects import (
    AskAttended,
    DecideForAgent,
    InterruptAgent,
    SpawnAgent,
    StopAgent,
    SubmitPrompt,
)
from interlock.runtime.session.inputs import (
    AgentNotStarted,
    AgentStarted,
    Attended,
    Command,
    Decided,
    InterruptOutcome,
    News,
    Observed,
    Stopped,
    Submitted,
)
from interlock.runtime.session.router import SessionMachine
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId, SpawnId

_SPAWN_SECONDS: Final = 120.0
_logger: Final = logging.getLogger("interlock.runtime")

AgentEffect: TypeAlias = SpawnAgent | SubmitPrompt | InterruptAgent | DecideForAgent | AskAttended | StopAgent


@dataclass(slots=True)
class Item:
    """Something for the session machine, and the future of the caller that waits for it. `is_heard`: the machine has it
    and will do it. `is_dropped`: its giver was refused before that, so that it will not be done."""

    what: Command | News
    done: asyncio.Future[Json] | None = None
    is_heard: bool = False
    is_dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What a supervisor needs of the world."""

    log: Log
    clock: Callable[[], Instant]
    new_id: Callable[[str], str]
    publish: Callable[[Event], None]
    admit: Callable[[SessionId, str], Coroutine[object, object, None]]
    dismiss: Callable[[SessionId], None]
    home: HomeStanding = field(default_factory=HomeStanding)
    rules: RuleSource = no_rules


class AgentCalls:
    """The agent of one session, if it has one. `put` is the way back to the session machine, `hear_now` the short one
    for text, which may refuse, `fail` that of an error after which its answer will not come."""

    def __init__(
        self,
        machine: SessionMachine,
        spec: AgentSpec,
        driver: Driver,
        services: Services,
        put: Callable[[Item], Awaitable[None]],
        hear_now: Callable[[Observed], bool],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._machine = machine
        self._session_id = machine.book.session_id
        self._spec = spec
        self._driver = driver
        self._services = services
        self._put = put
        self._hear_now = hear_now
        self._fail = fail
        self._handle: AgentHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._adoption: asyncio.Task[None] | None = None
        self._stops: dict[SpawnId, asyncio.Task[StopReport]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # For the supervisor

    def perform(self, effect: AgentEffect) -> None:
        """Begin a call. What comes of it is put to the session machine."""
        match effect:
            case SpawnAgent():
                self._starting = asyncio.create_task(self._spawn(effect))
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
                self._start(self.stop())
            case _:
                assert_never(effect)

    def hold(self, handle: AgentHandle) -> None:
        """Take an agent that was adopted. It runs whether or not there is room: where there is none, the next slot is
        its own."""
        self._handle = handle
        if not handle.capabilities.is_foreign:  # which takes no place from those that we start
            self._adoption = asyncio.create_task(self._services.admit(self._session_id, self._spec.agent))
            self._keep(self._adoption)
        self._listen(handle, is_new=False)

    @property
    def reading(self) -> asyncio.Task[None] | None:
        """Reads the agent until it is gone and what it left was looked for."""
        return self._reading

    async def close(self) -> None:
        """End every call. An agent that outlives us is let go of; any other is stopped by that."""
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, *self._stops.values(), return_exceptions=True)
            if self._handle is not None:
                await self._handle.release()
        finally:
            self._handle = None
            self._services.dismiss(self._session_id)

    def hear_hook(self, heard: HookHeard) -> bool:
        """Take in a hook of this session's agent; False if it is another's."""
        handle = self._handle
        if handle is None or handle.spawn_id != heard.spawn_id or not isinstance(handle, HearsHooks):
            return False
        try:
            handle.hear_hook(heard)
        except Exception as error:  # of one agent, and no reason to be deaf to the others
            message = f"{type(error).__name__}: {error}"
            self._start(self._observe(handle, Warned(kind="hook_failed", message=message), is_in_step=False))
        return True

    async def disown(self) -> None:
        """Give up the claim to an agent that somebody else started. It is not stopped."""
        handle: object = self._handle
        if isinstance(handle, GivesUpClaim):
            await handle.disown()

    @property
    def has_agent(self) -> bool:
        """Whether there is an agent that can be told things."""
        return self._handle is not None

    @property
    def has_terminal(self) -> bool:
        """Whether that agent has a terminal that is watched."""
        return isinstance(self._handle, ShowsScreen)

    @property
    def screen(self) -> ScreenSeen | None:
        """The last look at the terminal of the agent; None where it has none, or nothing was seen yet."""
        handle: object = self._handle
        return handle.screen if isinstance(handle, ShowsScreen) else None

    # Calls

    async def _tell(self, news: News) -> None:
        await self._put(Item(keepable(news)))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        self._keep(asyncio.create_task(work))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What a driver does wrong is told as news. A call that fails itself leaves the machine without its answer."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def _listen(self, handle: AgentHandle, *, is_new: bool) -> None:
        self._reading = asyncio.create_task(self._read(handle, is_new=is_new))
        self._keep(self._reading)

    async def _spawn(self, spawn: SpawnAgent) -> None:
        """One agent a session: what the one before it left is ended first, and its slot is given back."""
        try:
            if self._reading is not None:
                await asyncio.wait((self._reading,))
            _refuse_forgotten(self._spec)
            await self._services.admit(self._session_id, self._spec.agent)
            async with asyncio.timeout(_SPAWN_SECONDS):
                handle = await self._driver.spawn(self._spec_now(spawn.resume), spawn.spawn_id)
        except StaleResume as error:
            await self._not_started(spawn.spawn_id, error, is_stale_resume=True)
        except UsageError as error:
            await self._not_started(spawn.spawn_id, error, is_hopeless=True)
        except Exception as error:  # a driver is the edge of the world: nothing that it does ends the session
            await self._not_started(spawn.spawn_id, error)
        else:  # and nothing is awaited, so that a stop finds either no agent or a handle
            self._handle = handle
            self._listen(handle, is_new=True)

    def _spec_now(self, resume: str) -> AgentSpec:
        """With the variables of its git worktree, which the log keeps: a later server sets them, too."""
        worktree = self._machine.book.worktree
        variables = {} if worktree is None else worktree.variables
        return replace(self._spec, resume=resume, environment={**variables, **self._spec.environment})

    async def _not_started(
        self, spawn_id: SpawnId, error: Exception, *, is_hopeless: bool = False, is_stale_resume: bool = False
    ) -> None:
        self._services.dismiss(self._session_id)
        await self._tell(
            AgentNotStarted(
                spawn_id=spawn_id,
                message=str(error) or type(error).__name__,
                is_hopeless=is_hopeless,
                is_stale_resume=is_stale_resume,
            )
        )

    async def _read(self, handle: AgentHandle, *, is_new: bool) -> None:
        """Everything that the agent says, in order; its end, and what a census then finds."""
        if is_new:
            await self._tell(started(handle, is_adopted=False))
        is_in_step = handle.capabilities.needs_history
        last: Observation | None = None
        try:
            async for last in handle.observations():
                if not self._is_heard_now(handle, last):
                    await self._observe(handle, last, is_in_step=is_in_step)
        except Exception as error:
            _logger.error("the driver of session %s failed; its agent is stopped", self._session_id, exc_info=error)
            message = f"{type(error).__name__}: {error}"
            await self._observe(handle, Warned(kind="driver_failed", message=message), is_in_step=False)
        if not isinstance(last, Exited):
            await self._observe(handle, Exited(), is_in_step=False)
        report = await self._end_of(handle, last)
        self._stops.pop(handle.spawn_id, None)
        if self._handle is handle:
            self._handle = None
        if self._adoption is not None:
            self._adoption.cancel()
            await asyncio.wait((self._adoption,))
            self._adoption = None
        self._services.dismiss(self._session_id)
        await self._tell(Stopped(spawn_id=handle.spawn_id, report=report))

    async def _end_of(self, handle: AgentHandle, last: Observation | None) -> StopReport:
        """End what is left of an agent. One that somebody else started is let go of, unless its stop was asked for."""
        if handle.capabilities.is_foreign and handle.spawn_id not in self._stops:
            await handle.release()
            return StopReport()
        return await self._stop_once(handle)

    def _is_heard_now(self, handle: AgentHandle, what: Observation) -> bool:
        """Whether it went the short way of text."""
        return isinstance(what, TextArrived) and self._hear_now(Observed(spawn_id=handle.spawn_id, seen=keepable(what)))

    async def _observe(self, handle: AgentHandle, what: Observation, *, is_in_step: bool) -> None:
        observed = Observed(spawn_id=handle.spawn_id, seen=keepable(what))
        done: asyncio.Future[Json] | None = asyncio.get_running_loop().create_future() if is_in_step else None
        await self._put(Item(observed, done))
        if done is not None:
            await done

    async def _submit(self, prompt: Prompt) -> None:
        handle = self._handle
        stage, message, waits_for = DeliveryStage.NOT_DELIVERED, "the agent is gone", ""
        if handle is not None:
            try:
                if handle.capabilities.needs_history:
                    prompt = replace(prompt, history=await self._history(prompt.prompt_id))
                stage, message = await handle.submit(prompt), ""
            except (NotDelivered, UsageError) as error:
                message, waits_for = str(error), error.waits_for if isinstance(error, KeptOut) else ""
            except Exception as error:
                stage, message = DeliveryStage.UNKNOWN, f"{type(error).__name__}: {error}"
        given = Submitted(prompt_id=prompt.prompt_id, stage=stage, message=message, waits_for=waits_for)
        await self._tell(given)

    async def _history(self, prompt_id: PromptId) -> tuple[Json, ...]:
        """The conversation before this prompt, as the log has it."""
        found = await self._services.log.read(self._session_id)
        before = [event for event in found.events if event.turn_id != self._machine.book.turn_id]
        return tuple(to_builtins(item) for item in provider_items(before, model=self._spec.model))

    async def _interrupt(self) -> None:
        problem = "the agent is gone" if self._handle is None else ""
        try:
            if self._handle is not None:
                await self._handle.interrupt()
        except Exception as error:
            problem = str(error) or type(error).__name__
        await self._tell(InterruptOutcome(problem=problem))

    async def _decide(self, decision: Decision) -> None:
        problem, is_unknown = "the agent is gone" if self._handle is None else "", False
        try:
            if self._handle is not None:
                await self._handle.decide(decision)
        except (NotDelivered, UsageError) as error:
            problem = str(error)
        except Exception as error:
            problem, is_unknown = str(error) or type(error).__name__, True
        await self._tell(Decided(request_id=decision.request_id, problem=problem, is_unknown=is_unknown))

    async def _look_for_people(self) -> None:
        """Where that cannot be told nobody is taken to be there: only a terminal has a place for a person."""
        handle = self._handle
        if handle is None:
            return
        is_attended = False
        try:
            if isinstance(handle, HasTerminal):
                is_attended = await handle.is_attended()
        except Exception as error:
            is_attended = True  # it may be
            message = str(error) or type(error).__name__
            await self._observe(handle, Warned(kind="attendance_unknown", message=message), is_in_step=False)
        await self._tell(Attended(spawn_id=handle.spawn_id, is_attended=is_attended))

    async def stop(self) -> None:
        """The observations end with `Exited`; the reader then asks for the census."""
        starting, spawn_id = self._starting, self._machine.running_spawn
        if starting is not None and not starting.done() and spawn_id is not None:
            starting.cancel()
            await asyncio.wait((starting,))
            if starting.cancelled():
                await self._not_started(spawn_id, UsageError("it was stopped before it had started"))
        if self._handle is not None:
            await self._stop_once(self._handle)

    async def _stop_once(self, handle: AgentHandle) -> StopReport:
        """One stop an agent, whoever asks: its report is whole."""
        stop = self._stops.get(handle.spawn_id)
        if stop is None:
            stop = self._stops[handle.spawn_id] = asyncio.create_task(handle.stop())
        try:
            return await asyncio.shield(stop)
        except Exception as error:
            _logger.error("the agent of session %s cannot be stopped", self._session_id, exc_info=error)
            self._stops.pop(handle.spawn_id, None)  # so that another stop is another attempt
            message = f"{type(error).__name__}: {error}"
            await self._observe(handle, Warned(kind="stop_failed", message=message), is_in_step=False)
            return StopReport()


def _refuse_forgotten(spec: AgentSpec) -> None:
    """The log keeps no secrets. Without them it would be another command, or act as somebody else."""
    if spec.forgotten:
        raise UsageError(
            f"{spec.agent} was opened with values for {', '.join(spec.forgotten)}, which the log does not keep",
            remedy=f"set them in [agents.{spec.agent}.environment], restart the server, or open another session",
        )
    if any(MASK in word for word in spec.argv):
        raise UsageError(
            f"the command of {spec.agent} held a secret, which the log does not keep",
            remedy="open the runtime with `specs` that know the whole command",
        )


def started(handle: AgentHandle, *, is_adopted: bool) -> AgentStarted:
    return AgentStarted(
        spawn_id=handle.spawn_id,
        capabilities=handle.capabilities,
        argv=handle.argv,
        process=handle.process,
        where=handle.where,
        is_adopted=is_adopted,
    )
