"""How a prompt stands by what the server says: each law of `prompt_watch`, without a server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.cli.exit_codes import ExitCode
from interlock.cli.work.prompt_wait import exit_code_of
from interlock.client.prompt_watch import PromptEnding, PromptLook, Watch, places_ahead, step, turn_in
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.wire.frames import Message, MessageStatus, Role
from tests.cli.badges import look_of
from tests.client.fake_room import AT
from tests.each_row import each_row

PROMPT = PromptId("prm_1")
WATCH = Watch(prompt_id=PROMPT)


def look(
    turn: str | None = None,
    *,
    status: str | None = "RUNNING",
    newest: str = "trn_1",
    waiting: tuple[str, ...] = (),
    approvals: int = 0,
    is_open: bool = True,
    **more: object,
) -> PromptLook:
    queue = {"waiting": [{"prompt_id": one, "text": "x"} for one in waiting], "is_open": is_open}
    asked = [
        {
            "approval_id": f"apr_{number}",
            "session_id": "ses_1",
            "turn_id": newest,
            "state": "open",
            "attention": "approval",
            "question": "May I?",
            "asked_at": AT.isoformat(),
        }
        for number in range(approvals)
    ]
    summary = {"task_id": "ses_1", "turn_id": newest, "task_status": status, **more}
    record = None if turn is None else {"turn_id": "trn_1", "state": turn}
    return look_of(summary, record, queue=queue, approvals=asked)


@each_row(
    ("state", "code"),
    [
        ("completed", ExitCode.COMPLETED),
        ("failed", ExitCode.FAILED),
        ("partial_failed", ExitCode.PARTIAL),
        ("interrupted", ExitCode.INTERRUPTED),
        ("timed_out", ExitCode.TIMED_OUT),
    ],
)
def test_a_turn_ends_as_its_record_says(state: str, code: ExitCode) -> None:
    # Whatever the session shows meanwhile: a later turn may be open, and ask.
    _, outcome = step(WATCH, look(state, status="PENDING_CONFIRMATION", newest="trn_2", approvals=1), 0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome), outcome.turn_state) == (PromptEnding.ENDED, code, state)


def test_a_turn_of_which_events_are_lost_is_not_waited_for() -> None:
    _, outcome = step(WATCH, look("unknown", status="UNKNOWN", turn_state="unknown"), 0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome), outcome.turn_state) == (
        PromptEnding.UNKNOWN,
        ExitCode.UNKNOWN,
        "unknown",
    )


@pytest.mark.parametrize("status", ["COMPLETED", "RUNNING", "CANCELLING", "FAILED"])
def test_a_status_ends_no_turn_whose_record_is_open(status: str) -> None:
    assert step(WATCH, look("running", status=status), 0)[1] is None


def test_an_open_question_blocks_unless_somebody_else_answers_it() -> None:
    asked = look("waiting", status="PENDING_CONFIRMATION", approvals=1)
    _, outcome = step(WATCH, asked, 0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome)) == (PromptEnding.BLOCKED, ExitCode.BLOCKED)
    assert step(Watch(prompt_id=PROMPT, past_questions=True), asked, 0)[1] is None


def test_a_question_that_was_answered_blocks_no_more_before_the_agent_goes_on() -> None:
    assert step(WATCH, look("waiting", status="RUNNING"), 0)[1] is None


def test_a_question_blocks_what_waits_behind_it() -> None:
    behind = look(status="PENDING_CONFIRMATION", waiting=("prm_0", "prm_1"), approvals=1)
    _, outcome = step(WATCH, behind, 0)
    assert outcome is not None
    assert outcome.ending is PromptEnding.BLOCKED
    assert step(Watch(prompt_id=PROMPT, past_questions=True), behind, 0)[1] is None


def test_a_queue_that_is_held_is_not_waited_for() -> None:
    _, outcome = step(WATCH, look(waiting=("prm_1",), is_open=False), 0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome)) == (PromptEnding.HELD, ExitCode.BLOCKED)


def test_a_queue_that_is_held_by_an_error_is_a_failure() -> None:
    broken = {"activity": "gone", "attention": "error"}
    _, outcome = step(WATCH, look(waiting=("prm_1",), is_open=False, live=broken), 0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome)) == (PromptEnding.HELD, ExitCode.FAILED)


def test_a_log_that_cannot_be_written_is_waited_out() -> None:
    proof = {"source": "log", "rule": "log_unavailable", "where": "the disk is full"}
    unrecorded = look("running", live={"activity": "unknown", "attention": "error", "evidence": [proof]})
    watch, outcome = step(WATCH, unrecorded, 0)
    assert (watch.look_again_seconds, outcome) == (None, None)
    assert step(watch, unrecorded, 1e9)[1] is None


BROKEN = {"activity": "quiet", "attention": "error"}
ASKING = {"activity": "working", "attention": "question"}


@pytest.mark.parametrize("seen", [look("running", live=BROKEN), look(waiting=("prm_1",), live=BROKEN)])
def test_an_error_is_a_failure_after_a_while_and_not_before(seen: PromptLook) -> None:
    # The end of the turn that had the error may be on its way: then that is told.
    watch, outcome = step(WATCH, seen, 100.0)
    assert (outcome, watch.look_again_seconds) == (None, 1.0)
    watch, outcome = step(watch, seen, 104.9)
    assert outcome is None
    _, outcome = step(watch, seen, 105.0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome)) == (PromptEnding.BLOCKED, ExitCode.FAILED)
    watch, outcome = step(watch, look("running"), 105.0)
    assert (outcome, watch.look_again_seconds) == (None, None)


@pytest.mark.parametrize("seen", [look("running", live=ASKING), look(waiting=("prm_1",), live=ASKING)])
def test_what_the_badge_says_is_asked_blocks_without_an_approval(seen: PromptLook) -> None:
    _, outcome = step(WATCH, seen, 0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome)) == (PromptEnding.BLOCKED, ExitCode.BLOCKED)


UNREAD = {"activity": "unknown", "evidence": [{"source": "screen", "rule": "no_profile_fits", "where": "profile x"}]}


def test_a_prompt_for_an_agent_whose_screen_no_profile_fits_is_not_waited_for() -> None:
    _, outcome = step(WATCH, look(status="PENDING", waiting=("prm_1",), live=UNREAD), 0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome)) == (PromptEnding.UNREADABLE, ExitCode.UNKNOWN)


@pytest.mark.parametrize(
    "seen",
    [
        look("running", live=UNREAD),  # its turn has its own end
        look(status="PENDING", waiting=("prm_1",), live={"activity": "unknown"}),  # it may be known soon
        look(status="PENDING", waiting=("prm_1",), live={**UNREAD, "activity": "starting"}),
    ],
)
def test_what_is_only_unknown_is_waited_for(seen: PromptLook) -> None:
    assert step(WATCH, seen, 0)[1] is None


def test_a_queue_that_is_held_does_not_block_the_turn_that_runs() -> None:
    held = look("running", live={"activity": "quiet"}, waiting=("prm_2",), is_open=False, held="paused", queued=1)
    assert step(WATCH, held, 0)[1] is None


def test_a_prompt_is_taken_back_only_where_it_was_denied_twice() -> None:
    watch, outcome = step(WATCH, look(), 0)
    assert outcome is None
    watch, outcome = step(watch, look(waiting=("prm_1",)), 0)  # it was only read half
    assert outcome is None
    watch, outcome = step(watch, look(), 0)
    assert outcome is None
    _, outcome = step(watch, look(), 0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome)) == (PromptEnding.TAKEN_BACK, ExitCode.INTERRUPTED)


def test_a_session_that_is_put_away_has_no_turn_for_it() -> None:
    _, outcome = step(WATCH, look(status="DELETE", waiting=("prm_1",)), 0)
    assert outcome is not None
    assert outcome.ending is PromptEnding.TAKEN_BACK


@pytest.mark.parametrize(
    "lost", [look("abandoned", status="UNKNOWN"), look(waiting=("prm_1",), is_supervised=False, status=None)]
)
def test_what_nobody_runs_is_unknown_after_a_while_and_not_before(lost: PromptLook) -> None:
    watch, outcome = step(WATCH, lost, 100.0)
    assert outcome is None
    watch, outcome = step(watch, lost, 104.9)
    assert outcome is None
    _, outcome = step(watch, lost, 105.0)
    assert outcome is not None
    assert (outcome.ending, exit_code_of(outcome)) == (PromptEnding.UNKNOWN, ExitCode.UNKNOWN)


def test_what_is_taken_up_again_was_never_lost() -> None:
    watch, _ = step(WATCH, look("abandoned", status="UNKNOWN"), 100.0)
    watch, _ = step(watch, look("running"), 104.0)
    _, outcome = step(watch, look("abandoned", status="UNKNOWN"), 108.0)
    assert outcome is None


def message(prompt_id: str | None, turn_id: str) -> Message:
    return Message(
        message_id=1,
        version=1,
        role=Role.USER,
        status=MessageStatus.COMPLETED,
        at=AT,
        turn_id=TurnId(turn_id),
        prompt_id=None if prompt_id is None else PromptId(prompt_id),
    )


def test_what_was_heard_before_a_loss_blocks_nothing_that_the_record_says_runs() -> None:
    asked = replace(look("running", status="PENDING_CONFIRMATION", approvals=1), is_sure=False)
    assert step(WATCH, asked, 0)[1] is None
    _, outcome = step(WATCH, replace(look("waiting", status="PENDING_CONFIRMATION", approvals=1), is_sure=False), 0)
    assert outcome is not None
    assert outcome.ending is PromptEnding.BLOCKED


def test_the_turn_of_a_prompt_is_found_by_its_name() -> None:
    said = [message("prm_1", "trn_1"), message(None, "trn_2"), message("prm_2", "trn_3")]
    assert turn_in(said, PROMPT) == "trn_1"
    assert turn_in(said, PromptId("prm_9")) is None


def test_places_ahead_are_counted() -> None:
    assert places_ahead(PROMPT, look(waiting=("prm_0", "prm_1")).detail.queue) == 1
    assert places_ahead(PromptId("prm_9"), look(waiting=("prm_0",)).detail.queue) == 0
