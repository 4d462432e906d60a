"""What changed in the main checkout of a repository while an agent worked in a worktree of it.

An agent that was given a worktree can still write to the main checkout by an absolute path. Nothing says who wrote a
file, so what is found is no claim about the agent: it says where to look.

Laws:
1. A file changed if its content or kind differs between the look at the start of a turn and that at its end, by the
   hash that git gives to it. A file that changed between the edge and the look at the start counts as well: what it was
   before is not known.
2. Nothing is kept of the files, and nothing is written to the repository.
3. A look that cannot be made says nothing, and not that nothing changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.git.looking import KeptFile, Looker, LookLimits, TooMuch, decoded
from interlock.agents.git.repository import NoRepository, Repository, find_repository
from interlock.agents.git.running import GitFailed
from interlock.vocabulary.events.workspace import FileChange

_MAX_KNOWN: Final = 4
_LIMITS: Final = LookLimits(seconds=30.0)


@dataclass(frozen=True, slots=True)
class MainCheckout:
    """The main checkout as it was at one moment. `late`: files that changed between that moment and the look."""

    root: Path
    files: Mapping[bytes, KeptFile]
    late: tuple[bytes, ...] = ()


class MainCheckouts:
    """Looks at main checkouts. What it remembers of each makes the next look cheap, and decides nothing."""

    def __init__(self) -> None:
        self._known: OrderedDict[Path, Mapping[bytes, KeptFile]] = OrderedDict()

    def look(self, repository: Repository, since_ns: int | None = None) -> MainCheckout | None:
        """The main checkout of a linked worktree; None where there is none, or it cannot be looked at."""
        main = main_checkout_of(repository)
        if main is None:
            return None
        known = self._known.get(main.root, {})
        looker = Looker(main, known, lambda _, content: None, _LIMITS, since_ns)
        try:
            if not known:
                looker.trust_index()
            found = looker.look()
        except (GitFailed, TooMuch, OSError):
            return None
        self._known[main.root] = found.files
        self._known.move_to_end(main.root)
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return MainCheckout(main.root, found.files, tuple(found.changed_after))


def main_checkout_of(repository: Repository) -> Repository | None:
    """The work tree that a linked one belongs to; None where this is the main one, or there is none."""
    if repository.git_dir == repository.common or repository.common.name != ".git":
        return None
    try:
        main = find_repository(repository.common.parent)
    except NoRepository:
        return None
    return main if main.common == repository.common and main.git_dir == main.common else None


def main_changes(before: MainCheckout, now: MainCheckout) -> tuple[FileChange, ...]:
    """Law 1, by path."""
    paths = {path for path in {*before.files, *now.files} if _as_told(before, path) != _as_told(now, path)}
    return tuple(_change(before, now, path) for path in sorted({*paths, *before.late}))


def _as_told(one: MainCheckout, path: bytes) -> tuple[bytes, str] | None:
    found = one.files.get(path)
    return None if found is None else found[:2]


def _change(before: MainCheckout, now: MainCheckout, path: bytes) -> FileChange:
    old, new = before.files.get(path), now.files.get(path)
    word = "A" if old is None else "D" if new is None else "M"
    is_known = old is not None and path not in before.late
    return FileChange(
        path=decoded(path),
        change=word,
        before=old.object_id if old is not None and is_known else "",
        after="" if new is None else new.object_id,
    )
