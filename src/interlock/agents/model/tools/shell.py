"""A command run for the model, in the workspace.

Laws:
1. A command leads a session of its own and carries the spawn id of its agent: a census finds it after our death.
2. It leaves nothing behind: what it started is ended when it ends, outlasts its time, or is cancelled. What has made
   itself a daemon is ended with the agent.
3. Its output is read to the end whatever its size; the middle of a long one is left out.
4. It is not confined: it starts in the workspace, and may go anywhere that its user may. Permission rules decide.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Final

from interlock.agents.port import ProcessIdentity
from interlock.agents.processes.child import inherited_environment
from interlock.agents.processes.identity import identity_of, now_ticks
from interlock.agents.processes.pipes import PipeReader
from interlock.agents.processes.stopping import StopPolicy, stop_tree
from interlock.vocabulary.errors import Unreachable
from interlock.vocabulary.ids import SPAWN_ID_VARIABLE, SpawnId

MAX_OUTPUT_BYTES: Final = 64 * 1024
_BUFFER_BYTES: Final = 1 << 16
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_POLICY: Final = StopPolicy(interrupt_seconds=0.5, terminate_seconds=1.0, kill_seconds=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command went. `code` is None where it was ended for its time, negative for a signal."""

    code: int | None
    output: str


def shell_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """What a command may see: our environment without what looks like a secret. What a spec adds is passed on."""
    ours = {name: value for name, value in inherited_environment({}).items() if not _SECRET.search(name)}
    return {**ours, **extra}


async def run_command(
    command: str, *, cwd: str, environment: Mapping[str, str], spawn_id: SpawnId, timeout_seconds: float
) -> Ran:
    """Run a line of shell, both outputs in one, without input."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: _Protocol(_BUFFER_BYTES, loop),
        *("sh", "-c", command),
        cwd=cwd,
        env={**environment, SPAWN_ID_VARIABLE: spawn_id},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    run = _Run(transport, protocol)
    try:
        await asyncio.wait((run.ended,), timeout=timeout_seconds)
        code = run.ended.result() if run.ended.done() else None
    finally:
        await _to_the_end(run.stop(spawn_id))
    return Ran(code=code, output=run.output.text())


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Knows the end of the process itself: `Process.wait` also waits for whoever else holds its pipes."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.has_exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.has_exited.set()


class _Run:
    """A process, what it prints, and its end."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        assert protocol.stdout is not None
        self._transport = transport
        self._has_exited = protocol.has_exited
        self._identity = _identity_or_number(transport.get_pid())
        self._ended_ticks: int | None = None
        self._pipe = PipeReader(protocol.stdout)
        self.output = _Output(MAX_OUTPUT_BYTES)
        self._reading = asyncio.create_task(self._read())
        self.ended = asyncio.create_task(self._wait())

    async def _wait(self) -> int:
        await self._has_exited.wait()
        self._ended_ticks = now_ticks()
        self._pipe.child_is_over()
        await asyncio.wait((self._reading,))
        code = self._transport.get_returncode()
        assert code is not None
        return code

    async def _read(self) -> None:
        while data := await self._pipe.read():
            self.output.add(data)

    async def stop(self, spawn_id: SpawnId) -> None:
        # By group, session and parentage alone: other commands of the agent carry the same spawn id.
        mine = SpawnId(f"{spawn_id}.{self._identity.pid}")
        try:
            await stop_tree(self._identity, mine, _POLICY, leader_seen_ticks=self._ended_ticks)
            await asyncio.wait((self.ended,), timeout=_POLICY.kill_seconds)
        finally:
            self._reading.cancel()
            self.ended.cancel()
            await asyncio.gather(self._reading, self.ended, return_exceptions=True)
            # Where a daemon keeps the pipe open, this is what closes our end of it.
            self._transport.close()


async def _to_the_end(work: Coroutine[None, None, None]) -> None:
    """Await work that a cancellation must not stop half-way; the cancellation is told after it."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


def _identity_or_number(pid: int) -> ProcessIdentity:
    try:
        return identity_of(pid) or ProcessIdentity(pid, "")
    except Unreachable:
        return ProcessIdentity(pid, "")


class _Output:
    """The beginning and the end of what comes, each up to half of the room."""

    def __init__(self, room_bytes: int) -> None:
        self._half = room_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :]
        over = len(self._tail) - self._half
        if over > 0:
            self._left_out += over
            del self._tail[:over]

    def text(self) -> str:
        gap = f"\n[... {self._left_out} bytes left out ...]\n" if self._left_out else ""
        if not gap:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        return self._head.decode("utf-8", "replace") + gap + self._tail.decode("utf-8", "replace")
