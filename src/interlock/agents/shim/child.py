"""The program in the shim: started on a terminal of its own, signalled as a group, and known by its true end."""

from __future__ import annotations

import fcntl
import os
import signal
import termios
from collections.abc import Collection, Sequence
from errno import EACCES, EISDIR, ENOEXEC, EPERM
from typing import Final, NamedTuple, NoReturn

from interlock.agents.shim.terminal import Attributes
from interlock.vocabulary.errors import UsageError

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_REFUSED: Final = (EACCES, EISDIR, ENOEXEC, EPERM)


class NotStarted(UsageError):
    """The command could not be run. `exit_code` is the one that a shell gives: 127 not found, 126 not executable."""

    def __init__(self, command: str, errno: int) -> None:
        what = "is not executable" if errno in _REFUSED else "cannot be started"
        super().__init__(f"{command!r} {what} ({os.strerror(errno)})", remedy="name a program that is on the PATH")
        self.exit_code = NOT_EXECUTABLE if errno in _REFUSED else NOT_FOUND


class ShimChild(NamedTuple):
    """A running program: its process, which leads its session and group, and both sides of its terminal.

    We keep the program's side open as well: then its terminal lasts until the program ends, whatever it closes before.
    """

    pid: int
    master: int
    slave: int

    def signal_group(self, number: int) -> None:
        """Send a signal to the program and the group that it leads. A program that is already gone hears nothing."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def is_foreground(self) -> bool:
        """Whether the program's own group is in the foreground of its terminal. No where the kernel does not tell."""
        try:
            return os.tcgetpgrp(self.master) == self.pid
        except OSError:
            return False

    def hang_up(self) -> None:
        """Close the terminal, both sides: the kernel then sends SIGHUP, as when a window is closed."""
        os.close(self.master)
        os.close(self.slave)


def spawn(command: Sequence[str], attributes: Attributes | None, size: bytes, unblock: Collection[int]) -> ShimChild:
    """Start `command` on a new terminal of this size. Raises NotStarted if it cannot run.

    `attributes` are the modes that the terminal begins with; without them it has its own, and does not echo.
    """
    master, slave = os.openpty()
    termios.tcsetattr(slave, termios.TCSANOW, _without_echo(slave) if attributes is None else attributes)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
    # Closed by a successful exec; a failed one writes its errno first.
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(command, slave, tell, unblock)
    os.close(tell)
    with os.fdopen(told, "rb") as failure:
        errno = failure.read()
    if errno:
        os.waitpid(pid, 0)
        os.close(master)
        os.close(slave)
        raise NotStarted(command[0], int(errno))
    os.set_blocking(master, False)
    return ShimChild(pid, master, slave)


def _without_echo(slave: int) -> Attributes:
    """The modes of a new terminal, but for the echo: input that nobody types is not to be shown as if it were."""
    attributes: Attributes = termios.tcgetattr(slave)
    flags = attributes[3]
    assert isinstance(flags, int)
    attributes[3] = flags & ~termios.ECHO
    return attributes


def _become(command: Sequence[str], slave: int, tell: int, unblock: Collection[int]) -> NoReturn:
    """Turn this process, a fresh copy of the shim, into the program. Never returns, whatever happens."""
    try:
        signal.set_wakeup_fd(-1)  # the pipe is the shim's
        os.login_tty(slave)
        # Python ignores these two, and what is ignored stays so across an exec.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, unblock)
        os.execvp(command[0], list(command))
    except OSError as wrong:
        os.write(tell, str(wrong.errno).encode())
    finally:
        os._exit(NOT_FOUND)


def end_as(status: int) -> int:
    """Give this process the end that the wait status tells: die by the same signal, or return the exit code."""
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    import resource

    number = os.WTERMSIG(status)
    # The program has left its own core, if it was to leave one.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number
