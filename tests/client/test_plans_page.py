"""The page about plans and children from Python: every program in it runs against a real server and prints what is
shown. What the page does not show is below it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from interlock import ChildrenOutcome, PlanResult, Refusal, UsageError, connect
from interlock.testing.scripted_agent import command as scripted
from tests.cli.serving import Served, serving
from tests.docs.running import run, samples, write_programs

PAGE = (Path(__file__).parents[2] / "docs/how-to/run-plans-from-python.md").read_text(encoding="utf-8")
CONFIG = f'[agents.claude]\ndriver = "claude-stream"\nargv = {json.dumps(scripted("stream-json"))}\n'
WORDS = """
plan = 1
name = "words"
[[step]]
id = "say"
agent = "claude"
prompt = "say done"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for the page's server, which is ended with the test, whatever happened to it."""
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "config.toml").write_text(CONFIG, encoding="utf-8")
    yield tmp_path
    announced = tmp_path / "home" / "server.json"
    if announced.exists():
        os.kill(msgspec.json.decode(announced.read_bytes())["pid"], signal.SIGKILL)


def test_every_command_prints_what_is_shown(folder: Path) -> None:
    programs = write_programs(PAGE, folder)
    shown = samples(PAGE)
    assert set(programs) == {command.removeprefix("python ") for command, _ in shown if command.endswith(".py")}
    begin = shown[0][0].partition(" && ")[0]
    for command, printed in shown:
        assert run(f"{begin} && {command}", folder) == printed, command


def test_the_table_of_results_names_every_result() -> None:
    table = PAGE.partition("| `outcome.result` |")[2].partition("\n\n")[0]
    assert [one.value for one in PlanResult if f"`{one.value}`" not in table] == []


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    config = tmp_path / "interlock.toml"
    config.write_text(CONFIG)
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    with serving(tmp_path) as one:
        yield one


def test_a_plan_file_needs_trust_and_words_alone_are_partial(served: Served) -> None:
    plans = served.folder / "project" / ".interlock" / "plans"
    plans.mkdir(parents=True)
    (plans / "words.plan.toml").write_text(WORDS)
    with connect(served.home) as il:
        with pytest.raises(UsageError, match="you have not trusted it yet"):
            il.plans.run("words", cwd=served.folder / "project")
        assert il.plans.list() == ()
        assert served.cli("plan", "trust", str(plans / "words.plan.toml")).returncode == 0
        workflow = il.plans.run("words", cwd=served.folder / "project", workflow_id="wf_words")
        outcome = workflow.wait(timeout=60)
        assert (outcome.result, outcome.step("say").reason) == (PlanResult.PARTIAL, "no_explicit_checkpoint")
        assert (outcome.questions, il.plans.get("wf_words").outcome()) == ((), outcome)
        with pytest.raises(UsageError, match="it has say"):
            outcome.step("sey")
        with pytest.raises(Refusal, match="there is no workflow"):
            il.plans.get("wf_other").outcome()


def test_a_workflow_is_stopped_with_a_reason_and_says_so(served: Served) -> None:
    with connect(served.home) as il:
        workflow = il.plans.run(WORDS.replace("say done", "hang"), cwd=served.folder)
        with pytest.raises(TimeoutError):
            workflow.wait(timeout=0.2)
        with pytest.raises(UsageError, match="needs a reason"):
            workflow.stop(" ")
        assert workflow.stop("not today").result is PlanResult.STOPPED
        assert workflow.wait(timeout=60).standing.reason == "not today"


def test_children_that_are_not_there_or_not_asked_for(served: Served) -> None:
    with connect(served.home) as il:
        task = il.run("claude", "say hello", cwd=served.folder).task
        nobody = task.children.wait("sub_nobody", timeout=60)
        assert nobody == ChildrenOutcome(status=nobody.status, children=(), unknown=("sub_nobody",))
        assert nobody.status.value == "nothing_to_wait_for"
        started = task.children.start("claude", "fail 500", cwd=served.folder, subagent_id="sub_bad")
        assert task.children.start("claude", "fail 500", cwd=served.folder, subagent_id="sub_bad") == started
        outcome = task.children.wait(timeout=60)
        assert (outcome.status.value, outcome.is_completed, outcome.summaries) == ("partial", False, {})
        assert [one.subagent_id for one in task.children.list()] == ["sub_bad"]
        with pytest.raises(UsageError, match="without a reason"):
            task.children.cancel("sub_bad", "")
