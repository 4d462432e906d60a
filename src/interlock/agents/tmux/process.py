"""A tmux client process with three pipes, which can always be closed.

The server holds the other ends of these pipes, not the client process: tmux passes them on. If the server hangs they
stay open after the process is dead, so nothing here waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

_LAST_WORDS_SECONDS: Final = 0.5
_MAX_ERROR_BYTES: Final = 4096


class ClientProcess(asyncio.SubprocessProtocol):
    """Gives what the client prints to `on_data`, and calls `on_end` once when no more will come."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end: Callable[[], None] | None = on_end
        self._errors = b""
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        environment: Mapping[str, str],
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> ClientProcess:
        loop = asyncio.get_running_loop()
        # A session of its own: a Ctrl-C in our terminal is for us, and we close the client in our own time.
        _, process = await loop.subprocess_exec(
            lambda: cls(on_data, on_end), *argv, env=environment, start_new_session=True
        )
        return process

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def exit_status(self) -> int | None:
        return self._transport.get_returncode()

    @property
    def errors(self) -> str:
        return self._errors.decode("utf-8", "replace").strip()

    def write(self, data: bytes, *, is_last: bool = False) -> None:
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        pipe.write(data)
        if is_last:
            pipe.write_eof()

    async def wait(self) -> None:
        """Wait until the process is over and its pipes are empty."""
        await asyncio.shield(self._gone)

    async def close(self) -> None:
        """End the process and let go of the pipes. Panes are not its children and live on."""
        self._on_end = None
        self._transport.close()
        await self.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._on_data(data)
        else:
            self._errors = (self._errors + data)[:_MAX_ERROR_BYTES]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._end_soon()

    def process_exited(self) -> None:
        self._end_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._gone.set_result(None)

    def _end_soon(self) -> None:
        """What it said last may still be on the way, in the other pipe; `connection_lost` comes after all of it."""
        asyncio.get_running_loop().call_later(_LAST_WORDS_SECONDS, self._end)

    def _end(self) -> None:
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end()
