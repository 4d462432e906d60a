"""Which step works in which tree, and on what: small plans, with and without a repository."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.lifecycle.children.step_trees import with_trees
from interlock.lifecycle.children.workflow_plan import InvalidWorkflow, StepOutput, StepSpec
from interlock.vocabulary.ids import StepId
from tests.lifecycle.plans import gate, one, plan


def writer(
    name: str, *needs: str, worktree: str = "", base: tuple[str, ...] = (), outputs: tuple[StepOutput, ...] = ()
) -> StepSpec:
    return replace(one(name, *needs, writes=(name,)), worktree=worktree, base=base, outputs=outputs)


def command(name: str, *needs: str) -> StepSpec:
    return StepSpec(id=StepId(name), run=("make",), depends_on=tuple(map(StepId, needs)))


def trees(*steps: StepSpec, has_repository: bool = True) -> dict[str, tuple[str, tuple[str, ...]]]:
    chosen = with_trees(plan(*steps), has_repository=has_repository)
    return {step.id: (step.worktree, step.base) for step in chosen.steps}


def test_what_writes_has_a_tree_and_what_needs_it_builds_on_it() -> None:
    assert trees(writer("a"), one("b", "a"), gate("c", "b"), writer("d", "c"), one("e")) == {
        "a": ("own", ("head",)),
        "b": ("own", ("steps.a",)),
        "c": ("shared", ()),
        "d": ("own", ("steps.b",)),
        "e": ("shared", ()),
    }


def test_a_command_goes_on_in_the_one_tree_that_it_needs_and_merges_several() -> None:
    assert trees(writer("a"), command("b", "a"), writer("c"), command("d", "b", "c")) == {
        "a": ("own", ("head",)),
        "b": ("a", ()),
        "c": ("own", ("head",)),
        "d": ("own", ("steps.b", "steps.c")),
    }


def test_what_is_written_holds_over_what_is_chosen() -> None:
    shared = writer("a", worktree="shared")
    found = trees(shared, writer("b", "a", base=("main",)), one("c", "b"), writer("d", "b", worktree="b"))
    assert found == {
        "a": ("shared", ()),
        "b": ("own", ("main",)),
        "c": ("own", ("steps.b",)),
        "d": ("b", ()),
    }


def test_without_a_repository_nothing_has_a_tree() -> None:
    assert {one for one, _ in trees(writer("a"), command("b", "a"), has_repository=False).values()} == {"shared"}


COMMIT = (StepOutput(name="x", type="commit"),)


@pytest.mark.parametrize(
    ("steps", "has_repository", "words"),
    [
        ((writer("a", worktree="own"), writer("b", base=("head",))), False, ["step 'a' asks for", "step 'b' asks for"]),
        ((writer("a", outputs=COMMIT),), False, ["in no git repository with a commit"]),
        ((writer("a", worktree="shared", outputs=COMMIT),), True, ["has no tree of its own"]),
        ((writer("a", worktree="shared", base=("head",)),), True, ['a base and worktree = "shared"']),
        ((writer("a", worktree="shared"), writer("b", "a", worktree="a")), True, ["which has none of its own"]),
        ((writer("a"), writer("b", worktree="a")), True, ["does not need it"]),
        ((writer("a", worktree="shared"), writer("b", "a", base=("steps.a",))), True, ["which has none of its own"]),
    ],
)
def test_a_tree_that_cannot_be_is_a_problem(
    steps: tuple[StepSpec, ...], has_repository: bool, words: list[str]
) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        with_trees(plan(*steps), has_repository=has_repository)
    for word in words:
        assert word in str(refused.value)
