"""What a source claims about an agent, on which rung of the evidence ladder, and why.

A claim is silent on an axis (None) where its source does not know; no source but a proven exit can claim `gone`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from interlock.screen.snapshot import scrub
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.evidence import Evidence, EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity, Attention

EXCERPT_MAX: Final = 240
"""Characters of foreign text that a claim keeps, in each of its fields."""

RANK: Final[Mapping[EvidenceSource, int]] = {
    EvidenceSource.NATIVE_STATUS: 0,
    EvidenceSource.NATIVE_FILE: 1,
    EvidenceSource.HOOK: 2,
    EvidenceSource.PANE_TITLE: 3,
    EvidenceSource.SCREEN: 4,
    EvidenceSource.SILENCE: 5,
    EvidenceSource.OPERATOR: 6,
}
"""The ladder, best first. `operator` is what follows from our own acts; anything that an agent shows overrules it."""

_UNCLAIMABLE: Final = (Activity.GONE, Activity.UNKNOWN)


def bounded(text: str) -> str:
    """Foreign text that is safe to keep and to show: one line, no control sequences, at most `EXCERPT_MAX` long."""
    # Cut before the work, so that a huge text costs no more than a long one; blanks and sequences may take room.
    flat = scrub(" ".join(text[: EXCERPT_MAX * 4].split()))
    # A lone surrogate, which JSON text may spell and UTF-8 cannot, would keep the log from taking it.
    flat = flat.encode("utf-8", "replace").decode()
    return flat if len(flat) <= EXCERPT_MAX else flat[: EXCERPT_MAX - 1] + "…"


@dataclass(frozen=True, slots=True)
class ChildNews:
    """What a source says about background agents, tools and subagents. `all_open`, if told, is the whole ledger."""

    opened: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    all_open: frozenset[str] | None = None

    def apply(self, ledger: frozenset[str]) -> frozenset[str]:
        """The children that are open after this news."""
        return ((ledger if self.all_open is None else self.all_open) | self.opened) - self.closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One thing that one source says at one time.

    `at_seconds` is when it became true, by the clock of `step`: when a file was written, a hook fired, a screen was
    captured. `is_dialog`: the attention is an open dialog, which can be seen to go, and not a notice such as an error.
    `withdraws`: the source takes back all that it said. `rule` and `where` say what spoke and where to look.
    `session_id` and `turn_id` are the tool's own names.
    """

    on: ClassVar[str] = "claimed"
    rung: EvidenceSource
    at_seconds: float
    rule: str
    activity: Activity | None = None
    attention: Attention | None = None
    is_dialog: bool = False
    withdraws: bool = False
    where: str = ""
    excerpt: str = ""
    children: ChildNews | None = None
    spawn_id: SpawnId | None = None
    session_id: str = ""
    turn_id: str = ""

    def __post_init__(self) -> None:
        if self.rung not in RANK:
            raise ContractError(f"{self.rung.value} is no rung of the ladder")
        if not math.isfinite(self.at_seconds):
            raise ContractError(f"a claim is dated {self.at_seconds}; give the finite seconds of the machine's clock")
        if self.activity in _UNCLAIMABLE:
            raise ContractError(f"nobody can claim {self.activity}; a source that does not know is silent")
        if self.is_dialog and self.attention in (None, Attention.NONE):
            raise ContractError("a dialog asks for something; name the attention")

    @property
    def evidence(self) -> Evidence:
        """The claim as a verdict names it. The time is left out: this clock is not a wall clock."""
        return Evidence(source=self.rung, rule=self.rule, where=self.where)


@dataclass(frozen=True, slots=True)
class SourceReading:
    """What a source made of one record: its claims, and whatever it did not understand."""

    claims: tuple[Claim, ...] = ()
    anomalies: tuple[Anomaly, ...] = field(default=())


def not_understood(source: str, message: str, excerpt: str = "") -> SourceReading:
    """A record that says nothing to us: kept as an anomaly, claimed as nothing."""
    return SourceReading(anomalies=(unknown_record(source, message, excerpt),))


def unknown_record(source: str, message: str, excerpt: str = "") -> Anomaly:
    return Anomaly(kind="unknown_record", source=source, message=message, details={"excerpt": bounded(excerpt)})
