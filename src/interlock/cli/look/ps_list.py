"""The work of `interlock ps`: every session, who needs a person first. Loads no parser, no msgspec and no rich.

Law: a server that cannot be asked is an error, and never an empty list; a list that is not whole, or that may be old
because the server cannot write its log, says so.

`--watch` asks again each second and does not follow the board's room: what it draws grows older by itself (FOR, and the
countdown of an idle agent), so that it is drawn each second anyway, and one small question to this machine costs less
than the client library does to load. It may miss what lasts less than a second; `interlock top` follows the room.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from interlock.cli import output
from interlock.cli.look.session_lines import (
    PAGE,
    Shown,
    age,
    by_attention,
    countdown_of,
    duration,
    short_ids,
    shown_of,
    since_of,
    why_of,
)
from interlock.cli.server.api import Body, ServerApi, listed
from interlock.cli.tables import Column, Line, TableRow, Tone, table, terminal_columns
from interlock.vocabulary.errors import Unreachable

T = TypeVar("T")
EVERY_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60.0
_COMPLETE, _PARTIAL = 0, 3
_COLUMNS: Final = (
    Column("SESSION"),
    Column("AGENT", 6, gives=3),
    Column("SHOWS", 12, gives=2),
    Column("FOR", is_number=True),
    Column("Q", is_number=True),
    Column("TITLE", 10),
    Column("WHY", 14, gives=1),
)
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

    tasks: list[Body]
    is_complete: bool
    log_problem: str = ""


def list_sessions(home: Path, *, every: bool, json: bool) -> int:
    """Print the sessions once."""
    found = ask(ServerApi.of_home(home))
    if json:
        print_summaries(found.tasks)
    else:
        output.print_painted(board(found.tasks, every=every, now=datetime.now(UTC)))
        output.flush()  # who reads nothing is told nothing about it either
        tell_hidden(found.tasks, every=every)
    return max(tell_incomplete(found.is_complete), tell_unwritten(found.log_problem))


def ask(api: ServerApi) -> FoundSessions:
    """Ask for every session."""
    tasks, last = read_all(api, "/api/tasks")
    return FoundSessions(by_attention(tasks), bool(last["is_complete"]), str(last.get("log_problem", "")))


def read_all(api: ServerApi, path: str) -> tuple[list[Body], Body]:
    """What all pages list, and the last page: it tells whether that is all."""
    items: list[Body] = []
    after: str | None = None
    while True:
        page = api.get(path, limit=PAGE, after=after)
        items += listed(page)
        after = page["next"]
        if after is None:
            return items, page


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


def tell_hidden(tasks: Sequence[Body], *, every: bool) -> None:
    """Say what is not in the list, and where there is nothing at all."""
    over = 0 if every else sum(shown_of(task).is_over for task in tasks)
    if over:
        output.note(f"{over} that ended {'is' if over == 1 else 'are'} not shown: --all")
    if not tasks:
        output.note("there is no session yet")


def print_summaries(tasks: Sequence[Body]) -> None:
    """The summaries as the server told them, in the order of the list."""
    import json

    output.print_plain_json(json.dumps(tasks, ensure_ascii=False, separators=(",", ":")))


def board(tasks: Sequence[Body], *, every: bool, now: datetime) -> list[Line]:
    """The table: nothing where there is nothing to show."""
    shorts = short_ids([str(task["task_id"]) for task in tasks])
    rows = [_row(task, shorts, now) for task in tasks if every or not shown_of(task).is_over]
    return table(_COLUMNS, rows) if rows else []


def _row(task: Body, shorts: dict[str, str], now: datetime) -> TableRow:
    shown = shown_of(task, now)
    cells = (
        shorts[str(task["task_id"])],
        str(task.get("agent", "")),
        shown.words,
        age(since_of(task), now),
        str(task.get("queued") or ""),
        str(task.get("title", "")),
        countdown_of(task, now) or why_of(task),
    )
    tone = tone_of(shown)
    return TableRow(cells, (Tone.PLAIN, Tone.PLAIN, tone, Tone.PLAIN, Tone.PLAIN, Tone.PLAIN, _why_tone(shown)))


def tone_of(shown: Shown) -> Tone:
    """The colour of what a session shows."""
    if shown.needs_person:
        return Tone.URGENT
    if shown.has_failed:
        return Tone.DOUBTFUL
    return _TONES.get(shown.activity, Tone.FAINT)


def _why_tone(shown: Shown) -> Tone:
    return Tone.PLAIN if shown.needs_person else Tone.FAINT


def watch_sessions(home: Path, *, every: bool, json: bool, patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Print the sessions each time that something changed, until Ctrl-C. A terminal is redrawn each second."""
    shown: object = None
    told_problem = ""
    try:
        for found in _looks(home, patience_seconds):
            if json:
                if found.tasks != shown:
                    print_summaries(found.tasks)
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
    return looks(lambda: ask(ServerApi.of_home(home)), patience_seconds, EVERY_SECONDS)


def looks(look: Callable[[], T], patience_seconds: float, every_seconds: float) -> Iterator[T]:
    """One look after the other. A server that was there and is not is waited for, not for ever, and said to be away."""
    lost_at: float | None = None
    has_seen = False
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
