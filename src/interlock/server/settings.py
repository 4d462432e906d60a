"""How a server is set up: where it listens, how much it takes from a client, how patient it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def server_version() -> str:
    """The installed version; `unknown` where the package is not installed."""
    try:
        return version("interlock")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """`allowed_hosts` and `allowed_origins` add to those that loopback has by itself.

    `outbox_frames` and `outbox_bytes` bound what waits for one client; beyond it the client falls back to its cursor.
    `command_seconds` is how long a command may take before its giver is told that nothing is known yet.
    """

    host: str = "127.0.0.1"
    port: int = 0
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    heartbeat_seconds: float = 20.0
    command_seconds: float = 30.0
    hello_seconds: float = 10.0
    outbox_frames: int = 1_000
    outbox_bytes: int = 8 * 1024 * 1024
    max_request_bytes: int = 1024 * 1024
    max_rooms: int = 2_000
    max_connections: int = 1_000
    requests_per_second: float = 100.0
    request_burst: int = 400
    closing_seconds: float = 10.0
    hurried_seconds: float = 2.0
