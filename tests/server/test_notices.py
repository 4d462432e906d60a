"""The server's own watch: it hears every line, keeps what counts, harms nobody, and ends in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from interlock.projections.attention_ledger import Notice
from interlock.runtime.config.sections import NotifySection
from interlock.runtime.notify import notifier as notify
from interlock.runtime.notify.notifier import LEDGER_NAME, NoticeChannel
from interlock.server import notices, serving
from interlock.server.live.hub import Hub
from interlock.server.live.rooms import Member, Rooms
from interlock.server.notices import BoardEar, noticing
from interlock.server.serving import Setup
from interlock.server.settings import ServerSettings
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSummary
from interlock.vocabulary.wire.requests import BoardJoin, BoardJoined, BoardTask
from tests.client.waiting import until
from tests.projections.test_attention import asking, line

AT_ONCE = NotifySection(quiet_seconds=0.0)


class Told:
    """A channel that keeps what it is told."""

    name = "told"

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    async def deliver(self, notice: Notice) -> None:
        self.notices.append(notice)


class Board:
    """The room of the board, as far as the watch knows it."""

    def __init__(self, *lines: TaskSummary) -> None:
        self.rooms = self
        self.is_ready = True
        self.lines = lines
        self.member: Member | None = None
        self.joins = 0
        self.fails = 0

    def join_board(self, member: Member, request: BoardJoin) -> None:
        self.joins += 1
        if self.joins <= self.fails:
            raise RuntimeError("https://hook.example/secret")
        self.member = member
        member.answer(msgspec.json.encode(BoardJoined(id=request.id, tick=0, tasks=self.lines)))

    def drop(self, member: Member) -> None:
        if self.member is member:
            self.member = None

    def tell(self, *lines: TaskSummary) -> None:
        assert self.member is not None
        for one in lines:
            assert self.member.offer(msgspec.json.encode(BoardTask(tick=1, task=one)), None)


@asynccontextmanager
async def watched(folder: Path, board: Board, *channels: NoticeChannel) -> AsyncIterator[None]:
    async with noticing(folder, AT_ONCE, channels) as made:
        assert made is not None
        made.watch(cast("Hub", board))
        await until(lambda: board.member is not None, "the board is joined")
        yield


def test_it_tells_what_is_there_and_what_comes_and_leaves(tmp_path: Path) -> None:
    async def story() -> tuple[list[str], Board]:
        board, told = Board(asking()), Told()
        async with watched(tmp_path, board, told):
            board.tell(line(2), asking(3, "Another?"))
            await until(lambda: len(told.notices) == 2, "both are told")
        return [one.question for one in told.notices], board

    told, board = asyncio.run(story())
    assert told == ["Run pytest?", "Another?"]
    assert board.member is None


def test_from_when_on_ends_are_news_is_noted_before_the_board_is_seen(tmp_path: Path) -> None:
    async def story() -> None:
        async with watched(tmp_path, Board(), Told()):
            assert (tmp_path / LEDGER_NAME).exists()

    asyncio.run(story())


def test_a_watch_that_fails_is_logged_without_its_words_and_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notices, "_FIRST_PAUSE_SECONDS", 0.001)

    async def story() -> int:
        board, told = Board(asking()), Told()
        board.fails = 2
        async with watched(tmp_path, board, told):
            await until(lambda: told.notices, "it is told")
        return len(told.notices)

    with caplog.at_level(logging.INFO, "interlock.server"):
        assert asyncio.run(story()) == 1
    assert [one.getMessage() for one in caplog.records] == [
        "the watch for notices failed (RuntimeError), and is begun anew"
    ] * 2
    assert all(one.exc_info is None for one in caplog.records)


def test_the_end_waits_for_what_is_noted_and_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> list[Notice]:
        board, told = Board(line()), Told()
        is_noting = asyncio.Event()
        loop, settle = asyncio.get_running_loop(), notify.LedgerFile.settle

        def noting(*given: object) -> object:
            loop.call_soon_threadsafe(is_noting.set)
            return settle(*given)  # type: ignore[arg-type]

        async with watched(tmp_path, board, told):
            await until(lambda: board.member is not None)
            monkeypatch.setattr(notify.LedgerFile, "settle", noting)
            board.tell(asking(2))
            await is_noting.wait()
        return told.notices

    assert [one.question for one in asyncio.run(story())] == ["Run pytest?"]


def test_the_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "ENDING_SECONDS", 0.01)
    monkeypatch.setattr(notify, "_CLOSING_SECONDS", 0.01)

    class Hanging(Told):
        async def deliver(self, notice: Notice) -> None:
            self.notices.append(notice)
            await asyncio.Event().wait()

    async def story() -> None:
        board, told = Board(asking()), Hanging()
        async with asyncio.timeout(100), watched(tmp_path, board, told):
            await until(lambda: told.notices, "it is being told")
        assert board.member is None

    asyncio.run(story())


def test_a_frame_that_cannot_be_read_harms_no_room(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        ear = BoardEar()
        assert ear.offer(b'{"secret": 1}', None)
        ear.end()
        assert [one async for one in ear.lines()] == []

    asyncio.run(story())
    assert "secret" not in caplog.text
    assert "cannot read a line of the board" in caplog.text


def test_what_waits_is_bounded_and_the_newest_line_of_each_task_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "MAX_LINES", 10)

    async def story() -> list[tuple[str, int]]:
        ear = BoardEar()
        for version in range(1, 7):  # twelve lines: the eleventh is one too many
            for task in ("ses_1", "ses_2"):
                told = line(version, task=task)
                ear.offer(msgspec.json.encode(BoardTask(tick=version, task=told)), None)
        lines, seen = ear.lines(), []
        for _ in range(3):
            one = await anext(aiter(lines))
            seen.append((str(one.summary.task_id), one.summary.version))  # type: ignore[union-attr]
        return seen

    assert asyncio.run(story()) == [("ses_1", 6), ("ses_2", 5), ("ses_2", 6)]


def test_it_is_a_member_of_the_real_room() -> None:
    async def story() -> list[object]:
        rooms, ear = Rooms(), BoardEar()
        rooms.join_board(ear, BoardJoin(id="r1"))
        rooms.set_supervised(SessionId("ses_1"), is_supervised=True)
        seen = await anext(aiter(ear.lines()))
        rooms.drop(ear)
        return [seen.summary.is_supervised]  # type: ignore[union-attr]

    assert asyncio.run(story()) == [True]


def test_without_a_channel_nothing_is_watched(tmp_path: Path) -> None:
    async def story() -> None:
        async with noticing(tmp_path, AT_ONCE, ()) as made:
            assert made is None

    asyncio.run(story())
    assert list(tmp_path.iterdir()) == []


def test_the_channels_are_those_that_need_no_terminal_and_a_missing_desktop_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    setup = Setup(home=tmp_path, settings=ServerSettings())
    assert serving._channels(setup) == []
    every = NotifySection(desktop=True, command=("x",), webhook="http://h/secret")
    named = Setup(home=tmp_path, settings=ServerSettings(), notify=every)
    assert [one.name for one in serving._channels(named)] == ["command", "webhook"]
    assert [one.getMessage() for one in caplog.records] == [
        "notifications by desktop fail: there is no notify-send here, or no desktop"
    ]
