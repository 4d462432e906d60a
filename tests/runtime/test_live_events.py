"""What is only shown has a name of its own as well, though nothing is written down under it."""

from __future__ import annotations

import asyncio

from interlock.agents.observations import TextArrived, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.codec import encode_event
from interlock.vocabulary.events import Event
from interlock.vocabulary.ids import is_valid_id
from interlock.vocabulary.presenter import TextDelta

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
