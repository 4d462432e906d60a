"""One turn in the hands of a caller: its text, its questions, its answer, and an error for every other end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from interlock.client.machine.inputs import CheckReason
from interlock.client.machine.state import SyncState
from interlock.client.outcome import (
    _ERRORS,
    NoAnswerError,
    TextReader,
    TurnBlockedError,
    TurnError,
    TurnInterruptedError,
    TurnOutcome,
    TurnPartialError,
    TurnResult,
    TurnUnknownError,
    answer_of,
)
from interlock.client.task import TaskHandle
from interlock.client.turn import QuestionAnswer, TurnHandle, Verdict
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.states import TaskStatus, TurnState
from interlock.vocabulary.wire.approval import Approval
from interlock.vocabulary.wire.frames import Message, MessageStatus, Role
from interlock.vocabulary.wire.requests import Ack, ApprovalDecide, Problem, Refused, Request
from tests.client.fake_room import AT, TASK
from tests.client.fake_server import FakeSocket
from tests.client.test_client import World, world
from tests.client.waiting import until
from tests.contract.harness import run


@asynccontextmanager
async def turn_that_runs(**how: bool | Callable[[Approval], Verdict]) -> AsyncIterator[tuple[World, TurnHandle]]:
    """A prompt that was sent, and whose turn runs."""
    async with world() as here:
        task = await here.joined()
        turn = await task.run("hello", **how)  # type: ignore[arg-type]
        here.room.begin_turn("trn_1", turn.prompt_id)
        yield here, turn


def end(here: World, state: TurnState, status: TaskStatus | None) -> None:
    here.room.record("trn_1", state)
    here.room.set_status(status, "trn_1")


# Answers and ends


def test_the_answer_is_the_last_one_of_a_turn_that_completed() -> None:
    async def story() -> None:
        async with turn_that_runs() as (here, turn):
            here.room.add_message("I look", Role.COMMENTARY)
            here.room.add_message("forty two")
            end(here, TurnState.COMPLETED, TaskStatus.COMPLETED)
            assert await turn.answer(20) == "forty two"
            outcome = await turn.outcome(20)
            assert (outcome.result, outcome.partial_text) == (TurnResult.COMPLETED, "")

    run(story())


@pytest.mark.parametrize(
    ("state", "result"),
    [
        (TurnState.PARTIAL_FAILED, TurnResult.PARTIAL),
        (TurnState.FAILED, TurnResult.FAILED),
        (TurnState.TIMED_OUT, TurnResult.TIMED_OUT),
        (TurnState.INTERRUPTED, TurnResult.INTERRUPTED),
        (TurnState.UNKNOWN, TurnResult.UNKNOWN),
    ],
)
def test_any_other_end_is_an_error_with_what_was_kept_called_partial(state: TurnState, result: TurnResult) -> None:
    async def story() -> None:
        async with turn_that_runs() as (here, turn):
            here.room.add_message("half of", status=MessageStatus.PARTIAL)
            end(here, state, TaskStatus.FAILED)
            with pytest.raises(_ERRORS[result], match="a part of its text was kept") as told:
                await turn.answer(20)
            error = told.value
            assert isinstance(error, TurnError)
            assert (error.outcome.result, error.outcome.answer, error.partial_text) == (result, None, "half of")

    run(story())


def test_text_that_nobody_gives_is_missing_and_text_off_a_screen_has_to_be_asked_for() -> None:
    async def story() -> None:
        async with turn_that_runs() as (here, turn):
            end(here, TurnState.COMPLETED, TaskStatus.COMPLETED)
            with pytest.raises(NoAnswerError, match="no channel gives its text"):
                await turn.answer(20)
            here.room.add_message("off a screen", is_verified=False)
            with pytest.raises(NoAnswerError, match="read off a screen"):
                await turn.answer(20)
            assert await turn.answer(20, unverified=True) == "off a screen"

    run(story())


def test_a_prompt_that_was_removed_and_one_in_a_paused_queue_have_their_own_errors() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            held = await task.run("hello")
            here.room.hold((held.prompt_id, "hello"), is_open=False, reason="too expensive")
            with pytest.raises(TurnBlockedError, match="the queue is held: too expensive"):
                await held.answer(20)
            here.room.hold()
            with pytest.raises(TurnInterruptedError, match="removed before it was sent"):
                await held.answer(20)

    run(story())


def test_every_result_but_completed_has_its_error() -> None:
    assert set(_ERRORS) == set(TurnResult) - {TurnResult.COMPLETED}
    assert len(set(_ERRORS.values())) == len(_ERRORS)
    for result, kind in _ERRORS.items():
        outcome = TurnOutcome(result=result, session_id=TASK, prompt_id="prm_1", why="so", answer="never")  # type: ignore[arg-type]
        with pytest.raises(kind, match="so; `interlock why ses_1`"):
            answer_of(outcome, unverified=True)


def test_a_wait_that_is_too_short_says_so_and_touches_nothing() -> None:
    async def story() -> None:
        async with turn_that_runs() as (here, turn):
            with pytest.raises(TimeoutError, match="the end of prompt"):
                await turn.answer(0)
            here.room.add_message("late")
            end(here, TurnState.COMPLETED, TaskStatus.COMPLETED)
            assert await turn.answer(20) == "late"

    run(story())


# Text


def test_text_comes_as_it_grows_and_ends_with_the_turn() -> None:
    async def story() -> None:
        async with turn_that_runs() as (here, turn):
            pieces = turn.text()
            here.room.say("one ")
            assert await anext(pieces) == "one "
            here.room.say("two")
            assert await anext(pieces) == "two"
            here.room.end_stream()
            here.room.add_message("and three")
            assert await anext(pieces) == "\nand three"
            end(here, TurnState.COMPLETED, TaskStatus.COMPLETED)
            assert [piece async for piece in pieces] == []

    run(story())


def test_text_of_a_turn_that_failed_ends_with_its_error() -> None:
    async def story() -> None:
        async with turn_that_runs() as (here, turn):
            pieces = turn.text()
            here.room.say("half")
            assert await anext(pieces) == "half"
            end(here, TurnState.PARTIAL_FAILED, TaskStatus.FAILED)
            with pytest.raises(TurnPartialError):
                await anext(pieces)

    run(story())


def message(text: str, message_id: int, stream_id: str | None = None, turn_id: str = "trn_1", **more: Role) -> Message:
    return Message(
        message_id=message_id,
        version=1,
        role=more.get("role", Role.ANSWER),
        status=MessageStatus.COMPLETED,
        text=text,
        at=AT,
        turn_id=TurnId(turn_id),
        stream_id=stream_id,  # type: ignore[arg-type]
    )


def test_a_message_takes_the_place_of_the_stream_that_it_was() -> None:
    reader, turn_id = TextReader(), TurnId("trn_1")
    assert reader.read([message("he", 0, "str_1")], None) == ""
    assert reader.read([message("he", 0, "str_1")], turn_id) == "he"
    assert reader.read([message("hello", 7, "str_1")], turn_id) == "llo"
    assert reader.read([message("hello", 7, "str_1"), message("x", 8, role=Role.TOOL)], turn_id) == ""
    assert reader.read([message("hello", 7, "str_1"), message("other", 9, turn_id="trn_0")], turn_id) == ""
    assert reader.read([message("hello", 7, "str_1"), message("more", 9)], turn_id) == "\nmore"


# Questions


def decided(here: World) -> list[ApprovalDecide]:
    return [one for one in here.server.requests if isinstance(one, ApprovalDecide)]


def answering(here: World) -> Callable[[FakeSocket, Request], None]:
    """The room, which closes a question that was answered."""
    honest = here.server.on_request

    def take(socket: FakeSocket, request: Request) -> None:
        if isinstance(request, ApprovalDecide):
            here.room.close_questions()
            here.room.set_status(TaskStatus.RUNNING, "trn_1")
            socket.send(Ack(id=request.id, result={"approval_id": request.approval_id, "state": "decided"}))
        else:
            honest(socket, request)

    return take


def test_a_question_is_given_to_the_callback_once_and_its_answer_to_the_agent() -> None:
    asked: list[str] = []

    async def decide(question: Approval) -> Verdict:
        asked.append(question.approval_id)
        return QuestionAnswer(is_allowed=True, text="go on")

    async def story() -> None:
        async with turn_that_runs(on_question=decide) as (here, turn):  # type: ignore[arg-type]
            here.server.on_request = answering(here)
            waiting = asyncio.create_task(turn.answer(20))
            here.room.ask("apr_1")
            here.room.set_status(TaskStatus.PENDING_CONFIRMATION, "trn_1")
            await until(lambda: decided(here))
            here.room.add_message("done")
            end(here, TurnState.COMPLETED, TaskStatus.COMPLETED)
            assert await waiting == "done"
            assert asked == ["apr_1"]
            assert [(one.is_allowed, one.text) for one in decided(here)] == [(True, "go on")]

    run(story())


def test_a_question_that_the_room_did_not_tell_yet_is_given_to_the_callback_before_the_turn_is_called_blocked() -> None:
    async def story() -> None:
        async with turn_that_runs(on_question=lambda _: True) as (here, turn):
            await turn.task.wait(lambda state: state.status == TaskStatus.RUNNING, 20)
            here.server.on_request = answering(here)
            here.room.is_quiet = True
            here.room.ask("apr_1")
            here.room.record("trn_1", TurnState.WAITING)
            here.room.set_status(TaskStatus.PENDING_CONFIRMATION, "trn_1")
            found = await turn.next()
            assert isinstance(found, Approval)
            assert (found.approval_id, decided(here)) == ("apr_1", [])

    run(story())


def test_what_a_callback_leaves_open_blocks_the_turn_and_nobody_decided() -> None:
    asked: list[str] = []

    def leave(question: Approval) -> Verdict:
        asked.append(question.approval_id)
        return None

    async def story() -> None:
        async with turn_that_runs(on_question=leave) as (here, turn):
            here.room.ask("apr_1")
            here.room.record("trn_1", TurnState.WAITING)
            here.room.set_status(TaskStatus.PENDING_CONFIRMATION, "trn_1")
            with pytest.raises(TurnBlockedError, match=r"waits for a person: May I\?") as told:
                await turn.answer(20)
            assert [one.approval_id for one in told.value.outcome.approvals] == ["apr_1"]
            assert (asked, decided(here)) == (["apr_1"], [])

    run(story())


def test_somebody_who_was_faster_is_no_error_and_a_refusal_is_one() -> None:
    async def story() -> None:
        async with turn_that_runs(on_question=lambda _: True) as (here, turn):
            here.room.ask("apr_1")
            (question,) = (await turn.task.wait(lambda state: bool(state.approvals), 20)).approvals
            problems = [
                Problem(title="Decided", status=409, code="conflict"),
                Problem(title="Not you", status=403, code="forbidden"),
            ]
            here.server.on_request = lambda socket, request: socket.send(
                Refused(id=request.id, problem=problems.pop(0))
            )
            await turn.decide(question, True)
            with pytest.raises(Exception, match="Not you"):
                await turn.decide(question, True)

    run(story())


# The signals of a page


def checks_in(here: World) -> int:
    return len([call for call in here.server.calls if call.path.endswith("/runtime-check")])


def reasons(task: TaskHandle) -> CheckReason | None:
    return task.state.last_reason


def test_the_signals_of_a_page_make_the_client_look_and_are_the_reason() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            for signal, reason in (
                (here.client.page_visible, CheckReason.PAGE_VISIBLE),
                (here.client.network_online, CheckReason.NETWORK_ONLINE),
                (task.queued_message_blocked, CheckReason.QUEUED_MESSAGE_BLOCKED),
            ):
                await task.settled(20)
                checks = checks_in(here)
                signal()
                await until(lambda checks=checks: checks_in(here) > checks)  # type: ignore[misc]
                assert reasons(task) is reason
            assert task.state.queued_here == 1
            task.queued_message_blocked(0)
            assert task.state.queued_here == 0

    run(story())


def test_another_answer_of_the_server_is_taken_if_it_is_newer() -> None:
    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            here.room.is_quiet = True
            old = here.room.summary()
            here.room.set_status(TaskStatus.FAILED, "trn_1")
            task.sync_task_detail(here.room.summary())
            assert task.state.status == TaskStatus.FAILED
            task.sync_task_detail(old)
            assert task.state.status == TaskStatus.FAILED
            assert task.state.sync is SyncState.JOINED
            detail = await task.detail()
            task.sync_task_detail(detail)

    run(story())


def test_nobody_runs_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.client.prompt_watch.GRACE_SECONDS", 0.05)

    async def story() -> None:
        async with world() as here:
            task = await here.joined()
            turn = await task.run("hello")
            here.room.is_supervised = False
            with pytest.raises(TurnUnknownError, match="no server runs it"):
                await turn.answer(20)

    run(story())
