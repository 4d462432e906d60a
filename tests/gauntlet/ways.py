"""Three ways in which the runtime runs an agent, each with one that does as it is told: JSON stream, terminal, model.

What an agent is told to do has the same name in every way, so that a story is told once.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from interlock.agents.model import ModelDriver
from interlock.agents.port import AgentSpec, Driver
from interlock.agents.processes.stopping import StopPolicy
from interlock.agents.profiles import builtin_profiles
from interlock.agents.streams.claude.driver import ClaudeStreamDriver
from interlock.agents.terminal.driver import TerminalDriver
from interlock.agents.terminal.handle import TerminalPolicy
from interlock.agents.tmux.server import TmuxServer
from interlock.log.memory import MemoryLog
from interlock.monitor.policy import MonitorPolicies, MonitorPolicy
from interlock.runtime.children.subagents import Subagents
from interlock.runtime.children.workflows import Workflows
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.runtime import Runtime, wall_clock
from interlock.runtime.session.router import SessionMachine
from interlock.testing.scripted_agent import command, write_program
from interlock.testing.scripted_model import Error, Hang, ScriptedModel, Step, Text
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.states import TurnState

T = TypeVar("T")
STOPS_QUICKLY: Final = StopPolicy(interrupt_seconds=1, terminate_seconds=2, kill_seconds=2)


class End(StrEnum):
    """What an agent does after its words."""

    WELL = "well"
    ERROR = "error"
    NEVER = "never"


class Deed(NamedTuple):
    """What an agent says, and what it does then."""

    text: str
    end: End = End.WELL


ANSWER: Final = "The answer is 42."
LATER: Final = "And later it is 43."
PARTIAL: Final = "The half of an answer is"
HALF: Final = "Some of it is done."
READY: Final = '{"status": "checkpoint_ready", "summary": "all of it is done"}'
ERROR: Final = "the line went dead"
DEEDS: Final[Mapping[str, Deed]] = {
    "answer": Deed(ANSWER),
    "later": Deed(LATER),
    "break": Deed(PARTIAL, End.ERROR),
    "hang": Deed(PARTIAL, End.NEVER),
    "half": Deed(HALF),
    "ready": Deed(READY),
}


@dataclass
class SetClock:
    """The wall clock, put forward by hand."""

    ahead_seconds: float = 0.0

    def __call__(self) -> Instant:
        now = wall_clock()
        return Instant(now.at + timedelta(seconds=self.ahead_seconds), now.seconds + self.ahead_seconds)


@dataclass
class Way:
    """One way, running. `broken` and `kept` are what can be known of an answer that breaks off: its text, or not."""

    name: str
    spec: AgentSpec
    tell: Callable[[str], str]
    broken: TurnState
    is_text_live: bool
    driver: Driver
    model: ScriptedModel | None = None
    log: MemoryLog = field(default_factory=MemoryLog)
    clock: SetClock = field(default_factory=SetClock)
    published: list[Event] = field(default_factory=list)
    _running: tuple[Runtime, Subagents, Workflows] | None = None

    @property
    def runtime(self) -> Runtime:
        assert self._running is not None
        return self._running[0]

    @property
    def subagents(self) -> Subagents:
        assert self._running is not None
        return self._running[1]

    @property
    def workflows(self) -> Workflows:
        assert self._running is not None
        return self._running[2]

    async def open(self, policy: RunPolicy | None = None) -> SessionId:
        return await self.runtime.open_session(self.spec, policy=policy)

    async def events(self, session: SessionId) -> tuple[Event, ...]:
        return (await self.log.read(session)).events

    async def ask(self, session: SessionId, deed: str) -> TurnState:
        """One turn, to its end."""
        prompt = await self.runtime.send(session, self.tell(deed))
        return (await self.runtime.wait_turn(session, prompt)).state

    async def begin(self, session: SessionId, deed: str) -> PromptId:
        """A turn, as far as the words of its deed."""
        prompt = await self.runtime.send(session, self.tell(deed))

        def look(conductor: SessionMachine) -> bool | None:
            known = conductor.book.queue.prompts.get(prompt)
            turn = conductor.open_turn
            has_begun = known is not None and known.stage is DeliveryStage.STARTED
            has_words = turn is not None and turn.answer.text == DEEDS[deed].text
            return True if has_begun and (has_words or not self.is_text_live) else None

        await self.runtime.supervisor(session).until(look)
        return prompt

    async def pass_time(self, session: SessionId, seconds: float) -> None:
        """Let so much time be over, and have the session look at its clock."""
        self.clock.ahead_seconds += seconds
        await self.runtime.set_gate(session, is_open=True)

    def _workflows(self, runtime: Runtime, subagents: Subagents) -> Workflows:
        return Workflows(runtime, subagents, self.log, prompt=lambda step, _: step.task)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Way]:
        policy = RunPolicy(interrupt_seconds=5)
        async with (
            Runtime(self.log, [self.driver], policy=policy, clock=self.clock) as runtime,
            runtime.watch() as live,
        ):

            async def collect() -> None:
                async for event in live:
                    self.published.append(event)

            collecting = asyncio.create_task(collect())
            try:
                async with Subagents(runtime, self.log) as children, self._workflows(runtime, children) as workflows:
                    self._running = (runtime, children, workflows)
                    yield self
            finally:
                collecting.cancel()
                await asyncio.gather(collecting, return_exceptions=True)


# JSON stream


def _script(deed: str) -> str:
    text, end = DEEDS[deed]
    return f"say {text}" + {End.WELL: "", End.ERROR: f"; fail {ERROR}", End.NEVER: "; hang"}[end]


def _stream_script(deed: str) -> str:
    """An answer that breaks off is not closed, and the error is told in the model's name, as Claude Code does it."""
    text, end = DEEDS[deed]
    if end is not End.ERROR:
        return _script(deed)
    said = f"API Error: {ERROR}"
    message = {"id": "m", "model": "<synthetic>", "role": "assistant", "content": [{"type": "text", "text": said}]}
    frame = {"type": "assistant", "message": message, "is_api_error_message": True, "error": "server_error"}
    result = {"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error", "result": said}
    return f"say {text}; raw {json.dumps(frame)}; raw {json.dumps(result)}; silent"


@asynccontextmanager
async def by_stream() -> AsyncIterator[Way]:
    with tempfile.TemporaryDirectory() as folder:
        program = write_program(Path(folder, "agent"), command("stream-json"))
        spec = AgentSpec(agent="scripted", driver="claude-stream", argv=(program,), cwd=folder)
        driver = ClaudeStreamDriver(STOPS_QUICKLY)
        async with Way("stream", spec, _stream_script, TurnState.PARTIAL_FAILED, True, driver).running() as way:
            yield way


# Terminal


def _slow_script(deed: str) -> str:
    """A turn that lasts long enough to be seen at work."""
    return f"think 0.3; {_script(deed)}"


@asynccontextmanager
async def by_terminal() -> AsyncIterator[Way]:
    assert shutil.which("tmux") is not None, "these tests drive tmux: install tmux 3.2 or newer"
    folder = tempfile.mkdtemp(prefix="il-")
    server = TmuxServer.own(f"{folder}/tmux")
    # Its screen is that of the scripted agent, and its transcript that of Codex.
    profiles = [replace(one, cli="codex") for one in builtin_profiles() if one.cli == "scripted"]
    monitor = MonitorPolicies(MonitorPolicy(completion_stability_seconds=0.3))
    policy = TerminalPolicy(monitor, stopping=STOPS_QUICKLY)
    driver = TerminalDriver(Path(folder, "run"), server=server, policy=policy, profiles=profiles)
    argv = (sys.executable, str(Path(__file__).with_name("transcribing_agent.py")), folder)
    environment = {"CODEX_HOME": folder}
    spec = AgentSpec(agent="codex", driver="terminal", argv=argv, cwd=folder, environment=environment)
    try:
        async with Way("terminal", spec, _slow_script, TurnState.FAILED, False, driver).running() as way:
            yield way
    finally:
        await server.kill()
        shutil.rmtree(folder)


# Model


def steps_of_deed(deed: Deed) -> tuple[Step, ...]:
    text = Text(deed.text)
    match deed.end:
        case End.WELL:
            return (text,)
        case End.ERROR:
            return text, Error(500, ERROR)
        case End.NEVER:
            return text, Hang()


def model_way(model: ScriptedModel, driver: ModelDriver, permissions: list[Json] | None = None) -> Way:
    """Not running yet. `permissions`: what the tools that the driver brings may do."""
    retry: Json = {"first_pause_seconds": 0, "max_pause_seconds": 0, "max_attempts": 2}
    options: dict[str, Json] = {"base_url": model.url, "retry": retry, "tools": []}
    spec = AgentSpec(
        agent="model",
        driver="model",
        model="anthropic:claude-haiku-4-5",
        environment={"ANTHROPIC_API_KEY": "none"},
        options={**options, **({"permissions": permissions} if permissions else {})},
    )
    return Way("model", spec, lambda deed: f"SCN:{deed}", TurnState.PARTIAL_FAILED, True, driver, model)


@asynccontextmanager
async def by_model() -> AsyncIterator[Way]:
    with ScriptedModel({name: steps_of_deed(deed) for name, deed in DEEDS.items()}) as model:
        async with model_way(model, ModelDriver()).running() as way:
            yield way
        assert model.faults == ()


WAYS: Final = {"stream": by_stream, "terminal": by_terminal, "model": by_model}


def run_bounded(work: Coroutine[object, object, T], within_seconds: float = 50) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(within_seconds):
            return await work

    return asyncio.run(bounded())


def through(name: str, story: Callable[[Way], Coroutine[object, object, T]]) -> T:
    """Tell a story by one way, within its time."""

    async def told() -> T:
        async with WAYS[name]() as way:
            return await story(way)

    return run_bounded(told())
