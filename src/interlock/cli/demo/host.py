"""The process that serves `interlock demo`: `python -m interlock.cli.demo.host FOLDER`.

Laws:
1. It lives as long as somebody holds its standard input. Whatever becomes of the demo, also by SIGKILL, that ends.
2. At its end every agent is stopped, its tmux server too, and the folder is gone.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.drivers import TERMINAL, builtin_drivers
from interlock.agents.tmux.server import TmuxServer
from interlock.cli.demo.cast import STREAM
from interlock.cli.demo.server import home_of
from interlock.cli.server.api import ServerApi
from interlock.cli.wire.routes import TASKS, task_path
from interlock.server.serving import ServerFile, Setup, serve
from interlock.server.settings import ServerSettings
from interlock.vocabulary.errors import InterlockError

_TMUX_SECONDS: Final = 5.0


def main(folder: Path) -> int:
    """Serve until standard input ends, then leave nothing."""
    home = home_of(folder)
    home.mkdir(mode=0o700)
    setup = Setup(home=home, settings=ServerSettings(), drivers=builtin_drivers(home, (STREAM, TERMINAL)))
    signal.signal(signal.SIGTERM, _leave)  # until the server hears signals by itself
    try:
        threading.Thread(target=_end_with_input, args=(home,), daemon=True).start()
        return asyncio.run(serve(setup, _tell))
    finally:
        _end_tmux(home)
        shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _tell(told: ServerFile) -> None:
    sys.stdout.write(msgspec.json.encode({"url": told.url, "pid": told.pid}).decode() + "\n")
    sys.stdout.flush()


def _end_with_input(home: Path) -> None:
    while os.read(0, 4096):
        pass
    with suppress(InterlockError):
        _stop_agents(home)
    os.kill(os.getpid(), signal.SIGTERM)


def _stop_agents(home: Path) -> None:
    """Those in tmux would outlive a server that ends: that is what it is for. All at once, as each takes a while."""
    api = ServerApi.of_home(home)
    paths = [f"{task_path(task['task_id'])}/stop" for task in api.items(TASKS) if task.get("driver") == TERMINAL]
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(_stop_agent, api), paths))


def _stop_agent(api: ServerApi, path: str) -> None:
    with suppress(InterlockError):
        api.ask("POST", path)


def _end_tmux(home: Path) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            TmuxServer.of_home(home).argv("kill-server"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TMUX_SECONDS,
            check=False,
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
