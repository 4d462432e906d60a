"""Stop conditions: each at, below and above its limit, each off, and never against a natural end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from interlock.agents.model.driver import read_options
from interlock.lifecycle.stop_conditions import (
    CallMade,
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    LoopProgress,
    MaxRounds,
    Stop,
    StopCondition,
    StopOnTool,
    Timeout,
    TokenBudget,
    after_round,
    judge,
    wall_clock_seconds,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.run import StopCode
from tests.each_row import each_row

ALL: tuple[StopCondition, ...] = (
    MaxRounds(2),
    Timeout(1.5),
    TokenBudget(100),
    ConsecutiveErrors(2),
    StopOnTool("done"),
    ContentMatch("FIN"),
    LoopDetection(3),
)


def played(rounds: Sequence[Sequence[CallMade]], *, text: str = "", tokens: int = 10) -> LoopProgress:
    progress = LoopProgress()
    for calls in rounds:
        progress = after_round(progress, calls=calls, text=text, tokens=tokens)
    return progress


def call(name: str = "look", args: dict[str, object] | None = None, *, is_failed: bool = False) -> CallMade:
    return CallMade(name=name, args=args or {}, is_failed=is_failed)  # type: ignore[arg-type]


def distinct(count: int, *, is_failed: bool = False) -> list[list[CallMade]]:
    return [[call(args={"n": number}, is_failed=is_failed)] for number in range(count)]


def code(condition: StopCondition, progress: LoopProgress, elapsed_seconds: float = 0.0) -> StopCode | None:
    stop = judge((condition,), progress, elapsed_seconds)
    return None if stop is None else stop.code


@pytest.mark.parametrize(("rounds", "expected"), [(2, None), (3, StopCode.MAX_ROUNDS), (4, StopCode.MAX_ROUNDS)])
def test_the_round_limit_stops_from_its_last_round_on(rounds: int, expected: StopCode | None) -> None:
    assert code(MaxRounds(3), played(distinct(rounds))) is expected


@pytest.mark.parametrize(("elapsed", "expected"), [(4.9, None), (5.0, StopCode.TIMEOUT), (5.1, StopCode.TIMEOUT)])
def test_the_wall_clock_stops_from_its_limit_on(elapsed: float, expected: StopCode | None) -> None:
    assert code(Timeout(5.0), played(distinct(1)), elapsed) is expected


@pytest.mark.parametrize(
    ("tokens", "expected"), [(99, None), (100, StopCode.TOKEN_BUDGET), (101, StopCode.TOKEN_BUDGET)]
)
def test_the_token_budget_counts_every_call_of_the_turn(tokens: int, expected: StopCode | None) -> None:
    progress = after_round(played(distinct(1), tokens=50), calls=[call("b")], text="", tokens=tokens - 50)
    assert code(TokenBudget(100), progress) is expected


@pytest.mark.parametrize(
    ("failures", "expected"), [(1, None), (2, StopCode.CONSECUTIVE_ERRORS), (3, StopCode.CONSECUTIVE_ERRORS)]
)
def test_rounds_without_a_success_are_counted_after_their_results(failures: int, expected: StopCode | None) -> None:
    assert code(ConsecutiveErrors(2), played(distinct(failures, is_failed=True))) is expected


def test_one_success_in_a_round_ends_the_count_of_errors() -> None:
    rounds = [*distinct(1, is_failed=True), [call("a", is_failed=True), call("b")], *distinct(1, is_failed=True)]
    assert code(ConsecutiveErrors(2), played(rounds)) is None


def test_a_tool_stops_the_turn_only_when_it_was_called() -> None:
    assert code(StopOnTool("done"), played([[call("look"), call("done")]])) is StopCode.TOOL_CALLED
    assert code(StopOnTool("done"), played([[call("done")], [call("look")]])) is None


def test_words_are_matched_as_they_are() -> None:
    assert code(ContentMatch("a.c"), played([[call()]], text="xa.cx")) is StopCode.CONTENT_MATCHED
    assert code(ContentMatch("a.c"), played([[call()]], text="abc")) is None


@pytest.mark.parametrize(("repeats", "expected"), [(2, None), (3, StopCode.LOOP_DETECTED), (4, StopCode.LOOP_DETECTED)])
def test_a_loop_is_three_equal_rounds_unless_told_otherwise(repeats: int, expected: StopCode | None) -> None:
    assert code(LoopDetection(), played([[call(args={"a": 1, "b": 2})]] * repeats)) is expected


def test_other_arguments_are_no_loop() -> None:
    assert code(LoopDetection(2), played(distinct(9))) is None


def test_neither_the_order_of_calls_nor_of_arguments_hides_a_loop() -> None:
    one = [call("a", {"x": 1, "y": 2}), call("b")]
    other = [call("b"), call("a", {"y": 2, "x": 1})]
    assert code(LoopDetection(2), played([one, other])) is StopCode.LOOP_DETECTED


def test_a_round_in_between_starts_the_count_of_a_loop_again() -> None:
    rounds = [[call("a")], [call("a")], [call("b")], [call("a")], [call("a")]]
    assert code(LoopDetection(3), played(rounds)) is None


@each_row(
    "off",
    [
        *(kind(value) for kind in (MaxRounds, Timeout, TokenBudget, ConsecutiveErrors) for value in (None, 0)),
        *(StopOnTool(""), ContentMatch(""), LoopDetection(0), LoopDetection(None), LoopDetection(1)),
    ],
)
def test_zero_none_and_empty_switch_a_condition_off(off: StopCondition) -> None:
    progress = played([[call(is_failed=True)]] * 50, text="anything", tokens=10**6)
    assert code(off, progress, 10.0**9) is None


def test_no_limit_overrides_a_natural_end() -> None:
    natural = after_round(
        played([[call(is_failed=True)]] * 5, tokens=10**6), calls=[], text="the whole answer", tokens=10**6
    )
    assert natural.is_natural_end
    assert judge(ALL, natural, 10.0**9) is None


def test_words_are_told_also_at_a_natural_end() -> None:
    natural = after_round(LoopProgress(), calls=[], text="... FIN", tokens=1)
    assert judge(ALL, natural, 0.0) == Stop(StopCode.CONTENT_MATCHED, "FIN")


def test_the_first_condition_that_matches_is_named() -> None:
    progress = played([[call("done")]] * 3, text="FIN")
    for first in range(len(ALL)):
        turned = (*ALL[first:], *ALL[:first])
        matching = [one for one in turned if code(one, progress, 2.0) is not None]
        stop = judge(turned, progress, 2.0)
        assert stop is not None
        assert stop.code is code(matching[0], progress, 2.0)


def test_conditions_survive_json() -> None:
    assert read_options({"stop": msgspec.json.decode(msgspec.json.encode(ALL))}).stop == ALL


@pytest.mark.parametrize(
    "wrong", [[{"type": "max_rounds", "rounds": -1}], [{"type": "no_such"}], [{"type": "timeout", "second": 1}], "x"]
)
def test_what_is_no_condition_is_refused_with_a_remedy(wrong: object) -> None:
    with pytest.raises(UsageError, match=r"\$\.stop") as refused:
        read_options({"stop": wrong})  # type: ignore[dict-item]
    assert "stop" in refused.value.remedy


def test_the_shortest_wall_clock_counts_and_zero_is_none() -> None:
    assert wall_clock_seconds((Timeout(0), Timeout(5), Timeout(3))) == 3
    assert wall_clock_seconds((Timeout(0), Timeout(None))) is None
