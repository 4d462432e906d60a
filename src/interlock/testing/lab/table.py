"""The table of a lab: reading beside acting, a row for each scenario and one for each CLI."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from interlock.testing.lab.results import ScenarioResult

HEADER: Final = (
    "CLI", "SCENARIO", "DELIVERED", "DOUBLED", "LOST", "INTERRUPTED", "ANSWERED", "ENDS", "DELAY", "FABRICATED",
    "UNSAFE", "READ", "SECONDS", "RESULT",
)  # fmt: skip
LEGEND: Final = (
    "delivered: prompts that the model received exactly once. interrupted: the work stopped and the agent lived.",
    "answered: questions that the server saw and whose answer had its effect. ends: turns whose end was reported, with",
    "the right kind. delay: from the model's last word to the reported end, the median in seconds. fabricated: ends of",
    "turns that no prompt began. unsafe: blocked or working read as idle, or a completion while the turn went on.",
    "read: scored frames of the recording that were read correctly.",
)


def row(result: ScenarioResult) -> tuple[str, ...]:
    """One scenario."""
    told = "; ".join([*(result.problems or ["ok"]), *(f"note: {one}" for one in result.notes)])
    return (result.subject, result.scenario, *_cells([result]), told)


def total_row(results: Sequence[ScenarioResult]) -> tuple[str, ...]:
    """The sum of the scenarios of one CLI version."""
    good = sum(not one.problems for one in results)
    return (results[0].subject, "all", *_cells(results), f"{good} of {len(results)} ok")


def _cells(results: Sequence[ScenarioResult]) -> tuple[str, ...]:
    """The figures between the name and the result."""
    delays = [seconds for one in results for seconds in one.end_delays_seconds]
    right = sum(one.reading.right for one in results)
    scored = sum(one.reading.scored for one in results)
    return (
        f"{sum(one.delivered for one in results)}/{sum(one.prompts for one in results)}",
        str(sum(one.doubled for one in results)),
        str(sum(one.lost for one in results)),
        share(sum(one.interrupted for one in results), sum(one.interrupts for one in results)),
        share(sum(one.answers for one in results), sum(one.questions for one in results)),
        share(sum(one.ends_right for one in results), sum(one.ends for one in results)),
        f"{median(delays):.1f}" if delays else "-",
        str(sum(one.fabricated for one in results)),
        str(sum(one.reading.unsafe for one in results)),
        f"{right / scored:.1%}" if scored else "-",
        f"{sum(one.seconds for one in results):.0f}",
    )


def share(part: int, whole: int) -> str:
    """How many of how many; a dash where there were none."""
    return f"{part}/{whole}" if whole else "-"
