"""Real CLIs behind a runtime over a log on disk, and what the log then says of each turn.

    async with conducted(CLAUDE_STREAM, model, tmp_path) as bench:
        told = await bench.turn("SCN:turn one")
        assert (told.state, told.text) == (TurnState.COMPLETED, "One.")

Leaving the block stops the agents, sees that no process is left, and holds the log and what the model received against
each other.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.acp.driver import AcpDriver
from interlock.agents.port import AgentSpec, Driver
from interlock.agents.profiles import builtin_profiles
from interlock.agents.streams.claude.driver import ClaudeStreamDriver
from interlock.agents.streams.codex.app_server import CodexAppServerDriver
from interlock.agents.terminal.driver import TerminalDriver
from interlock.agents.tmux.server import TmuxServer
from interlock.agents.tmux.typing import TypingPolicy
from interlock.lifecycle.turns import TurnRecord, turn_states
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime.policy import RunPolicy
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.testing.scripted_model import Received, RequestKind, ScriptedModel
from interlock.vocabulary.events.audit import (
    Anomaly,
    DeliveryReceipt,
    DeliveryStage,
    ProcessEvent,
    ProcessEventKind,
    ProviderUsage,
)
from interlock.vocabulary.events.conversation import AssistantMessage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import PromptId, SessionId, TurnId
from interlock.vocabulary.states import TurnState
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from tests.agents.terminal.harness import QUICK
from tests.projections.whole_logs import approvals
from tests.real.runtime_agents import Agent

WAIT_SECONDS: Final = 120.0
REACHED: Final = [DeliveryStage.QUEUED, DeliveryStage.TYPED, DeliveryStage.ACCEPTED, DeliveryStage.STARTED]
SESSION: Final = SessionId("ses_real")
# Two busy cores draw late. A turn that is over before anybody looks is never seen to start: no long wait for that.
_TYPING: Final = TypingPolicy(typed_within_seconds=20, accepted_within_seconds=20, started_within_seconds=3)
_KEPT_VARIABLES: Final = {"PATH", "LANG", "PYTHONPATH", "INTERLOCK_HOME"}


@dataclass(frozen=True, slots=True)
class Told:
    """What the log says of one turn."""

    record: TurnRecord
    text: str
    receipts: tuple[DeliveryStage, ...]
    usage: tuple[ProviderUsage, ...]

    @property
    def state(self) -> TurnState:
        return self.record.state


@dataclass
class Bench:
    """One session of one agent, conducted by a runtime. `wait_seconds`: how long each wait for it may take."""

    agent: Agent
    runtime: Runtime
    log: SqliteLog
    model: ScriptedModel
    spec: AgentSpec
    session_id: SessionId = SESSION
    sent: list[str] = field(default_factory=list)
    wait_seconds: float = WAIT_SECONDS

    @property
    def project(self) -> Path:
        return Path(self.spec.cwd)

    async def events(self) -> tuple[Event, ...]:
        return (await self.log.read(self.session_id)).events

    async def send(self, text: str) -> PromptId:
        """Text that no other prompt of the test holds."""
        self.sent.append(text)
        return await self.runtime.send(self.session_id, text)

    async def wait(self, prompt_id: PromptId) -> Told:
        async with asyncio.timeout(self.wait_seconds):
            record = await self.runtime.wait_turn(self.session_id, prompt_id)
        told = told_of(await self.events(), record.turn_id, prompt_id)
        assert told.record == record
        return told

    async def turn(self, text: str) -> Told:
        return await self.wait(await self.send(text))

    async def asked(self) -> Approval:
        """The question that is open, as soon as one is."""
        async with asyncio.timeout(self.wait_seconds):
            while not (found := [one for one in approvals(await self.events()) if one.state is ApprovalState.OPEN]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        (one,) = found
        return one

    async def decide(self, approval: Approval, *, is_allowed: bool = True, option: str = "", text: str = "") -> None:
        answer = AnswerQuestion(
            approval_id=approval.approval_id, is_allowed=is_allowed, option=option, text=text, decided_by="the test"
        )
        await self.runtime.decide(self.session_id, answer)

    async def approval(self, approval_id: str) -> Approval:
        return next(one for one in approvals(await self.events()) if one.approval_id == approval_id)

    async def cancel(self, prompt_id: PromptId) -> Told:
        """Interrupt the open turn, and see how it ended."""
        await self.runtime.cancel(self.session_id, decided_by="the test")
        return await self.wait(prompt_id)

    async def until(self, holds: Callable[[tuple[Event, ...]], bool], what: str) -> None:
        """Wait for the log to say something."""
        try:
            async with asyncio.timeout(self.wait_seconds):
                while not holds(await self.events()):  # noqa: ASYNC110 - so that a condition may look elsewhere too
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"the log does not say {what}") from None

    async def made(self, name: str) -> None:
        """Wait until a tool has made a file: then it runs."""
        async with asyncio.timeout(self.wait_seconds):
            while not (self.project / name).exists():  # noqa: ASYNC110 - a tool rings no bell
                await asyncio.sleep(0.02)

    def set_budget(self, seconds: float | None) -> None:
        """How long the turns that follow may take."""
        conductor = self.runtime.supervisor(self.session_id).machine
        conductor.policy = replace(conductor.policy, turn_budget_seconds=seconds)

    async def process(self) -> int:
        """The process of the agent that was started last."""
        return [one.pid for one in processes(await self.events(), ProcessEventKind.SPAWNED) if one.pid is not None][-1]

    async def kill_agent(self) -> None:
        os.kill(await self.process(), signal.SIGKILL)

    async def check(self) -> None:
        """Every turn is over, nothing in the log is odd, and the model got each prompt once."""
        events = await self.events()
        turns = turn_states(events)
        assert [one for one in turns if one.findings] == []
        assert [one.state for one in turns if one.reason is None] == []
        assert [one.state for one in approvals(events) if one.state is not ApprovalState.CLOSED] == []
        assert self.model.faults == ()
        if self.agent.driver != "acp":
            assert_each_once(self.model.requests, self.sent)

    async def story(self) -> str:
        """The log in short, and what the model received: for a person who looks at a failure."""
        lines = [f"{one.seq} {one.ts:%S.%f} {str(one.turn_id)[-4:]} {one.data!r:.230}" for one in await self.events()]
        asked = [f"{one.kind} {one.script or one.purpose} {one.part}: {one.outcome}" for one in self.model.requests]
        return "\n".join([*lines[-90:], "--- the model received", *asked[-25:], *self.model.faults])


def told_of(events: tuple[Event, ...], turn_id: TurnId, prompt_id: PromptId) -> Told:
    """One turn, from the log alone."""
    (record,) = [one for one in turn_states(events) if one.turn_id == turn_id]
    of_turn = [one.data for one in events if one.turn_id == turn_id]
    spoken = [one for one in of_turn if isinstance(one, AssistantMessage) and not one.metadata.intermediate]
    receipts = [one.data for one in events if isinstance(one.data, DeliveryReceipt)]
    return Told(
        record=record,
        text="".join(one.text for one in spoken),
        receipts=tuple(one.stage for one in receipts if one.prompt_id == prompt_id),
        usage=tuple(one for one in of_turn if isinstance(one, ProviderUsage)),
    )


def processes(events: tuple[Event, ...], kind: ProcessEventKind) -> list[ProcessEvent]:
    return [one.data for one in events if isinstance(one.data, ProcessEvent) and one.data.kind is kind]


def anomalies(events: tuple[Event, ...]) -> list[str]:
    return [one.data.kind for one in events if isinstance(one.data, Anomaly)]


def assert_each_once(requests: tuple[Received, ...], prompts: list[str]) -> None:
    """No request holds a prompt twice, and each prompt is in one."""
    bodies = [one.body.decode() for one in requests if one.kind is RequestKind.MAIN]
    counts = {prompt: max(body.count(prompt) for body in bodies) for prompt in prompts}
    assert counts == dict.fromkeys(prompts, 1)


def is_delivered(receipts: tuple[DeliveryStage, ...]) -> bool:
    """Whether a prompt went its whole way, in order. Not each agent shows each step."""
    places = [REACHED.index(stage) for stage in receipts]
    return places == sorted(set(places)) and receipts[0] is REACHED[0] and receipts[-1] is REACHED[-1]


def left_of(root: Path) -> list[str]:
    """The living processes whose home is below this folder, also those that were given to another parent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            state = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"HOME={root}".encode() in environment and state != "Z" and int(folder.name) != os.getpid():
            found.append(f"{folder.name} {command[:200]!r}")
    return found


@contextmanager
def bare_environment() -> Iterator[None]:
    """Ours without the person's keys and settings: drivers hand on what there is."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - _KEPT_VARIABLES:
            patch.delenv(name)
        yield


def drivers_in(folder: Path) -> list[Driver]:
    """Every driver, with a tmux server of its own."""
    server = TmuxServer.own(f"{folder}/tmux")
    policy = replace(QUICK, typing=_TYPING)
    terminal = TerminalDriver(run_folder=folder / "run", server=server, policy=policy, profiles=builtin_profiles())
    return [ClaudeStreamDriver(), CodexAppServerDriver(), AcpDriver(), terminal]


@asynccontextmanager
async def own_folder() -> AsyncIterator[Path]:
    """A short path for sockets. The tmux server in it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="il-"))
    try:
        yield folder
    finally:
        await TmuxServer.own(f"{folder}/tmux").kill()
        shutil.rmtree(folder)


@asynccontextmanager
async def conducted(
    agent: Agent, model: ScriptedModel, root: Path, *, folder: Path | None = None, spec: AgentSpec | None = None
) -> AsyncIterator[Bench]:
    """A runtime with one session. With a folder and a spec it is the second one over a log that is there already."""
    if folder is None:
        async with own_folder() as made:
            spec = agent.spec(model, root)
            async with _running(agent, model, root, made, spec) as bench:
                await bench.runtime.open_session(spec, session_id=SESSION)
                yield bench
    else:
        assert spec is not None
        async with _running(agent, model, root, folder, spec) as bench:
            yield bench


@asynccontextmanager
async def _running(
    agent: Agent, model: ScriptedModel, root: Path, folder: Path, spec: AgentSpec
) -> AsyncIterator[Bench]:
    async with await SqliteLog.open(root / "log") as log:
        runtime = Runtime(log, drivers_in(folder), policy=RunPolicy(), specs=lambda *_: spec)
        bench = Bench(agent, runtime, log, model, spec)
        with bare_environment():
            try:
                await runtime.__aenter__()
                yield bench
                await bench.until(lambda _: runtime.supervisor(SESSION).machine.open_turn is None, "the end")
            except BaseException as error:
                error.add_note(await bench.story())
                raise
            finally:
                await runtime.shutdown(stop_agents=True)
        assert left_of(root) == []
        await bench.check()
