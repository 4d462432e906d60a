"""The published results of the lab: how runs are taken in, and what the pages make of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from interlock.testing.lab.recipes import RECIPES
from interlock.testing.lab.results import ScenarioResult
from interlock.testing.lab.scenarios import SCENARIOS
from interlock.testing.lab.store import builtin_digest
from tools.cli_table import RecordingsRead, read_accuracy, side_by_side
from tools.lab_page import collect, lab_page, main_runs, merge, read_results, write_results

NOW = builtin_digest("codex")
ACCURACY = """\
## Recordings that the profiles were written with

| CLI | recordings | unsafe | macro recall | idle |
| --- | --- | --- | --- | --- |
| codex | 27 | 0 | 99.74% | - |

## Recordings that were held out

| CLI | recordings | unsafe | macro recall | idle |
| --- | --- | --- | --- | --- |
| codex | 7 | 1 | 99.59% | - |
"""


def a_run(scenario: str, **changes: object) -> ScenarioResult:
    made = ScenarioResult(cli="codex", version="0.166.0", scenario=scenario, profile=NOW, prompts=2, delivered=2)
    return msgspec.structs.replace(made, **changes)


def keep(folder: Path, result: ScenarioResult) -> None:
    path = folder / f"{result.cli}-{result.version}" / result.profile / f"{result.scenario}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(result))


def test_only_what_the_profiles_of_now_read_is_taken_in(tmp_path: Path) -> None:
    keep(tmp_path, a_run("stream"))
    keep(tmp_path, a_run("deny", profile="of another day"))
    keep(tmp_path, a_run("stream", cli="scripted", profile=builtin_digest("scripted")))
    assert collect(tmp_path) == [a_run("stream")]


def test_a_run_takes_the_place_of_the_same_scenario_and_of_what_other_profiles_read() -> None:
    published = [a_run("stream", profile="old"), a_run("deny", profile="old"), a_run("deny", version="0.120.0")]
    assert merge(published, [a_run("stream")]) == [a_run("deny", version="0.120.0"), a_run("stream")]
    again = a_run("stream", delivered=1, lost=1)
    assert merge([a_run("stream"), a_run("deny")], [again]) == [a_run("deny"), again]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    runs = [a_run("stream", end_delays_seconds=(0.2,)), a_run("stream", size="80x24"), a_run("deny", cli="claude")]
    write_results(runs, tmp_path / "lab.ndjson")
    assert sorted(map(str, read_results(tmp_path / "lab.ndjson"))) == sorted(map(str, runs))


def test_the_run_that_stands_for_a_cli_is_the_one_with_the_most_scenarios() -> None:
    newest = [a_run("stream", version="0.169.0")]
    most = [a_run("stream"), a_run("deny")]
    assert main_runs([*newest, *most]) == {"codex": [a_run("stream"), a_run("deny")]}


def test_a_scenario_that_a_cli_does_not_offer_is_told_apart_from_one_that_was_not_run() -> None:
    assert not SCENARIOS["question"].needs(RECIPES["codex"])
    text = lab_page([a_run("stream"), a_run("stream", size="80x24")])
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert rows["question"].endswith("| not offered by this CLI |")
    assert rows["deny"].endswith("| not run |")
    assert rows["codex 0.166.0 80x24"].endswith("| 1 of 1 ok |")


def test_a_run_that_another_profile_read_says_so() -> None:
    assert "1 of 1 ok; its profile has changed since" in lab_page([a_run("stream", profile="old")])


@pytest.mark.parametrize("with_drivers", [True, False])
def test_reading_and_acting_stand_in_one_row(with_drivers: bool) -> None:
    read = read_accuracy(ACCURACY)
    assert read == {"codex": RecordingsRead(34, 1, "99.59%")}
    only_read = {**read, "vibe": RecordingsRead(17, 0, "100.00%")}
    _, _, codex, vibe = side_by_side(only_read, [a_run("stream")], with_drivers=with_drivers).splitlines()
    run_by = " terminal, app-server |" if with_drivers else ""
    assert codex == f"| Codex |{run_by} 34 | 1 | 99.59% | 0.166.0 | 2/2 | - | - | - | 0 |"
    assert vibe.endswith("| 17 | 0 | 100.00% | - | - | - | - | - | - |")
