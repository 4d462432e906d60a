"""A piece of text in the midst of others is shown at once, and only where nothing waits, steps or is due before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from interlock.agents.observations import TextArrived, ThoughtArrived, ToolCalled
from interlock.agents.port import AgentSpec
from interlock.log.memory import MemoryLog
from interlock.runtime.policy import Instant, RunPolicy
from interlock.runtime.runtime import EventWatcher, Runtime
from interlock.runtime.session import text_flow
from interlock.runtime.session.inputs import Observed
from interlock.runtime.session.router import SessionMachine
from interlock.runtime.session.state import Session
from interlock.runtime.session.supervisor import SessionFailed
from interlock.testing.puppet import Puppet, PuppetDriver
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.events.conversation import ToolCall
from interlock.vocabulary.events.envelope import Event
from interlock.vocabulary.events.presenter import ReasoningDelta, TextDelta
from interlock.vocabulary.ids import SessionId

WORDS = [f"word{number} " for number in range(5)]


class HeldClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> Instant:
        return Instant(datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds), self.seconds)


class HeldLog(MemoryLog):
    """Takes nothing while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.is_asked = asyncio.Event()

    async def append(
        self, session_id: SessionId, events: Sequence[Event], *, expected_version: int | None = None
    ) -> int:
        if not self.is_open.is_set():
            self.is_asked.set()
            await self.is_open.wait()
        return await super().append(session_id, events, expected_version=expected_version)


class Scene:
    """One session whose agent streams text: its last pieces went the short way."""

    def __init__(self, runtime: Runtime, session_id: SessionId, puppet: Puppet, watcher: EventWatcher) -> None:
        self.runtime, self.session_id, self.puppet, self._watcher = runtime, session_id, puppet, watcher
        self.shown: list[Event] = []

    async def until(self, is_there: Callable[[Event], bool]) -> None:
        async for event in self._watcher:
            self.shown.append(event)
            if is_there(event):
                return

    async def stream(self) -> None:
        """One by one, so that each is heard before the next is said."""
        for word in WORDS:
            await self.say(word)

    async def say(self, words: str) -> None:
        self.puppet.say(TextArrived(text=words))
        await self.until(lambda event: isinstance(event.data, TextDelta) and event.data.text == words)


@asynccontextmanager
async def streaming(log: MemoryLog, clock: HeldClock) -> AsyncIterator[Scene]:
    driver, policy = PuppetDriver(), RunPolicy(stall_after_seconds=0.5)
    async with (
        asyncio.timeout(100),
        Runtime(log, [driver], policy=policy, clock=clock) as runtime,
        runtime.watch() as watcher,
    ):
        session_id = await runtime.open_session(AgentSpec(agent="puppet", driver="puppet"))
        await runtime.send(session_id, "hello")
        await runtime.until(session_id, lambda _: (driver.puppets and driver.puppets[0].prompts) or None)
        scene = Scene(runtime, session_id, driver.puppets[0], watcher)
        await scene.stream()
        yield scene


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    asyncio.run(main())


def test_pieces_in_the_midst_of_others_are_shown_without_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list[object]()
    take_in = SessionMachine._take_in

    def counted(self: SessionMachine, news: object) -> None:
        steps.append(news)
        take_in(self, news)  # type: ignore[arg-type]

    async def story() -> None:
        async with streaming(MemoryLog(), HeldClock()) as scene:
            monkeypatch.setattr(SessionMachine, "_take_in", counted)
            await scene.stream()
            assert [event.data.text for event in scene.shown if isinstance(event.data, TextDelta)] == [*WORDS, *WORDS]
            assert steps == []

    play(story)


def test_a_stall_that_is_due_is_told_before_the_piece_that_ends_it() -> None:
    async def story() -> None:
        clock = HeldClock()
        async with streaming(MemoryLog(), clock) as scene:
            clock.seconds += 0.6  # and no checkpoint is due
            await scene.say("at last")
            told = [event.data.kind for event in scene.shown if isinstance(event.data, Anomaly)]
            assert told == ["stalled_entered", "stalled_recovered"]

    play(story)


def test_what_was_said_before_a_piece_is_shown_before_it() -> None:
    async def story() -> None:
        async with streaming(MemoryLog(), HeldClock()) as scene:
            seen = len(scene.shown)
            scene.puppet.say(ThoughtArrived(text="hm"))
            await scene.say("so it is")
            order = [type(event.data) for event in scene.shown[seen:]]
            assert order.index(ReasoningDelta) < order.index(TextDelta)

    play(story)


def test_a_piece_is_not_shown_before_what_was_said_before_it_is_written() -> None:
    async def story() -> None:
        log = HeldLog()
        async with streaming(log, HeldClock()) as scene:
            log.is_open.clear()
            scene.puppet.say(ToolCalled(call_id="call_1", name="Bash"))
            await log.is_asked.wait()
            seen = len(scene.shown)
            scene.puppet.say(TextArrived(text="after the call"))
            for _ in range(20):
                await asyncio.sleep(0)
            log.is_open.set()
            await scene.until(lambda event: isinstance(event.data, TextDelta) and event.data.text == "after the call")
            order = [type(event.data) for event in scene.shown[seen:]]
            assert order.index(ToolCall) < order.index(TextDelta)

    play(story)


def test_whoever_waits_for_text_is_told_of_a_piece_that_went_the_short_way() -> None:
    async def story() -> None:
        async with streaming(MemoryLog(), HeldClock()) as scene:

            def look(machine: SessionMachine) -> str | None:
                turn = machine.open_turn
                return turn.answer.text if turn is not None and turn.answer.text.endswith("enough") else None

            waiting = asyncio.create_task(scene.runtime.until(scene.session_id, look))
            await asyncio.sleep(0)
            scene.puppet.say(TextArrived(text="enough"))
            assert await waiting == "".join([*WORDS, "enough"])

    play(story)


def test_a_failure_on_the_short_way_ends_the_supervision(monkeypatch: pytest.MonkeyPatch) -> None:
    next_piece = text_flow.next_piece

    def broken(session: Session, news: Observed) -> object:
        if session.flow is not None and isinstance(news.seen, TextArrived):
            raise AssertionError("broken")
        return next_piece(session, news)

    async def story() -> None:
        async with streaming(MemoryLog(), HeldClock()) as scene:
            monkeypatch.setattr(text_flow, "next_piece", broken)
            scene.puppet.say(TextArrived(text="more"))
            with pytest.raises(SessionFailed, match="broken"):
                await scene.runtime.until(scene.session_id, lambda machine: machine.open_turn is None or None)

    play(story)
