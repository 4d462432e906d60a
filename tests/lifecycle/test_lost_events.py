"""A turn that is read across lost events is `unknown`, wherever they were; what ended before them stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.closing import Ending, closing_batch
from interlock.lifecycle.turn import MAX_LOSSES, FindingKind, LostEvents
from interlock.lifecycle.turns import LOG_DAMAGED, TurnFold, TurnRecord, fold_turns, turn_states
from interlock.testing.scribe import Scribe
from interlock.vocabulary.actions import NextActionKind
from interlock.vocabulary.events.audit import ProviderUsage, RunState, TurnStarted
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    MessageMetadata,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, RunId, SessionId
from interlock.vocabulary.run import CANCELLED, NATURAL_END, RunStatus, TerminationReason
from interlock.vocabulary.states import DriverKind, TurnState
from tests.each_row import each_row

ENDS: Final = (NATURAL_END, CANCELLED, TerminationReason.error("the line went dead"))
CALL: Final = ToolCall(call_id=CallId("c1"), name="Bash")
RESULT: Final = ToolResult(call_id=CallId("c1"), ok=True, output="ok")
LOOKS: Final = AssistantMessage(text="I will look", metadata=MessageMetadata(intermediate=True))


def turn(
    scribe: Scribe,
    name: str,
    work: Sequence[Payload] = (LOOKS, CALL, RESULT),
    *,
    reason: TerminationReason | None = NATURAL_END,
    has_prompt: bool = True,
    driver: DriverKind = DriverKind.STREAM,
) -> None:
    """One turn as the runtime writes it: prompt, start, run, work, and a closing batch if it has a reason to end."""
    prompt = (UserMessage(text=f"do {name}"),) if has_prompt else ()
    running = RunState(run_id=RunId(f"run_{name}"), status=RunStatus.RUNNING)
    scribe.write(*prompt, TurnStarted(driver=driver), running, *work, turn=name)
    if reason is not None:
        facts = fold_turns(scribe.events).turns[scribe.session, name]  # type: ignore[index]
        ending = Ending(run_id=RunId(f"run_{name}"), reason=reason, text="It is done.")
        scribe.write(*closing_batch(facts, ending), turn=name)


def two_turns() -> Scribe:
    """t1 is events 1 to 8 (closing batch: 7 and 8), t2 is 9 to 16."""
    scribe = Scribe()
    turn(scribe, "t1")
    turn(scribe, "t2")
    assert len(scribe.events) == 16
    return scribe


def without(events: Sequence[Event], *seqs: int) -> list[Event]:
    return [event for event in events if event.seq not in seqs]


def states(events: Sequence[Event]) -> dict[str, str]:
    return {record.turn_id: record.state.value for record in turn_states(events)}


def record(events: Sequence[Event], name: str) -> TurnRecord:
    return next(one for one in turn_states(events) if one.turn_id == name)


@each_row("lost", range(2, 9))
def test_any_event_lost_after_its_prompt_makes_a_turn_unknown(lost: int) -> None:
    assert states(without(two_turns().events, lost)) == {"t1": "unknown", "t2": "completed"}


def test_a_turn_whose_beginning_is_lost_is_unknown_although_its_end_is_read() -> None:
    events = without(two_turns().events, 9, 10, 11)
    assert states(events) == {"t1": "completed", "t2": "unknown"}
    read = record(events, "t2")
    assert (read.lost, read.reason) == ((LostEvents(9, 11),), NATURAL_END)
    assert [proof.rule for proof in read.evidence] == ["events_lost", "clean_answer", "run_natural"]


def test_a_turn_of_which_only_the_prompt_is_lost_is_unknown() -> None:
    """What is read may be a second owner's start: calls, a failure or a request to stop may be lost before it."""
    assert states(without(two_turns().events, 9)) == {"t1": "completed", "t2": "unknown"}


def test_what_is_lost_after_a_turn_ended_changes_nothing_of_it() -> None:
    scribe = two_turns()
    scribe.write(ProviderUsage(model="m"), turn="t2")
    scribe.write(ProviderUsage(model="m"))
    turn(scribe, "t3")
    assert states(without(scribe.events, 17, 18)) == dict.fromkeys(("t1", "t2", "t3"), "completed")


def test_a_turn_whose_prompt_is_read_has_lost_nothing_before_it() -> None:
    scribe = two_turns()
    assert states(without(scribe.events, 7, 8)) == {"t1": "unknown", "t2": "completed"}
    assert states(without(scribe.events, *range(1, 9))) == {"t2": "completed"}


def test_a_turn_that_nobody_prompted_is_unknown_only_directly_behind_a_loss() -> None:
    scribe = Scribe()
    turn(scribe, "t1")
    scribe.write(ProviderUsage(model="m"))
    turn(scribe, "t2", has_prompt=False)
    turn(scribe, "t3", has_prompt=False)
    assert states(without(scribe.events, 9)) == {"t1": "completed", "t2": "unknown", "t3": "completed"}
    assert states(without(scribe.events, 4)) == {"t1": "unknown", "t2": "completed", "t3": "completed"}


def test_every_turn_that_is_open_when_events_are_lost_is_unknown() -> None:
    scribe = Scribe()
    turn(scribe, "t1", reason=None)
    turn(scribe, "t2", reason=None)
    turn(scribe, "t3")
    lost = without(scribe.events, 8)  # t1 is 1..6, t2 7..12
    assert states(lost) == {"t1": "unknown", "t2": "unknown", "t3": "completed"}


def test_the_loss_of_the_tail_makes_an_open_turn_unknown_and_leaves_an_ended_one() -> None:
    fold = fold_turns(two_turns().events[:12])
    fold.lose(SessionId("ses_scribe"), 13, 16)
    assert [one.state for one in fold.turns.values()] == [TurnState.COMPLETED, TurnState.UNKNOWN]
    ended = fold_turns(two_turns().events)
    ended.lose(SessionId("ses_scribe"), 17, None)
    assert {one.state for one in ended.turns.values()} == {TurnState.COMPLETED}
    assert ended.lost_since(SessionId("ses_scribe")) == LostEvents(17, 17)


def test_without_an_end_of_the_session_only_what_is_open_is_doubted_and_once() -> None:
    fold = fold_turns(two_turns().events[:12])
    for _ in range(3):
        fold.lose(SessionId("ses_scribe"), None, None)
    states_now = [(one.state, one.lost) for one in fold.turns.values()]
    assert states_now == [(TurnState.COMPLETED, ()), (TurnState.UNKNOWN, (LostEvents(13, None),))]


def test_which_turn_is_the_newest_is_open_until_a_turn_is_read_again() -> None:
    scribe = two_turns()
    scribe.write(ProviderUsage(model="m"))
    scribe.write(ProviderUsage(model="m"))
    fold = fold_turns(without(scribe.events, 17))
    assert fold.lost_since(scribe.session) == LostEvents(17, 17)
    turn(scribe, "t3")
    assert fold_turns(without(scribe.events, 17)).lost_since(scribe.session) is None


def test_a_late_event_does_not_prove_that_no_newer_turn_is_lost() -> None:
    scribe = two_turns()
    scribe.write(ProviderUsage(model="m"))
    scribe.write(LOOKS, turn="t2")
    fold = fold_turns(without(scribe.events, 17))
    assert fold.lost_since(scribe.session) is not None
    assert [finding.kind for finding in fold.findings] == [FindingKind.LATE_EVENT]


def test_an_unknown_turn_says_what_is_lost_and_what_to_do() -> None:
    read = record(without(two_turns().events, 4, 6), "t1")
    assert (read.state, read.error_kind, read.lost) == (
        TurnState.UNKNOWN,
        LOG_DAMAGED,
        (LostEvents(4, 4), LostEvents(6, 6)),
    )
    assert read.error_message == (
        "the log is damaged: event 4, event 6 cannot be read, so it is not known how this turn stands"
    )
    assert [(proof.rule, proof.seq, proof.where) for proof in read.evidence][:2] == [
        ("events_lost", 4, "event 4"),
        ("events_lost", 6, "event 6"),
    ]
    commands = [action.command for action in read.next_actions if action.kind is NextActionKind.INSPECT_LOG]
    assert commands == ["interlock log verify ses_scribe", "interlock log repair ses_scribe"]


def test_what_comes_after_the_end_that_is_read_of_an_unknown_turn_is_late() -> None:
    scribe = Scribe()
    turn(scribe, "t1")
    scribe.write(AssistantMessage(text="one more thing"), turn="t1")
    fold = fold_turns(without(scribe.events, 4))
    (facts,) = fold.turns.values()
    assert (facts.state, facts.is_over, facts.is_terminal) == (TurnState.UNKNOWN, True, False)
    assert FindingKind.LATE_EVENT in [finding.kind for finding in fold.findings]


def test_losing_its_owner_makes_an_unknown_turn_no_more_known() -> None:
    events = without(two_turns().events[:14], 12)
    assert [one.state.value for one in turn_states(events, owner_alive=False)] == ["completed", "unknown"]


def test_without_turn_ids_the_newest_prompt_is_what_is_doubted() -> None:
    scribe = Scribe()
    for number in range(3):
        scribe.write(UserMessage(text=f"prompt {number}"), LOOKS, AssistantMessage(text="done"))
    assert list(states(without(scribe.events, 5)).values()) == ["completed", "unknown", "completed"]
    overtaken = Scribe()
    overtaken.write(UserMessage(text="one"), UserMessage(text="two"), LOOKS, LOOKS)
    assert list(states(without(overtaken.events, 3)).values()) == ["abandoned", "unknown"]


def test_many_losses_in_one_turn_are_kept_in_bounds() -> None:
    scribe = Scribe()
    turn(scribe, "t1", [LOOKS] * 100)
    (facts,) = fold_turns(without(scribe.events, *range(4, 100, 2))).turns.values()
    assert len(facts.lost) == MAX_LOSSES
    assert (facts.lost[0], facts.lost[-1]) == (LostEvents(4, 4), LostEvents(18, 98))


def test_a_part_of_a_log_has_lost_nothing_before_it() -> None:
    events = two_turns().events
    fold = TurnFold(after=8)
    for event in events[8:]:
        fold.add(event)
    assert [one.state for one in fold.turns.values()] == [TurnState.COMPLETED]


SHAPES: Final = st.lists(
    st.tuples(
        st.lists(st.sampled_from([LOOKS, CALL, RESULT, ProviderUsage(model="m")]), max_size=5),
        st.sampled_from([*ENDS, None]),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


def history(shapes: Sequence[tuple[Sequence[Payload], TerminationReason | None, bool]]) -> list[Event]:
    scribe = Scribe()
    for number, (work, reason, has_prompt) in enumerate(shapes):
        turn(scribe, f"t{number}", work, reason=reason, has_prompt=has_prompt)
        scribe.write(ProviderUsage(model="m"))
    return scribe.events


@given(SHAPES, st.data())
def test_whatever_is_lost_no_turn_is_said_to_have_ended_otherwise(
    shapes: list[tuple[list[Payload], TerminationReason | None, bool]], data: st.DataObject
) -> None:
    """And a turn of which anything is lost between its first event that is read and its end is unknown."""
    events = history(shapes)
    lost = data.draw(st.sets(st.sampled_from([event.seq for event in events]), min_size=1))
    kept = [event for event in events if event.seq not in lost]
    fold = fold_turns(kept)
    fold.lose(SessionId("ses_scribe"), max(one for one in lost if one is not None), None)
    whole = {one.turn_id: one for one in turn_states(events)}
    for (_, name), facts in fold.turns.items():
        before = whole[name]
        assert facts.state in (before.state, TurnState.UNKNOWN), name
        assert before.first_seq is not None
        assert before.last_seq is not None
        end = before.last_seq if before.state.is_terminal else len(events)
        is_cut = any(before.first_seq <= one <= end for one in lost if one is not None)
        if is_cut:
            assert facts.state is TurnState.UNKNOWN, name
