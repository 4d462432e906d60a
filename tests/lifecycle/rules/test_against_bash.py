"""What is read is what bash runs: real bash, with programs that record their arguments.

Only what was read is run: it holds no redirection but to /dev/null, and every program is a fake of its own folder.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from interlock.lifecycle.rules.shell_grammar import Opaque, SimpleCommand, read_command
from tests.seeds import seed_of

_PROGRAMS: Final = ("git", "ls", "cat", "rm", "head")
_FAKE: Final = """#!/bin/sh
{ printf '%s\\036' "${0##*/}" "$@"; printf 'CI=%s\\035' "${CI-}"; } > "$RECORD.$$"
"""
_SOUND: Final = (
    *("git", "ls", "cat", "rm", "head", "log", "-3", "a", "b.txt", "--x=y", "a=b", "CI=1", "CI='2 3'", "CI=", "12"),
    *("'a b'", '"c d"', "''", '""', "'$(rm)'", '"|"', "'x'\"y\"", "a'b'c", "@", "+", "%1", "=", ",", ":x", "2>&1"),
)
_SHARP: Final = (
    *(
        "$CI",
        "${CI}",
        "$(ls)",
        "`ls`",
        "\\",
        "*",
        "?",
        "~",
        "!",
        "{a,b}",
        "#",
        " # ",
        "'",
        '"',
        ">",
        "3>/dev/null",
        "&",
    ),
    *("<", "<<E", "\n", "\t", ";", "|", "(", ")", "=", "CI=1 ", "+=", " 12>/dev/null ", "2>&1", ">&2", "[a]", "$'a'"),
)
_PIECES: Final = (
    *_SOUND,
    *(
        "'",
        '"',
        " ",
        " ",
        " ",
        " ",
        "\t",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "|&",
        ";;",
        "&&\n",
        ">",
        "<",
        "2>&1",
        ">/dev/null",
    ),
    *(
        "2>/dev/null",
        " 2> /dev/null",
        ">&2",
        "1",
        "2",
        "3",
        "12",
        "$",
        "`",
        "\\",
        "#",
        " #x",
        "*",
        "?",
        "~",
        "!",
        "{a,b}",
    ),
    *("$(rm x)", "`rm x`", "${CI}", "$CI", "(", ")", "{", "}", "[", "]", "if", "then", "fi", "time", "do", "é", "<<E"),
)


def _fakes(folder: Path) -> Path:
    programs = folder / "programs"
    programs.mkdir()
    for name in _PROGRAMS:
        (programs / name).write_text(_FAKE, encoding="utf-8")
        (programs / name).chmod(0o755)
    return programs


def _text(random_: random.Random) -> str:
    """A sound text, one with something sharp put into it, or a heap of pieces."""
    way = random_.random()
    if way < 0.2:
        return "".join(random_.choices(_PIECES, k=random_.randint(1, 9)))
    parts = [
        " ".join([random_.choice(_PROGRAMS), *random_.choices(_SOUND, k=random_.randint(0, 3))])
        for _ in range(random_.randint(1, 3))
    ]
    text = random_.choice((" && ", "; ", " | ", " || ", "\n", "|", ";")).join(parts)
    if way < 0.5:
        return text
    at = random_.randint(0, len(text))
    return text[:at] + random_.choice(_SHARP) + text[at:]


def _ran(bash: str, text: str, programs: Path, folder: Path) -> list[tuple[tuple[str, ...], str]]:
    """Every program that ran, with its arguments and the value of CI, in any order."""
    record = folder / "ran"
    environment = {"PATH": str(programs), "RECORD": str(record), "LC_ALL": "C.UTF-8"}
    command = [bash, "--norc", "--noprofile", "-c", text]
    subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=False, timeout=60)
    found = []
    for file in folder.glob("ran.*"):
        for line in file.read_text("utf-8").split("\x1d")[:-1]:
            *words, ci = line.split("\x1e")
            found.append((tuple(words), ci.removeprefix("CI=")))
        file.unlink()
    return sorted(found)


def _expected(read: tuple[SimpleCommand, ...]) -> list[tuple[tuple[str, ...], str]]:
    return sorted((one.words, dict(one.variables).get("CI", "")) for one in read if one.words[0] in _PROGRAMS)


def _compare(seed: int, wanted: int, folder: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None, "bash is what the reader is held against"
    programs, random_, compared = _fakes(folder), random.Random(seed), 0
    for _ in range(wanted * 100):
        text = _text(random_)
        read = read_command(text)
        if isinstance(read, Opaque):
            continue
        ran, expected = _ran(bash, text, programs, folder), _expected(read)
        if "||" in text or any(one.words[0] not in _PROGRAMS for one in read):  # a failure decides what runs then
            assert all(one in expected for one in ran), (text, read, ran)
        else:
            assert ran == expected, (text, read, ran)
        compared += 1
        if compared == wanted:
            return
    raise AssertionError(f"only {compared} texts were read")


def test_bash_runs_what_was_read_and_nothing_else(tmp_path: Path) -> None:
    _compare(seed_of("bash"), 300, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
def test_bash_runs_what_was_read_over_many_texts(tmp_path: Path, seed: int) -> None:
    _compare(seed_of(f"bash {seed}"), 1500, tmp_path)
