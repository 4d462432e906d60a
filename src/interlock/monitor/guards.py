"""The questions that both kernels ask of an observation, in the words of the page's priority tables."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock.monitor.stall import StallClock
from interlock.screen.assessment import SurfaceAssessment

# What an input that is no observation says of the surface.
UNSEEN: Final = SurfaceAssessment()


class ObservationFacts(NamedTuple):
    """What guards may ask: the surface, the time, and the state with all that the input has already added to it."""

    surface: SurfaceAssessment
    now: float
    clock: StallClock | None
    deadline: float | None
    has_activity: bool = False
    saw_working: bool = False
    bypasses: bool = False
    is_confirmed: bool = False


def stall_was_terminal(at: ObservationFacts) -> bool:
    return at.clock is not None


def surface_is_gone(at: ObservationFacts) -> bool:
    return at.surface.is_gone


def operator_is_awaited(at: ObservationFacts) -> bool:
    return at.surface.operator_blocked


def surface_is_unknown(at: ObservationFacts) -> bool:
    return at.surface.unknown_for_stall


def deadline_is_due(at: ObservationFacts) -> bool:
    return at.deadline is not None and at.now >= at.deadline
