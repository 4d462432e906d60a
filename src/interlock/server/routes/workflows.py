"""Workflows: runs of plans, step by step, each with what it has to show.

Law: a plan runs commands as the user does, so whoever begins one by HTTP is trusted as the user is: by the operator
token, and by no process of an agent or of a step, whatever token it has. Which plan *files* a person trusts is the
matter of `interlock plan run`, which reads them: the server never reads one.
"""

from __future__ import annotations

from typing import Any

from litestar import Request, get, post
from litestar.params import FromPath, JSONBody

from interlock.server.peer_process import connection_of
from interlock.server.routes.common import Key, Server, Who, WireResponse, read_key
from interlock.vocabulary.ids import StepId, WorkflowId
from interlock.vocabulary.wire.workflow import (
    AnswerStep,
    BeginWorkflow,
    DecideStep,
    WorkflowBegun,
    WorkflowPage,
    WorkflowStanding,
)


@post("/workflows", status_code=201)
async def begin_workflow(
    request: Request[Any, Any, Any], server: Server, who: Who, data: JSONBody[BeginWorkflow], key: Key = None
) -> WireResponse[WorkflowBegun]:
    """Begin a workflow. The key, if one is given, is its id: `wf_` and more. A plan that cannot run is refused with all
    of its problems (422)."""
    await server.workflows.refuse_agents(connection_of(request.scope))
    begun = await server.workflows.begin(data, key=read_key(key) or "", decided_by=who)
    return WireResponse(begun, status_code=201 if begun.is_new else 200)


@get("/workflows")
async def list_workflows(server: Server) -> WorkflowPage:
    """Every workflow, oldest first; 500 at most."""
    return WorkflowPage(items=await server.workflows.list())


@get("/workflows/{workflow_id:str}")
async def get_workflow(server: Server, workflow_id: FromPath[str]) -> WorkflowStanding:
    """How a workflow stands: its steps, what each has to show, and what is safe to do next."""
    return await server.workflows.get(WorkflowId(workflow_id))


@post("/workflows/{workflow_id:str}/stop", status_code=200)
async def stop_workflow(
    request: Request[Any, Any, Any],
    server: Server,
    who: Who,
    workflow_id: FromPath[str],
    data: JSONBody[DecideStep],
    key: Key = None,
) -> WorkflowStanding:
    """End a workflow with its children and commands."""
    read_key(key)
    await server.workflows.refuse_agents(connection_of(request.scope))
    return await server.workflows.stop(WorkflowId(workflow_id), data.reason, decided_by=who)


@post("/workflows/{workflow_id:str}/steps/{step_id:str}/release", status_code=200)
async def release_step(
    request: Request[Any, Any, Any],
    server: Server,
    who: Who,
    workflow_id: FromPath[str],
    step_id: FromPath[str],
    data: JSONBody[DecideStep],
    key: Key = None,
) -> WorkflowStanding:
    """Let a step that waits for a decision run again. The key is the decision's id: the same one again is done once."""
    await server.workflows.refuse_agents(connection_of(request.scope))
    return await server.workflows.release(
        WorkflowId(workflow_id), StepId(step_id), data.reason, decided_by=who, decision_id=read_key(key) or ""
    )


@post("/workflows/{workflow_id:str}/steps/{step_id:str}/give-up", status_code=200)
async def give_up_step(
    request: Request[Any, Any, Any],
    server: Server,
    who: Who,
    workflow_id: FromPath[str],
    step_id: FromPath[str],
    data: JSONBody[DecideStep],
    key: Key = None,
) -> WorkflowStanding:
    """Decide that a step that waits is not to run."""
    await server.workflows.refuse_agents(connection_of(request.scope))
    return await server.workflows.give_up(
        WorkflowId(workflow_id), StepId(step_id), data.reason, decided_by=who, decision_id=read_key(key) or ""
    )


@post("/workflows/{workflow_id:str}/steps/{step_id:str}/answer", status_code=200)
async def answer_step(
    request: Request[Any, Any, Any],
    server: Server,
    who: Who,
    workflow_id: FromPath[str],
    step_id: FromPath[str],
    data: JSONBody[AnswerStep],
    key: Key = None,
) -> WorkflowStanding:
    """Answer a gate with one of its choices; `stop` gives it up."""
    await server.workflows.refuse_agents(connection_of(request.scope))
    return await server.workflows.answer(
        WorkflowId(workflow_id), StepId(step_id), data.choice, data.reason, who, read_key(key) or ""
    )


ROUTES = (begin_workflow, list_workflows, get_workflow, stop_workflow, release_step, give_up_step, answer_step)
