"""A plain reader of the scripted agent's lines: pipes, and a deadline for everything."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

AGENT: Final = (sys.executable, "-m", "interlock.testing.scripted_agent")
DEADLINE_SECONDS: Final = 100.0
Message = dict[str, Any]


class Client:
    """One agent at the other end of three pipes."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            (*AGENT, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        self.seen: list[Message] = []
        self.unread = b""

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def line(self) -> bytes:
        """The next line with its end, or what stands before the end of the stream."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        assert self.process.stdout is not None
        while b"\n" not in self.unread:
            ready = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, f"nothing more came; so far {self.seen[-3:]}"
            data = self.process.stdout.read(1 << 16)
            if not data:
                rest, self.unread = self.unread, b""
                return rest
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return line + b"\n"

    def next(self, **wanted: object) -> Message:
        """Read on to the next message with these fields."""
        return self.until(lambda message: all(message.get(name) == value for name, value in wanted.items()))

    def until(self, holds: Callable[[Message], bool]) -> Message:
        while True:
            line = self.line()
            assert line, f"the stream ended; so far {self.seen[-3:]}"
            message = json.loads(line)
            self.seen.append(message)
            if holds(message):
                return dict(message)

    def drain(self) -> bytes:
        """Everything that is still to come, until the end of the stream."""
        return b"".join(iter(self.line, b""))

    def exit_code(self) -> int:
        return self.process.wait(DEADLINE_SECONDS)


@contextmanager
def agent(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[Client]:
    """A running agent, which is gone afterwards with its group."""
    client = Client(arguments, environment)
    try:
        yield client
    finally:
        with suppress(ProcessLookupError):
            os.killpg(client.process.pid, signal.SIGKILL)
        client.process.wait()
        for pipe in (client.process.stdin, client.process.stdout, client.process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
