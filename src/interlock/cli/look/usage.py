"""`interlock usage`: what sessions used, as far as their agents reported it.

Law: what nobody reported is a dash, and never a zero; a sum over some reports says that it is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from interlock.cli import output
from interlock.cli.look.ps_list import read_all, tell_incomplete
from interlock.cli.look.session_lines import PAGE, find_task, short_ids, task_path
from interlock.cli.server import options
from interlock.cli.server.api import Body, ServerApi, home_folder
from interlock.cli.tables import Column, TableRow, Tone, table

_FIGURES = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
_NUMBERS = (
    Column("INPUT", is_number=True),
    Column("OUTPUT", is_number=True),
    Column("CACHED", is_number=True),
    Column("USD", is_number=True),
    Column("NOTE", 16, gives=1),
)
_MISSING = "-"


def usage(
    session: options.SessionArgument | None = None,
    /,
    *,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Print tokens and cost: by turn for one session, by session for all. A dash: nobody reported it.

    Exit code 3: the server has not read all of its log yet, and there may be more.
    """
    api = ServerApi.of_home(home_folder(home))
    if session is not None:
        return _one(api.get(f"{task_path(find_task(api, session)['task_id'])}/usage"), json=json)
    used, is_complete = _ask(api)
    if json:
        output.print_json(used)
    elif used:
        _print_all({str(task["task_id"]): task for task in api.pages("/api/tasks", limit=PAGE)}, used)
    else:
        output.note("there is no session yet")
    return tell_incomplete(is_complete)


def _ask(api: ServerApi) -> tuple[list[Body], bool]:
    """What every session used, and whether these are all."""
    used, last = read_all(api, "/api/usage")
    return used, bool(last["is_complete"])


def _one(used: Body, *, json: bool) -> int:
    if json:
        output.print_json(used)
        return 0
    rows = [_row((str(turn["turn_id"]),), turn["usage"]) for turn in used["turns"]]
    rows.append(_row(("all",), used["total"]))
    output.print_painted(table((Column("TURN", 12), *_NUMBERS), rows))
    return 0


def _print_all(tasks: Mapping[str, Body], used: list[Body]) -> None:
    shorts = short_ids([str(one["task_id"]) for one in used])
    rows = [_row(_named(shorts, tasks, str(one["task_id"])), one["total"]) for one in used]
    rows.append(_row(("all", "", ""), add_up(one["total"] for one in used)))
    output.print_painted(table((Column("SESSION"), Column("AGENT", 6), Column("TITLE", 8), *_NUMBERS), rows))


def _named(shorts: Mapping[str, str], tasks: Mapping[str, Body], task_id: str) -> tuple[str, str, str]:
    known = tasks.get(task_id, {})
    return shorts[task_id], str(known.get("agent", "")), str(known.get("title", ""))


def add_up(totals: Iterable[Body]) -> Body:
    """The sum of what was reported; a figure that nobody reported is missing."""
    known = list(totals)
    summed: Body = {}
    for name in _FIGURES:
        reported = [one[name] for one in known if one.get(name) is not None]
        if reported:
            summed[name] = sum(reported)
    summed["turns_without_report"] = sum(one.get("turns_without_report", 0) for one in known)
    return summed


def _row(named: tuple[str, ...], used: Body) -> TableRow:
    cells = (*named, *(figure(name, used.get(name)) for name in _FIGURES), note_of(used))
    return TableRow(cells, [Tone.PLAIN] * len(cells))


def figure(name: str, value: float | None) -> str:
    """A number as it is read best."""
    if value is None:
        return _MISSING
    return f"{value:.4f}" if name == "cost_usd" else f"{value:,}"


def note_of(used: Body) -> str:
    """What the figures leave out."""
    left_out = used.get("turns_without_report", 0)
    return f"without {left_out} turn{'s' if left_out != 1 else ''}" if left_out else ""
