"""What a model is given of a log, rule by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from interlock.projections.replay.items import (
    AssistantText,
    BranchMemory,
    CallItem,
    CompactionMemory,
    ReasoningItem,
    ReplayItem,
    ResultItem,
    SubagentFact,
    UserText,
    encode_items,
    item_of,
    prefix_digests,
)
from interlock.projections.replay.provider_input import (
    PrefixRule,
    ReplayFold,
    fold_replay,
    prefix_changes,
    provider_items,
)
from interlock.testing.explore import explore
from interlock.testing.scribe import Scribe
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import Anomaly, SessionFork
from interlock.vocabulary.events.conversation import (
    AssistantMessage,
    BranchSummary,
    MessageMetadata,
    MessageSource,
    Resource,
    SeqRange,
    SubagentEvent,
    ToolCall,
    UserMessage,
)
from interlock.vocabulary.events.envelope import Event, UnknownEvent
from interlock.vocabulary.events.presenter import TextDelta
from interlock.vocabulary.events.registry import Json, Payload
from interlock.vocabulary.ids import CallId, SessionId, StreamId, SubagentId
from interlock.vocabulary.run import CANCELLED, TerminationReason
from interlock.vocabulary.states import SubagentState
from tests.each_row import each_row
from tests.projections.conversations import (
    AUDIT,
    call,
    check_rounds,
    close_turn,
    compaction,
    fact,
    result,
    said,
    thought,
    user,
    whole_turn,
)
from tests.projections.whole_logs import provider_input


def log_of(*payloads: Payload, turn: str | None = "t1") -> list[Event]:
    return Scribe().write(*payloads, turn=turn)


def brief(items: Iterable[ReplayItem]) -> list[str]:
    """One short word an item: enough to see the order."""
    return [_brief(item) for item in items]


def _brief(item: ReplayItem) -> str:
    match item:
        case UserText(text=text) | AssistantText(text=text):
            return text
        case CallItem(call_id=call_id):
            return f"{call_id}?"
        case ResultItem(call_id=call_id, synthetic=synthetic):
            return f"{call_id}{'~' if synthetic else '!'}"
        case CompactionMemory(summary=summary) | BranchMemory(summary=summary) | SubagentFact(summary=summary):
            return f"[{summary}]"
        case ReasoningItem():
            return "..."


def brief_log(*payloads: Payload) -> list[str]:
    return brief(provider_items(log_of(*payloads), model="m"))


def test_a_clean_turn_is_replayed_whole_and_in_order() -> None:
    resource = Resource(name="plan.md", sha256="ab")
    log = log_of(UserMessage(text="go", resources=(resource,)), thought(), call("a"), result("a"), said("done"))
    assert provider_items(log, model="m") == (
        UserText(text="go", resources=(resource,)),
        ReasoningItem(item={"opaque": [1, 2.5]}),
        CallItem(call_id=CallId("a"), name="bash"),
        ResultItem(call_id=CallId("a"), ok=True, output="ok"),
        AssistantText(text="done"),
    )


@each_row(
    "payload",
    [
        *AUDIT,
        TextDelta(stream_id=StreamId("st"), offset=0, text="delta"),
        UnknownEvent(type="from_the_future", body={"text": "new"}),
        SubagentEvent(subagent_id=SubagentId("s"), status=SubagentState.RUNNING, model_visible=True),
        SubagentEvent(subagent_id=SubagentId("s"), status=SubagentState.DETACHED, model_visible=True),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_evidence_is_never_replayed_and_parts_no_pair(payload: Payload) -> None:
    plain = [user(), call("a"), call("b"), result("b"), result("a"), said()]
    expected = provider_input(log_of(*plain))
    for place in range(len(plain) + 1):
        assert provider_input(log_of(*plain[:place], payload, *plain[place:])) == expected


def test_text_off_a_screen_is_replayed_once_somebody_accepts_it() -> None:
    trusted = AssistantMessage(
        text="seen", metadata=MessageMetadata(source=MessageSource.SURFACE, surface_accepted=True)
    )
    assert brief_log(user("go"), trusted) == ["go", "seen"]


def test_a_blank_message_has_no_item() -> None:
    assert brief_log(user("go"), AssistantMessage(text=" \n", metadata=MessageMetadata(source=MessageSource.NONE))) == [
        "go"
    ]


@pytest.mark.parametrize(
    "reason",
    [TerminationReason.error("gone"), CANCELLED, TerminationReason.stopped("max_rounds")],
    ids=lambda r: r.type,
)
def test_a_failed_turn_keeps_its_prompt_its_pairs_and_its_clean_text(reason: TerminationReason) -> None:
    scribe = Scribe()
    scribe.write(user("go"), said("first", intermediate=True), call("a"), result("a"), call("b"), turn="t1")
    close_turn(scribe, "t1", reason, text="half an answer")
    assert brief(provider_items(scribe.events)) == ["go", "first", "a?", "a!", "b?", "b~"]


@each_row(
    ("model", "dialect", "is_replayed"),
    [("m", "d", True), ("m", "", False), ("m", "other", False), ("other", "d", False), ("", "", False)],
)
def test_reasoning_is_for_the_same_model_and_dialect(model: str, dialect: str, is_replayed: bool) -> None:
    log = log_of(user("go"), thought("m", "d"), said("done"))
    assert (len(provider_items(log, model=model, dialect=dialect)) == 3) is is_replayed


def test_what_arrives_between_a_call_and_its_result_follows_the_results() -> None:
    assert brief_log(call("a"), fact("child"), call("b"), result("a"), result("b"), said("done")) == [
        *["a?", "b?", "a!", "b!"],
        *["[child]", "done"],
    ]
    assert brief_log(user("go"), call("a"), user("and quickly"), result("a")) == ["go", "a?", "a!", "and quickly"]


def test_output_after_the_first_result_waits_for_the_others() -> None:
    late_b = [call("a"), call("b"), result("a"), said("meanwhile"), call("c"), result("c"), result("b"), said("done")]
    assert brief_log(*late_b) == ["a?", "b?", "a!", "b!", "meanwhile", "c?", "c!", "done"]


def test_a_line_that_blocks_again_keeps_its_order() -> None:
    log = [call("a"), call("b"), result("a"), call("c"), fact("child"), said("x"), result("b"), said("y"), result("c")]
    assert brief_log(*log) == ["a?", "b?", "a!", "b!", "c?", "c!", "[child]", "x", "y"]


def outputs_of(call_id: str, log: list[Event]) -> list[Json]:
    items = provider_items(log)
    check_rounds(items)
    return [item.output for item in items if isinstance(item, ResultItem) and item.call_id == call_id]


def test_an_id_that_is_used_again_in_line_finds_its_own_results() -> None:
    again = [call("a"), call("b"), result("a"), call("a"), result("a", output="2"), call("a"), result("a", output="3")]
    assert outputs_of("a", log_of(*again, result("b"))) == ["ok", "2", "3"]


def test_an_id_that_still_waits_in_line_when_its_first_use_is_answered_gets_its_own_result() -> None:
    blocked = [call("a"), call("b"), result("a"), call("k"), result("k", output="1"), call("y"), call("z"), result("z")]
    later = [call("k"), result("b"), result("k", output="2"), result("y")]
    assert outputs_of("k", log_of(*blocked, *later)) == ["1", "2"]


def test_a_result_that_was_used_ahead_of_its_place_in_line_is_used_once() -> None:
    waiting = [call("a"), call("b"), result("a"), call("k"), call("j"), result("j"), said("x"), result("k", output="1")]
    log = log_of(*waiting, call("k"), result("k", output="2"), result("b"))
    assert brief(provider_items(log)) == ["a?", "b?", "a!", "b!", "k?", "j?", "j!", "k!", "x", "k?", "k!"]
    assert outputs_of("k", log) == ["1", "2"]


def test_the_next_turn_closes_open_calls_once_and_a_late_result_is_left_out() -> None:
    scribe = Scribe()
    scribe.write(user("go"), call("a"), call("b"), result("b"), turn="t1")
    assert brief(provider_items(scribe.events)) == ["go", "a?", "b?", "b!", "a~"]
    before = provider_input(scribe.events)
    scribe.write(user("next"), turn="t2")
    scribe.write(result("a"), turn="t1")
    scribe.write(said("done"), turn="t2")
    assert brief(provider_items(scribe.events)) == ["go", "a?", "b?", "b!", "a~", "next", "done"]
    assert provider_input(scribe.events).startswith(before)


def test_a_result_in_time_takes_the_place_of_its_stand_in() -> None:
    log = log_of(user("go"), call("a"), result("a"))
    assert brief(provider_items(log[:2])) == ["go", "a?", "a~"]
    assert fold_replay(log[:2]).settled_count == 2
    assert brief(provider_items(log)) == ["go", "a?", "a!"]


def test_calls_are_told_apart_by_turn_and_occurrence() -> None:
    scribe = Scribe()
    scribe.write(user("go"), call("a"), call("a", occurrence=2), result("a", occurrence=2, output="second"), turn="t1")
    scribe.write(user("next"), call("a"), turn="t2")
    scribe.write(result("a", output="late, of the old turn"), turn="t1")
    scribe.write(result("a", output="of the new turn"), turn="t2")
    results = [item for item in provider_items(scribe.events) if isinstance(item, ResultItem)]
    assert [(item.occurrence, item.output, item.synthetic) for item in results] == [
        (2, "second", False),
        (1, None, True),
        (1, "of the new turn", False),
    ]


def test_two_turns_never_have_an_open_call_of_one_id_at_once() -> None:
    scribe = Scribe()
    scribe.write(call("a"), turn="t1")
    scribe.write(call("a"), said("x"), result("a", output="t2"), turn="t2")
    scribe.write(result("a", output="t1"), turn="t1")
    assert outputs_of("a", scribe.events) == ["t1", "t2"]
    assert brief(provider_items(scribe.events)) == ["a?", "a!", "a?", "x", "a!"]


def test_a_call_twice_and_a_result_without_a_call_are_left_out() -> None:
    assert brief_log(result("x"), call("a"), call("a"), result("a"), result("a"), said("done")) == ["a?", "a!", "done"]


def test_without_turn_ids_every_prompt_begins_a_turn() -> None:
    log = log_of(user("go"), call("a"), user("next"), result("a"), turn=None)
    assert brief(provider_items(log)) == ["go", "a?", "a~", "next"]


def test_the_latest_compaction_and_what_follows_its_range() -> None:
    scribe = Scribe()
    scribe.write(user("1"), said("one"), turn="t1")
    scribe.write(user("2"), said("two"), turn="t2")
    scribe.write(compaction(2, "first"))
    scribe.write(user("3"), turn="t3")
    scribe.write(compaction(4, "second"))
    scribe.write(said("three"), turn="t3")
    assert brief(provider_items(scribe.events)) == ["[second]", "3", "three"]
    assert brief(provider_items(scribe.events[:5])) == ["[first]", "2", "two"]


def test_a_compaction_never_covers_what_comes_after_it() -> None:
    assert brief_log(user("1"), compaction(1000, "all"), user("2")) == ["[all]", "2"]


def test_a_result_whose_call_is_compacted_is_left_out() -> None:
    assert brief_log(user("go"), call("a"), result("a"), said("x"), compaction(2)) == ["[so far]", "x"]


def test_an_item_says_nothing_of_places_that_audit_events_move() -> None:
    branch = BranchSummary(parent_session_id=SessionId("p"), range=SeqRange(from_seq=3, to_seq=9), summary="tried")
    encoded = encode_items([item_of(branch), item_of(compaction(7, "so far"))])
    assert encoded == b'{"summary":"tried","type":"branch_summary"}\n{"summary":"so far","type":"compaction_memory"}\n'


def test_bytes_do_not_depend_on_the_order_of_keys() -> None:
    one = ToolCall(call_id=CallId("a"), name="t", args={"x": 1, "é": [True, 1.0, None], "b": {}})
    other = ToolCall(call_id=CallId("a"), name="t", args={"b": {}, "é": [True, 1.0, None], "x": 1})
    assert encode_items([item_of(one)]) == encode_items([item_of(other)])
    expected = '{"args":{"b":{},"x":1,"é":[true,1.0,null]},"call_id":"a","name":"t","type":"tool_call"}\n'
    assert encode_items([item_of(one)]) == expected.encode()


def test_only_conversation_has_items() -> None:
    with pytest.raises(ContractError, match="Anomaly"):
        item_of(Anomaly(kind="odd"))


def test_digests_show_how_far_two_inputs_are_the_same() -> None:
    one = prefix_digests(provider_items(log_of(user("1"), said("2"), user("3"))))
    other = prefix_digests(provider_items(log_of(user("1"), said("2"), user("x"))))
    assert [a == b for a, b in zip(one, other, strict=True)] == [True, True, True, False]


def test_a_compaction_and_a_fork_say_that_they_change_the_prefix() -> None:
    scribe = Scribe()
    bounds = SeqRange(from_seq=1, to_seq=9)
    parent = SessionId("ses_parent")
    scribe.write(SessionFork(parent_session_id=parent, fork_root_session_id=parent, parent_range=bounds))
    whole_turn(scribe, "t1")
    whole_turn(scribe, "t2")
    cut = 9  # the first turn ends here
    scribe.write(compaction(cut), compaction(cut))
    changes = prefix_changes(scribe.events)
    assert [(change.seq, change.rule, change.kept_items) for change in changes] == [
        (1, PrefixRule.FORK, 0),
        (scribe.events[-2].seq, PrefixRule.COMPACTION, 0),
    ]
    assert "ses_parent" in changes[0].reason


def test_the_next_event_costs_the_same_whatever_came_before() -> None:
    """Counted in items touched, not in time: a fold that is asked after every event places each item once."""
    scribe = Scribe()
    fold = ReplayFold()
    for number in range(40):
        whole_turn(scribe, f"t{number}")
    for event in scribe.events:
        fold.add(event)
    placed = fold.conversation().placed
    fold.items()
    fold.add(log_of(said("more"))[0])
    assert fold.conversation().placed is placed


LETTERS: Sequence[tuple[str, Payload, str]] = (
    ("call a", call("a"), "t1"),
    ("call b", call("b"), "t1"),
    ("result a", result("a"), "t1"),
    ("result b", result("b"), "t1"),
    ("call a of t2", call("a"), "t2"),
    ("result a of t2", result("a"), "t2"),
    ("text", said("text"), "t1"),
    ("fact", fact(), "t1"),
    ("prompt", user("go"), "t1"),
    ("next prompt", user("next"), "t2"),
)


EMPTY: tuple[int, ...] = ()


def _written(history: tuple[int, ...]) -> list[Event]:
    scribe = Scribe()
    for letter in history:
        scribe.write(LETTERS[letter][1], turn=LETTERS[letter][2])
    return scribe.events


def _walk(depth: int) -> str:
    def is_paired(history: tuple[int, ...]) -> bool:
        check_rounds(provider_items(_written(history)))
        return True

    def loses_nothing(history: tuple[int, ...]) -> bool:
        """Every text, fact and prompt is there, whatever else comes."""
        kept = sum(LETTERS[letter][0] in ("text", "fact", "prompt", "next prompt") for letter in history)
        items = provider_items(_written(history))
        return kept == sum(not isinstance(item, CallItem | ResultItem) for item in items)

    def is_settled_for_good(history: tuple[int, ...], _: int, longer: tuple[int, ...]) -> bool:
        fold = fold_replay(_written(history))
        return provider_items(_written(longer))[: fold.settled_count] == fold.items()[: fold.settled_count]

    found = explore(
        start=[EMPTY],
        inputs=lambda history: range(len(LETTERS)) if len(history) < depth else (),
        step=lambda history, letter: (*history, letter),
        label=lambda history: str(len(history)),
        named=lambda letter: LETTERS[letter][0],
        state_laws={"every call is paired": is_paired, "nothing is lost": loses_nothing},
        step_laws={"what is settled stays": is_settled_for_good},
    )
    return found.summary(f"conversations of {depth} events")


def test_every_short_conversation_is_paired_and_settles(record_property: Callable[[str, object], None]) -> None:
    record_property("explored", _walk(3))


@pytest.mark.deep
@pytest.mark.timeout(300)  # a tenth of a million conversations: half a minute, more on a loaded machine
def test_every_longer_conversation_is_paired_and_settles(record_property: Callable[[str, object], None]) -> None:
    record_property("explored", _walk(5))
