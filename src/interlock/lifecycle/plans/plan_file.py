"""Reads a plan file: with the values of its parameters it becomes a workflow that can run, or every problem is told.

Laws:
1. An unknown key, a wrong type, a name that there is none of, and what this version cannot keep are problems. All are
   told at once, each with its remedy, and no part of a plan with a problem runs.
2. Only `InvalidWorkflow` is raised, whatever the text, and the time is bounded by its size.
3. A step that others need rests on a proof: a prompt needs `checks` or `outputs`, for what an agent says is none.
4. A text may name only steps that it needs, directly or through others: they have ended when it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interlock.lifecycle.children.workflow_plan import InvalidWorkflow, PlanProblem, StepSpec, WorkflowSpec
from interlock.lifecycle.plans.expansion import expand, expand_items
from interlock.lifecycle.plans.name_problems import name_problems
from interlock.lifecycle.plans.params import Param, ParamValue, read_params, resolve_params
from interlock.lifecycle.plans.plan_table import PlanTable, shown
from interlock.lifecycle.plans.step_draft import StepDraft, read_defaults, read_step
from interlock.lifecycle.plans.templates import names_in, resolve
from interlock.lifecycle.rules.bounded_toml import read_toml
from interlock.vocabulary.ids import StepId, WorkflowId

MAX_PLAN_BYTES: Final = 256 * 1024
MAX_STEPS: Final = 200
_MOST_PROBLEMS: Final = 100
_DEFAULT_STEPS: Final = 50
_DEFAULT_RUNNING: Final = 4
_MOST_RUNNING: Final = 64
_DEFAULT_TIMEOUT_MS: Final = 60 * 60 * 1000
_KEYS: Final = ("plan", "name", "params", "limits", "defaults", "step")
_LIMITS: Final = ("timeout", "max_running", "max_steps", "max_cost_usd", "max_tokens")
_MOST_TOKENS: Final = 10**12
_MOST_USD: Final = 1_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """The limits of a whole workflow."""

    timeout_ms: int = _DEFAULT_TIMEOUT_MS
    max_running: int = _DEFAULT_RUNNING
    max_steps: int = _DEFAULT_STEPS
    max_cost_usd: float | None = None
    max_tokens: int | None = None


def read_plan(text: str | bytes, params: Mapping[str, object], workflow_id: WorkflowId) -> WorkflowSpec:
    """The workflow of a plan. `InvalidWorkflow`, with every problem, for one that cannot run."""
    problems: list[PlanProblem] = []
    try:
        table = _parse(text)
    except ValueError as wrong:
        raise InvalidWorkflow(
            workflow_id, (PlanProblem(f"its text is no plan: {wrong}", "correct the TOML of the file"),)
        ) from wrong
    plan = PlanTable("the plan", table, problems)
    declared = read_params(plan)
    values = resolve_params(declared, params, problems)
    limits = _limits(plan)
    name = _head(plan, declared)
    drafts = _drafts(plan, limits)
    problems += _graph_problems(drafts, workflow_id)
    for draft in drafts:
        problems += name_problems(draft, drafts, declared)
    if not problems:
        return _workflow(workflow_id, resolve(name, values), limits, drafts, values)
    raise InvalidWorkflow(workflow_id, _at_most(problems))


def read_items(
    text: str, params: Mapping[str, object], standing: StepSpec, items: Sequence[str], workflow_id: WorkflowId
) -> tuple[StepSpec, ...]:
    """The steps of a plan that one stands for, given the items. `InvalidWorkflow`, with every problem, where an item
    makes one impossible: too many of them, or a path or a word that may not be."""
    problems: list[PlanProblem] = []
    plan = PlanTable("the plan", _parse(text), problems)
    values = resolve_params(read_params(plan), params, problems)
    draft = next(one for one in _drafts(plan, _limits(plan)) if one.id == standing.id)
    if len(items) > standing.each_max:
        problems.append(
            PlanProblem(f"step {standing.id!r} has {len(items)} items, and max is {standing.each_max}", "raise its max")
        )
    steps = () if problems else expand_items(draft, standing, items, values, standing.depends_on, problems)
    if problems:
        raise InvalidWorkflow(workflow_id, _at_most(problems))
    return steps


def _parse(text: str | bytes) -> dict[str, object]:
    """The tables of a text. `ValueError` for one that is no TOML."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(data) > MAX_PLAN_BYTES:
        raise ValueError(f"it is larger than {MAX_PLAN_BYTES} bytes")
    return read_toml(data)


def _head(plan: PlanTable, declared: Sequence[Param]) -> str:
    plan.refuse_unknown(_KEYS)
    version = plan.values.get("plan")
    if version != 1 or isinstance(version, bool):
        plan.problem(f"has the version {shown(version)}", "write `plan = 1` at its top")
    name = plan.text("name")
    used = names_in(name)
    for wrong in (*used.wrong, *(one.step for one in used.steps), *(["item"] if used.has_item else ())):
        plan.problem(f"has {shown(wrong)} in its name", "only {{ params.NAME }} may stand there")
    for one in sorted({*used.params} - {param.name for param in declared}):
        plan.problem(f"names the parameter {one!r} in its name", f"declare it: params.{one} = {{ type = ... }}")
    return name


def _limits(plan: PlanTable) -> PlanLimits:
    found = plan.values.get("limits", {})
    if not isinstance(found, dict):
        plan.wrong("limits", "a table")
        return PlanLimits()
    table = PlanTable("[limits]", found, plan.problems)
    table.refuse_unknown(_LIMITS)
    return PlanLimits(
        timeout_ms=table.duration_ms("timeout") or _DEFAULT_TIMEOUT_MS,
        max_running=table.number("max_running", _DEFAULT_RUNNING, _MOST_RUNNING),
        max_steps=table.number("max_steps", _DEFAULT_STEPS, MAX_STEPS),
        max_cost_usd=table.amount("max_cost_usd", _MOST_USD),
        max_tokens=table.number("max_tokens", 1, _MOST_TOKENS) if "max_tokens" in found else None,
    )


def _drafts(plan: PlanTable, limits: PlanLimits) -> list[StepDraft]:
    defaults = read_defaults(plan)
    found = plan.values.get("step", [])
    if not isinstance(found, list) or not found:
        plan.wrong("step", "one table under [[step]] for each step")
        return []
    if len(found) > limits.max_steps:
        plan.problem(
            f"has {len(found)} steps, and max_steps is {limits.max_steps}", f"raise limits.max_steps, up to {MAX_STEPS}"
        )
        found = found[:MAX_STEPS]
    drafts = (read_step(one, number, defaults, plan.problems) for number, one in enumerate(found, 1))
    return [draft for draft in drafts if draft is not None]


def _graph_problems(drafts: Sequence[StepDraft], workflow_id: WorkflowId) -> Iterator[PlanProblem]:
    """What is wrong with the steps as a graph: the rules of every workflow, and what a plan asks beyond them."""
    steps = [
        StepSpec(id=StepId(one.id), task="-", depends_on=tuple(map(StepId, one.needs)), required=one.required)
        for one in drafts
    ]
    if steps:
        try:
            WorkflowSpec(id=workflow_id, steps=tuple(steps))
        except InvalidWorkflow as wrong:
            yield from wrong.problems
    needed = {one for draft in drafts for one in draft.needs}
    for draft in drafts:
        if draft.kind == "prompt" and draft.id in needed and not (draft.checks or draft.outputs):
            yield PlanProblem(
                f"step {draft.id!r} is needed by others, and nothing proves that it is ready",
                f"step {draft.id}: give it `checks`, commands that must exit 0, or `outputs`, files that must exist",
            )


def _workflow(
    workflow_id: WorkflowId,
    name: str,
    limits: PlanLimits,
    drafts: Sequence[StepDraft],
    values: Mapping[str, ParamValue],
) -> WorkflowSpec:
    problems: list[PlanProblem] = []
    steps = expand(drafts, values, limits.max_steps, problems)
    if problems:
        raise InvalidWorkflow(workflow_id, _at_most(problems))
    return WorkflowSpec(
        id=workflow_id,
        steps=steps,
        name=name,
        max_concurrency=limits.max_running,
        timeout_ms=limits.timeout_ms,
        max_cost_usd=limits.max_cost_usd,
        max_tokens=limits.max_tokens,
    )


def _at_most(problems: Sequence[PlanProblem]) -> tuple[PlanProblem, ...]:
    """Each once, and not more than a person reads."""
    each = tuple(dict.fromkeys(problems))
    if len(each) <= _MOST_PROBLEMS:
        return each
    return (
        *each[:_MOST_PROBLEMS],
        PlanProblem(f"{len(each) - _MOST_PROBLEMS} more problems are not shown", "correct these first"),
    )
