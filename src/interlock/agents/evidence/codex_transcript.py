"""Codex's rollout, `sessions/Y/M/D/rollout-*.jsonl`, line by line.

Everything stands twice, as what the model was given (`response_item`) and as what was shown (`event_msg`). Messages and
calls are taken from the first, prompts and ends of turns from the second. A command may end long after its turn, so
what names another turn than the open one does not touch it. A compaction is a turn without a prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from interlock.agents.evidence.transcript_turns import PromptSeen, TranscriptNews, unix_seconds
from interlock.agents.observations import (
    ContextFilled,
    MessageEnded,
    RetryBegun,
    SessionNamed,
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

_ABORTED: Final = "aborted by user"
_MAX_FAILED: Final = 256
_OF_NO_TURN: Final = frozenset({"compacted", "ghost_snapshot", "turn_context", "world_state"})


class CodexTranscript:
    """The parser of one file."""

    def __init__(self) -> None:
        self._turn = ""
        self._is_told = False  # that the turn began
        self._error = ""
        self._failed: dict[str, str] = {}
        self._prompts_from = ""
        self._counts_calls = False
        self._total: object = None
        self._unknown: set[str] = set()
        self._at: float | None = None

    def feed(self, line: bytes) -> list[TranscriptNews]:
        fields = decode_object(line)
        if fields is None:
            return [Warned(kind="transcript_line", message="a line of the rollout is no JSON object")]
        self._at = unix_seconds(text_at(fields, "timestamp"))
        return list(self._read(text_at(fields, "type"), inner(fields, "payload"), fields))

    def _read(self, kind: str, payload: Fields, fields: Fields) -> Iterator[TranscriptNews]:
        match kind:
            case "session_meta":
                name = text_at(payload, "id") or text_at(payload, "session_id")
                yield SessionNamed(native_session_id=name, version=text_at(payload, "cli_version"))
            case "event_msg":
                yield from self._event(payload)
            case "response_item" if inner(fields, "metadata").get("compaction_output") is not True:
                yield from self._item(payload)
            case "token_usage_record":
                self._counts_calls = True
                yield _usage(inner(payload, "usage"))
            case "response_item":
                pass
            case _ if kind not in _OF_NO_TURN and kind not in self._unknown and len(self._unknown) < 64:
                self._unknown.add(kind)
                yield Traced(raw=f"a line of type {kind[:200]!r}")

    # What was shown: prompts, and how turns begin and end

    def _event(self, payload: Fields) -> Iterator[TranscriptNews]:
        kind = text_at(payload, "type")
        match kind:
            case "task_started" | "turn_started":
                yield from self._end(TurnEnding.SILENT)
                self._turn, self._is_told, self._error = text_at(payload, "turn_id"), False, ""
            case "task_complete" | "turn_complete" if self._is_open_one(payload):
                yield from self._complete(payload)
            case "turn_aborted" if self._is_open_one(payload):
                yield from self._end(TurnEnding.INTERRUPTED)
            case "user_message":
                yield from self._prompt(kind, text_at(payload, "message"))
            case "item_completed":
                yield from self._completed(payload)
            case "error":
                self._error = text_at(payload, "message")
            case "stream_error":
                yield RetryBegun(message=text_at(payload, "message"))
            case "token_count":
                yield from self._counted(inner(payload, "info"))
            case _:
                pass

    def _is_open_one(self, payload: Fields) -> bool:
        named = text_at(payload, "turn_id")
        return not named or not self._turn or named == self._turn

    def _complete(self, payload: Fields) -> Iterator[TranscriptNews]:
        text = payload.get("last_agent_message")
        error = text_at(inner(payload, "error"), "message") or ("" if text else self._error)
        if error:
            yield from self._end(TurnEnding.ERROR, error)
        else:
            yield from self._end(TurnEnding.NATURAL, text=text if isinstance(text, str) else None)

    def _end(self, ending: TurnEnding, error: str = "", text: str | None = None) -> Iterator[TranscriptNews]:
        if self._is_told:
            kind = "agent_error" if error else ""
            yield TurnEnded(ending=ending, text=text, error_kind=kind, error_message=error)
        self._turn, self._is_told, self._error = "", False, ""

    def _completed(self, payload: Fields) -> Iterator[TranscriptNews]:
        item = inner(payload, "item")
        match text_at(item, "type"):
            case "UserMessage":
                yield from self._prompt("item_completed", _text(item))
            case "CommandExecution" if text_at(item, "status") in ("failed", "declined"):
                code = item.get("exit_code")
                self._failed[text_at(item, "id")] = f"it ended with code {code}" if isinstance(code, int) else ""
                while len(self._failed) > _MAX_FAILED:
                    del self._failed[next(iter(self._failed))]

    def _prompt(self, source: str, text: str) -> Iterator[TranscriptNews]:
        """Versions differ in which of two events names the prompt; one that writes both is heard once."""
        self._prompts_from = self._prompts_from or source
        if source == self._prompts_from and text.strip():
            yield PromptSeen(text=text, native_turn_id=self._turn, joins=self._is_told, at_unix_seconds=self._at)
            self._is_told = True

    # What the model was given

    def _item(self, payload: Fields) -> Iterator[TranscriptNews]:
        match text_at(payload, "type"):
            case "message" if text_at(payload, "role") == "assistant" and _text(payload).strip():
                yield from self._begun()
                yield MessageEnded(text=_text(payload), message_id=text_at(payload, "id"))
            case "reasoning":
                yield from (
                    ThoughtArrived(text=text_at(part, "text"))
                    for part in members(payload, "summary")
                    if isinstance(part, dict)
                )
            case "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" as kind:
                yield from self._begun()
                yield _called(payload, kind)
            case "function_call_output" | "custom_tool_call_output":
                yield self._returned(payload)
            case _:
                pass

    def _begun(self) -> Iterator[TranscriptNews]:
        """A turn in which the agent speaks without a prompt was begun by nobody."""
        if not self._is_told:
            self._is_told = True
            yield PromptSeen(text="", native_turn_id=self._turn, is_human=False)

    def _returned(self, payload: Fields) -> ToolReturned:
        call = text_at(payload, "call_id")
        output = payload.get("output")
        text = output if isinstance(output, str) else ""
        if text.endswith(_ABORTED):
            return ToolReturned(call_id=call, error=ToolError(kind="cancelled", message=text))
        if call in self._failed:
            reason = self._failed.pop(call)
            return ToolReturned(call_id=call, output=output, error=ToolError(kind="tool_error", message=reason or text))
        return ToolReturned(call_id=call, output=output)

    # What it cost

    def _counted(self, info: Fields) -> Iterator[TranscriptNews]:
        last, total = inner(info, "last_token_usage"), info.get("total_token_usage")
        window = count_of(info, "model_context_window")
        if last and not self._counts_calls and total != self._total:
            yield _usage(last)
        self._total = total
        if last and window:
            yield ContextFilled(used_tokens=count_of(last, "total_tokens"), window_tokens=window)


def _usage(figures: Fields) -> UsageReported:
    return UsageReported(
        scope=UsageScope.CALL,
        input_tokens=count_of(figures, "input_tokens"),
        output_tokens=count_of(figures, "output_tokens"),
        cached_input_tokens=count_of(figures, "cached_input_tokens"),
    )


def _text(payload: Fields) -> str:
    parts = members(payload, "content")
    return "".join(text_at(part, "text") for part in parts if isinstance(part, dict))


def _called(payload: Fields, kind: str) -> ToolCalled:
    call = text_at(payload, "call_id") or text_at(payload, "id")
    args = payload.get("arguments", payload.get("input", payload.get("action")))
    return ToolCalled(call_id=call, name=text_at(payload, "name") or kind, args=_arguments(args))


def _arguments(given: Json) -> Json:
    """The arguments of a call: JSON text as what it says, anything else as it is."""
    if not isinstance(given, str):
        return given
    parsed = decode_object(given)
    return given if parsed is None else parsed
