"""`interlock service`: let the machine start the server, by systemd or by launchd."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from msgspec import Struct

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag
from interlock.cli.install.units import UNIT_NAME, Manager, ServiceFile, default_manager, is_ours, service_file
from interlock.cli.server.process import Presence, look_for_server
from interlock.log.paths import default_home
from interlock.vocabulary.errors import PeerFault, UsageError

_COMMAND_SECONDS: Final = 90
_INSTALL: Final = "interlock service install"
_FILE_MODE: Final = 0o644


class ServiceStatus(Struct, frozen=True):
    """How the service stands, as `service --json` prints it. `unknown`: the manager could not be asked."""

    manager: str
    file: str
    installed: bool
    current: bool
    enabled: str
    active: str
    next: str


def service(
    action: Literal["install", "remove", "status"],
    /,
    *,
    manager: Annotated[
        Manager | None, Parameter(help="systemd (a user unit), or launchd, which is untested; else as the system has.")
    ] = None,
    no_start: Annotated[bool, Parameter(name="--no-start", negative="", help="Only write the file.")] = False,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Install a service that starts the server when you sign in, remove it, or tell how it stands.

    It ends with the server alone: agents in tmux go on. Exit code 3: the file is written, and the manager did not start
    it; the command to do so is told. Exit code 1 of `status`: not installed.

    Parameters
    ----------
    action
        What to do.
    """
    chosen = manager or default_manager()
    folder = home or default_home(os.environ)
    file = service_file(chosen, folder)
    code: int = ExitCode.COMPLETED
    told = ""
    if action == "install":
        code, told = _install(file, folder, no_start=no_start)
    elif action == "remove":
        told = _remove(file)
    status = _status(chosen, file, told or (_INSTALL if action == "status" else ""))
    if json:
        output.print_json(status)
    else:
        output.print_text("\n".join(_lines(status)))
    if action == "status" and not status.installed:
        return ExitCode.FAILED
    return code


def _install(file: ServiceFile, home: Path, *, no_start: bool) -> tuple[int, str]:
    if file.path.exists() and not is_ours(file.path):
        raise UsageError(
            f"{file.path} was not made by Interlock", remedy="move it away, then `interlock service install`"
        )
    file.path.parent.mkdir(parents=True, exist_ok=True)
    draft = file.path.with_name(f".{file.path.name}.{os.getpid()}")
    draft.write_bytes(file.content)
    draft.chmod(_FILE_MODE)
    draft.replace(file.path)
    _check(file.path)
    by_hand = " && ".join(" ".join(words) for words in file.start)
    if no_start:
        return ExitCode.COMPLETED, by_hand
    if look_for_server(home).presence not in (Presence.ABSENT, Presence.STALE):
        # The service would find the log taken, and be started again and again.
        return ExitCode.PARTIAL, f"interlock down && {by_hand}"
    failed = _carry_out(file.start)
    if failed:
        output.error(f"{file.path} is written, and was not started: {failed}")
        return ExitCode.PARTIAL, by_hand
    return ExitCode.COMPLETED, ""


def _remove(file: ServiceFile) -> str:
    """End the service and take its file away; the command to end it where the manager could not be asked."""
    if not file.path.exists():
        return ""
    if not is_ours(file.path):
        raise UsageError(f"{file.path} was not made by Interlock", remedy="remove it by hand if it is yours")
    failed = _carry_out(file.end)
    file.path.unlink()
    if not failed:
        failed = _carry_out(file.reload)
    return " && ".join(" ".join(words) for words in file.reload) if failed else ""


def remove_service_file(path: Path) -> None:
    """Take away a file of ours, whoever manages it, and end its service where its manager can be asked."""
    file = service_file("systemd" if path.name == UNIT_NAME else "launchd", default_home(os.environ))
    _remove(file._replace(path=path))


def service_files() -> list[Path]:
    """The files of ours that are there."""
    managers: tuple[Manager, ...] = ("systemd", "launchd")
    paths = [service_file(one, default_home(os.environ)).path for one in managers]
    return [path for path in paths if is_ours(path)]


def _check(path: Path) -> None:
    """What systemd itself says of a unit, where it can be asked: a mistake would show only at the next start."""
    program = shutil.which("systemd-analyze")
    if program is None or path.suffix != ".service":
        return
    done = _run((program, "--user", "verify", str(path)), {"XDG_RUNTIME_DIR": str(path.parent), **os.environ})
    about_ours = [line for line in done.stderr.splitlines() if path.name in line]
    if done.returncode and about_ours:
        raise PeerFault(f"systemd does not understand {path}: {about_ours[0]}")


def _carry_out(commands: tuple[tuple[str, ...], ...]) -> str:
    """Run them in order; what went wrong, in words, or blank."""
    for words in commands:
        if shutil.which(words[0]) is None:
            return f"there is no {words[0]} here"
        done = _run(words)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
            return f"`{' '.join(words)}`: {said[0]}"
    return ""


def _run(words: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
            env=dict(environ),
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"no answer within {_COMMAND_SECONDS} s")


def _status(manager: Manager, file: ServiceFile, next_command: str) -> ServiceStatus:
    is_installed = is_ours(file.path)
    is_current = is_installed and file.path.read_bytes() == file.content
    return ServiceStatus(
        manager=manager,
        file=str(file.path),
        installed=is_installed,
        current=is_current,
        enabled=_asked(manager, "is-enabled"),
        active=_asked(manager, "is-active"),
        next="" if is_current and next_command == _INSTALL else next_command,
    )


def _asked(manager: Manager, question: str) -> str:
    """One word of systemd; `unknown` where it cannot be asked, and always of launchd, which has no such words."""
    if manager != "systemd" or shutil.which("systemctl") is None:
        return "unknown"
    said = _run(("systemctl", "--user", question, UNIT_NAME)).stdout.strip()
    return said if said.replace("-", "").isalpha() else "unknown"


def _lines(status: ServiceStatus) -> list[str]:
    stands = "not installed" if not status.installed else "installed" if status.current else "installed, and outdated"
    lines = [
        f"service: {stands} ({status.manager})",
        f"  file: {status.file}",
        f"  enabled: {status.enabled}, active: {status.active}",
    ]
    return [*lines, f"  next: {status.next}"] if status.next else lines
