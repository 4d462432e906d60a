"""`interlock queue`: the prompts that wait in a session: see them, change them, hold them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import quote

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, SessionArgument
from interlock.cli.tables import Column, plain, table
from interlock.cli.wire.routes import task_path
from interlock.cli.work.retrying import act, read_words
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.wire.frames import QueueView
from interlock.vocabulary.wire.resources import PromptStanding

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import PromptJson, QueueJson

_COLUMNS = (Column("#", is_number=True), Column("PROMPT", 16, gives=1), Column("TEXT", 20))

PromptArgument: TypeAlias = Annotated[
    str, Parameter(help="The prompt's id, the beginning of it, or its place in `queue ls`.")
]


def ls(session: SessionArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """List the prompts that wait, in the order in which they will be sent."""
    api, task_id = _open(session, home)
    queue = api.read(QueueView, f"{task_path(task_id)}/queue")
    if json:
        output.print_json(_told(task_id, queue))
        return 0
    if queue.waiting:
        rows = [plain((str(at), one.prompt_id, one.text)) for at, one in enumerate(queue.waiting, start=1)]
        output.print_painted(table(_COLUMNS, rows))
    else:
        output.note("nothing waits")
    if not queue.is_open:
        output.note(f"the queue is held back: {queue.gate_reason or 'no reason was given'}")
    if queue.waits_for:
        output.note(f"the next prompt waits: {queue.waits_for}")
    return 0


def edit(
    session: SessionArgument,
    prompt: PromptArgument,
    text: Annotated[str, Parameter(allow_leading_hyphen=True, help="Its new words; - for standard input.")],
    /,
    *,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Edit a queued prompt. Exit code 2: it does not wait any more."""
    words = read_words(text, "the prompt")
    api, task_id = _open(session, home)
    prompt_id = _waiting(api, task_id, prompt)
    path = f"{task_path(task_id)}/prompts/{quote(prompt_id, safe='')}"
    told = act(api, PromptStanding, "PATCH", path, {"text": words}, is_once=True, task_id=task_id)
    return _tell(task_id, told, "changed", json=json)


def rm(
    session: SessionArgument,
    prompt: PromptArgument,
    /,
    *,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Remove a queued prompt. Exit code 2: it does not wait any more."""
    api, task_id = _open(session, home)
    prompt_id = _waiting(api, task_id, prompt)
    path = f"{task_path(task_id)}/prompts/{quote(prompt_id, safe='')}"
    told = act(api, PromptStanding, "DELETE", path, is_once=True, task_id=task_id)
    return _tell(task_id, told, "taken back", json=json)


def hold(
    session: SessionArgument,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; shown until the queue is resumed.")] = "",
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Pause the queue. A turn that is open goes on; prompts are still accepted."""
    return _set_gate(session, home, is_open=False, reason=reason, json=json)


def go(session: SessionArgument, /, *, home: HomeOption = None, json: JsonFlag = False) -> int:
    """Resume the queue."""
    return _set_gate(session, home, is_open=True, reason="", json=json)


def _open(session: str, home: HomeOption) -> tuple[ServerApi, str]:
    api = ServerApi.of_home(home_folder(home))
    return api, find_task(api, session)["task_id"]


def _waiting(api: ServerApi, task_id: str, named: str) -> str:
    """The id of the prompt that is meant, among those that wait."""
    waiting = [one.prompt_id for one in api.read(QueueView, f"{task_path(task_id)}/queue").waiting]
    found = [one for one in waiting if one == named] or [one for one in waiting if named and one.startswith(named)]
    if not found and named.isascii() and named.isdigit() and 0 < int(named) <= len(waiting):
        found = [waiting[int(named) - 1]]
    if len(found) == 1:
        return found[0]
    what = f"{named!r} may mean {len(found)} prompts" if found else f"no prompt {named!r} waits in {task_id}"
    raise UsageError(what, remedy=f"see `interlock queue ls {task_id}`")


def _tell(task_id: str, told: PromptStanding, done: str, *, json: bool) -> int:
    if json:
        answer: PromptJson = {
            "session_id": task_id,
            "prompt_id": told.prompt_id,
            "state": told.state,
            "stage": told.stage,
        }
        output.print_json(answer)
    else:
        output.print_text(f"{told.prompt_id}  {done}")
    return 0


def _told(task_id: str, queue: QueueView) -> QueueJson:
    return {
        "session_id": task_id,
        "waiting": msgspec.to_builtins(queue.waiting),
        "is_open": queue.is_open,
        "gate_reason": queue.gate_reason,
        "waits_for": queue.waits_for,
    }


def _set_gate(session: str, home: HomeOption, *, is_open: bool, reason: str, json: bool) -> int:
    api, task_id = _open(session, home)
    body = {"is_open": is_open, "reason": reason}
    queue = act(api, QueueView, "PUT", f"{task_path(task_id)}/queue/gate", body, is_once=True, task_id=task_id)
    if json:
        output.print_json(_told(task_id, queue))
        return 0
    output.print_text(f"{task_id}  {'open' if queue.is_open else 'held back'}, {len(queue.waiting)} waiting")
    return 0
