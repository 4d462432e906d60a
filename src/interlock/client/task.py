"""One task, in the hands of a caller: look at it, follow it, act on it, wait for it.

Laws:
1. What is shown is what the machine holds. A command changes nothing here by itself: what it led to is heard from the
   server, as everybody hears it.
2. A command goes by the socket, and by HTTP where there is none or its answer did not come: with the same id, so that
   twice is once.
3. How a turn ended is what the server's record of it says. States and flags only tell when to ask for it.
4. No wait is left behind by a caller who is cancelled, and each says at its end what was last known.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar
from weakref import WeakSet

import msgspec

from interlock.client.children import TaskChildren
from interlock.client.errors import Unavailable
from interlock.client.iterators import ChangeFeed, Frames, Wakeup, refuse_if_lost
from interlock.client.machine.frame_feed import FrameFeed
from interlock.client.machine.inputs import (
    CancelAcked,
    CancelFailed,
    CheckReason,
    CheckRequested,
    DetailSynced,
    QueueHeld,
    SendAccepted,
    StopPressed,
    TaskInput,
)
from interlock.client.machine.state import SyncState, TaskState
from interlock.client.outcome import open_questions, outcome_of
from interlock.client.prompt_watch import PromptEnding
from interlock.client.shell import ClientShell
from interlock.client.transport.api import new_id
from interlock.client.turn import AsyncOnQuestion, TurnHandle
from interlock.lifecycle.task_status import has_open_turn
from interlock.lifecycle.turns import TurnRecord
from interlock.projections.why import Explanation
from interlock.vocabulary.errors import InterlockError, PeerFault, Unreachable, UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE, PromptId, SessionId, TurnId
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import Message, QueueView, StateDocument, TaskSummary
from interlock.vocabulary.wire.requests import (
    Ack,
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
    Page,
    PromptStanding,
    SeenStanding,
    TaskDetail,
    TaskTitle,
)
from interlock.vocabulary.wire.task_screen import TaskScreen
from interlock.vocabulary.wire.workspace import ReviewAct, ReviewedFile, ReviewFile, TaskDiff, TurnChanges

T = TypeVar("T")
_REMEDIES: Final = {
    PromptEnding.BLOCKED: "answer it",
    PromptEnding.HELD: "resume the queue",
    PromptEnding.TAKEN_BACK: "send it, or look at the queue",
    PromptEnding.UNKNOWN: "start the task again",
    PromptEnding.UNREADABLE: "look at the agent's terminal",
}


class TaskHandle:
    """A task that is followed, from the moment that this is made until `close`."""

    def __init__(self, shell: ClientShell, task_id: SessionId, command_seconds: float) -> None:
        self.task_id = task_id
        self.first_prompt: PromptId | None = None
        self._shell = shell
        self._command_seconds = command_seconds
        self._bells: WeakSet[Wakeup] = WeakSet()
        self._feeds: WeakSet[FrameFeed] = WeakSet()
        self._last = TaskState(task_id=task_id)
        self._is_closed = False
        self.children = TaskChildren(shell.api, task_id)
        shell.open(task_id, self)

    # Looking

    @property
    def state(self) -> TaskState:
        """Where the task stands, as far as is known here: see `is_verified`, `connection` and `problem` of it."""
        return self._look() or self._last

    @property
    def is_open(self) -> bool:
        """Whether it is still followed by this handle."""
        return self._look() is not None

    @property
    def queue(self) -> QueueView:
        """What waits to be sent."""
        return self.state.queue

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """What somebody can answer now."""
        return open_questions(self.state.approvals)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is to be read, with text that still grows at its end."""
        return self.state.transcript

    async def detail(self) -> TaskDetail:
        return await self._shell.api.task(self.task_id)

    async def turns(self) -> tuple[TurnRecord, ...]:
        """Every turn, oldest first, with the evidence for how it stands."""
        return tuple([one async for one in self._shell.api.turns(self.task_id)])

    async def turn(self, turn_id: TurnId) -> TurnRecord:
        return await self._shell.api.turn(self.task_id, turn_id)

    async def message_page(self, *, before: str | int | None = None, limit: int = 200) -> Page[Message]:
        """A page of the whole transcript, the newest first; its `next` is the `before` of an older one."""
        return await self._shell.api.messages(self.task_id, before=before, limit=limit)

    async def why(self, turn_id: TurnId | None = None) -> Explanation:
        """What is claimed of a turn (by default the newest), with its evidence."""
        return await self._shell.api.why(self.task_id, turn_id)

    async def screen(self, since: str = "") -> TaskScreen:
        """What the terminal of the agent shows, and whether that is so now. With the `digest` of a picture that is
        known already, an unchanged one is not told again (`is_unchanged`). `UsageError` where it has none."""
        return await self._shell.api.screen(self.task_id, since)

    async def turn_changes(self) -> tuple[TurnChanges, ...]:
        """How many files and lines each turn changed, oldest first, as the log counts it."""
        return tuple([one async for one in self._shell.api.turn_changes(self.task_id)])

    async def diff(self, turn: TurnId | int | None = None, *, path: str = "", is_stat: bool = False) -> TaskDiff:
        """What a turn did to the files, by its id or number (by default the newest with a record), with the patch of
        all files or of one; with `is_stat` without a patch."""
        return await self._shell.api.diff(self.task_id, "" if turn is None else str(turn), path, is_stat=is_stat)

    async def state_document(self) -> StateDocument:
        """The state document of the session, `{"__run": {...}}`, with its version. Of a task that is followed, the
        document is also here, kept by patches: `state.document`, and its run as `state.run`."""
        return await self._shell.api.state_document(self.task_id)

    # Following

    def changes(self) -> ChangeFeed:
        """The state now, and then each time that it changed. A slow reader sees the newest, not every one."""
        return ChangeFeed(self._look, self.new_bell())

    def frames(self, *, history: bool = False) -> Frames:
        """Every frame from what this handle knows on, also across lost connections: then what was missed is told as
        frames, by messages and stream text that were not told before. With `history`, from the very beginning."""
        feed = FrameFeed(self.state, has_history=history)
        self._feeds.add(feed)
        return Frames(self._look, lambda: self._shell.problem, self.new_bell(), feed, self._shell.api)

    async def wait(
        self,
        until: Callable[[TaskState], bool],
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> TaskState:
        """Wait for a state. `TimeoutError` says how the task stood last."""

        async def look() -> TaskState:
            with self._listening() as bell:
                while True:
                    state = self.followed()
                    if until(state):
                        return state
                    refuse_if_lost(state, self._shell.problem)
                    await bell.wait()

        return await self.in_time(look(), timeout, "what was waited for")

    async def settled(self, timeout: float | None = None) -> TaskState:  # noqa: ASYNC109
        """Wait until all that the server has is here."""
        return await self.wait(lambda state: state.is_verified and not state.needs_room, timeout)

    async def wait_turn(
        self,
        prompt_id: PromptId,
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        until_blocked: bool = False,
    ) -> TurnRecord:
        """Wait until the turn of a prompt is over, and return the server's record of it. With `until_blocked`, also
        when it waits for somebody: then the record says `waiting`. `UsageError` if the prompt will have no turn, or
        nobody runs the task that could end it."""
        turn = self.follow(prompt_id, wait_for_person=not until_blocked)
        found = await self.in_time(turn.ended(), timeout, f"the end of prompt {prompt_id}")
        record = found.look.turn
        is_told = found.ending in (PromptEnding.ENDED, PromptEnding.BLOCKED) or found.turn_state is TurnState.UNKNOWN
        if record is not None and is_told:
            return record
        raise UsageError(outcome_of(prompt_id, found, ()).why, remedy=_REMEDIES.get(found.ending, "look at it"))

    def follow(
        self, prompt_id: PromptId, *, on_question: AsyncOnQuestion | None = None, wait_for_person: bool = False
    ) -> TurnHandle:
        """The turn of a prompt that was sent. `on_question` is given each question of the task once, and answers it;
        with `wait_for_person`, what it leaves open is waited out."""
        return TurnHandle(self, self._shell.api, prompt_id, on_question=on_question, wait_for_person=wait_for_person)

    def followed(self) -> TaskState:
        """The state; `UsageError` once this is closed."""
        state = self._look()
        if state is None:
            raise UsageError(f"task {self.task_id} is not followed any more", remedy="open it again")
        return state

    async def refresh(self) -> None:
        """Look now, and connect again if a problem had ended that."""
        self._shell.connection.revive()
        self._shell.feed(self.task_id, CheckRequested(CheckReason.MANUAL_REFRESH))
        await self.wait(lambda state: state.check is None and state.sync is not SyncState.JOINING)

    def queued_message_blocked(self, count: int = 1) -> None:
        """Say that this program holds back so many messages until the task is free (0: none any more). It is looked at
        now, and again for as long as the task seems to be in the way."""
        self._shell.feed(self.task_id, QueueHeld(count))
        if count > 0:
            self._shell.feed(self.task_id, CheckRequested(CheckReason.QUEUED_MESSAGE_BLOCKED))

    def sync_task_detail(self, told: TaskDetail | TaskSummary) -> None:
        """Take what another answer of the server said of this task. A word older than what is known changes nothing."""
        summary = told.summary if isinstance(told, TaskDetail) else told
        self._shell.feed(
            self.task_id,
            DetailSynced(
                task_status=summary.task_status,
                version=summary.version,
                turn_id=summary.turn_id,
                status_updated_at=summary.status_updated_at,
            ),
        )

    def close(self) -> None:
        """Follow it no longer. The task itself goes on."""
        if not self._is_closed:
            self._last, self._is_closed = self.state, True
            self._shell.close_task(self.task_id)
            self._ring()

    # Acting

    async def run(
        self,
        prompt: str,
        *,
        reply: ReplyContract | None = None,
        on_question: AsyncOnQuestion | None = None,
        wait_for_person: bool = False,
    ) -> TurnHandle:
        """Send a prompt, and return its turn: see `follow`."""
        prompt_id = await self.send(prompt, reply=reply)
        return self.follow(prompt_id, on_question=on_question, wait_for_person=wait_for_person)

    async def send(
        self, text: str, *, prompt_id: PromptId | None = None, reply: ReplyContract | None = None
    ) -> PromptId:
        """Queue a prompt, durably. The same id with the same words is the same prompt. `reply`: the form that its
        answer must have; after the turn, `why(turn_id).reply` is the reply, or says why there is none."""
        prompt_id = prompt_id or PromptId(new_id("prm"))
        request = ChatSend(id=self._id(), task_id=self.task_id, text=text, prompt_id=prompt_id, reply=reply)
        await self._command(request, partial(self._shell.api.send, self.task_id, text, prompt_id, reply), object)
        self._shell.feed(self.task_id, SendAccepted(prompt_id))
        return prompt_id

    async def edit(self, prompt_id: PromptId, text: str) -> PromptStanding:
        """Edit a queued prompt."""
        request = QueueEdit(id=self._id(), task_id=self.task_id, prompt_id=prompt_id, text=text)
        by_http = partial(self._shell.api.edit, self.task_id, prompt_id, text, new_id("key"))
        return await self._command(request, by_http, PromptStanding)

    async def remove(self, prompt_id: PromptId) -> PromptStanding:
        """Remove a queued prompt."""
        request = QueueRemove(id=self._id(), task_id=self.task_id, prompt_id=prompt_id)
        by_http = partial(self._shell.api.remove, self.task_id, prompt_id, new_id("key"))
        return await self._command(request, by_http, PromptStanding)

    async def gate(self, *, is_open: bool, reason: str = "") -> None:
        """Hold back what waits, or let it go."""
        request = QueueSetGate(id=self._id(), task_id=self.task_id, is_open=is_open, reason=reason)
        set_gate = self._shell.api.set_gate
        by_http = partial(set_gate, self.task_id, is_open=is_open, reason=reason, key=new_id("key"))
        await self._command(request, by_http, object)

    async def cancel(self, turn_id: TurnId | None = None, *, is_forced: bool = False) -> Cancelled:
        """Ask for the open turn to end; with none open, take back what waits. `delivered` says that the agent got the
        request; how the turn ends is for `wait_turn` to say. A turn that goes on all the same is left alone; forced,
        the agent's process is ended, and `killed` says so."""
        state = self.state
        if turn_id is None and has_open_turn(state.status):
            turn_id = state.turn_id  # so that a repeat cannot meet another turn
        self._shell.feed(self.task_id, StopPressed())
        try:
            done = await self._cancel(turn_id, is_forced=is_forced)
        except InterlockError as failed:
            self._shell.feed(self.task_id, CancelFailed(str(failed)))
            raise
        except asyncio.CancelledError:
            # Whether it was taken is not known here, and nobody waits to be told: the status will say so.
            self._shell.feed(self.task_id, CancelFailed("the wait for the answer to the stop was given up"))
            raise
        self._shell.feed(self.task_id, CancelAcked(done.delivered, done.problem))
        return done

    async def _cancel(self, turn_id: TurnId | None, *, is_forced: bool) -> Cancelled:
        by_http = partial(self._shell.api.cancel, self.task_id, turn_id, new_id("key"), is_forced=is_forced)
        if turn_id is None:
            return await by_http()  # its key is all that keeps a repeat from a turn that began meanwhile
        request = ChatCancel(id=self._id(), task_id=self.task_id, turn_id=turn_id, force=is_forced)
        return await self._command(request, by_http, Cancelled)

    async def decide(
        self,
        approval_id: str,
        *,
        is_allowed: bool,
        option: str = "",
        text: str = "",
        data: Json = None,
        decision_id: str = "",
    ) -> ApprovalStanding:
        """Answer a question: yes or no, and by one of its options, or in words. An agent may not answer its own: the
        server is told of the agent in whose process tree this runs, if any."""
        request = ApprovalDecide(
            id=self._id(),
            task_id=self.task_id,
            approval_id=approval_id,
            is_allowed=is_allowed,
            option=option,
            text=text,
            data=data,
            decision_id=decision_id or new_id("dec"),
            from_spawn=os.environ.get(SPAWN_ID_VARIABLE, ""),
        )
        return await self._command(request, partial(self._shell.api.decide, request), ApprovalStanding)

    async def start(self) -> AgentStanding:
        """Have the agent running. A task that nobody runs is taken up again."""
        return await self._shell.api.start(self.task_id, new_id("key"))

    async def stop(self) -> AgentStanding:
        """Stop the agent. An open turn is interrupted."""
        return await self._shell.api.stop(self.task_id, new_id("key"))

    async def mark_seen(self, turn_id: TurnId | None = None) -> SeenStanding:
        """Say that somebody looked at how the turn ended, by default the newest: it is seen on every board then."""
        request = TaskSeen(id=self._id(), task_id=self.task_id, turn_id=turn_id)
        by_http = partial(self._shell.api.mark_seen, self.task_id, turn_id, new_id("key"))
        return await self._command(request, by_http, SeenStanding)

    async def rename(self, title: str) -> TaskTitle:
        """Give the task another title, on every board."""
        return await self._shell.api.rename(self.task_id, title, new_id("key"))

    async def review_file(self, turn_id: TurnId, path: str, act: ReviewAct, *, comment: str = "") -> ReviewedFile:
        """Accept what a turn did to a file, send it back with a comment, or discard it. `UsageError` where that is not
        possible: then the file is left as it is."""
        spawn = os.environ.get(SPAWN_ID_VARIABLE, "")
        asked = ReviewFile(turn_id=turn_id, path=path, act=act, comment=comment, from_spawn=spawn)
        return await self._shell.api.review(self.task_id, asked, new_id("prm"))

    async def delete(self) -> None:
        """Put the task away. Its log stays."""
        await self._shell.api.delete(self.task_id, new_id("key"))

    # Within

    def stepped(self, before: TaskState, input: TaskInput, after: TaskState) -> None:
        """The machine took an input."""
        for feed in tuple(self._feeds):
            feed.step(before, input, after)
        self._ring()

    def wake(self) -> None:
        """Something beside the task changed that those who wait should know."""
        self._ring()

    def _look(self) -> TaskState | None:
        return None if self._is_closed else self._shell.state(self.task_id)

    def _ring(self) -> None:
        for bell in tuple(self._bells):
            bell.ring()

    def new_bell(self) -> Wakeup:
        """Rings when something changed, for as long as somebody holds it."""
        bell = Wakeup()
        self._bells.add(bell)
        return bell

    @contextmanager
    def _listening(self) -> Iterator[Wakeup]:
        bell = self.new_bell()
        try:
            yield bell
        finally:
            self._bells.discard(bell)

    def _id(self) -> str:
        return self._shell.connection.new_id()

    async def _command(self, request: Request, by_http: Callable[[], Awaitable[T]], kind: type[T]) -> T:
        """By the socket, or by HTTP (law 2). A server that answered that it does not know is not asked again here."""
        connection = self._shell.connection
        if connection.is_connected:
            try:
                answer = await connection.request(request, self._command_seconds)
                if isinstance(answer, Ack):
                    return _read(answer.result, kind)
            except Unavailable:
                raise
            except (Unreachable, PeerFault):
                if connection.is_closed:
                    raise
        return await by_http()

    async def in_time(self, work: Awaitable[T], seconds: float | None, what: str) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as late:
            raise TimeoutError(f"{what} did not come within {seconds:g} s; {describe(self.state)}") from late


def describe(state: TaskState) -> str:
    """What is known of a task, in one sentence."""
    is_sure = "" if state.is_verified else ", which is not known to hold now"
    why = f" ({state.problem})" if state.problem else ""
    return f"last known: {state.status or 'no status'} at version {state.version}{is_sure}; {state.connection}{why}"


def _read(result: Json, kind: type[T]) -> T:
    try:
        return msgspec.convert(result, kind)
    except msgspec.ValidationError as error:
        raise PeerFault(f"the server's answer cannot be read: {error}") from error
