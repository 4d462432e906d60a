"""How turns end, through the running runtime, once by each way: every reader says the same, and claims no more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from interlock.lifecycle.turns import TurnRecord, turn_states
from interlock.projections.checks.diagnose import ReportStatus, diagnose
from interlock.projections.present.display import DisplayChannel, Item, Show
from interlock.projections.present.presenter import Presenter, present
from interlock.projections.why import why
from interlock.runtime.policy import RunPolicy
from interlock.vocabulary.events.audit import TurnFailed
from interlock.vocabulary.events.conversation import AssistantMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import TurnState
from tests.client.waiting import until
from tests.gauntlet.ways import ANSWER, ERROR, LATER, PARTIAL, WAYS, Way, through

each_way = pytest.mark.parametrize("name", WAYS)


async def judged(way: Way, session: SessionId, states: Sequence[TurnState], answers: Sequence[str]) -> TurnRecord:
    """What holds of every history: all readers agree, and only clean answers are drawn as such, live and replayed."""
    events = await way.events(session)
    records = turn_states(events)
    assert [record.state for record in records] == list(states)
    report = diagnose(events, owner_alive=True)
    is_clean = all(state is TurnState.COMPLETED for state in states)
    assert report.status is (ReportStatus.READY if is_clean else ReportStatus.READY_WITH_WARNINGS), report.checks
    assert list(report.turns) == records
    assert why(events, owner_alive=True).record == records[-1]
    last = events[-1].seq or 0
    # What is in the log is published next: an agent may say something of itself at any moment.
    await until(lambda: any((event.seq or 0) >= last for event in way.published if event.session_id == session))
    live = [event for event in way.published if event.session_id == session and (event.seq or 0) <= last]
    assert [event for event in live if event.seq is not None] == list(events)
    assert_drawn(present(events), records, answers)
    assert_drawn(present(live), records, answers)
    assert_nothing_is_drawn_as_an_answer_before_its_turn_is_closed(live)
    return records[-1]


def assert_drawn(items: Sequence[Item], records: Sequence[TurnRecord], answers: Sequence[str]) -> None:
    shown = [item for item in items if isinstance(item, Show)]
    assert [item.text for item in shown if item.channel is DisplayChannel.ANSWER] == list(answers)
    assert all(item.label for item in shown if item.channel is DisplayChannel.PARTIAL)
    for record in records:
        ends = [item for item in shown if item.turn_id == record.turn_id and item.channel is DisplayChannel.ERROR]
        assert [item.state for item in ends] == [record.state] * (record.state is not TurnState.COMPLETED)
        assert all(item.next_actions == record.next_actions for item in ends)


def assert_nothing_is_drawn_as_an_answer_before_its_turn_is_closed(live: Sequence[Event]) -> None:
    presenter = Presenter()
    closed: set[object] = set()
    for event in live:
        items = presenter.add(event)
        if event.type == "run_state" and getattr(event.data, "reason", None) is not None:
            closed.add(event.turn_id)
        drawn = [item for item in items if item.channel is DisplayChannel.ANSWER]
        assert all(item.turn_id in closed for item in drawn)


def partials(events: Sequence[Event]) -> list[str]:
    messages = [event.data for event in events if isinstance(event.data, AssistantMessage)]
    return [message.text for message in messages if message.metadata.partial]


def failure(events: Sequence[Event]) -> TurnFailed:
    return next(event.data for event in reversed(events) if isinstance(event.data, TurnFailed))


@each_way
def test_a_clean_turn_is_completed_with_its_answer(name: str) -> None:
    async def story(way: Way) -> None:
        session = await way.open()
        assert await way.ask(session, "answer") is TurnState.COMPLETED
        await judged(way, session, [TurnState.COMPLETED], [ANSWER])

    through(name, story)


@each_way
def test_a_provider_error_after_partial_text_is_no_answer_and_the_next_turn_is_clean(name: str) -> None:
    async def story(way: Way) -> None:
        session = await way.open()
        assert await way.ask(session, "break") is way.broken
        assert await way.ask(session, "later") is TurnState.COMPLETED
        await judged(way, session, [way.broken, TurnState.COMPLETED], [LATER])
        events = await way.events(session)
        assert partials(events) == [PARTIAL] * way.is_text_live
        assert ERROR in failure(events).error_message

    through(name, story)


@each_way
def test_an_interrupted_turn_is_interrupted_and_the_agent_takes_the_next_prompt(name: str) -> None:
    async def story(way: Way) -> None:
        session = await way.open()
        prompt = await way.begin(session, "hang")
        await way.runtime.cancel(session)
        record = await way.runtime.wait_turn(session, prompt)
        assert (record.state, record.cancel_requested) == (TurnState.INTERRUPTED, True)
        assert await way.ask(session, "later") is TurnState.COMPLETED
        await judged(way, session, [TurnState.INTERRUPTED, TurnState.COMPLETED], [LATER])
        assert partials(await way.events(session)) == [PARTIAL] * way.is_text_live

    through(name, story)


@each_way
def test_a_turn_that_uses_up_its_time_is_timed_out_and_says_what_to_do(name: str) -> None:
    async def story(way: Way) -> None:
        session = await way.open(RunPolicy(turn_budget_seconds=1000, interrupt_seconds=5, stall_after_seconds=None))
        prompt = await way.begin(session, "hang")
        await way.pass_time(session, 1001)
        record = await way.runtime.wait_turn(session, prompt)
        assert record.state is TurnState.TIMED_OUT
        await judged(way, session, [TurnState.TIMED_OUT], [])
        events = await way.events(session)
        told = failure(events)
        assert isinstance(told.details, dict)
        assert told.details["budget_seconds"] == 1000
        assert told.next_actions
        assert partials(events) == [PARTIAL] * way.is_text_live

    through(name, story)
