"""Installing our hooks into an agent's settings, looking at them, and taking them out again.

Laws:
1. Installing twice is installing once. What the user has stays, byte for byte, and stays first.
2. A file that cannot be read as its agent reads it is refused, and nothing is written anywhere.
3. Uninstalling restores the bytes from before if nothing else was changed since; else it takes out ours alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from interlock.agents.evidence import claude_settings, codex_settings
from interlock.agents.evidence.hook_command import hook_command
from interlock.agents.evidence.settings_file import (
    SettingsFile,
    keep_backup,
    read_backup,
    read_settings,
    write_settings,
)
from interlock.vocabulary.errors import UsageError


class HookedCli(StrEnum):
    """The agents whose hooks we know."""

    CLAUDE = "claude"
    CODEX = "codex"


class Installation(StrEnum):
    """How our hooks stand. `outdated`: of another version or place of Interlock, or not for every event."""

    INSTALLED = "installed"
    OUTDATED = "outdated"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class HookStatus:
    """How the hooks of one agent stand. `has_changed`: the call that gave this wrote the file."""

    cli: HookedCli
    file: Path
    installation: Installation
    events: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    backup: Path | None = None
    notes: tuple[str, ...] = ()
    has_changed: bool = False


class _Text(Protocol):
    """How our hooks are written in one kind of settings: a module of pure functions over its text."""

    @property
    def EVENTS(self) -> tuple[str, ...]: ...

    def with_hooks(self, data: bytes, command: str) -> bytes: ...
    def without_hooks(self, data: bytes) -> bytes: ...
    def installed_in(self, data: bytes) -> dict[str, str]: ...
    def notes_on(self, data: bytes) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class _Format:
    """Where an agent keeps its settings, how our hooks are written there, and what a file without any looks like."""

    folder_variable: str
    folder: str
    name: str
    text: _Text
    empty: bytes


_FORMATS: Final[Mapping[HookedCli, _Format]] = {
    HookedCli.CLAUDE: _Format("CLAUDE_CONFIG_DIR", ".claude", "settings.json", claude_settings, b"{}\n"),
    HookedCli.CODEX: _Format("CODEX_HOME", ".codex", "config.toml", codex_settings, b""),
}


def settings_path(cli: HookedCli, config_dir: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The settings file of the folder that is named, or of the one that the agent itself would use."""
    form = _FORMATS[cli]
    named = environ.get(form.folder_variable)
    folder = config_dir or (Path(named) if named else Path.home() / form.folder)
    return folder / form.name


def hook_status(cli: HookedCli, path: Path) -> HookStatus:
    """How our hooks stand in this file."""
    return _status(cli, read_settings(path))


def install_hooks(cli: HookedCli, path: Path) -> HookStatus:
    """Put our hooks in. `UsageError` if the file cannot be changed safely; then nothing was written."""
    text, file = _FORMATS[cli].text, read_settings(path)
    with _naming(file):
        after = text.with_hooks(file.content, hook_command(cli))
        is_update = bool(text.installed_in(file.content))
    if after == file.content:
        return _status(cli, file)
    if not is_update:
        keep_backup(file)  # an update keeps the backup of what was there before us
    write_settings(file, after)
    return _status(cli, read_settings(path), has_changed=True)


def uninstall_hooks(cli: HookedCli, path: Path) -> HookStatus:
    """Take our hooks out, and the backup with them if it says nothing more than the file."""
    form, file = _FORMATS[cli], read_settings(path)
    kept = read_backup(file)
    with _naming(file):
        ours = form.text.installed_in(file.content)
        without = form.text.without_hooks(file.content)
    if not ours:
        return _status(cli, file)
    if kept is not None and _is_ours_over(form.text, kept, file.content, next(iter(ours.values()))):
        without = kept
    # Without a backup there was no file before us.
    write_settings(file, None if kept is None and without == form.empty else without)
    if kept == without:
        file.backup.unlink(missing_ok=True)
    return _status(cli, read_settings(path), has_changed=True)


@contextmanager
def _naming(file: SettingsFile) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{file.path}: {error}") from error


def _is_ours_over(text: _Text, kept: bytes, current: bytes, command: str) -> bool:
    """Whether the file is the backup with our hooks and nothing else."""
    try:
        return not text.installed_in(kept) and text.with_hooks(kept, command) == current
    except UsageError:
        return False


def _status(cli: HookedCli, file: SettingsFile, *, has_changed: bool = False) -> HookStatus:
    text = _FORMATS[cli].text
    with _naming(file):
        ours, notes = text.installed_in(file.content), text.notes_on(file.content)
    missing = tuple(event for event in text.EVENTS if event not in ours)
    is_current = not missing and set(ours.values()) == {hook_command(cli)}
    return HookStatus(
        cli=cli,
        file=file.path,
        installation=Installation.INSTALLED if is_current else Installation.OUTDATED if ours else Installation.ABSENT,
        events=tuple(event for event in text.EVENTS if event in ours),
        missing=missing,
        backup=file.backup if file.backup.exists() else None,
        notes=tuple(notes),
        has_changed=has_changed,
    )
