"""Track one terminal: readings in, a verdict a reading, with the events that it made certain.

Laws:
1. Before a submit the readiness kernel judges, after it the completion kernel; a turn that nobody submitted is inferred
   from its work. Both are given what `steady` believes, never a single frame.
2. Over a polled source a completion needs a confirming observation, with the same signature, at or after the end of the
   window: what happened between two polls was not seen.
3. A turn whose prompt stands in the composer again was interrupted, also where the surface has no word for it.
4. A submit that showed nothing at all opens no turn: once its grace is over, the surface is judged as before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from interlock.monitor import completion, readiness, steady
from interlock.monitor.axes import ATTENTION_OF_BLOCK
from interlock.monitor.evidence import Submit
from interlock.monitor.observation import Arrival, ShadowObservation, SurfaceGone, TimerFired
from interlock.monitor.policy import DEFAULT_POLICY, MonitorPolicy
from interlock.monitor.results import Output
from interlock.screen.assessment import BlockKind, BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.projection import DialogProjection
from interlock.screen.selection import ScreenReader
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.audit import Anomaly
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.states import Activity, Attention


class TrackerEvent(StrEnum):
    """What became certain."""

    READY = "ready"
    BLOCKED = "blocked"
    STALLED = "stalled"
    RECOVERED = "recovered"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    GONE = "gone"


_ENDS_TURN: Final = (TrackerEvent.COMPLETED, TrackerEvent.INTERRUPTED, TrackerEvent.FAILED, TrackerEvent.GONE)
_ANOMALIES: Final = {"stalled_recovered": TrackerEvent.RECOVERED}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known at one moment. `surface` is what the last snapshot alone said; `outputs` are the kernels' words."""

    at_seconds: float
    business_state: BusinessState
    surface: SurfaceAssessment
    activity: Activity
    attention: Attention
    draft: str | None
    turn: steady.OpenTurn | None
    last_turn: TrackerEvent | None
    events: tuple[TrackerEvent, ...] = ()
    outputs: tuple[Output, ...] = ()

    @property
    def rule(self) -> str:
        return self.surface.evidence[0].rule if self.surface.evidence else ""


class TuiTrackerSession:
    """One watched terminal, from its first snapshot to its end. Times are seconds of one monotonic clock."""

    def __init__(self, reader: ScreenReader, policy: MonitorPolicy = DEFAULT_POLICY) -> None:
        self._reader = reader
        self._policy = policy
        self._steady = steady.Steady()
        self._ready = readiness.ReadinessState(policy)
        self._turn: completion.CompletionState | None = None
        self._turns = 0
        self._prompt: str | None = None
        self._reading: ScreenReading | None = None
        self._last_turn: TrackerEvent | None = None
        self._outputs: list[Output] = []
        self._is_polled = True
        self._is_blank = False
        self._was_known = False
        self._is_gone = False

    @property
    def deadline(self) -> float | None:
        """When to call `on_timer`, if no snapshot comes before."""
        if self._reading is None:
            return None
        kernel = self._ready.deadline if self._turn is None else self._turn.deadline
        if self._is_polled:
            return None if self._turn is not None and self._turn.window is not None else kernel
        return min((at for at in (kernel, self._steady.due) if at is not None), default=None)

    def on_submit(self, now: float, prompt: str | None = None) -> Verdict:
        """A prompt was submitted. Where nobody tells which, it is the draft that stood in the composer."""
        reading = self._reading
        self._prompt = (reading.draft if reading else None) if prompt is None else prompt
        self._steady = steady.submit(self._steady, now)
        self._begin(self._prompt or None, now)
        return self._verdict(now)

    def on_snapshot(self, snapshot: Snapshot, now: float, arrival: Arrival = Arrival.POLLED) -> Verdict:
        """A snapshot was taken."""
        baseline = self._turn.turn.baseline if self._turn and self._turn.turn else None
        reading = self._reader.parse_snapshot(snapshot, baseline)
        self._reading = reading
        self._is_gone = False
        self._is_polled = arrival is Arrival.POLLED
        if snapshot.is_dead:
            return self.on_exit(now)
        self._is_blank = snapshot.is_blank
        self._see(reading, arrival, now)
        return self._verdict(now)

    def _see(self, reading: ScreenReading, arrival: Arrival, now: float) -> None:
        surface, key, pace = reading.assessment, reading.projection.key, self._reader.profile.pace
        self._steady = steady.see(self._steady, surface, key, now, pace, self._policy, is_blank=self._is_blank)
        if self._steady.turn is None:
            self._turn = None
        elif self._turn is None:
            self._begin(None, now)
        self._judge(ShadowObservation(self._believed(reading), reading.projection, arrival), now)

    def on_exit(self, now: float, exit_code: int | None = None, signal: int | None = None) -> Verdict:
        """The process behind the terminal is proven to have ended."""
        gone = SurfaceGone(exit_code, signal)
        if self._turn is None:
            self._ready, said = readiness.step(self._ready, gone, now)
        else:
            self._turn, said = completion.step(self._turn, gone, now)
        self._outputs += said
        self._steady = steady.Steady()
        self._is_gone = True
        return self._verdict(now)

    def on_channel_down(self, now: float) -> Verdict:
        """Nobody can look any more: nothing is known until the next snapshot."""
        self._steady = steady.Steady(turn=self._steady.turn)
        self._reading = None
        self._is_polled = True  # what comes next says nothing about the time in between
        return self._verdict(now)

    def on_timer(self, now: float) -> Verdict:
        """The deadline came. Where changes are pushed, the screen is still the one that was seen last."""
        if self._reading is not None and not self._is_polled:
            self._see(self._reading, Arrival.PUSHED, now)
            return self._verdict(now)
        if self._turn is None:
            self._ready, said = readiness.step(self._ready, TimerFired(), now)
        else:
            self._turn, said = completion.step(self._turn, TimerFired(), now)
        self._outputs += said
        return self._verdict(now)

    def _begin(self, prompt: str | None, now: float) -> None:
        self._turns += 1
        # A window that nothing confirmed is not closed by the next submit either.
        is_unconfirmed = self._turn is not None and self._turn.window is not None and self._is_polled
        state = completion.CompletionState(self._policy) if self._turn is None or is_unconfirmed else self._turn
        baseline = _NOTHING if self._reading is None else self._reading.projection
        turn = Submit(TurnId(f"tracked-{self._turns}"), baseline, prompt)
        self._turn, said = completion.step(state, turn, now)
        self._outputs += said

    def _believed(self, reading: ScreenReading) -> SurfaceAssessment:
        """What the kernels are given: an idle that is not believed yet says nothing about what typed text would do."""
        surface, turn = reading.assessment, self._steady.turn
        if surface.business_state is BusinessState.IDLE and self._steady.believed is not BusinessState.IDLE:
            return replace(surface, input_mode=InputMode.UNKNOWN)
        is_restored = turn is not None and turn.shows_work and self._prompt and reading.draft == self._prompt
        return replace(surface, turn_end=TurnEnd.INTERRUPTED) if is_restored else surface

    def _judge(self, seen: ShadowObservation, now: float) -> None:
        if self._turn is None:
            self._ready, said = readiness.step(self._ready, seen, now)
            self._outputs += said
            return
        self._turn, said = completion.step(self._turn, seen, self._time_of(self._turn, seen, now))
        self._outputs += said
        has_ended = any(_event_of(output) in _ENDS_TURN for output in said)
        if has_ended or self._never_began(self._turn):
            self._turn = None
            self._steady = steady.close_turn(self._steady)
            self._ready, said = readiness.step(readiness.ReadinessState(self._policy), seen, now)
            self._outputs += said

    def _time_of(self, turn: completion.CompletionState, seen: ShadowObservation, now: float) -> float:
        """What does not confirm a window of which we saw only the ends counts as if it came right before its end."""
        window = turn.window
        if window is None or seen.arrival is Arrival.PUSHED or now < window.deadline:
            return now
        confirms = seen.assessment.submit_ready and window.signature.projection_key == seen.projection.key
        return now if confirms else math.nextafter(window.deadline, -math.inf)

    def _never_began(self, turn: completion.CompletionState) -> bool:
        is_idle = self._steady.believed is BusinessState.IDLE
        return is_idle and turn.status is completion.CompletionStatus.WAITING and not turn.evidence.has_activity

    def _verdict(self, now: float) -> Verdict:
        outputs, self._outputs = tuple(self._outputs), []
        events = tuple(event for output in outputs if (event := _event_of(output)) is not None)
        self._last_turn = next((event for event in reversed(events) if event in _ENDS_TURN), self._last_turn)
        reading = self._reading
        surface = SurfaceAssessment() if reading is None else reading.assessment
        activity, attention = self._axes(surface)
        return Verdict(
            at_seconds=now,
            business_state=self._steady.believed,
            surface=surface,
            activity=activity,
            attention=attention,
            draft=None if reading is None else reading.draft,
            turn=self._steady.turn,
            last_turn=self._last_turn,
            events=events,
            outputs=outputs,
        )

    def _axes(self, surface: SurfaceAssessment) -> tuple[Activity, Attention]:
        believed = self._steady.believed
        self._was_known = self._was_known or believed is not BusinessState.UNKNOWN
        if self._is_gone or surface.is_gone:
            return Activity.GONE, Attention.NONE
        if believed is BusinessState.AWAITING_OPERATOR:
            activity = Activity.QUIET if self._steady.turn is None else Activity.WORKING
            return activity, ATTENTION_OF_BLOCK[surface.block.kind if surface.block else BlockKind.OTHER]
        if believed is BusinessState.UNKNOWN:
            return self._unknown_activity(), Attention.NONE
        if believed is BusinessState.WORKING:
            return Activity.WORKING, Attention.NONE
        return Activity.SETTLING if surface.ui_context == "background_task" else Activity.QUIET, Attention.NONE

    def _unknown_activity(self) -> Activity:
        status = self._ready.status if self._turn is None else self._turn.status
        if status == "stalled":
            return Activity.STALLED
        return Activity.UNKNOWN if self._was_known else Activity.STARTING


_NOTHING: Final = DialogProjection("", "", "", "", "", "", ())


def _event_of(output: Output) -> TrackerEvent | None:
    if isinstance(output, Anomaly):
        return _ANOMALIES.get(output.kind)
    kind = getattr(output, "kind", None)
    return TrackerEvent(kind) if kind is not None else None
