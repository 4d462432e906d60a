"""How the code is laid out: folders that one can look through, and class names that a search finds once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "interlock"
MAX_FILES: Final = 15


def test_no_folder_has_more_files_than_one_can_look_through() -> None:
    counts = {folder: len(list(folder.glob("*.py"))) for folder in (SOURCE, *SOURCE.rglob("*")) if folder.is_dir()}
    assert {str(one.relative_to(SOURCE)): count for one, count in counts.items() if count > MAX_FILES} == {}


def test_a_class_name_stands_in_one_folder_only() -> None:
    """Private classes are found by their module, and are left out."""
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                folders[node.name].add(str(path.parent.relative_to(SOURCE)))
    doubled = {name: sorted(where) for name, where in folders.items() if len(where) > 1}
    assert doubled == {}


def test_pages_for_contributors_name_files_that_exist() -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("ARCHITECTURE.md", "CONTRIBUTING.md")]
    named = {path for page in pages for path in re.findall(r"(?<![\w./])((?:\w+/)+\w+\.py)\b", page)}
    assert len(named) > 40
    assert [path for path in sorted(named) if not (SOURCE / path).exists() and not (ROOT / path).exists()] == []
