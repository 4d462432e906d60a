"""What a person types into a search, as an expression of FTS5, and the part of a text that it was found in.

Laws:
1. Nothing that is typed is syntax of FTS5: every term is a quoted string. A text that cannot be searched for is a
   `UsageError` that says what can.
2. Terms: words that all have to occur, "several words" in this order, `word*` for a beginning, `-word` for what must
   not occur. Capitals and accents do not count.
3. An excerpt has no control characters of ours that the text could have forged: where it matches is told apart from it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

import apsw
from msgspec import Struct

from interlock.vocabulary.errors import UsageError

TOKENIZER: Final = "unicode61 remove_diacritics 2"
MAX_QUERY: Final = 1000
MAX_TERMS: Final = 32
_TERM: Final = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_BEGIN, _END = "\x02", "\x03"
_EXCERPT_WORDS: Final = 24
_HELP: Final = 'give words, "several words", word* or -word'


class Excerpt(Struct, frozen=True, kw_only=True):
    """A part of a text, on one line. `matches`: from which to which code point of it something was found."""

    text: str
    matches: tuple[tuple[int, int], ...]


def expression(query: str) -> str:
    """The expression of FTS5 that finds what is asked for."""
    if len(query) > MAX_QUERY:
        raise UsageError(f"a search is at most {MAX_QUERY} characters long", remedy="leave some words out")
    wanted: list[str] = []
    unwanted: list[str] = []
    for minus, phrase, word in _TERM.findall(query):
        text = phrase or word.removesuffix("*")
        if any(_is_in_token(one) for one in text):
            quoted = '"' + text.replace('"', '""').replace("\0", " ") + '"'
            (unwanted if minus else wanted).append(quoted + ("*" if word.endswith("*") else ""))
    if not wanted:
        what = "only says what must not occur" if unwanted else "has no letter and no digit in it"
        raise UsageError(f"the search {what}", remedy=_HELP)
    if len(wanted) + len(unwanted) > MAX_TERMS:
        raise UsageError(f"a search has at most {MAX_TERMS} words", remedy="leave some out")
    return "(" + " AND ".join(wanted) + ")" + "".join(f" NOT {one}" for one in unwanted)


def _is_in_token(character: str) -> bool:
    """As the tokenizer judges: letters, numbers, and what is for private use."""
    category = unicodedata.category(character)
    return category[0] in "LN" or category == "Co"


def excerpts(spelled: str, texts: Mapping[int, str]) -> dict[int, Excerpt]:
    """The part of each text that an expression is found in, by the very tokenizer of the index."""
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(f"CREATE VIRTUAL TABLE t USING fts5 (text, tokenize = '{TOKENIZER}')")
        cleaned = ((key, _plain(text)) for key, text in texts.items())
        connection.executemany("INSERT INTO t (rowid, text) VALUES (?, ?)", cleaned)
        sql = "SELECT rowid, snippet(t, 0, ?, ?, '…', ?) FROM t WHERE t MATCH ?"
        found = connection.execute(sql, (_BEGIN, _END, _EXCERPT_WORDS, spelled)).fetchall()
        return {int(str(key)): _excerpt(str(marked)) for key, marked in found}
    finally:
        connection.close()


def _plain(text: str) -> str:
    return text.replace(_BEGIN, " ").replace(_END, " ")


def _excerpt(marked: str) -> Excerpt:
    parts: Sequence[str] = re.split(f"([{_BEGIN}{_END}])", " ".join(marked.split()))
    text, begun = "", 0
    matches: list[tuple[int, int]] = []
    for part in parts:
        if part == _BEGIN:
            begun = len(text)
        elif part == _END:
            matches.append((begun, len(text)))
        else:
            text += part
    return Excerpt(text=text, matches=tuple(matches))
