"""What the tests of workflows share: small plans, every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from interlock.lifecycle.children.workflow_plan import InvalidWorkflow, StepSpec, WorkflowSpec
from interlock.vocabulary.ids import StepId, WorkflowId

A, B, C = (StepId(name) for name in "abc")
NAMES: Final = (A, B, C)


def one(name: str, *needs: str, required: bool = True, writes: tuple[str, ...] = ()) -> StepSpec:
    return StepSpec(
        id=StepId(name),
        task=f"do {name}",
        depends_on=tuple(StepId(needed) for needed in needs),
        required=required,
        write_set=writes,
    )


def gate(name: str, *needs: str) -> StepSpec:
    return StepSpec(id=StepId(name), gate=f"is {name} right?", depends_on=tuple(StepId(needed) for needed in needs))


def plan(*steps: StepSpec, max_concurrency: int = 6) -> WorkflowSpec:
    return WorkflowSpec(id=WorkflowId("wf_1"), steps=steps, timeout_ms=1000, max_concurrency=max_concurrency)


def plans_of(size: int) -> Iterator[WorkflowSpec]:
    """Every plan of `size` steps: every graph without a circle, every choice of required steps but none."""
    names = NAMES[:size]
    pairs = [(name, needed) for name in names for needed in names if name != needed]
    for edges in product((False, True), repeat=len(pairs)):
        chosen = [pair for pair, is_in in zip(pairs, edges, strict=True) if is_in]
        for required in product((True, False), repeat=size):
            steps = tuple(
                one(name, *(needed for who, needed in chosen if who == name), required=is_required)
                for name, is_required in zip(names, required, strict=True)
            )
            try:
                yield plan(*steps)
            except InvalidWorkflow:
                continue
