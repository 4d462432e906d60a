"""Why a task stands as it does: its evidence, its checks, its processes, its usage, and its log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

from litestar import get
from litestar.params import QueryParameter
from litestar.response import Stream

from interlock.lifecycle.children.open_work import OpenWork
from interlock.log.port import Log, TurnSlice
from interlock.log.sqlite.turn_index import whole_slice
from interlock.projections.checks.diagnose import DiagnosisReport, diagnose
from interlock.projections.spawns import SpawnRow
from interlock.projections.task.view import TaskView
from interlock.projections.why import Explanation, why, why_last
from interlock.projections.why_lines import told_lines
from interlock.server.http.problems import NotFound, NotReady, Unfit
from interlock.server.http.shapes import ExplainedTurn, SpawnPage, TaskUsage, TurnUsage, UsagePage
from interlock.server.ledger import UsageLedger
from interlock.server.live.resting import RestingTask
from interlock.server.routes.common import (
    DEFAULT_PAGE,
    After,
    Books,
    Limit,
    Server,
    TaskPath,
    page_by_number,
    read_number,
    task_of,
)
from interlock.server.state import ServerState
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId, SpawnId, SubagentId, TurnId

NDJSON: Final = "application/x-ndjson"
_EXPORT_PAGE: Final = 500
_AT: Final = "A sequence number of the log, or a time with its zone; else now."


@get("/tasks/{task_id:str}/why")
async def explain_turn(
    server: Server,
    task_id: TaskPath,
    turn: Annotated[str | None, QueryParameter(description="The turn; else the last one.", required=False)] = None,
    at: Annotated[str | None, QueryParameter(description=_AT, max_length=40, required=False)] = None,
) -> Explanation:
    """The verdict about a turn, with its chain of evidence and what did not count. With `at`, as the log stood then:
    the last turn is the one that had begun last."""
    view = await task_of(server, task_id)
    if turn is not None and (view.task_id, TurnId(turn)) not in view.turns.turns:
        raise NotFound("there is no such turn in this task", remedy="list its turns")
    turn_id = None if turn is None else TurnId(turn)
    if at is not None:
        moment, found = _moment(at), await server.log.read(view.task_id)
        return await asyncio.to_thread(partial(why, found.events, found.damage, turn_id=turn_id, at=moment))
    part = await _read_from(server.log, view, turn_id)
    return await asyncio.to_thread(partial(why_last, part, turn_id=turn_id, owner_alive=view.is_supervised))


def _moment(at: str) -> int | datetime:
    if at.isascii() and at.isdigit() and len(at) < 16:
        return int(at)
    with suppress(ValueError):
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is not None:
            return moment
    raise Unfit("that is no sequence number and no time with its zone", remedy="use 412, or 2026-01-31T12:00:00Z")


@get("/tasks/{task_id:str}/why/lines")
async def explain_turn_in_words(server: Server, task_id: TaskPath) -> ExplainedTurn:
    """The verdict about the last turn and its evidence as lines of text for a person."""
    view = await task_of(server, task_id)
    part = await server.log.read_turns(view.task_id)
    return await asyncio.to_thread(_in_words, part, owner_alive=view.is_supervised)


def _in_words(part: TurnSlice, *, owner_alive: bool) -> ExplainedTurn:
    explanation = why_last(part, owner_alive=owner_alive)
    state = None if explanation.record is None else explanation.record.state
    lines = tuple(told_lines(explanation))
    return ExplainedTurn(state=state, lines=lines, is_damaged=bool(part.found.damage))


async def _read_from(log: Log, view: TaskView, turn_id: TurnId | None) -> TurnSlice:
    """The log of a task since a turn began. Turns that began since the view was made may leave it out: then all."""
    if turn_id is None:
        return await log.read_turns(view.task_id)
    known = [one for _, one in view.turns.turns]
    part = await log.read_turns(view.task_id, last=len(known) - known.index(turn_id))
    is_in_it = part.turns is None or turn_id in part.turns
    return part if is_in_it else whole_slice(await log.read(view.task_id))


@get("/tasks/{task_id:str}/diagnostics")
async def diagnose_task(server: Server, task_id: TaskPath) -> DiagnosisReport:
    """Everything that is wrong with the log of a task, with the place to look and what to do next."""
    view = await task_of(server, task_id)
    children, workflows = server.children.live(view.task_id), server.workflows.live()
    found = await server.log.read(view.task_id)
    is_open = OpenWork.of(event.data for event in found.events).children
    now_children, now_workflows = server.children.live(view.task_id), server.workflows.live()
    activity = await _child_activity(server.log, found.events)
    check = partial(
        diagnose,
        owner_alive=view.is_supervised,
        now=datetime.now(UTC),
        child_activity=activity,
        # What moved while the log was read is no finding.
        live_children=_settled(children, now_children, is_open),
        live_workflows=None if workflows is None or now_workflows is None else workflows | now_workflows,
    )
    return await asyncio.to_thread(check, found.events, found.damage)


def _settled(
    before: frozenset[SubagentId] | None, after: frozenset[SubagentId] | None, is_open: set[SubagentId]
) -> frozenset[SubagentId] | None:
    return None if before is None or after is None else (before & after) | ((before | after) & is_open)


async def _child_activity(log: Log, events: tuple[Event, ...]) -> dict[SessionId, datetime | None]:
    """When the log of each child was last written; None for a child that has no log here."""
    facts = (event.data for event in events if isinstance(event.data, SubagentEvent))
    activity: dict[SessionId, datetime | None] = {}
    for child in sorted({fact.child_session_id for fact in facts if fact.child_session_id is not None}):
        page = await log.sessions(prefix=child, limit=1)
        activity[child] = next((one.last_at for one in page.sessions if one.session_id == child), None)
    return activity


@get("/tasks/{task_id:str}/spawns")
async def list_spawns(
    server: Server, ledger: Books, task_id: TaskPath, after: After = None, limit: Limit = DEFAULT_PAGE
) -> SpawnPage:
    """Every life of the agent of a task, oldest first."""
    rows, following = page_by_number(await _spawn_rows(server, ledger, await task_of(server, task_id)), after, limit)
    return SpawnPage(items=rows, next=following)


@get("/spawns")
async def list_all_spawns(server: Server, ledger: Books, after: After = None, limit: Limit = DEFAULT_PAGE) -> SpawnPage:
    """Every life of every agent, by task."""
    number, _, last_task = ("", "", "") if after is None else after.partition("~")
    first = read_number(number) if after is not None else 0
    rows: list[tuple[SpawnRow, str]] = []
    async with aclosing(_from(server, SessionId(last_task))) as tasks:
        async for one in tasks:
            found = await _spawn_rows(server, ledger, one)
            skipped = first if one.task_id == last_task else 0
            rows += [(row, f"{place}~{one.task_id}") for place, row in enumerate(found, start=1) if place > skipped]
            if len(rows) > limit:
                break
    shown = rows[:limit]
    following = shown[-1][1] if len(rows) > limit else None
    return SpawnPage(items=tuple(row for row, _ in shown), next=following)


async def _from(server: ServerState, task_id: SessionId) -> AsyncGenerator[TaskView | RestingTask, None]:
    """A task, if there is one of that id, and those after it."""
    first = await server.hub.open(task_id) if task_id else None
    if first is not None:
        yield first
    async for one in server.hub.lines(task_id or None):
        yield one


async def _spawn_rows(server: ServerState, ledger: UsageLedger, task: TaskView | RestingTask) -> tuple[SpawnRow, ...]:
    account = await ledger.account(task.task_id, task.version)
    return account.spawns.rows(_living(server, task))


def _living(server: ServerState, task: TaskView | RestingTask) -> frozenset[SpawnId] | None:
    """The spawn that is known to live. Where nobody runs the task, nobody looked."""
    task_id = task.task_id
    if task_id not in server.runtime.sessions:
        return frozenset() if task.summary().is_supervised else None
    supervisor = server.runtime.supervisor(task_id)
    spawn = supervisor.machine.running_spawn
    return None if supervisor.is_over else frozenset(() if spawn is None else (spawn,))


@get("/tasks/{task_id:str}/usage")
async def get_usage(server: Server, task_id: TaskPath) -> TaskUsage:
    """What a task used, in all and by its newest turns, as far as its agent reported it."""
    return _used(await task_of(server, task_id))


@get("/usage")
async def list_usage(server: Server, after: After = None, limit: Limit = DEFAULT_PAGE) -> UsagePage:
    """What every task used, by task. One question for all of them."""
    if not server.hub.is_listed:
        raise NotReady("the server has not read its log yet")
    items: list[TaskUsage] = []
    async with aclosing(server.hub.lines(None if after is None else SessionId(after))) as lines:
        async for one in lines:
            if len(items) == limit:
                return UsagePage(items=tuple(items), next=items[-1].task_id, is_complete=server.hub.is_ready)
            items.append(_used(one))
    if not items and after is None and not server.hub.is_ready:
        raise NotReady("the server has not read its log yet")
    return UsagePage(items=tuple(items), next=None, is_complete=server.hub.is_ready)


def _used(task: TaskView | RestingTask) -> TaskUsage:
    turns = tuple(TurnUsage(turn_id=turn_id, usage=usage) for turn_id, usage in task.newest_turns)
    return TaskUsage(task_id=task.task_id, total=task.tally().usage, turns=turns)


@get("/tasks/{task_id:str}/log", media_type=NDJSON)
async def export_log(
    server: Server,
    task_id: TaskPath,
    after: Annotated[
        str | None, QueryParameter(description="The `seq` of the last event that is not wanted.", required=False)
    ] = None,
) -> Stream:
    """The log of a task as NDJSON, an event a line, as `interlock log export` writes it, without what is damaged."""
    view = await task_of(server, task_id)
    first = 0 if after is None else read_number(after)
    return Stream(_lines(server.log, view.task_id, first), media_type=NDJSON)


async def _lines(log: Log, task_id: SessionId, after: int) -> AsyncIterator[bytes]:
    while True:
        page = await log.read(task_id, after=after, limit=_EXPORT_PAGE)
        if page.events:
            yield b"".join(encode_event(event) + b"\n" for event in page.events)
        if len(page.events) < _EXPORT_PAGE:
            return
        after = page.events[-1].seq or 0


ROUTES = (
    explain_turn,
    explain_turn_in_words,
    diagnose_task,
    list_spawns,
    list_all_spawns,
    get_usage,
    list_usage,
    export_log,
)
