"""What was used, by turn and in all, from whatever the agents report.

Laws:
1. A figure that nobody reported is missing, and is never shown as zero. A sum over some reports says that it is one.
2. A report for a whole turn replaces what the calls of that turn add up to, figure by figure.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TypeVar

from msgspec import Struct, structs

from interlock.vocabulary.events.audit import ProviderUsage, UsageScope
from interlock.vocabulary.events.conversation import UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import TurnId

Number = TypeVar("Number", int, float)


class Usage(Struct, frozen=True, kw_only=True):
    """Figures, each None where it was never reported. `turns_without_report`: turns that are not in these figures."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cost_usd: float | None = None
    turns_without_report: int = 0

    @property
    def tokens(self) -> int | None:
        """Input and output together; None where neither was reported."""
        known = [count for count in (self.input_tokens, self.output_tokens) if count is not None]
        return sum(known) if known else None


class UsageFold:
    """Feed it a session's events in order. The sum of the turns before the newest is kept: asking for the total costs
    the same after ten thousand turns as after one."""

    def __init__(self) -> None:
        self._calls: dict[TurnId | None, Usage] = {}
        self._turns: dict[TurnId | None, Usage] = {}
        self._known: dict[TurnId | None, None] = {}
        self._newest: TurnId | None = None
        self._before_newest: Usage | None = Usage()  # None: an older turn got a report, and it is summed up anew

    def add(self, event: Event) -> None:
        """Fold one event."""
        if isinstance(event.data, UserMessage) and event.turn_id is not None:
            self._touch(event.turn_id)
        if isinstance(event.data, ProviderUsage):
            self._touch(event.turn_id)
            kept = self._turns if event.data.scope is UsageScope.TURN else self._calls
            kept[event.turn_id] = _added(kept.get(event.turn_id, Usage()), event.data)

    def _touch(self, turn_id: TurnId | None) -> None:
        if turn_id not in self._known:
            if self._known:
                self._before_newest = _plus(self._summed_before(), self.of_turn(self._newest))
            self._known[turn_id], self._newest = None, turn_id
        elif turn_id != self._newest:
            self._before_newest = None

    def _summed_before(self) -> Usage:
        if self._before_newest is None:
            older = (self.of_turn(turn_id) for turn_id in self._known if turn_id != self._newest)
            self._before_newest = reduce(_plus, older, Usage())
        return self._before_newest

    def of_turn(self, turn_id: TurnId | None) -> Usage:
        """What a turn used, as far as it is known."""
        whole, calls = self._turns.get(turn_id, Usage()), self._calls.get(turn_id, Usage())
        return Usage(
            input_tokens=calls.input_tokens if whole.input_tokens is None else whole.input_tokens,
            output_tokens=calls.output_tokens if whole.output_tokens is None else whole.output_tokens,
            cached_input_tokens=(
                calls.cached_input_tokens if whole.cached_input_tokens is None else whole.cached_input_tokens
            ),
            cost_usd=calls.cost_usd if whole.cost_usd is None else whole.cost_usd,
        )

    @property
    def total(self) -> Usage:
        """What all turns used, as far as it is known."""
        return _plus(self._summed_before(), self.of_turn(self._newest)) if self._known else Usage()


def _plus(before: Usage, turn: Usage) -> Usage:
    """The sum of earlier turns, and one more turn."""
    is_reported = turn.tokens is not None or turn.cost_usd is not None
    return structs.replace(
        _added(before, turn), turns_without_report=before.turns_without_report + (0 if is_reported else 1)
    )


def _added(before: Usage, more: ProviderUsage | Usage) -> Usage:
    return Usage(
        input_tokens=_sum((before.input_tokens, more.input_tokens)),
        output_tokens=_sum((before.output_tokens, more.output_tokens)),
        cached_input_tokens=_sum((before.cached_input_tokens, more.cached_input_tokens)),
        cost_usd=_sum((before.cost_usd, more.cost_usd)),
    )


def _sum(figures: Iterable[Number | None]) -> Number | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known[1:], known[0]) if known else None
