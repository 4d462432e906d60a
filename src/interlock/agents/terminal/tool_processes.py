"""Which tools an agent runs, by the processes that it started since its prompt: for CLIs without a transcript.

Laws:
1. A tool is a process that began after the prompt, and whose parent is the agent or a process that it had before.
2. It is one once it was seen at two looks in a row: what an agent runs for itself (`git`) is over by then.
3. A process that ended and waits for its parent runs no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from interlock.log.host import host

_MAX_PROCESSES: Final = 64


class ToolProcesses:
    """Call `fence` before each prompt, and `look` every few seconds. Before the first prompt there are no tools."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: frozenset[int] | None = None
        self._last: frozenset[str] = frozenset()

    def fence(self) -> None:
        """Note which processes are no tools of the turn that begins now."""
        self._before = frozenset(family(self._pid))
        self._last = frozenset()

    def look(self) -> tuple[tuple[str, str], ...]:
        """The tools that run, by an id and the name of their program."""
        before = self._before
        if before is None:
            return ()
        children = host().child_lookup()
        found = [tool for parent in before for pid in children(parent) if pid not in before for tool in _running(pid)]
        lasting = tuple(tool for tool in sorted(found) if tool[0] in self._last)
        self._last = frozenset(tool_id for tool_id, _ in found)
        return lasting


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it, as far as they are still known to."""
    children, waiting = host().child_lookup(), [pid]
    for _ in range(_MAX_PROCESSES):
        if not waiting:
            return
        one = waiting.pop(0)
        yield one
        waiting += children(one)


def _running(pid: int) -> Iterator[tuple[str, str]]:
    name = host().running_name(pid)
    if name is not None:
        yield f"pid {pid}", name
