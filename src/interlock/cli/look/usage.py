"""`interlock usage`: what sessions used, as far as their agents reported it.

Law: what nobody reported is a dash, and never a zero; a sum over some reports says that it is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from interlock.cli import output
from interlock.cli.look.ps_list import tell_incomplete
from interlock.cli.look.session_lines import find_task, short_ids
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder, listed
from interlock.cli.tables import Column, TableRow, Tone, table
from interlock.cli.wire.json_answers import usage_json
from interlock.cli.wire.routes import PAGE, TASKS, USAGE, task_usage

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import SessionsUsageJson
    from interlock.vocabulary.wire.json_types import TaskSummaryJson, TaskUsageJson, UsageJson

_Figure: TypeAlias = Literal["input_tokens", "output_tokens", "cached_input_tokens", "cost_usd"]
FIGURES: tuple[_Figure, ...] = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
_NUMBERS = (
    Column("INPUT", is_number=True),
    Column("OUTPUT", is_number=True),
    Column("CACHED", is_number=True),
    Column("USD", is_number=True),
    Column("NOTE", 16, gives=1),
)
UsageBy: TypeAlias = Literal["day", "session", "agent", "model"]
_MISSING = "-"
Number = TypeVar("Number", int, float)


def usage(
    session: options.SessionArgument | None = None,
    /,
    *,
    by: UsageBy | None = None,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Print tokens and cost: by turn for one session, by session for all. A dash: nobody reported it.

    Figures of agents in terminals come from their own transcripts (Claude Code, Codex). A day is that of the turn's
    start, in UTC. Exit code 3: the server has not read all of its log yet, and there may be more.

    Parameters
    ----------
    by
        Add up all sessions by day, session, agent or model.
    """
    api = ServerApi.of_home(home_folder(home))
    if session is not None:
        return _one(api.get(task_usage(find_task(api, session)["task_id"])), json=json)
    used, is_complete = _ask(api)
    if by is not None and by != "session":
        _print_by(by, {task["task_id"]: task for task in api.items(TASKS, limit=PAGE)}, used, json=json)
        return tell_incomplete(is_complete)
    if json:
        told: SessionsUsageJson = {
            "sessions": [usage_json(one) for one in used],
            "total": add_up(one["total"] for one in used),
            "is_complete": is_complete,
        }
        output.print_json(told)
    elif used:
        _print_all({task["task_id"]: task for task in api.items(TASKS, limit=PAGE)}, used)
    else:
        output.note("there is no session yet")
    return tell_incomplete(is_complete)


def _ask(api: ServerApi) -> tuple[list[TaskUsageJson], bool]:
    """What every session used, and whether these are all."""
    pages = list(api.pages(USAGE, lambda page: page["next"], limit=PAGE))
    return [one for page in pages for one in listed(page)], bool(pages[-1]["is_complete"])


def _one(used: TaskUsageJson, *, json: bool) -> int:
    if json:
        output.print_json(usage_json(used))
        return 0
    rows = [_row((turn["turn_id"],), turn["usage"]) for turn in used["turns"]]
    rows.append(_row(("all",), used["total"]))
    output.print_painted(table((Column("TURN", 12), *_NUMBERS), rows))
    return 0


def _print_all(tasks: Mapping[str, TaskSummaryJson], used: list[TaskUsageJson]) -> None:
    shorts = short_ids([one["task_id"] for one in used])
    rows = [_row(_named(shorts, tasks, one["task_id"]), one["total"]) for one in used]
    rows.append(_row(("all", "", ""), add_up(one["total"] for one in used)))
    output.print_painted(table((Column("SESSION"), Column("AGENT", 6), Column("TITLE", 8), *_NUMBERS), rows))


def _print_by(by: UsageBy, tasks: Mapping[str, TaskSummaryJson], used: list[TaskUsageJson], *, json: bool) -> None:
    """The sums of each group. By day, only the turns that the server tells one by one count."""
    groups: dict[str, list[UsageJson]] = {}
    for one in used:
        if by == "day":
            for turn in one["turns"]:
                groups.setdefault(_day(turn["turn_id"]), []).append(turn["usage"])
        else:
            task = tasks.get(one["task_id"])
            name = "" if task is None else task["agent"] if by == "agent" else task["model"]
            groups.setdefault(name or "unknown", []).append(one["total"])
    sums = {name: add_up(figures) for name, figures in sorted(groups.items())}
    if json:
        output.print_json({"by": by, "groups": [{by: name, **figures} for name, figures in sums.items()]})
        return
    rows = [_row((name,), figures) for name, figures in sums.items()]
    rows.append(_row(("all",), add_up(sums.values())))
    output.print_painted(table((Column(by.upper(), 10), *_NUMBERS), rows))


def _day(turn_id: str) -> str:
    """The day on which a turn began, from its id, which holds the time; `unknown` where it is of another kind."""
    from interlock.vocabulary.ids import moment_of

    at_ms = moment_of(turn_id)
    return "unknown" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"


def _named(shorts: Mapping[str, str], tasks: Mapping[str, TaskSummaryJson], task_id: str) -> tuple[str, str, str]:
    known = tasks.get(task_id)
    return shorts[task_id], "" if known is None else known["agent"], "" if known is None else known["title"]


def add_up(totals: Iterable[UsageJson]) -> UsageJson:
    """The sum of what was reported; a figure that nobody reported is None."""
    known = list(totals)
    return {
        "input_tokens": _sum(one["input_tokens"] for one in known),
        "output_tokens": _sum(one["output_tokens"] for one in known),
        "cached_input_tokens": _sum(one["cached_input_tokens"] for one in known),
        "cost_usd": _sum(one["cost_usd"] for one in known),
        "turns_without_report": sum(one["turns_without_report"] for one in known),
    }


def _sum(figures: Iterable[Number | None]) -> Number | None:
    reported = [one for one in figures if one is not None]
    return sum(reported[1:], start=reported[0]) if reported else None


def _row(named: tuple[str, ...], used: UsageJson) -> TableRow:
    cells = (*named, *(figure(name, used.get(name)) for name in FIGURES), note_of(used))
    return TableRow(cells, [Tone.PLAIN] * len(cells))


def figure(name: str, value: float | None) -> str:
    """A number as it is read best."""
    if value is None:
        return _MISSING
    return f"{value:.4f}" if name == "cost_usd" else f"{value:,}"


def note_of(used: UsageJson) -> str:
    """What the figures leave out."""
    left_out = used.get("turns_without_report", 0)
    return f"without {left_out} turn{'s' if left_out != 1 else ''}" if left_out else ""
