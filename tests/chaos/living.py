"""One life of the runtime, as its client sees it: commands go in, acknowledgements come out, and then it is dead."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tests.chaos.host import Order, Settings, Told

ROOT: Final = Path(__file__).parents[2]
MARK: Final = "CHAOS_MARK"
# Long enough for a busy machine; nothing waits so long unless something is wrong.
PATIENCE_SECONDS: Final = 200.0
_DYING_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.01


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait for something, and say whether it came."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


class RunningHost:
    """One life of the runtime."""

    def __init__(self, settings: Settings, mark: str) -> None:
        line = msgspec.json.encode(settings).decode()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.host", line],
            cwd=ROOT,
            env={**os.environ, "INTERLOCK_HOME": settings.home, MARK: mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.told: dict[int, Told] = {}
        self._errors = b""
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._keep_errors)]
        for thread in self._threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def is_dying(self) -> bool:
        """Whether it is dead or about to be: a killed process closes its pipes a moment before it can be reaped."""
        return wait_until(lambda: not self.is_alive, _DYING_SECONDS)

    @property
    def is_open(self) -> bool:
        """Whether recovery is over, and commands are taken."""
        return 0 in self.told

    def order(self, order: Order) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead already, and acknowledges nothing
            self.process.stdin.write(msgspec.json.encode(order) + b"\n")
            self.process.stdin.flush()

    def wait_for(self, order_id: int, seconds: float = PATIENCE_SECONDS) -> Told | None:
        """The acknowledgement; None if the host died before it, or is too slow."""
        wait_until(lambda: order_id in self.told or not self._threads[0].is_alive(), seconds)
        return self.told.get(order_id)

    def kill(self) -> None:
        self.process.kill()
        self.join()

    def join(self, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait for its end, and give what it said on standard error."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self._errors += b"\nit did not end by itself"
        for thread in self._threads:
            thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        return self._errors.decode("utf-8", "replace")

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                told = msgspec.json.decode(line, type=Told)
                self.told[told.id] = told

    def _keep_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors += self.process.stderr.read()
