"""The short way of a piece of text and the long one: whatever was heard and ordered before, both do the same."""

from __future__ import annotations

import pytest
from hypothesis import event as note
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents import observations as seen
from interlock.agents.observations import Observation
from interlock.agents.port import Capabilities
from interlock.runtime.policy import RunPolicy
from interlock.runtime.session import text_flow
from interlock.vocabulary.events.audit import Anomaly, DeliveryStage
from interlock.vocabulary.events.envelope import new_event
from interlock.vocabulary.ids import EventId, SessionId
from interlock.vocabulary.states import DriverKind
from tests.properties.test_conductor_properties import AGENTS, MOVES, Play

TEXT = st.sampled_from(
    [
        seen.TextArrived(text="word "),
        seen.TextArrived(text="word "),
        seen.TextArrived(text=""),
        seen.TextArrived(text="x" * 200_000),
        seen.TextArrived(text="of a child", sub_agent="child"),
    ]
)
# Runs of text, short pauses in them, and between them whatever else can happen to a session.
RUN = st.lists(st.one_of(TEXT, TEXT, st.sampled_from([0.0, 0.3, 1.1])), min_size=3, max_size=6)
OTHER = st.lists(st.one_of(MOVES, st.just("aside")), min_size=1, max_size=2)
STORIES = st.lists(st.one_of(RUN, OTHER), min_size=2, max_size=16).map(
    lambda parts: [one for part in parts for one in part]
)
OPENING: tuple[Observation | str | float, ...] = (
    "send",
    "grant",
    seen.BecameReady(),
    "submit",
    seen.PromptReached(stage=DeliveryStage.STARTED),
    seen.TextArrived(text="it begins "),
)


def _move(play: Play, move: Observation | str | float) -> None:
    if move != "aside":
        play.move(move)
        return
    stage = play.stage  # what somebody else writes about a session, as `Supervisor.record` does
    stage.version += 1
    told = new_event(
        Anomaly(kind="aside", source="test", message=""),
        id=EventId(f"evt_aside{stage.version}"),
        session_id=SessionId("ses_stage"),
        ts=stage.now.at,
        seq=stage.version,
    )
    stage.events.append(told)
    stage.conductor.book.add(told)


def _states(play: Play) -> tuple[object, ...]:
    machine = play.stage.conductor
    turn = machine.open_turn
    of_turn = None if turn is None else (turn.way, turn.answer.text, turn.progress_seconds, turn.progress)
    parts = (machine.life, machine._session.process, machine.status, dict(machine.questions.questions))
    return (*parts, of_turn, machine.deadline, machine.book.version, machine.book.turn)


def _compare(agent: tuple[DriverKind, Capabilities], story: list[Observation | str | float]) -> int:
    """How many pieces went the short way."""
    quick, slow, pieces = Play(*agent), Play(*agent), 0
    for move in (*OPENING, *story):
        before = quick.stage.conductor.deadline
        flow = quick.stage.conductor._session.flow
        _move(quick, move)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_flow, "next_piece", lambda *_: None)
            _move(slow, move)
        assert quick.stage.acts == slow.stage.acts
        assert _states(quick) == _states(slow)
        if isinstance(move, seen.TextArrived) and flow is not None and quick.stage.conductor._session.flow is flow:
            after = quick.stage.conductor.deadline
            assert before is None or (after is not None and after >= before), "a piece brought a deadline nearer"
            pieces += 1
    return pieces


@given(AGENTS, STORIES)
def test_the_short_way_does_what_the_long_way_does(
    agent: tuple[DriverKind, Capabilities], story: list[Observation | str | float]
) -> None:
    note("short" if _compare(agent, story) else "long only")


def test_text_in_the_midst_of_text_goes_the_short_way() -> None:
    piece = seen.TextArrived(text="word ")
    assert _compare((DriverKind.STREAM, Capabilities()), [piece] * 5) >= 4


def test_a_checkpoint_that_comes_due_costs_one_long_way() -> None:
    piece = seen.TextArrived(text="word ")
    assert _compare((DriverKind.STREAM, Capabilities()), [piece, piece, 1.1, piece, piece, piece]) == 3


def test_another_policy_is_asked_at_the_next_piece() -> None:
    play = Play(DriverKind.STREAM, Capabilities())
    for move in (*OPENING, seen.TextArrived(text="word "), seen.TextArrived(text="word ")):
        play.move(move)
    assert play.stage.conductor._session.flow is not None
    play.stage.conductor.policy = RunPolicy()
    assert play.stage.conductor._session.flow is None
