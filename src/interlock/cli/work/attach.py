"""`interlock attach`: a person at the terminal of an agent.

Law: the pane is the one of the spawn that runs now, as the log says, holds the very process that the log names, and
bears the mark of this home. Nothing else is attached to in its place.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from interlock.agents.terminal.launch import Where, read_where
from interlock.agents.tmux.ownership import OWNER_OPTION, read_mark
from interlock.cli import output
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, SessionArgument
from interlock.cli.wire.routes import PAGE, task_path, task_spawns
from interlock.cli.work.seen import note_seen
from interlock.log.home_identity import HomeStanding, NotOurs, look_at_home
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.events.audit import ProcessEvent
from interlock.vocabulary.events.codec import decode_event
from interlock.vocabulary.events.registry import Json

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import AttachJson

_TMUX_SECONDS: Final = 5.0
_TERMINAL: Final = "terminal"
_OF_TMUX: Final = ("TMUX", "TMUX_PANE")


def attach(
    session: SessionArgument,
    /,
    *,
    print_: Annotated[bool, Parameter(name="--print", negative="", help="Print the command, and do nothing.")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Go to the terminal of an agent, to see it and type there. Ctrl-b d leaves, and the agent goes on.

    Only agents in a terminal have one; of others, `interlock logs -f` shows what they say. Exit code 2: it has none, or
    its agent does not run.
    """
    folder = home_folder(home)
    api = ServerApi.of_home(folder)
    summary = find_task(api, session)
    task_id = str(summary["task_id"])
    if summary.get("driver") != _TERMINAL:
        raise UsageError(
            f"{task_id} has no terminal: it is run by {summary.get('driver') or 'no driver'}",
            remedy=f"follow it with `interlock logs -f {task_id}`",
        )
    where = find_pane(api, task_id)
    command = tmux_command(where)
    if json:
        told: AttachJson = {"session_id": task_id, "argv": command}
        output.print_json(told)
    elif print_:
        output.print_text(shlex.join(["env", *(word for name in _OF_TMUX for word in ("-u", name)), *command]))
    else:
        _check_terminal()
        check_pane(where, look_at_home(folder))
        note_seen(api, summary)
        _go(command)
    return 0


def find_pane(api: ServerApi, task_id: str) -> Where:
    """Where the agent is that runs now."""
    spawns = list(api.items(task_spawns(task_id), limit=PAGE))
    if not spawns or spawns[-1]["standing"] != "running":
        how = spawns[-1]["standing"] if spawns else "none was started"
        raise UsageError(f"no agent runs in {task_id} ({how})", remedy=f"start it with `interlock start {task_id}`")
    places = [place for place in _places(api, task_id) if place[0] == spawns[-1]["spawn_id"]]
    if not places:
        raise Unreachable(f"the log does not say where the agent of {task_id} is")
    return read_where(places[-1][1])


def _places(api: ServerApi, task_id: str) -> Iterator[tuple[str, Json]]:
    """Every place that the log names, with its spawn."""
    for line in api.lines(f"{task_path(task_id)}/log"):
        event = decode_event(line)
        if isinstance(event.data, ProcessEvent) and event.spawn_id is not None and event.data.where is not None:
            yield event.spawn_id, event.data.where


def tmux_command(where: Where) -> list[str]:
    """The command line that shows a pane: its window comes to the front of its session first. It starts no server."""
    pane = where.pane_id
    return where.server.argv(
        *("-N", "select-window", "-t", pane, ";", "select-pane", "-t", pane, ";", "attach-session", "-t", pane)
    )


def check_pane(where: Where, home: HomeStanding) -> None:
    """Whether the process in the pane is the one that was put there. `Unreachable` where it is not, or nobody can tell;
    `NotOurs` where the pane belongs to another home.

    A number of a pane is given out once by a server of tmux, and again by the next server.
    """
    asked = where.server.argv("-N", "display-message", "-p", "-t", where.pane_id, f"#{{pane_pid}} #{{{OWNER_OPTION}}}")
    try:
        told = subprocess.run(
            asked, capture_output=True, encoding="utf-8", errors="replace", timeout=_TMUX_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise Unreachable("tmux is not installed, or not in PATH") from error
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"tmux did not answer within {_TMUX_SECONDS:g} s") from error
    if told.returncode:
        raise Unreachable(f"the agent's pane {where.pane_id} cannot be reached: {told.stderr.strip()}")
    pane_pid, _, mark = told.stdout.strip().partition(" ")
    if mark and read_mark(mark).home_id not in home.owned:
        raise NotOurs(f"pane {where.pane_id} belongs to another home ({read_mark(mark).home_id})")
    if where.pane_pid and pane_pid != str(where.pane_pid):
        raise Unreachable(f"pane {where.pane_id} holds another process than the agent's; see `interlock doctor`")


def _check_terminal() -> None:
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()):
        raise UsageError("this is no terminal to attach from", remedy="run it in one, or see --print")


def _go(command: list[str]) -> None:
    """Become tmux. It would not run within itself, so it is not told that it does."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_TMUX}
    output.flush()
    os.execvpe(command[0], command, environment)


def run_tmux(command: Sequence[str]) -> int:
    """Run tmux on this terminal until it is left, and return its exit code."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_TMUX}
    return subprocess.run(command, env=environment, check=False).returncode
