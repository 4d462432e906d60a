"""What the player asks of a face that speaks in lines, and what every such face does alike: it waits and listens."""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from interlock.testing.scripted_agent.language import Json, ToolUse
from interlock.testing.scripted_agent.ledger import PROMPT, Ledger


class FaceInterrupted(Exception):
    """The client asked for the end of the turn."""


class FacePrompt(NamedTuple):
    """A prompt, and the dialect's own handle on it."""

    text: str
    handle: Json = None


class AgentAnswer(NamedTuple):
    """What a person decided."""

    is_allowed: bool
    text: str = ""
    ends_turn: bool = False


class FaceUsage(NamedTuple):
    """What a turn reports as used."""

    input_tokens: int = 10
    output_tokens: int = 5
    cost_usd: float = 0.001


class Face:
    """One dialect. `take` reads a message; the other methods say things in the dialect's words."""

    def __init__(self, wire: AgentWire, ledger: Ledger) -> None:
        self.wire = wire
        self.ledger = ledger
        self.prompts: deque[FacePrompt] = deque()
        self.usage = FaceUsage()
        self.is_in_turn = False
        self._is_interrupted = False

    def wait(
        self,
        seconds: float | None = None,
        *,
        until: Callable[[], bool] = lambda: False,
        look_every_seconds: float | None = None,
    ) -> None:
        """Listen until something holds, or for so long. `FaceInterrupted` if that came during a turn."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not until():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            self._listen(look_every_seconds if left is None else left)
        self._listen(0)

    def _listen(self, seconds: float | None) -> None:
        for message in self.wire.messages(seconds):
            if isinstance(message, dict):
                self.take(message)
        if self._is_interrupted:
            self._is_interrupted = False
            if self.is_in_turn:
                raise FaceInterrupted

    def receive(self, text: str, handle: Json = None) -> None:
        """A prompt has come: it is written down before anything else happens."""
        self.ledger.record(PROMPT, text=text)
        self.prompts.append(FacePrompt(text, handle))

    def interrupt(self) -> None:
        """The client asked for the end of the turn."""
        self.ledger.record("interrupt", in_turn=self.is_in_turn)
        self._is_interrupted = self.is_in_turn

    def take(self, message: dict[str, Json]) -> None:
        raise NotImplementedError

    def begin(self, prompt: FacePrompt) -> None:
        """A turn begins."""
        raise NotImplementedError

    def think(self, text: str) -> None:
        raise NotImplementedError

    def say(self, text: str) -> None:
        """One delta of the answer."""
        raise NotImplementedError

    def call(self, use: ToolUse, *, asks: bool) -> str:
        """A tool call opens; its id is the answer."""
        raise NotImplementedError

    def approve(self, call_id: str, use: ToolUse) -> AgentAnswer:
        """Ask for approval, and wait."""
        raise NotImplementedError

    def ask(self, question: str, options: list[str]) -> AgentAnswer:
        raise NotImplementedError

    def returned(self, call_id: str, use: ToolUse) -> None:
        raise NotImplementedError

    def retry(self, reason: str) -> None:
        raise NotImplementedError

    def background(self, names: list[str]) -> None:
        """All of the background work that is open now."""
        raise NotImplementedError

    def relay(self, call_id: str, text: str) -> None:
        raise NotImplementedError

    def done(self) -> None:
        """The turn ends well."""
        raise NotImplementedError

    def failed(self, text: str) -> None:
        raise NotImplementedError

    def ended_as(self, word: str, text: str) -> None:
        raise NotImplementedError

    def interrupted(self) -> None:
        raise NotImplementedError


# JSON lines on standard input and output, by hand: no event loop, so that a start costs little and a wait nothing.

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
