"""Claude Code and Codex that run outside tmux: which processes they are, and what proves it.

Laws:
1. A process is such an agent by the name of its program and by a file that names it: a status file with its number, or
   a rollout that it holds open. A name alone is no proof, and is told.
2. What bears a spawn id of ours, runs in a pane of tmux, or belongs to another user is not looked at.
3. Looking changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from interlock.agents.port import AgentSpec, ProcessIdentity
from interlock.agents.processes.identity import identity_of
from interlock.agents.terminal.adopting import environment_of, folder_of
from interlock.agents.terminal.launch import recognise
from interlock.agents.terminal.side_files import agent_home, home_variable
from interlock.log.host import ProcessRow, host
from interlock.screen.profile import Profile
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE

OBSERVED: Final = "observed"
CLIS: Final = ("claude", "codex")


class ObservedWhere(Struct, frozen=True, kw_only=True):
    """Where such an agent is, as the log keeps it. `outside`: it has no pane."""

    pid: int
    started: str
    cli: str
    home: str
    outside: bool = True

    @property
    def process(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.started)

    def as_json(self) -> Json:
        told: Json = msgspec.to_builtins(self)
        return told


@dataclass(frozen=True, slots=True)
class OutsideAgent:
    """An agent outside tmux. `evidence`: the file that proves it; blank, and then it is not adopted."""

    where: ObservedWhere
    argv: tuple[str, ...]
    folder: str
    evidence: str

    @property
    def spec(self) -> AgentSpec:
        """How it would be started again: with the folder of its files, where that is not the usual one."""
        name = home_variable(self.where.cli)
        usual = agent_home(self.where.cli, {"HOME": os.environ.get("HOME", "")})
        environment = {} if self.where.home == usual else {name: self.where.home}
        return AgentSpec(
            agent=self.where.cli, driver=OBSERVED, argv=self.argv, cwd=self.folder, environment=environment
        )


def find_outside(profiles: Sequence[Profile], pane_pids: Collection[int]) -> list[OutsideAgent]:
    """Every known agent of this user that runs in no pane; those without proof too, unless they belong to one that has
    it."""
    rows = {row.pid: row for row in host().rows(SPAWN_ID_VARIABLE)}
    found = [
        agent
        for row in rows.values()
        if not row.values and not _runs_below(row, rows, pane_pids) and (agent := _agent(row.pid, profiles)) is not None
    ]
    proven = {agent.where.pid for agent in found if agent.evidence}
    helpers = {pid for one in proven for pid in _ancestors(rows[one], rows)}
    return [
        agent
        for agent in found
        if agent.where.pid in proven
        or (agent.where.pid not in helpers and not _runs_below(rows[agent.where.pid], rows, proven))
    ]


def outside_agent(pid: int, profiles: Sequence[Profile]) -> OutsideAgent:
    """The agent with this number. `UsageError` where there is none, it is ours, or nothing proves what it does."""
    row = next((row for row in host().rows(SPAWN_ID_VARIABLE) if row.pid == pid), None)
    agent = None if row is None else _agent(pid, profiles)
    if row is None or agent is None:
        what = "there is no such process" if row is None else "it is neither Claude Code nor Codex"
        raise UsageError(f"process {pid} cannot be adopted: {what}", remedy="`interlock adopt --all --dry-run`")
    if row.values:
        raise UsageError(f"process {pid} was started by Interlock", remedy="`interlock ps` lists it")
    if not agent.evidence:
        raise UsageError(f"process {pid} cannot be adopted: {unproven(agent)}", remedy="give it a prompt first")
    return agent


def unproven(agent: OutsideAgent) -> str:
    """Why an agent without evidence is not adopted."""
    if agent.where.cli == "claude":
        return f"there is no status file of it in {agent.where.home}/sessions"
    return "it holds no rollout open"


def _agent(pid: int, profiles: Sequence[Profile]) -> OutsideAgent | None:
    argv = host().argv(pid) or ()
    known = recognise(profiles, argv)
    process = None if known is None or known.cli not in CLIS or not _is_own(pid) else identity_of(pid)
    if known is None or process is None:
        return None
    home = agent_home(known.cli, environment_of(pid) or dict(os.environ))
    where = ObservedWhere(pid=pid, started=process.start_time, cli=known.cli, home=home)
    return OutsideAgent(where, known.argv or argv[:1], folder_of(pid), _proof(known.cli, home, pid))


def _proof(cli: str, home: str, pid: int) -> str:
    if cli == "claude":
        path = Path(home, "sessions", f"{pid}.json")
        return str(path) if path.is_file() and not path.is_symlink() else ""
    return next(iter(sorted(_rollouts(pid), reverse=True)), "")


def _rollouts(pid: int) -> Iterator[str]:
    for name in host().open_names(pid):
        path = Path(name)
        if path.name.startswith("rollout-") and path.suffix == ".jsonl":
            yield name


def _is_own(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.getuid()
    except OSError:
        return not Path("/proc/self").exists()  # no such folder on this system: its files decide


def _ancestors(row: ProcessRow, rows: Mapping[int, ProcessRow]) -> Iterator[int]:
    seen = {row.pid}
    while (row.parent not in seen) and (above := rows.get(row.parent)) is not None:
        seen.add(above.pid)
        yield above.pid
        row = above


def _runs_below(row: ProcessRow, rows: Mapping[int, ProcessRow], roots: Collection[int]) -> bool:
    return row.pid in roots or any(pid in roots for pid in _ancestors(row, rows))
