"""Tasks: list, open, look at one, start and stop its agent, put it away."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, TypeAlias

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from interlock.lifecycle.turn import lose_owner
from interlock.lifecycle.turns import TurnRecord, record_of
from interlock.projections.present.tool_text import output_text
from interlock.projections.task.view import TaskView
from interlock.server.http.problems import NotFound, NotReady
from interlock.server.http.shapes import (
    AdoptAgent,
    AgentResumed,
    MarkSeen,
    MessagePage,
    RenameTask,
    TaskPage,
    ToolOutput,
    TurnPage,
)
from interlock.server.log_watch import problem_of
from interlock.server.routes.common import (
    DEFAULT_PAGE,
    After,
    Key,
    Limit,
    Server,
    TaskPath,
    Who,
    WireResponse,
    page_by_number,
    read_key,
    read_number,
    task_of,
)
from interlock.vocabulary.events.conversation import ToolCall, ToolResult
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.wire.frames import RuntimeCheck, StateDocument, ToolKind
from interlock.vocabulary.wire.resources import AgentStanding, OpenTask, SeenStanding, TaskDetail, TaskOpened, TaskTitle

MAX_PIECE: Final = 100_000
MAX_OFFSET: Final = 10**9
_MAX_DIGITS: Final = 16

SpareAdopted: TypeAlias = Annotated[bool, QueryParameter(description="Leave an agent that was adopted alone.")]


@get("/tasks")
async def list_tasks(server: Server, after: After = None, limit: Limit = DEFAULT_PAGE) -> TaskPage:
    """Every task, a line each."""
    hub = server.hub
    if not hub.is_listed:
        raise NotReady("the server has not read its log yet")
    items, has_more = await hub.page(None if after is None else SessionId(after), limit)
    if not items and after is None and not hub.is_ready:
        raise NotReady("the server has not read its log yet")
    return TaskPage(
        items=items,
        next=items[-1].task_id if has_more else None,
        is_complete=hub.is_ready,
        log_problem=problem_of(server.log),
    )


@post("/tasks", status_code=201)
async def open_task(server: Server, data: JSONBody[OpenTask], key: Key = None) -> WireResponse[TaskOpened]:
    """Open a task. The key, if one is given, is its id; without one, every request opens another task. With a blank
    driver the agent is run as the server is configured to."""
    asked = data if data.driver else await asyncio.to_thread(server.agents.filled, data)
    opened = await server.commands.open_task(asked, task_id=read_key(key) or "")
    return WireResponse(
        opened,
        status_code=201 if opened.is_new else 200,
        headers={"Location": f"/api/tasks/{opened.task_id}"},
    )


@post("/adoptions", status_code=201)
async def adopt_agent(server: Server, data: JSONBody[AdoptAgent]) -> WireResponse[TaskOpened]:
    """Adopt an agent that runs in a tmux of a person: a task that watches it. Asked again, it says whether the
    agent may be told things. Its end is never ours, unless `stop` is asked for by name."""
    opened = await server.commands.adopt(data)
    return WireResponse(
        opened,
        status_code=201 if opened.is_new else 200,
        headers={"Location": f"/api/tasks/{opened.task_id}"},
    )


@get("/tasks/{task_id:str}")
async def get_task(server: Server, task_id: TaskPath) -> TaskDetail:
    """A task: its line of the board, what waits, and what is asked."""
    view = await task_of(server, task_id)
    snapshot, now = view.snapshot(limit=1), server.hub.rooms.now()
    return TaskDetail(
        summary=view.summary(now), turns=len(view.turns.turns), queue=snapshot.queue, approvals=snapshot.approvals
    )


@get("/tasks/{task_id:str}/runtime-check")
async def check_task(server: Server, task_id: TaskPath) -> RuntimeCheck:
    """Where a task stands, without any text: what a join at this moment would say."""
    return (await task_of(server, task_id)).check()


@get("/tasks/{task_id:str}/state")
async def get_state(server: Server, task_id: TaskPath) -> StateDocument:
    """The state document of a task, `{"__run": {...}}`, with the version of the log that it holds for."""
    return (await task_of(server, task_id)).document()


@get("/tasks/{task_id:str}/turns")
async def list_turns(server: Server, task_id: TaskPath, after: After = None, limit: Limit = DEFAULT_PAGE) -> TurnPage:
    """Turns, oldest first, each with how it stands and the evidence for it."""
    view = await task_of(server, task_id)
    turn_ids, following = page_by_number([turn_id for _, turn_id in view.turns.turns], after, limit)
    items = tuple(_record(view, turn_id) for turn_id in turn_ids)
    return TurnPage(items=items, next=following, is_damaged=view.is_damaged)


@get("/tasks/{task_id:str}/turns/{turn_id:str}")
async def get_turn(server: Server, task_id: TaskPath, turn_id: FromPath[str]) -> TurnRecord:
    """One turn."""
    return _record(await task_of(server, task_id), TurnId(turn_id))


def _record(view: TaskView, turn_id: TurnId) -> TurnRecord:
    facts = view.turns.turns.get((view.task_id, turn_id))
    if facts is None:
        raise NotFound("there is no such turn in this task", remedy="list its turns")
    return record_of(facts if view.is_supervised else lose_owner(facts))


@get("/tasks/{task_id:str}/messages")
async def list_messages(
    server: Server, task_id: TaskPath, before: After = None, limit: Limit = DEFAULT_PAGE
) -> MessagePage:
    """The transcript, the newest page first. Within a page messages are in their order."""
    cursor = None if before is None else read_number(before)
    messages, older = (await task_of(server, task_id)).page(before=cursor, limit=limit)
    return MessagePage(items=messages, next=None if older is None else str(older))


@get("/tasks/{task_id:str}/messages/{message_id:str}/output")
async def read_output(
    server: Server,
    task_id: TaskPath,
    message_id: FromPath[str],
    offset: Annotated[int, QueryParameter(ge=0, le=MAX_OFFSET, description="The code point to begin with.")] = 0,
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_PIECE, description="How many code points at most.")] = 20_000,
) -> ToolOutput:
    """What a tool gave, whole, piece by piece, and what it was called with, whole. A message has only the beginning and
    the end of a long output."""
    view = await task_of(server, task_id)
    is_number = message_id.isascii() and message_id.isdigit() and len(message_id) < _MAX_DIGITS
    message = view.message(int(message_id)) if is_number else None
    if message is None or message.kind is not ToolKind.TOOL:
        raise NotFound(f"there is no tool call {message_id} in this task", remedy="list its messages")
    called, given = await asyncio.gather(
        *(server.log.read(view.task_id, after=seq - 1, limit=1) for seq in (message.message_id, message.version))
    )
    text = next((_given_text(one.data, message.item_id) for one in given.events), None)
    whole = message.detail if text is None else text
    call = next((one.data for one in called.events if isinstance(one.data, ToolCall)), None)
    return ToolOutput(
        message_id=message.message_id,
        call_id=message.item_id,
        arguments=None if call is None or call.call_id != message.item_id else call.args,
        offset=offset,
        text=whole[offset : offset + limit],
        length=len(whole),
    )


def _given_text(data: object, call_id: str) -> str | None:
    """The text of a result, as messages show it; None where it is none of this call."""
    if not isinstance(data, ToolResult) or data.call_id != call_id:
        return None
    return output_text(data.output) if data.error is None else data.error.message


@post("/tasks/{task_id:str}/start", status_code=200)
async def start_agent(server: Server, task_id: TaskPath, key: Key = None) -> AgentStanding:
    """Have the agent running. A task that nobody runs is taken up again."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.start(SessionId(task_id))


@post("/tasks/{task_id:str}/resume", status_code=200)
async def resume_agent(server: Server, task_id: TaskPath, key: Key = None) -> AgentResumed:
    """Start the agent again with its own conversation, and say whether it went on with it."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.resume(SessionId(task_id))


@post("/tasks/{task_id:str}/stop", status_code=200)
async def stop_agent(
    server: Server, task_id: TaskPath, key: Key = None, spare_adopted: SpareAdopted = False
) -> AgentStanding:
    """Stop the agent with everything that it started. An open turn is interrupted. With `spare_adopted` an agent that
    somebody else started goes on."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.stop(SessionId(task_id), spare_adopted=spare_adopted)


@post("/tasks/{task_id:str}/seen", status_code=200)
async def mark_seen(
    server: Server, who: Who, task_id: TaskPath, data: JSONBody[MarkSeen], key: Key = None
) -> SeenStanding:
    """Note that somebody looked at how the last turn ended. It is seen on every board from now on."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.mark_seen(SessionId(task_id), data.turn_id, decided_by=who)


@post("/tasks/{task_id:str}/rename", status_code=200)
async def rename_task(
    server: Server, who: Who, task_id: TaskPath, data: JSONBody[RenameTask], key: Key = None
) -> TaskTitle:
    """Give a task another title. White space is one blank; the title that it was opened with stays in its log."""
    await task_of(server, task_id)
    read_key(key)
    return await server.commands.rename(SessionId(task_id), data.title, decided_by=who)


@delete("/tasks/{task_id:str}", status_code=204)
async def delete_task(server: Server, who: Who, task_id: TaskPath, key: Key = None) -> None:
    """Put a task away: nothing runs in it any more. Its log stays."""
    await task_of(server, task_id)
    read_key(key)
    await server.commands.delete(SessionId(task_id), decided_by=who)


ROUTES = (
    list_tasks,
    open_task,
    adopt_agent,
    get_task,
    check_task,
    get_state,
    list_turns,
    get_turn,
    list_messages,
    read_output,
    start_agent,
    resume_agent,
    stop_agent,
    mark_seen,
    rename_task,
    delete_task,
)
