"""`interlock run`: a new session with an agent, as the configuration says, perhaps with a first prompt."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, PatienceOption
from interlock.cli.work.control import start_agent
from interlock.cli.work.prompt_wait import PromptAsked, WaitTimeouts, wait_for_prompt
from interlock.cli.work.reply_options import (
    ReplyJsonOption,
    ReplySentinelFlag,
    ReplyWordOption,
    contract_for,
    read_reply,
)
from interlock.cli.work.retrying import act, give_until, new_id, not_known, read_words
from interlock.cli.work.send import SERVER_SECONDS, CancelFlag, PastFlag, TimeoutOption, WaitFlag, check_timeout
from interlock.client.shapes import OpenTask, TaskOpened
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.ids import PromptId


def run(
    agent: Annotated[str, Parameter(help="An agent of the configuration: claude, codex, gemini, and others.")],
    prompt: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="What to do first; - for standard input.")
    ] = None,
    /,
    *,
    tui: Annotated[bool, Parameter(negative="", help="In a terminal (tmux), where a person can attach.")] = False,
    stream: Annotated[bool, Parameter(negative="", help="By its JSON stream.")] = False,
    acp: Annotated[bool, Parameter(negative="", help="By the Agent Client Protocol.")] = False,
    model: Annotated[str, Parameter(help="The model; else as configured. AGENT `model` is a model API itself.")] = "",
    cwd: Annotated[Path | None, Parameter(help="The agent's folder; else as configured, or this one.")] = None,
    title: Annotated[str, Parameter(help="A title; sessions are found by its words, too.")] = "",
    wait: WaitFlag = False,
    timeout: TimeoutOption = None,
    cancel_on_timeout: CancelFlag = False,
    past_questions: PastFlag = False,
    reply_json: ReplyJsonOption = None,
    reply_sentinel: ReplySentinelFlag = False,
    reply_word: ReplyWordOption = "",
    no_up: Annotated[bool, Parameter(name="--no-up", negative="", help="Do not start a server if none runs.")] = False,
    patience: PatienceOption = SERVER_SECONDS,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Begin a session with an agent, send PROMPT if there is one, and print the session's id.

    With --wait, prints the answer as `interlock send --wait` does, with its exit codes; the id is told on standard
    error then. A server is started in the background if none runs.
    """
    check_timeout(timeout)
    if wait and prompt is None:
        raise UsageError("there is nothing to wait for", remedy="give a prompt, or leave --wait out")
    task_id = new_id("ses")
    reply = read_reply(task_id, reply_json, reply_word, is_marked=reply_sentinel, wait=wait)
    words = None if prompt is None else read_words(prompt, "the prompt")
    from interlock.client.opening import open_request

    mode = _mode(tui=tui, stream=stream, acp=acp)
    asks_for = open_request(agent, cwd=cwd, mode=mode, model=model, title=title)
    folder = home_folder(home)
    api = _server(folder, may_start=not no_up)
    began, until = time.monotonic(), give_until(timeout)
    contract = None if reply is None else ReplyContract(**reply)
    asks_for = msgspec.structs.replace(asks_for, prompt=words, reply=contract)
    try:
        opened = _open_session(api, task_id, asks_for, until)
    except Unreachable as error:
        if time.monotonic() < until:
            raise
        output.error(str(error))
        return ExitCode.TIMED_OUT
    task_id = opened.task_id  # as the server says: what it does not say is not there
    if not wait:
        return _tell(folder, task_id, opened, json=json)
    output.note(f"session {task_id}")
    limits = WaitTimeouts(
        timeout_seconds=timeout,
        spent_seconds=time.monotonic() - began,
        server_seconds=patience,
        cancel_on_timeout=cancel_on_timeout,
        past_questions=past_questions,
    )
    prompt_id = PromptId(str(opened.prompt_id))
    asked = PromptAsked(home=folder, task_id=task_id, prompt_id=prompt_id, contract=contract_for(reply))
    return wait_for_prompt(asked, limits, json=json)


def _mode(**given: bool) -> str:
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"--{' and --'.join(chosen)} exclude each other", remedy="choose one")
    return chosen[0] if chosen else ""


# Starting it


def _server(home: Path, *, may_start: bool) -> ServerApi:
    from interlock.cli.server.process import Presence, look_for_server, start_server

    if may_start and look_for_server(home).presence is not Presence.RUNS:
        try:
            start_server(home)
        except KeyboardInterrupt:
            output.note("no session was begun")
            raise
    return ServerApi.of_home(home)


def _open_session(api: ServerApi, task_id: str, asked: OpenTask, until: float) -> TaskOpened:
    try:
        return act(
            api, TaskOpened, "POST", "/api/tasks", msgspec.to_builtins(asked), key=task_id, task_id=task_id, until=until
        )
    except Unreachable as error:
        raise not_known(error, f"see `interlock show {task_id}` before you try again") from error


def _tell(home: Path, task_id: str, opened: TaskOpened, *, json: bool) -> int:
    """The id first: whatever becomes of the agent, the session is there."""
    if not json:
        output.print_text(task_id)
    if json:
        output.print_json(opened)
    output.flush()
    if opened.prompt_id is None:
        try:
            is_running = start_agent(home, task_id) is not None
        except InterlockError:
            output.note(f"the session {task_id} is there without an agent")
            raise
        if not is_running:
            output.note(f"the agent is not known to run yet; see `interlock show {task_id}`")
            return ExitCode.TIMED_OUT
    return ExitCode.COMPLETED
