"""What one snapshot of a terminal says, and nothing that needs a second one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Availability(StrEnum):
    """Whether there is a surface that we can read."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    DISCONNECTED = "disconnected"
    UNKNOWN = "unknown"


class BusinessState(StrEnum):
    """What the tool behind the surface is doing."""

    IDLE = "idle"
    WORKING = "working"
    AWAITING_OPERATOR = "awaiting_operator"
    UNKNOWN = "unknown"


class InputMode(StrEnum):
    """What typed text would do."""

    FREEFORM = "freeform"
    MODAL = "modal"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class TurnEnd(StrEnum):
    """How the latest turn ended, in the surface's own words."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class BlockKind(StrEnum):
    """What a dialog wants of a person. A picker that the person opened is `other`."""

    APPROVAL = "approval"
    QUESTION = "question"
    PLAN = "plan"
    TRUST = "trust"
    AUTH = "auth"
    QUOTA = "quota"
    UPDATE = "update"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that a dialog offers. Numbers shift from version to version, so options are chosen by their text.

    `key` is the key that the dialog itself names for it, if it does.
    """

    text: str
    is_selected: bool = False
    key: str | None = None


@dataclass(frozen=True, slots=True)
class OperatorBlock:
    """A dialog that waits for a person."""

    kind: BlockKind
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class SurfaceEvidence:
    """The rule that spoke, and the rows that it read."""

    rule: str
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SurfaceAnomaly:
    """Something odd about the reading itself, such as a version outside every interval."""

    code: str
    message: str = ""
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ParserMetadata:
    """Which parser read the snapshot, and how it was chosen."""

    parser_family: str = "unknown"
    profile_id: str = ""
    selection_source: str = ""
    detected_version: str | None = None


@dataclass(frozen=True, slots=True)
class SurfaceAssessment:
    """The axes of one snapshot, with the evidence for them. Axes that were not read are `unknown`.

    `turn_end` is what the surface itself says about how its latest turn ended; None where it says nothing. `is_weak`:
    the same frame also appears for a moment while the tool does something else. `is_unended`: the latest prompt has no
    end below it, and the tool marks every end.
    """

    availability: Availability = Availability.UNKNOWN
    business_state: BusinessState = BusinessState.UNKNOWN
    input_mode: InputMode = InputMode.UNKNOWN
    ui_context: str = "unknown"
    evidence: tuple[SurfaceEvidence, ...] = ()
    operator_excerpt: str | None = None
    parser_metadata: ParserMetadata = ParserMetadata()
    anomalies: tuple[SurfaceAnomaly, ...] = ()
    turn_end: TurnEnd | None = None
    block: OperatorBlock | None = None
    is_weak: bool = False
    is_unended: bool = False

    @property
    def is_gone(self) -> bool:
        """The surface cannot be read: it is not one that we know, or there is none."""
        return self.availability is Availability.UNSUPPORTED or self.availability is Availability.DISCONNECTED

    @property
    def operator_blocked(self) -> bool:
        """The tool waits for a person. It holds with availability unknown too: a dialog that was read is there."""
        return self.business_state is BusinessState.AWAITING_OPERATOR and not self.is_gone

    @property
    def unknown_for_stall(self) -> bool:
        """The surface says nothing that can be used. An unknown input mode alone is not enough."""
        if self.availability is Availability.SUPPORTED:
            return self.business_state is BusinessState.UNKNOWN
        return self.availability is Availability.UNKNOWN

    @property
    def submit_ready(self) -> bool:
        """A prompt may be typed and submitted."""
        return (
            self.availability is Availability.SUPPORTED
            and self.business_state is BusinessState.IDLE
            and self.input_mode is InputMode.FREEFORM
        )
