"""What Claude Code says that a turn used.

Its own figures mix two scopes: `usage` counts the agent's own model calls since the last result, `total_cost_usd` and
`modelUsage` the whole session, resumed parts of it included. `model_usage_since_last_result` counts everything since
the last result (sub-agents and side calls too), and is taken where it is given.
"""

from __future__ import annotations

from math import isfinite

from interlock.agents.observations import UsageReported, UsageScope
from interlock.vocabulary.events.conversation import MAX_COUNT
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, count_of, inner


def prompt_tokens(usage: Fields) -> int | None:
    """All that the model was fed, from the cache or not; None where nothing is said of it."""
    parts = [
        count_of(usage, name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    ]
    return _sum(parts)


class Costs:
    """The cost of each turn. A session that was resumed begins with a total that nobody told us."""

    def __init__(self, *, is_resumed: bool) -> None:
        self._total: float | None = None if is_resumed else 0.0

    def turn(self, result: Fields) -> float | None:
        """What was spent since the last result; None where that is not known."""
        before, self._total = self._total, _amount(result.get("total_cost_usd"))
        since = result.get("model_usage_since_last_result")
        spent = [_amount(one.get("costUSD")) for one in _models(since).values()]
        known = [amount for amount in spent if amount is not None]
        if known and len(known) == len(spent):
            return sum(known)
        if before is None or self._total is None or self._total < before:
            return None
        return self._total - before


def turn_usage(result: Fields, cost_usd: float | None) -> UsageReported | None:
    """The figures of a result line for its whole turn; None where they are all zero.

    An aborted call is not counted in a result: to tell those zeros would wipe out what the call itself reported.
    """
    models = _models(result.get("model_usage_since_last_result"))
    told = _by_model(models, cost_usd) if models else _by_agent(inner(result, "usage"), cost_usd)
    return told if told.input_tokens or told.output_tokens or told.cost_usd else None


def window_tokens(result: Fields) -> int | None:
    """How large the model's context is; None where several models differ."""
    windows = {count_of(one, "contextWindow") for one in _models(result.get("modelUsage")).values()}
    return windows.pop() if len(windows) == 1 else None


def _by_agent(usage: Fields, cost_usd: float | None) -> UsageReported:
    return UsageReported(
        scope=UsageScope.TURN,
        input_tokens=prompt_tokens(usage),
        output_tokens=count_of(usage, "output_tokens"),
        cached_input_tokens=count_of(usage, "cache_read_input_tokens"),
        cost_usd=cost_usd,
    )


def _by_model(models: dict[str, Fields], cost_usd: float | None) -> UsageReported:
    fed = [
        prompt_tokens(
            {
                "input_tokens": one.get("inputTokens"),
                "cache_creation_input_tokens": one.get("cacheCreationInputTokens"),
                "cache_read_input_tokens": one.get("cacheReadInputTokens"),
            }
        )
        for one in models.values()
    ]
    return UsageReported(
        scope=UsageScope.TURN,
        model=next(iter(models)) if len(models) == 1 else "",
        input_tokens=_sum(fed),
        output_tokens=_sum([count_of(one, "outputTokens") for one in models.values()]),
        cached_input_tokens=_sum([count_of(one, "cacheReadInputTokens") for one in models.values()]),
        cost_usd=cost_usd,
    )


def _sum(figures: list[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known and sum(known) <= MAX_COUNT else None


def _models(found: Json) -> dict[str, Fields]:
    return {name: one for name, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}


def _amount(found: Json) -> float | None:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        amount = float(found)
    except OverflowError:
        return None
    return amount if isfinite(amount) and amount >= 0 else None
