"""The tools about other agents, as a model uses them: on a real server, against a scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from interlock.agents.model.driver import read_options
from interlock.agents.model.tools.children import CHECKPOINT_TOOL, HARMLESS_RULES, child_tools
from interlock.projections.checks.diagnose import ReportStatus
from interlock.runtime.config.sections import Config
from interlock.server.commands.child_tool_calls import ChildToolCalls
from interlock.testing.scripted_agent import command, write_program
from interlock.testing.scripted_model import Gate, ScriptedCall, ScriptedModel, Text
from interlock.vocabulary.ids import SpawnId
from tests.cli.fleet import Fleet, agent_section
from tests.cli.serving import STREAM, serving, until

PAGE = (Path(__file__).parents[2] / "docs/how-to/let-an-agent-start-others.md").read_text(encoding="utf-8")
ALLOWED = '["allow read", "allow search", "allow spawn_agent", "allow send_to_agent", "allow run_plan"]'
PLAN = """
plan = 1
name = "touch it"
[[step]]
id = "touch"
run = ["touch", "made"]
[[step]]
id = "ask"
needs = ["touch"]
gate = "Go on?"
"""
CHECKED = """
plan = 1
name = "checked work"
[[step]]
id = "work"
agent = "worker"
prompt = "SCN:work"
checks = [["true"]]
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One server for all: what it imports to ask a model takes seconds, once."""
    with running_fleet(tmp_path_factory.mktemp("fleet") / "served") as one:
        yield one


@contextmanager
def running_fleet(folder: Path) -> Iterator[Fleet]:
    (folder / "config" / "plans").mkdir(parents=True)
    (folder / "work" / ".interlock" / "plans").mkdir(parents=True)
    config = folder / "config" / "interlock.toml"
    with ScriptedModel() as model:
        agent = write_program(folder / "agent", command(STREAM, gates=folder / "gates", lifetime_seconds=300))
        lead = {
            "children": '["helper", "worker"]',
            "plans": '["touch", "checked", "theirs"]',
            "permissions": ALLOWED,
        }
        config.write_text(
            f'[agents.helper]\nargv = ["{agent}"]\ndriver = "claude-stream"\n'
            + agent_section("lead", model.url, lead)
            + agent_section("plain", model.url, {})
            + agent_section("careful", model.url, {"children": '["worker"]'})
            + agent_section(
                "worker",
                model.url,
                {
                    "children": '["helper", "plain"]',
                    "plans": '["other"]',
                    "tools": '["read", "search", "shell", "submit_checkpoint"]',
                    "permissions": '["allow *"]',
                },
            )
            + "[tree]\nmax_depth = 2\nmax_running = 2\nmax_open = 3\n"
        )
        (config.parent / "plans" / "touch.plan.toml").write_text(PLAN)
        (config.parent / "plans" / "checked.plan.toml").write_text(CHECKED)
        (folder / "work" / ".interlock" / "plans" / "theirs.plan.toml").write_text(PLAN.replace("made", "made-by-them"))
        with serving(folder, INTERLOCK_CONFIG=str(config)) as served:
            yield Fleet(served, model, folder / "work", config)
        assert model.faults == ()


def offered(fleet: Fleet, script: str) -> dict[str, str]:
    """The tools, each with what is said of it, of the last request that plays a script."""
    told = [one.body for one in fleet.model.requests if one.script == script]
    return {str(tool["name"]): str(tool["description"]) for tool in json.loads(told[-1])["tools"]}


def test_a_model_starts_children_waits_for_them_and_is_told_only_what_is_proven(fleet: Fleet) -> None:
    spawns = [ScriptedCall("spawn_agent", {"agent": "helper", "task": f"say {word}"}) for word in ("one", "two")]
    session = fleet.lead(
        "spawn",
        *spawns,
        ScriptedCall("wait_agent", {}),
        Text("Both run."),
    )
    fleet.ended(session)
    first, second = fleet.results(session, "spawn_agent")
    assert first["ok"], first
    (begun,) = first["output"]["children"]
    assert begun["agent"] == "helper"
    until(lambda: all(one["status"] == "completed" for one in fleet.children(session)), "both are done")
    fleet.again(
        session,
        "wait",
        ScriptedCall("wait_agent", {"all": True}),
        Text("Now they are done."),
    )
    waits = [one["output"] for one in fleet.results(session, "wait_agent")]
    assert waits[0]["status"] == "nothing_to_wait_for"
    assert (waits[1]["status"], waits[1]["unknown"], waits[1]["slots_free"]) == ("completed", [], 2)
    assert {(one["status"], one["proof"], one["summary"]) for one in waits[1]["children"]} == {
        ("completed", "claimed", "one"),
        ("completed", "claimed", "two"),
    }
    assert waits[1]["budget_left"] is None
    assert second["ok"]
    whole = fleet.cli("ps", "--tree", "--all").stdout.splitlines()
    root = next(at for at, line in enumerate(whole) if line and session.startswith(line.split()[0]))
    assert [line[:3] for line in whole[root + 1 : root + 3]] == ["├─ ", "└─ "]
    report = json.loads(fleet.cli("debug", "diagnose", session, "--json").stdout)
    assert report["status"] == ReportStatus.READY.value, report
    assert "spawn_agent" in fleet.cli("logs", session).stdout


def test_the_page_is_true_of_the_code(fleet: Fleet) -> None:
    config = msgspec.toml.decode(PAGE.partition("```toml\n")[2].partition("```")[0], type=Config)
    lead = read_options(config.agents["lead"].options)
    assert (lead.children, lead.plans) == (("reviewer", "claude"), ("release",))
    assert read_options(config.agents["reviewer"].options).tools[-1] == CHECKPOINT_TOOL
    rows = [one for one in PAGE.splitlines() if one.startswith("| `")]
    named = [row.removeprefix("| `").partition("(")[0] for row in rows]
    nobody = ChildToolCalls(agents=lambda name, _: pytest.fail(name), home=fleet.served.home)
    made = child_tools(nobody, SpawnId("spn_1"), children=("a",), plans=("p",), has_checkpoint=True)
    assert named == [tool.name for tool in made]
    harmless = {name for name, row in zip(named, rows, strict=True) if "only if a rule says" in row}
    assert harmless == {rule.removeprefix("allow ") for rule in HARMLESS_RULES}
    shown = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
    session = fleet.lead("page", ScriptedCall("spawn_agent", {"agent": "helper", "task": "say x"}), Text("Ok."))
    fleet.ended(session)
    (told,) = fleet.results(session, "spawn_agent")
    assert list(told["output"]) == list(shown)
    assert list(told["output"]["children"][0]) == list(shown["children"][0])


def test_the_tools_are_off_by_default_and_a_child_gets_no_more_than_its_parent(fleet: Fleet) -> None:
    fleet.ended(fleet.lead("off", Text("Nothing."), agent="plain"))
    assert set(offered(fleet, "off")) == {"read", "write", "edit", "search", "shell"}
    fleet.model.set_script("below", (Text("Nothing."),))
    spawn = ScriptedCall("spawn_agent", {"agent": "worker", "task": "SCN:below"})
    session = fleet.lead("above", spawn, ScriptedCall("spawn_agent", {"agent": "plain", "task": "x"}), Text("Done."))
    fleet.ended(session)
    first, refused = fleet.results(session, "spawn_agent")
    assert first["ok"], first
    assert "you may not start the agent 'plain'; you may start: helper, worker" in refused["error"]["message"]
    until(lambda: [one["status"] for one in fleet.children(session)] == ["completed"], "the child is done")
    below = offered(fleet, "below")
    assert below["spawn_agent"].endswith("You may start: helper.")  # of `helper` and `plain`, what both may
    assert "run_plan" not in below
    assert "run_plan" in offered(fleet, "above")


def test_a_child_is_held_to_the_rules_of_those_above_it(fleet: Fleet) -> None:
    shell = ScriptedCall("shell", {"command": "touch escaped"})
    fleet.model.set_script("freely", (shell, Text("Done.")))
    session = fleet.lead("strict", ScriptedCall("spawn_agent", {"agent": "worker", "task": "SCN:freely"}), Text("Ok."))
    fleet.ended(session)
    assert fleet.results(session, "spawn_agent")[0]["ok"], fleet.results(session, "spawn_agent")
    (child,) = fleet.children(session)
    fleet.served.shows(child["task_id"], attention="approval")  # its own rules allow everything, its parent's do not
    again = "waiting"
    fleet.again(session, again, ScriptedCall("wait_agent", {"all": True, "timeout_seconds": 0}), Text("It waits."))
    (waited,) = fleet.results(session, "wait_agent")
    assert (waited["output"]["status"], waited["output"]["next_actions"][0]) == ("incomplete", {"kind": "wait_again"})
    assert waited["output"]["children"][0]["reason"] == "waits for a person: approval"
    stop = ScriptedCall("stop_agent", {"id": child["subagent_id"], "reason": "not needed"})
    fleet.again(session, "ending", stop, Text("Ended."))
    (stopped,) = fleet.results(session, "stop_agent")
    assert (stopped["output"]["status"], stopped["output"]["children"][0]["reason"]) == ("partial", "not needed")
    assert not (fleet.work / "escaped").exists()


def test_a_call_that_no_rule_allows_waits_for_a_person(fleet: Fleet) -> None:
    spawn = ScriptedCall("spawn_agent", {"agent": "worker", "task": "SCN:below"})
    session = fleet.lead("careful", spawn, Text("It was refused."), agent="careful")
    fleet.served.shows(session, attention="approval")
    assert fleet.cli("deny", session).returncode == 0
    fleet.ended(session)
    (refused,) = fleet.results(session, "spawn_agent")
    assert refused["error"]["kind"] == "approval_denied"
    assert fleet.children(session) == []


def test_a_model_reaches_its_own_children_alone(fleet: Fleet) -> None:
    mine = fleet.lead("mine", ScriptedCall("spawn_agent", {"agent": "helper", "task": "hang"}), Text("Ok."))
    fleet.ended(mine)
    (child,) = fleet.children(mine)
    named = {"id": child["subagent_id"]}
    other = fleet.lead(
        "other",
        ScriptedCall("wait_agent", {"ids": [child["subagent_id"]], "timeout_seconds": 5}),
        ScriptedCall("stop_agent", {**named, "reason": "mine now"}),
        ScriptedCall("send_to_agent", {**named, "text": "work for me"}),
        ScriptedCall("list_agents"),
        Text("None of them."),
    )
    fleet.ended(other)
    (waited,) = fleet.results(other, "wait_agent")
    assert (waited["output"]["status"], waited["output"]["unknown"]) == ("nothing_to_wait_for", [child["subagent_id"]])
    (listed,) = fleet.results(other, "list_agents")
    assert (listed["output"]["children"], listed["output"]["workflows"]) == ([], [])
    for tool in ("stop_agent", "send_to_agent"):
        (refused,) = fleet.results(other, tool)
        assert "you have no agent" in refused["error"]["message"]
    assert fleet.children(mine)[0]["status"] == "running"
    fleet.again(mine, "end", ScriptedCall("stop_agent", {**named, "reason": "done with it"}), Text("Ended."))
    fleet.again(mine, "more", ScriptedCall("send_to_agent", {**named, "text": "say once more"}), Text("Sent."))
    until(lambda: fleet.children(mine)[0]["status"] == "completed", "it did what it was told next")
    assert fleet.children(mine)[0]["attempt"] == 2


def test_the_limits_of_the_tree_refuse_with_what_is_used_and_how_to_free_it(fleet: Fleet) -> None:
    spawn = ScriptedCall("spawn_agent", {"agent": "helper", "task": "hang"})
    session = fleet.lead("many", *[spawn] * 3, Text("Three."))
    fleet.ended(session)
    fleet.again(session, "one-more", spawn, Text("No more."))
    *begun, refused = fleet.results(session, "spawn_agent")
    assert [one["ok"] for one in begun] == [True] * 3
    said = refused["error"]["message"]
    assert "limit max_open: 3 of 3 children" in said
    assert "wait until one ends, or cancel one" in said
    assert len(fleet.children(session)) == 3
    for at, child in enumerate(fleet.children(session)):
        stop = ScriptedCall("stop_agent", {"id": child["subagent_id"], "reason": "enough"})
        fleet.again(session, f"free-{at}", stop, Text("Ended."))


def test_a_plan_runs_only_by_a_name_that_the_agent_has_and_a_person_trusts(fleet: Fleet) -> None:
    session = fleet.lead(
        "plans",
        ScriptedCall("run_plan", {"plan": "theirs"}),
        ScriptedCall("run_plan", {"plan": "another"}),
        ScriptedCall("run_plan", {"plan": "./.interlock/plans/theirs.plan.toml"}),
        Text("None of them."),
    )
    fleet.ended(session)
    untrusted, unnamed, by_path = [one["error"]["message"] for one in fleet.results(session, "run_plan")]
    assert "you have not trusted it yet" in untrusted
    assert "you may not run the plan 'another'; you may run: touch, checked, theirs" in unnamed
    assert "you may not run the plan './" in by_path
    assert not (fleet.work / "made-by-them").exists()


def test_a_plan_of_a_model_is_held_for_a_person_and_never_said_to_be_done_before(fleet: Fleet) -> None:
    session = fleet.lead("plan", ScriptedCall("run_plan", {"plan": "touch"}), Text("It is held."))
    fleet.ended(session)
    (told,) = fleet.results(session, "run_plan")
    assert told.get("error") is None, told
    assert (told["output"]["status"], told["output"]["ok"]) == ("held", False)
    assert [(one["id"], one["status"], one["proof"]) for one in told["output"]["children"]] == [
        ("touch", "checkpoint_ready", "exit_code"),
        ("ask", "held", ""),
    ]
    workflow = told["output"]["workflow_id"]
    summary = fleet.served.task(f"ses_{workflow}")["summary"]
    assert (summary["parent_id"], summary["root_id"], summary["depth"]) == (session, session, 1)
    above = fleet.served.task(session)["summary"]
    assert (above["task_status"], above["waits_below"], above["badge"]["attention"]) == ("COMPLETED", 1, "none")
    assert above["workflow"] == {"id": workflow, "status": "held", "ready": 1, "total": 2, "held": 1}
    listed = {one["session_id"]: one for one in fleet.served.json("ps", "--all")["sessions"]}
    assert (listed[session]["waits_below"], listed[session]["workflow"]) == (1, above["workflow"])
    line = next(one for one in fleet.cli("ps", "--tree").stdout.splitlines() if "done \u00b7 plan held" in one)
    assert "1 below waits for you" in line
    assert "run_plan" in fleet.cli("logs", session).stdout
    other = fleet.lead("strange", ScriptedCall("run_plan", {"plan": "touch", "workflow_id": workflow}), Text("No."))
    fleet.ended(other)
    assert "you run no plan" in fleet.results(other, "run_plan")[0]["error"]["message"]
    assert fleet.cli("plan", "answer", workflow, "ask", "go").returncode == 0
    on = ScriptedCall("run_plan", {"plan": "touch", "workflow_id": workflow})
    fleet.again(session, "on", on, ScriptedCall("list_agents"), Text("Done."))
    assert fleet.results(session, "run_plan")[1]["output"]["status"] == "completed"
    above = fleet.served.task(session)["summary"]
    assert (above["waits_below"], above["workflow"]["status"], above["workflow"]["ready"]) == (0, "completed", 2)
    (listed,) = fleet.results(session, "list_agents")
    assert [(one["id"], one["status"]) for one in listed["output"]["workflows"]] == [(workflow, "completed")]
    assert json.loads(fleet.cli("debug", "diagnose", session, "--json").stdout)["ok"] is True


def test_a_checkpoint_counts_for_its_own_attempt_alone(fleet: Fleet) -> None:
    """A step that says `partial` is not ready though its checks hold; one that says so of another attempt is."""
    states: dict[str, str] = {}
    search = ScriptedCall("search", {"text": "nothing"})
    for name, own in (("own", True), ("other", False)):
        fleet.model.set_script("work", (Gate(f"at-{name}"), search, Text("Done.")))
        done = fleet.cli("plan", "run", "checked", "--cwd", str(fleet.work), "--id", f"wf_{name}")
        assert done.returncode == 0, done.stderr
        fleet.model.wait_reached(f"at-{name}")
        child = fleet.children(f"ses_wf_{name}")[0]
        bound = f"{child['subagent_id']}.1" if own else f"{child['subagent_id']}.2"
        claim = {"checkpoint_id": bound, "status": "partial", "summary": "half of it"}
        search = ScriptedCall("search", {"text": "nothing"})
        fleet.model.set_script(
            "work",
            (Gate(f"at-{name}"), search, Text(""), ScriptedCall("submit_checkpoint", claim), Text("That was it.")),
        )
        fleet.model.release(f"at-{name}")
        until(lambda: fleet.cli("plan", "show", f"wf_{name}").returncode != 7, "the plan has an end")  # noqa: B023
        (step,) = json.loads(fleet.cli("plan", "show", f"wf_{name}", "--json").stdout)["steps"]
        states[name] = step["state"]
        (told,) = fleet.results(child["task_id"], "submit_checkpoint")
        assert told["ok"] is own, told
    assert states == {"own": "partial", "other": "checkpoint_ready"}


@pytest.mark.deep
def test_a_server_that_is_killed_during_a_wait_loses_nothing(tmp_path: Path) -> None:
    with running_fleet(tmp_path / "served") as fleet:
        spawn = ScriptedCall("spawn_agent", {"agent": "helper", "task": "gate later; say late"})
        wait = ScriptedCall("wait_agent", {"all": True})
        session = fleet.lead("crash", spawn, Text("So."), wait, Text("Done."))
        until(lambda: any(one["data"].get("name") == "wait_agent" for one in fleet.log(session)), "it waits")
        fleet.served.kill()
        fleet.served.gates.open("later")
        fleet.served.start(INTERLOCK_CONFIG=str(fleet.config))
        fleet.served.shows(session, status="FAILED")
        until(lambda: fleet.children(session)[0]["status"] not in ("queued", "running"), "the child has an end")
        fleet.again(session, "after", wait, Text("It is known."))
        *_, told = fleet.results(session, "wait_agent")
        (child,) = told["output"]["children"]
        assert child["status"] == fleet.children(session)[0]["status"]
        assert told["output"]["status"] == ("completed" if child["status"] == "completed" else "partial")
        ends = [one for one in fleet.log(session) if one["type"] == "subagent_event"]
        assert [one["data"]["status"] for one in ends].count(child["status"]) == 1
        assert len(fleet.children(session)) == 1
