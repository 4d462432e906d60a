"""Compaction: a summary that stands for the older turns in what the model sees. The log itself keeps everything.

Laws:
1. Pure: a plan is a payload to append. Nothing is rewritten, and planning again without a new turn finds nothing to do.
2. Counted in turns that the model sees. The cut is a boundary (`boundaries`): never in an open turn or a tool pair, so
   the items of the kept turns stay what they were, byte for byte.
3. The summary is written from replay items, hence without partial text, failures, usage or counts of audit events.
4. The previous compaction is carried forward: its summary begins the new one. Where room ends, the oldest lines go
   first, and `limitations` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interlock.projections.replay.boundaries import Cuts, find_cuts
from interlock.projections.replay.items import (
    AssistantText,
    BranchMemory,
    CallItem,
    CompactionMemory,
    ReplayItem,
    ResultItem,
    SubagentFact,
    UserText,
)
from interlock.projections.replay.provider_input import provider_items
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.conversation import CompactionTrigger, HistoryCompaction, SeqRange
from interlock.vocabulary.events.envelope import Event

STRATEGY: Final = "deterministic_operational_summary_v1"
EXCERPT_CHARACTERS: Final = 240
PATHS_SHOWN: Final = 8
SUMMARY_CHARACTERS: Final = 24_000
LIMITATIONS: Final = (
    f"Texts are quoted up to {EXCERPT_CHARACTERS} characters.",
    "Arguments and outputs of tools, reasoning and attachments are left out.",
)
DROPPED: Final = "The oldest lines are left out for want of room."
_PATH_ARGUMENTS: Final = ("path", "file_path")


class NothingToDo(StrEnum):
    """Why no compaction is planned."""

    TOO_FEW_TURNS = "too_few_turns"
    NOTHING_NEW = "nothing_new"
    OPEN_TURN = "open_turn"


@dataclass(frozen=True, slots=True)
class NothingToCompact:
    """No plan, why, and what would have to happen first."""

    why: NothingToDo
    message: str


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The payload to append at the version that was read, and what it changes."""

    payload: HistoryCompaction
    compacted_turns: int
    kept_turns: int
    compacted_items: int


def plan_compaction(
    events: Iterable[Event],
    *,
    keep_turns: int,
    trigger: CompactionTrigger = CompactionTrigger.MANUAL,
    summary_characters: int = SUMMARY_CHARACTERS,
) -> CompactionPlan | NothingToCompact:
    """Plan to keep the last `keep_turns` turns as they are, and to summarise what is older."""
    if keep_turns < 1:
        raise ContractError(f"keep_turns is {keep_turns}; at least the last turn is kept as it is")
    log = list(events)
    cuts = find_cuts(log)
    if len(cuts.turn_starts) <= keep_turns:
        return _nothing(NothingToDo.TOO_FEW_TURNS, f"{len(cuts.turn_starts)} turns, of which {keep_turns} are kept")
    limit = list(cuts.turn_starts.values())[-keep_turns]
    cut = max((position for position in cuts.boundaries if position < limit), default=None)
    if cut is None:
        return _nothing_before(cuts, limit)
    older, memory = _visible_before(log, cut)
    if not older:
        return _nothing_before(cuts, limit)
    summary, is_whole = summarise((*memory, *older), characters=summary_characters)
    carried = memory[0].limitations if memory else ()
    payload = HistoryCompaction(
        range=_range(log, cut),
        summary=summary,
        strategy=STRATEGY,
        trigger=trigger,
        limitations=tuple(dict.fromkeys((*carried, *LIMITATIONS, *(() if is_whole else (DROPPED,))))),
    )
    compacted = sum(start <= cut for start in cuts.turn_starts.values())
    return CompactionPlan(payload, compacted, len(cuts.turn_starts) - compacted, len(older))


def _visible_before(log: Sequence[Event], cut: int) -> tuple[tuple[ReplayItem, ...], tuple[CompactionMemory, ...]]:
    """What the model sees of the part before the cut, and the last summary, wherever that stands in the log."""
    backwards = (
        position for position in reversed(range(len(log))) if isinstance(log[position].data, HistoryCompaction)
    )
    last = next(backwards, None)
    older = log[: cut + 1] if last is None or last <= cut else [*log[: cut + 1], log[last]]
    items = provider_items(older)
    if items and isinstance(items[0], CompactionMemory):
        return items[1:], (items[0],)
    return items, ()


def _nothing(why: NothingToDo, message: str) -> NothingToCompact:
    return NothingToCompact(why, message)


def _nothing_before(cuts: Cuts, limit: int) -> NothingToCompact:
    open_turns = [turn_id for _, turn_id in (key for key in cuts.open_turns if cuts.turn_starts.get(key, 0) < limit)]
    if open_turns:
        names = ", ".join(open_turns)
        return _nothing(NothingToDo.OPEN_TURN, f"turn {names} is open; wait for its end, or recover it, and plan again")
    return _nothing(NothingToDo.NOTHING_NEW, "every turn that is not to be kept is compacted already")


def _range(log: Sequence[Event], cut: int) -> SeqRange:
    first, last = log[0].seq, log[cut].seq
    if first is None or last is None:
        raise ContractError("a compaction names sequence numbers; append the events first, then plan")
    return SeqRange(from_seq=first, to_seq=last)


def summarise(items: Iterable[ReplayItem], *, characters: int = SUMMARY_CHARACTERS) -> tuple[str, bool]:
    """An operational summary, the same for the same items, and whether it has all its lines."""
    lines: list[str] = []
    tools = _Tools()
    for item in items:
        if isinstance(item, CallItem | ResultItem):
            tools.note(item)
        elif said := _lines(item):
            lines += [*tools.told(), *said]
            tools = _Tools()
    return _newest([*lines, *tools.told()], characters)


def _lines(item: ReplayItem) -> list[str]:
    match item:
        case CompactionMemory(summary=summary) | BranchMemory(summary=summary):
            return summary.splitlines()
        case UserText(text=text, resources=resources):
            names = ", ".join(resource.name for resource in resources)
            return [f"user: {_excerpt(text)}" + (f" [attached: {_excerpt(names)}]" if names else "")]
        case AssistantText(text=text):
            return [f"assistant: {_excerpt(text)}"]
        case SubagentFact(subagent_id=name, status=status):
            return [f"subagent {_excerpt(name)} {status.value}: {_excerpt(item.summary or item.reason)}"]
        case _:
            return []


@dataclass(slots=True)
class _Tools:
    """The tools used since the last text, told in one line."""

    calls: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    paths: dict[str, None] = field(default_factory=dict)

    def note(self, item: CallItem | ResultItem) -> None:
        if isinstance(item, ResultItem):
            self.failed += not item.ok
            return
        self.calls[item.name] += 1
        if isinstance(item.args, dict):
            named = (item.args.get(argument) for argument in _PATH_ARGUMENTS)
            self.paths.update(dict.fromkeys(path for path in named if isinstance(path, str)))

    def told(self) -> list[str]:
        if not self.calls:
            return []
        parts = [", ".join(f"{_excerpt(name)} x{count}" for name, count in self.calls.items())]
        if self.failed:
            parts.append(f"{self.failed} without success")
        if self.paths:
            more = len(self.paths) - PATHS_SHOWN
            shown = ", ".join(_excerpt(path) for path in list(self.paths)[:PATHS_SHOWN])
            parts.append(f"on {shown}" + (f" and {more} more" if more > 0 else ""))
        return [f"tools: {'; '.join(parts)}"]


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= EXCERPT_CHARACTERS else f"{flat[: EXCERPT_CHARACTERS - 1]}…"


def _newest(lines: Sequence[str], characters: int) -> tuple[str, bool]:
    """As many lines from the end as there is room for."""
    kept: list[str] = []
    room = characters
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept)), len(kept) == len(lines)
