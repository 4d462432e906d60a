"""`docs/how-to/watch-a-terminal-from-python.md`: its three programs are those of `examples/`, and do what is shown."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.agents.profiles import builtin_profiles
from interlock.agents.tmux.typing import type_prompt
from interlock.screen.selection import select_reader
from interlock.testing.scripted_agent import Gates, command
from tests.agents.tmux.harness import Stage, stage
from tests.contract.harness import run
from tests.docs.running import blocks, samples
from tests.docs.running import run as run_command

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs/how-to/watch-a-terminal-from-python.md").read_text(encoding="utf-8")
SHOWN = dict(samples(PAGE))
PANE, CLOCK, STREAM = "watch_pane.py", "virtual_clock.py", "reactive.py"
LINE_SECONDS = 90


def test_the_programs_of_the_page_are_those_of_the_examples() -> None:
    shown = {
        block.splitlines()[0].removeprefix("# examples/"): block.partition("\n")[2] for block in blocks(PAGE, "py")
    }
    assert list(shown) == [PANE, CLOCK, STREAM]
    for name, text in shown.items():
        program = (EXAMPLES / name).read_text(encoding="utf-8")
        assert program.partition('\n"""\n\n')[2] == text, name


@pytest.mark.parametrize("name", [CLOCK, STREAM])
def test_every_command_prints_what_is_shown(name: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    command_line = f"python examples/{name}"
    assert run_command(command_line, tmp_path) == SHOWN[command_line]


def test_the_pane_of_a_real_tmux_is_followed_as_it_is_shown(tmp_path: Path) -> None:
    expected = SHOWN["python examples/watch_pane.py work:0.0"].splitlines()
    first, ready, working, asks, _, done, ended = expected

    async def main() -> None:
        gates = Gates(tmp_path)
        async with stage(*command(gates=tmp_path)) as on, watching(on) as program:
            await on.start("sleep", "600")  # the person's own window: the server outlives the agent
            assert (await until(program, first.partition(": ")[2])).startswith(on.pane.pane_id)
            await until(program, ready)
            prompt = "gate one; ask Push to main?; gate two; say Pushed."
            await type_prompt(on.pane, prompt, select_reader(builtin_profiles(), "scripted").parse_snapshot)
            await until(program, working)
            gates.open("one")
            await until(program, asks)
            await on.pane.send_keys("Enter")
            await until(program, working)
            gates.open("two")
            await until(program, done)
            await on.pane.kill()
            await until(program, ended)
            async with asyncio.timeout(LINE_SECONDS):
                assert await program.wait() == 0

    run(main(), 280)


def test_a_pane_that_is_not_there_is_an_error_with_the_panes_that_are() -> None:
    async def main() -> None:
        async with stage(*command()) as on, watching(on, "nowhere:0.0") as program:
            assert program.stderr is not None
            async with asyncio.timeout(LINE_SECONDS):
                said = (await program.stderr.read()).decode()
                assert await program.wait() == 1
            assert said.startswith("there is no pane 'nowhere:0.0'")
            assert on.pane.pane_id in said

    run(main())


@asynccontextmanager
async def watching(on: Stage, target: str | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program as a person starts it in a window of that tmux."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", str(EXAMPLES / PANE), target or on.pane.pane_id),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TMUX": f"{on.server.socket},0,0"},
    )
    try:
        yield program
    finally:
        if program.returncode is None:
            program.kill()
        await program.communicate()


async def until(program: asyncio.subprocess.Process, line: str) -> str:
    """The next line of the program that ends so."""
    assert program.stdout is not None
    seen = []
    async with asyncio.timeout(LINE_SECONDS):
        async for printed in program.stdout:
            seen.append(printed.decode().removesuffix("\n"))
            if seen[-1].endswith(line):
                return seen[-1]
    raise AssertionError(f"it ended without {line!r}: {seen}")
