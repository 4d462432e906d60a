"""What is only shown has a name of its own as well, though nothing is written down under it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from interlock.agents.observations import TextArrived, ToolCalled, ToolReturned, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.codec import encode_event
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import Status, TextDelta
from interlock.vocabulary.ids import SessionId, is_valid_id
from interlock.vocabulary.states import Activity

PIECES = 50


def test_each_event_that_is_shown_has_an_id_that_no_other_has() -> None:
    async def story() -> list[Event]:
        driver, shown = PuppetDriver(), list[Event]()
        async with Runtime(MemoryLog(), [driver]) as runtime, runtime.watch() as watcher, asyncio.timeout(100):
            spec = AgentSpec(agent="puppet", driver="puppet")
            for session_id in [await runtime.open_session(spec) for _ in range(2)]:
                await runtime.send(session_id, "hello")
            spoken: set[int] = set()
            async for event in watcher:
                shown.append(event)
                for puppet in driver.puppets:
                    if puppet.prompts and id(puppet) not in spoken:
                        spoken.add(id(puppet))
                        ended = TurnEnded(ending=TurnEnding.NATURAL, text="x" * PIECES)
                        puppet.say(*[TextArrived(text="x")] * PIECES, ended)
                if sum(isinstance(one.data, TextDelta) for one in shown) == 2 * PIECES:
                    return shown
        return shown

    shown = asyncio.run(story())
    assert len({event.id for event in shown}) == len(shown)
    assert all(is_valid_id(event.id) and encode_event(event) for event in shown)


def test_what_comes_at_once_is_written_once_and_shown_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[list[str]] = []
    append = MemoryLog.append

    async def counted(
        self: MemoryLog, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        written.append([event.type for event in events])
        return await append(self, session_id, events, expected_version=expected_version)

    monkeypatch.setattr(MemoryLog, "append", counted)

    async def story() -> list[str]:
        driver, shown, said = PuppetDriver(), list[str](), False
        async with Runtime(MemoryLog(), [driver]) as runtime, runtime.watch() as watcher, asyncio.timeout(100):
            session_id = await runtime.open_session(AgentSpec(agent="puppet", driver="puppet"))
            await runtime.send(session_id, "hello")
            async for event in watcher:
                if driver.puppets and driver.puppets[0].prompts and not said:
                    said = True
                    driver.puppets[0].say(
                        ToolCalled(call_id="call_1", name="Bash"),
                        ToolReturned(call_id="call_1", output="done"),
                        TurnEnded(ending=TurnEnding.NATURAL, text="Done."),
                    )
                shown.append(event.type)
                if isinstance(event.data, Status) and event.data.activity is Activity.QUIET and "tool_call" in shown:
                    return shown[shown.index("tool_call") :]
        return shown

    shown = asyncio.run(story())
    with_tool = [batch for batch in written if "tool_call" in batch]
    assert len(with_tool) == 1
    assert {"tool_call", "tool_result", "assistant_message", "run_state"} <= set(with_tool[0])
    assert [one for one in shown if one != "status"] == with_tool[0][with_tool[0].index("tool_call") :]
    assert shown.index("tool_call") < shown.index("status") < shown.index("tool_result"), "the tool was shown to run"
