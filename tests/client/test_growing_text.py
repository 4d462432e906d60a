"""Text that grows: every value keeps its own, whoever goes on from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.client.machine.growing_text import GrowingText
from tests.each_row import each_row


@each_row(
    ("known", "offset", "more", "merged"),
    [
        ("", 0, "a", "a"),
        ("ab", 2, "c", "abc"),
        ("abc", 1, "bcd", "abcd"),
        ("abc", 1, "X", "aX"),
        ("abc", 0, "", ""),
        ("é🙂", 2, "字", "é🙂字"),
        ("é🙂", 1, "🙂字", "é🙂字"),
        ("ab", 3, "d", None),
        ("", 1, "", None),
    ],
)
def test_text_is_put_at_its_place_or_not_at_all(known: str, offset: int, more: str, merged: str | None) -> None:
    made = GrowingText(known).put(offset, more)
    assert (None if made is None else str(made)) == merged


def test_what_was_made_of_one_text_leaves_it_and_the_others_alone() -> None:
    one = GrowingText("a").put(1, "b")
    assert one is not None
    left, right = one.put(2, "left"), one.put(2, "right")
    assert [str(text) for text in (one, left, right)] == ["ab", "ableft", "abright"]


@given(
    st.lists(
        st.tuples(
            st.integers(min_value=0, max_value=5),
            st.integers(min_value=0, max_value=6),
            st.text(max_size=3),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_it_is_a_string_that_was_cut_and_added_to(steps: list[tuple[int, int, str, bool]]) -> None:
    known: list[tuple[GrowingText, str]] = [(GrowingText(), "")]
    for back, short, more, is_read in steps:
        text, plain = known[-1 - min(back, len(known) - 1)]
        offset = max(0, len(plain) - short)
        grown = text.put(offset, more)
        assert grown is not None
        known.append((grown, plain[:offset] + more))
        if is_read:
            assert str(grown) == known[-1][1]
    for text, plain in known:
        assert (str(text), text.length) == (plain, len(plain))
        assert (text, hash(text)) == (GrowingText(plain), hash(GrowingText(plain)))
    assert len({text for text, _ in known}) == len({plain for _, plain in known})


def test_it_is_equal_to_its_like_only() -> None:
    assert GrowingText("a") != GrowingText("b")
    assert GrowingText("a") != GrowingText("ab")
    assert GrowingText("a") != "a"
    assert repr(GrowingText("a")) == "GrowingText('a')"


def test_the_pieces_are_not_copied_for_each_other() -> None:
    """The whole is made when it is read, and at no other time."""
    text: GrowingText | None = GrowingText()
    for number in range(1000):
        assert text is not None
        text = text.put(number, "x")
    assert text is not None
    assert text._whole is None
    assert text._parts[1] == 1001
    assert str(text) == "x" * 1000
    assert text._parts == (["x" * 1000], 1)
