"""What the everyday commands cost to type: from Enter to the prompt, against `python -c pass`. `make bench` runs this.

The server runs, with as many sessions as a busy person has; the interpreter itself is not ours to make faster. Budget:
every command that only looks takes at most six times the bare interpreter. Taken in turns, so that a noisy moment hits
all of them. `why` ends with the code of
a turn, and the sessions here have none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from interlock.cli.server.api import ServerApi
from interlock.cli.server.process import start_server

ROUNDS: Final = 15
SESSIONS: Final = 20
BUDGET: Final = 6.0
BARE: Final = (sys.executable, "-c", "pass")
INTERLOCK: Final = (sys.executable, "-m", "interlock.cli")
COMMANDS: Final = (
    ("ps",),
    ("ps", "--json"),
    ("ps", "--home", "HOME"),
    ("status",),
    ("statusline",),
    ("spawns",),
    ("usage",),
    ("show", "SESSION"),
    ("logs", "SESSION"),
    ("version",),
    ("--help",),
    ("why", "SESSION"),
)


def seconds(command: tuple[str, ...], environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    nowhere = subprocess.DEVNULL
    subprocess.run(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment, check="why" not in command)
    return time.perf_counter() - begun


def open_sessions(home: Path) -> str:
    """Sessions whose agent was never started: what is measured is the command, not an agent. The id of the last."""
    api = ServerApi.of_home(home)
    body = {"agent": "nobody", "driver": "claude-stream", "argv": ["true"], "cwd": str(home)}
    return [
        str(api.ask("POST", "/api/tasks", {**body, "title": f"Session {at}"})["task_id"]) for at in range(SESSIONS)
    ][-1]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="il-") as folder:
        home = Path(folder) / "home"
        # As for a user, whose second start finds compiled modules, whatever this environment says about writing them.
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"INTERLOCK_HOME": str(home), "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
        start_server(home)
        try:
            session = open_sessions(home)
            names = {"HOME": str(home), "SESSION": session}
            spelled = [(*INTERLOCK, *(names.get(word, word) for word in words)) for words in COMMANDS]
            tell([BARE, *spelled], environment)
        finally:
            subprocess.run((*INTERLOCK, "down", "--now"), env=environment, check=True, stderr=subprocess.DEVNULL)


def tell(commands: list[tuple[str, ...]], environment: dict[str, str]) -> None:
    for command in commands:
        seconds(command, environment)  # compiles
    taken = [[seconds(command, environment) for command in commands] for _ in range(ROUNDS)]
    bare, *ours = (median(column) for column in zip(*taken, strict=True))
    print(f"python -c pass                {bare * 1e3:8.1f} ms   with {SESSIONS} sessions on the board")
    for words, took in zip(COMMANDS, ours, strict=True):
        verdict = f"budget {BUDGET:g}: {'kept' if took / bare <= BUDGET else 'missed'}"
        print(f"interlock {' '.join(words):<20}{took * 1e3:8.1f} ms   ratio {took / bare:5.2f}   {verdict}")


if __name__ == "__main__":
    main()
