"""The built-in tools: read, write, edit, search, shell, confined to a workspace as far as their modules say."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from interlock.agents.model.tools.shell import run_command
from interlock.agents.model.tools.tool import Arguments, Tool, ToolFailure, tool_from
from interlock.agents.model.tools.workspace import Workspace
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import SpawnId

NAMES: Final = ("read", "write", "edit", "search", "shell")
DEFAULT_RULES: Final = ("allow read", "allow search")
SHELL_TIMEOUT_SECONDS: Final = 120.0
MAX_SHELL_SECONDS: Final = 3600.0
MAX_MATCHES: Final = 200
MAX_SEARCHED_FILES: Final = 20_000
_MAX_MATCH_CHARACTERS: Final = 300
_SKIPPED_FOLDERS: Final = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__"})

Line = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0, le=MAX_SHELL_SECONDS)]


def builtin_tools(workspace: Workspace, *, spawn_id: SpawnId, environment: Mapping[str, str]) -> tuple[Tool, ...]:
    """All five, by the names in `NAMES`."""
    by_path = _path_settler(workspace)
    files = _FileTools(workspace)

    async def shell(command: str | list[str], timeout_seconds: Seconds = SHELL_TIMEOUT_SECONDS) -> Json:
        """Run a command in the workspace: a line of shell, or a program with its arguments as a list."""
        line = command if isinstance(command, str) else shlex.join(command)
        if "\0" in line or not line.strip():
            raise ToolFailure("bad_command", "a command is not empty and holds no NUL")
        ran = await run_command(
            line, cwd=str(workspace.root), environment=environment, spawn_id=spawn_id, timeout_seconds=timeout_seconds
        )
        if ran.code is None:
            raise ToolFailure("tool_timeout", f"over {timeout_seconds:g} s; it was ended", ran.output)
        if ran.code != 0:
            raise ToolFailure("exit_code", f"exit code {ran.code}", ran.output)
        return ran.output

    def may_write(given: Arguments) -> PermissionBehavior:
        return workspace.may_write(str(given["path"]))

    return (
        tool_from(files.read, settle_arguments=by_path),
        tool_from(files.write, settle_arguments=by_path, gate=may_write),
        tool_from(files.edit, settle_arguments=by_path, gate=may_write),
        tool_from(files.search, settle_arguments=by_path),
        # Its own time is in the arguments; beyond the longest of those something is wrong with us.
        tool_from(shell, timeout_seconds=MAX_SHELL_SECONDS + 60.0, settle_arguments=_settle_shell),
    )


def _path_settler(workspace: Workspace) -> Callable[[Arguments], Arguments]:
    return lambda given: {**given, "path": workspace.settle_path(str(given.get("path", ".")))}


def _settle_shell(given: Arguments) -> Arguments:
    """One form for rules to match: a line of shell."""
    command = given["command"]
    if isinstance(command, list):
        return {**given, "command": shlex.join(str(word) for word in command)}
    return given


class _FileTools:
    """The tools on files. Paths reach them in their one form, relative to the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def read(self, path: str, from_line: Line = 1, max_lines: Line = 2000) -> str:
        """Read a text file of the workspace, or some of its lines."""
        lines = self._workspace.read(path).splitlines(keepends=True)
        return "".join(lines[from_line - 1 : from_line - 1 + max_lines])

    def write(self, path: str, text: str) -> str:
        """Write a text file of the workspace, whole. Folders are made as needed."""
        size = self._workspace.write(path, text)
        return f"wrote {size} bytes to {path}"

    def edit(self, path: str, old: str, new: str, replace_all: bool = False) -> str:
        """Replace text in a file. `old` must stand there exactly once, unless `replace_all` is set."""
        text = self._workspace.read(path)
        count = text.count(old) if old else 0
        if count == 0:
            raise ToolFailure("no_match", f"{path!r} does not hold the old text")
        if count > 1 and not replace_all:
            raise ToolFailure("many_matches", f"{path!r} holds the old text {count} times; give more of its context")
        self._workspace.write(path, text.replace(old, new))
        return f"replaced {count} in {path}"

    def search(self, text: str, path: str = ".", glob: str = "*") -> str:
        """Find lines that hold a text, in the files of a folder whose names match a glob. Case matters."""
        if not text:
            raise ToolFailure("bad_pattern", "there is no text to search for")
        found: list[str] = []
        for name in self._files(path, glob):
            found += self._matches(name, text)
            if len(found) >= MAX_MATCHES:
                return "\n".join([*found[:MAX_MATCHES], f"[only the first {MAX_MATCHES} matches]"])
        return "\n".join(found) or "no match"

    def _files(self, path: str, glob: str) -> Iterator[str]:
        """Plain files below a folder, in order, at most so many. Links are not followed."""
        root = self._workspace.root
        if (root / path).is_file():
            yield path
            return
        count = 0
        for folder, folders, files in os.walk(root / path):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
            for name in sorted(files):
                full = Path(folder, name)
                if fnmatch(name, glob) and not full.is_symlink():
                    count += 1
                    if count > MAX_SEARCHED_FILES:
                        return
                    yield str(full.relative_to(root))

    def _matches(self, name: str, text: str) -> list[str]:
        try:
            lines = self._workspace.read(name).splitlines()
        except ToolFailure:
            return []  # too large, not text, or gone
        return [
            f"{name}:{number}: {line[:_MAX_MATCH_CHARACTERS]}" for number, line in enumerate(lines, 1) if text in line
        ]
