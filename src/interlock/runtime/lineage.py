"""Where a session stands in a tree of sessions, as its own log says it.

Law: a prompt that waits in the queue of a child is not sent after a restart until its parent took the child up again:
the queue is held first, in the log. What no parent takes up stays held, and shows why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.vocabulary.events.audit import QueueGate, SessionOpened
from interlock.vocabulary.ids import SessionId, SubagentId, WorkflowId

UNOWNED: Final = "it is a child whose parent {} has not taken it up again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """A session's place: below `parent_id`, `depth` levels under `root_id`. The session of a workflow has one, and is
    nobody's child: it has no `subagent_id`."""

    parent_id: SessionId
    root_id: SessionId
    depth: int
    subagent_id: SubagentId | None = None
    workflow_id: WorkflowId | None = None


def lineage_below(parent: SessionId, opened: SessionOpened | None) -> tuple[SessionId, int]:
    """The root of a parent's tree, and the depth of its children. `opened` is that of the parent."""
    if opened is None or opened.parent_id is None:
        return parent, 1
    return opened.root_id or opened.parent_id, opened.depth + 1


def unowned_gate(opened: SessionOpened | None) -> QueueGate | None:
    """What holds the queue of a child until its parent takes it up; None: it is no child."""
    if opened is None or opened.parent_id is None or opened.subagent_id is None:
        return None
    return QueueGate(is_open=False, reason=UNOWNED.format(opened.parent_id))
