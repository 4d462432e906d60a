"""A child process with three pipes: it leads a group of its own, and is tagged so that a census finds what it starts.

Laws:
1. The child leads a session and a process group, and carries the spawn id in its environment.
2. What it prints is read as fast as it comes up to a bound; then the child waits, and nothing is dropped.
3. Its end is told once, after everything that it printed. A grandchild that keeps a pipe open does not hold it back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Final

from interlock.agents.observations import Exited
from interlock.agents.port import DeliveryUnknown, NotDelivered, ProcessIdentity, StopReport
from interlock.agents.processes.identity import identity_of, now_ticks
from interlock.agents.processes.lines import Line
from interlock.agents.processes.pipes import OutputPipe, PipeReader, WaitingLines
from interlock.agents.processes.stopping import StopPolicy, stop_tree
from interlock.log.host import host
from interlock.vocabulary.errors import PeerFault, Unreachable, UsageError
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE, SpawnId

# Whether the system killed a process for want of memory, by the accounts that the kernel keeps for its control group.
#
# A code or a signal alone proves nothing: anybody may send KILL. The account is of the whole group, so that a
# neighbour's
# death while ours was killed by somebody else is read as ours; an agent in a control group of its own has no
# neighbours.

# A shell that ran the agent tells the signal of its child so.
_CODE_AFTER_KILL: Final = 128 + SIGKILL


@dataclass(frozen=True, slots=True)
class MemoryAccount:
    """The account of one control group, and how many it had killed when we first looked. None: there is no account."""

    path: Path | None
    kills_before: int | None

    @classmethod
    def of(cls, pid: int, places: tuple[Path, Path] | None = None) -> MemoryAccount:
        """The account of the group in which a process is now. `places`: of /proc and of the control groups."""
        known = places or host().control_groups()
        path = None if known is None else _account_path(pid, Path(known[0]), Path(known[1]))
        return cls(path, None if path is None else _kills(path))

    def explains(self, code: int | None, signal: int | None) -> bool:
        """Whether a process that ended so was killed for want of memory."""
        is_killed = signal == SIGKILL or code == _CODE_AFTER_KILL
        if not is_killed or self.path is None or self.kills_before is None:
            return False
        kills = _kills(self.path)
        return kills is not None and kills > self.kills_before


def _account_path(pid: int, proc: Path, control_groups: Path) -> Path | None:
    try:
        lines = (proc / str(pid) / "cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    for _, controllers, group in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        inside = group.lstrip("/")
        if not controllers:
            path = control_groups / inside / "memory.events"
        elif "memory" in controllers.split(","):
            path = control_groups / "memory" / inside / "memory.oom_control"
        else:
            continue
        if path.exists():
            return path
    return None


def _kills(path: Path) -> int | None:
    try:
        words = path.read_text("utf-8", "replace").split()
    except OSError:
        return None
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    count = pairs.get("oom_kill", "")
    return int(count) if count.isdecimal() else None


STDERR_TAIL_BYTES: Final = 4096
_BUFFER_BYTES: Final = 1 << 16
_WRITE_SECONDS: Final = 30.0
# How long a child that was stopped may take to be waited for, and its last lines to be taken.
_LET_GO_SECONDS: Final = 2.0


class _Pipes(asyncio.subprocess.SubprocessStreamProtocol):
    """Tells the end of the process itself: `Process.wait` also waits for whoever holds its pipes open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(_BUFFER_BYTES, loop)
        self.ended: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        super().process_exited()
        if not self.ended.done():
            self.ended.set_result(None)


class ChildProcess:
    """One running child. Build it with `start`; read `lines` in one task; always `stop` it in the end."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, protocol: _Pipes, output: OutputPipe, spawn_id: SpawnId
    ) -> None:
        process = asyncio.subprocess.Process(transport, protocol, asyncio.get_running_loop())
        assert process.stderr is not None
        self._transport = transport
        self._process = process
        self._spawn_id = spawn_id
        self.identity: ProcessIdentity = _identity_or_number(process.pid)
        self._memory = MemoryAccount.of(process.pid)
        self._output = output
        self._waiting = WaitingLines(output)
        output.read_into(self._waiting.feed, self._waiting.end)
        self._stderr = bytearray()
        self._writing = asyncio.Lock()
        self._ended_ticks: int | None = None
        errors = PipeReader(process.stderr)
        self._ended = asyncio.create_task(self._wait(protocol.ended, errors))
        self._reading_errors = asyncio.create_task(self._read_stderr(errors))

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], spawn_id: SpawnId
    ) -> ChildProcess:
        """Start a program, without a shell. `environment` is all that it gets, apart from the spawn id."""
        if not argv:
            raise UsageError("there is no program to start", remedy="give its name and arguments as a list")
        try:
            output = OutputPipe()
        except OSError as error:
            raise _not_started(argv, error) from error
        try:
            environment = {**environment, SPAWN_ID_VARIABLE: spawn_id}
            transport, protocol = await _started(argv, cwd, environment, output)
            return cls(transport, protocol, output, spawn_id)
        except BaseException:
            output.close()
            raise
        finally:
            output.close_writing()

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    @property
    def stderr_tail(self) -> str:
        """The last of what it printed on standard error."""
        return bytes(self._stderr).decode("utf-8", "replace")

    async def lines(self) -> AsyncIterator[Line]:
        """Each line of standard output, until the child has ended and all of it was read."""
        while (line := await self.next_line()) is not None:
            yield line

    def next_line(self) -> Awaitable[Line | None]:
        """The next line of `lines`; None after the last one."""
        return self._waiting.take()

    async def write(self, data: bytes) -> None:
        """Write to the child. `NotDelivered` if it is over; `DeliveryUnknown` if it ended or hung meanwhile."""
        pipe = self._process.stdin
        async with self._writing:
            if pipe is None or pipe.is_closing() or not self.is_alive:
                raise NotDelivered(f"process {self.identity.pid} takes no input any more")
            pipe.write(data)
            try:
                async with asyncio.timeout(_WRITE_SECONDS):
                    await pipe.drain()
            except (OSError, TimeoutError) as error:
                raise DeliveryUnknown(f"process {self.identity.pid} may not have read it all: {error!r}") from error

    def end_input(self) -> None:
        """Close standard input: many programs then finish by themselves."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def exited(self) -> Exited:
        """Wait for the end, and say how it went, with the last that it printed on standard error."""
        code = await asyncio.shield(self._ended)
        await asyncio.wait((self._reading_errors,))
        is_signal = code < 0
        ended_code, signal = (None, -code) if is_signal else (code, None)
        is_oom = self._memory.explains(ended_code, signal)
        return Exited(code=ended_code, signal=signal, stderr_tail=self.stderr_tail, is_oom=is_oom)

    async def stop(self, policy: StopPolicy | None = None) -> StopReport:
        """End the child and everything that it started, and let go of the pipes. Safe to call twice.

        What it printed before its end can still be read from `lines`.
        """
        # Until it is buried its number is its own, so it is known to have lived until now: the first look may be late.
        seen_ticks = now_ticks() if self._ended_ticks is None else self._ended_ticks
        self.end_input()
        try:
            report = await stop_tree(self.identity, self._spawn_id, policy, leader_seen_ticks=seen_ticks)
            let_go = (self._ended, self._reading_errors, self._waiting.ended)
            await asyncio.wait(let_go, timeout=_LET_GO_SECONDS)
            return report
        finally:
            self._reading_errors.cancel()
            self._waiting.end()
            self._output.close()
            self._transport.close()

    async def _wait(self, ended: asyncio.Future[None], errors: PipeReader) -> int:
        await ended
        code = self._process.returncode
        assert code is not None
        self._ended_ticks = now_ticks()
        self._waiting.child_is_over()
        errors.child_is_over()
        return code

    async def _read_stderr(self, pipe: PipeReader) -> None:
        while data := await pipe.read():
            self._stderr += data
            del self._stderr[:-STDERR_TAIL_BYTES]


async def _started(
    argv: Sequence[str], cwd: str, environment: Mapping[str, str], output: OutputPipe
) -> tuple[asyncio.SubprocessTransport, _Pipes]:
    loop = asyncio.get_running_loop()
    try:
        return await loop.subprocess_exec(
            lambda: _Pipes(loop), *argv, cwd=cwd, env=environment, stdout=output.writing, start_new_session=True
        )
    except FileNotFoundError as error:
        missing = cwd if error.filename == cwd else argv[0]
        raise UsageError(f"there is no {missing!r}", remedy="check the program and its folder") from error
    except ValueError as error:
        raise UsageError(f"{argv[0]!r} cannot be started so: {error}", remedy="leave out NUL characters") from error
    except OSError as error:
        raise _not_started(argv, error) from error


def _not_started(argv: Sequence[str], error: OSError) -> PeerFault:
    return PeerFault(f"{argv[0]!r} did not start: {error.strerror or error}")


def _identity_or_number(pid: int) -> ProcessIdentity:
    """Who the child is; one that is over already has no start time, and is then no process at all."""
    try:
        return identity_of(pid) or ProcessIdentity(pid, "")
    except Unreachable:
        return ProcessIdentity(pid, "")


def inherited_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Our own environment with the additions of a spec. What concerns our own state and terminal is not passed on."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "TMUX"))}
    return {**own, **extra}
