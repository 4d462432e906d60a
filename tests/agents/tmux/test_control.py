"""The protocol of control mode, byte by byte."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.tmux.control import (
    MAX_LINE_BYTES,
    MAX_REPLY_BYTES,
    Continued,
    ControlEvent,
    ControlParser,
    MalformedLine,
    Notification,
    Output,
    Paused,
    SessionChanged,
    SessionsChanged,
    SubscriptionChanged,
    TmuxExited,
    TmuxReply,
    WindowChanged,
)

TALK = (
    b"%begin 1 260 0\n%end 1 260 0\n%session-changed $0 a b\n%output %1 hi\\015\\012\xff\xc3\n"
    b"%begin 2 261 1\n%output %9 no\n%end 2 262 1\n\n%exit\n%end 2 261 1\n"
    b"%extended-output %2 17 : a : b\\134\n%pause %2\n%continue %2\n%sessions-changed\n"
    b"%begin 3 262 1\ncan't find pane: %7\n%error 3 262 1\n"
    b"%layout-change @3 b25d,80x24,0,0,0 b25d,80x24,0,0,0 *\n%window-close @4\n%unlinked-window-close @5\n"
    b"%window-pane-changed @3 %8\n%subscription-changed il $0 @0 0 %0 : a : b\n%paste-buffer-changed buffer0\n"
    b"%exit server exited\n"
)


def parse(*pieces: bytes) -> list[ControlEvent]:
    parser = ControlParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def test_each_notification_has_its_event() -> None:
    assert parse(TALK) == [
        TmuxReply(260, False, False, ()),
        SessionChanged("$0", "a b"),
        Output("%1", b"hi\\015\\012\xff\xc3"),
        TmuxReply(261, True, False, (b"%output %9 no", b"%end 2 262 1", b"", b"%exit")),
        Output("%2", b"a : b\\134", 17),
        Paused("%2"),
        Continued("%2"),
        SessionsChanged(),
        TmuxReply(262, True, True, (b"can't find pane: %7",)),
        WindowChanged("layout-change", "@3"),
        WindowChanged("window-close", "@4"),
        WindowChanged("unlinked-window-close", "@5"),
        WindowChanged("window-pane-changed", "@3"),
        SubscriptionChanged("il", "$0", "@0", "%0", "a : b"),
        Notification("paste-buffer-changed", "buffer0"),
        TmuxExited("server exited"),
    ]


@given(st.lists(st.integers(0, len(TALK)), max_size=12))
def test_however_the_bytes_are_torn_the_events_are_the_same(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TALK)]
    assert parse(*(TALK[start:end] for start, end in itertools.pairwise(places))) == parse(TALK)


@given(st.binary(max_size=300))
def test_output_is_decoded_to_what_the_program_wrote(data: bytes) -> None:
    escaped = b"".join(b"\\%03o" % byte if byte < 32 or byte == 0x5C else bytes((byte,)) for byte in data)
    (event,) = parse(b"%output %1 " + escaped + b"\n")
    assert isinstance(event, Output)
    assert event.data == data


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_no_bytes_whatever_break_the_parser(pieces: list[bytes]) -> None:
    parse(*pieces)
    assert parse(b"%begin 1 2 1\n", *pieces, b"\n%end 1 2 1\n")[-1:] != []


def test_a_line_without_end_is_dropped_and_the_next_one_is_read() -> None:
    pieces = [b"%output %1 ", *[b"x" * 65536] * 40, b"\n%pause %1\n"]
    events = parse(*pieces)
    assert [type(event) for event in events] == [MalformedLine, Paused]


def test_a_long_line_in_one_piece_is_dropped_too() -> None:
    events = parse(b"x" * (MAX_LINE_BYTES + 1) + b"\n%pause %1\n")
    assert [type(event) for event in events] == [MalformedLine, Paused]


def test_the_memory_for_a_reply_is_bounded_and_a_cut_one_says_so() -> None:
    parser = ControlParser()
    parser.feed(b"%begin 1 2 1\n")
    line = b"y" * 1000 + b"\n"
    for _ in range(2 * MAX_REPLY_BYTES // len(line)):
        assert parser.feed(line) == []
    (reply,) = parser.feed(b"%end 1 2 1\n")
    assert isinstance(reply, TmuxReply)
    assert reply.is_cut
    assert sum(map(len, reply.lines)) <= MAX_REPLY_BYTES


def test_text_outside_of_a_reply_and_an_end_without_beginning_are_told() -> None:
    assert [type(event) for event in parse(b"hello\n%end 1 2 1\n%begin x\n\n%pause %1\n")] == [MalformedLine] * 3 + [
        Paused
    ]


def test_a_reply_that_is_no_utf8_is_still_text() -> None:
    (reply,) = parse(b"%begin 1 2 1\n\xff\xfe\n%end 1 2 1\n")
    assert isinstance(reply, TmuxReply)
    assert reply.text == "\ufffd\ufffd"
