"""The trees of a session's turns, as the log has them: what each turn did is the difference between its own two.

Laws:
1. A turn without both trees is unknown, and says why. The tree of another turn never stands in for its own.
2. What changed between the end of one turn and the start of the next was somebody else, or cannot be told.
3. Everything that makes a difference prove less is a doubt, and is told with it.
4. A review is of one file in one turn: what a later turn does to the file is not reviewed by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import structs

from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.events.workspace import (
    FileReviewAct,
    FileReviewed,
    WorkspaceChanged,
    WorkspaceKind,
    WorkspacePhase,
)
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.wire.frames import ChangeCounts

MAX_FILES = 5_000
"""Of so many files of a session it is held that they are counted; what comes after counts as other files."""

_NOT_TAKEN = "it was not recorded"
_MAIN_LISTED = 10


@dataclass(slots=True)
class TurnTrees:
    """One turn: its number in the session, and its two trees where they were recorded."""

    session_id: SessionId
    turn_id: TurnId
    number: int
    start: WorkspaceChanged | None = None
    end: WorkspaceChanged | None = None
    start_seq: int | None = None
    end_seq: int | None = None
    reviews: dict[str, FileReviewed] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether both trees were kept, in one and the same work tree; without git: whether both were listed."""
        if self.is_manifest:
            return True
        return bool(self.start and self.end and self.start.tree and self.end.tree and self.start.root == self.end.root)

    @property
    def is_manifest(self) -> bool:
        """Whether the files were listed by hash: nothing of them is kept."""
        return self.end is not None and bool(self.end.manifest and self.end.base)

    @property
    def is_certain(self) -> bool:
        """Whether the difference between the two trees is the turn's own, and all of it that can be kept."""
        edges = [told for told in (self.start, self.end) if told is not None]
        return self.is_known and not any(told.problem or told.late or told.shared_with for told in edges)

    @property
    def counted(self) -> WorkspaceChanged | None:
        """The record that counts what the turn changed; None where its end was not compared with its own start."""
        start, end = self.start, self.end
        if self.is_manifest:
            return end
        is_counted = self.is_known and start is not None and end is not None and end.base == start.tree
        return end if is_counted else None

    @property
    def has_record(self) -> bool:
        return self.start is not None or self.end is not None

    @property
    def unknown(self) -> str:
        """Why it is not known what the turn did; blank where it is."""
        if self.is_known:
            return ""
        if self.end is not None and self.end.kind is WorkspaceKind.MANIFEST:
            return self.end.problem
        for edge, found in (("start", self.start), ("end", self.end)):
            if found is None or not found.tree:
                return f"no tree at its {edge}: {found.problem if found else _NOT_TAKEN}"
        return "it began in one work tree and ended in another"

    @property
    def doubts(self) -> tuple[str, ...]:
        """What makes the difference between the two trees prove less."""
        edges = [told for told in (self.start, self.end) if told is not None and (told.tree or told.manifest)]
        return tuple(dict.fromkeys(doubt for told in edges for doubt in doubts_of(told)))


def doubts_of(told: WorkspaceChanged) -> tuple[str, ...]:
    """What makes a recorded tree prove less than it seems to."""
    edge = told.phase.value
    return (
        *((told.problem,) if told.problem else ()),
        *(f"{path} changed right at the {edge} of the turn, before it was looked at" for path in told.late),
        *(f"session {name} had a turn in the same work tree: the change may be its own" for name in told.shared_with),
        *(f"not kept: {path}" for path in told.not_kept),
        *(_in_main(told) if told.main_changed else ()),
    )


def _in_main(told: WorkspaceChanged) -> tuple[str]:
    """It is outside of the difference, and may be the turn's own all the same."""
    more = len(told.main_changed) - _MAIN_LISTED
    some = ", ".join(told.main_changed[:_MAIN_LISTED]) + (f" and {more} more" if more > 0 else "")
    return (f"changed meanwhile in the main checkout {told.main_root}, by whom is not known: {some}",)


@dataclass(slots=True)
class WorkspaceView:
    """A fold over the events of one session: its turns in order, each with its trees."""

    turns: dict[TurnId, TurnTrees] = field(default_factory=dict)

    def feed(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.turn_id is not None:
                self._turn(event.session_id, event.turn_id)
            self._add(event, event.data)

    def _add(self, event: Event, told: Payload) -> None:
        if isinstance(told, FileReviewed):
            self._review(self._turn(event.session_id, told.turn_id), told)
        if not isinstance(told, WorkspaceChanged):
            return
        turn = self._turn(event.session_id, told.turn_id)
        told = told if told.manifest else structs.replace(told, files=())  # the trees tell them, all of them
        if told.phase is WorkspacePhase.START:
            turn.start, turn.start_seq = turn.start or told, turn.start_seq or event.seq
        else:
            turn.end, turn.end_seq = turn.end or told, turn.end_seq or event.seq

    def _review(self, turn: TurnTrees, told: FileReviewed) -> None:
        """What was begun and came to nothing changes nothing."""
        if told.act not in (FileReviewAct.DISCARDING, FileReviewAct.KEPT):
            turn.reviews[told.path] = told

    def _turn(self, session_id: SessionId, turn_id: TurnId) -> TurnTrees:
        known = self.turns.get(turn_id)
        if known is None:
            known = self.turns[turn_id] = TurnTrees(session_id, turn_id, len(self.turns) + 1)
        return known


@dataclass(slots=True)
class ChangeFold:
    """How much the turns of a session changed so far, as their records count it. `counts` is None before the first."""

    counts: ChangeCounts | None = None
    branch: str = ""
    _files: set[str] = field(default_factory=set)
    _open: TurnId | None = None
    _start_tree: str = ""

    def add(self, told: Payload) -> None:
        """Fold one event; the records of one session come in the order of its turns."""
        if not isinstance(told, WorkspaceChanged):
            return
        self.branch = told.branch or self.branch
        before = self.counts or ChangeCounts()
        if told.phase is WorkspacePhase.START:
            is_lost = self._open is not None and self._open != told.turn_id
            self.counts = structs.replace(before, unknown_turns=before.unknown_turns + is_lost)
            self._open, self._start_tree = told.turn_id, told.tree
            return
        is_counted = bool(told.base) and self._open == told.turn_id and told.base == self._start_tree
        is_counted = is_counted or bool(told.manifest and told.base)
        self._open = None
        self.counts = self._with(before, told) if is_counted else _with_unknown(before)

    def _with(self, before: ChangeCounts, told: WorkspaceChanged) -> ChangeCounts:
        known = len(self._files)
        self._files.update(one.path for one in told.files[: max(0, MAX_FILES - known)])
        unlisted = told.file_count - len(told.files[: max(0, MAX_FILES - known)])
        return structs.replace(
            before,
            files=before.files + len(self._files) - known + unlisted,
            added=before.added + told.added,
            removed=before.removed + told.removed,
        )


def _with_unknown(before: ChangeCounts) -> ChangeCounts:
    return structs.replace(before, unknown_turns=before.unknown_turns + 1)
