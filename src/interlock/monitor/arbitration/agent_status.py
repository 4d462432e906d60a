"""What a person sees of one agent: both axes, how sure we are, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from interlock.monitor.arbitration.claims import Claim
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.states import Activity, Attention


class Confidence(IntEnum):
    """How sure a verdict is, in order.

    `proven`: it cannot be otherwise. `reported`: the agent itself said it. `seen`: it was read from what the agent
    shows. `inferred`: it follows from something else that is known. `none`: nothing fresh says anything.
    """

    NONE = 0
    INFERRED = 1
    SEEN = 2
    REPORTED = 3
    PROVEN = 4


CONFIDENCE_OF: Final[Mapping[EvidenceSource, Confidence]] = {
    EvidenceSource.EXIT: Confidence.PROVEN,
    EvidenceSource.NATIVE_STATUS: Confidence.REPORTED,
    EvidenceSource.NATIVE_FILE: Confidence.REPORTED,
    EvidenceSource.HOOK: Confidence.REPORTED,
    EvidenceSource.PANE_TITLE: Confidence.SEEN,
    EvidenceSource.SCREEN: Confidence.SEEN,
    EvidenceSource.SILENCE: Confidence.INFERRED,
    EvidenceSource.OPERATOR: Confidence.INFERRED,
}


@dataclass(frozen=True, slots=True)
class StatusBasis:
    """What one axis rests on. Without a rung nothing fresh spoke, and there is no evidence."""

    rung: EvidenceSource | None = None
    confidence: Confidence = Confidence.NONE
    at_seconds: float | None = None
    evidence: tuple[Evidence, ...] = ()
    excerpt: str = ""


NO_BASIS: Final = StatusBasis()


def basis_of(claim: Claim, confidence: Confidence | None = None) -> StatusBasis:
    """A claim as the basis of a verdict, with the confidence of its rung unless another is given."""
    sure = CONFIDENCE_OF[claim.rung] if confidence is None else confidence
    return StatusBasis(claim.rung, sure, claim.at_seconds, (claim.evidence,), claim.excerpt)


@dataclass(frozen=True, slots=True)
class Standing:
    """How an agent stands. `since_seconds` is when this pair of axes began; None before the first input.

    `rung`, `confidence`, `evidence` and age are those of what a person would act on: the attention if there is one,
    else the activity. Each axis has its own as well.
    """

    activity: Activity = Activity.UNKNOWN
    attention: Attention = Attention.NONE
    activity_basis: StatusBasis = NO_BASIS
    attention_basis: StatusBasis = NO_BASIS
    since_seconds: float | None = None

    @property
    def is_ready(self) -> bool:
        """Quiet, and nobody is asked for anything."""
        return self.activity is Activity.QUIET and self.attention is Attention.NONE

    @property
    def basis(self) -> StatusBasis:
        return self.activity_basis if self.attention is Attention.NONE else self.attention_basis

    @property
    def rung(self) -> EvidenceSource | None:
        return self.basis.rung

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What both axes rest on, the deciding one first."""
        other = self.attention_basis if self.basis is self.activity_basis else self.activity_basis
        return tuple(dict.fromkeys((*self.basis.evidence, *other.evidence)))

    def age_seconds(self, now: float) -> float | None:
        """How old the deciding evidence is; None where there is none."""
        return None if self.basis.at_seconds is None else max(0.0, now - self.basis.at_seconds)
