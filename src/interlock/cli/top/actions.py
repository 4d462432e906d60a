"""What a person does from the board, each as one call that ends in a sentence.

Laws:
1. An answer goes to the question that was on the screen when the key was pressed, by its id.
2. `approve` allows this once; which option that is, is decided where `interlock approve` decides it.
3. What could not be asked is said not to be known. To send the same words again then is the same prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple

from interlock.cli.server.api import Body
from interlock.cli.tables import Tone
from interlock.cli.work.choices import answering, approving, denying, spelled
from interlock.client.task import TaskHandle, new_id
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
from interlock.vocabulary.ids import PromptId


class ActionMessage(NamedTuple):
    """What became of it."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Draft:
    """Words that were not sent, or not known to be: with the id under which they are sent again."""

    text: str
    prompt_id: PromptId | None = None


async def told(deed: Awaitable[ActionMessage]) -> ActionMessage:
    """Do it, and say what came of it, also when it did not."""
    try:
        return await deed
    except Unreachable as away:
        return ActionMessage(f"not known whether it was done: {away}", Tone.DOUBTFUL)
    except UsageError as refused:
        return ActionMessage(f"not done: {refused}", Tone.DOUBTFUL)
    except (InterlockError, TimeoutError) as failed:
        return ActionMessage(f"it failed: {failed}", Tone.URGENT)


async def approve(handle: TaskHandle, asked: Body) -> ActionMessage:
    option = approving(asked)
    return await _decide(handle, asked, "approved", option, is_allowed=True)


async def deny(handle: TaskHandle, asked: Body) -> ActionMessage:
    return await _decide(handle, asked, "denied", denying(asked), is_allowed=False)


async def choose(handle: TaskHandle, asked: Body, number: int) -> ActionMessage:
    """One of the offered answers, counted from 1."""
    options = list(asked.get("options", ()))
    if not 0 < number <= len(options):
        raise UsageError(f"it offers {len(options)} answers", remedy="press the number of one of them")
    option = options[number - 1]
    is_allowed = not str(option.get("kind", "")).startswith("reject")
    return await _decide(handle, asked, "answered", option, is_allowed=is_allowed)


async def reply(handle: TaskHandle, asked: Body, text: str) -> ActionMessage:
    option, words = answering(asked, text)
    is_allowed = option is None or not str(option.get("kind", "")).startswith("reject")
    return await _decide(handle, asked, "answered", option, is_allowed=is_allowed, text=words)


async def _decide(
    handle: TaskHandle, asked: Body, done: str, option: Body | None, *, is_allowed: bool, text: str = ""
) -> ActionMessage:
    named = "" if option is None else spelled(option, asked)
    await handle.decide(str(asked["approval_id"]), is_allowed=is_allowed, option=named, text=text)
    chosen = f" with {option['label']!r}" if option is not None else f" in words: {text}" if text else ""
    return ActionMessage(f"{done}{chosen}", Tone.ACTIVE)


async def send(handle: TaskHandle, draft: Draft) -> ActionMessage:
    if not draft.text.strip():
        return ActionMessage("nothing was sent: the prompt was blank", Tone.DOUBTFUL)
    await handle.send(draft.text, prompt_id=draft.prompt_id)
    waiting = len(handle.queue.waiting)
    return ActionMessage(f"queued{f', {waiting} in the queue' if waiting else ''}", Tone.ACTIVE)


def drafted(text: str, known: Draft | None) -> Draft:
    """Words to send. The same words as before keep their id (law 3)."""
    if known is not None and known.text == text and known.prompt_id is not None:
        return known
    return Draft(text, PromptId(new_id("prm")))


async def cancel(handle: TaskHandle) -> ActionMessage:
    done = await handle.cancel()
    if done.removed:
        return ActionMessage(f"no turn was open: {len(done.removed)} taken back from the queue", Tone.ACTIVE)
    if not done.delivered:
        return ActionMessage(f"not delivered: {done.problem or 'no reason is known'}; x stops the agent", Tone.DOUBTFUL)
    return ActionMessage("the agent was asked to end the turn; the board shows when it has", Tone.ACTIVE)


async def stop(handle: TaskHandle) -> ActionMessage:
    standing = await handle.stop()
    if standing.is_running:
        return ActionMessage("the agent still runs", Tone.DOUBTFUL)
    return ActionMessage(f"no agent runs; `interlock start {handle.task_id}` takes it up again", Tone.ACTIVE)
