"""`interlock down`: end the server of a home, and say what goes on without it.

Law: what was left running is read from the log, after the end: the server wrote it there before it went. What the log
does not call ended goes on only if its process does, and the next server would find it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.leftovers import Leftovers, end_empty_terminals, stop_leftovers
from interlock.cli.server.options import Flag, HomeOption, JsonFlag
from interlock.cli.server.process import Grip, Presence, RunningServer, health_of, held_server
from interlock.cli.server.survivors import living_agent
from interlock.cli.wire.routes import PAGE, TASKS, task_path
from interlock.log.home_identity import look_at_home
from interlock.log.paths import DATABASE_NAME
from interlock.log.port import LogUnavailable
from interlock.log.sqlite.store import SqliteLog
from interlock.vocabulary.errors import InterlockError, StillStarting, Unreachable
from interlock.vocabulary.ids import SessionId

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import StoppedServerJson

END_SECONDS = 30.0
_NOW_SECONDS = 5.0
_AGAIN_SECONDS = 0.2


def down(
    *,
    stop_agents: Flag = False,
    now: Flag = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """End the server of this home: the process that is proven to be it, and no other. Agents in tmux go on without it.

    Exit code 0 also where none runs; 3: agents that were to be stopped go on; 5: it did not end in time; 8: it cannot
    be told whether one runs.

    Parameters
    ----------
    stop_agents
        Stop the agents in tmux, too. Their open turns are interrupted. Also those that a killed server left.
    now
        Stop at once; unfinished work is settled at the next start.
    """
    folder = home_folder(home)
    with held_server(folder) as (server, grip):
        if grip is None:
            return _absent(folder, server, stop_agents=stop_agents, json=json)
        # One that does not answer is not asked for long: to end it is what helps.
        if server.presence is Presence.STARTING and stop_agents:
            raise StillStarting(
                "the server is starting, and which agents run is not known yet; wait with `interlock up`, or end it "
                "with `interlock down` and then say `interlock down --stop-agents`"
            )
        is_deaf = not stop_agents and (server.presence is Presence.STARTING or health_of(server.url) is None)
        running = None if is_deaf else _running(folder, must_know=stop_agents)
        problems, spared = _stop_agents(folder, running or ()) if stop_agents else ({}, set[str]())
        if not _end(grip, server, is_hurried=now):
            output.error(f"the server (process {server.pid}) has not ended yet; `interlock down --now` does not wait")
            return ExitCode.TIMED_OUT
    left = _left_running(folder, running)
    if stop_agents:
        end_empty_terminals(folder)
    stopped = [one for one in running or () if one not in problems and one not in spared] if stop_agents else []
    _tell(server, left, running, problems, stopped, json=json)
    return ExitCode.PARTIAL if problems else ExitCode.COMPLETED


def _absent(home: Path, server: RunningServer, *, stop_agents: bool, json: bool) -> int:
    """No server runs: those of its agents that outlived it are told, or ended."""
    if server.presence is Presence.STARTING:
        raise StillStarting(f"a server is starting in {home}, and has not the log yet; nothing was done, try again")
    if server.presence in (Presence.HELD, Presence.UNKNOWN):
        raise Unreachable(f"{server.holder} has the log in {home}, and is not known to be its server; nothing was done")
    done = _stop_leftovers(home) if stop_agents else Leftovers()
    left = surviving_sessions(home)
    if stop_agents:
        end_empty_terminals(home)
    if json:
        told: StoppedServerJson = {
            "was_running": False,
            "pid": None,
            "left_running": left,
            "stopped": [] if done is None else list(done.stopped),
            "problems": {} if done is None else dict(done.problems),
        }
        output.print_json(told)
    ended = f": process {server.pid} ended without a word" if server.presence is Presence.STALE else ""
    output.note(f"no server runs in {home}{ended}")
    if done is None:
        return ExitCode.PARTIAL
    for task_id in done.stopped:
        output.note(f"the agent of {task_id}, which had outlived its server, was stopped")
    for task_id, problem in done.problems.items():
        output.error(f"the agent of {task_id} could not be stopped: {problem}")
    if left and not stop_agents:
        how = "`interlock down --stop-agents`"
        output.note(f"{len(left)} {'agent goes' if len(left) == 1 else 'agents go'} on without one; to end them: {how}")
        for task_id in left:
            output.note(f"  {task_id}")
    return ExitCode.PARTIAL if stop_agents and (left is None or done.problems) else ExitCode.COMPLETED


def _stop_leftovers(home: Path) -> Leftovers | None:
    """None: the log could not be read, so that it is not known which processes are agents of this home."""
    if not (home / DATABASE_NAME).exists():
        return Leftovers()
    try:
        return asyncio.run(stop_leftovers(home))
    except LogUnavailable as error:
        output.error(f"which agents are left could not be read, and none was stopped: {error}")
        return None


def _running(home: Path, *, must_know: bool) -> list[str] | None:
    """The sessions whose agents run now. None: the server does not say; then nobody who must know goes on."""
    try:
        tasks = list(ServerApi.of_home(home).items(TASKS, limit=PAGE))
    except InterlockError:
        if must_know:
            raise
        return None
    return [one["task_id"] for one in tasks if one["live"] is not None and one["live"]["activity"] != "gone"]


def _stop_agents(home: Path, running: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """Stop each; what could not be stopped, and why; and the adopted ones, which are only ended by their names."""
    api = ServerApi.of_home(home)
    problems, spared = dict[str, str](), set[str]()
    for task_id in running:
        try:
            if api.ask("POST", f"{task_path(task_id)}/stop?spare_adopted=true")["is_running"]:
                spared.add(task_id)
        except InterlockError as error:
            problems[task_id] = str(error)
    return problems, spared


def _end(grip: Grip, server: RunningServer, *, is_hurried: bool) -> bool:
    """Ask it to end; whether it did."""
    grip.send(signal.SIGTERM)
    try:
        return _has_ended(grip, is_hurried=is_hurried)
    except KeyboardInterrupt:
        output.note(f"the server (process {server.pid}) was told to end, and goes on ending; see `interlock status`")
        raise


def _has_ended(grip: Grip, *, is_hurried: bool) -> bool:
    """Wait for its end, which is bounded. The server takes a second request for: soon."""
    if not is_hurried:
        return grip.wait(END_SECONDS)
    deadline = time.monotonic() + _NOW_SECONDS
    while not grip.wait(_AGAIN_SECONDS):
        grip.send(signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
        if time.monotonic() > deadline + _NOW_SECONDS:
            return False
    return True


def _left_running(home: Path, running: Sequence[str] | None) -> list[str] | None:
    """Which agents were let go and not ended, as the log says. None where nobody can tell."""
    if running is None:
        return None

    async def read() -> list[str]:
        async with await SqliteLog.open(home, readonly=True) as log:
            return [one for one in running if await _is_left(log, SessionId(one))]

    try:
        return asyncio.run(read())
    except LogUnavailable as error:
        output.note(f"what goes on could not be read: {error}")
        return None


def surviving_sessions(home: Path) -> list[str] | None:
    """Every session whose agent outlived its server. None where nobody can tell."""
    if not (home / DATABASE_NAME).exists():
        return []

    async def read() -> list[str]:
        found, after = list[str](), None
        async with await SqliteLog.open(home, readonly=True) as log:
            while True:
                page = await log.sessions(after=after)
                ids = [one.session_id for one in page.sessions if not one.is_purged]
                found += [one for one in ids if await _is_left(log, one)]
                after = page.next_after
                if after is None:
                    return found

    try:
        return asyncio.run(read())
    except LogUnavailable as error:
        output.note(f"whether agents go on could not be read: {error}")
        return None


async def _is_left(log: SqliteLog, session_id: SessionId) -> bool:
    standing = look_at_home(log.path.parent)
    return living_agent((await log.read(session_id)).events, standing) is not None


def _tell(
    server: RunningServer,
    left: list[str] | None,
    running: list[str] | None,
    problems: dict[str, str],
    stopped: list[str],
    *,
    json: bool,
) -> None:
    if json:
        told: StoppedServerJson = {
            "was_running": True,
            "pid": server.pid,
            "left_running": left,
            "stopped": stopped,
            "problems": problems,
        }
        output.print_json(told)
    for task_id, problem in problems.items():
        output.error(f"the agent of {task_id} could not be stopped: {problem}")
    output.note(f"the server (process {server.pid}) has ended")
    if left is None:
        output.note("which agents go on is not known: `interlock up` finds them again")
    elif left:
        output.note(f"{len(left)} of {len(running or ())} agents go on, and are found again by `interlock up`:")
        for task_id in left:
            output.note(f"  {task_id}")
