"""The flags that one snapshot gives, over every combination of its axes."""

from __future__ import annotations

from itertools import product

from interlock.screen.assessment import Availability, BusinessState, InputMode, SurfaceAssessment
from tests.each_row import each_row

EVERY_SURFACE = [SurfaceAssessment(*axes) for axes in product(Availability, BusinessState, InputMode)]


@each_row("surface", EVERY_SURFACE, ids=lambda s: f"{s.availability}-{s.business_state}-{s.input_mode}")
def test_every_combination_has_the_flags_of_the_page(surface: SurfaceAssessment) -> None:
    axes = (surface.availability.value, surface.business_state.value, surface.input_mode.value)
    assert surface.submit_ready == (axes == ("supported", "idle", "freeform"))
    assert surface.operator_blocked == (axes[1] == "awaiting_operator" and axes[0] in {"supported", "unknown"})
    assert surface.unknown_for_stall == (axes[0] == "unknown" or axes[:2] == ("supported", "unknown"))
    assert surface.is_gone == (axes[0] in {"unsupported", "disconnected"})


def test_nothing_is_ready_that_is_blocked_unknown_or_gone() -> None:
    ready = [surface for surface in EVERY_SURFACE if surface.submit_ready]
    assert len(ready) == 1
    assert not any(surface.operator_blocked or surface.unknown_for_stall or surface.is_gone for surface in ready)


def test_what_was_not_read_is_unknown() -> None:
    assert SurfaceAssessment().unknown_for_stall
    assert SurfaceAssessment().parser_metadata.parser_family == "unknown"
