"""A region that may have nothing of some kind below it: how a composer is told from its likeness in the transcript."""

from __future__ import annotations

import re

from interlock.screen.regions import Located, RegionSpec
from interlock.screen.snapshot import read_snapshot

SPEC = RegionSpec(
    "composer",
    start=re.compile("^ > "),
    top=re.compile("^▄+$"),
    bottom=re.compile("^▀+$"),
    forbids_below=re.compile(r"^\S"),
)


def _located(*lines: str) -> range | None:
    return Located(read_snapshot("\n".join(lines), columns=40).rows, {"composer": SPEC})["composer"]


def test_a_block_with_only_allowed_rows_below_it_stands() -> None:
    assert _located("▄▄▄", " > old", "▀▀▀", "✦ an answer", "▄▄▄", " > draft", "▀▀▀", " a footer") == range(5, 6)


def test_its_own_bottom_border_is_not_forbidden() -> None:
    assert _located("▄▄▄", " > draft", " more", "▀▀▀") == range(1, 3)


def test_a_block_with_a_forbidden_row_below_it_is_not_there() -> None:
    assert _located("▄▄▄", " > old", "▀▀▀", "╭──╮", "│ ? │", "╰──╯") is None
