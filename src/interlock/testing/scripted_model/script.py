"""What the model does, as data: a script is a list of steps, cut into one part for each request of a turn.

    HELLO = (Think("Let me see."), Gate("thinking"), Text("Hello.", " Bye."), End())
    TOUCH = (Shell("touch made.txt"), Text("Done."))

A part ends after `End` or after a run of tool calls: the client answers those with results, and gets the next part.
A script that has run out answers with a short closing text. A repeated request (a retry) gets its part again from
the start; gates that were released stay open, and a fault with `times` happens that often and is then passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from interlock.vocabulary.events.registry import Json

GATE_LIMIT_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning that the client may show. Goes on in the open reasoning block, if the last step was one."""

    text: str


@dataclass(frozen=True, slots=True, init=False)
class Text:
    """Words of the answer, sent chunk by chunk with `pace_seconds` between them."""

    chunks: tuple[str, ...]
    pace_seconds: float

    def __init__(self, *chunks: str, pace_seconds: float = 0.0) -> None:
        object.__setattr__(self, "chunks", chunks)
        object.__setattr__(self, "pace_seconds", pace_seconds)


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A call of the client's tool with this name."""

    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shell:
    """A command line for whichever shell tool the request offers. `asks`: in a way that needs the user's approval.

    Most CLIs decide by the command itself whether to ask; Codex asks only where the model says so.
    """

    command: str
    asks: bool = True


@dataclass(frozen=True, slots=True)
class Gate:
    """Hold here until the test calls `release(name)`. After the limit the answer is cut and a fault is recorded."""

    name: str
    limit_seconds: float = GATE_LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class Error:
    """An HTTP error before the first word, an error event after it. `times` counts repeats; None is always."""

    status: int
    message: str = "scripted error"
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the socket in mid-stream, with the answer unfinished."""

    times: int | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing more and keep the connection open, until the client drops it or the server closes."""

    times: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The answer is complete. A part that reaches its last step ends by itself, too."""


Step: TypeAlias = Think | Text | ScriptedCall | Shell | Gate | Error | Cut | Hang | End
Script: TypeAlias = tuple[Step, ...]

CLOSING: Final[Script] = (Text("That is all."), End())


def parts(script: Iterable[Step]) -> list[Script]:
    """The script as one tuple of steps for each request of its turn."""
    made: list[Script] = []
    part: list[Step] = []
    for step in script:
        if part and isinstance(part[-1], ScriptedCall | Shell) and not isinstance(step, ScriptedCall | Shell):
            made.append(tuple(part))
            part = []
        part.append(step)
        if isinstance(step, End):
            made.append(tuple(part))
            part = []
    return [*made, tuple(part)] if part else made


def part_at(script: Script, index: int) -> Script:
    """The steps of one request; the closing text once the script has run out."""
    cut = parts(script)
    return cut[index] if index < len(cut) else CLOSING
