"""The run envelope: reading it never raises, and the reducer writes only what the table allows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.envelope import (
    AnyStateAction,
    RunLifecycleAction,
    ScopeContext,
    reduce_state_actions,
    run_lifecycle_from_state,
)
from interlock.lifecycle.patch import apply_patch
from interlock.lifecycle.run import RunLifecycleState
from interlock.testing.explore import explore
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.wire.patch import DeleteOp, Patch, TrackedPatch
from tests.each_row import each_row

Set = RunLifecycleAction.Set
RUNNING, WAITING, DONE = RunStatus
WITHOUT_RUN = Patch((DeleteOp(("__run",)),))


class Foreign:
    """Something that is no JSON. Its name is the same in every process, for test ids are compared between them."""

    def __repr__(self) -> str:
        return "Foreign()"


def reduce(base: Json, *actions: Set) -> list[TrackedPatch]:
    wrapped = [AnyStateAction(RunLifecycleState, action) for action in actions]
    return reduce_state_actions(wrapped, base, "agent_loop", ScopeContext.run())


def applied(base: Json, patches: list[TrackedPatch]) -> Json:
    for tracked in patches:
        base = apply_patch(base, tracked.patch())
    return base


def stored(id: str, status: RunStatus, done_reason: str | None = None, updated_at: int = 1) -> dict[str, Json]:
    return {"__run": msgspec.to_builtins(RunLifecycleState(id, status, done_reason, updated_at)), "other": [1]}


def test_run_lifecycle_roundtrip_from_state() -> None:
    lifecycle = run_lifecycle_from_state({"__run": {"id": "run_1", "status": "running", "updated_at": 42}})
    assert lifecycle is not None
    assert lifecycle.id == "run_1"
    assert lifecycle.status is RunStatus.RUNNING
    assert lifecycle.done_reason is None
    assert lifecycle.updated_at == 42


def test_run_lifecycle_state_action_reduces_into_run_envelope_patch() -> None:
    base: Json = {}
    actions = [
        AnyStateAction(
            RunLifecycleState,
            RunLifecycleAction.Set(id="run_42", status=RunStatus.WAITING, done_reason=None, updated_at=99),
        )
    ]
    patches = reduce_state_actions(actions, base, "agent_loop", ScopeContext.run())
    assert len(patches) == 1
    assert patches[0].source == "agent_loop"
    assert base == {}
    merged: Any = apply_patch(base, patches[0].patch())
    assert merged == {"__run": {"id": "run_42", "status": "waiting", "updated_at": 99}}
    assert merged["__run"].get("done_reason") is None


@each_row(
    "state",
    [
        None,
        [],
        "__run",
        7,
        Foreign(),
        {},
        {"__run": None},
        {"__run": []},
        {"__run": "running"},
        {"__run": Foreign()},
        {"__run": {"id": 1}},
        {"__run": {"id": None}},
        {"__run": {"status": "paused"}},
        {"__run": {"status": "\ud800"}},
        {"__run": {"\ud800": 1}},
        {"__run": {1: 1}},
        {"__run": {"done_reason": 1}},
        {"__run": {"updated_at": -1}},
        {"__run": {"updated_at": 1.0}},
        {"__run": {"updated_at": True}},
        {"__run": {"updated_at": 10**400}},
    ],
    ids=repr,
)
def test_what_is_absent_or_unreadable_is_none(state: object) -> None:
    assert run_lifecycle_from_state(state) is None


def test_deep_nesting_is_unreadable_and_no_crash() -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    assert run_lifecycle_from_state({"__run": deep}) is None
    assert run_lifecycle_from_state({"__run": {"status": deep}}) is None


WORDS = st.sampled_from(["__run", "id", "status", "done_reason", "updated_at", "running", "done"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(), inner, max_size=5),
)


@given(ANYTHING | st.fixed_dictionaries({"__run": ANYTHING}))
def test_reading_never_raises(state: object) -> None:
    found = run_lifecycle_from_state(state)
    assert found is None or isinstance(found, RunLifecycleState)


def test_missing_fields_have_defaults_and_unknown_ones_are_passed_over() -> None:
    assert run_lifecycle_from_state({"__run": {}}) == RunLifecycleState()
    assert run_lifecycle_from_state({"__run": {"id": "run_1", "step_count": 3}}) == RunLifecycleState("run_1")


@each_row("base", [{}, None, {"__run": None}, {"other": 1}], ids=repr)
@each_row(
    "action",
    [Set("run_1", RUNNING, None, 5), Set("run_1", WAITING, None, 5), Set("run_1", DONE, "natural", 5)],
    ids=lambda action: action.status.value,
)
def test_the_first_record_may_have_any_status(base: Json, action: Set) -> None:
    merged = applied(base, reduce(base, action))
    assert run_lifecycle_from_state(merged) == RunLifecycleState("run_1", action.status, action.done_reason, 5)
    assert apply_patch(merged, WITHOUT_RUN) == (apply_patch(base, WITHOUT_RUN) or {})


@each_row(("before", "after"), list(product((RUNNING, WAITING), RunStatus)))
def test_an_open_record_moves_as_the_table_allows(before: RunStatus, after: RunStatus) -> None:
    reason = "natural" if after is DONE else None
    base = stored("run_1", before)
    assert applied(base, reduce(base, Set("run_1", after, reason, 2))) == stored("run_1", after, reason, 2)


@pytest.mark.parametrize("status", [RUNNING, WAITING])
def test_a_done_run_does_not_reopen(status: RunStatus) -> None:
    with pytest.raises(ContractError, match=f"'run_1' cannot go from done to {status.value}"):
        reduce(stored("run_1", DONE, "natural"), Set("run_1", status, None, 2))


@pytest.mark.parametrize(("done_reason", "updated_at"), [("error", 1), (None, 1), ("natural", 2)])
def test_a_done_record_never_changes(done_reason: str | None, updated_at: int) -> None:
    with pytest.raises(ContractError, match="'run_1' is done, and stays as it is"):
        reduce(stored("run_1", DONE, "natural"), Set("run_1", DONE, done_reason, updated_at))


def test_the_same_done_record_again_is_accepted_and_changes_nothing() -> None:
    assert reduce(stored("run_1", DONE, "natural"), Set("run_1", DONE, "natural", 1)) == []


@pytest.mark.parametrize("status", [RUNNING, WAITING])
def test_another_run_begins_after_done(status: RunStatus) -> None:
    base = stored("run_1", DONE, "natural")
    assert applied(base, reduce(base, Set("run_2", status, None, 2))) == stored("run_2", status, None, 2)


def test_another_run_does_not_begin_as_done() -> None:
    with pytest.raises(ContractError, match="'run_2' cannot begin as done"):
        reduce(stored("run_1", DONE, "natural"), Set("run_2", DONE, "natural", 2))


@each_row("before", [RUNNING, WAITING])
@each_row("after", list(RunStatus))
def test_another_run_does_not_begin_while_one_is_open(before: RunStatus, after: RunStatus) -> None:
    with pytest.raises(ContractError, match=f"'run_1' is {before.value}, not done"):
        reduce(stored("run_1", before), Set("run_2", after, "natural" if after is DONE else None, 2))


@each_row("status", [RUNNING, WAITING])
@each_row("base", [{}, stored("run_1", RUNNING), stored("run_0", DONE, "natural")])
def test_only_done_has_a_done_reason(base: Json, status: RunStatus) -> None:
    with pytest.raises(ContractError, match="cannot have a done_reason"):
        reduce(base, Set("run_1", status, "natural", 2))


def test_done_may_lack_a_reason_as_in_the_seed() -> None:
    base = stored("run_1", RUNNING)
    assert applied(base, reduce(base, Set("run_1", DONE, None, 2))) == stored("run_1", DONE, None, 2)


def test_time_may_go_backwards_because_it_decides_nothing() -> None:
    base = stored("run_1", RUNNING, updated_at=50)
    assert applied(base, reduce(base, Set("run_1", WAITING, None, 7))) == stored("run_1", WAITING, None, 7)


@each_row("record", [[], "running", {"status": "paused"}, {"id": 1}, 0, False], ids=repr)
def test_an_unreadable_record_is_not_overwritten(record: Json) -> None:
    with pytest.raises(ContractError, match="cannot be read, and is not overwritten"):
        reduce({"__run": record}, Set("run_1", RUNNING, None, 1))


@pytest.mark.parametrize("base", [[], "text", 0, False], ids=repr)
def test_a_document_that_is_no_object_is_not_overwritten(base: Json) -> None:
    with pytest.raises(ContractError, match="a state document is an object"):
        reduce(base, Set("run_1", RUNNING, None, 1))


@each_row(
    "fields",
    [
        {"id": 1},
        {"id": "\ud800"},
        {"status": "paused"},
        {"status": DONE, "done_reason": "\ud800"},
        {"status": DONE, "done_reason": Foreign()},
        {"updated_at": -1},
        {"updated_at": 2**63},
        {"updated_at": 2**70},
        {"updated_at": 1.5},
        {"updated_at": True},
    ],
    ids=repr,
)
def test_an_action_that_is_no_record_is_refused(fields: dict[str, Any]) -> None:
    action = Set(**{"id": "run_1", "status": RUNNING, "done_reason": None, "updated_at": 1, **fields})
    with pytest.raises(ContractError, match="not a run record"):
        reduce({}, action)


def test_state_of_another_scope_is_refused() -> None:
    action = AnyStateAction(RunLifecycleState, Set("run_1", RUNNING, None, 1))
    with pytest.raises(ContractError, match="__run is run state, not thread state"):
        reduce_state_actions([action], {}, "agent_loop", ScopeContext("thread"))


def test_actions_are_reduced_against_a_rolling_snapshot_and_empty_patches_are_dropped() -> None:
    base: Json = {"other": [1]}
    running, done = Set("run_1", RUNNING, None, 1), Set("run_1", DONE, "stopped:max_rounds", 2)
    patches = reduce(base, running, running, done, done, Set("run_2", WAITING, None, 3))
    assert len(patches) == 3
    assert applied(base, patches) == stored("run_2", WAITING, None, 3)


def test_one_illegal_action_refuses_them_all() -> None:
    base = stored("run_1", RUNNING)
    before = copy.deepcopy(base)
    with pytest.raises(ContractError):
        reduce(base, Set("run_1", WAITING, None, 2), Set("run_2", RUNNING, None, 3))
    assert base == before


def test_the_action_has_a_json_form() -> None:
    line = b'{"type":"Set","id":"run_1","status":"running","done_reason":null,"updated_at":1}'
    assert msgspec.json.encode(Set("run_1", RUNNING, None, 1)) == line
    assert msgspec.json.decode(line, type=Set) == Set("run_1", RUNNING, None, 1)


ACTIONS = tuple(
    Set(id, status, reason, updated_at)
    for id, status, reason, updated_at in product(("run_1", "run_2"), RunStatus, (None, "natural", "error"), (1, 2))
)
Record = RunLifecycleState | None


def set_record(record: Record, action: Set) -> Record:
    """One reduction as a step, with proof that what is refused changed nothing."""
    base: Json = {} if record is None else {"__run": msgspec.to_builtins(record)}
    before = copy.deepcopy(base)
    try:
        patches = reduce(base, action)
    finally:
        assert base == before
    following = run_lifecycle_from_state(applied(base, patches))
    assert (patches == []) == (following == record)
    return following


def is_done_for_good(before: Record, _: Set, after: Record) -> bool:
    return before is None or after is None or before.status is not DONE or before.id != after.id or before == after


def a_run_in_progress_is_not_displaced(before: Record, _: Set, after: Record) -> bool:
    return before is None or (after is not None and (before.id == after.id or before.status is DONE))


def test_every_path_of_the_reducer_over_two_runs(record_property: Callable[[str, object], None]) -> None:
    found = explore(
        start=[None],
        inputs=lambda _: ACTIONS,
        step=set_record,
        state_laws={
            "only done has a done_reason": lambda r: r is None or r.done_reason is None or r.status is DONE,
        },
        step_laws={
            "a done run never reopens nor changes": is_done_for_good,
            "a run in progress is not displaced": a_run_in_progress_is_not_displaced,
            "what is accepted is what is stored": lambda _, action, after: (
                after == RunLifecycleState(action.id, action.status, action.done_reason, action.updated_at)
            ),
        },
    )
    # Nothing, and for each of two ids and two times: running, waiting, and done with one of three reasons.
    assert len(found.parents) == 1 + 2 * 2 * 5
    assert found.stuck(lambda record: record is not None and record.status is DONE) == []
    # From nothing: all but a reason without done. From an open record: its own id, likewise. From a done one:
    # itself, and the other id as running or waiting.
    legal = 2 * 2 * 5
    assert found.transitions == legal + 2 * 2 * 2 * (legal // 2) + 2 * 2 * 3 * (1 + 2 * 2)
    assert found.refusals == len(found.parents) * len(ACTIONS) - found.transitions
    record_property("explored", found.summary("run record, two runs"))
