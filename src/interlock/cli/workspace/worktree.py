"""`interlock worktree ls|show|rm`: the git worktrees that were made for sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import DryRunFlag, HomeOption, JsonFlag, SessionArgument, read_log
from interlock.cli.log.stored_sessions import find_session
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.wire.routes import task_path
from interlock.cli.work.retrying import act
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.resources import RemoveWorktree, WorktreeStanding

if TYPE_CHECKING:
    import apsw

    from interlock.agents.git.worktree_state import WorktreeState
    from interlock.cli.wire.json_shapes import (
        RemovedWorktreeJson,
        WorktreeDetailJson,
        WorktreeFilesJson,
        WorktreeJson,
        WorktreeListJson,
    )
    from interlock.log.sqlite.store import SqliteLog
    from interlock.vocabulary.wire.worktree import TaskWorktree

AllFlag = Annotated[bool, Parameter(name="--all", negative="", help="Those that were removed, too.")]
KeepBranchFlag = Annotated[bool, Parameter(negative="", help="Its branch stays, with all its commits.")]
ForceFlag = Annotated[
    bool, Parameter(negative="", help="Keep what would be lost aside (refs and a folder), and remove it.")
]
# Written by `encode_event`, whose first key is the type.
_TYPE: Final = "worktree_changed"
_COLUMNS: Final = ("SESSION", "STATE", "BRANCH", "FOR", "FOLDER")
_LISTED: Final = 20


def ls(*, all_: AllFlag = False, home: HomeOption = None, json: JsonFlag = False) -> int:
    """List the git worktrees that were made for sessions, as the log has them, and whether they are still there."""

    async def work(log: SqliteLog) -> int:
        found = await log.query(lambda connection: _worktrees(connection))
        told = [_json_of(session_id, tree) for session_id, tree in found.items() if all_ or tree.phase != "removed"]
        if json:
            answer: WorktreeListJson = {"worktrees": told}
            output.print_json(answer)
        elif told:
            from interlock.cli.tables import stacked_table

            output.print_painted(stacked_table(_COLUMNS, [_row(one) for one in told]))
        else:
            output.note("no worktree is there; begin one: interlock run AGENT --worktree PROMPT")
        return ExitCode.COMPLETED

    return read_log(home, work)


def _worktrees(connection: apsw.Connection) -> dict[str, TaskWorktree]:
    """The worktree of each session, in the order in which they were last changed."""
    from interlock.projections.task.worktree import after
    from interlock.vocabulary.errors import MalformedEvent
    from interlock.vocabulary.events.codec import decode_event

    found: dict[str, TaskWorktree] = {}
    rows = connection.execute("SELECT line FROM events WHERE instr(line, ?) ORDER BY position", (_TYPE.encode(),))
    for (line,) in rows:
        try:
            event = decode_event(bytes(line))
        except MalformedEvent:
            continue
        tree = after(found.get(event.session_id), event.data)
        if tree is not None:
            found[event.session_id] = tree
    return found


def _json_of(session_id: str, tree: TaskWorktree) -> WorktreeJson:
    return {
        "session_id": session_id,
        "state": _state_word(tree),
        "path": tree.path,
        "branch": tree.branch,
        "base": tree.base,
        "target": tree.target,
        "repository": tree.repository,
        "port": tree.port,
        "merged": tree.merged,
        "problem": tree.problem,
    }


def _state_word(tree: TaskWorktree) -> str:
    """What was done with it last; `gone` where its folder is not there any more, and not by us."""
    is_there = Path(tree.path).is_dir()
    return "gone" if tree.phase in ("created", "merged") and not is_there else tree.phase.value


def _row(one: WorktreeJson) -> tuple[str, ...]:
    return one["session_id"], one["state"], one["branch"], one["target"] or one["base"][:12], one["path"]


def show(session: SessionArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Print the worktree of a session: branch, base, and what is in it that is not committed or not merged.

    Exit code 7: what is in it cannot be told.
    """

    async def work(log: SqliteLog) -> int:
        session_id = (await find_session(log, session)).session_id
        tree = (await log.query(lambda connection: _worktrees(connection))).get(session_id)
        if tree is None:
            raise UsageError(f"no worktree was made for {session_id}", remedy="`interlock worktree ls` lists them")
        seen = _look(session_id, tree)
        told = _json_of(session_id, tree)
        files = None if seen is None else _files(tree, *seen)
        if json:
            answer: WorktreeDetailJson = {**told, "files": files}
            output.print_json(answer)
        else:
            output.print_text("\n".join(output.escape(line) for line in _lines(told, files)))
        return ExitCode.COMPLETED if files is not None or told["state"] == "removed" else ExitCode.UNKNOWN

    return read_log(home, work)


def _look(session_id: str, tree: TaskWorktree) -> tuple[WorktreeState, tuple[str, ...]] | None:
    """How it stands, with what git lists nowhere."""
    from interlock.agents.git.running import GitFailed
    from interlock.agents.git.worktree_state import state_of, unlisted_in
    from interlock.agents.git.worktrees import find_ours

    ours = find_ours(Path(tree.repository), Path(tree.path), session_id)
    try:
        if ours is None:
            return None
        state = state_of(ours)
        return state, unlisted_in(ours, ours.path, state)
    except (GitFailed, OSError):
        return None


def _files(tree: TaskWorktree, state: WorktreeState, unlisted: tuple[str, ...]) -> WorktreeFilesJson:
    from interlock.agents.git.running import GitFailed
    from interlock.agents.git.worktree_state import commits_between

    try:
        commits: int | None = commits_between(Path(tree.repository), tree.base, state.head)
    except GitFailed:
        commits = None
    return {
        "head": state.head,
        "branch": state.branch,
        "commits": commits,
        "changed": list(state.changed),
        "untracked": list(state.untracked),
        "ignored": list(state.ignored),
        "unlisted": list(unlisted),
        "unfinished": list(state.unfinished),
    }


def _lines(told: WorktreeJson, files: WorktreeFilesJson | None) -> Iterator[str]:
    yield f"{told['path']}  {told['state']}"
    yield f"  session  {told['session_id']}"
    yield f"  branch   {told['branch']}"
    yield f"  base     {told['base'][:12]}{' of ' + told['target'] if told['target'] else ''}"
    yield f"  ports    {told['port']} to {told['port'] + 9}" if told["port"] else "  ports    none were free"
    if told["problem"]:
        yield f"  problem  {told['problem']}"
    if files is None:
        if told["state"] != "removed":
            yield "  what is in it cannot be told"
        return
    if files["branch"] != told["branch"]:
        yield f"  checked out is {files['branch'] or 'no branch'}, at {files['head'][:12]}"
    count = files["commits"]
    yield f"  commits  {'not known' if count is None else count} since the base"
    for name, paths in (
        ("changed", files["changed"]),
        ("new", files["untracked"]),
        ("ignored", files["ignored"]),
        ("unlisted", files["unlisted"]),
        ("going on", files["unfinished"]),
    ):
        if paths:
            more = f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else ""
            yield f"  {name:<8} {', '.join(paths[:_LISTED])}{more}"


def rm(
    session: SessionArgument,
    /,
    *,
    keep_branch: KeepBranchFlag = False,
    force: ForceFlag = False,
    dry_run: DryRunFlag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Remove the worktree of a session, if nothing is lost with it: every file is committed, nothing ignored is in it
    that was not copied there, and its commits are on another branch, or its branch stays. Else it says what would be.
    """
    api = ServerApi.of_home(home_folder(home))
    session_id = str(find_task(api, session)["task_id"])
    told = remove(api, session_id, RemoveWorktree(keep_branch=keep_branch, force=force, dry_run=dry_run))
    for note in told.notes:
        output.note(f"warning: {note}")
    if json:
        answer: RemovedWorktreeJson = {
            "session_id": session_id,
            "path": told.worktree.path,
            "is_removed": told.worktree.phase == "removed",
            "kept": list(told.kept),
        }
        output.print_json(answer)
        return ExitCode.COMPLETED
    if dry_run:
        output.print_text(output.escape(f"{told.worktree.path}  nothing would be lost"))
        return ExitCode.COMPLETED
    output.print_text(output.escape(f"{told.worktree.path}  removed"))
    for one in told.kept:
        output.print_text(output.escape(f"  kept: {one}"))
    return ExitCode.COMPLETED


def remove(api: ServerApi, session_id: str, asked: RemoveWorktree) -> WorktreeStanding:
    """Have the server remove the worktree of a session."""
    path, body = f"{task_path(session_id)}/worktree/remove", msgspec.to_builtins(asked)
    return act(api, WorktreeStanding, "POST", path, body, is_once=True, task_id=session_id)
