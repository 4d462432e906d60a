"""A peer that does not read: what waits for it is given up, and its connection with it.

To close a transport is not enough. It goes on waiting until the peer has read what is in its buffer, and a peer that
never reads keeps it, its buffer and its place among the connections for as long as it likes.
"""

from __future__ import annotations

import asyncio
from typing import Final

STUCK_LOOKS: Final = 2


class WriteWatch:
    """Looks at one transport each `look_seconds`. One that is full, or closing, and sent nothing for two looks is cut.

    Its protocol says when it is full (`pause`) and when there is place again (`resume`), and ends this with itself.
    """

    def __init__(self, transport: asyncio.Transport, look_seconds: float) -> None:
        self._transport = transport
        self._look_seconds = look_seconds
        self._is_full = False
        self._stuck_looks = 0
        self._left = 0
        self._arm()

    def pause(self) -> None:
        self._is_full = True

    def resume(self) -> None:
        self._is_full, self._stuck_looks = False, 0

    def stop(self) -> None:
        self._timer.cancel()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._look_seconds, self._look)

    def _look(self) -> None:
        left = self._transport.get_write_buffer_size()
        is_waiting = left > 0 and (self._is_full or self._transport.is_closing())
        is_stuck = is_waiting and left >= self._left > 0
        self._stuck_looks = self._stuck_looks + 1 if is_stuck else 0
        self._left = left if is_waiting else 0
        if self._stuck_looks >= STUCK_LOOKS:
            self._transport.abort()
        else:
            self._arm()
