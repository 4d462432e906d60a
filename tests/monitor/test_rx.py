"""The operators on a virtual clock: the page's own list, and what the original never tested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from threading import Event
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable
from reactivex.notification import Notification, OnCompleted, OnError, OnNext
from reactivex.operators import take
from reactivex.scheduler import TimeoutScheduler
from reactivex.subject import Subject
from reactivex.testing import Recorded, TestScheduler

from interlock.agents.profiles import builtin_profiles
from interlock.monitor import completion as completion_kernel
from interlock.monitor import readiness as readiness_kernel
from interlock.monitor import tracker
from interlock.monitor.completion import CompletionState, ObserverReported
from interlock.monitor.observation import Arrival, ShadowObservation, SurfaceGone
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.post_submit_evidence import Submit
from interlock.monitor.readiness import ReadinessState
from interlock.monitor.results import BlockedResult, Moved, ObserverPayload, Output, Phase, StalledResult
from interlock.monitor.rx import PromptSubmitted, Verdict, completion, readiness, track
from interlock.monitor.tracker import TuiTrackerSession
from interlock.screen.selection import select_reader
from interlock.screen.snapshot import Snapshot, read_snapshot
from interlock.vocabulary.events.audit import Anomaly
from interlock.vocabulary.ids import TurnId
from tests.each_row import each_row
from tests.monitor.surfaces import (
    ASKED_AGAIN,
    BASELINE,
    BLOCKED,
    DISCONNECTED,
    FAMILY,
    GONE,
    INTERRUPTED,
    MODAL,
    READY,
    UNKNOWN,
    UNSUPPORTED,
    WORKING,
    play,
    seen,
)

STALL_5: Final = MonitorPolicy(unknown_to_stalled_timeout_seconds=5)
SUBMIT: Final = Submit(TurnId("turn_1"), BASELINE)
WENT_WRONG: Final = RuntimeError("the source went wrong")
# Streams of the test library are not typed by what they carry.
Operator = Callable[[Observable[Any]], Observable[Verdict]]


def finds_sentinel(observation: ShadowObservation, _: Submit) -> ObserverPayload | None:
    return ObserverPayload("sentinel", "DONE") if "DONE" in observation.projection.rows else None


def stability(seconds: float) -> MonitorPolicy:
    return MonitorPolicy(5, seconds)


def frames(scheduler: TestScheduler, script: Iterable[tuple[float, Any]]) -> Observable[Any]:
    """A hot stream on the scheduler's clock: inputs at their times, or a notification that ends it."""
    notifications = [(at, it if isinstance(it, Notification) else OnNext(it)) for at, it in script]
    return scheduler.create_hot_observable([Recorded(at, it) for at, it in notifications])  # type: ignore[arg-type]


def verdicts(operator: Operator, *script: tuple[float, Any], until: float) -> list[tuple[float, Verdict | str]]:
    """What the operator had emitted by `until`, and when. The end of the stream is "C", its error "E"."""
    scheduler = TestScheduler()
    told = scheduler.create_observer()
    frames(scheduler, script).pipe(operator).subscribe(told, scheduler=scheduler)
    scheduler.advance_to(until)
    return [
        (message.time, getattr(message.value, "value", getattr(message.value, "kind", ""))) for message in told.messages
    ]


def watch(operator: Operator, *script: tuple[float, Any], until: float) -> list[tuple[float, str]]:
    """The same, each verdict by its kind."""
    told = verdicts(operator, *script, until=until)
    return [(at, verdict if isinstance(verdict, str) else verdict.kind) for at, verdict in told]


# The page's own list.


def test_unknown_becomes_stalled() -> None:
    script = ((0, UNKNOWN),)
    assert watch(readiness(STALL_5), *script, until=4.9) == []
    assert watch(readiness(STALL_5), *script, until=5) == [(5, "stalled_entered"), (5, "stalled")]


def test_a_stall_recovers() -> None:
    assert watch(readiness(STALL_5), (0, UNKNOWN), (6, READY), until=9) == [
        *[(5, "stalled_entered"), (5, "stalled")],
        *[(6, "stalled_recovered"), (6, "ready")],
    ]


def test_an_unknown_input_mode_does_not_stall() -> None:
    half_known = seen("idle", "unknown")
    policy = MonitorPolicy(unknown_to_stalled_timeout_seconds=1)
    assert watch(readiness(policy), (0, half_known), (2, half_known), until=10) == []


def test_slow_polls_stretch_the_wait() -> None:
    script = ((0, UNKNOWN), (4, UNKNOWN))
    assert verdicts(readiness(STALL_5), *script, until=8.9) == []
    (_, anomaly), (at, stalled) = verdicts(readiness(STALL_5), *script, until=9)
    assert isinstance(anomaly, Anomaly)
    assert anomaly.details == {"phase": "readiness", "elapsed_unknown_seconds": 9, "parser_family": FAMILY}
    assert (at, stalled) == (9, StalledResult(Phase.READINESS, 9, UNKNOWN, 9))


def test_an_idle_flicker_begins_the_window_again() -> None:
    script = ((0, WORKING), (1, READY), (2.5, seen("working", "modal")), (3, READY))
    assert watch(completion(SUBMIT, stability(2)), *script, until=4.9) == []
    assert watch(completion(SUBMIT, stability(2)), *script, until=5) == [(5, "completed")]


def test_a_changed_text_begins_the_window_again() -> None:
    texts = (seen(text="an answer"), seen(text="an answer, and more"))
    script = ((0, seen("working", "modal")), (1, texts[0]), (1.75, texts[1]))
    assert watch(completion(SUBMIT, stability(1)), *script, until=2.7) == []
    assert watch(completion(SUBMIT, stability(1)), *script, until=9) == [(2.75, "completed")]


def test_a_menu_over_a_candidate_ends_it() -> None:
    script = ((0, seen("working", "freeform")), (0.5, MODAL), (5, READY))
    assert watch(completion(SUBMIT, stability(1)), *script, until=5.9) == []
    assert watch(completion(SUBMIT, stability(1)), *script, until=9) == [(6, "completed")]


def test_the_observer_bypasses_the_window() -> None:
    turn = Submit(TurnId("turn_1"), BASELINE, observer=finds_sentinel)
    script = ((0, WORKING), (1, seen(text="welcome\nDONE")))
    assert watch(completion(turn, stability(10)), *script, until=1) == [(1, "completed")]


@each_row(
    ("observation", "kind"),
    [(READY, "ready"), (BLOCKED, "blocked"), (UNSUPPORTED, "failed"), (DISCONNECTED, "failed"), (GONE, "gone")],
)
def test_readiness_is_said_at_once_and_not_repeated(observation: object, kind: str) -> None:
    assert watch(readiness(STALL_5), (0, observation), (1, observation), until=50) == [(0, kind)]


# What the original never tested.


def test_dense_polling_does_stall() -> None:
    polls = [(number * 0.4, UNKNOWN) for number in range(300)]
    assert watch(readiness(), *polls, until=120) == [(30, "stalled_entered"), (30, "stalled")]


def test_two_stalls_in_one_wait_are_two_pairs() -> None:
    script = ((0, UNKNOWN), (6, MODAL), (7, UNKNOWN), (13, READY))
    assert watch(readiness(STALL_5), *script, until=20) == [
        *[(5, "stalled_entered"), (5, "stalled"), (6, "stalled_recovered")],
        *[(12, "stalled_entered"), (12, "stalled"), (13, "stalled_recovered"), (13, "ready")],
    ]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_at_the_same_instant_the_timer_comes_first(is_terminal: bool) -> None:
    policy = MonitorPolicy(5, stalled_is_terminal=is_terminal)
    stalled = [(5, "stalled_entered"), (5, "stalled")]
    then = [(5, "failed")] if is_terminal else [(5, "stalled_recovered"), (5, "ready")]
    assert watch(readiness(policy), (0, UNKNOWN), (5, READY), until=20) == [*stalled, *then]
    assert watch(completion(SUBMIT), (0, WORKING), (1, READY), (2, WORKING), until=20) == [(2, "completed")]


def test_a_terminal_stall_fails_in_silence_too() -> None:
    policy = MonitorPolicy(5, stalled_is_terminal=True)
    expected = [(5, "stalled_entered"), (5, "stalled"), (5, "failed")]
    assert watch(readiness(policy), (0, UNKNOWN), until=20) == expected
    assert watch(completion(SUBMIT, policy), (0, UNKNOWN), until=20) == expected


def test_the_observer_does_not_overrule_blocked_and_its_payload_rides_on_it() -> None:
    turn = Submit(TurnId("turn_1"), BASELINE, observer=finds_sentinel)
    asked = seen("awaiting_operator", "modal", text="welcome\nDONE")
    payload = ObserverPayload("sentinel", "DONE")
    assert verdicts(completion(turn), (0, WORKING), (1, asked), until=50) == [
        (1, BlockedResult(Phase.COMPLETION, 1, asked, payload))
    ]


def test_a_turn_may_be_interrupted_its_process_may_end_and_another_may_begin() -> None:
    again = Submit(TurnId("turn_2"), BASELINE)
    script = ((0, WORKING), (1, INTERRUPTED), (3, again), (4, WORKING), (5, SurfaceGone(signal=9)))
    assert watch(completion(SUBMIT), *script, until=50) == [(1, "interrupted"), (5, "gone")]


def test_a_report_completes_a_candidate() -> None:
    hook = ObserverReported(TurnId("turn_1"), ObserverPayload("hook", "done"))
    assert watch(completion(SUBMIT, stability(10)), (0, WORKING), (1, READY), (3, hook), until=3) == [(3, "completed")]


# The stream.


@pytest.mark.parametrize(("last", "kind"), [(OnCompleted(), "C"), (OnError(WENT_WRONG), "E")])
def test_the_end_and_the_error_of_the_source_are_passed_on_and_nothing_comes_after(
    last: Notification[object], kind: str
) -> None:
    assert watch(readiness(STALL_5), (0, UNKNOWN), (2, last), until=50) == [(2, kind)]
    assert watch(completion(SUBMIT), (0, WORKING), (1, READY), (1.5, last), until=50) == [(1.5, kind)]


@pytest.mark.parametrize("last", [OnCompleted(), OnError(WENT_WRONG)])
def test_the_end_of_the_source_cancels_the_timer(last: Notification[Any]) -> None:
    scheduler = TestScheduler()
    frames(scheduler, [(0, UNKNOWN), (2, last)]).pipe(readiness(STALL_5)).subscribe(
        on_error=lambda _: None, scheduler=scheduler
    )
    scheduler.advance_to(1)
    assert live_timers(scheduler) == 2  # the timer, and the notification to come
    scheduler.advance_to(2)
    assert live_timers(scheduler) == 0


def test_a_deadline_that_comes_nearer_is_kept() -> None:
    script = ((0, WORKING), (1, UNKNOWN), (1.5, READY))
    assert watch(completion(SUBMIT), *script, until=50) == [(2.5, "completed")]


def test_an_error_of_the_observer_is_an_error_of_the_stream() -> None:
    def breaks(_: ShadowObservation, __: Submit) -> ObserverPayload | None:
        raise WENT_WRONG

    turn = Submit(TurnId("turn_1"), BASELINE, observer=breaks)
    assert watch(completion(turn), (0, READY), (1, WORKING), (2, WORKING), until=50) == [(1, "E")]


def test_disposing_cancels_the_timer() -> None:
    scheduler = TestScheduler()
    told: list[Verdict] = []
    polls = frames(scheduler, [(0, UNKNOWN)])
    subscription = polls.pipe(readiness(STALL_5)).subscribe(told.append, scheduler=scheduler)
    scheduler.advance_to(4)
    assert live_timers(scheduler) == 1
    subscription.dispose()
    assert live_timers(scheduler) == 0
    scheduler.advance_to(50)
    assert told == []


def live_timers(scheduler: TestScheduler) -> int:
    return sum(not item.is_cancelled() for item, _ in scheduler._queue.items)


def test_one_timer_at_most_is_armed_and_only_for_a_new_deadline() -> None:
    scheduler = TestScheduler()
    source: Subject[Any] = Subject()
    source.pipe(readiness(STALL_5)).subscribe(scheduler=scheduler)
    for observation, live in [(UNKNOWN, 1), (UNKNOWN, 1), (READY, 0), (UNKNOWN, 1), (BLOCKED, 0), (UNKNOWN, 1)]:
        source.on_next(observation)
        assert live_timers(scheduler) == live
    queued = len(scheduler._queue.items)
    for _ in range(100):
        source.on_next(UNKNOWN)
    assert len(scheduler._queue.items) == queued


def test_the_scheduler_of_the_operator_wins_over_that_of_the_subscriber() -> None:
    given, other = TestScheduler(), TestScheduler()
    told: list[Verdict] = []
    source: Subject[Any] = Subject()
    source.pipe(readiness(STALL_5, scheduler=given)).subscribe(told.append, scheduler=other)
    source.on_next(UNKNOWN)
    other.advance_to(50)
    assert told == []
    given.advance_to(50)
    assert [verdict.kind for verdict in told] == ["stalled_entered", "stalled"]


def test_what_a_subscriber_sends_back_is_taken_after_all_that_is_being_told() -> None:
    scheduler = TestScheduler()
    source: Subject[Any] = Subject()
    told: list[str] = []

    def answers(verdict: Verdict) -> None:
        told.append(verdict.kind)
        if verdict.kind == "stalled_recovered":
            source.on_next(BLOCKED)

    source.pipe(readiness(STALL_5)).subscribe(answers, scheduler=scheduler)
    source.on_next(UNKNOWN)
    scheduler.advance_to(6)
    source.on_next(READY)
    assert told == ["stalled_entered", "stalled", "stalled_recovered", "ready", "blocked"]


def test_a_subscriber_that_leaves_while_it_is_told_is_told_no_more() -> None:
    scheduler = TestScheduler()
    source: Subject[Any] = Subject()
    told: list[str] = []

    def leaves(verdict: Verdict) -> None:
        told.append(verdict.kind)
        source.on_next(UNKNOWN)
        subscription.dispose()

    subscription = source.pipe(readiness(STALL_5)).subscribe(leaves, scheduler=scheduler)
    source.on_next(READY)
    scheduler.advance_to(50)
    assert told == ["ready"]


def test_a_subscriber_that_raises_does_not_silence_the_stream() -> None:
    source: Subject[Any] = Subject()
    told: list[str] = []

    def breaks_once(verdict: Verdict) -> None:
        told.append(verdict.kind)
        if len(told) == 1:
            raise WENT_WRONG

    source.pipe(readiness(STALL_5)).subscribe(breaks_once, scheduler=TestScheduler())
    with pytest.raises(RuntimeError, match="went wrong"):
        source.on_next(READY)
    source.on_next(BLOCKED)
    assert told == ["ready", "blocked"]


def test_each_subscription_has_a_state_of_its_own() -> None:
    scheduler = TestScheduler()
    source: Subject[Any] = Subject()
    verdicts = source.pipe(readiness(STALL_5))
    told: list[list[str]] = [[], []]
    verdicts.subscribe(lambda verdict: told[0].append(verdict.kind), scheduler=scheduler)
    source.on_next(READY)
    verdicts.subscribe(lambda verdict: told[1].append(verdict.kind), scheduler=scheduler)
    source.on_next(READY)
    assert told == [["ready"], ["ready"]]


def test_on_a_real_clock_the_thread_of_the_timer_completes_the_turn() -> None:
    source: Subject[Any] = Subject()
    told: list[Verdict] = []
    has_ended = Event()
    turn = completion(SUBMIT, stability(0.01), scheduler=TimeoutScheduler.singleton())
    source.pipe(turn, take(1)).subscribe(told.append, on_completed=has_ended.set)
    source.on_next(WORKING)
    source.on_next(READY)
    assert has_ended.wait(30)
    assert [verdict.kind for verdict in told] == ["completed"]


KINDS: Final = [READY, WORKING, MODAL, BLOCKED, ASKED_AGAIN, UNKNOWN, UNSUPPORTED, INTERRUPTED, GONE, seen(text="more")]
SCRIPTS: Final = st.lists(st.tuples(st.integers(1, 400), st.sampled_from(KINDS)), max_size=30)
POLICIES: Final = st.sampled_from([STALL_5, MonitorPolicy(3, 0.1, 1.5, stalled_is_terminal=True), MonitorPolicy()])


def as_told(said: list[tuple[float, Output]]) -> list[tuple[object, str]]:
    """A scheduler keeps whole microseconds."""
    return [(pytest.approx(at, abs=1e-5), output.kind) for at, output in said if not isinstance(output, Moved)]


@given(SCRIPTS, POLICIES)
def test_an_operator_says_what_its_kernel_says_when_it_says_it(
    script: list[tuple[int, Any]], policy: MonitorPolicy
) -> None:
    """Tenths of a second on purpose: no float holds them, and a deadline made of them must not be missed."""
    timed = sorted(((tenths / 10, given) for tenths, given in script), key=lambda timed: timed[0])
    begun, _ = completion_kernel.step(CompletionState(policy), SUBMIT, 0)
    _, said = play(completion_kernel.step, begun, timed, until=100)
    told: list[tuple[Any, str]] = [*watch(completion(SUBMIT, policy), *timed, until=100)]
    assert told == as_told(said)
    _, said = play(readiness_kernel.step, ReadinessState(policy), timed, until=100)
    told = [*watch(readiness(policy), *timed, until=100)]
    assert told == as_told(said)


# From raw screens to verdicts.

READER: Final = select_reader(builtin_profiles(), "scripted")


def screen(title: str, *above: str) -> Snapshot:
    rule = "─" * 40
    return read_snapshot("\n".join([*above, rule, "> ", rule]), columns=40, height=12, title=f"scripted - {title}")


IDLE_SCREEN: Final = screen("ready", "Scripted agent 1.0")
WORK_SCREEN: Final = screen("working", "> fix it", "", "⠋ Working (1s)", "")
DONE_SCREEN: Final = screen("ready", "> fix it", "", "• Fixed.", "", "Done in 3s")
NO_SCREEN: Final = screen("lost in thought", "what is this?")
Tracked = tuple[float, str, tuple[str, ...]]


def tracked(script: Iterable[tuple[float, Any]], arrival: Arrival, until: float) -> list[Tracked]:
    scheduler = TestScheduler()
    told: list[Tracked] = []
    operator = track(READER, STALL_5, arrival=arrival, scheduler=scheduler)
    frames(scheduler, script).pipe(operator).subscribe(
        lambda verdict: told.append((verdict.at_seconds, verdict.activity, verdict.events))
    )
    scheduler.advance_to(until)
    return told


def by_hand(script: Iterable[tuple[float, Any]], arrival: Arrival, until: float) -> list[Tracked]:
    """The same, by the session itself with a timer for its deadline: what changed, and what became certain."""
    session = TuiTrackerSession(READER, STALL_5)
    told: list[Tracked] = []
    last: object = None
    for at, input in [*script, (until, None)]:
        while (due := session.deadline) is not None and due <= at:
            last = note(told, session.on_timer(due), last)
        match input:
            case Snapshot():
                last = note(told, session.on_snapshot(input, at, arrival), last)
            case PromptSubmitted(prompt):
                last = note(told, session.on_submit(at, prompt), last)
            case SurfaceGone():
                last = note(told, session.on_exit(at), last)
            case _:
                assert input is None
    return told


def note(told: list[Tracked], verdict: tracker.Verdict, last: object) -> object:
    state = (verdict.business_state, verdict.activity, verdict.attention, verdict.turn is None)
    if state != last or verdict.events:
        told.append((verdict.at_seconds, verdict.activity, verdict.events))
    return state


def test_raw_screens_become_verdicts_of_a_whole_turn() -> None:
    script = ((0, IDLE_SCREEN), (1, IDLE_SCREEN), (5, PromptSubmitted("fix it")), (5.5, WORK_SCREEN), (8, DONE_SCREEN))
    told = tracked(script, Arrival.PUSHED, until=60)
    assert [(at, activity, list(events)) for at, activity, events in told] == [
        (0, "quiet", ["ready"]),
        (5, "working", []),
        (pytest.approx(8.6), "quiet", []),
        (pytest.approx(9), "quiet", ["completed", "ready"]),
    ]


def test_over_a_polled_source_only_another_look_confirms_an_end() -> None:
    script = [(0.0, IDLE_SCREEN), (1.0, PromptSubmitted("fix it")), (1.5, WORK_SCREEN), (3.0, DONE_SCREEN)]
    assert not any("completed" in events for _, _, events in tracked(script, Arrival.POLLED, until=60))
    looks = [*script, *((at, DONE_SCREEN) for at in (4.0, 5.0, 6.0))]
    assert (4, "quiet", ("completed", "ready")) in tracked(looks, Arrival.POLLED, until=60)


def test_each_subscription_tracks_anew() -> None:
    scheduler = TestScheduler()
    source: Subject[Any] = Subject()
    verdicts = source.pipe(track(READER, arrival=Arrival.PUSHED, scheduler=scheduler))
    told: list[list[str]] = [[], []]
    verdicts.subscribe(lambda verdict: told[0].append(verdict.activity))
    source.on_next(WORK_SCREEN)
    verdicts.subscribe(lambda verdict: told[1].append(verdict.activity))
    source.on_next(SurfaceGone(0))
    assert told == [["working", "gone"], ["gone"]]


SCREENS: Final = [IDLE_SCREEN, WORK_SCREEN, DONE_SCREEN, NO_SCREEN, PromptSubmitted("fix it"), PromptSubmitted(), GONE]
SCREEN_SCRIPTS: Final = st.lists(st.tuples(st.integers(1, 400), st.sampled_from(SCREENS)), max_size=30)


@given(SCREEN_SCRIPTS, st.sampled_from([Arrival.PUSHED, Arrival.POLLED]))
def test_the_operator_says_what_a_session_with_one_timer_says(script: list[tuple[int, Any]], arrival: Arrival) -> None:
    timed = sorted(((tenths / 10, given) for tenths, given in script), key=lambda timed: timed[0])
    expected = [(pytest.approx(at, abs=1e-5), *rest) for at, *rest in by_hand(timed, arrival, until=100)]
    told = [(at, *rest) for at, *rest in tracked(timed, arrival, until=100)]
    assert told == expected


# Without the library.


def test_nothing_of_the_monitor_loads_reactivex_but_the_operators() -> None:
    code = (
        "import sys, interlock, interlock.cli.app, interlock.monitor.completion, interlock.monitor.readiness\n"
        "sys.exit('reactivex' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_reactivex_everything_else_works_and_an_operator_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['reactivex'] = None  # as if it were not installed\n"
        "import importlib, pkgutil, interlock\n"
        "for module in pkgutil.walk_packages(interlock.__path__, 'interlock.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "from interlock.agents.profiles import builtin_profiles\n"
        "from interlock.monitor.rx import readiness, track\n"
        "from interlock.monitor.tracker import TuiTrackerSession\n"
        "from interlock.screen.selection import select_reader\n"
        "from interlock.screen.snapshot import read_snapshot\n"
        "from interlock.vocabulary.errors import UsageError\n"
        "reader = select_reader(builtin_profiles(), 'scripted')\n"
        "rule = '─' * 40\n"
        "ready = read_snapshot(f'{rule}\\n> \\n{rule}', columns=40, title='scripted - ready')\n"
        "print(*TuiTrackerSession(reader).on_snapshot(ready, 0.0).events)\n"
        "for operator in (readiness, lambda: track(reader)):\n"
        "    try:\n"
        "        operator()\n"
        "    except UsageError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    ready, *refusals = done.stdout.splitlines()
    assert (ready, done.returncode) == ("ready", 0), done.stderr
    assert refusals == ["the operators need the reactivex library; pip install 'interlock[rx]'"] * 2
