"""Every command that a client may give, whichever way it comes. Twice is once.

Laws:
1. A command is what its natural id says (`task_id`, `prompt_id`, `turn_id`, `decision_id`): given again with the same
   content it changes nothing and is answered as before, also after a restart. With other content it is refused.
2. What the log could not keep is refused before anything is done.
3. A command is carried out or refused whole. Its giver going away, or its deadline, does not break it off half-way:
   what is not done in time is `Deadline`, and goes on.
4. What a command did shows in the hub before it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from msgspec import Struct, structs, to_builtins

from interlock.agents.git.comparing import TreeChange
from interlock.agents.observed.finding import outside_agent
from interlock.agents.port import ProcessIdentity
from interlock.agents.profiles import load_profiles
from interlock.agents.terminal.adopting import plan_adoption
from interlock.agents.tmux.server import TmuxServer
from interlock.lifecycle.queue import SendQueue
from interlock.log.port import Log
from interlock.monitor.observer.reply import asked_text
from interlock.projections.task.view import TaskView
from interlock.projections.workspace import TurnTrees
from interlock.runtime.runtime import Runtime, new_id
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.runtime.session.questions.open_questions import is_own_question
from interlock.runtime.session.router import SessionMachine
from interlock.runtime.session.supervisor import Supervisor
from interlock.server.changes import TaskChanges, choose_turn
from interlock.server.commands import reviewing
from interlock.server.commands.command_runner import SHOW_SECONDS, Performer
from interlock.server.commands.idempotency import find_decision, is_same_decision, is_same_task, refuse_unfit_option
from interlock.server.commands.validation import (
    check_adoption,
    check_id,
    check_kept,
    check_open,
    check_prompt,
    fit_policy,
    spec_of,
)
from interlock.server.commands.workflows import WorkflowCommands
from interlock.server.commands.worktrees import Worktrees
from interlock.server.http.problems import (
    AlreadyDecided,
    AskedByAgent,
    KeyReused,
    NotFound,
    NotSupervised,
    OwnChanges,
    OwnQuestion,
    RequestRefusal,
    UnknownTask,
)
from interlock.server.http.shapes import AdoptAgent, AgentResumed, QueueGateStanding, ResumeResult
from interlock.server.live.hub import Hub
from interlock.server.peer_process import PeerConnection, is_of_spawn
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import (
    DecisionAction,
    DialogAnswered,
    QueueGate,
    ReplyContract,
    SessionOpened,
    SessionRenamed,
    ToolCallDecided,
)
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.events.workspace import FileReviewAct, WorktreeChanged
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.states import Attention, PromptState, TaskStatus
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.requests import (
    ApprovalDecide,
    ChatCancel,
    ChatSend,
    QueueEdit,
    QueueRemove,
    QueueSetGate,
    Request,
    TaskSeen,
)
from interlock.vocabulary.wire.resources import (
    AgentStanding,
    ApprovalStanding,
    Cancelled,
    MergeStanding,
    MergeWorktree,
    OpenTask,
    PromptStanding,
    RemoveWorktree,
    SeenStanding,
    TaskOpened,
    TaskTitle,
    WorktreeStanding,
)
from interlock.vocabulary.wire.workspace import ReviewAct, ReviewedFile, ReviewFile

_INTERRUPT_SHARE: Final = 0.8
_NAMED_WITHIN_SECONDS: Final = 15.0
_MAX_CANCELS: Final = 1_000


class Commands(Performer):
    """The commands of one server. `log` is asked what became of a decision whose question is over."""

    def __init__(
        self,
        runtime: Runtime,
        hub: Hub,
        settings: ServerSettings,
        *,
        log: Log | None = None,
        worktrees: Worktrees | None = None,
        workflows: WorkflowCommands | None = None,
    ) -> None:
        super().__init__(runtime, hub, settings)
        self._workflows = workflows
        self._worktrees = worktrees or Worktrees(runtime, hub, log, None)
        self._log = log
        self._adopting = asyncio.Lock()
        self._cancels: dict[tuple[SessionId, str], tuple[tuple[TurnId | None, bool], Cancelled]] = {}

    async def perform(self, request: Request, *, decided_by: str, connection: PeerConnection | None = None) -> Json:
        """Carry out a request of a socket, and give what its ack tells. Raises `InterlockError`s."""
        match request:
            case ChatSend(task_id=task_id, text=text, prompt_id=prompt_id, reply=reply):
                return _told(await self.send(task_id, text, prompt_id=prompt_id, reply=reply))
            case ChatCancel(task_id=task_id, turn_id=turn_id, force=is_forced):
                return _told(await self.cancel(task_id, turn_id, decided_by=decided_by, is_forced=is_forced))
            case QueueEdit(task_id=task_id, prompt_id=prompt_id, text=text):
                return _told(await self.edit(task_id, prompt_id, text))
            case QueueRemove(task_id=task_id, prompt_id=prompt_id):
                return _told(await self.remove(task_id, prompt_id))
            case QueueSetGate(task_id=task_id, is_open=is_open, reason=reason):
                await self.set_gate(task_id, is_open=is_open, reason=reason, decided_by=decided_by)
                return _told(QueueGateStanding(is_open=is_open))
            case TaskSeen(task_id=task_id, turn_id=turn_id):
                return _told(await self.mark_seen(task_id, turn_id, decided_by=decided_by))
            case ApprovalDecide():
                return _told(await self.decide(request, decided_by=decided_by, connection=connection))
            case _:
                raise RequestRefusal(f"{type(request).__name__} is not a command", remedy="send it by a socket")

    # Tasks

    async def open_task(self, asked: OpenTask, *, task_id: str = "") -> TaskOpened:
        """Open a task, and send its first prompt. `task_id`, where one is given, is the key of this command."""
        if task_id:
            check_id(task_id, "task")
        check_open(asked, self._runtime.drivers)
        return await self._in_time(self._open(asked, SessionId(task_id or new_id("ses"))))

    async def _open(self, asked: OpenTask, task_id: SessionId) -> TaskOpened:
        await self._wake(task_id)
        is_new = await self._open_once(asked, task_id)
        notes: tuple[str, ...] = ()
        if asked.worktree is not None:
            notes = await self._worktrees.make(task_id, asked)
        prompt_id = None
        if asked.prompt is not None:
            prompt_id = PromptId(f"prm_{task_id}"[:128])
            known = self._supervised(task_id).book.queue.prompts.get(prompt_id)
            if known is None:
                await self._runtime.send(task_id, asked.prompt, prompt_id=prompt_id, reply=asked.reply)
            elif known.text != asked_text(asked.prompt, asked.reply):
                raise _key_reused("task")
        await self._shown(task_id)
        tree = None if asked.worktree is None else await self._worktrees.standing(task_id)
        return TaskOpened(task_id=task_id, is_new=is_new, prompt_id=prompt_id, worktree=tree, notes=notes)

    async def _open_once(self, asked: OpenTask, task_id: SessionId) -> bool:
        opened = self._opened(task_id)
        if opened is None:
            try:
                if asked.worktree is not None:
                    await self._worktrees.open(asked, task_id, partial(self._begin, task_id))
                else:
                    await self._begin(task_id, asked)
                return True
            except UsageError:  # somebody with the same key was faster, and may not be done yet
                await self._hub.reached(task_id, 1, SHOW_SECONDS)
                opened = self._opened(task_id)
                if opened is None:
                    raise
        there = asked if asked.worktree is None else structs.replace(asked, cwd=opened.cwd)
        is_same = await self._worktrees.is_same(task_id, asked)
        if not (is_same and is_same_task(opened, there, self._runtime.redactor)):
            raise _key_reused("task")
        return False

    async def _begin(self, task_id: SessionId, asked: OpenTask, worktree: WorktreeChanged | None = None) -> None:
        await self._runtime.open_session(
            spec_of(asked), title=asked.title, policy=fit_policy(asked), session_id=task_id, worktree=worktree
        )

    # Worktrees

    async def remove_worktree(self, task_id: SessionId, asked: RemoveWorktree) -> WorktreeStanding:
        """Remove the worktree of a task, if nothing is lost with it."""
        await self._hub.open(task_id)
        return await self._in_time(self._worktrees.remove(task_id, asked))

    async def merge_worktree(self, task_id: SessionId, asked: MergeWorktree) -> MergeStanding:
        """Take the work of a task's worktree into a branch."""
        await self._awake(task_id)
        return await self._in_time(self._worktrees.merge(task_id, asked))

    async def repair_worktrees(self) -> None:
        """Look at what a server that died had begun with worktrees."""
        await self._worktrees.repair(self._wake)

    async def adopt(self, asked: AdoptAgent) -> TaskOpened:
        """Watch an agent that somebody else started, and with `control` let commands reach it. One that is adopted here
        already is the same task."""
        check_adoption(asked)
        return await self._in_time(self._adopt(asked))

    async def _adopt(self, asked: AdoptAgent) -> TaskOpened:
        async with self._adopting:
            await self._runtime.settled()  # an agent that is being found again has a task already
            if asked.process:
                return await self._adopt_process(asked)
            plan = await plan_adoption(
                TmuxServer(asked.socket), asked.pane, load_profiles(), cli=asked.cli, control=asked.control
            )
            known = self._runtime.session_at(plan.where.as_json())
            if known is not None:
                await self._runtime.set_control(known, is_allowed=asked.control)
            task_id = known or await self._runtime.adopt(
                plan.spec, plan.where.as_json(), title=asked.title or plan.title
            )
            await self._shown(task_id)
            return TaskOpened(task_id=task_id, is_new=known is None)

    async def _adopt_process(self, asked: AdoptAgent) -> TaskOpened:
        agent = await asyncio.to_thread(outside_agent, asked.process, load_profiles())
        where = agent.where.as_json()
        known = self._runtime.session_at(where)
        title = asked.title or f"adopted process {asked.process}"
        task_id = known or await self._runtime.adopt(agent.spec, where, title=title)
        await self._shown(task_id)
        return TaskOpened(task_id=task_id, is_new=known is None)

    def _opened(self, task_id: SessionId) -> SessionOpened | None:
        if task_id in self._runtime.sessions:
            return self._runtime.supervisor(task_id).book.opened
        view = self._hub.view(task_id)
        return None if view is None else view.opened

    async def start(self, task_id: SessionId) -> AgentStanding:
        """Have the agent of a task running. One that nobody supervises is taken up again first."""
        return await self._in_time(self._start(task_id))

    async def _start(self, task_id: SessionId) -> AgentStanding:
        async with self._alone(task_id):
            await self._wake(task_id)
            try:
                self._supervised(task_id)
            except NotSupervised:
                await self._take_up(task_id)
        await self._worktrees.refuse_unready(task_id)
        await self._runtime.start(task_id)
        await self._shown(task_id)
        return self._standing(task_id)

    async def resume(self, task_id: SessionId) -> AgentResumed:
        """Start an agent again, and look for proof that it took up its conversation: its own name of the session."""
        await self._awake(task_id)
        known = self._runtime.supervisor(task_id) if task_id in self._runtime.sessions else None
        if known is not None and known.machine.running_spawn is not None:
            told = "its agent was running already"
            return AgentResumed(
                task_id=task_id, result=ResumeResult.RUNNING, native_session_id=_native_of(known), evidence=told
            )
        before = "" if known is None else _native_of(known)
        await self.start(task_id)
        supervisor = self._supervised(task_id)
        before = before or ("" if known is not None else _native_of(supervisor))

        def look(machine: SessionMachine) -> str | None:
            life, native = machine.agent, machine.book.native
            if machine.running_spawn is None:
                why = f": {machine.problem}" if machine.problem else ""
                raise RequestRefusal(
                    f"the agent did not start{why}", remedy=f"see `interlock session history {task_id}`"
                )
            if life is not None and not before:
                return ""
            if life is None or native is None:
                return None
            has_forgotten = bool(before) and not native.native_session_id
            is_named = machine.book.native_spawn == life.spawn_id and native.native_session_id
            return native.native_session_id if is_named or has_forgotten else None

        patience = min(self._settings.command_seconds * _INTERRUPT_SHARE, _NAMED_WITHIN_SECONDS)
        try:
            async with asyncio.timeout(patience):
                after: str | None = await supervisor.until(look)
        except TimeoutError:
            after = None
        await self._shown(task_id)
        return resume_result(task_id, before, after, patience)

    async def _take_up(self, task_id: SessionId) -> None:
        done = await self._runtime.reopen(task_id)
        if task_id not in self._runtime.sessions:
            why = "it cannot be run here" if done is None else done.problem
            raise NotSupervised(task_id, why)

    async def stop(self, task_id: SessionId, *, spare_adopted: bool = False) -> AgentStanding:
        """Stop the agent of a task, with everything that it started. An open turn is interrupted. An adopted one is
        ended by a command that names it, and spared by one that ends many."""
        await self._awake(task_id)
        if self._supervised(task_id).has_foreign_agent and spare_adopted:
            return self._standing(task_id)

        async def work() -> AgentStanding:
            await self._runtime.stop(task_id)
            await self._shown(task_id)
            return self._standing(task_id)

        return await self._in_time(work())

    def _standing(self, task_id: SessionId) -> AgentStanding:
        conductor = self._runtime.supervisor(task_id).machine
        is_running = conductor.agent is not None
        is_starting = not is_running and conductor.running_spawn is not None
        return AgentStanding(task_id=task_id, is_running=is_running, is_starting=is_starting)

    async def delete(self, task_id: SessionId, *, decided_by: str) -> None:
        """Put a task away. Its log stays. One that was put away stays so."""
        await self._in_time(self._delete(task_id, decided_by))

    async def _delete(self, task_id: SessionId, decided_by: str) -> None:
        async with self._alone(task_id):
            await self._wake(task_id)
            view = self._hub.view(task_id)
            if view is not None and view.status is TaskStatus.DELETE:
                return
            supervisor = self._supervised(task_id)
            await self._runtime.delete(task_id, decided_by=decided_by)
            await self._shown(task_id, supervisor)

    async def mark_seen(self, task_id: SessionId, turn_id: TurnId | None = None, *, decided_by: str) -> SeenStanding:
        """Note that somebody looked at how the last turn ended, once a turn. Where there is nothing to see, nothing is
        noted: a turn is open, another one came since, or the session is over."""
        return await self._in_time(self._mark_seen(task_id, turn_id, decided_by))

    async def _mark_seen(self, task_id: SessionId, turn_id: TurnId | None, decided_by: str) -> SeenStanding:
        async with self._alone(task_id):
            await self._wake(task_id)
            view = self._view(task_id)
            newest = view.turn_id
            is_meant = newest is not None and turn_id in (None, newest)
            if is_meant and newest is not None and _is_unseen(view) and task_id in self._runtime.sessions:
                await self._runtime.mark_seen(task_id, newest, seen_by=decided_by)
                await self._shown(task_id)
            badge = view.summary().badge
        return SeenStanding(task_id=task_id, turn_id=newest, is_seen=badge is None or badge.is_seen)

    async def rename(self, task_id: SessionId, title: str, *, decided_by: str) -> TaskTitle:
        """Give a task another title. The same title again records nothing."""
        words = " ".join(title.split())
        check_kept(SessionRenamed(title=words, decided_by=decided_by))
        return await self._in_time(self._rename(task_id, words, decided_by))

    async def _rename(self, task_id: SessionId, title: str, decided_by: str) -> TaskTitle:
        if not title:
            raise UsageError("a blank title names nothing", remedy="give some words")
        async with self._alone(task_id):
            await self._wake(task_id)
            view = self._view(task_id)
            if view.status is TaskStatus.DELETE:
                raise NotSupervised(task_id, "it was archived")
            if view.summary().title != title:
                self._supervised(task_id)
                await self._runtime.rename(task_id, title, decided_by=decided_by)
                await self._shown(task_id)
        return TaskTitle(task_id=task_id, title=view.summary().title)

    # Reviews

    async def review(
        self,
        task_id: SessionId,
        asked: ReviewFile,
        *,
        changes: TaskChanges,
        decided_by: str,
        prompt_id: str | None = None,
        connection: PeerConnection | None = None,
    ) -> ReviewedFile:
        """Accept, send back or discard what a turn did to one file. The same review again changes nothing."""
        await self._awake(task_id)
        supervisor = self._supervised(task_id)
        spawn = supervisor.book.spawn
        is_named = spawn is not None and bool(asked.from_spawn) and asked.from_spawn == spawn.spawn_id
        if is_named or await self._is_own(supervisor, connection):
            raise OwnChanges("the agent of this task asks to review its own changes", remedy="a person reviews them")
        return await self._in_time(self._review(task_id, asked, changes, decided_by, prompt_id or new_id("prm")))

    async def _review(
        self, task_id: SessionId, asked: ReviewFile, changes: TaskChanges, decided_by: str, prompt_id: str
    ) -> ReviewedFile:
        async with self._alone(task_id):
            turns = await changes.turns(task_id, self._supervised(task_id).book.version)
            turn = choose_turn(turns, asked.turn_id)
            found, _ = await changes.diff(turns, turn, patch_of=None)
            change = reviewing.change_meant(found, asked)
            if not reviewing.is_done(turn, asked, prompt_id):
                await self._carry_out(task_id, asked, turn, change, decided_by, prompt_id)
                turns = await changes.turns(task_id, self._supervised(task_id).book.version)
            await self._shown(task_id)
        return reviewing.told_review(choose_turn(turns, asked.turn_id), asked, change)

    async def _carry_out(
        self,
        task_id: SessionId,
        asked: ReviewFile,
        turn: TurnTrees,
        change: TreeChange,
        decided_by: str,
        prompt_id: str,
    ) -> None:
        told = reviewing.recorded(turn, asked, reviewing.RECORDED[asked.act], decided_by)
        if asked.act is ReviewAct.SEND_BACK:
            sent = await self.send(task_id, reviewing.sent_back_text(turn, asked), prompt_id=prompt_id)
            told = structs.replace(told, prompt_id=sent.prompt_id)
        if asked.act is ReviewAct.DISCARD:
            reviewing.refuse_while_written(self._hub.views.values(), turn, task_id)
            begun = reviewing.recorded(turn, asked, FileReviewAct.DISCARDING, decided_by)
            await self._runtime.record_review(task_id, begun)
            problem = await asyncio.to_thread(reviewing.take_back, turn, change)
            if problem:
                kept = reviewing.recorded(turn, asked, FileReviewAct.KEPT, decided_by, problem)
                await self._runtime.record_review(task_id, kept)
                raise RequestRefusal(problem, remedy="look at it, and change it by hand; nothing was lost")
        await self._runtime.record_review(task_id, told)

    def _view(self, task_id: SessionId) -> TaskView:
        view = self._hub.view(task_id)
        if view is None:
            raise UnknownTask(task_id)
        return view

    # Prompts

    async def send(
        self, task_id: SessionId, text: str, *, prompt_id: str | None = None, reply: ReplyContract | None = None
    ) -> PromptStanding:
        """Queue a prompt, durably."""
        if prompt_id is not None:
            check_id(prompt_id, "prompt")
        asked = check_prompt(text, reply)
        await self._awake(task_id)
        await self._worktrees.refuse_unready(task_id)
        known = None if prompt_id is None else self._queue(task_id).prompts.get(PromptId(prompt_id))
        if known is not None and known.state is not PromptState.REMOVED and not known.says(asked):
            raise _key_reused("prompt")
        sent = PromptId(prompt_id or new_id("prm"))
        return await self._prompt_done(
            task_id, sent, lambda: self._runtime.send(task_id, text, prompt_id=sent, reply=reply)
        )

    async def edit(self, task_id: SessionId, prompt_id: PromptId, text: str) -> PromptStanding:
        """Edit a queued prompt. One that has those words already has been changed."""
        check_prompt(text)
        await self._awake(task_id)
        known = self._queue(task_id).prompts.get(prompt_id)
        if known is None:
            raise _no_prompt(prompt_id)
        if known.text == text and known.state is not PromptState.REMOVED:
            return PromptStanding(prompt_id=prompt_id, state=known.state, stage=known.stage)
        return await self._prompt_done(task_id, prompt_id, lambda: self._runtime.edit(task_id, prompt_id, text))

    async def remove(self, task_id: SessionId, prompt_id: PromptId) -> PromptStanding:
        """Remove a queued prompt. One that was taken back stays so."""
        await self._awake(task_id)
        known = self._queue(task_id).prompts.get(prompt_id)
        if known is None:
            raise _no_prompt(prompt_id)
        if known.state is PromptState.REMOVED:
            return PromptStanding(prompt_id=prompt_id, state=known.state, stage=known.stage)
        return await self._prompt_done(task_id, prompt_id, lambda: self._runtime.remove(task_id, prompt_id))

    async def _prompt_done(
        self, task_id: SessionId, prompt_id: PromptId, act: Callable[[], Coroutine[Any, Any, object]]
    ) -> PromptStanding:
        supervisor = self._supervised(task_id)

        async def work() -> PromptStanding:
            await act()
            await self._shown(task_id)
            prompt = supervisor.book.queue.prompts[prompt_id]
            return PromptStanding(prompt_id=prompt_id, state=prompt.state, stage=prompt.stage)

        return await self._in_time(work())

    async def set_gate(self, task_id: SessionId, *, is_open: bool, reason: str = "", decided_by: str) -> None:
        """Hold back what waits, or let it go. A gate that stands so is left as it is."""
        check_kept(QueueGate(is_open=is_open, reason=reason))
        await self._awake(task_id)
        queue = self._queue(task_id)
        if (queue.is_open, queue.gate_reason) == (is_open, "" if is_open else reason):
            return

        async def work() -> None:
            await self._runtime.set_gate(task_id, is_open=is_open, reason=reason, decided_by=decided_by)
            await self._shown(task_id)

        await self._in_time(work())

    # Turns

    async def cancel(
        self, task_id: SessionId, turn_id: TurnId | None, *, decided_by: str, key: str = "", is_forced: bool = False
    ) -> Cancelled:
        """End the open turn; with none open, take back what waits. Answered when the agent got the request to stop;
        forced: when the turn is over.

        A turn that is named is all the key that is needed. Without one, `key` keeps a repeat away from a later turn for
        as long as this server lives.
        """
        known = self._cancels.get((task_id, key)) if key else None
        if known is not None:
            if known[0] != (turn_id, is_forced):
                raise _key_reused("cancel")
            return known[1]
        told = await self._cancel_now(task_id, turn_id, decided_by, is_forced=is_forced)
        if key:
            self._cancels[(task_id, key)] = (turn_id, is_forced), told
            while len(self._cancels) > _MAX_CANCELS:
                del self._cancels[next(iter(self._cancels))]
        return told

    async def _cancel_now(
        self, task_id: SessionId, turn_id: TurnId | None, decided_by: str, *, is_forced: bool
    ) -> Cancelled:
        await self._awake(task_id)
        supervisor = self._supervised(task_id)
        book = supervisor.book
        is_open = book.turn is not None and turn_id in (None, book.turn.turn_id)
        if turn_id is not None and not is_open:
            return _past_cancel(supervisor, turn_id)
        if not is_open and not book.queue.waiting:
            raise RequestRefusal(
                "nothing to interrupt: no turn is open, and no prompt is queued",
                remedy=f"see how it stands: GET /api/tasks/{task_id}",
            )
        return await self._in_time(self._cancel(supervisor, decided_by, is_forced=is_forced))

    async def _cancel(self, supervisor: Supervisor, decided_by: str, *, is_forced: bool) -> Cancelled:
        book, task_id = supervisor.book, supervisor.session_id
        removed = () if book.turn is not None else await self._take_back(supervisor)
        turn = book.turn
        if turn is None:
            await self._shown(task_id)
            return Cancelled(delivered=True, removed=removed)
        try:
            await self._runtime.cancel(task_id, turn.turn_id, decided_by=decided_by, is_forced=is_forced)
        except UsageError:  # it ended in this moment
            await self._shown(task_id)
            return _past_cancel(supervisor, turn.turn_id)
        patience = self._settings.command_seconds * _INTERRUPT_SHARE
        report = await self._runtime.wait_interrupt(task_id, turn.turn_id, patience, is_forced=is_forced)
        await self._shown(task_id)
        return Cancelled(
            delivered=report.is_delivered,
            problem=report.problem,
            turn_id=turn.turn_id,
            removed=removed,
            killed=report.is_killed,
        )

    async def _take_back(self, supervisor: Supervisor) -> tuple[PromptId, ...]:
        """The last first: what is dispatched meanwhile is the head, and has a turn then, which is cancelled."""
        removed: list[PromptId] = []
        for prompt in reversed(supervisor.book.queue.waiting):
            try:
                await self._runtime.remove(supervisor.session_id, prompt.prompt_id)
            except UsageError:
                continue
            removed.append(prompt.prompt_id)
        return tuple(reversed(removed))

    # Questions

    async def decide(
        self, asked: ApprovalDecide, *, decided_by: str, connection: PeerConnection | None = None
    ) -> ApprovalStanding:
        """Answer a question. `connection` is the one by which the answer came: who is at its other end is looked up."""
        check_kept(DialogAnswered(dialog_id="x", option=asked.option, text=asked.text, decision_id=asked.decision_id))
        check_kept(ToolCallDecided(target_id="x", action=DecisionAction.RESUME, decision_id="x", result=asked.data))
        await self._awake(asked.task_id)
        self._supervised(asked.task_id)
        question = self._question(asked)
        if question is not None and question.attention is Attention.DECISION and self._workflows is not None:
            await self.refuse_agents(connection)
            if asked.from_spawn:
                raise AskedByAgent("an agent asks for this", remedy="a person decides it, in a terminal of their own")
            return await self._workflows.decide(asked, question, decided_by=decided_by)
        past = await self._past_decision(asked, question)
        if past is not None:
            return past
        asked = await self._with_sender(asked, connection)
        try:
            return await self._in_time(self._decide(asked, decided_by))
        except UsageError as error:
            if isinstance(error, RequestRefusal):
                raise
            if is_own_question(self._runtime.supervisor(asked.task_id).book, asked.from_spawn):
                raise OwnQuestion(str(error).removesuffix(f"; {error.remedy}"), remedy=error.remedy) from error
            await self._shown(asked.task_id)
            past = await self._past_decision(asked, self._question(asked))  # somebody may have been faster
            if past is None:
                raise
            return past

    async def _with_sender(self, asked: ApprovalDecide, connection: PeerConnection | None) -> ApprovalDecide:
        """The answer with the spawn whose process really gave it, if that is the one that asks."""
        supervisor = self._runtime.supervisor(asked.task_id)
        spawn = supervisor.book.spawn
        is_own = spawn is not None and await self._is_own(supervisor, connection)
        return structs.replace(asked, from_spawn=spawn.spawn_id) if spawn is not None and is_own else asked

    async def _is_own(self, supervisor: Supervisor, connection: PeerConnection | None) -> bool:
        """Whether a process of the agent itself is at the other end."""
        spawn = supervisor.book.spawn
        if connection is None or spawn is None:
            return False
        pid, started = spawn.event.pid, spawn.event.start_time
        leader = None if pid is None else ProcessIdentity(pid, started)
        return await asyncio.to_thread(is_of_spawn, connection, leader, spawn.spawn_id)

    async def _decide(self, asked: ApprovalDecide, decided_by: str) -> ApprovalStanding:
        answer = AnswerQuestion(
            approval_id=asked.approval_id,
            is_allowed=asked.is_allowed,
            option=asked.option,
            text=asked.text,
            data=asked.data,
            decision_id=asked.decision_id,
            decided_by=decided_by,
            from_spawn=asked.from_spawn,
        )
        await self._runtime.decide(asked.task_id, answer)
        await self._shown(asked.task_id)
        question = self._question(asked)
        state = ApprovalState.DECIDED if question is None else question.state
        return ApprovalStanding(approval_id=asked.approval_id, state=state)

    def _question(self, asked: ApprovalDecide) -> Approval | None:
        view = self._hub.view(asked.task_id)
        known = None if view is None else view.approvals.approvals.get(asked.approval_id)
        if known is None and not self._is_asked(asked):
            raise NotFound("there is no such question in this task", remedy="look at what is asked now")
        return known

    def _is_asked(self, asked: ApprovalDecide) -> bool:
        """The hub may be a moment behind the task."""
        book = self._runtime.supervisor(asked.task_id).book
        return asked.approval_id in book.dialogs.open or bool(book.suspended)

    async def _past_decision(self, asked: ApprovalDecide, question: Approval | None) -> ApprovalStanding | None:
        """What a question that is not open any more has to say to a decision: the same one has the same answer."""
        if question is None:
            return None
        refuse_unfit_option(asked, question)
        if question.state is ApprovalState.OPEN or self._log is None:
            return None
        found = await find_decision(self._log, asked)
        if found is None:
            return None
        if is_same_decision(found, asked, question):
            return ApprovalStanding(approval_id=asked.approval_id, state=question.state)
        if asked.decision_id and found.decision_id == asked.decision_id:
            raise _key_reused("decision")
        who = f" by {question.decided_by}" if question.decided_by else ""
        raise AlreadyDecided(f"it was decided already{who}: {question.outcome}", remedy="look at what is asked now")

    # Within

    def _queue(self, task_id: SessionId) -> SendQueue:
        return self._supervised(task_id).book.queue


def _native_of(supervisor: Supervisor) -> str:
    native = supervisor.book.native
    return "" if native is None else native.native_session_id


def resume_result(task_id: SessionId, before: str, after: str | None, waited: float) -> AgentResumed:
    """Whether a conversation went on, by the CLI's own name of it before and after."""
    if not before:
        result, evidence = ResumeResult.STARTED_ANEW, "no conversation of its own is known from before"
    elif after is None:
        result = ResumeResult.UNKNOWN
        evidence = f"it was asked for {before}, and has not named its session within {waited:g} s"
    elif after == before:
        result, evidence = ResumeResult.RESUMED, f"the CLI names its session {after}, as before"
    else:
        result = ResumeResult.STARTED_ANEW
        named = f"the CLI names its session {after}" if after else "the CLI knows that session no more"
        evidence = f"{named}; before it was {before}"
    return AgentResumed(task_id=task_id, result=result, native_session_id=after or "", evidence=evidence)


def _past_cancel(supervisor: Supervisor, turn_id: TurnId) -> Cancelled:
    """A turn that is over cannot be cancelled any more; whoever had it cancelled is told the same again."""
    facts = supervisor.book.turns.turns.get((supervisor.session_id, turn_id))
    if facts is None:
        raise NotFound("there is no such turn in this task", remedy="look at its turns")
    problem = "" if facts.cancel_requested else "the turn had ended already"
    is_killed = supervisor.machine.killed_turn == turn_id
    return Cancelled(delivered=facts.cancel_requested, problem=problem, turn_id=turn_id, killed=is_killed)


def _is_unseen(view: TaskView) -> bool:
    badge = view.summary().badge
    return badge is not None and not badge.is_seen


def _told(done: Struct) -> Json:
    told: Json = to_builtins(done)
    return told


def _key_reused(what: str) -> KeyReused:
    return KeyReused(f"that {what} was asked for before with other content", remedy="use a new key")


def _no_prompt(prompt_id: PromptId) -> NotFound:
    return NotFound(f"there is no prompt {prompt_id} in this task", remedy="list its queue")
