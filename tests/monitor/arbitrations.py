"""Claims by short names, and a small shell: what the tests of arbitration are written in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from interlock.monitor.arbitration.arbiter import step
from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.arbitration.state import (
    Arbitration,
    ArbitrationInput,
    ChannelClosed,
    ChannelOpened,
    Output,
    StandingChanged,
)
from interlock.monitor.observation import ObservationTimerFired
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity, Attention

R = EvidenceSource
NATIVE, FILE, HOOK, TITLE, SCREEN = R.NATIVE_STATUS, R.NATIVE_FILE, R.HOOK, R.PANE_TITLE, R.SCREEN
RUNGS: Final = (NATIVE, FILE, HOOK, TITLE, SCREEN, R.SILENCE)
W, Q = Activity.WORKING, Activity.QUIET
NONE, APPROVAL, QUESTION, PLAN, ERROR = (
    Attention.NONE,
    Attention.APPROVAL,
    Attention.QUESTION,
    Attention.PLAN,
    Attention.ERROR,
)
_DIALOGS: Final = (APPROVAL, QUESTION, PLAN, Attention.AUTH, Attention.QUOTA)

Timed = tuple[float, ArbitrationInput]
Script = Iterable[Timed]


def says(
    rung: EvidenceSource, at: float, activity: Activity | None = None, attention: Attention | None = None
) -> Timed:
    """A claim that is told when it is made. An attention is that of a dialog, unless it is an error."""
    return at, Claim(
        rung=rung,
        at_seconds=at,
        rule=f"{rung.value}.{activity}.{attention}",
        activity=activity,
        attention=attention,
        is_dialog=attention in _DIALOGS,
    )


def opened(rung: EvidenceSource, at: float = 0.0) -> Timed:
    return at, ChannelOpened(rung)


def closed(rung: EvidenceSource, at: float) -> Timed:
    return at, ChannelClosed(rung)


def pushed(*rungs: EvidenceSource) -> list[Timed]:
    return [opened(rung) for rung in rungs]


def run(script: Script, until: float, state: Arbitration | None = None) -> tuple[Arbitration, list[Output]]:
    """Be the shell: give each input at its time, fire the timer at each deadline, and note what was said."""
    state = Arbitration() if state is None else state
    said: list[Output] = []
    for at, input in [*script, (until, ObservationTimerFired())]:
        while state.deadline is not None and state.deadline < at:
            state, outputs = step(state, ObservationTimerFired(), state.deadline)
            said += outputs
        state, outputs = step(state, input, at)
        said += outputs
    return state, said


def stands(script: Script, until: float) -> tuple[str, str]:
    """The two axes at a time."""
    standing = run(script, until)[0].standing
    return standing.activity.value, standing.attention.value


def history(script: Script, until: float) -> list[tuple[float, str, str]]:
    """When which pair of axes began."""
    changes = [output.after for output in run(script, until)[1] if isinstance(output, StandingChanged)]
    return [(after.since_seconds or 0.0, after.activity.value, after.attention.value) for after in changes]


def anomalies(script: Script, until: float) -> list[Anomaly]:
    return [output for output in run(script, until)[1] if isinstance(output, Anomaly)]
