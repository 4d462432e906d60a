"""What every reader says of the gauntlet's histories, whole and broken, word for word.

After a change that is meant, write the files anew with INTERLOCK_WRITE_GOLDEN=1 and read the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.projections.checks.diagnose import DiagnosisReport
from interlock.projections.present.presenter import present
from interlock.projections.replay.explain import explain
from interlock.projections.sentences import sentence
from interlock.projections.why import why
from interlock.projections.why_lines import render_lines
from interlock.vocabulary.events.envelope import Event
from tests.golden import check, told
from tests.projections.histories import CASES, Expected
from tests.projections.test_gauntlet import EDITS, doubled, dropped, made_good, read, swapped

FOLDER: Final = Path(__file__).parent / "golden"


def broken() -> Iterator[tuple[Expected, list[Event]]]:
    """Each history with one event dropped, doubled, swapped or edited, as a log that was written so."""
    for case in CASES.values():
        for change in (dropped, doubled, swapped):
            for _, events in change(case.events):
                yield case, made_good(events)
    for _, names, mutate in EDITS:
        for name in names:
            yield CASES[name], made_good(mutate(CASES[name].events))


def findings(report: DiagnosisReport) -> Iterator[str]:
    for one in report.checks:
        yield f"{one.id.value} {one.status.value}: {one.message}"
        for issue in one.issues:
            yield f"    {told(issue)}"


@pytest.mark.parametrize("name", CASES)
def test_a_whole_history_is_told_word_for_word(name: str) -> None:
    case = CASES[name]
    lines = [f"{event.seq} {sentence(event)}" for event in case.events]
    lines += ["", "diagnose", *findings(read(case, case.events))]
    lines += ["", "why", *render_lines(why(case.events, owner_alive=case.owner_alive))]
    lines += ["", "present", *(told(one) for one in present(case.events, owner_alive=case.owner_alive))]
    lines += ["", "explain", *(told(one) for one in explain(case.events))]
    check(FOLDER / f"{name}.txt", lines)


def test_every_finding_of_a_broken_history_is_told_word_for_word() -> None:
    lines = {line for case, events in broken() for line in findings(read(case, events))}
    check(FOLDER / "findings.txt", sorted(lines))


def test_every_explanation_of_a_broken_history_is_told_word_for_word() -> None:
    lines = {line for case, events in broken() for line in render_lines(why(events, owner_alive=case.owner_alive))}
    check(FOLDER / "explanations.txt", sorted(lines))


def test_everything_shown_of_a_broken_history_is_told_word_for_word() -> None:
    items = {one for case, events in broken() for one in present(events, owner_alive=case.owner_alive)}
    check(FOLDER / "shown.txt", sorted(map(told, items)))
