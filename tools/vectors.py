"""Write `vectors/`, the scenarios of the client for every language: `tools/vectors.py`. With --check, compare."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from interlock.vocabulary.errors import ContractError
from tests.task_scenarios.clients import BOARD, MANAGER, SHELL
from tests.task_scenarios.expected import PAGE
from tests.task_scenarios.losses import LOSSES
from tests.task_scenarios.troubles import TROUBLES
from tools.vector_tables import tables

VECTORS: Final = Path(__file__).parent.parent / "vectors"


def files() -> dict[str, str]:
    """Every file, by name. The same code always gives the same text."""
    made: dict[str, str] = {}
    for book in (PAGE, TROUBLES, LOSSES, BOARD, MANAGER, SHELL):
        told = book.tell()
        if made.keys() & told.keys():
            raise ContractError(f"two scenarios have one name: {sorted(made.keys() & told.keys())}")
        made |= told
    return made | tables()


def stale(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """What differs between the folder and the scenarios, one line each."""
    found = []
    for name, text in wanted.items():
        path = folder / name
        if not path.exists():
            found.append(f"missing: vectors/{name}")
        elif path.read_text(encoding="utf-8") != text:
            found.append(f"stale: vectors/{name}")
    there = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.json")))
    return found + [f"extra: vectors/{name}" for name in there if name not in wanted]


def write(folder: Path, wanted: Mapping[str, str]) -> None:
    """Make the folder hold these files, and no other JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.rglob("*.json"):
        if path.relative_to(folder).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def main(argv: Sequence[str], folder: Path = VECTORS) -> int:
    """Write the files, or with --check compare them. Returns 1 for stale files and 2 for a wrong argument."""
    if list(argv) not in ([], ["--check"]):
        print("usage: python -m tools.vectors [--check]", file=sys.stderr)
        return 2
    wanted = files()
    if not argv:
        write(folder, wanted)
        print(f"vectors: {len(wanted)} files written")
        return 0
    differences = stale(folder, wanted)
    for line in differences:
        print(line, file=sys.stderr)
    if differences:
        print("The vectors do not match the scenarios. To mend them: python -m tools.vectors", file=sys.stderr)
        return 1
    print(f"vectors: {len(wanted)} files are current")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
