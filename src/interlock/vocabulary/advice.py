"""What to do next, for a person: commands to paste. Pure, and light: commands that only ask a server load it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

# By the value of a `NextActionKind`. `-` reads the prompt from standard input: what to ask for now, a person says.
_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "send_again": ("interlock send {session} -",),
    "raise_timeout": ("interlock config show run.turn_budget_seconds",),
    "reduce_scope": ("interlock send {session} -",),
    "use_partial_result": ("interlock show {session}",),
    "decide": ("interlock approve {session}", "interlock deny {session}"),
    "attach": ("interlock attach {session}",),
    "ask_operator": ("interlock show {session}",),
}


def advice_lines(actions: Iterable[tuple[str, str]], session_id: str) -> list[str]:
    """Kinds of advice with their commands, for a person: each command to paste once, and words where there is none."""
    return list(dict.fromkeys(line for kind, command in actions for line in _advice(kind, command, session_id)))


def _advice(kind: str, command: str, session_id: str) -> Iterator[str]:
    is_safe = shlex.quote(session_id) == session_id and not session_id.startswith("-")
    known = _COMMANDS.get(kind, ()) if is_safe else ()
    if command or not known:
        yield command or kind.replace("_", " ")
    else:
        yield from (one.format(session=session_id) for one in known)
