"""What turns did to files, and what people did about it, for both sides of the wire."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from interlock.vocabulary.events.conversation import Count, Ordinal
from interlock.vocabulary.ids import PromptId, SessionIdField, TurnId

MAX_PATCH: Final = 1024 * 1024


class FileReviewState(StrEnum):
    """What a person did with a file that a turn changed. Of each turn by itself: a file that a later turn changes is
    new there."""

    NEW = "new"
    ACCEPTED = "accepted"
    SENT_BACK = "sent_back"
    DISCARDED = "discarded"


class ReviewAct(StrEnum):
    """What to do with a file that a turn changed: note that it is good, ask the agent for another change, or put the
    file back to what it was before the turn."""

    ACCEPT = "accept"
    SEND_BACK = "send_back"
    DISCARD = "discard"


class FileDiff(Struct, frozen=True, kw_only=True):
    """A file that differs. `change` is A(dded), D(eleted), M(odified) or T (another kind); a rename is a deletion and
    an addition. `before` and `after` are ids of its content in git. Lines are null where they cannot be counted.
    `is_late`: it changed right at an edge of the turn, perhaps outside of it."""

    path: str
    change: str
    before: str
    after: str
    added: Count | None
    removed: Count | None
    is_late: bool = False
    review: FileReviewState = FileReviewState.NEW
    reviewed_by: str = ""


class TurnChanges(Struct, frozen=True, kw_only=True):
    """How much a turn changed, as the log has it. `unknown`: why that is not known; blank where it is. Counts are null
    where its two trees are kept and were not compared: `diff` compares them. `is_certain`: nothing else is known to
    have changed files meanwhile; `doubts` say what is."""

    turn_id: TurnId
    number: Ordinal
    is_known: bool
    is_certain: bool
    unknown: str
    file_count: Count | None
    added: Count | None
    removed: Count | None
    reviewed: Count
    doubts: tuple[str, ...]


class TaskDiff(Struct, frozen=True, kw_only=True):
    """What one turn did: the difference between the tree at its start and the tree at its end. `between`: files that
    changed since the turn before, by others. `patch` is that of the file or of all files that were asked for, cut after
    `MAX_PATCH` characters where `is_cut`; `patch_problem`: why there is none. The numbers of the events that name the
    trees are `start_seq` and `end_seq`."""

    task_id: SessionIdField
    turn_id: TurnId
    number: Ordinal
    turns: Count
    is_known: bool
    is_certain: bool
    unknown: str
    root: str
    branch: str
    tree_before: str
    tree_after: str
    start_seq: Ordinal | None
    end_seq: Ordinal | None
    files: tuple[FileDiff, ...]
    between: tuple[FileDiff, ...]
    doubts: tuple[str, ...]
    patch: str
    is_cut: bool
    patch_problem: str


class ReviewFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that a turn changed, and what to do with it. `comment`: what is sent back with it. `from_spawn` is the
    `INTERLOCK_SPAWN_ID` of the process that asks: an agent may not review its own changes."""

    turn_id: TurnId
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    act: ReviewAct
    comment: Annotated[str, Meta(max_length=100_000)] = ""
    from_spawn: Annotated[str, Meta(max_length=128)] = ""


class ReviewedFile(Struct, frozen=True, kw_only=True):
    """What became of it. `get_back`: the command that brings back the content that was discarded. `prompt_id`: the
    prompt by which it was sent back."""

    task_id: SessionIdField
    turn_id: TurnId
    path: str
    review: FileReviewState
    get_back: tuple[str, ...] = ()
    prompt_id: PromptId | None = None
