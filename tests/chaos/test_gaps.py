"""Deaths in the narrow gaps that chance would hardly find, one each."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.observations import TurnEnded, TurnEnding
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage
from tests.chaos.host import STREAM, TERMINAL
from tests.chaos.living import wait_until
from tests.chaos.rounds import finish
from tests.chaos.test_one_agent import SPEC
from tests.chaos.verdict import judge
from tests.chaos.world import World, kill_agent
from tests.contract.harness import run
from tests.runtime.conducting import soon

FIRST_OF = {STREAM: "ses_0", TERMINAL: "ses_1"}


def die_at(home: Path, point: str, script: str, driver: str = STREAM, *, kills_agent: bool = False) -> World:
    """A runtime that kills itself at a point while it runs a prompt, and what is found when the next one is done."""
    with World(home, 0, stream_sessions=1, has_terminal=driver == TERMINAL) as world:
        assert world.open_host() is not None
        world.open_sessions()
        world.kill_host()
        host = world.open_host(point)
        assert host is not None
        world.send(FIRST_OF[driver], script, "done")
        if kills_agent:
            world.gates.await_reached("ready")
            assert kill_agent(world)
        assert wait_until(lambda: not host.is_alive, 20), f"nothing came to {point}"
        world.kill_host()
        finish(world)
        problems = judge(world)
        assert not problems, "\n".join(problems)
        return world


@pytest.mark.deep
def test_after_the_end_of_an_agent_is_written_and_before_its_daemons_are_found(tmp_path: Path) -> None:
    die_at(tmp_path / "home", "exited.written", "spawn daemon stubborn; gate ready; say done", kills_agent=True)


@pytest.mark.deep
@pytest.mark.parametrize("driver", [STREAM, TERMINAL])
def test_after_an_agent_is_started_and_before_that_is_written(tmp_path: Path, driver: str) -> None:
    die_at(tmp_path / "home", "spawn.after", "say done", driver)


@pytest.mark.deep
@pytest.mark.parametrize("point", ["user_message.written", "submit.before", "submit.after"])
@pytest.mark.parametrize("driver", [STREAM, TERMINAL])
def test_around_the_moment_in_which_a_prompt_is_given(tmp_path: Path, point: str, driver: str) -> None:
    world = die_at(tmp_path / "home", point, "say done", driver)
    assert len(world.sent) == 1


def test_no_prompt_is_given_to_an_agent_whose_output_has_ended(tmp_path: Path) -> None:
    with World(tmp_path / "home", 0, stream_sessions=1, has_terminal=False) as world:
        assert world.open_host() is not None
        world.open_sessions()
        world.send("ses_0", "say half; cut 3")
        world.send("ses_0", "say done", "done")
        finish(world)
        problems = judge(world)
        assert not problems, "\n".join(problems)
        assert len(world.received()) == 2


def test_silence_does_not_prove_that_a_prompt_has_arrived() -> None:
    async def story() -> None:
        driver, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [driver]) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "one")
            await soon(lambda: bool(driver.puppets) and bool(driver.latest.prompts))
            driver.latest.say(TurnEnded(ending=TurnEnding.SILENT))
            await runtime.wait_turn(session_id, prompt_id)
        events = (await log.read(session_id)).events
        stages = [event.data.stage for event in events if isinstance(event.data, DeliveryReceipt)]
        assert stages[-1] is DeliveryStage.UNKNOWN

    run(story())
