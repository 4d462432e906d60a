"""Hostile plans, parameters and requests about workflows, on a real server: refused whole, and the server goes on."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.server.api import ServerRefusal
from tests.any_route import any_route
from tests.bodies import Body
from tests.cli.serving import Served, serving, until

SECRET = "sk-ant-REDACTED"
RUN = """
plan = 1
[[step]]
id = "a"
run = {argv}
"""
ASK_AGAIN = """
from pathlib import Path
from interlock.cli.server.api import ServerApi, ServerRefusal
api = ServerApi.of_home(Path({home!r}))
for path in ("/api/workflows", "/api/workflows/wf_1/stop", "/api/workflows/wf_1/steps/a/answer"):
    try:
        api.ask("POST", path, {body!r} if path.endswith("workflows") else dict(reason="x"), key="wf_inside")
    except ServerRefusal as refused:
        print(refused.status, refused.code)
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served", ANTHROPIC_API_KEY=SECRET) as one:
        yield one


def body(served: Served, plan: str, **change: object) -> Body:
    agent: Body = {"agent": "helper", "driver": "claude-stream", "argv": ["true"], "cwd": str(served.folder)}
    return {"plan": plan, "folder": str(served.folder), "agents": {"helper": agent}, **change}


def running(argv: list[str]) -> str:
    return RUN.format(argv=json.dumps(argv))


def ended(served: Served, name: str) -> Body:
    def look() -> Body | None:
        found: Body = json.loads(served.api.ask_raw("GET", f"/api/workflows/{name}"))
        return found if found["status"] != "running" else None

    return until(look, f"{name} ends")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is at the other end")
def test_a_command_of_a_step_cannot_begin_or_decide_a_workflow(served: Served) -> None:
    code = ASK_AGAIN.format(home=str(served.home), body=body(served, running(["true"])))
    served.api.ask("POST", "/api/workflows", body(served, running([sys.executable, "-c", code])), key="wf_1")
    said = ended(served, "wf_1")["steps"][0]["summary"].splitlines()
    assert said[:2] == ["403 asked_by_agent"] * 2, said
    assert len(json.loads(served.api.ask_raw("GET", "/api/workflows"))["items"]) == 1


def test_who_began_and_who_decided_is_in_the_log(served: Served) -> None:
    plan = 'plan = 1\n[[step]]\nid = "a"\ngate = "go?"\n'
    served.api.ask("POST", "/api/workflows", body(served, plan), key="wf_1")
    ended(served, "wf_1")
    served.api.ask("POST", "/api/workflows/wf_1/stop", {"reason": "enough"})
    lines = map(json.loads, served.api.ask_raw("GET", "/api/tasks/ses_wf_1/log").splitlines())
    facts = [one["data"] for one in lines if one["type"] == "workflow_event"]
    assert facts[0]["decided_by"].startswith("operator@")
    assert facts[-1]["kind"] == "workflow_finished"
    assert facts[-1]["decided_by"].startswith("operator@")


def test_a_secret_of_the_server_that_a_command_prints_is_not_kept(served: Served) -> None:
    (served.folder / "leak").write_text(SECRET)
    served.api.ask("POST", "/api/workflows", body(served, running(["cat", "leak"])), key="wf_1")
    assert ended(served, "wf_1")["status"] == "completed"
    for path in ("/api/workflows/wf_1", "/api/tasks/ses_wf_1/log"):
        assert SECRET.encode() not in served.api.ask_raw("GET", path)


HOSTILE: tuple[Body, ...] = (
    {"plan": running(["true", "a\0b"])},
    {"plan": 'plan = 1\nname = "\\u0000"\n[[step]]\nid = "a"\nrun = ["true"]\n'},
    {"plan": "plan = 1\n" + "[" * 5_000},
    {"plan": "plan = 1\nstep = " + "[" * 3_000 + "]" * 3_000},
    {"plan": "plan = 1\n[[step]]\nid = 'a'\nrun = ['true']\ntimeout = '99999999999999999h'\n"},
    {"plan": "plan = 99999999999999999999999999\n"},
    {"params": {"x": "\0"}},
    {"params": {"x": [[[[[[]]]]]] * 10}},
    {"params": {"x": 10**30}},
    {"folder": "/\0"},
    {"folder": "/" + "a/" * 2_000},
)
TAKES_X = """
plan = 1
params.x = { type = "text" }
[[step]]
id = "a"
run = ["echo", "{{ params.x }}"]
"""


def test_hostile_plans_and_parameters_are_refused_and_nothing_of_them_is_kept(served: Served) -> None:
    chance = random.Random(18)
    pieces = TAKES_X.split()
    fuzz: list[Body] = [
        {"plan": " ".join(chance.choices([*pieces, "{{", "}}", "\\u0000", "'", '"', "[[", "="], k=30))}
        for _ in range(80)
    ]
    for number, change in enumerate((*HOSTILE, *fuzz)):
        given = {**body(served, TAKES_X if "params" in change else running(["true"])), **change}
        with pytest.raises(ServerRefusal) as refused:
            served.api.ask("POST", "/api/workflows", given, key=f"wf_{number}")
        assert 400 <= refused.value.status < 500, (number, refused.value.status, str(refused.value))
    assert served.api.ask("GET", "/api/workflows") == {"items": []}
    assert list(served.api.items(any_route("/api/tasks"))) == []


@pytest.mark.parametrize("text", ["\0", "x" * 3_000])
def test_hostile_words_of_a_decision_change_nothing_and_the_workflow_can_still_be_decided(
    served: Served, text: str
) -> None:
    plan = 'plan = 1\n[[step]]\nid = "a"\ngate = "go?"\n'
    served.api.ask("POST", "/api/workflows", body(served, plan), key="wf_1")
    for path, asked in (
        ("steps/a/answer", {"choice": "go", "reason": text}),
        ("steps/a/give-up", {"reason": text}),
        ("stop", {"reason": text}),
    ):
        with pytest.raises(ServerRefusal) as refused:
            served.api.ask("POST", f"/api/workflows/wf_1/{path}", asked)
        assert 400 <= refused.value.status < 500, (path, str(refused.value))
    served.api.ask("POST", "/api/workflows/wf_1/steps/a/answer", {"choice": "go"})
    assert ended(served, "wf_1")["status"] == "completed"


def test_a_child_with_a_hostile_task_is_refused_and_its_parent_goes_on(served: Served) -> None:
    parent = served.open("say hello")
    task = {"agent": "helper", "driver": "claude-stream", "argv": ["true"], "cwd": str(served.folder), "prompt": "a\0b"}
    with pytest.raises(ServerRefusal) as refused:
        served.api.ask("POST", f"/api/tasks/{parent}/children", {"task": task})
    assert 400 <= refused.value.status < 500, str(refused.value)
    served.send(parent, "say more")
    served.shows(parent, status="COMPLETED")
    assert json.loads(served.api.ask_raw("GET", f"/api/tasks/{parent}/children"))["items"] == []
