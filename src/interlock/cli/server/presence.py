"""What may be said of the server of a home, without opening its log. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from interlock.cli.server.api import ServerApi
from interlock.cli.wire.routes import HEALTH
from interlock.vocabulary.errors import InterlockError

if TYPE_CHECKING:
    from interlock.log.lease import Holder
    from interlock.log.starting_file import StartProgress
    from interlock.vocabulary.wire.json_types import HealthJson

HEALTH_SECONDS: Final = 5.0


class Presence(StrEnum):
    """What is proven about the server of a home. `held`: another process has the log, and says of no server where it
    is; it may be one that ends. `starting`: it is a server that reads its log, and says how far it is."""

    RUNS = "runs"
    ABSENT = "absent"
    STALE = "stale"
    HELD = "held"
    STARTING = "starting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """The server of a home, as it says itself and as its process proves."""

    presence: Presence
    url: str = ""
    pid: int = 0
    started_at: str = ""
    holder: Holder | None = None
    start: StartProgress | None = None


def health_of(url: str) -> HealthJson | None:
    """What the server says of itself to everybody; None where it does not answer."""
    try:
        return ServerApi(url, "").get_once(HEALTH, seconds=HEALTH_SECONDS)
    except InterlockError:
        return None
