"""What somebody typed, told from placeholder and ghost text."""

from __future__ import annotations

import re

from interlock.screen.conditions import StyleSpec
from interlock.screen.engine import read_draft
from interlock.screen.profile import ComposerSpec
from interlock.screen.regions import SCREEN, Located, RegionSpec
from interlock.screen.snapshot import read_snapshot
from tests.each_row import each_row

SPEC = ComposerSpec(
    "screen",
    mark=re.compile("^> ?"),
    ghosts=(StyleSpec(dim=True), StyleSpec(fg=("8",))),
    placeholder=re.compile("Type here.*"),
    ignore=re.compile("^~"),
)


def draft(*rows: str, spec: ComposerSpec = SPEC) -> str | None:
    snapshot = read_snapshot("\n".join(rows), columns=80)
    specs = {SCREEN.name: SCREEN, "none": RegionSpec("none", from_=re.compile("^!"))}
    return read_draft(spec, Located(snapshot.rows, specs))


@each_row(
    ("rows", "typed"),
    [
        (("> hello",), "hello"),
        ((">",), ""),
        (("> ",), ""),
        (("",), ""),
        (("> one", "  two"), "one\n  two"),
        (("> \x1b[2mTry this\x1b[0m",), ""),
        (("> \x1b[90mTry this\x1b[0m",), ""),
        (("> /mod\x1b[2mel\x1b[0m",), "/mod"),
        (("> Type here or paste",), ""),
        (("> Type", "here"), "Type\nhere"),
        (("~ a hint of the tool", "> x"), "x"),
        (("> \u200bx",), "x"),
        (("\x1b[2m> x\x1b[0m",), ""),
        (("\x1b[1m> \x1b[0mbold mark",), "bold mark"),
        (("> > quoted",), "> quoted"),
    ],
)
def test_the_draft_is_what_was_typed(rows: tuple[str, ...], typed: str) -> None:
    assert draft(*rows) == typed


def test_the_frame_at_both_sides_of_a_box_is_no_part_of_the_draft() -> None:
    boxed = ComposerSpec("screen", mark=re.compile(r"^│ (?:> |  )"), edge=re.compile(r" *│$"))
    assert draft("│ >      │", spec=boxed) == ""
    assert draft("\x1b[90m│\x1b[0m > one │ two  \x1b[90m│\x1b[0m", "│   three │", spec=boxed) == "one │ two\nthree"
    assert draft("│ > one", spec=boxed) == "one"


def test_without_a_composer_there_is_no_draft_not_even_an_empty_one() -> None:
    assert draft("> hello", spec=ComposerSpec("none")) is None


def test_in_doubt_it_counts_as_typed() -> None:
    assert draft("> \x1b[36mTry this\x1b[0m") == "Try this"
    assert draft("> Type here", spec=ComposerSpec("screen")) == "> Type here"
