"""What each story of the session machine came to: every event, effect, status and deadline, word for word.

After a change that is meant, write the files anew with INTERLOCK_WRITE_GOLDEN=1 and without `-n`; read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.runtime.conducting import STAGES

FOLDER: Final = Path(__file__).parent / "golden"
HEAD: Final = "== "


@cache
def sections(path: Path) -> dict[str, list[str]]:
    """The lines of each test in a file, by its name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.startswith(HEAD):
            lines = found[line.removeprefix(HEAD)] = []
        else:
            lines.append(line)
    return found


@pytest.fixture(autouse=True)
def _story(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare what the stages of a test did with what is on file."""
    STAGES.clear()
    yield
    node = request.node
    if not STAGES or node.get_closest_marker("properties"):
        return
    told = [line.replace("\n", "\\n") for stage in STAGES for line in ["stage", *stage.story]]
    path = FOLDER / f"{node.path.stem.removeprefix('test_')}.txt"
    on_file = sections(path)
    if os.environ.get("INTERLOCK_WRITE_GOLDEN"):
        on_file[node.name] = told
        text = "".join(f"{line}\n" for name in sorted(on_file) for line in [HEAD + name, *on_file[name]])
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert told == on_file.get(node.name), f"the story of {node.name} is not the one in {path.name}"
