"""Children of a process that was killed, and the real server that finds them: none is taken for a plain session."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.testing.scripted_agent import command, write_program
from tests.any_route import any_route
from tests.bodies import Body
from tests.cli.children_left_behind import DEPLOY, PARENT
from tests.cli.serving import STREAM, Served, serving, until


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server that was ended: its home is free for another process."""
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as one:
        one.stop()
        yield one
        one.start() if one.process is not None and one.process.poll() is not None else None


def left_behind(served: Served, kind: str) -> None:
    """Run the program until its children are as they should be, and kill it."""
    agent = write_program(served.folder / "agent", command(STREAM, gates=served.folder / "gates", lifetime_seconds=300))
    program = [sys.executable, "-m", "tests.cli.children_left_behind", str(served.home), str(agent), kind]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "staged\n"
        finally:
            process.kill()


def events(served: Served, task_id: str) -> list[Body]:
    raw = served.api.ask_raw("GET", f"/api/tasks/{task_id}/log")
    return [json.loads(line) for line in raw.splitlines()]


def the_queued_one(served: Served) -> str:
    """The child that has no turn: the other one was in its turn when the program died."""
    found = [one["task_id"] for one in served.api.items(any_route("/api/tasks")) if one["task_id"] != PARENT]
    (queued,) = (
        one for one in found if any(str(event["data"].get("text")).startswith(DEPLOY) for event in events(served, one))
    )
    return str(queued)


def kinds(told: list[Body]) -> list[str]:
    """What decides: gates by whether they are open, the start of a turn, and nothing else."""
    found = []
    for one in told:
        if one["type"] == "queue_gate":
            found.append("open" if one["data"]["is_open"] else "held")
        elif one["type"] == "user_message":
            found.append("prompted")
    return found


def _said(served: Served, words: str) -> subprocess.CompletedProcess[str] | None:
    done = served.cli("debug", "diagnose", PARENT)
    return done if words in done.stdout else None


def test_a_queued_step_of_a_dead_workflow_is_held_and_shown_and_never_dispatched(served: Served) -> None:
    left_behind(served, "workflow")
    served.start()
    child = the_queued_one(served)

    def settled() -> list[Body]:
        facts = [one["data"] for one in events(served, PARENT) if one["type"] == "subagent_event"]
        ended = [one for one in facts if one["status"] == "interrupted"]
        assert "prompted" not in kinds(events(served, child))
        return ended

    (ended,) = until(settled, "its parent's log has its end")
    assert ended["reason"] == "workflow wf_1 could not be taken up"
    assert kinds(events(served, child)) == ["held"]
    detail = served.task(child)
    assert (detail["turns"], len(detail["queue"]["waiting"])) == (0, 1)
    assert PARENT in detail["summary"]["held"]
    said = "the server that is there does not run it"
    diagnosed = until(lambda: _said(served, said), "diagnose says it")
    assert diagnosed.returncode == 1, diagnosed.stdout
    served.kill()
    served.start()  # and again: it was settled once
    assert kinds(events(served, child)) == ["held"]
    assert len(settled()) == 1


def test_a_queued_child_is_prompted_only_after_its_parent_took_it_up(served: Served) -> None:
    left_behind(served, "children")
    served.start()
    child = the_queued_one(served)
    until(lambda: "prompted" in kinds(events(served, child)), "it is taken up")
    assert kinds(events(served, child)) == ["held", "open", "prompted"]

    def ended() -> list[str]:
        facts = [one["data"] for one in events(served, PARENT) if one["type"] == "subagent_event"]
        found = [one["status"] for one in facts if one["status"] in ("completed", "failed", "interrupted", "timed_out")]
        return found if len(found) == 2 else []

    assert sorted(until(ended, "both ended")) == ["completed", "failed"]
