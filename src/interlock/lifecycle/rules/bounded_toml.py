"""Reads TOML of others in bounded time: whatever the text, it is understood or refused by `ValueError`."""

from __future__ import annotations

import re
import tomllib
from typing import Final

MAX_KEY_PARTS: Final = 40
# The parser takes time by the square of the parts of a dotted key; no file needs more than a few.
_LONG_KEY: Final = re.compile(
    rf"""(?<![\w-])(?:(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{MAX_KEY_PARTS}}}"""
)


def read_toml(data: bytes) -> dict[str, object]:
    """The tables of a text."""
    text = data.decode("utf-8")
    if _LONG_KEY.search(text):
        raise ValueError(f"a name in it has more than {MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as wrong:
        raise ValueError("it is nested too deeply") from wrong
