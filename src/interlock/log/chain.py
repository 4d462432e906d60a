"""The chain of a session: each event's digest covers the one before it, so that an edit shows.

`digest(seq) = sha256("interlock-log-1\\n" + digest(seq - 1) + line)`, where `digest(0)` is made from the session id.
It shows damage and edits. Whoever can rewrite the whole file can also rewrite every digest, and a cut tail with a
matching head looks whole: only a head that was noted elsewhere shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from msgspec import structs

from interlock.log.port import DamageKind, Followed, LogDamage, VersionConflict
from interlock.vocabulary.actions import verify_log
from interlock.vocabulary.errors import ContractError, MalformedEvent
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import DECLARATIONS, Durability
from interlock.vocabulary.ids import SessionId, is_valid_id

_LINK: Final = b"interlock-log-1\n"
_START: Final = b"interlock-log-1 session\n"
_EPHEMERAL: Final = frozenset(one.payload for one in DECLARATIONS.values() if one.durability is Durability.EPHEMERAL)


def start(session_id: SessionId) -> bytes:
    """The digest before the first event."""
    return sha256(_START + session_id.encode()).digest()


def link(previous: bytes, line: bytes) -> bytes:
    """The digest of an event, from the digest before it and its line without a newline."""
    return sha256(_LINK + previous + line).digest()


class Head(NamedTuple):
    """Where a session ends: the `seq` and the digest of its last event."""

    version: int
    digest: bytes


class Stamped(NamedTuple):
    """An event with its place, and the bytes that are kept of it."""

    event: Event
    line: bytes
    digest: bytes


def stamp(
    session_id: SessionId, events: Sequence[Event], head: Head, *, expected_version: int | None = None
) -> tuple[Stamped, ...]:
    """Give events the next sequence numbers and digests, or refuse all of them. Nothing outside is changed."""
    if expected_version is not None and expected_version != head.version:
        raise VersionConflict(session_id, expected=expected_version, actual=head.version)
    if not events:
        raise ContractError(f"an append to session {session_id} without events; there is nothing to make durable")
    stamped: list[Stamped] = []
    digest = head.digest
    for seq, event in enumerate(events, start=head.version + 1):
        _refuse_misplaced(session_id, event, seq)
        placed = structs.replace(event, seq=seq)
        line = encode_event(placed)
        digest = link(digest, line)
        stamped.append(Stamped(placed, line, digest))
    return tuple(stamped)


def check_session_id(session_id: str) -> None:
    if not is_valid_id(session_id):
        raise ContractError(
            f"{session_id!r} is not a session id: 1 to 128 letters, digits and _ . : - , no other first sign"
        )


def _refuse_misplaced(session_id: SessionId, event: Event, seq: int) -> None:
    if event.session_id != session_id:
        raise ContractError(f"event {event.id} belongs to session {event.session_id}, not to {session_id}")
    if event.seq is not None and event.seq != seq:
        raise ContractError(f"event {event.id} says seq {event.seq}; the next of session {session_id} is {seq}")
    if type(event.data) in _EPHEMERAL:
        raise ContractError(f"event {event.id} ({event.type}) is shown live and never logged; publish it instead")


class ChainRow(NamedTuple):
    """An event as it is stored. One whose page is lost keeps its place and has no line."""

    position: int
    session_id: SessionId
    seq: int
    line: bytes
    digest: bytes
    schema_version: int


Decoder: TypeAlias = Callable[[bytes, int], Event]


class Inspector:
    """Looks at the rows of one session in their order, and tells what is sound from what is damaged.

    A row whose digest does not follow is not believed, and costs only itself: the next one may follow either from the
    digest that it stored or from the one that it should have stored. After a hole (rows lost, or not of this place)
    the chain starts anew, so the row behind it is taken as it is: the damage that is told just before it says so.
    """

    def __init__(self, session_id: SessionId, decode: Decoder, *, after: int = 0) -> None:
        self.session_id = session_id
        self.last_seq = after
        self.seen_seq = 0  # of the last row; behind `last_seq` where rows are missing or not yet there
        self._decode = decode
        # What the next digest may follow from; nothing where that is not known.
        self._previous: tuple[bytes, ...] = () if after else (start(session_id),)
        self._is_head_told = False

    def see(self, row: ChainRow) -> Iterator[Followed]:
        """What the next row holds, and before it what is missing. A row at or before the last one yields nothing.

        A damaged row may lie about its place as well, so it moves the walk on only if it stands where it should.
        """
        if row.seq <= self.last_seq:
            return
        found = self._read(row)
        is_next = row.seq == self.last_seq + 1
        if isinstance(found, LogDamage) and not is_next:
            yield found
            return
        yield from self.skip_to(row.seq - 1)
        self.last_seq = self.seen_seq = row.seq
        due = tuple(link(previous, row.line) for previous in self._previous) if row.line else ()
        is_linked = row.digest in due or not due
        self._previous = (row.digest,) if is_linked else (row.digest, due[0])
        if not row.line or (isinstance(found, LogDamage) and found.kind is DamageKind.CHANGED):
            self._previous = ()  # a lost page, or a row of another place: its digest says nothing about this one
        if isinstance(found, LogDamage) or is_linked:
            yield found
        else:
            yield damage(DamageKind.CHANGED, self.session_id, "its digest does not follow from its line", row.seq)

    def skip_to(self, seq: int) -> Iterator[LogDamage]:
        """What is missing up to and with `seq`."""
        if seq > self.last_seq:
            yield damage(DamageKind.MISSING, self.session_id, "no such row", self.last_seq + 1, seq)
            self.last_seq = seq
            self._previous = ()

    def end(self, head: Head) -> Iterator[LogDamage]:
        """What is missing at the end, by the head that is kept apart. Says only once that the two do not match."""
        yield from self.skip_to(head.version)
        seq: int | None = None
        if head.version < self.seen_seq:
            message = f"its head says version {head.version}, and there are events up to {self.seen_seq}"
        elif head.version == self.seen_seq and self._previous and head.digest not in self._previous:
            seq, message = self.seen_seq, "its head does not match its last event: one of them was changed"
        else:
            return
        if not self._is_head_told:
            self._is_head_told = True
            yield damage(DamageKind.HEAD_MISMATCH, self.session_id, message, seq)

    def _read(self, row: ChainRow) -> Followed:
        if not row.line:
            return damage(DamageKind.UNREADABLE, self.session_id, "its page cannot be read", row.seq)
        try:
            event = self._decode(row.line, row.schema_version)
        except MalformedEvent as fault:
            return damage(DamageKind.UNREADABLE, self.session_id, f"not an event: {fault}", row.seq)
        if (event.session_id, event.seq) != (self.session_id, row.seq):
            message = f"its line says event {event.seq} of session {event.session_id}"
            return damage(DamageKind.CHANGED, self.session_id, message, row.seq)
        return event


def damage(
    kind: DamageKind, session_id: SessionId, message: str, first_seq: int | None = None, last_seq: int | None = None
) -> LogDamage:
    """A finding with its next action. One sequence number alone is a range of one."""
    return LogDamage(
        kind=kind,
        session_id=session_id,
        message=message,
        first_seq=first_seq,
        last_seq=first_seq if last_seq is None else last_seq,
        next_actions=(verify_log(session_id),),
    )
