"""Where a session works and what it uses, in few words: folder, git branch, model, context, cost.

Law: the branch is what the folder's git HEAD says now, read on this machine; where it cannot be read, or the session is
over, it is what the log last had.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import TaskSummaryJson

_READ_BYTES: Final = 512
_FRESH_SECONDS: Final = 5.0
_COMMIT: Final = 8
_THOUSAND, _MILLION = 1_000, 1_000_000
_known: dict[str, tuple[float, str]] = {}


def folder_of(task: TaskSummaryJson) -> str:
    """The last part of its folder: enough to know it again."""
    folder = str(task.get("folder") or "")
    return Path(folder).name or folder


def branch_of(folder: str) -> str:
    """The branch that is checked out there, or the commit; blank where there is none. Read again every few seconds."""
    known = _known.get(folder)
    now = time.monotonic()
    if known is None or now - known[0] > _FRESH_SECONDS:
        known = _known[folder] = (now, _read_branch(folder))
    return known[1]


def _read_branch(folder: str) -> str:
    if not folder:
        return ""
    try:
        place = next((one for one in (Path(folder), *Path(folder).parents) if (one / ".git").exists()), None)
        if place is None:
            return ""
        git = place / ".git"
        if git.is_file():  # a worktree: its own HEAD stands elsewhere
            named = _first_line(git).removeprefix("gitdir:").strip()
            git = (place / named).resolve()
        head = _first_line(git / "HEAD")
    except (OSError, ValueError):
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:_COMMIT]


def _first_line(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as opened:
        return opened.read(_READ_BYTES).split(b"\n", 1)[0].decode("utf-8", "replace").strip()


def checked_out(task: TaskSummaryJson) -> str:
    """The branch of its folder; blank where none is known."""
    known, badge = str(task.get("branch") or ""), task.get("badge")
    is_over = badge is not None and bool(badge.get("is_over"))
    return (is_over and known) or branch_of(str(task.get("folder") or "")) or known


def place_of(task: TaskSummaryJson) -> str:
    """`folder (branch)`."""
    branch = checked_out(task)
    return f"{folder_of(task)} ({branch})" if branch else folder_of(task)


def cost_of(task: TaskSummaryJson) -> str:
    """What its turns cost, and its budget if it has one; blank where neither is known."""
    cost, budget = task.get("cost_usd"), task.get("max_cost_usd")
    spent = "" if cost is None else f"${cost:,.2f}" if cost >= 0.01 or not cost else "<$0.01"
    return spent if budget is None else f"{spent or '$?'} of ${budget:,.2f}"


def files_of(task: TaskSummaryJson) -> str:
    """How many files its turns changed so far; with a plus where a turn is not known. Blank: none, or not known."""
    counts = task.get("changes")
    if counts is None or not (counts["files"] or counts["unknown_turns"]):
        return ""
    count = f"{counts['files'] or '?'}{'+' if counts['files'] and counts['unknown_turns'] else ''}"
    return f"{count} {'file' if count == '1' else 'files'}"


def changes_of(task: TaskSummaryJson) -> str:
    """`3 files +12 -3`: what its turns changed so far."""
    files, counts = files_of(task), task.get("changes")
    has_lines = counts is not None and bool(counts["added"] or counts["removed"])
    return f"{files} +{counts['added']} -{counts['removed']}" if files and counts is not None and has_lines else files


def context_of(task: TaskSummaryJson) -> str:
    """How much the newest model call was given."""
    tokens = task.get("context_tokens")
    return "" if tokens is None else f"ctx {amount(tokens)}"


def by_rule_of(task: TaskSummaryJson) -> str:
    """How many of its questions rules answered; blank: none."""
    count = task.get("decided_by_rule") or 0
    return f"{count} by rule" if count else ""


def amount(count: int) -> str:
    """A number of tokens in few characters."""
    if count < _THOUSAND:
        return str(count)
    return f"{count / _THOUSAND:.0f}k" if count < _MILLION else f"{count / _MILLION:.1f}M"
