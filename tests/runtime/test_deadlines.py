"""The deadline heap against a plain dict, and its garbage."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.runtime.deadlines import DeadlineHeap
from interlock.vocabulary.errors import ContractError


class Naive:
    """What the heap must do, slowly: a dict in the order of setting, sorted when asked."""

    def __init__(self) -> None:
        self.deadlines: dict[str, float] = {}

    def set(self, key: str, when: float) -> None:
        self.deadlines.pop(key, None)
        self.deadlines[key] = when

    def cancel(self, key: str) -> None:
        self.deadlines.pop(key, None)

    def earliest(self) -> float | None:
        return min(self.deadlines.values(), default=None)

    def pop_due(self, now: float) -> list[str]:
        due = sorted((key for key, when in self.deadlines.items() if when <= now), key=self.deadlines.__getitem__)
        for key in due:
            del self.deadlines[key]
        return due


# Few keys and few times, so that replacing, ties and cancelled tops are the rule.
keys = st.sampled_from("abcde")
moments = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0])
operations = st.one_of(
    st.tuples(st.just("set"), keys, moments),
    st.tuples(st.just("cancel"), keys, moments),
    st.tuples(st.just("pop_due"), keys, moments),
)


@given(st.lists(operations, max_size=80))
def test_it_does_what_a_sorted_dict_does(history: list[tuple[str, str, float]]) -> None:
    heap: DeadlineHeap[str] = DeadlineHeap()
    model = Naive()
    for name, key, when in history:
        match name:
            case "set":
                heap.set(key, when)
                model.set(key, when)
            case "cancel":
                heap.cancel(key)
                model.cancel(key)
            case _:
                assert heap.pop_due(when) == model.pop_due(when)
        assert heap.earliest() == model.earliest()
        assert len(heap) == len(model.deadlines)
    assert heap.pop_due(math.inf) == model.pop_due(math.inf)


def test_a_deadline_is_due_at_its_moment_and_not_before() -> None:
    heap: DeadlineHeap[str] = DeadlineHeap()
    heap.set("a", 5.0)
    assert heap.pop_due(math.nextafter(5.0, 0.0)) == []
    assert heap.pop_due(5.0) == ["a"]
    assert (heap.earliest(), heap.pop_due(5.0), len(heap)) == (None, [], 0)


def test_keys_need_a_hash_and_no_order() -> None:
    heap: DeadlineHeap[object] = DeadlineHeap()
    first, second = object(), object()
    heap.set(first, 1.0)
    heap.set(second, 1.0)
    assert heap.pop_due(1.0) == [first, second]


@pytest.mark.parametrize("when", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_no_time_is_refused_and_changes_nothing(when: float) -> None:
    heap: DeadlineHeap[str] = DeadlineHeap()
    heap.set("a", 1.0)
    with pytest.raises(ContractError, match="finite"):
        heap.set("a", when)
    assert heap.pop_due(1.0) == ["a"]


@given(st.permutations(range(40)), st.integers(min_value=0, max_value=40))
def test_order_survives_the_clearing_of_garbage(moments: list[int], cancelled: int) -> None:
    heap: DeadlineHeap[int] = DeadlineHeap()
    for moment in moments:
        heap.set(moment, float(moment))
    for moment in moments[:cancelled]:
        heap.cancel(moment)
    assert heap.pop_due(40.0) == sorted(moments[cancelled:])


@pytest.mark.parametrize("living", [1, 100])
def test_garbage_stays_in_proportion_to_the_living(living: int) -> None:
    heap: DeadlineHeap[int] = DeadlineHeap()
    for serial in range(20_000):
        heap.set(serial % living, 1e6 - serial)
        assert len(heap._heap) <= 2 * len(heap) + 16
    for key in range(living):
        heap.cancel(key)
        assert len(heap._heap) <= 2 * len(heap) + 16
    assert heap.earliest() is None
