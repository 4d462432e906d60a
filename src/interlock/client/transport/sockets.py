"""Opening one WebSocket: to the address that was given and nowhere else, with the token in a header."""

from __future__ import annotations

import logging
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect

from interlock.client.transport.discovery import base_url

SOCKET_PATH: Final = "/api/socket"
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
_SCHEMES: Final = {"http": "ws", "https": "wss"}

# The library writes every header of the handshake to its log, if that is fine-grained enough: the token, too.
_logger: Final = logging.getLogger("interlock.client.socket")
_logger.setLevel(logging.INFO)


class _Here(connect):
    """Does not follow redirects: a token is for one server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def socket_url(url: str) -> str:
    parts = urlsplit(base_url(url))
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, parts.path + SOCKET_PATH, "", ""))


async def open_socket(url: str, token: str, *, closing_seconds: float) -> ClientConnection:
    """Connect. We beat and time out by ourselves; a proxy of the environment is not for a server on this machine."""
    return await _Here(
        socket_url(url),
        additional_headers={"Authorization": f"Bearer {token}"} if token else {},
        compression=None,
        proxy=None,
        open_timeout=None,
        ping_interval=None,
        close_timeout=closing_seconds,
        max_size=MAX_FRAME_BYTES,
        logger=_logger,
    )
