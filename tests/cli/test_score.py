"""`interlock debug score`: the table, the misses behind it, and an exit code that a gate can rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from interlock.monitor.scoring.recording import Frame
from tests.cli.harness import interlock
from tests.cli.recordings import a_turn, configured, write
from tests.screen.tiny import DONE, IDLE


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return configured(tmp_path)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    write(tmp_path / "good" / "one.ndjson.gz", a_turn())
    return write(tmp_path / "good" / "deeper" / "two.ndjson", a_turn()).parents[1]


@pytest.fixture
def unsafe(tmp_path: Path) -> Path:
    """A tool that looks done while the truth is that it works."""
    return write(tmp_path / "unsafe" / "lies.ndjson", a_turn(shown_at_work=DONE)).parent


def scored(folder: Path, env: dict[str, str], *more: str) -> dict[str, object]:
    done = interlock("score", str(folder), "--json", *more, env=env)
    assert done.returncode in (0, 1), done.stderr
    (line,) = done.stdout.splitlines()
    (found,) = json.loads(line)["scores"]
    return dict(found)


def test_a_right_tracker_scores_whole(good: Path, env: dict[str, str]) -> None:
    found = scored(good, env)
    assert (found["cli"], found["recordings"], found["unsafe"], found["macro_recall"]) == ("tiny", 2, 0, 1.0)
    assert found["misses"] == []
    idle = found["idle"]
    assert isinstance(idle, dict)
    assert (idle["episodes"], idle["recall"]) == (4, 1.0)
    assert idle["latency_p95_seconds"] < 2


@pytest.mark.parametrize("pushed", [(), ("--pushed",)])
def test_the_ends_of_turns_are_counted_polled_and_pushed(
    good: Path, env: dict[str, str], pushed: tuple[str, ...]
) -> None:
    done = interlock("score", str(good), *pushed, "--json", env=env)
    (found,) = json.loads(done.stdout)["scores"]
    ends = found["ends"]
    assert ends["labelled"] > 0
    assert (ends["reported"], ends["right_kind"], ends["abandoned"], ends["fabricated"]) == (
        ends["labelled"],
        ends["labelled"],
        0,
        0,
    )
    assert ends["latency_p95_seconds"] < 5
    assert "ENDS" in interlock("score", str(good), *pushed, env=env).stdout.splitlines()[0]


def test_the_table_has_a_row_a_cli_and_says_what_it_means(good: Path, env: dict[str, str]) -> None:
    done = interlock("score", str(good), env=env)
    assert done.returncode == 0
    header, row, *rest = done.stdout.splitlines()
    assert header.split()[:3] == ["CLI", "UNSAFE", "MACRO"]
    assert row.split()[:3] == ["tiny", "0", "100.00%"]
    assert any("unsafe:" in line for line in rest)


def test_an_unsafe_reading_is_a_failure_and_is_shown_first(unsafe: Path, env: dict[str, str]) -> None:
    done = interlock("score", str(unsafe), "--show", env=env)
    assert done.returncode == 1
    shown = [line for line in done.stdout.splitlines() if ": truth " in line]
    assert shown[0].startswith("UNSAFE: ")
    assert "lies.ndjson" in shown[0]
    assert "read as" in shown[0]
    assert "composer.ready" in done.stdout
    assert "# Done" in done.stdout
    found = scored(unsafe, env)
    assert found["unsafe"] == found["working_read_as_idle"] + found["false_completions"]  # type: ignore[operator]
    assert found["unsafe"] != 0


def test_without_show_no_screen_is_printed(unsafe: Path, env: dict[str, str]) -> None:
    assert "# Done" not in interlock("score", str(unsafe), env=env).stdout


@pytest.mark.parametrize("rough", [("--hz", "1"), ("--hz", "2", "--jitter", "0.4", "--drop", "0.3", "--seed", "7")])
def test_it_can_look_as_a_rougher_watcher_would(good: Path, env: dict[str, str], rough: tuple[str, ...]) -> None:
    smooth, found = scored(good, env), scored(good, env, *rough)
    assert found["unsafe"] == 0
    assert found["idle"]["frames"] < smooth["idle"]["frames"]  # type: ignore[index]


@pytest.mark.parametrize("bad", [("--hz", "0"), ("--hz", "-1"), ("--drop", "2"), ("--jitter", "-1")])
def test_a_cadence_that_cannot_be_kept_is_refused(good: Path, env: dict[str, str], bad: tuple[str, ...]) -> None:
    done = interlock("score", str(good), *bad, env=env)
    assert done.returncode == 2
    assert "give a number from" in done.stderr


def test_a_folder_without_recordings_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "empty").mkdir()
    for path, says in ((tmp_path / "empty", "holds no recording"), (tmp_path / "none", "no such file or folder")):
        done = interlock("score", str(path), env=env)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr


def test_one_recording_can_be_scored_by_itself(good: Path, env: dict[str, str]) -> None:
    assert scored(good / "one.ndjson.gz", env)["recordings"] == 1


def test_a_broken_recording_is_named(good: Path, env: dict[str, str]) -> None:
    path = good / "broken.ndjson"
    path.write_bytes(b'{"kind":"header","format":1}\n{\n')
    done = interlock("score", str(good), env=env)
    assert done.returncode == 2
    assert f"{path}:2: not a record" in done.stderr


def test_screens_that_are_shown_cannot_act_on_the_terminal(tmp_path: Path, env: dict[str, str]) -> None:
    hostile = "\x1b]0;owned\x07" + IDLE.raw_text.replace("hello", "\u202eevil\x1b[2J")
    shown = [structs.replace(one, ansi=hostile) if isinstance(one, Frame) else one for one in a_turn()]
    done = interlock("score", str(write(tmp_path / "hostile.ndjson", shown)), "--show", env=env)
    assert "evil" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
