"""Track one terminal: readings in, a verdict a reading, with the events that it made certain.

Laws:
1. Before a submit the readiness kernel judges, after it the completion kernel; a turn that nobody submitted is inferred
   from its work. Both are given what `steady` believes, never a single frame.
2. Over a polled source a completion needs a confirming observation, with the same signature, at or after the end of the
   window: what happened between two polls was not seen.
3. A turn whose prompt stands in the composer again was interrupted, also where the surface has no word for it. So was
   one whose prompt was taken back from the transcript, with nothing left of it. So was one in which a person was asked,
   and whose CLI marks each turn that completes, and does not mark this one: a refusal; its mark counts from the first
   frame after the dialog on, until work is seen, also where a low pane has no room for it any more.
   A mark of an end counts if it was not there at the submit, or not on every screen that showed the turn at work.
4. A submit that showed nothing at all opens no turn: once its grace is over, the surface is judged as before it. Nor
   does a dialog that nobody's prompt led to, such as one at a start: a turn that was inferred and showed no work never
   completes.
5. Without an open turn nothing is stalled. A screen that no rule of its profile reads is unknown, and once it was so
   for as long as a turn may be before it stalls, the standing says that no profile fits.
6. The agent's own word that a submitted turn is over (`native_end`) bypasses the stability window and the hold of its
   profile, and nothing else: the screen must take a prompt, and a screen at work or with a dialog outweighs it.
7. The hold of a profile and the stability window are one wait from the first idle frame, as long as the longer of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Final, TypeAlias

from msgspec import structs

from interlock.monitor import completion, progress, readiness, stall, title_word
from interlock.monitor import debounce as steady
from interlock.monitor.arbitration import arbiter as arbitration
from interlock.monitor.arbitration.agent_status import Standing, StatusBasis
from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.arbitration.state import (
    Arbitration,
    ArbitrationInput,
    ChannelClosed,
    ChannelOpened,
    ProcessExited,
    ProcessSpawned,
    StandingChanged,
    TurnSubmitted,
)
from interlock.monitor.observation import Arrival, ObservationTimerFired, ShadowObservation, SurfaceGone
from interlock.monitor.observer import native_end
from interlock.monitor.observer.native_status import trusted_status
from interlock.monitor.policy import DEFAULT_POLICY, MonitorPolicy
from interlock.monitor.post_submit_evidence import (
    Observer,
    Submit,
    ends_with_same_prompt,
    has_same_transcript,
    has_scrolled,
    shows_change,
)
from interlock.monitor.progress import AgentProgress, ProgressState
from interlock.monitor.results import BlockedResult, FailedResult, ObserverPayload, Output, Phase
from interlock.monitor.sources.surface import claim_of_screen, claim_of_title
from interlock.screen.assessment import BusinessState, InputMode, SurfaceAssessment, TurnEnd
from interlock.screen.engine import ScreenReading
from interlock.screen.projection import DialogProjection
from interlock.screen.selection import ScreenReader
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.events.audit import TURN_ABANDONED, Anomaly
from interlock.vocabulary.evidence import NO_PROFILE_FITS, TITLE_CONTRADICTED, Evidence, EvidenceSource
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
    ABANDONED = TURN_ABANDONED


Said: TypeAlias = Output | StandingChanged
_BUSY: Final = (BusinessState.WORKING, BusinessState.AWAITING_OPERATOR)
_CAPTURES: Final = (EvidenceSource.SCREEN, EvidenceSource.PANE_TITLE)
_FIRST_SPIN_SECONDS: Final = 1.0
_ENDS_TURN: Final = (TrackerEvent.COMPLETED, TrackerEvent.INTERRUPTED, TrackerEvent.FAILED, TrackerEvent.GONE)
_ANOMALIES: Final = {"stalled_recovered": TrackerEvent.RECOVERED, TURN_ABANDONED: TrackerEvent.ABANDONED}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known at one moment. `surface` is what the last snapshot alone said, `business_state` what is believed of
    the screen, `standing` what all sources together say; `outputs` are the words of kernels and arbitration.
    `progress` is the last sign that the agent got on with its turn, and None while none is open."""

    at_seconds: float
    business_state: BusinessState
    surface: SurfaceAssessment
    standing: Standing
    draft: str | None
    turn: steady.BelievedTurn | None
    last_turn: TrackerEvent | None
    events: tuple[TrackerEvent, ...] = ()
    outputs: tuple[Said, ...] = ()
    progress: AgentProgress | None = None

    @property
    def activity(self) -> Activity:
        return self.standing.activity

    @property
    def attention(self) -> Attention:
        return self.standing.attention

    @property
    def rule(self) -> str:
        return self.surface.evidence[0].rule if self.surface.evidence else ""


class TuiTrackerSession:
    """One watched terminal, from its first snapshot to its end. Times are seconds of one monotonic clock."""

    def __init__(self, reader: ScreenReader, policy: MonitorPolicy = DEFAULT_POLICY, *, saw_start: bool = True) -> None:
        """`saw_start`: the program began under our eyes. Of one that was adopted nobody can say that it is starting."""
        self._reader = reader
        self._saw_start = self._saw_first_frame = saw_start
        self._policy = policy
        self._steady = steady.Steady()
        self._ready = readiness.ReadinessState(policy)
        self._turn: completion.CompletionState | None = None
        self._turns = 0
        self._prompt: str | None = None
        self._reading: ScreenReading | None = None
        self._last_turn: TrackerEvent | None = None
        self._outputs: list[Said] = []
        self._is_polled = True
        self._is_blank = False
        self._ladder = Arbitration(policy)
        self._dialog = SurfaceAssessment()
        self._is_running = False
        self._has_title_spun = False
        self._spins_for_us_until = -math.inf
        self._title = title_word.TitleWord()
        self._title_rules = title_word.rules_by_title(reader.profile)
        self._snapshot: Snapshot | None = None
        self._read: ScreenReading | None = None
        self._progress = ProgressState()
        self._is_first_look = False
        self._native = native_end.NativeEnd()
        self._lasting_rows: Counter[str] | None = None
        self._turn_began_at = 0.0
        self._was_echoed = self._has_scrolled = self._was_asked = self._was_refused = False
        self._marks_completion = any(one.end is TurnEnd.COMPLETED for one in reader.profile.endings)

    @property
    def deadline(self) -> float | None:
        """When to call `on_timer`, if no snapshot comes before."""
        if self._reading is None:
            return self._ladder.deadline
        kernel = self._ready.deadline if self._turn is None else self._turn.deadline
        due = self._steady.due
        doubt = self._title.deadline
        if self._is_polled:
            due = doubt = None  # only another look can show it
        return min((at for at in (kernel, due, doubt, self._ladder.deadline) if at is not None), default=None)

    def on_submit(
        self, now: float, prompt: str | None = None, turn_id: TurnId | None = None, observer: Observer | None = None
    ) -> Verdict:
        """A prompt was submitted. Where nobody tells which, it is the draft that stood in the composer.

        `turn_id` is how `on_reported` names the turn. `observer` looks for its reply (`monitor.observer.reply`).
        """
        reading = self._reading
        if self._turns == 0 and self._saw_first_frame and not self._is_spinning():
            self._spins_for_us_until = now + _FIRST_SPIN_SECONDS
        self._prompt = (reading.draft if reading else None) if prompt is None else prompt
        self._steady = steady.submit(now, self._reader.profile.pace)
        if self._ready.clock is not None and self._ready.clock.stalled_at is not None:
            self._outputs.append(stall.abandoned(Phase.READINESS, self._ready.clock, now))
        self._begin(self._prompt or None, now, turn_id, observer)
        self._get_on(None if reading is None else reading.projection, now, "turn.submitted")
        self._arbitrate(TurnSubmitted(), now)
        return self._verdict(now)

    def on_snapshot(self, snapshot: Snapshot, now: float, arrival: Arrival = Arrival.POLLED) -> Verdict:
        """A snapshot was taken."""
        baseline = self._turn.turn.baseline if self._turn and self._turn.turn else None
        read = self._reader.parse_snapshot(snapshot, baseline, self._lasting_rows)
        self._snapshot, self._read = snapshot, read
        reading = self._reading = self._weighed(snapshot, self._read, now)
        self._is_polled = arrival is Arrival.POLLED
        if snapshot.is_dead:
            return self.on_exit(now)
        self._is_first_look = not self._is_running and not self._saw_start
        if not self._is_running:
            self._is_running = True
            self._ready = readiness.ReadinessState(self._policy)
            if self._saw_start:
                self._arbitrate(ProcessSpawned(), now)
            self._saw_start = True  # whatever comes after this one's end begins under our eyes
        for rung in _CAPTURES:
            if (rung in self._ladder.channels) is self._is_polled:
                self._arbitrate(ChannelClosed(rung) if self._is_polled else ChannelOpened(rung), now)
        self._is_blank = snapshot.is_blank
        self._see(reading, arrival, now)
        if self._turn is not None and reading.assessment.business_state in _BUSY:
            rows = Counter(reading.projection.rows)
            self._lasting_rows = rows if self._lasting_rows is None else self._lasting_rows & rows
        self._hear_status(now)
        self._hear_title(snapshot.title, now)
        return self._verdict(now)

    def _hear_title(self, title: str, now: float) -> None:
        told = "" if self._title.contradicted else title
        self._arbitrate(claim_of_title(told, self._reader.profile.titles, at_seconds=now), now)

    def _weighed(self, snapshot: Snapshot, read: ScreenReading, now: float) -> ScreenReading:
        """What is believed of a reading, as far as it rests on the title."""
        bare = cache(lambda: self._reader.parse_snapshot(replace(snapshot, title="")))  # read at most once
        self._title, reading = title_word.weigh(
            self._title,
            read,
            self._said_by_title(snapshot.title, read.assessment),
            bare,
            now,
            has_turn=self._turn is not None,
            bound_seconds=self._policy.native_doubt_seconds,
        )
        return self._firm(reading, snapshot.title, bare, now)

    def _said_by_title(self, title: str, surface: SurfaceAssessment) -> BusinessState | None:
        """What the title alone says: by the rule that spoke, or by its marks over a screen that was read otherwise."""
        marks, state = self._reader.profile.titles, surface.business_state
        if state in (BusinessState.WORKING, BusinessState.AWAITING_OPERATOR):
            if surface.evidence and surface.evidence[0].rule in self._title_rules:
                return state
            is_asking = marks.asking is not None and marks.asking.match(title) is not None
            return BusinessState.AWAITING_OPERATOR if is_asking and state is BusinessState.WORKING else None
        if state is BusinessState.IDLE and marks.asking is not None and marks.asking.match(title):
            return BusinessState.AWAITING_OPERATOR
        if state is BusinessState.IDLE and marks.working is not None and marks.working.match(title):
            return BusinessState.WORKING
        return None

    def _see(self, reading: ScreenReading, arrival: Arrival, now: float) -> None:
        surface, key, pace = reading.assessment, reading.projection.key, self._reader.profile.pace
        turn = self._turn.turn if self._turn else None
        is_echoed = turn is not None and self._is_echoed(turn, reading.projection)
        self._steady = steady.see(
            self._steady,
            surface,
            key,
            now,
            pace,
            self._policy,
            is_blank=self._is_blank,
            is_echoed=is_echoed,
            is_frozen=turn is not None and key == turn.baseline.key,
            reported_hold_seconds=self._reported_hold(reading),
        )
        if turn is not None:
            self._remember(turn, reading, is_echoed=is_echoed)
        seen = ShadowObservation(self._believed(reading, now), reading.projection, arrival)
        if self._steady.turn is None and self._turn is not None:
            _, said = completion.step(self._confirmed(self._turn, seen, now), seen, now)
            self._hand_over(said)
            self._turn = None
        elif self._steady.turn is not None and self._turn is None:
            _, said = readiness.step(self._ready, seen, now)
            self._hand_over(said)
            self._prompt = None  # nobody told it; the one before is another turn's
            self._begin(None, now, is_inferred=True, was_found=self._is_first_look)
            self._get_on(reading.projection, now, "turn.inferred")
        if self._is_at_work:
            self._progress = progress.see(self._progress, reading.projection, self._reader.profile.figures, now)
        self._judge(seen, now)
        is_stalled = self._turn is not None and self._turn.status is completion.CompletionStatus.STALLED
        believed = self._steady.believed
        if believed is BusinessState.AWAITING_OPERATOR:
            # Under a blank frame it is still the dialog that was read before it.
            self._dialog = surface = surface if surface.operator_blocked else self._dialog
        claim = claim_of_screen(surface, at_seconds=now, verdict=believed, is_stalled=is_stalled)
        self._arbitrate(claim, now)

    def _remember(self, turn: Submit, reading: ScreenReading, *, is_echoed: bool) -> None:
        """What later frames of this turn may not show any more: its prompt, and the mark of a refusal."""
        surface = reading.assessment
        self._was_echoed = self._was_echoed or is_echoed
        self._has_scrolled = self._has_scrolled or (is_echoed and has_scrolled(turn, reading.projection))
        if surface.business_state in _BUSY:
            self._was_asked, self._was_refused = surface.business_state is not BusinessState.WORKING, False
        elif self._was_asked and surface.turn_end is TurnEnd.INTERRUPTED:
            self._was_refused = not turn.is_inferred

    def _is_taken_back(self, turn: Submit, projection: DialogProjection) -> bool:
        """Whether the prompt was in the transcript, and that is as it was before. Where no older prompt tells, not if
        it scrolled: the same long answer to the same prompt leaves the same screen."""
        if not self._prompt or not self._was_echoed:
            return False
        latest = _latest_prompt(projection)
        if latest is None:
            return not self._has_scrolled and has_same_transcript(turn, projection)
        return not latest.endswith(_first_line(self._prompt)) and ends_with_same_prompt(turn, projection)

    def _firm(self, reading: ScreenReading, title: str, bare: Callable[[], ScreenReading], now: float) -> ScreenReading:
        """A title that is known to spin while this CLI works, and is calm now, makes a weak idle a strong one.

        Known by a spin over a screen at work; or by one that began right after the first prompt of a program that we
        saw start, before any tool of its could write to the terminal. At any other time it may be anybody's."""
        marks, surface = self._reader.profile.titles, reading.assessment
        if marks.working is None or marks.calm is None:
            return reading
        if not self._has_title_spun and marks.working.search(title):
            is_ours = now <= self._spins_for_us_until
            self._has_title_spun = is_ours or bare().assessment.business_state is BusinessState.WORKING
        is_firm = self._has_title_spun and surface.business_state is BusinessState.IDLE and marks.calm.search(title)
        return replace(reading, assessment=replace(surface, is_weak=False)) if is_firm else reading

    def _is_spinning(self) -> bool:
        marks = self._reader.profile.titles
        title = "" if self._snapshot is None else self._snapshot.title
        return marks.working is not None and marks.working.search(title) is not None

    def _is_echoed(self, turn: Submit, projection: DialogProjection) -> bool:
        """Whether the latest message of the user is the prompt of this turn, and was not there at its submit."""
        if not self._prompt:
            return False
        latest, before = _latest_prompt(projection), _latest_prompt(turn.baseline)
        return latest is not None and latest != before and latest.endswith(_first_line(self._prompt))

    def on_claims(self, claims: Iterable[Claim], now: float) -> Verdict:
        """Another source spoke: a hook, a status file, a record of the status protocol. The ladder ranks it."""
        for claim in claims:
            self._progress = progress.hear(self._progress, claim, now)
            self._arbitrate(claim, now)
        self._hear_status(now)
        return self._verdict(now)

    def _hear_status(self, now: float) -> None:
        """What the agent reports of itself counts for as much of this turn as its screen shows the same."""
        if self._turn is None or self._reading is None or EvidenceSource.NATIVE_STATUS not in self._ladder.channels:
            return
        shown = claim_of_screen(self._reading.assessment, at_seconds=now).activity
        told = None if shown is None else trusted_status(self._ladder, now, shown)
        if told is not None and told.at_seconds >= self._turn_began_at:
            before, self._native = self._native, native_end.see_status(self._native, told)
            self._hear_end(before, now)

    def on_reported(self, turn_id: TurnId, found: ObserverPayload, now: float) -> Verdict:
        """The agent's own record of its session says that this turn is over. Of another turn it says nothing."""
        if self._turn is not None and self._turn.turn is not None and self._turn.turn.turn_id == turn_id:
            before, self._native = self._native, native_end.see_record(self._native, found)
            self._hear_end(before, now)
        return self._verdict(now)

    def _hear_end(self, before: native_end.NativeEnd, now: float) -> None:
        """The agent's own word on the end of the turn changed: look at the screen again with it."""
        is_news = self._native.found is not None and before.found is None
        if is_news and self._turn is not None and self._reading is not None and not self._is_polled:
            self._see(self._reading, Arrival.PUSHED, now)

    def _reported_hold(self, reading: ScreenReading) -> float | None:
        """How long idle must be seen where the agent itself says that the turn is over; None where it does not."""
        turn = self._turn
        if turn is None or turn.turn is None or turn.turn.is_inferred or self._steady.turn is None:
            return None
        if not turn.evidence.has_activity and not shows_change(turn.turn, reading.projection):
            return None
        shows_work, pace = self._steady.turn.shows_work, self._reader.profile.pace
        return native_end.hold_seconds(self._native, reading.assessment, pace, shows_work=shows_work)

    def on_channel(self, rung: EvidenceSource, now: float, *, is_open: bool) -> Verdict:
        """The channel of another source was opened or closed."""
        self._arbitrate(ChannelOpened(rung) if is_open else ChannelClosed(rung), now)
        return self._verdict(now)

    def on_exit(self, now: float, exit_code: int | None = None, signal: int | None = None) -> Verdict:
        """The process behind the terminal is proven to have ended."""
        gone = SurfaceGone(exit_code, signal)
        if self._turn is None:
            self._ready, said = readiness.step(self._ready, gone, now)
        else:
            self._turn, said = completion.step(self._turn, gone, now)
        self._outputs += said
        self._steady = steady.Steady()
        self._is_running = False
        self._arbitrate(ProcessExited(exit_code, signal, where="pane"), now)
        return self._verdict(now)

    def on_channel_down(self, now: float, *, is_lost: bool = False) -> Verdict:
        """Nobody can look any more: nothing is known until the next snapshot. What was seen last counts for a moment
        longer, unless the terminal itself is lost."""
        self._steady = steady.Steady(turn=self._steady.turn)
        self._reading = None
        self._is_polled = True  # what comes next says nothing about the time in between
        for rung in _CAPTURES:
            self._arbitrate(ChannelClosed(rung, is_final=is_lost), now)
        return self._verdict(now)

    def on_timer(self, now: float) -> Verdict:
        """The deadline came. Where changes are pushed, the screen is still the one that was seen last."""
        self._arbitrate(ObservationTimerFired(), now)
        if self._reading is None:
            return self._verdict(now)  # nobody looks: what the kernels wait for cannot be seen
        if not self._is_polled:
            if self._read is not None and self._snapshot is not None:
                self._reading = self._weighed(self._snapshot, self._read, now)
                self._see(self._reading, Arrival.PUSHED, now)
                self._hear_title(self._snapshot.title, now)
            return self._verdict(now)
        if self._turn is None:
            self._ready, said = readiness.step(self._ready, ObservationTimerFired(), now)
        else:
            self._turn, said = completion.step(self._turn, ObservationTimerFired(), now)
        self._outputs += said
        if self._turn is not None and self._turn.observation is not None and _has_ended(said):
            self._close(self._turn.observation, now)
        return self._verdict(now)

    def _hand_over(self, said: tuple[Output, ...]) -> None:
        """One kernel leaves the surface to the other, which says itself what it sees; what is over is said here."""
        self._outputs += (output for output in said if not isinstance(output, BlockedResult | FailedResult))

    def _begin(
        self,
        prompt: str | None,
        now: float,
        turn_id: TurnId | None = None,
        observer: Observer | None = None,
        *,
        is_inferred: bool = False,
        was_found: bool = False,
    ) -> None:
        self._turns += 1
        self._native, self._turn_began_at = native_end.NativeEnd(), now
        state = completion.CompletionState(self._policy) if self._turn is None else self._turn
        baseline = _NOTHING if self._reading is None else self._reading.projection
        self._lasting_rows = None
        self._was_echoed = self._has_scrolled = self._was_asked = self._was_refused = False
        name = turn_id or TurnId(f"tracked-{self._turns}")
        turn = Submit(name, baseline, prompt, observer, is_inferred=is_inferred, was_found=was_found)
        self._turn, said = completion.step(state, turn, now)
        self._outputs += said
        self._ready = readiness.ReadinessState(self._policy)

    def _believed(self, reading: ScreenReading, now: float) -> SurfaceAssessment:
        """What the kernels are given: an idle that is not believed yet says nothing about what typed text would do.

        Unless it will be believed before the stability window is over, which may then begin with it.
        """
        surface, turn = reading.assessment, self._steady.turn
        is_doubted = surface.business_state is BusinessState.IDLE and self._steady.believed is not BusinessState.IDLE
        if turn is not None and surface.submit_ready:
            is_restored = turn.shows_work and self._prompt and reading.draft == self._prompt
            is_unmarked = surface.turn_end is None
            is_refused = turn.was_answered and surface.is_weak and is_unmarked and self._marks_completion
            is_refused = is_refused or (is_unmarked and self._was_refused)
            submit = None if self._turn is None or not turn.shows_work else self._turn.turn
            is_taken_back = submit is not None and is_unmarked and self._is_taken_back(submit, reading.projection)
            if is_restored or is_refused or is_taken_back:
                surface = replace(surface, turn_end=TurnEnd.INTERRUPTED)
        # An interrupted end has no window to be doubted in.
        if is_doubted and (surface.turn_end is TurnEnd.INTERRUPTED or not self._is_believed_within(now)):
            return replace(surface, input_mode=InputMode.UNKNOWN)
        return surface

    def _is_believed_within(self, now: float) -> bool:
        due, turn = self._steady.due, None if self._turn is None else self._turn.turn
        if due is None or turn is None or turn.observer is not None:  # an observer bypasses the window, not the hold
            return False
        return due <= now + self._policy.completion_stability_seconds

    def _settled_report(self, turn: completion.CompletionState) -> completion.ObserverReported | None:
        """The agent's own word on the end of the turn, once the screen has agreed with it for long enough."""
        found, reading = self._native.found, self._reading
        is_settled = turn.status is completion.CompletionStatus.CANDIDATE_COMPLETE
        if found is None or reading is None or turn.turn is None or not is_settled:
            return None
        if self._steady.believed is not BusinessState.IDLE or self._reported_hold(reading) is None:
            return None
        return completion.ObserverReported(turn.turn.turn_id, found)

    def _judge(self, seen: ShadowObservation, now: float) -> None:
        if self._turn is None:
            self._ready, said = readiness.step(self._ready, seen, now)
            self._outputs += said
            return
        self._turn, said = completion.step(self._confirmed(self._turn, seen, now), seen, now)
        if (report := self._settled_report(self._turn)) is not None:
            self._turn, more = completion.step(self._turn, report, now)
            said += more
        self._outputs += said
        if _has_ended(said) or self._never_began(self._turn):
            self._close(seen, now)

    def _close(self, seen: ShadowObservation, now: float) -> None:
        self._turn = None
        self._steady = steady.close_turn(self._steady)
        self._ready, said = readiness.step(self._ready, seen, now)
        self._outputs += said

    def _confirmed(
        self, turn: completion.CompletionState, seen: ShadowObservation, now: float
    ) -> completion.CompletionState:
        """The turn, without a window that is over, unless what is seen then confirms it.

        The kernel asks for that itself where the surface is polled. Where changes are pushed the tracker does: a
        capture comes a little later than what it shows.
        """
        window = turn.window
        if window is None or now < window.deadline:
            return turn
        confirms = seen.assessment.submit_ready and window.signature.projection_key == seen.projection.key
        return turn if confirms else structs.replace(turn, window=None)

    def _never_began(self, turn: completion.CompletionState) -> bool:
        is_idle = self._steady.believed is BusinessState.IDLE
        return is_idle and turn.status is completion.CompletionStatus.WAITING and not turn.evidence.has_activity

    @property
    def _is_at_work(self) -> bool:
        return self._turn is not None or self._ladder.standing.activity is Activity.WORKING

    def _get_on(self, projection: DialogProjection | None, now: float, rule: str) -> None:
        self._progress = progress.begin(self._progress, projection, now, rule)

    def _arbitrate(self, input: ArbitrationInput, now: float) -> None:
        self._ladder, said = arbitration.step(self._ladder, input, now)
        self._outputs += said

    def _explained(self, standing: Standing) -> Standing:
        """The standing with the reason why nothing is known, where a screen is there and cannot be read."""
        if standing.activity is Activity.UNKNOWN and self._title.contradicted and self._reading is not None:
            where = self._title.contradicted
            proof = Evidence(source=EvidenceSource.PANE_TITLE, rule=TITLE_CONTRADICTED, where=where)
            return replace(standing, activity_basis=StatusBasis(evidence=(proof,)))
        is_unread = self._turn is None and self._ready.status is readiness.ReadinessStatus.STALLED
        is_unknown = standing.activity is Activity.UNKNOWN and standing.attention is Attention.NONE
        if not is_unread or not is_unknown or self._reading is None:
            return standing
        read_by = self._reader.metadata
        where = f"profile {read_by.profile_id}, version {read_by.detected_version or 'unknown'}"
        proof = Evidence(source=EvidenceSource.SCREEN, rule=NO_PROFILE_FITS, where=where)
        return replace(standing, activity_basis=StatusBasis(evidence=(proof,)))

    def _verdict(self, now: float) -> Verdict:
        outputs, self._outputs = tuple(self._outputs), []
        events = tuple(event for output in outputs if (event := _event_of(output)) is not None)
        self._last_turn = next(filter(None, map(_end_of, reversed(outputs))), self._last_turn)
        reading = self._reading
        surface = SurfaceAssessment() if reading is None else reading.assessment
        return Verdict(
            at_seconds=now,
            business_state=self._steady.believed,
            surface=surface,
            standing=self._explained(self._ladder.standing),
            draft=None if reading is None else reading.draft,
            turn=self._steady.turn,
            last_turn=self._last_turn,
            events=events,
            outputs=outputs,
            progress=self._progress.last if self._is_at_work else None,
        )


_NOTHING: Final = DialogProjection("", "", "", "", "", "", ())


def _first_line(prompt: str) -> str:
    return prompt.split("\n", 1)[0].rstrip()


def _latest_prompt(projection: DialogProjection) -> str | None:
    return projection.rows[max(projection.prompt_rows)] if projection.prompt_rows else None


def _has_ended(said: Iterable[Output]) -> bool:
    return any(_end_of(output) is not None for output in said)


def _end_of(output: Said) -> TrackerEvent | None:
    """How this ends a turn; None where it does not, or where there was none to end."""
    event = _event_of(output) if getattr(output, "phase", None) is Phase.COMPLETION else None
    return event if event in _ENDS_TURN else None


def _event_of(output: Said) -> TrackerEvent | None:
    if isinstance(output, Anomaly):
        return _ANOMALIES.get(output.kind)
    kind = getattr(output, "kind", None)
    return TrackerEvent(kind) if kind is not None else None
