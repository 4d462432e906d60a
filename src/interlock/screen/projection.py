"""The text of one snapshot, in the forms that others compare.

Volatile tokens (spinner glyphs, elapsed counters, clocks) are masked from `rows` and `key`: a counter that ticks once a
second would otherwise be a change of the text once a second, and no screen would ever be stable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MASK: Final = "▒"
SLICE_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class DialogProjection:
    """`rows` are the rows of the normalized text, masked; the two sets of numbers index them.

    `key` is what stands for the whole text where two snapshots are compared. `prompt_rows` are the rows in which a
    profile recognises a message of the user; `composer_rows` hold what is being typed.
    """

    raw_text: str
    normalized_text: str
    dialog_text: str
    head: str
    tail: str
    key: str
    rows: tuple[str, ...]
    composer_rows: frozenset[int] = frozenset()
    prompt_rows: frozenset[int] = frozenset()


def normalize_projection_text(text: str, volatile: Iterable[re.Pattern[str]] = ()) -> str:
    """Mask volatile tokens row by row, drop blanks at the ends of rows and blank rows at both ends."""
    return "\n".join(_masked_rows(text, tuple(volatile))).strip()


def project_dialog(
    raw_text: str,
    normalized_text: str,
    dialog_text: str = "",
    *,
    volatile: Sequence[re.Pattern[str]] = (),
    composer_rows: Iterable[int] = (),
    prompt_rows: Iterable[int] = (),
) -> DialogProjection:
    """Project a snapshot whose escape sequences are already out of `normalized_text`.

    Where no dialog text could be told from the chrome around it, the normalized text stands in.
    """
    rows = _masked_rows(normalized_text, tuple(volatile))
    dialog = dialog_text or normalized_text.strip()
    lines = dialog.split("\n")
    return DialogProjection(
        raw_text=raw_text,
        normalized_text=normalized_text,
        dialog_text=dialog,
        head="\n".join(lines[:SLICE_LINES]).strip(),
        tail="\n".join(lines[-SLICE_LINES:]).strip(),
        key="\n".join(rows).strip(),
        rows=rows,
        composer_rows=frozenset(composer_rows),
        prompt_rows=frozenset(prompt_rows),
    )


def _masked_rows(text: str, volatile: tuple[re.Pattern[str], ...]) -> tuple[str, ...]:
    mask = masker(volatile)
    return tuple([mask(row) for row in text.split("\n")])


@lru_cache(maxsize=64)
def masker(volatile: tuple[re.Pattern[str], ...]) -> Callable[[str], str]:
    """A function that masks a row. Most rows of a screen stand in the next one too, so it remembers them."""

    def mask(row: str) -> str:
        for pattern in volatile:
            row = pattern.sub(MASK, row)
        return row.rstrip()

    return lru_cache(maxsize=2048)(mask)
