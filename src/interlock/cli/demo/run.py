"""How `interlock demo` is run and ended: a server first, what is heavy while it starts, then the story or the board."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Final

from interlock.cli import output
from interlock.cli.demo.server import private_server
from interlock.cli.exit_codes import ExitCode
from interlock.cli.signals import ended_by

_BOARD_SECONDS: Final = 8.0
_GO_ON: Final = """\
Nothing of this is left on the machine. To go on with your own agent CLI:
  {interlock} run claude "Fix the failing test"
  {interlock} top"""


def tell_story(*, has_tmux: bool, json: bool) -> int:
    """The narrated run; the exit code."""
    return _run(_tell(has_tmux=has_tmux, json=json))


def play(*, has_tmux: bool) -> int:
    """The board, until the person leaves it; the exit code."""
    return _run(_play(has_tmux=has_tmux))


def _run(work: Coroutine[None, None, int]) -> int:
    async def heard() -> int:
        with ended_by(signal.SIGTERM, signal.SIGHUP):
            return await work

    try:
        return asyncio.run(heard())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # the end that a signal asks for is the same as that of Ctrl-C
    except TimeoutError as late:
        output.error(output.escape(str(late)))
        return ExitCode.TIMED_OUT


async def _tell(*, has_tmux: bool, json: bool) -> int:
    output.note("starting a server and eight scripted agents; this takes some twenty seconds")
    async with private_server() as server:
        from interlock.cli.demo.acts import tell_acts  # a second, in which the server starts

        await server.ready()
        await tell_acts(server, has_tmux=has_tmux, json=json)
    if not json:
        output.print_text(_go_on())
    return ExitCode.COMPLETED


async def _play(*, has_tmux: bool) -> int:
    output.note("starting a server and eight scripted agents; q leaves the board and ends them")
    async with private_server() as server:
        from interlock.cli.demo.acts import play_acts

        await server.ready()
        acting = asyncio.create_task(play_acts(server, has_tmux=has_tmux))
        try:
            code = await _show_board(server.home)
        finally:
            acting.cancel()
            with suppress(OSError):  # whose terminal is closed hears nothing any more
                output.note("ending the agents and their server")
            await asyncio.gather(acting, return_exceptions=True)
    output.print_text(_go_on())
    return code


async def _show_board(home: Path) -> int:
    """`interlock top`, as a process of its own: it has the terminal, and we have the signals."""
    command = (sys.executable, "-P", "-m", "interlock.cli", "top", "--home", str(home))
    board = await asyncio.create_subprocess_exec(*command)
    try:
        return await board.wait()
    finally:
        if board.returncode is None:
            board.terminate()
            await asyncio.wait_for(board.wait(), _BOARD_SECONDS)


def _go_on() -> str:
    """What to type next, so that it works as it stands: `make demo` puts nothing on the path."""
    program = Path(sys.executable).with_name("interlock")
    is_near = shutil.which("interlock") is None and program.exists()
    return _GO_ON.format(interlock=os.path.relpath(program) if is_near else "interlock")
