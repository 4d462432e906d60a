"""Which turn a prompt led to, and when the server's record of it is worth asking for.

Law: that a prompt will have no turn is said only where the queue and then the whole transcript, read in this order,
deny it twice. A prompt leaves the queue and becomes a message in one step of the log, which may be read half.
"""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.client.api import Api
from interlock.client.state import SyncState, TaskState
from interlock.lifecycle.task_status import StatusClass, classify
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.frames import Message, QueueView
from interlock.vocabulary.ids import PromptId, SessionId, TurnId

_READ_AGAIN_SECONDS: Final = 0.2


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
