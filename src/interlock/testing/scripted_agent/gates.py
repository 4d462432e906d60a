"""Gates: files by which a test holds an agent exactly where it wants it.

An agent at `gate NAME` writes its pid into `NAME.reached` and waits until the file `NAME` is there. Files, and no
socket, so that a gate is open for any number of agents, and stays open when the test, the runtime or the agent was
killed.
"""

from __future__ import annotations

import os
import time
from typing import Final

LOOK_EVERY_SECONDS: Final = 0.01


class Gates:
    """Both sides of the gates in one folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)

    def open(self, name: str) -> None:
        """Let pass everyone who waits at the gate, and everyone who will come."""
        os.close(os.open(f"{self._folder}/{name}", os.O_WRONLY | os.O_CREAT, 0o600))

    def is_open(self, name: str) -> bool:
        return os.access(f"{self._folder}/{name}", os.F_OK)

    def reach(self, name: str) -> None:
        """Note that this process stands at the gate."""
        fd = os.open(f"{self._folder}/{name}.reached", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, b"%d\n" % os.getpid())
        os.close(fd)

    def reached_by(self, name: str) -> list[int]:
        """The pid of every agent that came to the gate, in order."""
        from pathlib import Path  # here, as it would cost the agent more than all of this module

        try:
            return [int(line) for line in Path(self._folder, f"{name}.reached").read_bytes().splitlines()]
        except FileNotFoundError:
            return []

    def await_reached(self, name: str, *, by: int = 1, timeout_seconds: float = 30.0) -> list[int]:
        """Wait until so many agents came to the gate. `TimeoutError` if they do not."""
        deadline = time.monotonic() + timeout_seconds
        while len(reached := self.reached_by(name)) < by:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(reached)} of {by} agents came to the gate {name!r}")
            time.sleep(LOOK_EVERY_SECONDS)
        return reached
