"""What a person does from the board, each as one call that ends in a sentence.

Laws:
1. An answer goes to the question that was on the screen when the key was pressed, by its id.
2. `approve` allows this once; which option that is, is decided where `interlock approve` decides it.
3. What could not be asked is said not to be known. To send the same words again then is the same prompt.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from interlock.cli.rules import session_rules
from interlock.cli.server.api import ServerApi
from interlock.cli.tables import Tone
from interlock.cli.work.attach import check_pane, find_pane, tmux_command
from interlock.cli.work.choices import answering, approving, denying, spelled
from interlock.client.client import Client
from interlock.client.opening import open_request
from interlock.client.task import TaskHandle
from interlock.client.transport.api import new_id
from interlock.log.home_identity import look_at_home
from interlock.runtime.config.loading import load
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.unsafe_text import first_words
from interlock.vocabulary.wire.resources import AskedWorktree
from interlock.vocabulary.wire.workspace import FileReviewState, ReviewedFile

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import ApprovalJson, DialogOptionJson


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


async def approve(handle: TaskHandle, asked: ApprovalJson) -> ActionMessage:
    option = approving(asked)
    return await _decide(handle, asked, "approved", option, is_allowed=True)


async def deny(handle: TaskHandle, asked: ApprovalJson) -> ActionMessage:
    return await _decide(handle, asked, "denied", denying(asked), is_allowed=False)


async def choose(handle: TaskHandle, asked: ApprovalJson, number: int) -> ActionMessage:
    """One of the offered answers, counted from 1."""
    options = list(asked.get("options", ()))
    if not 0 < number <= len(options):
        raise UsageError(f"it offers {len(options)} answers", remedy="press the number of one of them")
    option = options[number - 1]
    is_allowed = not str(option.get("kind", "")).startswith("reject")
    return await _decide(handle, asked, "answered", option, is_allowed=is_allowed)


async def reply(handle: TaskHandle, asked: ApprovalJson, text: str) -> ActionMessage:
    option, words = answering(asked, text)
    is_allowed = option is None or not str(option.get("kind", "")).startswith("reject")
    return await _decide(handle, asked, "answered", option, is_allowed=is_allowed, text=words)


async def _decide(
    handle: TaskHandle,
    asked: ApprovalJson,
    done: str,
    option: DialogOptionJson | None,
    *,
    is_allowed: bool,
    text: str = "",
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


async def pause(handle: TaskHandle, *, is_open: bool) -> ActionMessage:
    """Pause the queue, or resume it."""
    await handle.gate(is_open=is_open)
    waiting = f", {len(handle.queue.waiting)} in it" if handle.queue.waiting else ""
    return ActionMessage(f"the queue goes on{waiting}" if is_open else f"queue paused{waiting}", Tone.ACTIVE)


async def pause_rules(home: Path, session_id: str, *, is_paused: bool) -> ActionMessage:
    """Let rules allow nothing in a session, or let them answer there again."""
    await asyncio.to_thread(lambda: session_rules.set_paused(home, session_id, is_paused=is_paused))
    said = "rules are paused in this session: you are asked" if is_paused else "rules answer in this session again"
    return ActionMessage(said, Tone.ACTIVE)


async def add_rule(path: str, text: str) -> ActionMessage:
    """Add a rule to the file of the user."""
    await asyncio.to_thread(lambda: session_rules.add_rule(Path(path), text))
    return ActionMessage(f"added to {path}; it answers from the next question on", Tone.ACTIVE)


async def restart(handle: TaskHandle) -> ActionMessage:
    """Stop the agent, if it runs, and start it again."""
    await handle.stop()
    standing = await handle.start()
    if standing.is_running:
        return ActionMessage("restarted", Tone.ACTIVE)
    return ActionMessage("the agent is being started" if standing.is_starting else "it did not start", Tone.DOUBTFUL)


async def rename(handle: TaskHandle, title: str) -> ActionMessage:
    """Give the session another title."""
    return ActionMessage(f"renamed to {(await handle.rename(title)).title}", Tone.ACTIVE)


async def archive(handle: TaskHandle) -> ActionMessage:
    await handle.delete()
    return ActionMessage("archived; e shows ended sessions, and its log stays", Tone.ACTIVE)


async def begin(client: Client, agent: str, folder: str, prompt: str, *, in_worktree: bool = False) -> TaskHandle:
    """Open a session with an agent of the configuration, perhaps with a prompt, and in a git worktree of its own."""
    tree = AskedWorktree() if in_worktree else None
    title = first_words(prompt) if prompt else ""
    asked = await asyncio.to_thread(
        lambda: open_request(agent, cwd=Path(folder).expanduser(), title=title, worktree=tree)
    )
    task = await client.open_task(
        agent=asked.agent,
        driver=asked.driver,
        argv=asked.argv,
        cwd=asked.cwd,
        model=asked.model,
        options=asked.options,
        environment=asked.environment,
        title=asked.title,
        policy=asked.policy,
        prompt=prompt or None,
        worktree=asked.worktree,
    )
    if not prompt:
        await task.start()
    return task


def pane_command(api: ServerApi, task_id: str, home: Path) -> list[str]:
    """The command that shows the terminal of the agent that runs now."""
    where = find_pane(api, task_id)
    check_pane(where, look_at_home(home))
    return tmux_command(where)


def installed_agents() -> tuple[str, ...]:
    """The agents of the configuration whose program is here."""
    agents = load(os.environ).config.agents
    return tuple(name for name, agent in agents.items() if agent.argv and shutil.which(agent.argv[0]))


def reviewed(done: ReviewedFile) -> ActionMessage:
    """What became of a file that was reviewed."""
    if done.get_back:
        return ActionMessage(f"{done.path}: discarded; to get it back: {shlex.join(done.get_back)}", Tone.ACTIVE)
    words = {FileReviewState.SENT_BACK: "sent back: the comment is its next prompt"}
    return ActionMessage(f"{done.path}: {words.get(done.review, done.review.value)}", Tone.ACTIVE)
