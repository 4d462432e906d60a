"""The server of `interlock demo`, as its parent sees it. Nothing heavy is imported: that is done while it starts.

Law: whatever ends the block ends the server, its agents and its folder. The wait for that is bounded; the server's own
process ends by itself once we are gone.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.vocabulary.errors import PeerFault, Unreachable

READY_SECONDS: Final = 40.0
END_SECONDS: Final = 25.0
_LONGEST_BASE: Final = 40
_SHORT_BASE: Final = Path("/tmp")


def home_of(folder: Path) -> Path:
    """Where the log of a demo is. The names are short, as paths of sockets may not be long."""
    return folder / "h"


def _words_of(folder: Path) -> Path:
    """What the server wrote to its standard error."""
    return folder / "stderr"


@dataclass(frozen=True, slots=True)
class PrivateServer:
    """A server that is starting, or runs, in a folder of its own."""

    folder: Path
    process: asyncio.subprocess.Process

    @property
    def home(self) -> Path:
        return home_of(self.folder)

    async def ready(self) -> None:
        """Wait until it accepts."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(READY_SECONDS):
                told = await self.process.stdout.readline()
        except TimeoutError as late:
            raise Unreachable(f"the server of the demo is not ready after {READY_SECONDS:g} s") from late
        if not told:
            said = _words_of(self.folder).read_text(errors="replace").strip().splitlines()
            raise PeerFault(f"the server of the demo did not start: {said[-1] if said else 'it said nothing'}")

    async def end(self) -> None:
        """End it, and see that its folder is gone."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@asynccontextmanager
async def private_server() -> AsyncIterator[PrivateServer]:
    """A server that begins to start, for the block; then it is gone."""
    folder = Path(tempfile.mkdtemp(prefix="ild-", dir=_base()))
    try:
        server = PrivateServer(folder, await _start(folder))
    except BaseException:  # also Ctrl-C: what does not run yet can remove nothing
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        yield server
    finally:
        await asyncio.shield(server.end())


async def _start(folder: Path) -> asyncio.subprocess.Process:
    with _words_of(folder).open("wb") as stderr:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "interlock.cli.demo.host", str(folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C is for us: we end it, in our order
        )


def _base() -> Path:
    """Paths of sockets may not be long: a short folder where the usual one is far down."""
    usual = Path(tempfile.gettempdir())
    is_long = len(os.fsencode(usual)) > _LONGEST_BASE
    return _SHORT_BASE if is_long and os.access(_SHORT_BASE, os.W_OK | os.X_OK) else usual
