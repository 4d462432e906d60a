"""`why`: the same verdict, re-derived from the log as it stood, with all that spoke for it and all that did not."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json, structs

from interlock.lifecycle.turns import turn_states
from interlock.log.port import Slice
from interlock.log.sqlite.turn_index import TurnIndex, turn_slice, whole_slice
from interlock.projections.turn_evidence import dossiers_in, dossiers_of
from interlock.projections.why import Explanation, why, why_last
from interlock.projections.why_lines import render_lines
from interlock.testing.scribe import EPOCH, Scribe
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import RunState, SurfaceEvent, SurfaceResult, TurnReply
from interlock.vocabulary.events.conversation import AssistantMessage, ToolResult, UserMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import CallId, RunId, SessionId, TurnId
from interlock.vocabulary.run import NATURAL_END, RunStatus
from interlock.vocabulary.states import Activity, Attention, TurnState
from tests.projections.histories import (
    ANSWER,
    PARTIAL,
    Story,
    abandoned,
    clean,
    error_after_text,
    failed_then_clean,
    interrupted,
    terminal_without_text,
)
from tests.projections.logs import LOGS, WILD_LOGS


def ignored(explanation: Explanation) -> dict[int | None, str]:
    return {piece.seq: piece.because for piece in explanation.not_counted}


@given(LOGS, st.integers(0, 14), st.booleans())
def test_the_verdict_is_the_classifiers_on_every_prefix(log: list[Event], at: int, owner_alive: bool) -> None:
    records = turn_states([event for event in log if (event.seq or 0) <= at], owner_alive=owner_alive)
    assert why(log, at=at, owner_alive=owner_alive).record == (records[-1] if records else None)
    for record in records:
        explained = why(log, turn_id=record.turn_id, at=at, owner_alive=owner_alive)
        assert explained.record == record
        assert explained.path[-1].after is record.state or not owner_alive or record.state is TurnState.ABANDONED
        assert (record.state is TurnState.COMPLETED) == (not explained.missing)
        proofs = {proof.seq for proof in record.evidence}
        assert proofs <= {piece.seq for piece in explained.evidence}


@given(LOGS, st.integers(1, 9), st.booleans())
def test_the_part_since_a_turn_began_says_the_same_bytes(log: list[Event], last: int, owner_alive: bool) -> None:
    index = TurnIndex(SessionId("s"))
    rows = [row for row in (index.add(event, event.seq or 0) for event in log) if row is not None][-last:]
    after = rows[0].first_seq - 1 if rows else 0
    found = Slice(events=tuple(log[after:]), version=len(log))
    part = turn_slice(rows, found, ()) if rows else whole_slice(found)
    every = dossiers_of(log, owner_alive=owner_alive)
    assert [row.turn_id for row in rows] == [turn.turn_id for turn in every[-last:]]
    assert dossiers_in(part, owner_alive=owner_alive) == every[-last:]
    assert json.encode(why_last(part, owner_alive=owner_alive)) == json.encode(why(log, owner_alive=owner_alive))
    for row in rows:
        told = why_last(part, turn_id=row.turn_id, owner_alive=owner_alive)
        assert json.encode(told) == json.encode(why(log, turn_id=row.turn_id, owner_alive=owner_alive))


@given(WILD_LOGS, st.none() | st.integers(0, 14) | st.just(EPOCH))
def test_it_is_total_and_its_text_and_json_are_too(log: list[Event], at: datetime | int | None) -> None:
    explanation = why(log, at=at)
    assert render_lines(explanation)
    assert json.decode(json.encode(explanation), type=Explanation) == explanation


def test_a_word_on_the_reply_from_before_the_turn_is_no_word_on_it() -> None:
    scribe = Scribe()
    early = TurnReply(kind="sentinel", is_met=True, text="too early")
    assert why(scribe.write(early, UserMessage(text="do it"), turn="t1")).reply is None
    late = TurnReply(kind="sentinel", is_met=True, text="in time")
    assert why(Scribe().write(UserMessage(text="do it"), late, turn="t1")).reply == late


def test_a_word_on_the_reply_of_another_turn_is_no_word_on_this_one() -> None:
    scribe = Scribe()
    scribe.write(UserMessage(text="one"), turn="t1")
    scribe.write(UserMessage(text="two"), turn="t2")
    scribe.write(second := TurnReply(kind="sentinel", is_met=True, text="of two"), turn="t2")
    assert why(scribe.events, turn_id=TurnId("t1")).reply is None
    assert why(scribe.events, turn_id=TurnId("t2")).reply == second
    scribe.write(first := TurnReply(kind="sentinel", is_met=False, problem="of one"), turn="t1")
    assert why(scribe.events, turn_id=TurnId("t1")).reply == first
    assert why(scribe.events, turn_id=TurnId("t2")).reply == second


def test_the_chain_of_a_completed_turn() -> None:
    explained = why(clean().events)
    assert [(piece.seq, piece.type) for piece in explained.evidence] == [
        (1, "user_message"),
        (2, "turn_started"),
        (8, "assistant_message"),
        (9, "run_state"),
    ]
    assert ignored(explained) == {4: "clean text before a tool call is not the answer"}
    assert [(step.seq, step.before, step.after) for step in explained.path] == [
        (1, None, TurnState.RUNNING),
        (9, TurnState.RUNNING, TurnState.COMPLETED),
    ]
    assert (explained.missing, explained.is_final, explained.as_of_seq) == ((), True, 9)


def test_what_a_failed_turn_lacks_and_what_to_do() -> None:
    explained = why(error_after_text().events)
    assert explained.missing == (
        "a clean end of the run; it ended by error",
        "a clean answer with words in it, after the last tool result",
        "no failure record; there is one, network",
    )
    assert [action.command for action in explained.next_actions][:1] == ["interlock why ses_scribe --turn t1"]


def test_an_open_turn_says_what_it_waits_for() -> None:
    explained = why(abandoned().events)
    assert explained.record is not None
    assert explained.record.state is TurnState.RUNNING
    assert not explained.is_final
    assert "the end of the run (run_state done)" in explained.missing
    assert "results for c1" in explained.missing
    assert [piece.type for piece in explained.evidence] == [
        "user_message",
        "turn_started",
        "run_state",
        "tool_call",
        "stream_checkpoint",
    ]


def test_what_came_late_or_from_a_stale_spawn_is_listed_with_its_reason() -> None:
    story = Story()
    story.begin()
    story.write(AssistantMessage(text="of a dead process"), turn="t1", spawn="s0")
    story.tell(ToolResult(call_id=CallId("c9"), ok=True))
    other = RunState(run_id=RunId("run_x"), status=RunStatus.DONE, reason=NATURAL_END)
    story.tell(other)
    story.tell(AssistantMessage(text=" "), AssistantMessage(text="first try"))
    story.end(NATURAL_END, text=ANSWER)
    story.tell(AssistantMessage(text="too late"))
    reasons = ignored(why(story.events))
    assert reasons[4].startswith("stale spawn: spawn s0 does not own this turn")
    assert reasons[5] == "no call of this turn is waiting for it"
    assert reasons[6].startswith("foreign run: run run_x is not this turn's run")
    assert reasons[7] == "an answer without words answers nothing"
    assert reasons[8] == "something came after it, so it is not how the turn ended"
    assert reasons[11] == "late event: the turn is already completed"


def test_an_exit_is_seen_and_does_not_count() -> None:
    assert ignored(why(terminal_without_text().events)) == {
        6: "an exit proves no end of a turn; the run says how it ended"
    }


def test_as_it_stood_at_a_sequence_number() -> None:
    events = failed_then_clean().events
    states = {at: (e.turn_id, e.record and e.record.state) for at in (0, 5, 11, 12, 20) for e in [why(events, at=at)]}
    assert states == {
        0: (None, None),
        5: ("t1", TurnState.RUNNING),
        11: ("t1", TurnState.PARTIAL_FAILED),
        12: ("t2", TurnState.RUNNING),
        20: ("t2", TurnState.COMPLETED),
    }


def test_as_it_stood_at_a_time() -> None:
    events = failed_then_clean().events
    for at in range(len(events) + 1):
        assert why(events, at=EPOCH + timedelta(seconds=at, milliseconds=500)) == why(events, at=at)


def test_a_clock_that_jumped_ahead_shows_less_and_says_so() -> None:
    events = clean().events
    events[4] = structs.replace(events[4], ts=EPOCH + timedelta(days=1))
    explained = why(events, at=EPOCH + timedelta(seconds=100))
    assert (explained.as_of_seq, explained.is_time_doubtful) == (4, True)
    assert explained.record is not None
    assert explained.record.state is TurnState.RUNNING
    assert any("ask by sequence number" in line for line in render_lines(explained))


def test_a_time_without_a_zone_is_refused_with_the_remedy() -> None:
    with pytest.raises(UsageError, match="names no time zone; add one"):
        why(clean().events, at=datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_turn_that_the_log_does_not_hold_is_unknown() -> None:
    explained = why(clean().events, turn_id=TurnId("t9"))
    assert explained.record is None
    assert render_lines(explained) == [
        "t9: unknown: the log holds no such turn as of event 9",
        "next:",
        "  interlock log show ses_scribe",
        "  interlock debug diagnose ses_scribe",
    ]


def test_verdicts_about_the_terminal_come_with_their_rules_and_rows() -> None:
    story = Story()
    story.begin()
    rule = Evidence(source=EvidenceSource.SCREEN, rule="claude.approval_box")
    story.write(
        SurfaceEvent(activity=Activity.WORKING, attention=Attention.APPROVAL, evidence=(rule,), rows="Allow?\n> Yes"),
        spawn="s1",
    )
    story.end(NATURAL_END, text=ANSWER)
    story.write(SurfaceEvent(activity=Activity.QUIET))
    explained = why(story.events)
    (step,) = explained.surface
    assert (step.seq, step.rules, step.attention) == (4, ("claude.approval_box",), Attention.APPROVAL)
    lines = "\n".join(render_lines(explained))
    assert "working, attention approval by claude.approval_box" in lines
    assert "| > Yes" in lines


def test_what_the_end_of_a_turn_in_a_terminal_rests_on_is_told() -> None:
    story = Story()
    story.begin()
    ended = SurfaceResult(
        result="completed",
        basis="completion_observer",
        observer="transcript",
        observed="native-1",
        tail="The answer.\n> ",
        profile="claude-2",
        saw_working=True,
        stability_seconds=1.0,
    )
    story.write(SurfaceEvent(activity=Activity.QUIET, rows="> ", ended=ended), spawn="s1")
    story.end(NATURAL_END, text=ANSWER)
    explained = why(story.events)
    assert explained.surface[-1].ended == ended
    lines = "\n".join(render_lines(explained))
    assert "completed: reported by transcript (native-1), and the screen agreed; seen since the prompt: work;" in lines
    assert "| The answer." in lines
    waited = structs.replace(ended, basis="stability_window", observer="", observed="")
    story = Story()
    story.begin()
    story.write(SurfaceEvent(activity=Activity.QUIET, ended=waited), spawn="s1")
    assert "completed: the screen was ready and did not change for 1 s" in "\n".join(render_lines(why(story.events)))


def test_a_turn_that_is_stalled_says_what_was_last_seen_of_it() -> None:
    story = Story()
    story.begin()
    proof = Evidence(source=EvidenceSource.SCREEN, rule="turn.no_progress", where="last progress at 10:00:05 UTC: text")
    story.write(SurfaceEvent(activity=Activity.STALLED, evidence=(proof,)), spawn="s1")
    lines = "\n".join(render_lines(why(story.events)))
    assert "stalled by turn.no_progress (last progress at 10:00:05 UTC: text)" in lines


def test_the_text_for_people() -> None:
    lines = render_lines(why(interrupted().events))
    assert lines[0] == "t1: interrupted (stopped by the operator) as of event 9"
    assert "evidence:" in lines
    assert any(PARTIAL in line and "cut short" in line for line in lines)
    assert "not completed; missing:" in lines
    assert lines[-1] == "  interlock send ses_scribe -"


def test_a_log_without_run_events_says_that_it_rests_on_messages() -> None:
    story = Story()
    story.write(UserMessage(text="hi"), AssistantMessage(text="hello"))
    assert render_lines(why(story.events))[0] == "@1: completed, by its messages alone as of event 2"
