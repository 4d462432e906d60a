"""The git worktrees of tasks: planned, made, removed. Every intent is in the log before it is carried out.

Laws:
1. An agent works in a worktree only after the log says that it was made. One that could not be made, or is gone, is
   told; nothing is ever begun in the folder that it was made from instead.
2. What a server that died had begun is looked at by the next one: it is finished, taken back, or told.
3. A worktree is removed only while no agent of its task runs, and no other task works in it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import structs

from interlock.agents.git.merging import (
    Conflicts,
    apply_merge,
    finish_merge,
    keep_as_branch,
    plan_merge,
)
from interlock.agents.git.worktree_removal import check_removal, finish_removal, remove_worktree
from interlock.agents.git.worktree_setup import run_setup
from interlock.agents.git.worktrees import make_worktree, plan_worktree
from interlock.agents.processes.command import minimal_environment
from interlock.log.port import Log
from interlock.projections.task.worktree import after
from interlock.runtime.runtime import Runtime
from interlock.server.commands.worktree_facts import (
    attics,
    filled,
    folder_in,
    head_to_merge,
    made_again,
    merge_of,
    new_attic,
    notes_of,
    plan_of,
    removal_of,
    set_aside,
    torn_down,
)
from interlock.server.http.problems import NotFound, RequestRefusal, Unfit
from interlock.server.live.hub import Hub
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.workspace import INTENTS, WorktreeChanged, WorktreePhase
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import TaskStatus
from interlock.vocabulary.wire.resources import (
    AskedWorktree,
    MergeStanding,
    MergeWorktree,
    OpenTask,
    RemoveWorktree,
    WorktreeStanding,
)
from interlock.vocabulary.wire.worktree import TaskWorktree

FIRST_PORT: Final = 21_000
PORTS_EACH: Final = 10
_LAST_PORT: Final = 32_000
_LISTED: Final = 10
_SHOW_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05
_logger: Final = logging.getLogger("interlock.server")

Waken = Callable[[SessionId], Awaitable[None]]


class Worktrees:
    """The worktrees of one server's tasks. `home`: below it they are made; without one there are none."""

    def __init__(self, runtime: Runtime, hub: Hub, log: Log | None, home: Path | None) -> None:
        self._runtime = runtime
        self._hub = hub
        self._log = log
        self._home = home
        self._planning = asyncio.Lock()
        self._locks: dict[SessionId, asyncio.Lock] = {}
        self._planned_here: set[SessionId] = set()  # what others had planned is half made, perhaps

    # To make one

    async def open(
        self, asked: OpenTask, task_id: SessionId, begin: Callable[[OpenTask, WorktreeChanged], Awaitable[None]]
    ) -> None:
        """Plan the worktree of a task that is about to be opened, and have it opened with it."""
        wanted = asked.worktree
        if wanted is None or self._home is None:
            raise Unfit("this server makes no worktrees", remedy="leave `worktree` out")
        _check_teardown(wanted.teardown, self._runtime.redactor.text)
        async with self._planning:  # no two plans get one port, or one name
            plan = await asyncio.to_thread(
                plan_worktree,
                asked.cwd,
                self._home,
                str(task_id),
                name=wanted.name,
                title=asked.title or asked.agent,
                base=wanted.base,
            )
            folder = await asyncio.to_thread(folder_in, plan, asked.cwd)
            told = WorktreeChanged(
                phase=WorktreePhase.PLANNED,
                path=str(plan.path),
                branch=plan.branch,
                base=plan.base,
                repository=str(plan.common),
                source=asked.cwd,
                target=plan.target,
                port=await self._free_port(),
                copy=wanted.copy,
                disposable=wanted.disposable,
                setup=wanted.setup,
                link=wanted.link,
                teardown=wanted.teardown,
                submodules=wanted.submodules,
            )
            self._planned_here.add(task_id)
            await begin(structs.replace(asked, cwd=folder), told)
            await self._shown(task_id)

    async def _free_port(self) -> int:
        """The first block of ports that no worktree has that is there; 0 where all are taken."""
        taken = set()
        async for line in self._hub.lines():
            tree = line.summary().worktree
            if tree is not None and tree.phase is not WorktreePhase.REMOVED:
                taken.add(tree.port)
        return next((one for one in range(FIRST_PORT, _LAST_PORT, PORTS_EACH) if one not in taken), 0)

    async def make(self, task_id: SessionId, asked: OpenTask) -> tuple[str, ...]:
        """Make what was planned, unless that is done. What a person should know of it. `UsageError` where it failed."""
        async with self._lock(task_id):
            told = await self._known(task_id)
            if told.phase is WorktreePhase.PLANNED and task_id not in self._planned_here:
                await self._repair(task_id)
                told = await self._known(task_id)
            if told.phase is WorktreePhase.PLANNED:
                return await self._make(task_id, told, asked.worktree or AskedWorktree(), asked.environment)
            if told.phase is WorktreePhase.FAILED:
                raise _unmade(task_id, told)
            return ()

    async def _make(
        self, task_id: SessionId, told: WorktreeChanged, asked: AskedWorktree, environment: dict[str, str]
    ) -> tuple[str, ...]:
        plan = plan_of(task_id, told)
        try:
            await asyncio.to_thread(make_worktree, plan)
            notes = await asyncio.to_thread(notes_of, plan, has_submodules=told.submodules)
            notes += await asyncio.to_thread(filled, plan, told)
            if told.setup:
                variables = {**minimal_environment(), **environment, **told.variables}
                await asyncio.to_thread(run_setup, asked.setup, plan.path, variables, asked.setup_seconds)
        except (InterlockError, OSError) as error:
            failed = structs.replace(told, phase=WorktreePhase.FAILED, problem=str(error) or type(error).__name__)
            await self._record(task_id, failed)
            raise _unmade(task_id, failed) from error
        await self._record(task_id, structs.replace(told, phase=WorktreePhase.CREATED))
        return notes

    async def refuse_unready(self, task_id: SessionId) -> None:
        """Law 1."""
        view = self._hub.view(task_id)
        tree = None if view is None else view.summary().worktree
        if tree is None:
            return
        if tree.phase in (WorktreePhase.PLANNED, WorktreePhase.REMOVING):
            raise RequestRefusal(f"the worktree of {task_id} is {tree.phase.value}", remedy="try again in a moment")
        if tree.phase is WorktreePhase.FAILED:
            raise _unmade(task_id, tree)
        is_gone = tree.phase is WorktreePhase.REMOVED
        if is_gone or not await asyncio.to_thread(os.path.isdir, tree.path):
            what = "was removed" if is_gone else "is gone, and not by us"
            raise RequestRefusal(
                f"the worktree {tree.path} of {task_id} {what}",
                remedy=f"begin another session; branch {tree.branch} has what was committed, if it is still there",
            )

    # To remove one

    async def remove(self, task_id: SessionId, asked: RemoveWorktree) -> WorktreeStanding:
        """Remove the worktree of a task, if nothing is lost with it."""
        async with self._lock(task_id):
            told = await self._known(task_id)
            if told.phase is WorktreePhase.REMOVED:
                return self._standing(task_id, told)
            if told.phase in INTENTS:
                raise RequestRefusal(f"its worktree is {told.phase.value} now", remedy="try again in a moment")
            await self._refuse_use(task_id, told)
            await self._runtime.settle_workspace(task_id)  # our own look at it would count as a process in it
            removal = removal_of(task_id, told, await self._merged(task_id), asked)
            tip = await asyncio.to_thread(check_removal, removal)
            if asked.dry_run:
                return self._standing(task_id, told)
            intent = structs.replace(told, phase=WorktreePhase.REMOVING, head=tip, problem="")
            await self._record(task_id, intent)
            notes = await asyncio.to_thread(torn_down, told)
            attic = await asyncio.to_thread(new_attic, told, task_id)
            try:
                kept = await asyncio.to_thread(remove_worktree, removal, tip, attic)
            except (InterlockError, OSError) as error:
                problem = f"{'; '.join((*notes, str(error) or type(error).__name__))}{set_aside(attic)}"
                await self._record(task_id, structs.replace(told, problem=problem))
                raise
            done = structs.replace(intent, phase=WorktreePhase.REMOVED, kept=kept, problem="; ".join(notes))
            await self._record(task_id, done)
            return structs.replace(self._standing(task_id, done), notes=notes)

    # To merge one

    async def merge(self, task_id: SessionId, asked: MergeWorktree) -> MergeStanding:
        """Take its work into a branch: all of it, or nothing."""
        async with self._lock(task_id):
            told = await self._known(task_id)
            if told.phase not in (WorktreePhase.CREATED, WorktreePhase.MERGED):
                raise RequestRefusal(
                    f"the worktree of {task_id} is {told.phase.value}", remedy="there is no work in it"
                )
            known = self._runtime.supervisor(task_id).book if task_id in self._runtime.sessions else None
            if known is not None and known.turn is not None:
                raise RequestRefusal(
                    f"a turn of {task_id} is open", remedy=f"wait for its end: interlock wait {task_id}"
                )
            head = await asyncio.to_thread(head_to_merge, task_id, told, asked)
            if asked.branch and asked.branch != told.branch:  # its own is there already, and has it all
                await asyncio.to_thread(keep_as_branch, Path(told.repository), head, asked.branch)
            if asked.branch:
                return MergeStanding(task_id=task_id, target=asked.branch, after=head)
            return await self._merge(task_id, told, asked, head)

    async def _merge(self, task_id: SessionId, told: WorktreeChanged, asked: MergeWorktree, head: str) -> MergeStanding:
        target = asked.into or told.target
        if not target:
            raise Unfit("the base of the worktree was no branch", remedy="name one: --into BRANCH or --branch NAME")
        message = asked.message or f"Work of session {task_id}"
        common = Path(told.repository)
        merge = await asyncio.to_thread(plan_merge, common, head, target, is_squash=asked.squash, message=message)
        if isinstance(merge, Conflicts):
            return MergeStanding(task_id=task_id, target=target, conflicts=merge.paths)
        if merge is None:
            return MergeStanding(task_id=task_id, target=target, before=head, after=head)
        intent = structs.replace(
            told,
            phase=WorktreePhase.MERGING,
            target=target,
            head=head,
            before=merge.before,
            after=merge.after,
            checkout=merge.checkout,
            problem="",
        )
        await self._record(task_id, intent)
        try:
            await asyncio.to_thread(apply_merge, merge)
        except (InterlockError, OSError) as error:
            await self._record(task_id, structs.replace(told, problem=str(error) or type(error).__name__))
            raise
        await self._record(task_id, structs.replace(intent, phase=WorktreePhase.MERGED))
        return MergeStanding(
            task_id=task_id, target=target, before=merge.before, after=merge.after, checkout=merge.checkout
        )

    async def _refuse_use(self, task_id: SessionId, told: WorktreeChanged) -> None:
        """Law 3."""
        sessions = self._runtime.sessions
        async for line in self._hub.lines():
            one = line.summary()
            in_it = one.folder == told.path or one.folder.startswith(f"{told.path}/")
            if not in_it:
                continue
            if one.task_id in sessions and self._runtime.supervisor(one.task_id).machine.running_spawn is not None:
                raise RequestRefusal(
                    f"the agent of {one.task_id} runs in {told.path}", remedy=f"stop it: interlock stop {one.task_id}"
                )
            if one.task_id != task_id and one.task_status is not TaskStatus.DELETE:
                raise RequestRefusal(
                    f"session {one.task_id} works in {told.path}, too",
                    remedy=f"archive it first: interlock session archive {one.task_id}",
                )

    # What a server that died had begun

    async def repair(self, wake: Waken) -> None:
        """Law 2. Called once, at the start."""
        await self._runtime.settled()
        while not self._hub.is_ready:  # noqa: ASYNC110  (it has no event for that)
            await asyncio.sleep(_POLL_SECONDS)
        found = [one.summary() async for one in self._hub.lines()]
        for line in found:
            is_left = line.worktree is not None and line.worktree.phase in INTENTS
            if is_left and line.task_id not in self._planned_here:
                try:
                    await wake(line.task_id)
                    async with self._lock(line.task_id):
                        await self._repair(line.task_id)
                except (InterlockError, OSError) as error:
                    _logger.error("the worktree of %s could not be looked at: %s", line.task_id, error)

    async def _repair(self, task_id: SessionId) -> None:
        told = await self._known(task_id)
        match told.phase:
            case WorktreePhase.PLANNED:
                await self._record(task_id, await asyncio.to_thread(made_again, task_id, told))
            case WorktreePhase.REMOVING:
                removal = removal_of(task_id, told, ("", ""), RemoveWorktree())
                is_done = await asyncio.to_thread(finish_removal, removal, told.head)
                phase = WorktreePhase.REMOVED if is_done else WorktreePhase.CREATED
                said = f"the server died before it was removed: it is back{set_aside(*attics(told, task_id))}"
                problem = "" if is_done else said
                await self._record(task_id, structs.replace(told, phase=phase, problem=problem))
            case WorktreePhase.MERGING:
                problem = await asyncio.to_thread(finish_merge, merge_of(told))
                phase = WorktreePhase.CREATED if problem else WorktreePhase.MERGED
                await self._record(task_id, structs.replace(told, phase=phase, problem=problem))
            case _:
                pass

    # Within

    async def standing(self, task_id: SessionId) -> TaskWorktree:
        """How the worktree of a task stands. `NotFound` where it has none."""
        told = await self._known(task_id)
        return self._standing(task_id, told).worktree

    async def is_same(self, task_id: SessionId, asked: OpenTask) -> bool:
        """Whether the worktree of a task is the one that is asked for. Its base may have moved since."""
        wanted, told = asked.worktree, await self._find(task_id)
        if wanted is None or told is None:
            return wanted is None and told is None
        has_name = not wanted.name or told.branch.endswith(f"/{wanted.name}")
        redacted = tuple(self._runtime.redactor.text(one) for one in wanted.setup)
        return (
            has_name
            and (told.source, told.copy, told.link) == (asked.cwd, wanted.copy, wanted.link)
            and (told.teardown, told.submodules) == (wanted.teardown, wanted.submodules)
            and told.setup in (wanted.setup, redacted)
        )

    async def _find(self, task_id: SessionId) -> WorktreeChanged | None:
        if task_id in self._runtime.sessions:
            return self._runtime.supervisor(task_id).book.worktree
        if self._log is None:
            return None
        events = (await self._log.read(task_id)).events
        return next((one.data for one in reversed(events) if isinstance(one.data, WorktreeChanged)), None)

    async def _known(self, task_id: SessionId) -> WorktreeChanged:
        told = await self._find(task_id)
        if told is None:
            raise NotFound(f"no worktree was made for {task_id}", remedy="begin one: interlock run AGENT --worktree")
        return told

    async def _merged(self, task_id: SessionId) -> tuple[str, str]:
        """The commit of its branch that was merged last, and as what."""
        if self._log is None:
            return "", ""
        events = (await self._log.read(task_id)).events
        merges = (one.data for one in reversed(events) if isinstance(one.data, WorktreeChanged))
        return next(((one.head, one.after) for one in merges if one.phase is WorktreePhase.MERGED), ("", ""))

    async def _record(self, task_id: SessionId, told: WorktreeChanged) -> None:
        await self._runtime.record_worktree(task_id, told)
        await self._shown(task_id)

    async def _shown(self, task_id: SessionId) -> None:
        if task_id in self._runtime.sessions:
            await self._hub.reached(task_id, self._runtime.supervisor(task_id).book.version, _SHOW_SECONDS)

    def _standing(self, task_id: SessionId, told: WorktreeChanged) -> WorktreeStanding:
        tree = after(None, told)
        assert tree is not None
        return WorktreeStanding(task_id=task_id, worktree=tree, kept=told.kept)

    def _lock(self, task_id: SessionId) -> asyncio.Lock:
        return self._locks.setdefault(task_id, asyncio.Lock())


def _check_teardown(argv: tuple[str, ...], redacted: Callable[[str], str]) -> None:
    """It is run from the log, long after: what is masked there could not be, and what the agent wrote must not be."""
    if any(redacted(one) != one for one in argv):
        raise Unfit("`teardown` holds a secret, which is never written down", remedy="name a script that reads it")
    if argv and "/" in argv[0] and not argv[0].startswith("/"):
        raise Unfit(
            f"`teardown` names {argv[0]}, a file of the worktree that its agent can change",
            remedy="name a program in PATH, or give its absolute path",
        )


def _unmade(task_id: SessionId, told: WorktreeChanged | TaskWorktree) -> RequestRefusal:
    return RequestRefusal(
        f"the worktree of {task_id} could not be made: {told.problem}",
        remedy=f"mend that and begin another; remove this one: interlock worktree rm {task_id}",
    )
