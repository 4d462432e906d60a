"""The board in bad weather: servers that go and come back, hostile words, too much of everything."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs
from rich.cells import cell_len

from interlock.agents.observations import ApprovalAsked, TextArrived, TurnEnded, TurnEnding
from interlock.cli.server.api import ServerApi
from interlock.cli.top import board, following, panes
from interlock.cli.top.layout import session_list as sessions
from interlock.cli.top.layout import transcript as reading
from interlock.client.client import Client
from interlock.projections.badge import ANSWER_ON_ITS_WAY, ANSWER_SECONDS, badge_of
from interlock.server.routes import server as server_routes
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.states import Activity, Attention, TaskStatus
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardJoin, BoardJoined, BoardTask, Request
from tests.cli.top.stage import COLOURS, FRAMES, YES_NO, House, Seat, seated
from tests.client.fake_room import FakeRoom
from tests.client.fake_server import TOKEN, Answering, FakeServer, FakeSocket, HttpAnswer, HttpCall, Silence
from tests.client.waiting import QUICK, until
from tests.contract.harness import run

HOSTILE = "[red]x[/red] \x1b[31mX\x1b[0m \x1b]0;t\x07 \r\x08 \u202eabc\u202c [/] [@click=app.quit]q[/] \x9b2J"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SIZE = (120, 36)


def badged(line: TaskSummary) -> TaskSummary:
    """A line as a server sends it."""
    return structs.replace(line, badge=badge_of(line, datetime.now(UTC)))


def test_a_server_that_goes_and_comes_back() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "May I go on?")
            client, api = house.client(), house.api
        async with seated(client, api, SIZE) as seat:
            async with house.serving():
                await seat.sees("first", "May I go on?", "connected", "a approve")
            text = await seat.sees("disconnected for", "last known", "last known: working, needs you: approval")
            assert "there is no session" not in text.lower()
            await seat.misses("a approve")  # each part of the screen is drawn by itself
            await seat.sees("it can be answered when the server is back")
            stale = _colours(seat, "May I go on?")
            async with house.serving():
                await seat.misses("disconnected")
                await seat.sees("a approve", "needs you: approval")
                fresh = _colours(seat, "May I go on?")
                assert len(stale) == 1 < len(fresh)  # greyed while nobody is heard
                house.driver.latest.say(TurnEnded(ending=TurnEnding.NATURAL, text="it went on without us"))
                await seat.sees("it went on without us")

    run(story(), 200)


def test_a_timer_that_fires_when_the_board_is_left_begins_nothing() -> None:
    """Its client is closed by then: to open a session there would be a traceback at the end."""

    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "May I go on?")
            async with seated(house.client(), house.api, SIZE) as seat:
                await seat.sees("first", "May I go on?")
            board = seat.app
            board.selected = None
            redraws = board.redraws
            board._open()
            board._frame()
            assert (board.selected, board.redraws, board.chosen()) == (None, redraws, None)

    run(story())


def test_a_server_that_records_nothing_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing new then, whatever its agents do."""
    problems = [""]
    monkeypatch.setattr(server_routes, "problem_of", lambda _: problems[-1])
    monkeypatch.setattr(following, "LOG_SECONDS", 0.05)

    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "May I go on?")
            async with seated(house.client(), house.api, SIZE) as seat:
                assert "cannot write" not in await seat.sees("first", "connected")
                problems.append("the disk is full")
                await seat.sees("the server cannot write its log", "last recorded (the disk is full)")
                problems.append("")
                await seat.misses("cannot write its log")

    run(story())


def test_an_answer_that_is_on_its_way_for_too_long_is_asked_for_again() -> None:
    """The server says so when its time is up, though nothing more is heard of the agent: see `tests/server`."""
    given = Evidence(source=EvidenceSource.LOG, rule=ANSWER_ON_ITS_WAY, at=datetime.now(UTC))
    shows = Status(activity=Activity.WORKING, attention=Attention.APPROVAL, evidence=(given,))
    line = TaskSummary(task_id=SessionId("ses_1"), version=1, title="first", live=shows)
    lines = (badged(line),)

    def on_request(socket: FakeSocket, request: Request) -> None:
        if isinstance(request, BoardJoin):
            socket.send(BoardJoined(id=request.id, tick=0, tasks=lines))

    async def story() -> None:
        async with FakeServer() as server:
            server.on_request = on_request
            server.on_http = lambda call: (
                HttpAnswer(body={"items": lines, "next": None}) if call.path == "/api/tasks" else Silence
            )
            async with seated(Client(server.url, token=TOKEN, patience=QUICK), _api(server), SIZE) as seat:
                known = seat.app.sessions
                await until(lambda: known.has_list)
                await seat.is_drawn()
                await seat.sees("WORKING", "approval answered")
                assert "NEEDS YOU" not in seat.text
                late = badge_of(line, datetime.now(UTC) + timedelta(seconds=ANSWER_SECONDS))
                server.socket.send(BoardTask(tick=1, task=structs.replace(line, badge=late)))
                await seat.sees("NEEDS YOU", "! first")
                assert "WORKING" not in seat.text

    run(story())


def _colours(seat: Seat, word: str) -> set[str]:
    """The colours of a session's row, of what is to be read there."""
    strips = seat.app.screen._compositor.render_strips()
    width = seat.app.parts.board.size.width if seat.app.parts is not None else 0
    row = next(strip.crop(1, width - 1) for strip in strips if word in strip.text)
    return {str(segment.style.color) for segment in row if segment.style and segment.text.strip()}


@pytest.mark.deep
def test_while_nobody_is_heard_time_stands_still() -> None:
    async def story() -> None:
        house = House()
        now = [datetime.now(UTC)]
        async with house.serving():
            await house.open("first", "go")
            client = house.client()
        async with seated(client, house.api, SIZE, clock=lambda: now[0]) as seat:
            async with house.serving():
                await seat.sees("first", "connected")
            await seat.sees("disconnected for 0s")
            now[0] = now[0].replace(year=now[0].year + 1)
            await seat.sees("disconnected for 365d")
            await seat.is_drawn()
            assert (
                len(re.findall(r"36[45]d", seat.text)) == 1
            )  # of the loss alone: no session is said to have worked for a year

    run(story(), 200)


@pytest.mark.deep
def test_words_that_may_have_been_sent_are_sent_again_as_the_same() -> None:
    async def story() -> None:
        async with FakeServer() as server:
            room = FakeRoom(server)
            async with seated(Client(server.url, token=TOKEN, patience=QUICK), _api(server), SIZE) as seat:
                await _listed(seat, server, room)
                await server.stop()
                await seat.press("s")
                await seat.types("hello")
                await seat.press("enter")
                await seat.sees("not known whether it was done")
                assert [draft.text for draft in seat.app.drafts.values()] == ["hello"]
                kept = next(iter(seat.app.drafts.values())).prompt_id
                room.restart()
                await server.start()
                await seat.misses("disconnected")
                await seat.press("s")
                await seat.sees("hello")
                await seat.press("enter")
                await until(lambda: room.prompts)
                assert room.prompts == {PromptId(str(kept)): "hello"}
                await until(lambda: not seat.app.drafts)

    run(story(), 200)


def _api(server: FakeServer) -> Callable[[], ServerApi]:
    return lambda: ServerApi(server.url, TOKEN)


async def _listed(seat: Seat, server: FakeServer, room: FakeRoom) -> None:
    """The fake room also lists its task."""
    inner = server.on_http

    def on_http(call: HttpCall) -> Answering:
        if call.path == "/api/tasks":
            return HttpAnswer(body={"items": [room.summary()], "next": None})
        return inner(call)

    server.on_http = on_http
    seat.app.sessions.try_again()
    await until(lambda: seat.app.selected is not None and seat.app.selected.state is not None)


def test_nothing_is_not_said_before_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, *_, **__: None)  # no agent on this machine, whoever runs the test

    async def story() -> None:
        async with FakeServer() as server:
            server.on_request = lambda socket, request: (
                socket.send(BoardJoined(id=request.id, tick=0, tasks=())) if isinstance(request, BoardJoin) else None
            )
            server.on_http = lambda _: Silence
            quicker = replace(QUICK, answer_seconds=0.2, http_attempts=1)
            async with seated(Client(server.url, token=TOKEN, patience=quicker), _api(server), SIZE) as seat:
                text = await seat.sees("connected", "Asking the server for its sessions.")
                assert "no session" not in text
                server.on_http = lambda _: HttpAnswer(body={"items": [], "next": None})
                seat.app.sessions.try_again()
                await seat.sees("There is no session yet.", "No agent was found", "interlock demo", "interlock doctor")

    run(story(), 200)


def test_the_first_session_finds_the_list_with_the_focus() -> None:
    async def story() -> None:
        house = House()
        async with house.serving(), house.board(SIZE) as seat:
            await seat.sees("There is no session yet.")
            await house.open("first")
            await seat.sees("first")
            await seat.is_drawn()
            assert seat.app.focused is not None
            assert seat.app.focused.id == "list"

    run(story())


def test_a_refused_token_is_told_and_not_drawn_as_empty() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("first")
            client = Client(house.url, token="some-other-token-of-nobody-at-all", patience=QUICK)
            async with seated(client, house.api, SIZE) as seat:
                text = await seat.sees("token")
                assert "no session" not in text.lower()

    run(story())


def test_hostile_words_are_shown_as_they_read() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            puppet = await house.open(f"evil {HOSTILE}", HOSTILE, agent="[b]agent[/b]")
            assert puppet is not None
            options = tuple(type(one)(id=one.id, label=f"{one.label} {HOSTILE}", kind=one.kind) for one in YES_NO)
            puppet.say(TextArrived(text=HOSTILE), ApprovalAsked(request_id="r1", question=HOSTILE, options=options))
            async with house.board(SIZE) as seat:
                text = await seat.sees("[red]x[/red]", "[@click=app.quit]q[/]", r"\x1b[31mX", "[b]agent[/b]", "1  Yes")
                assert not CONTROL.search(text)
                assert r"\u202e" in text
                for key in ("w", "v"):
                    await seat.press(key)
                    await seat.pilot.pause()
                    assert not CONTROL.search(seat.text)
                    await seat.press("escape")
                await seat.press("c")
                await seat.sees("interrupt the turn?", "[red]x[/red]")

    run(story())


@pytest.mark.deep
def test_hostile_words_on_the_way_to_a_terminal_and_above_an_answer() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking(f"evil {HOSTILE}", HOSTILE, options=COLOURS, name=HOSTILE, args={HOSTILE: HOSTILE})
            async with house.board(SIZE) as seat:
                await seat.sees("[red]x[/red]", "i reply")
                for key, word in (("o", ": its terminal"), ("i", ": your answer"), ("s", ": your prompt")):
                    await seat.press(key)
                    text = await seat.sees(word)
                    (title,) = [line for line in text.splitlines() if word in line]
                    assert r"evil [red]x[/red] \x1b[31mX" in title
                    assert not CONTROL.search(text), key
                    await seat.press("escape")
                    await seat.misses(word)

    run(story())


@pytest.mark.deep
def test_a_screen_that_is_made_wider_or_narrower_loses_no_line() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "May I?", name="Bash", args={"command": "ls"})
            async with house.board((80, 24)) as seat:
                for size in ((80, 24), (160, 50), (80, 24), (60, 14), (100, 30)):
                    await seat.pilot.resize_terminal(*size)
                    text = await seat.sees("first", "May I?", "command: ls", "1  Yes", "2  No", "1-2 choose")
                    assert max(map(cell_len, text.splitlines())) <= size[0]
                    if size[1] > 14:
                        await seat.sees("needs you: approval", "why: waiting for your answer")

    run(story())


def test_what_has_another_size_is_drawn_for_it_without_news_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "TICK_SECONDS", 3600.0)

    async def story() -> None:
        house = House()
        async with house.serving():
            await house.asking("first", "May I?", name="Bash", args={"command": "ls"})
            async with house.board((200, 50)) as seat:
                await seat.sees("folder   /", "1-2 choose")
                for size in ((120, 36), (80, 24), (200, 50), (80, 30), (120, 36)):
                    await seat.pilot.resize_terminal(*size)
                    await seat.sees("needs you: approval", "why: waiting for your answer", "command: ls", "1-2 choose")
                await seat.press("slash", *"zzz")
                await seat.sees("0 of 1 match", "1 do not match 'zzz' (esc shows all)")
                await seat.press("escape")
                await seat.sees("1-2 choose")
                redraws = seat.app.redraws
                await seat.is_drawn()
                assert seat.app.redraws - redraws < FRAMES // 10, "it does not come to rest"

    run(story())


@pytest.mark.deep
def test_a_thousand_sessions_are_laid_out_only_where_they_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    laid = []
    plain = sessions.row_lines

    def counted(*args: object) -> object:
        laid.append(args)
        return plain(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(panes, "row_lines", counted)
    lines = tuple(
        badged(
            TaskSummary(
                task_id=SessionId(f"ses_{at:04}"), version=1, task_status=TaskStatus.COMPLETED, title=f"task {at:04}"
            )
        )
        for at in range(1_000)
    )

    def on_request(socket: FakeSocket, request: Request) -> None:
        if isinstance(request, BoardJoin):
            socket.send(BoardJoined(id=request.id, tick=0, tasks=lines))

    async def story() -> None:
        async with FakeServer() as server:
            server.on_request = on_request
            server.on_http = lambda call: (
                HttpAnswer(body={"items": lines, "next": None}) if call.path == "/api/tasks" else Silence
            )
            async with seated(Client(server.url, token=TOKEN, patience=QUICK), _api(server), SIZE) as seat:
                await seat.sees("1000 done", "task 0000")
                redraws = seat.app.redraws
                laid.clear()
                await seat.press("G")
                await seat.sees("▌✓ task 0999")
                rows = SIZE[1] * (seat.app.redraws - redraws + 4)
                assert 0 < len(laid) <= 2 * rows
                await seat.press("home")
                await seat.sees("▌✓ task 0000")

    run(story())


@pytest.mark.deep
def test_a_long_transcript_is_laid_out_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    laid = []
    plain = reading.message_lines

    def counted(*args: object) -> object:
        laid.append(args)
        return plain(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "message_lines", counted)
    monkeypatch.setattr(reading, "WINDOW", window := 60)
    monkeypatch.setattr(panes, "SLIDE", 20)

    async def story() -> None:
        async with FakeServer() as server:
            room = FakeRoom(server)
            for at in range(400):
                room.add_message(f"message {at:05}")
            room.limit = 300
            async with seated(Client(server.url, token=TOKEN, patience=QUICK), _api(server), SIZE) as seat:
                await _listed(seat, server, room)
                await seat.sees("message 00399")
                assert len(laid) <= window
                await seat.press("tab", "pageup")
                before = seat.text
                assert "message 00399" not in before
                await seat.press("home")
                await seat.sees("message 00100")  # the oldest that is here
                assert len(laid) <= 2 * window
                await until(lambda: seat.app.selected is not None and not seat.app.selected.has_older)
                # What came is drawn a frame later, and a key goes to the beginning of what is drawn.
                for _ in range(FRAMES):
                    await seat.press("home")
                    if "message 00000" in seat.text:
                        break
                await seat.sees("message 00000")
                assert len(laid) <= 4 * window
                for _ in range(8):  # over the edge of the window, without a jump
                    above = seat.text
                    await seat.press("pagedown")
                    last = max(map(int, re.findall(r"message (\d+)", above)))
                    assert f"message {last:05}" in seat.text or f"message {last + 1:05}" in seat.text
                await seat.press("G")
                await seat.sees("message 00399")

    run(story(), 200)


@pytest.mark.deep
def test_a_flood_of_text_is_drawn_frame_by_frame() -> None:
    async def story() -> None:
        async with FakeServer() as server:
            room = FakeRoom(server)
            room.set_status(TaskStatus.RUNNING, "trn_1")
            async with seated(Client(server.url, token=TOKEN, patience=QUICK), _api(server), SIZE) as seat:
                await _listed(seat, server, room)
                await until(lambda: room.members)
                before = seat.app.redraws
                for at in range(3_000):
                    room.say(f"piece {at}\n")
                await seat.sees("piece 2999")
                assert (seat.app.redraws - before) * 10 < 3_000
                drawn = seat.app.redraws
                for _ in range(1_000):
                    seat.app.mark()
                await until(lambda: seat.app.redraws > drawn)
                assert seat.app.redraws == drawn + 1

    run(story(), 200)


@pytest.mark.deep
def test_a_quiet_board_is_not_drawn_frame_by_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            await house.open("first")
            async with house.board(SIZE) as seat:
                await seat.sees("Nothing was said yet")
                await seat.is_drawn()
                frames = []
                look = seat.app.sessions.look

                def counted(now: datetime) -> bool:
                    frames.append(now)
                    return look(now)

                monkeypatch.setattr(seat.app.sessions, "look", counted)
                before = seat.app.redraws
                await until(lambda: len(frames) >= 15)
                assert (seat.app.redraws - before) * 2 < len(frames)

    run(story())


@pytest.mark.deep
def test_each_session_shows_its_own_words() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            for title in ("alpha", "beta"):
                puppet = await house.open(title, f"prompt of {title}")
                assert puppet is not None
                puppet.say(TurnEnded(ending=TurnEnding.NATURAL, text=f"answer of {title}"))
            async with house.board(SIZE) as seat:
                for _ in range(2):
                    for own, other in (("alpha", "beta"), ("beta", "alpha")):
                        await _go_to(seat, own)
                        text = await seat.sees(f"prompt of {own}", f"answer of {own}")
                        assert f"answer of {other}" not in text

    run(story())


async def _go_to(seat: Seat, name: str) -> None:
    """Select a session wherever it stands: one that was looked at long enough moves to another group."""
    for key in itertools.islice(itertools.cycle(("home", "G")), 100):
        if seat.app.called == name:
            return
        await seat.press(key)
        await seat.is_drawn()
    raise AssertionError(f"{name} is not in the list")


@pytest.mark.deep
def test_a_session_that_is_purged_leaves_the_board() -> None:
    async def story() -> None:
        lines = [badged(TaskSummary(task_id=SessionId(f"ses_{at}"), version=1, title=f"task {at}")) for at in range(3)]

        def on_request(socket: FakeSocket, request: Request) -> None:
            if isinstance(request, BoardJoin):
                socket.send(BoardJoined(id=request.id, tick=0, tasks=tuple(lines)))

        async with FakeServer() as server:
            server.on_request = on_request
            server.on_http = lambda call: (
                HttpAnswer(body={"items": lines, "next": None}) if call.path == "/api/tasks" else Silence
            )
            async with seated(Client(server.url, token=TOKEN, patience=QUICK), _api(server), SIZE) as seat:
                await seat.sees("task 0", "task 1", "task 2")
                del lines[1]
                await server.stop()
                await seat.sees("disconnected", "task 1")
                await server.start()
                await seat.misses("task 1", "disconnected")
                await seat.sees("task 0", "task 2")

    run(story(), 200)
