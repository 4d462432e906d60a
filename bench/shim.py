"""What the shim costs: throughput, the echo of a key, and the start. `make bench` runs this.

Each figure stands beside the same program on the same pseudo-terminal without the shim, in the same run and taken in
turns. The start stands beside `python -c pass`: the interpreter itself is not ours to make faster.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Final

ROUNDS: Final = 5
KEYS: Final = 300
STARTS: Final = 25
FLOOD_BYTES: Final = 40_000_000
SHIM: Final = (sys.executable, "-m", "interlock.cli", "shim", "--")
LOGIN: Final = "import os, sys; os.login_tty(int(sys.argv[1])); os.execvp(sys.argv[2], sys.argv[2:])"
FLOOD: Final = ("sh", "-c", f"echo GO; head -c {FLOOD_BYTES} /dev/zero; read x")
# As for a user, whose second start finds compiled modules, whatever this environment says about writing them.
ENVIRONMENT: Final = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
# Raw, and answers each key with the same byte: the least that a full-screen program does.
ECHO: Final = (
    sys.executable,
    "-c",
    "import os, tty; tty.setraw(0); os.write(1, b'GO')\nwhile (key := os.read(0, 1)) != b'q': os.write(1, key)",
)


class Screen:
    """A program on a new pseudo-terminal."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen((sys.executable, "-c", LOGIN, str(slave), *command), pass_fds=[slave])
        os.close(slave)
        seen = b""
        while b"GO" not in seen:
            seen += os.read(self.master, 1)

    def close(self) -> None:
        os.close(self.master)
        self.process.wait(10)


def megabytes_a_second(command: tuple[str, ...]) -> float:
    screen = Screen(command)
    begun, left = time.perf_counter(), FLOOD_BYTES
    while left > 0:
        left -= len(os.read(screen.master, 65536))
    took = time.perf_counter() - begun
    screen.close()
    return FLOOD_BYTES / took / 1e6


def echo_seconds(command: tuple[str, ...]) -> list[float]:
    screen, took = Screen(command), []
    for _ in range(KEYS):
        begun = time.perf_counter()
        os.write(screen.master, b"k")
        select.select([screen.master], [], [], 10)
        os.read(screen.master, 1)
        took.append(time.perf_counter() - begun)
    screen.close()
    return took


def start_seconds(command: tuple[str, ...]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
    return time.perf_counter() - begun


def in_turns(work: Callable[[tuple[str, ...]], float], *commands: tuple[str, ...], rounds: int) -> list[float]:
    """The median of each, taken in turns so that a noisy moment hits all of them."""
    taken = [[work(command) for command in commands] for _ in range(rounds)]
    return [median(column) for column in zip(*taken, strict=True)]


def main() -> None:
    with_shim, without = in_turns(megabytes_a_second, (*SHIM, *FLOOD), FLOOD, rounds=ROUNDS)
    print(f"flood of output   {with_shim:8.0f} MB/s   without {without:8.0f} MB/s   ratio {with_shim / without:.2f}")
    with_shim, without = in_turns(lambda one: median(echo_seconds(one)), (*SHIM, *ECHO), ECHO, rounds=ROUNDS)
    late = quantiles(echo_seconds((*SHIM, *ECHO)), n=20)[-1]
    print(
        f"echo of a key     {with_shim * 1e6:8.0f} us     without {without * 1e6:8.0f} us     "
        f"ratio {with_shim / without:.2f}   p95 with {late * 1e6:.0f} us"
    )
    with tempfile.TemporaryDirectory() as compiled:
        ENVIRONMENT["PYTHONPYCACHEPREFIX"] = compiled
        tell_start()


def tell_start() -> None:
    bare = (sys.executable, "-c", "pass")
    shim, python, true = in_turns(start_seconds, (*SHIM, "true"), bare, ("true",), rounds=STARTS)
    print(
        f"start and end     {shim * 1e3:8.1f} ms     python -c pass {python * 1e3:.1f} ms     "
        f"ratio {shim / python:.2f}   true alone {true * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
