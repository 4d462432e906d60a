"""Every answer of the readers below that these tests meet is compared word for word.

A test often asserts the kind of a finding and not its sentence, its evidence or its next actions. What `READERS` answer
in it must be what stands on file under its name. After a change that is meant, write the files anew with
INTERLOCK_WRITE_GOLDEN=1 and without `-n`; read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.projections.checks.case import Check
from interlock.projections.checks.diagnose import DiagnosisReport
from tests.golden import told
from tests.runtime.conftest import HEAD, sections

FOLDER: Final = Path(__file__).parent / "golden" / "readers"
BY_OTHERS: Final = ("test_diagnose_cost", "test_gauntlet", "test_told_histories")
"""Tests of cost, and those whose histories `test_told_histories` holds."""
READERS: Final = ("diagnose", "explain", "plan_compaction", "plan_fork", "why")


def findings(report: DiagnosisReport) -> list[Check]:
    """The checks that found something; `test_told_histories` holds what the others say."""
    return [check for check in report.checks if check.issues]


@pytest.fixture(autouse=True)
def _answers_are_on_file(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compare what the readers answered in a test with what is on file."""
    node, answers = request.node, list[str]()

    def noting(read: Callable[..., object]) -> Callable[..., object]:
        def noted(*args: object, **named: object) -> object:
            answer = read(*args, **named)
            parts = findings(answer) if isinstance(answer, DiagnosisReport) else [answer]
            answers.extend(f"{read.__name__} {line}" for part in parts for line in told(part).splitlines())
            return answer

        return noted

    if not node.get_closest_marker("properties") and node.path.stem not in BY_OTHERS:
        for name in READERS:
            if callable(read := getattr(request.module, name, None)):
                monkeypatch.setattr(request.module, name, noting(read))
    yield
    if not answers:
        return
    path = FOLDER / f"{node.path.stem.removeprefix('test_')}.txt"
    on_file = sections(path)
    if os.environ.get("INTERLOCK_WRITE_GOLDEN"):
        on_file[node.name] = answers
        text = "".join(f"{line}\n" for name in sorted(on_file) for line in [HEAD + name, *on_file[name]])
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert answers == on_file.get(node.name), f"the answers in {node.name} are not those in {path.name}"
