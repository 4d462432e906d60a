"""A secret that comes in pieces is not shown in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.runtime.redaction.outlet import MAX_HELD, RedactedFeed, RedactedText
from interlock.runtime.redaction.redactor import TELLING_CHARACTERS, Redactor
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.audit import StreamCheckpoint
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.ids import SessionId, StreamId, is_valid_id

SECRET = "correct-horse-9!"
TOKEN = "ghp_abcdefghij0123456789"
STREAM = StreamId("str_1")


def shown(pieces: list[str], redactor: Redactor | None = None) -> str:
    """What a reader can put together, who checks that pieces follow each other."""
    live, text, offset = RedactedText(redactor or Redactor([SECRET])), "", 0
    for piece in pieces:
        delta = live.delta(TextDelta(stream_id=STREAM, offset=offset, text=piece))
        offset += len(piece)
        if delta is not None:
            assert delta.offset == len(text)
            text += delta.text
    return text


def test_a_piece_without_a_secret_is_shown_as_it_is() -> None:
    delta = TextDelta(stream_id=STREAM, offset=7, text="and more ")
    assert RedactedText(Redactor([SECRET])).delta(delta) is delta


def test_a_value_in_two_pieces_is_masked() -> None:
    assert shown(["say corr", "ect-horse-9!", " now"]) == f"say {'*' * 16} now"


def test_what_only_began_like_a_value_is_shown_with_the_next_piece() -> None:
    assert shown(["say corr"]) == "say "
    assert shown(["say corr", "igan"]) == "say corrigan"


def test_one_or_two_letters_that_a_value_begins_with_are_shown_at_once_and_what_follows_them_is_masked() -> None:
    assert shown(["a taxi c"]) == "a taxi c"
    assert shown(["a taxi co"]) == "a taxi co"
    assert shown(["a taxi co", "r"]) == "a taxi co"
    assert shown(["say c", "o", "rrect-horse-9! and more."]) == f"say co{'*' * 14} and more."
    assert shown(["say co", "rrect-horse-9! and more."]) == f"say co{'*' * 14} and more."


def test_a_token_of_a_known_shape_in_pieces_is_masked() -> None:
    assert shown(["use g", "hp_abc", "defghij01", "23456789", " ok"]) == f"use ghp_{'*' * 20} ok"
    assert (
        shown(["Authorization: Bea", "rer abc", "123def4", "56\n", "next"]) == f"Authorization: Bearer {'*' * 12}\nnext"
    )
    assert shown(["at postgres://me:hun", "ter2@host", "/db"]) == "at postgres://me:*******@host/db"


def test_a_private_key_in_pieces_is_masked() -> None:
    pieces = ["-----BEGIN RSA PRIVATE KEY-----\nMIIab", "c\nxyz", "\n-----END RSA PRIVATE KEY-----", " done"]
    assert shown(pieces) == "-----BEGIN RSA PRIVATE KEY-----\n******\n***\n-----END RSA PRIVATE KEY----- done"


def test_another_stream_and_a_gap_begin_anew() -> None:
    live = RedactedText(Redactor([SECRET]))
    assert live.delta(TextDelta(stream_id=STREAM, offset=0, text="corr")) is None
    other = TextDelta(stream_id=StreamId("str_2"), offset=0, text="hello")
    assert live.delta(other) is other
    beyond = TextDelta(stream_id=StreamId("str_2"), offset=90, text="there")
    assert live.delta(beyond) is beyond


def test_reasoning_and_answer_do_not_mix() -> None:
    live = RedactedText(Redactor([SECRET]))
    assert live.delta(TextDelta(stream_id=STREAM, offset=0, text="corr")) is None
    thought = ReasoningDelta(stream_id=STREAM, offset=0, text="ect-horse-9!")
    assert live.delta(thought) is thought


def test_before_a_checkpoint_what_is_held_back_is_shown_as_the_checkpoint_has_it() -> None:
    redactor = Redactor([SECRET])
    live = RedactedText(redactor)
    first = live.delta(TextDelta(stream_id=STREAM, offset=0, text="say correct-h"))
    assert first is not None
    assert first.text == "say "
    point = StreamCheckpoint(stream_id=STREAM, offset=13, text="say correct-h")
    held = live.before_checkpoint(point)
    assert held is not None
    assert (held.offset, first.text + held.text) == (4, redactor.payload(point).text)
    assert live.before_checkpoint(point) is None
    rest = live.delta(TextDelta(stream_id=STREAM, offset=13, text="orse-9! now"))
    assert rest is not None
    assert (rest.offset, rest.text) == (13, "******* now")


def test_what_is_shown_before_a_checkpoint_has_a_name_of_its_own() -> None:
    published: list[Event] = []
    feed = RedactedFeed(published.append, Redactor([SECRET]))
    scribe = Scribe(SessionId("ses_1"))
    for data in (
        TextDelta(stream_id=STREAM, offset=0, text="say correct-h"),
        StreamCheckpoint(stream_id=STREAM, offset=13, text="say correct-h"),
    ):
        for event in scribe.write(data, turn="trn_1"):
            feed.publish(event)
    assert [event.type for event in published] == ["text_delta", "text_delta", "stream_checkpoint"]
    assert len({event.id for event in published}) == 3
    assert all(is_valid_id(event.id) for event in published)
    assert {event.turn_id for event in published} == {"trn_1"}


def test_a_checkpoint_of_another_stream_shows_nothing() -> None:
    live = RedactedText(Redactor([SECRET]))
    live.delta(TextDelta(stream_id=STREAM, offset=0, text="corr"))
    assert live.before_checkpoint(StreamCheckpoint(stream_id=StreamId("str_2"), offset=4, text="corr")) is None


def test_not_everything_is_held_back_for_ever() -> None:
    text = shown(["-----BEGIN PRIVATE KEY-----", "x" * (MAX_HELD + 1)])
    assert text == "*" * (27 + MAX_HELD + 1)


@given(st.lists(st.integers(1, 7), max_size=30), st.integers(0, 3))
def test_however_it_is_cut_a_reader_gets_a_beginning_of_the_masked_text(cuts: list[int], ending: int) -> None:
    whole = f"first {SECRET} then {TOKEN} and corrigan, {SECRET[:5]}" + SECRET[:ending]
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(whole[at : at + cut])
        at += cut
    pieces.append(whole[at:])
    redactor = Redactor([SECRET])
    seen = shown([piece for piece in pieces if piece], redactor)
    masked = redactor.text(whole)[: len(seen)]
    clear = [at for at, (one, other) in enumerate(zip(seen, masked, strict=True)) if one != other]
    assert [seen[at] for at in clear] == [whole[at] for at in clear]
    starts = [at for at in range(len(whole)) if whole.startswith(SECRET, at)]
    assert all(any(at - start < TELLING_CHARACTERS - 1 for start in starts if start <= at) for at in clear)
    assert len(whole) - len(seen) <= len(SECRET)


def test_an_empty_piece_says_nothing() -> None:
    live = RedactedText(Redactor([SECRET]))
    assert live.delta(TextDelta(stream_id=STREAM, offset=0, text="corr")) is None
    assert live.delta(TextDelta(stream_id=STREAM, offset=4, text="")) is None
    assert Redactor([SECRET]).begun("") == 0
