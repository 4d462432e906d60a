"""What turns changed so far, by their records alone; and the reviews of files."""

from __future__ import annotations

from datetime import UTC, datetime

from interlock.projections.workspace import ChangeFold, WorkspaceView
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.events.workspace import (
    FileChange,
    FileReviewAct,
    FileReviewed,
    WorkspaceChanged,
    WorkspacePhase,
)
from interlock.vocabulary.ids import EventId, SessionId, TurnId
from interlock.vocabulary.wire.frames import ChangeCounts


def start(turn: str, tree: str, problem: str = "") -> WorkspaceChanged:
    said = problem or ("" if tree else "too much")
    return WorkspaceChanged(
        turn_id=TurnId(turn), phase=WorkspacePhase.START, root="/p", tree=tree, branch="main", problem=said
    )


def end(turn: str, base: str, *paths: str, more: int = 0, tree: str = "t") -> WorkspaceChanged:
    return WorkspaceChanged(
        turn_id=TurnId(turn),
        phase=WorkspacePhase.END,
        root="/p",
        tree=tree,
        base=base,
        files=tuple(FileChange(path=path, change="M") for path in paths),
        file_count=len(paths) + more,
        added=2 * (len(paths) + more),
        removed=1,
        problem="" if tree else "too much",
    )


def counted(*told: Payload) -> ChangeCounts | None:
    fold = ChangeFold()
    for one in told:
        fold.add(one)
    return fold.counts


def test_a_file_counts_once_and_lines_turn_by_turn() -> None:
    assert counted() is None
    assert counted(start("a", "1")) == ChangeCounts()
    told = counted(start("a", "1"), end("a", "1", "x", "y"), start("b", "2"), end("b", "2", "y", "z"))
    assert told == ChangeCounts(files=3, added=8, removed=2)


def test_what_is_not_known_is_counted_as_unknown_and_never_guessed() -> None:
    assert counted(start("a", ""), end("a", "", "x")) == ChangeCounts(unknown_turns=1)
    assert counted(start("a", "1"), end("a", "", tree="")) == ChangeCounts(unknown_turns=1)
    assert counted(end("a", "1", "x")) == ChangeCounts(unknown_turns=1)  # compared with a tree that is not here
    assert counted(start("a", "1"), start("b", "2"), end("b", "2", "x")) == ChangeCounts(
        files=1, added=2, removed=1, unknown_turns=1
    )
    assert counted(start("a", "1"), end("a", "1", "x", more=300)) == ChangeCounts(files=301, added=602, removed=1)


def view_of(*told: Payload) -> WorkspaceView:
    view = WorkspaceView()
    view.feed(
        Event(
            id=EventId(f"evt_{seq}"),
            session_id=SessionId("ses_a"),
            ts=datetime(2026, 1, 1, tzinfo=UTC),
            seq=seq,
            data=one,
        )
        for seq, one in enumerate(told, start=1)
    )
    return view


def reviewed(turn: str, act: FileReviewAct) -> FileReviewed:
    return FileReviewed(turn_id=TurnId(turn), path="x", act=act)


def test_the_newest_review_of_a_file_in_a_turn_holds_and_what_came_to_nothing_does_not() -> None:
    view = view_of(
        start("a", "1"),
        end("a", "1", "x"),
        start("b", "2"),
        end("b", "2", "x"),
        reviewed("a", FileReviewAct.ACCEPTED),
        reviewed("a", FileReviewAct.DISCARDING),
        reviewed("a", FileReviewAct.KEPT),
    )
    turns = list(view.turns.values())
    assert [{path: one.act for path, one in turn.reviews.items()} for turn in turns] == [
        {"x": FileReviewAct.ACCEPTED},
        {},
    ]
    assert [turn.counted is not None for turn in turns] == [True, True]
