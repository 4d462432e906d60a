"""`interlock interrupt`, `stop`, `start`, `delete` and `queue`: what was done is told, and what was not."""

from __future__ import annotations

import json
import os
import pty
import subprocess

import pytest

from tests.any_route import any_route
from tests.cli.harness import COMMAND
from tests.cli.homes import run_many
from tests.cli.serving import WAIT_SECONDS, Served, until


@pytest.fixture
def served(acting_server: Served) -> Served:
    return acting_server


def spawn_stands(served: Served, task_id: str) -> str:
    return str(served.api.get(any_route(f"/api/tasks/{task_id}/spawns"))["items"][-1]["standing"])


# Turns


def test_an_interrupt_is_delivered_and_its_effect_is_told(served: Served) -> None:
    task_id = served.open("say a; hang")
    turn_id = served.shows(task_id, status="RUNNING")["turn_id"]
    wrong = served.cli("interrupt", task_id, "--turn", "trn_other")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    done = served.cli("interrupt", task_id, "--wait", "--timeout", "20")
    assert (done.returncode, done.stdout) == (0, f"{turn_id}  interrupted\n")
    assert f"delivered: interrupt of {turn_id}" in done.stderr
    # Once more: the turn had been ended by just that, and nothing is open now.
    again = served.json("interrupt", task_id, "--turn", turn_id)
    assert (again["delivered"], again["turn_id"]) == (True, turn_id)
    assert served.cli("interrupt", task_id).returncode == 2


def test_an_interrupt_that_has_no_effect_is_not_called_one(served: Served) -> None:
    task_id = served.open("say a; gate deaf; deaf")
    served.gates.await_reached("deaf")
    served.gates.open("deaf")
    done = served.cli("interrupt", task_id, "--wait", "--timeout", "0.5", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["delivered"], told["state"]) == (5, True, None)


def test_an_interrupt_kills_only_if_it_is_forced_and_says_so(served: Served) -> None:
    task_id = served.open("say a; gate unforced; deaf")
    served.gates.await_reached("unforced")
    served.gates.open("unforced")
    asked = served.cli("interrupt", task_id, "--wait")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "the turn was not interrupted: the agent was asked, and did not end it. Nothing was killed." in asked.stderr
    assert f"`interlock interrupt {task_id} --force`" in asked.stderr
    assert (spawn_stands(served, task_id), served.task(task_id)["summary"]["task_status"]) == ("running", "RUNNING")
    forced = served.cli("interrupt", task_id, "--force", "--wait")
    assert (forced.returncode, forced.stdout.split()[1:]) == (0, ["interrupted"])
    assert "killed: the interrupt of" in forced.stderr
    assert spawn_stands(served, task_id) == "exited"
    why = served.cli("why", task_id)
    assert "the agent's process was killed, because the interrupt did not end the turn" in why.stdout


def test_where_no_turn_is_open_what_waits_is_taken_back(served: Served) -> None:
    task_id = served.open()
    served.cli("queue", "hold", task_id)
    served.send(task_id, "say never")
    done = served.json("interrupt", task_id)
    assert len(done["removed"]) == 1
    assert served.task(task_id)["queue"].get("waiting", []) == []


# Agents and sessions


def test_an_agent_is_stopped_and_started(served: Served) -> None:
    task_id = served.done("say hello")
    stopped = served.cli("stop", task_id)
    assert (stopped.returncode, stopped.stdout) == (0, f"{task_id}  no agent runs\n")
    assert spawn_stands(served, task_id) == "exited"
    started = served.json("start", task_id)
    assert (started["is_running"], started["spawn"]["standing"]) == (True, "running")
    assert spawn_stands(served, task_id) == "running"


def test_what_waits_is_held_back_when_the_agent_is_stopped(served: Served) -> None:
    task_id = served.open("gate held; say first")
    served.gates.await_reached("held")
    served.send(task_id, "say earlier")
    assert served.cli("stop", task_id).returncode == 0
    held = served.cli("send", task_id, "--wait", "--timeout", "20", "say later", "--prompt-id", "prm_later")
    assert (held.returncode, held.stdout) == (6, "")
    assert f"interlock queue resume {task_id}" in held.stderr
    assert "the agent was stopped" in held.stderr
    assert served.cli("queue", "go", task_id).returncode == 0
    assert served.cli("send", task_id, "--wait", "--prompt-id", "prm_later").stdout == "later\n"


def test_an_agent_that_does_not_start_is_not_said_to_run(served: Served) -> None:
    body = {"agent": "none", "driver": "claude-stream", "argv": ["/nonexistent/agent"], "cwd": str(served.folder)}
    task_id = str(served.api.ask("POST", "/api/tasks", body)["task_id"])
    started, sent = run_many((f"start {task_id}", f"send {task_id} --wait --timeout 20 hello"), served.home)
    for done in (started, sent):
        assert (done.code, done.out) == (1, ""), done
        assert "there is no '/nonexistent/agent'" in done.err


def test_a_session_is_put_away_for_good(served: Served) -> None:
    task_id = served.done("say hello", title="farewell")
    lines = (f"delete {task_id}", "delete farewell --yes")
    for done in run_many(lines, served.home):
        assert (done.code, done.out) == (2, ""), done
    assert served.task(task_id)["summary"]["task_status"] == "COMPLETED"
    assert served.cli("delete", task_id, "--yes").stdout == f"{task_id}  archived\n"
    assert served.task(task_id)["summary"]["task_status"] == "DELETE"
    after = (f"send {task_id} x", f"stop {task_id}", f"start {task_id}", f"interrupt {task_id}", f"queue go {task_id}")
    for done in run_many(after, served.home):
        assert (done.code, done.out) == (2, ""), done
        assert "deleted" in done.err
        assert "/api/" not in done.err
    assert served.cli("delete", task_id, "--yes").returncode == 0  # twice is once


@pytest.mark.parametrize(("typed", "status"), [("no\n", "COMPLETED"), ("yes\n", "DELETE")])
def test_a_person_is_asked_before_a_session_is_put_away(served: Served, typed: str, status: str) -> None:
    task_id = served.done("say hello", title="asked for")
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            (*COMMAND, "delete", task_id, "--home", str(served.home)),
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        os.write(ours, typed.encode())
        _, said = process.communicate(timeout=WAIT_SECONDS)
    finally:
        os.close(ours)
        os.close(theirs)
    assert process.returncode == (0 if status == "DELETE" else 4)
    assert f"archive {task_id} asked for?".encode() in said
    assert served.task(task_id)["summary"]["task_status"] == status


# The queue


def test_prompts_that_wait_are_seen_changed_and_taken_back(served: Served) -> None:
    task_id = served.open("gate queue; say first")
    served.gates.await_reached("queue")
    for text in ("say second", "say third", "say fourth"):
        served.send(task_id, text)
    waiting = [one["prompt_id"] for one in served.task(task_id)["queue"]["waiting"]]
    listed = served.cli("queue", "ls", task_id)
    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [
        [str(place), prompt_id] for place, prompt_id in enumerate(waiting, start=1)
    ]
    changed = served.cli("queue", "edit", task_id, "1", "say changed")
    assert (changed.returncode, changed.stdout) == (0, f"{waiting[0]}  changed\n")
    lines = (f"queue rm {task_id} 3", f"queue rm {task_id} {waiting[1]} --json", f"queue rm {task_id} {waiting[1]}")
    third, second, again = run_many(lines, served.home)
    assert (third.code, third.out) == (0, f"{waiting[2]}  taken back\n")
    assert json.loads(second.out)["state"] == "removed"
    assert (again.code, again.out) == (2, "")
    assert "no prompt" in again.err
    held = served.cli("queue", "hold", task_id, "--reason", "the build is red")
    assert (held.returncode, held.stdout) == (0, f"{task_id}  held back, 1 waiting\n")
    served.gates.open("queue")
    until(lambda: served.task(task_id)["summary"]["task_status"] in ("COMPLETED", "PENDING"), "the turn is over")
    shown = served.cli("queue", "ls", task_id)
    assert "the build is red" in shown.stderr
    assert served.json("queue", "go", task_id)["is_open"] is True
    until(
        lambda: served.api.get(any_route(f"/api/tasks/{task_id}/messages"))["items"][-1]["text"] == "changed",
        "it was sent",
    )


def test_lines_about_a_queue_that_cannot_be_carried_out(served: Served) -> None:
    task_id = served.open()
    lines = (
        f"queue edit {task_id} 1 x",
        f"queue rm {task_id} 0",
        "queue ls ses_unknown",
        f"queue edit {task_id} 1 --text",
    )
    for done in run_many(lines, served.home):
        assert (done.code, done.out) == (2, ""), done
    (empty,) = run_many([f"queue ls {task_id}"], served.home)
    assert (empty.code, empty.out, empty.err) == (0, "", "nothing waits\n")
