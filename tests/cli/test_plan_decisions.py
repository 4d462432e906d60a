"""Gates and held steps are questions like any other: on every surface, by every door, decided once and by a person."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from interlock.cli.server.api import ServerRefusal
from tests.bodies import Body
from tests.cli import test_plan_commands as plans
from tests.cli.serving import Served, until
from tests.cli.test_plan_commands import begin, build, plan, shown, states

served = plans.served

CHOICES: Final = """
plan = 1
name = "release"
[[step]]
id = "when"
gate = "When is it to go out?"
choices = ["now", "tonight", "stop"]
[[step]]
id = "look"
needs = ["when"]
agent = "helper"
prompt = "say well; gate built"
"""


def at_the_gate(served: Served) -> None:
    begin(served)
    build(served)
    plan(served, "wait", "wf_1", code=6)


def at_a_choice(served: Served) -> None:
    (served.folder / "config" / "plans" / "release.plan.toml").write_text(CHOICES)
    begin(served, plan_name="release")
    plan(served, "wait", "wf_1", code=6)


def badge(served: Served) -> Body:
    found: Body = served.task("ses_wf_1")["summary"]["badge"]
    return found


def refused(served: Served, *args: str, **env: str) -> str:
    done = served.cli(*args, **env)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    return done.stderr


def test_a_gate_is_a_question_on_every_surface_until_it_is_decided(served: Served) -> None:
    begin(served)
    assert badge(served)["attention"] == "none"
    build(served)
    done = served.cli("wait", "ses_wf_1", "--until", "blocked", "--timeout", "60")
    assert done.returncode == 0, done.stderr
    summary = served.task("ses_wf_1")["summary"]
    assert (summary["asks"], summary["approval_id"], summary["question"]) == (
        "decision",
        "wf_1:ship",
        shown(served)["steps"][1]["question"],
    )
    assert "made" in summary["question"]
    assert (badge(served)["attention"], badge(served)["needs_person"]) == ("decision", True)
    assert next((one["rule"], one["where"]) for one in badge(served)["evidence"]) == ("step.waits", "wf_1:ship")
    assert summary["task_status"] is None
    assert "decision" in served.cli("ps").stdout
    assert 'interlock_tasks_by_attention{attention="decision"} 1' in served.api.ask_raw("GET", "/metrics").decode()
    (asked,) = served.json("approvals")["approvals"]
    assert (asked["approval_id"], asked["attention"], asked["state"]) == ("wf_1:ship", "decision", "open")
    assert [one["label"] for one in asked["options"]] == ["go", "stop"]
    assert "interlock approve ses_wf_1" in served.cli("approvals").stdout
    served.kill()
    served.start()
    assert badge(served)["attention"] == "decision"
    assert served.cli("approve", "wf_1:ship").returncode == 0
    assert badge(served)["attention"] == "none"
    assert served.json("approvals")["approvals"] == []
    plan(served, "wait", "wf_1")
    assert shown(served)["steps"][1]["checkpoint"]["choice"] == "go"


def test_a_gate_is_denied_and_the_second_is_told_by_whom_and_when(served: Served) -> None:
    at_the_gate(served)
    assert served.cli("deny", "ses_wf_1", "--reason", "not today").returncode == 0
    assert states(served)["ship"] == "failed"
    told = refused(served, "approve", "wf_1:ship")
    assert "closed already (stop)" in told
    with pytest.raises(ServerRefusal, match=r"stop.* by operator@127.0.0.1 at 20\d\d-") as late:
        served.api.ask("POST", "/api/workflows/wf_1/steps/ship/answer", {"choice": "go"})
    assert (late.value.status, late.value.code) == (409, "already_decided")


def test_of_many_decisions_at_once_one_holds(served: Served) -> None:
    at_the_gate(served)

    def decide(choice: str) -> int:
        path = "/api/tasks/ses_wf_1/approvals/wf_1%3Aship/decision"
        try:
            served.api.ask("POST", path, {"is_allowed": choice == "go", "option": choice})
        except ServerRefusal as refusal:
            return refusal.status
        return 200

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(decide, ["go", "stop"] * 4))
    assert codes == [*[200] * 4, *[409] * 4]  # the same decision again has the same answer
    served.stop()
    shown_log = served.cli("log", "show", "ses_wf_1", "--json")
    events = [json.loads(line) for line in shown_log.stdout.splitlines()]
    decided = [one for one in events if one["data"].get("step_id") == "ship" and one["data"].get("decided_by")]
    assert len(decided) == 1


def test_more_choices_than_go_and_stop_are_answered_and_not_approved(served: Served) -> None:
    at_a_choice(served)
    for verb in ("approve", "deny"):
        told = refused(served, verb, "wf_1:when")
        assert all(choice in told for choice in ("now", "tonight", "stop")), told
    assert "tonight" in refused(served, "answer", "wf_1:when", "some day")
    assert states(served)["when"] == "held"
    assert served.cli("answer", "wf_1:when", "tonight").returncode == 0
    assert shown(served)["steps"][0]["checkpoint"]["choice"] == "tonight"


def test_a_held_step_is_released_and_given_up_as_a_question(served: Served) -> None:
    begin(served)
    until(lambda: plans.is_prompted(served), "its agent has its prompt")
    served.kill()
    served.start()
    until(lambda: states(served)["build"] == "needs_orchestrator", "it is held")
    until(lambda: badge(served)["attention"] == "decision", "its session says so")
    first = served.task("ses_wf_1")["summary"]["asked_at"]
    (asked,) = served.json("approvals")["approvals"]
    assert [one["label"] for one in asked["options"]] == ["release", "give-up"]
    assert "release" in refused(served, "approve", "wf_1:build")
    assert served.cli("answer", "wf_1:build", "release").returncode == 0
    until(lambda: plans.is_prompted(served), "its agent has its prompt again")
    assert badge(served)["attention"] == "none"
    served.kill()
    served.start()
    until(lambda: badge(served)["attention"] == "decision", "it is held again")
    assert served.task("ses_wf_1")["summary"]["asked_at"] > first
    assert served.cli("answer", "wf_1:build", "--option", "give-up").returncode == 0
    plan(served, "wait", "wf_1", code=1)
    assert badge(served)["attention"] == "none"


def test_a_stopped_workflow_asks_nothing(served: Served) -> None:
    at_the_gate(served)
    plan(served, "stop", "wf_1", "--reason", "enough")
    assert served.json("approvals")["approvals"] == []
    assert badge(served)["attention"] == "none"


def test_the_transcript_of_a_workflow_tells_what_was_asked_and_who_decided(served: Served) -> None:
    at_the_gate(served)
    asked = served.cli("logs", "ses_wf_1").stdout
    assert "asks for a decision: go, stop" in asked
    assert "checked" in asked
    assert served.cli("approve", "wf_1:ship").returncode == 0
    plan(served, "wait", "wf_1")
    told = served.cli("logs", "ses_wf_1").stdout
    assert "decided by operator@127.0.0.1" in told
    assert "answered: go" in told


def test_why_and_show_say_what_each_step_rests_on(served: Served) -> None:
    at_the_gate(served)
    why = served.cli("why", "ses_wf_1")
    assert why.returncode == 6, why.stderr
    lines = why.stdout.splitlines()
    assert lines[:2] == ["workflow wf_1 (build it) is held", "1 of 3 steps are ready"]
    assert "build: checkpoint ready, checked by the server" in lines
    assert any(line.startswith('  checks: {"argv": ["grep"') for line in lines)
    assert any(line.startswith('  outputs: {"name": "file"') for line in lines)
    assert "ship: waiting for you" in lines
    assert "  interlock answer wf_1:ship go" in lines
    assert lines[-2:] == ["deploy: pending", "  needs ship, which is held"]
    told = json.loads(served.cli("why", "ses_wf_1", "--json").stdout)
    assert (told["session_id"], told["status"]) == ("ses_wf_1", "held")
    shown_lines = served.cli("show", "ses_wf_1").stdout.splitlines()
    assert any("build: checkpoint ready, checked by the server" in line for line in shown_lines)
    assert any("ship: waiting for you" in line for line in shown_lines)
    (child,) = served.json("show", "ses_wf_1")["children"]
    assert (child["status"], "task_id" in child) == ("completed", False)
    assert any(f"{child['session_id']}: completed" in line for line in shown_lines)
    assert served.cli("approve", "wf_1:ship").returncode == 0
    plan(served, "wait", "wf_1")
    why = served.cli("why", "ses_wf_1")
    assert (why.returncode, why.stdout.splitlines()[0]) == (0, "workflow wf_1 (build it) is completed")
    assert "ship: checkpoint ready, decided by a person" in why.stdout
    assert "deploy: checkpoint ready, checked by its exit code" in why.stdout


def test_words_alone_are_not_proven_in_why(served: Served) -> None:
    begin(served)
    served.gates.open("built")
    plan(served, "wait", "wf_1", code=3)
    why = served.cli("why", "ses_wf_1")
    assert why.returncode == 3
    assert "build: partial, not proven" in why.stdout
    assert "  missing: " in why.stdout


def test_the_same_decision_again_has_the_same_answer_also_after_the_end(served: Served) -> None:
    """Its answer was lost on the way, and it is given again: it is neither refused by its own name nor done twice."""
    at_the_gate(served)
    path, go = "/api/workflows/wf_1/steps/ship/answer", {"choice": "go"}
    served.api.ask("POST", path, go)
    plan(served, "wait", "wf_1")
    served.kill()
    served.start()
    served.api.ask("POST", path, go)
    assert shown(served)["steps"][1]["checkpoint"]["choice"] == "go"
    with pytest.raises(ServerRefusal, match="decided already: go"):
        served.api.ask("POST", path, {"choice": "go", "reason": "another one"})


def test_a_decision_with_a_name_is_done_once_though_its_step_waits_again(served: Served) -> None:
    begin(served)
    path, why = "/api/workflows/wf_1/steps/build/release", {"reason": "again"}
    for _ in range(2):
        until(lambda: plans.is_prompted(served), "its agent has its prompt")
        served.kill()
        served.start()
        until(lambda: states(served)["build"] == "needs_orchestrator", "it waits")
        served.api.ask("POST", path, why, key="dec_1")
    assert states(served)["build"] == "needs_orchestrator"
    assert shown(served)["steps"][0]["attempt"] == 2
    served.api.ask("POST", path, why, key="dec_2")
    assert states(served)["build"] in ("pending", "running")


def test_the_name_of_a_decision_names_one_choice(served: Served) -> None:
    at_the_gate(served)
    path = "/api/workflows/wf_1/steps/ship/answer"
    served.api.ask("POST", path, {"choice": "go"}, key="dec_1")
    served.api.ask("POST", path, {"choice": "go"}, key="dec_1")
    with pytest.raises(ServerRefusal, match="decision dec_1 was go"):
        served.api.ask("POST", path, {"choice": "stop"}, key="dec_1")
