"""What every store of the log promises. One contract suite runs over all of them (`tests/contract/`).

Laws:
1. Stamp, append durably, then publish. A failed append publishes nothing, and no sequence number is used up.
2. A batch is all or nothing, and its events are neighbours.
3. `seq` counts from 1 within a session without a gap, so a session's version is the `seq` of its last event (0: none).
   `position` counts commits over all sessions. Commit order, sequence order and position order agree.
4. `expected_version` makes an append a compare-and-set: somebody else's append in between is a `VersionConflict`.
5. A follower misses nothing and repeats nothing, also where history hands over to live.
6. Damage costs only what is damaged: a reader gets what is sound, and a `LogDamage` for the rest. No event is both.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionId, TurnId

if TYPE_CHECKING:
    from interlock.log.snapshots import Snapshots


class VersionConflict(InterlockError):
    """Somebody appended first. Read again from `actual`, decide again, append again."""

    def __init__(self, session_id: SessionId, *, expected: int, actual: int) -> None:
        super().__init__(f"session {session_id} is at version {actual}, not {expected}: somebody appended first")
        self.session_id = session_id
        self.expected = expected
        self.actual = actual


class LogUnavailable(InterlockError):
    """The store cannot take or give events now (a full disk, a lock, permissions). Nothing was half written.

    `may_pass`: the same attempt may succeed later without anything being done to this log or this process.
    """

    def __init__(self, message: str, *, next_action: str, may_pass: bool = True) -> None:
        super().__init__(f"{message}; {next_action}")
        self.message = message
        self.next_action = next_action
        self.may_pass = may_pass


class DamageKind(StrEnum):
    """What is wrong with a part of the log."""

    UNREADABLE = "unreadable"
    CHANGED = "changed"
    MISSING = "missing"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    HEAD_MISMATCH = "head_mismatch"


class LogDamage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the log that cannot be trusted, by sequence numbers where they are known."""

    kind: DamageKind
    session_id: SessionId
    message: str
    first_seq: int | None = None
    last_seq: int | None = None
    next_actions: tuple[NextAction, ...] = ()


class Slice(Struct, frozen=True, kw_only=True):
    """What one read found: sound events in order, the session's version, and what is damaged in between."""

    events: tuple[Event, ...]
    version: int
    damage: tuple[LogDamage, ...] = ()


def without_damaged(events: Sequence[Event], damage: Sequence[LogDamage]) -> tuple[Event, ...]:
    """The events that no finding names. What was read of the last one may be contradicted by the head after it."""
    ends = {one.last_seq for one in damage if one.kind is DamageKind.HEAD_MISMATCH}
    return tuple(events[:-1] if events and events[-1].seq in ends else events)


class TurnSlice(Struct, frozen=True, kw_only=True):
    """A session from the beginning of one of its last turns on, or all of it (`after` is 0, `turns` None).

    `turns` are those that begin here; other turns that are spoken of began before. `prompts_before` counts the prompts
    without a turn id before. `process`: the event with which the last process started, and its exit if there is one.
    """

    found: Slice
    after: int = 0
    turns: frozenset[TurnId] | None = None
    prompts_before: int = 0
    process: tuple[Event, ...] = ()


class Committed(NamedTuple):
    """An event, and its place in the order of all commits."""

    position: int
    event: Event


class SessionSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session. `head` is the hex digest that ends its chain; a purged session keeps its summary as a tombstone.
    `archive` names the file that its events were moved to; blank: they are in the store."""

    session_id: SessionId
    version: int
    head: str
    first_at: Moment | None = None
    last_at: Moment | None = None
    is_purged: bool = False
    archive: str = ""


class SessionPage(Struct, frozen=True, kw_only=True):
    """Some sessions in the order of their ids, and the cursor to ask with for the next ones (None: no more)."""

    sessions: tuple[SessionSummary, ...]
    next_after: SessionId | None = None


Followed: TypeAlias = Event | LogDamage


class Log(Protocol):
    """A store. All methods may be called from many tasks at once."""

    @property
    def snapshots(self) -> Snapshots:
        """What folds of its sessions came to: a cache."""
        ...

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        """Stamp and keep `events`, all or none, and return the new version once they are durable.

        Refuses (`ContractError`) events of another session, ephemeral ones, and a given `seq` that is not the next.
        """
        ...

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int | None = None) -> Slice:
        """The events with `seq` greater than `after`, at most `limit` of them. An unknown session is empty."""
        ...

    async def read_turns(self, session_id: SessionId, *, last: int = 1) -> TurnSlice:
        """The events since the last `last` turns began. All of them where the store cannot tell where that was."""
        ...

    def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Followed, None]:
        """Every event after `after`, then each new one as it is committed, until the caller stops or the log closes."""
        ...

    def follow_all(self, *, after: int = 0) -> AsyncGenerator[Committed | LogDamage, None]:
        """Every event of every session after a position, in commit order, then live."""
        ...

    async def sessions(self, *, prefix: str = "", after: SessionId | None = None, limit: int = 100) -> SessionPage:
        """Summaries of the sessions whose id starts with `prefix`, in the order of their ids."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, end every follower, and let go of the store. Safe to call twice."""
        ...
