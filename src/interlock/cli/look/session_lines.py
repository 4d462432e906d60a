"""Sessions as lines for a person: which one is meant, what its badge says, and in which order. Pure, but for
`find_task`.

Laws:
1. The badge of a session decides; what is here puts it in words. The order is the badge's rank, and among equals the
   one that waits longest comes first.
2. A server that sends no badge is older than this command: then nothing is known, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from interlock.cli.log.reasons import words_of
from interlock.cli.look.naming import Candidate, choose
from interlock.cli.server.api import ServerApi, ServerRefusal
from interlock.cli.wire.routes import PAGE, TASKS, task_detail

if TYPE_CHECKING:
    from interlock.vocabulary.wire.json_types import BadgeJson, TaskSummaryJson

LIST: Final = "`interlock ps --all` lists them"
_MIN_ID: Final = 8
_NOT_FOUND: Final = 404
_OUTCOMES: Final = {
    "new": "new",
    "done": "done",
    "partial": "failed · partial answer kept",
    "failed": "failed",
    "timed_out": "timed out",
    "interrupted": "interrupted",
}
_AT_REST: Final = {"new": "no prompt yet", "done": "ready for a prompt"}
_FAILURES: Final = ("partial", "failed", "timed_out")
_SUBSTATES: Final = {"thinking": "thinking", "responding": "responding"}
_LAST_RANK: Final = 99
_LOG_UNAVAILABLE: Final = "log_unavailable"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
# Law 2.
_NO_BADGE: Final[BadgeJson] = {
    "activity": "unknown",
    "substate": None,
    "tool": "",
    "tool_since": None,
    "attention": "none",
    "needs_person": False,
    "outcome": None,
    "is_seen": True,
    "group": "stuck",
    "since": None,
    "rank": _LAST_RANK,
    "crashes": 0,
    "is_over": False,
    "until": None,
    "evidence": [],
}


GROUPS: Final = {
    "needs_you": "needs you",
    "stuck": "stuck or unknown",
    "working": "working",
    "done": "done",
    "idle": "idle",
    "ended": "ended",
}


class Shown(NamedTuple):
    """The badge of a session, with its words. `is_unrecorded`: what it does is not known, for the server cannot write
    its log."""

    activity: str
    attention: str
    needs_person: bool
    outcome: str
    words: str
    rank: int
    since: str
    is_over: bool
    is_unrecorded: bool
    group: str = "stuck"
    is_seen: bool = True

    @property
    def has_failed(self) -> bool:
        return self.outcome in _FAILURES

    @property
    def is_answered(self) -> bool:
        """It was asked, and has the answer: that changes soon, one way or the other."""
        return self.attention != "none" and not self.needs_person


def shown_of(task: TaskSummaryJson, now: datetime | None = None) -> Shown:
    """Read the badge. Without a time the words leave out how long a tool runs."""
    badge = task.get("badge") or _NO_BADGE
    return Shown(
        activity=str(badge.get("activity", "unknown")),
        attention=str(badge.get("attention", "none")),
        needs_person=bool(badge.get("needs_person")),
        outcome=str(badge.get("outcome") or ""),
        words=_words(task, badge, now),
        rank=int(badge.get("rank", _LAST_RANK)),
        since=str(badge.get("since") or ""),
        is_over=bool(badge.get("is_over")),
        group=str(badge.get("group", "stuck")),
        is_seen=bool(badge.get("is_seen", True)),
        is_unrecorded=any(proof.get("rule") == _LOG_UNAVAILABLE for proof in badge.get("evidence") or ()),
    )


def group_of(shown: Shown) -> str:
    """Under which heading a session stands: the badge's group, in words."""
    return GROUPS.get(shown.group, GROUPS["stuck"])


def _words(task: TaskSummaryJson, badge: BadgeJson, now: datetime | None) -> str:
    said = " · ".join(one for one in _parts(task, badge, now) if one)
    crashes = badge.get("crashes") or 0
    return f"{said} · crashed {crashes}x in 1 h" if crashes else said


def _parts(task: TaskSummaryJson, badge: BadgeJson, now: datetime | None) -> tuple[str, ...]:
    activity, attention = str(badge.get("activity", "unknown")), str(badge.get("attention", "none"))
    status, outcome = task.get("task_status"), str(badge.get("outcome") or "")
    if status == "DELETE":
        return ("archived",)
    if outcome == "unknown" and attention in ("error", "none"):
        return "unknown", "log damaged"
    if attention != "none":
        said = attention if badge.get("needs_person") else f"{attention} answered"
        return (said,) if activity in ("working", "quiet") else (said, activity)
    if task.get("is_paused") and activity in ("quiet", "gone"):
        return "idle", "queue paused"
    if status == "CANCELLING":
        return activity, "stopping"
    if activity == "working":
        return activity, _doing(badge, now)
    return _at_rest(task, badge, activity, outcome)


def _at_rest(task: TaskSummaryJson, badge: BadgeJson, activity: str, outcome: str) -> tuple[str, ...]:
    """How the last turn ended, where nothing goes on and nothing is asked."""
    is_over = bool(badge.get("is_over"))
    if activity not in ("quiet", "gone") or not outcome:
        if task.get("is_adopted") and activity in ("quiet", "gone") and not is_over:
            return "idle" if activity == "quiet" else "not running", "adopted"
        return ("ended" if is_over else "idle" if activity == "quiet" else activity,)
    ended = _OUTCOMES.get(outcome, outcome)
    if is_over:
        return ("ended",) if outcome in ("new", "done") else ("ended", ended)
    plan = _open_plan(task) if outcome == "done" else ""
    if outcome == "done" and not badge.get("is_seen", True):
        return ended, plan or "unseen"
    return ended, plan or ("not running" if activity == "gone" else _AT_REST.get(outcome, ""))


def _open_plan(task: TaskSummaryJson) -> str:
    """That its plan is not completed: a session that is done does not hide that."""
    workflow = task.get("workflow")
    return f"plan {workflow['status'].replace('_', ' ')}" if workflow and workflow["status"] != "completed" else ""


def below_of(task: TaskSummaryJson) -> str:
    """Who below it waits for a person, and how far its plan is."""
    waiting, workflow = task.get("waits_below") or 0, task.get("workflow")
    said = [f"{waiting} below {'waits' if waiting == 1 else 'wait'} for you"] if waiting else []
    if workflow and workflow["status"] != "completed":
        held = f", {workflow['held']} held" if workflow["held"] else ""
        said.append(f"plan {workflow['status'].replace('_', ' ')} {workflow['ready']}/{workflow['total']} ready{held}")
    return " \u00b7 ".join(said)


def _doing(badge: BadgeJson, now: datetime | None) -> str:
    """What a working agent works at."""
    substate = str(badge.get("substate") or "")
    if substate != "running_tool":
        return _SUBSTATES.get(substate, "")
    held = "" if now is None else age(badge.get("tool_since"), now)
    return " ".join(one for one in ("running", str(badge.get("tool") or "a tool"), held) if one)


def by_attention(tasks: Iterable[TaskSummaryJson]) -> list[TaskSummaryJson]:
    """Law 1."""
    return sorted(tasks, key=lambda task: (shown_of(task).rank, since_of(task), str(task["task_id"])))


def since_of(task: TaskSummaryJson) -> str:
    """When what it shows began, as the server spelled it. These sort as they are: all are UTC of one server."""
    return str((task.get("badge") or _NO_BADGE).get("since") or "")


def why_of(task: TaskSummaryJson) -> str:
    """What is asked, with the tool and the arguments that a yes would run; how the last turn ended and the command that
    tells more, where it did not complete; else the evidence in words."""
    asked = " \u00b7 ".join(one for one in (task.get("question"), task.get("called_with")) if one)
    if asked:
        return " ".join(asked.split())
    if shown_of(task).attention == "held":
        return str(task["held"])
    tree = task.get("worktree")
    if tree is not None and tree["phase"] in ("failed", "removed"):  # nothing runs there any more
        return ": ".join(one for one in (f"worktree {tree['phase']}", tree.get("problem")) if one)
    if task.get("waits_for") and shown_of(task).activity in ("quiet", "starting"):
        return f"prompt waits: {task['waits_for']}"
    if task.get("ending") and shown_of(task).attention == "none" and shown_of(task).activity in ("quiet", "gone"):
        return f"{task['ending']}; next: interlock why {task['task_id']}"
    if below := below_of(task):
        return below
    proofs = (task.get("badge") or _NO_BADGE).get("evidence") or ()
    if not proofs:
        return "" if task.get("is_supervised", True) else "no server runs it"
    proof = proofs[0]
    where = str(proof.get("where", "")) if shown_of(task).attention == "error" else ""
    return where or words_of(str(proof.get("source", "")), str(proof.get("rule", "")))


def countdown_of(task: TaskSummaryJson, now: datetime) -> str:
    """For how long an agent that is not used stays, if it is stopped at all."""
    live = task.get("live")
    idle_at = None if live is None else read_moment(live.get("idle_at"))
    if idle_at is None or shown_of(task).activity != "quiet":
        return ""
    return f"stops in {duration((idle_at - now).total_seconds())}"


def read_moment(spelled: object) -> datetime | None:
    """A time of the server's; None where there is none."""
    try:
        moment = datetime.fromisoformat(str(spelled))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def age(spelled: object, now: datetime) -> str:
    """How long ago that was, in a word."""
    moment = read_moment(spelled)
    return "" if moment is None else duration((now - moment).total_seconds())


def duration(seconds: float) -> str:
    """In the largest unit that gives a number of at least one; two units where one says too little."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}"
    return f"{whole // _DAY}d"


def short_ids(task_ids: Sequence[str]) -> dict[str, str]:
    """For each id the least of its beginning that names no other, and enough of it to be known again."""
    ordered = sorted(task_ids)
    shorts = {}
    for place, task_id in enumerate(ordered):
        near = (*ordered[max(0, place - 1) : place], *ordered[place + 1 : place + 2])
        needed = max((_shared(task_id, other) + 1 for other in near), default=0)
        shorts[task_id] = task_id[: max(_MIN_ID, needed)]
    return shorts


def _shared(one: str, other: str) -> int:
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )


def find_task(api: ServerApi, text: str) -> TaskSummaryJson:
    """The session that is meant, as its summary: see `naming` for what may be typed.

    `UsageError` where there is none, or more than one; then the message names them.
    """
    try:
        summary = api.get(task_detail(text))["summary"] if text.strip() else None
    except ServerRefusal as refusal:
        if refusal.status != _NOT_FOUND:
            raise
        summary = None
    if summary is not None:
        return summary
    return choose_task(list(api.items(TASKS, limit=PAGE)), text)


def choose_task(tasks: Sequence[TaskSummaryJson], text: str) -> TaskSummaryJson:
    """As `find_task`, among sessions that are known. Of several, those that need a person are told first."""
    ordered = by_attention(tasks)
    chosen = choose([_candidate(task) for task in ordered], text, listing=LIST)
    return next(task for task in ordered if task["task_id"] == chosen.session_id)


def _candidate(task: TaskSummaryJson) -> Candidate:
    shown = shown_of(task)
    said = ", ".join(word for word in (str(task.get("agent", "")), shown.words) if word)
    return Candidate(str(task["task_id"]), str(task.get("title", "")), said, task.get("task_status") != "DELETE")
