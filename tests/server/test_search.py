"""Search over transcripts, by HTTP: what is found, what is said while the index is made, and what never comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.log.archive.moving import archive_session, restore_session
from interlock.log.search.index_file import NAME, PIECE, Scope
from interlock.log.search.words import excerpts, expression
from interlock.log.sqlite.store import SqliteLog
from interlock.server.http.problems import NotReady
from interlock.server.live import searching
from interlock.server.live.searching import TranscriptSearch
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import SessionOpened, TurnFailed
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, SessionId
from interlock.vocabulary.states import DriverKind, TurnState
from interlock.vocabulary.wire.resources import SearchPage
from tests.contract.harness import run
from tests.server.http_harness import House, house, problem

A, B = SessionId("ses_a"), SessionId("ses_b")
TALK: Final[tuple[Payload, ...]] = (
    UserMessage(text="Why does the Parser time out?"),
    ToolCall(
        call_id=CallId("c"), name="Bash", args={"command": "pytest tests/parser_test.py -x", "deep": [{"n": 417}]}
    ),
    ToolResult(call_id=CallId("c"), ok=True, output="FAILED café_menu - timeout after 30 s"),
    AssistantMessage(text="The parser waits for a lock; exit code 9 comes from there."),
    TurnFailed(terminal_status=TurnState.FAILED, error_kind="stalled", error_message="nothing moved"),
)


def opened(agent: str, title: str = "") -> SessionOpened:
    return SessionOpened(agent=agent, driver="puppet", kind=DriverKind.STREAM, title=title)


async def write(log: SqliteLog, session_id: SessionId, *said: Payload, hours: int = 0) -> None:
    later = timedelta(hours=hours)
    events = Scribe(session_id).write(*said, turn="trn_1")
    await log.append(session_id, [structs.replace(one, seq=None, ts=one.ts + later) for one in events])


async def two_sessions(log: SqliteLog) -> None:
    await write(log, A, opened("claude", "fix parser"), *TALK)
    await write(log, B, opened("codex"), UserMessage(text="Document the parser."), hours=5)


async def ask(server: House, **query: str | int) -> dict[str, Any]:
    """A complete answer."""
    while True:
        answer = await server.observer.get("/api/search", params=query)
        assert answer.status_code in (200, 503), answer.text
        told: dict[str, Any] = answer.json()
        if told.get("is_complete"):
            return told


def places(told: dict[str, Any]) -> list[tuple[str, int]]:
    return [(one["task_id"], one["seq"]) for one in told["items"]]


FOUND: Final[tuple[tuple[dict[str, str], list[tuple[str, int]]], ...]] = (
    ({"q": "parser"}, [("ses_b", 2), ("ses_a", 5), ("ses_a", 3), ("ses_a", 2)]),
    ({"q": "PARSER timeout*"}, []),
    ({"q": "parser time"}, [("ses_a", 2)]),
    ({"q": '"exit code 9"'}, [("ses_a", 5)]),
    ({"q": '"code exit 9"'}, []),
    ({"q": "pars*"}, [("ses_b", 2), ("ses_a", 5), ("ses_a", 3), ("ses_a", 2)]),
    ({"q": "parser -lock"}, [("ses_b", 2), ("ses_a", 3), ("ses_a", 2)]),
    ({"q": "CAFE"}, [("ses_a", 4)]),
    ({"q": "tests/parser_test.py"}, [("ses_a", 3)]),
    ({"q": "417"}, [("ses_a", 3)]),
    ({"q": "stalled"}, [("ses_a", 6)]),
    ({"q": "parser", "agent": "codex"}, [("ses_b", 2)]),
    ({"q": "parser", "agent": 'co"dex OR a'}, []),
    ({"q": "parser", "task": "ses_a", "role": "answer"}, [("ses_a", 5)]),
    ({"q": "parser", "task": "ses_nobody"}, []),
    ({"q": "parser", "since": (EPOCH + timedelta(hours=4)).isoformat()}, [("ses_b", 2)]),
    ({"q": "parser", "until": (EPOCH + timedelta(hours=4)).isoformat(), "role": "user"}, [("ses_a", 2)]),
    ({"q": 'text:parser" OR NEAR(a b) {x}: ^'}, []),
    ({"q": "wait* OR stalled"}, []),
)


def test_messages_are_found_by_their_words_newest_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await two_sessions(log)
            async with house(log=log) as server:
                for query, found in FOUND:
                    assert places(await ask(server, **query)) == found, query

    run(story())


def test_a_hit_says_what_it_is_and_where_it_matches(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await two_sessions(log)
            async with house(log=log) as server:
                (hit,) = (await ask(server, q="lock exit"))["items"]
                assert (hit["agent"], hit["title"], hit["role"], hit["turn_id"]) == (
                    "claude",
                    "fix parser",
                    "answer",
                    "trn_1",
                )
                assert [hit["excerpt"][first:last] for first, last in hit["matches"]] == ["lock", "exit"]
                assert not hit["is_lost"]

    run(story())


def test_pages_follow_each_other_without_a_gap_and_new_text_is_found_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await two_sessions(log)
            async with house(log=log) as server:
                whole, after, got = places(await ask(server, q="parser")), "", []
                while True:
                    page = await ask(server, q="parser", limit=1, **({"after": after} if after else {}))
                    got += places(page)
                    if page["next"] is None:
                        break
                    after = page["next"]
                assert got == whole
                await write(log, B, AssistantMessage(text="a parser at last"))
                (first, *others) = places(await ask(server, q="parser"))
                assert (first[0], others) == ("ses_b", whole)

    run(story())


def test_an_index_that_is_deleted_broken_or_old_is_made_anew_and_answers_the_same(tmp_path: Path) -> None:
    async def story() -> None:
        home = tmp_path / "home"
        async with await SqliteLog.open(home) as log:
            await two_sessions(log)
            async with house(log=log) as server:
                told = [await ask(server, q=one) for one in ("parser", "lock", "pars*")]
            assert (home / NAME).stat().st_mode & 0o777 == 0o600
            for harm in (_delete, _overwrite, _cut):
                harm(home / NAME)
                async with house(log=log) as server:
                    assert [await ask(server, q=one) for one in ("parser", "lock", "pars*")] == told, harm

    run(story())


def _delete(path: Path) -> None:
    path.unlink()


def _overwrite(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def test_archived_sessions_are_found_whether_they_were_indexed_before_or_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await two_sessions(log)
            async with house(log=log) as server:
                told = await ask(server, q="parser")
                await archive_session(log, A, version=6, title="", now_unix_ms=1)
                assert await ask(server, q="parser") == told
            (tmp_path / "home" / NAME).unlink()
            async with house(log=log) as server:
                assert await ask(server, q="parser") == told
                await restore_session(log, A)
                assert await ask(server, q="parser") == told

    run(story())


def test_a_session_that_is_archived_before_its_events_were_indexed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "STEP", 2)

    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await write(log, B, UserMessage(text="first parser"))
            search = TranscriptSearch(log, lambda: True)
            search.start()
            assert len((await _complete(search, "parser")).items) == 1
            await search.close()
            await write(log, A, *TALK)
            await archive_session(log, A, version=5, title="", now_unix_ms=1)
            search = TranscriptSearch(log, lambda: True)
            search.start()
            page = await _complete(search, "parser")
            await search.close()
            assert [(one.task_id, one.seq) for one in page.items] == [(A, 4), (A, 2), (A, 1), (B, 1)]

    run(story())


def test_a_purge_leaves_no_word_behind(tmp_path: Path) -> None:
    async def story() -> None:
        home = tmp_path / "home"
        async with await SqliteLog.open(home) as log:
            await write(log, A, UserMessage(text="unutterable parser"))
            await write(log, B, UserMessage(text="other parser"))
            async with house(log=log) as server:
                assert len((await ask(server, q="unutterable"))["items"]) == 1
            assert b"unutter" in (home / NAME).read_bytes()
            await log.purge(A)
            assert not list(home.glob(f"{NAME}*"))
            async with house(log=log) as server:
                assert places(await ask(server, q="parser")) == [("ses_b", 1)]
            assert b"unutter" not in (home / NAME).read_bytes()

    run(story())


class Stepwise(TranscriptSearch):
    """Does so many steps, and the others when it is let."""

    def __init__(self, log: SqliteLog, steps: int) -> None:
        super().__init__(log, lambda: True)
        self.left, self.steps = steps, asyncio.Event()

    async def _step(self, store: SqliteLog) -> bool:
        self.left -= 1
        if self.left < 0:
            await self.steps.wait()
        return await super()._step(store)


async def _answer(search: TranscriptSearch, words: str) -> SearchPage:
    """The first answer that there is: on a busy machine the index may not be there yet."""
    while True:
        with suppress(NotReady):
            return await search.find(words, Scope(), 100)


async def _complete(search: TranscriptSearch, words: str) -> SearchPage:
    while not (found := await _answer(search, words)).is_complete:
        pass
    return found


def test_while_the_index_is_made_an_answer_is_said_to_be_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "STEP", 1)
    monkeypatch.setattr(searching, "CATCH_UP_SECONDS", 0.05)

    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            for number in range(40):
                await write(log, SessionId(f"ses_{number}"), UserMessage(text="parser"))
            search = Stepwise(log, 10)
            search.start()
            partial = await _answer(search, "parser")
            while not partial.items or partial.progress < 0.2:  # ten steps may still be on their way
                partial = await _answer(search, "parser")
            assert (len(partial.items), partial.is_complete) == (10, False)
            search.steps.set()
            whole = await _complete(search, "parser")
            assert (len(whole.items), whole.progress) == (40, 1.0)
            await search.close()

    run(story())


def test_a_text_of_many_megabytes_is_found_to_its_end_and_kept_once(tmp_path: Path) -> None:
    text = "word " * (PIECE // 2) + "needle at the end"

    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log:
            await write(log, A, AssistantMessage(text=text))
            async with house(log=log) as server:
                (hit,) = (await ask(server, q="needle"))["items"]
                assert hit["excerpt"].endswith("needle at the end")
                assert len(hit["excerpt"]) < 1000
            assert (tmp_path / "home" / NAME).stat().st_size < len(text) / 2

    run(story())


def test_an_index_of_another_log_is_not_believed(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        async with await SqliteLog.open(first) as log:
            await write(log, A, UserMessage(text="parser one"))
            async with house(log=log) as server:
                await ask(server, q="parser")
        async with await SqliteLog.open(second) as log:
            await write(log, B, UserMessage(text="parser two"))
            (second / NAME).write_bytes((first / NAME).read_bytes())
            async with house(log=log) as server:
                assert places(await ask(server, q="parser")) == [("ses_b", 1)]

    run(story())


def test_a_search_for_nothing_is_refused_with_what_can_be_given(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log, house(log=log) as server:
            for query in ("", "  ", "!!! --", "-only -these", '""', "x" * 2000, "a " * 40):
                answer = await server.observer.get("/api/search", params={"q": query})
                assert answer.status_code in (400, 422), answer.text
                assert answer.json()["status"] == answer.status_code

    run(story())


def test_odd_filters_are_refused_and_strangers_are_not_let_in(tmp_path: Path) -> None:
    async def story() -> None:
        async with await SqliteLog.open(tmp_path / "home") as log, house(log=log) as server:
            for odd in ({"since": "yesterday"}, {"until": "2026-01-31T12:00:00"}, {"after": "1; DROP"}):
                answer = await server.observer.get("/api/search", params={"q": "a", **odd})
                problem(answer, 422, "unfit")
            assert (await server.stranger.get("/api/search", params={"q": "a"})).status_code == 401

    run(story())


@given(st.text(max_size=60), st.text(max_size=200))
def test_nothing_that_is_typed_or_said_is_syntax(query: str, text: str) -> None:
    try:
        spelled = expression(query)
    except UsageError:
        return
    for one in excerpts(spelled, {1: text}).values():
        assert all(0 <= first < last <= len(one.text) for first, last in one.matches)
        assert "\x02" not in one.text


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), min_size=1, max_size=6), st.data())
def test_every_word_of_a_text_finds_it(words: Sequence[str], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=3))
    found = excerpts(expression(" ".join(wanted)), {7: " ".join(words)})
    assert {found[7].text[first:last] for first, last in found[7].matches} <= set(wanted)
    assert not excerpts(expression("omega"), {7: " ".join(words)})
