"""The wait for the turn of a prompt: which turn that is, when its record is worth asking for, and when to give up.

Laws:
1. That a prompt will have no turn is said only where the queue and then the whole transcript, read in this order, deny
   it twice. A prompt leaves the queue and becomes a message in one step of the log, which may be read half.
2. Nobody waits for a turn of which events are lost: it is `unknown`, and stays so.
3. Nobody waits for what nobody runs. Whoever takes a task up again does so at once: where the server says for longer
   that nobody runs it, the wait ends.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from interlock.client.machine.state import SyncState, TaskState
from interlock.client.transport.api import Api
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.lifecycle.turns import TurnRecord
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.states import Activity, TurnState
from interlock.vocabulary.wire.frames import Message, QueueView

UNOWNED_SECONDS: Final = 2.0
_ASK_AGAIN_SECONDS: Final = 15.0
_READ_AGAIN_SECONDS: Final = 0.2


@dataclass(slots=True)
class TurnWait:
    """One wait. Call `look` when something was heard, and after `patience_seconds` of silence with `is_due`."""

    api: Api
    task_id: SessionId
    prompt_id: PromptId
    until_blocked: bool
    turn_id: TurnId | None = None
    unowned_since: float | None = None

    @property
    def patience_seconds(self) -> float:
        return _ASK_AGAIN_SECONDS if self.unowned_since is None else UNOWNED_SECONDS

    async def look(self, state: TaskState, now: float, *, is_due: bool) -> TurnRecord | None:
        """The record of the turn, if that ends the wait. `UsageError` if nothing will."""
        self.turn_id = self.turn_id or await find_turn(self.api, state, self.prompt_id)
        if self.turn_id is None:
            if is_due or may_be_unowned(state):
                is_owned = (await self.api.task(self.task_id)).summary.is_supervised
                self._judge(is_owned, now, f"prompt {self.prompt_id} waits")
        elif is_due or is_worth_asking(state, self.turn_id):
            record = await self.api.turn(self.task_id, self.turn_id)
            is_final = record.state.is_terminal or record.state is TurnState.UNKNOWN
            if is_final or (self.until_blocked and await self._needs_person(state, record)):
                return record
            self._judge(record.state is not TurnState.ABANDONED, now, f"turn {self.turn_id} has no end")
        return None

    async def _needs_person(self, state: TaskState, record: TurnRecord) -> bool:
        """Whether this turn waits for a person, as the badge of its task says. Where the record of the turn does
        not say that it waits, that counts only while the task is verified: what is in doubt decides nothing."""
        if record.state is not TurnState.WAITING and not state.is_verified:
            return False
        summary = (await self.api.task(self.task_id)).summary
        return summary.turn_id == record.turn_id and summary.badge is not None and summary.badge.needs_person

    def _judge(self, is_owned: bool, now: float, what: str) -> None:
        if is_owned:
            self.unowned_since = None
            return
        self.unowned_since = now if self.unowned_since is None else self.unowned_since
        if now - self.unowned_since >= UNOWNED_SECONDS:
            raise UsageError(f"{what}, and nobody runs it in task {self.task_id}", remedy="start the task again")


def may_be_unowned(state: TaskState) -> bool:
    """Whether nothing that is known here shows that somebody runs the task."""
    is_seen = state.agent is not None and state.agent.activity is not Activity.UNKNOWN
    return state.stream is None and not is_seen


def is_worth_asking(state: TaskState, turn_id: TurnId) -> bool:
    """Whether the turn may be over or wait for somebody, by what is known here."""
    is_working = state.turn_id == turn_id and classify(state.status) is StatusClass.ACTIVE
    return not (is_working and state.is_verified)


async def find_turn(api: Api, state: TaskState, prompt_id: PromptId) -> TurnId | None:
    """The turn of a prompt; None if it has none yet. `UsageError` if it will have none."""
    known = _turn_in(state.messages, prompt_id)
    if known is not None:
        return known
    if state.check is not None or state.joining is not None or state.awaiting_send:
        return None  # more is about to be heard
    if state.sync is SyncState.JOINED and _waits(state.queue, prompt_id):
        return None
    for _ in range(2):
        if _waits(await api.queue(state.task_id), prompt_id):
            return None
        found = await _search(api, state.task_id, prompt_id)
        if found is not None:
            return found
        await asyncio.sleep(_READ_AGAIN_SECONDS)
    raise UsageError(f"prompt {prompt_id} is not in this task", remedy="send it, or look at the queue")


def _waits(queue: QueueView, prompt_id: PromptId) -> bool:
    is_waiting = any(item.prompt_id == prompt_id for item in queue.waiting)
    if is_waiting and not queue.is_open:
        why = queue.gate_reason or "somebody asked for it"
        raise UsageError(f"the queue is held: {why}", remedy="mend that, and open its gate")
    return is_waiting


def _turn_in(messages: tuple[Message, ...], prompt_id: PromptId) -> TurnId | None:
    return next((one.turn_id for one in reversed(messages) if one.prompt_id == prompt_id), None)


async def _search(api: Api, task_id: SessionId, prompt_id: PromptId) -> TurnId | None:
    """Look for the prompt in the transcript, the newest page first."""
    async for page in api.older_messages(task_id):
        found = _turn_in(page, prompt_id)
        if found is not None:
            return found
    return None
