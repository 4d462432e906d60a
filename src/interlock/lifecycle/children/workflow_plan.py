"""The plan of a workflow: its steps, what makes a plan impossible, and which steps may run now.

Laws:
1. A `WorkflowSpec` that exists can be run: a plan with any problem is refused with all of its problems at once, each
   with its remedy, and cycles by name.
2. A step runs only when every step that it depends on is `checkpoint_ready`. Nothing less unlocks it.
3. No more than `max_concurrency` steps run, and no two of them touch the same path while one of them writes it. A path
   covers what lies below it. A step may write only what its `write_set` names; `.` is the whole workspace.
4. The same states give the same steps, in the order of the plan. If nothing runs and some step's dependencies are all
   ready, at least one step may run.
5. A step is lost when it ended without being ready, or depends on one that is lost: no decision brings it back.
6. A step is a prompt for a child, a command that we run, or a gate that a person answers; exactly one of them. A gate
   does not run: it is due as soon as its dependencies are ready, also while other steps run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from interlock.lifecycle.children.subagent import MAX_TIMEOUT_MS
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import StepId, WorkflowId, is_valid_id
from interlock.vocabulary.states import StepState

StepStates: TypeAlias = Mapping[StepId, StepState]
"""The state of each step. A step that is not named is pending."""

_ENDED_UNREADY: Final = frozenset({StepState.PARTIAL, StepState.FAILED, StepState.TIMED_OUT})
_NOT_RUN: Final = frozenset({StepState.PENDING, StepState.HELD})


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """One reason why a plan cannot run, and what to do about it."""

    message: str
    remedy: str


class InvalidWorkflow(UsageError):
    """A plan that cannot run. `problems` holds every reason."""

    def __init__(self, workflow_id: str, problems: tuple[PlanProblem, ...]) -> None:
        remedies = dict.fromkeys(problem.remedy for problem in problems)
        messages = "; ".join(problem.message for problem in problems)
        super().__init__(f"workflow {workflow_id!r} cannot run: {messages}", remedy="; ".join(remedies))
        self.problems = problems


RETRY_CAUSES: Final = ("crash", "quota", "timeout")
"""What may have ended an attempt that was lost, and not what came of its work."""
MAX_ROUNDS: Final = 20
MAX_RETRIES: Final = 10
OUTPUT_TYPES: Final = ("file", "json", "commit", "text")
GIVE_UP: Final = "give_up"
ON_TIMEOUT: Final = ("hold", GIVE_UP)
"""What becomes of a gate that nobody answers in time. Silence is never consent: there is no third."""
OWN: Final = "own"
SHARED: Final = "shared"
HEAD: Final = "head"
STEP_BASE: Final = "steps."
STOP_CHOICE: Final = "stop"
"""The choice of a gate that refuses. Any other lets the workflow go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """A file that must exist when the step ends, below the folder of the workflow, and be newer than the step's start.
    `type`: `file`, or `json`, which must be an object or a list. `fields` of JSON: the names and types that
    each object has; `is_list`: it is a list of them. Without a path: `commit`, work of which the server makes a commit,
    or `text`, which the checkpoint of the step's child holds."""

    name: str
    path: str = ""
    type: str = "file"
    fields: tuple[tuple[str, str], ...] = ()
    is_list: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """One step: a `task` for a child, a command (`run`, without a shell) or a question to a person (`gate`).

    `required`: the workflow is not completed without it. `checks` are commands that must all exit 0, and `outputs` what
    must exist, before the step of a child is ready.

    `rounds`: how often its child may be told, in one session, what is not proven yet. `retries`: how many attempts that
    were lost, by one of `retry_on`, are followed by another one. One that is done `once` is never retried after it may
    have had an effect.

    `worktree`: `own`, `shared` (the folder of the workflow), or the step in whose tree it works; blank: as
    `step_trees` chooses. `base`: what a tree of its own begins with, merged: `head`, a ref, or `steps.STEP`.

    `each`: it stands for a step for each item of the output `STEP.OUTPUT`, at most `each_max`. Those are added when the
    output is there (`is_expanded`), and it is ready when all of them are.

    `timeout_ms` of a gate: how long it waits for an answer; `on_timeout`: what then becomes of it.
    """

    id: StepId
    task: str = ""
    run: tuple[str, ...] = ()
    gate: str = ""
    choices: tuple[str, ...] = ("go", STOP_CHOICE)
    checks: tuple[tuple[str, ...], ...] = ()
    outputs: tuple[StepOutput, ...] = ()
    model_visible: bool = False
    agent: str = ""
    depends_on: tuple[StepId, ...] = ()
    required: bool = True
    timeout_ms: int | None = None
    write_set: tuple[str, ...] = ()
    read_set: tuple[str, ...] = ()
    rounds: int = 1
    retries: int = 0
    retry_on: tuple[str, ...] = RETRY_CAUSES
    once: bool = True
    worktree: str = ""
    base: tuple[str, ...] = ()
    on_timeout: str = "hold"
    each: str = ""
    each_max: int = 0
    is_expanded: bool = False

    @property
    def tree(self) -> str:
        """The step in whose tree it works; blank: in the folder of the workflow."""
        return self.id if self.worktree == OWN else "" if self.worktree == SHARED else self.worktree


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpec:
    """A plan that can be run. `timeout_ms` bounds the whole; a step's own bounds its child. `max_cost_usd` and
    `max_tokens`: when all that its sessions used reaches one of them, nothing more starts."""

    id: WorkflowId
    steps: tuple[StepSpec, ...]
    name: str = ""
    max_concurrency: int = 6
    timeout_ms: int = 120_000
    max_cost_usd: float | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        problems = tuple(_problems(self))
        if problems:
            raise InvalidWorkflow(self.id, problems)


def due_gates(spec: WorkflowSpec, states: StepStates) -> tuple[StepId, ...]:
    """The gates that a person is to be asked now."""
    return tuple(step.id for step in spec.steps if step.gate and _is_unlocked(step, states))


def due_expansions(spec: WorkflowSpec, states: StepStates) -> tuple[StepId, ...]:
    """The steps of which one for each item is to be made now."""
    return tuple(step.id for step in spec.steps if step.each and not step.is_expanded and _is_unlocked(step, states))


def due_joins(spec: WorkflowSpec, states: StepStates) -> tuple[StepId, ...]:
    """The steps that stand for others, all of which are ready."""
    return tuple(step.id for step in spec.steps if step.is_expanded and _is_unlocked(step, states))


def with_items(spec: WorkflowSpec, step_id: StepId, items: tuple[StepSpec, ...]) -> WorkflowSpec:
    """The workflow with the steps that one stands for."""
    names = tuple(item.id for item in items)
    steps = tuple(
        replace(step, depends_on=(*step.depends_on, *names), is_expanded=True) if step.id == step_id else step
        for step in spec.steps
    )
    return replace(spec, steps=(*steps, *items))


def ready_steps(spec: WorkflowSpec, states: StepStates) -> tuple[StepId, ...]:
    """The steps that may start now, all of them together, in the order of the plan. Gates are none of them."""
    busy = [step for step in spec.steps if _state(step, states) is StepState.RUNNING]
    chosen: list[StepId] = []
    for step in spec.steps:
        if len(busy) >= spec.max_concurrency:
            break
        is_started = not (step.gate or step.each)
        if is_started and _is_unlocked(step, states) and not any(_conflict(step, other) for other in busy):
            busy.append(step)
            chosen.append(step.id)
    return tuple(chosen)


def waves(spec: WorkflowSpec) -> tuple[tuple[StepId, ...], ...]:
    """A dry run: what would start together if every step ended ready, wave by wave."""
    states: dict[StepId, StepState] = {}
    planned: list[tuple[StepId, ...]] = []
    while wave := (*ready_steps(spec, states), *due_gates(spec, states), *due_expansions(spec, states)):
        planned.append(wave)
        states.update(dict.fromkeys(wave, StepState.CHECKPOINT_READY))
    return tuple(planned)


def lost_steps(spec: WorkflowSpec, states: StepStates) -> frozenset[StepId]:
    """The steps that can never become ready any more, whatever is decided."""
    lost: set[StepId] = set()
    for step in in_order_of_dependency(spec.steps):
        state = _state(step, states)
        if state in _ENDED_UNREADY or (state in _NOT_RUN and not lost.isdisjoint(step.depends_on)):
            lost.add(step.id)
    return frozenset(lost)


def held_steps(spec: WorkflowSpec, states: StepStates) -> tuple[StepId, ...]:
    """The pending steps that must be held, because what they depend on is lost."""
    lost = lost_steps(spec, states)
    return tuple(step.id for step in spec.steps if _state(step, states) is StepState.PENDING and step.id in lost)


def _state(step: StepSpec, states: StepStates) -> StepState:
    return states.get(step.id, StepState.PENDING)


def _is_unlocked(step: StepSpec, states: StepStates) -> bool:
    if _state(step, states) is not StepState.PENDING:
        return False
    return all(states.get(needed) is StepState.CHECKPOINT_READY for needed in step.depends_on)


def _conflict(one: StepSpec, other: StepSpec) -> bool:
    if one.tree != other.tree:
        return False
    return _overlap(one.write_set, (*other.write_set, *other.read_set)) or _overlap(one.read_set, other.write_set)


def _overlap(paths: Iterable[str], others: Iterable[str]) -> bool:
    """Whether a path of one is, or lies below, or lies above, a path of the other."""
    all_others = [_parts(other) for other in others]
    return any(
        mine[: len(theirs)] == theirs or theirs[: len(mine)] == mine
        for mine in map(_parts, paths)
        for theirs in all_others
    )


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _problems(spec: WorkflowSpec) -> Iterator[PlanProblem]:
    if not is_valid_id(spec.id):
        yield PlanProblem(f"{spec.id!r} is no id", "use letters, digits and _.:- in ids")
    if spec.max_concurrency < 1:
        yield PlanProblem(f"max_concurrency is {spec.max_concurrency}", "let at least one step run at a time")
    yield from _timeout_problems("the workflow", spec.timeout_ms)
    if not any(step.required for step in spec.steps):
        what = "no step is required" if spec.steps else "it has no steps"
        yield PlanProblem(what, "give it at least one required step, or nothing can complete it")
    counts = Counter(step.id for step in spec.steps)
    for step_id, count in counts.items():
        if count > 1:
            yield PlanProblem(f"{count} steps are called {step_id!r}", "give each step an id of its own")
    for step in spec.steps:
        yield from _step_problems(step, counts)
    for cycle in _cycles(spec.steps):
        yield PlanProblem(f"steps wait for each other: {' -> '.join(cycle)}", "remove one dependency of each circle")


def _step_problems(step: StepSpec, known: Mapping[StepId, int]) -> Iterator[PlanProblem]:
    name = f"step {step.id!r}"
    if not is_valid_id(step.id):
        yield PlanProblem(f"{step.id!r} is no id", "use letters, digits and _.:- in ids")
    yield from _work_problems(name, step)
    if step.timeout_ms is not None:
        yield from _timeout_problems(name, step.timeout_ms)
    for needed in dict.fromkeys(step.depends_on):
        if needed == step.id:
            yield PlanProblem(f"{name} depends on itself", "let a step depend on other steps only")
        elif needed not in known:
            yield PlanProblem(f"{name} depends on {needed!r}, which is no step", "name steps of the same workflow")
    for path in dict.fromkeys((*step.write_set, *step.read_set, *_output_paths(step))):
        if not path.strip() or path.startswith("/") or ".." in path.split("/") or not {"*", "?"}.isdisjoint(path):
            yield PlanProblem(
                f"{name} names the path {path!r}", "name files and folders relative to the workspace, without patterns"
            )


def _output_paths(step: StepSpec) -> tuple[str, ...]:
    return tuple(output.path for output in step.outputs if output.type in ("file", "json"))


def _work_problems(name: str, step: StepSpec) -> Iterator[PlanProblem]:
    given_work = (("task", step.task.strip()), ("run", step.run), ("gate", step.gate), ("each", step.each))
    kinds = [kind for kind, given in given_work if given]
    if not kinds:
        yield PlanProblem(f"{name} has no task", "say what each step is to do")
    if len(kinds) > 1:
        yield PlanProblem(f"{name} is {' and '.join(kinds)} at once", "make one step of each")
    yield from _gate_problems(name, step) if step.gate else _command_problems(name, step)


def _gate_problems(name: str, step: StepSpec) -> Iterator[PlanProblem]:
    if not step.gate.strip():
        yield PlanProblem(f"{name} asks nothing", "give each gate a question")
    if not 2 <= len(step.choices) == len(set(step.choices)):
        yield PlanProblem(f"{name} offers {list(step.choices)}", "give each gate two or more different choices")
    if step.on_timeout not in ON_TIMEOUT:
        yield PlanProblem(f"{name} has on_timeout {step.on_timeout!r}", f"use {' or '.join(ON_TIMEOUT)}")
    if step.on_timeout == GIVE_UP and step.timeout_ms is None:
        yield PlanProblem(f"{name} has on_timeout, and no timeout", "give it a timeout")
    if step.checks or step.outputs:
        yield PlanProblem(f"{name} is a gate with checks or outputs", "a person's answer is all that a gate proves")


def _command_problems(name: str, step: StepSpec) -> Iterator[PlanProblem]:
    for argv in (step.run, *step.checks):
        if argv and not argv[0].strip():
            yield PlanProblem(f"{name} runs a command without a name", "begin each command with a program")
    if not 1 <= step.rounds <= MAX_ROUNDS:
        yield PlanProblem(f"{name} has {step.rounds} rounds", f"give it 1 to {MAX_ROUNDS} rounds")
    if step.rounds > 1 and not (step.checks or step.outputs):
        yield PlanProblem(f"{name} has rounds, and nothing that could fail in one", "give it checks or outputs")
    if not 0 <= step.retries <= MAX_RETRIES or not set(step.retry_on) <= set(RETRY_CAUSES):
        yield PlanProblem(
            f"{name} has {step.retries} retries on {', '.join(step.retry_on)}",
            f"give it at most {MAX_RETRIES}, on {', '.join(RETRY_CAUSES)}",
        )
    if any(not argv for argv in step.checks):
        yield PlanProblem(f"{name} has an empty check", "begin each command with a program")
    for output in step.outputs:
        if output.type not in OUTPUT_TYPES:
            yield PlanProblem(f"{name} has an output of type {output.type!r}", f"use {', '.join(OUTPUT_TYPES)}")


def _timeout_problems(name: str, timeout_ms: int) -> Iterator[PlanProblem]:
    if not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
        yield PlanProblem(f"{name} has a timeout of {timeout_ms} ms", f"choose 1 to {MAX_TIMEOUT_MS} ms")


def in_order_of_dependency(steps: tuple[StepSpec, ...]) -> tuple[StepSpec, ...]:
    """Each step after all that it depends on. Steps in a circle, and those that wait for one, are left out."""
    by_id = {step.id: step for step in steps}
    waits_for = {step.id: _known_dependencies(step, by_id) for step in by_id.values()}
    unlocks: dict[StepId, list[StepId]] = {step_id: [] for step_id in by_id}
    for step_id, needed in waits_for.items():
        for one in needed:
            unlocks[one].append(step_id)
    left = {step_id: len(needed) for step_id, needed in waits_for.items()}
    order = [step_id for step_id, count in left.items() if count == 0]
    for step_id in order:  # It grows while it is read: each step joins once the last one before it was read.
        for follower in unlocks[step_id]:
            left[follower] -= 1
            if left[follower] == 0:
                order.append(follower)
    return tuple(by_id[step_id] for step_id in order)


def _known_dependencies(step: StepSpec, by_id: Mapping[StepId, StepSpec]) -> tuple[StepId, ...]:
    """Each once, without the step itself: that, and unknown ones, are problems of their own."""
    return tuple(dict.fromkeys(needed for needed in step.depends_on if needed in by_id and needed != step.id))


def _cycles(steps: tuple[StepSpec, ...]) -> Iterator[tuple[StepId, ...]]:
    """Name circles that share no step, at least one if there is any, each closed by the step that it began with.

    Every step that cannot be put in order depends on another such step, so walking along these must meet itself.
    """
    ordered = {step.id for step in in_order_of_dependency(steps)}
    stuck = {step.id: step for step in steps if step.id not in ordered}
    seen: set[StepId] = set()
    for start in stuck:
        path: list[StepId] = []
        at = start
        while at not in seen:
            seen.add(at)
            path.append(at)
            at = _known_dependencies(stuck[at], stuck)[0]
        if at in path:
            yield (*path[path.index(at) :], at)
