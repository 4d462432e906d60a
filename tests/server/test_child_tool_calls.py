"""The calls of the tools about children, before and after the server has named who carries them out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.agents.model.driver import ModelOptions
from interlock.log.memory import MemoryLog
from interlock.runtime.children.owner import ChildOwner
from interlock.runtime.runtime import Runtime
from interlock.server.commands.child_tool_calls import ChildToolCalls, narrowed
from interlock.server.commands.children import ChildCommands
from interlock.server.commands.workflows import WorkflowCommands
from interlock.server.live.hub import Hub
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.ids import SpawnId


def test_a_call_that_comes_before_the_server_has_started_waits_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        calls = ChildToolCalls(agents=lambda name, _: pytest.fail(name), home=tmp_path)
        asking = asyncio.create_task(calls.list_agents(SpawnId("spn_1")))
        await asyncio.sleep(0)
        assert not asking.done()
        log = MemoryLog()
        async with Runtime(log, []) as runtime:
            hub, settings, owner = Hub(runtime, log), ServerSettings(), ChildOwner(runtime, log)
            children = ChildCommands(runtime, hub, settings, owner)
            calls.bind(runtime, hub, owner, children, WorkflowCommands(runtime, hub, settings, owner, log))
            with pytest.raises(UsageError, match="no session runs this agent now"):
                await asking

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_is_below_an_agent_may_do_no_more_than_it_may() -> None:
    above = ModelOptions(
        children=("a", "b"),
        plans=("p",),
        permissions=("allow read",),
        permissions_above=(("deny shell",),),
        write_policy=("deny *.env", "allow src/*"),
    )
    below = ModelOptions(children=("b", "c"), plans=("q", "p"), write_policy=("ask docs/*",))
    assert narrowed(below, above) == {
        "children": ["b"],
        "plans": ["p"],
        "permissions_above": [["allow read"], ["deny shell"]],
        "write_policy": ["ask docs/*", "deny *.env"],
    }
