"""What the child of a step is told: its task, what makes it ready, and how to leave a checkpoint."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from interlock.lifecycle.children.checkpoint import CheckFact
from interlock.lifecycle.children.workflow_plan import StepOutput, StepSpec
from interlock.lifecycle.children.workflow_step import StepEvidence
from interlock.lifecycle.plans.templates import StepShown, fenced, fill
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import StepId

# Words, and no example that could be read as a checkpoint itself where an agent repeats them.
ASK_FOR_CHECKPOINT: Final = (
    "When you are done, end your answer with one fenced JSON object. Its field `status` is one of checkpoint_ready (the"
    " work is whole and others may build on it), partial, failed, held, needs_orchestrator; its field `summary` says in"
    " a sentence or two what is ready and what is not."
)


def step_prompt(step: StepSpec, needed: Mapping[StepId, StepEvidence]) -> str:
    """The step's task, what came of the steps before it, and how to leave a checkpoint."""
    shown = (f"Step {step_id} is ready: {evidence.summary}" for step_id, evidence in needed.items())
    return "\n\n".join((step.task, *shown, ASK_FOR_CHECKPOINT))


def plan_prompt(step: StepSpec, ended: Mapping[StepId, StepShown], checkpoint_id: str) -> str:
    """As `step_prompt`, for a step of a plan file: what it is told of other steps is what its templates name. The
    checkpoint has to name the attempt."""
    proofs = [f"- {proof}" for proof in _proofs(step)]
    told = "\n".join(("This step is ready only if all of this holds when you are done:", *proofs)) if proofs else ""
    writes = f"Change nothing outside of {', '.join(step.write_set)}." if step.write_set else "Change no file."
    return "\n\n".join(part for part in (fill(step.task, ended), told, writes, _asked(checkpoint_id)) if part)


def round_prompt(step: StepSpec, missing: Sequence[str], checks: Sequence[tuple[CheckFact, Json]]) -> str:
    """What the child of a step is told once more: what is not proven yet, and what the checks that failed said."""
    listed = "\n".join(f"- {one}" for one in missing)
    said = (
        fenced(f"the output of `{shlex.join(fact.argv)}`", str(told.get("output", "")))
        for fact, told in checks
        if isinstance(told, dict) and fact.exit_code != 0 and told.get("output")
    )
    return "".join((f"The server looked at your work, and this step is not ready:\n{listed}\n", *said, "Correct that."))


def next_round(text: str, checkpoint_id: str) -> str:
    """What a round is begun with: the checkpoint has to name this attempt."""
    return f"{text}\n\n{_asked(checkpoint_id)}"


def _asked(checkpoint_id: str) -> str:
    return f"{ASK_FOR_CHECKPOINT} Its field `checkpoint_id` is {checkpoint_id} as it stands here."


def _proofs(step: StepSpec) -> Iterator[str]:
    for output in step.outputs:
        if output.type == "commit":
            yield "files were changed; the server commits them when you are done"
        elif output.type == "text":
            yield f"your checkpoint has a field `outputs`, an object with the text `{output.name}`"
        else:
            yield f"the file {output.path} was written{_shape_of(output)}"
    for argv in step.checks:
        yield f"`{shlex.join(argv)}` exits with 0"


def _shape_of(output: StepOutput) -> str:
    if output.type != "json":
        return ""
    fields = ", ".join(f"{name} ({kind})" for name, kind in output.fields)
    what = f"object{'s' if output.is_list else ''} with {fields}" if fields else "values" if output.is_list else "value"
    return f", a JSON list of {what}" if output.is_list else f", a JSON {what}"
