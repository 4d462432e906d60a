"""What may be said of the server of a home, without opening its log. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from interlock.cli.server.api import Body, ServerApi
from interlock.vocabulary.errors import InterlockError

if TYPE_CHECKING:
    from interlock.log.lease import Holder

HEALTH_SECONDS: Final = 5.0


class Presence(StrEnum):
    """What is proven about the server of a home. `held`: another process has the log, and says of no server where it
    is; it may be one that begins or ends."""

    RUNS = "runs"
    ABSENT = "absent"
    STALE = "stale"
    HELD = "held"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """The server of a home, as it says itself and as its process proves."""

    presence: Presence
    url: str = ""
    pid: int = 0
    started_at: str = ""
    holder: Holder | None = None


def health_of(url: str) -> Body | None:
    """What the server says of itself to everybody; None where it does not answer."""
    try:
        return ServerApi(url, "").ask("GET", "/health", seconds=HEALTH_SECONDS)
    except InterlockError:
        return None
