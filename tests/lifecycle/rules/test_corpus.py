"""Commands with the decision that rules must make; the list was written before the matcher."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from interlock.lifecycle.rules.rule import Layer
from interlock.lifecycle.rules.rule_file import parse_rules
from interlock.lifecycle.rules.verdict import AskedCall, RuleFile, judge
from tests.each_row import each_row

HERE = Path(__file__).parent
LINES = [line for line in (HERE / "commands.txt").read_text("utf-8").splitlines() if not line.startswith("#")]
ROWS = [(json.loads(line[6:]), line[:5].strip()) for line in LINES]
FOLDER = "/work/repo"


@pytest.fixture(scope="module")
def rules() -> RuleFile:
    found = parse_rules((HERE / "corpus.toml").read_bytes(), Layer.USER, "corpus.toml")
    assert found.problems == ()
    return found


def test_the_list_is_as_long_as_it_should_be() -> None:
    assert len(ROWS) >= 300
    assert {verdict for _, verdict in ROWS} == {"allow", "ask", "deny"}


@each_row(("command", "verdict"), ROWS)
def test_each_command_is_decided_as_it_was_meant(rules: RuleFile, command: str, verdict: str) -> None:
    """Traps 23, 24 and 25 of the plan, and more."""
    call = AskedCall(agent="claude", tool="Bash", arguments={"command": command}, folder=FOLDER)
    assert judge((rules,), call, date(2030, 1, 1)).then.value == verdict
