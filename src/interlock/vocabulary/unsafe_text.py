"""Characters that do something to a terminal, or hide what stands there: they are never shown as they are.

It imports nothing else, so that the light commands can use it.
"""

from __future__ import annotations

import re
from typing import Final

_TITLE_CHARACTERS: Final = 40
# C0, DEL, C1; bidi marks, embeddings, overrides and isolates; line separators; lone surrogates; invisible tags.
UNSAFE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def first_words(prompt: str) -> str:
    """A title for a session that has none: how its prompt begins."""
    return " ".join(prompt.split())[:_TITLE_CHARACTERS]
