"""The model loop under any answers and any interrupt: one end, paired calls, and requests that the log can repeat."""

from __future__ import annotations

import asyncio
import itertools

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.model import ModelDriver, Tool, ToolFailure
from interlock.agents.model.calls import CallFault, CallUsage, FaultKind, ModelAnswer, RequestedCall
from interlock.agents.model.driver import read_options
from interlock.agents.observations import (
    ApprovalAsked,
    MessageEnded,
    Observation,
    TextArrived,
    TextVoided,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
)
from interlock.agents.port import Decision, Prompt
from interlock.lifecycle.stop_conditions import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopCondition,
    StopOnTool,
    Timeout,
    TokenBudget,
)
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, TurnId
from tests.agents.model.harness import PlayedModel, Reader, as_json, ended, logged_items, of, spawn, spec

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
ARGS = st.dictionaries(st.sampled_from("abc"), SCALARS | st.lists(SCALARS, max_size=2), max_size=2)
CALLS = st.builds(
    RequestedCall,
    call_id=st.sampled_from(["x", "x", "y", "z", ""]),
    name=st.sampled_from(["quick", "slow", "fails", "asks", "denied", "no_such"]),
    args=ARGS,
    unreadable=st.sampled_from(["", "", "", "{"]),
)
TOKENS = st.none() | st.integers(0, 99)
ANSWERS = st.builds(
    ModelAnswer,
    text=st.sampled_from(["", " ", "some words", "héllo ✓"]),
    reasoning=st.lists(st.just({"content": "hm"}), max_size=1).map(tuple),
    calls=st.lists(CALLS, max_size=3).map(tuple),
    usage=st.builds(
        CallUsage, input_tokens=st.none() | st.integers(0, 99), output_tokens=st.none() | st.integers(0, 9)
    ),
    is_truncated=st.booleans(),
)
FAULTS = st.sampled_from(list(FaultKind)).map(lambda kind: CallFault(kind, "it failed"))
STORIES = st.lists(ANSWERS | ANSWERS | FAULTS, max_size=6)


def _tools() -> list[Tool]:
    async def quick(_: dict[str, Json]) -> object:
        return {"b": [1], "a": None}

    async def slow(_: dict[str, Json]) -> object:
        for _step in range(7):
            await asyncio.sleep(0)
        return "late"

    async def fails(_: dict[str, Json]) -> object:
        raise ToolFailure("mine", "no luck", "what there was")

    runs = {"quick": quick, "slow": slow, "fails": fails, "asks": quick, "denied": quick}
    return [Tool(name=name, description="", schema={"type": "object"}, run=run) for name, run in runs.items()]


async def _play(
    story: list[ModelAnswer | CallFault], interrupt_after: int | None
) -> tuple[list[Observation], PlayedModel]:
    model = PlayedModel(list(story))
    permissions: Json = ["allow quick", "allow slow", "allow fails", "deny denied(a=*)", "allow denied"]
    handle = await spawn(spec(permissions=permissions), ModelDriver(caller=model, tools=_tools()))

    async def react(seen: Observation) -> None:
        if isinstance(seen, ApprovalAsked):
            await handle.decide(Decision(request_id=seen.request_id, is_allowed=bool(seen.args)))

    await handle.submit(Prompt(prompt_id=PromptId("p"), turn_id=TurnId("trn_1"), text="go"))
    reading = asyncio.create_task(Reader(handle).until(TurnEnded, react))
    if interrupt_after is not None:
        for _ in range(interrupt_after):
            await asyncio.sleep(0)
        await handle.interrupt()
    told = await reading
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=5)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return told, model


@given(story=STORIES, interrupt_after=st.none() | st.integers(0, 150))
def test_whatever_the_model_answers_the_turn_ends_once_with_all_calls_paired(
    story: list[ModelAnswer | CallFault], interrupt_after: int | None
) -> None:
    told, model = asyncio.run(_play(story, interrupt_after))
    end = ended(told)
    assert model.open_calls == 0
    if interrupt_after is None:
        assert end.ending is not TurnEnding.INTERRUPTED
    if end.ending is TurnEnding.NATURAL:
        assert (end.text or "").strip() == "" or of(told, MessageEnded)[-1].text == end.text


@given(story=STORIES)
def test_each_request_is_what_the_log_up_to_then_says(story: list[ModelAnswer | CallFault]) -> None:
    """Rebuild the log as a runtime writes it, and ask the replay projection what the model should have been given."""
    told, model = asyncio.run(_play(story, None))
    rounds = [index for index, one in enumerate(told) if isinstance(one, ToolReturned)]
    asked = [as_json(question.items) for question in model.asked]
    kept = [items for items in asked if not _is_continuation(items)]
    for items in kept:
        prefixes = (logged_items([("trn_1", "go", told[:cut])], model.name) for cut in [0, *(at + 1 for at in rounds)])
        assert any(items == prefix for prefix in prefixes)
    assert all(longer[: len(shorter)] == shorter for shorter, longer in itertools.pairwise(kept))


def _is_continuation(items: list[Json]) -> bool:
    last = items[-1]
    return isinstance(last, dict) and str(last.get("text", "")).startswith("Your answer was cut off")


@given(story=STORIES)
def test_text_that_was_told_and_not_voided_is_the_text_of_its_message(story: list[ModelAnswer | CallFault]) -> None:
    told, _ = asyncio.run(_play(story, None))
    current = ""
    for one in told:
        match one:
            case TextArrived(text=text):
                current += text
            case TextVoided():
                current = ""
            case MessageEnded(text=text):
                # The played model leaves the blanks between its words out; what is told again has them.
                assert current.replace(" ", "") == text.replace(" ", "")
                current = ""
            case ToolCalled():
                current = ""
            case _:
                pass


CONDITIONS = st.one_of(
    st.builds(MaxRounds, st.none() | st.integers(0, 99)),
    st.builds(Timeout, st.none() | st.floats(0, 1e6)),
    st.builds(TokenBudget, st.none() | st.integers(0, 10**9)),
    st.builds(ConsecutiveErrors, st.none() | st.integers(0, 99)),
    st.builds(StopOnTool, st.text(max_size=9)),
    st.builds(ContentMatch, st.text(max_size=9)),
    st.builds(LoopDetection, st.none() | st.integers(0, 99)),
)


@given(conditions=st.lists(CONDITIONS, max_size=5))
def test_any_conditions_survive_json(conditions: list[StopCondition]) -> None:
    assert read_options({"stop": msgspec.json.decode(msgspec.json.encode(conditions))}).stop == tuple(conditions)
