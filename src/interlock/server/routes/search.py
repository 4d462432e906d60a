"""Full-text search over the transcripts of all tasks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, TypeAlias

from litestar import get
from litestar.params import QueryParameter

from interlock.log.search.index_file import Scope
from interlock.log.search.words import MAX_QUERY
from interlock.server.http.problems import Unfit
from interlock.server.routes.common import After, Server
from interlock.vocabulary.wire.frames import Role
from interlock.vocabulary.wire.resources import SearchPage

DEFAULT_HITS: Final = 20
_MAX_HITS: Final = 100
_Filter: TypeAlias = Annotated[str | None, QueryParameter(max_length=200, required=False)]
_NO_TIME: Final = "give a time with its zone, such as 2026-01-31T12:00:00Z"


@get("/search")
async def search_transcripts(
    server: Server,
    q: Annotated[
        str, QueryParameter(max_length=MAX_QUERY, description='Words, "several words", word* for a beginning, -word.')
    ],
    task: _Filter = None,
    agent: _Filter = None,
    role: Annotated[Role | None, QueryParameter(required=False, description="Only messages of this kind.")] = None,
    since: Annotated[str | None, QueryParameter(required=False, description="From this time on.")] = None,
    until: Annotated[str | None, QueryParameter(required=False, description="Before this time.")] = None,
    after: After = None,
    limit: Annotated[int, QueryParameter(ge=1, le=_MAX_HITS, description="How many to give at most.")] = DEFAULT_HITS,
) -> SearchPage:
    """Find messages by their words, over every task of the log, ended and archived ones too; the newest first."""
    scope = Scope(session_id=task or "", agent=agent or "", role="" if role is None else role.value)
    if since is not None:
        scope = scope._replace(since_unix_ms=_unix_ms(since))
    if until is not None:
        scope = scope._replace(until_unix_ms=_unix_ms(until))
    if after is not None:
        scope = scope._replace(before=_hit_number(after))
    return await server.search.find(q, scope, limit)


def _hit_number(cursor: str) -> int:
    """The number of a hit is larger than other cursors."""
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Unfit("that is no cursor", remedy="use the `next` of a page")
    return int(cursor)


def _unix_ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Unfit("that is no time", remedy=_NO_TIME) from None
    if at.tzinfo is None:
        raise Unfit("that time has no zone", remedy=_NO_TIME)
    return round(at.timestamp() * 1000)


ROUTES = (search_transcripts,)
