"""`interlock demo`: what it tells is true of what happened, and it leaves nothing, however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.cli.demo import run as demo_run
from interlock.cli.demo import server as demo_server
from interlock.cli.demo.cast import CAST, STREAM, TERMINAL, Part, driver_of, write_agent
from interlock.cli.demo.teller import axes, tell
from interlock.cli.look.session_lines import countdown_of, shown_of, why_of
from interlock.testing.scripted_agent.language import VERBS, steps_of
from interlock.vocabulary.wire.frames import AgentStatusChanged, TaskFrame
from tests.bodies import Body
from tests.cli.demo_harness import GONE_SECONDS, DemoPlace, demo_place, read_until, without_tmux
from tests.cli.harness import interlock
from tests.docs.running import blocks
from tests.each_row import each_row

pytestmark = pytest.mark.timeout(150)
Line = dict[str, Any]
READ_OFF = re.compile(r"^(reported by agent|read from screen|read from title|a prompt was sent)$")
IN_TMUX = {"parser", "deploy", "search", "migrate", "greet"}


@pytest.fixture
def place() -> Iterator[DemoPlace]:
    with demo_place() as found:
        yield found


def lines(story: list[Any], title: str) -> list[Line]:
    return [one for one in story if isinstance(one, dict) and one.get("title") == title]


def told(story: list[Any], title: str) -> list[str]:
    return [line["told"] for line in lines(story, title)]


def wire_frame(line: Line) -> TaskFrame:
    """The frame of a line, in the words of the wire."""
    frame = {"task_id": line["frame"]["session_id"], **line["frame"]}
    status = line["told"].removeprefix("the task is ") if frame["type"] == "task:status" else None
    told: TaskFrame = msgspec.convert(frame if status is None else {**frame, "task_status": status}, TaskFrame)
    return told


def seen(story: list[Any], title: str) -> list[tuple[str, str]]:
    frames = [wire_frame(line) for line in lines(story, title)]
    return [axes(frame.status) for frame in frames if isinstance(frame, AgentStatusChanged)]


def boards(story: list[Any]) -> list[list[Line]]:
    return [one["sessions"] for one in story if "sessions" in one]


# What is told. One run, and one test, for a run takes a while.


def test_the_story_is_true_and_shows_every_state(place: DemoPlace) -> None:
    done = place.run("--json")
    assert done.returncode == 0, done.stderr
    assert place.is_clean(), place.left()
    story = [json.loads(line) for line in done.stdout.splitlines()]
    check_that_every_line_is_what_its_frame_says(story)
    check_how_every_task_ends(story)
    check_that_every_state_is_seen(story)
    check_the_boards(story)
    check_the_page_of_features(boards(story)[0])
    check_the_lives_of_the_agents(story)
    partial, completed = story[-2:]  # it ends with why, for two of the turns
    assert partial["record"]["state"] == "partial_failed"
    assert completed["record"]["state"] == "completed"


def check_that_every_line_is_what_its_frame_says(story: list[Any]) -> None:
    told_lines = [one for one in story if isinstance(one, dict) and "frame" in one]
    assert len(told_lines) > 50
    for line in told_lines:
        assert tell(wire_frame(line)) == line["told"]


def check_how_every_task_ends(story: list[Any]) -> None:
    ends = {part.title: [line for line in told(story, part.title) if line.startswith("the task is")] for part in CAST}
    assert {title: found[-1].removeprefix("the task is ") for title, found in ends.items()} == {
        "parser": "COMPLETED",
        "deploy": "COMPLETED",
        "schema": "COMPLETED",
        "docs": "COMPLETED",
        "flaky": "FAILED",
        "search": "CANCELLED",
        "migrate": "COMPLETED",
        "greet": "COMPLETED",
    }


def check_that_every_state_is_seen(story: list[Any]) -> None:
    assert ("working", "approval") in seen(story, "deploy")
    assert ("working", "question") in seen(story, "schema")
    stalled = seen(story, "docs").index(("stalled", "none"))
    assert ("working", "none") in seen(story, "docs")[stalled:]
    assert any(line.startswith("agent [partial: the turn did not complete]") for line in told(story, "flaky"))
    assert any(line.startswith('the turn ended: cancelled: "stopped on request') for line in told(story, "search"))
    assert any("process_died" in line and "signal 11" in line for line in told(story, "migrate"))
    crashed = seen(story, "migrate").index(("gone", "none"))
    assert ("starting", "none") in seen(story, "migrate")[crashed:]
    assert seen(story, "greet")[-1] == ("gone", "none")


def check_the_boards(story: list[Any]) -> None:
    """On the first, who needs a person comes first, also a failure that nobody saw; on the second, nobody asks."""
    first, second = boards(story)
    assert {task["title"] for task in first[:3]} == {"deploy", "schema", "flaky"}
    assert first[3]["title"] == "docs"
    assert {task["title"]: task["driver"] for task in first} == {part.title: part.driver for part in CAST}
    assert {task["title"] for task in first if task["driver"] == TERMINAL} == IN_TMUX
    assert [task for task in second if task.get("open_approvals")] == []
    assert all(task["badge"]["attention"] == "none" for task in second)


def check_the_page_of_features(board: list[Line]) -> None:
    """Its sample is that board, but for the order of those who stand alike, the seconds, and by which of several rules
    a terminal is read."""
    (sample,) = blocks((Path(__file__).parents[2] / "docs" / "features.md").read_text(encoding="utf-8"), "text")
    head, *shown = [re.split(" {2,}", line.strip()) for line in sample.splitlines()]
    now = datetime.now(UTC)
    bodies: list[Body] = [
        {**one, "task_id": one["session_id"], "task_status": None, "live": {"idle_at": one["idle_at"]}} for one in board
    ]
    found = [[shown_of(task).words, task["title"], countdown_of(task, now) or why_of(task)] for task in bodies]
    assert head == ["SHOWS", "TITLE", "WHY"]
    assert sorted(map(_masked, shown)) == sorted(map(_masked, found))


def _masked(row: list[str]) -> list[str]:
    words, title, why = row
    shown = re.sub(r"ses_\S+", "ses_...", READ_OFF.sub("some rule", why))
    return [words, title, re.sub(r"in \d+s$", "in SECONDS", shown)]


def check_the_lives_of_the_agents(story: list[Any]) -> None:
    (spawns,) = [one["spawns"] for one in story if "spawns" in one]
    reasons = [life["reason"] for life in spawns if life["reason"]]
    assert sorted(reasons) == ["crashed", "idle_ttl"]
    assert len(spawns) == len(CAST) + 1


# How it ends


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_in_the_middle_ends_all_of_it(place: DemoPlace, number: signal.Signals) -> None:
    with place.start() as process:
        read_until(process, lambda line: "asks (approval)" in line)
        assert len(place.left()) > 5  # it can be seen at all
        process.send_signal(number)
        _, err = process.communicate(timeout=GONE_SECONDS)
    assert process.returncode == 4
    assert "Traceback" not in err
    assert place.is_clean(), place.left()


@pytest.mark.deep
def test_a_demo_that_is_killed_leaves_nothing_either(place: DemoPlace) -> None:
    with place.start() as process:
        read_until(process, lambda line: "asks (approval)" in line)
        process.kill()
    place.becomes_clean()


@pytest.mark.deep
def test_a_server_that_is_ended_by_somebody_takes_its_agents_along(place: DemoPlace) -> None:
    with place.start() as process:
        read_until(process, lambda line: "asks (approval)" in line)
        (host,) = [one for one in place.left() if "interlock.cli.demo.host" in one]
        os.kill(int(host.split()[0]), signal.SIGTERM)
        place.becomes_clean(but_for=process.pid)
        process.kill()
    assert place.is_clean(), place.left()


@pytest.mark.deep
def test_a_reader_that_goes_away_ends_it(place: DemoPlace) -> None:
    with place.start() as process:
        read_until(process, lambda line: "is starting" in line)
        assert process.stdout is not None
        process.stdout.close()
        process.wait(GONE_SECONDS)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert place.is_clean(), place.left()


@pytest.mark.deep
def test_without_tmux_it_says_so_and_shows_the_same(place: DemoPlace, tmp_path: Path) -> None:
    done = place.run("--json", **without_tmux(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "There is no tmux" in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {task["driver"] for task in boards(found)[0]} == {STREAM}
    assert ("working", "approval") in seen(found, "deploy")
    assert place.is_clean(), place.left()


def test_a_server_whose_start_is_cut_short_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Path] = []

    async def begin(folder: Path) -> asyncio.subprocess.Process:
        begun.append(folder)
        raise asyncio.CancelledError

    async def story() -> None:
        async with demo_server.private_server():
            pytest.fail("it never started")

    monkeypatch.setattr(demo_server, "_start", begin)
    monkeypatch.setattr(demo_server, "_base", lambda: tmp_path)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(story())
    assert [folder.parent for folder in begun] == [tmp_path]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_on_path", [True, False])
def test_what_to_type_next_works_as_it_stands(
    is_on_path: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / ".venv" / "bin" / "interlock"
    program.parent.mkdir(parents=True)
    program.touch(0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", str(program.parent) if is_on_path else "/nowhere")
    name = "interlock" if is_on_path else ".venv/bin/interlock"
    assert f'\n  {name} run claude "Fix the failing test"\n  {name} top' in demo_run._go_on()


# The parts, and the words of the command


@each_row("part", CAST, ids=lambda part: part.title)
def test_a_script_has_no_word_that_is_said_by_mistake(part: Part) -> None:
    """A verb that is spelled wrong would be said as it stands."""
    for script in filter(None, (part.script, part.next_life)):
        assert all(step.strip().split(" ")[0] in VERBS for step in script.split(";"))
        assert steps_of(script)


@each_row("part", CAST, ids=lambda part: part.title)
def test_without_tmux_every_part_is_played_by_stream(part: Part) -> None:
    assert driver_of(part, has_tmux=True) == part.driver
    assert driver_of(part, has_tmux=False) == STREAM


def test_a_next_life_plays_another_script(tmp_path: Path) -> None:
    part = Part(title="one", prompt="", script="say first", next_life="say second")
    program = write_agent(part, STREAM, tmp_path)
    text = Path(program).read_text()
    assert text.index("one.later") < text.index("one.first")
    assert [(tmp_path / f"one.{name}").read_text() for name in ("first", "later")] == ["say first\n", "say second\n"]


def test_the_log_alone_is_shown_without_an_agent() -> None:
    done = interlock("demo", "--log", "--json")
    assert done.returncode == 0, done.stderr
    told_log = json.loads(done.stdout)
    assert told_log["crash"]["recovered"]["state"] == "partial_failed"
    assert len(told_log["stories"]) == 9


def test_two_stories_at_once_are_refused() -> None:
    done = interlock("demo", "--log", "--tell")
    assert done.returncode == 2
    assert "exclude" in done.stderr
