"""Recorded runs of Claude Code 2.1.325 against a scripted model, and observations as lines that a person can review.

`python -m tests.agents.streams.claude_recordings` writes them anew beside the recordings: read the difference.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.observations import Observation, TurnEnded
from interlock.agents.streams.claude.lines import ClaudeLines

FOLDER: Final = Path(__file__).parents[2] / "recordings" / "streams" / "claude"
NAMES: Final = sorted(path.name.removesuffix(".ndjson.gz") for path in FOLDER.glob("*.ndjson.gz"))
_SHOWN_CHARACTERS: Final = 100


def lines_of(name: str) -> list[bytes]:
    return gzip.decompress((FOLDER / f"{name}.ndjson.gz").read_bytes()).splitlines()


def prompt_of(lines: list[bytes]) -> str:
    """The id of the recorded prompt; blank where the run was given its prompt in another way."""
    for line in lines:
        frame = msgspec.json.decode(line)
        if frame.get("type") == "command_lifecycle":
            return str(frame["command_uuid"])
    return ""


def play(name: str) -> Iterator[Observation]:
    """What the reader makes of a recording, in which each prompt was written as soon as the one before had ended."""
    lines = lines_of(name)
    reader = ClaudeLines(is_resumed=name in ("resumed", "prompt_given_again"))
    if name != "stale_resume":
        reader.prompt_written(prompt_of(lines))
    for line in lines:
        seen = reader.feed(line)
        yield from seen
        if name == "one_shot_input_stream" and any(isinstance(one, TurnEnded) for one in seen):
            reader.prompt_written("")
    reader.prompt_withdrawn()


def told(seen: Observation) -> str:
    """An observation on one line, without what has its default."""
    words = [type(seen).__name__]
    for field in fields(seen):
        value = getattr(seen, field.name)
        if field.default is MISSING or value != field.default:
            shown = sorted(value) if isinstance(value, frozenset) else value
            words.append(f"{field.name}={_short(str(shown))}")
    return " ".join(words)


def _short(text: str) -> str:
    text = text.replace("\n", "\\n")
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}... ({len(text)})"


if __name__ == "__main__":
    for each in NAMES:
        (FOLDER / f"{each}.txt").write_text("".join(f"{told(seen)}\n" for seen in play(each)), encoding="utf-8")
