"""The words of a run: JSON shapes, the mapping from reason to status, stop codes."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.run import (
    BEHAVIOR_REQUESTED,
    CANCELLED,
    NATURAL_END,
    SUSPENDED,
    ReasonType,
    RunStatus,
    StopCode,
    StoppedReason,
    TerminationReason,
)
from tests.each_row import each_row

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
STOPPED = st.builds(StoppedReason, TEXT.filter(str.strip), st.none() | TEXT)
REASONS = st.one_of(
    st.sampled_from([NATURAL_END, BEHAVIOR_REQUESTED, CANCELLED, SUSPENDED]),
    st.builds(TerminationReason.error, TEXT),
    STOPPED.map(lambda stopped: TerminationReason(ReasonType.STOPPED, stopped)),
)


def decode(line: str) -> TerminationReason:
    return msgspec.json.decode(line, type=TerminationReason)


def test_run_lifecycle_status_transitions_match_state_machine() -> None:
    assert RunStatus.RUNNING.can_transition_to(RunStatus.WAITING)
    assert RunStatus.RUNNING.can_transition_to(RunStatus.DONE)
    assert RunStatus.WAITING.can_transition_to(RunStatus.RUNNING)
    assert RunStatus.WAITING.can_transition_to(RunStatus.DONE)
    assert RunStatus.RUNNING.can_transition_to(RunStatus.RUNNING)


def test_run_lifecycle_status_rejects_done_reopen_transitions() -> None:
    assert not RunStatus.DONE.can_transition_to(RunStatus.RUNNING)
    assert not RunStatus.DONE.can_transition_to(RunStatus.WAITING)


def test_only_two_of_the_nine_pairs_are_forbidden() -> None:
    forbidden = {(a, b) for a, b in product(RunStatus, repeat=2) if not a.can_transition_to(b)}
    assert forbidden == {(RunStatus.DONE, RunStatus.RUNNING), (RunStatus.DONE, RunStatus.WAITING)}


def test_only_done_is_terminal() -> None:
    assert [status for status in RunStatus if status.is_terminal] == [RunStatus.DONE]


@each_row(
    ("reason", "status", "done_reason"),
    [
        (SUSPENDED, RunStatus.WAITING, None),
        (NATURAL_END, RunStatus.DONE, "natural"),
        (BEHAVIOR_REQUESTED, RunStatus.DONE, "behavior_requested"),
        (CANCELLED, RunStatus.DONE, "cancelled"),
        (TerminationReason.error("test error"), RunStatus.DONE, "error"),
        (TerminationReason.stopped("max_turns"), RunStatus.DONE, "stopped:max_turns"),
        (
            TerminationReason.stopped_with_detail("max_rounds_reached", "12"),
            RunStatus.DONE,
            "stopped:max_rounds_reached",
        ),
    ],
)
def test_termination_reason_to_run_status_mapping(
    reason: TerminationReason, status: RunStatus, done_reason: str | None
) -> None:
    assert reason.to_run_status() == (status, done_reason)


@each_row(
    ("reason", "line"),
    [
        (NATURAL_END, '{"type":"natural_end"}'),
        (BEHAVIOR_REQUESTED, '{"type":"behavior_requested"}'),
        (CANCELLED, '{"type":"cancelled"}'),
        (SUSPENDED, '{"type":"suspended"}'),
        (TerminationReason.error("boom"), '{"type":"error","value":"boom"}'),
        (TerminationReason.error(""), '{"type":"error","value":""}'),
        (TerminationReason.stopped("max_turns"), '{"type":"stopped","value":{"code":"max_turns"}}'),
        (TerminationReason.stopped("timeout", "60 s"), '{"type":"stopped","value":{"code":"timeout","detail":"60 s"}}'),
    ],
)
def test_a_reason_is_adjacently_tagged_and_leaves_out_what_is_absent(reason: TerminationReason, line: str) -> None:
    assert msgspec.json.encode(reason).decode() == line
    assert decode(line) == reason


@given(REASONS)
def test_reasons_round_trip(reason: TerminationReason) -> None:
    assert decode(msgspec.json.encode(reason).decode()) == reason


@given(REASONS)
def test_every_reason_is_a_wait_without_done_reason_or_an_end_with_one(reason: TerminationReason) -> None:
    status, done_reason = reason.to_run_status()
    assert (status, done_reason is None) in {(RunStatus.WAITING, True), (RunStatus.DONE, False)}


def test_plugin_requested_is_read_as_behavior_requested() -> None:
    reason = decode('{"type":"plugin_requested"}')
    assert reason == BEHAVIOR_REQUESTED
    assert msgspec.json.encode(reason) == b'{"type":"behavior_requested"}'


@each_row(
    "line",
    [
        '{"type":"stopped"}',
        '{"type":"stopped","value":"timeout"}',
        '{"type":"stopped","value":{"code":" "}}',
        '{"type":"stopped","value":{"detail":"no code"}}',
        '{"type":"error"}',
        '{"type":"error","value":{"code":"timeout"}}',
        '{"type":"natural_end","value":"text"}',
        '{"type":"suspended","value":{"code":"timeout"}}',
        '{"type":"finished"}',
        '{"value":"boom"}',
    ],
)
def test_a_reason_with_the_wrong_value_is_refused(line: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(line)


def test_a_reason_with_the_wrong_value_cannot_be_made_either() -> None:
    with pytest.raises(ContractError, match="natural_end reason does not carry str"):
        TerminationReason(ReasonType.NATURAL_END, "text")
    with pytest.raises(ContractError, match="blank"):
        TerminationReason.stopped("  ")


@each_row(
    ("spelling", "code"),
    [
        *((code.value, code) for code in StopCode),
        ("timeout_reached", StopCode.TIMEOUT),
        ("max_rounds_reached", StopCode.MAX_ROUNDS),
        ("token_budget_exceeded", StopCode.TOKEN_BUDGET),
        ("consecutive_errors_exceeded", StopCode.CONSECUTIVE_ERRORS),
    ],
)
def test_other_spellings_of_our_stop_codes_are_kept_and_read_as_ours(spelling: str, code: StopCode) -> None:
    stopped = StoppedReason(spelling)
    assert (stopped.code, stopped.known) == (spelling, code)
    assert decode(f'{{"type":"stopped","value":{{"code":"{spelling}"}}}}').stop_code == code.value


def test_a_stop_code_is_written_as_it_was_given() -> None:
    reason = TerminationReason.stopped("timeout_reached")
    assert msgspec.json.encode(reason).decode() == '{"type":"stopped","value":{"code":"timeout_reached"}}'
    assert decode(msgspec.json.encode(reason).decode()) == reason


def test_a_stop_with_its_detail_is_made_as_on_the_page() -> None:
    reason = TerminationReason.stopped_with_detail("max_turns", "12 of 12")
    assert reason.value == StoppedReason.with_detail("max_turns", "12 of 12") == StoppedReason("max_turns", "12 of 12")
    assert reason.to_run_status() == (RunStatus.DONE, "stopped:max_turns")


def test_a_foreign_stop_code_is_kept() -> None:
    stopped = StoppedReason("max_turns", "12")
    assert (stopped.code, stopped.detail, stopped.known) == ("max_turns", "12", None)
