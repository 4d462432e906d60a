"""Which sessions may be moved out of the log, decided in one place for the server and for commands without one.

Law: a session that somebody could still be working in stays: one with an open turn, a process whose end is not known,
a question that is open, or a prompt that waits. What is damaged stays, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.log.archive.moving import MovedSession, archive_session
from interlock.log.port import Log, LogDamage
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.session_fold import SessionFold
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId

_PAGE: Final = 1000


class SessionOpen(UsageError):
    """Somebody may work in the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingSession:
    """A session as it was looked at. `reason` is why it has to stay; blank: it may be moved."""

    session_id: SessionId
    version: int
    title: str
    reason: str = ""


async def look_at_rest(log: Log, session_id: SessionId) -> RestingSession:
    """Read a session, page by page, and judge it."""
    book, after = SessionFold(session_id), 0
    damage: LogDamage | None = None
    while True:
        found = await log.read(session_id, after=after, limit=_PAGE)
        damage = damage or next(iter(found.damage), None)
        for event in found.events:
            book.add(event)
        if len(found.events) < _PAGE:
            break
        after = found.events[-1].seq or 0
    title = "" if book.opened is None else book.opened.title
    reason = f"it is damaged: {damage.message}" if damage is not None else _open_by(book)
    return RestingSession(session_id=session_id, version=found.version, title=title, reason=reason)


def _open_by(book: SessionFold) -> str:
    if book.turn is not None:
        return "a turn is open"
    if book.spawn is not None:
        return "its agent is not known to have ended"
    if book.suspended or book.dialogs.open:
        return "a question is open"
    waiting = len(book.queue.waiting)
    return f"{waiting} prompt{'s wait' if waiting > 1 else ' waits'} in its queue" if waiting else ""


async def archive_at_rest(log: SqliteLog, session_id: SessionId, now_unix_ms: int) -> MovedSession:
    """Move a session into an archive file, or refuse it (`SessionOpen`) with the reason."""
    found = await look_at_rest(log, session_id)
    if found.reason:
        raise SessionOpen(
            f"session {session_id} was not moved: {found.reason}", remedy=f"see `interlock show {session_id}`"
        )
    return await archive_session(log, session_id, version=found.version, title=found.title, now_unix_ms=now_unix_ms)
