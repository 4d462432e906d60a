"""Texts of all sources that tell a person to run a command name one that there is: messages, remedies, help, notices.

What commands really print when something is wrong is held to the same in `tests/cli/faults.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import interlock
from tests.cli.named_commands import unknown_commands

SOURCES = Path(interlock.__file__).parent


def texts(tree: ast.AST) -> Iterator[str]:
    """Every string, with a hole for each value that is put in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "VALUE" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_command_that_a_text_names_is_there() -> None:
    wrong, seen = [], 0
    for path in sorted(SOURCES.rglob("*.py")):
        for text in texts(ast.parse(path.read_text("utf-8"))):
            seen += "interlock " in text
            wrong += [f"{path.relative_to(SOURCES)}: interlock {one}" for one in unknown_commands(text)]
    assert seen > 200
    assert wrong == []


def test_a_command_that_is_not_there_is_found() -> None:
    assert unknown_commands("it is down; run `interlock begin`") == ["begin"]
    assert unknown_commands("damaged\n  interlock log mend ses_1") == ["log mend"]
    assert unknown_commands("see `interlock log repair --salvage`, or `interlock down --stop-agents`") == []
