"""What is started in a pane, and how its screen is read."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, structs

from interlock.agents.identify import Identified, ask_version
from interlock.agents.port import AgentSpec, ProcessIdentity
from interlock.agents.processes.identity import identity_of
from interlock.agents.terminal.side_files import agent_home
from interlock.agents.tmux.panes import PaneIdentity
from interlock.agents.tmux.server import Absent, TmuxServer
from interlock.log.host import host
from interlock.screen.profile import Profile
from interlock.screen.selection import ScreenReader, select_reader
from interlock.vocabulary.errors import PeerFault, UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE, SpawnId

# Where an agent in a terminal is found again after our death.


class AgentGone(Absent, PeerFault):
    """The very process that was to be adopted is not there any more."""


class Where(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pane, the process in it, and the agent itself, each with its start time.

    Only `socket` and `pane_id` are needed: a pane that somebody else started is adopted with whatever runs in it now.
    `status_socket` is where its shim reports; blank where there is none. `cli` and `version` say how its screen is
    read; the program on the disk may be a newer one by the time it is adopted. `home` is where it keeps its own files.
    A pane of somebody else is only watched, unless `control` says that it may be typed into.
    """

    socket: str
    pane_id: str
    is_own: bool = False
    pane_pid: int = 0
    pane_started: str | None = None
    pid: int = 0
    started: str = ""
    status_socket: str = ""
    cli: str = ""
    version: str = ""
    home: str = ""
    control: bool = False

    def moved_to(self, own: TmuxServer, run_folder: Path) -> Where:
        """The same agent, in a home that was moved with its sockets: a socket of ours that is gone is `own` now."""
        is_gone = self.is_own and "/" in self.socket and not Path(self.socket).exists()
        if not is_gone:
            return self
        status = str(run_folder / Path(self.status_socket).name) if self.status_socket else ""
        return structs.replace(self, socket=own.socket, status_socket=status)

    @property
    def server(self) -> TmuxServer:
        return TmuxServer(self.socket, is_own=self.is_own)

    @property
    def pane(self) -> PaneIdentity | None:
        """The pane with its process; None where anything in that pane will do."""
        return PaneIdentity(self.socket, self.pane_id, self.pane_pid, self.pane_started) if self.pane_pid else None

    @property
    def process(self) -> ProcessIdentity | None:
        return ProcessIdentity(self.pid, self.started) if self.pid else None

    def as_json(self) -> Json:
        told: Json = msgspec.to_builtins(self)
        return told


def is_foreign(told: Json) -> bool:
    """Whether a log's word of where an agent is names one that somebody else started, in a pane or outside tmux."""
    return isinstance(told, dict) and ("pane_id" in told or bool(told.get("outside"))) and not told.get("is_own")


def read_where(told: Json) -> Where:
    """Read what `as_json` gave, or the little that names a pane of somebody else."""
    try:
        return msgspec.convert(told, Where)
    except msgspec.ValidationError as error:
        raise UsageError(f"this does not say where an agent is: {error}", remedy="name its socket and pane") from error


_RUNNERS: Final = ("node", "bun", "deno", "env", "python", "uv", "npx")
_MAX_WORDS: Final = 8
SAYS_STALE_RESUME: Final = re.compile(
    r"\bno (?:saved )?(?:conversation|session|rollout)s? (?:was )?found\b|\bsession .{1,80} not found\b", re.IGNORECASE
)
"""How CLIs say that they know no session by the id that they were given."""
PASSED_ON: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    "PYTHONPATH",  # without it the shim, which starts in the same environment, may not find our modules
)
"""What an agent in a terminal gets of our own environment; anything else is named in its spec."""


class TerminalOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The driver's own options. `cli`: which profile reads the screen, where the program's name does not tell."""

    cli: str = ""
    columns: Annotated[int, Meta(ge=20, le=500)] = 120
    rows: Annotated[int, Meta(ge=5, le=300)] = 40


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line that can work, which CLI it is, and who is asked for the version of it."""

    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    home: str
    cli: str
    version_argv: tuple[str, ...] | None
    options: TerminalOptions


def plan_launch(spec: AgentSpec, spawn_id: SpawnId, profiles: Sequence[Profile]) -> Launch:
    """Check a spec. `UsageError` for one that cannot work; nothing is started."""
    if not spec.argv:
        raise UsageError("there is no program to start", remedy="give its name and arguments as a list")
    if not Path(spec.cwd).is_dir():
        raise UsageError(f"there is no folder {spec.cwd!r}", remedy="choose one that exists")
    options = _options(spec)
    environment = pane_environment(spec, spawn_id)
    program = _program(spec, environment)
    found = recognise(profiles, spec.argv)
    known = {profile.cli for profile in profiles}
    cli = options.cli or (found.cli if found is not None and spec.agent not in known else spec.agent)
    words = len(found.argv) if found is not None and found.argv is not None else 1
    argv = with_arguments(spec, words, select_reader(profiles, cli).profile, cli)
    is_itself = found is not None and found.cli == cli
    version_argv = (program, *spec.argv[1:words]) if is_itself else None
    home, cwd = agent_home(cli, environment), str(Path(spec.cwd).absolute())
    return Launch(argv, cwd, environment, home, cli, version_argv, options)


def with_arguments(spec: AgentSpec, program_words: int, profile: Profile, cli: str) -> tuple[str, ...]:
    """The command line with the session to resume and the model, right behind the program itself."""
    arguments = profile.arguments
    if spec.resume and not arguments.resume:
        raise UsageError(
            f"how {cli} resumes a session in a terminal is not known",
            remedy="start it without a session id, or name `resume` in [arguments] of its profile",
        )
    if spec.model and not arguments.model:
        raise UsageError(
            f"how {cli} is told its model is not known",
            remedy="give it among the arguments of the program, or name `model` in [arguments] of its profile",
        )
    resume = arguments.for_resume(spec.resume) if spec.resume else ()
    model = arguments.for_model(spec.model) if spec.model else ()
    return (*spec.argv[:program_words], *resume, *model, *spec.argv[program_words:])


def _options(spec: AgentSpec) -> TerminalOptions:
    try:
        return msgspec.convert(dict(spec.options), TerminalOptions)
    except msgspec.ValidationError as error:
        raise UsageError(f"options of the terminal driver: {error}", remedy="it knows cli, columns and rows") from error


def _program(spec: AgentSpec, environment: dict[str, str]) -> str:
    name = spec.argv[0]
    program = str(Path(spec.cwd, name)) if os.sep in name else name
    found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        raise UsageError(f"there is no program {name!r}", remedy="check its name, and the PATH that it gets")
    return found


def recognise(profiles: Sequence[Profile], argv: Sequence[str]) -> Identified | None:
    """The CLI of a command line, by the name of its program, which may stand behind an interpreter and its options."""
    for at, word in enumerate(argv[:_MAX_WORDS]):
        stem = PurePath(word).name.removesuffix(".js").removesuffix(".mjs").removesuffix(".exe")
        for profile in profiles:
            if stem in profile.executables:
                return Identified(profile.cli, tuple(argv[: at + 1]))
        if at == 0 and stem.rstrip("0123456789.") not in _RUNNERS:
            return None
    return None


def pane_environment(spec: AgentSpec, spawn_id: SpawnId) -> dict[str, str]:
    """What the agent gets: the spec's, and of ours, as it is now, what `PASSED_ON` names. tmux adds the terminal."""
    own = {name: value for name, value in os.environ.items() if any(fnmatchcase(name, one) for one in PASSED_ON)}
    return {**own, **spec.environment, SPAWN_ID_VARIABLE: spawn_id}


def behind_shim(argv: Sequence[str], status_socket: Path) -> list[str]:
    """The command line of the pane. `-P`: a folder of the project must not stand in for our own modules."""
    return [sys.executable, "-P", "-m", "interlock.cli", "shim", "--status-socket", str(status_socket), "--", *argv]


async def choose_reader(
    profiles: Sequence[Profile], cli: str, version_argv: tuple[str, ...] | None
) -> tuple[ScreenReader, str]:
    """Who reads the screen, and the version of the CLI. It is asked for it only where profiles differ by version."""
    has_versions = any(one.cli == cli and (one.versions.start or one.versions.before) for one in profiles)
    version = await ask_version(Identified(cli, version_argv), profiles) if has_versions and version_argv else None
    return select_reader(profiles, cli, version), version or ""


def foreground_leader(pane_pid: int) -> ProcessIdentity | None:
    """The process that has a pane's terminal now: the agent itself where somebody started it from a shell."""
    leader = host().foreground_group(pane_pid)
    return identity_of(pane_pid if leader is None else leader)
