"""Gemini CLI and Qwen Code by ACP, with a scripted model behind them: what is told against what was scripted."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from interlock.agents.acp.driver import AcpDriver
from interlock.agents.observations import (
    ApprovalAsked,
    ApprovalGone,
    Exited,
    MessageEnded,
    Observation,
    SessionNamed,
    TextArrived,
    ThoughtArrived,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnEnding,
    UsageReported,
)
from interlock.agents.port import Decision, NotDelivered, StaleResume
from interlock.agents.processes.identity import is_alive
from interlock.testing.scripted_model import (
    Error,
    Gate,
    Received,
    RequestKind,
    RequestOutcome,
    ScriptedModel,
    Shell,
    Text,
    Think,
)
from interlock.vocabulary.ids import SpawnId
from tests.agents.acp.driving import Session
from tests.real.other_recipes import OtherCli, gemini, qwen

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

SCRIPTS: Final = {
    "hello": (Think("Somebody says hello."), Text("Hello", " there.")),
    "tool": (Text("I run it."), Shell("touch made.txt; echo made"), Text("It has run.")),
    "held": (Text("The first half"), Gate("held"), Text(", and the second.")),
    "again": (Text("The first half"), Gate("again"), Text(", and the second.")),
    "wrong": (Error(400, "a scripted error"),),
}
ARGUMENTS: Final = {"gemini": ("--acp",), "qwen": ("--acp", "--approval-mode", "default")}
LIMIT_SECONDS: Final = 120.0
Made: TypeAlias = Callable[[Path, str], OtherCli]
both: Final = pytest.mark.parametrize("made", [gemini, qwen], ids=["gemini", "qwen"])


def run(made: Made, root: Path, act: Callable[[Session, OtherCli, ScriptedModel], Awaitable[None]]) -> None:
    """Start the CLI, do something with it, and see that nothing is left of it."""

    async def whole(model: ScriptedModel) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            cli = made(root, model.url)
            session = await started(cli)
            try:
                await act(session, cli, model)
            finally:
                seen = await session.end()
            assert isinstance(seen[-1], Exited)
            report = await session.handle.stop()
            assert not report.survivors
            assert session.handle.process is not None
            assert not is_alive(session.handle.process)

    with ScriptedModel(SCRIPTS) as model:
        asyncio.run(whole(model))
        assert model.faults == ()


async def started(cli: OtherCli, *, resume: str = "") -> Session:
    spec = cli.spec("acp", *ARGUMENTS[cli.name], resume=resume)
    return Session(await AcpDriver().spawn(spec, SpawnId(f"spawn-{cli.name}")))


def texts(seen: list[Observation]) -> list[str]:
    return [one.text for one in seen if isinstance(one, MessageEnded)]


@both
def test_a_turn_is_told_as_it_was_scripted_and_an_error_ends_only_its_own(made: Made, tmp_path: Path) -> None:
    async def act(session: Session, cli: OtherCli, model: ScriptedModel) -> None:
        del cli, model
        seen = await session.turn("SCN:hello")
        assert texts(seen) == ["Hello there."]
        assert [one.text for one in seen if isinstance(one, TextArrived)] == ["Hello", " there."]
        assert "Somebody says hello." in "".join(one.text for one in seen if isinstance(one, ThoughtArrived))
        assert [one.input_tokens for one in seen if isinstance(one, UsageReported)] == [100]
        assert seen[-1] == TurnEnded(ending=TurnEnding.NATURAL)

        ended = (await session.turn("SCN:wrong"))[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.ending is TurnEnding.ERROR
        assert "a scripted error" in ended.error_message

        assert texts(await session.turn("SCN:hello")) == ["Hello there."]

    run(made, tmp_path, act)


@both
def test_a_tool_runs_once_it_is_allowed_and_not_when_it_is_refused(made: Made, tmp_path: Path) -> None:
    async def act(session: Session, cli: OtherCli, model: ScriptedModel) -> None:
        made_file, seen = cli.place.project / "made.txt", list[Observation]()
        for is_allowed in (False, True):
            await session.begin("SCN:tool")
            await session.until(ApprovalAsked)
            (asked,) = [one for one in session.seen if isinstance(one, ApprovalAsked)]
            (called,) = [one for one in session.seen if isinstance(one, ToolCalled)]
            assert asked.call_id == called.call_id
            assert "touch made.txt" in str(asked.args)
            assert not made_file.exists()
            await session.handle.decide(Decision(request_id=asked.request_id, is_allowed=is_allowed))
            seen = await session.rest()
            (returned,) = [one for one in seen if isinstance(one, ToolReturned)]
            assert returned.call_id == called.call_id
            assert (returned.error is None) == is_allowed
            assert ApprovalGone(request_id=asked.request_id) in seen
            assert made_file.exists() == is_allowed
        assert texts(seen) == ["I run it.", "It has run."]
        assert len([one for one in model.requests if one.script == "tool" and one.part == 0]) == 2

    run(made, tmp_path, act)


@both
def test_a_cancel_ends_the_turn_in_mid_answer_and_at_a_question_and_the_agent_goes_on(
    made: Made, tmp_path: Path
) -> None:
    async def act(session: Session, cli: OtherCli, model: ScriptedModel) -> None:
        await session.begin("SCN:held")
        await session.until(TextArrived)
        await session.handle.interrupt()
        seen = await session.rest()
        assert seen[-1] == TurnEnded(ending=TurnEnding.INTERRUPTED)
        assert texts(seen) == []
        await asyncio.to_thread(model.wait_requests, _has_dropped)

        await session.begin("SCN:tool")
        await session.until(ApprovalAsked)
        await session.handle.interrupt()
        seen = await session.rest()
        assert seen[-1] == TurnEnded(ending=TurnEnding.INTERRUPTED)
        assert [one.is_answered for one in seen if isinstance(one, ApprovalGone)] == [False]
        assert not (cli.place.project / "made.txt").exists()

        assert texts(await session.turn("SCN:hello")) == ["Hello there."]

    run(made, tmp_path, act)


def _has_dropped(requests: tuple[Received, ...]) -> bool:
    return any(one.outcome is RequestOutcome.DROPPED for one in requests)


@both
def test_a_killed_agent_ends_its_turn_without_a_word(made: Made, tmp_path: Path) -> None:
    async def act(session: Session, cli: OtherCli, model: ScriptedModel) -> None:
        del cli
        await session.begin("SCN:again")
        await session.until(TextArrived)
        assert session.handle.process is not None
        os.kill(session.handle.process.pid, signal.SIGKILL)
        await session.until(Exited)
        ended, exited = session.seen[-2:]
        assert ended == TurnEnded(ending=TurnEnding.SILENT)
        assert isinstance(exited, Exited)
        assert exited.signal == signal.SIGKILL
        with pytest.raises(NotDelivered):
            await session.handle.interrupt()
        assert [one.script for one in model.requests if one.kind is RequestKind.MAIN] == ["again"]

    run(made, tmp_path, act)


@both
def test_a_session_is_taken_up_again_and_one_that_never_was_is_stale(made: Made, tmp_path: Path) -> None:
    async def act(session: Session, cli: OtherCli, model: ScriptedModel) -> None:
        await session.until(SessionNamed)
        (named,) = [one for one in session.seen if isinstance(one, SessionNamed)]
        await session.turn("SCN:hello")
        await session.end()
        # Gemini CLI overwrites a session that is taken up in the very minute in which it began.
        for file in cli.place.home.glob(".gemini/tmp/*/chats/session-*.jsonl"):
            file.rename(file.with_name(re.sub(r"T\d\d-\d\d-", "T00-00-", file.name)))

        again = await started(cli, resume=named.native_session_id)
        try:
            seen = await again.turn("SCN:hello once more")
            assert texts(seen) == ["Hello there."]
            bodies = [one.body.decode() for one in model.requests if one.kind is RequestKind.MAIN]
            assert any(body.count("SCN:hello") >= 2 for body in bodies)
        finally:
            await again.end()

        with pytest.raises(StaleResume):
            await started(cli, resume="00000000-1111-4222-8333-444444444444")

    run(made, tmp_path, act)
