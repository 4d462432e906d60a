"""Sessions at rest in a server: every answer is the same with and without snapshots, and nothing is held of them."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count, islice
from pathlib import Path
from typing import Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from interlock.log.archive.moving import archive_session
from interlock.log.sqlite.store import SqliteLog
from interlock.projections.task.summary import TaskLine
from interlock.runtime.policy import Instant
from interlock.runtime.runtime import Runtime
from interlock.runtime.sleeping import line_fold
from interlock.server.live import hub as hub_module
from interlock.server.serving import bind, running
from interlock.server.state import ServerState
from interlock.testing.puppet import PuppetDriver
from interlock.testing.scribe import EPOCH, Scribe, endless_history
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind, SessionDeleted, SessionOpened, SessionSeen
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import EventId, SessionId, TurnId
from interlock.vocabulary.states import DriverKind
from interlock.vocabulary.wire.requests import BoardJoin, BoardJoined
from tests.contract.harness import run
from tests.effort import examples
from tests.runtime.conducting import soon
from tests.server.http_harness import OBSERVER, OPERATOR, SETTINGS, TOKENS, client

LATER: Final = EPOCH + timedelta(hours=5)
OPENED: Final = SessionOpened(agent="puppet", driver="puppet", kind=DriverKind.STREAM, argv=("puppet",), cwd="/")
_WHOLE: Final = tuple(islice(endless_history("s"), 60))
TURN: Final = sum(one.turn_id == "trn_0" for one in _WHOLE)
_ASIDE: Final[tuple[Payload, ...]] = (
    SessionSeen(turn_id=TurnId("trn_0")),
    SessionDeleted(),
    ProcessEvent(kind=ProcessEventKind.RESTART_DUE, attempt=1),
)
_OF_TASK: Final = ("", "/runtime-check", "/state", "/turns", "/messages", "/usage", "/why", "/spawns", "/queue", "/log")
_OF_ALL: Final = ("/api/tasks", "/api/tasks?limit=1", "/api/usage", "/api/approvals", "/api/spawns")


class Heard(list[bytes]):
    """A member of the board."""

    def offer(self, frame: bytes, room: SessionId | None) -> bool:
        return True

    def answer(self, frame: bytes) -> None:
        self.append(frame)

    __hash__ = object.__hash__  # type: ignore[assignment]


def history(length: int, aside: Sequence[Payload] = (), *, begins: int = 0) -> list[Event]:
    """A session of so many events of an agent at work, and some more."""
    events = [*Scribe("s").write(OPENED), *_WHOLE[:length], *Scribe("s").write(*aside)]
    return [
        structs.replace(one, seq=None, id=EventId(f"evt_{begins}_{at}"), ts=EPOCH + timedelta(seconds=begins + at))
        for at, one in enumerate(events)
    ]


async def fill(home: Path, sessions: Sequence[Sequence[Event]]) -> list[SessionId]:
    ids = [SessionId(f"ses_{number}") for number in range(len(sessions))]
    async with await SqliteLog.open(home) as log:
        for session_id, events in zip(ids, sessions, strict=True):
            await log.append(session_id, [structs.replace(one, session_id=session_id) for one in events])
    return ids


@asynccontextmanager
async def server_of(home: Path, *, has_driver: bool = True) -> AsyncIterator[tuple[ServerState, str]]:
    """A server of a home at rest, as `interlock up` starts it, at a time that stands still."""
    numbers = count(1)
    drivers = [PuppetDriver()] if has_driver else []
    clock: Callable[[], Instant] = lambda: Instant(at=LATER, seconds=0.0)  # noqa: E731
    with bind(SETTINGS) as listening:
        async with (
            await SqliteLog.open(home) as log,
            Runtime(log, drivers, sleeps=True, clock=clock, ids=lambda kind: f"{kind}_{next(numbers):08}") as runtime,
            running(runtime, log, TOKENS, SETTINGS, listening) as server,
        ):
            server.state.hub.rooms._clock = lambda: LATER
            await runtime.settled()
            await soon(lambda: server.state.hub.is_ready)
            yield server.state, server.url


async def answers(home: Path, ids: Sequence[SessionId], *, has_driver: bool) -> tuple[dict[str, bytes], int]:
    """Every answer of a server of a home, and how many sessions it had folded before anybody asked."""
    async with server_of(home, has_driver=has_driver) as (state, url), client(url, OBSERVER) as asking:
        held, board = len(state.hub.views), Heard()
        state.hub.rooms.join_board(board, BoardJoin(id="b"))
        (joined,) = board
        lines = msgspec.json.decode(joined, type=BoardJoined).tasks
        told = {"board": msgspec.json.encode(sorted(lines, key=lambda one: one.task_id))}
        state.hub.rooms.drop(board)
        paths = [*_OF_ALL, *(f"/api/tasks/{one}{what}" for one in ids for what in _OF_TASK), *_OF_ALL]
        for path in paths:
            answer = await asking.get(path)
            assert answer.status_code == 200 or path.endswith("why"), (path, answer.text)
            # A tick counts what this server told of the room: that is its own, as it is after any restart.
            told[path] = re.sub(rb'"tick":[0-9]+', b'"tick":0', answer.content)
        return told, held


async def forget_all(home: Path) -> None:
    async with await SqliteLog.open(home) as log:
        await log.snapshots.forget()


SESSIONS: Final = st.lists(
    st.tuples(
        st.sampled_from([0, TURN, 2 * TURN]) | st.integers(0, 2 * TURN), st.lists(st.sampled_from(_ASIDE), max_size=2)
    ),
    min_size=1,
    max_size=4,
)


@given(SESSIONS, st.booleans(), st.data())
@settings(max_examples=examples(3, 20), suppress_health_check=[HealthCheck.too_slow])  # each starts three servers
def test_without_snapshots_every_answer_is_the_same(
    made: list[tuple[int, list[Payload]]], has_driver: bool, data: st.DataObject
) -> None:
    async def story(folder: Path) -> None:
        home, bare = folder / "home", folder / "bare"
        ids = await fill(home, [history(length, aside, begins=at) for at, (length, aside) in enumerate(made)])
        async with server_of(home, has_driver=has_driver):
            pass  # what was left open is settled, and lines are kept
        if data.draw(st.booleans(), label="one is archived"):
            await archive(home, ids[0])
        shutil.copytree(home, bare)
        await forget_all(bare)
        with_lines, held = await answers(home, ids, has_driver=has_driver)
        without, folded = await answers(bare, ids, has_driver=has_driver)
        assert with_lines == without
        assert held == 0, "all of them are at rest, and nothing was folded"
        assert 0 < folded <= len(ids)

    with tempfile.TemporaryDirectory() as folder:
        run(story(Path(folder)))


async def archive(home: Path, session_id: SessionId) -> None:
    async with await SqliteLog.open(home) as log:
        version = (await log.read(session_id, limit=1)).version
        await archive_session(log, session_id, version=version, title="", now_unix_ms=0)


def test_an_archived_session_is_proven_from_its_file_and_keeps_its_line(tmp_path: Path) -> None:
    async def story() -> None:
        home = tmp_path / "home"
        (one,) = await fill(home, [history(TURN)])
        async with server_of(home):
            pass
        await archive(home, one)
        async with server_of(home) as (state, url), client(url, OBSERVER) as asking:
            assert not state.hub.views
            assert await state.hub.resting.proves(one)
            listed = (await asking.get("/api/tasks")).json()["items"]
            assert [line["task_id"] for line in listed] == [one]
            assert (await asking.get(f"/api/tasks/{one}/messages")).json()["items"]
        (packed,) = (home / "archive").glob("*.zst")
        packed.write_bytes(b"x" + packed.read_bytes()[1:])
        async with server_of(home) as (state, _):
            await soon(lambda: one in state.hub.views)
            assert not state.hub.views[one].is_at_rest, "a line does not hide that its events are lost"

    run(story())


def test_a_line_that_was_changed_is_not_believed(tmp_path: Path) -> None:
    async def story() -> None:
        home = tmp_path / "home"
        one, two = await fill(home, [history(TURN), history(2 * TURN, begins=1)])
        async with server_of(home):
            pass
        true, _ = await answers(home, [one, two], has_driver=True)
        async with await SqliteLog.open(home) as log:
            changed = "UPDATE snapshots SET payload = (SELECT payload FROM snapshots WHERE session_id = 'ses_0')"
            await log.maintain("test", {}, lambda connection: connection.execute(changed).fetchall())
        told, _ = await answers(home, [one, two], has_driver=True)
        assert told == true

    run(story())


def test_a_broken_table_of_snapshots_hides_no_session(tmp_path: Path) -> None:
    async def story() -> None:
        home = tmp_path / "home"
        ids = await fill(home, [history(TURN), history(2 * TURN, begins=1)])
        async with server_of(home):
            pass
        true, _ = await answers(home, ids, has_driver=True)
        async with await SqliteLog.open(home) as log:
            await log.maintain("test", {}, lambda connection: connection.execute("DROP TABLE snapshots").fetchall())
        told, held = await answers(home, ids, has_driver=True)
        assert told == true
        assert held == len(ids)

    run(story())


def test_a_prompt_wakes_a_session_at_rest_once(tmp_path: Path) -> None:
    async def story() -> None:
        home = tmp_path / "home"
        (one,) = await fill(home, [history(TURN)])
        async with server_of(home):
            pass
        async with server_of(home) as (state, url), client(url, OPERATOR) as asking:
            assert one not in state.runtime.sessions
            assert (await asking.get(f"/api/tasks/{one}")).json()["summary"]["is_supervised"]
            assert (await asking.post(f"/api/tasks/{one}/seen", json={})).json()["is_seen"]
            assert state.runtime.sessions == (one,)
            sent = await asking.post(f"/api/tasks/{one}/prompts", json={"text": "more"})
            assert sent.status_code == 202, sent.text
            view = state.hub.views[one]
            await soon(lambda: view.turn_of_prompt(sent.json()["prompt_id"]) is not None)

    run(story())


def test_ticks_of_a_room_do_not_go_back_when_its_view_was_dropped(tmp_path: Path) -> None:
    async def story() -> None:
        home, many = tmp_path / "home", hub_module.MAX_VIEWS_AT_REST + 2
        ids = await fill(home, [history(TURN, begins=at) for at in range(many)])
        async with server_of(home) as (state, url), client(url, OBSERVER) as asking:
            first = await state.hub.open(ids[0])
            assert first is not None
            first.tick = told = 1_000  # as after much text that was shown live
            for one in ids[1:]:
                assert (await asking.get(f"/api/tasks/{one}/runtime-check")).status_code == 200
            await soon(lambda: ids[0] not in state.hub.views)
            assert (await asking.get(f"/api/tasks/{ids[0]}/runtime-check")).json()["tick"] >= told

    run(story())


def test_what_is_held_of_sessions_at_rest_is_bounded(tmp_path: Path) -> None:
    async def story() -> None:
        home, many = tmp_path / "home", hub_module.MAX_VIEWS_AT_REST + 8
        ids = await fill(home, [history(TURN, begins=at) for at in range(many)])
        async with server_of(home) as (state, url), client(url, OBSERVER) as asking:
            await soon(lambda: len(state.hub.views) <= hub_module.MAX_VIEWS_AT_REST)
            for one in ids:
                assert (await asking.get(f"/api/tasks/{one}")).status_code == 200
            await soon(lambda: len(state.hub.views) <= hub_module.MAX_VIEWS_AT_REST)
            assert len((await asking.get(f"/api/tasks?limit={many}")).json()["items"]) == many
            assert not await state.log.snapshots.missing(line_fold())

    run(story())


def test_a_first_start_draws_no_board_for_each_session_that_comes_to_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that a board keeps are compared by their age alone: to draw all of them each time was most of it."""
    shown_at_most = 20
    monkeypatch.setattr(hub_module, "NEWEST", shown_at_most)
    monkeypatch.setattr(hub_module, "MAX_VIEWS_AT_REST", 2)
    drawn = count()
    shown = TaskLine.shown
    monkeypatch.setattr(TaskLine, "shown", lambda *given, **named: (next(drawn), shown(*given, **named))[1])

    async def story() -> None:
        home, many = tmp_path / "home", 60
        ids = await fill(home, [history(TURN, begins=at) for at in range(many)])
        async with server_of(home) as (state, _):
            await soon(lambda: len(state.hub.views) <= hub_module.MAX_VIEWS_AT_REST)
            newest = set(ids[-shown_at_most - hub_module.MAX_VIEWS_AT_REST :])
            assert set(state.hub.rooms.resting) <= newest
            assert len(state.hub.rooms.resting) == shown_at_most
            assert next(drawn) <= 3 * many

    run(story())
