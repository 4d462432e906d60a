"""`interlock debug lab`: check one version of an agent CLI, by driving it against a scripted model and counting.

Laws:
1. What is scored is what users get: the CLI runs in a terminal of a real server, in a home that is gone afterwards.
2. However it ends (by itself, by Ctrl-C, by SIGTERM) no process and no folder is left but results and recordings.
3. A scenario that is over is not run again for the same CLI version and profiles, unless asked for.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import JsonFlag
from interlock.cli.progress import Report, progress
from interlock.cli.signals import ended_by
from interlock.testing.lab.recipes import RECIPES
from interlock.testing.lab.results import ScenarioResult
from interlock.testing.lab.run import SCENARIO_SECONDS, LabPace, Subject, run_scenario
from interlock.testing.lab.scenarios import SCENARIOS, Scenario
from interlock.testing.lab.scene import HOLD_SECONDS
from interlock.testing.lab.sizes import USUAL_SIZE, read_size
from interlock.testing.lab.store import ResultStore
from interlock.testing.lab.subjects import find_subject, names_of
from interlock.testing.lab.table import HEADER, LEGEND, row, total_row
from interlock.vocabulary.errors import UsageError

ScenarioOption: TypeAlias = Annotated[
    tuple[str, ...], Parameter(name="--scenario", help="Only this one. Repeat it for several.")
]
KeepOption: TypeAlias = Annotated[Path | None, Parameter(help="Copy the recordings into this folder.")]
AgainFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Run finished scenarios again.")]
ExecutableOption: TypeAlias = Annotated[
    Path | None, Parameter(help="Use this program instead of installing one; its version is asked for.")
]
TimeoutOption: TypeAlias = Annotated[float, Parameter(help="Time limit of one scenario, in seconds.")]
HoldOption: TypeAlias = Annotated[
    float, Parameter(help="How long each state is held, in seconds. Less than 3 leaves few frames to score.")
]
SizeOption: TypeAlias = Annotated[str, Parameter(help="Columns and rows of the terminal, such as 80x24.")]
ListFlag: TypeAlias = Annotated[bool, Parameter(name="--list", negative="", help="List CLIs and scenarios, and exit.")]

_ENDED_BY: Final = (signal.SIGTERM, signal.SIGHUP)


def lab(
    *clis: str,
    scenario: ScenarioOption = (),
    keep: KeepOption = None,
    again: AgainFlag = False,
    executable: ExecutableOption = None,
    timeout: TimeoutOption = SCENARIO_SECONDS,
    hold: HoldOption = HOLD_SECONDS,
    size: SizeOption = str(USUAL_SIZE),
    list_: ListFlag = False,
    json: JsonFlag = False,
) -> int:
    """Check agent CLIs: install a version, drive it against a scripted model, and count what was read and done.

    Each scenario runs in a home of its own, with a server and a terminal, and takes about half a minute. Results are
    kept, and what is over is not run again, so a lab that was stopped goes on where it was. Exit code 1: something was
    not right.

    Parameters
    ----------
    clis
        CLI or CLI@VERSION, several if you like; `all` is every pinned one.
    """
    if list_:
        _print_list()
        return ExitCode.COMPLETED
    chosen = _chosen(scenario)
    if not timeout > 0 or not hold >= 0:
        raise UsageError("--timeout is more than 0 seconds, and --hold is not less than 0", remedy="leave them out")
    if executable is not None and len(clis) != 1:
        raise UsageError("--executable is the program of one CLI", remedy="name one CLI")
    terminal = read_size(size)
    subjects = [find_subject(name, executable, terminal) for name in names_of(clis)]
    try:
        results = asyncio.run(_run(subjects, chosen, LabPace(timeout, hold), keep=keep, again=again, json=json))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # the end that a signal asks for is the same as that of Ctrl-C
    if not json:
        _print_table(results)
    return ExitCode.FAILED if any(one.problems for one in results) else ExitCode.COMPLETED


def _chosen(names: Sequence[str]) -> list[Scenario]:
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise UsageError(f"no scenario is called {unknown[0]!r}", remedy=f"choose from {', '.join(SCENARIOS)}")
    return [SCENARIOS[name] for name in names or SCENARIOS]


async def _run(
    subjects: Sequence[Subject],
    scenarios: Sequence[Scenario],
    pace: LabPace,
    *,
    keep: Path | None,
    again: bool,
    json: bool,
) -> list[ScenarioResult]:
    pairs = [(subject, one) for subject in subjects for one in scenarios if one.needs(subject.recipe)]
    results: list[ScenarioResult] = []
    with ended_by(*_ENDED_BY), progress("lab", of_bytes=False) as report:
        report(0, len(pairs))
        async for result in _results(pairs, report, pace, again=again):
            results.append(result)
            if keep is not None:
                _copy(result, keep)
            if json:
                output.print_json(result)
                output.flush()
    return results


async def _results(
    pairs: Sequence[tuple[Subject, Scenario]], report: Report, pace: LabPace, *, again: bool
) -> AsyncIterator[ScenarioResult]:
    for done, (subject, scenario) in enumerate(pairs):
        label = f"{subject.recipe.cli} {subject.version} {scenario.name}"
        store = ResultStore(subject.recipe.cli, subject.version, subject.profile, str(subject.size))
        kept = None if again else store.find(scenario.name)
        if kept is not None:
            output.note(f"{label}: known already; --again runs it again")
            yield kept
            continue
        recording = store.recording(scenario.name)
        result = await run_scenario(subject, scenario, recording, pace)
        store.keep(result)
        report(done + 1, len(pairs))
        output.note(f"{label}: {'; '.join(result.problems) or 'ok'} ({result.seconds:.0f} s)")
        yield result


def _copy(result: ScenarioResult, folder: Path) -> None:
    """Recordings by CLI, and named by version and scenario, as `interlock debug score` reads them."""
    source = ResultStore(result.cli, result.version, result.profile, result.size).recording(result.scenario)
    target = folder / result.cli / f"{'-'.join(result.subject.split()[1:])}-{source.name}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror}") from error


def _print_list() -> None:
    output.print_table(("CLI", "PINNED"), [(recipe.cli, recipe.version) for recipe in RECIPES.values()])
    output.print_text("")
    output.print_table(("SCENARIO", "WHAT HAPPENS"), [(one.name, one.title) for one in SCENARIOS.values()])


def _print_table(results: Sequence[ScenarioResult]) -> None:
    rows: list[tuple[str, ...]] = []
    for subject in dict.fromkeys(one.subject for one in results):
        own = [one for one in results if one.subject == subject]
        rows += [*map(row, own), total_row(own)]
    output.print_table(HEADER, rows)
    output.print_text("\n" + "\n".join(LEGEND))
