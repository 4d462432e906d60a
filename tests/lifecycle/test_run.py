"""The run machine: its table, its drawing, its record and how an end is settled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.run import (
    ASCII_STATE_MACHINE,
    MACHINE,
    TRANSITIONS,
    Ended,
    Resumed,
    RunInput,
    RunLifecycleState,
    Suspended,
    settle,
    step,
)
from interlock.testing.explore import check_table, explore, labelled_by
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import RunState
from interlock.vocabulary.ids import RunId
from interlock.vocabulary.run import (
    BEHAVIOR_REQUESTED,
    CANCELLED,
    NATURAL_END,
    RUN_SUCCESSORS,
    SUSPENDED,
    RunStatus,
    StopCode,
    TerminationReason,
)
from tests.each_row import each_row

NOW_MS = 99
ENDS = (
    NATURAL_END,
    BEHAVIOR_REQUESTED,
    CANCELLED,
    TerminationReason.error("boom"),
    TerminationReason.stopped("max_turns"),
    *(TerminationReason.stopped(code) for code in StopCode),
)
INPUTS: tuple[RunInput, ...] = (Suspended(), Resumed(), *map(Ended, ENDS))
RUNNING = RunLifecycleState("run_1", RunStatus.RUNNING, None, 1)
WAITING = RunLifecycleState("run_1", RunStatus.WAITING, None, 1)
DONE = RunLifecycleState("run_1", RunStatus.DONE, "natural", 1)


def test_run_lifecycle_ascii_state_machine_contains_all_states() -> None:
    for name in ("start", *RunStatus):
        assert name in ASCII_STATE_MACHINE


def test_the_drawing_is_the_one_of_the_seed() -> None:
    assert ASCII_STATE_MACHINE == (
        "start\n  |\n  v\nrunning -------> done\n  |\n  v\nwaiting -------> done\n  |\n  +-----------> running"
    )


def test_the_table_and_the_successor_relation_are_the_same() -> None:
    shown = {(edge.source, edge.target) for edge in TRANSITIONS}
    for before, after in product(RunStatus, repeat=2):
        assert (after in RUN_SUCCESSORS[before]) == ((before, after) in shown)
        assert before.can_transition_to(after) == (before is after or (before, after) in shown)


def test_every_path_of_the_machine(record_property: Callable[[str, object], None]) -> None:
    found = explore(
        start=[RunLifecycleState("run_1")],
        inputs=lambda _: INPUTS,
        step=lambda state, input: step(state, input, NOW_MS)[0],
        label=labelled_by("status"),
        named=lambda input: input.on,
        state_laws={
            "only done has a done_reason": lambda s: (s.done_reason is not None) == (s.status is RunStatus.DONE),
            "the id stays": lambda s: s.id == "run_1",
        },
        step_laws={"done never reopens": lambda before, _, __: before.status is not RunStatus.DONE},
    )
    check_table(found, MACHINE)
    assert found.stuck(lambda state: state.status is RunStatus.DONE) == []
    # The start, running and waiting again with a time, and one state for each done_reason.
    assert len(found.parents) == 1 + 2 + len({reason.to_run_status()[1] for reason in ENDS})
    record_property("explored", found.summary("run"))


@each_row(
    ("state", "input", "status", "done_reason"),
    [
        (RUNNING, Suspended(), RunStatus.WAITING, None),
        (WAITING, Resumed(), RunStatus.RUNNING, None),
        (RUNNING, Ended(NATURAL_END), RunStatus.DONE, "natural"),
        (WAITING, Ended(CANCELLED), RunStatus.DONE, "cancelled"),
        (
            RUNNING,
            Ended(TerminationReason.stopped("timeout_reached", "60 s")),
            RunStatus.DONE,
            "stopped:timeout_reached",
        ),
        (RUNNING, Ended(TerminationReason.stopped("my_plugin")), RunStatus.DONE, "stopped:my_plugin"),
    ],
)
def test_a_step_gives_the_next_record_and_one_event(
    state: RunLifecycleState, input: RunInput, status: RunStatus, done_reason: str | None
) -> None:
    following, outputs = step(state, input, NOW_MS)
    assert following == RunLifecycleState("run_1", status, done_reason, NOW_MS)
    assert outputs == (RunState(run_id=RunId("run_1"), status=status, reason=input.reason),)


def test_an_end_records_that_a_cancel_was_asked_for() -> None:
    _, (event,) = step(RUNNING, Ended(NATURAL_END, cancel_requested=True), NOW_MS)
    assert event.cancel_requested
    assert event.reason == NATURAL_END


@each_row(
    ("state", "input"),
    [
        (RUNNING, Resumed()),
        (WAITING, Suspended()),
        (DONE, Suspended()),
        (DONE, Resumed()),
        (DONE, Ended(NATURAL_END)),
        (RUNNING, Ended(SUSPENDED)),
    ],
)
def test_an_illegal_command_is_refused(state: RunLifecycleState, input: RunInput) -> None:
    with pytest.raises(ContractError):
        step(state, input, NOW_MS)


def test_every_field_of_the_record_has_a_default() -> None:
    assert RunLifecycleState() == RunLifecycleState("", RunStatus.RUNNING, None, 0)
    assert msgspec.json.decode(b"{}", type=RunLifecycleState) == RunLifecycleState()


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (RunLifecycleState(), '{"id":"","status":"running","updated_at":0}'),
        (WAITING, '{"id":"run_1","status":"waiting","updated_at":1}'),
        (DONE, '{"id":"run_1","status":"done","done_reason":"natural","updated_at":1}'),
    ],
)
def test_only_an_absent_done_reason_is_left_out_of_the_json(record: RunLifecycleState, line: str) -> None:
    assert msgspec.json.encode(record).decode() == line


@given(
    st.builds(
        RunLifecycleState,
        st.text(st.characters(exclude_categories=["Cs"])),
        st.sampled_from(RunStatus),
        st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        st.integers(0, 2**63 - 1),
    )
)
def test_records_round_trip(record: RunLifecycleState) -> None:
    assert msgspec.json.decode(msgspec.json.encode(record), type=RunLifecycleState) == record
    assert msgspec.convert(msgspec.to_builtins(record), RunLifecycleState) == record


@each_row(
    ("done_reason", "code"),
    [
        ("stopped:max_rounds", "max_rounds"),
        ("stopped:timeout_reached", "timeout_reached"),
        ("stopped:my:plugin", "my:plugin"),
        ("stopped: ", None),
        ("stopped", None),
        ("natural", None),
        (None, None),
    ],
)
def test_the_stop_code_is_read_from_the_record(done_reason: str | None, code: str | None) -> None:
    stopped = RunLifecycleState("run_1", RunStatus.DONE, done_reason).stopped
    assert (stopped.code if stopped else None) == code


@each_row("reason", ENDS, ids=str)
def test_an_end_stays_as_it_is_while_no_call_is_suspended(reason: TerminationReason) -> None:
    assert settle(reason, 0) == reason


@each_row("reason", ENDS, ids=str)
@each_row("open_calls", [1, 2])
def test_only_error_cancelled_and_the_wall_clock_end_a_run_with_a_suspended_call(
    reason: TerminationReason, open_calls: int
) -> None:
    is_exempt = reason.to_run_status()[1] in {"error", "cancelled", "stopped:timeout"}
    assert settle(reason, open_calls) == (reason if is_exempt else SUSPENDED)


def test_the_other_spelling_of_the_wall_clock_stop_is_exempt_too() -> None:
    reason = TerminationReason.stopped("timeout_reached")
    assert settle(reason, 1) == reason


def test_a_run_is_suspended_only_on_something_open() -> None:
    assert settle(SUSPENDED, 1) == SUSPENDED
    with pytest.raises(ContractError, match="nothing is open"):
        settle(SUSPENDED, 0)
