"""Repositories to be looked at, made with plain git."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.agents.git.repository import Repository, find_repository

_PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
_NAMED = ("-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")


def git(folder: Path, *arguments: str) -> str:
    """Plain git, as a person runs it, and what it prints."""
    command = ["git", *_NAMED, *arguments]
    environment = {**os.environ, **_PLAIN}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout.decode("utf-8", "backslashreplace").strip()


def new_repository(folder: Path, **files: str) -> Repository:
    """A repository with one commit of these files; `_` in a name is a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    for name, text in (files or {"a_txt": "a\n"}).items():
        (folder / name.replace("_", ".")).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return find_repository(folder)


@contextmanager
def without_rights_of_root() -> Iterator[Path]:
    """A folder of somebody to whom permissions apply, for as long as this process is that somebody."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    finally:
        if is_root:
            os.seteuid(0)
