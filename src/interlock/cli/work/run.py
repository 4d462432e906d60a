"""`interlock run`: a new session with an agent, as the configuration says, perhaps with a first prompt."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.children.child import CHILD_SECONDS, open_child, tell_child, wait_for_child
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.session_names import offer_agents, offer_sessions
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, ReconnectTimeoutOption
from interlock.cli.work.control import start_agent
from interlock.cli.work.prompt_wait import PromptAsked, WaitTimeouts, wait_for_prompt
from interlock.cli.work.retrying import act, give_until, new_id, not_known, read_words
from interlock.cli.work.send import (
    SERVER_SECONDS,
    CancelFlag,
    PastFlag,
    ReplyJsonOption,
    ReplySentinelFlag,
    ReplyWordOption,
    TimeoutOption,
    WaitFlag,
    check_timeout,
    contract_for,
    read_reply,
)
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
from interlock.vocabulary.events.audit import ReplyContract
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.wire.resources import AskedWorktree, OpenTask, TaskOpened

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import OpenedSessionJson


def run(
    agent: Annotated[
        str,
        Parameter(help="An agent of the configuration: claude, codex, gemini, and others.", completer=offer_agents),
    ],
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
    title: Annotated[str, Parameter(help="A title; its words find the session.")] = "",
    worktree: Annotated[bool, Parameter(negative="", help="In a git worktree of its own, on a new branch.")] = False,
    worktree_name: Annotated[str | None, Parameter(help="The same, named: branch interlock/NAME.")] = None,
    base: Annotated[str | None, Parameter(help="Branch or commit it begins from; else what is checked out.")] = None,
    parent: Annotated[
        str, Parameter(help="Run it as a child of this session, which must give it a PROMPT.", completer=offer_sessions)
    ] = "",
    time_limit: Annotated[float, Parameter(help="For how many seconds a child may run.")] = CHILD_SECONDS,
    model_visible: Annotated[bool, Parameter(negative="", help="The parent's model sees how a child ended.")] = False,
    wait: WaitFlag = False,
    timeout: TimeoutOption = None,
    cancel_on_timeout: CancelFlag = False,
    past_questions: PastFlag = False,
    reply_json: ReplyJsonOption = None,
    reply_sentinel: ReplySentinelFlag = False,
    reply_word: ReplyWordOption = "",
    no_up: Annotated[bool, Parameter(name="--no-up", negative="", help="Do not start a server if none runs.")] = False,
    reconnect_timeout: ReconnectTimeoutOption = SERVER_SECONDS,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Begin a session with an agent, send PROMPT if there is one, and print the session's id.

    With --parent it is a child: shown by `ps --tree`, ended with its time, refused where its tree is full (exit 2).
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
    tree = _worktree(worktree_name, base, is_asked=worktree)
    asks_for = open_request(agent, cwd=cwd, mode=mode, model=model, title=title or worktree_name or "", worktree=tree)
    folder = home_folder(home)
    api = running_server(folder, may_start=not no_up)
    began, until = time.monotonic(), give_until(timeout)

    def limits() -> WaitTimeouts:
        """Those of the wait that begins now."""
        return WaitTimeouts(
            timeout_seconds=timeout,
            spent_seconds=time.monotonic() - began,
            server_seconds=reconnect_timeout,
            cancel_on_timeout=cancel_on_timeout,
            past_questions=past_questions,
        )

    if parent:
        _check_child(words, is_plain=tree is None and reply is None)
        task = msgspec.structs.replace(asks_for, prompt=words)
        child = open_child(api, parent, task, time_limit, until, is_shown=model_visible)
        if not wait:
            return tell_child(child, json=json)
        output.note(f"child {child.subagent_id}, session {child.task_id or 'not begun yet'}")
        return wait_for_child(api, folder, child, limits(), json=json)
    contract = None if reply is None else ReplyContract(**reply)
    asks_for = msgspec.structs.replace(asks_for, prompt=words, reply=contract)
    try:
        opened = _open_session(api, task_id, asks_for, until)
    except Unreachable as error:
        if time.monotonic() < until:
            raise
        output.error(str(error))
        return ExitCode.TIMED_OUT
    _tell_worktree(opened)
    task_id = opened.task_id  # as the server says: what it does not say is not there
    if not wait:
        return _tell(folder, task_id, opened, json=json)
    output.note(f"session {task_id}")
    prompt_id = PromptId(str(opened.prompt_id))
    asked = PromptAsked(home=folder, task_id=task_id, prompt_id=prompt_id, contract=contract_for(reply))
    return wait_for_prompt(asked, limits(), json=json)


def _check_child(words: str | None, *, is_plain: bool) -> None:
    if words is None:
        raise UsageError("a child needs a prompt: what it is to do", remedy="give one, or leave --parent out")
    if not is_plain:
        raise UsageError(
            "a child has no worktree and no reply form of its own", remedy="leave --worktree and --reply-... out"
        )


def _worktree(name: str | None, base: str | None, *, is_asked: bool) -> AskedWorktree | None:
    """A blank value is refused, and not taken for none: it is a variable that is not set, and the agent would work in
    the folder itself."""
    is_asked = is_asked or name is not None
    if base is not None and not is_asked:
        raise UsageError("--base is the base of a worktree", remedy="add --worktree, or leave it out")
    for option, value in (("--worktree-name", name), ("--base", base)):
        if value is not None and not value.strip():
            raise UsageError(f"{option} is blank", remedy="give a value, or leave the option out")
    return AskedWorktree(name=name or "", base=base or "") if is_asked else None


def _tell_worktree(opened: TaskOpened) -> None:
    tree = opened.worktree
    if tree is not None:
        output.note(f"worktree {tree.path}, branch {tree.branch}, from {tree.target or tree.base[:12]}")
    for one in opened.notes:
        output.note(one)


def _mode(**given: bool) -> str:
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"--{' and --'.join(chosen)} exclude each other", remedy="choose one")
    return chosen[0] if chosen else ""


# Starting it


def running_server(home: Path, *, may_start: bool = True) -> ServerApi:
    """The server of a home, started in the background if none runs."""
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
        told: OpenedSessionJson = {
            "session_id": opened.task_id,
            "is_new": opened.is_new,
            "prompt_id": opened.prompt_id,
            "worktree": None if opened.worktree is None else opened.worktree.path,
            "branch": None if opened.worktree is None else opened.worktree.branch,
        }
        output.print_json(told)
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
