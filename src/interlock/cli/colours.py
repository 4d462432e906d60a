"""How output looks: colours or none, for a dark or a light background. Read from `[ui]` without the whole loader.

Laws:
1. `NO_COLOR` wins over everything, as whoever sets it means every program. Then the variable of a key wins over the
   file, and the file over the default.
2. What is not understood is said once and taken for `auto`: an answer is never kept back for its colours.
3. Nothing heavy is imported; a file that does not speak of looks is not even parsed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, TextIO

from interlock.runtime.config.place import MAX_BYTES, config_path

_COLOUR, _THEME = "colour", "theme"
_WORDS: Final = {_COLOUR: ("auto", "always", "never"), _THEME: ("auto", "dark", "light")}
_LIGHT_BACKGROUNDS: Final = ("7", "15")
# Colours that are hard to read on white, and what stands for them there.
_ON_LIGHT: Final = {"33": "38;5;94", "32": "38;5;22", "36": "38;5;24"}


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to colour what goes there. `auto`: on a terminal that is not dumb."""
    if environ.get("NO_COLOR"):
        return False
    chosen = _chosen(_COLOUR, environ)
    if chosen == "auto":
        return stream.isatty() and environ.get("TERM") != "dumb"
    return chosen == "always"


def is_light(environ: Mapping[str, str]) -> bool:
    """Whether colours are for a light background. `auto`: as the terminal says."""
    chosen = _chosen(_THEME, environ)
    return is_light_terminal(environ) if chosen == "auto" else chosen == "light"


def is_light_terminal(environ: Mapping[str, str]) -> bool:
    """Whether the terminal says that its background is light. Where it says nothing, it is taken for dark."""
    return environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_BACKGROUNDS


def on_light(sgr: str, environ: Mapping[str, str]) -> str:
    """The same meaning for a light background, where the terminal has the colours for it."""
    has_colours = "256color" in environ.get("TERM", "") or bool(environ.get("COLORTERM"))
    return _ON_LIGHT.get(sgr, sgr) if has_colours else sgr


def _chosen(key: str, environ: Mapping[str, str]) -> str:
    variable = f"INTERLOCK_UI_{key.upper()}"
    if variable in environ:
        return _understood(key, environ[variable], variable)
    path = config_path(environ)
    return "auto" if path is None else _of_file(path).get(key, "auto")


@cache
def _of_file(path: Path) -> Mapping[str, str]:
    """What the file says of looks; nothing where there is no file."""
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_BYTES else b""
    except OSError:
        return {}  # whoever needs the whole configuration says what is wrong with it
    if not any(word.encode() in data for word in _WORDS):
        return {}
    import tomllib

    try:
        section = tomllib.loads(data.decode()).get("ui", {})
    except ValueError:
        _complain(str(path))
        return {}
    said = section if isinstance(section, dict) else {}
    return {key: _understood(key, said[key], f"ui.{key}") for key in _WORDS if key in said}


def _understood(key: str, said: object, where: str) -> str:
    if isinstance(said, str) and said in _WORDS[key]:
        return said
    _complain(where)
    return "auto"


@cache
def _complain(where: str) -> None:
    from interlock.cli import output

    output.note(f"{where} is not understood, so colours are as by default: see `interlock config check`")


def is_on_terminal() -> bool:
    """Whether input and output are a terminal that can be drawn on."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"
