"""What a kernel is given: one snapshot's reading, a proven exit, or a look at the clock."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from interlock.screen.assessment import SurfaceAssessment
from interlock.screen.projection import DialogProjection
from interlock.vocabulary.errors import ContractError

_TICKS: Final = re.compile(
    r"\b\d{1,2}:\d{2}(?::\d{2})?\b|\b\d+(?:\.\d+)?(?= ?(?:s|secs?|seconds?|m|mins?|minutes?)\b)", re.IGNORECASE
)


class Arrival(StrEnum):
    """How an observation came, which says what is known of the time since the one before.

    `polled`: nothing in between was seen. `pushed`: nothing in between happened. `reconnected`: pushed, and the channel
    was down before it.
    """

    POLLED = "polled"
    PUSHED = "pushed"
    RECONNECTED = "reconnected"


@dataclass(frozen=True, slots=True)
class ShadowObservation:
    """One snapshot, read."""

    on: ClassVar[str] = "observed"
    assessment: SurfaceAssessment
    projection: DialogProjection
    arrival: Arrival = Arrival.POLLED

    @property
    def question(self) -> str | None:
        """What a person is asked, without what ticks by itself in it: a countdown makes no other question."""
        asked = self.assessment.operator_excerpt
        return None if asked is None else _TICKS.sub("▒", asked)

    @property
    def parser_family(self) -> str:
        return self.assessment.parser_metadata.parser_family


@dataclass(frozen=True, slots=True)
class SurfaceGone:
    """The process behind the surface is proven to have ended. Both are None where it is not known how."""

    on: ClassVar[str] = "surface_gone"
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class ObservationTimerFired:
    """Look at the deadline. It is applied once; a state may have another one, due at the same instant."""

    on: ClassVar[str] = "timer_fired"


def not_before(latest: float, now: float) -> float:
    """The time of an input: a clock that goes back stands still."""
    if not math.isfinite(now):
        raise ContractError(f"the time is {now}; give the finite seconds of a monotonic clock")
    return max(latest, now)
