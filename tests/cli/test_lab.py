"""`interlock debug lab`, with the scripted agent as the CLI: what it counts and keeps; it leaves nothing."""

from __future__ import annotations

import gzip
import json
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import interlock
from tests.cli.lab_place import LAB_SECONDS, LabPlace, lab_place
from tests.each_row import each_row

pytestmark = pytest.mark.timeout(600)
QUICK = ("--hold", "0")

# CLIs with a flaw: one gives the model every prompt twice, one does not hear Escape.
DOUBLING = """\
#!{python}
from interlock.testing.lab import scripted_cli

class Twice(list):
    def append(self, one):
        super().append(one)
        if one.get("role") == "user":
            super().append({{**one, "content": "again: " + one["content"]}})

made = scripted_cli.ModelTurns.__init__
def flawed(self, *args, **kwargs):
    made(self, *args, **kwargs)
    self.said = Twice()
scripted_cli.ModelTurns.__init__ = flawed
scripted_cli.os._exit(scripted_cli.main())
"""
DEAF = """\
#!{python}
from interlock.testing.lab import scripted_cli
from interlock.testing.scripted_agent import tui

tui.Agent.interrupt = lambda self: None
scripted_cli.os._exit(scripted_cli.main())
"""


@pytest.fixture
def place() -> Iterator[LabPlace]:
    with lab_place() as found:
        yield found


def results_of(out: str) -> dict[str, dict[str, Any]]:
    return {one["scenario"]: one for one in map(json.loads, out.splitlines())}


def executable(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_prompts_answers_and_interrupts_are_counted_by_what_the_model_received(place: LabPlace, tmp_path: Path) -> None:
    """One run for several laws: a run takes a while."""
    kept = tmp_path / "kept"
    scenarios = ("--scenario", "deny", "--scenario", "interrupt-streaming")
    done = place.run("scripted", *scenarios, *QUICK, "--json", "--keep", str(kept))
    assert done.returncode == 0, done.stdout + done.stderr
    found = results_of(done.stdout)
    deny, interrupt = found["deny"], found["interrupt-streaming"]
    assert (deny["prompts"], deny["delivered"], deny["doubled"], deny["lost"]) == (2, 2, 0, 0)
    assert (deny["questions"], deny["questions_seen"], deny["answers"]) == (1, 1, 1)
    assert (interrupt["interrupts"], interrupt["interrupted"], interrupt["killed"]) == (1, 1, 0)
    assert (interrupt["ends"], interrupt["ends_reported"], interrupt["ends_right"]) == (2, 2, 2)
    assert all(one["fabricated"] == one["reading"]["unsafe"] == 0 for one in found.values())
    assert place.left() == []

    # What is over is not run again, and the table says the same.
    written = {path: path.stat().st_mtime_ns for path in place.cache.rglob("*.json")}
    again = place.run("scripted", *scenarios, *QUICK)
    assert again.returncode == 0
    assert again.stderr.count("known already") == 2
    header, *rows = again.stdout.splitlines()
    assert header.split()[:3] == ["CLI", "SCENARIO", "DELIVERED"]
    assert [row.split()[2] for row in rows[:3]] == ["deny", "interrupt-streaming", "all"]
    assert rows[2].split()[3] == "4/4"
    assert written == {path: path.stat().st_mtime_ns for path in place.cache.rglob("*.json")}
    assert len(written) == 2

    # The recordings have the truth in them.
    assert sorted(path.name for path in (kept / "scripted").iterdir()) == [
        "1.0-deny.ndjson.gz",
        "1.0-interrupt-streaming.ndjson.gz",
    ]


def test_a_cli_that_gives_the_model_a_prompt_twice_is_found_out(place: LabPlace, tmp_path: Path) -> None:
    """In a terminal of another size, which its recording and its results are kept by."""
    flawed = executable(tmp_path / "flawed", DOUBLING.format(python=sys.executable))
    kept = tmp_path / "kept"
    size = ("--size", "100x30", "--keep", str(kept))
    done = place.run("scripted", "--scenario", "long", "--executable", str(flawed), *size, *QUICK, "--json")
    assert (done.returncode, "1 doubled" in done.stderr) == (1, True), done.stdout + done.stderr
    found = results_of(done.stdout)["long"]
    assert (found["version"], found["prompts"], found["delivered"], found["doubled"]) == ("1.0", 1, 0, 1)
    assert found["size"] == "100x30"
    with gzip.open(kept / "scripted" / "1.0-100x30-long.ndjson.gz") as recording:
        header = json.loads(recording.readline())
    assert (header["cols"], header["rows"]) == (100, 30)
    assert place.left() == []


@pytest.mark.deep
def test_a_cli_that_hears_no_escape_is_not_said_to_be_interrupted(place: LabPlace, tmp_path: Path) -> None:
    flawed = executable(tmp_path / "flawed", DEAF.format(python=sys.executable))
    chosen = ("--scenario", "interrupt-streaming", "--executable", str(flawed))
    done = place.run("scripted", *chosen, *QUICK, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    found = results_of(done.stdout)["interrupt-streaming"]
    assert (found["interrupts"], found["interrupted"]) == (1, 0)
    assert place.left() == []


def test_ctrl_c_ends_every_process_and_a_scenario_that_was_cut_short_is_not_kept(place: LabPlace) -> None:
    with place.start("scripted", "--scenario", "hang", *QUICK) as process:
        deadline = time.monotonic() + LAB_SECONDS
        while not any("shim" in one for one in place.left()):  # the agent is in its pane
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LAB_SECONDS)
    assert process.returncode == 4, err
    assert out == ""
    assert place.left() == []
    assert list(place.cache.rglob("*.json")) == []


def test_a_failing_install_says_what_npm_said(place: LabPlace, tmp_path: Path) -> None:
    executable(tmp_path / "npm", "#!/bin/sh\necho 'no such version'\nexit 7\n")
    done = place.run("claude@9.9.9", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode == 1
    assert "claude 9.9.9: npm ended with code 7" in done.stderr
    assert "no such version" in done.stderr
    assert place.left() == []


@each_row(
    ("words", "said"),
    [
        (("emacs",), "the lab knows no CLI 'emacs'"),
        ((), "name a CLI"),
        (("claude@latest",), "'latest' is no version"),
        (("claude", "--scenario", "dance"), "no scenario is called 'dance'"),
        (("claude", "--executable", "/nowhere/claude"), "there is no program /nowhere/claude"),
        (("claude", "codex", "--executable", "/bin/sh"), "--executable is the program of one CLI"),
        (("scripted", "--hold", "-1"), "--hold is not less than 0"),
        (("scripted", "--size", "80"), "'80' is no size of a terminal"),
        (("scripted", "--size", "10x24"), "'10x24' is no size of a terminal"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_a_remedy(words: tuple[str, ...], said: str) -> None:
    done = interlock("lab", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_the_list_names_every_cli_and_scenario() -> None:
    done = interlock("lab", "--list")
    assert done.returncode == 0
    for word in ("claude", "codex", "gemini", "qwen", "opencode", "interrupt-tool", "draft", "kill", "hang"):
        assert word in done.stdout
