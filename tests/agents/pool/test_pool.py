"""Slots: caps hold, the order is fair, and nothing is counted twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.pool.pool import Pool, PoolLimits, SlotRequest
from interlock.agents.pool.slots import Slots
from interlock.vocabulary.errors import ContractError, UsageError

AGENTS = ("claude", "codex", "gemini")


def test_without_caps_everybody_runs() -> None:
    pool = Pool()
    assert all(pool.ask(str(n), "claude") is SlotRequest.GRANTED for n in range(100))


def test_who_waits_for_a_full_agent_holds_up_nobody_else() -> None:
    pool = Pool(PoolLimits(total=3, per_agent={"claude": 1}))
    assert [pool.ask("a", "claude"), pool.ask("b", "claude"), pool.ask("c", "codex")] == [
        "granted",
        "queued",
        "granted",
    ]
    assert list(pool.waiting) == ["b"]
    assert pool.release("a") == ("b",)


def test_a_released_slot_goes_to_the_first_whose_agent_has_room() -> None:
    pool = Pool(PoolLimits(total=2, per_agent={"claude": 1}))
    for key, agent in (("a", "claude"), ("b", "codex"), ("c", "claude"), ("d", "codex"), ("e", "codex")):
        pool.ask(key, agent)
    assert pool.release("b") == ("d",)
    assert pool.release("a") == ("c",)
    assert list(pool.waiting) == ["e"]


def test_a_slot_is_counted_once_from_grant_to_release() -> None:
    pool = Pool(PoolLimits(total=2))
    assert pool.ask("a", "claude") is SlotRequest.GRANTED
    assert pool.ask("a", "claude") is SlotRequest.GRANTED  # asked again while it is being started
    assert pool.ask("b", "claude") is SlotRequest.GRANTED
    assert pool.ask("c", "claude") is SlotRequest.QUEUED
    assert pool.ask("b", "claude") is SlotRequest.GRANTED
    assert len(pool.held) == 2


def test_asking_again_keeps_the_place() -> None:
    pool = Pool(PoolLimits(total=1))
    for key in ("a", "b", "c", "b"):
        pool.ask(key, "claude")
    assert pool.release("a") == ("b",)


def test_who_withdraws_is_not_granted() -> None:
    pool = Pool(PoolLimits(total=1))
    for key in ("a", "b", "c"):
        pool.ask(key, "claude")
    assert pool.withdraw("b")
    assert pool.release("a") == ("c",)
    assert not pool.withdraw("c")


def test_releasing_what_nobody_holds_is_harmless() -> None:
    pool = Pool(PoolLimits(total=1))
    pool.ask("a", "claude")
    pool.ask("b", "claude")
    assert pool.release("unknown") == pool.release("b") == ()
    assert (list(pool.held), list(pool.waiting)) == (["a"], ["b"])


@pytest.mark.parametrize("limits", [{"total": 0}, {"each": -1}, {"per_agent": {"claude": 0}}])
def test_a_cap_that_lets_nobody_run_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="below one"):
        PoolLimits(**limits)  # type: ignore[arg-type]


caps = st.none() | st.integers(1, 4)
limits_of = st.builds(PoolLimits, total=caps, each=caps, per_agent=st.dictionaries(st.sampled_from(AGENTS), caps))
acts = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "ask", "release", "release", "withdraw"]), st.integers(0, 15)), max_size=80
)


def agent_of(key: str) -> str:
    return AGENTS[int(key) % len(AGENTS)]


def has_room(pool: Pool, agent: str) -> bool:
    held, cap = Counter(pool.held.values()), pool.limits.of(agent)
    total = pool.limits.total
    return (total is None or held.total() < total) and (cap is None or held[agent] < cap)


@given(limits_of, acts)
def test_caps_hold_and_nobody_waits_while_there_is_room(limits: PoolLimits, acts: list[tuple[str, int]]) -> None:
    pool = Pool(limits)
    for act, number in acts:
        before, key = pool.held, str(number)
        match act:
            case "ask":
                pool.ask(key, agent_of(key))
            case "release":
                granted = pool.release(key)
                assert len(set(granted)) == len(granted)
                assert not set(granted) & set(before)
            case _:
                pool.withdraw(key)
        held = Counter(pool.held.values())
        assert limits.total is None or held.total() <= limits.total
        assert all((cap := limits.of(agent)) is None or held[agent] <= cap for agent in AGENTS)
        assert not set(pool.held) & set(pool.waiting)
        assert not any(has_room(pool, agent) for agent in pool.waiting.values())


@given(limits_of, acts)
def test_nobody_is_overtaken_by_a_later_one_that_wants_the_same(
    limits: PoolLimits, acts: list[tuple[str, int]]
) -> None:
    pool = Pool(limits)
    for act, number in acts:
        key, waiting = str(number), list(pool.waiting)
        if act == "ask":
            pool.ask(key, agent_of(key))
        elif act == "withdraw":
            pool.withdraw(key)
        else:
            for granted in pool.release(key):
                earlier = waiting[: waiting.index(granted)]
                assert not [one for one in earlier if one in pool.waiting and agent_of(one) == agent_of(granted)]


@given(limits_of, st.lists(st.integers(0, 30), unique=True, min_size=1))
def test_everybody_gets_a_slot_once_if_slots_are_given_back(limits: PoolLimits, numbers: list[int]) -> None:
    pool = Pool(limits)
    keys = [str(number) for number in numbers]
    served = [key for key in keys if pool.ask(key, agent_of(key)) is SlotRequest.GRANTED]
    for key in served:  # grows while it is walked: each one that is served gives its slot back in turn
        served.extend(pool.release(key))
    assert sorted(served) == sorted(keys)
    assert not pool.held
    assert not pool.waiting


def test_a_task_waits_for_its_slot_and_gets_it_in_turn() -> None:
    async def run() -> None:
        slots, order = Slots(PoolLimits(total=1)), list[str]()

        async def work(key: str) -> None:
            await slots.acquire(key, "claude")
            order.append(key)
            await asyncio.sleep(0)
            slots.release(key)

        async with asyncio.TaskGroup() as group:
            for key in ("a", "b", "c"):
                group.create_task(work(key))
        assert order == ["a", "b", "c"]
        assert not slots.pool.held

    asyncio.run(run())


@pytest.mark.parametrize("is_granted_meanwhile", [False, True])
def test_a_task_that_is_cancelled_leaves_neither_slot_nor_place(is_granted_meanwhile: bool) -> None:
    async def run() -> None:
        slots = Slots(PoolLimits(total=1))
        await slots.acquire("a", "claude")
        waits = asyncio.create_task(slots.acquire("b", "claude"))
        await asyncio.sleep(0)
        if is_granted_meanwhile:
            slots.release("a")
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        slots.release("a")
        assert not slots.pool.held
        assert not slots.pool.waiting

    asyncio.run(run())


def test_one_key_waits_once() -> None:
    async def run() -> None:
        slots = Slots(PoolLimits(total=1))
        await slots.acquire("a", "claude")
        async with asyncio.TaskGroup() as group:
            group.create_task(slots.acquire("b", "claude"))
            await asyncio.sleep(0)
            with pytest.raises(ContractError):
                await slots.acquire("b", "claude")
            slots.release("a")

    asyncio.run(run())
