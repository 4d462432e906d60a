"""The pure machines, one file each. `MACHINES` is what the documentation and `interlock machines` are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from interlock.lifecycle import process, run, task, turn
from interlock.lifecycle.table import Machine

MACHINES: Final[Mapping[str, tuple[Machine[Any, Any], ...]]] = MappingProxyType(
    {"process": process.MACHINES, "run": (run.MACHINE,), "turn": (turn.MACHINE,), "task": (task.MACHINE,)}
)
