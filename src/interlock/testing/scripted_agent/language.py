"""The script language of the scripted agent: steps of one verb and its words, the same for every face.

A script is steps split by `;` or line ends; `\\;` is a semicolon and `\\n` a line end within a step. A step whose first
word is no verb is said as it stands, so that any prose is a script too. `VERBS` says what each verb means.

Named tuples, not dataclasses, here and in what else a stream face imports: `dataclasses` would cost a third of a start.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple, TypeAlias

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"

VERBS: Final = {
    "think": "[SECONDS] [TEXT]  reason aloud, and take so long over it (a bare `think`: one second)",
    "say": "TEXT  a piece of the answer, word by word",
    "words": "COUNT  so many words, one delta each",
    "pace": "SECONDS  wait so long before each further delta of this turn",
    "call": "NAME [JSON] [-> OUTPUT]  use a tool and show its result; `-> !TEXT` is an error",
    "request": "NAME [JSON] [-> OUTPUT]  the same, but ask for approval first; a refusal is the result",
    "begin": "NAME [JSON]  a tool call that stays open",
    "finish": "[NAME] [-> OUTPUT]  the result of the oldest open call (of that name)",
    "ask": "QUESTION [| OPTION ...]  ask a person, and wait for the answer",
    "gate": "NAME  wait until that gate of the folder `--gates` is open",
    "retry": "[TEXT]  the attempt died and is made again; what it said does not count",
    "fail": "[TEXT]  end the turn with an error of the provider",
    "result": "WORD [TEXT]  end the turn with that subtype or stop reason",
    "silent": " end the turn without a word about it",
    "end": " end the turn here; if more is said after it, that ends once more",
    "background": "NAME  open background work",
    "settled": "NAME  that background work is over",
    "relay": "CALL TEXT  a subagent's words, passed on",
    "usage": "INPUT OUTPUT [USD]  what this turn reports as used",
    "hang": " say nothing more, until interrupted",
    "deaf": " say nothing more, and do not even read",
    "cut": "[CODE]  exit in the middle of a line",
    "crash": "[SIGNAL]  kill itself (a bare `crash`: KILL)",
    "exit": "[CODE]  exit",
    "ignore": "SIGNAL ...  ignore signals from here on",
    "spawn": "child|group|orphan|daemon [stubborn] [holding] [untagged] [SECONDS]  start a process that sleeps",
    "stderr": "TEXT | BYTES  noise on standard error",
    "raw": "TEXT  a line of output as it stands",
    "garbage": "BYTES  bytes that are no text",
    "big": "BYTES  one delta of that size",
    "split": "TEXT  say it, written byte by byte, at the pace that is set",
    "#": "TEXT  a remark, which does nothing",
}
_STEP_END: Final = re.compile(r"(?<!\\);|\n")


class Step(NamedTuple):
    """One thing to do."""

    verb: str
    rest: str


class ToolUse(NamedTuple):
    """What `call` and its kin name: the tool, its arguments, and its result."""

    name: str
    arguments: dict[str, Json]
    output: str
    is_error: bool


def steps_of(script: str) -> list[Step]:
    """The steps of a script. There is no script that is wrong."""
    return [_step(text.strip()) for text in _STEP_END.split(script) if text.strip()]


def _step(text: str) -> Step:
    text = text.replace("\\;", ";").replace("\\n", "\n")
    verb, _, rest = text.partition(" ")
    return Step(verb, rest.strip(" ")) if verb in VERBS else Step("say", text)


def tool_use(rest: str) -> ToolUse:
    """Read `NAME [JSON] [-> OUTPUT]`. Arguments that are no JSON object are kept as text."""
    called, arrow, output = rest.partition("->")
    name, _, arguments = called.strip().partition(" ")
    is_error = output.strip().startswith("!")
    said = output.strip().removeprefix("!") if arrow else "ok"
    return ToolUse(name or "Bash", _arguments(arguments.strip()), said, is_error)


def _arguments(text: str) -> dict[str, Json]:
    try:
        read = json.loads(text) if text else {}
    except ValueError:
        read = text
    return read if isinstance(read, dict) else {"text": text}


def seconds_and_text(rest: str, default_seconds: float) -> tuple[float, str]:
    """Read `[SECONDS] [TEXT]`; nothing at all means the default."""
    first, _, text = rest.partition(" ")
    try:
        return float(first or default_seconds), text
    except ValueError:
        return 0.0, rest


def number(rest: str, default: int) -> int:
    """The first word as a number, or the default where it is none."""
    first = rest.split(" ", 1)[0]
    return int(first) if first.isdigit() else default


class ScriptBook:
    """What each prompt makes the agent do: its own words, or the next line of a script file (the last one again)."""

    def __init__(self, text: str | None = None) -> None:
        self._lines = None if text is None else [line for line in text.splitlines() if line.strip()]
        self._next = 0

    def steps_for(self, prompt: str) -> list[Step]:
        if not self._lines:
            return steps_of(prompt)
        line = self._lines[min(self._next, len(self._lines) - 1)]
        self._next += 1
        return steps_of(line)
