"""Lets go of what was kept for sessions that are over: refs below `refs/interlock/`, and folders of the attic.

Laws:
1. Only what a proof names goes: a ref whose session was purged, or whose files are all in a commit that a branch, a
   remote branch or a tag keeps; a folder of the attic whose every file is in the source, byte for byte.
2. What removals set aside (`refs/interlock/removed/`) goes by its content alone, never because its session is gone.
3. The journal has what goes, and why, before it goes. A ref goes only while it is where the proof saw it, so that
   `git update-ref REF COMMIT` of the journal brings it back until git collects its objects.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.git.running import GitFailed
from interlock.agents.git.worktree_state import keepers_of
from interlock.agents.git.worktrees import common_git

JOURNAL: Final = "pruned.jsonl"
_SESSIONS: Final = "refs/interlock/sessions/"
_GOING: Final = ".going-"
_BRANCHES: Final = ("refs/heads", "refs/remotes", "refs/tags")


@dataclass(frozen=True, slots=True)
class KeptRef:
    """One ref that keeps something for a session."""

    common: Path
    name: str
    object_id: str


def kept_refs(common: Path) -> tuple[KeptRef, ...]:
    """Every ref of ours in a repository; none where it is not there any more."""
    try:
        told = common_git(common).run("for-each-ref", "--format=%(objectname) %(refname)", "refs/interlock")
    except GitFailed:
        return ()
    lines = (line.partition(" ") for line in told.decode("utf-8", "surrogateescape").splitlines())
    return tuple(KeptRef(common, name, object_id) for object_id, _, name in lines)


def proof_of(ref: KeptRef, *, is_purged: bool, merges: Sequence[tuple[str, str]] = ()) -> str:
    """Why nothing is lost with a ref; blank: that is not known. `merges`: commits, each with what it was merged as."""
    if is_purged and ref.name.startswith(_SESSIONS):
        return "its session was purged"
    git = common_git(ref.common)
    if git.line("cat-file", "-t", ref.object_id) == "commit":
        keepers = keepers_of(ref.common, ref.object_id)
        if keepers:
            return f"its commit is in {keepers[0]}"
    tree = git.line("rev-parse", "--verify", "--quiet", f"{ref.object_id}^{{tree}}")
    for line in git.run("for-each-ref", "--format=%(tree) %(refname)", *_BRANCHES).decode().splitlines():
        if tree and line.startswith(f"{tree} "):
            return f"its files are those of {line.partition(' ')[2]}"
    for head, merged_as in merges:
        is_same = bool(tree and head) and git.line("rev-parse", "--verify", "--quiet", f"{head}^{{tree}}") == tree
        keepers = keepers_of(ref.common, merged_as) if is_same and merged_as else ()
        if keepers:
            return f"its files were merged as {merged_as[:12]}, which is in {keepers[0]}"
    return ""


def prune_ref(ref: KeptRef, journal: Path, session_id: str, why: str) -> None:
    """Delete a ref after it is in the journal. `GitFailed` where it moved meanwhile."""
    told = {"repository": str(ref.common), "ref": ref.name, "commit": ref.object_id}
    _write_down(journal, {"what": "ref", "session_id": session_id, "why": why, **told})
    common_git(ref.common).run("update-ref", "--no-deref", "-d", ref.name, ref.object_id)


def attic_folders(attic: Path) -> tuple[Path, ...]:
    """What was set aside, folder by folder; one that was about to go counts under its name."""
    try:
        found = sorted(attic.iterdir())
    except OSError:
        return ()
    return tuple(one.with_name(one.name.removeprefix(_GOING)) for one in found if one.is_dir() and not one.is_symlink())


def attic_loss(folder: Path, source: Path) -> str:
    """A file of a folder of the attic that the source does not have; blank: it has them all, byte for byte."""
    place = folder if folder.is_dir() else folder.with_name(f"{_GOING}{folder.name}")
    return next(_differing(place, source), "")


def _differing(place: Path, source: Path) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise error

    try:
        for here, folders, files in os.walk(place, onerror=refuse):
            for name in (*files, *(one for one in folders if Path(here, one).is_symlink())):
                path = Path(here, name).relative_to(place)
                if not _is_same_file(place / path, source / path):
                    yield str(path)
    except OSError as error:
        yield str(error)


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        kinds = [(found.st_size, found.st_mode) for found in (one.lstat(), other.lstat())]
        return stat.S_ISREG(kinds[0][1]) and kinds[0] == kinds[1] and one.read_bytes() == other.read_bytes()
    except OSError:
        return False


def prune_attic(folder: Path, source: Path, journal: Path, session_id: str) -> bool:
    """Delete a folder of the attic after it is in the journal, if it still holds nothing of its own. Safe again."""
    going = folder.with_name(f"{_GOING}{folder.name}")
    told = {"what": "attic", "session_id": session_id, "folder": str(folder), "source": str(source)}
    _write_down(journal, {**told, "why": "every file of it is in the source"})
    if folder.is_dir() and not going.exists():
        folder.rename(going)
    if attic_loss(going, source):
        going.rename(folder)
        return False
    shutil.rmtree(going)
    return True


def _write_down(journal: Path, told: dict[str, str]) -> None:
    """Append a line that is on disk before anything follows."""
    journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, (json.dumps(told, ensure_ascii=True) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
