"""The messages that a model call writes: pieces as they come, then each block whole.

Laws:
1. A text is told by its pieces (`TextArrived`) and once whole (`MessageEnded`); a reasoning is told once, by its pieces
   where there were any.
2. Each text block is a message. The first has the model's own message id, a later one of the same call `<id>:2`.
3. Pieces that no whole block follows are void as soon as another attempt begins, and stand as they are at an abort.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

from interlock.agents.observations import (
    TRACE_MAX_CHARACTERS,
    ContextFilled,
    MessageEnded,
    Observation,
    TextArrived,
    TextVoided,
    ThoughtArrived,
    ToolCalled,
    UsageReported,
    UsageScope,
    Warned,
    traced,
)
from interlock.agents.streams.claude.frames import blocks_of, plain_text
from interlock.vocabulary.events.conversation import MAX_COUNT
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, count_of, inner, text

_TOOL_BLOCKS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_MAX_DRAFTS: Final = 256


@dataclass(frozen=True, slots=True)
class _Draft:
    """The message under way of one writer. `usage` is what its start reported."""

    message_id: str = ""
    model: str = ""
    ended: int = 0
    has_text: bool = False
    has_thought: bool = False
    usage: Fields | None = None

    @property
    def text_id(self) -> str:
        return f"{self.message_id}:{self.ended + 1}" if self.ended and self.message_id else self.message_id


_NOTHING_YET: Final = _Draft()


class Messages:
    """The drafts of the agent (by the blank name) and of its sub-agents. `window_tokens` is told from outside."""

    def __init__(self) -> None:
        self._drafts: dict[str, _Draft] = {}
        self.window_tokens: int | None = None

    def stream_event(self, event: Fields, sub_agent: str) -> list[Observation]:
        """One event of the provider's stream, passed on as it is."""
        match text(event, "type"):
            case "message_start":
                return self._begin(inner(event, "message"), sub_agent)
            case "content_block_delta":
                return self._piece(inner(event, "delta"), sub_agent)
            case "message_delta" if not sub_agent:
                return self._used(inner(event, "usage"))
            case _:
                return []

    def frame(self, frame: Fields, sub_agent: str) -> list[Observation]:
        """An `assistant` frame: blocks that are whole. Without partial messages it is all there is."""
        if frame.get("is_api_error_message") is True:
            # Written by the agent in the model's name: no part of an answer, and no attempt of its own.
            told = "\n".join(text(block, "text") for block in blocks_of(frame))[:TRACE_MAX_CHARACTERS]
            return [Warned(kind="api_error", message=told, details={"error": text(frame, "error")[:64]})]
        message = inner(frame, "message")
        seen: list[Observation] = []
        if self._of(sub_agent).message_id != text(message, "id"):
            seen += self._begin(message, sub_agent)
        for block in blocks_of(frame):
            seen += self._block(frame, block, sub_agent)
        return seen

    def void(self, reason: str, sub_agent: str = "") -> list[Observation]:
        """The attempt is dead: take back the text that it streamed, if it did."""
        draft = self._of(sub_agent)
        self._keep(sub_agent, replace(draft, has_text=False, has_thought=False))
        return [TextVoided(reason=reason)] if draft.has_text and not sub_agent else []

    def end(self) -> None:
        """The turn is over: what was streamed stands as it is."""
        self._drafts.pop("", None)

    def _begin(self, message: Fields, sub_agent: str) -> list[Observation]:
        seen = self.void("another attempt began", sub_agent)
        usage = inner(message, "usage")
        self._keep(sub_agent, _Draft(text(message, "id"), text(message, "model"), usage=usage))
        return seen

    def _piece(self, delta: Fields, sub_agent: str) -> list[Observation]:
        draft = self._of(sub_agent)
        match text(delta, "type"):
            case "text_delta" if piece := text(delta, "text"):
                if not draft.has_text:
                    self._keep(sub_agent, replace(draft, has_text=True))
                return [TextArrived(text=piece, message_id=draft.text_id, sub_agent=sub_agent)]
            case "thinking_delta" if piece := text(delta, "thinking"):
                if not draft.has_thought:
                    self._keep(sub_agent, replace(draft, has_thought=True))
                return [ThoughtArrived(text=piece, sub_agent=sub_agent)]
            case _:
                return []

    def _used(self, usage: Fields) -> list[Observation]:
        """What one model call used. The figures of its start hold where its end does not repeat them."""
        draft = self._of("")
        whole = {**(draft.usage or {}), **{name: figure for name, figure in usage.items() if figure is not None}}
        fed, written = prompt_tokens(whole), count_of(whole, "output_tokens")
        if fed is None and written is None:
            return []
        used = None if fed is None else fed + (written or 0)
        cached = count_of(whole, "cache_read_input_tokens")
        report = UsageReported(
            scope=UsageScope.CALL,
            model=draft.model,
            input_tokens=fed,
            output_tokens=written,
            cached_input_tokens=cached,
        )
        return [report, ContextFilled(used_tokens=used, window_tokens=self.window_tokens)]

    def _block(self, frame: Fields, block: Fields, sub_agent: str) -> list[Observation]:
        match text(block, "type"):
            case "text":
                return self._text(frame, text(block, "text"), sub_agent)
            case "thinking":
                return self._thought(text(block, "thinking"), sub_agent)
            case kind if kind in _TOOL_BLOCKS:
                called = ToolCalled(
                    call_id=text(block, "id"), name=text(block, "name"), args=block.get("input"), sub_agent=sub_agent
                )
                return [called]
            case kind if kind.endswith("_tool_result"):
                return [traced(f"{kind}: {plain_text(block.get('content'))}")]
            case kind:
                return [traced(f"assistant block {kind!r}")]

    def _text(self, frame: Fields, whole: str, sub_agent: str) -> list[Observation]:
        draft = self._of(sub_agent)
        if frame.get("aborted") is True:
            if draft.has_text or not whole:
                return []
            self._keep(sub_agent, replace(draft, has_text=True))
            return [TextArrived(text=whole, message_id=draft.text_id, sub_agent=sub_agent)]
        if not whole and not draft.has_text:
            return []
        self._keep(sub_agent, replace(draft, has_text=False, ended=draft.ended + 1))
        return [MessageEnded(text=whole, message_id=draft.text_id, model=draft.model, sub_agent=sub_agent)]

    def _thought(self, whole: str, sub_agent: str) -> list[Observation]:
        draft = self._of(sub_agent)
        self._keep(sub_agent, replace(draft, has_thought=False))
        return [] if draft.has_thought or not whole else [ThoughtArrived(text=whole, sub_agent=sub_agent)]

    def _of(self, sub_agent: str) -> _Draft:
        return self._drafts.get(sub_agent, _NOTHING_YET)

    def _keep(self, sub_agent: str, draft: _Draft) -> None:
        self._drafts[sub_agent] = draft
        if len(self._drafts) > _MAX_DRAFTS:
            del self._drafts[next(iter(self._drafts))]


# What Claude Code says that a turn used.
#
# Its own figures mix two scopes: `usage` counts the agent's own model calls since the last result, `total_cost_usd` and
# `modelUsage` the whole session, resumed parts of it included. `model_usage_since_last_result` counts everything since
# the last result (sub-agents and side calls too), and is taken where it is given.


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
