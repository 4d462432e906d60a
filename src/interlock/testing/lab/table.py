"""The table of a lab: reading beside acting, a row for each scenario and one for each CLI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from interlock.testing.lab.results import ScenarioResult

HEADER: Final = (
    "CLI", "SCENARIO", "DELIVERED", "DOUBLED", "LOST", "INTERRUPTED", "ANSWERED", "ENDS", "FABRICATED", "UNSAFE",
    "READ", "SECONDS", "RESULT",
)  # fmt: skip
LEGEND: Final = (
    "delivered: prompts that the model received exactly once. interrupted: the work stopped and the agent lived.",
    "answered: questions that the server saw and whose answer had its effect. ends: turns whose end was reported, with",
    "the right kind. fabricated: ends of turns that no prompt began. unsafe: blocked or working read as idle, or a",
    "completion while the turn went on. read: scored frames of the recording that were read correctly.",
)


class Total(Struct, frozen=True, kw_only=True):
    """One CLI version over its scenarios."""

    cli: str
    version: str
    scenarios: int
    good: int
    cells: tuple[str, ...]


def row(result: ScenarioResult) -> tuple[str, ...]:
    """One scenario."""
    told = "; ".join([*(result.problems or ["ok"]), *(f"note: {one}" for one in result.notes)])
    return (f"{result.cli} {result.version}", result.scenario, *_cells([result]), told)


def total(results: Sequence[ScenarioResult]) -> Total:
    """The sum of the scenarios of one CLI version."""
    good = sum(not one.problems for one in results)
    first = results[0]
    return Total(cli=first.cli, version=first.version, scenarios=len(results), good=good, cells=_cells(results))


def total_row(results: Sequence[ScenarioResult]) -> tuple[str, ...]:
    summed = total(results)
    return (f"{summed.cli} {summed.version}", "all", *summed.cells, f"{summed.good} of {summed.scenarios} ok")


def _cells(results: Sequence[ScenarioResult]) -> tuple[str, ...]:
    """The figures between the name and the result."""
    right = sum(one.reading.right for one in results)
    scored = sum(one.reading.scored for one in results)
    return (
        f"{sum(one.delivered for one in results)}/{sum(one.prompts for one in results)}",
        str(sum(one.doubled for one in results)),
        str(sum(one.lost for one in results)),
        _share(sum(one.interrupted for one in results), sum(one.interrupts for one in results)),
        _share(sum(one.answers for one in results), sum(one.questions for one in results)),
        _share(sum(one.ends_right for one in results), sum(one.ends for one in results)),
        str(sum(one.fabricated for one in results)),
        str(sum(one.reading.unsafe for one in results)),
        f"{right / scored:.1%}" if scored else "-",
        f"{sum(one.seconds for one in results):.0f}",
    )


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole}" if whole else "-"
