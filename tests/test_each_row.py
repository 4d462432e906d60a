"""Tables of tests: every row is run and told by its name."""

from __future__ import annotations

import inspect

import pytest

from tests.each_row import each_row

MARKED = pytest.param(1, marks=pytest.mark.deep)


def test_every_row_runs_and_each_that_fails_is_named() -> None:
    ran = list[int]()

    @each_row(("number", "text"), [(1, "a"), (2, "b"), (3, "c")], ids=["one", "two", "three"])
    def check(number: int, text: str) -> None:
        ran.append(number)
        assert text == "b"

    assert not inspect.signature(check).parameters
    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as found:
        check()
    assert ran == [1, 2, 3]
    assert [one.__notes__ for one in found.value.exceptions] == [["row 1 of 3: one"], ["row 3 of 3: three"]]


def test_tables_cross_and_one_failure_is_itself() -> None:
    ran = list[tuple[str, int]]()

    @each_row("letter", ["a", pytest.param("b", id="second")])
    @each_row("number", range(2), ids=lambda number: f"n{number}")
    def check(letter: str, number: int) -> None:
        ran.append((letter, number))
        if (letter, number) == ("b", 1):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no") as found:
        check()
    assert ran == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert found.value.__notes__ == ["row 2 of 2: n1", "row 2 of 2: second"]


@pytest.mark.parametrize(
    ("names", "values"), [("number", []), ("number, text", [(1,)]), ("other", [1]), ("number", [MARKED])]
)
def test_a_table_that_cannot_be_run_is_refused(names: str, values: list[object]) -> None:
    with pytest.raises(AssertionError):

        @each_row(names, values)
        def check(number: int, text: str = "") -> None: ...
