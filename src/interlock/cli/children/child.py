"""`interlock run --parent`: a child of a session, supervised by the server and recorded in its parent's log."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, ServerRefusal
from interlock.cli.wire.routes import task_path
from interlock.cli.work.prompt_wait import PromptAsked, WaitTimeouts, wait_for_prompt
from interlock.cli.work.retrying import act, new_id, not_known
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.states import SubagentState
from interlock.vocabulary.wire.resources import ChildOpened, ChildPage, ChildStanding, OpenChild, OpenTask

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import OpenedChildJson

CHILD_SECONDS: Final = 3_600.0
_LOOK_SECONDS: Final = 0.2
_CODES: Final = {
    SubagentState.COMPLETED: ExitCode.COMPLETED,
    SubagentState.TIMED_OUT: ExitCode.TIMED_OUT,
    SubagentState.INTERRUPTED: ExitCode.INTERRUPTED,
    SubagentState.DETACHED: ExitCode.UNKNOWN,
}


def open_child(
    api: ServerApi, parent: str, task: OpenTask, limit: float, until: float, *, is_shown: bool
) -> ChildStanding:
    """Begin a child of a session. `limit`: for how many seconds it may run. `is_shown`: to its parent's model."""
    parent_id = str(find_task(api, parent)["task_id"])
    asked = OpenChild(task=task, timeout_seconds=limit, model_visible=is_shown)
    key, path = new_id("sub"), f"{task_path(parent_id)}/children"
    try:
        opened = act(
            api, ChildOpened, "POST", path, msgspec.to_builtins(asked), key=key, task_id=parent_id, until=until
        )
    except Unreachable as error:
        raise not_known(error, f"see `interlock ps --tree {parent_id}` before you try again") from error
    return opened.child


def tell_child(child: ChildStanding, *, json: bool) -> int:
    """Print the id of its session, or of the child itself while it waits for a place."""
    if json:
        told: OpenedChildJson = {
            "subagent_id": child.subagent_id,
            "session_id": child.task_id,
            "parent_id": child.parent_id,
            "status": child.status,
        }
        output.print_json(told)
    else:
        output.print_text(child.task_id or child.subagent_id)
    if child.task_id is None and child.status is SubagentState.QUEUED:
        output.note(f"{child.subagent_id} waits for a place among the children of {child.parent_id}")
    return ExitCode.FAILED if child.status is SubagentState.FAILED else ExitCode.COMPLETED


def wait_for_child(api: ServerApi, home: Path, child: ChildStanding, limits: WaitTimeouts, *, json: bool) -> int:
    """Wait until it has a session and its prompt is there, then for the end of its turn."""
    began, until = time.monotonic(), limits.timeout_seconds
    prompt_id = PromptId(f"{child.subagent_id}.1")
    while _is_to_begin(api, child, prompt_id):
        if until is not None and time.monotonic() - began + limits.spent_seconds >= until:
            waits_for = "a place" if child.task_id is None else "its prompt"
            output.error(f"{child.subagent_id} still waits for {waits_for}; it goes on")
            return ExitCode.TIMED_OUT
        time.sleep(_LOOK_SECONDS)
        page = api.read(ChildPage, f"{task_path(child.parent_id)}/children")
        child = next(one for one in page.items if one.subagent_id == child.subagent_id)
    if child.task_id is None:
        output.error(f"{child.subagent_id} is {child.status.value}: {child.summary or child.reason}")
        return _CODES.get(child.status, ExitCode.FAILED)
    spent = limits.spent_seconds + time.monotonic() - began
    asked = PromptAsked(home=home, task_id=child.task_id, prompt_id=prompt_id, contract=None)
    return wait_for_prompt(asked, replace(limits, spent_seconds=spent), json=json)


def _is_to_begin(api: ServerApi, child: ChildStanding, prompt_id: PromptId) -> bool:
    """Whether its prompt is still to come: a queue without it would be read as one that it was taken from."""
    if child.task_id is None:
        return child.status is SubagentState.QUEUED
    if child.status is not SubagentState.RUNNING:
        return False
    try:
        api.ask_raw("GET", f"{task_path(child.task_id)}/prompts/{prompt_id}")
    except ServerRefusal as refusal:
        if refusal.code == "not_found":
            return True
        raise
    return False
