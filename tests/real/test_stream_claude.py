"""The real Claude Code by stream-json: what the driver tells, compared with what the scripted model did."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    ChildrenChanged,
    Exited,
    MessageEnded,
    Observation,
    PromptReached,
    RetryBegun,
    SessionNamed,
    TextArrived,
    TextVoided,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
    UsageScope,
)
from interlock.agents.port import AgentSpec, Decision, Prompt
from interlock.agents.streams.claude.driver import ClaudeStream, ClaudeStreamDriver
from interlock.testing.scripted_model import (
    Cut,
    End,
    Error,
    Gate,
    RequestKind,
    ScriptedCall,
    ScriptedModel,
    Shell,
    Step,
    Text,
    Think,
)
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.ids import PromptId, SpawnId, TurnId
from interlock.vocabulary.states import Attention
from tests.real.harness import HELD_COMMAND
from tests.real.processes import is_alive
from tests.real.recipes import CLAUDE, LabFolder, common_environment
from tests.real.stories import QUESTION

pytestmark = pytest.mark.real

WAIT_SECONDS: Final = 30.0
STALE_ID: Final = "5b3e0a3c-0000-4000-8000-000000000000"
Seen = TypeVar("Seen", bound=Observation)


@dataclass
class Live:
    """A running agent, and everything that it was seen to do."""

    agent: ClaudeStream
    model: ScriptedModel
    place: LabFolder
    seen: list[Observation] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def read(self) -> None:
        async for one in self.agent.observations():
            async with self.changed:
                self.seen.append(one)
                self.changed.notify_all()

    async def wait(self, kind: type[Seen], *, times: int = 1) -> Seen:
        """The so-manieth observation of a kind, as soon as there is one."""
        async with asyncio.timeout(WAIT_SECONDS), self.changed:
            await self.changed.wait_for(lambda: len(self.all(kind)) >= times)
        return self.all(kind)[times - 1]

    def all(self, kind: type[Seen]) -> list[Seen]:
        return [one for one in self.seen if isinstance(one, kind)]

    async def submit(self, text: str, prompt_id: str = "prm_1") -> None:
        await self.wait(BecameReady)
        prompt = Prompt(prompt_id=PromptId(prompt_id), turn_id=TurnId("trn_1"), text=text)
        assert await self.agent.submit(prompt) is DeliveryStage.TYPED

    async def turn(self, text: str, prompt_id: str = "prm_1") -> TurnEnded:
        before = len(self.all(TurnEnded))
        await self.submit(text, prompt_id)
        return await self.wait(TurnEnded, times=before + 1)

    async def made(self, name: str) -> None:
        """Wait until the tool has made a file: then it runs."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (self.place.project / name).exists():  # noqa: ASYNC110 - a tool rings no bell
                await asyncio.sleep(0.02)


Story = Callable[[Live], Awaitable[None]]
Scripts = Mapping[str, tuple[Step, ...]]
Play = Callable[[Scripts, Story], None]


@asynccontextmanager
async def living(executable: Path, place: LabFolder, model: ScriptedModel, resume: str = "") -> AsyncIterator[Live]:
    """An agent that is ended in the end, with everything that it started."""
    spec = AgentSpec(
        agent="claude",
        driver="claude-stream",
        argv=(str(executable),),
        cwd=str(place.project),
        environment={**common_environment(place), **CLAUDE.environment(place, model.url)},
        resume=resume,
        options={"permission_mode": "manual"},
    )
    agent = await ClaudeStreamDriver().spawn(spec, SpawnId(f"spn_real_{os.getpid()}"))
    live = Live(agent, model, place)
    reading = asyncio.create_task(live.read())
    try:
        yield live
    finally:
        report = await agent.stop()
        async with asyncio.timeout(WAIT_SECONDS):
            await reading
        assert not report.survivors
        assert isinstance(live.seen[-1], Exited)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabFolder:
    """A home of its own. The driver hands on our environment, so what a person set for their own agent goes first."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE")):
            monkeypatch.delenv(name)
    place = LabFolder(tmp_path)
    place.make()
    CLAUDE.seed(place, "")
    return place


@pytest.fixture
def play(claude_executable: Path, place: LabFolder) -> Play:
    """Run a story with an agent over a model that follows these scripts."""

    def run(scripts: Scripts, story: Story) -> None:
        async def told() -> None:
            with ScriptedModel(scripts) as model:
                async with living(claude_executable, place, model) as live:
                    await story(live)
                assert not model.faults

        asyncio.run(told())

    return run


def last_body(model: ScriptedModel) -> str:
    """What the model was sent last in a turn."""
    return [one for one in model.requests if one.kind is RequestKind.MAIN][-1].body.decode()


# A turn


def test_a_turn_thinks_streams_and_ends(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:turn")
        await live.model.reached("thinking")
        assert (await live.wait(ThoughtArrived)).text == "Let me see."
        assert [one.stage for one in live.all(PromptReached)] == [DeliveryStage.ACCEPTED, DeliveryStage.STARTED]
        live.model.release("thinking")
        await live.model.reached("streaming")
        await live.wait(TextArrived, times=2)
        assert not live.all(TurnEnded)
        live.model.release("streaming")
        ended = await live.wait(TurnEnded)
        assert (ended.ending, ended.text) == (TurnEnding.NATURAL, "One. Two three.")
        assert "".join(one.text for one in live.all(TextArrived)) == "One. Two three."
        assert (await live.wait(MessageEnded)).text == "One. Two three."
        again = await live.turn("SCN:short", "prm_2")
        assert again.text == "Short."
        assert len(live.all(SessionNamed)) == 1
        first, second = [one for one in live.all(UsageReported) if one.scope is UsageScope.TURN]
        assert first.cost_usd is not None
        assert second.cost_usd is not None
        assert second.cost_usd < 2 * first.cost_usd  # Its own, not the total of both.

    turn = (Think("Let me see."), Gate("thinking"), Text("One. ", "Two"), Gate("streaming"), Text(" three."))
    play({"turn": turn, "short": (Text("Short."),)}, story)


def test_an_allowed_tool_runs_and_the_answer_is_known_to_be_read_before_it_ends(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:tool")
        asked = await live.wait(ApprovalAsked)
        called = await live.wait(ToolCalled)
        assert (asked.name, asked.call_id, asked.attention) == ("Bash", called.call_id, Attention.APPROVAL)
        assert not (live.place.project / "made.txt").exists()
        await live.agent.decide(Decision(request_id=asked.request_id, is_allowed=True))
        assert (await live.wait(ApprovalGone)).is_answered
        await live.made("made.txt")
        assert not live.all(ToolReturned)
        (live.place.project / "go").touch()
        returned = await live.wait(ToolReturned)
        assert (returned.call_id, returned.output, returned.error) == (called.call_id, "over", None)
        assert (await live.wait(TurnEnded)).text == "The tool ran."

    play({"tool": (Shell(HELD_COMMAND), Text("The tool ran."))}, story)


def test_a_denied_tool_does_not_run_and_the_model_hears_why(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:tool")
        asked = await live.wait(ApprovalAsked)
        await live.agent.decide(Decision(request_id=asked.request_id, is_allowed=False, text="Not on a Sunday."))
        returned = await live.wait(ToolReturned)
        assert returned.error is not None
        assert (returned.error.kind, returned.error.message) == ("denied", "Not on a Sunday.")
        assert (await live.wait(ApprovalGone)).is_answered
        assert (await live.wait(TurnEnded)).text == "Very well."
        assert "Not on a Sunday." in last_body(live.model)
        assert not (live.place.project / "made.txt").exists()

    play({"tool": (Shell("touch made.txt"), Text("Very well."))}, story)


def test_a_question_is_answered_with_one_of_its_options(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:ask")
        asked = await live.wait(ApprovalAsked)
        assert (asked.attention, asked.question) == (Attention.QUESTION, "Which colour shall it be?")
        assert [option.label for option in asked.options] == ["Red", "Blue"]
        await live.agent.decide(Decision(request_id=asked.request_id, is_allowed=True, option_label="Blue"))
        assert (await live.wait(TurnEnded)).text == "A fine colour."
        assert '=\\"Blue\\"' in last_body(live.model)

    play({"ask": (QUESTION, Text("A fine colour."))}, story)


# Interrupts


async def interrupt_and_go_on(live: Live) -> None:
    await live.agent.interrupt()
    assert (await live.wait(TurnEnded)).ending is TurnEnding.INTERRUPTED
    again = await live.turn("SCN:short", "prm_2")
    assert (again.ending, again.text) == (TurnEnding.NATURAL, "Short.")


def test_an_interrupt_while_thinking_ends_the_turn(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:think")
        await live.model.reached("thinking")
        await live.wait(ThoughtArrived)
        await interrupt_and_go_on(live)
        assert [one.text for one in live.all(MessageEnded)] == ["Short."]

    play({"think": (Think("Hm."), Gate("thinking"), Text("Never.")), "short": (Text("Short."),)}, story)


def test_an_interrupt_while_streaming_leaves_the_partial_text(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:stream")
        await live.model.reached("streaming")
        await live.wait(TextArrived, times=2)
        await interrupt_and_go_on(live)
        assert [one.text for one in live.all(TextArrived)][:2] == ["One. ", "Two"]
        assert [one.text for one in live.all(MessageEnded)] == ["Short."]
        assert not live.all(TextVoided)

    play({"stream": (Text("One. ", "Two"), Gate("streaming"), Text("Never.")), "short": (Text("Short."),)}, story)


def test_an_interrupt_while_a_tool_runs_ends_both(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:tool")
        asked = await live.wait(ApprovalAsked)
        await live.agent.decide(Decision(request_id=asked.request_id, is_allowed=True))
        await live.made("made.txt")
        await interrupt_and_go_on(live)
        returned = await live.wait(ToolReturned)
        assert returned.error is not None
        assert returned.error.kind == "interrupted"

    play({"tool": (Shell(HELD_COMMAND), Text("Never.")), "short": (Text("Short."),)}, story)


def test_an_interrupt_takes_an_open_question_back(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:tool")
        await live.wait(ApprovalAsked)
        await interrupt_and_go_on(live)
        assert not (await live.wait(ApprovalGone)).is_answered
        assert not (live.place.project / "made.txt").exists()

    play({"tool": (Shell("touch made.txt"), Text("Never.")), "short": (Text("Short."),)}, story)


# Failures


def test_a_provider_error_is_retried_and_ends_the_turn_as_an_error(play: Play) -> None:
    async def story(live: Live) -> None:
        ended = await live.turn("SCN:error")
        assert (ended.ending, ended.error_kind) == (TurnEnding.ERROR, "server_error")
        assert "out of order" in ended.error_message
        assert [one.attempt for one in live.all(RetryBegun)] == [1, 2]
        assert not live.all(MessageEnded)
        assert (await live.turn("SCN:short", "prm_2")).ending is TurnEnding.NATURAL

    play({"error": (Error(500, "out of order"),), "short": (Text("Short."),)}, story)


def test_a_cut_stream_leaves_no_text_of_the_dead_attempt(play: Play) -> None:
    async def story(live: Live) -> None:
        ended = await live.turn("SCN:cut")
        assert (ended.ending, ended.text) == (TurnEnding.NATURAL, "Half and whole.")
        assert standing(live.seen) == "Half and whole."

    play({"cut": (Text("Half"), Cut(times=1), Text(" and whole."))}, story)


def test_an_error_after_the_first_words_takes_them_back(play: Play) -> None:
    async def story(live: Live) -> None:
        assert (await live.turn("SCN:late")).ending is TurnEnding.ERROR
        assert live.all(TextArrived)
        assert standing(live.seen) == ""

    play({"late": (Text("Half"), Error(500, "out of order"))}, story)


def standing(seen: list[Observation]) -> str:
    """The text that counts: what was streamed and not taken back."""
    text = ""
    for one in seen:
        text = "" if isinstance(one, TextVoided) else text + one.text if isinstance(one, TextArrived) else text
    return text


def test_a_killed_agent_is_silent_and_gone(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:stream")
        await live.model.reached("streaming")
        await live.wait(TextArrived)
        assert live.agent.process is not None
        os.kill(live.agent.process.pid, signal.SIGKILL)
        assert (await live.wait(TurnEnded)).ending is TurnEnding.SILENT
        assert (await live.wait(Exited)).signal == signal.SIGKILL

    play({"stream": (Text("One."), Gate("streaming"), Text("Never."))}, story)


def test_a_stop_in_mid_tool_leaves_no_process(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:tool")
        asked = await live.wait(ApprovalAsked)
        await live.agent.decide(Decision(request_id=asked.request_id, is_allowed=True))
        await live.made("made.txt")
        report = await live.agent.stop()
        assert report.ended
        assert not report.survivors
        assert not [one for one in report.ended if is_alive(one.pid)]
        assert (await live.wait(TurnEnded)).ending in (TurnEnding.SILENT, TurnEnding.INTERRUPTED)

    play({"tool": (Shell(HELD_COMMAND), Text("Never."))}, story)


# Resuming


def test_a_resumed_session_goes_on_and_takes_no_answered_prompt_twice(
    claude_executable: Path, place: LabFolder
) -> None:
    async def told() -> None:
        with ScriptedModel({"one": (Text("First."),), "two": (Text("Second."),)}) as model:
            async with living(claude_executable, place, model) as live:
                await live.turn("SCN:one", "prm_1")
                name = (await live.wait(SessionNamed)).native_session_id
            async with living(claude_executable, place, model, resume=name) as live:
                again = await live.turn("SCN:one", "prm_1")
                assert (again.ending, again.error_kind) == (TurnEnding.SILENT, "prompt_known_already")
                assert len([one for one in model.requests if one.kind is RequestKind.MAIN]) == 1
                assert (await live.turn("SCN:two", "prm_2")).text == "Second."
                assert (await live.wait(SessionNamed)).native_session_id == name
                assert "First." in last_body(model)

    asyncio.run(told())


def test_a_session_that_is_gone_is_a_stale_resume(claude_executable: Path, place: LabFolder) -> None:
    async def told() -> None:
        with ScriptedModel({}) as model:
            async with living(claude_executable, place, model, resume=STALE_ID) as live:
                exited = await live.wait(Exited)
                assert exited.is_stale_resume
                assert exited.code == 1
                assert not live.all(BecameReady)

    asyncio.run(told())


# Background work

DELEGATE: Final = ScriptedCall(
    "Agent", {"description": "a task", "prompt": "SCN:sub do it", "subagent_type": "general-purpose"}
)


def test_a_background_agent_keeps_the_ledger_open_until_the_model_has_heard_of_it(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.submit("SCN:main")
        await live.model.reached("below")
        ended = await live.wait(TurnEnded)
        assert ended.text == "It runs."
        before = live.seen[: live.seen.index(ended)]
        assert [one.open for one in before if isinstance(one, ChildrenChanged)][-1]
        live.model.release("below")
        await live.model.reached("notice")
        # The child is over, and the agent works: it has not come to rest.
        assert live.all(ChildrenChanged)[-1].open
        assert [one.text for one in live.all(MessageEnded) if one.sub_agent] == ["Below."]
        assert len(live.all(BecameReady)) == 1
        live.model.release("notice")
        await live.wait(BecameReady, times=2)
        assert live.all(ChildrenChanged)[-1].open == frozenset()
        assert live.all(MessageEnded)[-1].text == "It is done."
        assert len(live.all(TurnEnded)) == 1
        assert (await live.turn("SCN:short", "prm_2")).text == "Short."

    scripts: Scripts = {
        "main": (DELEGATE, Text("It runs."), End(), Gate("notice"), Text("It is done.")),
        "sub": (Gate("below"), Text("Below.")),
        "short": (Text("Short."),),
    }
    play(scripts, story)


def test_a_prompt_beside_a_background_agent_has_its_own_end(play: Play) -> None:
    async def story(live: Live) -> None:
        await live.turn("SCN:main")
        await live.model.reached("below")
        second = await live.turn("SCN:short", "prm_2")
        assert (second.ending, second.text) == (TurnEnding.NATURAL, "Short.")
        assert live.all(ChildrenChanged)[-1].open
        live.model.release("below")
        await live.wait(BecameReady, times=2)
        assert len(live.all(TurnEnded)) == 2
        assert live.all(ChildrenChanged)[-1].open == frozenset()

    scripts: Scripts = {
        "main": (DELEGATE, Text("It runs.")),
        "sub": (Gate("below"), Text("Below.")),
        "short": (Text("Short."),),
    }
    play(scripts, story)
