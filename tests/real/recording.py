"""A run as a recording: gzipped lines of JSON, a header first, then frames, inputs and truths in order of time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from interlock.vocabulary.events.registry import Json


class Frame(NamedTuple):
    """One sample. `t` counts seconds from the start; `ansi` is the visible screen with its styles, `text` without."""

    t: float
    ansi: str
    title: str
    cursor: tuple[int, int]
    cursor_visible: bool
    alternate: bool
    command: str
    dead: bool
    text: str


class Input(NamedTuple):
    """Enter was pressed on a prompt."""

    t: float


class Truth(NamedTuple):
    """What is the case from here on."""

    t: float
    state: str
    detail: str


Line: TypeAlias = Frame | Input | Truth


def write_recording(path: Path, header: Mapping[str, Json], lines: Iterable[Line]) -> None:
    """Write a recording; the folder is made if it is not there. A screen equal to the one before is left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shown: str | None = None
    with gzip.open(path, "wt", encoding="utf-8") as target:
        target.write(_json({"kind": "header", "format": 1, **header}))
        for line in sorted(lines, key=lambda line: line.t):
            target.write(_json(_fields(line, shown)))
            if isinstance(line, Frame):
                shown = line.ansi


def _fields(line: Line, shown: str | None) -> dict[str, Json]:
    t = round(line.t, 3)
    match line:
        case Input():
            return {"kind": "input", "t": t, "submit": True}
        case Truth():
            return {"kind": "truth", "t": t, "state": line.state, "detail": line.detail}
        case Frame():
            fields: dict[str, Json] = {
                "kind": "frame",
                "t": t,
                "title": line.title,
                "command": line.command,
                "dead": line.dead,
                "alt": line.alternate,
                "cursor": list(line.cursor),
                "cursor_visible": line.cursor_visible,
            }
            return fields if line.ansi == shown else fields | {"ansi": line.ansi}


def _json(fields: Mapping[str, Json]) -> str:
    return json.dumps(fields, ensure_ascii=False) + "\n"
