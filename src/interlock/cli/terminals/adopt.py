"""`interlock adopt`: agents that a person started, in their own tmux or outside it, watched by the server.

Law: what could not be adopted is told with its reason, and keeps nobody from the others.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from interlock.agents.observed.finding import OutsideAgent, find_outside, outside_agent, unproven
from interlock.agents.profiles import load_profiles
from interlock.agents.terminal.adopting import FoundAgent, find_agents, pane_processes, user_servers
from interlock.agents.tmux.panes import find_pane
from interlock.agents.tmux.server import Absent, NoServer, TmuxServer
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag
from interlock.cli.terminals.panes import CliOption, PaneArgument, SocketOption, server_of
from interlock.vocabulary.errors import InterlockError, UsageError

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import AdoptedJson

_DRY = "not adopted: --dry-run"
_LIST = "`interlock adopt --all --dry-run` lists the agents in tmux"


def adopt(
    pane: PaneArgument = "",
    /,
    *,
    all_: Annotated[
        bool,
        Parameter(name="--all", negative="", help="Every known CLI in all your tmux servers, or in that of --socket."),
    ] = False,
    control: Annotated[
        bool, Parameter(negative="", help="Allow send, approve and interrupt; by default it is only watched.")
    ] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="Print what would be adopted; change nothing.")] = False,
    process: Annotated[int, Parameter(help="Claude Code or Codex outside tmux, by its process number.")] = 0,
    socket: SocketOption = None,
    cli: CliOption = None,
    title: Annotated[str, Parameter(help="Title of the session. Default: its place in tmux.")] = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Put an agent that you started yourself on the board. It runs on where it is, and is never stopped by us, but by
    `interlock stop` with its name.

    Claude Code and Codex outside tmux are watched by their session file or rollout, which is named as the evidence;
    they are never typed into and never stopped. Asked again without --control, an agent is only watched from then on.
    Exit code 2: no such pane or process, no known CLI in it, or it is ours already; 3: with --all, some could not be
    adopted; 8: no server, or it belongs to another home.
    """
    if all_ and (pane or process or cli or title):
        raise UsageError("--all takes every agent", remedy="leave the pane, --process, --cli and --title out")
    if process:
        if pane or socket or cli or control or process < 0:
            raise UsageError("--process names an agent outside tmux", remedy="give no pane, --socket, --cli, --control")
        found = outside_agent(process, load_profiles())
        if dry_run:
            return _print([_outside_row(found, "", _DRY, is_new=False)], json=json)
        return _print([_adopt_outside(ServerApi.of_home(home_folder(home)), found, title)], json=json)
    if not all_:
        place = asyncio.run(_place(pane, socket))
        if dry_run:
            rows: list[AdoptedJson] = [_row(*place, cli or "", "", _DRY, is_new=False)]
            return _print(rows, json=json)
        api = ServerApi.of_home(home_folder(home))
        return _print([_adopt(api, *place, cli or "", title, control=control)], json=json)
    panes, outside = _find_all(socket)
    if dry_run:
        rows = [_found_row(one) for one in panes]
        return _print(rows + [_outside_row(one, "", _DRY, is_new=False) for one in outside], json=json)
    return _adopt_all(ServerApi.of_home(home_folder(home)), panes, outside, control=control, json=json)


def _find_all(socket: str | None) -> tuple[list[FoundAgent], list[OutsideAgent]]:
    """The agents in panes, and those outside tmux that a file proves. The others are told. `socket`: those of one tmux
    server only."""
    profiles = load_profiles()
    servers = user_servers(os.environ) if socket is None else (TmuxServer(asyncio.run(_path_of(server_of(socket)))),)
    found, problems = asyncio.run(find_agents(servers, profiles))
    for where, problem in problems.items():
        output.note(f"tmux at {where} cannot be asked: {problem}")
    outside = [] if socket is not None else find_outside(profiles, asyncio.run(pane_processes(servers)))
    for one in outside:
        if not one.evidence:
            output.note(f"process {one.where.pid} ({one.where.cli}) is not adopted: {unproven(one)}")
    return found, [one for one in outside if one.evidence]


async def _place(pane: str, socket: str | None) -> tuple[str, str]:
    """The socket of a pane by its path, and the pane by its id."""
    server = server_of(socket)
    path = await _path_of(server)
    try:
        return path, (await find_pane(server, pane)).pane_id
    except (Absent, NoServer) as error:
        raise UsageError(str(error), remedy=_LIST) from error


async def _path_of(server: TmuxServer) -> str:
    """The socket by its path: a server of ours has another environment than this command."""
    try:
        return (await server.run(["display-message", "-p", "#{socket_path}"])).strip()
    except NoServer as error:
        raise UsageError(str(error), remedy=_LIST) from error


def _adopt(api: ServerApi, socket: str, pane: str, cli: str, title: str, *, control: bool) -> AdoptedJson:
    body = {"socket": socket, "pane": pane, "control": control, "cli": cli, "title": title}
    told = api.ask("POST", "/api/adoptions", body)
    result = "controlled" if control else "watched"
    return _row(socket, pane, cli, str(told["task_id"]), result, is_new=bool(told["is_new"]))


def _adopt_outside(api: ServerApi, one: OutsideAgent, title: str) -> AdoptedJson:
    told = api.ask("POST", "/api/adoptions", {"process": one.where.pid, "title": title})
    return _outside_row(one, str(told["task_id"]), "watched", is_new=bool(told["is_new"]))


def _adopt_all(
    api: ServerApi, found: list[FoundAgent], outside: list[OutsideAgent], *, control: bool, json: bool
) -> int:
    rows: list[AdoptedJson] = []
    failed = 0
    for agent in outside:
        try:
            rows.append(_adopt_outside(api, agent, ""))
        except InterlockError as error:
            failed += 1
            rows.append(_outside_row(agent, "", f"not adopted: {error}", is_new=False))
    for one in found:
        place = one.pane.identity
        try:
            rows.append(_adopt(api, place.socket, place.pane_id, one.cli, "", control=control))
        except InterlockError as error:
            failed += 1
            rows.append(_row(place.socket, place.pane_id, one.cli, "", f"not adopted: {error}", is_new=False))
    _print(rows, json=json)
    if not failed:
        return ExitCode.COMPLETED
    return ExitCode.FAILED if failed == len(rows) else ExitCode.PARTIAL


def _found_row(one: FoundAgent) -> AdoptedJson:
    place = one.pane.identity
    return _row(place.socket, place.pane_id, one.cli, "", _DRY, is_new=False)


def _outside_row(one: OutsideAgent, session_id: str, result: str, *, is_new: bool) -> AdoptedJson:
    return {
        **_row("", "", one.where.cli, session_id, result, is_new=is_new),
        "process": one.where.pid,
        "evidence": one.evidence,
    }


def _row(socket: str, pane: str, cli: str, session_id: str, result: str, *, is_new: bool) -> AdoptedJson:
    return {
        "session_id": session_id or None,
        "socket": socket,
        "pane": pane,
        "cli": cli,
        "result": result,
        "is_new": is_new,
        "process": None,
        "evidence": "",
    }


def _print(rows: list[AdoptedJson], *, json: bool) -> int:
    if json:
        output.print_json({"agents": rows})
    elif rows:
        cells = [(row["session_id"] or "-", _place_of(row), row["cli"], row["result"], _seen_by(row)) for row in rows]
        output.print_table(("SESSION", "WHERE", "CLI", "RESULT", "SEEN BY"), cells)
    else:
        output.note("no known agent CLI found; `interlock run` starts one")
    return ExitCode.COMPLETED


def _place_of(row: AdoptedJson) -> str:
    return row["pane"] if row["process"] is None else f"process {row['process']}"


def _seen_by(row: AdoptedJson) -> str:
    return row["socket"] or row["evidence"]
