"""What every store of the log promises, over each of them. The laws are those of the port."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from interlock.lifecycle.turns import turn_states
from interlock.log.chain import link, start
from interlock.log.port import Committed, Log, LogUnavailable, VersionConflict
from interlock.projections.turn_evidence import dossiers_in
from interlock.testing.strategies import events as any_events
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import ProcessEvent, ProcessEventKind
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.envelope import Event, audience
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import Audience
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import AT, STORES, A, B, batch, event, ids, run, take, take_all
from tests.log.turn_logs import random_session

Scenario: TypeAlias = Callable[[Log], Awaitable[None]]
Check: TypeAlias = Callable[[Scenario], None]


@pytest.fixture(params=STORES)
def check(request: pytest.FixtureRequest, tmp_path: Path) -> Check:
    """Run a scenario over a fresh store."""

    def over(scenario: Scenario) -> None:
        async def main() -> None:
            async with opened(request.param, tmp_path) as log:
                await scenario(log)

        run(main())

    return over


@asynccontextmanager
async def opened(store: str, home: Path) -> AsyncIterator[Log]:
    log = await STORES[store](home / "home")
    try:
        yield log
    finally:
        await log.close()


def test_events_come_back_in_order_and_stamped_from_one(check: Check) -> None:
    async def scenario(log: Log) -> None:
        written = batch(5)
        assert await log.append(A, written[:2]) == 2
        assert await log.append(A, written[2:]) == 5
        found = await log.read(A)
        assert found.events == tuple(structs.replace(each, seq=seq) for seq, each in enumerate(written, 1))
        assert (found.version, found.damage) == (5, ())

    check(scenario)


def test_read_pages(check: Check) -> None:
    async def scenario(log: Log) -> None:
        await log.append(A, batch(7))
        for after in range(9):
            for limit in (1, 3, 7, 8, None):
                found = await log.read(A, after=after, limit=limit)
                assert [each.seq for each in found.events] == list(range(1, 8))[after:][:limit]
                assert found.version == 7
        assert (await log.read(B)).events == ()
        assert (await log.read(B)).version == 0

    check(scenario)


def test_somebody_who_appended_first_is_a_conflict_that_changes_nothing(check: Check) -> None:
    async def scenario(log: Log) -> None:
        assert await log.append(A, batch(2), expected_version=0) == 2
        for expected in (0, 1, 3):
            with pytest.raises(VersionConflict) as conflict:
                await log.append(A, batch(1), expected_version=expected)
            assert (conflict.value.expected, conflict.value.actual) == (expected, 2)
        assert (await log.read(A)).version == 2
        assert await log.append(A, batch(1), expected_version=2) == 3

    check(scenario)


def test_one_of_many_wins_a_compare_and_set(check: Check) -> None:
    async def scenario(log: Log) -> None:
        for version in range(5):
            attempts = (log.append(A, batch(1), expected_version=version) for _ in range(20))
            outcomes = await asyncio.gather(*attempts, return_exceptions=True)
            assert [each for each in outcomes if isinstance(each, int)] == [version + 1]
            assert sum(isinstance(each, VersionConflict) for each in outcomes) == 19

    check(scenario)


REFUSED: dict[str, Callable[[], list[Event]]] = {
    "no event at all": list,
    "an event of another session": lambda: [event(), event(B)],
    "an ephemeral event": lambda: [event(), event(data=TextDelta(stream_id="s", offset=0, text="x"))],  # type: ignore[arg-type]
    "a seq that was used": lambda: [event(seq=1)],
    "a seq that leaves a gap": lambda: [event(seq=3)],
    "a wrong seq after a right one": lambda: [event(seq=2), event(seq=2)],
    "a text that JSON cannot hold": lambda: [event(), event(text="\ud800")],
    "a text that the codec refuses": lambda: [event(), event(text="a\x00b")],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refused_batch_leaves_nothing_behind(check: Check, reason: str) -> None:
    async def scenario(log: Log) -> None:
        await log.append(A, batch(1))
        neighbours = (log.append(B, batch(1, B)) for _ in range(5))
        outcomes = await asyncio.gather(log.append(A, REFUSED[reason]()), *neighbours, return_exceptions=True)
        assert isinstance(outcomes[0], ContractError)
        assert sorted(map(str, outcomes[1:])) == ["1", "2", "3", "4", "5"]
        assert (await log.read(A)).version == 1
        assert await log.append(A, [event(seq=2)]) == 2

    check(scenario)


@pytest.mark.parametrize("bad", ["", "../etc", "a b", "a\n", "é", ".hidden", "x" * 129, "a/b", "a\x00b"])
def test_a_session_id_is_checked_everywhere(check: Check, bad: str) -> None:
    async def scenario(log: Log) -> None:
        session_id = SessionId(bad)
        with pytest.raises(ContractError):
            await log.append(session_id, batch(1))
        with pytest.raises(ContractError):
            await log.read(session_id)
        with pytest.raises(ContractError):
            await take(log.follow(session_id), 1)

    check(scenario)


@pytest.mark.parametrize(
    "senseless",
    [
        lambda log: log.read(A, after=-1),
        lambda log: log.read(A, limit=0),
        lambda log: log.read(A, limit=-5),
        lambda log: log.read_turns(A, last=0),
        lambda log: log.sessions(limit=0),
        lambda log: log.sessions(limit=-5),
        lambda log: take(log.follow(A, after=-1), 1),
        lambda log: take_all(log.follow_all(after=-1), 1),
    ],
)
def test_a_senseless_page_is_refused(check: Check, senseless: Callable[[Log], Awaitable[object]]) -> None:
    async def scenario(log: Log) -> None:
        await log.append(A, batch(3))
        with pytest.raises(ContractError):
            await senseless(log)

    check(scenario)


def test_many_appenders_of_many_sessions_agree_on_one_order(check: Check) -> None:
    """Commit order, sequence order and position order agree, and batches are neighbours."""
    sessions = [SessionId(f"ses_{number}") for number in range(5)]

    async def scenario(log: Log) -> None:
        acknowledged: list[tuple[SessionId, int]] = []

        async def appender(number: int) -> None:
            chance = random.Random(number)
            for _ in range(10):
                session_id, size = chance.choice(sessions), chance.randint(1, 4)
                made = [event(session_id, f"{number} of {size}") for _ in range(size)]
                acknowledged.append((session_id, await log.append(session_id, made)))

        await asyncio.gather(*(appender(number) for number in range(24)))
        versions = [(await log.read(each)).version for each in sessions]
        commits = await take_all(log.follow_all(), sum(versions))
        assert [commit.position for commit in commits] == list(range(1, len(commits) + 1))
        for session_id in sessions:
            mine = [commit.event for commit in commits if commit.event.session_id == session_id]
            assert [each.seq for each in mine] == list(range(1, len(mine) + 1))
            assert tuple(mine) == (await log.read(session_id)).events
            ends = [version for owner, version in acknowledged if owner == session_id]
            assert ends == sorted(set(ends)), "acknowledged in the order of commits"
            assert ends[-1] == len(mine)
        assert_batches_are_neighbours(commits)

    check(scenario)


def assert_batches_are_neighbours(commits: list[Committed]) -> None:
    rest = [str(commit.event.data.text) for commit in commits]  # type: ignore[attr-defined]
    while rest:
        size = int(rest[0].split(" of ")[1])
        assert rest[:size] == [rest[0]] * size
        rest = rest[size:]


def test_followers_miss_and_repeat_nothing_under_load(check: Check) -> None:
    """From every cursor, begun before, during and after the appends."""

    async def scenario(log: Log) -> None:
        total = 120

        async def follower(after: int) -> list[Event]:
            return await take(log.follow(A, after=after), total - after)

        async def follower_of_all(after: int) -> list[Committed]:
            return await take_all(log.follow_all(after=after), 2 * total - after)

        async with asyncio.TaskGroup() as group:
            early = [group.create_task(follower(after)) for after in range(0, total, 7)]
            all_early = [group.create_task(follower_of_all(after)) for after in range(0, 2 * total, 31)]
            late: list[asyncio.Task[list[Event]]] = []
            for number in range(total // 2):
                appends = [log.append(A, batch(2)), log.append(B, batch(1, B)), log.append(B, batch(1, B))]
                await asyncio.gather(*appends)
                if number % 10 == 0:
                    late.append(group.create_task(follower(number)))
        for task in early + late:
            seqs = [each.seq for each in task.result()]
            assert seqs == list(range(total - len(seqs) + 1, total + 1))
        for commits in (task.result() for task in all_early):
            positions = [commit.position for commit in commits]
            assert positions == list(range(2 * total - len(positions) + 1, 2 * total + 1))

    check(scenario)


def test_a_slow_follower_does_not_hold_back_an_append(check: Check) -> None:
    async def scenario(log: Log) -> None:
        source = log.follow(A)
        await log.append(A, batch(1))
        first = await anext(source)
        for _ in range(50):
            await log.append(A, batch(20))
        assert [first.seq, *(each.seq for each in await take(source, 1000))] == list(range(1, 1002))  # type: ignore[union-attr]

    check(scenario)


def test_a_follower_sees_nothing_of_a_failed_append(check: Check) -> None:
    async def scenario(log: Log) -> None:
        following = asyncio.create_task(take(log.follow(A), 2))
        first, refused, second = event(), event(), event()
        await log.append(A, [first])
        with pytest.raises(VersionConflict):
            await log.append(A, [refused], expected_version=7)
        await log.append(A, [second])
        assert ids(await following) == [first.id, second.id]

    check(scenario)


def test_a_cancelled_append_is_whole_or_absent(check: Check) -> None:
    async def scenario(log: Log) -> None:
        chance = random.Random(1)
        batches = [batch(3) for _ in range(60)]
        tasks: list[asyncio.Task[int]] = []
        for each in batches:
            tasks.append(asyncio.create_task(log.append(A, each)))
            for _ in range(chance.randint(0, 4)):
                await asyncio.sleep(0)
            if chance.random() < 0.6:
                chance.choice(tasks).cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        version = await log.append(A, batch(1))
        kept = (await log.read(A)).events
        assert [each.seq for each in kept] == list(range(1, version + 1))
        found = ids(kept[:-1])
        whole = [each for each in batches if each[0].id in found]
        assert found == [id for each in whole for id in ids(each)]
        for made, outcome in zip(batches, outcomes, strict=True):
            assert made in whole or isinstance(outcome, asyncio.CancelledError)
        assert [each.seq for each in await take(log.follow(A), version)] == list(range(1, version + 1))

    check(scenario)


def test_a_cancelled_follower_leaves_no_trace(check: Check) -> None:
    async def scenario(log: Log) -> None:
        tasks = [asyncio.create_task(take(log.follow(A), 100)) for _ in range(5)]
        tasks_all = [asyncio.create_task(take_all(log.follow_all(), 100)) for _ in range(5)]
        await log.append(A, batch(3))
        for task in [*tasks, *tasks_all]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, *tasks_all, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in outcomes)
        assert await log.append(A, batch(1)) == 4
        assert len(await take(log.follow(A), 4)) == 4

    check(scenario)


def test_close_finishes_what_was_accepted_and_ends_followers(check: Check) -> None:
    async def scenario(log: Log) -> None:
        async def drain() -> list[int | None]:
            return [each.seq async for each in log.follow(A) if isinstance(each, Event)]

        async def drain_all() -> list[int]:
            return [each.position async for each in log.follow_all() if isinstance(each, Committed)]

        followers, of_all = asyncio.create_task(drain()), asyncio.create_task(drain_all())
        await log.append(A, batch(1))
        pending = [asyncio.create_task(log.append(A, batch(1))) for _ in range(30)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await log.close()
        outcomes = await asyncio.gather(*pending, return_exceptions=True)
        kept = [each for each in outcomes if isinstance(each, int)]
        assert all(isinstance(each, int | LogUnavailable) for each in outcomes)
        assert await followers == list(range(1, len(kept) + 2))
        assert await of_all == list(range(1, len(kept) + 2))
        await log.close()
        for refused in (log.append(A, batch(1)), log.read(A), log.sessions()):
            with pytest.raises(LogUnavailable, match="closed"):
                await refused

    check(scenario)


def test_sessions_are_listed_by_pages_and_prefix(check: Check) -> None:
    names = [SessionId(f"{prefix}{number:02}") for prefix in ("imp:", "ses_", "sub.") for number in range(7)]

    async def scenario(log: Log) -> None:
        for name in random.Random(3).sample(names, len(names)):
            await log.append(name, batch(2, name))
        for prefix in ("", "s", "ses_", "ses_0", "ses_06", "none"):
            for limit in (1, 2, 7, 100):
                assert await listed(log, prefix, limit) == [name for name in names if name.startswith(prefix)]

    check(scenario)


async def listed(log: Log, prefix: str, limit: int) -> list[str]:
    found: list[str] = []
    after: SessionId | None = None
    while True:
        page = await log.sessions(prefix=prefix, after=after, limit=limit)
        assert len(page.sessions) <= limit
        found += [each.session_id for each in page.sessions]
        after = page.next_after
        if after is None:
            return found


def test_a_summary_carries_version_times_and_the_head_of_the_chain(check: Check) -> None:
    async def scenario(log: Log) -> None:
        await log.append(A, batch(2))
        await log.append(A, batch(1))
        (summary,) = (await log.sessions()).sessions
        head = start(A)
        for each in (await log.read(A)).events:
            head = link(head, encode_event(each))
        assert (summary.session_id, summary.version, summary.head) == (A, 3, head.hex())
        assert (summary.first_at, summary.last_at, summary.is_purged) == (AT, AT, False)

    check(scenario)


@pytest.mark.parametrize("store", STORES)
@given(history=st.lists(st.lists(any_events(), min_size=1, max_size=3), max_size=4))
def test_any_event_comes_back_as_it_was(
    store: str, tmp_path_factory: pytest.TempPathFactory, history: list[list[Event]]
) -> None:
    batches = [[structs.replace(each, session_id=A, seq=None) for each in group] for group in history]

    async def main() -> None:
        async with opened(store, tmp_path_factory.mktemp("any")) as log:
            kept: list[Event] = []
            for group in batches:
                if any(audience(each) is Audience.PRESENTER for each in group):
                    with pytest.raises(ContractError):
                        await log.append(A, group)
                else:
                    await log.append(A, group, expected_version=len(kept))
                    kept += group
            found = await log.read(A)
            assert [structs.replace(each, seq=None) for each in found.events] == kept
            assert not found.damage

    run(main())


def test_the_last_turns_are_read_from_where_they_begin(check: Check) -> None:
    async def scenario(log: Log) -> None:
        for seed in range(6):
            session_id = SessionId(f"ses_turns_{seed}")
            written = random_session(random.Random(seed), session_id, 40)
            await log.append(session_id, [structs.replace(each, seq=None) for each in written])
            every = [record.turn_id for record in turn_states(written)]
            for last in range(1, len(every) + 2):
                part = await log.read_turns(session_id, last=last)
                assert part.turns == frozenset(every[-last:])
                assert part.found.events == tuple(written[part.after :])
                assert turn_states(part.found.events[:1])[0].turn_id == every[-last:][0] or part.prompts_before
                found = [one.record for one in dossiers_in(part)]
                assert found == turn_states(written)[-last:]

    check(scenario)


def test_turns_of_a_session_that_has_none(check: Check) -> None:
    async def scenario(log: Log) -> None:
        assert (await log.read_turns(B)).found.events == ()
        started = event(data=ProcessEvent(kind=ProcessEventKind.SPAWNED))
        await log.append(A, [started])
        part = await log.read_turns(A)
        assert (part.turns, part.after) == (None, 0)
        assert ids(part.found.events) == ids(part.process) == [started.id]
        with pytest.raises(ContractError):
            await log.read_turns(A, last=0)
        with pytest.raises(ContractError):
            await log.read_turns(SessionId("a b"))

    check(scenario)
