"""A driver that fails in a way that nothing provides for: the session says so, and nobody waits for it for ever.

An error is planted in the task of each driver that reads its agent, while a real process runs. The session then has the
anomaly, its turn and its process have an end, and the server's log has the error with its traceback.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

import pytest

from interlock.agents.acp.translate import AcpTranslator
from interlock.agents.model.driver import ModelDriver
from interlock.agents.model.round import Rounds
from interlock.agents.port import AgentSpec, ProcessIdentity
from interlock.agents.streams.claude.lines import ClaudeLines
from interlock.agents.streams.codex.app_server_messages import CodexThread
from interlock.agents.streams.gemini import GeminiLines, GeminiStreamDriver
from interlock.agents.streams.opencode.events import OpencodeEvents
from interlock.agents.streams.pi.lines import PiLines
from interlock.agents.terminal.ending import EndWatch
from interlock.agents.terminal.side_files import Beside
from interlock.agents.terminal.translate import Translator
from interlock.log.memory import MemoryLog
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.router import SessionMachine
from interlock.vocabulary.events.audit import Anomaly, ProcessEvent, ProcessEventKind
from interlock.vocabulary.ids import SessionId
from interlock.vocabulary.states import Activity, TurnState
from tests.agents.model.harness import PlayedModel
from tests.agents.model.harness import spec as model_spec
from tests.contract.harness import run
from tests.runtime.session.ledger_ways import WAYS

PLANTED: Final = "planted in a test"


@dataclass
class Mine:
    """A fault that is laid in a method, and goes off from the moment that it is armed; `is_one` only once."""

    armed: asyncio.Event = field(default_factory=asyncio.Event)
    is_one: bool = False

    def lay(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        whole: Callable[..., object] = getattr(owner, name)

        def method(*args: object, **named: object) -> object:
            if self.armed.is_set():
                self.go_off()
            return whole(*args, **named)

        patch.setattr(owner, name, method)

    def go_off(self) -> NoReturn:
        if self.is_one:
            self.armed.clear()
        raise RuntimeError(PLANTED)


# The driver, where its reader fails, and a prompt that its agent answers at once.
READERS: Final[dict[str, tuple[str, type, str, str]]] = {
    "claude-stream": ("claude-stream", ClaudeLines, "feed", "say hi"),
    "acp": ("acp", AcpTranslator, "received", "say hi"),
    "codex-app-server": ("codex-app-server", CodexThread, "read", "hello"),
    "codex-app-server at its end": ("codex-app-server", CodexThread, "ended", "die"),
    "opencode-serve": ("opencode-serve", OpencodeEvents, "feed", "hello"),
    "opencode-serve at its end": ("opencode-serve", OpencodeEvents, "ended", "die"),
    "pi-rpc": ("pi-rpc", PiLines, "feed", "hello"),
    "pi-rpc at its end": ("pi-rpc", PiLines, "ended", "die"),
    "terminal at its end": ("terminal", EndWatch, "_how", "exit 3"),
}


def _is_ready(machine: SessionMachine) -> bool | None:
    return machine.status.activity is Activity.QUIET or None


def _is_unknown(machine: SessionMachine) -> bool | None:
    return machine.status.activity is Activity.UNKNOWN or None


async def ends(runtime: Runtime, log: MemoryLog, session_id: SessionId, prompt: str) -> None:
    """The turn of a prompt fails, the log has the anomaly and the end of the process, and nothing is left working."""
    prompt_id = await runtime.send(session_id, prompt)
    ended = await runtime.wait_turn(session_id, prompt_id)
    assert ended.state in (TurnState.FAILED, TurnState.PARTIAL_FAILED)

    await runtime.until(session_id, lambda machine: machine.status.activity is Activity.GONE or None)
    events = (await log.read(session_id)).events
    told = [event.data for event in events if isinstance(event.data, Anomaly)]
    assert [one.message for one in told if one.kind == "driver_failed"] == [f"RuntimeError: {PLANTED}"]
    last = [event.data.kind for event in events if isinstance(event.data, ProcessEvent)]
    assert ProcessEventKind.EXITED in last


def is_logged(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether the log of a server would have the error, with where it was raised."""
    return any(record.exc_info and PLANTED in str(record.exc_info[1]) for record in caplog.records)


@pytest.mark.parametrize("name", READERS)
def test_the_session_says_that_its_reader_failed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver, owner, method, prompt = READERS[name]
    way = WAYS[driver]

    async def story() -> None:
        mine, log = Mine(), MemoryLog()
        mine.lay(monkeypatch, owner, method)
        async with way.driving() as made, Runtime(log, [made]) as runtime:
            session_id = await runtime.open_session(way.spec(tmp_path, ()))
            await runtime.start(session_id)
            await runtime.until(session_id, _is_ready)
            mine.armed.set()
            await ends(runtime, log, session_id, prompt)
            await runtime.shutdown(stop_agents=True)

    run(story())
    assert is_logged(caplog)


def test_the_session_says_that_a_program_for_one_prompt_is_not_read_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = "import sys, time; sys.stdin.read(); print('{}', flush=True); time.sleep(600)"

    async def story() -> None:
        mine, log = Mine(), MemoryLog()
        mine.lay(monkeypatch, GeminiLines, "feed")
        mine.armed.set()
        async with Runtime(log, [GeminiStreamDriver()]) as runtime:
            argv = (sys.executable, "-S", "-c", program)
            spec = AgentSpec(agent="fake", driver="gemini-stream", argv=argv, cwd=str(tmp_path))
            await ends(runtime, log, await runtime.open_session(spec), "hello")

    run(story())
    assert is_logged(caplog)


def test_the_session_says_that_the_loop_of_a_model_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        mine, log = Mine(), MemoryLog()
        mine.lay(monkeypatch, Rounds, "settle")
        mine.armed.set()
        async with Runtime(log, [ModelDriver(caller=PlayedModel([]))]) as runtime:
            await ends(runtime, log, await runtime.open_session(model_spec(str(tmp_path))), "hello")

    run(story())
    assert is_logged(caplog)


def test_a_living_agent_whose_end_is_not_watched_any_more_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        mine, log = Mine(), MemoryLog()

        async def process_gone(_: ProcessIdentity) -> None:
            await mine.armed.wait()
            mine.go_off()

        monkeypatch.setattr("interlock.agents.terminal.ending.process_gone", process_gone)
        async with WAYS["terminal"].driving() as made, Runtime(log, [made]) as runtime:
            session_id = await runtime.open_session(WAYS["terminal"].spec(tmp_path, ()))
            await runtime.start(session_id)
            await runtime.until(session_id, _is_ready)
            mine.armed.set()
            await ends(runtime, log, session_id, "think 600")
            await runtime.shutdown(stop_agents=True)

    run(story())
    assert is_logged(caplog)


def test_what_stands_beside_a_screen_may_fail_and_the_screen_still_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        mine, log = Mine(), MemoryLog()
        mine.lay(monkeypatch, Beside, "follow")
        mine.armed.set()
        async with WAYS["terminal"].driving() as made, Runtime(log, [made]) as runtime:
            session_id = await runtime.open_session(WAYS["terminal"].spec(tmp_path, ()))
            ended = await runtime.wait_turn(session_id, await runtime.send(session_id, "say hi"))
            assert ended.state is TurnState.COMPLETED
            told = [event.data for event in (await log.read(session_id)).events if isinstance(event.data, Anomaly)]
            assert [one.message for one in told if one.kind == "evidence_failed"] == [f"RuntimeError: {PLANTED}"]
            await runtime.shutdown(stop_agents=True)

    run(story())
    assert is_logged(caplog)


def test_a_screen_that_is_not_read_any_more_is_unknown_and_the_next_agent_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        mine, log, way = Mine(is_one=True), MemoryLog(), WAYS["terminal"]
        mine.lay(monkeypatch, Translator, "see")
        async with way.driving() as made, Runtime(log, [made]) as runtime:
            sessions = [await runtime.open_session(way.spec(tmp_path, ())) for _ in range(2)]
            for session_id in sessions:
                await runtime.start(session_id)
                await runtime.until(session_id, _is_ready)
            mine.armed.set()  # whichever is seen next
            lost = [asyncio.create_task(runtime.until(one, _is_unknown)) for one in sessions]
            await runtime.send(sessions[0], "say hi")
            await asyncio.wait(lost, return_when=asyncio.FIRST_COMPLETED)
            first, other = sessions if lost[0].done() else reversed(sessions)
            ended = await runtime.wait_turn(other, await runtime.send(other, "say hi"))
            assert ended.state is TurnState.COMPLETED
            told = [event.data for event in (await log.read(first)).events if isinstance(event.data, Anomaly)]
            assert [one.kind for one in told if PLANTED in one.message] == ["channel_lost"]
            await runtime.shutdown(stop_agents=True)

    run(story())
    assert is_logged(caplog)
