"""The driver: what a spec may say, what it must not, and what it needs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest

from interlock.agents.model import ModelDriver
from interlock.agents.model.driver import ModelOptions
from interlock.agents.observations import BecameReady, Exited
from interlock.agents.port import AgentHandle, Driver, Prompt
from interlock.vocabulary.errors import ContractError, UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.states import DriverKind
from tests.agents.model.harness import PlayedModel, Reader, ended, spawn, spec
from tests.each_row import each_row


def test_the_driver_says_what_it_is_and_can() -> None:
    driver: Driver = ModelDriver()
    assert (driver.name, driver.kind) == ("model", DriverKind.MODEL)
    can = driver.capabilities
    assert can.needs_history
    assert can.owns_text
    assert can.reports_approvals
    assert not can.outlives_runtime
    assert not can.can_resume


def test_a_handle_has_no_process_and_nothing_to_be_found_by() -> None:
    async def run() -> None:
        handle: AgentHandle = await spawn(spec(), ModelDriver(caller=PlayedModel([])))
        assert handle.process is None
        assert handle.where is None
        assert handle.argv == ("model", "played:model")
        prompt = Prompt(prompt_id=PromptId("p"), turn_id=TurnId("t"), text="x")
        assert await handle.submit(prompt) is DeliveryStage.ACCEPTED
        await handle.release()

    asyncio.run(run())


def test_a_caller_may_bring_a_model_object_and_keeps_it() -> None:
    from pydantic_ai.models.test import TestModel

    async def run() -> list[str | None]:
        texts = []
        model = TestModel(call_tools=[], custom_output_text="of its own")
        for _ in range(2):
            handle = await spawn(replace(spec(), model=""), ModelDriver(model=model))
            texts.append(ended(await Reader(handle).turn("x")).text)
            await handle.stop()
        return texts

    assert asyncio.run(run()) == ["of its own"] * 2


def test_a_spawn_that_is_stopped_at_once_was_ready_and_exited() -> None:
    async def run() -> None:
        handle = await spawn(spec(), ModelDriver(caller=PlayedModel([])))
        await handle.interrupt()
        await handle.stop()
        assert await Reader(handle).rest() == [BecameReady(), Exited(code=0)]

    asyncio.run(run())


@each_row(
    "options",
    [
        {"no_such": 1},
        {"tools": ["no_such"]},
        {"permissions": ["maybe read"]},
        {"write_policy": ["deny"]},
        {"stop": [{"type": "no_such"}]},
        {"retry": {"max_attempts": 0}},
        {"context_window_tokens": 0},
    ],
)
def test_an_option_that_is_wrong_is_refused(options: dict[str, Json]) -> None:
    with pytest.raises(UsageError):
        asyncio.run(spawn(replace(spec(), options=options), ModelDriver(caller=PlayedModel([]))))


def test_a_wrong_option_is_answered_with_the_options_that_there_are() -> None:
    with pytest.raises(UsageError) as refused:
        asyncio.run(spawn(replace(spec(), options={"no_such": 1}), ModelDriver(caller=PlayedModel([]))))
    assert refused.value.remedy == f"the options are {', '.join(ModelOptions.__struct_fields__)}"


@pytest.mark.parametrize("wrong", [{"argv": ("sh",)}, {"resume": "abc"}, {"cwd": "/no/such/folder"}])
def test_a_spec_that_means_something_else_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        asyncio.run(spawn(replace(spec(), **wrong), ModelDriver(caller=PlayedModel([]))))  # type: ignore[arg-type]


def test_a_history_that_is_none_is_our_own_mistake() -> None:
    async def run() -> None:
        handle = await spawn(spec(), ModelDriver(caller=PlayedModel([])))
        with pytest.raises(ContractError):
            await Reader(handle).turn("x", history=[{"type": "no_such"}])
        await handle.stop()

    asyncio.run(run())


def test_the_library_is_loaded_late_and_named_where_it_is_missing() -> None:
    script = """
import asyncio, sys
import interlock.agents.model as model
from interlock.agents.port import AgentSpec
assert not any(name.startswith(("pydantic", "openai", "anthropic")) for name in sys.modules)
sys.modules["pydantic_ai"] = None
wanted = AgentSpec(agent="m", driver="model", model="anthropic:any")
try:
    asyncio.run(model.ModelDriver().spawn(wanted, "spn_never_started"))
except Exception as refused:
    print(type(refused).__name__, refused)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=True)
    assert ran.stdout.startswith("UsageError")
    assert "pip install 'interlock[model]'" in ran.stdout
