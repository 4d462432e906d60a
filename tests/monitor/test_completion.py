"""Completion: the page's order and diagram, evidence, the window, the observer, and all times to the instant."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.monitor.completion import CompletionInput, CompletionState, ObserverReported, step
from interlock.monitor.observation import Arrival, ObservationTimerFired, ShadowObservation, SurfaceGone
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.post_submit_evidence import PostSubmitEvidence, Submit
from interlock.monitor.results import (
    BlockedResult,
    CompletedResult,
    CompletionBasis,
    FailedResult,
    GoneResult,
    InterruptedResult,
    ModeDiagnostics,
    ObserverPayload,
    Output,
    Phase,
)
from interlock.screen.assessment import Availability, BusinessState, InputMode, TurnEnd
from interlock.vocabulary.ids import TurnId
from tests.monitor.surfaces import (
    ASKED_AGAIN,
    BASELINE,
    BLOCKED,
    DISCONNECTED,
    ERRED,
    FAMILY,
    GONE,
    INTERRUPTED,
    MODAL,
    READY,
    UNKNOWN,
    UNSUPPORTED,
    WORKING,
    anomalies,
    events,
    play,
    results,
    screen,
    seen,
)

Said = list[tuple[float, Output]]
TURN: Final = TurnId("turn_1")
SUBMIT: Final = Submit(TURN, BASELINE)
ANSWERED: Final = seen(text="welcome\nan answer")
PAYLOAD: Final = ObserverPayload("hook", "done")
HOOK: Final = ObserverReported(TURN, PAYLOAD)


def policy(stability: float = 1, *, stall: float = 5, final: bool = False) -> MonitorPolicy:
    return MonitorPolicy(stall, stability, stalled_is_terminal=final)


def watch(
    *script: tuple[float, CompletionInput],
    until: float = 0,
    stability: float = 1,
    submit: Submit = SUBMIT,
    final: bool = False,
) -> Said:
    start, _ = step(CompletionState(policy(stability, final=final)), submit, 0)
    return play(step, start, script, until)[1]


def expected_status(availability: str, business: str, mode: str, *, has_activity: bool) -> str:
    """The page's table, read from the top."""
    if availability in {"unsupported", "disconnected"}:
        return "failed"
    if business == "awaiting_operator":
        return "blocked"
    if availability == "unknown" or business == "unknown":
        return "unknown"
    if business == "working":
        return "in_progress"
    return "candidate_complete" if (business, mode) == ("idle", "freeform") and has_activity else "waiting"


EVIDENCE: Final = [PostSubmitEvidence(*flags) for flags in product((False, True), repeat=2)]


@pytest.mark.parametrize("evidence", EVIDENCE, ids=str)
@pytest.mark.parametrize(("availability", "business", "mode"), [*product(Availability, BusinessState, InputMode)])
def test_every_surface_is_judged_in_the_order_of_the_page(
    availability: str, business: str, mode: str, evidence: PostSubmitEvidence
) -> None:
    observation = seen(business, mode, availability=availability)
    state, _ = step(CompletionState(turn=SUBMIT, evidence=evidence), observation, 0)
    assert state.status == expected_status(availability, business, mode, has_activity=evidence.has_activity)
    assert state.evidence.saw_working == (evidence.saw_working or business == "working")
    assert state.evidence.saw_projection_change == evidence.saw_projection_change


def test_ready_again_is_not_complete_without_activity() -> None:
    assert watch((0, READY), (1, READY), (2, MODAL), until=100) == []


def test_nothing_completes_before_a_submit() -> None:
    script: list[tuple[float, CompletionInput]] = [(0, WORKING), (1, ANSWERED), (2, HOOK), (3, ANSWERED)]
    _, said = play(step, CompletionState(), script, until=100)
    assert results(said) == []


def test_a_candidate_completes_by_the_timer_alone() -> None:
    assert results(watch((0, WORKING), (1, READY), until=1.9)) == []
    said = watch((0, WORKING), (1, READY), until=2)
    assert results(said) == [(2, "completed")]
    assert events(said) == ["evt_working_seen", "evt_submit_ready_with_activity", "evt_stability_window_elapsed"]


def test_a_changed_text_is_activity_too() -> None:
    assert results(watch((1, ANSWERED), until=9)) == [(2, "completed")]


def test_the_echo_of_the_prompt_is_no_activity() -> None:
    echo = ShadowObservation(READY.assessment, screen("welcome\n❯ do it\n❯", composer_rows=[2]), Arrival.PUSHED)
    told = Submit(TURN, BASELINE, prompt="do it")
    assert results(watch((1, echo), until=9, submit=told)) == []
    assert results(watch((1, echo), until=9)) == [(2, "completed")]


def test_an_idle_flicker_does_not_complete() -> None:
    script = ((0, WORKING), (1, READY), (2.5, seen("working", "modal")), (3, READY))
    assert results(watch(*script, until=4.9, stability=2)) == []
    assert results(watch(*script, until=5, stability=2)) == [(5, "completed")]


def test_a_new_text_begins_the_window_again() -> None:
    script = ((0, seen("working", "modal")), (1, ANSWERED), (1.75, seen(text="welcome\nan answer, and more")))
    assert results(watch(*script, until=2.7)) == []
    said = watch(*script, until=2.75)
    assert results(said) == [(2.75, "completed")]
    assert events(said)[-2:] == ["evt_state_signature_changed", "evt_stability_window_elapsed"]


def test_new_evidence_begins_the_window_again() -> None:
    draft = Submit(TURN, BASELINE, prompt="do it")
    typed = ShadowObservation(READY.assessment, screen("welcome\nyes", composer_rows=[1]), Arrival.PUSHED)
    said_so = ShadowObservation(READY.assessment, screen("welcome\nyes"), Arrival.PUSHED)
    assert typed.projection.key == said_so.projection.key
    started = ((0, WORKING), (1, typed))
    assert results(watch(*started, (1.5, typed), until=9, submit=draft)) == [(2, "completed")]
    assert results(watch(*started, (1.5, said_so), until=9, submit=draft)) == [(2.5, "completed")]


def test_the_same_signature_keeps_the_window_and_other_context_is_not_in_it() -> None:
    polls = [(1 + number / 8, READY) for number in range(7)]
    assert results(watch((0, WORKING), *polls, until=9)) == [(2, "completed")]


def test_a_menu_opened_over_a_candidate_ends_it() -> None:
    script = ((0, WORKING), (0.25, READY), (0.5, MODAL))
    said = watch(*script, until=5)
    assert results(said) == []
    assert events(said)[-1] == "evt_state_signature_changed"
    assert results(watch(*script, (5, READY), until=9)) == [(6, "completed")]


@pytest.mark.parametrize("between", [WORKING, BLOCKED, UNKNOWN, MODAL, DISCONNECTED, UNSUPPORTED])
def test_whatever_comes_between_begins_the_window_again(between: ShadowObservation) -> None:
    said = watch((0, WORKING), (1, READY), (1.5, between), (2, READY), until=9)
    assert results(said)[-1] == (3, "completed")


def test_at_the_same_instant_the_timer_comes_first() -> None:
    said = watch((0, WORKING), (1, READY), (2, WORKING), until=9)
    assert results(said) == [(2, "completed")]


def test_completed_is_final_until_the_next_submit() -> None:
    script: list[tuple[float, CompletionInput]] = [(0, WORKING), (1, READY)]
    after: list[tuple[float, CompletionInput]] = [(3, WORKING), (4, BLOCKED), (5, HOOK), (6, DISCONNECTED), (7, READY)]
    assert results(watch(*script, *after, until=20)) == [(2, "completed")]
    again = Submit(TurnId("turn_2"), ANSWERED.projection)
    said = watch(*script, (3, again), (4, ANSWERED), (9, seen(text="more")), until=20)
    assert results(said) == [(2, "completed"), (10, "completed")]


def test_a_completion_says_on_what_terms_and_claims_no_answer() -> None:
    said = watch((0, WORKING), (1, ANSWERED), until=2)
    completed = said[-1][1]
    assert isinstance(completed, CompletedResult)
    terms = ModeDiagnostics(CompletionBasis.STABILITY_WINDOW, policy(), saw_working=True, saw_projection_change=True)
    assert completed.mode_diagnostics == terms
    assert (completed.surface_assessment, completed.dialog_projection) == (ANSWERED.assessment, ANSWERED.projection)
    assert completed.projection_slices == {"head": "welcome\nan answer", "tail": "welcome\nan answer"}
    assert (completed.parser_metadata.parser_family, completed.payload) == (FAMILY, None)


# The stall.


def test_unknown_stalls_and_recovers_with_its_evidence() -> None:
    said = watch((0, WORKING), (1, UNKNOWN), (8, READY), until=20)
    assert results(said) == [(6, "stalled"), (9, "completed")]
    assert anomalies(said) == [
        ("stalled_entered", {"phase": "completion", "elapsed_unknown_seconds": 5, "parser_family": FAMILY}),
        ("stalled_recovered", {"phase": "completion", "elapsed_stalled_seconds": 2, "recovered_to": "candidate"}),
    ]


@pytest.mark.parametrize(
    ("back", "recovered_to", "event"),
    [
        (MODAL, "waiting", "evt_stalled_recovered_to_waiting"),
        (WORKING, "working", "evt_stalled_recovered_to_working"),
        (ANSWERED, "candidate", "evt_stalled_recovered_to_candidate"),
        (BLOCKED, "blocked", "evt_stalled_recovered_to_blocked"),
        (UNSUPPORTED, "failed", "evt_surface_unsupported_or_disconnected"),
    ],
)
def test_a_stall_ends_by_the_arrow_of_the_page(back: ShadowObservation, recovered_to: str, event: str) -> None:
    said = watch((0, UNKNOWN), (8, back))
    details = {"phase": "completion", "elapsed_stalled_seconds": 3, "recovered_to": recovered_to}
    assert anomalies(said)[1:] == [("stalled_recovered", details)]
    assert events(said)[-1] == event


@pytest.mark.parametrize(("back", "event"), [(WORKING, "evt_working_seen"), (MODAL, "evt_known_noncandidate")])
def test_what_did_not_stall_does_not_recover(back: ShadowObservation, event: str) -> None:
    said = watch((0, UNKNOWN), (1, back), until=20)
    assert events(said) == ["evt_unknown_for_stall", event]
    assert anomalies(said) == []


def test_recovery_without_activity_waits() -> None:
    assert results(watch((0, UNKNOWN), (8, READY), until=50)) == [(5, "stalled")]


def test_the_stall_clock_of_completion_is_that_of_readiness() -> None:
    assert results(watch((0, UNKNOWN), (4, UNKNOWN), until=8.9)) == []
    assert results(watch((0, UNKNOWN), (4, UNKNOWN), until=9)) == [(9, "stalled")]
    dense = [(number / 4, UNKNOWN) for number in range(100)]
    assert results(watch(*dense, until=25)) == [(5, "stalled")]


def test_unknown_with_working_is_unknown_and_still_evidence() -> None:
    odd = seen("working", "closed", availability="unknown")
    assert results(watch((0, odd), until=5)) == [(5, "stalled")]
    assert results(watch((0, odd), (1, READY), until=5)) == [(2, "completed")]


def test_a_question_is_blocked_also_where_the_surface_is_unknown() -> None:
    assert results(watch((0, seen("awaiting_operator", "modal", availability="unknown")), until=20)) == [(0, "blocked")]


def test_a_terminal_stall_fails_the_turn_for_good() -> None:
    said = watch((0, WORKING), (1, UNKNOWN), (2, HOOK), (7, READY), until=50, final=True)
    assert results(said) == [(6, "stalled"), (6, "failed")]
    failed = said[-1][1]
    assert isinstance(failed, FailedResult)
    assert (failed.failure, failed.payload) == ("stalled", PAYLOAD)


def test_a_surface_that_comes_back_is_judged_again() -> None:
    said = watch((0, WORKING), (1, DISCONNECTED), (2, WORKING), (3, BLOCKED), (4, READY), until=9)
    assert results(said) == [(1, "failed"), (3, "blocked"), (5, "completed")]


def test_a_timer_that_fires_early_or_twice_changes_nothing() -> None:
    script: list[tuple[float, CompletionInput]] = [(0, SUBMIT), (0, WORKING), (1, READY)]
    state, _ = play(step, CompletionState(policy()), script, until=1)
    assert step(state, ObservationTimerFired(), 1.999) == (state, ())
    completed, outputs = step(state, ObservationTimerFired(), 2.5)
    assert completed.at_seconds == 2
    assert [output.at_seconds for output in outputs if isinstance(output, CompletedResult)] == [2]
    assert step(completed, ObservationTimerFired(), 3) == (completed, ())


# Ends beyond the page.


@pytest.mark.parametrize("arrival", [Arrival.POLLED, Arrival.PUSHED])
def test_a_turn_that_its_surface_calls_interrupted_is_so_at_once_and_never_complete(arrival: Arrival) -> None:
    cut = seen(text="welcome\nhalf an\nInterrupted", turn_end=TurnEnd.INTERRUPTED, arrival=arrival)
    assert results(watch((1, cut), until=50, submit=Submit(TURN, cut.projection))) == [], "nothing came of the submit"
    said = watch((0, WORKING), (1, cut), (3, READY), (4, WORKING), until=50)
    assert results(said) == [(1, "interrupted")]
    assert said[-1][1] == InterruptedResult(Phase.COMPLETION, 1, cut)
    assert events(said)[-1] == "evt_interrupted_seen"


def test_before_work_was_shown_an_interrupted_mark_waits_for_the_window() -> None:
    """Seen in opencode: a prompt that is drawn and not yet taken up looks like one that was interrupted."""
    untaken = seen(text="welcome\nmore words\nInterrupted", turn_end=TurnEnd.INTERRUPTED)
    assert results(watch((0.1, untaken), (0.6, WORKING), (5, READY), until=50)) == [(6, "completed")]
    assert results(watch((0.1, untaken), until=50)) == [(1.1, "interrupted")]
    looked_at = seen(text="welcome\nmore words\nInterrupted", turn_end=TurnEnd.INTERRUPTED, arrival=Arrival.POLLED)
    assert results(watch((0.1, looked_at), (0.6, looked_at), (1.2, looked_at), until=50)) == [(1.2, "interrupted")]


# Where the surface is polled, a look after the end of the window confirms it.

POLLED: Final = seen(arrival=Arrival.POLLED)
POLLED_ANSWER: Final = seen(text="welcome\nan answer", arrival=Arrival.POLLED)
POLLED_ERROR: Final = seen(arrival=Arrival.POLLED, turn_end=TurnEnd.FAILED)


def test_a_polled_window_is_confirmed_by_a_look_and_not_by_the_timer() -> None:
    assert results(watch((0, WORKING), (1, POLLED), until=500)) == []
    assert results(watch((0, WORKING), (1, POLLED), (1.9, POLLED), until=500)) == []
    said = watch((0, WORKING), (1, POLLED), (2.1, POLLED), until=500)
    assert results(said) == [(2.1, "completed")]
    assert events(said)[-1] == "evt_stability_window_elapsed"
    done = said[-1][1]
    assert isinstance(done, CompletedResult)
    assert done.mode_diagnostics.basis is CompletionBasis.STABILITY_WINDOW


@pytest.mark.parametrize("second", [WORKING, POLLED_ANSWER, UNKNOWN, BLOCKED])
def test_polls_further_apart_than_the_window_never_complete_on_one_idle_frame(second: ShadowObservation) -> None:
    assert "completed" not in [kind for _, kind in results(watch((0, WORKING), (1.1, POLLED), (2.2, second), until=9))]


def test_a_failed_mark_on_a_polled_surface_needs_the_confirming_look_too() -> None:
    assert results(watch((0, WORKING), (1, POLLED_ERROR), until=500)) == []
    assert results(watch((0, WORKING), (1, POLLED_ERROR), (2, POLLED_ERROR), until=500)) == [(2, "failed")]


@given(gaps=st.lists(st.floats(0.05, 5), min_size=1, max_size=20), is_pushed=st.booleans())
def test_a_polled_turn_completes_at_the_first_look_after_its_window_and_a_pushed_one_at_its_end(
    gaps: list[float], is_pushed: bool
) -> None:
    times = [1.0]
    for gap in gaps:
        times.append(times[-1] + gap)
    looks = [(at, seen(arrival=Arrival.PUSHED if is_pushed else Arrival.POLLED)) for at in times]
    said = results(watch((0, WORKING), *looks, until=times[-1] + 10))
    confirmed = [at for at in times if at >= 2.0]
    if is_pushed:
        assert said == [(2.0, "completed")]
    else:
        assert said == ([(confirmed[0], "completed")] if confirmed else [])


# A dialog whose text ticks.


@pytest.mark.parametrize("text", ["Allow it? Denied in {} s", "Allow it? {} seconds left", "Allow it? 12:00:{:02}"])
def test_a_question_whose_text_ticks_stays_one_question(text: str) -> None:
    asked = [(float(at), seen("awaiting_operator", "modal", asks=text.format(30 - at))) for at in range(10)]
    assert results(watch(*asked, until=50)) == [(0, "blocked")]
    another = seen("awaiting_operator", "modal", asks="Allow the other one? Denied in 3 s")
    assert results(watch(*asked, (20, another), until=50)) == [(0, "blocked"), (20, "blocked")]


# A submit that overtakes an end.


@pytest.mark.parametrize(
    ("before", "is_recorded"),
    [
        ([(0, WORKING), (1, POLLED)], True),
        ([(0, WORKING), (1, MODAL)], True),
        ([(0, WORKING), (1, UNKNOWN)], True),
        ([(0, WORKING)], False),
        ([(0, WORKING), (1, POLLED), (3, POLLED)], False),
        ([], False),
    ],
)
def test_an_end_that_the_next_submit_overtakes_is_recorded(
    before: list[tuple[float, CompletionInput]], is_recorded: bool
) -> None:
    again = Submit(TurnId("turn_2"), BASELINE)
    said = anomalies(watch(*before, (3.5, again), until=50))
    assert [kind for kind, _ in said if kind != "stalled_entered"] == ["turn_abandoned"] * is_recorded
    if is_recorded:
        assert dict(said[-1][1])["turn_id"] == TURN  # type: ignore[call-overload]


def test_a_turn_that_its_surface_calls_failed_has_failed_for_good() -> None:
    said = watch((0, WORKING), (1, ERRED), (3, ERRED), (4, READY), until=50)
    assert results(said) == [(2, "failed")]
    assert [output.failure for _, output in said if isinstance(output, FailedResult)] == ["turn_failed"]


def test_a_turn_that_its_surface_calls_completed_is_complete_after_the_window() -> None:
    done = seen(turn_end=TurnEnd.COMPLETED)
    assert results(watch((0, WORKING), (1, done), until=50)) == [(2, "completed")]


def test_the_word_of_the_surface_is_in_the_signature() -> None:
    script = ((0, WORKING), (1, READY), (1.5, ERRED))
    assert results(watch(*script, until=50)) == [(2.5, "failed")]
    assert results(watch(*script, (2, READY), until=50)) == [(3, "completed")]


def test_a_payload_rides_on_an_interrupted_turn_and_does_not_complete_it() -> None:
    cut = seen(text="welcome\nDONE", turn_end=TurnEnd.INTERRUPTED)
    said = watch((0, WORKING), (1, cut), until=50, submit=Submit(TURN, BASELINE, observer=finds_sentinel))
    assert said[-1][1] == InterruptedResult(Phase.COMPLETION, 1, cut, ObserverPayload("sentinel", "DONE"))
    assert results(watch((0, WORKING), (1, INTERRUPTED), (1.5, HOOK), until=50)) == [(1, "interrupted")]


@pytest.mark.parametrize("last", [WORKING, READY, MODAL, BLOCKED, UNKNOWN, DISCONNECTED])
def test_a_proven_exit_ends_what_is_open(last: ShadowObservation) -> None:
    killed = SurfaceGone(signal=9)
    said = watch((0, WORKING), (0.5, last), (1, killed), (2, READY), (3, HOOK), (4, killed), until=50)
    assert said[-1][1] == GoneResult(Phase.COMPLETION, 1, last, killed)
    assert events(said)[-1] == "evt_process_gone"


def test_an_exit_before_anything_was_seen_is_gone_too() -> None:
    assert watch((1, GONE))[-1][1] == GoneResult(Phase.COMPLETION, 1, None, GONE)


def test_an_exit_keeps_the_payload_and_ends_a_stall() -> None:
    said = watch((0, WORKING), (1, UNKNOWN), (2, HOOK), (7, GONE), until=50)
    assert said[-1][1] == GoneResult(Phase.COMPLETION, 7, UNKNOWN, GONE, PAYLOAD)
    assert anomalies(said)[1:] == [
        ("stalled_recovered", {"phase": "completion", "elapsed_stalled_seconds": 1, "recovered_to": "gone"})
    ]


@pytest.mark.parametrize(
    ("script", "ended"),
    [([(0, WORKING), (1, READY)], "completed"), ([(0, WORKING), (2, INTERRUPTED)], "interrupted")],
)
def test_what_ended_before_the_exit_stays_as_it_ended(script: list[tuple[float, CompletionInput]], ended: str) -> None:
    assert results(watch(*script, (2, GONE), until=50)) == [(2, ended)]
    assert results(watch((1, UNKNOWN), (7, GONE), until=50, final=True)) == [(6, "stalled"), (6, "failed")]


def test_a_submit_opens_a_turn_after_every_end() -> None:
    again = Submit(TurnId("turn_2"), BASELINE)
    after: list[tuple[float, CompletionInput]] = [(8, again), (9, WORKING), (10, READY)]
    for end in (READY, INTERRUPTED, ERRED, GONE):
        assert results(watch((0, WORKING), (1, end), *after, until=50))[1:] == [(11, "completed")]


def test_a_submit_into_a_stall_abandons_it() -> None:
    said = watch((0, UNKNOWN), (7, SUBMIT), (8, READY), until=50)
    assert [name for name, _ in anomalies(said)] == ["stalled_entered", "stall_abandoned"]
    assert anomalies(said)[1][1] == {"phase": "completion", "elapsed_stalled_seconds": 2}
    assert anomalies(watch((0, UNKNOWN), (1, SUBMIT), until=50)) == []


def test_another_question_is_blocked_again_and_the_same_one_is_not() -> None:
    said = watch((0, BLOCKED), (1, BLOCKED), (2, ASKED_AGAIN), (3, ASKED_AGAIN), (4, BLOCKED))
    assert results(said) == [(0, "blocked"), (2, "blocked"), (4, "blocked")]
    assert events(said) == ["evt_operator_blocked"]


# The observer.


def finds_sentinel(observation: ShadowObservation, turn: Submit) -> ObserverPayload | None:
    is_new = "DONE" in observation.projection.rows and "DONE" not in turn.baseline.rows
    return ObserverPayload("sentinel", "DONE") if is_new else None


WATCHED: Final = Submit(TURN, BASELINE, observer=finds_sentinel)
FOUND: Final = ObserverPayload("sentinel", "DONE")


def with_sentinel(business_state: str = "idle", input_mode: str = "freeform") -> ShadowObservation:
    return seen(business_state, input_mode, text="welcome\nDONE")


def test_the_observer_bypasses_the_window() -> None:
    said = watch((0, WORKING), (1, with_sentinel()), stability=10, submit=WATCHED)
    assert results(said) == [(1, "completed")]
    assert events(said)[-1] == "evt_completion_observer_payload"
    completed = said[-1][1]
    assert isinstance(completed, CompletedResult)
    assert completed.payload == FOUND
    assert completed.mode_diagnostics.basis is CompletionBasis.COMPLETION_OBSERVER


@pytest.mark.parametrize("mode", ["closed", "freeform", "modal"])
def test_the_observer_does_not_bypass_work(mode: str) -> None:
    assert results(watch((0, with_sentinel("working", mode)), until=50, submit=WATCHED)) == []


@pytest.mark.parametrize("observation", [with_sentinel("idle", "modal"), with_sentinel("unknown", "unknown")])
def test_the_observer_does_not_make_a_candidate(observation: ShadowObservation) -> None:
    assert results(watch((0, WORKING), (1, observation), until=3, submit=WATCHED)) == []


def test_on_blocked_and_failed_the_payload_rides_on_the_result() -> None:
    gone = seen(availability="disconnected", text="welcome\nDONE")
    said = watch((0, WORKING), (1, with_sentinel("awaiting_operator", "modal")), (2, gone), submit=WATCHED)
    carried = [output.payload for _, output in said if isinstance(output, BlockedResult | FailedResult)]
    assert carried == [FOUND, FOUND]


def test_a_payload_that_comes_while_blocked_is_news() -> None:
    said = watch((0, BLOCKED), (1, HOOK), (2, HOOK), (3, BLOCKED))
    assert [(at, output.payload) for at, output in said if isinstance(output, BlockedResult)] == [
        (0, None),
        (1, PAYLOAD),
    ]


def test_the_observer_is_asked_on_every_observation_after_activity_and_not_before() -> None:
    asked: list[ShadowObservation] = []

    def listens(observation: ShadowObservation, turn: Submit) -> ObserverPayload | None:
        assert turn.baseline is BASELINE
        asked.append(observation)
        return None

    script = [READY, MODAL, WORKING, UNKNOWN, BLOCKED, DISCONNECTED, MODAL, READY]
    watch(
        *((number / 8, observation) for number, observation in enumerate(script)),
        submit=Submit(TURN, BASELINE, observer=listens),
    )
    assert asked == script[2:]


@pytest.mark.parametrize(
    ("script", "completed_at"),
    [
        ([(0, WORKING), (1, READY), (3, HOOK)], 3),
        ([(0, WORKING), (1, HOOK), (2, READY)], 2),
        ([(0, HOOK), (1, WORKING), (2, READY)], 12),
        ([(0, WORKING), (1, HOOK), (2, BLOCKED), (3, READY)], 13),
        ([(0, HOOK), (1, READY), (2, ANSWERED)], 2),
        ([(0, WORKING), (1, READY), (2, ObserverReported(TurnId("turn_0"), PAYLOAD))], 11),
    ],
    ids=["candidate", "before the candidate", "worked on", "asked since", "needs activity", "another turn"],
)
def test_a_hook_ends_its_own_turn_unless_it_went_on(
    script: list[tuple[float, CompletionInput]], completed_at: float
) -> None:
    completed = [given for given in results(watch(*script, until=50, stability=10)) if given[1] == "completed"]
    assert completed == [(completed_at, "completed")]
