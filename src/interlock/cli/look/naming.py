"""Which session is meant by what somebody typed: one rule for every command. Pure, and imports nothing heavy.

Laws:
1. An id counts before a title; of ids the whole one, then one that begins so, then one that ends so; of titles the
   whole one, then one with a word that begins so.
2. What names nothing, or more than one, is refused: with what it may mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from interlock.vocabulary.errors import UsageError

_SHOWN: Final = 5
# A shorter end would take a word of a title for an id.
_LEAST_END: Final = 4


class Candidate(NamedTuple):
    """A session that may be meant. `said` is what a person knows it by, besides its id and its title.

    `has_title` is false for one that was put away: its title may be another's by now.
    """

    session_id: str
    title: str = ""
    said: str = ""
    has_title: bool = True


def choose(candidates: Sequence[Candidate], text: str, *, listing: str) -> Candidate:
    """The session that is meant. `UsageError` where there is none, or more than one; `listing` says where all are."""
    if not text.strip():
        raise UsageError("an empty text names no session", remedy=listing)
    for rule in _RULES:
        found = [one for one in candidates if rule(one, text)]
        if len(found) == 1:
            return found[0]
        if found:
            raise _several(found, text)
    raise _unknown(candidates, text, listing)


def _is_id(one: Candidate, text: str) -> bool:
    return one.session_id == text


def _begins_id(one: Candidate, text: str) -> bool:
    return one.session_id.startswith(text) or one.session_id.partition("_")[2].startswith(text)


def _ends_id(one: Candidate, text: str) -> bool:
    return len(text) >= _LEAST_END and one.session_id.endswith(text)


def _is_title(one: Candidate, text: str) -> bool:
    return one.has_title and one.title.casefold().split() == text.casefold().split()


def _begins_word(one: Candidate, text: str) -> bool:
    wanted, title = text.casefold().split(), one.title.casefold().split()
    spans = (title[at : at + len(wanted)] for at in range(len(title) - len(wanted) + 1))
    return one.has_title and any(span[:-1] == wanted[:-1] and span[-1].startswith(wanted[-1]) for span in spans)


_RULES: Final[tuple[Callable[[Candidate, str], bool], ...]] = (_is_id, _begins_id, _ends_id, _is_title, _begins_word)


def _several(found: Sequence[Candidate], text: str) -> UsageError:
    more = [f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    named = ", ".join([*map(_spelled, found[:_SHOWN]), *more])
    return UsageError(f"{text!r} may mean any of {len(found)} sessions: {named}", remedy="give more of the id")


def _spelled(one: Candidate) -> str:
    known = ", ".join(word for word in (one.title, one.said) if word)
    return f"{one.session_id} ({known})" if known else one.session_id


def _unknown(candidates: Sequence[Candidate], text: str, listing: str) -> UsageError:
    from difflib import get_close_matches

    close = get_close_matches(text, [one.session_id for one in candidates], n=3)
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return UsageError(f"there is no session {text!r}", remedy=f"{guess}{listing}")
