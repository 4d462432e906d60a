"""`interlock debug track`: one verdict a frame, in order, from what the terminal showed and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from interlock.monitor.scoring.recording import Frame, Record, Truth
from tests.cli.harness import COMMAND, interlock
from tests.cli.recordings import HEADER, a_turn, configured, frames, write
from tests.screen.tiny import IDLE

FIELDS = tuple(
    "t availability business_state surface_business_state input_mode ui_context activity attention rule events".split()  # noqa: SIM905
)
EVENTS = {"ready", "blocked", "stalled", "recovered", "completed", "interrupted", "failed", "gone"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return configured(tmp_path)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write(tmp_path / "turn.ndjson.gz", a_turn())


def tracked(path: Path | str, env: dict[str, str], *more: str) -> list[dict[str, object]]:
    done = interlock("track", str(path), "--json", *more, env=env)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_frame_is_one_line_with_the_fields_that_were_promised(recording: Path, env: dict[str, str]) -> None:
    found = tracked(recording, env)
    times = [record.t for record in a_turn() if isinstance(record, Frame)]
    assert [line["t"] for line in found] == times
    assert all(tuple(line)[: len(FIELDS)] == FIELDS for line in found)


def test_a_turn_is_told_as_it_went(recording: Path, env: dict[str, str]) -> None:
    found = tracked(recording, env)
    told = [event for line in found for event in line["events"]]  # type: ignore[attr-defined]
    assert told == ["ready", "blocked", "completed", "ready"]
    assert set(told) <= EVENTS
    at = {line["t"]: line for line in found}
    assert at[5.0]["business_state"] == at[5.0]["surface_business_state"] == "idle"
    assert (at[15.0]["business_state"], at[15.0]["activity"], at[15.0]["rule"]) == (
        "working",
        "working",
        "status.working",
    )
    assert (at[25.0]["business_state"], at[25.0]["attention"], at[25.0]["kind"]) == (
        "awaiting_operator",
        "approval",
        "approval",
    )
    assert at[25.0]["options"] == [{"text": "Yes", "selected": True}, {"text": "No, and stop", "selected": False}]
    # One frame that looks idle is not believed yet, and both are told.
    assert (at[34.0]["business_state"], at[34.0]["surface_business_state"]) == ("working", "idle")
    assert (at[43.0]["business_state"], at[43.0]["input_mode"], at[43.0]["draft"]) == ("idle", "freeform", "")


def test_truth_is_never_read(recording: Path, env: dict[str, str], tmp_path: Path) -> None:
    honest = tracked(recording, env)
    without = write(tmp_path / "without.ndjson", (one for one in a_turn() if not isinstance(one, Truth)))
    lies = write(tmp_path / "lies.ndjson", _with_lies(a_turn()))
    assert tracked(without, env) == honest
    assert tracked(lies, env) == honest


def _with_lies(records: list[Record]) -> Iterator[Record]:
    for record in records:
        if isinstance(record, Truth):
            yield Truth(record.t, "blocked" if record.state == "idle" else "idle", "a lie")
        else:
            yield record


def test_a_recording_comes_from_standard_input_and_is_answered_line_by_line(env: dict[str, str]) -> None:
    """Each verdict is out before the next frame is asked for: a live pipe is as good as a file."""
    lines = [msgspec.json.encode(record) + b"\n" for record in (HEADER, *frames(0, 1, IDLE))]
    with subprocess.Popen(
        (*COMMAND, "track", "-", "--json"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **env},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines[0])
        for line in lines[1:]:
            process.stdin.write(line)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["business_state"] == "idle"
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_a_broken_recording_gives_what_stood_before_and_names_the_line(tmp_path: Path, env: dict[str, str]) -> None:
    path = write(tmp_path / "broken.ndjson", (HEADER, *frames(0, 1, IDLE)))
    with path.open("ab") as file:
        file.write(b'{"kind":"frame","t":\n')
    done = interlock("track", str(path), "--json", env=env)
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 5
    assert f"{path}:7: not a record" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_cli_is_read_by_the_generic_profile_and_a_note_says_so(tmp_path: Path, env: dict[str, str]) -> None:
    header = msgspec.structs.replace(HEADER, cli="nobody-knows-it")
    path = write(tmp_path / "other.ndjson", (header, *frames(0, 1, IDLE)))
    (tmp_path / "config/interlock/profiles/generic.toml").write_text(
        'id = "generic-mine"\ncli = "generic"\ntitle = "Any tool"\n', encoding="utf-8"
    )
    done = interlock("track", str(path), "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert "there is no profile for 'nobody-knows-it'" in done.stderr
    assert {json.loads(line)["business_state"] for line in done.stdout.splitlines()} == {"unknown"}
    assert json.loads(done.stdout.splitlines()[0])["anomalies"] == ["no_profile"]


def test_a_recording_can_be_read_as_another_cli(tmp_path: Path, env: dict[str, str]) -> None:
    header = msgspec.structs.replace(HEADER, cli="nobody-knows-it")
    path = write(tmp_path / "other.ndjson", (header, *frames(0, 1, IDLE)))
    assert {line["business_state"] for line in tracked(path, env, "--cli", "tiny")} == {"idle"}


def test_without_json_only_changes_are_printed(recording: Path, env: dict[str, str]) -> None:
    done = interlock("track", str(recording), env=env)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) < 12
    assert "quiet" in lines[0]
    assert "[ready]" in lines[0]
    assert any("needs: approval" in line and "[blocked]" in line for line in lines)


def test_a_recording_without_a_frame_says_why_nothing_is_printed(tmp_path: Path, env: dict[str, str]) -> None:
    done = interlock("track", str(write(tmp_path / "short.ndjson", (HEADER,))), env=env)
    assert (done.returncode, done.stdout) == (0, "")
    assert "holds no frame" in done.stderr


def test_a_reader_who_leaves_ends_it_quietly(tmp_path: Path, env: dict[str, str]) -> None:
    path = write(tmp_path / "long.ndjson", (HEADER, *frames(0, 2000, IDLE)))
    with subprocess.Popen(
        (*COMMAND, "track", str(path), "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_ctrl_c_ends_it_with_its_own_code(env: dict[str, str]) -> None:
    lines = [msgspec.json.encode(record) + b"\n" for record in (HEADER, *frames(0, 0.2, IDLE))]
    with subprocess.Popen(
        (*COMMAND, "track", "-", "--json"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"".join(lines))
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert b"interrupted" in process.stderr.read()
    assert process.returncode == 4
