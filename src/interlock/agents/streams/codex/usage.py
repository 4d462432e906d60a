"""What a turn of Codex has used, from the totals of its thread.

The app-server repeats its last figures whenever it likes (an interrupt, a retry), so figures of single calls cannot be
added up. The total of a thread only grows: a turn has used what it grew by.
"""

from __future__ import annotations

from typing import Final

from interlock.agents.observations import ContextFilled, Observation, UsageReported, UsageScope
from interlock.vocabulary.foreign_json import Fields, count_of, inner

_NAMES: Final = ("inputTokens", "outputTokens", "cachedInputTokens")


class ThreadUsage:
    """`is_known`: the thread began with us. Otherwise its total is unknown until Codex first tells it."""

    def __init__(self) -> None:
        self._total: dict[str, int] | None = None
        self._before: dict[str, int] | None = None
        self._context: ContextFilled | None = None

    def begin_thread(self) -> None:
        """The thread is new: nothing was used yet."""
        self._total = dict.fromkeys(_NAMES, 0)

    def begin_turn(self) -> None:
        """A turn begins: what was used up to here is not its own."""
        self._before = self._total

    def read(self, told: Fields, model: str) -> list[Observation]:
        """What `tokenUsage` tells of the current turn: nothing, where it is not news or where we cannot know."""
        total = {name: number for name in _NAMES if (number := count_of(inner(told, "total"), name)) is not None}
        is_news, self._total = total != self._total, total
        used: list[Observation] = []
        if is_news and self._before is not None:
            grown = {name: total[name] - self._before[name] for name in _NAMES if {name} <= total.keys() & self._before}
            if all(number >= 0 for number in grown.values()) and any(grown.values()):
                used.append(
                    UsageReported(
                        scope=UsageScope.TURN,
                        model=model,
                        input_tokens=grown.get("inputTokens"),
                        output_tokens=grown.get("outputTokens"),
                        cached_input_tokens=grown.get("cachedInputTokens"),
                    )
                )
        return [*used, *self._filled(told)]

    def _filled(self, told: Fields) -> list[Observation]:
        context = ContextFilled(
            used_tokens=count_of(inner(told, "last"), "totalTokens"), window_tokens=count_of(told, "modelContextWindow")
        )
        if context.used_tokens is None or context == self._context:
            return []
        self._context = context
        return [context]
