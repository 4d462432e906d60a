"""A capture of a terminal as it may be shown to anybody: harmless, and of a bounded size. Pure.

A character that could move a cursor, reorder a line or hide itself is replaced by one sign, so that every place of a
row stays the place that it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

import msgspec

from interlock.screen.snapshot import PLAIN, Row, Snapshot, Style
from interlock.vocabulary.events.audit import LastScreen
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.unsafe_text import UNSAFE
from interlock.vocabulary.wire.task_screen import (
    MAX_PAINT,
    MAX_ROW_CHARACTERS,
    MAX_ROWS,
    MAX_SCREEN_CHARACTERS,
    Paint,
    TaskScreen,
)

_SIGN: Final = "\ufffd"
_MAX_TITLE: Final = 200
_FLAGS: Final = (("bold", "1"), ("dim", "2"), ("italic", "3"), ("underline", "4"), ("reverse", "7"))


def show_screen(
    task_id: SessionId,
    snapshot: Snapshot,
    *,
    captured_at: datetime,
    age_seconds: float,
    problem: str = "",
    since: str = "",
) -> TaskScreen:
    """What to tell of a capture. `since`: the digest of the picture that is known already; `problem`: why it is not
    live."""
    rows, is_cut = _rows(snapshot.rows)
    paint = _paint(snapshot.rows, rows)
    is_visible = snapshot.cursor_visible is not False
    cursor = snapshot.cursor if is_visible else None
    digest = _digest(rows, paint, cursor, (snapshot.columns, len(snapshot.rows)))
    is_known = bool(since) and since == digest
    return TaskScreen(
        task_id=task_id,
        is_live=not problem,
        problem=harmless(problem),
        captured_at=captured_at,
        age_seconds=round(max(0.0, age_seconds), 3),
        columns=snapshot.columns,
        height=len(snapshot.rows),
        title=harmless(snapshot.title)[:_MAX_TITLE],
        cursor=cursor,
        digest=digest,
        is_unchanged=is_known,
        is_cut=is_cut or len(paint) >= MAX_PAINT,
        rows=() if is_known else rows,
        paint=() if is_known else paint,
    )


def show_last_screen(
    task_id: SessionId, kept: LastScreen, *, captured_at: datetime, now: datetime, since: str = ""
) -> TaskScreen:
    """What to tell of the last screen of an agent that has ended: its text, which is not live."""
    rows, is_cut = _rows([Row(text) for text in kept.rows.split("\n")])
    digest = _digest(rows, (), None, (kept.columns, len(rows)))
    is_known = bool(since) and since == digest
    return TaskScreen(
        task_id=task_id,
        is_live=False,
        has_ended=True,
        problem="the agent has ended; this is its last screen",
        captured_at=captured_at,
        age_seconds=round(max(0.0, (now - captured_at).total_seconds()), 3),
        columns=kept.columns,
        height=len(rows),
        digest=digest,
        is_unchanged=is_known,
        is_cut=is_cut,
        rows=() if is_known else rows,
    )


def harmless(text: str) -> str:
    """The text, with a sign for every character that does something else than to be read."""
    return UNSAFE.sub(_SIGN, text)


def _rows(shown: Sequence[Row]) -> tuple[tuple[str, ...], bool]:
    """Rows from the top on, as many as there is room for. Blank ones at the end are left out: the height is told."""
    rows: list[str] = []
    room = MAX_SCREEN_CHARACTERS
    for row in shown[:MAX_ROWS]:
        text = harmless(row.text[: min(MAX_ROW_CHARACTERS, room)])
        rows.append(text)
        room -= len(text)
    told = sum(map(len, rows))
    while rows and not rows[-1]:
        rows.pop()
    return tuple(rows), told < sum(len(row.text) for row in shown)


def _paint(shown: Sequence[Row], rows: Sequence[str]) -> tuple[Paint, ...]:
    found: list[Paint] = []
    for paint in _runs(shown, rows):
        if len(found) >= MAX_PAINT:
            break
        found.append(paint)
    return tuple(found)


def _runs(shown: Sequence[Row], rows: Sequence[str]) -> Iterator[Paint]:
    for at, text in enumerate(rows):
        for start, end, style in shown[at].spans:
            if style != PLAIN and start < len(text):
                sgr = sgr_of(style)
                if sgr:
                    yield Paint(at, start, min(end, len(text)), sgr)


@lru_cache(maxsize=1024)
def sgr_of(style: Style) -> str:
    """The SGR numbers of a style; a colour that no terminal has is left out."""
    numbers = [number for name, number in _FLAGS if getattr(style, name)]
    for kind, colour in (("38", style.fg), ("48", style.bg)):
        parts = [] if colour is None else colour.split(",")
        if all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts):
            numbers += [kind, "5", *parts] if len(parts) == 1 else [kind, "2", *parts] if len(parts) == 3 else []
    return ";".join(numbers)


def _digest(rows: Sequence[str], paint: Sequence[Paint], cursor: tuple[int, int] | None, size: tuple[int, int]) -> str:
    raw = msgspec.json.encode((rows, paint, cursor, size))
    return hashlib.sha256(raw).hexdigest()[:32]
