"""A runtime that is killed in mid-turn with a real agent at work, and what the next runtime makes of it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from interlock.log.sqlite.store import SqliteLog
from interlock.testing.scripted_model import Gate, RequestKind, RequestOutcome, ScriptedModel, Shell, Step, Text
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DeliveryReceipt, DeliveryStage, ProcessEventKind, StreamCheckpoint
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import PromptId
from interlock.vocabulary.states import ExitReason, TurnState
from tests.contract.harness import run
from tests.projections.whole_logs import approvals
from tests.real.runtime_agents import (
    CLAUDE_STREAM,
    CLAUDE_TERMINAL,
    CODEX_STREAM,
    CODEX_TERMINAL,
    Agent,
)
from tests.real.runtime_harness import SESSION, WAIT_SECONDS, Bench, conducted, is_delivered, own_folder, processes
from tests.real.runtime_host import Orders, hosted

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

LIMIT_SECONDS: Final = 150.0
PROMPT: Final = PromptId("prm_before")
SCRIPTS: Final[dict[str, tuple[Step, ...]]] = {
    # Slow enough for a checkpoint, which is written at most once a second.
    "held": (Text("One. ", "Two", pace_seconds=1.2), Gate("held"), Text(" three.")),
    "tool": (Shell("touch made.txt"), Text("It ran.")),
    "short": (Text("Short."),),
}
STREAMS: Final = (CLAUDE_STREAM, CODEX_STREAM)
TERMINALS: Final = (CLAUDE_TERMINAL, CODEX_TERMINAL)
Holds = Callable[[tuple[Event, ...]], bool]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCRIPTS) as model:
        yield model


async def until(root: Path, holds: Holds, what: str) -> None:
    """Wait for the log of a runtime in another process to say something."""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not await _holds(root, holds):  # noqa: ASYNC110 - another process rings no bell
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"the log does not say {what}") from None


async def _holds(root: Path, holds: Holds) -> bool:
    async with await SqliteLog.open(root / "log", readonly=True) as log:
        return holds((await log.read(SESSION)).events)


def has_started(events: tuple[Event, ...]) -> bool:
    return any(isinstance(one.data, DeliveryReceipt) and one.data.stage is DeliveryStage.STARTED for one in events)


def has_kept_text(events: tuple[Event, ...]) -> bool:
    return any(isinstance(one.data, StreamCheckpoint) and one.data.text == "One. Two" for one in events)


def is_asked(events: tuple[Event, ...]) -> bool:
    return bool(approvals(events))


Meanwhile = Callable[[], None]


@asynccontextmanager
async def after_a_kill(
    agent: Agent, model: ScriptedModel, root: Path, text: str, holds: Holds, meanwhile: Meanwhile = lambda: None
) -> AsyncIterator[Bench]:
    """A runtime sends a prompt and is killed once its log holds something; `meanwhile` nobody watches; then another."""
    spec = agent.spec(model, root)
    async with own_folder() as folder:
        async with hosted(Orders(spec, str(root), str(folder), PROMPT, text)) as host:
            await until(root, holds, holds.__name__)
            host.send_signal(signal.SIGKILL)
            await host.wait()
        await asyncio.to_thread(meanwhile)
        async with conducted(agent, model, root, folder=folder, spec=spec) as bench:
            bench.sent.append(text)
            yield bench


async def goes_on(bench: Bench) -> None:
    """In the agent's own session, which remembers what was before."""
    told = await bench.turn("SCN:short later")
    assert (told.state, told.text) == (TurnState.COMPLETED, "Short.")
    assert is_delivered(told.receipts)
    main = [one for one in bench.model.requests if one.kind is RequestKind.MAIN]
    assert bench.sent[0] in main[-1].body.decode()
    assert [one.prompt for one in main if one.part == 0 and one.attempt == 0] == bench.sent


async def decide_once_heard(bench: Bench, *, is_allowed: bool = True) -> None:
    """An answer is refused until the agent was heard to ask. Then it is the record that the first runtime made, unless
    the screen reads otherwise now: then that one is withdrawn, and another takes its place."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                return await bench.decide(await bench.asked(), is_allowed=is_allowed)
            except UsageError:
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("agent", STREAMS, ids=[one.name for one in STREAMS])
def test_a_stream_ends_with_its_runtime_and_its_turn_is_settled(
    agent: Agent, model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        async with after_a_kill(agent, model, tmp_path, "SCN:held first", has_kept_text) as bench:
            (recovered,) = bench.runtime.recovered
            assert (recovered.adopted, recovered.settled_as) == (None, TurnState.PARTIAL_FAILED)
            told = await bench.wait(PROMPT)
            assert (told.state, told.text, told.record.error_kind) == (
                TurnState.PARTIAL_FAILED,
                "One. Two",
                "abandoned",
            )
            assert is_delivered(told.receipts)
            (exited,) = processes(await bench.events(), ProcessEventKind.EXITED)
            assert exited.exit_reason is ExitReason.UNCLEAN
            await goes_on(bench)

    run(story(), LIMIT_SECONDS)


@pytest.mark.parametrize("is_watched", [True, False], ids=["open", "over"])
@pytest.mark.parametrize("agent", TERMINALS, ids=[one.name for one in TERMINALS])
def test_a_terminal_is_taken_up_again_and_its_turn_ends_as_what_it_was(
    agent: Agent, model: ScriptedModel, tmp_path: Path, *, is_watched: bool
) -> None:
    def end() -> None:
        model.wait_reached("held")
        model.release("held")
        model.wait_requests(lambda asked: any(one.script and one.outcome is RequestOutcome.ANSWERED for one in asked))

    async def story() -> None:
        meanwhile: Meanwhile = (lambda: model.wait_reached("held")) if is_watched else end
        async with after_a_kill(agent, model, tmp_path, "SCN:held first", has_started, meanwhile) as bench:
            (recovered,) = bench.runtime.recovered
            assert (recovered.settled_as, recovered.ended_spawn, recovered.is_delivery_unknown) == (None, None, False)
            assert recovered.adopted is not None
            model.release("held")
            told = await bench.wait(PROMPT)
            assert (told.state, told.text) == (TurnState.COMPLETED, "One. Two three.")
            assert is_delivered(told.receipts)
            await goes_on(bench)
            kinds = [
                processes(await bench.events(), kind) for kind in (ProcessEventKind.SPAWNED, ProcessEventKind.ADOPTED)
            ]
            assert [len(one) for one in kinds] == [1, 1]

    run(story(), LIMIT_SECONDS)


@pytest.mark.parametrize("agent", TERMINALS, ids=[one.name for one in TERMINALS])
def test_a_dialog_that_outlived_its_runtime_is_answered_through_the_next(
    agent: Agent, model: ScriptedModel, tmp_path: Path
) -> None:
    async def story() -> None:
        async with after_a_kill(agent, model, tmp_path, "SCN:tool first", is_asked) as bench:
            await decide_once_heard(bench)
            told = await bench.wait(PROMPT)
            assert (told.state, told.text) == (TurnState.COMPLETED, "It ran.")
            assert (bench.project / "made.txt").exists()
            await goes_on(bench)

    run(story(), LIMIT_SECONDS)
