"""`interlock ps --tree`: sessions as a tree, each child and each copy below its parent.

A family is listed whole while one of its sessions has not ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from interlock.cli import output
from interlock.cli.look.ps_list import tone_of
from interlock.cli.look.session_lines import age, short_ids, shown_of, since_of, why_of
from interlock.cli.tables import Line, Tone, cut, terminal_columns

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskSummaryJson

_TITLE: Final = 48
Node = tuple["TaskSummaryJson", str]


def tree(tasks: Sequence[TaskSummaryJson], *, every: bool, now: datetime) -> list[Line]:
    """A line a session, its branches drawn before it. The order is that of `ps`, by the most urgent of each family."""
    nodes = [node for family in _families(tasks) if every or not _is_over(family) for node in family]
    shorts = short_ids([str(task["task_id"]) for task in tasks])
    width = max((output.columns(branch + shorts[str(task["task_id"])]) for task, branch in nodes), default=0)
    return [_line(task, branch, shorts[str(task["task_id"])], width, now) for task, branch in nodes]


def _line(task: TaskSummaryJson, branch: str, short: str, width: int, now: datetime) -> Line:
    shown = shown_of(task, now)
    pad = " " * (width - output.columns(branch + short))
    title = " ".join(str(task.get("title") or "").split())[:_TITLE]
    said = [shown.words, age(since_of(task), now), title, _children(task), why_of(task)]
    rest = "  ".join(output.escape(one) for one in said[1:] if one)
    room = terminal_columns()
    if room is not None:
        rest = cut(rest, max(_TITLE // 2, room - width - output.columns(said[0]) - 4))
    return [
        (branch, Tone.FAINT.value),
        (f"{short}{pad}  ", Tone.PLAIN.value),
        (said[0], tone_of(shown).value),
        (f"  {rest}", Tone.PLAIN.value),
    ]


def _children(task: TaskSummaryJson) -> str:
    counts = task["children"]
    said = (f"{counts['running']} running", f"{counts['waiting']} waiting", f"{counts['ended_badly']} ended badly")
    told = ", ".join(one for one in said if not one.startswith("0 "))
    return f"children: {told}" if told else ""


def _is_over(family: Sequence[Node]) -> bool:
    return all(shown_of(task).is_over for task, _ in family)


def _families(tasks: Sequence[TaskSummaryJson]) -> Iterator[list[Node]]:
    known = {str(task["task_id"]): task for task in tasks}
    parents = {name: str(task.get("parent_id") or "") for name, task in known.items()}
    below: dict[str, list[str]] = {}
    for name, parent in parents.items():
        below.setdefault(parent if parent in known else "", []).append(name)
    placed: set[str] = set()

    def put(name: str, branch: str, prefix: str) -> Iterator[Node]:
        placed.add(name)
        yield known[name], branch
        children = [one for one in below.get(name, ()) if one not in placed]
        for child in children:
            is_last = child == children[-1]
            yield from put(child, f"{prefix}{'└─ ' if is_last else '├─ '}", f"{prefix}{'   ' if is_last else '│  '}")

    def root(name: str) -> str:
        passed = {name}
        while parents[name] in known and parents[name] not in passed:
            name = parents[name]
            passed.add(name)
        return name

    for name in dict.fromkeys(root(name) for name in known):
        if name not in placed:
            yield list(put(name, "", ""))
