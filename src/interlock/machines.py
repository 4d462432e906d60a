"""`MACHINES`: the registry of every machine with a table that sessions, terminals or the library step.

`interlock debug machines`, docs/machines and the README are made from it. To add one, name its `MACHINE` here, from
any folder. A machine that nothing steps does not belong here, nor anywhere else. `subagent` and `workflow`
are stepped by `runtime.children.subagents` and `runtime.children.workflows`, which no command starts yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from interlock.lifecycle import process, queue, run, turn
from interlock.lifecycle.children import subagent, workflow
from interlock.lifecycle.decisions import dialogs, toolcall
from interlock.lifecycle.table import Machine
from interlock.monitor import completion, readiness
from interlock.runtime.session import turn_way
from interlock.runtime.session.agent import life as agent_life
from interlock.runtime.session.questions import question

MACHINES: Final[Mapping[str, tuple[Machine[Any, Any], ...]]] = MappingProxyType(
    {
        "process": process.MACHINES,
        "run": (run.MACHINE,),
        "toolcall": (toolcall.MACHINE,),
        "turn": (turn.MACHINE,),
        "subagent": (subagent.MACHINE,),
        "workflow": workflow.MACHINES,
        "prompt": (queue.MACHINE,),
        "dialog": (dialogs.MACHINE,),
        "agent": agent_life.MACHINES,
        "turn_way": turn_way.MACHINES,
        "question": (question.MACHINE,),
        "readiness": (readiness.MACHINE,),
        "completion": (completion.MACHINE,),
    }
)
