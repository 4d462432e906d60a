"""The work of `interlock ps`: every session, who needs a person first. Loads no parser, no msgspec and no rich.

Law: a server that cannot be asked is an error, and never an empty list; a list that is not whole, or that may be old
because the server cannot write its log, says so.

`--watch` asks again each second and does not follow the board's room: what it draws grows older by itself (FOR, and the
countdown of an idle agent), so that it is drawn each second anyway, and one small question to this machine costs less
than the client library does to load. It may miss what lasts less than a second; `interlock top` follows the room.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from interlock.cli import output
from interlock.cli.look.session_lines import (
    Shown,
    age,
    by_attention,
    countdown_of,
    duration,
    group_of,
    short_ids,
    shown_of,
    since_of,
    why_of,
)
from interlock.cli.places import changes_of, cost_of, files_of, place_of
from interlock.cli.server.api import ServerApi, listed
from interlock.cli.tables import GAP, Column, Line, TableRow, Tone, cut, table, terminal_columns
from interlock.cli.wire.json_answers import sessions_json
from interlock.cli.wire.routes import PAGE, TASKS
from interlock.vocabulary.errors import Unreachable

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import SessionsJson
    from interlock.vocabulary.wire.json_types import TaskSummaryJson

T = TypeVar("T")
EVERY_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60.0
_COMPLETE, _PARTIAL = 0, 3
_COLUMNS: Final = (
    Column("SESSION"),
    Column("AGENT", 6, gives=3),
    Column("SHOWS", 17, gives=2),
    Column("FOR", is_number=True),
    Column("Q", is_number=True),
    Column("TITLE", 20, gives=5),
    Column("CHANGES"),
    Column("FOLDER", 14, gives=4),
    Column("USD", is_number=True),
    Column("WHY", 14, gives=1),
)
_DROPPED: Final = ("FOLDER", "USD", "CHANGES", "Q", "AGENT", "WHY")  # where there is no room, the first one first
_SHORTEST_TITLE: Final = 24
_TONES: Final = {
    "stalled": Tone.DOUBTFUL,
    "unknown": Tone.DOUBTFUL,
    "starting": Tone.ACTIVE,
    "working": Tone.ACTIVE,
    "settling": Tone.ACTIVE,
    "quiet": Tone.CALM,
}


class FoundSessions(NamedTuple):
    """Every session, who needs a person first; whether these are all; and why they may be old, if they may."""

    tasks: list[TaskSummaryJson]
    is_complete: bool
    log_problem: str = ""


def list_sessions(home: Path, *, every: bool, json: bool, is_tree: bool = False) -> int:
    """Print the sessions once."""
    found = ask(ServerApi.of_home(home))
    if json:
        print_sessions(found)
    else:
        draw = _tree if is_tree else board
        output.print_painted(draw(found.tasks, every=every, now=datetime.now(UTC)))
        output.flush()  # who reads nothing is told nothing about it either
        tell_hidden(found.tasks, every=every)
    return max(tell_incomplete(found.is_complete), tell_unwritten(found.log_problem))


def _tree(tasks: Sequence[TaskSummaryJson], *, every: bool, now: datetime) -> list[Line]:
    from interlock.cli.children.tree import tree

    return tree(tasks, every=every, now=now)


def ask(api: ServerApi) -> FoundSessions:
    """Ask for every session."""
    pages = list(api.pages(TASKS, lambda page: page["next"], limit=PAGE))
    tasks, last = [task for page in pages for task in listed(page)], pages[-1]
    return FoundSessions(by_attention(tasks), bool(last["is_complete"]), str(last.get("log_problem", "")))


def tell_incomplete(is_complete: bool) -> int:
    """Say if the list may lack something; the exit code."""
    if is_complete:
        return _COMPLETE
    output.note("the server has not read all of its log yet: there may be more sessions, ask again")
    return _PARTIAL


def tell_unwritten(log_problem: str) -> int:
    """Say if what is shown may be old; the exit code."""
    if not log_problem:
        return _COMPLETE
    output.note(f"the server cannot write its log, so that this is what was last recorded: {log_problem}")
    return _PARTIAL


def tell_hidden(tasks: Sequence[TaskSummaryJson], *, every: bool) -> None:
    """Say what is not in the list, and where there is nothing at all."""
    over = 0 if every else sum(shown_of(task).is_over for task in tasks)
    if over:
        output.note(f"{over} that ended {'is' if over == 1 else 'are'} not shown: --all")
    if not tasks:
        output.note("there is no session yet")


def print_sessions(found: FoundSessions) -> None:
    """The sessions as JSON, in the order of the list."""
    import json

    told: SessionsJson = {
        "sessions": sessions_json(found.tasks),
        "is_complete": found.is_complete,
        "log_problem": found.log_problem,
    }
    output.print_plain_json(json.dumps(told, ensure_ascii=False, separators=(",", ":")))


def board(tasks: Sequence[TaskSummaryJson], *, every: bool, now: datetime) -> list[Line]:
    """The table: nothing where there is nothing to show."""
    shorts = short_ids([str(task["task_id"]) for task in tasks])
    listed = [task for task in tasks if every or not shown_of(task).is_over]
    if not listed:
        return []
    width = terminal_columns()
    rows = [_row(task, shorts, now, width) for task in listed]
    shown = list(range(len(_COLUMNS))) if width is None else _fitting(rows, width)
    titles = {_COLUMNS[at].title for at in shown}
    rows = [_with_figures(task, row, titles) for task, row in zip(listed, rows, strict=True)]
    head, *lines = table(
        [_COLUMNS[at] for at in shown],
        [TableRow(tuple(row.cells[at] for at in shown), tuple(row.tones[at] for at in shown)) for row in rows],
    )
    if width is None or len(lines) != len(listed):
        return [head, *lines]  # what a pipe gets is one line a session
    grouped: list[Line] = [head]
    for at, (task, line) in enumerate(zip(listed, lines, strict=True)):
        group = group_of(shown_of(task))
        if not at or group != group_of(shown_of(listed[at - 1])):
            count = sum(group_of(shown_of(one)) == group for one in listed)
            grouped.append([(group.upper(), Tone.HEAD.value), (f"  {count}", Tone.FAINT.value)])
        grouped.append(line)
    return grouped


def _fitting(rows: Sequence[TableRow], width: int) -> list[int]:
    """The columns that have room beside each other, each with the least that it needs. Empty ones take none."""
    shown = [at for at, one in enumerate(_COLUMNS) if one.title == "WHY" or any(row.cells[at] for row in rows)]
    least = {at: _least(at, rows) for at in shown}
    for title in _DROPPED:
        if sum(least[at] for at in shown) + len(GAP) * (len(shown) - 1) <= width:
            break
        shown = [at for at in shown if _COLUMNS[at].title != title]
    return shown


def _least(at: int, rows: Sequence[TableRow]) -> int:
    column = _COLUMNS[at]
    natural = max(output.columns(output.escape(one)) for one in (column.title, *(row.cells[at] for row in rows)))
    return natural if column.least is None else min(natural, column.least)


def _with_figures(task: TaskSummaryJson, row: TableRow, titles: Collection[str]) -> TableRow:
    """What has no column of its own is told at the end of the row, of a session that asks nothing."""
    if shown_of(task).needs_person:
        return row
    files = "" if "CHANGES" in titles else files_of(task)
    cost = "" if "USD" in titles else cost_of(task)
    return TableRow((*row.cells[:-1], " · ".join(one for one in (files, cost, row.cells[-1]) if one)), row.tones)


def _row(task: TaskSummaryJson, shorts: dict[str, str], now: datetime, width: int | None) -> TableRow:
    shown = shown_of(task, now)
    title = str(task.get("title", ""))
    cells = (
        shorts[str(task["task_id"])],
        str(task.get("agent", "")),
        shown.words,
        age(since_of(task), now),
        str(task.get("queued") or ""),
        title if width is None else cut(output.escape(title), max(_SHORTEST_TITLE, width // 3)),
        changes_of(task),
        place_of(task),
        cost_of(task),
        countdown_of(task, now) or why_of(task),
    )
    tone = tone_of(shown)
    return TableRow(cells, (Tone.PLAIN, Tone.PLAIN, tone, *[Tone.PLAIN] * 6, _why_tone(shown)))


def tone_of(shown: Shown) -> Tone:
    """The colour of what a session shows."""
    if shown.needs_person:
        return Tone.URGENT
    if shown.group == "done":
        return Tone.HEAD
    if shown.has_failed:
        return Tone.DOUBTFUL
    return _TONES.get(shown.activity, Tone.FAINT)


def _why_tone(shown: Shown) -> Tone:
    return Tone.PLAIN if shown.needs_person else Tone.FAINT


def watch_sessions(home: Path, *, every: bool, json: bool, patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Print the sessions each time that something changed, until Ctrl-C. A terminal is redrawn each second."""
    from interlock.cli.server.waiting import started_api

    shown: object = None
    told_problem = ""
    try:
        started_api(home)
        for found in _looks(home, patience_seconds):
            if json:
                if found.tasks != shown:
                    print_sessions(found)
            else:
                _draw(found, shown, every=every)
            if found.log_problem != told_problem:
                tell_unwritten(found.log_problem)
            output.flush()
            shown, told_problem = found.tasks, found.log_problem
    except KeyboardInterrupt:
        pass
    return _COMPLETE


def _draw(found: FoundSessions, shown: object, *, every: bool) -> None:
    now, is_terminal = datetime.now(UTC), terminal_columns() is not None
    if not is_terminal and found.tasks == shown:
        return
    lines = board(found.tasks, every=every, now=now) or [[("nothing to show", "")]]
    doubts = f"{'' if found.is_complete else ', perhaps more'}{', as last recorded' if found.log_problem else ''}"
    head = f"{now.astimezone():%H:%M:%S}  {len(found.tasks)} sessions{doubts}"
    output.print_painted([[(head, Tone.FAINT.value)], *lines], is_redrawn=True)


def _looks(home: Path, patience_seconds: float) -> Iterator[FoundSessions]:
    return looks(lambda: ask(ServerApi.of_home(home)), patience_seconds, EVERY_SECONDS, was_there=True)


def looks(
    look: Callable[[], T], patience_seconds: float, every_seconds: float, *, was_there: bool = False
) -> Iterator[T]:
    """One look after the other. A server that was there and is not is waited for, not for ever, and said to be away."""
    lost_at: float | None = None
    has_seen = was_there
    while True:
        try:
            found = look()
        except Unreachable as away:
            now = time.monotonic()
            if not has_seen or (lost_at is not None and now - lost_at > patience_seconds):
                raise
            if lost_at is None:
                lost_at = now
                output.note(f"{away}\nwhat was shown is not known any more; waiting up to {duration(patience_seconds)}")
        else:
            lost_at, has_seen = None, True
            yield found
        time.sleep(every_seconds)
