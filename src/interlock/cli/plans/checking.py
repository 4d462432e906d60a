"""`interlock plan check`: every problem of a plan, or what it would do. Nothing starts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interlock.agents.drivers import TELLS_COST, TELLS_NOTHING
from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.home import HomeOption, JsonFlag
from interlock.cli.plans.finding import ParamOption, PlanArgument, is_trusted, params_of
from interlock.cli.rules.files import FolderOption
from interlock.lifecycle.children.step_trees import with_trees
from interlock.lifecycle.children.workflow_plan import (
    GIVE_UP,
    OWN,
    InvalidWorkflow,
    PlanProblem,
    StepSpec,
    WorkflowSpec,
    waves,
)
from interlock.lifecycle.plans.plan_file import read_plan
from interlock.runtime.children.step_places import head_of, resolve_bases
from interlock.runtime.config.agent_choice import choose_agent
from interlock.runtime.config.loading import agent_section, load
from interlock.runtime.config.plan_files import FoundPlan, find_plan
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import WorkflowId

_NOT_RUN: Final = WorkflowId("wf_check")


def check(
    plan: PlanArgument,
    /,
    *,
    param: ParamOption = None,
    cwd: FolderOption = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Check a plan, and list every problem; else print what it would do. Nothing starts.

    Exit code 2 if there are problems.
    """
    found = find_plan(plan, os.environ, Path(cwd or Path.cwd()))
    workflow, problems = _read(found, params_of(param), Path(cwd or Path.cwd()).absolute())
    if json:
        output.print_json(_json(found, workflow, problems, trusted=is_trusted(home, found)))
    elif workflow is None or problems:
        lines = (output.escape(f"{found.path}: {one.message}; {one.remedy}") for one in problems)
        output.print_text("\n".join(lines))
    else:
        _print(workflow)
        for one in _unheld(workflow):
            output.note(one)
        if not is_trusted(home, found):
            output.note(f"not trusted as it stands now: `interlock plan trust {shlex.quote(str(found.path))}`")
    return ExitCode.USAGE if problems else ExitCode.COMPLETED


def _read(
    found: FoundPlan, params: dict[str, str], folder: Path
) -> tuple[WorkflowSpec | None, tuple[PlanProblem, ...]]:
    try:
        workflow = read_plan(found.text, params, _NOT_RUN)
        head = head_of(str(folder))
        workflow = with_trees(workflow, has_repository=bool(head))
        names = tuple(base for step in workflow.steps for base in step.base)
        if names:
            resolve_bases(str(folder), names)
    except InvalidWorkflow as wrong:
        return None, wrong.problems
    except UsageError as wrong:
        return None, (PlanProblem(str(wrong), wrong.remedy),)
    return workflow, tuple(_unknown_agents(workflow))


def _unknown_agents(workflow: WorkflowSpec) -> Iterator[PlanProblem]:
    config = load(os.environ).config
    for name in dict.fromkeys(step.agent for step in workflow.steps if step.agent):
        try:
            agent_section(config, name)
        except UsageError as unknown:
            steps = ", ".join(step.id for step in workflow.steps if step.agent == name)
            yield PlanProblem(f"the agent {name!r} of {steps} is not configured", unknown.remedy)


def _unheld(workflow: WorkflowSpec) -> Iterator[str]:
    """The agents that a budget cannot be held to."""
    config, here = load(os.environ).config, Path.cwd()
    for name in dict.fromkeys(step.agent for step in workflow.steps if step.agent):
        driver = choose_agent(config, name, os.environ, cwd=str(here)).driver
        figures = ["max_cost_usd"] if workflow.max_cost_usd is not None and driver not in TELLS_COST else []
        figures += ["max_tokens"] if workflow.max_tokens is not None and driver in TELLS_NOTHING else []
        for figure in figures:
            yield f"{figure} cannot be held for agent {name!r}: it does not report what it uses ({driver})"


def _print(workflow: WorkflowSpec) -> None:
    rows = [
        (
            str(number),
            step.id,
            _work_of(step),
            ", ".join(step.depends_on),
            ", ".join(step.write_set),
            _tree_of(step),
            _proof_of(step),
        )
        for number, wave in enumerate(waves(workflow), 1)
        for step in workflow.steps
        if step.id in wave
    ]
    output.print_table(
        ("WAVE", "STEP", "RUNS", "NEEDS", "WRITES", "TREE", "READY WHEN"),
        [tuple(map(output.escape, row)) for row in rows],
    )
    limits = f"at most {workflow.max_concurrency} at a time, {workflow.timeout_ms // 60_000} min in all"
    limits += "" if workflow.max_cost_usd is None else f", {workflow.max_cost_usd:.2f} USD and a turn each"
    limits += "" if workflow.max_tokens is None else f", {workflow.max_tokens} tokens and a turn each"
    output.print_text(f"{workflow.name or 'this plan'}: {len(rows)} {'step' if len(rows) == 1 else 'steps'}, {limits}")


def _tree_of(step: StepSpec) -> str:
    """In which work tree a step works, and with what that begins."""
    if step.gate or not step.tree:
        return ""
    return f"own, from {', '.join(step.base)}" if step.worktree == OWN else f"of {step.worktree}"


def _work_of(step: StepSpec) -> str:
    """What does a step: an agent, a command or a person."""
    if step.gate:
        return f"you: {' / '.join(step.choices)}"
    if step.each:
        return f"for each of {step.each}, at most {step.each_max}"
    return shlex.join(step.run) if step.run else step.agent


def _proof_of(step: StepSpec) -> str:
    """What makes a step ready."""
    if step.gate:
        then = "given up" if step.on_timeout == GIVE_UP else "it waits on"
        return "answered" if step.timeout_ms is None else f"answered in {step.timeout_ms // 60_000} min, else {then}"
    if step.each:
        return "all of them are"
    proofs = ["exit code 0"] if step.run else []
    proofs += [shlex.join(argv) for argv in step.checks]
    proofs += [f"{one.path or one.name} ({one.type})" for one in step.outputs]
    told = ", ".join(proofs) or "nothing is checked: at most partial"
    again = [f"{step.rounds} rounds"] if step.rounds > 1 else []
    again += [f"{_retries(step.retries)} on {' or '.join(step.retry_on)}"] if step.retries else []
    return f"{told}; at most {', '.join(again)}" if again else told


def _retries(count: int) -> str:
    return "1 retry" if count == 1 else f"{count} retries"


def _json(found: FoundPlan, workflow: WorkflowSpec | None, problems: tuple[PlanProblem, ...], *, trusted: bool) -> Json:
    told: dict[str, Json] = {
        "ok": not problems,
        "path": str(found.path),
        "digest": found.digest,
        "is_trusted": trusted,
        "problems": [{"message": one.message, "remedy": one.remedy} for one in problems],
    }
    if workflow is None:
        return {**told, "name": None, "limits": None, "notes": [], "waves": [], "steps": []}
    return {
        **told,
        "name": workflow.name,
        "limits": {
            "timeout_ms": workflow.timeout_ms,
            "max_running": workflow.max_concurrency,
            "max_cost_usd": workflow.max_cost_usd,
            "max_tokens": workflow.max_tokens,
        },
        "notes": list(_unheld(workflow)) if not problems else [],
        "waves": [list(wave) for wave in waves(workflow)],
        "steps": [_step_json(step) for step in workflow.steps],
    }


def _step_json(step: StepSpec) -> Json:
    return {
        "id": step.id,
        "kind": "gate" if step.gate else "run" if step.run else "each" if step.each else "prompt",
        "for_each": {"of": step.each, "max": step.each_max} if step.each else None,
        "agent": step.agent or None,
        "run": list(step.run),
        "needs": list(step.depends_on),
        "required": step.required,
        "timeout_ms": step.timeout_ms,
        "write": list(step.write_set),
        "read": list(step.read_set),
        "checks": [list(argv) for argv in step.checks],
        "outputs": [{"name": one.name, "type": one.type, "path": one.path or None} for one in step.outputs],
        "choices": list(step.choices) if step.gate else [],
        "rounds": step.rounds,
        "retries": {"max": step.retries, "on": list(step.retry_on) if step.retries else []},
        "once": step.once,
        "on_timeout": step.on_timeout if step.gate else None,
        "worktree": step.worktree,
        "base": list(step.base),
    }
