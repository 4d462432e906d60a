"""Agents that a person started in a tmux of their own: where they are, what they are, and how they are adopted.

Laws:
1. A pane holds an agent only if the program in its foreground is one of a known CLI, or a person says which CLI it is.
2. Looking changes nothing: no pane is marked, resized or typed into.
3. Only sockets of this user are asked. One that does not answer is told, and keeps nobody from the others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.agents.identify import Identified, foreground_argv
from interlock.agents.port import AgentSpec, ProcessIdentity
from interlock.agents.terminal.launch import Where, foreground_leader, recognise
from interlock.agents.terminal.side_files import agent_home, home_variable
from interlock.agents.tmux.panes import PaneInfo, find_pane, list_panes
from interlock.agents.tmux.server import Absent, NoServer, TmuxServer
from interlock.log.home_identity import IDENTITY_FILE
from interlock.log.host import host
from interlock.screen.profile import Profile
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE

_MAX_ENVIRONMENT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """An agent in a pane that somebody else started."""

    pane: PaneInfo
    process: ProcessIdentity
    cli: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a runtime needs to adopt an agent: how it would be started again, and where it is now."""

    spec: AgentSpec
    where: Where
    title: str


def user_servers(environ: Mapping[str, str]) -> tuple[TmuxServer, ...]:
    """Every tmux server of this user: with a socket in tmux's own folder, around this terminal, or told by its process,
    wherever its socket is. Those of homes of ours hold no agent that a person started, and are left out."""
    folder = Path(environ.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")
    try:
        sockets = {str(path.resolve()) for path in folder.iterdir() if _is_own_socket(path)}
    except OSError:
        sockets = set()
    around = environ.get("TMUX", "").partition(",")[0]
    if around and _is_own_socket(Path(around)):
        sockets.add(str(Path(around).resolve()))
    sockets |= {str(Path(path).resolve()) for path in _served() if _is_own_socket(Path(path))}
    return tuple(TmuxServer(socket) for socket in sorted(sockets) if not _is_of_a_home(Path(socket)))


def _served() -> Iterator[str]:
    """Where the processes listen that are a tmux."""
    for row in host().rows(SPAWN_ID_VARIABLE):
        name = row.command or host().running_name(row.pid) or ""
        if Path(name.partition(" ")[0].rstrip(":")).name == "tmux":
            yield from (path for path in host().bound_sockets(row.pid) if path.startswith("/"))


def _is_of_a_home(socket: Path) -> bool:
    home = socket.parent.parent
    return socket == Path(TmuxServer.of_home(home).socket) and (home / IDENTITY_FILE).exists()


def _is_own_socket(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()


async def find_agents(
    servers: Sequence[TmuxServer], profiles: Sequence[Profile]
) -> tuple[list[FoundAgent], dict[str, str]]:
    """Every known CLI in the panes of these servers, and what kept a server from being asked. A socket behind which
    there is no server any more is left out."""
    found: list[FoundAgent] = []
    problems: dict[str, str] = {}
    for server in servers:
        try:
            panes = await list_panes(server)
        except NoServer:
            continue
        except (Unreachable, PeerFault) as error:
            problems[server.socket] = str(error)
            continue
        found += (agent for pane in panes if (agent := agent_in(pane, profiles)) is not None)
    return found, problems


async def pane_processes(servers: Sequence[TmuxServer]) -> set[int]:
    """The processes that the panes of these servers were started with. A server that cannot be asked has none."""
    found: set[int] = set()
    for server in servers:
        with suppress(NoServer, Unreachable, PeerFault):
            found |= {pane.identity.pid for pane in await list_panes(server)}
    return found


def agent_in(pane: PaneInfo, profiles: Sequence[Profile], cli: str = "") -> FoundAgent | None:
    """The agent in a pane, by the program in its foreground; `cli`: what a person says that it is."""
    if pane.is_dead or (process := foreground_leader(pane.identity.pid)) is None:
        return None
    argv = foreground_argv(pane.identity.pid) or ()
    known = recognise(profiles, argv)
    if cli and (known is None or known.cli != cli):
        known = Identified(cli, argv[:1] or None)
    return None if known is None else FoundAgent(pane, process, known.cli, known.argv or argv[:1])


async def plan_adoption(
    server: TmuxServer, pane_id: str, profiles: Sequence[Profile], *, cli: str = "", control: bool = False
) -> Adoption:
    """Look at a pane, and say how its agent is adopted. `UsageError` where there is no such pane, or no agent in it."""
    try:
        pane = await find_pane(server, pane_id)
    except (Absent, NoServer) as error:
        raise UsageError(str(error), remedy="`interlock adopt --all --dry-run` lists the agents in tmux") from error
    if cli and not any(profile.cli == cli for profile in profiles):
        known = ", ".join(sorted({profile.cli for profile in profiles}))
        raise UsageError(f"there is no profile for {cli!r}", remedy=f"it is one of {known}")
    agent = agent_in(pane, profiles, cli)
    if agent is None:
        runs = f"{pane.command} runs there" if pane.command and not pane.is_dead else "nothing runs there"
        raise UsageError(
            f"no known CLI is in pane {pane.pane_id}: {runs}", remedy="name the CLI with --cli, if it is one"
        )
    home, environment = _home_of(agent)
    where = Where(
        socket=server.socket,
        pane_id=pane.pane_id,
        pane_pid=pane.identity.pid,
        pane_started=pane.identity.started,
        pid=agent.process.pid,
        started=agent.process.start_time,
        home=home,
        control=control,
    )
    spec = AgentSpec(
        agent=agent.cli, driver="terminal", argv=agent.argv, cwd=folder_of(agent.process.pid), environment=environment
    )
    return Adoption(spec, where, f"adopted {pane.place}")


def _home_of(agent: FoundAgent) -> tuple[str, dict[str, str]]:
    """Where the agent keeps its files, by its own environment, and the variable that says so if it is not the usual."""
    values = environment_of(agent.process.pid) or dict(os.environ)
    home, name = agent_home(agent.cli, values), home_variable(agent.cli)
    is_usual = not name or home == agent_home(agent.cli, {"HOME": os.environ.get("HOME", "")})
    return home, {} if is_usual else {name: home}


def environment_of(pid: int) -> dict[str, str]:
    """The environment of a process, as it was started; empty where it is hidden."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as stream:
            words = stream.read(_MAX_ENVIRONMENT_BYTES).split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(word).partition("=") for word in words)
    return {name: value for name, sign, value in pairs if sign}


def folder_of(pid: int) -> str:
    """The folder of a process; ours where that is hidden."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return str(Path.home())
