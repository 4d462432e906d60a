"""`interlock merge`: the work of a session's worktree, taken into a branch: all of it, or nothing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag, SessionArgument
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.wire.routes import task_path
from interlock.cli.work.retrying import act
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.resources import MergeStanding, MergeWorktree

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import MergedWorktreeJson
    from interlock.vocabulary.wire.json_types import TaskSummaryJson


def merge(
    session: SessionArgument,
    /,
    *,
    ff: Annotated[bool, Parameter(negative="", help="Only move the branch forward: the default.")] = False,
    squash: Annotated[bool, Parameter(negative="", help="As one commit, also where the branch went on.")] = False,
    branch: Annotated[str, Parameter(help="Keep it as a new branch of this name; nothing is pushed.")] = "",
    into: Annotated[str, Parameter(help="Another branch than the one that it began from.")] = "",
    commit: Annotated[bool, Parameter(negative="", help="First commit what is not committed in the worktree.")] = False,
    message: Annotated[str, Parameter(alias="-m", help="The message of a commit that is made.")] = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Take the work of a session's worktree into the branch that it began from. A branch that is checked out somewhere
    must be clean there. Hooks and filters of the repository do not run, and nothing is pushed.

    Exit code 3: the two conflict; nothing was changed.
    """
    if sum((ff, squash, bool(branch))) > 1:
        raise UsageError("--ff, --squash and --branch exclude each other", remedy="choose one")
    if branch and into:
        raise UsageError("--branch makes a new branch, and --into names one", remedy="choose one")
    api = ServerApi.of_home(home_folder(home))
    task = find_task(api, session)
    session_id = str(task["task_id"])
    asked = MergeWorktree(squash=squash, into=into, branch=branch, commit=commit, message=message)
    path = f"{task_path(session_id)}/worktree/merge"
    told = act(api, MergeStanding, "POST", path, msgspec.to_builtins(asked), task_id=session_id)
    answer = _json_of(task, told, is_branch=bool(branch))
    if json:
        output.print_json(answer)
    else:
        output.print_text("\n".join(output.escape(line) for line in _lines(answer)))
    return ExitCode.PARTIAL if told.conflicts else ExitCode.COMPLETED


def _json_of(task: TaskSummaryJson, told: MergeStanding, *, is_branch: bool) -> MergedWorktreeJson:
    tree = task["worktree"]
    push = None
    if is_branch and tree is not None:
        push = shlex.join(("git", "-C", str(tree["path"]), "push", "-u", "origin", told.target))
    return {
        "session_id": str(task["task_id"]),
        "target": told.target,
        "before": told.before,
        "after": told.after,
        "is_merged": not told.conflicts,
        "checkout": told.checkout,
        "conflicts": list(told.conflicts),
        "push": push,
    }


def _lines(told: MergedWorktreeJson) -> list[str]:
    if told["conflicts"]:
        return [f"not merged: conflicts with {told['target']}", *(f"  {one}" for one in told["conflicts"])]
    if told["push"] is not None:
        return [f"branch {told['target']} is at {told['after'][:12]}; to push it:", f"  {told['push']}"]
    if told["before"] == told["after"]:
        return [f"{told['target']} has it all already"]
    where = f", checked out in {told['checkout']}" if told["checkout"] else ""
    return [f"{told['target']} is at {told['after'][:12]} now{where}"]
