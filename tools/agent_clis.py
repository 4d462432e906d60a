"""Install the agent CLIs that the real tests drive, in pinned versions, into a cache folder.

    python tools/agent_clis.py install claude codex
    python tools/agent_clis.py path claude

One folder per CLI and version, below `.cache/agent-clis` or $INTERLOCK_AGENT_CLIS. A folder with the right name is a
finished install: npm works in a folder beside it, which is renamed only after the CLI has told its version. Several
processes may ask at once; one installs, the others wait for it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.vocabulary.errors import InterlockError, PeerFault, UsageError

CHECKOUT: Final = Path(__file__).parent.parent
INSTALL_LIMIT_SECONDS: Final = 600.0
NOTICE_EVERY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Pinned:
    """One CLI at the one version that the tests know. `beside` are packages that it needs in the same folder."""

    name: str
    package: str
    version: str
    beside: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return cache_folder() / f"{self.name}-{self.version}"

    @property
    def executable(self) -> Path:
        return self.folder / "node_modules" / ".bin" / self.name

    @property
    def packages(self) -> tuple[str, ...]:
        return (f"{self.package}@{self.version}", *self.beside)


PINNED: Final = {
    pinned.name: pinned
    for pinned in (
        Pinned("claude", "@anthropic-ai/claude-code", "2.1.325"),
        Pinned("codex", "@openai/codex", "0.166.0"),
        Pinned("gemini", "@google/gemini-cli", "0.61.0"),
        # Qwen Code wants Node 22; with an older one on the PATH it is found first in the CLI's own folder.
        Pinned("qwen", "@qwen-code/qwen-code", "0.24.4", beside=("node@22.23.3",)),
    )
}


def cache_folder() -> Path:
    """Where installs live: $INTERLOCK_AGENT_CLIS, else a folder of the checkout that git does not see."""
    named = os.environ.get("INTERLOCK_AGENT_CLIS")
    return Path(named).resolve() if named else CHECKOUT / ".cache" / "agent-clis"


def install(name: str) -> Path:
    """The executable of the pinned version, installed first if it is not there. Safe to call from several processes."""
    pinned = _pinned(name)
    if pinned.executable.exists():
        return pinned.executable
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n", encoding="utf-8")
    with _lock(cache / f"{name}.lock"):
        if not pinned.executable.exists():
            _install(pinned, cache)
    return pinned.executable


def installed(name: str) -> Path:
    """The executable of the pinned version. UsageError if it has not been installed."""
    pinned = _pinned(name)
    if not pinned.executable.exists():
        raise UsageError(
            f"{name} {pinned.version} is not in {cache_folder()}",
            remedy=f"run: python tools/agent_clis.py install {name}",
        )
    return pinned.executable


def _pinned(name: str) -> Pinned:
    if name not in PINNED:
        raise UsageError(f"no agent CLI is called {name!r}", remedy=f"choose from {', '.join(PINNED)}")
    return PINNED[name]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another process that holds {path.name}")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _install(pinned: Pinned, cache: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UsageError(
            f"npm is not on the PATH, and {pinned.name} comes from its registry",
            remedy="install Node.js 20 or newer with npm, or point $INTERLOCK_AGENT_CLIS to a folder with the installs",
        )
    with tempfile.TemporaryDirectory(prefix=f".{pinned.name}-", dir=cache) as partial:
        # Without a package.json of its own, npm looks for a project in the folders above.
        Path(partial, "package.json").write_text("{}\n", encoding="utf-8")
        _run_npm([npm, "install", *pinned.packages], pinned, Path(partial))
        _check_version(Path(partial, "node_modules", ".bin", pinned.name), pinned)
        # What an older tool or a person left half done under the final name has no executable: it gives way.
        shutil.rmtree(pinned.folder, ignore_errors=True)
        Path(partial).rename(pinned.folder)
        Path(partial).mkdir()  # TemporaryDirectory removes what it made, and wants to find it.


def _run_npm(command: Sequence[str], pinned: Pinned, folder: Path) -> None:
    """Run npm to its end, and say every few seconds that it is still going."""
    # The native binary is an optional dependency, and Claude Code's is put in its place by a script.
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--include=optional", "--ignore-scripts=false"]
    label = f"{pinned.name} {pinned.version}"
    _say(f"{label}: installing {pinned.package} with npm")
    began = time.monotonic()
    with subprocess.Popen(
        [*command, *options, "--prefix", str(folder)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as npm:
        try:
            told = _await(npm, label, began)
        finally:
            npm.kill()
    if npm.returncode != 0:
        raise PeerFault(f"{label}: npm ended with code {npm.returncode}\n{told.strip()}")
    _say(f"{label}: installed in {time.monotonic() - began:.0f} s")


def _await(npm: subprocess.Popen[str], label: str, began: float) -> str:
    while True:
        try:
            return npm.communicate(timeout=NOTICE_EVERY_SECONDS)[0]
        except subprocess.TimeoutExpired:
            elapsed = time.monotonic() - began
            if elapsed > INSTALL_LIMIT_SECONDS:
                raise PeerFault(f"{label}: npm did not finish within {INSTALL_LIMIT_SECONDS:.0f} s") from None
            _say(f"{label}: {elapsed:.0f} s, npm is still working")


def _check_version(executable: Path, pinned: Pinned) -> None:
    """An install counts only once the CLI itself has named the version that was asked for."""
    path = os.pathsep.join((str(executable.parent), os.environ.get("PATH", os.defpath)))
    try:
        run = subprocess.run(
            [executable, "--version"],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as wrong:
        raise PeerFault(f"{pinned.name} {pinned.version}: installed, but it does not start: {wrong}") from wrong
    if run.returncode != 0 or pinned.version not in run.stdout:
        raise PeerFault(
            f"{pinned.name} {pinned.version}: `--version` ended with code {run.returncode}: {run.stdout}{run.stderr}"
        )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agent_clis.py", description="Pinned agent CLIs for the real tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in (("install", "install what is missing, and print each executable"), ("path", "print it")):
        one = commands.add_parser(command, help=text)
        one.add_argument("names", nargs="+", metavar="NAME", help=", ".join(PINNED))
    chosen = parser.parse_args(arguments)
    act = install if chosen.command == "install" else installed
    try:
        for name in chosen.names:
            print(act(name))
    except InterlockError as wrong:
        _say(f"error: {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
