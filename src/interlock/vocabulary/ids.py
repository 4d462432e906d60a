"""Names of things: prefixed, sortable by birth, safe in a shell, a path and a URL.

An id is `<prefix>_<26 characters>`: 48 bits of milliseconds, then 80 bits of entropy, in Crockford's base 32 (lower
case). Nothing here reads a clock or a random source: both are arguments, so that a simulation can replay them.
Ids that come from other tools are accepted as they are, as long as they match `ID_PATTERN`.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, NewType, TypeAlias

from msgspec import Meta

from interlock.vocabulary.errors import ContractError

EventId = NewType("EventId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
SpawnId = NewType("SpawnId", str)
RunId = NewType("RunId", str)
StreamId = NewType("StreamId", str)
CallId = NewType("CallId", str)
PromptId = NewType("PromptId", str)
SubagentId = NewType("SubagentId", str)
WorkflowId = NewType("WorkflowId", str)
StepId = NewType("StepId", str)

# The look-ahead refuses the trailing newline that `$` alone would let through; JSON Schema readers know it too.
ID_PATTERN: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$(?!\n)"
_ID: Final = re.compile(ID_PATTERN)
# Turns of imported logs are named by their number. No real id starts with this, and no shell reads anything into it.
IMPORTED_TURN_PREFIX: Final = "@"
# In the environment of every process of an agent's process tree: which spawn it belongs to.
SPAWN_ID_VARIABLE: Final = "INTERLOCK_SPAWN_ID"
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_BITS: Final = 48
_ENTROPY_BYTES: Final = 10
_SHIFTS: Final = tuple(range(120, -1, -10))  # 26 letters, two at a time
_PAIRS: Final = tuple(one + two for one in _ALPHABET for two in _ALPHABET)

EventIdField: TypeAlias = Annotated[EventId, Meta(pattern=ID_PATTERN)]
SessionIdField: TypeAlias = Annotated[SessionId, Meta(pattern=ID_PATTERN)]
TurnIdField: TypeAlias = Annotated[TurnId, Meta(pattern=ID_PATTERN)]
SpawnIdField: TypeAlias = Annotated[SpawnId, Meta(pattern=ID_PATTERN)]


def sortable_id(prefix: str, unix_ms: int, entropy: bytes) -> str:
    """Spell an id. Ids of one prefix sort by `unix_ms`, then by `entropy` (exactly ten bytes)."""
    if not 0 <= unix_ms < 1 << _TIME_BITS:
        raise ContractError(f"an id's time must fit 48 bits of milliseconds, got {unix_ms}")
    if len(entropy) != _ENTROPY_BYTES:
        raise ContractError(f"an id needs exactly {_ENTROPY_BYTES} bytes of entropy, got {len(entropy)}")
    number = unix_ms << (8 * _ENTROPY_BYTES) | int.from_bytes(entropy, "big")
    letters = "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
    return f"{prefix}_{letters}"


def moment_of(spelled: str) -> int | None:
    """The milliseconds that an id of `sortable_id` holds; None of any other."""
    letters = spelled.rpartition("_")[2]
    if len(letters) != 2 * len(_SHIFTS) or any(letter not in _ALPHABET for letter in letters):
        return None
    number = 0
    for letter in letters:
        number = number << 5 | _ALPHABET.index(letter)
    return number >> (8 * _ENTROPY_BYTES) if number >> (8 * _ENTROPY_BYTES) < 1 << _TIME_BITS else None


def new_event_id(unix_ms: int, entropy: bytes) -> EventId:
    return EventId(sortable_id("evt", unix_ms, entropy))


def new_session_id(unix_ms: int, entropy: bytes) -> SessionId:
    return SessionId(sortable_id("ses", unix_ms, entropy))


def is_valid_id(text: str) -> bool:
    """Whether `text` may name something: no control characters, no separators, at most 128 characters."""
    return _ID.search(text) is not None
