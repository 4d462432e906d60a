"""The driver over a program that plays Claude Code's side of the pipes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import pytest

from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    BecameReady,
    ChannelLost,
    Exited,
    MessageEnded,
    Observation,
    PromptReached,
    SessionNamed,
    TextArrived,
    Traced,
    TurnEnded,
    TurnEnding,
    Warned,
)
from interlock.agents.port import AgentHandle, AgentSpec, Decision, Driver, NotDelivered, Prompt
from interlock.agents.processes.stopping import StopPolicy
from interlock.agents.streams.claude.driver import ClaudeStreamDriver, command_line, prompt_uuid
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import DeliveryStage
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, TurnId
from interlock.vocabulary.states import DriverKind
from tests.agents.processes.trees import new_spawn_id
from tests.agents.streams.claude_fake import READY, heard_by, make_fake
from tests.each_row import each_row

SPAWN: Final = new_spawn_id()
PROMPT: Final = Prompt(prompt_id=PromptId("prm_1"), turn_id=TurnId("trn_1"), text="Grüße")
TEXT: Final[Json] = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "Hi."}]}}
RESULT: Final[Json] = {"type": "result", "subtype": "success", "is_error": False, "result": "Hi."}
STARTED: Final[Json] = {"type": "command_lifecycle", "command_uuid": "$ID", "state": "started"}
ASK: Final[Json] = {
    "type": "control_request",
    "request_id": "q",
    "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "c"},
}
QUICK: Final = StopPolicy(interrupt_seconds=0.2, terminate_seconds=2.0, kill_seconds=2.0)
LIMIT_SECONDS: Final = 100.0
Seen = TypeVar("Seen", bound=Observation)
React = Callable[[AgentHandle, Observation], Awaitable[None]]


async def _nothing(agent: AgentHandle, seen: Observation) -> None:
    pass


async def submit_when_ready(agent: AgentHandle, seen: Observation) -> None:
    if isinstance(seen, BecameReady):
        assert await agent.submit(PROMPT) is DeliveryStage.TYPED


def run(folder: Path, steps: list[Json], react: React = submit_when_ready, *, resume: str = "") -> list[Observation]:
    """Everything that is observed until the program has ended. Commands are given by the task that reads."""

    async def story() -> list[Observation]:
        spec = AgentSpec(agent="a", driver="claude-stream", argv=(str(make_fake(folder, steps)),), cwd=str(folder))
        if resume:
            spec = AgentSpec(agent="a", driver="claude-stream", argv=spec.argv, cwd=spec.cwd, resume=resume)
        driver: Driver = ClaudeStreamDriver(QUICK)
        agent = await driver.spawn(spec, SPAWN)
        seen: list[Observation] = []
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                async for one in agent.observations():
                    seen.append(one)
                    await react(agent, one)
        finally:
            await agent.stop()
        return seen

    return asyncio.run(story())


def the(kind: type[Seen], seen: list[Observation]) -> Seen:
    (one,) = [each for each in seen if isinstance(each, kind)]
    return one


# Starting


def test_the_mode_comes_behind_what_the_user_gave_which_may_begin_with_a_launcher() -> None:
    spec = AgentSpec(
        agent="a",
        driver="claude-stream",
        argv=("/opt/claude", "--allowedTools", "Bash"),
        model="opus",
        resume="s",
        options={"permission_mode": "manual", "max_rounds": 3},
    )
    assert command_line(spec) == (
        "/opt/claude", "--allowedTools", "Bash", "-p", "--verbose", "--input-format", "stream-json",
        "--output-format", "stream-json", "--include-partial-messages", "--permission-prompt-tool", "stdio",
        "--permission-mode", "manual", "--max-turns", "3", "--model", "opus", "--resume", "s",
    )  # fmt: skip
    assert command_line(AgentSpec(agent="a", driver="claude-stream"))[0] == "claude"


@each_row(
    ("argv", "options"),
    [
        (("claude", "--output-format=text"), {}),
        (("claude", "-r", "x"), {}),
        ((), {"colour": "red"}),
        ((), {"permission_mode": 7}),
        ((), {"max_rounds": 0}),
        ((), {"max_rounds": True}),
    ],
)
def test_what_the_driver_cannot_honour_is_refused(argv: tuple[str, ...], options: dict[str, Json]) -> None:
    with pytest.raises(UsageError):
        command_line(AgentSpec(agent="a", driver="claude-stream", argv=argv, options=options))


def test_a_program_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    spec = AgentSpec(agent="a", driver="claude-stream", argv=(str(tmp_path / "no"),), cwd=str(tmp_path))
    with pytest.raises(UsageError):
        asyncio.run(ClaudeStreamDriver().spawn(spec, SPAWN))


def test_the_driver_says_what_it_is() -> None:
    driver: Driver = ClaudeStreamDriver()
    assert (driver.name, driver.kind) == ("claude-stream", DriverKind.STREAM)
    assert driver.capabilities.reports_approvals
    assert not driver.capabilities.outlives_runtime


def test_a_claude_that_runs_in_another_is_not_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\necho "nested:$CLAUDECODE spawn:$INTERLOCK_SPAWN_ID"\n')
    program.chmod(0o755)

    async def story() -> list[Observation]:
        spec = AgentSpec(agent="a", driver="claude-stream", argv=(str(program),), cwd=str(tmp_path))
        agent = await ClaudeStreamDriver(QUICK).spawn(spec, SPAWN)
        seen = [one async for one in agent.observations()]
        await agent.stop()
        return seen

    assert Traced(raw=f"nested: spawn:{SPAWN}") in asyncio.run(story())


# A turn


def test_a_turn_from_ready_to_exit(tmp_path: Path) -> None:
    init: Json = {"type": "system", "subtype": "init", "session_id": "s"}
    turn: list[Json] = [["hear", "user"], ["say", STARTED], ["say", init], ["say", TEXT], ["say", RESULT], ["exit", 0]]
    seen = run(tmp_path, [*READY, *turn])
    assert [type(one) for one in seen] == [BecameReady, PromptReached, SessionNamed, MessageEnded, TurnEnded, Exited]
    assert seen[-1] == Exited(code=0)
    prompt = heard_by(tmp_path)[-1]
    assert prompt["message"] == {"role": "user", "content": "Grüße"}
    assert prompt["uuid"] == prompt_uuid(PROMPT.prompt_id)


def test_a_second_prompt_waits_for_the_first_to_end(tmp_path: Path) -> None:
    refused: list[NotDelivered] = []

    async def react(agent: AgentHandle, seen: Observation) -> None:
        await submit_when_ready(agent, seen)
        if isinstance(seen, MessageEnded):
            with pytest.raises(NotDelivered) as caught:
                await agent.submit(PROMPT)
            refused.append(caught.value)
        if isinstance(seen, TurnEnded) and seen.ending is TurnEnding.NATURAL:
            await agent.submit(PROMPT)

    turn: list[Json] = [["hear", "user"], ["say", TEXT], ["say", RESULT]]
    seen = run(tmp_path, [*READY, *turn, ["hear", "user"], ["exit", 0]], react)
    assert len(refused) == 1
    assert [one.ending for one in seen if isinstance(one, TurnEnded)] == [TurnEnding.NATURAL, TurnEnding.SILENT]


# Deaths


def test_a_death_in_mid_turn_is_silence_and_then_the_exit(tmp_path: Path) -> None:
    seen = run(tmp_path, [*READY, ["hear", "user"], ["say", STARTED], ["say", TEXT], ["die"]])
    assert [type(one) for one in seen[-2:]] == [TurnEnded, Exited]
    assert the(TurnEnded, seen).ending is TurnEnding.SILENT
    assert the(Exited, seen).signal == 9


def test_a_death_in_mid_line_keeps_what_came_before(tmp_path: Path) -> None:
    seen = run(
        tmp_path, [*READY, ["hear", "user"], ["say", TEXT], ["raw", '{"type":"result","subtype":"succ'], ["die"]]
    )
    assert [type(one) for one in seen[-5:]] == [MessageEnded, Warned, Traced, TurnEnded, Exited]
    assert the(TurnEnded, seen).ending is TurnEnding.SILENT


def test_a_result_whose_line_has_no_end_still_counts(tmp_path: Path) -> None:
    bare = '{"type":"result","subtype":"success","is_error":false,"result":"Hi."}'
    seen = run(tmp_path, [*READY, ["hear", "user"], ["raw", bare], ["exit", 0]])
    assert the(TurnEnded, seen).ending is TurnEnding.NATURAL


def test_a_silent_end_between_turns_is_only_an_exit(tmp_path: Path) -> None:
    seen = run(tmp_path, [*READY, ["complain", "good bye\n"], ["exit", 4]], _nothing)
    assert seen == [BecameReady(), Exited(code=4, stderr_tail="good bye\n")]


def test_output_that_ends_before_the_process_is_a_lost_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.agents.streams.claude.driver._EXIT_AFTER_OUTPUT_SECONDS", 0.1)

    async def react(agent: AgentHandle, seen: Observation) -> None:
        await submit_when_ready(agent, seen)
        if isinstance(seen, ChannelLost):
            await agent.stop()

    seen = run(tmp_path, [*READY, ["hear", "user"], ["close"], ["sleep"]], react)
    assert [type(one) for one in seen] == [BecameReady, TurnEnded, ChannelLost, Exited]


def test_a_session_that_is_not_there_is_a_stale_resume(tmp_path: Path) -> None:
    gone: list[Json] = [["complain", "No conversation found with session ID: s\n"], ["exit", 1]]
    assert the(Exited, run(tmp_path, gone, resume="s")).is_stale_resume
    # Nobody asked for that session: then these are just words.
    assert not the(Exited, run(tmp_path, gone)).is_stale_resume


# Bytes


def test_characters_that_are_cut_in_two_arrive_whole(tmp_path: Path) -> None:
    frame = '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Grüße 👋"}]}}\n'
    steps: list[Json] = [["raw", piece] for piece in frame.encode().decode("latin-1")]
    seen = run(tmp_path, [*READY, *steps, ["exit", 0]], _nothing)
    assert the(MessageEnded, seen).text == "Grüße 👋"


def test_standard_error_between_the_lines_does_no_harm(tmp_path: Path) -> None:
    noisy: list[Json] = [["complain", "warning\n"], ["raw", '{"type":"assistant","message":'], ["complain", "more\n"]]
    rest: list[Json] = [["raw", '{"id":"m","content":"Hi."}}\nnot json at all\n'], ["say", RESULT], ["exit", 0]]
    seen = run(tmp_path, [*READY, ["hear", "user"], *noisy, *rest])
    assert the(MessageEnded, seen).text == "Hi."
    assert Traced(raw="not json at all") in seen
    assert the(TurnEnded, seen).ending is TurnEnding.NATURAL
    assert the(Exited, seen).stderr_tail == "warning\nmore\n"


# Questions and interrupts


def test_a_decision_is_given_once_and_its_reading_is_proven(tmp_path: Path) -> None:
    async def react(agent: AgentHandle, seen: Observation) -> None:
        await submit_when_ready(agent, seen)
        if isinstance(seen, ApprovalAsked):
            await agent.decide(Decision(request_id="q", is_allowed=True))
            with pytest.raises(NotDelivered):
                await agent.decide(Decision(request_id="q", is_allowed=False))

    reply: Json = {"type": "control_response", "response": {"subtype": "success", "request_id": "$ID"}}
    turn: list[Json] = [["hear", "user"], ["say", ASK], ["hear", "control_request"], ["say", reply], ["exit", 0]]
    seen = run(tmp_path, [*READY, *turn], react)
    assert the(ApprovalGone, seen) == ApprovalGone(request_id="q")
    answers = [one["response"] for one in heard_by(tmp_path) if one["type"] == "control_response"]
    body: Json = {"behavior": "allow", "updatedInput": {"command": "ls"}}
    assert answers == [{"subtype": "success", "request_id": "q", "response": body}]


def test_a_decision_on_no_open_question_is_not_delivered(tmp_path: Path) -> None:
    async def react(agent: AgentHandle, seen: Observation) -> None:
        if isinstance(seen, BecameReady):
            with pytest.raises(NotDelivered):
                await agent.decide(Decision(request_id="q", is_allowed=True))

    run(tmp_path, [*READY, ["exit", 0]], react)


def test_what_nobody_can_answer_is_refused(tmp_path: Path) -> None:
    hook: Json = {"type": "control_request", "request_id": "h", "request": {"subtype": "hook_callback"}}
    seen = run(tmp_path, [*READY, ["say", hook], ["hear", "control_response"], ["exit", 0]], _nothing)
    assert the(Warned, seen).kind == "unanswerable_request"
    refusal = heard_by(tmp_path)[-1]["response"]
    assert isinstance(refusal, dict)
    assert (refusal["subtype"], refusal["request_id"]) == ("error", "h")


def test_an_interrupt_is_asked_for_and_a_refusal_of_it_is_told(tmp_path: Path) -> None:
    async def react(agent: AgentHandle, seen: Observation) -> None:
        await submit_when_ready(agent, seen)
        if isinstance(seen, MessageEnded):
            await agent.interrupt()

    no: Json = {"type": "control_response", "response": {"subtype": "error", "request_id": "$ID", "error": "busy"}}
    turn: list[Json] = [["hear", "user"], ["say", TEXT], ["hear", "control_request"], ["say", no], ["exit", 0]]
    seen = run(tmp_path, [*READY, *turn], react)
    assert the(Warned, seen) == Warned(kind="request_refused", message="interlock:interrupt:1: busy")
    assert heard_by(tmp_path)[-1]["request"] == {"subtype": "interrupt"}


# Stopping


def test_commands_to_a_dead_agent_are_not_delivered(tmp_path: Path) -> None:
    async def react(agent: AgentHandle, seen: Observation) -> None:
        if isinstance(seen, Exited):
            for command in (agent.submit(PROMPT), agent.interrupt()):
                with pytest.raises(NotDelivered):
                    await command

    assert the(Exited, run(tmp_path, [*READY, ["exit", 0]], react)).code == 0


def test_a_stop_ends_the_stream_and_may_be_given_twice(tmp_path: Path) -> None:
    async def react(agent: AgentHandle, seen: Observation) -> None:
        await submit_when_ready(agent, seen)
        if isinstance(seen, MessageEnded):
            first, second = await asyncio.gather(agent.stop(), agent.stop())
            assert first == second
            assert not first.survivors

    seen = run(tmp_path, [*READY, ["hear", "user"], ["say", TEXT], ["sleep"]], react)
    assert [type(one) for one in seen[-2:]] == [TurnEnded, Exited]


def test_a_spawn_that_is_cancelled_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_fake(tmp_path, [["sleep"]])

    async def never(self: object, data: bytes) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("interlock.agents.streams.claude.driver.ChildProcess.write", never)

    async def story() -> None:
        spec = AgentSpec(agent="a", driver="claude-stream", argv=(str(path),), cwd=str(tmp_path))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await ClaudeStreamDriver(QUICK).spawn(spec, SPAWN)

    asyncio.run(story())
    assert not _processes_named(str(path))


def test_a_reader_that_is_cancelled_leaves_the_agent_to_stop(tmp_path: Path) -> None:
    async def story() -> None:
        argv = (str(make_fake(tmp_path, [*READY, ["sleep"]])),)
        agent = await ClaudeStreamDriver(QUICK).spawn(
            AgentSpec(agent="a", driver="claude-stream", argv=argv, cwd=str(tmp_path)), SPAWN
        )
        ready = asyncio.Event()

        async def read() -> None:
            async for _ in agent.observations():
                ready.set()

        reading = asyncio.create_task(read())
        await ready.wait()
        reading.cancel()
        await asyncio.wait((reading,))
        report = await agent.stop()
        assert not report.survivors
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())


def test_a_deluge_of_text_is_not_dropped(tmp_path: Path) -> None:
    piece: Json = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}
    steps: list[Json] = [["say", {"type": "stream_event", "event": piece}]] * 5000
    seen = run(tmp_path, [*READY, *steps, ["exit", 0]], _nothing)
    assert sum(isinstance(one, TextArrived) for one in seen) == 5000


def _processes_named(path: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.encode() in entry.read_bytes():
                found.append(entry.parent.name)
    return found
