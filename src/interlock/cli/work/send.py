"""`interlock send`: a prompt for a session, kept durably, and with --wait its answer."""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypedDict

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.session_lines import find_task
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, ReconnectTimeoutOption, SessionArgument
from interlock.cli.server.waiting import started_api
from interlock.cli.wire.routes import task_path
from interlock.cli.work.prompt_wait import PromptAsked, WaitTimeouts, wait_for_prompt
from interlock.cli.work.retrying import act, give_until, new_id, not_known, read_words
from interlock.client.prompt_watch import places_ahead
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.wire.resources import PromptStanding, TaskDetail

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import PromptJson
    from interlock.monitor.observer.reply import Contract
    from interlock.vocabulary.events.registry import Json


SERVER_SECONDS = 60.0

WaitFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Wait for the end of the turn; print the answer.")]
TimeoutOption: TypeAlias = Annotated[
    float | None, Parameter(help="Give up after N seconds (exit 5). The turn keeps running.")
]
CancelFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Interrupt the turn when the time is up.")]
PastFlag: TypeAlias = Annotated[
    bool, Parameter(negative="", help="Keep waiting while a question is open; someone else will answer.")
]


def send(
    session: SessionArgument,
    prompt: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="What to do; - for standard input.")
    ] = None,
    /,
    *,
    wait: WaitFlag = False,
    timeout: TimeoutOption = None,
    cancel_on_timeout: CancelFlag = False,
    past_questions: PastFlag = False,
    reply_json: ReplyJsonOption = None,
    reply_sentinel: ReplySentinelFlag = False,
    reply_word: ReplyWordOption = "",
    prompt_id: Annotated[
        str, Parameter(help="The name of this prompt: the same name is the same prompt, and is sent once.")
    ] = "",
    reconnect_timeout: ReconnectTimeoutOption = SERVER_SECONDS,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Queue a prompt, durably; it is sent when the agent takes one. Prints the prompt's id.

    PROMPT may be - for standard input. With --wait, prints the answer instead, and nothing else; how it goes is told on
    standard error. Without PROMPT, --prompt-id waits for a prompt that was sent before.

    Exit codes with --wait: 0 completed; 1 failed, or the reply is not as asked for; 3 partial: what was kept is
    printed; 4 interrupted or taken back; 5 timed out; 6 blocked by a question; 7 not known; 8 unreachable.
    """
    _check(prompt, prompt_id, timeout, wait=wait)
    name = prompt_id or new_id("prm")
    reply = read_reply(name, reply_json, reply_word, is_marked=reply_sentinel, wait=wait)
    folder = home_folder(home)
    words = None if prompt is None else read_words(prompt, "the prompt")
    began, until = time.monotonic(), give_until(timeout)
    api = started_api(folder, timeout) if wait else ServerApi.of_home(folder)
    task_id = str(find_task(api, session)["task_id"])
    receipt = None
    if words is not None:
        try:
            receipt = submit(api, task_id, words, name, until, reply)
        except Unreachable as error:
            if time.monotonic() < until:
                raise
            output.error(str(error))
            return ExitCode.TIMED_OUT
    if not wait and receipt is not None:
        _tell_receipt(api, task_id, receipt, json=json)
        return 0
    limits = WaitTimeouts(
        timeout_seconds=timeout,
        spent_seconds=time.monotonic() - began,
        server_seconds=reconnect_timeout,
        cancel_on_timeout=cancel_on_timeout,
        past_questions=past_questions,
    )
    asked = PromptAsked(home=folder, task_id=task_id, prompt_id=PromptId(name), contract=contract_for(reply))
    return wait_for_prompt(asked, limits, json=json)


def _check(prompt: str | None, prompt_id: str, timeout: float | None, *, wait: bool) -> None:
    if prompt is None and not (prompt_id and wait):
        raise UsageError("there is no prompt", remedy="give one, or --prompt-id ID --wait for one that was sent")
    check_timeout(timeout)


def check_timeout(timeout: float | None) -> None:
    """Refuse what is no time to wait."""
    if timeout is not None and not 0 <= timeout < float("inf"):
        raise UsageError(f"--timeout {timeout:g} is no time to wait", remedy="give seconds, 0 or more")


def submit(
    api: ServerApi, task_id: str, text: str, prompt_id: str, until: float = math.inf, reply: ReplyForm | None = None
) -> PromptStanding:
    """Queue a prompt under its name, and return the receipt. `reply`: the form that its answer must have."""
    body = {"text": text} if reply is None else {"text": text, "reply": reply}
    try:
        path = f"{task_path(task_id)}/prompts"
        return act(api, PromptStanding, "POST", path, body, key=prompt_id, task_id=task_id, until=until)
    except Unreachable as error:
        raise not_known(error, f"repeat it with --prompt-id {prompt_id}") from error


def _tell_receipt(api: ServerApi, task_id: str, receipt: PromptStanding, *, json: bool) -> None:
    if json:
        told: PromptJson = {
            "session_id": task_id,
            "prompt_id": receipt.prompt_id,
            "state": receipt.state,
            "stage": receipt.stage,
        }
        output.print_json(told)
        return
    output.print_text(receipt.prompt_id)
    ahead = 0
    with suppress(Unreachable):  # the prompt is safe, and that is what was asked for
        ahead = places_ahead(receipt.prompt_id, api.read(TaskDetail, task_path(task_id)).queue)
    output.note(f"{receipt.state} in {task_id}{f', {ahead} ahead of it' if ahead else ''}")


# `--reply-json`, `--reply-sentinel` and `--reply-word`: the form that an answer must have, for `send` and `run`.

_MAX_SCHEMA_BYTES: Final = 1024 * 1024

ReplyJsonOption: TypeAlias = Annotated[
    Path | None, Parameter(help="A file with a JSON Schema that the answer must fit.")
]
ReplySentinelFlag: TypeAlias = Annotated[
    bool, Parameter(negative="", help="Ask for the answer between two marker lines, and print only that.")
]
ReplyWordOption: TypeAlias = Annotated[str, Parameter(help="The same, with your own word in the markers.")]


class ReplyForm(TypedDict, total=False):
    """The form that an answer must have, as the server is told of it: one of the two."""

    sentinel: str
    json_schema: Json


def read_reply(name: str, schema: Path | None, word: str, *, is_marked: bool, wait: bool) -> ReplyForm | None:
    """What the server is asked for; None for a prompt without a contract. `UsageError` before anything is sent.

    A sentinel without a word is made of the prompt's name: it is new each time.
    """
    if schema is None and not word and not is_marked:
        return None
    if not wait:
        raise UsageError("a reply is read from the answer", remedy="add --wait")
    if schema is not None and (word or is_marked):
        raise UsageError("there are two reply contracts", remedy="choose --reply-json or a sentinel")
    reply: ReplyForm = {"sentinel": word or name.replace(":", "-")[:80]}
    if schema is not None:
        reply = {"json_schema": _schema(schema)}
    contract_for(reply)
    return reply


def contract_for(reply: ReplyForm | None) -> Contract | None:
    """How to read the answer to a prompt with this contract."""
    if reply is None:
        return None
    from interlock.monitor.observer.reply import contract_of
    from interlock.vocabulary.events.audit import ReplyContract

    return contract_of(ReplyContract(**reply))


def _schema(path: Path) -> Json:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file with a JSON Schema") from error
    if len(raw) > _MAX_SCHEMA_BYTES:
        raise UsageError(f"{path} is larger than {_MAX_SCHEMA_BYTES} bytes", remedy="give a smaller schema")
    try:
        schema: Json = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}", remedy="give a JSON Schema") from error
    return schema
