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
from typing import Final, NamedTuple
from urllib.parse import quote

from interlock.cli.log.reasons import words_of
from interlock.cli.look.naming import Candidate, choose
from interlock.cli.server.api import Body, ServerApi, ServerRefusal

LIST: Final = "`interlock ps --all` lists them"
PAGE: Final = 500
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

    @property
    def has_failed(self) -> bool:
        return self.outcome in _FAILURES

    @property
    def is_answered(self) -> bool:
        """It was asked, and has the answer: that changes soon, one way or the other."""
        return self.attention != "none" and not self.needs_person


def shown_of(task: Body, now: datetime | None = None) -> Shown:
    """Read the badge. Without a time the words leave out how long a tool runs."""
    badge = task.get("badge") or {}
    return Shown(
        activity=str(badge.get("activity", "unknown")),
        attention=str(badge.get("attention", "none")),
        needs_person=bool(badge.get("needs_person")),
        outcome=str(badge.get("outcome") or ""),
        words=_words(task, badge, now),
        rank=int(badge.get("rank", _LAST_RANK)),
        since=str(badge.get("since") or ""),
        is_over=bool(badge.get("is_over")),
        is_unrecorded=any(proof.get("rule") == _LOG_UNAVAILABLE for proof in badge.get("evidence") or ()),
    )


def _words(task: Body, badge: Body, now: datetime | None) -> str:
    said = " · ".join(one for one in _parts(task, badge, now) if one)
    crashes = badge.get("crashes") or 0
    return f"{said} · {crashes} crash{'' if crashes == 1 else 'es'} in 1h" if crashes else said


def _parts(task: Body, badge: Body, now: datetime | None) -> tuple[str, ...]:
    activity, attention = str(badge.get("activity", "unknown")), str(badge.get("attention", "none"))
    status, outcome = task.get("task_status"), str(badge.get("outcome") or "")
    if status == "DELETE":
        return ("archived",)
    if outcome == "unknown" and attention in ("error", "none"):
        return "unknown", "log damaged"
    if attention != "none":
        said = attention if badge.get("needs_person") else f"{attention} answered"
        return (said,) if activity in ("working", "quiet") else (said, activity)
    if status == "CANCELLING":
        return activity, "stopping"
    if activity == "working":
        return activity, _doing(badge, now)
    if activity not in ("quiet", "gone") or not outcome:
        return ("ended" if badge.get("is_over") else "idle" if activity == "quiet" else activity,)
    ended = _OUTCOMES.get(outcome, outcome)
    if badge.get("is_over"):
        return ("ended",) if outcome in ("new", "done") else ("ended", ended)
    return ended, "not running" if activity == "gone" else _AT_REST.get(outcome, "")


def _doing(badge: Body, now: datetime | None) -> str:
    """What a working agent works at."""
    substate = str(badge.get("substate") or "")
    if substate != "running_tool":
        return _SUBSTATES.get(substate, "")
    held = "" if now is None else age(badge.get("tool_since"), now)
    return " ".join(one for one in ("running", str(badge.get("tool") or "a tool"), held) if one)


def by_attention(tasks: Iterable[Body]) -> list[Body]:
    """Law 1."""
    return sorted(tasks, key=lambda task: (shown_of(task).rank, since_of(task), str(task["task_id"])))


def since_of(task: Body) -> str:
    """When what it shows began, as the server spelled it. These sort as they are: all are UTC of one server."""
    return str((task.get("badge") or {}).get("since") or "")


def why_of(task: Body) -> str:
    """What is asked, with the tool and the arguments that a yes would run; how the last turn ended and the command that
    tells more, where it did not complete; else the evidence in words."""
    asked = " \u00b7 ".join(str(task.get(name) or "") for name in ("question", "called_with") if task.get(name))
    if asked:
        return " ".join(asked.split())
    if shown_of(task).attention == "held":
        return str(task["held"])
    if task.get("waits_for") and shown_of(task).activity == "quiet":
        return f"prompt waits: {task['waits_for']}"
    if task.get("ending") and shown_of(task).attention == "none" and shown_of(task).activity in ("quiet", "gone"):
        return f"{task['ending']}; next: interlock why {task['task_id']}"
    proofs = (task.get("badge") or {}).get("evidence") or ()
    if not proofs:
        return "" if task.get("is_supervised", True) else "nobody runs it"
    proof = proofs[0]
    where = str(proof.get("where", "")) if shown_of(task).attention == "error" else ""
    return where or words_of(str(proof.get("source", "")), str(proof.get("rule", "")))


def countdown_of(task: Body, now: datetime) -> str:
    """For how long an agent that is not used stays, if it is stopped at all."""
    idle_at = read_moment((task.get("live") or {}).get("idle_at"))
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


def task_path(task_id: object) -> str:
    """The address of a session."""
    return f"/api/tasks/{quote(str(task_id), safe='')}"


def find_task(api: ServerApi, text: str) -> Body:
    """The session that is meant, as its summary: see `naming` for what may be typed.

    `UsageError` where there is none, or more than one; then the message names them.
    """
    try:
        summary: Body | None = api.get(task_path(text))["summary"] if text.strip() else None
    except ServerRefusal as refusal:
        if refusal.status != _NOT_FOUND:
            raise
        summary = None
    if summary is not None:
        return summary
    return choose_task(list(api.pages("/api/tasks", limit=PAGE)), text)


def choose_task(tasks: Sequence[Body], text: str) -> Body:
    """As `find_task`, among sessions that are known. Of several, those that need a person are told first."""
    ordered = by_attention(tasks)
    chosen = choose([_candidate(task) for task in ordered], text, listing=LIST)
    return next(task for task in ordered if task["task_id"] == chosen.session_id)


def _candidate(task: Body) -> Candidate:
    shown = shown_of(task)
    said = ", ".join(word for word in (str(task.get("agent", "")), shown.words) if word)
    return Candidate(str(task["task_id"]), str(task.get("title", "")), said, task.get("task_status") != "DELETE")
