"""Lines of a search: what was searched for is in sight at every width, and hostile text stays one line."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.cells import cell_len

from interlock.cli.tables import Tone
from interlock.cli.top.layout.found import found_lines, told_of
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.wire.frames import Role
from interlock.vocabulary.wire.resources import SearchHit, SearchPage

AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def hit(excerpt: str, *matches: tuple[int, int], title: str = "a title", is_lost: bool = False) -> SearchHit:
    return SearchHit(
        task_id=SessionId("ses_1"), agent="claude", title=title, seq=7, turn_id=None, role=Role.ANSWER, at=AT,
        excerpt=excerpt, matches=matches, is_lost=is_lost,
    )  # fmt: skip


def page(*items: SearchHit, is_complete: bool = True, is_cut: bool = False, after: str | None = None) -> SearchPage:
    return SearchPage(items=items, next=after, is_complete=is_complete, is_cut=is_cut, progress=0.5)


def test_the_match_is_within_the_width_wherever_it_stands() -> None:
    for width in (40, 76, 120, 200):
        for start in (0, 5, 60, 300):
            text = "x" * start + "needle" + "y" * 300
            (line,) = found_lines([hit(text, (start, start + 6))], 0, width)
            shown = "".join(piece for piece, _ in line)
            at = shown.index("needle")
            assert cell_len(shown[:at]) + 6 <= width or width < 50, (width, start, shown[:width])
            assert "".join(piece for piece, tone in line if tone == Tone.URGENT) == "needle"


def test_the_chosen_one_is_marked_and_a_lost_one_says_so() -> None:
    first, second = found_lines([hit("one"), hit("", is_lost=True)], 1, 100)
    assert (first[0][0], second[0][0]) == (" ", "▌")
    assert "cannot give" in second[-1][0]


def test_an_answer_that_may_lack_something_says_so() -> None:
    assert told_of(page(hit("one"))) == ""
    assert told_of(page()) == "no transcript has these words"
    assert "index is still being made (50%)" in told_of(page(is_complete=False))
    assert "took too long" in told_of(page(hit("one"), is_complete=False, is_cut=True))
    assert "there are more" in told_of(page(hit("one"), after="7"))
