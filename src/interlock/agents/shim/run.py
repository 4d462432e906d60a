"""One life of the shim: start the program, carry until it ends, put everything back."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from interlock.agents.shim.child import spawn
from interlock.agents.shim.pump import HANDLED, Pump
from interlock.agents.shim.report import Reporter
from interlock.agents.shim.terminal import USUAL_SIZE, OuterTerminal, open_standard_streams


def run_shim(command: Sequence[str], *, status_socket: str = "", status_file: str = "") -> int:
    """Run `command` between our terminal and one of its own, and return its wait status.

    The terminal's modes are back on every way out. Signals stay caught: the caller is about to end as well. Raises
    NotStarted if the command cannot be run, and UsageError if the status file cannot be written; a status socket that
    nobody listens on is no error.
    """
    open_standard_streams()
    reporter = Reporter(status_socket, status_file)
    outer = OuterTerminal()
    signals = _catch_signals()
    # A signal that comes while there are two of us, or no program yet, waits until both are what they will be.
    already_blocked = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        child = spawn(command, outer.attributes(), outer.size() or USUAL_SIZE, set(HANDLED) - already_blocked)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, already_blocked)
    with outer.raw():
        reporter.started(child.pid)
        status = Pump(child, outer, signals, reporter).run()
    reporter.exited(status)
    return status


def _catch_signals() -> int:
    """Give a descriptor that tells every signal from now on, by its number, as a byte.

    What our starter ignores (`nohup`, a job in the background of a script) stays ignored, for the program as well.
    """
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in HANDLED:
        if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _note)
    return readable


def _note(number: int, frame: object) -> None:
    """Does nothing: that it is set makes the interpreter write the number to the pipe."""
