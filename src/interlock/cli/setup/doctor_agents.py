"""Checks of the agents: which CLIs are there, in which version, who reads their screens and who can drive them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from interlock.agents.evidence.hook_settings import HookedCli, Installation, hook_status, settings_path
from interlock.agents.identify import Identified, ask_version
from interlock.agents.profiles import builtin_profiles, load_profiles
from interlock.agents.terminal.launch import recognise
from interlock.cli.setup.doctor_checks import PROBE_SECONDS, CheckProbe, MachineCheck, MachineHealth
from interlock.runtime.config.agent_choice import drivers_of
from interlock.runtime.config.sections import AgentSection, Config
from interlock.screen.profile import Profile
from interlock.screen.selection import SelectionSource, select_reader
from interlock.vocabulary.errors import UsageError

_GROUP: Final = "agents"
# Less than a probe has: one that is slow to tell its version is no failure.
_VERSION_SECONDS: Final = PROBE_SECONDS - 0.5


def agent_probes(config: Config) -> list[CheckProbe]:
    """One probe for each agent that is there, one for the rest, and one for the hooks of each that has hooks."""
    profiles, trouble = _profiles()
    there = {name: agent for name, agent in config.agents.items() if _program(agent) is not None}
    probes = [CheckProbe(name, _GROUP, partial(_look, name, agent, profiles)) for name, agent in there.items()]
    hooked = [HookedCli(name) for name in there if name in list(HookedCli)]
    probes += [CheckProbe(f"{cli.value} hooks", _GROUP, partial(_hooks, cli)) for cli in hooked]
    missing = [name for name, agent in config.agents.items() if name not in there and agent.argv]
    return [*([] if trouble is None else [CheckProbe.told(trouble)]), *probes, *_told_missing(missing, bool(there))]


def _profiles() -> tuple[Sequence[Profile], MachineCheck | None]:
    try:
        return load_profiles(), None
    except (UsageError, RuntimeError) as error:  # a broken file of the user's, or no home to look in
        mend = "interlock debug profiles FILE" if isinstance(error, UsageError) else "set HOME"
        check = MachineCheck(
            id="profiles", group=_GROUP, health=MachineHealth.WARN, found=f"yours are left out: {error}", mend=mend
        )
        return builtin_profiles(), check


def _told_missing(missing: Sequence[str], has_any: bool) -> list[CheckProbe]:
    if not missing:
        return []
    check = MachineCheck(
        id="others", group=_GROUP, health=MachineHealth.OK, found=f"not installed: {', '.join(missing)}"
    )
    if not has_any:
        check = check.but(
            MachineHealth.WARN, f"no agent CLI was found ({', '.join(missing)})", "install one, or mend PATH"
        )
    return [CheckProbe.told(check)]


def _program(agent: AgentSection) -> str | None:
    return shutil.which(agent.argv[0]) if agent.argv else None


async def _look(name: str, agent: AgentSection, profiles: Sequence[Profile]) -> Sequence[MachineCheck]:
    program = _program(agent)
    known = recognise(profiles, agent.argv)
    named = agent.options.get("cli") if agent.driver == "terminal" else None  # as that driver reads it
    cli = named if isinstance(named, str) and named else name if known is None else known.cli
    words = 1 if known is None or known.argv is None else len(known.argv)
    version = None
    if program is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_VERSION_SECONDS):
                version = await ask_version(Identified(cli, (program, *agent.argv[1:words])), profiles)
    reader = select_reader(profiles, cli, version)
    source = SelectionSource(reader.metadata.selection_source)
    drivers = ", ".join(_drivers(agent))
    told = version or "version not told"
    check = MachineCheck(
        id=name, group=_GROUP, health=MachineHealth.OK, found=f"{told}; profile {reader.profile.id}; by {drivers}"
    )
    match source:
        case SelectionSource.VERSION:
            return (check,)
        case SelectionSource.NEAREST:
            found = f"{told}, outside the versions of its profile: {reader.profile.id} is nearest; by {drivers}"
            return (
                check.but(MachineHealth.WARN, found, "update Interlock, or write a profile: interlock debug profiles"),
            )
        case SelectionSource.VERSION_UNKNOWN:
            return (check.but(MachineHealth.WARN, check.found, f"see what `{agent.argv[0]} --version` prints"),)
        case SelectionSource.GENERIC:
            found = f"{told}; no profile: its screen says little; by {drivers}"
            return (check.but(MachineHealth.WARN, found, "drive it by a stream or ACP, or write a profile"),)


def _drivers(agent: AgentSection) -> list[str]:
    """Those that can drive it here: ACP may need a program of its own."""
    has_acp = bool(agent.acp_argv) and shutil.which(agent.acp_argv[0]) is not None
    return [name for name in drivers_of(agent) if name != "acp" or has_acp or agent.driver == "acp"]


async def _hooks(cli: HookedCli) -> Sequence[MachineCheck]:
    status = hook_status(cli, settings_path(cli, None))
    check = MachineCheck(
        id=f"{cli.value} hooks", group=_GROUP, health=MachineHealth.OK, found=f"installed in {status.file}"
    )
    install = f"interlock hooks install {cli.value}"
    match status.installation:
        case Installation.INSTALLED:
            return (check,)
        case Installation.OUTDATED:
            return (check.but(MachineHealth.WARN, f"of another version, in {status.file}", install),)
        case Installation.ABSENT:
            return (check.but(MachineHealth.WARN, "not installed: less is known of what it does", install),)
