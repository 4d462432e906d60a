"""One life of the shim: start the program, carry bytes both ways until it ends, put everything back.

Laws: every byte of the program reaches the terminal unchanged and in order, and every key the program. At most
`LIMIT_BYTES` wait in either direction: who does not read stops the writer on the other side, and only that one.
The answer to a probe is written before the probe itself goes on to the terminal, whose own answers come later.
Every record is told with what is known of its origin.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
from collections.abc import Iterable, Sequence
from typing import Final

from interlock.agents.shim.child import ShimChild, spawn
from interlock.agents.shim.report import OriginWatch, Reporter
from interlock.agents.shim.terminal import STDIN, USUAL_SIZE, OuterTerminal, open_standard_streams
from interlock.agents.status_protocol import PROBE_REPLY, StatusScanner

LIMIT_BYTES: Final = 64 * 1024
# Linux gives at most 4 KB a read. A read that brings less has, nearly always, emptied the terminal.
READ_BYTES: Final = 4096
FORWARDED: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGTSTP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
HANDLED: Final = (*FORWARDED, signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH)
# What background jobs of the program still write after its end is not waited for beyond this.
_LAST_BYTES: Final = 1024 * 1024


class Pump:
    """Carries bytes and signals between a terminal and a program until the program ends."""

    __slots__ = (
        "_child",
        "_ended",
        "_is_typing",
        "_is_up",
        "_last_typed",
        "_origins",
        "_outer",
        "_reporter",
        "_scanner",
        "_signals",
        "_to_child",
        "_to_terminal",
    )

    def __init__(self, child: ShimChild, outer: OuterTerminal, signals: int, reporter: Reporter) -> None:
        self._child = child
        self._outer = outer
        self._signals = signals  # the descriptor that gives a byte for every signal, its number
        self._reporter = reporter
        self._scanner = StatusScanner()
        self._origins = OriginWatch()
        self._to_terminal = b""
        self._to_child = b""
        self._last_typed = b"\n"
        self._is_typing = True  # until the input ends
        self._is_up = True  # until the terminal is gone
        self._ended: int | None = None

    def run(self) -> int:
        """Carry until the program ends; return its wait status. All that it wrote before has then been passed on."""
        while self._ended is None:
            self._turn()
        self._pass_last_bytes()
        return self._ended

    def _turn(self) -> None:
        readers, writers = self._wanted()
        readable, writable, _ = select.select(readers, writers, [], self._reporter.pause_seconds())
        self._reporter.attend()
        if self._outer.output in writable:
            self._write_terminal()
        if self._is_up and self._child.master in writable:
            self._write_child()
        if self._is_up and self._child.master in readable:
            self._read_child()
        if self._is_up and STDIN in readable:
            self._read_keys()
        if self._signals in readable:
            self._heed(os.read(self._signals, LIMIT_BYTES))

    def _wanted(self) -> tuple[list[int], list[int]]:
        """What to wait for: a side is read only while what it gave before has gone on."""
        readers, writers = [self._signals], []
        listener = self._reporter.listening()
        if listener is not None:
            readers.append(listener)
            if self._reporter.waiting() is not None:
                writers.append(listener)
        if self._is_up:
            if self._to_terminal:
                writers.append(self._outer.output)
            else:
                readers.append(self._child.master)
            if self._to_child:
                writers.append(self._child.master)
            if self._is_typing and len(self._to_child) < LIMIT_BYTES:
                readers.append(STDIN)
        return readers, writers

    def _read_child(self) -> int:
        """Take up to `LIMIT_BYTES` from the program and pass them on. Returns how many there were."""
        pieces: list[bytes] = []
        for _ in range(LIMIT_BYTES // READ_BYTES):
            try:
                piece = os.read(self._child.master, READ_BYTES)
            except OSError:  # nothing there now, or nothing ever again: its end is told by SIGCHLD
                break
            pieces.append(piece)
            if len(piece) < READ_BYTES:
                break
        data = b"".join(pieces)
        for record in self._scanner.feed(data):
            # Before the reply: a program that has it may end, and then holds no foreground.
            origin = self._origins.of(record, is_own=self._child.is_foreground())
            if record.is_probe:
                self._to_child += PROBE_REPLY
                self._write_child()
            self._reporter.heard(record, origin)
        self._to_terminal += data
        self._write_terminal()
        return len(data)

    def _write_terminal(self) -> None:
        if not self._to_terminal:
            return
        try:
            self._to_terminal = self._to_terminal[self._outer.write(self._to_terminal) :]
        except OSError:
            self._hang_up()

    def _read_keys(self) -> None:
        typed = self._outer.read(READ_BYTES)
        if typed:
            self._last_typed = typed[-1:]
            self._origins.typed(typed)
            self._to_child += typed
        elif self._outer.is_terminal:
            self._hang_up()
            return
        else:
            self._is_typing = False
            self._to_child += self._end_of_file()
        self._write_child()

    def _end_of_file(self) -> bytes:
        """How the end of piped input is typed: as Control-D, twice after half a line, if the program reads lines."""
        attributes = termios.tcgetattr(self._child.slave)
        if not attributes[3] & termios.ICANON:
            return b""
        key: bytes = attributes[6][termios.VEOF]
        return key if self._last_typed == b"\n" else key * 2

    def _write_child(self) -> None:
        try:
            self._to_child = self._to_child[os.write(self._child.master, self._to_child) :]
        except OSError:
            return  # it does not read now; what it never reads is lost with it

    def _hang_up(self) -> None:
        """The terminal is gone: so is the program's, and the program is told as it would be in a closed window."""
        if self._is_up:
            self._is_up = False
            self._to_terminal = self._to_child = b""
            self._child.hang_up()

    def _heed(self, numbers: Iterable[int]) -> None:
        for number in dict.fromkeys(numbers):
            if number == signal.SIGCHLD:
                self._reap()
            elif number == signal.SIGWINCH:
                self._resize()
            elif number == signal.SIGCONT:
                self._resume()
            else:
                self._child.signal_group(number)

    def _reap(self) -> None:
        while self._ended is None:
            pid, status = os.waitpid(self._child.pid, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._stop_as(os.WSTOPSIG(status))
            else:
                self._ended = status

    def _stop_as(self, number: int) -> None:
        """The program has stopped itself: so do we, in the same way, with the terminal as we found it."""
        self._pass_last_bytes()
        self._outer.restore()
        if number == signal.SIGSTOP:
            signal.raise_signal(number)
        else:
            ours = signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            signal.signal(number, ours)
        self._resume()

    def _resume(self) -> None:
        self._outer.make_raw()
        self._resize()
        self._child.signal_group(signal.SIGCONT)

    def _resize(self) -> None:
        size = self._outer.size()
        if self._is_up and size is not None:
            fcntl.ioctl(self._child.master, termios.TIOCSWINSZ, size)

    def _pass_last_bytes(self) -> None:
        """Pass on what the program had written when it ended or stopped. A signal that is forwarded ends this too."""
        taken = 0
        while self._is_up and taken < _LAST_BYTES:
            if self._to_terminal:
                readable, _, _ = select.select([self._signals], [self._outer.output], [])
                numbers = set(os.read(self._signals, LIMIT_BYTES)).intersection(FORWARDED) if readable else set()
                if numbers:
                    if self._ended is None:
                        self._heed(numbers)
                    return
                self._write_terminal()
            elif not (size := self._read_child()):
                return
            else:
                taken += size


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
