"""`interlock send`: a prompt for a session, kept durably, and with --wait its answer."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.acting import act, give_until, new_id, not_known, read_words
from interlock.cli.exit_codes import ExitCode
from interlock.cli.prompt_wait import Asked, Patience, wait_for_prompt
from interlock.cli.prompt_watch import places_ahead
from interlock.cli.replies import Contract, json_contract, sentinel_contract
from interlock.cli.server_api import Body, ServerApi, home_folder
from interlock.cli.server_options import HomeOption, JsonFlag, PatienceOption, SessionArgument
from interlock.cli.task_lines import find_task, task_path
from interlock.vocabulary.errors import Unreachable, UsageError

SERVER_SECONDS = 60.0
_MAX_SCHEMA_BYTES = 1024 * 1024

WaitFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="Wait for the end of the turn; print the answer.")]
TimeoutOption: TypeAlias = Annotated[
    float | None, Parameter(help="Stop waiting after so many seconds. The turn goes on: exit code 5.")
]
CancelFlag: TypeAlias = Annotated[bool, Parameter(negative="", help="When the time is up, end the turn, too.")]
PastFlag: TypeAlias = Annotated[
    bool, Parameter(negative="", help="Go on waiting while a question is open: somebody else answers it.")
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
    reply_json: Annotated[Path | None, Parameter(help="A file with a JSON Schema that the answer must fit.")] = None,
    reply_sentinel: Annotated[
        bool, Parameter(negative="", help="Have the answer between two marked lines, and print what is there.")
    ] = False,
    reply_word: Annotated[str, Parameter(help="The same, with a word of yours in the marks.")] = "",
    prompt_id: Annotated[
        str, Parameter(help="The name of this prompt: the same name is the same prompt, and is sent once.")
    ] = "",
    patience: PatienceOption = SERVER_SECONDS,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Queue a prompt, durably; it is sent when the agent takes one. Prints the prompt's id.

    PROMPT may be - for standard input. With --wait, prints the answer instead, and nothing else; how it goes is told on
    standard error. Without PROMPT, --prompt-id waits for one that was sent before.

    Exit codes with --wait: 0 completed; 1 failed, or the reply is not as asked for; 3 partial: what was kept is
    printed; 4 interrupted or taken back; 5 timed out; 6 blocked by a question; 7 not known; 8 unreachable.
    """
    _check(prompt, prompt_id, timeout, wait=wait, has_contract=bool(reply_json or reply_sentinel or reply_word))
    name = prompt_id or new_id("prm")
    contract = read_contract(name, reply_json, reply_word, is_marked=reply_sentinel)
    folder = home_folder(home)
    words = None if prompt is None else read_words(prompt, "the prompt")
    api, began, until = ServerApi.of_home(folder), time.monotonic(), give_until(timeout)
    task_id = str(find_task(api, session)["task_id"])
    receipt = None
    if words is not None:
        try:
            receipt = submit(api, task_id, words if contract is None else contract.added_to(words), name, until)
        except Unreachable as error:
            if time.monotonic() < until:
                raise
            output.error(str(error))
            return ExitCode.TIMED_OUT
    if not wait:
        _tell_receipt(api, task_id, receipt or {}, json=json)
        return 0
    limits = Patience(
        timeout_seconds=timeout,
        spent_seconds=time.monotonic() - began,
        server_seconds=patience,
        cancel_on_timeout=cancel_on_timeout,
        past_questions=past_questions,
    )
    asked = Asked(home=folder, task_id=task_id, prompt_id=name, contract=contract)
    return wait_for_prompt(asked, limits, json=json)


def _check(prompt: str | None, prompt_id: str, timeout: float | None, *, wait: bool, has_contract: bool) -> None:
    if prompt is None and not (prompt_id and wait):
        raise UsageError("there is no prompt", remedy="give one, or --prompt-id ID --wait for one that was sent")
    if has_contract and not wait:
        raise UsageError("a reply is read from the answer", remedy="add --wait")
    check_timeout(timeout)


def check_timeout(timeout: float | None) -> None:
    """Refuse what is no time to wait."""
    if timeout is not None and not 0 <= timeout < float("inf"):
        raise UsageError(f"--timeout {timeout:g} is no time to wait", remedy="give seconds, 0 or more")


def read_contract(name: str, schema: Path | None, word: str, *, is_marked: bool) -> Contract | None:
    """What the answer must look like. A sentinel without a word is made of the prompt's id: it is new each time."""
    if schema is not None and (word or is_marked):
        raise UsageError("there are two reply contracts", remedy="choose --reply-json or a sentinel")
    if schema is not None:
        return json_contract(_schema_text(schema), str(schema))
    return sentinel_contract(word or name.replace(":", "-")[:80]) if word or is_marked else None


def _schema_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file with a JSON Schema") from error
    if len(raw) > _MAX_SCHEMA_BYTES:
        raise UsageError(f"{path} is larger than {_MAX_SCHEMA_BYTES} bytes", remedy="give a smaller schema")
    return raw.decode("utf-8", "replace")


def submit(api: ServerApi, task_id: str, text: str, prompt_id: str, until: float = math.inf) -> Body:
    """Queue a prompt under its name, and return the receipt."""
    body = {"text": text}
    try:
        return act(api, "POST", f"{task_path(task_id)}/prompts", body, key=prompt_id, task_id=task_id, until=until)
    except Unreachable as error:
        raise not_known(error, f"repeat it with --prompt-id {prompt_id}") from error


def _tell_receipt(api: ServerApi, task_id: str, receipt: Body, *, json: bool) -> None:
    if json:
        output.print_json({"task_id": task_id, **receipt})
        return
    output.print_text(str(receipt["prompt_id"]))
    ahead = 0
    with suppress(Unreachable):  # the prompt is safe, and that is what was asked for
        ahead = places_ahead(str(receipt["prompt_id"]), api.get(task_path(task_id)))
    output.note(f"{receipt['state']} in {task_id}{f', {ahead} ahead of it' if ahead else ''}")
