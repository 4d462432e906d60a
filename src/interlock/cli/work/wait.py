"""`interlock wait`: until sessions are as somebody wants them, or cannot be."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from interlock.cli import output
from interlock.cli.exit_codes import ExitCode
from interlock.cli.look.log_trouble import LogTrouble, telling_log_trouble
from interlock.cli.look.session_lines import find_task
from interlock.cli.look.session_names import offer_sessions
from interlock.cli.server.api import ServerApi, home_folder
from interlock.cli.server.options import HomeOption, JsonFlag, ReconnectTimeoutOption
from interlock.cli.server.waiting import started_api
from interlock.cli.wire.routes import task_path
from interlock.cli.work.changes import SessionChanges, TimeUp
from interlock.cli.work.prompt_wait import tell_questions
from interlock.cli.work.send import SERVER_SECONDS, PastFlag, TimeoutOption, check_timeout
from interlock.cli.work.until import Until, WaitVerdict, judge, parse_until, words_for
from interlock.client.prompt_watch import PromptLook
from interlock.lifecycle.turns import TurnRecord
from interlock.vocabulary.errors import Unreachable, UsageError
from interlock.vocabulary.states import Attention
from interlock.vocabulary.wire.resources import TaskDetail

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import WaitedSessionJson

# A server that begins takes up its sessions one by one: until then, nobody runs them. An agent may get over its error.
_GRACE_SECONDS: Final = 5.0


def wait(
    *sessions: Annotated[
        str,
        Parameter(
            help="Session ids, beginnings or ends of them, or beginnings of words of their titles.",
            completer=offer_sessions,
        ),
    ],
    until: Annotated[
        str, Parameter(help="ready, done, blocked, idle, gone, or status:STATUS (also status:stalled and the like).")
    ] = "done",
    either: Annotated[bool, Parameter(name="--any", negative="", help="Return when one session is there.")] = False,
    every: Annotated[bool, Parameter(name="--all", negative="", help="Return when all are there (default).")] = False,
    timeout: TimeoutOption = None,
    past_questions: PastFlag = False,
    reconnect_timeout: ReconnectTimeoutOption = SERVER_SECONDS,
    home: HomeOption = None,
    json: JsonFlag = False,
) -> int:
    """Wait until sessions are ready for a prompt, done, blocked by a question, idle or gone. True at once if it is so.

    Exit code 0: it is so. With --until done the code is how the last turn ended: 0 completed, 1 failed, 3 partial,
    4 interrupted, 5 timed out. Otherwise 5: timeout; 6: waiting for a human; 7: no process; 1: archived;
    8: server unreachable. Of several codes it is the first that is not 0. While the server
    cannot write its log, that is told, and the waiting goes on.
    """
    wanted = parse_until(until)
    check_timeout(timeout)
    if not sessions:
        raise UsageError("there is no session to wait for", remedy="name one: `interlock ps` lists them")
    if either and every:
        raise UsageError("--any and --all exclude each other", remedy="leave one out")
    folder = home_folder(home)
    api = started_api(folder, timeout)
    task_ids = list(dict.fromkeys(find_task(api, session)["task_id"] for session in sessions))
    waiting = _Waiting(folder, task_ids, wanted, is_any=either, past_questions=past_questions, json=json)
    with telling_log_trouble(folder, "waiting") as trouble:
        try:
            waiting.run(timeout, reconnect_timeout)
        except TimeUp:
            output.note(f"after {timeout:g} s it is not {until} yet; nothing was changed")
            waiting.tell_open(trouble)
            return ExitCode.TIMED_OUT
        except KeyboardInterrupt:
            output.note("no longer waiting; nothing was changed")
            raise
    return waiting.code


class _Waiting:
    """The sessions that are waited for, and what was found of each."""

    def __init__(
        self, home: Path, task_ids: Sequence[str], until: Until, *, is_any: bool, past_questions: bool, json: bool
    ) -> None:
        self._home = home
        self._task_ids = tuple(task_ids)
        self._until = until
        self._is_any = is_any
        self._past_questions = past_questions
        self._json = json
        self._verdicts: dict[str, WaitVerdict] = {}
        self._doubtful: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self._answered: set[str] = set()

    @property
    def code(self) -> int:
        """The first that is not 0, in the order in which the sessions were named; of any, the one that came true."""
        known = [self._verdicts[one] for one in self._task_ids if one in self._verdicts]
        counted = [one for one in known if one.is_met][:1] if self._is_any else []
        return next((one.code for one in counted or known if one.code), ExitCode.COMPLETED)

    @property
    def _is_enough(self) -> bool:
        is_any_met = self._is_any and any(one.is_met for one in self._verdicts.values())
        return is_any_met or len(self._verdicts) == len(self._task_ids)

    def run(self, timeout: float | None, patience: float) -> None:
        """Look until enough is known."""
        deadline = None if timeout is None else time.monotonic() + timeout
        changes = SessionChanges(self._home, self._task_ids, patience_seconds=patience)
        for heard in changes.looks(deadline):
            for task_id in heard:
                if task_id not in self._verdicts:
                    self._look(task_id)
                if self._is_enough:
                    return
            if self._doubtful or self._answered:
                changes.hurry()

    def _look(self, task_id: str) -> None:
        try:
            look = look_at(ServerApi.of_home(self._home), task_id)
        except Unreachable:
            return  # whoever hears the room waits for the server, and says so
        verdict = judge(self._until, look, past_questions=self._past_questions)
        if verdict is not None and verdict.may_pass and not self._has_lasted(task_id):
            return
        self._answered -= {task_id}
        if verdict is None:
            self._doubtful.pop(task_id, None)
            badge = look.summary.badge
            is_asked = badge is not None and badge.attention is not Attention.NONE
            # It was asked, and has the answer: that changes soon, one way or the other.
            self._answered |= {task_id} if badge is not None and is_asked and not badge.needs_person else set()
            self._tell_progress(task_id, look)
        else:
            self._verdicts[task_id] = verdict
            self._tell(task_id, verdict, look)

    def _has_lasted(self, task_id: str) -> bool:
        """Whether what may pass has been so for long enough to say so."""
        now = time.monotonic()
        return now - self._doubtful.setdefault(task_id, now) >= _GRACE_SECONDS

    def _tell_progress(self, task_id: str, look: PromptLook) -> None:
        words = words_for(look)
        if look.turn is None and self._until.word == "done" and not look.detail.queue.waiting:
            words += ", there is no turn yet"
        if self._told.get(task_id) != words:
            output.note(f"{task_id}: {words}")
            self._told[task_id] = words

    def _tell(self, task_id: str, verdict: WaitVerdict, look: PromptLook) -> None:
        if self._json:
            output.print_json(_told(task_id, verdict, look))
        elif verdict.is_met:
            output.print_text(f"{task_id}  {verdict.why}")
        else:
            output.note(f"{task_id}: not {self._until.status or self._until.word}: {verdict.why}")
        output.flush()
        is_blocked = verdict.code is ExitCode.BLOCKED or (self._until.word == "blocked" and verdict.is_met)
        if is_blocked and not self._json:
            tell_questions(task_id, look.detail)

    def tell_open(self, trouble: LogTrouble) -> None:
        """Those that are not as they were wanted."""
        for task_id in self._task_ids:
            if task_id not in self._verdicts:
                words = self._told.get(task_id, "not known")
                if self._json:
                    output.print_json(_not_told(task_id, words, trouble))
                else:
                    output.note(f"  {task_id}: {words}")


def look_at(api: ServerApi, task_id: str) -> PromptLook:
    """How a session and its newest turn stand."""
    path = task_path(task_id)
    detail = api.read(TaskDetail, path)
    turn_id = detail.summary.turn_id
    turn = None if turn_id is None else api.read(TurnRecord, f"{path}/turns/{turn_id}")
    return PromptLook(detail=detail, turn=turn)


def _told(task_id: str, verdict: WaitVerdict, look: PromptLook) -> WaitedSessionJson:
    return {
        "session_id": task_id,
        "is_met": verdict.is_met,
        "why": verdict.why,
        "turn_id": look.summary.turn_id,
        "state": None if look.turn is None else look.turn.state,
        "badge": msgspec.to_builtins(look.summary.badge),
        "log_problem": "",
    }


def _not_told(task_id: str, words: str, trouble: LogTrouble) -> WaitedSessionJson:
    """Of a session that was not as it was wanted when the time was up."""
    return {
        "session_id": task_id,
        "is_met": False,
        "why": words,
        "turn_id": None,
        "state": None,
        "badge": None,
        "log_problem": trouble.problem,
    }
