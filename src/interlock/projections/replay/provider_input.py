"""Replay: what a model is given of a log, by one rule set for every dialect.

Laws:
1. Decided per event, from the replay events (`audience(event) is REPLAY`) that the classifier's fence lets through:
   nothing after the recorded end of its turn, nothing of a spawn that does not own it (`replay_fence`). Adding or
   removing audit, presenter or unknown events anywhere leaves the input as it is, byte for byte. So does the record of
   a turn's owner or end (`turn_started`, `run_state`), unless the turn goes on after it.
2. In: prompts, clean text, paired calls and results, reasoning of the same model and dialect, the latest compaction and
   what follows its range, branch summaries, terminal facts of subagents that are marked for the model.
   Never: partial or unverified text, failures, usage, decisions. A failed turn keeps its prompt, its paired calls and
   its clean intermediate text.
3. The input may be taken at any time; it is taken when a turn begins, and in a turn whenever no call is open. Appending
   a turn, that is a prompt of another turn and all that follows, to any log only extends the input. Within a turn,
   `settled_count` items are final; the rest stands in for results that have not come.
4. Only a compaction changes what was given before; a fork cuts it. `prefix_changes` says where and why. To ask for
   another model or dialect is another request, and is not a change of the log.
5. A compaction stands for every event before it up to the last one whose `seq` is in its range, and for none after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from interlock.lifecycle.turn import FindingKind
from interlock.projections.replay.conversation import Conversation, LeftOut, Placed
from interlock.projections.replay.fence import ReplayFence
from interlock.projections.replay.items import ReplayItem, encode_items, item_of
from interlock.vocabulary.events.audit import SessionFork
from interlock.vocabulary.events.conversation import HistoryCompaction
from interlock.vocabulary.events.envelope import Event, audience
from interlock.vocabulary.events.registry import Audience


class ReplayFold:
    """The provider input of one session's log, one event at a time.

    The cost of the next event does not depend on history; a compaction costs its tail, once, when items are asked for.
    """

    def __init__(self, *, model: str = "", dialect: str = "") -> None:
        self._model, self._dialect = model, dialect
        self._events: list[tuple[int, Event]] = []  # every replay event but compactions: a later one may reach less far
        self._taken = 0
        self._fence = ReplayFence()
        self._fenced: list[tuple[int, LeftOut]] = []
        self._compaction: tuple[int, HistoryCompaction] | None = None
        self._compacted_at = 0
        self._tail_start = 0
        self._conversation: Conversation | None = Conversation(model=model, dialect=dialect)

    def add(self, event: Event) -> None:
        """Fold one event. Any event may come; only replay events count."""
        position = self._taken
        self._taken += 1
        refused = self._fence.refuses(event)
        if audience(event) is not Audience.REPLAY:
            return
        if refused is not None:
            is_late = refused is FindingKind.LATE_EVENT
            self._fenced.append((position, LeftOut.LATE_EVENT if is_late else LeftOut.STALE_SPAWN))
            return
        if isinstance(event.data, HistoryCompaction):
            self._compaction, self._compacted_at = (position, event.data), len(self._events)
            self._conversation = None
            return
        self._events.append((position, event))
        if self._conversation is not None:
            self._conversation.take(position, event)

    @property
    def settled_count(self) -> int:
        """How many of the items are final: nothing but a compaction changes them."""
        return len(self._memory()) + len(self.conversation().placed)

    def items(self) -> tuple[ReplayItem, ...]:
        """The whole input, as if it were taken now."""
        return tuple(placed.item for placed in self.placed())

    def placed(self) -> list[Placed]:
        """The items with the positions of their events, counted from 0."""
        conversation = self.conversation()
        return [*self._memory(), *conversation.placed, *conversation.closing()]

    def compacted(self) -> frozenset[int]:
        """The positions of the replay events that the latest compaction stands for."""
        self.conversation()
        return frozenset(position for position, _ in self._events[: self._tail_start])

    def left_out(self) -> list[tuple[int, LeftOut]]:
        """The positions of the replay events that no compaction stands for and that are not given, with the reason."""
        return [*self.conversation().left_out, *self._fenced]

    def conversation(self) -> Conversation:
        """What follows the latest compaction's range, or everything."""
        if self._conversation is None:
            self._tail_start = self._find_tail()
            self._conversation = Conversation(model=self._model, dialect=self._dialect)
            for position, event in self._events[self._tail_start :]:
                self._conversation.take(position, event)
        return self._conversation

    def _memory(self) -> tuple[Placed, ...]:
        return () if self._compaction is None else (Placed(item_of(self._compaction[1]), self._compaction[0]),)

    def _find_tail(self) -> int:
        """From the compaction backwards, so that the cost is the tail's and not the history's."""
        start = self._compacted_at
        while start and self._compaction is not None:
            seq = self._events[start - 1][1].seq
            if seq is not None and seq <= self._compaction[1].range.to_seq:
                break
            start -= 1
        return start


def fold_replay(events: Iterable[Event], *, model: str = "", dialect: str = "") -> ReplayFold:
    fold = ReplayFold(model=model, dialect=dialect)
    for event in events:
        fold.add(event)
    return fold


def provider_items(events: Iterable[Event], *, model: str = "", dialect: str = "") -> tuple[ReplayItem, ...]:
    """What a request to `model`, in `dialect`, gives of this log. Without a model no reasoning is replayed."""
    return fold_replay(events, model=model, dialect=dialect).items()


class PrefixRule(StrEnum):
    """What may change a prefix."""

    COMPACTION = "compaction"
    FORK = "fork"


class PrefixChange(Struct, frozen=True, kw_only=True):
    """Where a prompt cache stops being good: at event `seq`, all but the first `kept_items` items were replaced."""

    seq: int | None
    rule: PrefixRule
    reason: str
    kept_items: int


def prefix_changes(events: Iterable[Event], *, model: str = "", dialect: str = "") -> tuple[PrefixChange, ...]:
    """Every place where the input of the log before an event is not a prefix of the input after it, by a rule."""
    fold = ReplayFold(model=model, dialect=dialect)
    changes: list[PrefixChange] = []
    for event in events:
        before = fold.items() if isinstance(event.data, HistoryCompaction | SessionFork) else ()
        fold.add(event)
        match event.data:
            case HistoryCompaction():
                kept = _shared(before, fold.items())
                reason = f"{event.data.strategy} replaced {len(before) - kept} items by a summary"
                if kept < len(before):
                    changes.append(
                        PrefixChange(seq=event.seq, rule=PrefixRule.COMPACTION, reason=reason, kept_items=kept)
                    )
            case SessionFork(parent_session_id=parent, parent_range=copied):
                reason = f"begins as a copy of {parent} up to seq {copied.to_seq}; what came later there is not here"
                kept = len(before)
                changes.append(PrefixChange(seq=event.seq, rule=PrefixRule.FORK, reason=reason, kept_items=kept))
            case _:
                pass
    return tuple(changes)


def _shared(one: tuple[ReplayItem, ...], other: tuple[ReplayItem, ...]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    # By bytes: to Python 1, 1.0 and True are equal.
    parted = (index for index, (a, b) in pairs if encode_items((a,)) != encode_items((b,)))
    return next(parted, min(len(one), len(other)))
