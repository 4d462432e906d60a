"""`docs/how-to/check-a-cli-version.md`: its commands can be given, and its table has the columns that are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from interlock.cli.app import app
from interlock.testing.lab.recipes import RECIPES
from interlock.testing.lab.scenarios import SCENARIOS
from interlock.testing.lab.table import HEADER
from tests.docs.running import blocks

PAGE = Path(__file__).parents[2] / "docs/how-to/check-a-cli-version.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [line for block in blocks(TEXT, "sh") for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_can_be_given(line: str) -> None:
    """Not run here: they install CLIs. What is asked for has to be there."""
    words = shlex.split(line.replace('"$(command -v claude)"', "/bin/claude"))
    assert words[0] == "interlock"
    command, bound, _ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
    assert words[1:3] == ["debug", command.__name__]
    assert all(name.partition("@")[0] in RECIPES for name in bound.arguments.get("clis", ()))
    assert set(bound.arguments.get("scenario", ())) <= set(SCENARIOS)


def test_every_column_of_the_table_is_explained() -> None:
    told = set(re.findall(r"^\| ([A-Z, ]+) \|", TEXT, re.MULTILINE))
    explained = {title for cell in told for title in cell.split(", ")}
    assert explained >= set(HEADER) - {"CLI", "SCENARIO", "SECONDS"}
