"""`MACHINES`: what the documentation and `interlock machines` are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from interlock.lifecycle import dialogs, process, queue, run, subagent, task, toolcall, turn, workflow
from interlock.lifecycle.table import Machine
from interlock.monitor import completion, readiness

MACHINES: Final[Mapping[str, tuple[Machine[Any, Any], ...]]] = MappingProxyType(
    {
        "process": process.MACHINES,
        "run": (run.MACHINE,),
        "toolcall": (toolcall.MACHINE,),
        "turn": (turn.MACHINE,),
        "subagent": (subagent.MACHINE,),
        "workflow": workflow.MACHINES,
        "task": (task.MACHINE,),
        "prompt": (queue.MACHINE,),
        "dialog": (dialogs.MACHINE,),
        "readiness": (readiness.MACHINE,),
        "completion": (completion.MACHINE,),
    }
)
