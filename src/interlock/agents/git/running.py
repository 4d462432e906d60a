"""Runs git with a fixed environment, a deadline and a bound on what it may print.

Laws:
1. What a repository, or whoever started us, configures runs nothing: no hook, no fsmonitor, no pager, no editor, no
   credential helper, no transport, no signature. Commands that would run a filter or a diff driver are not for a
   repository at all: they are run by a neutral git directory (`repository.py`), which has no such thing.
2. Every call ends: by itself, at its deadline, or when it printed more than it may. Then its whole process group ends.
3. Nothing of ours is asked on a terminal, and nothing is fetched.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from interlock.vocabulary.errors import PeerFault

CALL_SECONDS: Final = 60.0
MAX_OUTPUT_BYTES: Final = 64 * 1024 * 1024
_MAX_ERROR_BYTES: Final = 4096
_MOST_LINES: Final = 3
_CHUNK: Final = 1 << 16
_PASSED_ON: Final = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR")

_FIXED: Final = {
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # a promisor remote may name a command (`ext::`), and so may ssh's configuration
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
}
_OVERRIDES: Final = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    f"core.attributesFile={os.devnull}",
    "core.untrackedCache=false",
    "core.sshCommand=false",
    "core.alternateRefsCommand=",
    "core.logAllRefUpdates=false",
    "credential.helper=",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
)


class GitFailed(PeerFault):
    """Git refused, hung, printed too much, or is not there. The message is its own last words."""


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one folder, with what is added to its environment."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self,
        *arguments: str,
        stdin: IO[bytes] | None = None,
        seconds: float = CALL_SECONDS,
        max_bytes: int = MAX_OUTPUT_BYTES,
        settings: tuple[str, ...] = (),
    ) -> bytes:
        """What the command prints. `GitFailed` where it fails, for whatever reason."""
        return self.run_warned(*arguments, stdin=stdin, seconds=seconds, max_bytes=max_bytes, settings=settings)[0]

    def run_warned(
        self,
        *arguments: str,
        stdin: IO[bytes] | None = None,
        seconds: float = CALL_SECONDS,
        max_bytes: int = MAX_OUTPUT_BYTES,
        settings: tuple[str, ...] = (),
    ) -> tuple[bytes, str]:
        """What the command prints, and the last of what it warned of."""
        code, printed, said = _call(self._command(arguments, settings), self, stdin, seconds, max_bytes)
        if code != 0:
            raise GitFailed(f"git {arguments[0]} failed with {code}: {_last_words(said)}")
        return printed, said

    def ask(self, *arguments: str) -> tuple[int, bytes]:
        """The exit code with what the command prints, for one that answers by its code."""
        code, printed, _ = _call(self._command(arguments, ()), self, None, CALL_SECONDS, MAX_OUTPUT_BYTES)
        return code, printed

    def line(self, *arguments: str) -> str:
        """The one line that the command prints, without its end; blank where it fails or prints nothing."""
        try:
            return self.run(*arguments).decode("utf-8", "surrogateescape").removesuffix("\n")
        except GitFailed:
            return ""

    def _command(self, arguments: tuple[str, ...], settings: tuple[str, ...]) -> list[str]:
        given = [word for one in (*_OVERRIDES, *settings) for word in ("-c", one)]
        return ["git", "--no-pager", "--literal-pathspecs", *given, *arguments]

    def full_environment(self) -> dict[str, str]:
        """Nothing of ours but what finds programs and the user's own list of ignored files."""
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return {**passed, **_FIXED, **self.environment}


def _last_words(said: str) -> str:
    """The last lines of what git said, in one. It may complain of every file."""
    lines = [line for line in said.splitlines() if line]
    return ", ".join((*(("...",) if len(lines) > _MOST_LINES else ()), *lines[-_MOST_LINES:])) or "it says nothing"


def _call(
    command: list[str], git: Git, stdin: IO[bytes] | None, seconds: float, max_bytes: int
) -> tuple[int, bytes, str]:
    try:
        process = subprocess.Popen(
            command,
            cwd=git.folder,
            env=git.full_environment(),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise GitFailed(f"git cannot be run: {error}") from error
    try:
        with process:
            try:
                printed, said = _read(process, time.monotonic() + seconds, max_bytes)
                code = process.wait(1.0 if seconds <= 0 else seconds)
            finally:
                _end_group(process)
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git was ended: it took more than {seconds:g} s") from error
    return code, printed, said.decode("utf-8", "replace").strip()


def _read(process: subprocess.Popen[bytes], until: float, max_bytes: int) -> tuple[bytes, bytes]:
    """Standard output, and the last words of standard error."""
    assert process.stdout is not None
    assert process.stderr is not None
    printed, said = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ, printed)
        waiting.register(process.stderr, selectors.EVENT_READ, said)
        while waiting.get_map():
            left = until - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, 0)
            for key, _ in waiting.select(left):
                piece = os.read(key.fd, _CHUNK)
                if not piece:
                    waiting.unregister(key.fileobj)
                key.data.extend(piece)
            del said[:-_MAX_ERROR_BYTES]
            if len(printed) > max_bytes:
                raise GitFailed(f"git was ended: it printed more than {max_bytes} bytes")
    return bytes(printed), bytes(said)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Whatever git started ends with it. The group is there as long as git was not waited for."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
