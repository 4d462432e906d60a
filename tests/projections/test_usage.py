"""What was used, by turn and in all."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.projections.usage import Usage, UsageFold
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import ProviderUsage, UsageScope
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.ids import TurnId
from tests.projections.whole_logs import usage

PROMPT = UserMessage(text="hello")


def call(*, input_tokens: int | None = None, output_tokens: int | None = None) -> ProviderUsage:
    return ProviderUsage(input_tokens=input_tokens, output_tokens=output_tokens)


def test_calls_of_a_turn_add_up() -> None:
    events = Scribe().write(PROMPT, call(input_tokens=10), call(input_tokens=5, output_tokens=2), turn="t1")
    assert usage(events) == Usage(input_tokens=15, output_tokens=2)


def test_a_report_for_the_turn_replaces_what_its_calls_add_up_to_figure_by_figure() -> None:
    whole = ProviderUsage(scope=UsageScope.TURN, input_tokens=12, cost_usd=0.5)
    events = Scribe().write(PROMPT, call(input_tokens=10, output_tokens=2), whole, turn="t1")
    assert usage(events) == Usage(input_tokens=12, output_tokens=2, cost_usd=0.5)


def test_what_nobody_reported_is_missing_and_counted_as_missing() -> None:
    scribe = Scribe()
    events = [*scribe.write(PROMPT, call(input_tokens=10), turn="t1"), *scribe.write(PROMPT, turn="t2")]
    assert usage(events) == Usage(input_tokens=10, turns_without_report=1)
    assert usage([]).tokens is None


def test_turns_are_kept_apart() -> None:
    scribe, fold = Scribe(), UsageFold()
    for number in (1, 2):
        for event in scribe.write(PROMPT, call(output_tokens=number), turn=f"t{number}"):
            fold.add(event)
    assert fold.of_turn(TurnId("t2")) == Usage(output_tokens=2)
    assert fold.total.tokens == 3


@given(st.lists(st.tuples(st.sampled_from(("t1", "t2", "t3")), st.integers(0, 9), st.booleans()), max_size=20))
def test_the_total_is_the_sum_of_the_turns_in_whatever_order_they_report(reports: list[tuple[str, int, bool]]) -> None:
    """Late reports of older turns, too; asked for after each event or only at the end."""
    scribe, fold = Scribe(), UsageFold()
    turns: set[str] = set()
    for turn, tokens, is_whole in reports:
        turns.add(turn)
        scope = UsageScope.TURN if is_whole else UsageScope.CALL
        for event in scribe.write(ProviderUsage(scope=scope, output_tokens=tokens), turn=turn):
            fold.add(event)
        used = [fold.of_turn(TurnId(one)).tokens or 0 for one in turns]
        assert fold.total == Usage(output_tokens=sum(used))


def test_the_total_costs_the_same_after_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Counter[str] = Counter()
    of_turn = UsageFold.of_turn

    def counted(fold: UsageFold, turn_id: TurnId | None) -> Usage:
        looked["turns"] += 1
        return of_turn(fold, turn_id)

    monkeypatch.setattr(UsageFold, "of_turn", counted)
    scribe, fold = Scribe(), UsageFold()
    for number in range(200):
        for event in scribe.write(PROMPT, call(output_tokens=1), turn=f"t{number}"):
            fold.add(event)
        assert fold.total.tokens == number + 1
    assert looked["turns"] <= 2 * 200
