"""Records the work tree of a session when a turn begins and when it ends, beside the turn and never in its way.

Laws:
1. What cannot be seen is recorded as not seen, with the reason. Nothing about a tree is ever guessed.
2. An edge is looked at right after it. A file that changed between the edge and the look is told as late: its change
   may be on either side of the edge.
3. The edges of one session are recorded in their order. Of a folder outside of every repository the end of a turn is
   recorded, if files changed: by hashes.
   A session is looked at once before its first turn, when it is opened, so that the look at a start is a short one.
4. A failure here is a record or a line of the server's log, and no concern of the session.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from msgspec import structs

from interlock.agents.git.comparing import TreeChange, compare
from interlock.agents.git.looking import TooMuch, decoded
from interlock.agents.git.repository import NoRepository, OddRepository, Repository, find_repository
from interlock.agents.git.running import GitFailed
from interlock.agents.git.snapshot import TreeSnapshot, TreeSnapshots, ref_of
from interlock.runtime.workspace.main_checkout import MainCheckout, MainCheckouts, main_changes
from interlock.runtime.workspace.manifest import Manifest, Manifests
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.audit import RunState, SessionOpened, TurnStarted
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.workspace import FileChange, WorkspaceChanged, WorkspaceKind, WorkspacePhase
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.run import RunStatus

T = TypeVar("T")
MAX_LISTED: Final = 200
_THREADS: Final = 2
_MAX_SPANS: Final = 64
# The times of files come from a clock of the kernel that ticks every few milliseconds.
_CLOCK_TICK_NS: Final = 10_000_000
_UNASKED: Final = "the agent began this turn by itself: it may have changed files before they were looked at"
_NOT_SEEN_WHOLE: Final = (
    "the turn began under another server: what changed while none ran, or after its agent died, is in its end too"
)
_logger: Final = logging.getLogger("interlock.runtime")

Record = Callable[[SessionId, WorkspaceChanged], Awaitable[None]]
FolderOf = Callable[[SessionId], str | None]


@dataclass(slots=True)
class _Span:
    """The time of one turn in one work tree."""

    session_id: SessionId
    turn_id: TurnId
    began: float
    ended: float | None = None

    def meets(self, other: _Span) -> bool:
        return (
            self.session_id != other.session_id
            and (other.ended is None or other.ended > self.began)
            and (self.ended is None or other.began < self.ended)
        )


@dataclass(slots=True)
class _Session:
    """What is remembered of one session while this server lives."""

    prompted: TurnId | None = None
    open_turn: TurnId | None = None
    span: _Span | None = None
    start_tree: str = ""
    start_main: MainCheckout | None = None
    start_manifest: Manifest | str = ""
    """Of a folder without git; a text: why there is none."""
    last_tree: str = ""
    tail: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    session_id: SessionId
    turn_id: TurnId
    phase: WorkspacePhase
    since_ns: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Seen:
    repository: Repository
    taken: TreeSnapshot
    base: str
    changes: tuple[TreeChange, ...]
    main: MainCheckout | None = None


@dataclass(slots=True)
class WorkspaceRecorder:
    """Hears what is published, and records trees by `record`. `folder_of` is where the agent of a session works."""

    record: Record
    folder_of: FolderOf
    snapshots: TreeSnapshots = field(default_factory=TreeSnapshots)
    manifests: Manifests = field(default_factory=Manifests)
    mains: MainCheckouts = field(default_factory=MainCheckouts)
    _sessions: defaultdict[SessionId, _Session] = field(default_factory=lambda: defaultdict(_Session))
    _spans: defaultdict[str, list[_Span]] = field(default_factory=lambda: defaultdict(list))
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="workspace")
    )

    def hear(self, event: Event) -> None:
        """Take in an event that is durable. Returns at once."""
        turn_id = event.turn_id
        if turn_id is None:
            if isinstance(event.data, SessionOpened):
                known = self._sessions[event.session_id]
                known.tail = asyncio.create_task(self._look_first(event.session_id))
            return
        match event.data:
            case UserMessage():
                self._sessions[event.session_id].prompted = turn_id
            case TurnStarted():
                self._begin(event.session_id, turn_id)
            case RunState(status=RunStatus.DONE):
                self._end(event.session_id, turn_id)
            case _:
                pass

    def _begin(self, session_id: SessionId, turn_id: TurnId) -> None:
        known = self._sessions[session_id]
        if known.open_turn == turn_id:
            return  # it was taken over by another process of the same agent
        known.open_turn, known.span = turn_id, _Span(session_id, turn_id, time.monotonic())
        problem = "" if known.prompted == turn_id else _UNASKED
        self._follow(session_id, turn_id, WorkspacePhase.START, problem)

    def _end(self, session_id: SessionId, turn_id: TurnId) -> None:
        known, problem = self._sessions[session_id], ""
        if known.open_turn == turn_id and known.span is not None:
            known.span.ended = time.monotonic()
        else:
            known.span, known.open_turn, problem = None, None, _NOT_SEEN_WHOLE
        self._follow(session_id, turn_id, WorkspacePhase.END, problem)

    def _follow(self, session_id: SessionId, turn_id: TurnId, phase: WorkspacePhase, problem: str = "") -> None:
        since_ns = time.time_ns() - _CLOCK_TICK_NS
        known = self._sessions[session_id]
        edge = _Edge(session_id=session_id, turn_id=turn_id, phase=phase, since_ns=since_ns, problem=problem)
        known.tail = asyncio.create_task(self._after(known.tail, edge, known.span))

    async def _after(self, before: asyncio.Task[None] | None, edge: _Edge, span: _Span | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        try:
            told = await self._look(edge, span)
            if told is not None:
                await self.record(edge.session_id, told)
        except InterlockError as error:
            _logger.warning("the work tree of session %s was not recorded: %s", edge.session_id, error)
        except Exception as error:
            _logger.error("the work tree of session %s was not recorded", edge.session_id, exc_info=error)

    async def _look(self, edge: _Edge, span: _Span | None) -> WorkspaceChanged | None:
        folder = self.folder_of(edge.session_id)
        if folder is None:
            return None
        known = self._sessions[edge.session_id]
        is_start = edge.phase is WorkspacePhase.START
        base = known.last_tree if is_start else known.start_tree
        try:
            seen = await asyncio.get_running_loop().run_in_executor(self._threads, self._see, edge, folder, base)
        except OddRepository as error:
            return _unseen(edge, folder, str(error))
        except NoRepository:
            return await self._look_without_git(edge, folder, span)
        except (GitFailed, TooMuch, OSError) as error:
            known.start_tree = ""
            return _unseen(edge, folder, str(error) or type(error).__name__)
        known.last_tree = seen.taken.tree
        known.start_tree = seen.taken.tree if is_start else ""
        before, known.start_main = known.start_main, seen.main if is_start else None
        told = _told(edge, seen, self._sharers(str(seen.repository.root), edge, span))
        return told if is_start else _with_main(told, before, seen.main)

    async def _look_without_git(self, edge: _Edge, folder: str, span: _Span | None) -> WorkspaceChanged | None:
        """Remember what is there at a start, and compare with it at the end."""
        known = self._sessions[edge.session_id]
        root = await self._in_thread(lambda: os.path.realpath(folder))
        sharers = self._sharers(root, edge, span)
        now: Manifest | str
        try:
            now = await self._in_thread(lambda: self.manifests.take(folder, edge.since_ns))
        except (TooMuch, OSError) as error:
            now = str(error) or type(error).__name__
        if edge.phase is WorkspacePhase.START:
            known.start_manifest = now
            return None
        before, known.start_manifest = known.start_manifest, ""
        if span is None or before == "":
            return None  # its start was not seen
        wrong = next((one for one in (before, now) if isinstance(one, str)), "")
        if isinstance(before, str) or isinstance(now, str):
            return _unseen(edge, folder, wrong, WorkspaceKind.MANIFEST)
        told = _listed(edge, root, before, now)
        return structs.replace(told, shared_with=sharers) if told.file_count or told.late else None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _look_first(self, session_id: SessionId) -> None:
        """The tree when a session is opened: what its first start is compared with, and what makes that look a short
        one. What cannot be seen now is told at that start."""
        folder = self.folder_of(session_id)
        if folder is None:
            return

        def see() -> str:
            repository = find_repository(folder)
            tree = self.snapshots.take(repository, ref_of(session_id), message=f"{session_id} open\n").tree
            self.mains.look(repository)
            return tree

        try:
            tree = await self._in_thread(see)
        except (NoRepository, GitFailed, TooMuch, OSError) as error:
            if isinstance(error, NoRepository) and not isinstance(error, OddRepository):
                with suppress(TooMuch, OSError):
                    await self._in_thread(lambda: self.manifests.take(folder))
            return
        self._sessions[session_id].last_tree = tree

    def _see(self, edge: _Edge, folder: str, base: str) -> _Seen:
        """In a thread: keep the tree, and compare it."""
        repository = find_repository(folder)
        message = f"{edge.session_id} {edge.turn_id} {edge.phase.value}\n"
        taken = self.snapshots.take(repository, ref_of(edge.session_id), message=message, since_ns=edge.since_ns)
        main = self.mains.look(repository, edge.since_ns)
        if not base:
            return _Seen(repository, taken, "", (), main)
        with repository.objects() as objects:
            changes = compare(objects, base, taken.tree)
        return _Seen(repository, taken, base, changes, main)

    def _sharers(self, root: str, edge: _Edge, span: _Span | None) -> tuple[SessionId, ...]:
        """The sessions that had a turn in the same tree while this one was open."""
        if span is None:
            return ()
        spans = self._spans[root]
        if span not in spans:
            spans.append(span)
            del spans[:-_MAX_SPANS]
        return tuple(sorted({one.session_id for one in spans if span.meets(one)}))

    async def settle(self, session_id: SessionId, seconds: float) -> None:
        """Wait, so long at most, until every edge of a session is recorded."""
        known = self._sessions.get(session_id)
        if known is not None and known.tail is not None:
            await asyncio.wait((known.tail,), timeout=seconds)

    async def close(self) -> None:
        """Give up what is not recorded yet: that a tree is missing is said by its absence."""
        self.snapshots.close()
        self.manifests.close()
        tails = [one.tail for one in self._sessions.values() if one.tail is not None]
        for tail in tails:
            tail.cancel()
        await asyncio.gather(*tails, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _unseen(edge: _Edge, folder: str, why: str, kind: WorkspaceKind = WorkspaceKind.TREE) -> WorkspaceChanged:
    root = os.path.realpath(folder)
    return WorkspaceChanged(turn_id=edge.turn_id, phase=edge.phase, root=root, problem=why, kind=kind)


def _listed(edge: _Edge, root: str, before: Manifest, now: Manifest) -> WorkspaceChanged:
    """The end of a turn in a folder without git."""
    changes = now.changes_since(before)
    late = dict.fromkeys((*before.late, *now.late))
    not_kept = {**before.not_kept, **now.not_kept}
    return WorkspaceChanged(
        turn_id=edge.turn_id,
        phase=edge.phase,
        root=root,
        kind=WorkspaceKind.MANIFEST,
        base=before.digest,
        manifest=now.digest,
        files=changes[:MAX_LISTED],
        file_count=len(changes),
        late=tuple(decoded(path) for path in late)[:MAX_LISTED],
        not_kept=tuple(f"{decoded(path)} ({why})" for path, why in sorted(not_kept.items())[:MAX_LISTED]),
        problem=edge.problem,
    )


def _told(edge: _Edge, seen: _Seen, sharers: tuple[SessionId, ...]) -> WorkspaceChanged:
    taken, repository = seen.taken, seen.repository
    return WorkspaceChanged(
        turn_id=edge.turn_id,
        phase=edge.phase,
        root=str(repository.root),
        repository=str(repository.common),
        branch=taken.branch,
        head=taken.head,
        tree=taken.tree,
        commit=taken.commit,
        base=seen.base,
        files=tuple(
            FileChange(path=one.path, change=one.change, added=one.added, removed=one.removed)
            for one in seen.changes[:MAX_LISTED]
        ),
        file_count=len(seen.changes),
        added=sum(one.added or 0 for one in seen.changes),
        removed=sum(one.removed or 0 for one in seen.changes),
        late=tuple(decoded(path) for path in taken.changed_after[:MAX_LISTED]),
        not_kept=tuple(f"{decoded(path)} ({why})" for path, why in sorted(taken.not_kept.items())[:MAX_LISTED]),
        shared_with=sharers,
        problem=edge.problem,
    )


def _with_main(told: WorkspaceChanged, before: MainCheckout | None, now: MainCheckout | None) -> WorkspaceChanged:
    """With what changed in the main checkout during the turn, if both looks at it could be made."""
    if before is None or now is None or before.root != now.root:
        return told
    files = main_changes(before, now)[:MAX_LISTED]
    paths = tuple(one.path for one in files)
    return structs.replace(told, main_root=str(now.root), main_changed=paths, main_files=files)
