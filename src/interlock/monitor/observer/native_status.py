"""Native status: which records of the status protocol (OSC 7501) count, and for what.

Any process that can write to the agent's terminal can write a record, and no record can prove who wrote it. The
protocol has neither a secret nor a question from the terminal to the program. So:

1. A record counts only if the profile of the CLI declares native status, names this app, the CLI introduced itself
   before the first Enter was typed into it (no tool runs before that), and the process that we started held the
   foreground of its terminal when the record came. Else it is noted, and decides nothing.
2. A record that counts may still be forged, by a process that shares the agent's process group. It decides neither axis
   by itself: `arbitration` lets it raise doubt, for a bounded time; `trusted_status` gives it to those who see on the
   screen that it is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interlock.monitor.arbitration.axes import turn_is_open
from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.arbitration.state import Arbitration
from interlock.screen.profile import Introduction, NativeStatus
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity

DISCREDITED: Final = "native_status_discredited"
"""The remark on an agent whose native status contradicted its screen for too long: it counts no more in this spawn."""


class StatusRefusal(StrEnum):
    """Why a record decides nothing."""

    UNDECLARED = "undeclared"
    OTHER_APP = "other_app"
    OTHER_PROCESS = "other_process"
    NOT_INTRODUCED = "not_introduced"


REASONS: Final = {
    StatusRefusal.UNDECLARED: "the profile of this CLI declares no native status",
    StatusRefusal.OTHER_APP: "the record names another app than the profile of this CLI",
    StatusRefusal.OTHER_PROCESS: "another process than the agent held the foreground of the terminal",
    StatusRefusal.NOT_INTRODUCED: "the agent did not introduce itself before the first Enter",
}


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """What the shim knows of where a record came from. The defaults are those of a shim that does not tell.

    `is_own`: the process that we started held the foreground of its terminal when the record was read. `has_asked`: it
    sent the probe, as such, before the first Enter. `greeted_as`: the app of its first record before the first Enter.
    """

    is_own: bool = False
    has_asked: bool = False
    greeted_as: str = ""


def refusal_of(
    app: str, origin: RecordOrigin, declared: NativeStatus | None, *, may_omit_app: bool
) -> StatusRefusal | None:
    """Why a record of `app` decides nothing; None if it counts. `may_omit_app`: it inherits the app, or needs none."""
    if declared is None:
        return StatusRefusal.UNDECLARED
    if app != declared.app and (app or not may_omit_app):
        return StatusRefusal.OTHER_APP
    if not origin.is_own:
        return StatusRefusal.OTHER_PROCESS
    is_introduced = origin.has_asked or (
        declared.introduction is Introduction.RECORD and origin.greeted_as == declared.app
    )
    return None if is_introduced else StatusRefusal.NOT_INTRODUCED


def trusted_status(state: Arbitration, now: float, shown: Activity) -> Claim | None:
    """What the agent reports of its activity, if that is also what its screen shows now; None where it proves nothing.

    `shown` is the reading of the newest frame. The claim is dated: compare it with the submit.
    """
    if DISCREDITED in state.remarks:
        return None
    voices = (voice for voice in state.ladders.activity if voice.rung is EvidenceSource.NATIVE_STATUS)
    voice = next((voice for voice in voices if now < voice.expires_at_seconds), None)
    if voice is None or voice.stance is None or voice.stance is not turn_is_open(shown):
        return None
    return voice.claim
