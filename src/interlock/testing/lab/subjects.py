"""Finds the CLI that a lab is asked for: `claude`, `claude@2.1.300`, or a program that is there already."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interlock.testing.lab.installs import PINNED, ask_version, install
from interlock.testing.lab.recipes import RECIPES
from interlock.testing.lab.run import Subject
from interlock.testing.lab.sizes import USUAL_SIZE, TerminalSize
from interlock.testing.lab.store import profile_digest
from interlock.vocabulary.errors import PeerFault, UsageError

ALL: Final = "all"
_VERSION: Final = re.compile(r"\d+\.\d+[\w.+-]*")
_PACKAGE_VERSION: Final = re.compile(r"\d+(\.\d+){1,3}[0-9A-Za-z.+-]*")


def names_of(asked: Sequence[str]) -> list[str]:
    """The CLIs that were asked for, each once. `all` is every pinned one."""
    if not asked:
        raise UsageError("name a CLI", remedy=f"choose from {', '.join(RECIPES)}, or `{ALL}`")
    named = [one for name in asked for one in ([cli for cli in PINNED if cli in RECIPES] if name == ALL else [name])]
    return list(dict.fromkeys(named))


def find_subject(name: str, executable: Path | None = None, size: TerminalSize = USUAL_SIZE) -> Subject:
    """The CLI with its program: `executable`, or the version of its package, which is installed first if need be."""
    cli, _, version = name.partition("@")
    if cli not in RECIPES:
        raise UsageError(f"the lab knows no CLI {cli!r}", remedy=f"choose from {', '.join(RECIPES)}")
    recipe = RECIPES[cli]
    if executable is not None:
        return Subject(recipe, executable.absolute(), _told_version(executable), profile_digest(cli), size)
    if version and not _PACKAGE_VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is no version", remedy=f"give it in full, such as {cli}@{recipe.version}")
    if cli not in PINNED:  # the scripted agent is a part of Interlock
        return Subject(recipe, Path(sys.executable), recipe.version, profile_digest(cli), size)
    package = PINNED[cli].at(version) if version else PINNED[cli]
    return Subject(recipe, install(package), package.version, profile_digest(cli), size)


def _told_version(executable: Path) -> str:
    if not executable.exists():
        raise UsageError(f"there is no program {executable}", remedy="check its path")
    told = ask_version(executable.absolute())
    found = _VERSION.search(told)
    if found is None:
        raise PeerFault(f"{executable} --version names no version: {told.strip()!r}")
    return found[0]
