"""Lines of `codex exec --json`, translated one by one.

Laws:
1. A line gives a list of observations, never an exception; what is not known is `Traced`.
2. The turn ends once, by `turn.completed` or `turn.failed`. An `error` line alone ends nothing: Codex may try again. If
   nothing follows it, it is what `ended` tells.
3. Text of an attempt that is tried again, or of a message that is written anew, is voided.
4. A total over several turns is no usage of this turn: for a resumed session it is not reported.
"""

from __future__ import annotations

import re
from typing import Final

from interlock.agents.observations import (
    MessageEnded,
    Observation,
    PromptReached,
    RetryBegun,
    SessionNamed,
    TextArrived,
    TextVoided,
    ThoughtArrived,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
    Warned,
    traced,
)
from interlock.agents.processes.lines import Line, object_on
from interlock.agents.streams.codex.items import CodexCalls, item_of
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.foreign_json import Fields, count_of, inner, text

_RECONNECTING: Final = re.compile(r"Reconnecting\.{3} (\d{1,9})/\d")


def retry_of(message: str) -> RetryBegun | None:
    """The retry that a message announces, if it does."""
    found = _RECONNECTING.match(message)
    return RetryBegun(message=message, attempt=int(found.group(1))) if found else None


class CodexLines:
    """One run of exec: one session, one turn."""

    def __init__(self, *, resume: str = "") -> None:
        self._resume = resume
        self._session = ""
        self._calls = CodexCalls()
        self._texts: dict[str, str] = {}
        self._answer: str | None = None
        self._error = ""
        self._is_over = False

    def read(self, line: Line) -> list[Observation]:
        """What a line tells."""
        said = object_on(line)
        if said is None:
            torn: list[Observation] = [] if line.is_whole else [Warned(kind="torn_line")]
            return [*torn, traced(line.data)]
        told = self._read(said)
        return [traced(line.data)] if told is None else told

    def ended(self) -> list[Observation]:
        """What is left to say once no more lines will come: how the turn ended, if no line said it."""
        if self._is_over:
            return []
        self._is_over = True
        if self._error:
            return [TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message=self._error)]
        return [TurnEnded(ending=TurnEnding.SILENT)]

    def _read(self, said: Fields) -> list[Observation] | None:
        match text(said, "type"):
            case "thread.started":
                return self._named(text(said, "thread_id"))
            case "turn.started":
                return [PromptReached(stage=DeliveryStage.STARTED)]
            case "item.created" | "item.started":
                return self._calls.began(item_of(said))
            case "item.updated":
                return self._updated(item_of(said))
            case "item.completed":
                return self._completed(item_of(said))
            case "error":
                return self._failing(text(said, "message"))
            case "turn.completed":
                return self._over(TurnEnding.NATURAL, usage=inner(said, "usage"))
            case "turn.failed":
                return self._over(TurnEnding.ERROR, message=text(inner(said, "error"), "message"))
            case _:
                return None

    def _named(self, name: str) -> list[Observation] | None:
        if not name or name == self._session:
            return None
        self._session = name
        told: list[Observation] = [SessionNamed(native_session_id=name)]
        if self._resume and name != self._resume:
            told.append(Warned(kind="resumed_another_session", message=f"asked for {self._resume}"))
        return told

    def _updated(self, item: Fields) -> list[Observation] | None:
        if text(item, "type") != "agent_message":
            return None
        item_id, now = text(item, "id"), text(item, "text")
        before = self._texts.get(item_id, "")
        self._texts[item_id] = now
        if not now.startswith(before):
            return [TextVoided(reason="the message was rewritten"), TextArrived(text=now, message_id=item_id)]
        return [TextArrived(text=now[len(before) :], message_id=item_id)] if len(now) > len(before) else []

    def _completed(self, item: Fields) -> list[Observation] | None:
        match text(item, "type"):
            case "agent_message":
                item_id, self._answer = text(item, "id"), text(item, "text")
                self._texts.pop(item_id, None)
                return [MessageEnded(text=self._answer, message_id=item_id)]
            case "reasoning":
                thought = text(item, "text")
                return [ThoughtArrived(text=thought)] if thought else []
            case "error":
                return [Warned(kind="agent_warning", message=text(item, "message"))]
            case _:
                return self._calls.ended(item)

    def _failing(self, message: str) -> list[Observation] | None:
        retry = retry_of(message)
        if retry is None:
            self._error = message
            return None
        told: list[Observation] = [retry]
        if any(self._texts.values()):
            told.append(TextVoided(reason=message))
        self._texts.clear()
        return told

    def _over(self, ending: TurnEnding, *, usage: Fields | None = None, message: str = "") -> list[Observation] | None:
        if self._is_over:
            return None
        self._is_over = True
        is_natural = ending is TurnEnding.NATURAL
        told = [*self._calls.leave(is_natural=is_natural, waiting=frozenset()), *self._usage(usage or {})]
        if is_natural:
            return [*told, TurnEnded(ending=ending, text=self._answer)]
        failure = message or self._error or "the turn failed without a word"
        return [*told, TurnEnded(ending=ending, error_kind="agent_error", error_message=failure)]

    def _usage(self, usage: Fields) -> list[Observation]:
        used, given, cached = (count_of(usage, f"{name}_tokens") for name in ("input", "output", "cached_input"))
        if self._resume or (used is None and given is None):
            return []
        return [
            UsageReported(scope=UsageScope.TURN, input_tokens=used, output_tokens=given, cached_input_tokens=cached)
        ]
