"""The loop over a played model: nothing here takes time, so that every await can be interrupted in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from unittest.mock import patch

import pytest

from interlock.agents.model import ModelDriver, Tool, ToolFailure, tool_from
from interlock.agents.model.calls import (
    CallFault,
    CallUsage,
    FaultKind,
    ModelAnswer,
    ModelQuestion,
    Piece,
    RequestedCall,
)
from interlock.agents.model.turn import CONTINUE, MAX_CONTINUATIONS
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    ContextFilled,
    Exited,
    HistoryCompacted,
    MessageEnded,
    Observation,
    RetryBegun,
    TextArrived,
    TextVoided,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
    Warned,
)
from interlock.agents.port import Decision, NotDelivered, Prompt
from interlock.projections.replay.items import AssistantText, CompactionMemory, UserText
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, TurnId
from tests.agents.model.harness import PlayedModel, React, Reader, as_json, calls, ended, instant, of, spawn, spec
from tests.held_time import Alarm, clock, run_held

ALLOW: Json = ["allow *"]


def play(
    answers: Sequence[ModelAnswer | CallFault],
    *,
    tools: Sequence[Tool] = (),
    react: React | None = None,
    alarm: Alarm | None = None,
    history: Sequence[Json] = (),
    window_tokens: int | None = None,
    **options: Json,
) -> tuple[list[Observation], PlayedModel]:
    """One turn, and then the end of the spawn. With an alarm, no time passes in the turn but by that."""
    model = PlayedModel(list(answers), window_tokens=window_tokens)

    async def run() -> list[Observation]:
        handle = await spawn(spec(options={"permissions": ALLOW, **options}), ModelDriver(caller=model, tools=tools))
        reader = Reader(handle)
        if alarm is None:
            clock().resume()
        told = await reader.turn("do it", react=react if alarm is None else alarm.react, history=history)
        clock().resume()
        await handle.stop()
        assert of(await reader.rest(), TurnEnded) == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return told

    told = run_held(run())
    assert model.is_closed
    assert model.open_calls == 0
    return told, model


LOOK = instant("look", lambda: "seen")
FAIL = instant("fail", lambda: 1 / 0)


def test_an_answer_without_calls_is_a_natural_end() -> None:
    told, _ = play([ModelAnswer(text="Hello there")])
    assert ended(told) == TurnEnded(ending=TurnEnding.NATURAL, text="Hello there")
    assert [one.text for one in of(told, MessageEnded)] == ["Hello there"]


def test_an_empty_answer_is_told_as_it_is() -> None:
    told, _ = play([ModelAnswer(text="")])
    assert ended(told) == TurnEnded(ending=TurnEnding.NATURAL, text="")
    assert of(told, MessageEnded) == []


def test_a_tool_runs_only_after_its_call_was_dealt_with() -> None:
    seen: list[str] = []

    async def react(one: Observation) -> None:
        if isinstance(one, ToolCalled):
            for _ in range(50):  # any number of chances for the loop to run ahead
                await asyncio.sleep(0)
            seen.append("persisted")

    play([calls("note")], tools=[instant("note", lambda: seen.append("ran"))], react=react)
    assert seen == ["persisted", "ran"]


def test_every_call_is_told_before_any_of_them_runs() -> None:
    told, _ = play([calls("look", "look", "look")], tools=[LOOK])
    kinds = [type(one) for one in told if isinstance(one, ToolCalled | ToolReturned)]
    assert kinds == [ToolCalled] * 3 + [ToolReturned] * 3
    assert ended(told).ending is TurnEnding.NATURAL


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (calls("no_such"), "unknown_tool"),
        (calls("look", surplus=1), "invalid_arguments"),
        (calls("fail"), "tool_error"),
        (calls("odd"), "unserialisable_result"),
        (calls("own"), "mine"),
        (calls("thief"), "tool_error"),
        (ModelAnswer(calls=(RequestedCall(call_id="c", name="look", unreadable="{"),)), "invalid_arguments"),
    ],
)
def test_whatever_is_wrong_with_a_call_is_its_result(answer: ModelAnswer, kind: str) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    def own() -> None:
        raise ToolFailure("mine", "of my own")

    def thief() -> None:
        raise ToolFailure("run_cancelled", "a word that is not mine")

    tools = [tool_from(look), FAIL, instant("odd", object), tool_from(own), tool_from(thief)]
    told, model = play([answer], tools=tools)
    assert ended(told).ending is TurnEnding.NATURAL
    (result,) = of(told, ToolReturned)
    assert result.error is not None
    assert result.error.kind == kind
    assert len(model.asked) == 2


def test_ids_that_a_model_uses_again_or_leaves_out_are_told_apart() -> None:
    same = tuple(RequestedCall(call_id=name, name="look", args={}) for name in ("x", "x", " ", ""))
    told, _ = play([ModelAnswer(calls=same), ModelAnswer(calls=same[:1])], tools=[LOOK])
    ended(told)
    assert len({one.call_id for one in of(told, ToolCalled)}) == 5


@pytest.mark.parametrize(("rounds", "code"), [(1, "max_rounds"), (2, "max_rounds"), (3, ""), (4, "")])
def test_a_round_limit_stops_after_the_tools_and_never_a_natural_end(rounds: int, code: str) -> None:
    answers = [calls("look", n=1), calls("look", n=2), ModelAnswer(text="done")]
    told, model = play(answers, tools=[_open_tool("look")], stop=[{"type": "max_rounds", "rounds": rounds}])
    end = ended(told)
    assert end.stop_code == code
    assert end.ending is (TurnEnding.STOPPED if code else TurnEnding.NATURAL)
    assert len(model.asked) == min(rounds, 3)
    assert len(of(told, ToolReturned)) == min(rounds, 2)


@pytest.mark.parametrize(("budget", "asked"), [(20, 2), (21, 3), (30, 3), (31, 4), (0, 4)])
def test_a_token_budget_stops_at_its_limit(budget: int, asked: int) -> None:
    answers = [calls("look", n=n, tokens=10) for n in range(3)] + [ModelAnswer(text="done")]
    told, model = play(answers, tools=[_open_tool("look")], stop=[{"type": "token_budget", "max_total": budget}])
    assert len(model.asked) == asked
    assert ended(told).stop_code == ("" if asked == 4 else "token_budget")


@pytest.mark.parametrize(("limit", "asked"), [(1, 2), (2, 3), (3, 4)])
def test_errors_are_counted_after_the_results(limit: int, asked: int) -> None:
    answers = [calls("look"), calls("fail"), calls("fail"), ModelAnswer(text="done")]
    told, model = play(answers, tools=[LOOK, FAIL], stop=[{"type": "consecutive_errors", "max": limit}])
    assert len(model.asked) == asked
    assert ended(told).stop_code == ("" if asked == 4 else "consecutive_errors")


def test_a_tool_that_stops_the_turn_runs_first() -> None:
    told, model = play(
        [calls("look", text="Here.")], tools=[LOOK], stop=[{"type": "stop_on_tool", "tool_name": "look"}]
    )
    end = ended(told)
    assert (end.stop_code, end.text) == ("tool_called", "Here.")
    assert of(told, ToolReturned)[0].output == "seen"
    assert len(model.asked) == 1


def test_words_stop_the_turn_after_the_tools() -> None:
    told, _ = play(
        [calls("look", text="I am DONE.")], tools=[LOOK], stop=[{"type": "content_match", "pattern": "DONE"}]
    )
    assert ended(told).stop_code == "content_matched"
    assert len(of(told, ToolReturned)) == 1


@pytest.mark.parametrize(("same", "code"), [(2, ""), (3, "loop_detected"), (4, "loop_detected")])
def test_a_loop_is_noticed_at_the_third_equal_round(same: int, code: str) -> None:
    told, model = play([calls("look", n=1)] * same, tools=[_open_tool("look")])
    assert ended(told).stop_code == code
    assert len(model.asked) == 3


def _open_tool(name: str) -> Tool:
    async def run(_: dict[str, Json]) -> object:
        return "seen"

    return Tool(name=name, description="", schema={"type": "object"}, run=run)


def _hanging() -> Tool:
    async def hang() -> None:
        """Never ends by itself."""
        await asyncio.Event().wait()

    return tool_from(hang)


def test_the_wall_clock_ends_a_tool_that_hangs_while_others_returned() -> None:
    alarm = Alarm(10, lambda seen: isinstance(seen, ToolReturned))
    stop: Json = [{"type": "timeout", "seconds": 10}]
    told, _ = play([calls("look", "hang")], tools=[LOOK, _hanging()], stop=stop, alarm=alarm)
    end = ended(told)
    assert (end.ending, end.stop_code) == (TurnEnding.STOPPED, "timeout")
    by_id = {one.call_id: one for one in of(told, ToolReturned)}
    assert by_id["c0"].output == "seen"
    assert by_id["c1"].error is not None
    assert by_id["c1"].error.kind == "run_timed_out"
    assert "may have had effects" in by_id["c1"].error.message


def test_the_wall_clock_ends_a_call_that_hangs() -> None:
    class Hanging(PlayedModel):
        async def call(self, question: ModelQuestion) -> AsyncGenerator[Piece, None]:
            await asyncio.Event().wait()
            yield ModelAnswer()

    async def run() -> None:
        handle = await spawn(spec(stop=[{"type": "timeout", "seconds": 0.05}]), ModelDriver(caller=Hanging([])))
        reader = Reader(handle)
        assert ended(await reader.turn("do it")).stop_code == "timeout"
        await handle.stop()

    asyncio.run(run())


def test_a_question_that_nobody_answers_is_ended_by_the_wall_clock() -> None:
    async def run() -> list[Observation]:
        model = PlayedModel([calls("look")])
        wanted = spec(permissions=["ask look"], stop=[{"type": "timeout", "seconds": 10}])
        handle = await spawn(wanted, ModelDriver(caller=model, tools=[LOOK]))
        alarm = Alarm(10, lambda seen: isinstance(seen, ApprovalAsked))
        told = await Reader(handle).turn("do it", react=alarm.react)
        clock().resume()
        with pytest.raises(NotDelivered):
            await handle.decide(Decision(request_id=of(told, ApprovalAsked)[0].request_id, is_allowed=True))
        await handle.stop()
        return told

    told = run_held(run())
    assert ended(told).stop_code == "timeout"
    assert [one.is_answered for one in of(told, ApprovalGone)] == [False]
    assert of(told, ToolReturned)[0].error == ToolError(kind="run_timed_out", message="the turn's time was over")


@pytest.mark.parametrize(
    ("decision", "ran", "kind"),
    [
        (Decision(request_id="trn_1:c0", is_allowed=True), 1, None),
        (Decision(request_id="trn_1:c0", is_allowed=False, text="not now"), 0, "approval_denied"),
        (Decision(request_id="trn_1:c0", is_allowed=True, option_id="deny"), 0, "approval_denied"),
    ],
)
def test_a_call_that_waits_runs_only_after_a_yes(decision: Decision, ran: int, kind: str | None) -> None:
    done: list[str] = []

    async def run() -> list[Observation]:
        tools = [instant("risky", lambda: done.append("risky")), instant("look", lambda: done.append("look"))]
        model = PlayedModel([calls("risky", "look")])
        handle = await spawn(spec(permissions=["allow look"]), ModelDriver(caller=model, tools=tools))
        reader = Reader(handle)
        await handle.submit(Prompt(prompt_id=PromptId("p"), turn_id=TurnId("trn_1"), text="do it"))
        told = await reader.until(ToolReturned)
        assert done == ["look"], "the other call of the round does not wait, and the one that waits has not run"
        await handle.decide(decision)
        with pytest.raises(NotDelivered):
            await handle.decide(decision)
        told += await reader.until(TurnEnded)
        await handle.stop()
        return told

    told = asyncio.run(run())
    assert ended(told).ending is TurnEnding.NATURAL
    assert done.count("risky") == ran
    (result,) = (one for one in of(told, ToolReturned) if one.call_id == "c0")
    assert (result.error.kind if result.error else None) == kind
    assert [one.is_answered for one in of(told, ApprovalGone)] == [True]


def test_allow_from_now_on_asks_no_second_time_and_deny_still_wins() -> None:
    async def run() -> list[Observation]:
        model = PlayedModel([calls("look", n=1), calls("look", n=2), calls("look", secret="x")])
        wanted = spec(permissions=["deny look(secret=*)"])
        handle = await spawn(wanted, ModelDriver(caller=model, tools=[_open_tool("look")]))

        async def react(one: Observation) -> None:
            if isinstance(one, ApprovalAsked):
                await handle.decide(Decision(request_id=one.request_id, is_allowed=True, option_id="allow_always"))

        told = await Reader(handle).turn("do it", react=react)
        await handle.stop()
        return told

    told = asyncio.run(run())
    ended(told)
    assert len(of(told, ApprovalAsked)) == 1
    assert [one.error.kind if one.error else "" for one in of(told, ToolReturned)] == ["", "", "rule_denied"]


def test_a_tool_that_is_always_denied_is_not_offered() -> None:
    async def run() -> PlayedModel:
        model = PlayedModel([])
        handle = await spawn(spec(permissions=["deny shell"]), ModelDriver(caller=model))
        await Reader(handle).turn("do it")
        await handle.stop()
        return model

    assert [tool.name for tool in asyncio.run(run()).asked[0].tools] == ["read", "write", "edit", "search"]


def test_text_of_a_dead_attempt_is_voided() -> None:
    fault = CallFault(FaultKind.CONNECTION, "gone")
    told, model = play([fault, fault, ModelAnswer(text="whole")])
    assert ended(told).text == "whole"
    assert len(of(told, TextVoided)) == len(of(told, RetryBegun)) == 2
    last_void = max(index for index, one in enumerate(told) if isinstance(one, TextVoided))
    assert "".join(one.text for one in of(told[last_void:], TextArrived)) == "whole"
    assert len(model.asked) == 3


@pytest.mark.parametrize(("asked", "waited"), [(7.0, 7), (500.0, 30), (None, 2)])
def test_the_next_attempt_waits_as_long_as_the_provider_asks_up_to_the_limit(asked: float | None, waited: int) -> None:
    fault = CallFault(FaultKind.RATE_LIMIT, "slow down", retry_after_seconds=asked)
    alarm = Alarm(waited, lambda seen: isinstance(seen, RetryBegun))
    retry: Json = {"first_pause_seconds": 2, "max_pause_seconds": 30}
    with patch("random.random", return_value=1.0):
        told, model = play([fault, ModelAnswer(text="whole")], alarm=alarm, retry=retry)
    assert ended(told).text == "whole"
    assert len(model.asked) == 2


def test_the_text_of_the_last_attempt_stands_as_a_partial() -> None:
    told, model = play([CallFault(FaultKind.SERVER, "busy")] * 3)
    end = ended(told)
    assert (end.ending, end.error_kind, end.text) == (TurnEnding.ERROR, "server", None)
    assert isinstance(told[-2], TextArrived), "nothing voids it"
    assert len(model.asked) == 3


@pytest.mark.parametrize("kind", [FaultKind.AUTH, FaultKind.CLIENT, FaultKind.QUOTA, FaultKind.CONTENT_FILTER])
def test_what_will_not_pass_is_not_tried_again(kind: FaultKind) -> None:
    told, model = play([CallFault(kind, "no")])
    assert ended(told).error_kind == kind.value
    assert len(model.asked) == 1


def test_a_cut_answer_is_continued_as_one_message() -> None:
    told, model = play([ModelAnswer(text="one ", is_truncated=True), ModelAnswer(text="two")])
    assert ended(told).text == "one two"
    assert [one.text for one in of(told, MessageEnded)] == ["one two"]
    assert list(model.asked[1].items[-2:]) == [AssistantText(text="one "), UserText(text=CONTINUE)]
    assert "cut off" in CONTINUE
    assert "without repeating" in CONTINUE
    assert of(told, Warned) == []


def test_a_retry_of_a_continuation_keeps_what_was_whole() -> None:
    told, _ = play(
        [ModelAnswer(text="one", is_truncated=True), CallFault(FaultKind.SERVER, ""), ModelAnswer(text="two")]
    )
    assert ended(told).text == "onetwo"
    void = next(index for index, one in enumerate(told) if isinstance(one, TextVoided))
    assert "".join(one.text for one in of(told[void:], TextArrived)) == "onetwo"


def test_an_answer_that_stays_cut_is_reported() -> None:
    told, model = play([ModelAnswer(text="x", is_truncated=True)] * 9)
    assert ended(told).text == "x" * (1 + MAX_CONTINUATIONS)
    assert [one.kind for one in of(told, Warned)] == ["output_truncated"]
    assert len(model.asked) == 1 + MAX_CONTINUATIONS


HISTORY = as_json([UserText(text="earlier"), AssistantText(text="indeed")])


def test_an_overflow_makes_room_once_before_this_turn() -> None:
    overflow = CallFault(FaultKind.CONTEXT_OVERFLOW, "too long")
    told, model = play([overflow, ModelAnswer(text="a summary"), ModelAnswer(text="done")], history=HISTORY)
    assert ended(told).text == "done"
    (made,) = of(told, HistoryCompacted)
    assert made.summary == "a summary"
    assert [type(item) for item in model.asked[-1].items] == [CompactionMemory, UserText]


def test_a_summary_that_fails_is_replaced_by_the_deterministic_one() -> None:
    overflow = CallFault(FaultKind.CONTEXT_OVERFLOW, "too long")
    told, model = play([overflow, overflow, ModelAnswer(text="done")], history=HISTORY)
    assert ended(told).text == "done"
    memory = model.asked[-1].items[0]
    assert isinstance(memory, CompactionMemory)
    assert "earlier" in memory.summary


def test_an_overflow_of_the_turn_itself_is_an_error() -> None:
    told, model = play([CallFault(FaultKind.CONTEXT_OVERFLOW, "too long")])
    assert ended(told).error_kind == "context_overflow"
    assert len(model.asked) == 1


@pytest.mark.parametrize(("tokens", "summaries"), [(899, 0), (900, 1)])
def test_room_is_made_when_the_context_is_critical(tokens: int, summaries: int) -> None:
    answers = [calls("look", tokens=tokens), *[ModelAnswer(text="a summary")] * summaries, ModelAnswer(text="done")]
    told, _ = play(answers, tools=[LOOK], history=HISTORY, window_tokens=1000)
    assert ended(told).text == "done"
    assert len(of(told, HistoryCompacted)) == summaries
    assert of(told, ContextFilled)[0] == ContextFilled(used_tokens=tokens, window_tokens=1000)


def test_room_is_made_once_a_turn_and_never_in_the_turn_itself() -> None:
    full = [calls("look", n=n, tokens=950) for n in range(2)]
    answers = [full[0], ModelAnswer(text="a summary"), full[1], ModelAnswer(text="done")]
    told, model = play(answers, tools=[_open_tool("look")], history=HISTORY, window_tokens=1000)
    assert ended(told).text == "done"
    assert len(of(told, HistoryCompacted)) == 1
    assert [type(item) for item in model.asked[-1].items[:2]] == [CompactionMemory, UserText]


def test_a_model_that_was_full_makes_room_before_the_next_turn_unless_somebody_did() -> None:
    async def run(second: Sequence[Json]) -> list[Observation]:
        full = ModelAnswer(text="x", usage=CallUsage(input_tokens=950))
        model = PlayedModel([full, ModelAnswer(text="a summary"), ModelAnswer(text="done")], window_tokens=1000)
        handle = await spawn(spec(), ModelDriver(caller=model))
        reader = Reader(handle)
        await reader.turn("one", history=HISTORY)
        told = await reader.turn("two", history=second)
        await handle.stop()
        return told

    assert len(of(asyncio.run(run([*HISTORY, *HISTORY])), HistoryCompacted)) == 1
    assert of(asyncio.run(run(HISTORY[:1])), HistoryCompacted) == []


def test_what_was_not_reported_is_told_as_missing() -> None:
    told, _ = play([ModelAnswer(text="x")], window_tokens=1000)
    (usage,) = of(told, UsageReported)
    assert (usage.input_tokens, usage.output_tokens) == (None, None)
    assert of(told, ContextFilled) == []


def test_a_second_prompt_is_refused_while_a_turn_is_open_and_after_the_end() -> None:
    async def run() -> None:
        handle = await spawn(spec(permissions=ALLOW), ModelDriver(caller=PlayedModel([])))
        prompt = Prompt(prompt_id=PromptId("p"), turn_id=TurnId("t"), text="x")
        await handle.submit(prompt)
        with pytest.raises(NotDelivered, match=r"^a turn is open$"):
            await handle.submit(prompt)
        await handle.stop()
        with pytest.raises(NotDelivered, match=r"^the agent was stopped$"):
            await handle.submit(prompt)
        await handle.stop()

    asyncio.run(run())


def test_a_stop_in_mid_turn_needs_no_reader() -> None:
    async def run() -> list[Observation]:
        model = PlayedModel([calls("hang")])
        handle = await spawn(spec(permissions=ALLOW), ModelDriver(caller=model, tools=[_hanging()]))
        reader = Reader(handle)
        await handle.submit(Prompt(prompt_id=PromptId("p"), turn_id=TurnId("t"), text="x"))
        told = await reader.until(ToolCalled)
        await handle.stop()
        return told + await reader.rest()

    told = asyncio.run(run())
    assert isinstance(told[-1], Exited)
    assert ended(told[:-1]).ending is TurnEnding.INTERRUPTED


def _story() -> list[ModelAnswer | CallFault]:
    """A turn that passes through everything the loop can wait for."""
    return [
        CallFault(FaultKind.SERVER, "busy"),
        calls("look", "risky", "slow", text="let me see"),
        ModelAnswer(text="cut ", is_truncated=True, usage=CallUsage(input_tokens=950)),
        calls("look", n=2),
        ModelAnswer(text="the end"),
    ]


async def _interrupted_after(steps: int, *, by_stop: bool) -> tuple[TurnEnding, bool]:
    """Interrupt after so many turns of the event loop; how it ended, and whether the steps sufficed for the end."""
    model = PlayedModel(_story(), window_tokens=1000)
    tools = [_open_tool("look"), _open_tool("risky"), tool_from(_slow, name="slow")]
    handle = await spawn(spec(permissions=["allow look", "allow slow"]), ModelDriver(caller=model, tools=tools))
    reader = Reader(handle)

    async def react(one: Observation) -> None:
        if isinstance(one, ApprovalAsked):
            await handle.decide(Decision(request_id=one.request_id, is_allowed=True))

    await handle.submit(Prompt(prompt_id=PromptId("p"), turn_id=TurnId("t"), text="go", history=HISTORY))
    turn = asyncio.create_task(reader.until(TurnEnded, react))
    for _ in range(steps):
        await asyncio.sleep(0)
    was_done = turn.done()
    await (handle.stop() if by_stop else handle.interrupt())
    end = ended(await turn)
    if by_stop:
        assert of(await reader.rest(), TurnEnded) == []
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:  # the turn's own task ends right after it told so
        await asyncio.wait(others, timeout=5)
    assert model.open_calls == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return end.ending, was_done


async def _slow() -> str:
    for _ in range(5):
        await asyncio.sleep(0)
    return "slowly"


@pytest.mark.parametrize("by_stop", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_an_interrupt_at_every_await_leaves_one_end_and_no_open_call(
    by_stop: bool, record_property: Callable[[str, object], None]
) -> None:
    endings: list[TurnEnding] = []
    steps, is_over = 0, False
    while not is_over:
        assert steps < 2000
        ending, is_over = asyncio.run(_interrupted_after(steps, by_stop=by_stop))
        endings.append(ending)
        steps += 4 if by_stop else 1  # a stop also looks for processes, which takes its time
    late = endings.index(TurnEnding.NATURAL)
    assert set(endings[:late]) == {TurnEnding.INTERRUPTED}
    assert set(endings[late:]) == {TurnEnding.NATURAL}, "only what came too late leaves a natural end"
    assert steps > 50, "the story has many places to be interrupted at"
    record_property("explored", f"model turn: {'stopped' if by_stop else 'interrupted'} at {steps} steps")
