"""`docs/how-to/test-with-scripted-agents.md`: its samples run, its lists are whole, and its scripts have only verbs."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
from pathlib import Path

from interlock.testing.scripted_agent import command, write_program
from interlock.testing.scripted_agent.acp import TRAPS
from interlock.testing.scripted_agent.language import VERBS
from tests.docs.running import blocks

PAGE = Path(__file__).parents[2] / "docs/how-to/test-with-scripted-agents.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_session_in_python_goes_as_it_is_shown() -> None:
    (session,) = blocks(TEXT, "pycon")
    test = doctest.DocTestParser().get_doctest(session, {}, PAGE.name, str(PAGE), 0)
    assert doctest.DocTestRunner().run(test) == (0, len(test.examples))


def test_the_command_prints_what_is_shown(tmp_path: Path) -> None:
    (sample,) = blocks(TEXT, "console")
    line, _, shown = sample.removeprefix("$ ").partition("\n")
    write_program(tmp_path / "scripted-agent", command()[:3])
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ("sh", "-c", line),
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PATH": path},
        timeout=100,
        check=True,
    )
    # Three dots stand for anything.
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    assert re.fullmatch(pattern, done.stdout, re.DOTALL), done.stdout


def test_its_lists_are_those_of_the_program() -> None:
    verbs, traps = blocks(TEXT, "text")
    assert verbs.splitlines() == [f"{verb} {text}" for verb, text in VERBS.items()]
    assert traps.splitlines() == [f"{name}  {text}" for name, text in TRAPS.items()]


def test_its_scripts_have_only_verbs() -> None:
    table = TEXT.partition("## Make it misbehave")[2].partition("\n\nA process")[0]
    scripts = [script for row in table.splitlines()[4:] for script in re.findall(r"`([^`]*)`", row)]
    assert len(scripts) > 15
    for script in scripts:
        for step in script.split(";"):
            assert shlex.split(step.replace('"', ""))[0] in VERBS, script
