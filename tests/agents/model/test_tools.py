"""Tools: a schema from types, arguments that are checked, and a result whatever the tool does."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated

import jsonschema
import pytest
from msgspec import Meta, Struct

from interlock.agents.model.tools.tool import (
    MAX_OUTPUT_CHARACTERS,
    Tool,
    ToolCallOutcome,
    run_tool,
    settle_arguments,
    tool_from,
)
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.conversation import ToolError
from interlock.vocabulary.events.registry import Json


class Point(Struct):
    x: int
    y: int = 0


def plot(points: list[Point], colour: Annotated[str, Meta(max_length=9)] = "red", *, times: int = 1) -> str:
    """Plot points."""
    return f"{len(points)} {colour} {times} {type(points[0]).__name__}"


PLOT = tool_from(plot)


def run(tool: Tool, args: Json, grace_seconds: float = 5.0) -> ToolCallOutcome:
    arguments = settle_arguments(tool, args)
    if isinstance(arguments, ToolError):
        return ToolCallOutcome(error=arguments)
    return asyncio.run(run_tool(tool, arguments, grace_seconds=grace_seconds))


def kind(outcome: ToolCallOutcome) -> str:
    return outcome.error.kind if outcome.error else ""


def test_the_schema_says_what_the_types_say() -> None:
    jsonschema.Draft202012Validator.check_schema(PLOT.schema)
    checks = jsonschema.Draft202012Validator(PLOT.schema)
    assert checks.is_valid({"points": [{"x": 1}]})
    assert not checks.is_valid({"points": [{"y": 1}]})
    assert not checks.is_valid({})
    assert PLOT.description == "Plot points."


def test_arguments_arrive_as_their_types() -> None:
    assert run(PLOT, {"points": [{"x": 1}], "times": 2}) == ToolCallOutcome(output="1 red 2 Point")


@pytest.mark.parametrize(
    "wrong", [{}, {"points": 1}, {"points": [{"x": "1"}]}, {"points": [], "colour": "x" * 10}, {"points": [], "z": 1}]
)
def test_arguments_that_do_not_fit_are_named_to_the_model(wrong: Json) -> None:
    outcome = run(PLOT, wrong)
    assert kind(outcome) == "invalid_arguments"
    assert outcome.error is not None
    assert "`" in outcome.error.message


@pytest.mark.parametrize("wrong", [None, [], "x", 1])
def test_arguments_that_are_no_object_are_refused(wrong: Json) -> None:
    assert kind(run(PLOT, wrong)) == "invalid_arguments"


def test_a_function_without_types_is_no_tool() -> None:
    def untyped(a):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return a

    def many(*args: int) -> None: ...

    for function in (untyped, many):
        with pytest.raises(UsageError, match="has no type"):
            tool_from(function)


def test_a_plain_function_that_hangs_holds_nothing_up() -> None:
    released = threading.Event()

    def hang() -> None:
        released.wait(30)

    tool = tool_from(hang, timeout_seconds=0.05)
    assert kind(run(tool, {})) == "tool_timeout"
    released.set()


def test_a_tool_that_will_not_be_cancelled_is_left_behind_and_said_so() -> None:
    async def stubborn(_: dict[str, Json]) -> object:
        while not is_over.is_set():
            try:
                await is_over.wait()
            except asyncio.CancelledError:
                continue
        return None

    async def story() -> ToolCallOutcome:
        tool = Tool(name="s", description="", schema={}, run=stubborn, timeout_seconds=0.02)
        outcome = await run_tool(tool, {}, grace_seconds=0.02)
        is_over.set()
        return outcome

    is_over = asyncio.Event()
    outcome = asyncio.run(story())
    assert outcome.error is not None
    assert "may still run" in outcome.error.message


def test_a_cancelled_caller_cancels_the_tool() -> None:
    seen: list[str] = []

    async def hang(_: dict[str, Json]) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")
        return None

    async def story() -> None:
        task = asyncio.create_task(run_tool(Tool(name="h", description="", schema={}, run=hang), {}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cleaned up"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())


@pytest.mark.parametrize("result", [object(), {1, object()}, float("nan"), {"a": lambda: 1}])
def test_what_cannot_be_written_is_an_error_or_a_null(result: object) -> None:
    async def give(_: dict[str, Json]) -> object:
        return result

    outcome = asyncio.run(run_tool(Tool(name="g", description="", schema={}, run=give), {}))
    assert kind(outcome) == "unserialisable_result" or outcome.output is None


def test_a_long_result_is_cut_in_the_middle() -> None:
    def give() -> str:
        return "a" * 10 + "b" * 10**6 + "c" * 10

    output = run(tool_from(give), {}).output
    assert isinstance(output, str)
    assert len(output) < MAX_OUTPUT_CHARACTERS + 100
    assert output.startswith("a" * 10)
    assert output.endswith("c" * 10)
    assert "left out" in output
