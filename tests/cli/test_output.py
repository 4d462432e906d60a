"""Untrusted text cannot reach the terminal raw, by any of the three ways out; colours only where they are wanted."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.cli import output
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


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=5))
def test_a_piped_table_has_one_safe_line_a_row(rows: list[tuple[str, str]]) -> None:
    printed = output._aligned([[output.escape(cell) for cell in row] for row in (("A", "B"), *rows)])
    assert len(printed.split("\n")) == len(rows) + 2
    assert not any(is_unsafe(character) for character in printed if character != "\n")


def test_columns_line_up_for_wide_and_combining_characters() -> None:
    assert output._aligned([["漢字", "x"], ["abc", "y"], ["e\u0301", "z"]]) == "漢字  x\nabc   y\ne\u0301     z\n"


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


def test_a_table_fits_a_narrow_terminal() -> None:
    shown = on_a_terminal("machines", env={"COLUMNS": "40", "NO_COLOR": "1"})
    assert max(len(line) for line in re.split(r"\r?\n", shown)) <= 40


def test_nothing_is_claimed_when_stdout_is_closed() -> None:
    done = python("import sys\nsys.stdout = None\nfrom interlock.cli import main\nsys.exit(main(['machines']))")
    assert done.returncode == 1
    assert "standard output is closed" in done.stderr
