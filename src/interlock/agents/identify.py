"""Which CLI runs in a pane, and which version it says it is."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.log.host import host
from interlock.screen.profile import Profile
from interlock.screen.selection import detect_cli
from interlock.screen.snapshot import Snapshot

_VERSION_WITHIN_SECONDS: Final = 10.0
_MAX_OUTPUT: Final = 4096
# What stands before the program's own name in a command line, perhaps with options of its own. What stands behind an
# option of a shell is a command and no program.
_RUNNERS: Final = ("node", "bun", "deno", "env", "python", "uv", "npx")
_SHELLS: Final = ("sh", "bash")
_MAX_WORDS: Final = 8
# `interlock debug shim ... -- CMD` has the pane's terminal itself; the program has one of its own, inside.
_SHIM: Final = "shim"


@dataclass(frozen=True, slots=True)
class Identified:
    """What a pane runs. `argv` starts the program itself; None where only its screen gave it away."""

    cli: str
    argv: tuple[str, ...] | None = None


def identify(profiles: Sequence[Profile], pane_pid: int, snapshot: Snapshot) -> Identified | None:
    """The CLI in a pane, by the program in its foreground, else by its screen. None where neither tells."""
    for argv in (foreground_argv(pane_pid), (snapshot.command,) if snapshot.command else None):
        found = _by_argv(profiles, argv) if argv else None
        if found is not None:
            return found
    cli = detect_cli(profiles, snapshot)
    return None if cli is None else Identified(cli)


def foreground_argv(pane_pid: int) -> tuple[str, ...] | None:
    """The command line of the process group that has the pane's terminal. None where the system does not tell."""
    system = host()
    leader = system.foreground_group(pane_pid)
    return None if leader is None else system.argv(leader)


async def ask_version(identified: Identified, profiles: Sequence[Profile]) -> str | None:
    """Ask the program itself, with `--version`. None where it does not say, or not in time."""
    if identified.argv is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            *identified.argv,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_VERSION_WITHIN_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it leads a session of its own: its children too
            await process.wait()
    return version_in(output[:_MAX_OUTPUT].decode("utf-8", "replace"), identified.cli, profiles)


def version_in(text: str, cli: str, profiles: Sequence[Profile]) -> str | None:
    """The version in what a program printed, by the pattern of its profile."""
    for profile in profiles:
        found = profile.version_pattern.search(text) if profile.cli == cli and profile.version_pattern else None
        if found is not None:
            return found[1] if found.re.groups else found[0]
    return None


def _by_argv(profiles: Sequence[Profile], argv: Sequence[str]) -> Identified | None:
    """The program may stand behind our shim, or a runner and its options, as in `node --flag .../bin/codex.js`."""
    if "--" in argv and _SHIM in argv[: (end := argv.index("--"))]:
        argv = argv[end + 1 :]
    takes_options = False
    for number, word in enumerate(argv[:_MAX_WORDS]):
        if takes_options and word.startswith("-"):
            continue
        name = Path(word).name
        stem = name.removesuffix(".js").removesuffix(".exe").removesuffix(".mjs")
        for profile in profiles:
            if stem in profile.executables:
                return Identified(profile.cli, tuple(argv[: number + 1]))
        runner = stem.rstrip("0123456789.")
        if runner not in _RUNNERS and runner not in _SHELLS:
            return None
        takes_options = runner in _RUNNERS
    return None
