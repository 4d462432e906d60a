"""One turn, in the hands of a caller: its text as it comes, its questions, how it ended, its answer.

turn = await client.run("claude", "Which tests are slow?", on_question=decide)
async for piece in turn.text():
    print(piece, end="")

Laws:
1. How the turn ended is what the server's record of it says (`prompt_watch`). What is heard only tells when to ask, and
   after some silence it is asked for anyway.
2. A question is given to the callback once. What that leaves open is for a person.
3. Live text is what was heard, and no answer: only a turn that completed ends without an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Final, TypeAlias

from interlock.client.errors import Refusal
from interlock.client.iterators import refuse_if_lost
from interlock.client.machine.state import SyncState, TaskState
from interlock.client.outcome import (
    TextReader,
    TurnOutcome,
    answer_of,
    check_completed,
    open_questions,
    outcome_of,
)
from interlock.client.prompt_watch import PromptEnding, PromptLook, PromptOutcome, Watch, is_queued, step, turn_in
from interlock.client.transport.api import Api
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.states import Activity
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import Message, Role

if TYPE_CHECKING:
    from interlock.client.task import TaskHandle
    from interlock.vocabulary.wire.resources import Cancelled

_ASK_AGAIN_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswer:
    """An answer to a question: yes or no, by one of its options or in words where it has them."""

    is_allowed: bool
    option: str = ""
    text: str = ""
    data: Json = None


Verdict: TypeAlias = QuestionAnswer | bool | None
"""What a callback says to a question. None: a person decides."""

OnQuestion: TypeAlias = Callable[[Approval], Verdict]
AsyncOnQuestion: TypeAlias = Callable[[Approval], Verdict | Awaitable[Verdict]]


class PromptFollower:
    """Asks the server how a prompt stands, when that may have changed. `look` after each change, and after
    `patience_seconds` of silence with `is_due`."""

    def __init__(self, api: Api, prompt_id: PromptId, *, past_questions: bool) -> None:
        self._api = api
        self._watch = Watch(prompt_id=prompt_id, past_questions=past_questions)
        self.prompt_id = prompt_id
        self.turn_id: TurnId | None = None

    @property
    def patience_seconds(self) -> float:
        return self._watch.look_again_seconds or _ASK_AGAIN_SECONDS

    async def look(self, state: TaskState, now: float, *, is_due: bool) -> PromptOutcome | None:
        """What became of the prompt; None: wait on."""
        self.turn_id = self.turn_id or turn_in(state.messages, self.prompt_id)
        if not (is_due or self._is_worth_asking(state)):
            return None
        detail = await self._api.task(state.task_id)
        if self.turn_id is None and not is_queued(self.prompt_id, detail.queue):
            self.turn_id = await self._search(state)
        turn = None if self.turn_id is None else await self._api.turn(state.task_id, self.turn_id)
        look = PromptLook(detail=detail, turn=turn, is_sure=state.is_verified)
        self._watch, outcome = step(self._watch, look, now)
        return outcome

    def _is_worth_asking(self, state: TaskState) -> bool:
        """Whether the prompt may stand otherwise than it did, by what is known here."""
        may_block = state.badge is not None and state.badge.is_blocked and not self._watch.past_questions
        if self.turn_id is not None:
            is_working = state.turn_id == self.turn_id and classify(state.status) is StatusClass.ACTIVE
            return may_block or not (is_working and state.is_verified)
        if state.check is not None or state.joining is not None or state.awaiting_send:
            return False  # more is about to be heard
        waits = state.sync is SyncState.JOINED and state.queue.is_open and is_queued(self.prompt_id, state.queue)
        return may_block or not waits or may_be_unowned(state)

    async def _search(self, state: TaskState) -> TurnId | None:
        """Look for the prompt in the transcript, the newest page first."""
        async for page in self._api.older_messages(state.task_id):
            found = turn_in(page, self.prompt_id)
            if found is not None:
                return found
        return None


def may_be_unowned(state: TaskState) -> bool:
    """Whether nothing that is known here shows that somebody runs the task."""
    is_seen = state.agent is not None and state.agent.activity is not Activity.UNKNOWN
    return state.stream is None and not is_seen


class TurnHandle:
    """The turn of one prompt. Nothing is waited for before it is asked for."""

    def __init__(
        self,
        task: TaskHandle,
        api: Api,
        prompt_id: PromptId,
        *,
        on_question: AsyncOnQuestion | None = None,
        wait_for_person: bool = False,
    ) -> None:
        self.task = task
        self.prompt_id = prompt_id
        self._api = api
        self._on_question = on_question
        self._follower = PromptFollower(api, prompt_id, past_questions=wait_for_person)
        self._reader = TextReader()
        self._asked: set[str] = set()
        self._bell = task.new_bell()
        self._is_due = True

    # For callers

    async def outcome(self, timeout: float | None = None) -> TurnOutcome:  # noqa: ASYNC109
        """Wait until the turn is over, or cannot be waited for, and say how it stands."""
        return await self.task.in_time(self._run(), timeout, f"the end of prompt {self.prompt_id}")

    async def answer(self, timeout: float | None = None, *, unverified: bool = False) -> str:  # noqa: ASYNC109
        """The answer of a turn that completed; for any other turn, the `TurnError` that says how it stands. With
        `unverified`, also text that was read off a screen. `TimeoutError`: the wait was bounded, the turn goes on."""
        return answer_of(await self.outcome(timeout), unverified=unverified)

    async def text(self) -> AsyncIterator[str]:
        """The text of the turn, piece by piece as it is written. It ends when the turn completed; a turn that ended in
        any other way raises its `TurnError` behind the last piece."""
        while True:
            found = await self.next(with_text=True)
            if isinstance(found, str):
                yield found
            elif isinstance(found, Approval):
                await self._ask(found)
            else:
                check_completed(found)
                return

    async def cancel(self) -> Cancelled:
        """Ask for the turn to end, or take its prompt back. How it ends is for `outcome` to say."""
        return await self.task.cancel(self._follower.turn_id)

    # For the callers' clients

    async def next(self, *, with_text: bool = False) -> str | Approval | TurnOutcome:
        """What comes next: text, if it is wanted; a question, if a callback takes them; how the turn ended."""
        while True:
            state = self.task.followed()
            if with_text and (piece := self._reader.read(state.transcript, self._turn_id(state))):
                return piece
            question = self._new_question(open_questions(state.approvals))
            if question is not None:
                return question
            found = await self._look(state)
            if found is not None:
                question = self._new_question(found.look.detail.approvals)
                if question is not None and found.ending is PromptEnding.BLOCKED:
                    return question
                messages = await self._messages(found)
                if with_text and (piece := self._reader.read(messages, self._follower.turn_id)):
                    return piece
                return outcome_of(self.prompt_id, found, messages)
            await self._sleep(state)

    async def soon(self, timeout: float | None) -> str | Approval | TurnOutcome:  # noqa: ASYNC109
        """As `next`, within so many seconds."""
        return await self.task.in_time(self.next(), timeout, f"the end of prompt {self.prompt_id}")

    async def ended(self) -> PromptOutcome:
        """How the prompt stands once there is nothing to wait for, without its words."""
        while True:
            state = self.task.followed()
            found = await self._look(state)
            if found is not None:
                return found
            await self._sleep(state)

    async def decide(self, question: Approval, verdict: Verdict) -> None:
        """Give a question its answer. That somebody was faster, or the agent gave up, is no error."""
        self._asked.add(question.approval_id)
        if verdict is None:
            return
        answer = verdict if isinstance(verdict, QuestionAnswer) else QuestionAnswer(is_allowed=verdict)
        try:
            await self.task.decide(
                question.approval_id,
                is_allowed=answer.is_allowed,
                option=answer.option,
                text=answer.text,
                data=answer.data,
            )
        except Refusal as late:
            if late.status not in _TOO_LATE:
                raise

    # Within

    async def _run(self) -> TurnOutcome:
        while True:
            found = await self.next()
            if isinstance(found, TurnOutcome):
                return found
            if isinstance(found, Approval):
                await self._ask(found)

    async def _ask(self, question: Approval) -> None:
        said = None if self._on_question is None else self._on_question(question)
        await self.decide(question, await said if isawaitable(said) else said)

    def _new_question(self, approvals: tuple[Approval, ...]) -> Approval | None:
        if self._on_question is None:
            return None
        return next((one for one in open_questions(approvals) if one.approval_id not in self._asked), None)

    def _turn_id(self, state: TaskState) -> TurnId | None:
        self._follower.turn_id = self._follower.turn_id or turn_in(state.messages, self.prompt_id)
        return self._follower.turn_id

    async def _look(self, state: TaskState) -> PromptOutcome | None:
        try:
            found = await self._follower.look(state, asyncio.get_running_loop().time(), is_due=self._is_due)
        except Unreachable:
            found = None  # the wait is for the turn, and not for a server that is started again meanwhile
        self._is_due = found is not None  # whoever waits again after an outcome asks at once
        return found

    async def _sleep(self, state: TaskState) -> None:
        refuse_if_lost(state, None)
        try:
            async with asyncio.timeout(self._follower.patience_seconds):
                await self._bell.wait()
        except TimeoutError:
            # In time the record is asked for, whatever was heard: it is the proof, and what is heard is not.
            self._is_due = True

    async def _messages(self, found: PromptOutcome) -> tuple[Message, ...]:
        """The messages of the turn, oldest first."""
        turn, pages = found.look.turn, list[tuple[Message, ...]]()
        if turn is None:
            return ()
        async for page in self._api.older_messages(found.look.summary.task_id):
            mine = tuple(one for one in page if one.turn_id == turn.turn_id)
            pages.insert(0, mine)
            if any(one.role is Role.USER for one in mine):
                break
        return tuple(one for page in pages for one in page)


_TOO_LATE: Final = frozenset({404, 409})
