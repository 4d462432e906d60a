"""Waiting for the turn of a prompt, and telling how it ended: the shell of `send --wait` and `run --wait`.

Laws:
1. Standard output gets the answer and nothing else: of a turn that completed, or what was kept of one that failed,
   which is called partial on standard error. Of any other turn it gets nothing.
2. The exit code is how the turn ended, by its record. A turn that completed without words is completed, and that there
   are none is said. A reply that was asked for is read from verified words, or the code is that of a failure.
3. Neither a timeout nor Ctrl-C touches the turn, unless that was asked for; both say how to come back.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode, exit_code_for_turn
from interlock.cli.look.log_trouble import telling_log_trouble
from interlock.cli.look.session_lines import shown_of
from interlock.cli.look.show import asked_lines, commands
from interlock.cli.server.api import ServerApi, SocketFrame
from interlock.cli.wire.routes import PAGE, task_path
from interlock.cli.work.changes import SessionChanges, TimeUp
from interlock.cli.work.retrying import act
from interlock.client.outcome import TurnText, turn_text
from interlock.client.prompt_watch import (
    PromptEnding,
    PromptLook,
    PromptOutcome,
    Watch,
    is_queued,
    places_ahead,
    step,
    turn_in,
)
from interlock.lifecycle.turns import TurnRecord
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.ending_words import repeats
from interlock.vocabulary.errors import InterlockError, Unreachable, UsageError
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.frames import Message, Role
from interlock.vocabulary.wire.resources import Cancelled, Page, PromptStanding, TaskDetail

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import AwaitedPromptJson
    from interlock.monitor.observer.reply import Contract, Reply
    from interlock.vocabulary.wire.json_types import MessageJson

# Proven by the terminal, which is no transcript: what it shows is for people to read.
_WORDLESS: Final = """\
completed; no channel gives its words: look at the agent's terminal
  interlock debug screen {0}
  interlock attach {0}"""
_UNREADABLE: Final = """\
unknown: no profile fits the agent's screen, so it is not known whether it takes a prompt; this one stays queued
  interlock debug screen {0}                     what the agent shows
  interlock queue rm {0} {1}     take the prompt back"""
_KEPT: Final = (TurnState.COMPLETED, TurnState.PARTIAL_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTimeouts:
    """For how long to wait (None: until the end), how much of that is over, and what to do then."""

    timeout_seconds: float | None = None
    spent_seconds: float = 0.0
    server_seconds: float = 60.0
    cancel_on_timeout: bool = False
    past_questions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAsked:
    """The prompt that is waited for."""

    home: Path
    task_id: str
    prompt_id: PromptId
    contract: Contract | None = None

    @property
    def api(self) -> ServerApi:
        """The server, wherever it listens now."""
        return ServerApi.of_home(self.home)


def wait_for_prompt(asked: PromptAsked, patience: WaitTimeouts, *, json: bool) -> int:
    """Wait until there is nothing more to wait for, print the answer, and return the exit code."""
    try:
        with telling_log_trouble(asked.home, "waiting"):
            outcome = _await(asked, patience)
    except TimeUp:
        return _give_up(asked, patience, json=json)
    except KeyboardInterrupt:
        output.note(f"no longer waiting; the prompt is not taken back. {_comeback(asked)}")
        raise
    except Unreachable:
        output.note(f"how the turn ended is not known. {_comeback(asked)}")
        raise
    return _tell(asked, outcome, json=json)


def _comeback(asked: PromptAsked) -> str:
    return (
        f"Come back with\n  interlock wait {asked.task_id} --until done\n"
        f"  interlock send {asked.task_id} --prompt-id {asked.prompt_id} --wait     for its answer"
    )


# Waiting


def _await(asked: PromptAsked, patience: WaitTimeouts) -> PromptOutcome:
    timeout = patience.timeout_seconds
    deadline = None if timeout is None else time.monotonic() + max(0.0, timeout - patience.spent_seconds)
    changes = SessionChanges(asked.home, [asked.task_id], patience_seconds=patience.server_seconds)
    watch = Watch(prompt_id=asked.prompt_id, past_questions=patience.past_questions)
    told, turn_id = "", None
    for heard in changes.looks(deadline):
        turn_id = turn_id or _turn_told(heard[asked.task_id], asked.prompt_id)
        look = _look(asked, turn_id)
        if look is None:
            continue  # the server is away; whoever hears the room waits for it
        watch, outcome = step(watch, look, time.monotonic())
        if outcome is not None:
            return outcome
        turn_id = turn_id or (None if look.turn is None else look.turn.turn_id)
        if watch.look_again_seconds is not None:
            changes.hurry()
        told = _tell_progress(asked, look, told)
    raise AssertionError("looks end by an error only")


def _turn_told(heard: Iterable[SocketFrame], prompt_id: PromptId) -> TurnId | None:
    """The turn of the prompt, if one of these frames names it."""
    for frame in heard:
        told: list[MessageJson] = []
        if frame.data["type"] == "chat:message":
            told = [frame.data["message"]]
        elif frame.data["type"] == "task:joined":
            told = frame.data["snapshot"]["messages"]
        found = turn_in([msgspec.convert(one, Message) for one in told], prompt_id)
        if found is not None:
            return found
    return None


def _look(asked: PromptAsked, turn_id: TurnId | None) -> PromptLook | None:
    """Ask how the session and the turn stand; the session first, see `prompt_watch`."""
    try:
        api, path = asked.api, task_path(asked.task_id)
        detail = api.read(TaskDetail, path)
        if turn_id is None and not is_queued(asked.prompt_id, detail.queue):
            turn_id = next((one for page in _pages(asked) if (one := turn_in(page, asked.prompt_id))), None)
        turn = None if turn_id is None else api.read(TurnRecord, f"{path}/turns/{turn_id}")
        return PromptLook(detail=detail, turn=turn)
    except Unreachable:
        return None


def _pages(asked: PromptAsked) -> Iterator[tuple[Message, ...]]:
    """The transcript backwards, page by page."""
    before: str | None = None
    while True:
        page = asked.api.read(Page[Message], f"{task_path(asked.task_id)}/messages", before=before, limit=PAGE)
        yield page.items
        before = page.next
        if before is None:
            return


def _tell_progress(asked: PromptAsked, look: PromptLook, told: str) -> str:
    """A line on standard error for each change of what is waited for."""
    queue, shown = look.detail.queue, shown_of(msgspec.to_builtins(look.summary)).words
    ahead = places_ahead(asked.prompt_id, queue)
    if queue.waits_for and not ahead:
        said = f"queued, {queue.waits_for}"
    elif look.turn is not None:
        said = shown
    else:
        said = f"queued, {ahead} ahead of it" if ahead else f"queued, the agent is {shown}"
    if said != told:
        output.note(f"{asked.task_id}: {said}")
    return said


def _give_up(asked: PromptAsked, patience: WaitTimeouts, *, json: bool) -> int:
    cancelled = _cancel(asked) if patience.cancel_on_timeout else None
    output.note(f"after {patience.timeout_seconds:g} s there is no end to wait for yet")
    if cancelled is None:
        output.note(f"only the waiting was stopped: the turn goes on. {_comeback(asked)}")
    else:
        output.note(cancelled)
    if json:
        output.print_json(_timed_out(asked, is_cancelled=cancelled is not None))
    return ExitCode.TIMED_OUT


def _cancel(asked: PromptAsked) -> str:
    """End the turn, or take the prompt back. What it says is for a person."""
    try:
        try:
            return _cancel_now(asked)
        except UsageError:  # it was sent while it was being taken back: now there is a turn
            return _cancel_now(asked)
    except InterlockError as error:
        return f"the turn could not be cancelled: {error}"


def _cancel_now(asked: PromptAsked) -> str:
    path, look = task_path(asked.task_id), _look(asked, None)
    if look is None or look.turn is None:
        act(
            asked.api,
            PromptStanding,
            "DELETE",
            f"{path}/prompts/{asked.prompt_id}",
            is_once=True,
            task_id=asked.task_id,
        )
        return "the prompt was taken back before it was sent"
    body = {"turn_id": look.turn.turn_id}
    done = act(asked.api, Cancelled, "POST", f"{path}/cancel", body, is_once=True, task_id=asked.task_id)
    return "the agent was asked to stop" if done.delivered else f"the agent was not reached: {done.problem}"


# Telling


def _timed_out(asked: PromptAsked, *, is_cancelled: bool) -> AwaitedPromptJson:
    return {
        "session_id": asked.task_id,
        "prompt_id": asked.prompt_id,
        "ending": "timeout",
        "turn_id": None,
        "state": None,
        "error_kind": "",
        "error_message": "",
        "answer": None,
        "reply": None,
        "reply_problem": "",
        "approvals": [],
        "is_cancelled": is_cancelled,
    }


def exit_code_of(outcome: PromptOutcome) -> ExitCode:
    """The number that says what became of a prompt."""
    match outcome.ending:
        case PromptEnding.ENDED:
            return exit_code_for_turn(outcome.turn_state)
        case PromptEnding.TAKEN_BACK:
            return ExitCode.INTERRUPTED
        case PromptEnding.BLOCKED | PromptEnding.HELD:
            return ExitCode.FAILED if outcome.look.is_broken else ExitCode.BLOCKED
        case PromptEnding.UNKNOWN | PromptEnding.UNREADABLE:
            return ExitCode.UNKNOWN


def _tell(asked: PromptAsked, outcome: PromptOutcome, *, json: bool) -> int:
    answer, code = _answer(asked, outcome), exit_code_of(outcome)
    reply, problem = _read_reply(asked, outcome, answer)
    if json:
        output.print_json(_told(asked, outcome, answer, reply, problem))
    elif reply is not None:
        output.print_text(reply.text)
    elif answer is not None and not problem:
        output.print_text(answer.text)
    _explain(asked, outcome, answer)
    if problem:
        output.error(problem)
    return ExitCode.FAILED if problem and code is ExitCode.COMPLETED else code


def _answer(asked: PromptAsked, outcome: PromptOutcome) -> TurnText | None:
    """The text of the turn, if it left one that may be printed."""
    turn, found = outcome.look.turn, list[Message]()
    if turn is None or outcome.ending is not PromptEnding.ENDED or turn.state not in _KEPT:
        return None
    for page in _pages(asked):
        mine = [one for one in page if one.turn_id == turn.turn_id]
        found = [*mine, *found]
        if any(one.role is Role.USER for one in mine):
            break
    return turn_text(turn.turn_id, found, is_completed=turn.state is TurnState.COMPLETED)


def _read_reply(asked: PromptAsked, outcome: PromptOutcome, answer: TurnText | None) -> tuple[Reply | None, str]:
    """The reply that was asked for, or why there is none. Of a turn that did not complete none is read."""
    if asked.contract is None or outcome.turn_state is not TurnState.COMPLETED:
        return None, ""
    if answer is None:
        return None, "no reply was read: the turn completed, and no channel gives its words"
    if not answer.is_verified:
        return None, "no reply was read: the words were read off a screen, where they may be cut or not be the agent's"
    from interlock.monitor.observer.reply import NoReply

    try:
        return asked.contract.read(answer.text), ""
    except NoReply as wrong:
        where = f"see the answer with `interlock logs {asked.task_id} --last 2`"
        return None, f"{wrong}; {where}"


def _told(
    asked: PromptAsked, outcome: PromptOutcome, answer: TurnText | None, reply: Reply | None, problem: str
) -> AwaitedPromptJson:
    turn, is_blocked = outcome.look.turn, outcome.ending is PromptEnding.BLOCKED
    return {
        "session_id": asked.task_id,
        "prompt_id": asked.prompt_id,
        "ending": outcome.ending.value,
        "turn_id": None if turn is None else turn.turn_id,
        "state": outcome.turn_state,
        "error_kind": "" if turn is None else turn.error_kind,
        "error_message": "" if turn is None else turn.error_message,
        "answer": msgspec.to_builtins(answer),
        "reply": None if reply is None else (reply.text if reply.value is None else reply.value),
        "reply_problem": problem,
        "approvals": msgspec.to_builtins(outcome.look.detail.approvals) if is_blocked else [],
        "is_cancelled": False,
    }


def _explain(asked: PromptAsked, outcome: PromptOutcome, answer: TurnText | None) -> None:
    """Everything but the answer, on standard error."""
    match outcome.ending:
        case PromptEnding.BLOCKED | PromptEnding.HELD:
            tell_questions(asked.task_id, outcome.look.detail)
        case PromptEnding.TAKEN_BACK:
            output.note("the prompt was taken back before it was sent: there is no turn")
        case PromptEnding.UNKNOWN:
            output.note(f"no server runs the session: nothing is known\n  interlock start {asked.task_id}")
        case PromptEnding.UNREADABLE:
            output.note(_UNREADABLE.format(asked.task_id, asked.prompt_id))
        case PromptEnding.ENDED:
            assert outcome.look.turn is not None, "it ended by its record"
            _explain_end(asked, outcome.look.turn, answer)


def _explain_end(asked: PromptAsked, turn: TurnRecord, answer: TurnText | None) -> None:
    what = ": ".join(one for one in (turn.error_kind, turn.error_message) if not repeats(turn.state, one))
    if turn.state is TurnState.COMPLETED:
        if answer is None:
            output.note(_WORDLESS.format(asked.task_id))
        elif not answer.is_verified:
            output.note("unverified: this text was read off a screen")
        return
    label = turn.state.value if answer is None else answer.label or "partial"
    output.note(f"{label}{f' ({what})' if what else ''}\n  interlock why {asked.task_id}     shows the evidence")
    why = f"interlock why {asked.task_id}"
    for line in advice_lines(((one.kind, one.command) for one in turn.next_actions), asked.task_id):
        if not line.startswith(why):
            output.note(f"  {line}")


def tell_questions(task_id: str, detail: TaskDetail) -> None:
    """What a session waits for a person for, with the commands that help, on standard error."""
    asked, queue = [msgspec.to_builtins(one) for one in detail.approvals], detail.queue
    output.note(f"blocked: {task_id} waits for a person")
    for approval in asked:
        for asked_line in asked_lines(approval):
            output.note("".join(text for text, _ in asked_line))
        for line in commands(approval, is_only=len(asked) == 1):
            output.note(f"    {line}")
    if queue.waiting and not queue.is_open:
        output.note(f"  the queue is held back: {queue.gate_reason or 'no reason was given'}")
        output.note(f"    interlock queue resume {task_id}")
    elif not asked:
        output.note(f"  interlock show {task_id}     tells more")
