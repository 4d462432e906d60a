"""Install the agent CLIs that the real tests drive, in pinned versions, into a cache folder.

    python tools/agent_clis.py install claude codex
    python tools/agent_clis.py path claude

One folder per CLI and version, below `.cache/agent-clis` or $INTERLOCK_AGENT_CLIS: `interlock.testing.lab.installs`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.testing.lab import installs
from interlock.testing.lab.installs import PINNED, CliPackage, cache_folder
from interlock.vocabulary.errors import InterlockError, UsageError


def install(name: str) -> Path:
    """The executable of the pinned version, installed first if it is not there. Safe to call from several processes."""
    return installs.install(_pinned(name))


def installed(name: str) -> Path:
    """The executable of the pinned version. UsageError if it has not been installed."""
    pinned = _pinned(name)
    if not pinned.executable.exists():
        raise UsageError(
            f"{name} {pinned.version} is not in {cache_folder()}",
            remedy=f"run: python tools/agent_clis.py install {name}",
        )
    return pinned.executable


def _pinned(name: str) -> CliPackage:
    if name not in PINNED:
        raise UsageError(f"no agent CLI is called {name!r}", remedy=f"choose from {', '.join(PINNED)}")
    return PINNED[name]


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
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
