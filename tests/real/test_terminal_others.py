"""Gemini CLI, Qwen Code and opencode in a terminal, through the runtime: one story of acts for all three.

A start costs more than an act, so that one session sees most of them. That each prompt reached the model once, that
each turn is over and that no process is left is held against the log when the block is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.terminal.launch import Where, read_where
from interlock.testing.scripted_model import (
    Error,
    Gate,
    Hang,
    Received,
    RequestOutcome,
    ScriptedModel,
    Shell,
    Step,
    Text,
    Think,
)
from interlock.vocabulary.events.audit import DeliveryReceipt, ProcessEventKind, SurfaceEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.states import Activity, TurnState
from tests.contract.harness import run
from tests.real.runtime_agents import GEMINI_TERMINAL, OPENCODE_TERMINAL, QWEN_TERMINAL, Agent
from tests.real.runtime_harness import Bench, anomalies, conducted, is_delivered, processes
from tests.real.test_runtime_recovery import PROMPT, after_a_kill, decide_once_heard, has_started
from tests.real.test_terminal_stalls import set_patience

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

LIMIT_SECONDS: Final = 840.0
START_SECONDS: Final = 300.0  # opencode on a machine with ten times the work that it can do
STALL_SECONDS: Final = 8.0
# Right after an interrupt Qwen Code was seen to swallow the first key.
DRAFT: Final = "half a thought"
DRAWN: Final = "a thought"
AGENTS: Final = (GEMINI_TERMINAL, QWEN_TERMINAL, OPENCODE_TERMINAL)
SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {
    # Qwen Code shows an answer like this one in its composer, as what one might type next. It is no draft.
    "short": (Text("run the tests again"),),
    "think": (Think("Let me see."), Gate("thinking"), Text("Never said.")),
    "stream": (Text("One.\n\n", "Two"), Gate("streaming"), Text("Never said.")),
    # A script: Gemini CLI and Qwen Code refuse command substitution, and opencode asks per word of a loop.
    "tool": (Shell("touch made.txt; sh held.sh"), Text("Never said.")),
    "allow": (Shell("touch allowed.txt"), Text("It ran.")),
    "deny": (Shell("touch denied.txt"), Text("Very well.")),
    "error": (Error(401, "out of order"),),
    "hang": (Text("And now"), Hang()),
    "last": (Text("One.\n\n"), Gate("last"), Text("Never said.")),
    "held": (Text("One.\n\n"), Gate("held"), Text("Two.")),
}
HELD: Final = "i=0; while [ $i -lt 900 ] && [ ! -e go ]; do sleep 0.1; i=$((i + 1)); done\n"
each: Final = pytest.mark.parametrize("agent", AGENTS, ids=[one.name for one in AGENTS])


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPTS) as model:
        yield model


@each
def test_prompts_answers_interrupts_drafts_errors_and_a_kill_come_out_as_they_were(
    agent: Agent, model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        async with conducted(agent, model, tmp_path) as bench:
            bench.wait_seconds = START_SECONDS
            (bench.project / "held.sh").write_text(HELD, encoding="utf-8")
            await bench.runtime.start(bench.session_id)  # its start alone takes long on a busy machine
            await bench.until(is_quiet, "that it is ready")
            await ten_prompts_in_a_row(bench)
            await approve_and_deny(bench)
            for script, gate in (("think", "thinking"), ("stream", "streaming")):
                sent = await bench.send(f"SCN:{script} once.")
                await model.reached(gate, within_seconds=START_SECONDS)
                await interrupt(bench, sent)
            await interrupt_a_tool(bench)
            await wait_for_a_draft(bench)
            await fail(bench)
            await stall(bench)
            events = await bench.events()
            assert len(processes(events, ProcessEventKind.SPAWNED)) == 1
            assert processes(events, ProcessEventKind.STOP_REQUESTED) == []
            await lose_the_agent(bench)

    run(story(), LIMIT_SECONDS)


@each
def test_a_turn_that_outlives_its_runtime_is_followed_to_its_end_by_the_next(
    agent: Agent, model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        reached = lambda: model.wait_reached("held", within_seconds=START_SECONDS)  # noqa: E731
        async with after_a_kill(agent, model, tmp_path, "SCN:held first", has_started, reached) as bench:
            bench.wait_seconds = START_SECONDS
            (recovered,) = bench.runtime.recovered
            assert (recovered.settled_as, recovered.ended_spawn, recovered.is_delivery_unknown) == (None, None, False)
            assert recovered.adopted is not None
            model.release("held")
            assert (await bench.wait(PROMPT)).state is TurnState.COMPLETED
            await say_short(bench, "later.")
            kinds = (ProcessEventKind.SPAWNED, ProcessEventKind.ADOPTED)
            assert [len(processes(await bench.events(), kind)) for kind in kinds] == [1, 1]

    run(story(), LIMIT_SECONDS)


def is_quiet(events: tuple[Event, ...]) -> bool:
    return any(isinstance(one.data, SurfaceEvent) and one.data.activity is Activity.QUIET for one in events)


async def say_short(bench: Bench, text: str) -> None:
    """One more turn, as a check that the agent goes on."""
    told = await bench.turn(f"SCN:short {text}")
    assert (told.state, told.record.error_message) == (TurnState.COMPLETED, "")
    assert is_delivered(told.receipts)


async def ten_prompts_in_a_row(bench: Bench) -> None:
    """They are queued at once: each is typed as soon as the turn before it is over."""
    sent = [await bench.send(f"SCN:short prompt number {number}.") for number in range(10)]
    for prompt_id in sent:
        told = await bench.wait(prompt_id)
        assert (told.state, told.record.error_message) == (TurnState.COMPLETED, "")
        assert is_delivered(told.receipts)


async def approve_and_deny(bench: Bench) -> None:
    sent = await bench.send("SCN:allow once.")
    await read_question(bench, "touch allowed.txt")
    assert not (bench.project / "allowed.txt").exists()
    await decide_once_heard(bench)
    assert (await bench.wait(sent)).state is TurnState.COMPLETED
    assert (bench.project / "allowed.txt").exists()
    sent = await bench.send("SCN:deny once.")
    await read_question(bench, "touch denied.txt")
    await decide_once_heard(bench, is_allowed=False)
    assert (await bench.wait(sent)).state in (bench.agent.denied, TurnState.COMPLETED)
    assert not (bench.project / "denied.txt").exists()


async def read_question(bench: Bench, command: str) -> None:
    """Wait until a question shows its command. opencode draws its frame first, and that is a question of its own."""
    async with asyncio.timeout(bench.wait_seconds):
        while command not in (await bench.asked()).question:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def interrupt(bench: Bench, sent: PromptId) -> None:
    """The turn is interrupted, and the CLI hangs up on the model."""
    assert (await bench.cancel(sent)).state is TurnState.INTERRUPTED
    await asyncio.to_thread(bench.model.wait_requests, is_dropped)


def is_dropped(requests: tuple[Received, ...]) -> bool:
    """Whether the CLI hung up on the last prompt's request. Qwen Code asks for a suggestion between the prompts."""
    return [one for one in requests if one.script][-1].outcome is RequestOutcome.DROPPED


async def interrupt_a_tool(bench: Bench) -> None:
    sent = await bench.send("SCN:tool once.")
    await decide_once_heard(bench)
    await bench.made("made.txt")
    assert (await bench.cancel(sent)).state is TurnState.INTERRUPTED
    (bench.project / "go").touch()


async def wait_for_a_draft(bench: Bench) -> None:
    """A prompt waits while a person's draft stands in the composer, and goes by itself once that is gone."""
    where = await pane_of(bench)
    await where.server.run(["send-keys", "-t", where.pane_id, "-l", DRAFT])
    async with asyncio.timeout(bench.wait_seconds):
        while DRAWN not in await where.server.run(["capture-pane", "-p", "-t", where.pane_id]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    before = len(bench.model.requests)
    sent = await bench.send("SCN:short behind a draft.")
    await bench.until(is_kept_out, "that the prompt waits for the draft")
    await where.server.run(["send-keys", "-t", where.pane_id, *["BSpace"] * len(DRAFT)])
    assert (await bench.wait(sent)).state is TurnState.COMPLETED
    assert DRAWN not in str([one.body for one in bench.model.requests[before:]])


def is_kept_out(events: tuple[Event, ...]) -> bool:
    return any(isinstance(one.data, DeliveryReceipt) and one.data.waits_for for one in events)


async def pane_of(bench: Bench) -> Where:
    spawned = processes(await bench.events(), ProcessEventKind.SPAWNED)
    return read_where(spawned[-1].where)


async def fail(bench: Bench) -> None:
    told = await bench.turn("SCN:error please.")
    assert told.state is TurnState.FAILED
    assert is_delivered(told.receipts)
    await say_short(bench, "after an error.")


async def stall(bench: Bench) -> None:
    """A hung stream is said to be stalled, and can be interrupted."""
    set_patience(bench, STALL_SECONDS)
    sent = await bench.send("SCN:hang please.")
    await asyncio.to_thread(bench.model.wait_requests, is_hung, within_seconds=START_SECONDS)
    await bench.until(lambda events: "stalled_entered" in anomalies(events), "a stall")
    await interrupt(bench, sent)
    set_patience(bench, START_SECONDS)
    await say_short(bench, "after a stall.")


def is_hung(requests: tuple[Received, ...]) -> bool:
    return any(one.script == "hang" for one in requests)


async def lose_the_agent(bench: Bench) -> None:
    """Its turn fails, and the next prompt starts it again."""
    sent = await bench.send("SCN:last please.")
    await bench.model.reached("last", within_seconds=START_SECONDS)
    await bench.kill_agent()
    assert (await bench.wait(sent)).state is TurnState.FAILED
    await say_short(bench, "after a kill.")
    events = await bench.events()
    assert len(processes(events, ProcessEventKind.SPAWNED)) == 2
    assert len(processes(events, ProcessEventKind.EXITED)) == 1
