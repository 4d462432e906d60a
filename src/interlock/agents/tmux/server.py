"""One tmux server, known by its socket, and how words become a command that it reads.

Commands go in as quoted text on a pipe and never as arguments of a process: a prompt, or a key in the environment of an
agent, does not stand in the list of processes, and nothing passes through a shell.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from interlock.agents.tmux.process import ClientProcess
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError

Command: TypeAlias = Sequence[str]
"""The name of a tmux command and its arguments, unquoted."""

SOCKET_NAME: Final = "tmux"
# What `sun_path` holds on the narrower of the systems that we know, with its closing NUL.
MAX_SOCKET_BYTES: Final = 103
OF_OWN_SERVER: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE")
"""All that a server of ours is given of our environment. It passes none of it on to a pane."""
DEADLINE_SECONDS: Final = 5.0
_NO_SERVER: Final = ("no server running", "error connecting", "lost server", "server exited")
_ABSENT: Final = ("can't find", "no such", "no sessions", "no current")
_SPECIAL: Final = re.compile(r'[\x01-\x1f\x7f"\\$~]')  # a tilde too: tmux expands it even in quotes


class NoServer(Unreachable):
    """There is no tmux, or no server behind this socket."""


class Absent(Unreachable):
    """The server is there, and the session, window or pane is not."""


class TmuxRefused(PeerFault):
    """tmux did not carry out a command, for another reason."""


def quote(word: str) -> str:
    """The word as one argument in tmux's own language, on one line, whatever is in it."""
    if (known := _CONSTANT_WORDS.get(word)) is not None:
        return known
    if "\0" in word:
        raise UsageError("a NUL cannot be given to tmux", remedy="take it out of the text")
    return '"' + _SPECIAL.sub(lambda found: f"\\{ord(found[0]):03o}", word) + '"'


_CONSTANT_WORDS: Final[dict[str, str]] = {}


def constant_word(word: str) -> str:
    """The word, whose quoted form is kept from here on: a long format that goes out many times a second."""
    _CONSTANT_WORDS[word] = quote(word)
    return word


def spell(commands: Sequence[Command]) -> bytes:
    """The line that runs these commands one after the other, up to the first that fails."""
    sequence = " ; ".join(" ".join(map(quote, command)) for command in commands)
    return sequence.encode("utf-8", "replace") + b"\n"


def failure(text: str) -> Unreachable | TmuxRefused:
    """What tmux said when it refused, as an error of ours."""
    said = text.strip()[:300] or "tmux gave no reason"
    if any(word in said for word in _NO_SERVER):
        return NoServer(f"there is no tmux server: {said}")
    if any(word in said for word in _ABSENT):
        return Absent(f"tmux: {said}")
    return TmuxRefused(f"tmux: {said}")


@dataclass(frozen=True, slots=True)
class TmuxServer:
    """A server by the name of its socket, or by the path if there is a slash in it.

    `is_own`: a server that Interlock may start, without the configuration and the environment of the person.
    """

    socket: str
    is_own: bool = False

    @classmethod
    def own(cls, socket: str) -> TmuxServer:
        """A server for agents that we start."""
        return cls(socket, is_own=True)

    @classmethod
    def of_home(cls, home: Path) -> TmuxServer:
        """The server for the agents of one home: its socket is in the home, so that no other home shares it."""
        return cls.own(str(run_folder(home) / SOCKET_NAME))

    @classmethod
    def current(cls) -> TmuxServer:
        """The server that this process runs in, else the person's default one."""
        return cls(os.environ.get("TMUX", "").partition(",")[0] or "default")

    def argv(self, *words: str) -> list[str]:
        """The command line of a client of this server that speaks UTF-8."""
        where = "-S" if "/" in self.socket else "-L"
        config = ["-f", os.devnull] if self.is_own else []
        return ["tmux", "-u", where, self.socket, *config, *words]

    async def spawn(
        self, *words: str, on_data: Callable[[bytes], None], on_end: Callable[[], None] = lambda: None
    ) -> ClientProcess:
        """Start a client of this server."""
        try:
            return await ClientProcess.start(self.argv(*words), self._environment(), on_data, on_end)
        except FileNotFoundError as error:
            raise NoServer("tmux is not installed, or not in PATH; install tmux 3.2 or newer") from error

    def _environment(self) -> dict[str, str]:
        """What a client gets. The first one leaves its environment to the server, and so to every pane."""
        if self.is_own:
            return {name: os.environ[name] for name in OF_OWN_SERVER if name in os.environ}
        # Inside a pane TMUX is set, and tmux would refuse to attach or would choose that server.
        return {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}

    async def run(self, *commands: Command, may_start: bool = False) -> str:
        """Run commands as one sequence with a client of a moment, and give what they print."""
        if may_start and not self.is_own:
            raise UsageError(f"{self.socket} is not ours to start", remedy="start agents on a server of ours")
        if may_start and len(os.fsencode(self.socket)) > MAX_SOCKET_BYTES:
            raise UsageError(f"{self.socket} is too long for a socket", remedy="choose a home with a shorter path")
        start = ["start-server", ";"] if may_start else ["-N"]
        printed: list[bytes] = []
        process = await self.spawn(*start, "source-file", "-", on_data=printed.append)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                process.write(spell(commands), is_last=True)
                await process.wait()
        except TimeoutError as error:
            raise Unreachable(f"tmux did not answer within {DEADLINE_SECONDS} s") from error
        finally:
            await process.close()
        text = b"".join(printed).decode("utf-8", "replace")
        if process.exit_status:
            raise failure(f"{process.errors}\n{text}")
        return text

    async def end_if_empty(self) -> None:
        """End a server of ours in which no process lives and nobody looks: tmux decides and ends it in one step."""
        if not self.is_own:
            raise UsageError(f"{self.socket} is not ours to end", remedy="leave it to the person whose it is")
        try:
            await self.run(("if-shell", "-F", _IN_USE, "", "kill-server"))
        except NoServer:
            return

    async def kill(self) -> None:
        """End the server and every pane in it. Nothing here calls this by itself."""
        try:
            await self.run(["kill-server"])
        except NoServer:
            return


# A pane that is not dead, or a client that is attached: then it is not blank.
_IN_USE: Final = "#{S:#{?session_attached,x,}#{W:#{P:#{?pane_dead,,x}}}}"


def run_folder(home: Path) -> Path:
    """Where the sockets of a home are. Absolute: the processes that use them have other folders."""
    return home.absolute() / "run"
