"""Who is told: a file that keeps every line, or a socket that somebody may or may not listen on.

Neither ever makes the program wait. What a listener does not take is dropped and counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from interlock.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from socket import socket as Socket

RETRY_SECONDS: Final = 1.0
MAX_PENDING_BYTES: Final = 256 * 1024


class StatusFile:
    """Appends each line to a file that only its owner reads."""

    __slots__ = ("_descriptor", "_is_torn", "dropped")

    def __init__(self, path: str) -> None:
        self.dropped = 0
        self._is_torn = False
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as wrong:
            remedy = "give --status-file a path in a folder that you may write to"
            raise UsageError(f"{path!r} cannot be written ({wrong.strerror})", remedy=remedy) from None

    def send(self, line: bytes) -> None:
        """Append one line. After half a line (a full disk) the next begins on a line of its own."""
        whole = b"\n" + line if self._is_torn else line
        try:
            written = os.write(self._descriptor, whole)
        except OSError:
            written = 0
        if written < len(whole):
            self.dropped += 1
            self._is_torn = self._is_torn or written > 0


class StatusSocket:
    """A stream to a Unix socket, so that the listener sees our end as an end of file, even if we are killed.

    A listener that is not there is tried again each second. One that comes, or comes back, is first told how things
    stand (`standing`); one that reads too slowly is cut off and told anew when it comes back.
    """

    __slots__ = ("_path", "_pending", "_socket", "_standing", "dropped", "retry_at_seconds")

    def __init__(self, path: str, standing: Callable[[], Iterable[bytes]]) -> None:
        self.dropped = 0
        self.retry_at_seconds: float | None = 0.0  # None while there is a listener
        self._path = path
        self._standing = standing
        self._socket: Socket | None = None
        self._pending = b""

    def waiting(self) -> int | None:
        """The descriptor to wait for until it can be written, if anything is to be written."""
        return self._socket.fileno() if self._socket is not None and self._pending else None

    def listening(self) -> int | None:
        """The descriptor on which the end of the listener shows, if there is a listener."""
        return None if self._socket is None else self._socket.fileno()

    def check(self, now_seconds: float) -> None:
        """Notice that the listener is gone. It says nothing to us: what can be read from it is its end, or noise."""
        if self._socket is None:
            return
        try:
            is_gone = not self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            is_gone = True
        if is_gone:
            self._cut_off(now_seconds)
            self.retry_at_seconds = now_seconds  # another one may be there already

    def connect(self, now_seconds: float, *, is_last_time: bool = False) -> None:
        """Look for the listener if it is time to. Call it often; it does nothing while there is one."""
        if self.retry_at_seconds is None or (now_seconds < self.retry_at_seconds and not is_last_time):
            return
        self.retry_at_seconds = now_seconds + RETRY_SECONDS
        from socket import AF_UNIX, SOCK_STREAM, socket

        connection = socket(AF_UNIX, SOCK_STREAM)
        connection.setblocking(False)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            return
        self._socket, self._pending, self.retry_at_seconds = connection, b"".join(self._standing()), None
        self.flush(now_seconds)

    def send(self, line: bytes, now_seconds: float) -> None:
        """Send one line, or drop and count it. It must not be among what `standing` says yet."""
        if self._socket is None:
            self.dropped += 1
            return
        self._pending += line
        self.flush(now_seconds)

    def flush(self, now_seconds: float) -> None:
        """Hand over what the listener takes now."""
        if self._socket is None:
            return
        try:
            self._pending = self._pending[self._socket.send(self._pending) :]
        except BlockingIOError:
            if len(self._pending) > MAX_PENDING_BYTES:
                self._cut_off(now_seconds)
        except OSError:
            self._cut_off(now_seconds)

    def _cut_off(self, now_seconds: float) -> None:
        assert self._socket is not None
        self._socket.close()
        self.dropped += self._pending.count(b"\n")
        self._socket, self._pending, self.retry_at_seconds = None, b"", now_seconds + RETRY_SECONDS
