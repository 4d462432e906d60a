"""Prompts: what waits, what is sent, and how a turn is ended."""

from __future__ import annotations

from litestar import delete, get, patch, post, put
from litestar.params import FromPath, JSONBody

from interlock.server.http.problems import NotFound
from interlock.server.http.shapes import CancelTurn, EditPrompt, PromptDetail, QueueGateChange, SendPrompt
from interlock.server.routes.common import Key, Server, TaskPath, Who, read_key, task_of
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.wire.frames import QueueView
from interlock.vocabulary.wire.resources import Cancelled, PromptStanding


@get("/tasks/{task_id:str}/queue")
async def get_queue(server: Server, task_id: TaskPath) -> QueueView:
    """What waits to be sent, in order."""
    return (await task_of(server, task_id)).snapshot(limit=1).queue


@post("/tasks/{task_id:str}/prompts", status_code=202)
async def send_prompt(server: Server, task_id: TaskPath, data: JSONBody[SendPrompt], key: Key = None) -> PromptStanding:
    """Queue a prompt, durably. The key is its id. It is sent when the agent takes one."""
    await task_of(server, task_id)
    prompt_id = read_key(key, data.prompt_id)
    return await server.commands.send(SessionId(task_id), data.text, prompt_id=prompt_id, reply=data.reply)


@get("/tasks/{task_id:str}/prompts/{prompt_id:str}")
async def get_prompt(server: Server, task_id: TaskPath, prompt_id: FromPath[str]) -> PromptDetail:
    """One prompt: whether it waits, how far it got, and the turn that began with it. Also of a task that nobody runs,
    and after a restart: its id is the key that it was sent with."""
    view = await task_of(server, task_id)
    prompt = view.queue.prompts.get(PromptId(prompt_id))
    if prompt is None:
        raise NotFound(f"there is no prompt {prompt_id} in this task", remedy="list its queue, or its messages")
    turn = view.turn_of_prompt(prompt.prompt_id)
    waiting = [one.prompt_id for one in view.queue.waiting]
    return PromptDetail(
        prompt_id=prompt.prompt_id,
        text=prompt.text,
        state=prompt.state,
        stage=prompt.stage,
        position=waiting.index(prompt.prompt_id) + 1 if prompt.prompt_id in waiting else None,
        waits_for=prompt.waits_for,
        turn_id=None if turn is None else turn.turn_id,
        turn_state=None if turn is None else turn.state,
    )


@patch("/tasks/{task_id:str}/prompts/{prompt_id:str}")
async def edit_prompt(
    server: Server, task_id: TaskPath, prompt_id: FromPath[str], data: JSONBody[EditPrompt], key: Key = None
) -> PromptStanding:
    """Edit a queued prompt."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.edit(SessionId(task_id), PromptId(prompt_id), data.text)


@delete("/tasks/{task_id:str}/prompts/{prompt_id:str}", status_code=200)
async def remove_prompt(server: Server, task_id: TaskPath, prompt_id: FromPath[str], key: Key = None) -> PromptStanding:
    """Remove a queued prompt."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.remove(SessionId(task_id), PromptId(prompt_id))


@put("/tasks/{task_id:str}/queue/gate")
async def set_gate(
    server: Server, who: Who, task_id: TaskPath, data: JSONBody[QueueGateChange], key: Key = None
) -> QueueView:
    """Hold back what waits, or let it go."""
    await task_of(server, task_id)
    read_key(key)
    await server.commands.set_gate(SessionId(task_id), is_open=data.is_open, reason=data.reason, decided_by=who)
    return (await task_of(server, task_id)).snapshot(limit=1).queue


@post("/tasks/{task_id:str}/cancel", status_code=200)
async def cancel_turn(
    server: Server, who: Who, task_id: TaskPath, data: JSONBody[CancelTurn], key: Key = None
) -> Cancelled:
    """End the open turn; with none open, take back what waits. Name the turn, so that a repeat cannot meet another."""
    await task_of(server, task_id)
    given = read_key(key) or ""
    return await server.commands.cancel(
        SessionId(task_id), data.turn_id, decided_by=who, key=given, is_forced=data.force
    )


ROUTES = (get_queue, send_prompt, get_prompt, edit_prompt, remove_prompt, set_gate, cancel_turn)
