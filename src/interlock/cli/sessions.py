"""Which session is meant: an id, or the beginning of one, as long as it is the only one that begins so."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from interlock.log.port import SessionSummary
from interlock.log.sqlite import SqliteLog
from interlock.vocabulary.conversation import MAX_COUNT
from interlock.vocabulary.errors import UsageError

_SHOWN: Final = 5
_SEARCHED: Final = 1000
_LIST: Final = "`interlock log ls` lists them"


# Longer than any sequence number, and short enough to be read as a number at no cost.
_MAX_DIGITS: Final = len(str(MAX_COUNT)) + 1


def as_number(text: str) -> int | None:
    """The number that a text spells in plain digits, if it does and is not absurdly long."""
    is_number = text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS
    return int(text) if is_number else None


async def find_session(log: SqliteLog, named: str, *, with_purged: bool = False) -> SessionSummary:
    """The session that `named` means. Raises `UsageError` if there is none, more than one, or only a tombstone."""
    if not named:
        raise UsageError("an empty text names no session", remedy=_LIST)
    found = (await log.sessions(prefix=named, limit=_SHOWN + 1)).sessions
    # Ids are in order, so a session with this very id comes before those that only begin with it.
    if found and found[0].session_id == named:
        found = found[:1]
    if not found:
        raise await _unknown(log, named)
    if len(found) > 1:
        listed = ", ".join(one.session_id for one in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        raise UsageError(f"several sessions begin with {named!r}: {listed}", remedy="give more of the id")
    (session,) = found
    if session.is_purged and not with_purged:
        raise UsageError(
            f"session {session.session_id} was purged; of its {session.version} events only the head of the chain "
            f"is left, {session.head}",
            remedy=f"name another one, {_LIST}",
        )
    return session


async def _unknown(log: SqliteLog, named: str) -> UsageError:
    page = await log.sessions(limit=_SEARCHED)
    close = get_close_matches(named, [session.session_id for session in page.sessions], n=3)
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return UsageError(f"there is no session {named!r}", remedy=f"{guess}{_LIST}")
