"""The gate against code that nothing reaches: what it finds, what it spares, and that it is quick."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import reach

LIVE = """
from interlock.parts import Engine, helper

def main():
    engine = Engine()
    engine.start()
    return helper(engine)
"""
PARTS = """
class Engine:
    def start(self):
        return self._turn()

    def _turn(self):
        return STEPS

STEPS = 3

def helper(engine):
    return engine
"""


def house(folder: Path, **files: str) -> Path:
    """A checkout with one command, and with more modules as they are given."""
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\nscripts = { x = "interlock.cli:main" }\n')
    source = folder / "src" / "interlock"
    source.mkdir(parents=True)
    for name, text in {"__init__": "", "cli": LIVE, "parts": PARTS, **files}.items():
        (source / f"{name}.py").write_text(text)
    (folder / "docs").mkdir()
    (folder / "tools").mkdir()
    return folder


def test_what_the_command_reaches_is_reached(tmp_path: Path) -> None:
    assert reach.problems(house(tmp_path)) == []


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ({"dead": "def walk(): ...\n"}, "unreached: interlock.dead"),
        ({"parts": PARTS + "\ndef dead():\n    return dead()\n"}, "unreached: interlock.parts.dead"),
        ({"parts": PARTS + "\nDEAD = 4\n"}, "unreached: interlock.parts.DEAD"),
        (
            {"parts": PARTS.replace("STEPS = 3", "    def dead(self):\n        return 1\n\nSTEPS = 3")},
            "unreached: interlock.parts.Engine.dead",
        ),
    ],
)
def test_dead_code_is_found(tmp_path: Path, planted: dict[str, str], found: str) -> None:
    assert reach.problems(house(tmp_path, **planted)) == [found]


def test_tests_and_imports_that_are_not_used_reach_nothing(tmp_path: Path) -> None:
    root = house(tmp_path, cli=LIVE + "\nfrom interlock.dead import walk\n", dead="def walk(): ...\n")
    (root / "tests").mkdir()
    (root / "tests" / "test_dead.py").write_text("from interlock.dead import walk\nwalk()\n")
    assert reach.problems(root) == ["unreached: interlock.dead.walk"]


def test_what_a_page_shows_or_names_is_reached_and_so_is_what_a_string_names(tmp_path: Path) -> None:
    root = house(
        tmp_path,
        cli=LIVE + '\nTABLE = {"walk": ("interlock.named", "Walk"), "go": "interlock.other:go"}\nprint(TABLE)\n',
        named="class Walk: ...\n",
        other="def go(): ...\n",
        shown="def first(): ...\n",
        told="x = 1\n",
    )
    (root / "docs" / "how-to").mkdir()
    (root / "docs" / "how-to" / "page.md").write_text(
        "See `interlock.told`.\n\n```py\nfrom interlock.shown import first\n\nfirst()\n```\n"
    )
    assert reach.problems(root) == ["unreached: interlock.told.x"]


def test_an_exception_needs_a_reason_and_has_to_be_needed(tmp_path: Path) -> None:
    root = house(tmp_path, dead="")
    (root / reach.EXCEPTIONS).write_text("# why\ninterlock.dead: a plug-in loads it\n")
    assert reach.problems(root) == []
    (root / reach.EXCEPTIONS).write_text("interlock.dead:\ninterlock.parts: it is used\n")
    assert reach.problems(root) == [
        "exception without a reason: interlock.dead",
        "exception for what is reached, or gone: interlock.parts",
    ]


@pytest.mark.deep  # and a step of `make check`
def test_this_checkout_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert reach.main([]) == 0, capsys.readouterr().err


def test_the_answer_is_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reach.main([], house(tmp_path, dead="")) == 1
    assert "unreached: interlock.dead" in capsys.readouterr().err
    assert reach.main(["--check"]) == 2
