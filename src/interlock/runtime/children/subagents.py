"""Children: sessions that a parent session started, supervised, and recorded in the parent's log.

async with Runtime(log, drivers) as runtime, Subagents(runtime, log) as subagents:
    child = await subagents.start(parent, spec, "review the change", timeout_seconds=300, model_visible=True)
    outcome = await subagents.wait(child)

Laws:
1. Every fact is made by the machine (`lifecycle.children.subagent`), and is in the parent's log before it is acted on.
What the
   manager says of a child is the last fact of the log.
2. Nothing runs before `running` is recorded. A new child past `max_running` of its parent waits in the queue; one that
   gets new input, or is taken up again, does not.
3. The end of a child is the end of its turn, as the child's own log has it. That a process ended, or that a child
   exists, is no end and no success.
4. A child that ended leaves no process: its agent is stopped. Its session stays, and new input starts it again.
   A detached child alone goes on.
5. Closing ends every child with a fact: interrupted, or detached where its agent outlives us; with `resumes` it leaves
   them open instead, for the next runtime. What a runtime left open is settled at the start, by the log of the child;
   what still runs is taken up again with the deadline it had, and its queue, which recovery holds, goes on then.
6. A child that its parent ended, by its clock or by a cancel, says so in its own log, and does so first: where a crash
   comes between the two facts, the next runtime finds the one and writes the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import Final, Self

from interlock.agents.port import AgentSpec
from interlock.lifecycle.children import subagent as machine
from interlock.lifecycle.children.subagent import ChildFailed, SubagentInput, SubagentRecord, queue_child
from interlock.lifecycle.children.subagents import WaitOutcome, subagents_from, wait_outcome
from interlock.lifecycle.turns import TurnRecord
from interlock.log.port import Log
from interlock.runtime.children.child_results import ResultReader, report_of, result_of_log
from interlock.runtime.children.step_places import TreeKeeper
from interlock.runtime.children.tree_limits import TreeLimits
from interlock.runtime.lineage import UNOWNED, Lineage, lineage_below
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.runtime import Runtime, ended_turn, new_id, wall_clock
from interlock.runtime.session.router import SessionMachine
from interlock.runtime.session.supervisor import SessionFailed
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.errors import ContractError, InterlockError, PeerFault, UsageError
from interlock.vocabulary.events.audit import ChildEnded, SessionOpened, WorkflowEvent
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.workspace import WorktreeChanged
from interlock.vocabulary.ids import PromptId, SessionId, SubagentId, WorkflowId, is_valid_id
from interlock.vocabulary.states import PromptState, SubagentState
from interlock.vocabulary.unsafe_text import first_words
from interlock.vocabulary.wire.resources import OpenTask

DEFAULT_LIMITS: Final = TreeLimits()
CLOSED: Final = "the runtime was closed"
ABANDONED: Final = "whoever started the child was cancelled"
NOT_STARTED: Final = "agent_not_started"
SESSION_LOST: Final = "session_lost"
NEVER_SENT: Final = "never_sent"
_NONE_LEFT: Final[Mapping[WorkflowId, str]] = MappingProxyType({})


@dataclass(slots=True)
class _Child:
    """One child in motion. `task` attends to it; `problem` is why its facts could not be recorded any more.
    `told_attempt`: the one of which its own log said already, before this runtime, that its parent ended it."""

    parent: SessionId
    root: SessionId
    depth: int
    record: SubagentRecord
    workflow_id: WorkflowId | None = None
    spec: AgentSpec | None = None
    tree: OpenTask | None = None
    policy: RunPolicy | None = None
    read: ResultReader = result_of_log
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None
    problem: Exception | None = None
    told_attempt: int = 0

    @property
    def is_settled(self) -> bool:
        return self.record.is_terminal or self.problem is not None

    @property
    def prompt_id(self) -> PromptId:
        """One prompt an attempt: to send it again is to send it once."""
        return PromptId(f"{self.record.id}.{self.record.attempt}")

    @property
    def session(self) -> SessionId:
        session = self.record.fact.child_session_id
        if session is None:
            raise ContractError(f"child {self.record.id} has no session")
        return session


class Subagents:
    """The children of a runtime's sessions. Use it as a context manager, within the runtime's."""

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        *,
        limits: TreeLimits = DEFAULT_LIMITS,
        resumes: bool = False,
        trees: TreeKeeper | None = None,
        clock: Callable[[], Instant] = wall_clock,
        ids: Callable[[str], str] = new_id,
    ) -> None:
        """`log` is the runtime's. `resumes`: what is open at the end is left to the next runtime, and this one takes up
        what it finds when it is told to (`recover`, then `go_on`). `trees` makes worktrees."""
        self._runtime = runtime
        self._log = log
        self._limits = limits
        self._resumes = resumes
        self._trees = trees
        self._read: set[SessionId] = set()
        self._reading = asyncio.Lock()
        self._taken_up: dict[SubagentId, str] = {}
        self._clock = clock
        self._ids = ids
        self._children: dict[SubagentId, _Child] = {}
        self._slots: dict[SessionId, asyncio.Semaphore] = {}
        self._moved = asyncio.Condition()
        self._steps: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.recovered: tuple[SubagentEvent, ...] = ()

    async def __aenter__(self) -> Self:
        if self._resumes:
            return self
        try:
            self.recovered = await self.recover()
            await self.go_on()
        except BaseException:
            for child in self._children.values():
                await self._finish(child, cancel=True)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await (self._leave_open() if self._resumes else self.close())

    # Commands

    async def start(
        self,
        parent: SessionId,
        spec: AgentSpec,
        task: str,
        *,
        timeout_seconds: float = machine.DEFAULT_TIMEOUT_MS / 1000,
        model_visible: bool = False,
        policy: RunPolicy | None = None,
        subagent_id: SubagentId | None = None,
        workflow_id: WorkflowId | None = None,
        read: ResultReader = result_of_log,
        tree: OpenTask | None = None,
    ) -> SubagentId:
        """Queue a child; it is in the parent's log when this returns. `UsageError` if the parent is not open,
        `LimitReached` if its tree is as large as it may be.

        `model_visible`: the parent's model sees how the child ended. `timeout_seconds` counts from the child's start.
        `tree`: the worktree of its own that it works in.
        """
        self._runtime.supervisor(parent)
        child_id = subagent_id or SubagentId(self._ids("sub"))
        opened = self._runtime.supervisor(parent).book.opened
        root, depth = lineage_below(parent, opened)
        await self._read_tree(root)
        await self._read_children(parent)
        self._refuse(child_id, task, timeout_seconds)
        self._check_limits(parent, root, depth)
        timeout_ms = max(1, round(timeout_seconds * 1000))
        queued = queue_child(child_id, agent=spec.agent, task=task, timeout_ms=timeout_ms, model_visible=model_visible)
        child = self._children[child_id] = _Child(parent, root, depth, queued, workflow_id, spec, tree, policy, read)
        queueing = self._hold(self._queue(child, task))
        try:
            await asyncio.shield(queueing)
        except asyncio.CancelledError:  # nobody will know its name: it is ended, with a fact
            await asyncio.wait([queueing])
            if child_id in self._children:
                await self.cancel(child_id, ABANDONED)
            raise
        return child_id

    async def _queue(self, child: _Child, task: str) -> None:
        try:
            await self._runtime.supervisor(child.parent).record(child.record.fact)
        except BaseException:
            del self._children[child.record.id]
            raise
        child.task = asyncio.create_task(self._run(child, task))

    def _refuse(self, child_id: SubagentId, task: str, timeout_seconds: float) -> None:
        if self._is_closed:
            raise UsageError("children cannot be started any more", remedy="open the runtime again")
        if not is_valid_id(f"{child_id}.1") or child_id in self._children:
            raise UsageError(f"{child_id!r} cannot name a new child", remedy="choose another id")
        if not task.strip():
            raise UsageError("a child needs a task", remedy="say what it is to do")
        if not 0 < timeout_seconds * 1000 <= machine.MAX_TIMEOUT_MS:
            raise UsageError(f"a child cannot have {timeout_seconds} s", remedy="give it more than 0 s, and not years")

    def _check_limits(self, parent: SessionId, root: SessionId, depth: int) -> None:
        of_tree = [child for child in self._children.values() if child.root == root]
        is_open = sum(child.parent == parent and not child.record.is_terminal for child in of_tree)
        self._limits.check(parent, root, depth=depth, is_open=is_open, ever=len(of_tree))

    async def send_input(self, child_id: SubagentId, text: str) -> None:
        """Give an ended child more to do, in its session, with its whole time again."""
        child = self._of(child_id)
        if not text.strip():
            raise UsageError("a child needs a task", remedy="say what it is to do")
        await self._finish(child)  # what attended to its last attempt may still be stopping its agent
        if self._is_closed or not child.record.is_terminal or child.record.fact.child_session_id is None:
            raise UsageError(f"child {child_id} takes no input", remedy="wait for its end, or start another child")
        if child.record.status is SubagentState.DETACHED:
            raise UsageError(f"child {child_id} was detached", remedy=f"send to session {child.session} itself")
        self._runtime.supervisor(child.session)
        await self._apply(child, machine.SendInput())
        child.task = asyncio.create_task(self._attend(child, text))

    async def cancel(self, child_id: SubagentId, reason: str = "cancelled by the parent") -> SubagentEvent:
        """Stop a child, or close it before it starts. It is recorded, and its agent gone, when this returns."""
        child = self._of(child_id)
        await self._command(child, machine.Interrupt(_said(reason)))
        await self._finish(child, cancel=True)
        await self._stop_agent(child)
        return child.record.fact

    async def detach(self, child_id: SubagentId, reason: str = "detached by the parent") -> SubagentEvent:
        """Let go of a running child: its session and its agent go on, and the fact says how to look at them."""
        child = self._of(child_id)
        await self._command(child, machine.Detach(_said(reason)))
        await self._finish(child, cancel=True)
        return child.record.fact

    async def _command(self, child: _Child, command: machine.Command) -> None:
        try:
            await self._apply(child, command)
        except ContractError as refused:
            remedy = "look at its facts in the parent's log"
            raise UsageError(f"child {child.record.id} is {child.record.status.value}", remedy=remedy) from refused

    # Looking

    def fact(self, child_id: SubagentId) -> SubagentEvent:
        """The last fact of a child."""
        return self._of(child_id).record.fact

    async def children_of(self, parent: SessionId) -> tuple[SubagentEvent, ...]:
        """The last fact of each child of a session, oldest first, also where nobody runs that session now."""
        await self._read_children(parent)
        return tuple(child.record.fact for child in self._children.values() if child.parent == parent)

    def check_room(self, parent: SessionId, root: SessionId, depth: int, *, is_open: int, ever: int) -> None:
        """Refuse a plan that a session begins beyond the limits of its tree: it counts as a child does."""
        self._limits.check(parent, root, depth=depth, is_open=is_open, ever=ever)

    def slots_free(self, parent: SessionId) -> int:
        """How many more children of a session may run at once. One that is started beyond that waits in its queue."""
        mine = (child.record.status for child in self._children.values() if child.parent == parent)
        return max(0, self._limits.max_running - sum(status is SubagentState.RUNNING for status in mine))

    async def sessions_of(self, workflow_id: WorkflowId) -> tuple[SessionId, ...]:
        """The sessions that the steps of a workflow had, and all below them."""
        own = [child.record.fact for child in self._children.values() if child.workflow_id == workflow_id]
        found = [fact.child_session_id for fact in own if fact.child_session_id is not None]
        for session in found:  # It grows while it is read.
            below = await self.children_of(session)
            found += [fact.child_session_id for fact in below if fact.child_session_id is not None]
            found += [one for one in self._runtime.sessions if self._is_plan_of(one, session)]
        return tuple(dict.fromkeys(found))

    def _is_plan_of(self, session: SessionId, parent: SessionId) -> bool:
        opened = self._runtime.supervisor(session).book.opened
        return opened is not None and opened.parent_id == parent and opened.subagent_id is None

    def knows(self, child_id: SubagentId) -> bool:
        return child_id in self._children

    @property
    def live(self) -> frozenset[SubagentId]:
        """The children that are not at their end."""
        return frozenset(child_id for child_id, child in self._children.items() if not child.record.is_terminal)

    def attended(self, parent: SessionId) -> frozenset[SubagentId]:
        """The children of a session that are not at their end, and that somebody attends to."""
        mine = (child for child in self._children.values() if child.parent == parent and not child.record.is_terminal)
        return frozenset(child.record.id for child in mine if child.task is not None and child.problem is None)

    async def left_queue(self, child_id: SubagentId) -> None:
        """Wait until a child was started, or ended without that."""
        child = self._of(child_id)
        async with self._moved:
            await self._moved.wait_for(lambda: child.is_settled or child.record.status is not SubagentState.QUEUED)

    async def wait(self, *wanted: SubagentId, timeout_seconds: float | None = None) -> WaitOutcome:
        """Wait until every wanted child is at its end, and say how they stand. The time limit ends the wait only."""
        known = [self._children[child_id] for child_id in wanted if child_id in self._children]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._moved:
                await self._moved.wait_for(lambda: all(child.is_settled for child in known))
        for child in known:
            if child.problem is not None:
                raise SessionFailed(f"child {child.record.id} cannot be recorded any more") from child.problem
        return wait_outcome({child.record.id: child.record.fact for child in known}, wanted=wanted)

    async def close(self) -> None:
        """End every child with a fact, and every task."""
        self._is_closed = True
        await asyncio.gather(*(self._close(child) for child in self._children.values()))
        await asyncio.gather(*self._steps, return_exceptions=True)

    async def _leave_open(self) -> None:
        """Let go of every child without a fact: the next runtime takes them up as they are."""
        self._is_closed = True
        for child in self._children.values():
            await self._finish(child, cancel=True)
        await asyncio.gather(*self._steps, return_exceptions=True)

    async def _close(self, child: _Child) -> None:
        try:
            if not child.record.is_terminal:
                is_left = child.record.status is SubagentState.RUNNING and self._outlives(child)
                await (self.detach(child.record.id, CLOSED) if is_left else self.cancel(child.record.id, CLOSED))
        except Exception as error:  # its parent is not open any more, or it ended just now; the others are closed, too
            child.problem = None if child.record.is_terminal else error
        finally:
            await self._finish(child, cancel=True)

    def _outlives(self, child: _Child) -> bool:
        return self._runtime.supervisor(child.session).driver.capabilities.outlives_runtime

    # One child

    async def _run(self, child: _Child, text: str) -> None:
        """A new child, from the queue to its end."""
        async with self._slots.setdefault(child.parent, asyncio.Semaphore(self._limits.max_running)):
            await self._attend(child, text)

    async def _attend(self, child: _Child, text: str) -> None:
        """One attempt, to its end. Cancelled, it leaves the child as it is recorded."""
        try:
            if child.record.status is SubagentState.QUEUED:
                await self._begin(child)
            await self._watch(child, text)
            await self._stop_agent(child)
        except Exception as error:  # whoever waits is told: a task has nobody else to tell
            async with self._moved:
                child.problem = None if child.record.is_terminal else error
                self._moved.notify_all()

    async def _begin(self, child: _Child) -> None:
        if child.spec is None:
            raise ContractError(f"nothing says how to run child {child.record.id}")
        attempt = child.record.attempt
        began: SubagentInput
        try:
            began = machine.StartChild(await self._open(child, child.spec))
        except (UsageError, PeerFault) as error:
            began = machine.SetupFailed(attempt, str(error))
        await self._apply(child, began)

    async def _open(self, child: _Child, spec: AgentSpec) -> SessionId:
        title, lineage, tree = first_words(child.record.fact.task), _lineage(child), child.tree
        if tree is None:
            return await self._runtime.open_session(spec, title=title, policy=child.policy, lineage=lineage)
        if self._trees is None:
            raise UsageError("no worktrees are made here", remedy='give the step worktree = "shared"')
        session = SessionId(self._ids("ses"))

        async def begin(asked: OpenTask, told: WorktreeChanged) -> None:
            own = replace(spec, cwd=asked.cwd)
            await self._runtime.open_session(
                own, title=title, policy=child.policy, lineage=lineage, session_id=session, worktree=told
            )

        await self._trees.open(tree, session, begin)
        await self._trees.make(session, tree)
        return session

    async def _watch(self, child: _Child, text: str) -> None:
        """Give the child its task, and wait for the end of that turn or of the child's time."""
        while (deadline := child.record.deadline) is not None:
            said: SubagentInput
            at: datetime | None = None
            left_seconds = (deadline - self._clock().at).total_seconds()
            try:
                if left_seconds <= 0:
                    raise TimeoutError
                async with asyncio.timeout(left_seconds):
                    said, at = await self._turn_of(child, text)
            except TimeoutError:
                said = machine.SubagentTimerFired()
            except InterlockError as error:
                said = ChildFailed(child.record.attempt, SESSION_LOST, str(error))
            await self._apply(child, said, at)

    async def _turn_of(self, child: _Child, text: str) -> tuple[SubagentInput, datetime | None]:
        """What the child's own log says of its turn, and when that came to be."""
        session, prompt_id = child.session, child.prompt_id
        if text:
            await self._runtime.send(session, text, prompt_id=prompt_id)
        supervisor = self._runtime.supervisor(session)
        ended: TurnRecord | str = await supervisor.until(lambda machine: _end_of(machine, prompt_id))
        if isinstance(ended, str):
            return ChildFailed(child.record.attempt, NOT_STARTED, ended), None
        return await self._report(child, ended)

    async def _report(self, child: _Child, ended: TurnRecord) -> tuple[SubagentInput, datetime | None]:
        events = (await self._log.read(child.session)).events
        at = next((event.ts for event in reversed(events) if event.turn_id == ended.turn_id), None)
        return report_of(ended, events, child.record.attempt, child.read), at

    async def _stop_agent(self, child: _Child) -> None:
        """End what runs for an ended child. Its task is taken back if it was not given to the agent yet."""
        session = child.record.fact.child_session_id
        if session is None or session not in self._runtime.sessions:
            return
        with suppress(UsageError):
            await self._runtime.remove(session, child.prompt_id)
        await self._runtime.stop(session)

    async def _finish(self, child: _Child, *, cancel: bool = False) -> None:
        """Wait for the task of a child."""
        task = child.task
        if task is not None and task is not asyncio.current_task():
            if cancel:
                task.cancel()
            await asyncio.wait([task])

    async def _apply(self, child: _Child, given: SubagentInput, at: datetime | None = None) -> None:
        """One step, recorded. Whoever is cancelled in it, the step is made whole."""
        await asyncio.shield(self._hold(self._step(child, given, at)))

    def _hold(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Work that is made whole, whoever waits for it; closing waits too."""
        step = asyncio.create_task(work)
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)
        return step

    async def _step(self, child: _Child, given: SubagentInput, at: datetime | None) -> None:
        async with child.lock:
            record, outputs = machine.step(child.record, given, at or self._clock().at)
            if record.fact in outputs:
                await self._tell_child(child, record.fact, given)
            if outputs:
                await self._runtime.supervisor(child.parent).record(*outputs)
            child.record = record
        async with self._moved:
            self._moved.notify_all()

    async def _tell_child(self, child: _Child, fact: SubagentEvent, given: SubagentInput) -> None:
        """Let the child's own log say that its parent ends it."""
        session = fact.child_session_id
        is_ours = fact.status is SubagentState.TIMED_OUT or isinstance(given, machine.Interrupt)
        if not is_ours or child.told_attempt == fact.attempt:
            return
        if session is None or session not in self._runtime.sessions:
            return
        told = ChildEnded(
            parent_session_id=child.parent,
            subagent_id=child.record.id,
            status=fact.status,
            reason=fact.reason,
            timeout_ms=fact.timeout_ms,
            elapsed_ms=fact.elapsed_ms,
        )
        with suppress(SessionFailed):  # its supervisor is over: its log has no more to say
            await self._runtime.supervisor(session).record(told)

    def _of(self, child_id: SubagentId) -> _Child:
        if child_id not in self._children:
            raise UsageError(f"there is no child {child_id}", remedy="look at the parent's log")
        return self._children[child_id]

    # Recovery

    async def recover(self) -> tuple[SubagentEvent, ...]:
        """Settle what a runtime left open. What still runs is not attended to before `go_on`."""
        settled: list[SubagentEvent] = []
        for parent in self._runtime.sessions:
            await self._read_children(parent)
        for child in list(self._children.values()):
            if not child.record.is_terminal and child.task is None and child.parent in self._runtime.sessions:
                await self._settle(child)
                settled.append(child.record.fact)
        await self._stop_ended()
        self.recovered = tuple(settled)
        return self.recovered

    async def _stop_ended(self) -> None:
        """Stop the agents that still work on the task of a child that is at its end: the runtime that ended it did not
        come to that."""
        for session in self._runtime.sessions:
            book = self._runtime.supervisor(session).book
            if book.opened is None or book.opened.parent_id is None or book.opened.subagent_id is None:
                continue
            await self._read_children(book.opened.parent_id)
            child = self._children.get(book.opened.subagent_id)
            if child is None or not child.record.is_terminal or child.record.status is SubagentState.DETACHED:
                continue
            if child.record.fact.child_session_id == session and book.prompt_id == child.prompt_id:
                await self._runtime.stop(session)

    async def go_on(self, *, left: Mapping[WorkflowId, str] = _NONE_LEFT) -> None:
        """Attend to the children that were taken up: what waits for them is sent now. Those of a workflow that nobody
        runs (`left`, each with why) are ended in their parent's log instead, and what waits for them stays held."""
        taken_up, self._taken_up = self._taken_up, {}
        for child_id, text in taken_up.items():
            child = self._children[child_id]
            if child.record.is_terminal:  # ended meanwhile, such as with its workflow
                continue
            if child.workflow_id is not None and (why := left.get(child.workflow_id)) is not None:
                await self._apply(child, machine.Interrupt(f"workflow {child.workflow_id} {why}"))
                await self._runtime.stop(child.session)
                continue
            await self._open_gate(child)
            child.task = asyncio.create_task(self._attend(child, text))

    async def _open_gate(self, child: _Child) -> None:
        """Let the queue of a child go on, if recovery held it and nobody else did."""
        queue = self._runtime.supervisor(child.session).book.queue
        if not queue.is_open and queue.gate_reason == UNOWNED.format(child.parent):
            with suppress(UsageError):  # it holds a prompt that cannot be sent as it is, and says so
                await self._runtime.set_gate(child.session, is_open=True, reason="its parent took it up again")

    async def _read_children(self, parent: SessionId) -> None:
        """Know the children that the log of a session names."""
        async with self._reading:
            if parent not in self._read:
                self._learn(parent, (await self._log.read(parent)).events)
                self._read.add(parent)

    def _learn(self, parent: SessionId, events: Sequence[Event]) -> None:
        opened = next((event.data for event in events if isinstance(event.data, SessionOpened)), None)
        root, depth = lineage_below(parent, opened)
        steps = {
            event.data.subagent_id: event.data.workflow_id
            for event in events
            if isinstance(event.data, WorkflowEvent) and event.data.subagent_id is not None
        }
        facts = (event.data for event in events if isinstance(event.data, SubagentEvent))
        for child_id, reading in subagents_from(facts).items():
            with suppress(ContractError):  # Not a fact of ours: `diagnose` tells what it lacks.
                record = SubagentRecord(reading.fact)
                self._children.setdefault(child_id, _Child(parent, root, depth, record, steps.get(child_id)))

    async def _read_tree(self, root: SessionId) -> None:
        """Know every child of a tree."""
        to_read = [root]
        for session in to_read:  # It grows while it is read.
            await self._read_children(session)
            below = (child.record.fact.child_session_id for child in self._children.values() if child.parent == session)
            to_read += [one for one in below if one is not None]

    async def _settle(self, child: _Child) -> None:
        if child.record.status is SubagentState.QUEUED:
            await self._apply(child, machine.Interrupt("the runtime ended before the child was started"))
            return
        await self._runtime.wake(child.session)
        is_supervised = child.session in self._runtime.sessions
        found = await self._log.read(child.session)
        book = SessionFold.of(child.session, found.events, found.damage)
        ended = ended_turn(book, child.prompt_id)
        if (told := _told_of(child, found.events)) is not None:
            child.told_attempt = child.record.attempt
            await self._apply(child, *told)
            await self._stop_agent(child)
        elif ended is not None:
            said, at = await self._report(child, ended)
            await self._apply(child, said, at)
            await self._stop_agent(child)
        elif is_supervised and (child.record.attempt == 1 or child.prompt_id in book.queue.prompts):
            self._taken_up[child.record.id] = "" if child.prompt_id in book.queue.prompts else child.record.fact.task
        elif is_supervised:
            await self._apply(child, ChildFailed(child.record.attempt, NEVER_SENT, "the runtime ended before it"))
        else:
            await self._apply(child, machine.Detach("no process supervises its session any more"))


def _lineage(child: _Child) -> Lineage:
    return Lineage(
        parent_id=child.parent,
        root_id=child.root,
        depth=child.depth,
        subagent_id=child.record.id,
        workflow_id=child.workflow_id,
    )


def _end_of(machine: SessionMachine, prompt_id: PromptId) -> TurnRecord | str | None:
    """How the turn of a prompt ended, or why it will not begin."""
    queue = machine.book.queue
    prompt = queue.prompts.get(prompt_id)
    if prompt is not None and prompt.state is PromptState.REMOVED:
        return "its task was taken back"
    if prompt is not None and prompt.state is PromptState.QUEUED and not queue.is_open:
        return queue.gate_reason or "the queue of its session is closed"
    return ended_turn(machine.book, prompt_id)


def _told_of(child: _Child, events: Sequence[Event]) -> tuple[SubagentInput, datetime] | None:
    """How the child's own log says that its parent ended this attempt, and when; its parent's log lacks it yet."""
    began = child.record.started_at
    for event in reversed(events):
        if isinstance(event.data, ChildEnded) and began is not None and event.ts >= began:
            is_late = event.data.status is SubagentState.TIMED_OUT
            return machine.SubagentTimerFired() if is_late else machine.Interrupt(event.data.reason), event.ts
    return None


def _said(reason: str) -> str:
    if not reason.strip():
        raise UsageError("a child is not ended without a reason", remedy="say why")
    return reason
