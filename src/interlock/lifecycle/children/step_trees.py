"""In which work tree each step of a plan works, and what a tree of its own begins with.

Laws:
1. A step sees the work of the steps that it needs: a tree of its own begins with their work, merged, where the plan
   names no other base. Gates and steps without a tree of their own hand on what they need themselves.
2. A step has a tree of its own where it says so; and, where it says nothing, in a repository: if it writes, names a
   base, or needs a step that has one. A command that needs exactly one such tree goes on in that one.
3. Without a repository there are no trees: every step works in the folder of the workflow, and what asks for a tree is
   a problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from interlock.lifecycle.children.workflow_plan import (
    HEAD,
    OWN,
    SHARED,
    STEP_BASE,
    InvalidWorkflow,
    PlanProblem,
    StepSpec,
    WorkflowSpec,
    in_order_of_dependency,
)
from interlock.vocabulary.ids import StepId

_NO_REPOSITORY: Final = "use a git repository with a commit (git init, git commit), or leave that out"


def with_trees(spec: WorkflowSpec, *, has_repository: bool) -> WorkflowSpec:
    """The workflow with a tree for each step. `InvalidWorkflow`, with every problem, where that cannot be."""
    choice = _Choice(spec, has_repository)
    problems = tuple(choice.problems())
    if problems:
        raise InvalidWorkflow(spec.id, problems)
    return replace(spec, steps=tuple(choice.chosen[step.id] for step in spec.steps))


@dataclass(slots=True)
class _Choice:
    spec: WorkflowSpec
    has_repository: bool
    chosen: dict[StepId, StepSpec] = field(default_factory=dict)

    def problems(self) -> Iterator[PlanProblem]:
        for step in in_order_of_dependency(self.spec.steps):
            yield from self._problems(step)
            self.chosen[step.id] = self._choose(step)
            if self.chosen[step.id].worktree == SHARED:
                yield from self._shared_problems(step)

    def _problems(self, step: StepSpec) -> Iterator[PlanProblem]:
        name = f"step {step.id!r}"
        asks = step.worktree not in ("", SHARED) or bool(step.base) or _commits(step)
        if asks and not self.has_repository:
            yield PlanProblem(
                f"{name} asks for a work tree, and the folder is in no git repository with a commit", _NO_REPOSITORY
            )
            return
        before = _all_needed(self.spec, step)
        named = [one.removeprefix(STEP_BASE) for one in step.base if one.startswith(STEP_BASE)]
        named += [step.worktree] if step.worktree not in ("", OWN, SHARED) else []
        for other in named:
            if StepId(other) not in before:
                yield PlanProblem(f"{name} works on the tree of {other!r} and does not need it", "add it to `needs`")
            elif self.chosen[StepId(other)].worktree == SHARED:
                yield PlanProblem(
                    f"{name} works on the tree of {other!r}, which has none of its own",
                    'give that one worktree = "own"',
                )

    def _shared_problems(self, step: StepSpec) -> Iterator[PlanProblem]:
        if step.base:
            yield PlanProblem(f'step {step.id!r} has a base and worktree = "shared"', "leave one of the two out")
        if _commits(step):
            yield PlanProblem(
                f"step {step.id!r} is to give a commit and has no tree of its own",
                'give it worktree = "own", or `write`',
            )

    def _choose(self, step: StepSpec) -> StepSpec:
        if step.gate or step.worktree == SHARED or not self.has_repository:
            return replace(step, worktree=SHARED)
        if step.worktree not in ("", OWN):
            return replace(step, worktree=self._owner(StepId(step.worktree)))
        trees = tuple(dict.fromkeys(self._trees_below(step)))
        if not (step.worktree or step.write_set or step.base or trees):
            return replace(step, worktree=SHARED)
        is_one = len({self._owner(one) for one in trees}) == 1 and not any(self.chosen[one].each for one in trees)
        if step.run and not (step.worktree or step.base) and is_one:
            return replace(step, worktree=self._owner(trees[-1]))
        base = step.base or tuple(f"{STEP_BASE}{one}" for one in trees) or (HEAD,)
        return replace(step, worktree=OWN, base=base)

    def _owner(self, step_id: StepId) -> str:
        """The step whose tree one works in."""
        worktree = self.chosen[step_id].worktree if step_id in self.chosen else OWN
        return step_id if worktree == OWN else worktree

    def _trees_below(self, step: StepSpec) -> Iterator[StepId]:
        """Law 1."""
        for needed in step.depends_on:
            other = self.chosen[needed]
            if other.worktree == SHARED:
                yield from self._trees_below(other)
            else:
                yield needed


def _commits(step: StepSpec) -> bool:
    return any(output.type == "commit" for output in step.outputs)


def _all_needed(spec: WorkflowSpec, step: StepSpec) -> frozenset[StepId]:
    by_id: Mapping[StepId, StepSpec] = {one.id: one for one in spec.steps}
    seen: set[StepId] = set()
    left = list(step.depends_on)
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += by_id[one].depends_on
    return frozenset(seen)
