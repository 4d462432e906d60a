"""Plain command lines are read without the parser, and mean what the parser would read."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from interlock.cli.app import app
from interlock.cli.plain import FORMS, _read, run_plain
from tests.each_row import each_row

# For the parser a word that the form takes is an argument of the function, whatever its order.
WORDS = ("light", "ses_1 x", "--home", "/h", "--json", "--all", "--state", "--turns")
LINES = sorted({(name, *words) for name in FORMS for count in range(4) for words in permutations(WORDS, count)})


@pytest.mark.parametrize("name", FORMS)
def test_what_is_read_here_means_what_the_parser_reads(name: str) -> None:
    lines = [line for line in LINES if line[0] == name and _read(FORMS[name], line[1:]) is not None]
    assert len(lines) > 1
    for line in lines:
        found = _read(FORMS[name], line[1:])
        assert found is not None
        command, bound, _ = app.parse_args([*name.split(), *line[1:]], exit_on_error=False, print_error=False)
        assert command.__name__ == FORMS[name].function
        assert (list(bound.args), bound.kwargs) == found, line


@each_row(
    "line",
    [
        (),
        ("run", "claude"),
        ("show",),
        ("show", "a", "b"),
        ("show", ""),
        ("show", "-x"),
        ("show", "--", "a"),
        ("show", "a", "--no-json"),
        ("show", "a", "--json=true"),
        ("show", "a", "--help"),
        ("show", "a", "--home"),
        ("show", "a", "--home", "--json"),
        ("show", "a", "--home", "x", "--home", "y"),
        ("logs", "a", "--follow"),
        ("ps", "--watch"),
        ("ps", "--nonsense"),
        ("ps", "--json=1"),
        ("version", "--home", "x"),
    ],
)
def test_any_other_form_is_for_the_parser(line: tuple[str, ...]) -> None:
    assert run_plain(line) is None


def test_a_home_is_a_folder() -> None:
    assert _read(FORMS["status"], ("--home", "there")) == ([], {"home": Path("there")})
