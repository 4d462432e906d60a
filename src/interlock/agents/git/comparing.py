"""Compares two trees that are kept, file by file and line by line. Attributes and drivers of the repository have no say
in it, so that no file can hide its changes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from interlock.agents.git.looking import decoded
from interlock.agents.git.running import Git, GitFailed

_DIFF: Final = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
_MAX_PATCH_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChange:
    """One file that differs. `change` is A, D, M or T; lines are None where they cannot be counted. `raw_path` is the
    path as it is; a mode of zeros: the file is not there."""

    path: str
    raw_path: bytes
    change: str
    before: str
    after: str
    mode_before: str
    mode_after: str
    added: int | None
    removed: int | None


def compare(objects: Git, before: str, after: str) -> tuple[TreeChange, ...]:
    """Every file in which two trees differ, by path. A rename is a deletion and an addition."""
    if before == after:
        return ()
    told = objects.run(*_DIFF, "--no-renames", "-z", "--raw", "--numstat", before, after)
    raw: dict[bytes, list[str]] = {}
    lines: dict[bytes, tuple[int | None, int | None]] = {}
    words = iter(told.split(b"\0"))
    for word in words:
        if word.startswith(b":"):
            raw[next(words)] = word[1:].decode().split(" ")
        elif word:
            added, removed, path = word.split(b"\t", 2)
            lines[path] = (_count(added), _count(removed))
    return tuple(_change(path, raw[path], lines.get(path, (None, None))) for path in sorted(raw))


def _change(path: bytes, raw: list[str], lines: tuple[int | None, int | None]) -> TreeChange:
    mode_before, mode_after, before, after, change = raw
    return TreeChange(
        path=decoded(path),
        raw_path=path,
        change=change[:1],
        before=before,
        after=after,
        mode_before=mode_before,
        mode_after=mode_after,
        added=lines[0],
        removed=lines[1],
    )


def _count(word: bytes) -> int | None:
    return int(word) if word.isdigit() else None


def patch(objects: Git, before: str, after: str) -> str:
    """The difference as a patch, with renames. Bytes that are no text are written as escapes."""
    told = objects.run(*_DIFF, "-M", "-p", "--full-index", before, after, max_bytes=_MAX_PATCH_BYTES)
    return decoded(told)


def patch_of_file(objects: Git, before: str, after: str, path: bytes) -> str:
    """The difference of one file as a patch. A rename is a deletion and an addition."""
    asked = ("--no-renames", "-p", "--full-index", before, after, "--", os.fsdecode(path))
    return decoded(objects.run(*_DIFF, *asked, max_bytes=_MAX_PATCH_BYTES))


def entry_at(objects: Git, tree: str, path: str) -> str | None:
    """The mode and id of a path in a tree; blank where the tree does not have it, None where the tree is not there."""
    if not is_kept(objects, tree):
        return None
    told = objects.run("ls-tree", "-z", tree, "--", path)
    return told.partition(b"\t")[0].decode()


def is_kept(objects: Git, tree: str) -> bool:
    """Whether the store has the tree."""
    return objects.line("cat-file", "-t", tree) == "tree"


def damage_of(objects: Git, commit: str, tree: str) -> str:
    """What is wrong with a tree that a commit is said to keep; blank: all of it is there, and is what its id says."""
    try:
        objects.run("rev-list", "--quiet", "--no-walk", "--verify-objects", commit)
    except GitFailed as error:
        return str(error)
    kept = objects.line("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
    return "" if kept == tree else f"commit {commit} keeps another tree"
