"""The redactor: texts and events without the secrets that we know of.

Laws:
1. By value: every spelling of every value that it learned becomes stars, one a character. Lengths and offsets stay, and
   so does everything that is counted in code points.
2. By pattern: well-known shapes everywhere; guesses by name and by randomness only in diagnostics (errors, the tail of
   standard error, command lines), where nothing is replayed to a model or read as an answer.
3. Redacting what is redacted changes nothing. A payload without a secret is returned as it is, not a copy.
4. A text may be cut in the midst of a value: what is left of it at either end is masked, too, from `CUT_CHARACTERS` on.
5. Ids that we make are never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Final, TypeVar, cast

from msgspec import Struct, structs

from interlock.agents.pool.masking import (
    STAR,
    TRIGGER_CHARACTERS,
    has_trigger,
    masked_argv,
    masked_text,
    starred_text,
    unfinished_length,
)
from interlock.runtime.redaction.values import MIN_NAMED_CHARACTERS, secret_values
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.events.audit import (
    AgentSession,
    Anomaly,
    LastScreen,
    ProcessEvent,
    QueueEvent,
    QueueGate,
    RunState,
    SessionOpened,
    StreamCheckpoint,
    SurfaceEvent,
    TurnFailed,
    TurnStarted,
)
from interlock.vocabulary.events.conversation import AssistantMessage
from interlock.vocabulary.events.presenter import ScreenUpdate, Status
from interlock.vocabulary.events.registry import Payload

CUT_CHARACTERS: Final = 6
# Fewer characters of a value's beginning tell nothing of it. Every second word ends in a letter that some value begins
# with: held back, it would be missing from what a person reads for as long as an agent pauses there.
TELLING_CHARACTERS: Final = 3
_MAX_DEPTH: Final = 100  # deeper ones cannot be written to the log at all

_DIAGNOSTICS: Final = frozenset({TurnFailed, RunState, ProcessEvent, Anomaly, QueueGate, Status})
_OF_A_TERMINAL: Final = frozenset({SurfaceEvent, ScreenUpdate, LastScreen})
_OUR_IDS: Final = frozenset(
    {"prompt_id", "stream_id", "run_id", "subagent_id", "workflow_id", "step_id"}
    | {"child_session_id", "parent_session_id", "fork_root_session_id", "parent_id", "root_id"}
)
# What a later runtime needs as it is in order to run, or to find, the agent again.
_KEPT: Final[Mapping[type[Payload], frozenset[str]]] = {
    SessionOpened: frozenset({"agent", "driver", "model", "environment", "policy"}),
    TurnStarted: frozenset({"agent", "model"}),
    ProcessEvent: frozenset({"where", "start_time"}),
}

_NO_TEXT: Final = frozenset({type(None), bool, int, float, datetime})

PayloadT = TypeVar("PayloadT", bound=Payload)
Hide = Callable[[str], str]


class Redactor:
    """Knows the secrets of every session of one runtime. It learns, and never forgets: what one agent is given, another
    one may read and print."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: tuple[str, ...] = ()
        self.longest = 0
        self._letters: frozenset[str] = frozenset()
        self.add(values)

    def learn(self, environment: Mapping[str, str]) -> None:
        """The environment that an agent is given."""
        self.add(secret_values(environment))

    def add(self, values: Iterable[str]) -> None:
        known = {*self._values, *values} - {""}
        if len(known) > len(self._values):
            self._values = tuple(sorted(known, key=lambda value: (-len(value), value)))
            self.longest = len(self._values[0])
            self._letters = frozenset("".join(self._values))

    def text(self, text: str) -> str:
        """A text of a conversation. Its length stays."""
        for value in self._values:
            if value in text:
                text = text.replace(value, STAR * len(value))
        return starred_text(text)

    def cut_text(self, text: str) -> str:
        """The same for a text that may begin or end in the midst of a secret."""
        text = self.text(text)
        for value in self._values:
            head, tail = _cut_lengths(text, value)
            if tail:
                text = text[: len(text) - tail] + STAR * tail
            if head:
                text = STAR * head + text[head:]
        return text

    def diagnostic(self, text: str) -> str:
        """A text for whoever looks for a cause. Its length may change."""
        return masked_text(self.rows(text))

    def rows(self, text: str) -> str:
        """Lines that a terminal wrapped: each may be cut at either end, or be nothing but a piece of a secret."""
        if "\n" not in text:
            return self.cut_text(text)
        text = self.text(text)  # a value may hold a line end itself
        return "\n".join(STAR * len(line) if self._is_piece(line) else self.cut_text(line) for line in text.split("\n"))

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        return masked_argv([self.text(word) for word in argv])

    def snapshot(self, seen: Snapshot) -> Snapshot:
        """What a terminal shows. Every character stays in its place."""
        shown = self.rows("\n".join(row.text for row in seen.rows)).split("\n")
        rows = tuple(
            row if row.text == text else replace(row, text=text) for row, text in zip(seen.rows, shown, strict=True)
        )
        return replace(seen, rows=rows, title=self.text(seen.title), raw_text="")

    def is_plain(self, before: str, text: str) -> bool:
        """Whether a piece of text surely neither holds, begins nor ends a secret. `before`: what was shown before it,
        which ends in no beginning of a secret."""
        if has_trigger(before[-TRIGGER_CHARACTERS:] + text) or text[-1:] in self._letters:
            return False
        if len(text) < MIN_NAMED_CHARACTERS:
            return True
        return all(value not in text for value in self._values)

    def begun(self, text: str) -> int:
        """How many characters at the end are the beginning of a value."""
        last = text[-1:]
        return max((_begun(text, value) for value in self._values if last and last in value), default=0)

    def unfinished(self, text: str, begun: int) -> int:
        """How many characters at the end may be the beginning of a secret and tell something of it. `begun`: of a
        value, as the method of that name counts them."""
        return max(begun if begun >= TELLING_CHARACTERS else 0, unfinished_length(text))

    def payload(self, data: PayloadT) -> PayloadT:
        """What an event says, without secrets."""
        found = cast("PayloadT", self._struct(data, self._hide(data), _KEPT.get(type(data), frozenset()), 0))
        return found if found is data else cast("PayloadT", _marked(data, found))

    def _hide(self, data: Payload) -> Hide:
        kind = type(data)
        if kind in _DIAGNOSTICS:
            return self.diagnostic
        if kind in _OF_A_TERMINAL:
            return self.rows
        is_cut = isinstance(data, StreamCheckpoint) or (isinstance(data, AssistantMessage) and data.metadata.partial)
        return self.cut_text if is_cut else self.text

    def _struct(self, data: Struct, hide: Hide, kept: frozenset[str], depth: int) -> Struct:
        changed = {}
        for name in _told_fields(type(data), kept):
            value = getattr(data, name)
            if value is None:
                continue
            if name == "argv":
                now: object = self.argv(value)
                now = value if now == value else now
            else:
                now = self._value(value, hide, kept, depth)
            if now is not value:
                changed[name] = now
        return structs.replace(data, **changed) if changed else data

    def _value(self, value: object, hide: Hide, kept: frozenset[str], depth: int) -> object:
        if type(value) is str:  # and not one of an enumeration
            hidden = hide(value) if len(value) >= CUT_CHARACTERS else value
            return value if hidden == value else hidden
        if depth > _MAX_DEPTH or type(value) in _NO_TEXT:
            return value
        if isinstance(value, Struct):
            return self._struct(value, hide, kept, depth + 1)
        if isinstance(value, list | tuple):
            items = [self._value(item, hide, kept, depth + 1) for item in value]
            is_same = all(now is item for now, item in zip(items, value, strict=True))
            return value if is_same else type(value)(items)
        if isinstance(value, dict):
            pairs = [
                (self._value(key, hide, kept, depth + 1), self._value(item, hide, kept, depth + 1))
                for key, item in value.items()
            ]
            is_same = all(k is key and v is item for (k, v), (key, item) in zip(pairs, value.items(), strict=True))
            return value if is_same else dict(pairs)
        return value

    def _is_piece(self, line: str) -> bool:
        words = line.strip()
        return len(words) >= 2 * CUT_CHARACTERS and any(words in value for value in self._values)


@cache
def _told_fields(kind: type[Struct], kept: frozenset[str]) -> tuple[str, ...]:
    """The fields of a struct that may hold what somebody said."""
    return tuple(name for name in kind.__struct_fields__ if name not in kept and name not in _OUR_IDS)


def _marked(data: Payload, found: Payload) -> Payload:
    """What cannot be used any more as the log has it is said to be so."""
    if isinstance(found, QueueEvent):
        return structs.replace(found, is_redacted=True)
    if isinstance(found, AgentSession) and isinstance(data, AgentSession):
        is_usable = found.native_session_id == data.native_session_id
        return found if is_usable else structs.replace(found, native_session_id="", reason="its id holds a secret")
    return found


def _cut_lengths(text: str, value: str) -> tuple[int, int]:
    """How much of a value stands at the beginning of a text (its end), and at the end of it (its beginning)."""
    head = tail = 0
    if len(value) > CUT_CHARACTERS:
        begin = text.rfind(value[:CUT_CHARACTERS], max(0, len(text) - len(value)))
        if begin >= 0 and value.startswith(text[begin:]):
            tail = len(text) - begin
        end = text[: len(value)].find(value[-CUT_CHARACTERS:])
        if end >= 0 and value.endswith(text[: end + CUT_CHARACTERS]):
            head = end + CUT_CHARACTERS
    return head, tail


def _begun(text: str, value: str) -> int:
    for length in range(min(len(value) - 1, len(text)), 0, -1):
        if text.endswith(value[:length]):
            return length
    return 0
