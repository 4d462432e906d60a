"""A runtime in a process of its own, to be killed: `python -m tests.chaos.host SETTINGS`.

It reads commands, one JSON object a line, and acknowledges each on stdout once the call of the runtime has returned,
and not before. It can be told to kill itself at a point of its own work, such as `submit.before:2`: right before the
second time that an agent is given a prompt, or `exited.written`: right after the end of an agent is in the log.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec
from msgspec import Struct

from interlock.agents.port import AgentSpec, Driver
from interlock.agents.processes.stopping import StopPolicy
from interlock.agents.profiles import builtin_profiles
from interlock.agents.streams.claude.driver import ClaudeStream, ClaudeStreamDriver
from interlock.agents.terminal.driver import TerminalDriver
from interlock.agents.terminal.handle import TerminalHandle, TerminalPolicy
from interlock.agents.tmux.server import TmuxServer
from interlock.log.sqlite.store import SqliteLog
from interlock.runtime import recovery
from interlock.runtime.policy import RunPolicy
from interlock.runtime.runtime import Runtime
from interlock.runtime.session.inputs import AnswerQuestion
from interlock.testing.scripted_agent import command
from interlock.vocabulary.errors import InterlockError, UsageError
from interlock.vocabulary.events.audit import ProcessEvent
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.ids import PromptId, SessionId
from interlock.vocabulary.wire.approval import Approval, ApprovalState
from tests.projections.whole_logs import approvals

STREAM: Final = "claude-stream"
TERMINAL: Final = "terminal"
PATIENCE: Final = RunPolicy(
    stall_after_seconds=None,
    start_seconds=4.0,
    resubmit_seconds=0.1,
    interrupt_seconds=1.0,
    confirm_seconds=5.0,
    settle_seconds=5.0,
)
STOPPING: Final = StopPolicy(interrupt_seconds=0.5, terminate_seconds=0.5, kill_seconds=5.0)
# A turn that is still open so long after the last kill hangs by its script, and is cancelled.
HANGS_AFTER_SECONDS: Final = 6.0
_PAUSE_SECONDS: Final = 0.02
# Every place where a death leaves something half done. Each has a moment before and one after.
PLACES: Final[tuple[tuple[str, tuple[type | ModuleType, ...], str], ...]] = (
    ("append", (SqliteLog,), "append"),
    ("spawn", (ClaudeStreamDriver, TerminalDriver), "spawn"),
    ("submit", (ClaudeStream, TerminalHandle), "submit"),
    ("decide", (ClaudeStream, TerminalHandle), "decide"),
    ("interrupt", (ClaudeStream, TerminalHandle), "interrupt"),
    ("stop", (ClaudeStream, TerminalHandle), "stop"),
    ("adopt", (TerminalDriver,), "adopt"),
    ("settle", (recovery,), "stop_tree"),
)


class Settings(Struct, frozen=True, kw_only=True):
    """Where everything is, and when to die."""

    home: str
    ledger: str
    gates: str
    run_folder: str
    tmux: str
    dies_at: str = ""


class Order(Struct, frozen=True, kw_only=True):
    """One command. `id` is repeated in its acknowledgement."""

    id: int
    do: str
    session: str = ""
    prompt: str = ""
    text: str = ""
    driver: str = STREAM
    is_allowed: bool = True


class Told(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An acknowledgement. `problem`: the runtime refused, and did nothing."""

    id: int
    problem: str = ""
    asked: int = 0


def say(told: Told) -> None:
    """One line, out of this process before anything else happens."""
    os.write(1, msgspec.json.encode(told) + b"\n")


class Fate:
    """The moment at which this process kills itself, if any."""

    def __init__(self, dies_at: str) -> None:
        self._moment, _, times = dies_at.partition(":")
        self._times = int(times or 1)
        self._seen: Counter[str] = Counter()
        for place, owners, name in PLACES:
            for owner in owners:
                setattr(owner, name, self._wrap(place, getattr(owner, name)))

    def _wrap(self, place: str, original: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def mortal(*args: object, **options: object) -> object:
            self._pass(f"{place}.before")
            result = await original(*args, **options)
            self._pass(f"{place}.after")
            if place == "append":
                for kind in _kinds(args[2]):
                    self._pass(f"{kind}.written")
            return result

        return mortal

    def _pass(self, moment: str) -> None:
        self._seen[moment] += 1
        if moment == self._moment and self._seen[moment] == self._times:
            os.kill(os.getpid(), signal.SIGKILL)


def _kinds(events: object) -> Iterator[str]:
    """What was appended: the types, and for processes what happened to them."""
    for event in events if isinstance(events, list | tuple) else ():
        assert isinstance(event, Event)
        yield event.data.kind.value if isinstance(event.data, ProcessEvent) else event.type


class Host:
    """A runtime, and what it is told to do."""

    def __init__(self, settings: Settings, runtime: Runtime, log: SqliteLog) -> None:
        self._settings = settings
        self._runtime = runtime
        self._log = log

    async def obey(self, order: Order) -> None:
        asked = 0
        try:
            asked = await self._do(order)
        except InterlockError as error:
            say(Told(id=order.id, problem=f"{type(error).__name__}: {error}"))
        else:
            say(Told(id=order.id, asked=asked))

    async def _do(self, order: Order) -> int:
        session_id = SessionId(order.session)
        if order.do == "asked":
            return len(await self._asked(session_id))
        await self._deeds(order, session_id)[order.do]()
        return 0

    def _deeds(self, order: Order, session_id: SessionId) -> Mapping[str, Callable[[], Awaitable[object]]]:
        runtime, prompt_id = self._runtime, PromptId(order.prompt)
        return {
            "open": lambda: runtime.open_session(self._spec(order.driver), session_id=session_id),
            "send": lambda: runtime.send(session_id, order.text, prompt_id=prompt_id),
            "remove": lambda: runtime.remove(session_id, prompt_id),
            "cancel": lambda: runtime.cancel(session_id),
            "start": lambda: runtime.start(session_id),
            "stop": lambda: runtime.stop(session_id),
            "decide": lambda: self._decide(session_id, is_allowed=order.is_allowed),
            "finish": self._finish_all,
            "shutdown": lambda: runtime.shutdown(stop_agents=True),
        }

    async def _decide(self, session_id: SessionId, *, is_allowed: bool) -> None:
        for one in await self._asked(session_id):
            await self._answer(one, is_allowed=is_allowed)

    async def _finish_all(self) -> None:
        await asyncio.gather(*(self._finish(each) for each in self._runtime.sessions))

    def _spec(self, driver: str) -> AgentSpec:
        face = "stream-json" if driver == STREAM else "tui"
        argv = command(face, ledger=self._settings.ledger, gates=self._settings.gates)
        return AgentSpec(agent="scripted", driver=driver, argv=argv)

    async def _asked(self, session_id: SessionId) -> list[Approval]:
        events = (await self._log.read(session_id)).events
        return [one for one in approvals(events) if one.state is ApprovalState.OPEN]

    async def _answer(self, one: Approval, *, is_allowed: bool) -> None:
        labels = [option.label for option in one.options]
        option = (labels[0] if is_allowed else labels[-1]) if labels else ""
        await self._runtime.decide(
            one.session_id, AnswerQuestion(approval_id=one.approval_id, is_allowed=is_allowed, option=option)
        )

    async def _finish(self, session_id: SessionId) -> None:
        """Let a session come to rest: nothing waits, and no turn is open."""
        runtime, supervisor = self._runtime, self._runtime.supervisor(session_id)
        turn_id, since = None, time.monotonic()
        while supervisor.book.turn is not None or supervisor.book.queue.head is not None:
            await asyncio.sleep(_PAUSE_SECONDS)
            if supervisor.book.turn_id != turn_id:
                turn_id, since = supervisor.book.turn_id, time.monotonic()
            try:
                if not supervisor.book.queue.is_open:
                    await runtime.set_gate(session_id, is_open=True)
                if supervisor.machine.agent is None:
                    await runtime.start(session_id)
                await self._decide(session_id, is_allowed=True)
                if supervisor.book.turn is not None and time.monotonic() > since + HANGS_AFTER_SECONDS:
                    await runtime.cancel(session_id)
            except UsageError:
                continue  # it moved on between the look and the command


async def serve(settings: Settings) -> None:
    Fate(settings.dies_at)
    drivers: list[Driver] = [ClaudeStreamDriver(STOPPING)]
    if settings.tmux:
        server, policy = TmuxServer.own(settings.tmux), TerminalPolicy(stopping=STOPPING)
        folder, profiles = Path(settings.run_folder), builtin_profiles()
        drivers.append(TerminalDriver(folder, server=server, policy=policy, profiles=profiles))
    async with await SqliteLog.open(Path(settings.home)) as log, Runtime(log, drivers, policy=PATIENCE) as runtime:
        host = Host(settings, runtime, log)
        say(Told(id=0))
        doing: set[asyncio.Task[None]] = set()
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = msgspec.json.decode(line, type=Order)
            task = asyncio.create_task(host.obey(order))
            doing.add(task)
            task.add_done_callback(doing.discard)
            if order.do == "shutdown":
                break
        await asyncio.gather(*doing)


if __name__ == "__main__":
    asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=Settings)))
