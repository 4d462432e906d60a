"""What a line says of a session: answered questions, half answers, queues that are held back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from interlock.cli.server_api import Body
from interlock.cli.task_lines import by_attention, standing_of, why_of


def asking(name: str, rule: str, at: datetime, activity: str = "working") -> Body:
    evidence = [{"source": "log", "rule": rule, "at": at.isoformat()}]
    live = {"activity": activity, "attention": "approval", "evidence": evidence}
    return {"task_id": f"ses_{name}", "version": 1, "since": at.isoformat(), "live": live}


def test_what_was_answered_a_moment_ago_needs_nobody_and_stands_with_those_that_do_the_same() -> None:
    answered = asking("answered", "answer_on_its_way", datetime.now(UTC))
    standing = standing_of(answered)
    assert (standing.words, standing.attention) == ("working, approval answered", "approval")
    assert (standing.is_answered, standing.needs_person) == (True, False)
    quiet: Body = {**answered, "task_id": "ses_quiet", "live": {"activity": "quiet", "attention": "none"}}
    unsure: Body = {**answered, "task_id": "ses_unsure", "live": {"activity": "unknown", "attention": "none"}}
    asks = asking("asks", "dialog", datetime.now(UTC))
    ordered = [one["task_id"] for one in by_attention([quiet, answered, unsure, asks])]
    assert ordered == ["ses_asks", "ses_unsure", "ses_answered", "ses_quiet"]


@pytest.mark.parametrize(("rule", "seconds"), [("answer_on_its_way", 60), ("answer_on_its_way", -60), ("dialog", 0)])
def test_what_still_asks_after_a_while_or_was_not_answered_needs_a_person(rule: str, seconds: float) -> None:
    standing = standing_of(asking("one", rule, datetime.now(UTC) - timedelta(seconds=seconds)))
    assert (standing.is_answered, standing.needs_person, standing.rank) == (False, True, 0)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("partial_failed", "quiet, partial"),
        ("timed_out", "quiet, timed out"),
        ("failed", "quiet, failed"),
        (None, "quiet, failed"),
    ],
)
def test_half_an_answer_is_not_called_a_failure_like_any_other(state: str | None, words: str) -> None:
    live = {"activity": "quiet", "attention": "none"}
    task: Body = {"task_id": "ses_1", "task_status": "FAILED", "turn_id": "trn_1", "turn_state": state, "live": live}
    assert (standing_of(task).words, standing_of(task).has_failed) == (words, True)


def test_a_queue_that_is_held_back_needs_a_person_once_nothing_else_goes_on() -> None:
    live = {"activity": "quiet", "attention": "none"}
    task: Body = {"task_id": "ses_1", "task_status": "PENDING", "held": "the build is red", "queued": 1, "live": live}
    assert (standing_of(task).words, standing_of(task).needs_person) == ("held", True)
    assert why_of(task) == "the build is red"
    busy: Body = {**task, "live": {"activity": "working", "attention": "none"}}
    assert (standing_of(busy).words, standing_of(busy).needs_person) == ("working", False)
    asks: Body = {**task, "live": {"activity": "quiet", "attention": "auth"}}
    assert standing_of(asks).attention == "auth"
