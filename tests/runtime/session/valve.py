"""A program that passes its input on to another one, and closes its own standard input on SIGUSR1.

Standard library only. What it runs lives on and hears nothing more: nobody can deliver anything to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


class ClosedError(Exception):
    """The signal came."""


def close(*_: object) -> None:
    raise ClosedError


def main() -> int:
    agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
    assert agent.stdin is not None
    signal.signal(signal.SIGUSR1, close)
    try:
        while data := os.read(0, 1 << 16):
            agent.stdin.write(data)
            agent.stdin.flush()
        agent.stdin.close()
    except ClosedError:
        os.close(0)
    return agent.wait()


if __name__ == "__main__":
    os._exit(main())
