"""A shell on a real pseudo-terminal, in an empty home: commands are typed, and what is read is what a person sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
COLUMNS, ROWS = 110, 40
COMMAND_SECONDS: Final = 60.0
PRESSES: Final = 15
PRESS_SECONDS: Final = 2.0
_PROMPT: Final = re.compile(r"\[done (\d+)\] $")
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[=>])")


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, argv: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:  # pragma: no cover
            try:
                os.chdir(cwd)
                os.execvpe(argv[0], argv, environment)
            finally:
                os._exit(127)
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, size)
        self.seen = ""
        self._exit_code: int | None = None
        self._is_open = True

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def until(self, is_there: Callable[[str], object], seconds: float = COMMAND_SECONDS) -> str:
        """Read until something is there; all that was read since the last time."""
        deadline = time.monotonic() + seconds
        while not is_there(self.seen):
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"not within {seconds:g} s, or it ended; it showed:\n{self.seen}")
        found, self.seen = self.seen, ""
        return found

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self._descriptor], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self._descriptor, 65536)
        except OSError:  # the other side is gone
            return False
        self.seen += _ESCAPES.sub("", piece.decode(errors="replace")).replace("\r", "")
        return bool(piece)

    def ends(self, seconds: float = COMMAND_SECONDS) -> int:
        """Read until it is gone; its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        _, status = os.waitpid(self.pid, 0)
        self._exit_code = os.waitstatus_to_exitcode(status)
        return self._exit_code

    def hang_up(self) -> None:
        """Close the terminal under the program, and wait until that is gone, too."""
        os.close(self._descriptor)
        self._is_open = False
        os.waitpid(self.pid, 0)
        self._exit_code = 0

    def close(self) -> None:
        if self._exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self._is_open:
            os.close(self._descriptor)


class Shell:
    """`sh` on a terminal. Its prompt tells the exit code of what ran before."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.pid = terminal.pid
        terminal.type("stty -echo; PS2=; PS1='[done $?] '\n")
        terminal.until(_PROMPT.search)

    def run(self, command: str, seconds: float = COMMAND_SECONDS) -> tuple[str, int]:
        """Type a command; what it showed, and its exit code."""
        self._terminal.type(f"{command}\n")
        return self._ended(seconds)

    def play(
        self, command: str, words: str, *keys: tuple[str, str], last: str, seconds: float = COMMAND_SECONDS
    ) -> tuple[str, int]:
        """Type a command that takes the terminal, and wait for its words; then each key, until its own are seen."""
        self._terminal.type(f"{command}\n")
        shown = self._terminal.until(lambda text: words in text or _PROMPT.search(text), seconds)
        assert words in shown, f"it ended before that; it showed:\n{shown}"
        for key, answer in keys:
            self._press(key, _holds(answer))
        self._terminal.type(last)
        return self._ended(seconds)

    def _press(self, key: str, is_there: Callable[[str], object]) -> None:
        """As a person does: a key without an effect, as on a question that has only just appeared, is pressed again."""
        for _ in range(PRESSES):
            self._terminal.type(key)
            with suppress(AssertionError):
                self._terminal.until(is_there, PRESS_SECONDS)
                return
        raise AssertionError(f"{key!r} had no effect; it showed:\n{self._terminal.seen}")

    def _ended(self, seconds: float) -> tuple[str, int]:
        shown = self._terminal.until(_PROMPT.search, seconds)
        prompt = _PROMPT.search(shown)
        assert prompt is not None
        return shown[: prompt.start()], int(prompt[1])


def _holds(words: str) -> Callable[[str], object]:
    return lambda text: words in text


def empty_environment(home: Path) -> dict[str, str]:
    """As after a first login: nothing of ours is set, and `interlock` is on the path, as in an activated `.venv`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        "HOME": str(home),
        "PATH": path,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TMPDIR": str(home / "tmp"),
        "TMUX_TMPDIR": str(home / "tmp"),
        "VIRTUAL_ENV_DISABLE_PROMPT": "1",
    }


@contextmanager
def empty_home() -> Iterator[Path]:
    """A home without a file in it, but for a folder for temporary ones. The path is short: sockets will be below it."""
    with tempfile.TemporaryDirectory(prefix="e-") as folder:
        home = Path(folder)
        (home / "tmp").mkdir(mode=0o700)
        try:
            yield home
        finally:
            for pid in _pids_of(home):  # a test that failed leaves nothing either
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@contextmanager
def terminal(
    argv: list[str], home: Path, *, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    opened = Terminal(argv, cwd, dict(environment or empty_environment(home)))
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def shell(home: Path, *, cwd: Path = ROOT, environment: Mapping[str, str] | None = None) -> Iterator[Shell]:
    with terminal(["sh"], home, cwd=cwd, environment=environment) as opened:
        yield Shell(opened)


def processes_of(home: Path, but_for: int = 0) -> list[str]:
    """Every process that was started from a terminal of this home; without one, as the shell that started them."""
    found = []
    for pid in _pids_of(home):
        with suppress(OSError):
            if pid != but_for:
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def _pids_of(home: Path) -> Iterator[int]:
    needle = f"HOME={home}\0".encode()
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            with suppress(OSError):
                if needle in (one / "environ").read_bytes():
                    yield int(one.name)


def shows(sample: str, printed: str) -> str | None:
    """The first line of a sample that was not printed, in its place; None where all were.

    `...` stands for any text within a line. Columns may be wider. Other lines may stand between: notes on standard
    error, which a page leaves out.
    """
    left = iter(printed.splitlines())
    for line in sample.splitlines():
        pattern = re.compile(_pattern(line))
        if not any(pattern.fullmatch(shown.rstrip()) for shown in left):
            return line
    return None


def _pattern(line: str) -> str:
    pieces = [re.sub(r"(\\ ){2,}", " +", re.escape(piece)) for piece in line.rstrip().split("...")]
    return ".*".join(pieces)
