"""Where things stand on a screen, found by the chrome around them."""

from __future__ import annotations

import re

from interlock.screen.conditions import RowMatches, rows_matching
from interlock.screen.regions import SCREEN, Located, RegionSpec
from interlock.screen.snapshot import read_snapshot

BOX = RegionSpec("box", start=re.compile("^>"), top=re.compile("^-+$"), bottom=re.compile("^-+$"))


def located(rows: str, *specs: RegionSpec) -> Located:
    """One row a word; `_` is an empty one."""
    lines = ["" if word == "_" else word for word in rows.split()]
    return Located(read_snapshot("\n".join(lines), columns=80).rows, {spec.name: spec for spec in (SCREEN, *specs)})


def test_the_screen_is_a_region() -> None:
    assert located("a b c")["screen"] == range(3)


def test_a_block_is_the_lowest_one_and_without_its_borders() -> None:
    assert located("-- >old -- text -- >new more -- foot", BOX)["box"] == range(5, 7)


def test_a_block_needs_the_border_right_above_it() -> None:
    assert located("-- text >x --", BOX)["box"] is None
    assert located(">x --", BOX)["box"] is None


def test_a_block_needs_its_bottom_near_enough() -> None:
    assert located("-- >x a b c", BOX)["box"] is None
    short = RegionSpec("box", start=BOX.start, bottom=BOX.bottom, max_rows=2)
    assert located(">x a --", short)["box"] == range(2)
    assert located(">x a b --", short)["box"] is None


def test_a_block_without_a_bottom_is_one_row() -> None:
    assert located("-- >x more", RegionSpec("box", start=BOX.start))["box"] == range(1, 2)


def test_a_block_may_need_something_below_it() -> None:
    spec = RegionSpec("box", start=BOX.start, bottom=BOX.bottom, requires_below=re.compile("^foot$"))
    assert located("-- >x -- foot", spec)["box"] == range(1, 2)
    assert located("-- >x -- else", spec)["box"] is None
    # The one with the footer stands, though another is lower.
    assert located(">x -- foot >y --", spec)["box"] == range(1)


def test_from_is_the_lowest_match_and_all_below() -> None:
    assert located("#a b #c d", RegionSpec("r", from_=re.compile("^#")))["r"] == range(2, 4)
    assert located("a b", RegionSpec("r", from_=re.compile("^#")))["r"] is None


def test_a_region_hangs_on_another_and_is_missing_with_it() -> None:
    above, below = RegionSpec("above", above="box"), RegionSpec("below", below="box")
    found = located("a b -- >x -- foot", BOX, above, below)
    assert (found["above"], found["below"]) == (range(3), range(4, 6))
    gone = located("a b", BOX, above, below)
    assert (gone["above"], gone["below"]) == (None, None)


def test_from_above_another_region_ends_at_it() -> None:
    found = located("#a b -- >x -- #foot", BOX, RegionSpec("latest", above="box", from_=re.compile("^#")))
    assert found["latest"] == range(3)


def test_rows_that_are_not_blank_are_counted_from_the_other_region() -> None:
    found = located("a b _ c _ -- >x --", BOX, RegionSpec("near", above="box", rows=2))
    assert found["near"] == range(2, 6)
    found = located("-- >x -- _ a _ b", BOX, RegionSpec("near", below="box", rows=2))
    assert found["near"] == range(2, 6)


def test_stop_bounds_a_side_and_does_not_belong_to_it() -> None:
    stop = re.compile("^=")
    assert located("a = b -- >x --", BOX, RegionSpec("near", above="box", stop=stop))["near"] == range(2, 4)
    assert located("-- >x -- a = b", BOX, RegionSpec("near", below="box", stop=stop))["near"] == range(2, 4)
    assert located("a b -- >x --", BOX, RegionSpec("near", above="box", stop=stop))["near"] == range(3)


def test_last_is_the_bottom_rows_that_are_not_blank() -> None:
    assert located("a b _ c _", RegionSpec("end", last=2))["end"] == range(1, 5)
    assert located("a", RegionSpec("end", last=5))["end"] == range(1)
    assert located("_ _", RegionSpec("end", last=1))["end"] == range(2)


def test_a_screen_without_rows_has_no_regions_and_breaks_nothing() -> None:
    empty = Located((), {spec.name: spec for spec in (SCREEN, BOX, RegionSpec("end", last=3))})
    assert (empty["screen"], empty["box"], empty["end"]) == (range(0), None, range(0))


def test_each_region_is_looked_for_once() -> None:
    found = located("-- >x --", BOX)
    assert found["box"] is found["box"]


def test_matching_names_rows_by_their_number_on_the_screen() -> None:
    rows = located("a b a").rows
    lower = Located(rows, {"lower": RegionSpec("lower", last=2)})
    assert rows_matching(RowMatches("lower", re.compile("^a$")), lower) == (2,)
