"""`interlock plan run` and what follows: look at workflows, wait for them, decide their steps, stop them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, TypeAlias
from urllib.parse import quote

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.children.family import DEPENDENCY_LOST, WAITING, code_of, waits_for_person
from interlock.cli.exit_codes import ExitCode
from interlock.cli.plans.finding import ParamOption, PlanArgument, params_of, require_trust
from interlock.cli.rules.files import FolderOption
from interlock.cli.rules.standing import refuse_agents
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag
from interlock.cli.work.retrying import act, give_until, new_id
from interlock.cli.work.run import running_server
from interlock.cli.work.send import check_timeout
from interlock.client.opening import open_request
from interlock.lifecycle.children.workflow_plan import GIVE_UP
from interlock.lifecycle.plans.plan_file import read_plan
from interlock.runtime.config.plan_files import find_plan
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import StepId, WorkflowId
from interlock.vocabulary.states import StepState, WorkflowState
from interlock.vocabulary.wire.resources import AskedWorktree
from interlock.vocabulary.wire.workflow import (
    AnswerStep,
    BeginWorkflow,
    DecideStep,
    StepStanding,
    WorkflowBegun,
    WorkflowPage,
    WorkflowStanding,
)

_LOOK_SECONDS: Final = 0.3
_SUMMARY: Final = 72
_Place: TypeAlias = tuple[StepState, int, int]
WorkflowArgument = Annotated[str, Parameter(help="A workflow id; `interlock plan ls` lists them.")]
StepArgument = Annotated[str, Parameter(help="A step id; `interlock plan show` lists them.")]
WaitFlag = Annotated[bool, Parameter(negative="", help="Wait until it has ended or needs you; print its steps.")]
TimeoutOption = Annotated[
    float | None, Parameter(help="Stop waiting after N seconds (exit 5). The workflow keeps running.")
]
ReasonOption = Annotated[str, Parameter(help="The reason, for the log.")]


def run(
    plan: PlanArgument,
    /,
    *,
    param: ParamOption = None,
    name: Annotated[
        str, Parameter(name="--id", help="An id for the workflow (wf_...). The same id starts it only once.")
    ] = "",
    wait: WaitFlag = False,
    timeout: TimeoutOption = None,
    cwd: FolderOption = None,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Run a plan, and print the id of its workflow once it is in the log. Ctrl-C leaves it running.

    Exit codes with --wait: 0 completed; 3 partial; 1 failed; 5 timed out; 6 a step waits for you; 4 stopped.
    """
    refuse_agents()
    check_timeout(timeout)
    folder = Path(cwd or Path.cwd()).absolute()
    found = find_plan(plan, os.environ, folder)
    require_trust(home, found)
    workflow_id = WorkflowId(name or new_id("wf"))
    values = params_of(param)
    spec = read_plan(found.text, values, workflow_id)
    agents = {
        agent: open_request(agent, cwd=folder, worktree=AskedWorktree())
        for agent in dict.fromkeys(one.agent for one in spec.steps)
        if agent
    }
    asked = BeginWorkflow(plan=found.text, folder=str(folder), agents=agents, params=dict(values))
    where = home_folder(home)
    api = running_server(where)
    until = give_until(timeout)
    begun = act(api, WorkflowBegun, "POST", "/api/workflows", msgspec.to_builtins(asked), key=workflow_id, until=until)
    if not wait:
        if json:
            output.print_json({"workflow": _json(begun.workflow), "is_new": begun.is_new})
        else:
            output.print_text(workflow_id)
        return ExitCode.COMPLETED
    output.note(f"workflow {workflow_id}")
    return _wait(api, workflow_id, until, json=json)


def ls(*, home: HomeOption = None, json: JsonFlag = False) -> int:
    """List workflows, oldest first."""
    page = ServerApi.of_home(home_folder(home)).read(WorkflowPage, "/api/workflows")
    if json:
        output.print_json({"workflows": [_json(one) for one in page.items]})
        return ExitCode.COMPLETED
    rows = [
        (one.workflow_id, one.status.value, f"{one.ready}/{len(one.steps)}", str(one.held), one.name)
        for one in page.items
    ]
    if rows:
        output.print_table(("WORKFLOW", "STATUS", "READY", "WAITING", "NAME"), _escaped(rows))
    else:
        output.note("there is no workflow yet; `interlock plan run PLAN` starts one")
    return ExitCode.COMPLETED


def show(workflow: WorkflowArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Show a workflow: its steps, what each has to show, and what waits for you. The exit code is that of `plan wait`,
    and 7 while it runs."""
    return _tell(_read(ServerApi.of_home(home_folder(home)), workflow), json=json)


def wait(
    workflow: WorkflowArgument, /, *, timeout: TimeoutOption = None, home: HomeOption = None, json: JsonFlag = False
) -> int:
    """Wait until a workflow has ended or needs you.

    Exit codes: 0 completed; 3 partial; 1 failed; 5 timed out; 6 a step waits for you; 4 stopped.
    """
    check_timeout(timeout)
    return _wait(ServerApi.of_home(home_folder(home)), workflow, give_until(timeout), json=json)


def stop(
    workflow: WorkflowArgument, /, *, reason: ReasonOption, home: HomeOption = None, json: JsonFlag = False
) -> int:
    """Stop a workflow, with its children and commands."""
    return _decide(f"{_path(workflow)}/stop", DecideStep(reason=reason), home, json=json)


def release(
    workflow: WorkflowArgument,
    step: StepArgument,
    /,
    *,
    reason: ReasonOption,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Run a step again that waits for your decision."""
    return _decide(_step_path(workflow, step, "release"), DecideStep(reason=reason), home, json=json)


def give_up(
    workflow: WorkflowArgument,
    step: StepArgument,
    /,
    *,
    reason: ReasonOption,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Give up a step that waits for your decision: it fails, and steps that need it do not run."""
    return _decide(_step_path(workflow, step, "give-up"), DecideStep(reason=reason), home, json=json)


def answer(
    workflow: WorkflowArgument,
    gate: StepArgument,
    choice: Annotated[str, Parameter(help="One of the gate's choices; `stop` gives the step up.")],
    /,
    *,
    reason: ReasonOption = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Answer a gate: a step that asks you."""
    return _decide(_step_path(workflow, gate, "answer"), AnswerStep(choice=choice, reason=reason), home, json=json)


def _decide(path: str, body: DecideStep | AnswerStep, home: Path | None, *, json: bool) -> int:
    refuse_agents()
    if not body.reason.strip() and not isinstance(body, AnswerStep):
        raise UsageError("a decision needs a reason", remedy="say why with --reason")
    api, given = ServerApi.of_home(home_folder(home)), msgspec.to_builtins(body)
    standing = act(api, WorkflowStanding, "POST", path, given, key=new_id("dec"))
    _tell(standing, json=json)
    return ExitCode.COMPLETED


def _wait(api: ServerApi, workflow: str, until: float, *, json: bool) -> int:
    standing = _read(api, workflow)
    seen: dict[StepId, _Place] = {}
    while standing.status is WorkflowState.RUNNING:
        if not standing.is_owned:
            output.note(f"no server runs {workflow}: it makes no progress")
            break
        if time.monotonic() >= until:
            output.error(f"{workflow} is still running, and keeps running")
            return ExitCode.TIMED_OUT
        seen = _note_moves(standing, seen)
        time.sleep(_LOOK_SECONDS)
        standing = _read(api, workflow)
    return _tell(standing, json=json)


def _note_moves(standing: WorkflowStanding, seen: dict[StepId, _Place]) -> dict[StepId, _Place]:
    """Tell each step that moved since the last look."""
    for step in standing.steps:
        if _place(step) != seen.get(step.step_id, (StepState.PENDING, 1, 1)):
            output.note(f"{step.step_id}: {_words(step)}")
    return {step.step_id: _place(step) for step in standing.steps}


def _place(step: StepStanding) -> _Place:
    return step.state, step.attempt, step.round


def _read(api: ServerApi, workflow: str) -> WorkflowStanding:
    return api.read(WorkflowStanding, _path(workflow))


def _path(workflow: str) -> str:
    return f"/api/workflows/{quote(workflow, safe='')}"


def _step_path(workflow: str, step: str, verb: str) -> str:
    return f"{_path(workflow)}/steps/{quote(step, safe='')}/{verb}"


def _tell(standing: WorkflowStanding, *, json: bool) -> int:
    if json:
        output.print_json(_json(standing))
    else:
        why = f": {standing.reason}" if standing.reason else ""
        head = f"{standing.workflow_id}  {standing.status.value}{why}  {standing.ready}/{len(standing.steps)} ready"
        output.print_text(output.escape(f"{head}  {standing.name}".rstrip()))
        if used := _used(standing):
            output.print_text(output.escape(used))
        rows = [
            (
                one.step_id,
                _words(one),
                _plain(one.proof),
                one.subagent_id or "",
                _plain(one.reason) or _short(one.summary),
            )
            for one in standing.steps
        ]
        output.print_table(("STEP", "STATE", "PROOF", "CHILD", "WHY"), _escaped(rows))
        for step in standing.steps:
            if step.branch:
                place = f"{step.branch} in {step.worktree} ({step.worktree_task_id})"
                output.print_text(output.escape(f"{step.step_id}: branch {place}"))
            if step.state in WAITING:
                output.print_text(_next(standing.workflow_id, step))
    return code_of(standing.status, was_stopped=standing.was_stopped)


def _json(standing: WorkflowStanding) -> dict[str, object]:
    """As the server says it, in the words of the command line: `session_id` for the session of the workflow."""
    told: dict[str, object] = msgspec.to_builtins(standing)
    return {"session_id" if name == "task_id" else name: value for name, value in told.items()}


def _words(step: StepStanding) -> str:
    state = "ready" if step.state is StepState.CHECKPOINT_READY else _plain(step.state.value)
    state = "waiting for you" if waits_for_person(step.state, step.reason) else state
    notes = [f"attempt {step.attempt}"] if step.attempt > 1 else []
    notes += [f"round {step.round} of {step.rounds}"] if step.round > 1 else []
    return f"{state} ({', '.join(notes)})" if notes else state


def _plain(name: str) -> str:
    """A name of the wire, in the words of a table."""
    return name.replace("_", " ") if name.replace("_", "").isalpha() else name


def _short(summary: str) -> str:
    """The beginning of what a step says of itself: `--json` has all of it."""
    words = " ".join(summary.split())
    return words if len(words) <= _SUMMARY else f"{words[: _SUMMARY - 1].rstrip()}…"


def _next(workflow: str, step: StepStanding) -> str:
    """The command that decides a step which waits."""
    if step.kind == "gate" and step.reason == "gate_reached":
        choices = "|".join(map(output.escape, step.choices))
        asked = output.escape_lines(step.question)
        return f"{step.step_id}: {asked}{_by_when(step)}\n  interlock plan answer {workflow} {step.step_id} {choices}"
    if step.reason == DEPENDENCY_LOST:
        return f"{step.step_id}: what it needs is lost"
    return f"{step.step_id}: interlock plan release {workflow} {step.step_id} --reason WHY, or plan give-up"


def _used(standing: WorkflowStanding) -> str:
    """What it used of its budget; blank where it has none."""
    told = []
    if standing.max_cost_usd is not None:
        cost = "unknown" if standing.cost_usd is None else f"{standing.cost_usd:.2f}"
        told.append(f"{cost} of {standing.max_cost_usd:.2f} USD")
    if standing.max_tokens is not None:
        told.append(f"{'unknown' if standing.tokens is None else standing.tokens} of {standing.max_tokens} tokens")
    if told and standing.unmetered:
        told.append(f"not in it, for they report nothing: {', '.join(standing.unmetered)}")
    return f"used {', '.join(told)}" if told else ""


def _by_when(step: StepStanding) -> str:
    if step.answer_by is None:
        return ""
    at = step.answer_by.astimezone().isoformat(sep=" ", timespec="minutes")
    then = "then it is given up" if step.on_timeout == GIVE_UP else "it waits on after that"
    return f"\n  answer by {at}; {then}"


def _escaped(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(output.escape(" ".join(cell.split()))[:200] for cell in row) for row in rows]
