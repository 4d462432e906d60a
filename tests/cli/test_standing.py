"""What a line says of a session is what its badge says, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from interlock.cli.look.session_lines import by_attention, shown_of, why_of
from interlock.projections.badge import ANSWER_ON_ITS_WAY, badge_of
from interlock.vocabulary.events.presenter import Status
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import SessionId, TurnId
from interlock.vocabulary.states import Activity, AgentState, Attention, TaskStatus, TurnState
from interlock.vocabulary.wire.frames import TaskSummary
from tests.bodies import Body
from tests.each_row import each_row

NOW = datetime(2030, 1, 1, tzinfo=UTC)
QUIET = Status(activity=Activity.QUIET)


def body(summary: TaskSummary, now: datetime = NOW) -> Body:
    line: Body = msgspec.to_builtins(msgspec.structs.replace(summary, badge=badge_of(summary, now)))
    return line


def task(name: str = "one", live: Status | None = QUIET, **more: object) -> TaskSummary:
    bare = TaskSummary(task_id=SessionId(f"ses_{name}"), version=1, live=live, since=NOW)
    return msgspec.structs.replace(bare, **more)


def asking(rule: str, at: datetime) -> Status:
    evidence = (Evidence(source=EvidenceSource.LOG, rule=rule, at=at),)
    return Status(activity=Activity.WORKING, attention=Attention.APPROVAL, evidence=evidence)


def test_what_was_answered_a_moment_ago_needs_nobody_and_stands_with_those_that_do_the_same() -> None:
    answered = task("answered", asking(ANSWER_ON_ITS_WAY, NOW))
    shown = shown_of(body(answered))
    assert (shown.words, shown.attention) == ("approval answered", "approval")
    assert (shown.is_answered, shown.needs_person) == (True, False)
    unsure = task("unsure", Status(activity=Activity.UNKNOWN))
    lines = [body(one) for one in (task("quiet"), answered, unsure, task("asks", asking("dialog", NOW)))]
    assert [one["task_id"] for one in by_attention(lines)] == ["ses_asks", "ses_unsure", "ses_answered", "ses_quiet"]


@pytest.mark.parametrize(("rule", "seconds"), [(ANSWER_ON_ITS_WAY, 60), (ANSWER_ON_ITS_WAY, -60), ("dialog", 0)])
def test_what_still_asks_after_a_while_or_was_not_answered_needs_a_person(rule: str, seconds: float) -> None:
    shown = shown_of(body(task(live=asking(rule, NOW - timedelta(seconds=seconds)))))
    assert (shown.is_answered, shown.needs_person, shown.rank) == (False, True, 0)


@each_row(
    ("state", "words", "has_failed"),
    [
        (TurnState.COMPLETED, "done · unseen", False),
        (TurnState.PARTIAL_FAILED, "failed · partial answer kept", True),
        (TurnState.TIMED_OUT, "timed out", True),
        (TurnState.FAILED, "failed", True),
        (TurnState.INTERRUPTED, "interrupted", False),
    ],
)
def test_each_end_of_a_turn_has_its_own_words(state: TurnState, words: str, has_failed: bool) -> None:
    line = task(task_status=TaskStatus.FAILED, turn_id=TurnId("trn_1"), turn_state=state)
    shown = shown_of(body(line))
    assert (shown.words, shown.has_failed, shown.needs_person) == (words, has_failed, has_failed)
    expected = "needs_you" if has_failed else "done" if state is TurnState.COMPLETED else "idle"
    assert (shown.group, shown.is_seen) == (expected, expected == "idle")
    looked = shown_of(body(msgspec.structs.replace(line, seen_turn_id=TurnId("trn_1"))))
    assert (looked.group, looked.is_seen, looked.needs_person) == ("idle", True, False)
    earlier = shown_of(body(msgspec.structs.replace(line, seen_turn_id=TurnId("trn_0"))))
    assert earlier.group == expected


def test_a_queue_that_a_person_paused_needs_nobody() -> None:
    line = task(task_status=TaskStatus.PENDING, held="lunch", is_paused=True, queued=2)
    shown = shown_of(body(line))
    assert (shown.words, shown.needs_person, shown.group) == ("idle · queue paused", False, "idle")


def test_a_session_without_a_prompt_is_new_and_one_without_a_process_is_not_running() -> None:
    assert shown_of(body(task())).words == "new · no prompt yet"
    assert shown_of(body(task(live=None))).words == "new · not running"
    assert shown_of(body(task(live=None, is_supervised=False))).words == "ended"


def test_an_adopted_agent_is_not_called_new_for_what_it_did_before_is_not_known() -> None:
    adopted = task(is_adopted=True)
    assert shown_of(body(adopted)).words == "idle · adopted"
    assert shown_of(body(msgspec.structs.replace(adopted, live=None))).words == "not running · adopted"
    assert shown_of(body(msgspec.structs.replace(adopted, live=None, is_supervised=False))).words == "ended"
    assert badge_of(adopted, NOW).outcome is None


def test_a_working_agent_says_what_it_works_at() -> None:
    busy = Status(
        activity=Activity.WORKING, substate=AgentState.RUNNING_TOOL, tool="Bash", tool_since=NOW - timedelta(seconds=12)
    )
    line = body(task(live=busy, task_status=TaskStatus.RUNNING, turn_id=TurnId("trn_1"), turn_state=TurnState.RUNNING))
    assert shown_of(line, NOW).words == "working · running Bash 12s"
    thinking = Status(activity=Activity.WORKING, substate=AgentState.THINKING)
    assert shown_of(body(task(live=thinking)), NOW).words == "working · thinking"
    idle = Status(activity=Activity.WORKING, substate=AgentState.IDLE)
    assert shown_of(body(task(live=idle)), NOW).words == "working"


def test_a_session_that_crashed_says_how_often_in_the_last_hour() -> None:
    times = tuple(NOW - timedelta(minutes=minutes) for minutes in (90, 30, 5))
    assert shown_of(body(task(crashed_at=times))).words == "new · no prompt yet · crashed 2x in 1 h"
    assert shown_of(body(task(crashed_at=times), NOW + timedelta(hours=2))).words == "new · no prompt yet"


def test_a_queue_that_is_held_back_needs_a_person_once_nothing_else_goes_on() -> None:
    line = task(task_status=TaskStatus.PENDING, held="the build is red", queued=1)
    shown = shown_of(body(line))
    assert (shown.words, shown.needs_person) == ("held", True)
    assert why_of(body(line)) == "the build is red"
    busy = msgspec.structs.replace(line, live=Status(activity=Activity.WORKING))
    assert (shown_of(body(busy)).words, shown_of(body(busy)).needs_person) == ("working", False)
    asks = msgspec.structs.replace(line, live=Status(activity=Activity.QUIET, attention=Attention.AUTH))
    assert shown_of(body(asks)).attention == "auth"


def test_a_line_without_a_badge_is_unknown_and_needs_nobody() -> None:
    line: Body = {"task_id": "ses_1", "live": {"activity": "quiet", "attention": "approval"}}
    shown = shown_of(line)
    assert (shown.activity, shown.words, shown.needs_person) == ("unknown", "unknown", False)
