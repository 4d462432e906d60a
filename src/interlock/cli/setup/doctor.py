"""`interlock doctor`: what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from msgspec import Struct

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag
from interlock.cli.setup.doctor_agents import agent_probes
from interlock.cli.setup.doctor_checks import CheckProbe, MachineCheck, MachineHealth, examine
from interlock.cli.setup.doctor_home import home_probes
from interlock.cli.setup.doctor_machine import machine_probes
from interlock.log.paths import default_home
from interlock.runtime.config.loading import load
from interlock.runtime.config.sections import Config
from interlock.vocabulary.errors import UsageError

SCHEMA: Final = 1
_MARKS: Final = {
    MachineHealth.OK: "ok",
    MachineHealth.WARN: "warn",
    MachineHealth.INSTALL: "none",
    MachineHealth.FAIL: "FAIL",
}
_COLOURS: Final = {
    MachineHealth.OK: "32",
    MachineHealth.WARN: "33",
    MachineHealth.INSTALL: "1;33",
    MachineHealth.FAIL: "1;31",
}
_MARK_WIDTH: Final = 6
_MIN_WIDTH, _MAX_WIDTH = 40, 100


class DoctorReport(Struct, frozen=True, kw_only=True):
    """All that was found, as `doctor --json` prints it. `ok`: nothing fails, and there is an agent to run."""

    schema: int
    ok: bool
    checks: tuple[MachineCheck, ...]


def doctor(
    *,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Check this machine. Every check says what it found, and how to fix what is not as it should be.

    Exit code 1 if a check failed, 11 if there is no agent to run; a warning is no failure. Nothing is changed, nothing
    is sent anywhere, and each check takes 5 seconds at most.
    """
    checks = asyncio.run(examine(_probes(home)))
    code = _exit_code({one.health for one in checks})
    if json:
        output.print_json(DoctorReport(schema=SCHEMA, ok=code is ExitCode.COMPLETED, checks=tuple(checks)))
    else:
        _print(checks)
    return code


def _exit_code(found: set[MachineHealth]) -> ExitCode:
    if MachineHealth.FAIL in found:
        return ExitCode.FAILED
    return ExitCode.NO_AGENT if MachineHealth.INSTALL in found else ExitCode.COMPLETED


def _probes(home: Path | None) -> list[CheckProbe]:
    config, configured = _configuration()
    return [*machine_probes(), configured, *agent_probes(config), *home_probes(_home(home), config)]


def _configuration() -> tuple[Config, CheckProbe]:
    """The configuration, or the defaults where it is not understood, and what is to be said of it."""
    try:
        loaded = load(os.environ)
    except UsageError as wrong:
        return Config(), CheckProbe.told(
            MachineCheck(
                id="config", group="machine", health=MachineHealth.FAIL, found=str(wrong), mend="interlock config check"
            )
        )
    where = "no home to look in" if loaded.path is None else str(loaded.path)
    if loaded.path is None or not loaded.has_file:
        return loaded.config, CheckProbe.told(
            MachineCheck(id="config", group="machine", health=MachineHealth.OK, found=f"defaults; no file {where}")
        )
    return loaded.config, CheckProbe.told(_file_check(loaded.path, loaded.config))


def _file_check(path: Path, config: Config) -> MachineCheck:
    found = MachineCheck(id="config", group="machine", health=MachineHealth.OK, found=f"{path} is understood")
    mode = path.stat().st_mode
    has_secret = bool(config.notify.webhook or config.notify.ntfy) or any(
        one.environment.set for one in config.agents.values()
    )
    if mode & 0o022:
        return found.but(
            MachineHealth.FAIL, f"others can write {path}, and so run programs as you", f"chmod go-w '{path}'"
        )
    if mode & 0o044 and has_secret:
        return found.but(MachineHealth.WARN, f"others can read {path}, and it may hold a secret", f"chmod 600 '{path}'")
    return found


def _home(named: Path | None) -> Path | None:
    try:
        return named or default_home(os.environ)
    except RuntimeError:  # without HOME, and unknown to the system
        return None


def _print(checks: Sequence[MachineCheck]) -> None:
    width = min(max(shutil.get_terminal_size((80, 24)).columns, _MIN_WIDTH), _MAX_WIDTH)
    names = max((len(one.id) for one in checks), default=0)
    has_colour = sys.stdout is not None and output.wants_colour(sys.stdout)
    for group, members in groupby(checks, key=lambda one: one.group):
        output.print_text(group)
        for one in members:
            _print_check(one, names, width, has_colour=has_colour)
        output.print_text("")
    output.print_text(_verdict(checks))


def _print_check(check: MachineCheck, names: int, width: int, *, has_colour: bool) -> None:
    indent = " " * (2 + _MARK_WIDTH + names + 2)
    mark = f"{_MARKS[check.health]:<{_MARK_WIDTH}}"
    lines = _wrapped(check.found, width - len(indent))
    if check.mend:
        lines += _wrapped(f"to fix: {check.mend}", width - len(indent))
    first = f"{check.id:<{names}}  {lines[0]}".rstrip()
    if has_colour:
        # The one place that may write a sequence: everything around the mark goes through `output` and is escaped.
        sys.stdout.write(f"  \x1b[{_COLOURS[check.health]}m{mark}\x1b[0m")
        output.print_text(first)
    else:
        output.print_text(f"  {mark}{first}")
    for line in lines[1:]:
        output.print_text(indent + line)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(output.escape(text), width, break_on_hyphens=False) or [""]


def _verdict(checks: Iterable[MachineCheck]) -> str:
    found = [one.health for one in checks]
    failed, warned = found.count(MachineHealth.FAIL), found.count(MachineHealth.WARN)
    if failed:
        return f"{failed} of {len(found)} checks failed" + (f", {warned} warning{'s' * (warned > 1)}" if warned else "")
    told = f"{len(found)} checks, none failed" + (f", {warned} warning{'s' * (warned > 1)}" if warned else "")
    return f"{told}; install an agent to go on" if MachineHealth.INSTALL in found else told
