"""Surfaces, observations and a small shell: what the tests of both kernels are written in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from interlock.monitor.observation import Arrival, ObservationTimerFired, ShadowObservation, SurfaceGone
from interlock.monitor.results import Moved, Output
from interlock.screen.assessment import (
    Availability,
    BusinessState,
    InputMode,
    ParserMetadata,
    SurfaceAssessment,
    TurnEnd,
)
from interlock.screen.projection import DialogProjection, project_dialog
from interlock.vocabulary.events.audit import Anomaly

FAMILY: Final = "claude_code"
_METADATA: Final = ParserMetadata(parser_family=FAMILY)


class HasDeadline(Protocol):
    @property
    def deadline(self) -> float | None: ...


StateT = TypeVar("StateT", bound=HasDeadline)
InputT = TypeVar("InputT")


def surface(
    availability: str,
    business_state: str,
    input_mode: str,
    *,
    asks: str | None = None,
    turn_end: TurnEnd | None = None,
) -> SurfaceAssessment:
    return SurfaceAssessment(
        Availability(availability),
        BusinessState(business_state),
        InputMode(input_mode),
        operator_excerpt=asks,
        parser_metadata=_METADATA,
        turn_end=turn_end,
    )


def screen(text: str, composer_rows: Iterable[int] = (), prompt_rows: Iterable[int] = ()) -> DialogProjection:
    return project_dialog(text, text, composer_rows=composer_rows, prompt_rows=prompt_rows)


BASELINE: Final = screen("welcome")


def seen(
    business_state: str = "idle",
    input_mode: str = "freeform",
    *,
    availability: str = "supported",
    text: str = "welcome",
    arrival: Arrival | None = None,
    asks: str | None = None,
    turn_end: TurnEnd | None = None,
) -> ShadowObservation:
    """One observation. What is idle is pushed unless the test says otherwise: then a window is kept by the timer."""
    if arrival is None:
        arrival = Arrival.PUSHED if business_state == "idle" else Arrival.POLLED
    assessment = surface(availability, business_state, input_mode, asks=asks, turn_end=turn_end)
    return ShadowObservation(assessment, screen(text), arrival)


READY: Final = seen()
WORKING: Final = seen("working", "closed")
BLOCKED: Final = seen("awaiting_operator", "modal")
ASKED_AGAIN: Final = seen("awaiting_operator", "modal", asks="and may I run this one?")
INTERRUPTED: Final = seen(turn_end=TurnEnd.INTERRUPTED)
ERRED: Final = seen(turn_end=TurnEnd.FAILED)
GONE: Final = SurfaceGone(exit_code=0)
MODAL: Final = seen("idle", "modal")
UNKNOWN: Final = seen("unknown", "unknown")
UNSUPPORTED: Final = seen(availability="unsupported")
DISCONNECTED: Final = seen(availability="disconnected")


def play(
    step: Callable[[StateT, InputT | ObservationTimerFired, float], tuple[StateT, tuple[Output, ...]]],
    state: StateT,
    script: Iterable[tuple[float, InputT]],
    until: float,
) -> tuple[StateT, list[tuple[float, Output]]]:
    """Be the shell: give each input at its time, fire the timer at each deadline, and note when what was said."""
    said: list[tuple[float, Output]] = []

    def give(input: InputT | ObservationTimerFired, now: float) -> None:
        nonlocal state
        state, outputs = step(state, input, now)
        said.extend((now, output) for output in outputs)

    def fire_until(now: float) -> None:
        while (due := state.deadline) is not None and due <= now:
            give(ObservationTimerFired(), due)

    for at, input in script:
        fire_until(at)
        give(input, at)
    fire_until(until)
    return state, said


def results(said: Iterable[tuple[float, Output]]) -> list[tuple[float, str]]:
    """When which result was given."""
    return [(at, output.kind) for at, output in said if not isinstance(output, Moved | Anomaly)]


def events(said: Iterable[tuple[float, Output]]) -> list[str]:
    return [output.event.value for _, output in said if isinstance(output, Moved)]


def anomalies(said: Iterable[tuple[float, Output]]) -> list[tuple[str, object]]:
    return [(output.kind, output.details) for _, output in said if isinstance(output, Anomaly)]
