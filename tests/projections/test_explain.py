"""Every rule of replay, told of the event that it decides about."""

from __future__ import annotations

from interlock.projections.replay.explain import MOVED, REASONS, ReplayRule, explain
from interlock.testing.scribe import Scribe
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    BranchSummary,
    SeqRange,
)
from interlock.vocabulary.events.envelope import UnknownEvent
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import SessionId, StreamId
from tests.each_row import each_row
from tests.projections.conversations import (
    FAILURE,
    HIDDEN_FACT,
    PARTIAL,
    UNVERIFIED,
    call,
    compaction,
    fact,
    result,
    said,
    thought,
    user,
)

BRANCH = BranchSummary(parent_session_id=SessionId("p"), range=SeqRange(from_seq=1, to_seq=2), summary="tried")
DELTA = TextDelta(stream_id=StreamId("st"), offset=0, text="x")

CASES: list[tuple[ReplayRule, bool, tuple[Payload, ...], int]] = [
    (ReplayRule.USER_MESSAGE, True, (user(),), 0),
    (ReplayRule.ASSISTANT_MESSAGE, True, (said(),), 0),
    (ReplayRule.REASONING, True, (thought("m"),), 0),
    (ReplayRule.TOOL_CALL, True, (call(), result()), 0),
    (ReplayRule.TOOL_RESULT, True, (call(), result()), 1),
    (ReplayRule.SYNTHETIC_RESULT, True, (call(), user()), 1),
    (ReplayRule.HISTORY_COMPACTION, True, (user(), compaction(1)), 1),
    (ReplayRule.BRANCH_SUMMARY, True, (BRANCH,), 0),
    (ReplayRule.SUBAGENT_EVENT, True, (fact(),), 0),
    (ReplayRule.PARTIAL_MESSAGE, False, (PARTIAL,), 0),
    (ReplayRule.UNVERIFIED_MESSAGE, False, (UNVERIFIED,), 0),
    (ReplayRule.BLANK_MESSAGE, False, (AssistantMessage(text=""),), 0),
    (ReplayRule.OTHER_MODEL, False, (thought("n"),), 0),
    (ReplayRule.REPEATED_CALL, False, (call(), call(), result()), 1),
    (ReplayRule.RESULT_WITHOUT_CALL, False, (result(),), 0),
    (ReplayRule.COMPACTED, False, (user(), compaction(1)), 0),
    (ReplayRule.SUPERSEDED_COMPACTION, False, (compaction(1), compaction(1)), 0),
    (ReplayRule.SUBAGENT_NOT_FOR_MODEL, False, (HIDDEN_FACT,), 0),
    (ReplayRule.AUDIT_ONLY, False, (FAILURE,), 0),
    (ReplayRule.PRESENTER_ONLY, False, (DELTA,), 0),
    (ReplayRule.UNKNOWN_TYPE, False, (UnknownEvent(type="new", body=None),), 0),
]


@each_row(("rule", "included", "payloads", "at"), CASES, ids=[case[0].value for case in CASES])
def test_each_rule(rule: ReplayRule, included: bool, payloads: tuple[Payload, ...], at: int) -> None:
    told = explain(Scribe().write(*payloads, turn="t1"), model="m")[at]
    assert (told.rule, told.included) == (rule, included)
    assert told.reason.startswith(REASONS[rule])


def test_a_late_result_is_told_apart_from_one_without_a_call() -> None:
    scribe = Scribe()
    scribe.write(call("a"), turn="t1")
    scribe.write(user(), turn="t2")
    scribe.write(result("a"), turn="t1")
    told = explain(scribe.events)
    assert [one.rule for one in told] == [
        ReplayRule.TOOL_CALL,
        ReplayRule.SYNTHETIC_RESULT,
        ReplayRule.USER_MESSAGE,
        ReplayRule.LATE_RESULT,
    ]
    assert [one.item for one in told] == [0, 1, 2, None]
    assert [one.seq for one in told] == [1, 1, 2, 3]


def test_every_rule_is_told_of_something() -> None:
    elsewhere = {ReplayRule.LATE_RESULT, ReplayRule.LATE_EVENT, ReplayRule.STALE_SPAWN}
    assert {case[0] for case in CASES} | elsewhere == set(ReplayRule) == set(REASONS)


def test_what_had_to_wait_says_so() -> None:
    told = explain(Scribe().write(call("a"), fact(), result("a"), said(), turn="t1"))
    assert [one.reason.endswith(MOVED) for one in told] == [False, True, False, False]
    assert [one.item for one in told] == [0, 2, 1, 3]


def test_a_compaction_does_not_make_its_tail_look_moved() -> None:
    told = explain(Scribe().write(user("1"), user("2"), compaction(1)))
    assert not any(one.reason.endswith(MOVED) for one in told)
