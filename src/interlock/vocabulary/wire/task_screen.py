"""What the terminal of an agent shows, as a server tells it.

Laws:
1. `rows` hold no control character and nothing that reorders a line: what a terminal prints of them is what they say.
2. `is_live` is false where nobody sees the terminal now. Then `problem` says why, and the rows are of `captured_at`.
3. `digest` names rows, paint, cursor and size together: the same digest is the same picture.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionIdField

MAX_ROWS: Final = 400
MAX_ROW_CHARACTERS: Final = 1_024
MAX_SCREEN_CHARACTERS: Final = 100_000
MAX_PAINT: Final = 8_000


class Paint(Struct, frozen=True, array_like=True):
    """Characters `start` up to `end` of a row, in the colour that these SGR numbers name."""

    row: Count
    start: Count
    end: Count
    sgr: Annotated[str, Meta(pattern=r"^[0-9;]{1,64}$")]


class TaskScreen(Struct, frozen=True, kw_only=True):
    """The terminal of an agent. While it `is_live`, it shows this now, and last changed `age_seconds` ago; else it
    showed this then. `has_ended`: the agent has ended, and this is its last screen,
    without colours. `cursor` is (column, row), from 0. `is_cut`: it holds more than is told.

    `is_unchanged`: the picture is the one whose digest was named, and is not told again.
    """

    task_id: SessionIdField
    is_live: bool
    problem: str = ""
    captured_at: Moment
    age_seconds: float
    columns: Count
    height: Count
    title: str = ""
    cursor: tuple[int, int] | None = None
    digest: str
    is_unchanged: bool = False
    has_ended: bool = False
    is_cut: bool = False
    rows: tuple[str, ...] = ()
    paint: tuple[Paint, ...] = ()
