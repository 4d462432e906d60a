"""What an ended child has to show to its parent: read from the events of its turn, never from its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import msgspec

from interlock.agents.model.tools.children import CHECKPOINT_TOOL
from interlock.lifecycle.children.subagent import ChildFailed, ChildFinished, ChildInterrupted
from interlock.lifecycle.turns import TurnRecord
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.codec import can_be_kept
from interlock.vocabulary.events.conversation import AssistantMessage, ToolCall, ToolResult
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.states import TurnState

MAX_SUMMARY_CHARACTERS: Final = 8_000
MAX_CHECKPOINT_CHARACTERS: Final = 64_000
_FENCE: Final = "```"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildResult:
    """What a child that completed has to show. Nothing at all is no completion."""

    summary: str = ""
    checkpoint: Json = None


ResultReader: TypeAlias = Callable[[Sequence[Event]], ChildResult]
"""Reads the result of a child, given the events of its completed turn."""


def result_of_log(events: Sequence[Event]) -> ChildResult:
    """The clean answer of the turn, and the checkpoint that was submitted in it, or else the one that the answer holds.
    Partial and unverified text is no answer."""
    texts = [event.data.text for event in events if isinstance(event.data, AssistantMessage) and _is_answer(event.data)]
    answer = texts[-1].strip() if texts else ""
    return ChildResult(summary=_shortened(answer), checkpoint=_submitted(events) or checkpoint_in(answer))


def _submitted(events: Sequence[Event]) -> Json:
    """The last checkpoint that was submitted by our tool, and taken; None if none was."""
    calls: dict[tuple[str, int], Json] = {}
    last: Json = None
    for event in events:
        match event.data:
            case ToolCall(name=name) as call if name == CHECKPOINT_TOOL:
                calls[call.call_id, call.occurrence] = call.args
            case ToolResult(error=None, synthetic=False) as result:
                last = calls.pop((result.call_id, result.occurrence), last)
            case _:
                pass
    return last


def _is_answer(message: AssistantMessage) -> bool:
    about = message.metadata
    return message.is_verified and not (message.is_blank or about.partial or about.intermediate)


def checkpoint_in(answer: str) -> Json:
    """The last JSON object of an answer that says its `status`, alone or in a fenced block; None if there is none."""
    for text in (answer, *reversed(list(_fenced(answer)))):
        if len(text) <= MAX_CHECKPOINT_CHARACTERS and text.lstrip().startswith("{"):
            try:
                read = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                continue
            if isinstance(read, dict) and isinstance(read.get("status"), str) and can_be_kept(read):
                return read
    return None


def _fenced(answer: str) -> Iterator[str]:
    """The text of each block that is closed."""
    block: list[str] | None = None
    for line in answer.splitlines():
        if not line.strip().startswith(_FENCE):
            if block is not None:
                block.append(line)
        elif block is None:
            block = []
        else:
            yield "\n".join(block)
            block = None


def _shortened(text: str) -> str:
    left = len(text) - MAX_SUMMARY_CHARACTERS
    return text if left <= 0 else f"{text[:MAX_SUMMARY_CHARACTERS]}\n[{left} more characters in the child's session]"


def report_of(
    turn: TurnRecord, events: Sequence[Event], attempt: int, read: ResultReader
) -> ChildFinished | ChildFailed | ChildInterrupted:
    """What the end of a child's turn is to its parent."""
    match turn.state:
        case TurnState.COMPLETED:
            shown = read([event for event in events if event.turn_id == turn.turn_id])
            return ChildFinished(attempt, shown.summary, shown.checkpoint)
        case TurnState.INTERRUPTED:
            return ChildInterrupted(attempt)
        case TurnState.PARTIAL_FAILED:
            return ChildFailed(attempt, f"partial_{turn.error_kind or turn.state.value}", turn.error_message)
        case TurnState.FAILED:
            return ChildFailed(attempt, turn.error_kind or turn.state.value, turn.error_message)
        case TurnState.TIMED_OUT:
            return ChildFailed(attempt, "turn_timed_out", turn.error_message)
        case TurnState.RUNNING | TurnState.WAITING | TurnState.ABANDONED:
            raise ContractError(f"turn {turn.turn_id} is {turn.state.value}, which is no end")
        case TurnState.UNKNOWN:  # its parent has no answer of it, and waits for none
            return ChildFailed(attempt, turn.error_kind, turn.error_message)
        case _:
            assert_never(turn.state)
