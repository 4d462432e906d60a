"""How large a tree of sessions may grow: its depth, the children of one parent that are open, and all that it ever had.

Laws:
1. A refusal names the limit, how much of it is used, and how to free it. Nothing is reserved by what was refused.
2. A child that ended holds no place, but for the last limit: that one ends a tree that starts children for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SessionId


class LimitReached(UsageError):
    """A child that would make its tree larger than it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """`max_depth`: levels below the root. `max_running`: children of one parent that run; more wait in its queue.
    `max_open`: those that run or wait. `max_children`: of one tree, with all that ended."""

    max_depth: int = 3
    max_running: int = 6
    max_open: int = 100
    max_children: int = 1_000

    def __post_init__(self) -> None:
        if self.max_running < 1:
            raise UsageError(f"max_running is {self.max_running}", remedy="let at least one child run")

    def check(self, parent: SessionId, root: SessionId, *, depth: int, is_open: int, ever: int) -> None:
        """Refuse a child at that depth, where so many of the parent's are open and the tree had so many."""
        if depth > self.max_depth:
            raise LimitReached(
                f"limit max_depth: a child of {parent} would be {depth} levels below {root}, of {self.max_depth}",
                remedy="start it from a session higher up, or as a session without a parent",
            )
        if is_open >= self.max_open:
            raise LimitReached(
                f"limit max_open: {is_open} of {self.max_open} children of {parent} are queued or running",
                remedy="wait until one ends, or cancel one that is not needed",
            )
        if ever >= self.max_children:
            raise LimitReached(
                f"limit max_children: the tree of {root} has had {ever} of {self.max_children} children",
                remedy="ended ones count here: begin a new session without a parent, and go on there",
            )
