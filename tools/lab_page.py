"""Write docs/reference/lab.md: the last results of `make lab`, acting beside reading."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interlock.testing.lab.installs import PINNED
from interlock.testing.lab.results import ScenarioResult
from interlock.testing.lab.scenarios import SCENARIOS
from interlock.testing.lab.store import ResultStore, profile_digest
from interlock.testing.lab.table import HEADER, LEGEND, row, total_row
from tools.markdown import table

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "reference" / "lab.md"

_HEAD: Final = """\
# Acting and reading, by CLI

The last run of `make lab`: each pinned CLI, unmodified, in a terminal of a real Interlock server, against a scripted
model that counts what it receives. [How to run it](../how-to/check-a-cli-version.md) on the version that you have; how
recordings are read is in [accuracy](accuracy.md).

{legend}

One run a scenario, on a machine that may have been busy with other work (a busy one delays paints and keys, and finds
faults that a quiet one hides). A scenario that has no row has not been run with the profiles as they are now.
"""


def kept(cli: str) -> list[ScenarioResult]:
    """The results of a pinned CLI with the profiles as they are now, in the order of the scenarios."""
    store = ResultStore(cli, PINNED[cli].version, profile_digest(cli))
    return [result for name in SCENARIOS if (result := store.find(name)) is not None]


def page(results: Sequence[Sequence[ScenarioResult]]) -> str:
    """The page: a row for each CLI, then every scenario of each."""
    parts = [_HEAD.format(legend="\n".join(LEGEND)), table(_titles(), [_without_scenario(own) for own in results])]
    for own in results:
        parts += [f"## {own[0].cli} {own[0].version}", table(_titles(1), [row(one)[1:] for one in own])]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _titles(first: int = 0) -> list[str]:
    return [title.lower() for title in HEADER[first:] if first or title != "SCENARIO"]


def _without_scenario(own: Sequence[ScenarioResult]) -> list[str]:
    cli, _, *cells = total_row(own)
    return [cli, *cells]


def main() -> None:
    found = [own for cli in PINNED if (own := kept(cli))]
    PAGE.write_text(page(found), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {sum(map(len, found))} scenarios of {len(found)} CLIs")


if __name__ == "__main__":
    main()
