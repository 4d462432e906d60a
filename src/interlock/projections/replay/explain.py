"""Why each event is, or is not, part of what a model is given. The same fold decides; this only tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from interlock.projections.replay.conversation import Placed
from interlock.projections.replay.items import CompactionMemory, ResultItem
from interlock.projections.replay.provider_input import ReplayFold, fold_replay
from interlock.vocabulary.events.conversation import AssistantMessage, HistoryCompaction, SubagentEvent, ToolCall
from interlock.vocabulary.events.envelope import Event, UnknownEvent, audience
from interlock.vocabulary.events.registry import Audience


class ReplayRule(StrEnum):
    """The rules of replay: what puts an event in, and what keeps one out."""

    USER_MESSAGE = "user_message"
    ASSISTANT_MESSAGE = "assistant_message"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    HISTORY_COMPACTION = "history_compaction"
    BRANCH_SUMMARY = "branch_summary"
    SUBAGENT_EVENT = "subagent_event"
    SYNTHETIC_RESULT = "synthetic_result"
    PARTIAL_MESSAGE = "partial_message"
    UNVERIFIED_MESSAGE = "unverified_message"
    BLANK_MESSAGE = "blank_message"
    OTHER_MODEL = "other_model"
    REPEATED_CALL = "repeated_call"
    LATE_RESULT = "late_result"
    RESULT_WITHOUT_CALL = "result_without_call"
    LATE_EVENT = "late_event"
    STALE_SPAWN = "stale_spawn"
    COMPACTED = "compacted"
    SUPERSEDED_COMPACTION = "superseded_compaction"
    SUBAGENT_NOT_FOR_MODEL = "subagent_not_for_model"
    AUDIT_ONLY = "audit_only"
    PRESENTER_ONLY = "presenter_only"
    UNKNOWN_TYPE = "unknown_type"


REASONS: Final[Mapping[ReplayRule, str]] = {
    ReplayRule.USER_MESSAGE: "a prompt is always replayed",
    ReplayRule.ASSISTANT_MESSAGE: "clean text is replayed, however its turn ended",
    ReplayRule.REASONING: "made by the model that is asked, in its dialect",
    ReplayRule.TOOL_CALL: "a call is replayed with its one result",
    ReplayRule.TOOL_RESULT: "the result of a call that was open",
    ReplayRule.HISTORY_COMPACTION: "the latest compaction stands for all up to the end of its range",
    ReplayRule.BRANCH_SUMMARY: "a branch summary is always replayed",
    ReplayRule.SUBAGENT_EVENT: "a child ended, and its parent's model is to know",
    ReplayRule.SYNTHETIC_RESULT: "no result of this call came in time, so one stands in for it",
    ReplayRule.PARTIAL_MESSAGE: "text that was cut short is evidence, not an answer",
    ReplayRule.UNVERIFIED_MESSAGE: "text read off a screen is unproven, and no one chose to trust it",
    ReplayRule.BLANK_MESSAGE: "a message without text says nothing",
    ReplayRule.OTHER_MODEL: "reasoning is replayed only to the same model and dialect",
    ReplayRule.REPEATED_CALL: "the same call is open already",
    ReplayRule.LATE_RESULT: "its call was closed when the next turn's prompt came",
    ReplayRule.RESULT_WITHOUT_CALL: "no call of its turn waits for it here: unknown, answered, or before a compaction",
    ReplayRule.LATE_EVENT: "its turn had ended already: what comes after the end of a run is evidence only",
    ReplayRule.STALE_SPAWN: "another process owns the turn: a process that was replaced does not speak for it",
    ReplayRule.COMPACTED: "the latest compaction stands for it",
    ReplayRule.SUPERSEDED_COMPACTION: "a later compaction took its place",
    ReplayRule.SUBAGENT_NOT_FOR_MODEL: "not the end of a child, or not marked for the model",
    ReplayRule.AUDIT_ONLY: "kept as evidence, never replayed",
    ReplayRule.PRESENTER_ONLY: "shown live, never replayed",
    ReplayRule.UNKNOWN_TYPE: "of a type that this version does not know",
}
MOVED: Final = "; it came while a call was open and follows the results"


class Explained(Struct, frozen=True, kw_only=True):
    """One event, or one synthetic result (next to its call). `item` counts from 0 in the provider input."""

    seq: int | None
    type: str
    included: bool
    rule: ReplayRule
    reason: str
    item: int | None = None


def explain(events: Iterable[Event], *, model: str = "", dialect: str = "") -> list[Explained]:
    """Say of every event whether it is in the provider input and by which rule, in the order of the log."""
    log = list(events)
    fold = fold_replay(log, model=model, dialect=dialect)
    placed = fold.placed()
    moved = frozenset(_moved(placed))
    at: dict[int, list[int]] = {}
    for index, (_, position) in enumerate(placed):
        at.setdefault(position, []).append(index)
    left_out = _left_out(log, fold)
    told: list[Explained] = []
    for position, event in enumerate(log):
        if position in at:
            told += (_included(event, placed[index], index, index in moved) for index in at[position])
        else:
            rule = left_out.get(position) or _audience_rule(event)
            told.append(Explained(seq=event.seq, type=event.type, included=False, rule=rule, reason=REASONS[rule]))
    return told


def _included(event: Event, placed: Placed, index: int, is_moved: bool) -> Explained:
    is_stand_in = isinstance(event.data, ToolCall) and isinstance(placed.item, ResultItem)
    rule = ReplayRule.SYNTHETIC_RESULT if is_stand_in else ReplayRule(event.type)
    reason = REASONS[rule] + (MOVED if is_moved and not is_stand_in else "")
    type_name = "tool_result" if is_stand_in else event.type
    return Explained(seq=event.seq, type=type_name, included=True, rule=rule, reason=reason, item=index)


def _moved(placed: Sequence[Placed]) -> Iterator[int]:
    """The items that stand after one which came later in the log."""
    furthest = -1
    for index, (item, position) in enumerate(placed):
        if isinstance(item, CompactionMemory):
            continue  # it stands first by its own rule
        if position < furthest:
            yield index
        furthest = max(furthest, position)


def _left_out(log: Sequence[Event], fold: ReplayFold) -> dict[int, ReplayRule]:
    """Why replay events have no item: compacted ones, compactions before the latest, and what broke the pairing."""
    rules = dict.fromkeys(fold.compacted(), ReplayRule.COMPACTED)
    rules |= {position: ReplayRule(reason.value) for position, reason in fold.left_out()}
    older = (position for position, event in enumerate(log) if isinstance(event.data, HistoryCompaction))
    return rules | dict.fromkeys(older, ReplayRule.SUPERSEDED_COMPACTION)


def _audience_rule(event: Event) -> ReplayRule:
    match event.data:
        case UnknownEvent():
            return ReplayRule.UNKNOWN_TYPE
        case AssistantMessage(metadata=metadata):
            return ReplayRule.PARTIAL_MESSAGE if metadata.partial else ReplayRule.UNVERIFIED_MESSAGE
        case SubagentEvent():
            return ReplayRule.SUBAGENT_NOT_FOR_MODEL
        case _:
            return ReplayRule.PRESENTER_ONLY if audience(event) is Audience.PRESENTER else ReplayRule.AUDIT_ONLY
