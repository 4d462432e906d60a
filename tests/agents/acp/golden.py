"""Observations as short lines of text, and the files that hold what each recording amounts to.

`INTERLOCK_WRITE_GOLDEN=1 pytest ...` writes the files anew; a person reads the difference before it is kept.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from itertools import groupby
from pathlib import Path

import msgspec

from interlock.agents.observations import Observation, TextArrived
from interlock.vocabulary.events.registry import Json

RECORDINGS = Path(__file__).parent.parent.parent / "recordings" / "streams"
_MAX_FIELD = 160


def records(name: str) -> list[Mapping[str, Json]]:
    """The lines of a recording such as `gemini/acp`."""
    with gzip.open(RECORDINGS / f"{name}.ndjson.gz", "rb") as file:
        return [msgspec.json.decode(line) for line in file]


def printed(name: str) -> list[bytes]:
    """What a recorded program printed on standard output, line by line."""
    return [str(one["line"]).encode() for one in records(name) if one.get("stream") == "out"]


def short(observations: Iterable[Observation]) -> list[str]:
    """One line for each observation, with the fields that say something; a run of text pieces is one line."""
    lines = []
    for is_text, group in groupby(observations, lambda seen: isinstance(seen, TextArrived)):
        seen = list(group)
        if is_text:
            text = "".join(one.text for one in seen if isinstance(one, TextArrived))
            lines.append(f"TextArrived x{len(seen)} {text!r}")
        else:
            lines.extend(" ".join(_words(one)) for one in seen)
    return lines


def _words(seen: Observation) -> Iterator[str]:
    yield type(seen).__name__
    for field in fields(seen):
        value = getattr(seen, field.name)
        if field.default is MISSING or value != field.default:
            yield f"{field.name}={str(value)[:_MAX_FIELD]!r}"


def check(name: str, lines: Iterable[str]) -> None:
    """The lines are those that are on file for this recording."""
    path, told = RECORDINGS / f"{name}.golden.txt", "".join(f"{line}\n" for line in lines)
    if os.environ.get("INTERLOCK_WRITE_GOLDEN"):
        path.write_text(told, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == told
