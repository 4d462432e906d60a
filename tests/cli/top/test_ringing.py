"""The bell of the board: once for each edge, in one terminal, and for nothing that was there when it opened."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from interlock.cli.top import bell as ringing
from interlock.cli.top.bell import Ringing
from interlock.client.client import Client
from interlock.client.iterators import Lines, Wakeup
from interlock.projections.attention import Lost, Sighted, Surveyed
from interlock.runtime.config.sections import NotifySection
from interlock.runtime.notify.notifier import BELL_LEDGER_NAME, LEDGER_NAME
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import TaskSummary
from tests.cli.serving import Served, serving
from tests.cli.serving import until as looked_for
from tests.cli.top.stage import House
from tests.cli.top.test_command import Terminal
from tests.client.waiting import until
from tests.projections.test_attention import asking, line

AT_ONCE = NotifySection(quiet_seconds=0.0)
BELL = "\a"


def unheard(why: str) -> None:
    raise AssertionError(why)


class Board:
    """A client whose every word a test decides."""

    def __init__(self, *present: TaskSummary) -> None:
        self.present = list(present)
        self.is_connected = True
        self.trouble: Unreachable | None = None
        self.asked = 0
        self.lines = Lines({}, lambda: self.trouble, Wakeup())

    def board(self) -> Lines:
        return self.lines

    async def tasks(self) -> tuple[TaskSummary, ...]:
        self.asked += 1
        return tuple(self.present)

    def say(self, *lines: TaskSummary) -> None:
        for one in lines:
            self.lines.put(one)


@asynccontextmanager
async def rung(
    folder: Path, board: Board, settings: NotifySection = AT_ONCE, reports: list[str] | None = None
) -> AsyncIterator[io.StringIO]:
    """A board that rings, for the block. It has noted what is there when the block begins."""
    terminal = io.StringIO()
    report = unheard if reports is None else reports.append
    work = Ringing(folder, settings, {}).ring(cast("Client", board), terminal, report)
    task = asyncio.create_task(work)
    try:
        await until(lambda: (folder / BELL_LEDGER_NAME).exists() or task.done(), "the board is read")
        yield terminal
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def rings(terminal: io.StringIO, times: int) -> None:
    await until(lambda: len(terminal.getvalue()) >= times, f"{times} rings")
    assert terminal.getvalue() == BELL * times


def other(version: int, question: str = "Run pytest?") -> TaskSummary:
    return asking(version, question, task_id=SessionId("ses_2"))


def test_what_is_there_at_the_opening_does_not_ring_and_what_comes_does(tmp_path: Path) -> None:
    async def story() -> None:
        board = Board(asking())
        async with rung(tmp_path, board) as terminal:
            board.say(asking(), asking(2), other(1))
            await rings(terminal, 1)
            board.say(other(1), asking(3, "Another?"))
            await rings(terminal, 2)

    asyncio.run(story())


def test_boards_of_one_home_ring_once_between_them_also_one_after_the_other(tmp_path: Path) -> None:
    async def story() -> None:
        board, beside = Board(line()), Board(line())
        async with rung(tmp_path, board) as terminal, rung(tmp_path, beside) as neighbour:
            board.say(asking(2))
            await rings(terminal, 1)
            beside.say(asking(2), other(1))
            await rings(neighbour, 1)
        again = Board()
        async with rung(tmp_path, again) as terminal:
            again.say(asking(2), other(1), other(2, "And this?"))
            await rings(terminal, 1)

    asyncio.run(story())


def test_the_ledger_is_not_that_of_the_server(tmp_path: Path) -> None:
    async def story() -> None:
        board = Board(line())
        async with rung(tmp_path, board) as terminal:
            board.say(asking(2))
            await rings(terminal, 1)

    asyncio.run(story())
    assert (tmp_path / BELL_LEDGER_NAME).exists()
    assert not (tmp_path / LEDGER_NAME).exists()


def test_a_lost_connection_is_told_and_then_every_line_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringing, "LOOK_SECONDS", 0.001)

    async def story() -> list[object]:
        board = Board(asking(2))
        lines = ringing._lines(cast("Client", board))
        board.say(line())
        seen: list[object] = [await anext(lines)]
        board.is_connected = False
        seen.append(await anext(lines))
        board.is_connected = True
        seen.append(await anext(lines))
        board.lines.end()
        seen += [one async for one in lines]
        return seen

    assert asyncio.run(story()) == [Sighted(line()), Lost(), Sighted(asking(2)), Surveyed()]


def test_trouble_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringing, "RETRY_SECONDS", 0.001)

    async def story() -> object:
        board = Board()
        board.trouble = Unreachable("away")
        lines = ringing._lines(cast("Client", board))
        waiting = asyncio.ensure_future(anext(lines, None))
        await asyncio.sleep(0)
        board.trouble = None
        board.say(line())
        async with asyncio.timeout(100):
            return await waiting

    assert asyncio.run(story()) == Sighted(line())


def test_a_server_that_is_away_at_the_opening_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringing, "RETRY_SECONDS", 0.001)

    class Away(Board):
        async def tasks(self) -> tuple[TaskSummary, ...]:
            if not self.asked:
                self.asked += 1
                raise Unreachable("away")
            return await super().tasks()

    async def story() -> None:
        board = Away(asking())
        async with rung(tmp_path, board) as terminal:
            board.say(asking(), other(1))
            await rings(terminal, 1)
            assert board.asked == 2

    asyncio.run(story())


def test_a_failure_is_said_once_and_is_the_end_of_the_bell_alone(tmp_path: Path) -> None:
    class Broken(Board):
        def board(self) -> Lines:
            raise RuntimeError("secret")

    async def story() -> list[str]:
        reports: list[str] = []
        board = Broken(line())
        async with rung(tmp_path, board, reports=reports):
            await until(lambda: reports, "it is said")
        return reports

    assert asyncio.run(story()) == ["the bell does not ring any more (RuntimeError); everything else goes on"]


def test_without_a_bell_nothing_is_watched(tmp_path: Path) -> None:
    async def story() -> int:
        board = Board(asking())
        async with rung(tmp_path, board, NotifySection(bell=False, webhook="http://h/", command=("x",))) as terminal:
            assert terminal.getvalue() == ""
        return board.asked

    assert asyncio.run(story()) == 0
    assert list(tmp_path.iterdir()) == []


def test_commands_and_webhooks_are_the_servers_and_a_terminal_shows_where_there_is_no_desktop(tmp_path: Path) -> None:
    settings = NotifySection(desktop=True, webhook="http://h/", command=("x",))
    terminal = io.StringIO()

    def names(**environ: str) -> list[str]:
        return [one.name for one in Ringing(tmp_path, settings, environ).channels(terminal)]

    assert names(PATH="", TERM="foot") == ["bell", "terminal"]
    assert names(PATH="", TERM="xterm") == ["bell"]
    program = tmp_path / "notify-send"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert names(PATH=str(tmp_path), DISPLAY=":0", TERM="foot") == ["bell"]


def test_the_board_rings_by_its_own_terminal(tmp_path: Path) -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            ours = Ringing(tmp_path, AT_ONCE, {})
            async with house.board(ringing=ours) as seat:
                written: list[str] = []
                driver: Any = seat.app._driver
                driver.write = written.append
                await until((tmp_path / BELL_LEDGER_NAME).exists, "it is open")
                await house.asking("parser")
                await until(lambda: BELL in written, "it rings")
                await house.asking("docs")
                await until(lambda: written.count(BELL) > 1, "it rings again")
                assert written.count(BELL) == 2

    asyncio.run(story())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401  # a generator of a server
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERLOCK_NOTIFY_QUIET_SECONDS", "0")
        with serving(tmp_path_factory.mktemp("ringing")) as one:
            yield one


def test_a_real_board_rings_once(served: Served) -> None:
    terminal = Terminal("top", home=served.home)
    try:
        terminal.read_until(b"There is no session yet.")
        looked_for((served.home / BELL_LEDGER_NAME).exists, "it is open")
        first = served.open("ask Which port? | 80 | 8080", title="first")
        terminal.read_until(b"Which port?")
        second = served.open("ask Which host? | a | b", title="second")
        looked_for(lambda: bells(terminal) >= 2, "it rings twice", lambda: repr(terminal.output[-500:]))
        for task_id in (first, second):
            served.shows(task_id, attention="question")
        terminal.type(b"q")
        assert terminal.ends() == 0
        assert bells(terminal) == 2
    finally:
        terminal.close()


def bells(terminal: Terminal) -> int:
    """Bells that ring: not those that end a sequence."""
    terminal._read()
    return re.sub(rb"\x1b\][^\x07\x1b]*\x07", b"", terminal.output).count(b"\a")
