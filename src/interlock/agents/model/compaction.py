"""Making room in a model's context: the conversation before this turn becomes a summary.

The open turn itself is never touched. The summary is the model's own where it can give one, else the deterministic one
of `projections/replay/compaction.py`. The log keeps everything: whoever writes it is told what was replaced, before the
model
sees the summary.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from interlock.agents.model.calls import CallFault, CallUsage, ModelAnswer, ModelCaller, ModelQuestion
from interlock.agents.observations import HistoryCompacted
from interlock.projections.replay.compaction import STRATEGY, summarise
from interlock.projections.replay.items import CompactionMemory, ReplayItem, UserText, encode_items
from interlock.vocabulary.events.conversation import CompactionTrigger

MODEL_STRATEGY: Final = "model_summary_v1"
LIMITATION: Final = "Written by the model from a shortened transcript."
CRITICAL_FRACTION: Final = 0.9
TRANSCRIPT_CHARACTERS: Final = 200_000
_ITEM_CHARACTERS: Final = 4_000
_SUMMARY_SECONDS: Final = 120.0
_REQUEST: Final = (
    "Summarise the conversation below for yourself: you will go on from the summary alone. Keep what the user wants, "
    "what was decided and why, what was done to which files, what failed, and what is left to do. Answer with the "
    "summary only.\n\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The summary, how many of the first items it stands for, and what it cost."""

    memory: CompactionMemory
    replaced_items: int
    strategy: str
    trigger: CompactionTrigger
    usage: CallUsage | None = None

    def told(self) -> HistoryCompacted:
        """What the writer of the log needs to write a `history_compaction`."""
        return HistoryCompacted(
            summary=self.memory.summary,
            limitations=self.memory.limitations,
            strategy=self.strategy,
            trigger=self.trigger,
        )


def is_critical(used_tokens: int | None, window_tokens: int | None) -> bool:
    """Whether the next call may not fit. What is not known is not critical: the provider will say so."""
    return bool(used_tokens and window_tokens) and (used_tokens or 0) >= CRITICAL_FRACTION * (window_tokens or 0)


async def compact(caller: ModelCaller, older: Sequence[ReplayItem], trigger: CompactionTrigger) -> Compacted:
    """Summarise what came before the turn. Always gives a summary; raises nothing but cancellation."""
    answer = await _ask(caller, older)
    is_models = answer is not None and bool(answer.text.strip())
    if answer is not None and is_models:
        memory = CompactionMemory(summary=answer.text.strip(), limitations=(LIMITATION,))
    else:
        memory = CompactionMemory(summary=summarise(older)[0])
    return Compacted(
        memory=memory,
        replaced_items=len(older),
        strategy=MODEL_STRATEGY if is_models else STRATEGY,
        trigger=trigger,
        usage=None if answer is None else answer.usage,
    )


async def _ask(caller: ModelCaller, older: Sequence[ReplayItem]) -> ModelAnswer | None:
    question = ModelQuestion(items=(UserText(text=_REQUEST + transcript(older)),))
    try:
        async with asyncio.timeout(_SUMMARY_SECONDS), aclosing(caller.call(question)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelAnswer):
                    return piece
    except (CallFault, TimeoutError):
        pass  # the deterministic summary stands in
    return None


def transcript(items: Sequence[ReplayItem], characters: int = TRANSCRIPT_CHARACTERS) -> str:
    """The items as lines of JSON, each shortened, as many from the end as there is room for."""
    kept: list[str] = []
    for item in reversed(items):
        line = json.dumps(json.loads(encode_items((item,))), ensure_ascii=False)[:_ITEM_CHARACTERS]
        characters -= len(line) + 1
        if characters < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))
