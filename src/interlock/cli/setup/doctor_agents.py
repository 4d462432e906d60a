"""Checks of the agents: which CLIs are there, in which version, who reads their screens and who can drive them;
and whether they are signed in, as far as files and variables of this machine show it. Nothing is sent anywhere.

Law: credentials that are found are said to be there, not to be valid. Without any, the answer is `unknown`, never "no":
an agent may keep them in a keychain, get them from a helper program, or need none.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from interlock.agents.evidence.hook_settings import HookedCli, Installation, hook_status, settings_path
from interlock.agents.identify import Identified, ask_version
from interlock.agents.profiles import builtin_profiles, load_profiles
from interlock.agents.terminal.launch import recognise
from interlock.cli.setup.doctor_checks import PROBE_SECONDS, CheckProbe, MachineCheck, MachineHealth
from interlock.cli.setup.packages import install_agent
from interlock.runtime.config.agent_choice import drivers_of
from interlock.runtime.config.sections import AgentSection, Config
from interlock.screen.profile import Profile
from interlock.screen.selection import SelectionSource, select_reader
from interlock.vocabulary.errors import UsageError

_MAX_BYTES: Final = 1 << 20


class SignIn(NamedTuple):
    """Where a CLI keeps its credentials: a variable that names its folder, the folder in the user's home, files in it,
    variables that hold a key, and the command that signs in."""

    folder_variable: str
    folder: str
    files: tuple[str, ...]
    keys: tuple[str, ...]
    command: str


SIGN_INS: Final[Mapping[str, SignIn]] = {
    "claude": SignIn(
        "CLAUDE_CONFIG_DIR",
        ".claude",
        (".credentials.json",),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        "claude auth login",
    ),
    "codex": SignIn("CODEX_HOME", ".codex", ("auth.json",), ("CODEX_API_KEY", "OPENAI_API_KEY"), "codex login"),
    "gemini": SignIn("", ".gemini", ("oauth_creds.json",), ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini"),
    "qwen": SignIn("", ".qwen", ("oauth_creds.json",), ("OPENAI_API_KEY", "DASHSCOPE_API_KEY"), "qwen"),
    "opencode": SignIn(
        "",
        ".local/share/opencode",
        ("auth.json",),
        ("OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
        "opencode auth login",
    ),
    "copilot": SignIn("", ".copilot", (), ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"), "copilot login"),
}


def credentials_of(cli: str, environ: Mapping[str, str], home: Path) -> str:
    """Where credentials of this CLI were found, in words; blank: nowhere, which proves nothing."""
    known = SIGN_INS.get(cli)
    if known is None:
        return ""
    variable = next((name for name in known.keys if environ.get(name)), "")
    if variable:
        return f"by {variable}"
    named = environ.get(known.folder_variable, "") if known.folder_variable else ""
    folder = Path(named) if named else home / known.folder
    return next((f"credentials in {folder / name}" for name in known.files if _holds_something(folder / name)), "")


def _holds_something(path: Path) -> bool:
    """Whether a file is there and is more than an empty JSON object, which a CLI leaves when one signs out."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).strip() not in (b"", b"{}", b"[]", b"null")
    except OSError:
        return False


_GROUP: Final = "agents"
# Less than a probe has: one that is slow to tell its version is no failure.
_VERSION_SECONDS: Final = PROBE_SECONDS - 0.5


def agent_probes(config: Config) -> list[CheckProbe]:
    """One probe for each agent that is there, one for the rest, and one for the hooks of each that has hooks."""
    profiles, trouble = _profiles()
    there = {name: agent for name, agent in config.agents.items() if _program(agent) is not None}
    probes = [CheckProbe(name, _GROUP, partial(_look, name, agent, profiles)) for name, agent in there.items()]
    hooked = [HookedCli(name) for name in there if name in list(HookedCli)]
    probes += [CheckProbe.told(_sign_in(name, agent)) for name, agent in there.items() if name in SIGN_INS]
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
            MachineHealth.INSTALL, f"no agent was found in PATH ({', '.join(missing)}): install one", install_agent()
        )
    return [CheckProbe.told(check)]


def _sign_in(name: str, agent: AgentSection) -> MachineCheck:
    known = SIGN_INS[name]
    environ = {**os.environ, **agent.environment.set}
    check = MachineCheck(id=f"{name} sign-in", group=_GROUP, health=MachineHealth.OK, found="")
    try:
        found = credentials_of(name, environ, Path(environ.get("HOME") or Path.home()))
    except RuntimeError:  # without HOME, and unknown to the system
        found = ""
    if found:
        return check.but(MachineHealth.OK, f"{found}; whether they are still valid is not asked")
    places = " or ".join((*known.files, *known.keys))
    return check.but(MachineHealth.WARN, f"unknown: found no {places}; keychains are not read", known.command)


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
    told = version or "version unknown"
    check = MachineCheck(
        id=name, group=_GROUP, health=MachineHealth.OK, found=f"{told}; profile {reader.profile.id}; by {drivers}"
    )
    match source:
        case SelectionSource.VERSION:
            return (check,)
        case SelectionSource.NEAREST:
            found = f"{told}, outside the versions of its profile: {reader.profile.id} is nearest; by {drivers}"
            return (
                check.but(
                    MachineHealth.WARN,
                    found,
                    f"interlock debug lab {cli}, which counts what is still read right; or update Interlock",
                ),
            )
        case SelectionSource.VERSION_UNKNOWN:
            return (check.but(MachineHealth.WARN, check.found, f"see what `{agent.argv[0]} --version` prints"),)
        case SelectionSource.GENERIC:
            found = f"{told}; no profile: its screen says little; by {drivers}"
            return (check.but(MachineHealth.WARN, found, "interlock debug profiles, and write one for it"),)


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
