"""What an ACP agent says of tokens.

The protocol's figures in the answer to a prompt count the whole session. Some agents count the turn alone. So the
figures of a turn are the difference to those before, until an agent gives figures that did not grow: it is then known
to count by the turn. Where the figures before are not known (a session that was resumed), none are claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.agents.observations import ContextFilled, Observation, UsageReported, UsageScope
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import count, mapping

_FIGURES: Final = ("inputTokens", "outputTokens", "cachedReadTokens")


class AcpTurnUsage:
    """The figures of one session, turn by turn."""

    def __init__(self) -> None:
        self._before: dict[str, int] | None = {}
        self._is_by_turn = False

    def resumed(self) -> None:
        """The session has turns that we did not see."""
        self._before = None

    def of_turn(self, result: Mapping[str, Json], *, is_clean: bool) -> list[Observation]:
        """The usage in the answer to a prompt, if there is any. `is_clean`: the turn ran to its own end."""
        usage = mapping(result.get("usage"))
        if not usage:
            return _of_quota(mapping(mapping(mapping(result.get("_meta")).get("quota")).get("token_count")))
        now = {name: figure for name in _FIGURES if (figure := count(usage.get(name))) is not None}
        before, self._before = self._before, now
        if before is None or not now:
            return []
        growth = sum(now.values()) - sum(before.values())
        if before and (growth < 0 or (growth == 0 and is_clean)):
            self._is_by_turn = True
        if growth == 0 and not self._is_by_turn:
            return []  # an attempt that was broken off is not counted by the agent, which does not make it free
        start = {} if self._is_by_turn else before
        turn = {name: figure - start.get(name, 0) for name, figure in now.items()}
        return [_report(UsageScope.TURN, turn)] if all(figure >= 0 for figure in turn.values()) else []


def of_chunk(meta: Mapping[str, Json]) -> list[Observation]:
    """The usage of one model call, which some agents hang on a text chunk."""
    usage = mapping(meta.get("usage"))
    figures = {name: figure for name in _FIGURES if (figure := count(usage.get(name))) is not None}
    return [_report(UsageScope.CALL, figures)] if figures else []


def of_update(update: Mapping[str, Json]) -> list[Observation]:
    """How full the context is."""
    used, size = count(update.get("used")), count(update.get("size"))
    return [] if used is None and size is None else [ContextFilled(used_tokens=used, window_tokens=size)]


def _of_quota(tokens: Mapping[str, Json]) -> list[Observation]:
    given, taken = count(tokens.get("input_tokens")), count(tokens.get("output_tokens"))
    if given is None and taken is None:
        return []
    return [UsageReported(scope=UsageScope.TURN, input_tokens=given, output_tokens=taken)]


def _report(scope: UsageScope, figures: Mapping[str, int]) -> UsageReported:
    return UsageReported(
        scope=scope,
        input_tokens=figures.get("inputTokens"),
        output_tokens=figures.get("outputTokens"),
        cached_input_tokens=figures.get("cachedReadTokens"),
    )
