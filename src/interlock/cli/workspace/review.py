"""`interlock review`: accept, send back or discard what a turn did to a file. The server does it and records it."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, SessionArgument
from interlock.cli.wire.routes import review_path, task_diff
from interlock.cli.work.retrying import act, new_id, read_words
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE
from interlock.vocabulary.wire.workspace import ReviewAct, ReviewedFile

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import SessionFileReviewJson, SessionReviewJson

ChangedFile: TypeAlias = Annotated[str, Parameter(help="A file, spelled as `interlock diff` spells it.")]
ReviewedTurn: TypeAlias = Annotated[
    str, Parameter(help="The turn: its number, or its id. Else the newest that has a record.")
]
_WORDS = {
    ReviewAct.ACCEPT: "accepted",
    ReviewAct.SEND_BACK: "sent back: the comment is in the queue as the next prompt",
    ReviewAct.DISCARD: "discarded: the file is as it was before the turn",
}


def accept(
    session: SessionArgument,
    file: ChangedFile,
    /,
    *more: ChangedFile,
    turn: ReviewedTurn = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Mark files as reviewed, as a turn left them. A file that a later turn changes is new there."""
    return _review(session, (file, *more), ReviewAct.ACCEPT, turn, home=home, json=json)


def send_back(
    session: SessionArgument,
    file: ChangedFile,
    comment: Annotated[str, Parameter(allow_leading_hyphen=True, help="What is to change; - for standard input.")],
    /,
    *,
    turn: ReviewedTurn = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Send a file back to its agent: the comment, with the names of file and turn, is its next prompt."""
    words = read_words(comment, "the comment")
    return _review(session, (file,), ReviewAct.SEND_BACK, turn, words, home=home, json=json)


def discard(
    session: SessionArgument,
    file: ChangedFile,
    /,
    *,
    turn: ReviewedTurn = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Put a file back to what it was before a turn. What is discarded stays in the repository, and the command that
    gets it back is printed. Exit code 2: the file changed since the turn, or a turn is open in its work tree; it is
    left as it is.
    """
    return _review(session, (file,), ReviewAct.DISCARD, turn, home=home, json=json)


def _review(
    session: str, files: tuple[str, ...], how: ReviewAct, turn: str, comment: str = "", *, home: HomeOption, json: bool
) -> int:
    api = ServerApi.of_home(home_folder(home))
    task_id = str(find_task(api, session)["task_id"])
    turn_id = api.get(task_diff(task_id), turn=turn or None, stat="true")["turn_id"]
    done = [_review_one(api, task_id, turn_id, file, how, comment) for file in files]
    if json:
        told: SessionReviewJson = {"files": [_json_of(one) for one in done]}
        output.print_json(told)
        return 0
    for one in done:
        output.print_text(f"{output.escape(one.path)}: {_WORDS[how]}")
        if one.get_back:
            output.print_text(f"  to get it back: {output.escape(shlex.join(one.get_back))}")
    return 0


def _review_one(api: ServerApi, task_id: str, turn_id: str, file: str, how: ReviewAct, comment: str) -> ReviewedFile:
    body = {
        "turn_id": turn_id,
        "path": file,
        "act": how.value,
        "comment": comment,
        "from_spawn": os.environ.get(SPAWN_ID_VARIABLE, ""),
    }
    return act(api, ReviewedFile, "POST", review_path(task_id), body, key=new_id("prm"), task_id=task_id)


def _json_of(done: ReviewedFile) -> SessionFileReviewJson:
    told = msgspec.to_builtins(done)
    return {
        "session_id": told["task_id"],
        "turn_id": told["turn_id"],
        "path": told["path"],
        "review": told["review"],
        "get_back": told["get_back"],
        "prompt_id": told["prompt_id"],
    }
