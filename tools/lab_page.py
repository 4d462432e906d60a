"""The published results of `interlock debug lab`: docs/reference/lab.ndjson, and the page that is made from it.

    python -m tools.lab_page [FOLDER ...]

takes the results that lie in lab folders (by default the one of this checkout) into that file, and `make docs` writes
the page, the README's table and that of docs/reference/accuracy.md. Several folders, of several machines or checkouts,
are taken together or one after the other: a CLI version in a terminal of one size takes the place of its earlier run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from interlock.screen.profile_file import parse_version
from interlock.testing.lab.recipes import RECIPES, SCRIPTED
from interlock.testing.lab.results import ScenarioResult
from interlock.testing.lab.scenarios import SCENARIOS
from interlock.testing.lab.sizes import USUAL_SIZE
from interlock.testing.lab.store import builtin_digest, lab_folder
from interlock.testing.lab.table import HEADER, LEGEND, row, total_row
from tools.markdown import page, table

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "docs" / "reference" / "lab.ndjson"

_HEAD: Final = """\
The last run of `interlock debug lab` for each CLI, unmodified, in a terminal of a real Interlock server, against a
scripted model that counts what it receives. [How to run it](../how-to/check-a-cli-version.md) on your version; how
recordings are read is in [accuracy](accuracy.md). The same as data: [lab.ndjson](lab.ndjson)."""
_HOW: Final = """\
One run a scenario, on a machine that may have been busy with other work (a busy one delays paints and keys, and finds
faults that a quiet one hides)."""
_OTHERS: Final = "These were run through fewer scenarios; their number is in the last column."
_CHANGED: Final = "its profile has changed since"
_NAMED: Final = [field.name for field in msgspec.structs.fields(ScenarioResult) if field.required]


def read_results(path: Path = RESULTS) -> list[ScenarioResult]:
    """What is published, in its order."""
    return [msgspec.json.decode(line, type=ScenarioResult) for line in path.read_bytes().splitlines()]


def write_results(results: Iterable[ScenarioResult], path: Path = RESULTS) -> None:
    """One line a scenario. What has its usual value is left out."""
    usual = msgspec.to_builtins(ScenarioResult(cli="", version="", scenario="", profile=""))
    lines = []
    for one in sorted(results, key=_order):
        told = msgspec.to_builtins(one)
        kept = {name: value for name, value in told.items() if name in _NAMED or value != usual[name]}
        lines.append(msgspec.json.encode(kept) + b"\n")
    path.write_bytes(b"".join(lines))


def _order(result: ScenarioResult) -> tuple[object, ...]:
    """By CLI, the newest version first, the usual size first, then as the scenarios are listed."""
    newest_first = tuple(-number for number in parse_version(result.version) or ())
    names = list(SCENARIOS)
    place = names.index(result.scenario) if result.scenario in names else len(names)
    is_other_size = result.size != str(USUAL_SIZE)
    return (*(list(RECIPES).index(result.cli),), newest_first, result.version, is_other_size, result.size, place)


def collect(folder: Path) -> list[ScenarioResult]:
    """The results in a lab folder that were read by the profiles as they are now. None of the scripted agent: it is a
    part of Interlock."""
    found = (msgspec.json.decode(path.read_bytes(), type=ScenarioResult) for path in sorted(folder.glob("*/*/*.json")))
    return [
        one
        for one in found
        if one.cli in RECIPES and one.cli != SCRIPTED.cli and one.profile == builtin_digest(one.cli)
    ]


def merge(published: Sequence[ScenarioResult], found: Sequence[ScenarioResult]) -> list[ScenarioResult]:
    """What is found takes the place of the same scenario, and of what other profiles read of that CLI version."""
    profiles = {one.subject: one.profile for one in found}
    again = {(one.subject, one.scenario) for one in found}
    kept = [
        one
        for one in published
        if (one.subject, one.scenario) not in again and one.profile == profiles.get(one.subject, one.profile)
    ]
    return [*kept, *found]


def by_subject(results: Iterable[ScenarioResult]) -> list[list[ScenarioResult]]:
    """The results of each CLI version in each size, in the order of the page."""
    made: dict[str, list[ScenarioResult]] = {}
    for one in sorted(results, key=_order):
        made.setdefault(one.subject, []).append(one)
    return list(made.values())


def main_runs(results: Iterable[ScenarioResult]) -> dict[str, list[ScenarioResult]]:
    """For each CLI the run that stands for it: that with the most scenarios, and of those the newest version."""
    made: dict[str, list[ScenarioResult]] = {}
    for own in by_subject(results):
        best = made.get(own[0].cli, [])
        made[own[0].cli] = own if len(own) > len(best) else best
    return made


def lab_page(results: Sequence[ScenarioResult]) -> str:
    """The page: a row for each CLI, one for each other version and size, then every scenario of each CLI."""
    chosen = main_runs(results)
    others = [own for own in by_subject(results) if own is not chosen[own[0].cli] and own != chosen[own[0].cli]]
    parts = [_HEAD, "\n".join(LEGEND), _HOW, table(_titles(), map(_total, chosen.values()))]
    if others:
        parts += ["## Other versions and sizes", _OTHERS, table(_titles(), map(_total, others))]
    for own in chosen.values():
        parts += [f"## {own[0].subject}", table(_titles(1), _scenario_rows(own))]
    return page("Acting and reading, by CLI", *parts)


def _titles(first: int = 0) -> list[str]:
    return [title.lower() for title in HEADER[first:] if first or title != "SCENARIO"]


def _total(own: Sequence[ScenarioResult]) -> list[str]:
    subject, _, *cells = total_row(own)
    has_changed = any(one.profile != builtin_digest(one.cli) for one in own)
    return [subject, *cells[:-1], f"{cells[-1]}; {_CHANGED}" if has_changed else cells[-1]]


def _scenario_rows(own: Sequence[ScenarioResult]) -> list[tuple[str, ...]]:
    """Every scenario: what it showed, that the CLI has no such thing, or that it was not run."""
    known = {one.scenario: one for one in own}
    recipe = RECIPES[own[0].cli]
    empty = ("-",) * (len(HEADER) - 3)
    return [
        row(known[name])[1:]
        if name in known
        else (name, *empty, "not run" if scenario.needs(recipe) else "not offered by this CLI")
        for name, scenario in SCENARIOS.items()
    ]


def main(argv: Sequence[str]) -> int:
    folders = [Path(one) for one in argv] or [lab_folder()]
    results = read_results() if RESULTS.exists() else []
    for folder in folders:
        if not folder.is_dir():
            print(
                f"{folder} is no folder; name one that `interlock debug lab` wrote, such as .cache/lab", file=sys.stderr
            )
            return 2
        found = collect(folder)
        results = merge(results, found)
        print(f"{folder}: {len(found)} scenarios of {len(by_subject(found))} CLI versions and sizes")
    write_results(results)
    print(f"{RESULTS.relative_to(ROOT)}: {len(results)} scenarios; `make docs` writes the pages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
