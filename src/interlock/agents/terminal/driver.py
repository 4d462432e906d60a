"""The terminal driver: agents in tmux, behind our shim. They outlive us, and are found again.

    driver = TerminalDriver(run_folder, TmuxServer.own(f"{run_folder}/tmux"))
    handle = await driver.spawn(AgentSpec(agent="claude", driver="terminal", argv=("claude",), cwd=project), spawn_id)

Laws:
1. `spawn` gives a handle of a living agent, or raises and leaves neither process nor pane nor socket behind.
2. An agent gets exactly the environment of its own spec (`launch.PASSED_ON` says what that includes of ours): nothing
   of the process that started the tmux server, and nothing of another agent in it.
3. `adopt` takes up that very process and no other. Without a process named, it takes up what runs in the pane now.
4. What it starts or adopts bears the mark of its home and process, and what bears another mark is left alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import structs

from interlock.agents.evidence.hook_program import SOCKET_VARIABLE
from interlock.agents.identify import foreground_argv, identify
from interlock.agents.port import AgentSpec, Capabilities, ProcessIdentity, StaleResume
from interlock.agents.processes.identity import identity_of, is_alive
from interlock.agents.processes.stopping import stop_tree
from interlock.agents.profiles import load_profiles
from interlock.agents.terminal.ending import process_gone
from interlock.agents.terminal.handle import TERMINAL_CAPABILITIES, TerminalHandle, TerminalPolicy, TerminalSetup
from interlock.agents.terminal.hub import TerminalHub
from interlock.agents.terminal.launch import (
    SAYS_STALE_RESUME,
    AgentGone,
    Launch,
    Where,
    behind_shim,
    choose_reader,
    foreground_leader,
    plan_launch,
    read_where,
)
from interlock.agents.terminal.listening import ShimChannel
from interlock.agents.terminal.side_files import agent_home
from interlock.agents.tmux.ownership import PaneOwner, claim_pane, owner_here, refuse_foreign
from interlock.agents.tmux.panes import Pane, PaneInfo, find_again, find_pane, start_pane
from interlock.agents.tmux.server import Absent, NoServer, TmuxServer
from interlock.log.home_identity import HomeStanding, look_at_home, settle_home
from interlock.screen.profile import Profile
from interlock.screen.selection import GENERIC, ScreenReader, select_reader
from interlock.vocabulary.errors import PeerFault, Unreachable
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import DriverKind

_BEGAN_WITHIN_SECONDS: Final = 20.0
_LOOKS_FOR_LAST_WORDS: Final = 10
_BETWEEN_LOOKS_SECONDS: Final = 0.1


@dataclass(slots=True)
class _Start:
    """What a spawn has begun so far: all that must be undone if it fails."""

    spawn_id: SpawnId
    ear: ShimChannel
    pane: asyncio.Task[PaneInfo]
    process: ProcessIdentity | None = None


@dataclass(slots=True)
class TerminalDriver:
    """Starts and adopts agents in terminals. `run_folder` is for our sockets and is made private (0700). The folder
    around it is the home: its identity, in `identity.json`, marks the panes.

    `hook_socket` is where the hooks of these agents report; without it they report to the default home.
    """

    run_folder: Path
    server: TmuxServer
    policy: TerminalPolicy = field(default_factory=TerminalPolicy)
    profiles: Sequence[Profile] = field(default_factory=load_profiles)
    hook_socket: Path | None = None
    _hubs: dict[TmuxServer, TerminalHub] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "terminal"

    @property
    def kind(self) -> DriverKind:
        return DriverKind.TERMINAL

    @property
    def capabilities(self) -> Capabilities:
        return TERMINAL_CAPABILITIES

    async def spawn(self, spec: AgentSpec, spawn_id: SpawnId) -> TerminalHandle:
        """Start an agent in a window of our own server. `PeerFault` if it ended before it was seen to run."""
        launch = plan_launch(spec, spawn_id, self.profiles)
        self._settle()
        ear = await ShimChannel.open(self.run_folder / f"{spawn_id}.sock")
        start = _Start(spawn_id, ear, asyncio.get_running_loop().create_task(self._open_pane(spec, launch, ear)))
        try:
            return await self._begin(spec, launch, start)
        except BaseException:
            await asyncio.shield(self._undo(start))
            raise

    async def _open_pane(self, spec: AgentSpec, launch: Launch, ear: ShimChannel) -> PaneInfo:
        return await start_pane(
            self.server,
            behind_shim(launch.argv, ear.path),
            name=spec.agent,
            cwd=launch.cwd,
            env=self._environment(launch),
            columns=launch.options.columns,
            rows=launch.options.rows,
            owner=self._owner().mark,
        )

    def _settle(self) -> HomeStanding:
        """Make the folder of our sockets, and know which home this is."""
        self.run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.run_folder.chmod(0o700)
        return settle_home(self.run_folder.parent)

    def _owner(self) -> PaneOwner:
        return owner_here(look_at_home(self.run_folder.parent).home_id)

    def _environment(self, launch: Launch) -> Mapping[str, str]:
        hooks = {} if self.hook_socket is None else {SOCKET_VARIABLE: str(self.hook_socket)}
        return {**hooks, **launch.environment}

    async def _begin(self, spec: AgentSpec, launch: Launch, start: _Start) -> TerminalHandle:
        info = await asyncio.shield(start.pane)
        start.ear.expect(info.identity.pid)
        (reader, version), process = await asyncio.gather(
            choose_reader(self.profiles, launch.cli, launch.version_argv), self._began(spec, launch, start.ear, info)
        )
        start.process = process
        hub = self._hub(self.server)
        pane = await hub.pane(info.pane_id, info.session_id, self._owner().mark)
        where = _where(info, process, self.server, start.ear, launch.cli, version, launch.home)
        ear, spawn_id = start.ear, start.spawn_id
        station = TerminalSetup(spec.agent, spawn_id, launch.argv, where, process, pane, hub, ear, reader, spec.resume)
        handle = TerminalHandle(station, self.policy)
        handle.start()
        return handle

    async def _began(self, spec: AgentSpec, launch: Launch, ear: ShimChannel, info: PaneInfo) -> ProcessIdentity:
        """The agent's own process, as its shim tells."""
        shim = ProcessIdentity(info.identity.pid, info.identity.started or "")
        ended = asyncio.ensure_future(process_gone(shim))
        try:
            await asyncio.wait((ear.began, ended), timeout=_BEGAN_WITHIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
        process = identity_of(ear.began.result()) if ear.began.done() else None
        if process is not None:
            return process
        words = await self._last_words(info)
        if spec.resume and SAYS_STALE_RESUME.search(words):
            raise StaleResume(f"{launch.cli} knows no session {spec.resume!r}")
        raise PeerFault(f"{launch.argv[0]!r} did not start, or ended at once: {words or 'it said nothing'}")

    async def _last_words(self, info: PaneInfo) -> str:
        """What the pane shows of a program that is over. tmux may still be drawing: a blank one is looked at again."""
        for _ in range(_LOOKS_FOR_LAST_WORDS):
            try:
                pane = await self._hub(self.server).pane(info.pane_id, info.session_id)
                rows = (await pane.capture()).snapshot.rows
            except (Unreachable, PeerFault):
                return ""
            if words := " ".join(row.text.strip() for row in rows if row.text.strip()):
                return words[-500:]
            await asyncio.sleep(_BETWEEN_LOOKS_SECONDS)
        return ""

    async def _undo(self, start: _Start) -> None:
        await asyncio.wait({start.pane})
        await stop_tree(start.process, start.spawn_id, self.policy.stopping)
        await start.ear.close(is_over=True)
        if start.pane.cancelled() or start.pane.exception() is not None:
            return
        pane_id = start.pane.result().pane_id
        with suppress(Unreachable, PeerFault):
            await self.server.run(["kill-pane", "-t", pane_id])
        await self._hub(self.server).leave(pane_id)

    async def adopt(self, spec: AgentSpec, spawn_id: SpawnId, where: Json) -> TerminalHandle:
        """Take up a living agent, with its turn still running. `AgentGone` if that very process is not there."""
        standing = self._settle()
        place = read_where(where).moved_to(self.server, self.run_folder)
        info = await self._find(place)
        refuse_foreign(info.pane_id, info.owner, standing)
        process = place.process or foreground_leader(info.identity.pid)
        if process is None or info.is_dead or not is_alive(process):
            await self._sweep(place, info)
            raise AgentGone(f"pane {info.pane_id} is there, but its agent is not")
        hub = self._hub(place.server)
        ear: ShimChannel | None = None
        try:
            await self._claim(place, info)
            pane = await hub.pane(info.pane_id, info.session_id, self._owner().mark)
            reader, cli, version = await self._reader(spec, place, info, pane)
            ear = await ShimChannel.open(Path(place.status_socket)) if place.status_socket else None
            if ear is not None:
                ear.expect(info.identity.pid)
            home = place.home or agent_home(cli, {**os.environ, **spec.environment})
            found = structs.replace(_where(info, process, place.server, ear, cli, version, home), control=place.control)
            argv = spec.argv or foreground_argv(info.identity.pid) or ()
            station = TerminalSetup(
                spec.agent, spawn_id, argv, found, process, pane, hub, ear, reader, spec.resume, is_adopted=True
            )
            handle = TerminalHandle(station, self.policy)
            handle.start()
        except BaseException:
            if ear is not None:
                await ear.close(is_over=False)
            await hub.leave(info.pane_id)
            raise
        return handle

    async def _find(self, place: Where) -> PaneInfo:
        """The pane. `AgentGone` if it is not there and the agent is not either; else nobody can tell: `Unreachable`."""
        try:
            if place.pane is not None:
                return await find_again(place.server, place.pane)
            return await find_pane(place.server, place.pane_id)
        except (Absent, NoServer) as error:
            raise _without_terminal(place, error) from error

    async def _claim(self, place: Where, info: PaneInfo) -> None:
        try:
            await claim_pane(place.server, info.pane_id, info.owner, self._owner())
        except Absent as error:
            raise _without_terminal(place, error) from error

    async def _sweep(self, place: Where, info: PaneInfo) -> None:
        """Close a pane of ours that only shows the end of its agent."""
        if place.is_own:
            with suppress(Unreachable, PeerFault):
                await place.server.run(["kill-pane", "-t", info.pane_id])
            if place.status_socket:
                await asyncio.to_thread(Path(place.status_socket).unlink, missing_ok=True)

    async def _reader(self, spec: AgentSpec, place: Where, info: PaneInfo, pane: Pane) -> tuple[ScreenReader, str, str]:
        if place.cli:
            return select_reader(self.profiles, place.cli, place.version or None), place.cli, place.version
        found = identify(self.profiles, info.identity.pid, (await pane.capture()).snapshot)
        known = {profile.cli for profile in self.profiles}
        cli = found.cli if found else spec.agent if spec.agent in known else GENERIC
        reader, version = await choose_reader(self.profiles, cli, found.argv if found else None)
        return reader, cli, version

    def _hub(self, server: TmuxServer) -> TerminalHub:
        return self._hubs.setdefault(server, TerminalHub(server))


def _without_terminal(place: Where, error: Unreachable) -> Unreachable:
    """What is said of an agent whose pane is not there: it is gone, unless its very process lives on elsewhere."""
    if place.process is not None and is_alive(place.process):
        return Unreachable(f"process {place.pid} lives, but its terminal is gone: {error}")
    return AgentGone(str(error))


def _where(
    info: PaneInfo,
    process: ProcessIdentity,
    server: TmuxServer,
    ear: ShimChannel | None,
    cli: str,
    version: str,
    home: str,
) -> Where:
    return Where(
        socket=server.socket,
        is_own=server.is_own,
        pane_id=info.pane_id,
        pane_pid=info.identity.pid,
        pane_started=info.identity.started,
        pid=process.pid,
        started=process.start_time,
        status_socket="" if ear is None else str(ear.path),
        cli=cli,
        version=version,
        home=home,
    )
