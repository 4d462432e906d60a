"""Native status: which records count, what doubt they raise, and when that ends."""

from __future__ import annotations

import pytest

from interlock.monitor.arbitration.claims import ChildNews, Claim
from interlock.monitor.arbitration.state import Arbitration, ProcessSpawned, TurnSubmitted
from interlock.monitor.observer.native_status import RecordOrigin, StatusRefusal, refusal_of, trusted_status
from interlock.monitor.policy import DEFAULT_POLICY
from interlock.screen.profile import Introduction, NativeStatus
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.states import Activity
from tests.each_row import each_row
from tests.monitor.arbitrations import (
    APPROVAL,
    FILE,
    HOOK,
    NATIVE,
    NONE,
    SCREEN,
    TITLE,
    Q,
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

ASKS, GREETS = NativeStatus("mine"), NativeStatus("mine", Introduction.RECORD)
ASKED, GREETED = RecordOrigin(True, True, ""), RecordOrigin(True, False, "mine")
SEEN = [*pushed(NATIVE, SCREEN, TITLE), says(SCREEN, 0, Q, NONE)]
AGE, DOUBT = DEFAULT_POLICY.native_status_seconds, DEFAULT_POLICY.native_doubt_seconds


@each_row(
    ("app", "origin", "declared", "refusal"),
    [
        ("mine", ASKED, ASKS, None),
        ("mine", ASKED, GREETS, None),
        ("mine", GREETED, GREETS, None),
        ("mine", GREETED, ASKS, StatusRefusal.NOT_INTRODUCED),
        ("mine", RecordOrigin(True, False, "other"), GREETS, StatusRefusal.NOT_INTRODUCED),
        ("mine", RecordOrigin(False, True, "mine"), ASKS, StatusRefusal.OTHER_PROCESS),
        ("mine", RecordOrigin(), ASKS, StatusRefusal.OTHER_PROCESS),
        ("other", ASKED, ASKS, StatusRefusal.OTHER_APP),
        ("", ASKED, ASKS, StatusRefusal.OTHER_APP),
        ("mine", ASKED, None, StatusRefusal.UNDECLARED),
    ],
)
def test_a_record_counts_by_its_profile_its_app_its_process_and_its_introduction(
    app: str, origin: RecordOrigin, declared: NativeStatus | None, refusal: StatusRefusal | None
) -> None:
    assert refusal_of(app, origin, declared, may_omit_app=False) is refusal


def test_a_record_without_a_name_counts_only_where_it_needs_none() -> None:
    assert refusal_of("", ASKED, ASKS, may_omit_app=True) is None
    assert refusal_of("other", ASKED, ASKS, may_omit_app=True) is StatusRefusal.OTHER_APP


def test_native_status_alone_is_unknown() -> None:
    for activity, attention in ((W, NONE), (Q, NONE), (None, APPROVAL)):
        assert stands([opened(NATIVE), says(NATIVE, 1, activity, attention)], 2) == ("unknown", "none")


def test_a_contradiction_is_unknown_after_two_seconds_and_discredits_the_native_status_in_the_end() -> None:
    script = [*SEEN, says(NATIVE, 10, W)]
    assert history(script, 500) == [(0, "quiet", "none"), (12, "unknown", "none"), (10 + DOUBT, "quiet", "none")]
    assert [one.kind for one in anomalies(script, 500)] == ["evidence_disagreement", "native_status_discredited"]
    again = [*script, *(says(NATIVE, 100.0 + second, W) for second in range(300))]
    assert history(again, 500)[-1] == (10 + DOUBT, "quiet", "none")


def test_a_discredited_native_status_counts_again_in_the_next_process() -> None:
    script: list[Timed] = [*SEEN, says(NATIVE, 10, W), (100, ProcessSpawned()), opened(NATIVE, 100)]
    assert stands([*script, says(SCREEN, 101, Q), says(NATIVE, 101, W)], 104) == ("unknown", "none")


def test_a_native_status_that_agrees_again_ends_the_doubt_at_once() -> None:
    script = [*SEEN, says(NATIVE, 10, W), says(NATIVE, 15, Q)]
    assert history(script, 90) == [(0, "quiet", "none"), (12, "unknown", "none"), (15, "quiet", "none")]


def test_an_old_native_status_contradicts_nothing() -> None:
    script = [*SEEN, says(SCREEN, 9, W), says(NATIVE, 10, W), says(SCREEN, 10 + AGE, Q)]
    assert history(script, 500)[-1] == (10 + AGE, "quiet", "none")
    assert anomalies(script, 500) == []


@pytest.mark.parametrize("end", [closed(NATIVE, 15), opened(NATIVE, 15)])
def test_a_native_status_is_void_when_its_channel_was_lost(end: Timed) -> None:
    assert history([*SEEN, says(NATIVE, 10, W), end], 90)[-1] == (15, "quiet", "none")


def test_a_withdrawn_native_status_is_void() -> None:
    away = Claim(rung=NATIVE, at_seconds=15, rule="clear", withdraws=True)
    assert history([*SEEN, says(NATIVE, 10, W), (15, away)], 90)[-1] == (15, "quiet", "none")


@pytest.mark.parametrize("rung", [HOOK, TITLE, SCREEN])
def test_a_hook_a_title_and_a_screen_are_doubted(rung: EvidenceSource) -> None:
    script = [*pushed(NATIVE, SCREEN, TITLE), says(SCREEN, 1, W), says(rung, 1, W), says(NATIVE, 2, Q)]
    assert stands(script, 5)[0] == "unknown"


def test_a_file_is_not_doubted() -> None:
    assert stands([*SEEN, says(FILE, 1, Q), says(NATIVE, 2, W)], 20) == ("quiet", "none")


def test_a_dialog_that_is_only_reported_calls_nobody_and_one_that_is_shown_is_not_doubted() -> None:
    assert stands([*SEEN, says(NATIVE, 10, None, APPROVAL)], 20) == ("unknown", "none")
    shown = [*SEEN, says(NATIVE, 1, Q, NONE), says(SCREEN, 10, None, APPROVAL)]
    assert stands(shown, 50) == ("quiet", "approval")


def test_native_status_neither_ends_nor_supports_a_hook_nor_makes_a_file_stale() -> None:
    assert history([opened(NATIVE), says(HOOK, 1, W), says(NATIVE, 1.5, W)], 60)[-1] == (3, "unknown", "none")
    assert stands([opened(NATIVE), says(HOOK, 1, W), says(NATIVE, 1.5, Q)], 2) == ("working", "none")
    assert stands([opened(NATIVE), says(FILE, 1, Q), says(NATIVE, 2, Q)], 3) == ("quiet", "none")


def test_what_we_expect_after_a_submit_stands_until_the_agent_shows_something() -> None:
    script: list[Timed] = [*SEEN, (10, TurnSubmitted()), says(NATIVE, 10, Q), says(NATIVE, 10.5, W)]
    assert stands(script, 11) == ("working", "none")


# What others may build on.


def arbitrated(script: list[Timed], until: float) -> Arbitration:
    return run(script, until)[0]


def test_a_trusted_status_is_fresh_and_what_the_screen_shows_too() -> None:
    state = arbitrated([*SEEN, says(NATIVE, 10, Q)], 11)
    found = trusted_status(state, 11, Activity.QUIET)
    assert found is not None
    assert (found.activity, found.at_seconds) == (Q, 10)
    assert trusted_status(state, 11, Activity.WORKING) is None
    assert trusted_status(state, 11, Activity.UNKNOWN) is None
    assert trusted_status(state, 10 + AGE, Activity.QUIET) is None


def test_nothing_is_trusted_that_was_said_before_the_submit_or_by_a_discredited_agent() -> None:
    submitted: list[Timed] = [*SEEN, says(NATIVE, 5, Q), (10, TurnSubmitted())]
    assert trusted_status(arbitrated(submitted, 11), 11, Activity.QUIET) is None
    lying = [*SEEN, says(NATIVE, 10, W), says(NATIVE, 100, Q)]
    assert trusted_status(arbitrated(lying, 101), 101, Activity.QUIET) is None


def test_a_report_of_work_agrees_with_a_screen_that_shows_background_work() -> None:
    """Codex reports working for as long as a command of an earlier turn runs in the background."""
    shown = Claim(
        rung=SCREEN,
        at_seconds=1,
        rule="composer.background",
        activity=Q,
        attention=NONE,
        children=ChildNews(opened=frozenset({"shown"})),
    )
    over = Claim(
        rung=SCREEN,
        at_seconds=5,
        rule="composer.ended",
        activity=Q,
        attention=NONE,
        children=ChildNews(closed=frozenset({"shown"})),
    )
    script: list[Timed] = [*pushed(NATIVE, SCREEN), says(NATIVE, 0.5, W), (1, shown)]
    assert stands(script, 20) == ("settling", "none")
    assert anomalies(script, 20) == []
    # Without the background work it is a contradiction like any other.
    assert stands([*script, (5, over)], 8) == ("unknown", "none")
