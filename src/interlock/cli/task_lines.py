"""Sessions as lines for a person: which one is meant, what it shows, and in which order. Pure, but for `find_task`, and
for the clock of law 4.

Laws:
1. Who needs a person comes first, then what is stalled or not known, then what works, settles, is quiet, and is over.
   Among equals the one that waits longest.
2. What is not known is called unknown, and comes before what works: nothing that somebody should look at hides below.
3. Both axes show: what the agent does, and what it needs.
4. What was answered, and not asked again, needs nobody, also while the agent's screen still shows it. For how long is
   bounded: what still shows it then may be something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

from interlock.cli.naming import Candidate, choose
from interlock.cli.reasons import words_of
from interlock.cli.server_api import Body, ServerApi, ServerRefusal

LIST: Final = "`interlock ps --all` lists them"
PAGE: Final = 500
_MIN_ID: Final = 8
_NOT_FOUND: Final = 404
_NEEDS: Final = ("approval", "question", "plan", "auth", "quota", "error", "held")
_RANKS: Final = ("stalled", "unknown", "starting", "working", "settling", "quiet", "gone", "ended", "deleted")
# The server's word, see `projections.task_answers`; longer than the runtime waits for a sign that it was taken.
_ANSWERED: Final = "answer_on_its_way"
_ANSWER_SECONDS: Final = 20.0
_ENDINGS: Final = {"FAILED": "failed", "CANCELLED": "interrupted"}
_FAILURES: Final = {"partial_failed": "partial", "timed_out": "timed out"}
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


class Standing(NamedTuple):
    """What a line says of a session. `activity` is one of ours for those that nobody runs: `ended`, `deleted`."""

    activity: str
    attention: str
    words: str
    rank: int
    has_failed: bool = False
    is_answered: bool = False

    @property
    def needs_person(self) -> bool:
        return self.attention != "none" and not self.is_answered

    @property
    def is_over(self) -> bool:
        return self.activity in ("ended", "deleted") and not self.needs_person


def standing_of(task: Body) -> Standing:
    """Read both axes, and the status where nobody watches."""
    live = task.get("live") or {}
    activity = _activity(task, live)
    attention = str(live.get("attention", "none"))
    if attention == "none" and task.get("open_approvals"):
        attention = "approval"  # what is asked is asked, whatever the agent seems to do
    if attention == "none" and task.get("held") and activity in ("quiet", "gone"):
        attention = "held"  # nothing goes on until somebody lets the queue go on
    if attention not in ("none", *_NEEDS):
        attention = "question"  # a word of a newer server: it is still a need
    is_answered = attention != "none" and any(map(_is_on_its_way, live.get("evidence") or ()))
    is_needed = attention != "none" and not is_answered
    rank = _NEEDS.index(attention) if is_needed else len(_NEEDS) + _RANKS.index(activity)
    words = f"{activity}, {attention} answered" if is_answered else _words(task, activity, attention)
    has_failed = task.get("task_status") == "FAILED"
    return Standing(activity, attention, words, rank, has_failed, is_answered)


def _is_on_its_way(proof: Body) -> bool:
    given = read_moment(proof.get("at")) if proof.get("rule") == _ANSWERED else None
    return given is not None and abs((datetime.now(UTC) - given).total_seconds()) < _ANSWER_SECONDS


def _activity(task: Body, live: Body) -> str:
    status = task.get("task_status")
    if status == "DELETE":
        return "deleted"
    if live:
        activity = str(live.get("activity", "unknown"))
        return activity if activity in _RANKS else "unknown"
    if not task.get("is_supervised", True):
        # An open turn that nobody runs has no status: nobody knows what becomes of it.
        return "ended" if status is not None or task.get("turn_id") is None else "unknown"
    if status in ("RUNNING", "CANCELLING", "PENDING_CONFIRMATION"):
        return "unknown"
    return "gone"  # nothing was heard of an agent: none was started since the server was


def _words(task: Body, activity: str, attention: str) -> str:
    if attention != "none":
        return attention if activity in ("working", "quiet") else f"{attention}, {activity}"
    status = str(task.get("task_status"))
    if status == "CANCELLING":
        return f"{activity}, cancelling"
    if activity == "gone" and task.get("turn_id") is None:
        return "not running"  # never started, or it died before its first turn: a summary does not tell which
    ending = _ENDINGS.get(status)
    if status == "FAILED":
        ending = _FAILURES.get(str(task.get("turn_state")), ending)
    return f"{activity}, {ending}" if ending and activity in ("quiet", "gone", "ended") else activity


def by_attention(tasks: Iterable[Body]) -> list[Body]:
    """Law 1."""
    return sorted(tasks, key=lambda task: (standing_of(task).rank, since_of(task), str(task["task_id"])))


def since_of(task: Body) -> str:
    """When what it shows began, as the server spelled it. These sort as they are: all are UTC of one server."""
    return str(task.get("since") or task.get("status_updated_at") or task.get("last_at") or "")


def why_of(task: Body) -> str:
    """The question, or the evidence in words."""
    question = " ".join(str(task.get("question", "")).split())
    if question:
        return question
    if standing_of(task).attention == "held":
        return str(task["held"])
    proofs = (task.get("live") or {}).get("evidence") or ()
    if not proofs:
        return "" if task.get("is_supervised", True) else "nobody runs it"
    proof = proofs[0]
    where = str(proof.get("where", "")) if standing_of(task).attention == "error" else ""
    return where or words_of(str(proof.get("source", "")), str(proof.get("rule", "")))


def countdown_of(task: Body, now: datetime) -> str:
    """For how long an agent that is not used stays, if it is stopped at all."""
    idle_at = read_moment((task.get("live") or {}).get("idle_at"))
    if idle_at is None or standing_of(task).activity != "quiet":
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
    standing = standing_of(task)
    said = ", ".join(word for word in (str(task.get("agent", "")), standing.words) if word)
    return Candidate(str(task["task_id"]), str(task.get("title", "")), said, standing.activity != "deleted")
