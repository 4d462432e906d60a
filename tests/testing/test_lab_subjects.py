"""Which CLIs the lab drives: those that have a recipe for a terminal."""

from __future__ import annotations

from interlock.testing.lab.installs import PINNED
from interlock.testing.lab.recipes import RECIPES
from interlock.testing.lab.subjects import ALL, names_of


def test_all_is_every_pinned_cli_that_the_lab_can_drive() -> None:
    assert names_of([ALL, "claude"]) == [cli for cli in PINNED if cli in RECIPES]
    assert "droid" in PINNED
    assert "droid" not in names_of([ALL])
