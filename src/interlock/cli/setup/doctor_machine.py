"""Checks of the machine itself: Python, tmux, git, and the terminal around us."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from interlock.agents.tmux.server import TmuxServer
from interlock.cli import output
from interlock.cli.setup.doctor_checks import CheckProbe, MachineCheck, MachineHealth, printed_by
from interlock.cli.setup.packages import add_extras_command, install_command
from interlock.vocabulary.errors import InterlockError

_GROUP: Final = "machine"
_MIN_PYTHON: Final = (3, 11)
_MIN_TMUX: Final = (3, 2)
_TMUX_VERSION: Final = re.compile(r"(\d+)\.(\d+)")
_EXTRAS: Final = {"acp": "acp", "model": "pydantic_ai"}
_MIN_SIZE: Final = (80, 24)


def machine_probes() -> list[CheckProbe]:
    return [
        CheckProbe.told(_python()),
        CheckProbe.told(_extras()),
        CheckProbe("tmux", _GROUP, _tmux),
        CheckProbe("git", _GROUP, _git),
        CheckProbe.told(_terminal()),
    ]


def _python() -> MachineCheck:
    found = f"{platform.python_version()}, {sys.executable or 'from nowhere that is known'}"
    check = MachineCheck(id="python", group=_GROUP, health=MachineHealth.OK, found=found)
    if sys.version_info[:2] < _MIN_PYTHON:
        return check.but(MachineHealth.FAIL, found, "install Python 3.11 or newer")
    return check


def _extras() -> MachineCheck:
    missing = [name for name, module in _EXTRAS.items() if find_spec(module) is None]
    there = ", ".join(name for name in _EXTRAS if name not in missing) or "none"
    if not missing:
        return MachineCheck(id="extras", group=_GROUP, health=MachineHealth.OK, found=there)
    found = f"{there}; agents by {' and '.join(missing)} cannot be run"
    mend = add_extras_command(missing)
    return MachineCheck(id="extras", group=_GROUP, health=MachineHealth.WARN, found=found, mend=mend)


async def _tmux() -> Sequence[MachineCheck]:
    check = MachineCheck(id="tmux", group=_GROUP, health=MachineHealth.OK, found="")
    program = shutil.which("tmux")
    if program is None:
        return (
            check.but(
                MachineHealth.FAIL,
                "not found: no agent can be run in a terminal",
                install_command("tmux", "tmux 3.2 or newer"),
            ),
        )
    said = await printed_by(program, "-V")
    numbers = _TMUX_VERSION.search(said)
    version = said.removeprefix("tmux ") or "a version that it does not tell"
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < _MIN_TMUX:
        return (check.but(MachineHealth.FAIL, f"{version} is too old", install_command("tmux", "tmux 3.2 or newer")),)
    try:
        await _start_and_end_a_server()
    except InterlockError as error:
        mend = "see whether `tmux -L test new-session` works, and whether the folder for temporary files can be written"
        return (check.but(MachineHealth.FAIL, f"{version}, but no server can be started: {error}", mend),)
    return (check.but(MachineHealth.OK, f"{version}; a server of our own can be started"),)


async def _start_and_end_a_server() -> None:
    """On a socket that nobody else knows, in a folder that goes with it."""
    folder = tempfile.mkdtemp(prefix="interlock-")
    server = TmuxServer.own(str(Path(folder, "tmux")))
    try:
        await server.run(["new-session", "-d", "-s", "doctor", "cat"], may_start=True)
    finally:
        with suppress(InterlockError):
            await server.kill()
        shutil.rmtree(folder, ignore_errors=True)


async def _git() -> Sequence[MachineCheck]:
    check = MachineCheck(id="git", group=_GROUP, health=MachineHealth.OK, found="")
    program = shutil.which("git")
    if program is None:
        return (check.but(MachineHealth.WARN, "not found: most agents want it", install_command("git")),)
    return (check.but(MachineHealth.OK, (await printed_by(program, "--version")).removeprefix("git version ")),)


def _terminal() -> MachineCheck:
    check = MachineCheck(id="terminal", group=_GROUP, health=MachineHealth.OK, found="")
    stream = sys.stdout
    if stream is None or not stream.isatty():
        return check.but(MachineHealth.OK, "none here: output is plain, for a pipe or a file")
    is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    columns, rows = shutil.get_terminal_size(_MIN_SIZE)
    colours = "colours" if output.wants_colour(stream) else "no colours"
    found = f"{os.environ.get('TERM') or 'of no name'}, {columns}x{rows}, {colours}, {stream.encoding or 'no encoding'}"
    if not is_utf8:
        return check.but(MachineHealth.WARN, f"{found}: not UTF-8", "export LANG=C.UTF-8")
    if columns < _MIN_SIZE[0] or rows < _MIN_SIZE[1]:
        return check.but(MachineHealth.WARN, f"{found}: small", "make it 80x24 or larger")
    return check.but(MachineHealth.OK, found)
