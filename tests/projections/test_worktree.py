"""The worktree of a session on its line of the board, and what keeps a session from being at rest."""

from __future__ import annotations

import pytest

from interlock.projections.sentences import sentence
from interlock.projections.task.view import TaskView
from interlock.testing.scribe import EPOCH
from interlock.vocabulary.events.audit import SessionOpened
from interlock.vocabulary.events.envelope import Event, new_event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.events.workspace import INTENTS, WorktreeChanged, WorktreePhase
from interlock.vocabulary.ids import EventId, SessionId
from interlock.vocabulary.states import DriverKind

SESSION = SessionId("s")
OPENED = SessionOpened(agent="claude", driver="puppet", kind=DriverKind.STREAM, cwd="/w")


def told(phase: WorktreePhase, *, head: str = "", problem: str = "") -> WorktreeChanged:
    return WorktreeChanged(
        phase=phase,
        path="/w",
        branch="interlock/x",
        base="b4",
        repository="/r/.git",
        target="main",
        head=head,
        problem=problem,
    )


def events(*payloads: Payload) -> list[Event]:
    return [
        new_event(one, id=EventId(f"evt_{at}"), session_id=SESSION, ts=EPOCH, seq=at)
        for at, one in enumerate(payloads, 1)
    ]


def view_of(*payloads: Payload) -> TaskView:
    view = TaskView(SESSION)
    for event in events(OPENED, *payloads):
        view.add(event)
    return view


def test_a_line_has_the_worktree_as_it_was_told_last() -> None:
    assert view_of().summary().worktree is None
    view = view_of(told(WorktreePhase.PLANNED), told(WorktreePhase.CREATED), told(WorktreePhase.MERGED, head="h1"))
    tree = view.summary().worktree
    assert tree is not None
    assert (tree.path, tree.branch, tree.base, tree.target, tree.merged) == ("/w", "interlock/x", "b4", "main", "h1")
    view = view_of(told(WorktreePhase.MERGED, head="h1"), told(WorktreePhase.REMOVED))
    gone = view.summary().worktree
    assert gone is not None
    assert (gone.phase, gone.merged) == (WorktreePhase.REMOVED, "h1")


@pytest.mark.parametrize("phase", WorktreePhase)
def test_what_was_begun_with_a_worktree_is_looked_at_by_the_next_start(phase: WorktreePhase) -> None:
    assert view_of(told(phase)).is_at_rest is (phase not in INTENTS)


def test_what_an_event_says_quotes_what_comes_from_outside() -> None:
    (event,) = events(told(WorktreePhase.FAILED, problem="\x1b[31m no"))
    assert sentence(event) == r"the worktree of branch interlock/x could not be made: '\x1b[31m no'"
