"""`interlock plan run` and what follows it, on a real server with real agents, commands and a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.server.api import ServerRefusal
from interlock.testing.scripted_agent import command, write_program
from tests.bodies import Body
from tests.cli.serving import STREAM, Served, serving, until

PLAN = """
plan = 1
name = "build it"
params.word = { type = "text", default = "made" }
limits = { timeout = "10m" }

[[step]]
id = "build"
agent = "helper"
prompt = "say {{ params.word }}; gate built"
write = ["out.txt"]
checks = [["grep", "-q", "made", "out.txt"]]
outputs.file = { type = "file", path = "out.txt" }

[[step]]
id = "ship"
needs = ["build"]
gate = "Ship {{ steps.build.outputs.file }}?"

[[step]]
id = "deploy"
needs = ["ship"]
run = ["sh", "-c", "echo shipped >> deployed; cat deployed"]
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as one:
        agent = write_program(one.folder / "agent", command(STREAM, gates=one.folder / "gates", lifetime_seconds=300))
        config = one.folder / "config"
        (config / "plans").mkdir(parents=True)
        (config / "interlock.toml").write_text(f'[agents.helper]\nargv = ["{agent}"]\ndriver = "claude-stream"\n')
        (config / "plans" / "build.plan.toml").write_text(PLAN)
        (one.folder / "work").mkdir()
        yield one


def plan(served: Served, *args: str, code: int = 0) -> str:
    """`interlock plan ARGS`, with its exit code; what it says on standard output."""
    config = {"INTERLOCK_CONFIG": str(served.folder / "config" / "interlock.toml")}
    done = served.cli("plan", *args, **config)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def begin(served: Served, *args: str, name: str = "wf_1", plan_name: str = "build") -> str:
    return plan(served, "run", plan_name, "--cwd", str(served.folder / "work"), "--id", name, *args).strip()


def build(served: Served) -> None:
    """What the agent of the first step would do, before its turn ends."""
    (served.folder / "work" / "out.txt").write_text("made")
    served.gates.open("built")


def shown(served: Served, name: str = "wf_1") -> Body:
    found: Body = json.loads(served.api.ask_raw("GET", f"/api/workflows/{name}"))
    return found


def states(served: Served, name: str = "wf_1") -> dict[str, str]:
    return {step["step_id"]: step["state"] for step in shown(served, name)["steps"]}


def test_a_plan_runs_to_its_gate_and_over_a_crash_to_its_end(served: Served) -> None:
    assert begin(served) == "wf_1"
    build(served)
    plan(served, "wait", "wf_1", code=6)
    assert states(served) == {"build": "checkpoint_ready", "ship": "held", "deploy": "pending"}
    text = plan(served, "show", "wf_1", code=6)
    assert "interlock plan answer wf_1 ship go|stop" in text
    assert "made" in text  # what the gate shows of the step before it
    assert "checked" in text
    served.kill()
    served.start()
    assert states(served) == {"build": "checkpoint_ready", "ship": "held", "deploy": "pending"}
    assert not (served.folder / "work" / "deployed").exists()
    plan(served, "answer", "wf_1", "ship", "maybe", code=2)
    plan(served, "answer", "wf_1", "ship", "go")
    plan(served, "wait", "wf_1")
    assert (served.folder / "work" / "deployed").read_text() == "shipped\n"
    assert plan(served, "answer", "wf_1", "ship", "stop", code=2) == ""
    assert "completed" in plan(served, "answer", "wf_1", "ship", "go")  # the same decision again
    assert [step["proof"] for step in shown(served)["steps"]] == ["checked", "decision", "exit_code"]
    served.kill()
    served.start()
    plan(served, "show", "wf_1")  # over, and known after a restart
    assert "wf_1" in plan(served, "ls")
    assert (served.folder / "work" / "deployed").read_text() == "shipped\n"


def test_the_same_id_is_the_same_workflow_and_with_another_plan_it_is_refused(served: Served) -> None:
    begin(served)
    begin(served)
    (told,) = json.loads(plan(served, "ls", "--json"))["workflows"]
    assert (told["workflow_id"], told["session_id"], "task_id" in told) == ("wf_1", "ses_wf_1", False)
    (served.folder / "config" / "plans" / "build.plan.toml").write_text(PLAN + "\n# another\n")
    place = str(served.folder / "work")
    plan(served, "run", "build", "--cwd", place, "--id", "wf_1", code=2)


def test_a_gate_that_is_refused_fails_and_what_needs_it_never_runs(served: Served) -> None:
    begin(served)
    build(served)
    plan(served, "wait", "wf_1", code=6)
    plan(served, "answer", "wf_1", "ship", "stop", "--reason", "not today")
    assert shown(served)["status"] == "partial"
    assert states(served) == {"build": "checkpoint_ready", "ship": "failed", "deploy": "held"}
    plan(served, "show", "wf_1", code=3)
    assert not (served.folder / "work" / "deployed").exists()


def test_words_without_the_file_are_not_ready(served: Served) -> None:
    begin(served)
    served.gates.open("built")
    plan(served, "wait", "wf_1", code=3)
    assert states(served)["build"] == "partial"
    assert "out.txt" in next(step["reason"] for step in shown(served)["steps"] if step["step_id"] == "build")


def test_a_step_that_ended_with_the_server_waits_for_a_decision(served: Served) -> None:
    begin(served)
    until(lambda: states(served)["build"] == "running" and shown(served)["steps"][0]["subagent_id"], "it runs")
    until(lambda: is_prompted(served), "its agent has its prompt")
    served.kill()
    served.start()
    until(lambda: states(served)["build"] == "needs_orchestrator", "it is held")
    assert "plan release wf_1 build" in plan(served, "show", "wf_1", code=6)
    plan(served, "release", "wf_1", "build", "--reason", "once more")
    build(served)
    plan(served, "wait", "wf_1", code=6)
    assert states(served)["build"] == "checkpoint_ready"
    plan(served, "give-up", "wf_1", "ship", "--reason", "enough")
    plan(served, "wait", "wf_1", code=3)


def is_prompted(served: Served) -> bool:
    page = json.loads(served.api.ask_raw("GET", "/api/tasks/ses_wf_1/children"))
    sessions = [one["task_id"] for one in page["items"] if one["task_id"]]
    return any(served.task(one)["summary"]["task_status"] == "RUNNING" for one in sessions)


def test_a_stopped_workflow_leaves_nothing_running(served: Served) -> None:
    begin(served)
    until(lambda: is_prompted(served), "its agent has its prompt")
    plan(served, "stop", "wf_1", "--reason", "enough")
    plan(served, "show", "wf_1", code=4)
    page = json.loads(served.api.ask_raw("GET", "/api/tasks/ses_wf_1/children"))
    assert [one["status"] for one in page["items"]] == ["interrupted"]
    plan(served, "stop", "wf_1", "--reason", "again", code=2)


def test_a_plan_of_a_project_runs_only_once_it_is_trusted(served: Served) -> None:
    place = served.folder / "work" / "own.plan.toml"
    place.write_text(PLAN)
    plan(served, "run", str(place), "--cwd", str(served.folder / "work"), code=2)
    plan(served, "trust", str(place))
    plan(served, "run", str(place), "--cwd", str(served.folder / "work"), "--id", "wf_own")
    assert shown(served, "wf_own")["digest"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"folder": "relative"}, "no folder"),
        ({"folder": "/no/such/folder"}, "no folder"),
        ({"agents": {}}, "names the agent"),
        ({"plan": "plan = 2"}, "plan"),
        ({"params": {"nobody": "x"}}, "nobody"),
    ],
)
def test_a_workflow_that_cannot_run_is_refused_whole(served: Served, change: Body, problem: str) -> None:
    agent: Body = {"agent": "helper", "driver": "claude-stream", "argv": [str(served.folder / "agent")]}
    body: Body = {"plan": PLAN, "folder": str(served.folder), "agents": {"helper": agent}, **change}
    with pytest.raises(ServerRefusal, match=problem) as refused:
        served.api.ask("POST", "/api/workflows", body, key="wf_no")
    assert refused.value.status == 422
    assert served.api.ask("GET", "/api/workflows") == {"items": []}
    assert list((served.folder / "work").iterdir()) == []
