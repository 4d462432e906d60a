"""The board in a real terminal that is resized while agents work: no row is stale, and who asks stays in sight."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from rich.cells import cell_len

from tests.cli.serving import until
from tests.e2e.test_a_day import ROW, Day, day, groups

pytestmark = [pytest.mark.deep, pytest.mark.timeout(600)]
SIZES: Final = ((80, 24), (200, 50), (60, 16), (120, 36), (12, 4), (181, 40), (99, 30), (3, 2), (80, 24), (120, 36))
TITLES: Final = ("asks", "ended-1", "ended-2", "ended-3", "ended-4", "ended-5", "talks")


def resized(here: Day, columns: int, rows: int) -> None:
    here.somebody.tmux("desk", "resize-window", "-t", "board", "-x", str(columns), "-y", str(rows))


def stands(here: Day, columns: int, rows: int) -> None:
    """Wait until the board fills that window: each session once, and none of another width."""

    def is_so() -> bool:
        lines = here.text("desk").splitlines()
        if len(lines) < 2:  # the window was resized a moment ago, and nothing is painted yet
            return False
        listed = [row[1] for line in lines if (row := ROW.match(line.split("│")[0])) is not None]
        once = all(listed.count(title) <= 1 for title in TITLES)
        fits = all(cell_len(line) <= columns for line in lines) and len(lines) <= rows
        panes = lines[1].count("│") if rows > 20 else -1
        expected = 2 if columns >= 180 else 1 if columns >= 100 else 0
        return once and fits and "asks" in listed and panes in (-1, expected) and lines[-1].startswith(" n next")

    until(is_so, f"a board of {columns}x{rows}", lambda: here.text("desk"))


def test_a_window_that_is_resized_while_agents_work(tmp_path: Path) -> None:
    with day(tmp_path) as here:
        here.open_board("desk")
        here.sees("desk", "There is no session yet.")
        for at in range(1, 6):
            here.run("stream", f"ended-{at}", "say All done.")
        here.run("stream", "talks", "pace 0.02; words 100000")
        here.run("pane", "asks", "ask Which colour? | red | green")
        here.sees("desk", "Which colour?")
        for first, second in pairwise(SIZES):
            for columns, rows in (first, second, first, second):  # as one drags an edge: nothing is waited for
                resized(here, columns, rows)
            if second[0] >= 60:
                stands(here, *second)
        expected = {"asks": "NEEDS YOU", "talks": "WORKING", **dict.fromkeys(TITLES[1:6], "DONE")}
        until(lambda: groups(here.text("desk")).keys() == expected.keys(), "all are there", lambda: here.text("desk"))
        assert groups(here.text("desk"))["asks"] == "NEEDS YOU"
        here.press("desk", "End")  # the asking one is the first; the list is scrolled away from it
        resized(here, 60, 16)
        stands(here, 60, 16)
