"""A folder that file tools cannot leave.

Laws:
1. A path is first brought into its one form: relative to the folder, links followed, no `..`. Rules see that form only.
2. A path whose form lies outside the folder is refused, whether by `..`, by an absolute path or through a link.
3. A file is opened step by step without following a link, so that one put there meanwhile is refused as well.
4. Only plain files are read and written; what is written replaces the file whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from interlock.agents.model.tools.tool import ToolFailure
from interlock.lifecycle.decisions.permissions import Rule, decide, parse_rule
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import PermissionBehavior

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Workspace:
    """One folder. `write_policy` is a list such as `deny *.env`, `ask src/*`: see
    `lifecycle/decisions/permissions.py`."""

    def __init__(self, root: str, write_policy: Sequence[str] = (), max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self.root = Path(os.path.realpath(root))
        self.max_file_bytes = max_file_bytes
        if not self.root.is_dir():
            raise UsageError(f"there is no folder {root!r}", remedy="name one that exists")
        self._policy: tuple[Rule, ...] = tuple(_policy_rule(line) for line in write_policy)

    def settle_path(self, path: str) -> str:
        """The one form of a path, `.` for the folder itself. `ToolFailure` if it leads out."""
        if "\0" in path:
            raise ToolFailure("bad_path", "a path holds no NUL")
        real = Path(os.path.realpath(self.root / path))
        if not real.is_relative_to(self.root):
            raise ToolFailure("outside_workspace", f"{path!r} is outside the workspace")
        return str(real.relative_to(self.root))

    def may_write(self, settled: str) -> PermissionBehavior:
        """What the write policy says of a path in its one form. Without a rule for it, it has nothing against it."""
        verdict = decide(self._policy, settled, None, "path")
        return PermissionBehavior.ALLOW if verdict.rule is None else verdict.behavior

    def read(self, settled: str) -> str:
        """The text of a file."""
        with self._folder_of(settled) as (folder, name):
            try:
                handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
            except OSError as wrong:
                raise _failed(settled, wrong) from wrong
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise ToolFailure("not_a_file", f"{settled!r} is not a plain file")
        with os.fdopen(handle, "rb") as file:
            data = file.read(self.max_file_bytes + 1)
        if len(data) > self.max_file_bytes:
            raise ToolFailure("too_large", f"{settled!r} has more than {self.max_file_bytes} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError as wrong:
            raise ToolFailure("not_text", f"{settled!r} is not UTF-8 text") from wrong

    def write(self, settled: str, text: str) -> int:
        """Replace or make a file, and the folders above it; give its size in bytes."""
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > self.max_file_bytes:
            raise ToolFailure("too_large", f"{len(data)} bytes are more than {self.max_file_bytes}")
        with self._folder_of(settled, makes_folders=True) as (folder, name):
            try:
                self._replace(folder, name, data)
            except OSError as wrong:
                raise _failed(settled, wrong) from wrong
        return len(data)

    def _replace(self, folder: int, name: str, data: bytes) -> None:
        mode = None
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise ToolFailure("not_a_file", f"{name!r} is not a plain file")
            mode = stat.S_IMODE(status.st_mode)
        new = f".{name[:100]}.{secrets.token_hex(4)}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(new, flags, 0o666, dir_fd=folder), "wb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                file.write(data)
            os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new, dir_fd=folder)

    @contextlib.contextmanager
    def _folder_of(self, settled: str, *, makes_folders: bool = False) -> Iterator[tuple[int, str]]:
        """The folder of a file, opened without following a link, and the file's name in it."""
        *above, name = Path(settled).parts or ("",)
        if Path(settled).is_absolute() or ".." in above or name in ("", ".", ".."):
            raise ToolFailure("not_a_file", f"{settled!r} is not the name of a file")
        folder = os.open(self.root, _FOLDER)
        try:
            for part in above:
                if makes_folders:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                below = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder, name
        except OSError as wrong:
            raise _failed(settled, wrong) from wrong
        finally:
            os.close(folder)


def _failed(settled: str, wrong: OSError) -> ToolFailure:
    kind = "not_found" if isinstance(wrong, FileNotFoundError) else "file_error"
    return ToolFailure(kind, f"{settled!r}: {wrong.strerror or wrong}")


def _policy_rule(line: str) -> Rule:
    rule = parse_rule(line)
    if rule.fields or rule.is_closed:
        raise UsageError(f"the write policy {line!r} has arguments", remedy="write it like `deny secrets/*`")
    return rule
