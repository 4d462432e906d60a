"""`interlock interrupt`, `stop`, `start` and `delete`: what becomes of a turn, an agent, a session.

Law: that a request was delivered, and that it had its effect, are two things, and are told apart.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.session_lines import find_task
from interlock.cli.look.spawns import end_of
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, ReconnectTimeoutOption, SessionArgument
from interlock.cli.wire.routes import PAGE, task_path, task_spawns
from interlock.cli.work.changes import SessionChanges, TimeUp
from interlock.cli.work.retrying import act, confirmed
from interlock.cli.work.send import SERVER_SECONDS, TimeoutOption, check_timeout
from interlock.lifecycle.task_status import has_open_turn
from interlock.lifecycle.turns import TurnRecord
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.resources import AgentStanding, Cancelled, WorktreeStanding

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import ArchivedSessionJson, InterruptJson, StartedAgentJson, StoppedAgentJson
    from interlock.vocabulary.wire.json_types import SpawnRowJson

START_SECONDS: Final = 60.0
# Not `unclean`: for a moment a spawn is that whose end is being written down.
_ENDED: Final = ("failed", "exited")


def interrupt(
    session: SessionArgument,
    /,
    *,
    turn: Annotated[str | None, Parameter(help="The turn to interrupt. Default: the open one.")] = None,
    wait: Annotated[bool, Parameter(negative="", help="Wait for the end of the turn, and say how it ended.")] = False,
    force: Annotated[
        bool, Parameter(negative="", help="Kill the agent's process if its turn does not end when it is asked to.")
    ] = False,
    timeout: TimeoutOption = None,
    reconnect_timeout: ReconnectTimeoutOption = SERVER_SECONDS,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Interrupt an agent's turn; the agent stays. Where no turn is open yet, prompts that wait are taken back.

    Without --force nothing is killed: a turn that does not end keeps running, and the message says what was tried.

    Exit code 0: the agent was told, and with --wait: the turn is over, which is printed. 1: the interrupt had no
    effect, the turn keeps running. 2: there is nothing to interrupt. 5: the turn goes on after --timeout.
    """
    check_timeout(timeout)
    folder = home_folder(home)
    api = ServerApi.of_home(folder)
    summary = find_task(api, session)
    task_id = str(summary["task_id"])
    open_turn = summary.get("turn_id") if has_open_turn(summary.get("task_status")) else None
    body = {"turn_id": turn or open_turn, **({"force": True} if force else {})}
    path, is_once = f"{task_path(task_id)}/cancel", body["turn_id"] is not None
    done = act(api, Cancelled, "POST", path, body, is_once=is_once, task_id=task_id)
    if not json:
        _tell_interrupt(task_id, done)
    code = ExitCode.COMPLETED if done.delivered else ExitCode.FAILED
    record = None
    if wait and done.delivered and done.turn_id is not None:
        record = await_end(folder, task_id, done.turn_id, timeout, reconnect_timeout)
        code = _code_of(record)
    if json:
        told: InterruptJson = {
            "session_id": task_id,
            "turn_id": done.turn_id,
            "delivered": done.delivered,
            "problem": done.problem,
            "removed": list(done.removed),
            "killed": done.killed,
            "state": None if record is None else record.state,
        }
        output.print_json(told)
    elif wait:
        _tell_end(done, record)
    return code


def _tell_interrupt(task_id: str, done: Cancelled) -> None:
    for prompt_id in done.removed:
        output.note(f"taken back: {prompt_id}")
    if done.delivered:
        turn = f" of {done.turn_id}" if done.turn_id else ""
        if done.killed:
            output.note(f"killed: the interrupt{turn} had no effect, so the agent's process was ended")
        else:
            output.note(f"delivered: interrupt{turn}" if turn else f"no turn was open in {task_id}")
    else:
        output.error(_no_effect(task_id, done.problem or "no reason is known"))


def _no_effect(task_id: str, problem: str) -> str:
    return (
        f"the turn was not interrupted: {problem}. Nothing was killed. "
        f"Next: `interlock interrupt {task_id} --force` kills the agent's process if its turn does not end; "
        f"`interlock stop {task_id}` stops the agent"
    )


def _code_of(record: TurnRecord | None) -> ExitCode:
    if record is None:
        return ExitCode.TIMED_OUT
    is_open = not record.state.is_terminal and record.state is not TurnState.UNKNOWN
    return ExitCode.FAILED if is_open else ExitCode.COMPLETED


def _tell_end(done: Cancelled, record: TurnRecord | None) -> None:
    if record is not None and _code_of(record) is ExitCode.FAILED:
        output.error(_no_effect(record.session_id, "the agent was asked, and did not end it"))
    elif record is not None:
        output.print_text(f"{record.turn_id}  {record.state}")
    elif done.turn_id:
        output.note("the turn is not over yet")


def await_end(home: Path, task_id: str, turn_id: str, timeout: float | None, patience: float) -> TurnRecord | None:
    """The record of a turn when it is over, or is not asked to end any more; None: not in time."""
    deadline = None if timeout is None else time.monotonic() + timeout
    changes = SessionChanges(home, [task_id], patience_seconds=patience)
    try:
        for _ in changes.looks(deadline):
            try:
                record = ServerApi.of_home(home).read(TurnRecord, f"{task_path(task_id)}/turns/{turn_id}")
            except Unreachable:
                continue
            is_over = record.state.is_terminal or record.state is TurnState.UNKNOWN
            if is_over or not record.cancel_requested:
                return record
    except TimeUp:
        return None
    except KeyboardInterrupt:
        output.note(f"no longer waiting; the agent was told. See `interlock wait {task_id}`")
        raise
    raise AssertionError("looks end by an error only")


def stop(session: SessionArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Stop the agent of a session, with everything that it started. An open turn is interrupted; the session stays.

    What waits in its queue is held back until `interlock queue resume`; another prompt starts the agent again.
    """
    api = ServerApi.of_home(home_folder(home))
    task_id = str(find_task(api, session)["task_id"])
    told = act(api, AgentStanding, "POST", f"{task_path(task_id)}/stop", is_once=True, task_id=task_id)
    if json:
        answer: StoppedAgentJson = {
            "session_id": told.task_id,
            "is_running": told.is_running,
            "is_starting": told.is_starting,
        }
        output.print_json(answer)
    else:
        output.print_text(f"{task_id}  {'the agent still runs' if told.is_running else 'no agent runs'}")
    return ExitCode.FAILED if told.is_running else ExitCode.COMPLETED


def start(session: SessionArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Start or restart a session's agent. A session that nobody runs is taken up again.

    Exit code 1: its process did not start, and why; 5: it is not known to run yet.
    """
    folder = home_folder(home)
    task_id = str(find_task(ServerApi.of_home(folder), session)["task_id"])
    spawn = start_agent(folder, task_id)
    if json:
        told: StartedAgentJson = {"session_id": task_id, "is_running": spawn is not None, "spawn": spawn}
        output.print_json(told)
    elif spawn is not None:
        output.print_text(f"{task_id}  the agent runs")
    else:
        output.note(
            f"{task_id}: after {START_SECONDS:g} s the agent is not known to run; see `interlock show {task_id}`"
        )
    return ExitCode.TIMED_OUT if spawn is None else ExitCode.COMPLETED


def start_agent(home: Path, task_id: str) -> SpawnRowJson | None:
    """Ask for the agent, and wait until its process is known to run; None: not in time. `PeerFault` where it did not
    start.

    The server answers when it was asked to begin: whether a process came of that, its spawn tells.
    """
    before = _last_spawn(home, task_id)
    path = f"{task_path(task_id)}/start"
    told = act(ServerApi.of_home(home), AgentStanding, "POST", path, is_once=True, task_id=task_id)
    changes = SessionChanges(home, [task_id], patience_seconds=START_SECONDS)
    try:
        for _ in changes.looks(time.monotonic() + START_SECONDS):
            spawn = _last_spawn(home, task_id)
            if spawn is not None and spawn["standing"] == "running" and spawn["began"] is not None:
                return spawn
            is_new = spawn is not None and (before is None or spawn["spawn_id"] != before["spawn_id"])
            if spawn is not None and spawn["standing"] in _ENDED and (is_new or not told.is_running):
                raise PeerFault(f"the agent of {task_id} does not run: {end_of(spawn) or spawn['standing']}")
            changes.hurry()
    except TimeUp:
        pass
    except KeyboardInterrupt:
        output.note(f"no longer waiting; the agent goes on starting. See `interlock show {task_id}`")
        raise
    return None


def _last_spawn(home: Path, task_id: str) -> SpawnRowJson | None:
    try:
        spawns = list(ServerApi.of_home(home).items(task_spawns(task_id), limit=PAGE))
    except Unreachable:
        return None
    return spawns[-1] if spawns else None


def delete(
    session: SessionArgument,
    /,
    *,
    yes: Annotated[bool, Parameter(negative="", help="Do not ask for confirmation; needs the full id.")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Put a session away: its agent is stopped, and it takes no prompt any more. Its log stays. Its git worktree goes
    only if nothing is lost with it: its work is merged, or stays on its branch."""
    api = ServerApi.of_home(home_folder(home))
    summary = find_task(api, session)
    task_id = str(summary["task_id"])
    if yes and task_id != session:
        raise UsageError(f"{session!r} is short for {task_id}", remedy="with --yes, give the whole id")
    named = f"{task_id} {summary.get('title', '')}".rstrip()
    if not yes and not confirmed(f"archive {named}? Its agent stops, and it takes no more prompts."):
        return ExitCode.INTERRUPTED
    act(api, object, "DELETE", task_path(task_id), is_once=True, task_id=task_id)
    tree = summary["worktree"]
    stays = "" if tree is None or tree["phase"] == "removed" else _remove_worktree(api, task_id)
    if json:
        told: ArchivedSessionJson = {"session_id": task_id, "is_archived": True, "worktree_stays": stays}
        output.print_json(told)
    else:
        output.print_text(f"{task_id}  archived")
        if stays:
            output.note(stays)
    return ExitCode.COMPLETED


def _remove_worktree(api: ServerApi, task_id: str) -> str:
    """Remove the worktree of a session that was put away: with its branch if that is merged, else its branch stays.
    Why it stays; blank where it is removed."""
    why = ""
    for keeps_branch in (False, True):
        asked = {"keep_branch": keeps_branch}
        try:
            path = f"{task_path(task_id)}/worktree/remove"
            told = act(api, WorktreeStanding, "POST", path, asked, is_once=True, task_id=task_id)
        except UsageError as error:
            why = f"its worktree stays: {str(error).removesuffix(f'; {error.remedy}')}"
        else:
            for note in told.notes:
                output.note(f"warning: {note}")
            return ""
    return why
