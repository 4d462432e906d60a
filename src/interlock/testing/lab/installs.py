"""Installs agent CLIs with npm, each version into a folder of its own below a cache.

A folder with the right name is a finished install: npm works in a folder beside it, which is renamed only after the CLI
has told its version. Several processes may ask at once; one installs, the others wait for it. Which registry npm asks
is for the person's own npm settings.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from interlock.vocabulary.errors import PeerFault, UsageError

INSTALL_LIMIT_SECONDS: Final = 600.0
NOTICE_EVERY_SECONDS: Final = 5.0
_CHECKOUT: Final = Path(__file__).parents[4]


@dataclass(frozen=True, slots=True)
class CliPackage:
    """One CLI at one version. `beside` are packages that it needs in the same folder; `program` is the name of its
    executable, where that is another."""

    name: str
    package: str
    version: str
    beside: tuple[str, ...] = ()
    program: str = ""

    @property
    def folder(self) -> Path:
        return cache_folder() / f"{self.name}-{self.version}"

    @property
    def executable(self) -> Path:
        return self.folder / "node_modules" / ".bin" / self.command

    @property
    def command(self) -> str:
        return self.program or self.name

    @property
    def packages(self) -> tuple[str, ...]:
        return (f"{self.package}@{self.version}", *self.beside)

    def at(self, version: str) -> CliPackage:
        """The same CLI at another version."""
        return replace(self, version=version)


PINNED: Final = {
    one.name: one
    for one in (
        CliPackage("claude", "@anthropic-ai/claude-code", "2.1.325"),
        CliPackage("codex", "@openai/codex", "0.166.0"),
        CliPackage("gemini", "@google/gemini-cli", "0.61.0"),
        # Qwen Code wants Node 22; with an older one on the PATH it is found first in the CLI's own folder.
        CliPackage("qwen", "@qwen-code/qwen-code", "0.24.4", beside=("node@22.23.3",)),
        CliPackage("opencode", "opencode-ai", "1.18.33"),
        CliPackage("continue", "@continuedev/cli", "1.5.47", beside=("node@22.23.3",), program="cn"),
        CliPackage("copilot", "@github/copilot", "1.0.102", beside=("node@22.23.3",)),
        CliPackage("cline", "cline", "3.0.65"),
        CliPackage("droid", "droid", "0.215.0"),
        CliPackage("kimi", "@moonshot-ai/kimi-code", "2.1.0", beside=("node@22.23.3",)),
        # 0.99 and 1.x want packages that are not in npm's registry.
        CliPackage("pi", "@earendil-works/pi-coding-agent", "0.87.1", beside=("node@22.23.3",)),
    )
}
"""The versions that the tests and the tables in docs/ are made with."""


def cache_folder() -> Path:
    """Where installs live: $INTERLOCK_AGENT_CLIS; in a checkout, a folder that git ignores; else the user's cache."""
    named = os.environ.get("INTERLOCK_AGENT_CLIS")
    if named:
        return Path(named).resolve()
    if (_CHECKOUT / "pyproject.toml").exists():
        return _CHECKOUT / ".cache" / "agent-clis"
    return user_cache_folder() / "agent-clis"


def user_cache_folder() -> Path:
    """Interlock's folder in the user's cache: below $XDG_CACHE_HOME, or ~/.cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (base if base.is_absolute() else Path.home() / ".cache") / "interlock"


def install(package: CliPackage) -> Path:
    """The executable, installed first if it is not there. Safe to call from several processes."""
    if package.executable.exists():
        return package.executable
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n", encoding="utf-8")
    with _lock(cache / f"{package.name}.lock"):
        if not package.executable.exists():
            _install(package, cache)
    return package.executable


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another process that holds {path.name}")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _install(package: CliPackage, cache: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UsageError(
            f"npm is not on the PATH, and {package.name} comes from its registry",
            remedy="install Node.js 20 or newer with npm, or point $INTERLOCK_AGENT_CLIS to a folder with the installs",
        )
    with tempfile.TemporaryDirectory(prefix=f".{package.name}-", dir=cache) as partial:
        # Without a package.json of its own, npm looks for a project in the folders above.
        Path(partial, "package.json").write_text("{}\n", encoding="utf-8")
        _run_npm([npm, "install", *package.packages], package, Path(partial))
        _check_version(Path(partial, "node_modules", ".bin", package.command), package)
        # What an older tool or a person left half done under the final name has no executable: it gives way.
        shutil.rmtree(package.folder, ignore_errors=True)
        Path(partial).rename(package.folder)
        Path(partial).mkdir()  # TemporaryDirectory removes what it made, and wants to find it.


def _run_npm(command: Sequence[str], package: CliPackage, folder: Path) -> None:
    """Run npm to its end, and say every few seconds that it is still going."""
    # The native binary is an optional dependency, and Claude Code's is put in its place by a script.
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--include=optional", "--ignore-scripts=false"]
    label = f"{package.name} {package.version}"
    _say(f"{label}: installing {package.package} with npm")
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


def _check_version(executable: Path, package: CliPackage) -> None:
    """An install counts only once the CLI itself has named the version that was asked for."""
    told = ask_version(executable)
    if package.version not in told:
        raise PeerFault(f"{package.name} {package.version}: installed, but `--version` says {told.strip()!r}")


def ask_version(executable: Path) -> str:
    """What the CLI prints for `--version`. PeerFault if it does not start."""
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
        raise PeerFault(f"{executable} does not start: {wrong}") from wrong
    if run.returncode != 0:
        raise PeerFault(f"{executable} --version ended with code {run.returncode}: {run.stdout}{run.stderr}")
    return run.stdout


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
