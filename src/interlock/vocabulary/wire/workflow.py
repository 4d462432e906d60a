"""Workflows on the wire: what begins one, and how one stands."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from interlock.vocabulary.actions import NextAction
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.evidence import Moment
from interlock.vocabulary.ids import SessionIdField, StepId, SubagentId, WorkflowId
from interlock.vocabulary.states import StepState, WorkflowState
from interlock.vocabulary.wire.resources import OpenTask

Reason = Annotated[str, Meta(max_length=2_000)]


class BeginWorkflow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A plan to run in `folder`: the text of its file and the values of its parameters. `agents` says how to run each
    agent that a step names; the session of the workflow is one of the first of them."""

    plan: Annotated[str, Meta(max_length=262_144)]
    folder: Annotated[str, Meta(min_length=1, max_length=4_096)]
    agents: dict[str, OpenTask]
    params: dict[str, Json] = {}


class StepStanding(Struct, frozen=True, kw_only=True):
    """A step. `kind` is `prompt`, `run`, `gate`, or `each`: it stands for a step for each item, which follow. `proof`
    says what a ready step rests on: `checked`, `exit_code`, `decision`, `items`, or `claimed`, which is words alone.
    `question` and `choices` are a gate's.

    `round` of `rounds` is the one that its child is in, or was last; `attempt` counts what ran it. `worktree`, `branch`
    and `worktree_task_id`: the tree in which it works, or worked last, and the session that has it; blank: the folder
    of the workflow. `answer_by`: by when a gate is to be answered; `on_timeout`: what else becomes of it."""

    step_id: StepId
    kind: str
    state: StepState
    needs: tuple[StepId, ...]
    required: bool
    agent: str
    proof: str
    summary: str
    reason: str
    question: str
    choices: tuple[str, ...]
    checkpoint: Json
    subagent_id: SubagentId | None
    attempt: int
    round: int
    rounds: int
    worktree: str
    branch: str
    worktree_task_id: str
    answer_by: Moment | None
    on_timeout: str


class WorkflowStanding(Struct, frozen=True, kw_only=True):
    """A workflow, as the log of its session (`task_id`) has it. `is_owned`: this server runs it; where it does not, a
    workflow that is not over stands still. `was_stopped`: a person ended it.

    `cost_usd` and `tokens`: what its sessions reported that they used, null where none did; `unmetered`: those that
    reported nothing of what `max_cost_usd` or `max_tokens` limits, so that they are not held to it. Null and empty,
    too, where it has no such limit, or no server runs it."""

    workflow_id: WorkflowId
    task_id: SessionIdField
    name: str
    status: WorkflowState
    was_stopped: bool
    reason: str
    is_owned: bool
    folder: str
    digest: str
    params: Json
    ready: int
    held: int
    steps: tuple[StepStanding, ...]
    deadline_at: Moment | None
    next_actions: tuple[NextAction, ...]
    cost_usd: float | None
    tokens: int | None
    max_cost_usd: float | None
    max_tokens: int | None
    unmetered: tuple[SessionIdField, ...]


class WorkflowBegun(Struct, frozen=True, kw_only=True):
    """`is_new` is false where the same id had begun it before."""

    workflow: WorkflowStanding
    is_new: bool


class WorkflowPage(Struct, frozen=True, kw_only=True):
    """Workflows, oldest first."""

    items: tuple[WorkflowStanding, ...]


class DecideStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A decision about a workflow or one of its steps, and why."""

    reason: Reason


class AnswerStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to a gate: one of its choices."""

    choice: Annotated[str, Meta(min_length=1, max_length=200)]
    reason: Reason = ""
