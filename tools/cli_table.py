"""Reading and acting, side by side: one row for each CLI, for the README and docs/reference/accuracy.md.

Reading comes from the tables of accuracy.md, acting from docs/reference/lab.ndjson.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.profiles import builtin_profiles
from interlock.runtime.config.agent_choice import drivers_of
from interlock.runtime.config.sections import BUILTIN_AGENTS
from interlock.testing.lab.results import ScenarioResult
from interlock.testing.lab.table import share
from tools.lab_page import ROOT, main_runs, read_results
from tools.markdown import table

ACCURACY: Final = ROOT / "docs" / "reference" / "accuracy.md"
HEADING: Final = "## Reading and acting, side by side"
README_HEADING: Final = "## What it knows about each CLI"
_READ: Final = ("recordings", "unsafe readings", "recall, held out")
_ACTED: Final = ("checked live", "prompts delivered once", "interrupts", "answers", "ends, right kind", "fabricated")
_ROW: Final = re.compile(r"^\| (\w[\w-]*) \| (\d+) \| (\d+) \| ([\d.]+%|too few frames) \|", re.MULTILINE)
_NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class RecordingsRead:
    """How the recordings of one CLI were read. `held_out`: the macro recall of those that were held out."""

    recordings: int = 0
    unsafe: int = 0
    held_out: str = _NONE


def read_accuracy(text: str) -> dict[str, RecordingsRead]:
    """The figures of each CLI, summed over the parts of accuracy.md."""
    found: dict[str, RecordingsRead] = {}
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        if section.startswith(HEADING):
            continue
        is_held_out = section.startswith("## Recordings that were held out")
        for cli, recordings, unsafe, recall in _ROW.findall(section):
            so_far = found.get(cli, RecordingsRead())
            held_out = recall if is_held_out else so_far.held_out
            found[cli] = RecordingsRead(so_far.recordings + int(recordings), so_far.unsafe + int(unsafe), held_out)
    return found


def side_by_side(read: Mapping[str, RecordingsRead], results: Sequence[ScenarioResult], *, with_drivers: bool) -> str:
    """The table. A CLI of which there are only recordings, or only a lab, has a dash for the other part."""
    acted = main_runs(results)
    titles = {profile.cli: profile.title for profile in builtin_profiles()}
    named = sorted({*read, *acted}, key=lambda cli: (-read.get(cli, RecordingsRead()).recordings, cli))
    rows = [
        (
            titles.get(cli, cli),
            *([_run_by(cli)] if with_drivers else []),
            *_reading(read.get(cli)),
            *_acting(acted.get(cli)),
        )
        for cli in named
    ]
    return table(("CLI", *(["Run by"] if with_drivers else []), *_READ, *_ACTED), rows)


def _run_by(cli: str) -> str:
    """Its drivers, without the CLI's own name."""
    drivers = drivers_of(BUILTIN_AGENTS[cli]) if cli in BUILTIN_AGENTS else ("terminal",)
    return ", ".join(one.removeprefix(f"{cli}-") for one in drivers)


def _reading(read: RecordingsRead | None) -> tuple[str, ...]:
    return (str(read.recordings), str(read.unsafe), read.held_out) if read is not None else (_NONE,) * len(_READ)


def _acting(own: Sequence[ScenarioResult] | None) -> tuple[str, ...]:
    if not own:
        return (_NONE,) * len(_ACTED)
    return (
        own[0].version,
        share(sum(one.delivered for one in own), sum(one.prompts for one in own)),
        share(sum(one.interrupted for one in own), sum(one.interrupts for one in own)),
        share(sum(one.answers for one in own), sum(one.questions for one in own)),
        share(sum(one.ends_right for one in own), sum(one.ends for one in own)),
        str(sum(one.fabricated for one in own)),
    )


def accuracy_with_table(text: str) -> str:
    """accuracy.md with the table under `HEADING` made anew."""
    return _with_table(text, HEADING, side_by_side(read_accuracy(text), read_results(), with_drivers=False))


def readme_with_table(text: str, accuracy: Path = ACCURACY) -> str:
    """The README with its table of CLIs made anew."""
    read = read_accuracy(accuracy.read_text(encoding="utf-8"))
    return _with_table(text, README_HEADING, side_by_side(read, read_results(), with_drivers=True))


def _with_table(text: str, heading: str, made: str) -> str:
    """The text with the first table under a heading replaced."""
    pattern = re.compile(rf"(^{re.escape(heading)}\n(?:\n|[^|#\n].*\n)*)(?:\|.*\n)+", re.MULTILINE)
    replaced, count = pattern.subn(lambda found: f"{found[1]}{made}\n", text)
    if count != 1:
        raise ValueError(f"a table is needed under {heading!r}, and there are {count}")
    return replaced
