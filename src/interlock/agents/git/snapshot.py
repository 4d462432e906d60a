"""Keeps a work tree as it is, as a commit of its own chain: the user's index, branches and stash stay as they are.

Laws:
1. A tree counts as kept when a ref leads to it, and not before. The ref is below `refs/interlock/`, one a session, and
   each snapshot is the child of the one before it, so that no tree can be collected while its ref is there.
2. What is found missing in the store (somebody pruned it) is written again; a snapshot never rests on a hope.
3. Nothing is guessed: a snapshot that fails says why, and has no tree.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import IO, Final

from interlock.agents.git.looking import KeptFile, Look, Looker, LookLimits
from interlock.agents.git.repository import Repository
from interlock.agents.git.running import Git, GitFailed

_MAX_TREES: Final = 8
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_IMPORT: Final = ("fast-import", "--quiet", "--force", "--date-format=now")
_BRANCH: Final = b"refs/heads/snapshot"
_DURABLE: Final = ("core.fsync=committed",)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSnapshot:
    """A tree that is kept. `changed_after`: files that changed after the moment that was asked about."""

    tree: str
    commit: str
    head: str
    branch: str
    not_kept: Mapping[bytes, str] = field(default_factory=dict)
    changed_after: tuple[bytes, ...] = ()


@dataclass(slots=True)
class _Known:
    """What the last look at a work tree found, and the tree that was made of it."""

    tree: str = ""
    files: dict[bytes, KeptFile] = field(default_factory=dict)


def ref_of(session_id: str) -> str:
    """The ref that keeps the snapshots of a session."""
    plain = _UNFIT.sub("-", session_id)
    mark = "" if plain == session_id else "-" + hashlib.sha256(session_id.encode()).hexdigest()[:8]
    return f"refs/interlock/sessions/{plain}{mark}"


class TreeSnapshots:
    """Takes snapshots of work trees. What it remembers of each makes the next one cheap, and decides nothing."""

    def __init__(self, limits: LookLimits | None = None) -> None:
        self._limits = limits or LookLimits()
        self._known: OrderedDict[Path, _Known] = OrderedDict()
        self._guard = Lock()
        self._taking: defaultdict[Path, Lock] = defaultdict(Lock)
        self._is_closed = Event()

    def take(self, repository: Repository, ref: str, *, message: str = "", since_ns: int | None = None) -> TreeSnapshot:
        """Keep the tree as it is now. `GitFailed`, `TooMuch` or `OSError` where that is not possible. `since_ns`: files
        that changed after it are told."""
        with self._guard:
            taking = self._taking[repository.root]
        with taking:
            with self._guard:
                known = self._known.pop(repository.root, None)
            attempt = _Attempt(repository, ref, message, since_ns, self._limits, self._is_closed.is_set)
            try:
                taken, now_known = attempt.take(known or _Known(), trusts_index=known is None)
            except GitFailed:  # perhaps objects that we rest on are gone: once more, and everything is written
                taken, now_known = attempt.take(_Known(), trusts_index=False)
            with self._guard:
                self._known[repository.root] = now_known
                while len(self._known) > _MAX_TREES:
                    self._known.popitem(last=False)
            return taken

    def close(self) -> None:
        """Have what is being taken given up."""
        self._is_closed.set()


@dataclass(frozen=True, slots=True)
class _Attempt:
    repository: Repository
    ref: str
    message: str
    since_ns: int | None
    limits: LookLimits
    is_closed: Callable[[], bool]

    def take(self, known: _Known, *, trusts_index: bool) -> tuple[TreeSnapshot, _Known]:
        repository = self.repository
        branch, (head, parent) = repository.branch, repository.resolve_all("HEAD", self.ref)
        with tempfile.TemporaryFile() as stream, repository.objects() as objects:

            def keep(_: str, content: bytes) -> None:
                stream.write(b"blob\ndata %d\n%s\n" % (len(content), content))

            looker = Looker(repository, known.files, keep, self.limits, self.since_ns, self.is_closed)
            if trusts_index:
                looker.trust_index()
            found = looker.look()
            commit = self._unchanged(objects, known, found, parent) or self._commit(
                objects, stream, known, found, parent
            )
            tree = _tree_of(objects, commit)
        if commit != parent:
            repository.git.run("update-ref", "--no-deref", self.ref, commit)
        taken = TreeSnapshot(
            tree=tree,
            commit=commit,
            head=head,
            branch=branch,
            not_kept=found.not_kept,
            changed_after=tuple(found.changed_after),
        )
        return taken, _Known(tree, found.files)

    def _unchanged(self, objects: Git, known: _Known, found: Look, parent: str) -> str:
        """The last snapshot of this session, if its tree is the one that was found."""
        is_same = bool(parent and known.tree) and not _changes(known, found)
        return parent if is_same and _tree_of(objects, parent) == known.tree else ""

    def _commit(self, objects: Git, stream: IO[bytes], known: _Known, found: Look, parent: str) -> str:
        message = self.message.encode()
        stream.write(b"commit %s\nmark :1\ncommitter Interlock <interlock@localhost> now\n" % _BRANCH)
        stream.write(b"data %d\n%s\n" % (len(message), message))
        stream.write(b"from %s\n" % parent.encode() if parent else b"")
        stream.write(b'M 040000 %s ""\n' % known.tree.encode() if known.tree else b"deleteall\n")
        stream.writelines(_changes(known, found))
        stream.write(b"\nget-mark :1\n")
        stream.flush()
        stream.seek(0)
        return objects.run(*_IMPORT, stdin=stream, settings=_DURABLE, seconds=self.limits.seconds).decode().strip()


def _changes(known: _Known, found: Look) -> list[bytes]:
    """What leads from the known tree to the found one, deletions first: a folder may stand where a file was."""
    gone = [b"D %s\n" % _quoted(path) for path in known.files if path not in found.files]
    changed = [
        (path, one)
        for path, one in found.files.items()
        if (before := known.files.get(path)) is not one and (before is None or before[:2] != one[:2])
    ]
    return gone + [b"M %s %s %s\n" % (one.mode, one.object_id.encode(), _quoted(path)) for path, one in changed]


def _quoted(path: bytes) -> bytes:
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _tree_of(objects: Git, commit: str) -> str:
    return objects.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
