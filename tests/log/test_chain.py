"""The chain: any edit shows, and costs only what was edited."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.log.chain import ChainRow, Head, Inspector, link, stamp, start
from interlock.log.port import DamageKind, LogDamage
from interlock.log.sqlite.schema import CURRENT
from interlock.vocabulary.events.codec import decode_event, encode_event
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId
from tests.contract.harness import A, B, batch

SIZE = 6


def rows(session_id: SessionId = A, size: int = SIZE) -> list[ChainRow]:
    stamped = stamp(session_id, batch(size, session_id), Head(0, start(session_id)))
    return [ChainRow(seq, session_id, seq, each.line, each.digest, 1) for seq, each in enumerate(stamped, 1)]


# Made once: events are numbered as they are made, and a property that is tried again must meet the same bytes.
ROWS = tuple(rows())


def inspect(
    found: list[ChainRow], head: Head | None = None, *, after: int = 0
) -> tuple[list[int | None], list[LogDamage]]:
    """The sequence numbers of what is sound, and the damage."""
    inspector = Inspector(A, CURRENT.decode, after=after)
    items = [item for row in found for item in inspector.see(row)]
    if head is not None:
        items += inspector.end(head)
    return [each.seq for each in items if isinstance(each, Event)], [
        each for each in items if isinstance(each, LogDamage)
    ]


def head_of(found: list[ChainRow]) -> Head:
    return Head(found[-1].seq, found[-1].digest)


def test_the_rule_is_written_down() -> None:
    """Others recompute it, so it must never change by accident."""
    first = sha256(b"interlock-log-1 session\nses_a").digest()
    assert start(A) == first
    assert link(first, b"{}") == sha256(b"interlock-log-1\n" + first + b"{}").digest()


def test_a_chain_belongs_to_its_session_and_its_order() -> None:
    assert start(A) != start(B)
    one, two = b"one", b"two"
    assert link(link(start(A), one), two) != link(link(start(A), two), one)
    assert link(link(start(A), one), two) != link(start(A), one + two)


def test_stamping_goes_on_from_the_head() -> None:
    events = batch(4)
    whole = stamp(A, events, Head(0, start(A)))
    first = stamp(A, events[:2], Head(0, start(A)))
    rest = stamp(A, events[2:], Head(2, first[-1].digest))
    assert first + rest == whole
    assert [encode_event(each.event) for each in whole] == [each.line for each in whole]


def test_a_sound_chain_has_no_damage() -> None:
    found = rows()
    assert inspect(found, head_of(found)) == (list(range(1, SIZE + 1)), [])
    assert inspect(found[3:], head_of(found), after=3) == ([4, 5, 6], [])


@given(st.data(), st.integers(0, SIZE - 1))
def test_a_flipped_byte_costs_its_row_and_no_other(data: st.DataObject, index: int) -> None:
    found = list(ROWS)
    row = found[index]
    is_line = data.draw(st.booleans())
    content = bytearray(row.line if is_line else row.digest)
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    head = head_of(found)
    found[index] = row._replace(line=bytes(content)) if is_line else row._replace(digest=bytes(content))
    sound, damage = inspect(found, head)
    assert sound == [seq for seq in range(1, SIZE + 1) if seq != index + 1]
    assert [(each.first_seq, each.last_seq) for each in damage] == [(index + 1, index + 1)]
    assert damage[0].kind in (DamageKind.CHANGED, DamageKind.UNREADABLE)


@given(st.sets(st.integers(1, SIZE), min_size=1, max_size=SIZE))
def test_missing_rows_are_named_and_the_rest_is_kept(lost: set[int]) -> None:
    found = rows()
    sound, damage = inspect([row for row in found if row.seq not in lost], head_of(found))
    assert sound == [seq for seq in range(1, SIZE + 1) if seq not in lost]
    named = [seq for each in damage for seq in range(each.first_seq or 0, (each.last_seq or 0) + 1)]
    assert named == sorted(lost)
    assert {each.kind for each in damage} == {DamageKind.MISSING}


def test_a_lost_page_costs_only_its_rows() -> None:
    found = rows()
    head = head_of(found)
    found[2] = found[2]._replace(line=b"", digest=b"")
    sound, damage = inspect(found, head)
    assert sound == [1, 2, 4, 5, 6]
    assert [(each.kind, each.first_seq, each.message) for each in damage] == [
        (DamageKind.UNREADABLE, 3, "its page cannot be read")
    ]


@pytest.mark.parametrize("other", [rows(B)[2], rows(A)[4]._replace(seq=3)])
def test_a_line_in_the_wrong_place_is_not_believed(other: ChainRow) -> None:
    found = rows()
    head = head_of(found)
    found[2] = other._replace(session_id=A, position=3)
    sound, damage = inspect(found, head)
    assert sound == [1, 2, 4, 5, 6]
    assert [(each.kind, each.first_seq) for each in damage] == [(DamageKind.CHANGED, 3)]


def test_a_row_that_lies_about_its_place_does_not_move_the_walk() -> None:
    found = rows()
    head = head_of(found)
    liar = found[2]._replace(seq=10**15)
    sound, damage = inspect([*found[:2], liar, *found[3:]], head)
    assert sound == [1, 2, 4, 5, 6]
    assert [(each.kind, each.first_seq, each.last_seq) for each in damage] == [
        (DamageKind.CHANGED, 10**15, 10**15),
        (DamageKind.MISSING, 3, 3),
    ]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (Head(SIZE, b"\0" * 32), "does not match"),
        (Head(SIZE - 1, b"\0" * 32), "says version 5, and there are events up to 6"),
    ],
)
def test_a_head_that_disagrees_is_told_once(head: Head, message: str) -> None:
    inspector = Inspector(A, CURRENT.decode)
    for row in rows():
        assert all(isinstance(item, Event) for item in inspector.see(row))
    (damage,) = inspector.end(head)
    assert damage.kind is DamageKind.HEAD_MISMATCH
    assert message in damage.message
    assert list(inspector.end(head)) == []


def test_a_lost_tail_is_told_once() -> None:
    found = rows()
    inspector = Inspector(A, CURRENT.decode)
    for row in found[:-2]:
        list(inspector.see(row))
    (lost,) = inspector.end(head_of(found))
    assert (lost.kind, lost.first_seq, lost.last_seq) == (DamageKind.MISSING, SIZE - 1, SIZE)
    assert list(inspector.end(head_of(found))) == [], "a walk that goes on asks again at each page"


def test_a_rewritten_tail_with_its_own_digests_shows_at_the_head() -> None:
    found = rows()
    head = head_of(found)
    forged = stamp(A, batch(1), Head(SIZE - 1, found[-2].digest))[0]
    found[-1] = found[-1]._replace(line=forged.line, digest=forged.digest)
    sound, damage = inspect(found, head)
    assert sound == list(range(1, SIZE + 1))
    assert [each.kind for each in damage] == [DamageKind.HEAD_MISMATCH]
    assert decode_event(forged.line).seq == SIZE
