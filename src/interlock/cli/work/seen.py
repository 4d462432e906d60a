"""`interlock seen` and `interlock session rename`: what a person notes on a session. `show` and `attach` mark it
as seen by themselves."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.cli import output
from interlock.cli.look.session_lines import find_task
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.wire.routes import task_path
from interlock.vocabulary.errors import InterlockError

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import RenamedSessionJson, SeenSessionJson
    from interlock.vocabulary.wire.json_types import TaskSummaryJson


def seen(
    session: options.SessionArgument, /, *, home: options.HomeOption = None, json: options.JsonFlag = False
) -> int:
    """Mark a session as seen: on every board it moves from DONE, or from NEEDS YOU after a failed turn, to IDLE.

    The next turn that ends is unseen again. A turn that is still open is not marked.
    """
    api = ServerApi.of_home(home_folder(home))
    task = find_task(api, session)
    told = mark_seen(api, task)
    if json:
        output.print_json(told)
    else:
        output.print_text(f"{told['session_id']}  {_said(task, told)}")
    return 0


def _said(task: TaskSummaryJson, told: SeenSessionJson) -> str:
    if not told["is_seen"]:
        return "not marked: another turn has begun, or no server runs it"
    return "seen" if _is_unseen(task) else "nothing to see: no turn has ended since it was last seen"


def mark_seen(api: ServerApi, task: TaskSummaryJson) -> SeenSessionJson:
    """Mark the end that this summary tells of, and no later one."""
    turn_id = task.get("turn_id")
    body = {} if turn_id is None else {"turn_id": turn_id}
    told = api.ask("POST", f"{task_path(task['task_id'])}/seen", body)
    return {"session_id": task["task_id"], "is_seen": bool(told["is_seen"])}


def note_seen(api: ServerApi, task: TaskSummaryJson) -> None:
    """Mark it in passing, if it is unseen. Looking never fails for that: an observer only looks."""
    if not _is_unseen(task):
        return
    with suppress(InterlockError):
        mark_seen(api, task)


def _is_unseen(task: TaskSummaryJson) -> bool:
    badge = task.get("badge")
    return badge is not None and badge.get("is_seen") is False


def rename(
    session: options.SessionArgument,
    title: options.TitleArgument,
    /,
    *,
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Give a session another title, on every board. The title that it was opened with stays in its log."""
    api = ServerApi.of_home(home_folder(home))
    task_id = find_task(api, session)["task_id"]
    done = api.ask("POST", f"{task_path(task_id)}/rename", {"title": title})
    told: RenamedSessionJson = {"session_id": task_id, "title": str(done["title"])}
    if json:
        output.print_json(told)
    else:
        output.print_text(f"{task_id}  renamed to {told['title']}")
    return 0
