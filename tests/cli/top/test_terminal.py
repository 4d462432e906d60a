"""The terminal pane of the board, answers by a click, and more room for what is read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

from interlock.agents.port import ScreenSeen
from interlock.cli.tables import Tone
from interlock.cli.top import drawing
from interlock.cli.top.layout.questions import option_at, question_lines
from interlock.cli.top.screening import ScreenFeed
from interlock.cli.top.terminal import style_of
from interlock.client.errors import Refusal
from interlock.client.task import TaskHandle
from interlock.screen.snapshot import read_snapshot
from interlock.testing.puppet import EVERYTHING, Puppet, PuppetDriver
from interlock.vocabulary.errors import PeerFault, Unreachable
from interlock.vocabulary.wire.requests import Problem
from interlock.vocabulary.wire.task_screen import TaskScreen
from tests.cli.top.stage import COLOURS, SIZES, House, Seat
from tests.cli.top.test_layout import NOW, asked
from tests.client.waiting import until
from tests.contract.harness import run


def show(puppet: Puppet, *rows: str, why: str = "", age_seconds: float = 0.0, columns: int = 120) -> None:
    """What the terminal of a puppet shows."""
    vars(puppet)["screen"] = ScreenSeen(
        snapshot=read_snapshot("\n".join(rows), columns=columns, height=40, cursor=(2, max(0, len(rows) - 1))),
        captured_at_seconds=time.monotonic() - age_seconds,
        problem=why,
    )


@asynccontextmanager
async def at_terminal(size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Seat, Puppet, House]]:
    """A board over an agent with a terminal, and one without."""
    driver = PuppetDriver(replace(EVERYTHING, outlives_runtime=True), name="terminal")
    house = House(driver=driver)
    async with house.serving():
        puppet = await house.open("drawn", "go")
        assert puppet is not None
        async with house.board(size) as seat:
            await seat.selects("drawn")
            yield seat, puppet, house


def test_the_terminal_takes_the_place_of_the_transcript_and_says_how_it_stands() -> None:
    async def story() -> None:
        async with at_terminal() as (seat, puppet, _):
            await seat.sees("transcript   l terminal", "l terminal")
            show(puppet, "\x1b[1mrow one\x1b[0m \u202e\x1b]0;x\x07", "> draft")
            await seat.sees("terminal, live", "l transcript", "row one \ufffd", "> draft")  # without a key
            show(puppet, "row two", age_seconds=30.0)
            await seat.sees("row two", "live, unchanged for 30s")
            show(puppet, "row three", why="tmux cannot be reached", age_seconds=30.0)
            text = await seat.sees("row three", "not live, 30s old: tmux cannot be reached")
            assert "row two" not in text
            vars(puppet)["screen"] = None
            await seat.sees("transcript   l terminal")  # of no terminal there is nothing to show
            assert "row three" not in seat.text

    run(story())


def test_it_is_asked_for_only_while_it_is_shown() -> None:
    async def story() -> None:
        async with at_terminal() as (seat, puppet, house):
            show(puppet, "row one")
            looks = []
            plain = TaskHandle.screen

            async def counted(self: TaskHandle, since: str = "") -> TaskScreen:
                looks.append(since)
                return await plain(self, since)

            with pytest.MonkeyPatch.context() as patch:
                await seat.press("l")  # the transcript in its place
                await until(lambda: not any(one.is_running for one in seat.app.workers if one.group == "screen"))
                patch.setattr(TaskHandle, "screen", counted)
                await seat.is_drawn()
                assert looks == []
                await seat.press("l")
                await until(lambda: len(looks) >= 2)
                assert (looks[0], bool(looks[1])) == ("", True)  # what is known is not told again
                await house.open("other")
                await seat.sees("other")
                await seat.press("G")
                await seat.selects("other")
                count = len(looks)
                assert seat.app.screen_feed is not None  # it is wanted of each that has one
                await until(lambda: len(looks) > count)
                await until(lambda: sum(one.is_running for one in seat.app.workers if one.group == "screen") == 1)
                await seat.press("l")
                await seat.is_drawn()
                await until(lambda: not any(one.is_running for one in seat.app.workers if one.group == "screen"))
                assert seat.app.parts is not None
                assert not seat.app.parts.terminal.display

    run(story())


def test_another_picture_takes_the_place_of_the_last_one_also_if_it_came_before_the_next_redraw() -> None:
    async def story() -> None:
        async with at_terminal() as (seat, puppet, _):
            show(puppet, "row one")
            await seat.sees("row one")
            await seat.press("l")
            await seat.misses("row one")
            show(puppet, "row two")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(drawing, "draw", lambda *_: None)
                await seat.press("l")
                await until(lambda: seat.app.screen_feed is not None and seat.app.screen_feed.screen is not None)
            await seat.sees("terminal, live", "row two")
            assert "row one" not in seat.text

    run(story())


@pytest.mark.deep
@pytest.mark.parametrize("size", SIZES)
def test_the_terminal_is_scrolled_panned_and_given_all_the_room(size: tuple[int, int]) -> None:
    async def story() -> None:
        async with at_terminal(size) as (seat, puppet, _):
            show(puppet, *(f"row {at:02} {'-' * 90} end {at:02}" for at in range(38)), "> draft")
            await seat.sees("row 37", "> draft")
            assert "row 00" not in seat.text
            await seat.press("tab", "home")
            await seat.sees("row 00")
            assert "> draft" not in seat.text
            show(puppet, *(f"row {at:02} changed" for at in range(38)), "> draft")
            await seat.sees("row 00 changed")  # it stays where somebody reads
            show(puppet, *(f"row {at:02} {'-' * 90} end {at:02}" for at in range(38)), "> draft")
            await seat.sees("row 00 ---")
            await seat.press("down", "j")
            await seat.misses("row 01")
            await seat.press("up", "k")
            await seat.sees("row 00")
            await seat.press("pagedown")
            await seat.misses("row 00")
            await seat.press("pageup")
            await seat.sees("row 00")
            await seat.press(*["right"] * 6)
            await seat.sees("end 00")
            await seat.press(*["left"] * 6)
            await seat.sees("row 00")
            await seat.press("G")
            await seat.sees("> draft")
            for event in (MouseScrollUp, MouseScrollDown):
                await seat.pilot._post_mouse_events([event], "#terminal", button=0)
                if event is MouseScrollUp:
                    await seat.misses("> draft")
            await seat.sees("> draft")
            await seat.press("z")
            await seat.sees("drawn: terminal, live")
            assert "why:" not in seat.text
            await seat.reads(
                lambda text: len([line for line in text.splitlines() if "row" in line]) > size[1] - 6,
                "the terminal has not got all the room",
            )
            await seat.press("z")
            await seat.sees("by terminal", "▌")

    run(story())


def test_an_answer_is_chosen_with_a_click_and_nothing_else_is() -> None:
    async def story() -> None:
        house = House()
        async with house.serving():
            puppet = await house.asking("first", "Which colour?", options=COLOURS)
            async with house.board() as seat:
                await seat.sees("Which colour?", "2  green")
                seat.app.grace_seconds = 3600.0  # what has only just appeared is not answered by a click
                await _click(seat, "2  green")
                await seat.sees("this question has only just appeared")
                seat.app.grace_seconds = 0.0
                await _click(seat, "Which colour?")
                await _click(seat, "1-3 choose")
                await seat.press("s")  # what comes after it is taken, so those were nothing
                await seat.sees("first: your prompt")
                await seat.press("escape")
                assert not puppet.decisions
                await _click(seat, "2  green")
                await until(lambda: puppet.decisions)
                assert puppet.decisions[0].option_id == "green"
                await seat.sees("answered with 'green'")

    run(story())


async def _click(seat: Seat, word: str) -> None:
    pilot: Pilot[int] = seat.pilot
    row = next(at for at, line in enumerate(seat.text.splitlines()) if word in line)
    await pilot.hover(offset=(6, row))
    assert await pilot.click(offset=(6, row))


def test_the_row_of_an_answer_is_found_also_where_it_takes_two() -> None:
    options = [{"label": "x" * 100}, {"label": "short"}, *({"label": f"no key {at}"} for at in range(3, 12))]
    one = asked(attention="question", options=options)
    for height in (8, 40):
        lines = question_lines([one], 0, 60, height, NOW)
        found = [option_at(one, 60, len(lines), row) for row in range(len(lines))]
        assert [number for number in found if number] == [1, 1, *range(2, 12)]
        for row, number in enumerate(found):
            text = "".join(piece for piece, _ in lines[row])
            assert (number == 2) == ("short" in text)
            assert (number == 11) == ("no key 11" in text)
    assert option_at(asked(), 60, 3, 1) is None


class FakeHandle:
    """A handle whose screens a test decides."""

    def __init__(self) -> None:
        self.next: TaskScreen | Exception | None = None

    async def screen(self, since: str = "") -> TaskScreen:
        assert self.next is not None
        if isinstance(self.next, Exception):
            raise self.next
        is_known = since == self.next.digest
        return msgspec.structs.replace(self.next, is_unchanged=is_known, rows=() if is_known else self.next.rows)


def picture(row: str, **more: object) -> TaskScreen:
    fields = {"is_live": True, "age_seconds": 0.0, "digest": row, **more}
    base = {"task_id": "ses_1", "captured_at": NOW.isoformat(), "columns": 80, "height": 24, "rows": [row]}
    return msgspec.convert({**base, **fields}, TaskScreen)


def test_the_last_picture_is_kept_and_grows_old_while_nobody_answers() -> None:
    async def story() -> None:
        handle, now = FakeHandle(), [100.0]
        feed = ScreenFeed(handle, lambda: None, lambda: now[0])  # type: ignore[arg-type]
        assert feed.said(is_connected=True) == ("looking", Tone.FAINT)
        handle.next = picture("one")
        await feed.look()
        assert feed.said(is_connected=True) == ("live", Tone.FAINT)
        await feed.look()
        assert feed.screen is not None
        assert (list(feed.screen["rows"]), feed.screen["digest"]) == (["one"], "one")
        now[0] = 107.0
        assert feed.said(is_connected=False) == ("not live, 7s old: the server is not heard", Tone.DOUBTFUL)
        for error in (Unreachable("away"), PeerFault("odd")):
            handle.next = error
            await feed.look()
            assert feed.said(is_connected=True) == (f"not live, 7s old: {error}", Tone.DOUBTFUL)
            assert list(feed.screen["rows"]) == ["one"]
        handle.next = picture("two", is_live=False, problem="tmux is gone", age_seconds=3.0)
        await feed.look()
        assert feed.said(is_connected=True) == ("not live, 3s old: tmux is gone", Tone.DOUBTFUL)
        assert list(feed.screen["rows"]) == ["two"]
        handle.next = Refusal(Problem(title="x", status=404, code="not_found", detail="no agent runs"))
        await feed.look()
        assert feed.said(is_connected=True) == ("no agent runs", Tone.FAINT)
        assert not feed.screen

    asyncio.run(story())


def test_colours_of_an_agent_are_exact_and_those_that_make_no_sense_are_left_out() -> None:
    assert style_of("38;5;196").color == style_of("38;2;255;0;0").color
    assert style_of("1;7").bold
    assert style_of("1;7").reverse
    ground = style_of("")
    assert (ground.color, ground.bgcolor) == (style_of("1").color, style_of("38;5;1").bgcolor)
    assert style_of("38;5;1").color != ground.color
    assert style_of("48;5;1").bgcolor != ground.bgcolor
    assert style_of("999") == ground
