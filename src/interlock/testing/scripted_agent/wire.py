"""JSON lines on standard input and output, by hand: no event loop, so that a start costs little and a wait nothing."""

from __future__ import annotations

import json
import os
import select
from typing import Final

from interlock.testing.scripted_agent.language import Json

_READ_BYTES: Final = 1 << 16


class AgentWire:
    """The two pipes of an agent. With `byte_seconds` bytes go one by one, that far apart; with `cut_with` the process
    ends in the middle of the next line, by that exit code."""

    def __init__(self) -> None:
        self.is_closed = False
        self.byte_seconds: float | None = None
        self.cut_with: int | None = None
        self._rest = b""

    def send(self, message: Json) -> None:
        """Write a message as a line."""
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        if self.cut_with is not None:
            self.write(line[: len(line) // 2])
            os._exit(self.cut_with)
        self.write(line + b"\n")

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        while data:
            if self.byte_seconds is None:
                data = data[os.write(1, data) :]
            else:
                os.write(1, data[:1])
                data = data[1:]
                select.select([], [], [], self.byte_seconds)

    def messages(self, seconds: float | None) -> list[Json]:
        """What came, waiting at most so long for it (None: as long as it takes). Lines that are no JSON are dropped."""
        if self.is_closed:
            select.select([], [], [], seconds)
            return []
        if not select.select([0], [], [], seconds)[0]:
            return []
        data = os.read(0, _READ_BYTES)
        self.is_closed = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [message for line in lines if (message := _read(line)) is not None]


def _read(line: bytes) -> Json:
    try:
        read: Json = json.loads(line)
    except ValueError:
        return None
    return read


def identifier(prefix: str = "") -> str:
    """A name that nobody else has; without a prefix in the shape of a UUID."""
    digits = os.urandom(16).hex()
    if prefix:
        return f"{prefix}{digits[:20]}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
