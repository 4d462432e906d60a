"""`interlock debug inspect`: what runs in a pane that somebody else started, and nothing is changed in it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.agents.tmux.harness import Stage, shows, stage, text_of
from tests.cli.harness import COMMAND, interlock
from tests.contract.harness import run

AGENT: Final = (sys.executable, "-m", "interlock.testing.scripted_agent")


async def adopted(on: Stage, *more: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(interlock, "debug", "inspect", on.pane.pane_id, "--socket", on.server.socket, *more)


async def submitted(on: Stage, prompt: str, shown: str) -> None:
    await shows(on.pane, "enter to submit")
    await on.pane.send_text(prompt)
    await shows(on.pane, f"> {prompt}")
    await on.pane.send_keys("Enter")
    await shows(on.pane, shown)


@pytest.mark.parametrize(
    ("prompt", "shown", "state", "code"),
    [
        ("", "enter to submit", "idle", 0),
        ("hang", "esc to interrupt", "working", 0),
        ("ask May I?", "enter to confirm", "awaiting_operator", 6),
    ],
)
def test_it_says_how_an_agent_stands(prompt: str, shown: str, state: str, code: int) -> None:
    async def main() -> None:
        async with stage(*AGENT) as on:
            if prompt:
                await submitted(on, prompt, shown)
            before = await shows(on.pane, shown)
            done = await adopted(on, "--json")
            assert done.returncode == code, done.stderr
            (line,) = done.stdout.splitlines()
            told = json.loads(line)
            assert (told["cli"], told["profile"], told["pane"]) == ("scripted", "scripted-1", on.pane.pane_id)
            assert told["pid"] == before.pid
            verdict = told["verdict"]
            assert verdict["business_state"] == state
            if state == "awaiting_operator":
                assert (verdict["attention"], verdict["kind"]) == ("approval", "approval")
                assert [option["text"] for option in verdict["options"]] == ["Yes, do it", "No, and stop"]
            assert (await on.pane.capture()).pid == before.pid

    run(main())


def test_what_nobody_knows_is_unknown_and_never_idle() -> None:
    async def main() -> None:
        async with stage("sh", "-c", "printf 'no agent at all'; exec sleep 600") as on:
            await shows(on.pane, "no agent")
            done = await adopted(on, "--json")
            assert done.returncode == 7
            told = json.loads(done.stdout)
            assert (told["cli"], told["selection"]) == ("generic", "version_unknown")
            assert told["verdict"]["business_state"] == "unknown"
            assert text_of(await on.pane.capture()).startswith("no agent at all")

    run(main())


def test_a_pane_that_is_not_there_is_unreachable() -> None:
    async def main() -> None:
        async with stage() as on:
            done = await asyncio.to_thread(interlock, "debug", "inspect", "%99", "--socket", on.server.socket)
            assert (done.returncode, done.stdout) == (8, "")
            assert "%99" in done.stderr

    run(main())


def test_a_server_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    done = interlock("debug", "inspect", "--socket", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (8, "")


def test_for_a_person_it_names_the_tool_and_the_rule() -> None:
    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, "enter to submit")
            done = await adopted(on)
            assert done.returncode == 0
            assert "Scripted agent" in done.stdout
            assert "scripted-1" in done.stdout
            assert "    0.000  quiet  (composer.ready)" in done.stdout  # since the first look, not since the boot

    run(main())


def test_it_follows_until_ctrl_c_and_the_agent_lives_on() -> None:
    async def main() -> None:
        async with stage(*AGENT) as on:
            await shows(on.pane, "enter to submit")
            command = (
                *COMMAND,
                "debug",
                "inspect",
                on.pane.pane_id,
                "--socket",
                on.server.socket,
                "--follow",
                "--json",
            )
            following = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ
            )
            try:
                assert following.stdout is not None
                assert json.loads(await following.stdout.readline())["verdict"]["business_state"] == "idle"
                await submitted(on, "hang", "esc to interrupt")
                while json.loads(await following.stdout.readline())["business_state"] != "working":
                    pass
                following.send_signal(signal.SIGINT)
                _, said = await following.communicate()
                assert following.returncode == 4
                assert b"Traceback" not in said
            finally:
                if following.returncode is None:
                    following.kill()
                    await following.wait()
            assert not (await on.pane.capture()).snapshot.is_dead

    run(main())
