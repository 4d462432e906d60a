"""The formulas of the task client as tables, for every language: `vectors/tables/`, written by `tools.vectors`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Final

from interlock.lifecycle.task_status import TaskFacts, classify, runtime_phase, task_flags
from interlock.vocabulary.states import TaskStatus

FOREIGN: Final = "NEVER_HEARD_OF"
FACTS: Final = ("has_stream", "joined_room", "is_reachable", "is_verified", "server_confirmed_no_stream")
"""In the order of the columns of a row."""


def tables() -> dict[str, str]:
    """Every table, by the name of its file below `vectors/`."""
    return {"tables/statuses.json": _statuses(), "tables/flags.json": _flags()}


def _words() -> list[str | None]:
    return [*(status.value for status in TaskStatus), None, FOREIGN]


def _statuses() -> str:
    rows = [
        {
            "status": word,
            "class": classify(word).value,
            "phase": runtime_phase(word, has_stream=False).value,
            "phase_with_stream": runtime_phase(word, has_stream=True).value,
        }
        for word in _words()
    ]
    about = "The class and the phase of each status. Any word that is not listed is as the last row."
    return _written({"name": "statuses", "about": about}, rows)


def _flags() -> str:
    rows = [
        {"status": word, **dict(zip(FACTS, facts, strict=True)), "flags": asdict(task_flags(_facts(word, facts)))}
        for word in _words()
        for facts in product((False, True), repeat=len(FACTS))
    ]
    about = "The flags of a task for each status and each combination of facts. Any other word is as NEVER_HEARD_OF."
    return _written({"name": "flags", "about": about}, rows)


def _facts(status: str | None, facts: tuple[bool, ...]) -> TaskFacts:
    has_stream, joined_room, is_reachable, is_verified, server_confirmed_no_stream = facts
    return TaskFacts(
        status=status,
        has_stream=has_stream,
        joined_room=joined_room,
        is_reachable=is_reachable,
        is_verified=is_verified,
        server_confirmed_no_stream=server_confirmed_no_stream,
    )


def _written(head: dict[str, str], rows: Sequence[Mapping[str, object]]) -> str:
    """One row a line, so that a change shows as the rows that changed."""
    heads = "".join(f' "{key}": {json.dumps(value)},\n' for key, value in head.items())
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return f'{{\n{heads} "rows": [\n{lines}\n ]\n}}\n'
