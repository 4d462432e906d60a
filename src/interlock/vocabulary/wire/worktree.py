"""The git worktree of a session, as its log has it."""

from __future__ import annotations

from msgspec import Struct

from interlock.vocabulary.events.conversation import Count
from interlock.vocabulary.events.workspace import WorktreePhase


class TaskWorktree(Struct, frozen=True, kw_only=True):
    """The worktree that was made for a session. `phase` is what was done with it last; `problem` why it is not as it
    should be. `base` is the commit that it began from, `target` the branch that it is to be merged into (blank where
    the base was no branch), `repository` the git directory that all worktrees share, `source` the folder that the
    session was begun from, `port` the first of ten ports that are its own. `merged`: the commit of its branch that was
    merged last; blank: none was."""

    phase: WorktreePhase
    path: str
    branch: str
    base: str
    target: str
    repository: str
    port: Count = 0
    merged: str = ""
    problem: str = ""
    source: str = ""
