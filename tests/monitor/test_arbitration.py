"""Arbitration: who decides, for how long, and what is said about it."""

from __future__ import annotations

from itertools import combinations

import pytest

from interlock.monitor.arbitration.agent_status import Confidence
from interlock.monitor.arbitration.arbiter import step
from interlock.monitor.arbitration.claims import ChildNews, Claim
from interlock.monitor.arbitration.state import Arbitration, ProcessExited, ProcessSpawned, TurnSubmitted
from interlock.monitor.observation import ObservationTimerFired
from interlock.vocabulary.errors import ContractError
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import SpawnId
from interlock.vocabulary.states import Activity
from tests.each_row import each_row
from tests.monitor.arbitrations import (
    APPROVAL,
    ERROR,
    FILE,
    HOOK,
    NATIVE,
    NONE,
    RUNGS,
    SCREEN,
    TITLE,
    Q,
    R,
    Script,
    Timed,
    W,
    anomalies,
    closed,
    history,
    opened,
    pushed,
    run,
    says,
    stands,
)

ALIVE: Timed = (0.0, ProcessSpawned())
SUBMIT = TurnSubmitted()


def children(at: float, *names: str, activity: Activity | None = Q) -> Timed:
    news = ChildNews(all_open=frozenset(names))
    return at, Claim(rung=HOOK, at_seconds=at, rule="stop", activity=activity, attention=NONE, children=news)


# The ladder.


@each_row(("higher", "lower"), [*combinations(RUNGS[1:], 2)])
@each_row(("said", "instead"), [(W, Q), (Q, W)])
def test_the_higher_fresh_rung_decides(
    higher: EvidenceSource, lower: EvidenceSource, said: Activity, instead: Activity
) -> None:
    script = [says(lower, 1, instead), says(higher, 1.5, said)]
    assert run(script, 2)[0].standing.activity is said
    assert run(script, 2)[0].standing.rung is higher


def test_each_axis_is_decided_by_the_best_rung_that_speaks_on_it() -> None:
    script = [says(HOOK, 1, None, APPROVAL), says(FILE, 1.5, W)]
    standing = run(script, 1.5)[0].standing
    assert (standing.activity_basis.rung, standing.attention_basis.rung) == (FILE, HOOK)
    assert standing.rung is HOOK, "a person acts on the attention"
    assert [evidence.source for evidence in standing.evidence] == [HOOK, FILE]


def test_nothing_said_is_unknown() -> None:
    standing = Arbitration().standing
    assert (standing.activity, standing.attention, standing.basis.confidence) == (
        Activity.UNKNOWN,
        NONE,
        Confidence.NONE,
    )
    assert standing.age_seconds(5) is None


@pytest.mark.parametrize(
    ("rung", "confidence"),
    [(FILE, Confidence.REPORTED), (HOOK, Confidence.REPORTED), (SCREEN, Confidence.SEEN), (R.SILENCE, "INFERRED")],
)
def test_confidence_follows_the_rung(rung: EvidenceSource, confidence: Confidence | str) -> None:
    standing = run([says(rung, 1, W)], 1.5)[0].standing
    assert confidence in (standing.basis.confidence, standing.basis.confidence.name)
    assert Confidence.NONE < standing.basis.confidence < Confidence.PROVEN
    assert standing.age_seconds(1.5) == 0.5


# Freshness.


def test_an_event_on_a_channel_that_is_not_open_does_not_count_and_is_recorded_once() -> None:
    script = [says(NATIVE, 1, W), says(NATIVE, 2, Q)]
    assert stands(script, 2) == ("unknown", "none")
    assert [anomaly.kind for anomaly in anomalies(script, 2)] == ["claim_on_closed_channel"]


@each_row(
    ("edge", "is_fresh"),
    [
        ((9, TurnSubmitted()), True),
        ((11, TurnSubmitted()), False),
        ((11, ProcessSpawned()), False),
        (says(HOOK, 11, W), False),
        (says(SCREEN, 11, W), True),
        (says(TITLE, 11, W), True),
    ],
)
def test_a_file_counts_while_it_was_written_after_the_last_known_edge(edge: Timed, is_fresh: bool) -> None:
    script = sorted([says(FILE, 10, Q), edge], key=lambda item: item[0])
    assert (run(script, 11.5)[0].standing.activity is Q) is is_fresh


def test_a_hook_is_an_edge_even_when_it_stands_no_more_and_silence_is_none() -> None:
    edge = [says(FILE, 1, Q), says(HOOK, 2, W), closed(HOOK, 3)]
    assert stands(edge, 4) == ("unknown", "none")
    assert stands([says(FILE, 1, Q), says(HOOK, 2), opened(FILE, 3)], 4) == ("quiet", "none")


def test_a_file_never_grows_old_by_itself_and_is_void_when_removed() -> None:
    script = [says(FILE, 10, Q), closed(FILE, 1000)]
    assert history(script, 2000) == [(10, "quiet", "none"), (1000, "unknown", "none")]


@pytest.mark.parametrize("rung", [TITLE, SCREEN, R.SILENCE])
def test_a_polled_capture_counts_for_the_watched_gap(rung: EvidenceSource) -> None:
    assert history([says(rung, 1, W)], 100) == [(1, "working", "none"), (3, "unknown", "none")]


def test_a_pushed_capture_counts_until_its_channel_closes() -> None:
    script = [opened(SCREEN), says(SCREEN, 1, Q), closed(SCREEN, 50)]
    assert history(script, 100) == [(1, "quiet", "none"), (50, "unknown", "none")]


def test_a_capture_that_says_nothing_takes_back_the_one_before() -> None:
    assert stands([opened(SCREEN), says(SCREEN, 1, Q, NONE), says(SCREEN, 1.2)], 1.3) == ("unknown", "none")


def test_an_event_that_says_nothing_on_an_axis_leaves_it_alone() -> None:
    seen = [opened(SCREEN), says(SCREEN, 1, W)]
    script = [*seen, says(HOOK, 1, W, NONE), says(HOOK, 2, None, ERROR), says(HOOK, 3)]
    assert stands(script, 90) == ("working", "error")


def test_a_claim_that_comes_late_does_not_replace_a_newer_one() -> None:
    script = [opened(SCREEN), says(SCREEN, 5, W), (6, says(SCREEN, 4, Q)[1])]
    assert stands(script, 6) == ("working", "none")


def test_a_claim_from_the_future_is_dated_now() -> None:
    state, _ = run([(1, says(SCREEN, 99, W)[1])], 1)
    assert state.standing.age_seconds(1) == 0
    assert stands([(1, says(SCREEN, 99, W)[1])], 10) == ("unknown", "none")


# Hooks start states, and never alone keep one.


def test_a_hook_alone_lasts_no_longer_than_a_capture() -> None:
    assert history([says(HOOK, 1, W)], 100) == [(1, "working", "none"), (3, "unknown", "none")]


def test_a_watched_hook_counts_until_two_seconds_of_contrary_screen() -> None:
    script = [opened(SCREEN), says(SCREEN, 1, W), says(HOOK, 2, W), says(SCREEN, 30, Q)]
    assert history(script, 100) == [(1, "working", "none"), (32, "quiet", "none")]


def test_a_screen_that_agrees_again_starts_the_two_seconds_anew() -> None:
    flicker = [says(SCREEN, 10, Q), says(SCREEN, 11, W), says(SCREEN, 12, Q)]
    script = [opened(SCREEN), says(HOOK, 2, W), says(SCREEN, 3, W), *flicker]
    assert stands(script, 13.9)[0] == "working"
    assert stands(script, 14)[0] == "quiet"


def test_one_contrary_poll_is_not_two_seconds_of_contrary_screen() -> None:
    script = [says(SCREEN, 1, W), says(HOOK, 2, W), says(SCREEN, 2.5, Q)]
    assert history(script, 100) == [(1, "working", "none"), (4.5, "unknown", "none")]


def test_dense_contrary_polls_end_a_hook() -> None:
    polls = [says(SCREEN, 3 + tick / 5, Q) for tick in range(20)]
    assert history([says(SCREEN, 1, W), says(HOOK, 2, W), *polls], 6)[-1] == (5, "quiet", "none")


def test_a_hook_that_was_ended_does_not_come_back_when_the_screen_agrees_later() -> None:
    script = [opened(SCREEN), says(HOOK, 1, W), says(SCREEN, 2, Q), says(SCREEN, 10), says(SCREEN, 11)]
    assert history(script, 60) == [(1, "working", "none"), (4, "quiet", "none"), (10, "unknown", "none")]


def test_a_higher_rung_that_says_otherwise_later_ends_a_hook_for_good() -> None:
    script = [says(HOOK, 1, W), says(FILE, 2, Q), closed(FILE, 2.5)]
    assert history(script, 60) == [(1, "working", "none"), (2, "quiet", "none"), (2.5, "unknown", "none")]


def test_a_hook_outlives_a_higher_rung_that_spoke_before_it() -> None:
    assert history([says(FILE, 1, W), says(HOOK, 2, Q)], 3) == [(1, "working", "none"), (2, "quiet", "none")]


def test_a_stalled_screen_does_not_keep_a_hook() -> None:
    script = [opened(SCREEN), says(HOOK, 1, W), says(SCREEN, 1, Activity.STALLED)]
    assert history(script, 60) == [(1, "working", "none"), (3, "stalled", "none")]


# Exits and spawns.


@each_row("rung", RUNGS)
def test_a_proven_exit_overrules_every_rung_until_a_new_spawn(rung: EvidenceSource) -> None:
    script = [*pushed(NATIVE, SCREEN, TITLE), says(rung, 1, W, APPROVAL), (2, ProcessExited(exit_code=0))]
    after = [says(rung, 3, W, APPROVAL), (4, TurnSubmitted()), opened(NATIVE, 5), says(rung, 6, W, APPROVAL)]
    state, _ = run([*script, *after], 60)
    assert (state.standing.activity, state.standing.attention) == (Activity.GONE, NONE)
    assert (state.standing.rung, state.standing.basis.confidence) == (R.EXIT, Confidence.PROVEN)
    assert state.deadline is None
    state, _ = run([(61, ProcessSpawned())], 61, state)
    assert state.standing.activity is Activity.STARTING


def test_a_frozen_screen_after_an_exit_is_no_surprise_and_a_late_event_is() -> None:
    frozen: list[Timed] = [(1, ProcessExited(signal=15)), says(SCREEN, 2, W), says(TITLE, 2, W)]
    assert anomalies(frozen, 5) == []
    late = [*frozen, says(HOOK, 3, W), says(HOOK, 4, W)]
    assert [anomaly.kind for anomaly in anomalies(late, 5)] == ["claim_after_exit"]


def test_what_an_old_spawn_says_does_not_touch_the_new_one() -> None:
    old = Claim(rung=HOOK, at_seconds=3, rule="stop", activity=Q, spawn_id=SpawnId("spn_1"))
    script: Script = [
        (0, ProcessSpawned(SpawnId("spn_1"))),
        (2, ProcessSpawned(SpawnId("spn_2"))),
        (3, old),
        (3, ProcessExited(exit_code=1, spawn_id=SpawnId("spn_1"))),
        (3, says(FILE, 1, Q)[1]),
    ]
    assert stands(script, 4) == ("starting", "none")
    assert [anomaly.kind for anomaly in anomalies(script, 4)] == ["claim_of_another_spawn"]


def test_a_new_process_has_no_event_channel_yet_and_its_pane_is_still_pushed() -> None:
    script: list[Timed] = [*pushed(NATIVE, SCREEN), (1, ProcessSpawned())]
    assert stands([*script, says(NATIVE, 2, W)], 3) == ("starting", "none")
    assert stands([*script, says(SCREEN, 2, W)], 60) == ("working", "none")


def test_starting_ends_with_the_first_sign_for_good_or_with_its_deadline() -> None:
    assert history([ALIVE, says(SCREEN, 1, Q)], 10)[-1] == (3, "unknown", "none")
    assert history([ALIVE], 100) == [(0, "starting", "none"), (30, "unknown", "none")]


# Submits.


def test_after_a_submit_nothing_from_before_it_makes_the_agent_quiet() -> None:
    before = [*pushed(NATIVE, SCREEN), says(NATIVE, 1, Q), says(FILE, 2, Q), says(SCREEN, 3, Q, NONE)]
    script = [*before, (5, SUBMIT), (5.1, says(SCREEN, 4.9, Q, NONE)[1])]
    assert history(script, 60) == [(2, "quiet", "none"), (5, "working", "none"), (7, "unknown", "none")]
    standing = run(script, 6)[0].standing
    assert (standing.rung, standing.basis.confidence) == (R.OPERATOR, Confidence.INFERRED)


def test_what_is_said_after_a_submit_counts_at_once() -> None:
    assert stands([opened(SCREEN), (5, SUBMIT), says(SCREEN, 5.2, Q)], 5.2) == ("quiet", "none")


def test_a_submit_ends_the_error_of_the_last_turn_and_not_an_open_dialog() -> None:
    assert stands([opened(SCREEN), says(SCREEN, 1, Q, ERROR), (2, SUBMIT)], 2) == ("working", "none")
    asked = [opened(SCREEN), says(SCREEN, 1, Q, APPROVAL), (2.0, SUBMIT)]
    assert stands(asked, 2) == ("working", "approval")
    assert run(asked, 2)[0].standing.basis.confidence is Confidence.SEEN
    # A file from before the submit is too old to vouch for anything.
    assert run([says(FILE, 1, Q, APPROVAL), (2, SUBMIT)], 2)[0].standing.basis.confidence is Confidence.INFERRED


# Children.


def test_a_turn_that_ended_settles_while_a_child_is_open() -> None:
    script = [opened(SCREEN), says(SCREEN, 1, Q, NONE), children(2, "task")]
    assert stands(script, 90) == ("settling", "none")
    assert not run(script, 90)[0].standing.is_ready
    assert stands([*script, children(91)], 91) == ("quiet", "none")
    assert run([*script, children(91)], 91)[0].standing.is_ready


def test_a_child_opens_and_closes_by_name() -> None:
    opens = Claim(rung=HOOK, at_seconds=2, rule="start", children=ChildNews(opened=frozenset({"a", "b"})))
    ends = Claim(rung=HOOK, at_seconds=3, rule="stop", children=ChildNews(closed=frozenset({"a"})))
    script = [opened(SCREEN), says(SCREEN, 1, Q, NONE), says(HOOK, 1, Q, NONE), (2, opens), (3, ends)]
    assert stands(script, 4)[0] == "settling"
    rest = Claim(rung=HOOK, at_seconds=5, rule="stop", children=ChildNews(closed=frozenset({"b"})))
    assert stands([*script, (5, rest)], 5)[0] == "quiet"


def test_working_is_not_settling() -> None:
    assert stands([opened(SCREEN), says(SCREEN, 1, W), children(2, "task", activity=W)], 3)[0] == "working"


def test_an_interrupt_that_no_hook_told_of_does_not_settle_for_ever() -> None:
    script = [opened(SCREEN), says(SCREEN, 1, W), children(2, "sub", activity=W), says(SCREEN, 10, Q, NONE)]
    assert stands(script, 12)[0] == "quiet"


def test_the_better_rung_with_a_ledger_of_its_own_is_believed() -> None:
    file = Claim(rung=FILE, at_seconds=3, rule="file", activity=Q, children=ChildNews(all_open=frozenset()))
    script = [*pushed(SCREEN), says(SCREEN, 1, Q), children(2, "task"), (3, file)]
    assert stands(script, 4)[0] == "quiet"


def test_a_ledger_is_void_when_its_channel_was_lost() -> None:
    def news(at: float, children: ChildNews) -> Timed:
        return at, Claim(rung=HOOK, at_seconds=at, rule="hook", activity=Q, children=children)

    opens, ends = ChildNews(opened=frozenset({"a"})), ChildNews(closed=frozenset({"b"}))
    seen = [opened(SCREEN), says(SCREEN, 1, Q)]
    assert stands([*seen, news(1, opens), news(4, ends)], 5)[0] == "settling"
    assert stands([*seen, news(1, opens), closed(HOOK, 2), news(4, ends)], 5)[0] == "quiet"


# The machine.


def test_the_timer_gives_what_a_late_input_would() -> None:
    script: Script = [says(HOOK, 1, W), says(SCREEN, 1.5, Q, APPROVAL)]
    state, _ = run(script, 1.5)
    by_timer, _ = run([], 50, state)
    at_once, _ = step(state, ObservationTimerFired(), 50)
    assert by_timer == at_once


def test_a_timer_that_is_not_due_changes_nothing() -> None:
    state, _ = run([says(SCREEN, 1, W)], 1)
    assert step(state, ObservationTimerFired(), 2) == (state, ())


def test_a_clock_that_goes_back_stands_still() -> None:
    state, _ = run([opened(NATIVE), says(NATIVE, 9, W)], 9)
    after, _ = step(state, ProcessExited(exit_code=0), 3)
    assert after.at_seconds == 9


def test_a_time_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ContractError, match="finite"):
        step(Arbitration(), ObservationTimerFired(), float("nan"))


@each_row(
    "wrong",
    [
        {"activity": Activity.GONE},
        {"activity": Activity.UNKNOWN},
        {"at_seconds": float("inf")},
        {"rung": R.EXIT},
        {"rung": R.LOG},
        {"is_dialog": True},
        {"is_dialog": True, "attention": NONE},
    ],
)
def test_a_claim_that_nobody_can_make_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ContractError):
        Claim(**({"rung": SCREEN, "at_seconds": 1.0, "rule": "r"} | wrong))  # type: ignore[arg-type]
