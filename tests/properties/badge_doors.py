"""What each door prints of one session: the commands over the routes of the server, its metrics, its notices.

The commands run as they are; only the wire between them and the routes is cut short.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch

import msgspec

from interlock.cli.look import ps_list as board
from interlock.cli.look import show
from interlock.cli.server import status
from interlock.cli.server.api import Body, ServerApi
from interlock.cli.server.presence import Presence, RunningServer
from interlock.cli.top.layout.session_list import arrange
from interlock.cli.work.until import parse_until
from interlock.cli.work.wait import _Waiting
from interlock.projections.attention import AttentionPolicy, AttentionState, Sighted, step
from interlock.projections.attention_ledger import Notice, NoticeKind, NoticeLedger
from interlock.runtime.notify.channels import headline
from interlock.server import metrics
from interlock.server.live.rooms import Rooms
from interlock.server.routes import tasks as routes
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSummary

HOME: Final = Path("/home/of/no/server")
LONG_AGO: Final = datetime.fromisoformat("1970-01-01T00:00:00Z")
_EMPTY: Final[Body] = {"items": [], "next": None}
T = TypeVar("T")
_SAMPLE: Final = re.compile(r'interlock_tasks_(by_(?P<family>\w+)\{\w+="(?P<value>\w+)"\}|need_person) (?P<count>\d+)')


class Doors:
    """The commands of a person at a server that has one session."""

    def __init__(self, rooms: Rooms, task_id: SessionId) -> None:
        hub = SimpleNamespace(views=rooms.views, rooms=rooms, is_ready=True, view=rooms.views.get)
        self._server: Any = SimpleNamespace(hub=hub, log=None)
        self._task_id = task_id

    def get(self, path: str, **_query: object) -> Body:
        """What the routes answer, as it comes off the wire."""
        place = path.removeprefix("/api/tasks").strip("/").split("/")
        match place:
            case [""]:
                answer = _ran(routes.list_tasks.fn(self._server))
            case [_]:
                answer = _ran(routes.get_task.fn(self._server, self._task_id))
            case [_, "turns", turn_id]:
                answer = _ran(routes.get_turn.fn(self._server, self._task_id, turn_id))
            case [_, "runtime-check"]:
                answer = _ran(routes.check_task.fn(self._server, self._task_id))
            case [_, "messages"]:
                answer = _ran(routes.list_messages.fn(self._server, self._task_id))
            case [_, "state"]:
                answer = _ran(routes.get_state.fn(self._server, self._task_id))
            case [_, "spawns"]:
                answer = _EMPTY
            case _:
                answer = {"total": {}}
        decoded: Body = msgspec.json.decode(msgspec.json.encode(answer))
        return decoded

    def read(self, kind: type[T], path: str, **query: object) -> T:
        return msgspec.convert(self.get(path, **query), kind)

    def pages(self, path: str, **query: object) -> Iterator[Body]:
        yield from self.get(path, **query)["items"]

    @property
    def http(self) -> Body:
        """The summary of `GET /api/tasks/{id}`."""
        summary: Body = self.get(f"/api/tasks/{self._task_id}")["summary"]
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
        text = metrics.render(metrics._of_tasks(self._server.hub))
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


def _ran(work: Awaitable[Any]) -> object:
    """What a route returns that awaits nothing."""
    try:
        next(iter(work.__await__()))
    except StopIteration as done:
        return done.value
    raise AssertionError("a route that only reads waited for something")
