"""Which session of a log is meant: by the same rule as everywhere, see `naming`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from interlock.cli.look.naming import Candidate, choose
from interlock.log.archive.reading import archived
from interlock.log.port import SessionSummary
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.conversation import MAX_COUNT
from interlock.vocabulary.ids import SessionId

_PAGE: Final = 1000
_LIST: Final = "`interlock log ls` lists them"
# A session is opened by one of its first events, and put away by one of its last.
_ENDS: Final = 5

# Longer than any sequence number, and short enough to be read as a number at no cost.
_MAX_DIGITS: Final = len(str(MAX_COUNT)) + 1


class _Opened(msgspec.Struct):
    title: str = ""


class _Line(msgspec.Struct):
    """As much of an event as tells a title. Read straight from the line: what is damaged tells none."""

    type: str
    data: _Opened


def as_number(text: str) -> int | None:
    """The number that a text spells in plain digits, if it does and is not absurdly long."""
    is_number = text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS
    return int(text) if is_number else None


async def find_session(log: SqliteLog, named: str, *, with_purged: bool = False) -> SessionSummary:
    """The session that `named` means. Raises `UsageError` if there is none, more than one, or only a tombstone."""
    found = (await log.sessions(prefix=named, limit=1)).sessions if named.strip() else ()
    # Ids are in order, so a session with this very id comes before those that only begin with it.
    session = found[0] if found and found[0].session_id == named else await _search(log, named)
    if session.is_purged and not with_purged:
        raise UsageError(
            f"session {session.session_id} was purged; of its {session.version} events only the head of the chain "
            f"is left, {session.head}",
            remedy=f"name another one, {_LIST}",
        )
    return session


async def _search(log: SqliteLog, named: str) -> SessionSummary:
    known: dict[str, SessionSummary] = {}
    after: SessionId | None = None
    while True:
        page = await log.sessions(after=after, limit=_PAGE)
        known |= {one.session_id: one for one in page.sessions}
        after = page.next_after
        if after is None:
            break
    candidates = await log.query(lambda connection: _candidates(connection, tuple(known.values())))
    return known[choose(candidates, named, listing=_LIST).session_id]


def _candidates(connection: apsw.Connection, sessions: Sequence[SessionSummary]) -> list[Candidate]:
    found = []
    for one in sessions:
        rows = connection.execute(
            "SELECT line FROM events WHERE session_id = ? AND (seq <= ? OR seq > ?) ORDER BY seq",
            (one.session_id, _ENDS, one.version - _ENDS),
        )
        lines = [_read(bytes(line)) for (line,) in rows]
        title = next((line.data.title for line in reversed(lines) if line.type == "session_opened"), "")
        if one.archive and (tombstone := archived(connection, one.session_id)) is not None:
            title = tombstone.title
        is_put_away = one.is_purged or any(line.type == "session_deleted" for line in lines)
        found.append(Candidate(one.session_id, title, has_title=not is_put_away))
    return found


def _read(line: bytes) -> _Line:
    try:
        return msgspec.json.decode(line, type=_Line)
    except msgspec.MsgspecError:
        return _Line("", _Opened())
