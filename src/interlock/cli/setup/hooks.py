"""`interlock hooks`: let an agent tell us what it does, through its own hooks."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from interlock.agents.evidence.hook_settings import (
    HookedCli,
    HookStatus,
    Installation,
    hook_status,
    install_hooks,
    settings_path,
    uninstall_hooks,
)
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import JsonFlag

_ACTIONS: Final = {"install": install_hooks, "status": hook_status, "uninstall": uninstall_hooks}


class ShownHooks(Struct, frozen=True):
    """How the hooks of an agent stand, as `hooks --json` prints it."""

    cli: str
    file: str
    installation: str
    events: tuple[str, ...]
    missing: tuple[str, ...]
    backup: str | None
    notes: tuple[str, ...]
    changed: bool


def hooks(
    action: Literal["install", "status", "uninstall"],
    cli: Literal["claude", "codex"],
    *,
    config_dir: Path | None = None,
    json: JsonFlag = False,
) -> int:
    """Put our hooks into an agent's settings, look at them, or take them out again.

    What is there stays as it is; a copy from before is kept beside the file. Exit code 1 of `status`: not installed.

    Parameters
    ----------
    action
        What to do.
    cli
        The agent.
    config_dir
        The folder of its settings; else CLAUDE_CONFIG_DIR or ~/.claude, CODEX_HOME or ~/.codex.
    """
    agent = HookedCli(cli)
    path = settings_path(agent, config_dir)
    status = _ACTIONS[action](agent, path)
    if json:
        output.print_json(_shown(status))
    else:
        output.print_text("\n".join(_lines(status)))
    is_missing = action == "status" and status.installation is not Installation.INSTALLED
    return ExitCode.FAILED if is_missing else ExitCode.COMPLETED


def _shown(status: HookStatus) -> ShownHooks:
    return ShownHooks(
        cli=status.cli.value,
        file=str(status.file),
        installation=status.installation.value,
        events=status.events,
        missing=status.missing,
        backup=None if status.backup is None else str(status.backup),
        notes=status.notes,
        changed=status.has_changed,
    )


def _lines(status: HookStatus) -> list[str]:
    change = "changed" if status.has_changed else "unchanged"
    lines = [f"{status.cli.value}: hooks {status.installation.value}; {status.file} {change}"]
    if status.events:
        lines.append(f"  reports: {', '.join(status.events)}")
    if status.events and status.missing:
        lines.append(f"  does not report: {', '.join(status.missing)}")
    if status.backup is not None:
        lines.append(f"  as it was before: {status.backup}")
    return lines + [f"  note: {note}" for note in status.notes]
