"""A cursor that the tool draws itself, on the first character of a ghost."""

from __future__ import annotations

from interlock.screen.conditions import StyleSpec
from interlock.screen.engine import read_draft
from interlock.screen.profile import ComposerSpec
from interlock.screen.regions import SCREEN, Located
from interlock.screen.snapshot import read_snapshot
from tests.each_row import each_row

SPEC = ComposerSpec(SCREEN.name, ghosts=(StyleSpec(dim=True),), cursor=StyleSpec(reverse=True))


def draft(row: str, spec: ComposerSpec = SPEC) -> str | None:
    snapshot = read_snapshot(row, columns=80)
    return read_draft(spec, Located(snapshot.rows, {SCREEN.name: SCREEN}))


@each_row(
    ("row", "typed"),
    [
        ("\x1b[7mT\x1b[0;2mry something\x1b[0m", ""),
        ("/mod\x1b[7me\x1b[0;2ml\x1b[0m", "/mod"),
        ("hel\x1b[7ml\x1b[0mo", "hello"),
        ("hell\x1b[7mo\x1b[0m", "hello"),
        ("hello\x1b[7m \x1b[0m", "hello"),
        ("\x1b[7mmarked words\x1b[0;2m ghost\x1b[0m", "marked words"),
    ],
)
def test_the_cursor_belongs_to_the_ghost_that_follows_it_and_to_nothing_else(row: str, typed: str) -> None:
    assert draft(row) == typed


def test_without_a_cursor_in_the_profile_what_is_in_doubt_counts_as_typed() -> None:
    assert draft("\x1b[7mT\x1b[0;2mry something\x1b[0m", ComposerSpec(SCREEN.name, ghosts=SPEC.ghosts)) == "T"
