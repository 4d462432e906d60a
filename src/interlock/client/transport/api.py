"""The routes of a server, each as a call with types. What may be repeated bears the id that makes twice once."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from typing import Final, TypeVar
from urllib.parse import quote

from msgspec import to_builtins

from interlock.client.transport.http import Http, Query
from interlock.lifecycle.turns import TurnRecord
from interlock.projections.why import Explanation
from interlock.vocabulary.errors import PeerFault
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId, TurnId, WorkflowId, sortable_id
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from interlock.vocabulary.wire.frames import Message, QueueView, RuntimeCheck, StateDocument, TaskSummary
from interlock.vocabulary.wire.requests import ApprovalDecide
from interlock.vocabulary.wire.resources import (
    AgentStanding,
    ApprovalStanding,
    Cancelled,
    ChildOpened,
    ChildPage,
    ChildStanding,
    EndChild,
    OpenChild,
    OpenTask,
    Page,
    PromptStanding,
    SearchPage,
    SeenStanding,
    ServerInfo,
    TaskDetail,
    TaskOpened,
    TaskTitle,
)
from interlock.vocabulary.wire.task_screen import TaskScreen
from interlock.vocabulary.wire.workflow import (
    AnswerStep,
    BeginWorkflow,
    DecideStep,
    WorkflowBegun,
    WorkflowPage,
    WorkflowStanding,
)
from interlock.vocabulary.wire.workspace import ReviewedFile, ReviewFile, TaskDiff, TurnChanges

PAGE: Final = 200
T = TypeVar("T")
MAX_PAGES: Final = 10_000


def new_id(prefix: str) -> str:
    """An id that nobody else has."""
    return sortable_id(prefix, time.time_ns() // 1_000_000, os.urandom(10))


class Api:
    """The calls of one server."""

    def __init__(self, http: Http) -> None:
        self._http = http

    # Looking

    async def server(self) -> ServerInfo:
        return await self._http.get("/api/server", ServerInfo)

    async def runtime_check(self, task_id: SessionId, *, seconds: float) -> RuntimeCheck:
        """Where a task stands. Once: whoever asks has a way of its own to ask again."""
        return await self._http.get(_task(task_id, "runtime-check"), RuntimeCheck, seconds=seconds, attempts=1)

    async def task(self, task_id: SessionId) -> TaskDetail:
        return await self._http.get(_task(task_id), TaskDetail)

    async def tasks(self) -> AsyncIterator[TaskSummary]:
        """Every task, page by page."""
        async for page in self._pages("/api/tasks", Page[TaskSummary]):
            for one in page.items:
                yield one

    async def search(self, query: Query) -> SearchPage:
        """A page of messages, found by their words."""
        return await self._http.get("/api/search", SearchPage, query=query)

    async def turns(self, task_id: SessionId) -> AsyncIterator[TurnRecord]:
        """Every turn of a task, oldest first."""
        async for page in self._pages(_task(task_id, "turns"), Page[TurnRecord]):
            for one in page.items:
                yield one

    async def turn(self, task_id: SessionId, turn_id: TurnId) -> TurnRecord:
        return await self._http.get(_task(task_id, "turns", turn_id), TurnRecord)

    async def messages(
        self, task_id: SessionId, *, before: str | int | None = None, limit: int = PAGE
    ) -> Page[Message]:
        """A page of the transcript: the newest, or the one before a cursor. `next` leads to older ones."""
        query = {"before": before, "limit": limit}
        return await self._http.get(_task(task_id, "messages"), Page[Message], query=query)

    async def older_messages(self, task_id: SessionId, before: int | None = None) -> AsyncIterator[tuple[Message, ...]]:
        """The transcript backwards, page by page, each in order. It has an end, whatever the server says."""
        cursor: str | int | None = before
        while True:
            page = await self.messages(task_id, before=cursor)
            first = min((message.message_id for message in page.items), default=None)
            yield page.items
            if page.next is None:
                return
            if first is None or (before is not None and first >= before):
                raise PeerFault("the server gives pages of which none is older than the one before")
            before, cursor = first, page.next

    async def queue(self, task_id: SessionId) -> QueueView:
        return await self._http.get(_task(task_id, "queue"), QueueView)

    async def open_approvals(self) -> AsyncIterator[Approval]:
        """Every question that waits for somebody, over all tasks."""
        async for page in self._pages("/api/approvals", Page[Approval]):
            for one in page.items:
                yield one

    async def approvals(self, task_id: SessionId, state: ApprovalState | None = None) -> AsyncIterator[Approval]:
        """The questions of a task, oldest first."""
        async for page in self._pages(_task(task_id, "approvals"), Page[Approval], state=state):
            for one in page.items:
                yield one

    async def why(self, task_id: SessionId, turn_id: TurnId | None = None) -> Explanation:
        """What is claimed of a turn, with the evidence."""
        return await self._http.get(_task(task_id, "why"), Explanation, query={"turn": turn_id})

    async def turn_changes(self, task_id: SessionId) -> AsyncIterator[TurnChanges]:
        """How much each turn of a task changed, oldest first."""
        async for page in self._pages(_task(task_id, "changes"), Page[TurnChanges]):
            for one in page.items:
                yield one

    async def diff(self, task_id: SessionId, turn: str, path: str, *, is_stat: bool) -> TaskDiff:
        """What a turn did to the files."""
        query = {"turn": turn or None, "path": path or None, "stat": "true" if is_stat else None}
        return await self._http.get(_task(task_id, "diff"), TaskDiff, query=query)

    async def state_document(self, task_id: SessionId) -> StateDocument:
        """The state document of a task, with its version."""
        return await self._http.get(_task(task_id, "state"), StateDocument)

    async def screen(self, task_id: SessionId, since: str = "") -> TaskScreen:
        """What the terminal of its agent shows. Once: whoever looks at a screen looks again soon."""
        query = {"since": since or None}
        return await self._http.get(_task(task_id, "screen"), TaskScreen, query=query, attempts=1)

    async def children(self, task_id: SessionId) -> ChildPage:
        """The children of a task, oldest first."""
        return await self._http.get(_task(task_id, "children"), ChildPage)

    async def workflows(self) -> WorkflowPage:
        """Every workflow, oldest first."""
        return await self._http.get("/api/workflows", WorkflowPage)

    async def workflow(self, workflow_id: WorkflowId) -> WorkflowStanding:
        return await self._http.get(_workflow(workflow_id), WorkflowStanding)

    # Doing

    async def open_task(self, asked: OpenTask, task_id: SessionId) -> TaskOpened:
        return await self._http.command("POST", "/api/tasks", TaskOpened, key=task_id, body=asked)

    async def send(
        self, task_id: SessionId, text: str, prompt_id: PromptId, reply: ReplyContract | None = None
    ) -> PromptStanding:
        body = {"text": text} if reply is None else {"text": text, "reply": reply}
        return await self._http.command("POST", _task(task_id, "prompts"), PromptStanding, key=prompt_id, body=body)

    async def edit(self, task_id: SessionId, prompt_id: PromptId, text: str, key: str) -> PromptStanding:
        path = _task(task_id, "prompts", prompt_id)
        return await self._http.command("PATCH", path, PromptStanding, key=key, body={"text": text})

    async def remove(self, task_id: SessionId, prompt_id: PromptId, key: str) -> PromptStanding:
        return await self._http.command("DELETE", _task(task_id, "prompts", prompt_id), PromptStanding, key=key)

    async def set_gate(self, task_id: SessionId, *, is_open: bool, reason: str, key: str) -> QueueView:
        body = {"is_open": is_open, "reason": reason}
        return await self._http.command("PUT", _task(task_id, "queue", "gate"), QueueView, key=key, body=body)

    async def cancel(
        self, task_id: SessionId, turn_id: TurnId | None, key: str, *, is_forced: bool = False
    ) -> Cancelled:
        body: dict[str, Json] = {} if turn_id is None else {"turn_id": turn_id}
        body |= {"force": True} if is_forced else {}
        return await self._http.command("POST", _task(task_id, "cancel"), Cancelled, key=key, body=body)

    async def decide(self, asked: ApprovalDecide) -> ApprovalStanding:
        path = _task(asked.task_id, "approvals", asked.approval_id, "decision")
        body: dict[str, Json] = {
            "is_allowed": asked.is_allowed,
            "option": asked.option,
            "text": asked.text,
            "data": asked.data,
            "from_spawn": asked.from_spawn,
        }
        return await self._http.command("POST", path, ApprovalStanding, key=asked.decision_id, body=body)

    async def start(self, task_id: SessionId, key: str) -> AgentStanding:
        return await self._http.command("POST", _task(task_id, "start"), AgentStanding, key=key)

    async def stop(self, task_id: SessionId, key: str) -> AgentStanding:
        return await self._http.command("POST", _task(task_id, "stop"), AgentStanding, key=key)

    async def mark_seen(self, task_id: SessionId, turn_id: TurnId | None, key: str) -> SeenStanding:
        body = {} if turn_id is None else {"turn_id": turn_id}
        return await self._http.command("POST", _task(task_id, "seen"), SeenStanding, key=key, body=body)

    async def rename(self, task_id: SessionId, title: str, key: str) -> TaskTitle:
        return await self._http.command("POST", _task(task_id, "rename"), TaskTitle, key=key, body={"title": title})

    async def review(self, task_id: SessionId, asked: ReviewFile, key: str) -> ReviewedFile:
        return await self._http.command(
            "POST", _task(task_id, "review"), ReviewedFile, key=key, body=to_builtins(asked)
        )

    async def open_child(self, task_id: SessionId, asked: OpenChild, key: str) -> ChildOpened:
        return await self._http.command(
            "POST", _task(task_id, "children"), ChildOpened, key=key, body=to_builtins(asked)
        )

    async def cancel_child(self, task_id: SessionId, child: str, reason: str, key: str) -> ChildStanding:
        path, body = _task(task_id, "children", child, "cancel"), to_builtins(EndChild(reason=reason))
        return await self._http.command("POST", path, ChildStanding, key=key, body=body)

    async def begin_workflow(self, asked: BeginWorkflow, workflow_id: WorkflowId) -> WorkflowBegun:
        body = to_builtins(asked)
        return await self._http.command("POST", "/api/workflows", WorkflowBegun, key=workflow_id, body=body)

    async def decide_workflow(
        self, workflow_id: WorkflowId, path: str, asked: DecideStep | AnswerStep, key: str
    ) -> WorkflowStanding:
        """Decide about a workflow (`stop`) or a step of it (`steps/STEP/answer`)."""
        where = _workflow(workflow_id, *path.split("/"))
        return await self._http.command("POST", where, WorkflowStanding, key=key, body=to_builtins(asked))

    async def delete(self, task_id: SessionId, key: str) -> None:
        await self._http.command("DELETE", _task(task_id), object, key=key)

    async def _pages(self, path: str, kind: type[Page[T]], **query: str | int | None) -> AsyncIterator[Page[T]]:
        after: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._http.get(path, kind, query={**query, "after": after, "limit": PAGE})
            yield page
            if page.next is None:
                return
            if page.next == after:
                raise PeerFault("the server gives the same page again and again")
            after = page.next
        raise PeerFault(f"the server has more than {MAX_PAGES} pages")


def _task(task_id: SessionId, *rest: str) -> str:
    return "/".join(("/api/tasks", *(quote(part, safe="") for part in (task_id, *rest))))


def _workflow(workflow_id: WorkflowId, *rest: str) -> str:
    return "/".join(("/api/workflows", *(quote(part, safe="") for part in (workflow_id, *rest))))
