"""`interlock show`: one session at a glance: how it stands and why, what it asks, what it said last.

Law: a question stands with the command that answers it, ready to be pasted; what an agent wrote is quoted in it.
"""

from __future__ import annotations

import json as json_module
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from interlock.cli import output
from interlock.cli.children.family import child_line, step_line, workflow_of
from interlock.cli.look.ps_list import tell_unwritten, tone_of
from interlock.cli.look.screen_lines import said_of
from interlock.cli.look.session_lines import (
    age,
    countdown_of,
    duration,
    find_task,
    read_moment,
    shown_of,
    since_of,
)
from interlock.cli.look.spawns import end_of, life_of
from interlock.cli.look.transcript_lines import heading, text_lines
from interlock.cli.look.usage import figure, note_of
from interlock.cli.pager import print_paged
from interlock.cli.places import by_rule_of
from interlock.cli.server import options
from interlock.cli.server.api import ServerApi, ServerRefusal, home_folder
from interlock.cli.tables import Line, Tone
from interlock.cli.wire.json_answers import child_json, session_json, state_json
from interlock.cli.wire.routes import (
    PAGE,
    SERVER,
    task_check,
    task_children,
    task_detail,
    task_messages,
    task_screen,
    task_spawns,
    task_state,
    task_turn,
    task_usage,
)
from interlock.cli.work.choices import is_plain, is_yes_or_no
from interlock.cli.work.seen import note_seen
from interlock.vocabulary.advice import advice_lines
from interlock.vocabulary.ending_words import repeats

if TYPE_CHECKING:
    from interlock.cli.wire.json_shapes import ShownSessionJson
    from interlock.vocabulary.wire.json_types import (
        ActiveStreamJson,
        ApprovalJson,
        ChildStandingJson,
        DialogOptionJson,
        MessageJson,
        QueueViewJson,
        SpawnRowJson,
        StateDocumentJson,
        TaskDetailJson,
        TaskScreenJson,
        TaskSummaryJson,
        TurnRecordJson,
        UsageJson,
        WorkflowStandingJson,
    )

_WIDTH = 10
_NEWEST = 200
_MAX_LAST_WORDS = 8
_MAX_SCREEN_ROWS = 24


def show(
    session: options.SessionArgument,
    /,
    *,
    home: options.HomeOption = None,
    state: options.Flag = False,
    no_pager: options.Flag = False,
    json: options.JsonFlag = False,
) -> int:
    """Print how a session stands, with the evidence: its turn, its queue, its questions and the commands that answer
    them, its last answer, its process and what it used.

    Parameters
    ----------
    state
        Print only the state document of the session as JSON, with the version of the log that it holds for.
    no_pager
        Never use a pager. On a terminal, what is longer than the screen is shown in $PAGER, or in less.
    """
    api = ServerApi.of_home(home_folder(home))
    task_id = find_task(api, session)["task_id"]
    if state:
        output.print_json(state_json(api.get(task_state(task_id))))
        return 0
    known = gather(api, task_id)
    if json:
        output.print_json(_told(known))
    else:
        print_paged(list(_lines(known, datetime.now(UTC))), is_paged=not no_pager)
        output.flush()  # what could not be printed was not seen
        note_seen(api, known.summary)
    return tell_unwritten(known.log_problem)


class KnownSession(NamedTuple):
    """All that is to be shown of a session."""

    detail: TaskDetailJson
    turn: TurnRecordJson | None
    stream: ActiveStreamJson | None
    answer: MessageJson | None
    spawn: SpawnRowJson | None
    last_words: str
    state: StateDocumentJson
    usage: UsageJson
    log_problem: str
    last_screen: TaskScreenJson | None = None
    children: Sequence[ChildStandingJson] = ()
    workflow: WorkflowStandingJson | None = None

    @property
    def summary(self) -> TaskSummaryJson:
        return self.detail["summary"]


def gather(api: ServerApi, task_id: str) -> KnownSession:
    """Ask for the parts one after the other, each as of its own moment."""
    detail = api.get(task_detail(task_id))
    turn_id = detail["summary"]["turn_id"]
    spawns = list(api.items(task_spawns(task_id), limit=PAGE))
    return KnownSession(
        detail=detail,
        turn=None if turn_id is None else api.get(task_turn(task_id, turn_id)),
        stream=api.get(task_check(task_id))["active_stream"],
        answer=last_answer(api.get(task_messages(task_id), limit=_NEWEST)["items"]),
        spawn=spawns[-1] if spawns else None,
        last_words=last_words(spawns),
        state=api.get(task_state(task_id)),
        usage=api.get(task_usage(task_id))["total"],
        log_problem=api.get(SERVER).get("log_problem", ""),
        last_screen=_last_screen(api, detail["summary"]),
        children=api.get(task_children(task_id))["items"],
        workflow=workflow_of(api, task_id),
    )


def _last_screen(api: ServerApi, task: TaskSummaryJson) -> TaskScreenJson | None:
    """What the terminal of an agent that has ended showed last."""
    if task["driver"] != "terminal" or shown_of(task).activity != "gone":
        return None
    try:
        screen = api.get(task_screen(task["task_id"]))
    except ServerRefusal:  # there is none
        return None
    return None if screen["is_live"] else screen


def _told(known: KnownSession) -> ShownSessionJson:
    return {
        "session": session_json(known.summary),
        "turn": known.turn,
        "turn_count": known.detail["turns"],
        "queue": known.detail["queue"],
        "approvals": known.detail["approvals"],
        "answer": known.answer,
        "stream": known.stream,
        "spawn": known.spawn,
        "last_words": known.last_words,
        "state": state_json(known.state),
        "usage": known.usage,
        "children": [child_json(one) for one in known.children],
        "steps": [] if known.workflow is None else known.workflow["steps"],
        "log_problem": known.log_problem,
    }


def last_answer(messages: list[MessageJson]) -> MessageJson | None:
    """The newest answer, whole or not."""
    return next((one for one in reversed(messages) if one["role"] == "answer"), None)


def last_words(spawns: list[SpawnRowJson]) -> str:
    """What the agent printed at its end; of one that was started again after a crash, what it printed before."""
    is_restart = len(spawns) > 1 and spawns[-1]["attempt"] is not None
    candidates = spawns[-2:] if is_restart else spawns[-1:]
    return next((str(one["stderr_tail"]) for one in reversed(candidates) if one["stderr_tail"].strip()), "")


def _lines(known: KnownSession, now: datetime) -> Iterator[Line]:
    asked = known.detail["approvals"]
    yield from _head(known.summary, now)
    yield from _turn(known)
    yield from _queue(known.detail["queue"])
    yield from _process(known.spawn, known.last_words, now)
    yield from _used(known.usage)
    for step in () if known.workflow is None else known.workflow["steps"]:
        yield _field("step", (step_line(step), ""))
    for child in known.children:
        yield _field("child", (child_line(child), ""))
    for number, approval in enumerate(asked, start=1):
        yield []
        yield from _question(approval, number, len(asked), now)
    yield from _answer(known)
    if known.last_screen is not None:
        yield []
        yield [("last screen", Tone.HEAD), (f"  {said_of(known.last_screen)}", Tone.FAINT)]
        yield from text_lines("\n".join(known.last_screen["rows"][-_MAX_SCREEN_ROWS:]))


def _head(task: TaskSummaryJson, now: datetime) -> Iterator[Line]:
    shown = shown_of(task, now)
    yield _field("session", (str(task["task_id"]), Tone.HEAD), (f"  {task.get('title', '')}".rstrip(), ""))
    driver = f", by {task['driver']}" if task.get("driver") else ""
    yield _field("agent", (f"{task.get('agent', '')}{driver}", ""))
    held = age(since_of(task), now)
    yield _field("shows", (shown.words, tone_of(shown)), (f" for {held}" if held else "", ""))
    badge = task.get("badge")
    for proof in () if badge is None else badge["evidence"]:
        where = f", {proof['where']}" if proof.get("where") else ""
        yield _field("because", (f"{proof['source']}: {proof['rule']}{where}", ""))
    if not task.get("is_supervised", True):
        yield _field("because", ("no server runs it: this is what the log can prove", ""))
    if countdown_of(task, now):
        yield _field("idle", (f"the agent {countdown_of(task, now)} unless it is used", ""))


def _turn(known: KnownSession) -> Iterator[Line]:
    turn, task = known.turn, known.summary
    if turn is None and task.get("turn_state") == "unknown":
        yield _field("turn", ("not known: the log is damaged, and a newer turn may be lost", Tone.DOUBTFUL))
        yield _field("next", (f"interlock log verify {task['task_id']}", ""))
        return
    if turn is None:
        yield _field("turn", ("none yet", ""))
        return
    known_status = task.get("task_status")
    status = "not known" if known_status in (None, "UNKNOWN") else known_status
    yield _field("turn", (f"{turn['turn_id']}, {known.detail['turns']} in all", ""))
    kind = "" if repeats(turn["state"], turn.get("error_kind", "")) else f": {turn['error_kind']}"
    asked = ", to be cancelled" if turn.get("cancel_requested") else ""
    yield _field("status", (f"{status}, the turn is {turn['state']}{kind}{asked}", ""))
    if turn.get("error_message"):
        yield _field("error", (str(turn["error_message"]), ""))
    if by_rule_of(task):
        yield _field("answered", (by_rule_of(task), ""))
    for proof in turn.get("evidence", ()):
        yield _field("evidence", (f"{proof['rule']}, event {proof.get('seq', '?')} ({proof.get('where', '')})", ""))
    actions = ((str(one.get("kind", "")), str(one.get("command", ""))) for one in turn.get("next_actions", ()))
    for line in advice_lines(actions, str(task["task_id"])):
        yield _field("next", (line, ""))


def _queue(queue: QueueViewJson) -> Iterator[Line]:
    waiting = queue.get("waiting", ())
    if not queue.get("is_open", True):
        yield _field("queue", (f"held back: {queue.get('gate_reason') or 'no reason was given'}", Tone.DOUBTFUL))
    if queue.get("waits_for"):
        yield _field("waits", (f"{queue['waits_for']}; the prompt is sent when that is over", Tone.DOUBTFUL))
    for place, item in enumerate(waiting, start=1):
        yield _field("queued", (f"{place}. {' '.join(str(item['text']).split())}", ""))


def _process(spawn: SpawnRowJson | None, last_words: str, now: datetime) -> Iterator[Line]:
    if spawn is None:
        yield _field("process", ("none was started", ""))
        return
    lived = life_of(spawn, now)
    said = [str(spawn["standing"]), f"pid {spawn['pid']}" if spawn["pid"] else "", f"for {lived}" if lived else ""]
    yield _field("process", (", ".join(one for one in (*said, end_of(spawn)) if one), ""))
    words = [line for line in last_words.splitlines() if line.strip()]
    if words:
        yield _field("said last", ("", ""))
        yield from text_lines("\n".join(words[-_MAX_LAST_WORDS:]))


def _used(used: UsageJson) -> Iterator[Line]:
    if used.get("input_tokens") is None and used.get("output_tokens") is None and used.get("cost_usd") is None:
        yield _field("usage", ("not reported", ""))
        return
    tokens = f"{figure('', used.get('input_tokens'))} in, {figure('', used.get('output_tokens'))} out"
    cost = f", {figure('cost_usd', used['cost_usd'])} USD" if used.get("cost_usd") is not None else ""
    left_out = f" ({note_of(used)})" if note_of(used) else ""
    yield _field("usage", (f"{tokens}{cost}{left_out}", ""))


def _question(approval: ApprovalJson, number: int, count: int, now: datetime) -> Iterator[Line]:
    place = f" {number} of {count}" if count > 1 else ""
    waited = age(approval.get("asked_at"), now)
    deadline = read_moment(approval.get("deadline_at"))
    left = "" if deadline is None else f", {duration((deadline - now).total_seconds())} left"
    moot = "" if approval.get("is_answerable", True) else ", no server runs the session, so it cannot be answered now"
    yield [(f"{approval['attention']}{place}", Tone.URGENT), (f"  asked {waited} ago{left}{moot}", "")]
    yield from asked_lines(approval)
    for line in commands(approval, is_only=count == 1):
        yield [("    ", ""), (line, Tone.HEAD)]


def asked_lines(approval: ApprovalJson) -> Iterator[Line]:
    """What is asked, in full: the words, the tool and everything that it is to be called with; and why it is asked
    again, where a decision did not reach the agent."""
    yield from text_lines(str(approval["question"]))
    if approval.get("tool"):
        arguments = approval.get("arguments")
        spelled = "" if arguments is None else f" {json_module.dumps(arguments, ensure_ascii=False)}"
        yield [(f"  tool {approval['tool']}{spelled}", "")]
    if approval.get("problem"):
        yield [(f"  asked again: the decision did not reach the agent: {approval['problem']}", Tone.DOUBTFUL)]


def commands(approval: ApprovalJson, *, is_only: bool) -> list[str]:
    """The commands that answer a question, each of which works. Where nobody can take an answer: what helps first."""
    task_id = str(approval["session_id"])
    if not approval.get("is_answerable", True):
        return [shlex.join(["interlock", "start", task_id])]
    named = [task_id, *([] if is_only else [str(approval["approval_id"])])]
    options = approval.get("options", ())
    if not options:
        return [f"{shlex.join(['interlock', 'answer', *named])} TEXT"]
    if is_yes_or_no(approval) and is_plain(approval):
        return [shlex.join(["interlock", word, *named]) for word in ("approve", "deny")]
    return [shlex.join(["interlock", "answer", *named, "--option", _named(options, at)]) for at in range(len(options))]


def _named(options: Sequence[DialogOptionJson], at: int) -> str:
    """An option by its label, or by its number where that is not the only one like it."""
    labels = [str(option["label"]).casefold() for option in options]
    return str(options[at]["label"]) if labels.count(labels[at]) == 1 else str(at + 1)


def active_stream_lines(stream: ActiveStreamJson | None, task_id: str) -> Iterator[Line]:
    """That text is being written, if it is. The text itself is for `logs -f`, which labels it."""
    if stream is not None:
        yield []
        yield [(f"text is being written: {stream['cursor']} characters so far; see it with ", "")]
        yield [("    ", ""), (f"interlock logs -f {task_id}", Tone.HEAD)]


def _answer(known: KnownSession) -> Iterator[Line]:
    answer = known.answer
    yield from active_stream_lines(known.stream, known.summary["task_id"])
    if answer is not None:
        yield []
        is_old = answer.get("turn_id") != known.summary["turn_id"]
        yield [*heading(answer), ("  of an earlier turn" if is_old else "", Tone.FAINT)]
        yield from text_lines(str(answer.get("text", "")))


def _field(name: str, *pieces: tuple[str, str]) -> Line:
    return [(name.ljust(_WIDTH), Tone.FAINT), *pieces]
