"""Search over the transcripts of a log: keeps the index of words up to date in the background, and asks it.

Laws:
1. Making the index is done in small steps, with as long a pause after each: nobody waits for it. A search works
   meanwhile, and says how far the index is.
2. What was committed before a search began is found by it, unless that is so much that it takes longer than a moment;
   then the answer says that it is not complete.
3. A hit is shown as the log gives it, by its chain. What the log cannot give is said to be lost.
4. No failure of the index ends the server. It is made anew, or tried again later.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import apsw

from interlock.log.archive.reading import ArchiveFault
from interlock.log.chain import ChainRow, Decoder
from interlock.log.port import Log, LogUnavailable
from interlock.log.search.index_file import (
    Added,
    Hit,
    IndexAnchor,
    Opening,
    Scope,
    SearchIndex,
    SearchText,
    State,
    piece_of,
    remove_index,
)
from interlock.log.search.words import Excerpt, excerpts, expression
from interlock.log.sqlite.faults import rows_after, rows_of, top_position
from interlock.log.sqlite.readers import read_slice
from interlock.log.sqlite.store import SqliteLog
from interlock.projections import searchable as texts
from interlock.server.http.problems import NotReady, Unfit
from interlock.vocabulary.errors import MalformedEvent, UsageError
from interlock.vocabulary.events.audit import SessionOpened, SessionRenamed
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import DECLARATIONS
from interlock.vocabulary.ids import SessionId, is_valid_id
from interlock.vocabulary.wire.frames import Role
from interlock.vocabulary.wire.resources import SearchHit, SearchPage

STEP: Final = 500
CATCH_UP_SECONDS: Final = 2.0
SEARCH_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 30.0
_HEAD_BYTES: Final = 700
_TYPE: Final = b'"type":"'
_NAMES: Final = frozenset(name.encode() for name, one in DECLARATIONS.items() if one.payload in texts.TYPES)
_MOVED: Final = frozenset({"archive", "restore"})
_REMADE: Final = frozenset({"purge", "repair"})
_logger: Final = logging.getLogger("interlock.server")
T = TypeVar("T")


class _News(NamedTuple):
    """What was done to the log by hand: up to which row of `maintenance`, sessions that were moved, and whether that
    makes the index one of another log."""

    maintained: int
    moved: tuple[SessionId, ...]
    is_other: bool


class TranscriptSearch:
    """The search of one log. It begins to make its index when `is_ready` says so."""

    def __init__(self, log: Log, is_ready: Callable[[], bool]) -> None:
        self._store = log if isinstance(log, SqliteLog) else None
        self._is_ready = is_ready
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="interlock-search-index")
        self._index: SearchIndex | None = None
        self._state = State(0, -1, False, IndexAnchor(SessionId(""), 0, b""))
        self._asked = asyncio.Event()
        self._stepped = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._store is not None:
            self._task = asyncio.create_task(self._keep(self._store))

    async def close(self) -> None:
        """A step that is being done is done to its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._index is not None:
            await self._in_thread(self._index.close)
        self._thread.shutdown(wait=False)

    async def find(self, query: str, scope: Scope, limit: int) -> SearchPage:
        """A page of hits. `Unfit` for a query that says nothing, `NotReady` before there is an index."""
        if self._store is None:
            raise Unfit("the log of this server is in no database", remedy="ask a server that has one")
        store, spelled = self._store, _spelled(query)
        top = await store.query(top_position)
        await self._catch_up(top)
        if self._index is None:
            raise NotReady("the index of words is not there yet")
        is_made = self._is_made(top)  # before it is asked: what it learns meanwhile is not in these hits
        try:
            hits, is_cut = await asyncio.to_thread(_find, store.path.parent, spelled, scope, limit + 1)
        except apsw.Error as error:
            raise NotReady(f"the index of words cannot be read now ({error})") from error
        shown = hits[:limit]
        items = await store.query(partial(_shown, decode=store.schema.decode, hits=shown, spelled=spelled))
        return SearchPage(
            items=items,
            next=str(shown[-1].number) if shown and (len(hits) > limit or is_cut) else None,
            is_complete=is_made and not is_cut,
            is_cut=is_cut,
            progress=1.0 if is_made else min(0.999, round(self._state.position / max(1, top), 3)),
        )

    def _is_made(self, top: int) -> bool:
        return self._index is not None and self._state.has_archives and self._state.position >= top

    async def _catch_up(self, top: int) -> None:
        """Law 2."""
        if self._is_made(top):
            return
        self._asked.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS), self._stepped:
                await self._stepped.wait_for(lambda: self._is_made(top))

    # Making the index

    async def _keep(self, store: SqliteLog) -> None:
        while not self._is_ready():  # a start is not made slower; who searches meanwhile does not wait for it
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_SECONDS):
                    await self._asked.wait()
                    break
        while True:
            try:
                await self._open(store)
                await self._follow(store)
                return
            except (apsw.Error, OSError) as error:
                _logger.warning("the index of words is made anew: %s", error)
                await self._drop(store)
            except LogUnavailable as error:
                _logger.warning("the index of words waits for the log: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _open(self, store: SqliteLog) -> None:
        """Nobody searches an index before it is known to be of this log."""
        index, self._index = self._index, None
        if index is None:
            index = await self._in_thread(partial(SearchIndex.open, store.path.parent, version()))
        try:
            state = await self._in_thread(index.state)
            is_ours = not state.position or await store.query(partial(_has_anchor, state=state))
            if is_ours and state.maintained < 0:
                state = state._replace(maintained=(await store.query(partial(_news, after=-1))).maintained)
        except BaseException:
            await self._in_thread(index.close)
            raise
        if is_ours:
            self._index, self._state = index, state
            return
        _logger.info("the index of words is of another log: it is made anew")
        await self._in_thread(index.close)
        await self._in_thread(partial(remove_index, store.path.parent))
        await self._open(store)

    async def _drop(self, store: SqliteLog) -> None:
        index, self._index = self._index, None
        if index is not None:
            await self._in_thread(index.close)
        await self._in_thread(partial(remove_index, store.path.parent))

    async def _follow(self, store: SqliteLog) -> None:
        with store.listen(None) as bell:
            while True:
                bell.clear()
                began = asyncio.get_running_loop().time()
                is_more = await self._step(store)
                async with self._stepped:
                    self._stepped.notify_all()
                if is_more:
                    spent = asyncio.get_running_loop().time() - began
                    await asyncio.sleep(0 if self._asked.is_set() else spent)
                else:
                    self._asked.clear()
                    await _either(bell, self._asked)
                    if not self._asked.is_set():  # so that many small appends are one step
                        await asyncio.sleep(_PAUSE_SECONDS)

    async def _step(self, store: SqliteLog) -> bool:
        """One bounded piece of work; whether there may be more."""
        news = await store.query(partial(_news, after=self._state.maintained))
        if news.is_other:
            await self._drop(store)
            await self._open(store)
            return True
        if news.maintained != self._state.maintained:
            for session_id in news.moved:
                await self._add_session(store, session_id)
            await self._add((), self._state._replace(maintained=news.maintained), store)
            return True
        rows, top = await store.query(partial(_rows_on, position=self._state.position))
        if rows:
            anchor = IndexAnchor(rows[-1].session_id, rows[-1].seq, rows[-1].digest)
            await self._add(rows, self._state._replace(position=rows[-1].position, anchor=anchor), store)
            return True
        if top > self._state.position:  # what was there is in an archive file now, or purged
            await self._add((), self._state._replace(position=top), store)
            return True
        if not self._state.has_archives:
            after = ""
            while page := await store.query(partial(_archived_after, after=after)):
                for session_id in page:
                    await self._add_session(store, session_id)
                after = page[-1]
            await self._add((), self._state._replace(has_archives=True), store)
            return True
        return False

    async def _add_session(self, store: SqliteLog, session_id: SessionId) -> None:
        """What is not in the index of a session that was moved, wherever its events are now."""
        assert self._index is not None, "it is open while it is made"
        after = await self._in_thread(partial(self._index.last_seq, session_id))
        while rows := await store.query(partial(_rows_of, session_id=session_id, after=after)):
            await self._add(rows, self._state, store)
            after = rows[-1].seq
            await asyncio.sleep(0)

    async def _add(self, rows: Iterable[ChainRow], state: State, store: SqliteLog) -> None:
        assert self._index is not None, "it is open while it is made"
        index = self._index

        def work() -> None:
            index.add(read_rows(rows, store.schema.decode), state)

        await self._in_thread(work)
        self._state = state

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """A cancelled caller leaves the step to its end: it is a transaction, and the next work waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def version() -> str:
    """Changes with the code that says what is found: nobody has to remember to raise a number."""
    return sha256(Path(texts.__file__).read_bytes() + Path(__file__).read_bytes()).hexdigest()


def read_rows(rows: Iterable[ChainRow], decode: Decoder) -> Added:
    """What can be found in rows. Only events of types that hold something are decoded."""
    found: list[SearchText] = []
    openings: list[Opening] = []
    titles: list[tuple[SessionId, str]] = []
    last_seqs: dict[SessionId, int] = {}
    for row in rows:
        if not is_valid_id(row.session_id):
            continue
        last_seqs[row.session_id] = max(row.seq, last_seqs.get(row.session_id, 0))
        event = _event(row, decode)
        if event is not None and isinstance(event.data, SessionOpened):
            openings.append(Opening(row.session_id, event.data.agent, event.data.title))
        if event is not None and isinstance(event.data, SessionRenamed):
            titles.append((row.session_id, event.data.title))
        said = None if event is None else texts.searchable(event)
        if event is not None and said is not None:
            found.append(SearchText(row.position, row.session_id, row.seq, said[0].value, event.ts, said[1]))
    return Added(found, openings, titles, last_seqs)


def _event(row: ChainRow, decode: Decoder) -> Event | None:
    begins = row.line.find(_TYPE, 0, _HEAD_BYTES)
    if begins >= 0:
        begins += len(_TYPE)
        if row.line[begins : row.line.find(b'"', begins)] not in _NAMES:
            return None
    try:
        return decode(row.line, row.schema_version)
    except MalformedEvent:
        return None  # it is damaged, and said to be wherever it is read


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(one.wait()) for one in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


# Within one snapshot of the log


def _rows_on(connection: apsw.Connection, *, position: int) -> tuple[list[ChainRow], int]:
    """The next rows, and the highest position that was ever given."""
    rows = [row for row in rows_after(connection, position, STEP)[:STEP] if row.position > position]
    return rows, top_position(connection)


def _rows_of(connection: apsw.Connection, *, session_id: SessionId, after: int) -> list[ChainRow]:
    try:
        return [row for row in rows_of(connection, session_id, after, STEP)[:STEP] if row.seq > after]
    except ArchiveFault as fault:
        return [row for row in fault.rows if row.seq > after]


def _archived_after(connection: apsw.Connection, *, after: str) -> list[SessionId]:
    sql = "SELECT session_id FROM archived WHERE session_id > ? ORDER BY session_id LIMIT ?"
    return [SessionId(str(key)) for (key,) in connection.execute(sql, (after, STEP))]


def _news(connection: apsw.Connection, *, after: int) -> _News:
    ((last,),) = connection.execute("SELECT coalesce(max(id), 0) FROM maintenance").fetchall()
    maintained = int(str(last))
    if maintained <= after:
        return _News(maintained, (), maintained < after)
    moved: list[SessionId] = []
    is_other = False
    for action, details in connection.execute("SELECT action, details FROM maintenance WHERE id > ?", (after,)):
        is_other |= after >= 0 and action in _REMADE
        if action in _MOVED:
            moved.append(SessionId(str(json.loads(str(details)).get("session_id", ""))))
    return _News(maintained, tuple(one for one in moved if is_valid_id(one)), is_other)


def _has_anchor(connection: apsw.Connection, *, state: State) -> bool:
    if state.position > top_position(connection):
        return False
    if not state.anchor.seq:
        return True
    try:
        rows = rows_of(connection, state.anchor.session_id, state.anchor.seq - 1, 1)
    except ArchiveFault:
        return True  # its file is damaged, which says nothing about the index
    return [(row.seq, row.digest) for row in rows[:1]] == [(state.anchor.seq, state.anchor.digest)]


def _spelled(query: str) -> str:
    try:
        return expression(query)
    except UsageError as error:
        raise Unfit(str(error).removesuffix(f"; {error.remedy}"), remedy=error.remedy) from error


def _find(home: Path, spelled: str, scope: Scope, limit: int) -> tuple[list[Hit], bool]:
    index = SearchIndex.read(home)
    try:
        return index.find(spelled, scope, limit, SEARCH_SECONDS)
    finally:
        index.close()


def _shown(connection: apsw.Connection, *, decode: Decoder, hits: list[Hit], spelled: str) -> tuple[SearchHit, ...]:
    found: dict[int, tuple[Event, str]] = {}
    for hit in hits:
        for event in read_slice(connection, hit.session_id, decode, hit.seq - 1, 1).events:
            said = texts.searchable(event)
            if said is not None and event.seq == hit.seq:
                found[hit.number] = (event, piece_of(said[1], hit.piece))
    shown = excerpts(spelled, {number: text for number, (_, text) in found.items()})
    return tuple(_hit(hit, found[hit.number][0] if hit.number in found else None, shown) for hit in hits)


def _hit(hit: Hit, event: Event | None, shown: dict[int, Excerpt]) -> SearchHit:
    excerpt = shown.get(hit.number, Excerpt(text="", matches=()))
    return SearchHit(
        task_id=hit.session_id,
        agent=hit.agent,
        title=hit.title,
        seq=hit.seq,
        turn_id=None if event is None else event.turn_id,
        role=Role(hit.role),
        at=datetime.fromtimestamp(hit.at_unix_ms / 1000, UTC) if event is None else event.ts,
        excerpt=excerpt.text,
        matches=excerpt.matches,
        is_lost=event is None or not excerpt.matches,
    )
