"""A runtime that starts over a damaged log: it closes no turn of which events are lost, and goes on with the next."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from interlock.agents.port import Capabilities
from interlock.lifecycle.turns import LOG_DAMAGED, fold_turns
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.runtime import Runtime
from interlock.testing.puppet import PuppetDriver
from interlock.vocabulary.events.audit import Anomaly, RunState, TurnFailed, TurnStarted
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Payload
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.run import RunStatus
from interlock.vocabulary.states import DriverKind, TurnState
from tests.contract.harness import run
from tests.log.edits import sql
from tests.runtime.conducting import soon
from tests.runtime.test_runtime import SPEC, die, done, first_prompt

TERMINAL: Final = Capabilities(reports_approvals=True, owns_text=False, outlives_runtime=True)


async def left_open(home: Path, driver: PuppetDriver) -> tuple[SessionId, PromptId, list[Event]]:
    """A session whose runtime died in the middle of its first turn."""
    async with await SqliteLog.open(home) as log:
        first = Runtime(log, [driver])
        await first.__aenter__()
        session_id = await first.open_session(SPEC)
        prompt_id = await first.send(session_id, "one")
        await soon(first_prompt(driver))
        await die(first)
        return session_id, prompt_id, list((await log.read(session_id)).events)


def lose(home: Path, events: list[Event], payload: type[Payload]) -> int:
    """Destroy the row of the first event that carries such a payload, and return its number."""
    lost = next(event for event in events if isinstance(event.data, payload))
    sql(home, f"DELETE FROM events WHERE session_id = '{lost.session_id}' AND seq = {lost.seq}")
    assert lost.seq is not None
    return lost.seq


async def read(log: SqliteLog, session_id: SessionId) -> tuple[list[Event], list[TurnState]]:
    found = await log.read(session_id)
    return list(found.events), [facts.state for facts in fold_turns(found.events).turns.values()]


@pytest.mark.parametrize("lost", [TurnStarted, RunState])
def test_recovery_writes_no_end_over_a_turn_of_which_events_are_lost(tmp_path: Path, lost: type[Payload]) -> None:
    async def story() -> None:
        session_id, _, events = await left_open(tmp_path / "home", PuppetDriver())
        seq = lose(tmp_path / "home", events, lost)
        for start in range(2):
            async with await SqliteLog.open(tmp_path / "home") as log:
                async with Runtime(log, [PuppetDriver()]) as runtime:
                    told = [one for one in runtime.recovered if one.session_id == session_id]
                    assert [one.settled_turn for one in told] == [None] * len(told)
                    assert any(f"event {seq}" in one.problem for one in told) == (start == 0)
                known, states = await read(log, session_id)
                ends = [e for e in known if isinstance(e.data, TurnFailed)]
                runs = [e for e in known if isinstance(e.data, RunState) and e.data.status is RunStatus.DONE]
                noted = [e for e in known if isinstance(e.data, Anomaly) and e.data.kind == LOG_DAMAGED]
                assert (states, ends, runs, len(noted)) == ([TurnState.UNKNOWN], [], [], 1)

    run(story())


def test_the_session_goes_on_with_the_next_prompt(tmp_path: Path) -> None:
    async def story() -> None:
        session_id, _, events = await left_open(tmp_path / "home", PuppetDriver())
        lose(tmp_path / "home", events, TurnStarted)
        async with await SqliteLog.open(tmp_path / "home") as log:
            driver = PuppetDriver()
            async with Runtime(log, [driver]) as runtime:
                prompt_id = await runtime.send(session_id, "two")
                (await soon(first_prompt(driver))).say(done())
                assert (await runtime.wait_turn(session_id, prompt_id)).state is TurnState.COMPLETED
            assert (await read(log, session_id))[1] == [TurnState.UNKNOWN, TurnState.COMPLETED]

    run(story())


def test_whoever_waits_for_such_a_turn_is_told_that_it_is_unknown(tmp_path: Path) -> None:
    async def story() -> None:
        session_id, prompt_id, events = await left_open(tmp_path / "home", PuppetDriver())
        lose(tmp_path / "home", events, TurnStarted)
        async with await SqliteLog.open(tmp_path / "home") as log, Runtime(log, [PuppetDriver()]) as runtime:
            ended = await runtime.wait_turn(session_id, prompt_id)
            assert (ended.state, ended.error_kind) == (TurnState.UNKNOWN, LOG_DAMAGED)

    run(story())


def test_an_agent_that_lives_is_adopted_and_its_turn_stays_unknown(tmp_path: Path) -> None:
    async def story() -> None:
        driver = PuppetDriver(TERMINAL, kind=DriverKind.TERMINAL)
        session_id, prompt_id, events = await left_open(tmp_path / "home", driver)
        lose(tmp_path / "home", events, TurnStarted)
        async with await SqliteLog.open(tmp_path / "home") as log:
            async with Runtime(log, [driver]) as runtime:
                assert runtime.recovered[0].adopted == driver.latest.spawn_id
                driver.latest.say(done("by transcript"))
                assert (await runtime.wait_turn(session_id, prompt_id)).state is TurnState.UNKNOWN
            known, states = await read(log, session_id)
            assert states == [TurnState.UNKNOWN]
            runs = [event.data.status for event in known if isinstance(event.data, RunState)]
            assert runs[-1] is RunStatus.DONE, "what its agent did is recorded"

    run(story())
