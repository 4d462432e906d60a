"""What opencode's server tells: the recording, and courses that it does not hold."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.agents.observations import (
    ApprovalAsked,
    MessageEnded,
    Observation,
    RetryBegun,
    TextArrived,
    TextVoided,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import Decision
from interlock.agents.streams.opencode.events import OpencodeEvents
from interlock.agents.streams.opencode.questions import answer
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import mapping
from interlock.vocabulary.states import Attention
from tests.agents.acp.golden import check, records, short

SESSION = "ses_e1f9ab0bcffeA7YdZtGMlns2a5"


def recorded() -> list[list[Observation]]:
    """The observations of the recorded session, apart for each prompt."""
    events, parts, turn = OpencodeEvents(SESSION), list[list[Observation]](), ""
    for record in records("opencode/serve_events"):
        event = mapping(record["event"])
        if record["turn"] != turn and not events.is_turn_open:
            turn = str(record["turn"])
            events.begin()
            parts.append([])
        seen = events.feed(event)
        if parts:
            parts[-1] += seen
    return parts


def begun() -> OpencodeEvents:
    events = OpencodeEvents("ses_1")
    events.begin()
    return events


def event(kind: str, session: str = "ses_1", **properties: Json) -> Mapping[str, Json]:
    return {"type": kind, "properties": {"sessionID": session, **properties}}


def status(kind: str) -> Mapping[str, Json]:
    return event("session.status", status={"type": kind})


def told(events: OpencodeEvents, *given: Mapping[str, Json]) -> list[Observation]:
    return [seen for one in given for seen in events.feed(one)]


def test_the_recording_means_what_is_on_file() -> None:
    check("opencode/serve_events", [line for part in recorded() for line in ["---", *short(part)]])


def test_the_recorded_turns_end_as_they_were_scripted() -> None:
    endings = [[one.ending for one in part if isinstance(one, TurnEnded)] for part in recorded()]
    assert endings[:3] == [[TurnEnding.NATURAL], [TurnEnding.NATURAL], [TurnEnding.INTERRUPTED]]


def test_the_question_comes_after_its_call_and_before_its_result() -> None:
    turn = recorded()[1]
    order = [type(one) for one in turn if isinstance(one, ToolCalled | ApprovalAsked | ToolReturned)]
    assert order == [ToolCalled, ApprovalAsked, ToolReturned]


def test_a_dead_attempt_leaves_no_text_and_no_message() -> None:
    turn = recorded()[3]
    assert [one for one in turn if isinstance(one, RetryBegun)]
    assert [one for one in turn if isinstance(one, TextVoided)]
    assert [one for one in turn if isinstance(one, TextArrived)]
    assert not [one for one in turn if isinstance(one, MessageEnded)]


def test_an_idle_that_trails_the_turn_before_does_not_end_the_new_one() -> None:
    events = begun()
    assert told(events, status("idle")) == []
    assert events.is_turn_open
    told(events, status("busy"), status("idle"))
    assert not events.is_turn_open


def test_an_error_before_the_session_was_busy_still_ends_the_turn() -> None:
    error: Json = {"name": "ProviderModelNotFoundError", "data": {"message": "no such model"}}
    (ended,) = told(begun(), event("session.error", error=error), status("idle"))
    assert isinstance(ended, TurnEnded)
    assert (ended.ending, ended.error_message) == (TurnEnding.ERROR, "no such model")


def test_an_abort_while_it_waits_to_retry_is_an_interrupt_though_nothing_says_so() -> None:
    events = begun()
    told(events, status("busy"))
    events.interrupting()
    assert told(events, status("idle")) == [TurnEnded(ending=TurnEnding.INTERRUPTED)]


def test_an_idle_without_a_word_about_the_end_is_a_silent_one() -> None:
    assert told(begun(), status("busy"), status("idle"))[-1] == TurnEnded(ending=TurnEnding.SILENT)


def test_a_question_that_comes_before_its_tool_part_names_the_call_first_and_once() -> None:
    tool: Json = {"callID": "c1"}
    part: Json = {"id": "p", "type": "tool", "tool": "bash", "callID": "c1", "state": {"status": "running"}}
    seen = told(
        begun(),
        event("permission.asked", id="per_1", permission="bash", metadata={"command": "ls"}, tool=tool),
        event("message.part.updated", part=part),
    )
    assert [type(one) for one in seen] == [ToolCalled, ApprovalAsked]


def test_an_id_that_is_no_name_is_no_question() -> None:
    seen = told(begun(), event("permission.asked", id="../../session\r\n", permission="bash"))
    assert not [one for one in seen if isinstance(one, ApprovalAsked)]


def test_a_child_session_is_told_as_a_child_and_never_ends_the_turn() -> None:
    events = begun()
    info: Json = {"parentID": "ses_1"}
    part: Json = {"id": "p", "messageID": "m", "type": "text", "text": "from below", "time": {"end": 1}}
    seen = told(
        events,
        status("busy"),
        event("session.created", "ses_2", info=info),
        event("message.updated", "ses_2", info={"id": "m", "role": "assistant"}),
        event("message.part.updated", "ses_2", part=part),
        event("session.status", "ses_2", status={"type": "idle"}),
        event("message.part.updated", "ses_3", part=part),
    )
    assert seen[1:] == [MessageEnded(text="from below", message_id="p", sub_agent="ses_2")]
    assert events.is_turn_open


def test_a_question_of_the_model_is_answered_by_its_labels() -> None:
    asked_for: Json = [{"question": "Which?", "header": "Colour", "options": [{"label": "Red"}, {"label": "Blue"}]}]
    (asked,) = told(begun(), event("question.asked", id="que_1", questions=asked_for))
    assert isinstance(asked, ApprovalAsked)
    assert asked.attention is Attention.QUESTION
    assert answer(asked, Decision(request_id="que_1", is_allowed=True, option_label="Blue")) == (
        "/question/que_1/reply",
        {"answers": [["Blue"]]},
    )
    assert answer(asked, Decision(request_id="que_1", is_allowed=False)) == ("/question/que_1/reject", None)
