"""What a kernel says: results on a change of verdict, the named events of its diagram, anomalies of a stall."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from interlock.monitor.observation import ShadowObservation, SurfaceGone
from interlock.monitor.policy import MonitorPolicy
from interlock.screen.assessment import ParserMetadata, SurfaceAssessment
from interlock.screen.projection import DialogProjection
from interlock.vocabulary.events.audit import Anomaly


class Phase(StrEnum):
    """Before the submit, and after it."""

    READINESS = "readiness"
    COMPLETION = "completion"


class FailureKind(StrEnum):
    """Why a surface failed. `turn_failed`: it can be read, and says itself that the turn ended in an error."""

    UNSUPPORTED = "unsupported"
    DISCONNECTED = "disconnected"
    STALLED = "stalled"
    TURN_FAILED = "turn_failed"


class CompletionBasis(StrEnum):
    """What a completion rests on."""

    STABILITY_WINDOW = "stability_window"
    COMPLETION_OBSERVER = "completion_observer"


class MonitorEvent(StrEnum):
    """The names of the arrows in the diagrams of both phases. The page has no process that ends: that one is ours."""

    SUBMIT_READY = "evt_submit_ready"
    OPERATOR_BLOCKED = "evt_operator_blocked"
    SURFACE_GONE = "evt_surface_unsupported_or_disconnected"
    UNKNOWN_FOR_STALL = "evt_unknown_for_stall"
    UNKNOWN_TIMEOUT = "evt_unknown_timeout"
    STALLED_IS_TERMINAL = "stalled_is_terminal"
    KNOWN_NONREADY = "evt_known_nonready"
    KNOWN_NONCANDIDATE = "evt_known_noncandidate"
    WORKING_SEEN = "evt_working_seen"
    SUBMIT_READY_WITH_ACTIVITY = "evt_submit_ready_with_activity"
    STATE_SIGNATURE_CHANGED = "evt_state_signature_changed"
    STABILITY_WINDOW_ELAPSED = "evt_stability_window_elapsed"
    INTERRUPTED_SEEN = "evt_interrupted_seen"
    COMPLETION_OBSERVER_PAYLOAD = "evt_completion_observer_payload"
    RECOVERED_TO_WAITING = "evt_stalled_recovered_to_waiting"
    RECOVERED_TO_SUBMIT_READY = "evt_stalled_recovered_to_submit_ready"
    RECOVERED_TO_WORKING = "evt_stalled_recovered_to_working"
    RECOVERED_TO_CANDIDATE = "evt_stalled_recovered_to_candidate"
    RECOVERED_TO_BLOCKED = "evt_stalled_recovered_to_blocked"
    PROCESS_GONE = "evt_process_gone"


@dataclass(frozen=True, slots=True)
class Moved:
    """One arrow was taken. `before` and `after` are equal only where a stability window began again."""

    phase: Phase
    event: MonitorEvent
    before: str
    after: str
    at_seconds: float


@dataclass(frozen=True, slots=True)
class ObserverPayload:
    """What a reply contract or a hook found, word for word, and who found it."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class ReadyResult:
    """A prompt may be submitted."""

    kind: ClassVar[str] = "ready"
    phase: Phase
    at_seconds: float
    observation: ShadowObservation


@dataclass(frozen=True, slots=True)
class BlockedResult:
    """The tool waits for a person. Given again when it asks something else, by the operator excerpt of the surface.

    `payload`: the turn's observer has already found what it looks for.
    """

    kind: ClassVar[str] = "blocked"
    phase: Phase
    at_seconds: float
    observation: ShadowObservation
    payload: ObserverPayload | None = None


@dataclass(frozen=True, slots=True)
class FailedResult:
    """The surface cannot be read, or says that the turn failed, or it stalled and the policy ends there."""

    kind: ClassVar[str] = "failed"
    phase: Phase
    at_seconds: float
    observation: ShadowObservation
    failure: FailureKind
    payload: ObserverPayload | None = None


@dataclass(frozen=True, slots=True)
class StalledResult:
    """Nothing usable was seen for too long."""

    kind: ClassVar[str] = "stalled"
    phase: Phase
    at_seconds: float
    observation: ShadowObservation
    elapsed_unknown_seconds: float


@dataclass(frozen=True, slots=True)
class ModeDiagnostics:
    """Under what terms a completion was declared."""

    basis: CompletionBasis
    policy: MonitorPolicy
    saw_working: bool
    saw_projection_change: bool


@dataclass(frozen=True, slots=True)
class CompletedResult:
    """The turn is finished. It claims nothing about the text of an answer."""

    kind: ClassVar[str] = "completed"
    phase: Phase
    at_seconds: float
    observation: ShadowObservation
    mode_diagnostics: ModeDiagnostics
    payload: ObserverPayload | None = None

    @property
    def surface_assessment(self) -> SurfaceAssessment:
        return self.observation.assessment

    @property
    def dialog_projection(self) -> DialogProjection:
        return self.observation.projection

    @property
    def projection_slices(self) -> dict[str, str]:
        return {"head": self.observation.projection.head, "tail": self.observation.projection.tail}

    @property
    def parser_metadata(self) -> ParserMetadata:
        return self.observation.assessment.parser_metadata


@dataclass(frozen=True, slots=True)
class InterruptedResult:
    """The turn is over, and the surface says that somebody interrupted it."""

    kind: ClassVar[str] = "interrupted"
    phase: Phase
    at_seconds: float
    observation: ShadowObservation
    payload: ObserverPayload | None = None


@dataclass(frozen=True, slots=True)
class GoneResult:
    """The process ended while a turn, or the wait for one, was open. `observation` is the last one, if any."""

    kind: ClassVar[str] = "gone"
    phase: Phase
    at_seconds: float
    observation: ShadowObservation | None
    exit: SurfaceGone
    payload: ObserverPayload | None = None


Result: TypeAlias = (
    ReadyResult | BlockedResult | FailedResult | StalledResult | CompletedResult | InterruptedResult | GoneResult
)
Output: TypeAlias = Moved | Anomaly | Result
