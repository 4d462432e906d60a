"""Commands: their output whole and bounded, their code, and nothing that stays behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from interlock.agents.model.tools.builtin import builtin_tools
from interlock.agents.model.tools.shell import MAX_OUTPUT_BYTES, Ran, run_command, shell_environment
from interlock.agents.model.tools.tool import Tool, run_tool, settle_arguments
from interlock.agents.model.tools.workspace import Workspace
from interlock.agents.processes.identity import identity_of
from tests.agents.model.harness import own_spawn_id


def run(command: str, cwd: Path, timeout_seconds: float = 20.0) -> Ran:
    return asyncio.run(
        run_command(
            command,
            cwd=str(cwd),
            environment=shell_environment({}),
            spawn_id=own_spawn_id(),
            timeout_seconds=timeout_seconds,
        )
    )


async def appears(path: Path) -> None:
    """Wait until a command has written a file."""
    async with asyncio.timeout(100):
        while not path.exists() or not path.read_text():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)


def is_gone(pid_file: Path) -> bool:
    return identity_of(int(pid_file.read_text())) is None


def test_both_outputs_come_in_order_with_blank_lines_and_the_code(tmp_path: Path) -> None:
    ran = run("echo one; echo; echo two >&2; pwd; exit 3", tmp_path)
    assert ran == Ran(code=3, output=f"one\n\ntwo\n{os.path.realpath(tmp_path)}\n")


def test_there_is_no_input_to_wait_for(tmp_path: Path) -> None:
    assert run("cat; echo done", tmp_path).output == "done\n"


def test_a_long_output_is_read_to_its_end_and_cut_in_the_middle(tmp_path: Path) -> None:
    ran = run("echo begin; yes | head -c 3000000; echo end", tmp_path)
    assert ran.code == 0
    assert ran.output.startswith("begin\n")
    assert ran.output.endswith("end\n")
    assert "bytes left out" in ran.output
    assert len(ran.output) < MAX_OUTPUT_BYTES + 100


def test_what_outlasts_its_time_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    ran = run("echo so far; sleep 300 & echo $! > child; echo $$ > me; wait", tmp_path, timeout_seconds=5.0)
    assert ran == Ran(code=None, output="so far\n")
    assert is_gone(tmp_path / "child")
    assert is_gone(tmp_path / "me")


def test_what_a_command_leaves_running_is_ended_and_holds_nothing_up(tmp_path: Path) -> None:
    ran = run("sleep 300 & echo $! > child; echo done", tmp_path)
    assert ran == Ran(code=0, output="done\n")
    assert is_gone(tmp_path / "child")


def test_a_cancelled_command_is_ended_before_the_cancellation_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        command = "trap '' INT TERM; echo $$ > me; while :; do sleep 1; done"
        running = asyncio.create_task(
            run_command(
                command,
                cwd=str(tmp_path),
                environment=shell_environment({}),
                spawn_id=own_spawn_id(),
                timeout_seconds=60,
            )
        )
        async with asyncio.timeout(100):
            while not (tmp_path / "me").exists() or not (tmp_path / "me").read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert is_gone(tmp_path / "me")

    asyncio.run(story())


def test_two_commands_of_one_agent_do_not_end_each_other(tmp_path: Path) -> None:
    async def story() -> Ran:
        spawn_id, environment = own_spawn_id(), shell_environment({})

        async def one(command: str) -> Ran:
            return await run_command(
                command, cwd=str(tmp_path), environment=environment, spawn_id=spawn_id, timeout_seconds=20
            )

        async with asyncio.TaskGroup() as group:
            waits = group.create_task(one("echo 1 > here; while [ ! -e go ]; do sleep 0.05; done; echo still here"))
            await appears(tmp_path / "here")
            await one("true")
            (tmp_path / "go").touch()
        return waits.result()

    assert asyncio.run(story()) == Ran(code=0, output="still here\n")


def test_secrets_of_ours_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("GH_TOKEN", "secret")
    monkeypatch.setenv("PLAIN_WORD", "word")
    seen = shell_environment({"OWN_TOKEN": "given on purpose"})
    assert "secret" not in seen.values()
    assert seen["PLAIN_WORD"] == "word"
    assert seen["OWN_TOKEN"] == "given on purpose"


def _shell(root: Path) -> Tool:
    made = builtin_tools(Workspace(str(root)), spawn_id=own_spawn_id(), environment=shell_environment({}))
    return next(tool for tool in made if tool.name == "shell")


def test_a_list_is_a_program_with_its_arguments_and_rules_see_one_line(tmp_path: Path) -> None:
    shell = _shell(tmp_path)
    arguments = settle_arguments(shell, {"command": ["echo", "a  b", "$HOME; ls"]})
    assert isinstance(arguments, dict)
    assert arguments["command"] == "echo 'a  b' '$HOME; ls'"
    assert asyncio.run(run_tool(shell, arguments)).output == "a  b $HOME; ls\n"


def test_a_failed_command_is_an_error_with_its_output(tmp_path: Path) -> None:
    outcome = asyncio.run(run_tool(_shell(tmp_path), {"command": "echo why; false"}))
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.output) == ("exit_code", "why\n")


def test_a_command_that_outlasts_its_own_time_says_so(tmp_path: Path) -> None:
    outcome = asyncio.run(run_tool(_shell(tmp_path), {"command": "echo x; sleep 60", "timeout_seconds": 5.0}))
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.output) == ("tool_timeout", "x\n")
