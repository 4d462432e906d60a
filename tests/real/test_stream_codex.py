"""The real Codex by its app-server and by exec, against a scripted model: what the drivers say is what happened."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    ChildrenChanged,
    Exited,
    MessageEnded,
    OptionKind,
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
)
from interlock.agents.port import AgentSpec, Decision, Driver, NotDelivered, StaleResume
from interlock.agents.streams.codex.app_server import CodexAppServerDriver
from interlock.agents.streams.codex.exec import CodexExecDriver
from interlock.testing.scripted_model import Cut, Error, Gate, ScriptedCall, ScriptedModel, Shell, Text, Think
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.ids import SpawnId
from tests.agents.streams.codex_talk import Talk, listening
from tests.real.recipes import CODEX, LabFolder, common_environment

pytestmark = pytest.mark.real

UNKNOWN_SESSION: Final = "01a1e063-ad65-7863-9d54-000000000000"
PATCH: Final = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n"
SCRIPTS: Final = {
    "turn": (Think("Let me see."), Text("One. ", "Two.")),
    "tool": (Text("I will look."), Shell("echo found"), Text("It is found.")),
    "fails": (Shell("echo out; exit 3", asks=False), Text("It failed.")),
    "think": (Think("Let me see."), Gate("thinking"), Text("Never said.")),
    "stream": (Text("One. ", "Two"), Gate("streaming"), Text("Never said.")),
    "long": (Shell("sleep 60", asks=False), Text("Never said.")),
    "background": (ScriptedCall("exec_command", {"cmd": "sleep 60", "yield_time_ms": 300}), Text("It runs.")),
    "error": (Error(500, "the model is out"),),
    "patch": (ScriptedCall("apply_patch", {"input": PATCH}), Text("It is written.")),
    "cut": (Text("Half"), Cut(times=1), Text(" and whole.")),
}


class Lab:
    """One home of Codex, with its project and its model."""

    def __init__(self, executable: Path, model: ScriptedModel, root: Path) -> None:
        self.model, self.place, self._executable = model, LabFolder(root), executable
        self.place.make()
        CODEX.seed(self.place, model.url)
        self._spawns = 0

    def spec(self, driver: str, resume: str = "", **options: str) -> AgentSpec:
        environment = {**common_environment(self.place), **CODEX.environment(self.place, self.model.url)}
        return AgentSpec(
            agent="codex",
            driver=driver,
            argv=(str(self._executable),),
            cwd=str(self.place.project),
            environment=environment,
            resume=resume,
            options=options,
        )

    @asynccontextmanager
    async def run(self, driver: Driver, resume: str = "", **options: str) -> AsyncIterator[Talk]:
        """Start an agent; in the end nothing that it started is left."""
        self._spawns += 1
        spec = self.spec(driver.name, resume, **options)
        agent = await driver.spawn(spec, SpawnId(f"real-{os.getpid()}-{self._spawns}"))
        async with listening(agent) as talk:
            yield talk
        assert processes_with(str(self.place.home)) == []


def processes_with(home: str) -> list[int]:
    """The living processes whose environment names this home: also those that were given to another parent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            state = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"HOME={home}".encode() in environment and state != "Z" and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


@pytest.fixture
def lab(codex_executable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    for name in os.environ:  # neither the person's keys nor their settings
        monkeypatch.delenv(name)
    with ScriptedModel(SCRIPTS) as model:
        yield Lab(codex_executable, model, tmp_path)
        assert model.faults == ()


def heard_text(talk: Talk) -> str:
    """The text as a reader of the stream has it: pieces, void where voided, replaced by whole messages."""
    whole, piece = "", ""
    for seen in talk.heard:
        match seen:
            case TextArrived(text=text):
                piece += text
            case TextVoided():
                piece = ""
            case MessageEnded(text=text):
                whole, piece = whole + text, ""
            case _:
                pass
    return whole + piece


def test_a_turn_thinks_streams_and_ends(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            named = await talk.until(SessionNamed)
            assert Path(named.transcript_path).name.endswith(f"{named.native_session_id}.jsonl")
            assert named.version == CODEX.version
            assert await talk.say("SCN:turn") is DeliveryStage.ACCEPTED
            assert (await talk.until(PromptReached)).stage is DeliveryStage.STARTED
            assert "Let me see." in (await talk.until(ThoughtArrived)).text
            assert [(await talk.until(TextArrived)).text for _ in range(2)] == ["One. ", "Two."]
            assert (await talk.until(UsageReported)).input_tokens
            ended = await talk.until(TurnEnded)
            assert (ended.ending, ended.text) == (TurnEnding.NATURAL, "One. Two.")
            assert heard_text(talk) == "One. Two."

    asyncio.run(story())


def test_an_approval_is_given_and_another_refused(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            for is_allowed in (True, False):
                await talk.say("SCN:tool")
                called = await talk.until(ToolCalled)
                asked = await talk.until(ApprovalAsked)
                assert asked.call_id == called.call_id
                assert OptionKind.ALLOW_ONCE in [option.kind for option in asked.options]
                await talk.agent.decide(Decision(request_id=asked.request_id, is_allowed=is_allowed))
                assert await talk.until(ApprovalGone) == ApprovalGone(request_id=asked.request_id, is_answered=True)
                returned = await talk.until(ToolReturned)
                assert returned.call_id == called.call_id
                assert returned.output == ("found\n" if is_allowed else "")
                assert (returned.error.kind if returned.error else "") == ("" if is_allowed else "denied")
                assert (await talk.until(TurnEnded)).text == "It is found."

    asyncio.run(story())


def test_an_edit_in_a_read_only_sandbox_is_asked_for(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver(), sandbox="read-only", approval_policy="on-request") as talk:
            await talk.say("SCN:patch")
            asked = await talk.until(ApprovalAsked)
            assert asked.name == "FileChange"
            refusal = next(option for option in asked.options if option.id == "cancel")
            await talk.agent.decide(Decision(request_id=asked.request_id, is_allowed=False, option_id=refusal.id))
            assert (await talk.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
            await talk.say("SCN:patch")
            asked = await talk.until(ApprovalAsked)
            await talk.agent.decide(Decision(request_id=asked.request_id, is_allowed=True, option_id="accept"))
            assert (await talk.until(ToolReturned)).error is None
            assert (await talk.until(TurnEnded)).text == "It is written."
        assert (lab.place.project / "made.txt").read_text(encoding="utf-8") == "made\n"

    asyncio.run(story())


def test_a_command_that_fails_is_an_error_of_the_tool_and_not_of_the_turn(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            assert (await talk.turn("SCN:fails")).ending is TurnEnding.NATURAL
        [returned] = [seen for seen in talk.heard if isinstance(seen, ToolReturned)]
        assert returned.error is not None
        assert returned.error.details == {"exit_code": 3}
        assert returned.output == "out\n"

    asyncio.run(story())


def test_an_interrupt_ends_the_turn_in_each_phase_and_the_agent_stays(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            for script, gate in (("think", "thinking"), ("stream", "streaming")):
                await talk.say(f"SCN:{script}")
                await lab.model.reached(gate)
                await talk.agent.interrupt()
                assert (await talk.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
            await talk.say("SCN:long")
            called = await talk.until(ToolCalled)
            await talk.agent.interrupt()
            returned = await talk.until(ToolReturned)
            assert returned.error is not None
            assert (await talk.until(ChildrenChanged)).open == {called.call_id}
            assert (await talk.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
            await talk.say("SCN:tool")
            asked = await talk.until(ApprovalAsked)
            await talk.agent.interrupt()
            assert (await talk.until(ApprovalGone)) == ApprovalGone(request_id=asked.request_id, is_answered=False)
            assert (await talk.until(TurnEnded)).ending is TurnEnding.INTERRUPTED
            assert (await talk.turn("SCN:turn")).text == "One. Two."
            with pytest.raises(NotDelivered):
                await talk.agent.interrupt()

    asyncio.run(story())


def test_an_interrupt_that_comes_at_once_is_carried_out(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            for _ in range(10):
                await talk.say("SCN:think")
                await talk.agent.interrupt()
                assert (await talk.until(TurnEnded)).ending is TurnEnding.INTERRUPTED

    asyncio.run(story())


def test_a_command_left_running_is_background_work_and_ends_with_the_agent(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            await talk.say("SCN:background")
            called = await talk.until(ToolCalled)
            assert (await talk.until(ToolReturned)).error is None
            assert (await talk.until(ChildrenChanged)).open == {called.call_id}
            assert (await talk.until(TurnEnded)).ending is TurnEnding.NATURAL

    asyncio.run(story())


def test_retries_are_told_and_the_last_error_ends_the_turn(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            await talk.say("SCN:error")
            assert [(await talk.until(RetryBegun)).attempt for _ in range(2)] == [1, 2]
            ended = await talk.until(TurnEnded)
            assert (ended.ending, ended.error_kind) == (TurnEnding.ERROR, "internal_server_error")
            assert ended.error_message
            assert (await talk.turn("SCN:turn")).ending is TurnEnding.NATURAL

    asyncio.run(story())


def test_a_cut_answer_is_not_doubled(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            ended = await talk.turn("SCN:cut")
            assert ended.text == "Half and whole."
            assert heard_text(talk) == "Half and whole."
            assert len([seen for seen in talk.heard if isinstance(seen, RetryBegun)]) == 1

    asyncio.run(story())


@pytest.mark.parametrize("kill", [os.kill, os.killpg], ids=["launcher", "group"])
def test_a_killed_agent_ends_its_turn_in_silence(lab: Lab, kill: Callable[[int, int], None]) -> None:
    async def story() -> None:
        async with lab.run(CodexAppServerDriver()) as talk:
            await talk.say("SCN:stream")
            await lab.model.reached("streaming")
            assert talk.agent.process is not None
            kill(talk.agent.process.pid, signal.SIGKILL)  # without its launcher the program itself lives on
            assert (await talk.until(TurnEnded)).ending is TurnEnding.SILENT
            assert (await talk.over()).signal == signal.SIGKILL
            with pytest.raises(NotDelivered):
                await talk.say("SCN:turn")

    asyncio.run(story())


def test_a_session_is_resumed_and_an_unknown_one_is_stale(lab: Lab) -> None:
    async def story() -> None:
        driver = CodexAppServerDriver()
        async with lab.run(driver) as talk:
            first = await talk.until(SessionNamed)
            await talk.turn("SCN:turn")
        async with lab.run(driver, first.native_session_id) as talk:
            assert (await talk.until(SessionNamed)).native_session_id == first.native_session_id
            assert (await talk.turn("SCN:turn")).text == "One. Two."
            [used] = [seen for seen in talk.heard if isinstance(seen, UsageReported)]
            assert used.input_tokens == 100
        with pytest.raises(StaleResume):
            await driver.spawn(lab.spec(driver.name, UNKNOWN_SESSION), SpawnId("real-stale"))
        assert processes_with(str(lab.place.home)) == []
        assert b"SCN:turn" in lab.model.requests[-1].body

    asyncio.run(story())


def test_exec_takes_one_prompt_and_tells_its_end(lab: Lab) -> None:
    async def story() -> None:
        driver = CodexExecDriver()
        async with lab.run(driver) as talk:
            assert await talk.say("SCN:turn") is DeliveryStage.TYPED
            first = await talk.until(SessionNamed)
            assert (await talk.until(TurnEnded)).text == "One. Two."
            assert (await talk.over()).code == 0
        async with lab.run(driver, first.native_session_id) as talk:
            assert (await talk.turn("SCN:fails")).text == "It failed."
            assert [seen for seen in talk.heard if isinstance(seen, UsageReported)] == []
            await talk.over()
        async with lab.run(driver) as talk:
            assert (await talk.turn("SCN:error")).ending is TurnEnding.ERROR
            assert (await talk.over()).code == 1
        async with lab.run(driver, UNKNOWN_SESSION) as talk:
            assert (await talk.turn("SCN:turn")).ending is TurnEnding.SILENT
            ended: Exited = await talk.over()
            assert ended.is_stale_resume

    asyncio.run(story())


def test_exec_that_is_stopped_in_mid_turn_ends_in_silence(lab: Lab) -> None:
    async def story() -> None:
        async with lab.run(CodexExecDriver()) as talk:
            await talk.say("SCN:long")
            await talk.until(ToolCalled)
            await talk.agent.stop()
            assert (await talk.until(TurnEnded)).ending is TurnEnding.SILENT

    asyncio.run(story())
