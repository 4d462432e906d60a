"""When a turn of the model loop is stopped: conditions as data, judged after each round. Pure.

Laws:
1. A natural end is natural: no limit overrides an answer that is whole. Only `content_match` is told there as well.
2. A round is judged once, after its tools have their results: what the model asked for last is done, or has failed.
3. The first condition that matches is named. Zero, None and empty switch a condition off.
4. Errors count by rounds whose calls all failed. A loop is the same calls with the same arguments again and again.
5. The wall clock is judged here too, and the shell enforces it during calls, tools and waiting (`wall_clock_seconds`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, TypeAlias, assert_never

from msgspec import Meta, Struct

from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.run import StopCode

Limit: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
DEFAULT_REPEATS: Final = 3


class _Condition(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of every condition: `{"type": "max_rounds", "rounds": 8}`."""


class MaxRounds(_Condition, frozen=True, tag="max_rounds"):
    """So many model calls, and the last one asked for tools."""

    rounds: Limit | None = None


class Timeout(_Condition, frozen=True, tag="timeout"):
    """So much time since the prompt was taken; time spent waiting for a person counts."""

    seconds: Seconds | None = None


class TokenBudget(_Condition, frozen=True, tag="token_budget"):
    """So many tokens in and out, over all calls of the turn."""

    max_total: Limit | None = None


class ConsecutiveErrors(_Condition, frozen=True, tag="consecutive_errors"):
    """So many rounds running in which every call failed."""

    max: Limit | None = None


class StopOnTool(_Condition, frozen=True, tag="stop_on_tool"):
    """The model called this tool, and the tool has run."""

    tool_name: str = ""


class ContentMatch(_Condition, frozen=True, tag="content_match"):
    """The model's text holds these very words."""

    pattern: str = ""


class LoopDetection(_Condition, frozen=True, tag="loop_detection"):
    """So many equal rounds running. Less than two rounds are no loop."""

    repeats: Limit | None = DEFAULT_REPEATS


StopCondition: TypeAlias = (
    MaxRounds | Timeout | TokenBudget | ConsecutiveErrors | StopOnTool | ContentMatch | LoopDetection
)
DEFAULT_CONDITIONS: Final[tuple[StopCondition, ...]] = (LoopDetection(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMade:
    """A tool call of a round, and whether it failed."""

    name: str
    args: Json = None
    is_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopProgress:
    """What a turn has come to, as far as conditions ask. `last_calls` is empty at a natural end."""

    rounds: int = 0
    tokens: int = 0
    failed_rounds: int = 0
    equal_rounds: int = 0
    last_calls: tuple[CallMade, ...] = ()
    last_key: tuple[str, ...] = ()
    text: str = ""

    @property
    def is_natural_end(self) -> bool:
        return self.rounds > 0 and not self.last_calls


def after_round(before: LoopProgress, *, calls: Sequence[CallMade], text: str, tokens: int) -> LoopProgress:
    """The turn with one more round, whose calls have their results."""
    key = tuple(sorted(_key(call) for call in calls))
    has_failed = bool(calls) and all(call.is_failed for call in calls)
    return replace(
        before,
        rounds=before.rounds + 1,
        tokens=before.tokens + tokens,
        failed_rounds=before.failed_rounds + 1 if has_failed else 0,
        equal_rounds=before.equal_rounds + 1 if key and key == before.last_key else min(len(key), 1),
        last_calls=tuple(calls),
        last_key=key,
        text=text,
    )


@dataclass(frozen=True, slots=True)
class Stop:
    """Which condition fired, and the figure or word that made it fire."""

    code: StopCode
    detail: str = ""


def judge(conditions: Sequence[StopCondition], progress: LoopProgress, elapsed_seconds: float) -> Stop | None:
    """The first condition that stops the turn after the round that was noted last."""
    return next(
        (stop for one in conditions if (stop := _judge_one(one, progress, elapsed_seconds)) is not None),
        None,
    )


def _judge_one(condition: StopCondition, progress: LoopProgress, elapsed_seconds: float) -> Stop | None:
    if progress.is_natural_end and not isinstance(condition, ContentMatch):
        return None
    match condition:
        case MaxRounds(rounds=limit):
            return _at(limit, progress.rounds, StopCode.MAX_ROUNDS, "rounds")
        case Timeout(seconds=limit):
            return _at(limit, elapsed_seconds, StopCode.TIMEOUT, "seconds")
        case TokenBudget(max_total=limit):
            return _at(limit, progress.tokens, StopCode.TOKEN_BUDGET, "tokens")
        case ConsecutiveErrors(max=limit):
            return _at(limit, progress.failed_rounds, StopCode.CONSECUTIVE_ERRORS, "rounds without a success")
        case StopOnTool(tool_name=name):
            is_called = bool(name) and any(call.name == name for call in progress.last_calls)
            return Stop(StopCode.TOOL_CALLED, name) if is_called else None
        case ContentMatch(pattern=pattern):
            return Stop(StopCode.CONTENT_MATCHED, pattern) if pattern and pattern in progress.text else None
        case LoopDetection(repeats=repeats):
            limit = None if repeats is None or repeats < 2 else repeats
            return _at(limit, progress.equal_rounds, StopCode.LOOP_DETECTED, "equal rounds running")
        case _:
            assert_never(condition)


def wall_clock_seconds(conditions: Sequence[StopCondition]) -> float | None:
    """The time after which the turn is stopped wherever it stands; None where nothing limits it."""
    limits = [one.seconds for one in conditions if isinstance(one, Timeout) and one.seconds]
    return min(limits, default=None)


def _at(limit: float | None, reached: float, code: StopCode, unit: str) -> Stop | None:
    return Stop(code, f"{reached:g} {unit}, of {limit:g}") if limit and reached >= limit else None


def _key(call: CallMade) -> str:
    arguments = json.dumps(call.args, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"{call.name}\n{arguments}"
