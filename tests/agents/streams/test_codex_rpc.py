"""What the app-server tells that no recording holds: other threads, questions of each kind, surprises."""

from __future__ import annotations

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    ChildrenChanged,
    Observation,
    OptionKind,
    PromptReached,
    RetryBegun,
    TextArrived,
    ThoughtArrived,
    ToolCalled,
    Traced,
    TurnEnded,
    TurnEnding,
    UsageReported,
    Warned,
)
from interlock.agents.port import Decision, NotDelivered
from interlock.agents.streams.codex.app_server_messages import CodexThread
from interlock.agents.streams.jsonrpc import Answered, Notified, RpcRequest
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.states import Attention

COMMAND = "item/commandExecution/requestApproval"


class Session:
    """A thread `t` with a turn `u` under way."""

    def __init__(self, *, is_resumed: bool = False) -> None:
        self.thread = CodexThread()
        method = "thread/resume" if is_resumed else "thread/start"
        self.thread.read(Answered(method, {"thread": {"id": "t", "model": "m"}}), b"")
        self.begin("u")

    def begin(self, turn: str) -> list[Observation]:
        self.thread.prompt_sent()
        self.thread.read(Answered("turn/start", {"turn": {"id": turn}}), b"")
        return self.tell("turn/started", turn={"id": turn})

    def tell(self, method: str, **params: Json) -> list[Observation]:
        return self.thread.read(Notified(method, {"threadId": "t", "turnId": "u", **params}), b"raw")

    def asked(self, method: str, **params: Json) -> ApprovalAsked:
        [shown] = self.thread.read(RpcRequest(0, method, {"threadId": "t", "turnId": "u", **params}), b"raw")
        assert isinstance(shown, ApprovalAsked)
        return shown

    def reply(self, is_allowed: bool, **chosen: str) -> Json:
        return self.thread.reply(Decision(request_id="0", is_allowed=is_allowed, **chosen))[1]

    def end(self, **turn: Json) -> list[Observation]:
        return self.tell("turn/completed", turn={"id": "u", "status": "completed", **turn})


def usage(total: int, last: int = 0) -> dict[str, Json]:
    names = ("inputTokens", "outputTokens", "cachedInputTokens")
    return {"total": dict.fromkeys(names, total), "last": {"totalTokens": last}, "modelContextWindow": 1000}


def test_threads_beside_ours_are_traced_and_end_nothing() -> None:
    session = Session()
    assert session.tell("turn/completed", threadId="title", turn={"id": "u", "status": "completed"}) == [
        Traced(raw="raw")
    ]
    assert session.tell("item/agentMessage/delta", threadId="title", delta="A title") == [Traced(raw="raw")]
    assert session.thread.is_busy
    assert session.end()[-1] == TurnEnded(ending=TurnEnding.NATURAL)


def test_a_question_of_another_thread_is_passed_on_and_outlives_our_turn() -> None:
    session = Session()
    assert session.asked(COMMAND, threadId="child", command="ls").sub_agent == "child"
    assert [type(seen) for seen in session.end()] == [TurnEnded]
    assert session.reply(is_allowed=True) == {"decision": "accept"}
    assert session.tell("serverRequest/resolved", threadId="child", requestId=0) == [ApprovalGone(request_id="0")]


def test_the_status_of_a_thread_claims_nothing() -> None:
    session = Session()
    for status in ("idle", "systemError", "active", "notLoaded"):
        assert session.tell("thread/status/changed", status={"type": status}) == []
    assert session.thread.is_busy


def test_a_turn_that_nobody_asked_for_is_a_surprise() -> None:
    session = Session()
    session.end()
    assert [type(seen) for seen in session.tell("turn/started", turn={"id": "v"})] == [Warned]
    assert session.thread.turn_id == "v"
    assert session.begin("w") == [PromptReached(stage=DeliveryStage.STARTED)]


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        ("completed", TurnEnding.NATURAL),
        ("interrupted", TurnEnding.INTERRUPTED),
        ("failed", TurnEnding.ERROR),
        ("exploded", TurnEnding.ERROR),
    ],
)
def test_a_turn_ends_as_its_status_says(status: str, ending: TurnEnding) -> None:
    [ended] = Session().end(status=status)
    assert isinstance(ended, TurnEnded)
    assert ended.ending is ending
    assert bool(ended.error_message) == (ending is TurnEnding.ERROR)


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        ("usageLimitExceeded", "usage_limit_exceeded"),
        ({"httpConnectionFailed": {"httpStatusCode": 502}}, "http_connection_failed"),
        ({}, "agent_error"),
        (None, "agent_error"),
    ],
)
def test_a_failure_is_named_by_its_kind(info: Json, kind: str) -> None:
    [ended] = Session().end(status="failed", error={"message": "no", "codexErrorInfo": info, "additionalDetails": "x"})
    assert ended == TurnEnded(
        ending=TurnEnding.ERROR, error_kind=kind, error_message="no", details={"additional_details": "x"}
    )


def test_a_death_after_an_error_is_that_error_and_else_a_silence() -> None:
    session = Session()
    assert session.thread.ended() == [TurnEnded(ending=TurnEnding.SILENT)]
    assert session.thread.ended() == []
    session = Session()
    session.tell("error", error={"message": "out"}, willRetry=False)
    assert session.thread.ended() == [TurnEnded(ending=TurnEnding.ERROR, error_kind="agent_error", error_message="out")]


def test_a_retry_without_text_voids_nothing() -> None:
    told = Session().tell("error", error={"message": "Reconnecting... 3/5"}, willRetry=True)
    assert told == [RetryBegun(message="Reconnecting... 3/5", attempt=3)]


def test_reasoning_that_came_in_pieces_is_not_told_again() -> None:
    session = Session()
    whole: Json = {"type": "reasoning", "id": "r", "summary": ["Hm."]}
    assert session.tell("item/reasoning/summaryTextDelta", itemId="r", delta="Hm.") == [ThoughtArrived(text="Hm.")]
    assert session.tell("item/completed", item=whole) == []
    assert Session().tell("item/completed", item=whole) == [ThoughtArrived(text="Hm.")]


def test_the_usage_of_a_turn_is_what_the_thread_grew_by() -> None:
    session = Session()
    figures = [
        seen.input_tokens
        for total in (10, 10, 25)
        for seen in session.tell("thread/tokenUsage/updated", tokenUsage=usage(total))
        if isinstance(seen, UsageReported)
    ]
    assert figures == [10, 25]
    session.end()
    session.begin("v")
    [used, *_] = session.tell("thread/tokenUsage/updated", tokenUsage=usage(30))
    assert isinstance(used, UsageReported)
    assert used.input_tokens == 5


def test_a_resumed_thread_without_its_total_reports_no_usage() -> None:
    told = Session(is_resumed=True).tell("thread/tokenUsage/updated", tokenUsage=usage(900, last=3))
    assert [seen for seen in told if isinstance(seen, UsageReported)] == []


def test_sub_agents_at_work_are_background_work() -> None:
    session = Session()
    activity: dict[str, Json] = {"type": "subAgentActivity", "id": "s", "agentThreadId": "child"}
    told = [session.tell("item/completed", item={**activity, "kind": kind}) for kind in ("started", "completed")]
    assert told == [[ChildrenChanged(open=frozenset({"child"}))], [ChildrenChanged(open=frozenset())]]


def test_warnings_are_told_by_their_kind() -> None:
    session = Session()
    assert session.tell("configWarning", summary="odd") == [Warned(kind="config_warning", message="odd")]
    [told] = session.tell("model/rerouted", fromModel="a", toModel="b")
    assert isinstance(told, Warned)
    assert told.kind == "model_rerouted"


def test_only_what_codex_lists_runs_on_after_a_turn() -> None:
    session = Session()
    for call in ("a", "b"):
        session.tell("item/started", item={"type": "commandExecution", "id": call, "command": "sleep 9"})
    session.end(status="interrupted")
    assert session.thread.has_commands_left
    assert session.thread.commands_listed({"data": [], "nextCursor": "more"}) == []
    assert session.thread.commands_listed({"data": "odd"}) == []
    listed: Json = [{"itemId": "a"}, 7]
    assert session.thread.commands_listed({"data": listed}) == [ChildrenChanged(open=frozenset({"a"}))]
    assert session.thread.commands_listed({"data": listed}) == []
    assert session.thread.commands_listed({"data": []}) == [ChildrenChanged(open=frozenset())]
    assert not session.thread.has_commands_left


def test_text_of_a_turn_that_is_over_is_not_taken_for_the_next() -> None:
    session = Session()
    session.end()
    session.begin("v")
    assert session.tell("item/agentMessage/delta", itemId="m", delta="late") == [Traced(raw="raw")]
    assert session.tell("item/agentMessage/delta", turnId="v", itemId="m", delta="now") == [
        TextArrived(text="now", message_id="m")
    ]


# Questions


def test_a_command_is_asked_for_with_the_options_that_codex_offers() -> None:
    session = Session()
    session.tell("item/started", item={"type": "commandExecution", "id": "c", "command": "npm i"})
    amendment: Json = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["npm", "i"]}}
    shown = session.asked(
        COMMAND, itemId="c", command="npm i", reason="Install?", availableDecisions=["accept", amendment, "cancel", 7]
    )
    assert (shown.call_id, shown.name, shown.question) == ("c", "Shell", "Install?")
    assert [option.kind for option in shown.options] == [
        OptionKind.ALLOW_ONCE,
        OptionKind.ALLOW_ALWAYS,
        OptionKind.REJECT_ONCE,
        OptionKind.REJECT_ONCE,
    ]
    # Not offered, and taken: whoever says no is not to end the turn by it.
    assert [option.id for option in shown.options[2:]] == ["decline", "cancel"]
    assert "`npm i`" in shown.options[1].label
    assert session.reply(is_allowed=True, option_label=shown.options[1].label) == {"decision": amendment}


@pytest.mark.parametrize(
    ("is_allowed", "chosen", "decision"),
    [
        (True, {}, "accept"),
        (False, {}, "decline"),
        (True, {"option_id": "acceptForSession"}, "acceptForSession"),
        (False, {"option_id": "cancel"}, "cancel"),
        (False, {"option_label": "No, and end the turn"}, "cancel"),
    ],
)
def test_a_decision_is_written_in_the_words_of_codex(is_allowed: bool, chosen: dict[str, str], decision: str) -> None:
    session = Session()
    session.asked("item/fileChange/requestApproval", itemId="c")
    assert session.reply(is_allowed, **chosen) == {"decision": decision}


def test_an_option_that_contradicts_or_was_not_offered_is_not_sent() -> None:
    session = Session()
    session.asked(COMMAND, command="ls", availableDecisions=["accept", "cancel"])
    for is_allowed, option in ((False, "accept"), (True, "cancel"), (True, "acceptForSession")):
        with pytest.raises(UsageError):
            session.reply(is_allowed, option_id=option)
    assert session.reply(is_allowed=False) == {"decision": "decline"}


def test_a_question_is_answered_once_unless_the_answer_did_not_get_there() -> None:
    session = Session()
    session.asked(COMMAND, command="ls")
    session.reply(is_allowed=True)
    with pytest.raises(NotDelivered):
        session.reply(is_allowed=True)
    session.thread.reply_failed(Decision(request_id="0", is_allowed=True))
    assert session.reply(is_allowed=False) == {"decision": "decline"}


def test_permissions_are_granted_as_asked_and_no_further() -> None:
    session = Session()
    wanted: Json = {"network": {"enabled": True}}
    session.asked("item/permissions/requestApproval", permissions=wanted, reason="Go online?")
    assert session.reply(is_allowed=True) == {"permissions": wanted, "scope": "turn"}
    session = Session()
    session.asked("item/permissions/requestApproval", permissions=wanted)
    assert session.reply(is_allowed=False) == {"permissions": {}}


def test_a_question_is_answered_by_an_option_by_words_or_by_data() -> None:
    options: Json = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    questions: Json = [{"id": "c", "header": "Colour", "question": "Which?", "options": options}]
    for chosen, answer in (({"option_label": "Blue"}, "Blue"), ({"text": "Green"}, "Green")):
        session = Session()
        shown = session.asked("item/tool/requestUserInput", questions=questions)
        assert (shown.attention, shown.question) == (Attention.QUESTION, "Which?")
        assert [option.label for option in shown.options] == ["Red", "Blue"]
        assert session.reply(True, **chosen) == {"answers": {"c": {"answers": [answer]}}}
    session = Session()
    session.asked("item/tool/requestUserInput", questions=questions)
    decision = Decision(request_id="0", is_allowed=True, data={"c": ["Red", "Blue"], "other": "x"})
    assert session.thread.reply(decision)[1] == {"answers": {"c": {"answers": ["Red", "Blue"]}}}


def test_an_elicitation_carries_its_schema_and_its_content() -> None:
    session = Session()
    schema: Json = {"type": "object", "properties": {"name": {"type": "string"}}}
    shown = session.asked("mcpServer/elicitation/request", message="Who?", mode="form", requestedSchema=schema)
    assert shown.response_schema == schema
    decision = Decision(request_id="0", is_allowed=True, data={"name": "Ada"})
    assert session.thread.reply(decision)[1] == {"action": "accept", "content": {"name": "Ada"}}
    session = Session()
    session.asked("mcpServer/elicitation/request", message="Who?")
    assert session.reply(is_allowed=False) == {"action": "decline"}


def test_a_request_that_is_no_question_must_be_refused() -> None:
    session = Session()
    asked = RpcRequest(5, "attestation/generate", {})
    assert session.thread.read(asked, b"raw") == [Traced(raw="raw")]
    assert not session.thread.knows(asked)


def test_a_number_and_a_word_are_two_requests() -> None:
    session = Session()
    [first], [second] = (session.thread.read(RpcRequest(peer_id, COMMAND, {}), b"") for peer_id in (0, "0"))
    assert isinstance(first, ApprovalAsked)
    assert isinstance(second, ApprovalAsked)
    assert first.request_id != second.request_id
    assert session.tell("serverRequest/resolved", requestId="0") == [
        ApprovalGone(request_id=second.request_id, is_answered=False)
    ]


def test_a_call_that_still_waited_for_an_answer_never_ran() -> None:
    session = Session()
    [called] = session.tell("item/started", item={"type": "commandExecution", "id": "c", "command": "ls"})
    assert isinstance(called, ToolCalled)
    session.asked(COMMAND, itemId="c", command="ls")
    told = session.end(status="interrupted")
    assert [seen for seen in told if isinstance(seen, ChildrenChanged)] == []
    assert told[0] == ApprovalGone(request_id="0", is_answered=False)
