"""What the four wire formats have in common: a request read as a conversation, and an answer built block by block."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interlock.testing.scripted_model.script import ScriptedCall, Shell
from interlock.vocabulary.events.registry import Json

# Text that a CLI puts into the user's mouth: reminders, environment notes, notices of interrupts and finished tasks.
_INSERTED: Final = re.compile(r"\s*(<[a-zA-Z][\w-]*[ >]|\[Request interrupted|# AGENTS\.md)")
# Copilot writes the time before each prompt.
_PREFACE: Final = re.compile(r"\s*<current_datetime>[^<]*</current_datetime>\s*")
_SHELL_TOOLS: Final = ("Bash", "bash", "exec_command", "run_shell_command", "shell", "Shell", "shell_command")
_SHELL_OF_DROID: Final = "Execute"
_SHELL_OF_CLINE: Final = "run_commands"


class ModelRole(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ModelSaid:
    """One piece of a conversation; consecutive pieces of one role are one message to us."""

    role: ModelRole
    text: str = ""


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """The words that a turn answers: the nth prompt of its conversation, and how many answers it has had so far.

    The number of answers is the index of the part that is due: a tool's result, or a notice that the CLI sends in the
    user's name, asks for the next part; a retry asks for the same one.
    """

    ordinal: int
    text: str
    answers: int


@dataclass(frozen=True, slots=True)
class ModelConversation:
    """One request, whatever its wire format. `tools` maps each name to its type on the wire."""

    model: str
    system: str
    said: tuple[ModelSaid, ...]
    tools: Mapping[str, str]
    is_stream: bool
    wants_json: bool = False
    max_tokens: int | None = None

    def last_prompt(self) -> ModelPrompt:
        """The user's own last words. Empty if the user said nothing."""
        own = [at for at, one in enumerate(self.said) if one.role is ModelRole.USER and _is_own(one.text)]
        if not own:
            return ModelPrompt(0, "", 0)
        return ModelPrompt(len(own), _without_preface(self.said[own[-1]].text), self._answers_since(own[-1]))

    def _answers_since(self, at: int) -> int:
        count, before = 0, ModelRole.USER
        for one in self.said[at + 1 :]:
            count += one.role is ModelRole.ASSISTANT and before is not ModelRole.ASSISTANT
            before = one.role
        return count

    def resolve(self, shell: Shell) -> ScriptedCall:
        """The call of this client's own shell tool. The plain name `shell` if it offers none."""
        if _SHELL_OF_CLINE in self.tools:
            return ScriptedCall(_SHELL_OF_CLINE, {"commands": [shell.command]})
        if _SHELL_OF_DROID in self.tools:
            risk: dict[str, Json] = {"riskLevel": "medium", "riskLevelReason": "It writes a file in the project."}
            return ScriptedCall(
                _SHELL_OF_DROID, {"command": shell.command, "summary": "Run a scripted command", "timeout": 60, **risk}
            )
        name = next((name for name in _SHELL_TOOLS if name in self.tools), "shell")
        if name != "exec_command":
            return ScriptedCall(name, {"command": shell.command, "description": "Run a scripted command"})
        arguments: dict[str, Json] = {"cmd": shell.command}
        if shell.asks:
            arguments |= {"sandbox_permissions": "require_escalated", "justification": "Run a scripted command?"}
        return ScriptedCall(name, arguments)


@dataclass(slots=True)
class ContentBlock:
    """A finished or growing piece of the answer: kind `think` and `text` hold text, `call` a tool call."""

    kind: str
    id: str
    text: str = ""
    call: ScriptedCall | None = None


class ModelReply(ABC):
    """One answer, as stream events in order, or as one document when the client did not ask for a stream.

    `number` makes its ids unique. Every method returns the bytes to send; a block stays open until another kind of
    block follows, so that a gate between two chunks of text holds the client in the middle of it.
    """

    def __init__(self, conversation: ModelConversation, number: int) -> None:
        self.conversation = conversation
        self.number = number
        self.blocks: list[ContentBlock] = []
        self._is_open = False

    def think(self, text: str) -> bytes:
        return self._grow("think", text)

    def text(self, text: str) -> bytes:
        return self._grow("text", text)

    def call(self, call: ScriptedCall) -> bytes:
        before = self.settle()
        block = self._block("call")
        block.call = call
        return before + self.call_events(block)

    def settle(self) -> bytes:
        """Close the block that is open."""
        if not self._is_open:
            return b""
        self._is_open = False
        return self.stop_block(self.blocks[-1])

    def _grow(self, kind: str, text: str) -> bytes:
        events = b""
        if not self._is_open or self.blocks[-1].kind != kind:
            events = self.settle()
            events += self.start_block(self._block(kind))
            self._is_open = True
        self.blocks[-1].text += text
        return events + self.delta(self.blocks[-1], text)

    def _block(self, kind: str) -> ContentBlock:
        self.blocks.append(ContentBlock(kind, f"{self.number:04d}_{len(self.blocks)}"))
        return self.blocks[-1]

    @property
    def calls_tools(self) -> bool:
        return any(block.kind == "call" for block in self.blocks)

    @property
    def tokens(self) -> int:
        """A plausible count, so that clients that show one have something to show."""
        return 1 + sum(len(block.text) for block in self.blocks) // 4

    def start(self) -> bytes:
        """What comes before the first block."""
        return b""

    def start_block(self, block: ContentBlock) -> bytes:
        return b""

    def stop_block(self, block: ContentBlock) -> bytes:
        return b""

    @abstractmethod
    def delta(self, block: ContentBlock, text: str) -> bytes: ...

    @abstractmethod
    def call_events(self, block: ContentBlock) -> bytes: ...

    @abstractmethod
    def end(self) -> bytes:
        """What comes after the last block, which `settle` has closed."""

    @abstractmethod
    def whole(self) -> Json:
        """The same answer as one document."""

    @abstractmethod
    def error(self, status: int, message: str) -> Json:
        """The body of an HTTP error, and the payload of an error event in mid-stream."""

    def error_events(self, status: int, message: str) -> bytes:
        return sse(self.error(status, message))


def _is_own(text: str) -> bool:
    said = _without_preface(text)
    return bool(said.strip()) and _INSERTED.match(said) is None


def _without_preface(text: str) -> str:
    before = _PREFACE.match(text)
    return text[before.end() :] if before else text


def sse(data: Json, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {dumps(data)}\n\n".encode()


def dumps(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)
