"""What each door prints of one session: the commands over the routes of the server, its metrics, its notices.

The commands run as they are; only the wire between them and the routes is cut short.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch
from urllib.parse import unquote

import msgspec

from interlock.cli.look import ps_list as board
from interlock.cli.look import show
from interlock.cli.server import status
from interlock.cli.server.api import ServerApi
from interlock.cli.server.presence import Presence, RunningServer
from interlock.cli.top.layout.session_list import arrange
from interlock.cli.work.until import parse_until
from interlock.cli.work.wait import _Waiting
from interlock.projections.attention import AttentionPolicy, AttentionState, Sighted, step
from interlock.projections.attention_ledger import Notice, NoticeKind, NoticeLedger
from interlock.projections.task.summary import TaskTally
from interlock.projections.task.view import TaskView
from interlock.runtime.notify.channels import headline
from interlock.server import metrics
from interlock.server.live.outbox import Traffic
from interlock.server.live.rooms import Rooms
from interlock.server.routes import tasks as routes
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSummary
from tests.bodies import Body

HOME: Final = Path("/home/of/no/server")
LONG_AGO: Final = datetime.fromisoformat("1970-01-01T00:00:00Z")
_EMPTY: Final[Body] = {"items": [], "next": None}
T = TypeVar("T")
_SAMPLE: Final = re.compile(r'interlock_tasks_(by_(?P<family>\w+)\{\w+="(?P<value>\w+)"\}|need_person) (?P<count>\d+)')


class _OpenHub:
    """A hub none of whose tasks is at rest."""

    is_ready = is_listed = True
    connections = 0
    traffic = Traffic()

    def __init__(self, rooms: Rooms) -> None:
        self.rooms, self.views = rooms, rooms.views

    def view(self, task_id: SessionId) -> TaskView | None:
        return self.views.get(task_id)

    async def open(self, task_id: SessionId) -> TaskView | None:
        return self.views.get(task_id)

    async def page(self, _after: SessionId | None, _limit: int) -> tuple[tuple[TaskSummary, ...], bool]:
        now = self.rooms.now()
        return tuple(one.summary(now) for one in self.views.values()), False

    async def tallies(self) -> AsyncIterator[tuple[TaskSummary, TaskTally]]:
        now = self.rooms.now()
        for one in self.views.values():
            yield one.summary(now), one.tally()


class Doors(ServerApi):
    """The commands of a person at a server that has one session. What a command asks goes to the route itself."""

    def __init__(self, rooms: Rooms, task_id: SessionId) -> None:
        self._server: Any = SimpleNamespace(hub=_OpenHub(rooms), log=None)
        self._task_id = task_id

    def ask_raw(self, method: str, path: str, *_rest: object, **_more: object) -> bytes:
        """What the routes answer, as it comes off the wire."""
        if method != "GET":
            raise UsageError(f"{method} {path}: an observer only looks", remedy="look")
        place = path.partition("?")[0].removeprefix("/api/tasks").strip("/").split("/")
        match place:
            case [""]:
                answer: object = _ran(routes.list_tasks.fn(self._server))
            case [_]:
                answer = _ran(routes.get_task.fn(self._server, self._task_id))
            case [_, "turns", turn_id]:
                answer = _ran(routes.get_turn.fn(self._server, self._task_id, unquote(turn_id)))
            case [_, "runtime-check"]:
                answer = _ran(routes.check_task.fn(self._server, self._task_id))
            case [_, "messages"]:
                answer = _ran(routes.list_messages.fn(self._server, self._task_id))
            case [_, "state"]:
                answer = _ran(routes.get_state.fn(self._server, self._task_id))
            case [_, "spawns" | "children"]:
                answer = _EMPTY
            case _:
                answer = {"total": {}}
        return msgspec.json.encode(answer)

    @property
    def http(self) -> Body:
        """The summary of `GET /api/tasks/{id}`."""
        summary: Body = msgspec.json.decode(self.ask_raw("GET", f"/api/tasks/{self._task_id}"))["summary"]
        return summary

    def ps(self, *, json: bool) -> str:
        return self._printed(lambda: board.list_sessions(HOME, every=True, json=json))

    def show(self, *, json: bool) -> str:
        return self._printed(lambda: show.show(self._task_id, home=HOME, json=json))

    def status(self, *, json: bool) -> str:
        server = RunningServer(presence=Presence.RUNS, url="http://127.0.0.1:1", pid=1, started_at="")
        found = (server, {"ready": True}, board.ask(cast(ServerApi, self)))
        with patch.object(status, "_answering", lambda _home: found):
            return self._printed(lambda: status.status(home=HOME, json=json))

    def wait(self, until: str) -> Body | None:
        """What `interlock wait --json` prints after one look; None: it goes on waiting."""
        waiting = _Waiting(HOME, [self._task_id], parse_until(until), is_any=False, past_questions=False, json=True)
        printed = self._printed(lambda: waiting._look(self._task_id))
        return msgspec.json.decode(printed) if printed else None

    def top(self) -> tuple[str, ...]:
        """The groups of the board."""
        return arrange([self.http], every=True).groups

    def metrics(self) -> tuple[dict[str, str], int]:
        """Each family that counts badges with the value of the one session, and how many need a person."""
        text = metrics.render(_ran(metrics.collect(self._server.hub, is_recording=False)))
        found = [match.groupdict() for match in _SAMPLE.finditer(text) if match["count"] != "0"]
        needs = [int(one["count"]) for one in found if not one["family"]]
        return {one["family"]: one["value"] for one in found if one["family"]}, sum(needs)

    def notices(self, now: datetime) -> list[tuple[Notice, str]]:
        """What a person who has been told nothing is told now, with the line that is read out."""
        policy = AttentionPolicy(kinds=frozenset(NoticeKind), quiet_seconds=0.0)
        watch = AttentionState(ledger=NoticeLedger(horizon=LONG_AGO), policy=policy)
        _, notices = step(watch, Sighted(msgspec.convert(self.http, TaskSummary)), now)
        return [(notice, headline(notice)) for notice in notices]

    def _printed(self, command: Callable[[], object]) -> str:
        with self._in_place_of_the_wire(), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()):
            command()
        return out.getvalue()

    @contextmanager
    def _in_place_of_the_wire(self) -> Iterator[None]:
        with patch.object(ServerApi, "of_home", lambda _home: self):
            yield


def _ran(work: Awaitable[T]) -> T:
    """What a route returns that awaits nothing."""
    try:
        next(iter(work.__await__()))
    except StopIteration as done:
        return cast(T, done.value)
    raise AssertionError("a route that only reads waited for something")
