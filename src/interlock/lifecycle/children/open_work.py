"""The children and workflows of a log that have no end yet: what a runtime has to take up again after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from interlock.lifecycle.children.subagent_evidence import TERMINAL
from interlock.vocabulary.events.audit import WorkflowEvent, WorkflowEventKind
from interlock.vocabulary.events.conversation import SubagentEvent
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import SubagentId, WorkflowId


@dataclass(slots=True)
class OpenWork:
    """A fold: `add` every payload, in order. It is false when nothing is open."""

    children: set[SubagentId] = field(default_factory=set)
    workflows: set[WorkflowId] = field(default_factory=set)

    @classmethod
    def of(cls, payloads: Iterable[Payload]) -> OpenWork:
        found = cls()
        for one in payloads:
            found.add(one)
        return found

    def add(self, data: Payload) -> None:
        match data:
            case SubagentEvent(status=status, subagent_id=child):
                (self.children.discard if status in TERMINAL else self.children.add)(child)
            case WorkflowEvent(kind=kind, workflow_id=workflow):
                is_over = kind is WorkflowEventKind.WORKFLOW_FINISHED
                (self.workflows.discard if is_over else self.workflows.add)(workflow)
            case _:
                pass

    def __bool__(self) -> bool:
        return bool(self.children or self.workflows)
