"""The parts of a review of one file: which change is meant, what a prompt says of it, and how it is taken back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from interlock.agents.git.comparing import TreeChange
from interlock.agents.git.restoring import FileEntry, NotRestored, restore_file
from interlock.agents.git.running import GitFailed
from interlock.lifecycle.task_status import has_open_turn
from interlock.projections.task.view import TaskView
from interlock.projections.workspace import TurnTrees
from interlock.runtime.workspace.turn_diffs import TurnDiff, objects_of
from interlock.server.http.problems import NotFound, RequestRefusal
from interlock.vocabulary.events.workspace import FileReviewAct, FileReviewed
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.workspace import FileReviewState, ReviewAct, ReviewedFile, ReviewFile

RECORDED = {
    ReviewAct.ACCEPT: FileReviewAct.ACCEPTED,
    ReviewAct.SEND_BACK: FileReviewAct.SENT_BACK,
    ReviewAct.DISCARD: FileReviewAct.DISCARDED,
}


def change_meant(found: TurnDiff, asked: ReviewFile) -> TreeChange:
    """The change that is reviewed. One that is not known cannot be."""
    number = found.turn.number
    if found.unknown:
        raise RequestRefusal(
            f"what turn {number} did is unknown: {found.unknown}", remedy="look at the files themselves"
        )
    if asked.act is ReviewAct.DISCARD and found.turn.is_manifest:
        raise RequestRefusal(
            "the folder is in no git repository: what was in the file before is not kept", remedy="change it by hand"
        )
    change = next((one for one in found.changes if one.path == asked.path), None)
    if change is None:
        raise NotFound(
            f"turn {number} did not change {asked.path}", remedy=f"see which it did: interlock diff --turn {number}"
        )
    return change


def is_done(turn: TurnTrees, asked: ReviewFile, prompt_id: str | None) -> bool:
    """Whether the last review of the file says so already. What was discarded can be nothing else any more."""
    last = turn.reviews.get(asked.path)
    if last is None:
        return False
    if last.act is FileReviewAct.DISCARDED and asked.act is not ReviewAct.DISCARD:
        raise RequestRefusal(
            f"{asked.path} of turn {turn.number} was discarded: there is nothing left to review",
            remedy="send a prompt to have it made again",
        )
    is_same_prompt = last.prompt_id == prompt_id
    return last.act is RECORDED[asked.act] and (asked.act is not ReviewAct.SEND_BACK or is_same_prompt)


def recorded(
    turn: TurnTrees, asked: ReviewFile, act: FileReviewAct, decided_by: str, problem: str = ""
) -> FileReviewed:
    """The event of a review."""
    start, end = turn.start, turn.end
    return FileReviewed(
        turn_id=turn.turn_id,
        path=asked.path,
        act=act,
        tree_before="" if start is None else start.tree,
        tree_after="" if end is None else end.tree,
        commit="" if end is None or asked.act is not ReviewAct.DISCARD else end.commit,
        problem=problem,
        decided_by=decided_by,
    )


def told_review(turn: TurnTrees, asked: ReviewFile, change: TreeChange) -> ReviewedFile:
    """The answer to a review that was done."""
    get_back: tuple[str, ...] = ()
    if asked.act is ReviewAct.DISCARD and turn.end is not None and FileEntry(change.mode_after, change.after).is_there:
        source = f"--source={turn.end.commit}"
        get_back = ("git", "-C", turn.end.root, "--literal-pathspecs", "restore", source, "--", asked.path)
    last = turn.reviews.get(asked.path)
    return ReviewedFile(
        task_id=turn.session_id,
        turn_id=turn.turn_id,
        path=asked.path,
        review=FileReviewState(RECORDED[asked.act].value),
        get_back=get_back,
        prompt_id=None if last is None else last.prompt_id,
    )


def sent_back_text(turn: TurnTrees, asked: ReviewFile) -> str:
    """The prompt by which a change goes back to its agent."""
    if not asked.comment.strip():
        raise RequestRefusal("a change is sent back with a comment, and there is none", remedy="say what is to change")
    name = json.dumps(asked.path, ensure_ascii=False)
    return f"Your change of {name} in turn {turn.number} was reviewed, and is sent back:\n\n{asked.comment.strip()}"


def refuse_while_written(views: Iterable[TaskView], turn: TurnTrees, task_id: SessionId) -> None:
    """A file is not put back while an agent works in its tree: that would be taken for its work, and may meet it."""
    root = "" if turn.end is None else os.path.realpath(turn.end.root)
    for view in views:
        folder = os.path.realpath(view.summary().folder)
        is_inside = folder == root or folder.startswith(f"{root}/")
        if has_open_turn(view.status) and (view.task_id == task_id or is_inside):
            raise RequestRefusal(
                f"a turn of {view.task_id} is open in {root}",
                remedy=f"wait for its end (`interlock wait {view.task_id}`), or interrupt it",
            )


def take_back(turn: TurnTrees, change: TreeChange) -> str:
    """Make the file as it was before the turn; why not, where it was left as it is. Blocks."""
    if turn.end is None:
        return "the tree at the end of the turn is not known"
    before, after = FileEntry(change.mode_before, change.before), FileEntry(change.mode_after, change.after)
    try:
        with objects_of(turn.end) as objects:
            restore_file(objects, Path(turn.end.root), change.raw_path, expected=after, wanted=before)
    except (NotRestored, GitFailed) as error:
        return str(error)
    return ""
