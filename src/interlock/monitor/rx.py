"""ReactiveX operators, for people who think in streams: the two kernels, `observations.pipe(readiness(policy))`, and
the tracker over raw screens, `snapshots.pipe(track(reader))`.

Each operator is a shell around a pure `step`. What a caller may rely on:
1. It emits when the verdict changes: results, and the anomalies of a stall. Nothing is emitted for a repeated verdict.
   `track` emits a verdict when what is believed changes, and whenever an event became certain.
2. One timer at most is armed, on the given scheduler (else the subscriber's, else a timeout scheduler), for the state's
   own deadline. It is armed anew when that moves, and disposed with the subscription and at the end of the source.
3. At the same instant the timer comes before the observation.
4. Time is the scheduler's, in seconds. One that is set back stands still.
5. An input that arrives while another one is being told is taken after it, so that outputs never interleave.
6. The end and the error of the source are passed on. What was still open then is not guessed at: a candidate whose
   window had not passed has no result. An error of the turn's own observer is an error of the stream.

This is the only module that imports reactivex, when an operator is made: the library is the extra `interlock[rx]`.
Nothing imports this module on the way to a command.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, assert_never

from interlock.monitor import completion as completion_kernel
from interlock.monitor import readiness as readiness_kernel
from interlock.monitor import tracker
from interlock.monitor.completion import CompletionState, ObserverReported
from interlock.monitor.observation import Arrival, ObservationTimerFired, ShadowObservation, SurfaceGone
from interlock.monitor.policy import DEFAULT_POLICY, MonitorPolicy
from interlock.monitor.post_submit_evidence import Submit
from interlock.monitor.readiness import ReadinessState
from interlock.monitor.results import Moved, Result
from interlock.screen.selection import ScreenReader
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.errors import UsageError
from interlock.vocabulary.events.audit import Anomaly

if TYPE_CHECKING:
    from reactivex import Observable, abc
    from reactivex.disposable import SerialDisposable

Verdict: TypeAlias = Result | Anomaly
ReadinessSource: TypeAlias = ShadowObservation | SurfaceGone
CompletionSource: TypeAlias = ShadowObservation | ObserverReported | SurfaceGone | Submit


@dataclass(frozen=True, slots=True)
class PromptSubmitted:
    """A prompt was submitted to the tracked terminal. None: the draft that stands in its composer."""

    prompt: str | None = None


TrackSource: TypeAlias = Snapshot | PromptSubmitted | SurfaceGone


class _HasDeadline(Protocol):
    @property
    def deadline(self) -> float | None: ...


StateT = TypeVar("StateT", bound=_HasDeadline)
InputT = TypeVar("InputT")
SaidT = TypeVar("SaidT")
_Step: TypeAlias = Callable[[StateT, InputT | ObservationTimerFired, float], tuple[StateT, tuple[SaidT | Moved, ...]]]


def readiness(
    policy: MonitorPolicy = DEFAULT_POLICY, *, scheduler: abc.SchedulerBase | None = None
) -> Callable[[Observable[ReadinessSource]], Observable[Verdict]]:
    """Say when a prompt may be submitted to the observed surface, and what stands against it."""
    return _operator(readiness_kernel.step, lambda _: ReadinessState(policy), scheduler)


def completion(
    turn: Submit, policy: MonitorPolicy = DEFAULT_POLICY, *, scheduler: abc.SchedulerBase | None = None
) -> Callable[[Observable[CompletionSource]], Observable[Verdict]]:
    """Say how `turn` goes, submitted at the subscription. A later `Submit` in the source begins another turn."""

    def start(now: float) -> CompletionState:
        return completion_kernel.step(CompletionState(policy), turn, now)[0]

    return _operator(completion_kernel.step, start, scheduler)


def track(
    reader: ScreenReader,
    policy: MonitorPolicy = DEFAULT_POLICY,
    *,
    arrival: Arrival = Arrival.POLLED,
    saw_start: bool = True,
    scheduler: abc.SchedulerBase | None = None,
) -> Callable[[Observable[TrackSource]], Observable[tracker.Verdict]]:
    """Say what is known of a terminal, from its raw screens. `arrival` is how they come: each change (`pushed`), or a
    look now and then (`polled`), after which only another look confirms an end. Each subscription tracks anew."""
    return _operator(_step_tracking, lambda _: _Tracking(reader, policy, arrival, saw_start=saw_start), scheduler)


class _Tracking:
    """A tracker with what was last emitted of it."""

    def __init__(self, reader: ScreenReader, policy: MonitorPolicy, arrival: Arrival, *, saw_start: bool) -> None:
        self.session = tracker.TuiTrackerSession(reader, policy, saw_start=saw_start)
        self.arrival = arrival
        self._emitted: tuple[object, ...] = ()

    @property
    def deadline(self) -> float | None:
        return self.session.deadline

    def is_news(self, verdict: tracker.Verdict) -> bool:
        before = self._emitted
        self._emitted = (verdict.business_state, verdict.activity, verdict.attention, verdict.turn is not None)
        return bool(verdict.events) or self._emitted != before


def _step_tracking(
    state: _Tracking, input: TrackSource | ObservationTimerFired, now: float
) -> tuple[_Tracking, tuple[tracker.Verdict, ...]]:
    session, verdicts = state.session, list[tracker.Verdict]()
    while (due := session.deadline) is not None and due <= now:
        verdicts.append(session.on_timer(due))
    match input:
        case Snapshot():
            verdicts.append(session.on_snapshot(input, now, state.arrival))
        case PromptSubmitted(prompt):
            verdicts.append(session.on_submit(now, prompt))
        case SurfaceGone(exit_code, signal):
            verdicts.append(session.on_exit(now, exit_code, signal))
        case ObservationTimerFired():
            pass
        case _:
            assert_never(input)
    return state, tuple(verdict for verdict in verdicts if state.is_news(verdict))


def _operator(
    step: _Step[StateT, InputT, SaidT], start: Callable[[float], StateT], scheduler: abc.SchedulerBase | None
) -> Callable[[Observable[InputT]], Observable[SaidT]]:
    try:
        from reactivex import Observable
        from reactivex.disposable import CompositeDisposable
        from reactivex.scheduler import TimeoutScheduler
    except ModuleNotFoundError as error:
        remedy = "pip install 'interlock[rx]'"
        raise UsageError("the operators need the reactivex library", remedy=remedy) from error

    def operator(source: Observable[InputT]) -> Observable[SaidT]:
        def subscribe(
            observer: abc.ObserverBase[SaidT], subscribed_on: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            chosen = scheduler or subscribed_on or TimeoutScheduler.singleton()
            shell = _Shell(source, observer, chosen, step, start(chosen.to_seconds(chosen.now)))
            subscription = source.subscribe(shell.on_next, shell.on_error, shell.on_completed, scheduler=subscribed_on)
            return CompositeDisposable(subscription, shell.timer)

        return Observable(subscribe)

    return operator


class _Shell(Generic[StateT, InputT, SaidT]):
    """One subscription: it keeps the state, gives the kernel one input at a time, and arms the timer."""

    def __init__(
        self,
        source: Observable[InputT],
        observer: abc.ObserverBase[SaidT],
        scheduler: abc.SchedulerBase,
        step: _Step[StateT, InputT, SaidT],
        state: StateT,
    ) -> None:
        from reactivex.disposable import SerialDisposable

        self.timer: SerialDisposable = SerialDisposable()
        self._source = source
        self._observer = observer
        self._scheduler = scheduler
        self._step = step
        self._state = state
        self._armed: float | None = None
        self._waiting: deque[Callable[[], None]] = deque()

    def on_next(self, input: InputT) -> None:
        now = self._now()
        self._in_turn(lambda: self._give(input, now))

    def on_error(self, error: Exception) -> None:
        self._in_turn(lambda: self._observer.on_error(error))

    def on_completed(self) -> None:
        self._in_turn(self._observer.on_completed)

    def _in_turn(self, work: Callable[[], None]) -> None:
        """Other threads wait for the lock, as in the operators of reactivex; what comes from within waits its turn."""
        with self._source.lock:
            self._waiting.append(work)
            if len(self._waiting) > 1:
                return
            try:
                while self._waiting:
                    self._waiting[0]()
                    self._waiting.popleft()
            finally:
                self._waiting.clear()

    def _give(self, input: InputT | ObservationTimerFired, now: float) -> None:
        if self.timer.is_disposed:
            return
        try:
            self._state, outputs = self._step(self._state, input, now)
        except Exception as error:  # the turn's observer is the caller's, and may raise anything
            self._observer.on_error(error)
            return
        self._arm()
        for output in outputs:
            if not isinstance(output, Moved):
                self._observer.on_next(output)

    def _arm(self) -> None:
        due = self._state.deadline
        if due == self._armed:
            return
        self._armed = due
        if due is None:
            from reactivex.disposable import Disposable

            self.timer.disposable = Disposable()
        else:
            self.timer.disposable = self._scheduler.schedule_absolute(due, lambda *_: self._fire(due))

    def _fire(self, due: float) -> None:
        # A scheduler keeps its time in another unit, so that it may fire a hair before the deadline that it was given.
        now = max(due, self._now())
        self._in_turn(lambda: self._take_timer(due, now))

    def _take_timer(self, due: float, now: float) -> None:
        if self._armed == due:
            self._armed = None
        self._give(ObservationTimerFired(), now)

    def _now(self) -> float:
        return self._scheduler.to_seconds(self._scheduler.now)
