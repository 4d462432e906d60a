"""Running the programs of a page: a block of `py` is a file, a block of `console` shows what commands print.

A command goes on in the next line where that begins with `> `, as a shell shows it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def generated_pages() -> Mapping[str, str]:
    """Every page that is made from the code, made once: it takes seconds."""
    from tools.docs import pages  # only a few pages need it, and it loads every part of Interlock

    return pages()


def blocks(text: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def write_programs(page: str, folder: Path) -> dict[str, str]:
    """The programs of a page as files in a folder, each by the name in its first line."""
    programs = {block.splitlines()[0].removeprefix("# "): block for block in blocks(page, "py")}
    for name, text in programs.items():
        (folder / name).write_text(text, encoding="utf-8")
    return programs


def samples(page: str) -> list[tuple[str, str]]:
    """Every command of a page, with what it is shown to print."""
    found = [sample for block in blocks(page, "console") for sample in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [_command_and_output(sample.splitlines(keepends=True)) for sample in found]


def _command_and_output(lines: list[str]) -> tuple[str, str]:
    end = next((place for place, line in enumerate(lines) if place and not line.startswith("> ")), len(lines))
    command = lines[0] + "".join(line.removeprefix("> ") for line in lines[1:end])
    return command.removesuffix("\n"), "".join(lines[end:])


def run(command: str, folder: Path) -> str:
    """What a person would see on stdout, with `interlock` and `python` of this very installation on the path."""
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    for name, words in (("python", "-W error"), ("interlock", "-m interlock.cli")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n', encoding="utf-8")
        script.chmod(0o700)
    home = {name: value for name, value in os.environ.items() if name not in ("CLAUDE_CONFIG_DIR", "CODEX_HOME")}
    done = subprocess.run(
        ("sh", "-c", command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env={**home, "HOME": str(folder), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        check=False,
        timeout=100,
    )
    assert not re.search("Traceback|Warning", done.stderr), done.stderr
    return done.stdout
