"""Events and texts lose the secrets that are known, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.pool.masking import has_trigger, starred_text
from interlock.runtime.redaction.redactor import Redactor
from interlock.runtime.redaction.values import spellings
from interlock.screen.snapshot import Row, Snapshot
from interlock.testing.strategies import payloads
from interlock.vocabulary.events.audit import (
    AgentSession,
    Anomaly,
    ProcessEvent,
    ProcessEventKind,
    QueueEvent,
    QueueEventKind,
    SessionOpened,
    StreamCheckpoint,
    SurfaceEvent,
    SurfaceResult,
    TurnFailed,
)
from interlock.vocabulary.events.conversation import AssistantMessage, MessageMetadata, ToolCall, ToolResult
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import CallId, PromptId, StreamId
from interlock.vocabulary.states import Activity, DriverKind, TurnState

SECRET = "correct horse 9!"
STARS = "*" * len(SECRET)
REDACTOR = Redactor(spellings([SECRET]))


def test_a_value_becomes_as_many_stars_wherever_it_stands() -> None:
    call = ToolCall(
        call_id=CallId(f"c-{SECRET}"),
        name="Bash",
        args={"command": ["echo", f"x{SECRET}y"], SECRET: {"n": 1, "m": None}},
    )
    assert REDACTOR.payload(call) == ToolCall(
        call_id=CallId(f"c-{STARS}"), name="Bash", args={"command": ["echo", f"x{STARS}y"], STARS: {"n": 1, "m": None}}
    )


def test_a_payload_without_a_secret_is_returned_as_it_is() -> None:
    result = ToolResult(call_id=CallId("c"), ok=True, output=[{"a": "b" * 40}])
    assert REDACTOR.payload(result) is result


@pytest.mark.parametrize("spelled", ["correct%20horse%209%21", "Y29ycmVjdCBob3JzZSA5IQ"])
def test_other_spellings_of_a_value_are_masked(spelled: str) -> None:
    assert REDACTOR.text(f"<{spelled}>") == f"<{'*' * len(spelled)}>"


def test_ids_that_we_make_are_not_touched() -> None:
    redactor = Redactor(["prm_secret1"])
    event = QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=PromptId("prm_secret1"), text="say prm_secret1")
    assert redactor.payload(event) == QueueEvent(
        kind=QueueEventKind.QUEUED, prompt_id=PromptId("prm_secret1"), text="say ***********", is_redacted=True
    )


def test_a_queued_prompt_without_a_secret_is_not_marked() -> None:
    event = QueueEvent(kind=QueueEventKind.QUEUED, prompt_id=PromptId("p"), text="say it, please")
    assert REDACTOR.payload(event) is event


def test_a_session_of_the_agent_that_cannot_be_named_is_of_no_use() -> None:
    named = REDACTOR.payload(AgentSession(native_session_id=f"n-{SECRET}", transcript_path=f"/t/{SECRET}.jsonl"))
    assert (named.native_session_id, named.transcript_path) == ("", f"/t/{STARS}.jsonl")
    assert named.reason
    kept = REDACTOR.payload(AgentSession(native_session_id="n-1", transcript_path=f"/t/{SECRET}.jsonl"))
    assert (kept.native_session_id, kept.reason) == ("n-1", "")


def test_a_command_line_is_masked_by_value_and_by_name() -> None:
    opened = SessionOpened(
        agent="a", driver="d", kind=DriverKind.STREAM, argv=("run", SECRET, "--token", "abc"), environment=("KEY",)
    )
    assert REDACTOR.payload(opened).argv == ("run", STARS, "--token", "***")


def test_what_a_later_runtime_needs_is_kept() -> None:
    redactor = Redactor(["opus-4-large"])
    opened = SessionOpened(
        agent="a", driver="d", kind=DriverKind.STREAM, model="opus-4-large", policy={"x": "opus-4-large"}
    )
    assert redactor.payload(opened) is opened
    event = ProcessEvent(kind=ProcessEventKind.SPAWNED, where={"pane": "opus-4-large"})
    assert redactor.payload(event) is event


def test_in_diagnostics_names_and_randomness_are_guessed_at() -> None:
    failed = TurnFailed(
        terminal_status=TurnState.FAILED,
        error_kind="exited",
        error_message="api_key=abcdef",
        details={"stderr_tail": f"login with {SECRET}\npassword: abc", "partial_text_length": 12},
    )
    hidden = REDACTOR.payload(failed)
    assert hidden.error_message == "api_key=***"
    assert hidden.details == {"stderr_tail": f"login with {STARS}\npassword: ***", "partial_text_length": 12}
    assert REDACTOR.payload(Anomaly(kind="k", message="token=abc")).message == "token=***"


def test_in_a_conversation_only_well_known_shapes_are_masked() -> None:
    code = 'token=get_token(); password = "abc"; x = make(api_key=config.api_key)\nsk_buff_alloc_something(skb)'
    assert REDACTOR.payload(AssistantMessage(text=code)).text == code
    assert REDACTOR.text("use ghp_abcdefghij0123456789") == "use ghp_********************"


@pytest.mark.parametrize("length", [6, 10, len(SECRET) - 1])
def test_what_is_left_of_a_value_that_was_cut_is_masked(length: int) -> None:
    begun, rest = SECRET[:length], SECRET[-length:]
    point = StreamCheckpoint(stream_id=StreamId("s"), offset=4 + length, text=f"say {begun}")
    assert REDACTOR.payload(point).text == f"say {'*' * length}"
    tail = ProcessEvent(kind=ProcessEventKind.SPAWN_FAILED, stderr_tail=f"{rest} is wrong")
    assert REDACTOR.payload(tail).stderr_tail == f"{'*' * length} is wrong"
    partial = AssistantMessage(text=f"say {begun}", metadata=MessageMetadata(partial=True))
    assert REDACTOR.payload(partial).text == f"say {'*' * length}"


def test_a_whole_answer_may_end_like_a_secret_begins() -> None:
    whole = AssistantMessage(text="this is correct")
    assert REDACTOR.payload(whole) is whole
    assert REDACTOR.cut_text("incorr") == "incorr"


def test_a_value_that_a_terminal_wrapped_is_masked_on_each_row() -> None:
    redactor = Redactor(["abcdefghijklmnopqrstuvwxyz0123456789"])
    rows = "$ echo abcdefgh\nijklmnopqrst\nuvwxyz0123456789 done"
    event = SurfaceEvent(activity=Activity.WORKING, rows=rows)
    assert redactor.payload(event).rows == "$ echo ********\n************\n**************** done"


def test_what_a_terminal_showed_at_the_end_of_a_turn_is_masked_too() -> None:
    ended = SurfaceResult(result="completed", head=f"a {SECRET}", tail=f"{SECRET} b", observed=SECRET)
    shown = REDACTOR.payload(SurfaceEvent(activity=Activity.QUIET, ended=ended)).ended
    assert shown is not None
    assert (shown.head, shown.tail, shown.observed) == (f"a {STARS}", f"{STARS} b", STARS)


def test_a_screen_keeps_every_character_in_its_place() -> None:
    seen = Snapshot(rows=(Row("plain"), Row(f"a {SECRET} b")), columns=80, title=f"at {SECRET}", raw_text=SECRET)
    shown = REDACTOR.snapshot(seen)
    assert [row.text for row in shown.rows] == ["plain", f"a {STARS} b"]
    assert shown.title == f"at {STARS}"
    assert SECRET not in shown.raw_text


def test_of_two_values_the_longer_one_is_masked_first() -> None:
    assert Redactor(["abcdefgh", "abcdefgh-more"]).text("abcdefgh-more abcdefgh") == "************* ********"


@given(st.text(max_size=60), st.text(alphabet="abc1-_= \n", max_size=20), st.text(max_size=60))
def test_lengths_stay_and_twice_is_once(before: str, between: str, after: str) -> None:
    text = f"{before}{SECRET}{between}ghp_abcdefghij0123456789{after}"
    once = REDACTOR.text(text)
    assert len(once) == len(text)
    assert SECRET not in once
    assert REDACTOR.text(once) == once
    assert REDACTOR.cut_text(once) == REDACTOR.cut_text(REDACTOR.cut_text(once))


@given(payloads())
def test_any_payload_is_redacted_once_and_stays_what_it_is(payload: Payload) -> None:
    once = REDACTOR.payload(payload)
    assert type(once) is type(payload)
    assert REDACTOR.payload(once) == once


@pytest.mark.parametrize(
    "piece",
    ["sk-", "eyJ-", "A_TOKEN=", "://a:", "Bearer ", "-----BEGIN PRIVATE KEY-----", "_SECRET", "sk-a1 ", "xoxb-"],
)
def test_no_text_takes_long(piece: str) -> None:
    starred_text(piece * 5000)
    assert has_trigger(piece * 2)
