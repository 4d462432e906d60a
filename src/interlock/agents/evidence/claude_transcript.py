"""Claude Code's transcript, `projects/<folder>/<session>.jsonl`, line by line.

What a reader must know: one message stands on several lines, one a block; a prompt that was queued while a tool ran is
an attachment inside the turn; the summary of a compaction, output of local commands and reminders come in the user's
name and are no prompts; lines of a child (`isSidechain`) are not the answer; an interrupt is a line in the user's name
that has no source; retries leave no error, the last failure does. A line that tells nothing of a turn is left out
(system prompts and whole requests stand there as well, so an unknown one is traced by its type alone).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from interlock.agents.evidence.transcript_turns import PromptSeen, TranscriptNews, unix_seconds
from interlock.agents.observations import (
    MessageEnded,
    RetryBegun,
    SessionNamed,
    TextArrived,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    Traced,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
    Warned,
)
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, count_of, decode_object, inner, members
from interlock.vocabulary.foreign_json import text as text_at

_INTERRUPTED: Final = "[Request interrupted by user"
_NOTIFICATION: Final = "<task-notification>"
_LOCAL: Final = (
    "<local-command-", "<bash-input>", "<bash-stdout>", "<bash-stderr>", "<command-message>", "<command-name>",
)  # fmt: skip
_SYNTHETIC: Final = "<synthetic>"
_WHOLE: Final = frozenset({"end_turn", "stop_sequence"})
_OF_NO_TURN: Final = frozenset(
    {
        "agent-name", "api-request", "api-request-blob", "api-request-shape", "atis-latch", "cost-state",
        "custom-title", "file-history-delta", "file-history-snapshot", "last-prompt", "mode", "permission-mode",
        "progress", "queue-operation", "summary", "tag", "tools-used",
    }
)  # fmt: skip


class ClaudeTranscript:
    """The parser of one file."""

    def __init__(self) -> None:
        self._session = ""
        self._is_open = False
        self._turn_id = ""
        self._stop_reason = ""
        self._command = PromptSeen(text="", is_human=False)
        self._counted = ""
        self._unknown: set[str] = set()

    def feed(self, line: bytes) -> list[TranscriptNews]:
        fields = decode_object(line)
        if fields is None:
            return [Warned(kind="transcript_line", message="a line of the transcript is no JSON object")]
        return [*self._named(fields), *self._read(fields)]

    def _named(self, fields: Fields) -> Iterator[TranscriptNews]:
        name = text_at(fields, "sessionId")
        if name and name != self._session and text_at(fields, "type") in ("user", "assistant"):
            self._session = name
            yield SessionNamed(native_session_id=name, version=text_at(fields, "version"))

    def _read(self, fields: Fields) -> Iterator[TranscriptNews]:
        kind = text_at(fields, "type")
        match kind:
            case "user":
                yield from self._user(fields)
            case "assistant":
                yield from self._assistant(fields)
            case "system":
                yield from self._system(fields)
            case "attachment":
                yield from self._attachment(fields)
            case _ if kind not in _OF_NO_TURN and kind not in self._unknown and len(self._unknown) < 64:
                self._unknown.add(kind)
                yield Traced(raw=f"a line of type {kind[:200]!r}")

    # The user's side: prompts, tool results, interrupts, and much that is neither

    def _user(self, fields: Fields) -> Iterator[TranscriptNews]:
        child = _child(fields)
        content = inner(fields, "message").get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        results = [block for block in blocks if block.get("type") == "tool_result"]
        yield from (_returned(block, child) for block in results)
        if results or child or any(fields.get(name) is True for name in ("isMeta", "isCompactSummary")):
            return
        text = content if isinstance(content, str) else _joined(blocks)
        if text.startswith(_INTERRUPTED) and isinstance(content, list) and not text_at(fields, "promptSource"):
            yield from self._end(TurnEnding.INTERRUPTED)
        elif text.startswith(_LOCAL):
            self._remember_command(text, text_at(fields, "promptId"))
        elif text.strip():
            yield from self._prompt(fields, text)

    def _prompt(self, fields: Fields, text: str) -> Iterator[TranscriptNews]:
        name, origin = text_at(fields, "promptId"), text_at(inner(fields, "origin"), "kind")
        at = unix_seconds(text_at(fields, "timestamp"))
        is_human = origin in ("", "human") and not text.startswith(_NOTIFICATION)
        if self._is_open and name and name == self._turn_id:
            yield PromptSeen(text=text, native_turn_id=name, is_human=is_human, joins=True)
            return
        yield from self._end_unsaid()
        yield self._begin(PromptSeen(text=text, native_turn_id=name, is_human=is_human, at_unix_seconds=at))

    def _begin(self, prompt: PromptSeen) -> PromptSeen:
        self._is_open, self._turn_id, self._stop_reason = True, prompt.native_turn_id, ""
        self._command = PromptSeen(text="", is_human=False)
        return prompt

    def _remember_command(self, text: str, name: str) -> None:
        """A command of the user's own (`/review`, `!ls`) begins a turn only if the agent answers it."""
        command = " ".join((_within(text, "command-name"), _within(text, "command-args"))).strip()
        shell = _within(text, "bash-input")
        if command or shell:
            self._command = PromptSeen(text=command or f"!{shell}", native_turn_id=name)

    def _attachment(self, fields: Fields) -> Iterator[TranscriptNews]:
        attached = inner(fields, "attachment")
        if text_at(attached, "type") == "queued_command" and not _child(fields) and self._is_open:
            prompt = attached.get("prompt")
            text = prompt if isinstance(prompt, str) else _joined(members(attached, "prompt"))
            if text.strip():
                yield PromptSeen(text=text, is_human=not text.startswith(_NOTIFICATION), joins=True)

    # The agent's side

    def _assistant(self, fields: Fields) -> Iterator[TranscriptNews]:
        child, message = _child(fields), inner(fields, "message")
        if not child and not self._is_open:
            yield self._begin(self._command)
        if fields.get("isApiErrorMessage") is True:
            if not child:
                said = _joined(members(message, "content"))
                yield from self._end(TurnEnding.ERROR, text_at(fields, "error") or "agent_error", said)
            return
        for block in members(message, "content"):
            if isinstance(block, dict):
                yield from _said(block, message, child, is_aborted=fields.get("isAbortedMidStream") is True)
        yield from self._used(message)
        self._stop_reason = self._stop_reason if child else text_at(message, "stop_reason")

    def _used(self, message: Fields) -> Iterator[TranscriptNews]:
        """What a model call cost, once for all lines of its message."""
        name, usage = text_at(message, "id"), inner(message, "usage")
        if not usage or name == self._counted or text_at(message, "model") == _SYNTHETIC:
            return
        self._counted = name
        parts = [count_of(usage, part) for part in ("input_tokens", "cache_creation_input_tokens")]
        cached = count_of(usage, "cache_read_input_tokens")
        given = [part for part in (*parts, cached) if part is not None]
        yield UsageReported(
            scope=UsageScope.CALL,
            model=text_at(message, "model"),
            input_tokens=sum(given) if given else None,
            output_tokens=count_of(usage, "output_tokens"),
            cached_input_tokens=cached,
        )

    def _system(self, fields: Fields) -> Iterator[TranscriptNews]:
        match text_at(fields, "subtype"):
            case "turn_duration" if not _child(fields):
                yield from self._end_unsaid()
            case "api_error":
                attempt = count_of(fields, "retryAttempt")
                yield RetryBegun(message="the model call failed", attempt=attempt)
            case _:
                pass

    # How a turn ended

    def _end_unsaid(self) -> Iterator[TranscriptNews]:
        """The turn is over, and how is in its last message. Natural only if that says that it is whole."""
        match self._stop_reason:
            case reason if reason in _WHOLE:
                yield from self._end(TurnEnding.NATURAL)
            case "max_tokens" | "model_context_window_exceeded":
                yield from self._end(TurnEnding.STOPPED, stop_code="token_budget")
            case "refusal":
                yield from self._end(TurnEnding.ERROR, "refusal", "the model refused")
            case _:
                yield from self._end(TurnEnding.SILENT)

    def _end(self, ending: TurnEnding, kind: str = "", said: str = "", *, stop_code: str = "") -> list[TranscriptNews]:
        was_open, self._is_open, self._stop_reason = self._is_open, False, ""
        if not was_open:
            return []
        return [TurnEnded(ending=ending, error_kind=kind, error_message=said, stop_code=stop_code)]


def _child(fields: Fields) -> str:
    """The name of the child whose line it is; blank for the agent itself."""
    return (text_at(fields, "agentId") or "sidechain") if fields.get("isSidechain") is True else ""


def _said(block: Fields, message: Fields, child: str, *, is_aborted: bool) -> Iterator[TranscriptNews]:
    text, name = text_at(block, "text"), text_at(message, "id")
    match text_at(block, "type"):
        case "text" if text.strip() and is_aborted:
            yield TextArrived(text=text, message_id=name, sub_agent=child)
        case "text" if text.strip():
            yield MessageEnded(text=text, message_id=name, model=text_at(message, "model"), sub_agent=child)
        case "thinking":
            yield ThoughtArrived(text=text_at(block, "thinking"), sub_agent=child)
        case "tool_use" if text_at(block, "id"):
            called, args = text_at(block, "name"), block.get("input")
            yield ToolCalled(call_id=text_at(block, "id"), name=called, args=args, sub_agent=child)
        case _:
            pass


def _returned(block: Fields, child: str) -> ToolReturned:
    content = block.get("content")
    output = _joined(content) if isinstance(content, list) and _is_all_text(content) else content
    call = text_at(block, "tool_use_id")
    if block.get("is_error") is not True:
        return ToolReturned(call_id=call, output=output, sub_agent=child)
    error = ToolError(kind="tool_error", message=output if isinstance(output, str) else "the tool failed")
    return ToolReturned(call_id=call, error=error, sub_agent=child)


def _is_all_text(blocks: Sequence[Json]) -> bool:
    return all(isinstance(block, dict) and block.get("type") == "text" for block in blocks)


def _joined(blocks: Sequence[Json]) -> str:
    return "".join(text_at(block, "text") for block in blocks if isinstance(block, dict))


def _within(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()
