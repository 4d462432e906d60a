"""`interlock why`: the verdict about a turn and its chain of evidence. The exit code is the turn's state.

Law: the last turn is explained by the server where one runs, which spares the command the log and its folds. What the
server cannot tell, or would tell of a damaged log, is read from the log: the words are the same, made by one function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli import output
from interlock.cli.children.family import code_of, why_lines, workflow_of
from interlock.cli.exit_codes import exit_code_for_turn
from interlock.cli.look.session_lines import find_task
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.wire.routes import task_why
from interlock.vocabulary.errors import InterlockError
from interlock.vocabulary.states import TurnState

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.vocabulary.wire.json_types import ExplainedTurnJson, WorkflowStandingJson


def why(
    session: options.SessionArgument,
    /,
    *,
    turn: str = "",
    at: options.MomentOption = "",
    home: options.HomeOption = None,
    json: options.JsonFlag = False,
) -> int:
    """Explain a turn, by default the one that began last. Of the session of a workflow: each step with its evidence.

    Exit code of a workflow: 0 completed; 3 partial; 1 failed; 5 timed out; 6 held; 4 stopped; 7 it runs.

    With --at only the log is asked, not who lives now: a turn that was open then is shown as open.

    Parameters
    ----------
    turn
        The turn's id, or its number, counted from 1.
    """
    known = None if turn or at else _found(session, home)
    workflow = None if known is None else _workflow(*known)
    if workflow is not None:
        return _explain_workflow(workflow, json=json)
    told = None if known is None or json else _asked(*known)
    if told is None or told["is_damaged"]:
        from interlock.cli.explain.why_log import why_by_log

        return why_by_log(session, turn=turn, at=at, home=home, json=json)
    output.print_text("\n".join(output.escape(line) for line in told["lines"]))
    state = told["state"]
    return exit_code_for_turn(None if state is None else TurnState(state))


def _found(session: str, home: Path | None) -> tuple[ServerApi, str] | None:
    """The session on a server; None: there is none, or it does not know it. Then the log is asked."""
    try:
        api = ServerApi.of_home(home_folder(home))
        return api, find_task(api, session)["task_id"]
    except InterlockError:
        return None


def _workflow(api: ServerApi, task_id: str) -> WorkflowStandingJson | None:
    """The workflow whose session this is, if it is one."""
    try:
        return workflow_of(api, task_id)
    except InterlockError:
        return None


def _explain_workflow(workflow: WorkflowStandingJson, *, json: bool) -> int:
    if json:
        told = {"session_id" if name == "task_id" else name: value for name, value in workflow.items()}
        output.print_json(told)
    else:
        output.print_text("\n".join(output.escape(line) for line in why_lines(workflow)))
    return code_of(workflow["status"], was_stopped=workflow["was_stopped"])


def _asked(api: ServerApi, task_id: str) -> ExplainedTurnJson | None:
    """What the server says; None where it does not know: then the log says why."""
    try:
        return api.get(task_why(task_id))
    except InterlockError:
        return None
