"""The names in the texts of a plan's steps that mean nothing where they stand.

Laws:
1. A text names only parameters that are declared, and steps that its own step needs: they have ended when it is used.
2. What comes of a step is an agent's word, and enters no command and no path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from interlock.lifecycle.children.workflow_plan import OWN, SHARED, STEP_BASE, PlanProblem
from interlock.lifecycle.plans.params import Param
from interlock.lifecycle.plans.plan_table import shown
from interlock.lifecycle.plans.step_draft import StepDraft
from interlock.lifecycle.plans.templates import Names, names_in


def name_problems(draft: StepDraft, drafts: Sequence[StepDraft], declared: Sequence[Param]) -> Iterator[PlanProblem]:
    """The names in the texts of one step that mean nothing there."""
    step = f"step {draft.id!r}"
    of_text, of_plain = names_in(draft.text), [names_in(text) for text in draft.plain_texts]
    types = {param.name: param.type for param in declared}
    if draft.for_each and types.get(draft.for_each) != "list":
        yield PlanProblem(
            f"{step} is for each of {draft.for_each!r}, which is no list parameter",
            f'declare it: params.{draft.for_each} = {{ type = "list" }}',
        )
    for names in (of_text, *of_plain):
        yield from _unknown(step, names, draft, types)
    for names in of_plain:
        yield from _misplaced(step, names, types)
    yield from _reference_problems(draft, of_text, drafts)
    yield from _tree_problems(draft, drafts)
    if draft.each is not None:
        yield from _each_problems(step, draft, draft.each, drafts)


def _reference_problems(draft: StepDraft, names: Names, drafts: Sequence[StepDraft]) -> Iterator[PlanProblem]:
    step = f"step {draft.id!r}"
    by_id = {one.id: one for one in drafts}
    needed = _all_needed(draft, by_id) if names.steps else frozenset()
    for reference in dict.fromkeys(names.steps):
        other = by_id.get(reference.step)
        if other is None:
            yield PlanProblem(f"{step} names {reference.step!r}, which is no step", "name steps of the same plan")
        elif reference.step not in needed:
            yield PlanProblem(
                f"{step} names step {reference.step!r} and does not need it",
                f"step {draft.id}: add {reference.step!r} to `needs`",
            )
        elif reference.output and reference.output not in [output.name for output in other.outputs]:
            yield PlanProblem(
                f"{step} names the output {reference.output!r} of step {other.id!r}, which has none of that name",
                f"declare it: outputs.{reference.output} = {{ type = ..., path = ... }}",
            )


def _each_problems(
    step: str, draft: StepDraft, each: tuple[str, str], drafts: Sequence[StepDraft]
) -> Iterator[PlanProblem]:
    """The output for whose items a step is made."""
    other = next((one for one in drafts if one.id == each[0]), None)
    if other is None or other.id not in draft.needs:
        yield PlanProblem(f"{step} is for each item of step {each[0]!r} and does not need it", "add it to `needs`")
        return
    output = next((one for one in other.outputs if one.name == each[1]), None)
    if output is None or not output.is_list or other.for_each or other.each:
        yield PlanProblem(
            f"{step} is for each item of {each[1]!r} of step {each[0]!r}, which is no list",
            f'step {each[0]}: outputs.{each[1]} = {{ type = "json", list = true, path = ... }}',
        )


def _tree_problems(draft: StepDraft, drafts: Sequence[StepDraft]) -> Iterator[PlanProblem]:
    """The steps in whose trees, or on whose work, a step is to work."""
    by_id = {one.id: one for one in drafts}
    needed = _all_needed(draft, by_id)
    named = [one.removeprefix(STEP_BASE) for one in draft.base if one.startswith(STEP_BASE)]
    named += [draft.worktree] if draft.worktree not in ("", OWN, SHARED) else []
    for one in dict.fromkeys(named):
        if one not in by_id:
            yield PlanProblem(f"step {draft.id!r} works on {one!r}, which is no step", "name steps of the same plan")
        elif one not in needed:
            yield PlanProblem(
                f"step {draft.id!r} works on the tree of step {one!r} and does not need it",
                f"step {draft.id}: add {one!r} to `needs`",
            )
        elif one == draft.worktree and (by_id[one].for_each or by_id[one].each):
            yield PlanProblem(f"step {draft.id!r} goes on in {one!r}, which is one step for each item", "use `base`")


def _all_needed(draft: StepDraft, by_id: Mapping[str, StepDraft]) -> frozenset[str]:
    """The steps that have ended when this one starts."""
    seen: set[str] = set()
    left = list(draft.needs)
    while left:
        one = left.pop()
        if one in by_id and one not in seen:
            seen.add(one)
            left += by_id[one].needs
    return frozenset(seen - {draft.id})


def _unknown(step: str, names: Names, draft: StepDraft, types: Mapping[str, str]) -> Iterator[PlanProblem]:
    """What is no template, or names nothing."""
    for wrong in names.wrong:
        yield PlanProblem(
            f"{step} has the template {shown(wrong)}",
            "write {{ params.NAME }}, {{ item }}, {{ steps.STEP.summary }}, {{ steps.STEP.diff }} or"
            " {{ steps.STEP.outputs.NAME }}",
        )
    for one in names.params:
        if one not in types:
            yield PlanProblem(
                f"{step} names the parameter {one!r}, which is not declared",
                f"declare it: params.{one} = {{ type = ... }}",
            )
    if names.has_item and not (draft.for_each or draft.each):
        yield PlanProblem(f"{step} names {{{{ item }}}} and is for no list", "add for_each = params.NAME")


def _misplaced(step: str, names: Names, types: Mapping[str, str]) -> Iterator[PlanProblem]:
    """What may not stand in a command or a path."""
    for reference in names.steps:
        yield PlanProblem(
            f"{step} puts words of step {reference.step!r} into a command or a path",
            "commands and paths take parameters and items only; a command may read a file that the step wrote",
        )
    for one in names.params:
        if types.get(one) == "list":
            yield PlanProblem(
                f"{step} puts the list {one!r} into a command or a path",
                f"make it for_each = params.{one}, and name {{{{ item }}}}",
            )
