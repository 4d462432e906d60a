"""Untrusted text cannot reach the terminal raw, by any of the three ways out; colours only where they are wanted."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.cli import output, tables
from interlock.cli.tables import Column, fitted, fold, text_table
from tests.cli.harness import on_a_terminal, python

BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
ANY_TEXT = st.text(alphabet=st.characters(codec=None, categories=None, exclude_categories=()))
NASTY = "\x1b]0;title\x07\x9b31m\u202etxt.exe\u2066\ud800\x7f\r\x00\U000e0041"


def is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} or ord(character) in BIDI


@given(ANY_TEXT)
@example(NASTY)
def test_escaped_text_is_one_safe_line(text: str) -> None:
    escaped = output.escape(text)
    assert not any(map(is_unsafe, escaped))
    assert len(escaped.splitlines()) <= 1
    escaped.encode()


@given(ANY_TEXT)
def test_escaping_twice_changes_nothing_more(text: str) -> None:
    assert output.escape(output.escape(text)) == output.escape(text)


def test_each_kind_of_escape_is_readable() -> None:
    assert output.escape("a\x1bb\n\t\x85\u202e\ud800\U000e0041é漢") == (
        "a\\x1bb\\n\\t\\x85\\u202e\\ud800\\U000e0041é漢"
    )
    assert output.escape_lines("one\ntwo\x07") == "one\ntwo\\x07"


def test_lines_keep_their_tabs_and_their_ends() -> None:
    assert output.escape_lines("if x:\r\n\treturn\n") == "if x:\n\treturn\n"
    assert output.escape_lines("a\rb\r\r\n\t\x1b[2J") == "a\\rb\\r\n\t\\x1b[2J"


@given(ANY_TEXT)
@example(NASTY)
def test_what_is_printed_in_lines_is_safe_but_for_tabs_and_line_ends(text: str) -> None:
    printed = output.escape_lines(text)
    assert not any(is_unsafe(character) for character in printed if character not in "\n\t")
    assert printed.count("\t") == text.count("\t")
    assert printed.count("\n") == text.count("\n")


@pytest.mark.parametrize("call", ["print_text('a\\tb\\nc')", "print_painted([[('a\\tb', '1')], [('c', '')]])"])
def test_a_pipe_gets_text_that_can_be_used(call: str) -> None:
    assert python(f"from interlock.cli import output\noutput.{call}").stdout == "a\tb\nc\n"


@given(ANY_TEXT)
@example(NASTY)
def test_json_is_safe_on_a_terminal_and_decodes_to_the_same_text(text: str) -> None:
    encoded = output.encode_json({"text": text})
    assert not any(map(is_unsafe, encoded))
    assert json.loads(encoded) == {"text": text}


@pytest.mark.deep
def test_every_code_point_there_is() -> None:
    for code in range(0x110000):
        character = chr(code)
        shown = output.escape(character)
        assert (shown != character) >= is_unsafe(character), hex(code)
        assert json.loads(output.encode_json(character)) == character, hex(code)


def drawn(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as a pipe gets it."""
    return "".join("".join(text for text, _ in line) + "\n" for line in text_table(header, rows))


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=5))
def test_a_piped_table_has_one_safe_line_a_row(rows: list[tuple[str, str]]) -> None:
    printed = drawn(("A", "B"), rows)
    assert len(printed.split("\n")) == len(rows) + 2
    assert not any(is_unsafe(character) for character in printed if character != "\n")


def test_columns_line_up_for_wide_and_combining_characters() -> None:
    assert drawn(("漢字", "x"), [("abc", "y"), ("e\u0301", "z")]) == "漢字  x\nabc   y\ne\u0301     z\n"


@pytest.mark.parametrize(
    "call", ["print_text({0!r})", "print_table(['t'], [[{0!r}]])", "print_json({0!r})", "error({0!r})"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_way_out_lets_an_escape_through(call: str, encoding: str) -> None:
    done = python(
        f"from interlock.cli import output\noutput.{call.format(NASTY + 'é漢')}", env={"PYTHONIOENCODING": encoding}
    )
    written = done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    assert "txt.exe" in written
    assert not any(is_unsafe(character) for character in written if character != "\n")


def test_answers_go_to_stdout_and_the_rest_to_stderr() -> None:
    done = python("from interlock.cli import output as o\no.print_text('answer')\no.note('hint')\no.error('wrong')")
    assert (done.stdout, done.stderr) == ("answer\n", "hint\ninterlock: wrong\n")


def test_colours_on_a_terminal_only() -> None:
    assert "\x1b[" in on_a_terminal("machines")
    done = python("from interlock.cli import main\nmain(['machines'])", env={"FORCE_COLOR": "1"})
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colours_gets_none(env: dict[str, str]) -> None:
    shown = on_a_terminal("machines", env=env)
    assert "\x1b" not in shown
    assert "NAME" in shown


@given(ANY_TEXT.map(output.escape), st.integers(min_value=2, max_value=40))
def test_a_long_cell_goes_on_in_lines_that_have_room(text: str, room: int) -> None:
    lines = fold(text, room)
    assert all(output.columns(line) <= room for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_what_wraps_gives_room_before_anything_is_lost() -> None:
    assert fold("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert fold("abcdefgh ij", 4) == ["abcd", "efgh", "ij"]
    assert fold("", 4) == [""]
    columns = (Column("A"), Column("B", 20, wraps=True), Column("C", 20, wraps=True))
    assert fitted(columns, (10, 30, 40), 84) == [10, 30, 40]
    assert fitted(columns, (10, 30, 40), 70) == [10, 30, 26]
    assert fitted(columns, (10, 30, 40), 60) == [10, 26, 20]
    assert fitted(columns, (10, 30, 40), 40) == [10, 14, 12]
    assert fitted(columns, (10, 30, 40), 20) == [10, 4, 4]


def test_all_tables_are_drawn_in_one_place() -> None:
    folder = Path(output.__file__).parent
    others = [path for path in folder.glob("*.py") if re.search(r"rich\.table|\.ljust\(\w*widths?\b", path.read_text())]
    assert others == []


def test_a_table_fits_a_narrow_terminal() -> None:
    shown = on_a_terminal("machines", env={"COLUMNS": "40", "NO_COLOR": "1"})
    assert max(len(line) for line in re.split(r"\r?\n", shown)) <= 40


@pytest.mark.parametrize("columns", [80, 100])
def test_a_long_last_cell_stands_below_its_row_and_no_word_is_broken(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "terminal_columns", lambda: columns)
    place, session = "/home/me/.local/state/interlock/worktrees/project/it", "ses_01m7v3a0qeaedhhdzsxpx0rpr6"
    lines = tables.stacked_table(
        ("SESSION", "STATE", "BRANCH", "FOLDER"), [(session, "created", "interlock/it", place)]
    )
    shown = ["".join(text for text, _ in line) for line in lines]
    assert shown == [
        "SESSION                         STATE    BRANCH",
        f"{session}  created  interlock/it",
        f"  {place}",
    ]
    key = "surface.unknown_to_stalled_timeout_seconds"
    rows = [(key, "30.0", "default"), ("x", "two words " * 5, "file")]
    said = ["".join(text for text, _ in line) for line in text_table(("KEY", "VALUE", "ORIGIN"), rows)]
    assert [key in line for line in said][:2] == [False, True]
    assert max(map(len, said)) <= columns


def test_nothing_is_claimed_when_stdout_is_closed() -> None:
    done = python("import sys\nsys.stdout = None\nfrom interlock.cli import main\nsys.exit(main(['machines']))")
    assert done.returncode == 1
    assert "standard output is closed" in done.stderr
