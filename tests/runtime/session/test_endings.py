"""What is recorded of an end says what is known, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.agents.observations import Exited, TurnEnded, TurnEnding
from interlock.agents.port import AgentSpec
from interlock.log.memory import MemoryLog
from interlock.projections.checks.diagnose import diagnose
from interlock.runtime.policy import RunPolicy
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.events.audit import TurnFailed
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from tests.contract.harness import run

SPEC = AgentSpec(agent="puppet", driver="puppet")


def ended_by(end: Callable[[Puppet], None], policy: RunPolicy | None = None) -> tuple[TurnFailed, str, list[Event]]:
    """The failure record of one turn, the words of its turn record, and the whole log."""

    async def story() -> tuple[TurnFailed, str, list[Event]]:
        puppets, log = PuppetDriver(), MemoryLog()
        async with Runtime(log, [puppets], policy=policy) as runtime:
            session_id = await runtime.open_session(SPEC)
            prompt_id = await runtime.send(session_id, "go")
            await runtime.until(session_id, lambda _: True if puppets.puppets and puppets.latest.prompts else None)
            end(puppets.latest)
            record = await runtime.wait_turn(session_id, prompt_id)
            events = list((await log.read(session_id)).events)
        (failed,) = [event.data for event in events if isinstance(event.data, TurnFailed)]
        return failed, record.error_message, events

    return run(story())


def timed(details: Json = None, message: str = "") -> Callable[[Puppet], None]:
    stopped = TurnEnded(ending=TurnEnding.STOPPED, stop_code="timeout", error_message=message, details=details)
    return lambda puppet: puppet.say(stopped)


def test_of_a_turn_that_its_agent_ended_for_time_no_budget_is_made_up() -> None:
    failed, said, events = ended_by(timed())
    assert isinstance(failed.details, dict)
    assert "budget_seconds" not in failed.details
    assert failed.details["timed_by"] == "agent"
    assert failed.details["elapsed_seconds"] is not None
    assert failed.error_message == "the agent ended its turn for time"
    assert said.startswith("the agent ended its turn for time; it took ")
    issues = [issue for check in diagnose(events, owner_alive=False).checks for issue in check.issues]
    assert [issue.kind for issue in issues] == ["turn_failed"], "the record lacks nothing"


def test_a_budget_that_the_agent_tells_is_its_budget() -> None:
    failed, said, _ = ended_by(timed({"budget_seconds": 90}, "90 seconds are over"))
    assert isinstance(failed.details, dict)
    assert (failed.details["budget_seconds"], failed.error_message) == (90, "90 seconds are over")
    assert said.startswith("90 seconds are over (no end within its budget of 90 s; it took ")


def test_our_own_budget_is_the_one_that_was_set() -> None:
    failed, said, _ = ended_by(lambda _: None, RunPolicy(turn_budget_seconds=0.2))
    assert isinstance(failed.details, dict)
    assert (failed.details["budget_seconds"], failed.error_message) == (0.2, "no end within its time budget")
    assert said.startswith("no end within its budget of 0.2 s; it took ")


def test_an_interrupted_turn_says_so_in_a_sentence() -> None:
    failed, said, _ = ended_by(lambda puppet: puppet.say(TurnEnded(ending=TurnEnding.INTERRUPTED)))
    assert (failed.error_message, said) == ("stopped before it ended", "stopped before it ended")


@pytest.mark.parametrize(
    ("exited", "how"),
    [
        (Exited(signal=11), "the agent's process crashed: signal 11"),
        (Exited(code=3), "the agent's process crashed: exit code 3"),
        (Exited(code=0), "the agent's process exited in the middle of a turn: exit code 0"),
        (Exited(), "the agent's process is gone, and how it ended is not known"),
    ],
)
def test_the_death_of_an_agent_is_recorded_with_how_it_died(exited: Exited, how: str) -> None:
    failed, said, _ = ended_by(lambda puppet: puppet.say(exited))
    assert (failed.error_kind, failed.error_message, said) == ("process_died", how, how)
