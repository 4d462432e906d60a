"""What the player asks of a face that speaks in lines, and what every such face does alike: it waits and listens."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from interlock.testing.scripted_agent.language import Json, ToolUse
from interlock.testing.scripted_agent.ledger import PROMPT, Ledger
from interlock.testing.scripted_agent.wire import AgentWire


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
