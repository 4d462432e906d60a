"""The built-in tools inside the loop: rules, the write policy, and processes that end with what started them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from interlock.agents.model import ModelDriver
from interlock.agents.model.calls import ModelAnswer, RequestedCall
from interlock.agents.model.driver import ModelHandle
from interlock.agents.observations import ApprovalAsked, Observation, ToolCalled, ToolReturned, TurnEnded, TurnEnding
from interlock.agents.port import Decision, Prompt
from interlock.agents.processes.identity import identity_of
from interlock.lifecycle.decisions.permissions import remember
from interlock.vocabulary.events.audit import PermissionBehavior
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.ids import PromptId, TurnId
from tests.agents.model.harness import PlayedModel, Reader, calls, ended, of, spawn, spec


def play(root: Path, *, permissions: Json, write_policy: Json, path: str) -> list[Observation]:
    """One call of `write`; a question about it is answered with yes."""

    async def run() -> list[Observation]:
        call = RequestedCall(call_id="c", name="write", args={"path": path, "text": "x"})
        model = PlayedModel([ModelAnswer(calls=(call,))])
        wanted = spec(str(root), permissions=permissions, options={"write_policy": write_policy})
        handle = await spawn(wanted, ModelDriver(caller=model))

        async def react(seen: Observation) -> None:
            if isinstance(seen, ApprovalAsked):
                await handle.decide(Decision(request_id=seen.request_id, is_allowed=True))

        told = await Reader(handle).turn("go", react=react)
        await handle.stop()
        return told

    told = asyncio.run(run())
    assert ended(told).ending is TurnEnding.NATURAL
    return told


def kinds(told: list[Observation]) -> list[str]:
    return [one.error.kind for one in of(told, ToolReturned) if one.error is not None]


def test_both_the_rules_and_the_write_policy_must_allow_a_write(tmp_path: Path) -> None:
    denied = play(tmp_path, permissions=["allow *"], write_policy=["deny *.env"], path="sub/../x.env")
    assert kinds(denied) == ["rule_denied"]
    assert of(denied, ApprovalAsked) == []
    assert not (tmp_path / "x.env").exists()

    asked = play(tmp_path, permissions=["allow *"], write_policy=["ask conf/*"], path="./conf/a")
    assert [one.args for one in of(asked, ApprovalAsked)] == [{"path": "conf/a", "text": "x"}]
    assert (tmp_path / "conf/a").read_text() == "x"

    ruled = play(tmp_path, permissions=["deny write(path=b)"], write_policy=["allow *"], path="conf/../b")
    assert kinds(ruled) == ["rule_denied"]
    assert not (tmp_path / "b").exists()


def run_shell(root: Path, command: str, then: Callable[[ModelHandle, Reader], object]) -> list[Observation]:
    """A turn whose only call is this command; `then` acts once the command has written its number to `pid`."""

    async def run() -> list[Observation]:
        model = PlayedModel([calls("shell", command=command)])
        exactly = str(remember(PermissionBehavior.ALLOW, "shell", {"command": command}))
        handle = await spawn(spec(str(root), permissions=[exactly]), ModelDriver(caller=model))
        reader = Reader(handle)
        await handle.submit(Prompt(prompt_id=PromptId("p"), turn_id=TurnId("t"), text="go"))
        told = await reader.until(ToolCalled)
        reading = asyncio.create_task(reader.until(TurnEnded))
        async with asyncio.timeout(100):
            while not (root / "pid").exists() or not (root / "pid").read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        then(handle, reader)
        told += await reading
        await handle.stop()
        return told

    return asyncio.run(run())


def test_an_interrupt_ends_the_command_that_runs(tmp_path: Path) -> None:
    interrupts: list[asyncio.Task[None]] = []
    told = run_shell(
        tmp_path,
        "echo $$ > pid; while :; do sleep 1; done",
        lambda handle, _: interrupts.append(asyncio.get_running_loop().create_task(handle.interrupt())),
    )
    assert ended(told).ending is TurnEnding.INTERRUPTED
    error = of(told, ToolReturned)[0].error
    assert error is not None
    assert error.kind == "run_cancelled"
    assert identity_of(int((tmp_path / "pid").read_text())) is None


def test_a_daemon_that_a_command_left_is_ended_with_the_agent(tmp_path: Path) -> None:
    daemon = "setsid sh -c 'echo $$ > pid; exec sleep 300' > /dev/null 2>&1 &"
    told = run_shell(tmp_path, daemon, lambda *_: None)
    assert ended(told).ending is TurnEnding.NATURAL
    assert identity_of(int((tmp_path / "pid").read_text())) is None


def test_a_shell_is_never_offered_to_be_allowed_from_now_on(tmp_path: Path) -> None:
    async def run() -> ApprovalAsked:
        model = PlayedModel([calls("shell", command="ls")])
        handle = await spawn(spec(str(tmp_path)), ModelDriver(caller=model))
        reader = Reader(handle)
        await handle.submit(Prompt(prompt_id=PromptId("p"), turn_id=TurnId("t"), text="go"))
        (asked,) = of(await reader.until(ApprovalAsked), ApprovalAsked)
        await handle.stop()
        return asked

    asked = asyncio.run(run())
    assert [option.kind.value for option in asked.options] == ["allow_once", "reject_once"]
