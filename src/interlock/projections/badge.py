"""The badge of a session: the one function that says what it does, whether it needs a person and how it ended.

Laws:
1. A pure function of a task's summary and the time. The server computes it; every surface draws it, and none decides.
2. It needs a person where something is asked that a person can answer, where an error is shown, where prompts wait
   behind a gate that a limit or a failure closed while nothing else goes on, and where a turn failed or ran out of time
   and nobody has looked. What nobody runs, what was archived, and a queue that a person paused need nobody.
3. What was answered, and not asked again, needs nobody, also while the agent's screen still shows it. For how long is
   bounded (`ANSWER_SECONDS`): what still shows it then may be something else.
4. The outcome is that of the newest turn, and None while that is open, or a prompt waits for the next one. An adopted
   agent may have had turns before: without one of ours it has none, and is not called new.
5. What is not known is `unknown`: an open turn that nobody runs, or one of whose agent nothing was heard. Where events
   of the newest turn are lost, its outcome is `unknown`, which is an error: a person should look at the log, also of a
   session that nobody runs. Another turn, or its archiving, ends that.
6. What needs a person ranks first, then what is stalled or unknown, then what works, settles, is done and was not seen,
   is idle, and is over. The group says the same in a word.
7. Seen is a fact of the log, by turn: the same on every surface, and after a restart. Another turn is unseen again.
8. The badge says when it changes by itself (`until`); until then it is the same at any time.
9. An open turn is never idle, done or over, whatever is seen of the agent: its prompt may not be typed yet, and its end
   not proven. An agent at rest is then at work, or starting where something keeps the prompt out; no process is
   `unknown`. What it asks or fails with is told as it is seen, rest and all: that needs a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from interlock.lifecycle.task_status import has_open_turn
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.states import Activity, AgentState, Attention, BoardGroup, Outcome, TaskStatus, TurnState
from interlock.vocabulary.wire.badge import Badge
from interlock.vocabulary.wire.frames import TaskSummary

ANSWER_ON_ITS_WAY: Final = "answer_on_its_way"
TURN_OPEN: Final = "turn.open"
STEP_WAITS: Final = "step.waits"
# Longer than the runtime waits for a sign that the answer was taken.
ANSWER_SECONDS: Final = 20.0
CRASHES_WITHIN: Final = timedelta(hours=1)
OUTCOMES: Final[Mapping[TurnState, Outcome]] = {
    TurnState.COMPLETED: Outcome.DONE,
    TurnState.PARTIAL_FAILED: Outcome.PARTIAL,
    TurnState.FAILED: Outcome.FAILED,
    TurnState.INTERRUPTED: Outcome.INTERRUPTED,
    TurnState.TIMED_OUT: Outcome.TIMED_OUT,
    TurnState.UNKNOWN: Outcome.UNKNOWN,
}
_ENDS: Final[Mapping[TaskStatus | None, Outcome]] = {
    TaskStatus.COMPLETED: Outcome.DONE,
    TaskStatus.FAILED: Outcome.FAILED,
    TaskStatus.CANCELLED: Outcome.INTERRUPTED,
}
_FAILURES: Final = frozenset({Outcome.PARTIAL, Outcome.FAILED, Outcome.TIMED_OUT})
_TO_SEE: Final = _FAILURES | {Outcome.DONE}
_NEEDS: Final = (*(one for one in Attention if one is not Attention.NONE), Attention.NONE)  # last: a failure to be seen
_RANKS: Final = tuple(Activity)
_ORDER: Final = tuple(BoardGroup)
_GROUPS: Final[Mapping[Activity, BoardGroup]] = {
    Activity.STALLED: BoardGroup.STUCK,
    Activity.UNKNOWN: BoardGroup.STUCK,
    Activity.STARTING: BoardGroup.WORKING,
    Activity.WORKING: BoardGroup.WORKING,
    Activity.SETTLING: BoardGroup.WORKING,
    Activity.QUIET: BoardGroup.IDLE,
    Activity.GONE: BoardGroup.IDLE,
}


def badge_of(summary: TaskSummary, now: datetime) -> Badge:
    """What a person is shown of a session at that time."""
    attention, outcome = _attention(summary), _outcome(summary)
    answered_until = _answered_until(summary, now) if attention is not Attention.NONE else None
    is_asked = attention is not Attention.NONE and answered_until is None
    activity = _activity(summary)
    if has_open_turn(summary.task_status) and not is_asked:
        activity = _activity_in_turn(activity, summary.waits_for)
    is_over = not summary.is_supervised and activity is Activity.GONE and not summary.open_approvals
    is_over = is_over or summary.task_status is TaskStatus.DELETE
    is_seen = _is_seen(summary, outcome)
    is_at_rest = activity in (Activity.QUIET, Activity.GONE) and not is_over
    is_failure = attention is Attention.NONE and is_at_rest and outcome in _FAILURES and not is_seen
    needs_person = is_asked or is_failure
    group = BoardGroup.DONE if is_at_rest and outcome is Outcome.DONE and not is_seen else _GROUPS[activity]
    group = BoardGroup.NEEDS_YOU if needs_person else BoardGroup.ENDED if is_over else group
    crashes = [at for at in summary.crashed_at if at + CRASHES_WITHIN > now]
    live = summary.live if activity is Activity.WORKING else None
    substate = None if live is None or live.substate is AgentState.IDLE else live.substate
    within = _NEEDS.index(attention) if needs_person else _RANKS.index(activity)
    rank = _ORDER.index(group) * len(_NEEDS) + within
    changes = [at + CRASHES_WITHIN for at in crashes] + ([] if answered_until is None else [answered_until])
    return Badge(
        activity=activity,
        substate=substate,
        tool="" if live is None else live.tool,
        tool_since=None if live is None else live.tool_since,
        attention=attention,
        needs_person=needs_person,
        outcome=outcome,
        is_seen=is_seen,
        group=group,
        since=_since(summary, activity, attention, outcome),
        rank=rank,
        crashes=len(crashes),
        is_over=is_over,
        until=min(changes, default=None),
        evidence=_evidence(summary, activity, outcome, attention),
    )


def _activity_in_turn(seen: Activity, waits_for: str) -> Activity:
    """Law 9: what an agent does in an open turn. `waits_for`: what keeps the prompt of that turn from it."""
    if seen is Activity.QUIET:
        return Activity.STARTING if waits_for else Activity.WORKING
    return Activity.UNKNOWN if seen is Activity.GONE else seen


def _activity(summary: TaskSummary) -> Activity:
    if summary.task_status is TaskStatus.DELETE:
        return Activity.GONE
    if summary.live is not None:
        return summary.live.activity
    if summary.turn_state is TurnState.UNKNOWN:
        return Activity.UNKNOWN
    if not summary.is_supervised:
        # Of an open turn that nobody runs, nobody knows what becomes of it. A turn without a status is a contradiction.
        is_told = summary.task_status is not None or summary.turn_id is None
        return Activity.GONE if is_told and summary.task_status is not TaskStatus.UNKNOWN else Activity.UNKNOWN
    # Nothing was heard of an agent: none was started since the server was, unless a turn is open.
    return Activity.UNKNOWN if has_open_turn(summary.task_status) else Activity.GONE


def _attention(summary: TaskSummary) -> Attention:
    """Laws 2 and 5."""
    if summary.task_status is TaskStatus.DELETE:
        return Attention.NONE
    asked = _asked(summary) if summary.is_supervised else Attention.NONE
    is_lost = summary.turn_state is TurnState.UNKNOWN
    return Attention.ERROR if is_lost and asked in (Attention.NONE, Attention.HELD) else asked


def _asked(summary: TaskSummary) -> Attention:
    seen = Attention.NONE if summary.live is None else summary.live.attention
    if seen is not Attention.NONE:
        return seen
    if summary.open_approvals or summary.task_status is TaskStatus.PENDING_CONFIRMATION:
        # what is asked is asked, whatever the agent seems to do
        return Attention.DECISION if summary.asks is Attention.DECISION else Attention.APPROVAL
    is_at_rest = _activity(summary) in (Activity.QUIET, Activity.GONE) and not has_open_turn(summary.task_status)
    return Attention.HELD if summary.held and not summary.is_paused and is_at_rest else Attention.NONE


def _outcome(summary: TaskSummary) -> Outcome | None:
    """Law 4."""
    if summary.turn_state is not None:
        return OUTCOMES.get(summary.turn_state)
    if summary.task_status in _ENDS:
        return _ENDS[summary.task_status]  # coarser than the turn, where that is not told
    is_new = summary.turn_id is None and summary.task_status in (None, TaskStatus.DELETE) and not summary.queued
    return Outcome.NEW if is_new and not summary.is_adopted else None


def _is_seen(summary: TaskSummary, outcome: Outcome | None) -> bool:
    """Law 7. Where no turn ended, there is nothing to be seen."""
    return outcome not in _TO_SEE or (summary.turn_id is not None and summary.seen_turn_id == summary.turn_id)


def _answered_until(summary: TaskSummary, now: datetime) -> datetime | None:
    """Until when what is shown counts as answered; None: it does not."""
    if summary.open_approvals:
        return None
    for proof in () if summary.live is None else summary.live.evidence:
        at = proof.at if proof.rule == ANSWER_ON_ITS_WAY else None
        if at is not None and abs((now - at).total_seconds()) < ANSWER_SECONDS:
            return at + timedelta(seconds=ANSWER_SECONDS)
    return None


def _since(summary: TaskSummary, activity: Activity, attention: Attention, outcome: Outcome | None) -> datetime | None:
    is_at_rest = activity in (Activity.QUIET, Activity.GONE) and attention is Attention.NONE
    ended = summary.status_updated_at if is_at_rest and outcome not in (None, Outcome.NEW) else None
    return ended or summary.since or summary.status_updated_at or summary.last_at


def _evidence(
    summary: TaskSummary, activity: Activity, outcome: Outcome | None, attention: Attention
) -> tuple[Evidence, ...]:
    """What was seen; where nothing is, what the log says of the last turn."""
    seen = () if summary.live is None else summary.live.evidence
    if attention is Attention.DECISION:
        held = Evidence(source=EvidenceSource.LOG, rule=STEP_WAITS, at=summary.asked_at, where=summary.approval_id)
        seen = (held, *seen)
    if outcome is Outcome.UNKNOWN:
        where = "the log is damaged" + ("" if summary.turn_id is None else f", turn {summary.turn_id} is not known")
        return (Evidence(source=EvidenceSource.LOG, rule="turn.unknown", where=where), *seen)
    if summary.live is not None and activity is not summary.live.activity and has_open_turn(summary.task_status):
        proof = Evidence(
            source=EvidenceSource.LOG, rule=TURN_OPEN, at=summary.status_updated_at, where=summary.turn_id or ""
        )
        # What a person is asked comes first.
        return (proof, *seen) if summary.live.attention is Attention.NONE else (*seen, proof)
    if seen:
        return seen
    if outcome in (None, Outcome.NEW) or summary.turn_state is None:
        return ()
    rule = f"turn.{summary.turn_state.value}"
    return (Evidence(source=EvidenceSource.LOG, rule=rule, at=summary.status_updated_at, where=summary.turn_id or ""),)
