"""The children of a session and the steps of its workflow, as `show` and `why` print them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.api import ServerRefusal
from interlock.cli.wire.routes import workflow_detail

if TYPE_CHECKING:
    from interlock.cli.server.api import ServerApi
    from interlock.vocabulary.wire.json_types import ChildStandingJson, StepStandingJson, WorkflowStandingJson

_SESSION: Final = "ses_"
_WORKFLOW: Final = "wf_"
WAITING: Final = ("held", "needs_orchestrator")
DEPENDENCY_LOST: Final = "dependency_lost"
_PROOFS: Final = {
    "checked": "checked by the server",
    "exit_code": "checked by its exit code",
    "decision": "decided by a person",
    "missing": "not proven",
    "claimed": "claimed: words alone, nothing was checked",
}
_CODES: Final = {
    "completed": ExitCode.COMPLETED,
    "partial": ExitCode.PARTIAL,
    "failed": ExitCode.FAILED,
    "timed_out": ExitCode.TIMED_OUT,
    "held": ExitCode.BLOCKED,
}


def workflow_of(api: ServerApi, task_id: str) -> WorkflowStandingJson | None:
    """The workflow whose session this is; None: it is that of none."""
    if not task_id.startswith(f"{_SESSION}{_WORKFLOW}"):
        return None
    try:
        return api.get(workflow_detail(task_id.removeprefix(_SESSION)))
    except ServerRefusal:  # a session of that name that runs no plan
        return None


def code_of(status: str, *, was_stopped: bool) -> ExitCode:
    """The exit code that says how a workflow stands."""
    return ExitCode.INTERRUPTED if was_stopped else _CODES.get(status, ExitCode.UNKNOWN)


def waits_for_person(state: str, reason: str) -> bool:
    """Whether a step in that state, for that reason, waits for a decision of a person."""
    return state in WAITING and reason != DEPENDENCY_LOST


def step_words(step: StepStandingJson) -> str:
    """How a step stands, and what that rests on."""
    if waits_for_person(step["state"], step["reason"]):
        return "waiting for you"
    state = step["state"].replace("_", " ")
    return f"{state}, {_PROOFS.get(step['proof'], step['proof'])}" if step["proof"] else state


def step_line(step: StepStandingJson) -> str:
    """A step on one line."""
    why = " ".join((step["reason"] or step["summary"]).split())
    return f"{step['step_id']}: {step_words(step)}{f': {why}' if why else ''}"


def child_line(child: ChildStandingJson) -> str:
    """A child on one line."""
    why = " ".join((child["reason"] or child["summary"] or child["task"]).split())
    where = child["task_id"] or child["subagent_id"]
    return f"{where}: {child['status'].replace('_', ' ')}{f': {why}' if why else ''}"


def why_lines(workflow: WorkflowStandingJson) -> Iterator[str]:
    """Why a workflow stands as it does: each step with its evidence."""
    steps = workflow["steps"]
    why = f": {workflow['reason']}" if workflow["reason"] else ""
    name = f" ({workflow['name']})" if workflow["name"] else ""
    yield f"workflow {workflow['workflow_id']}{name} is {workflow['status'].replace('_', ' ')}{why}"
    yield f"{workflow['ready']} of {len(steps)} steps are ready"
    if not workflow["is_owned"] and workflow["status"] in ("running", "held"):
        yield "no server runs it: it stands still"
    for step in steps:
        yield ""
        yield f"{step['step_id']}: {step_words(step)}"
        yield from (f"  {line}" for line in _evidence(step, steps))
        if waits_for_person(step["state"], step["reason"]):
            yield from (f"  {line}" for line in _asked(workflow["workflow_id"], step))


def _evidence(step: StepStandingJson, steps: Sequence[StepStandingJson]) -> Iterator[str]:
    if step["reason"]:
        yield f"reason: {' '.join(step['reason'].split())}"
    if step["summary"]:
        yield f"says: {' '.join(step['summary'].split())}"
    if step["state"] in ("pending", "held"):
        ready = {one["step_id"]: one["state"] for one in steps}
        yield from (f"needs {one}, which is {ready.get(one, 'unknown')}" for one in step["needs"])
    checkpoint = step["checkpoint"]
    told = checkpoint if isinstance(checkpoint, dict) else {}
    for name in ("run", "checks", "outputs", "write_set", "missing", "choice", "decided_by"):
        found = told.get(name)
        for one in found if isinstance(found, list) else [] if found is None else [found]:
            yield f"{name.replace('_', ' ')}: {_spelled(one)}"
    if step["subagent_id"]:
        yield f"child: {step['subagent_id']}"


def _spelled(found: object) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _asked(workflow: str, step: StepStandingJson) -> Iterator[str]:
    yield from step["question"].splitlines()
    named = f"interlock answer {workflow}:{step['step_id']}"
    yield from (f"{named} {choice}" for choice in step["choices"] or ("release", "give-up"))
