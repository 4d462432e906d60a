"""The agent's own word that its turn is over: what it shortens, and what outweighs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from interlock.monitor.arbitration.claims import Claim
from interlock.monitor.observation import Arrival
from interlock.monitor.results import CompletedResult, CompletionBasis, ObserverPayload
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.evidence import EvidenceSource
from interlock.vocabulary.ids import TurnId
from interlock.vocabulary.states import Activity
from tests.screen.tiny import APPROVAL, DONE, IDLE, WORKING, composer, reader

TURN = TurnId("trn_1")
RECORD = ObserverPayload("transcript", "native-1")
UNMARKED = composer("hello", "> do it", "the answer")
WEAK_ANSWER = composer("hello", "> do it", "the answer", "weak")
Act: TypeAlias = Callable[[TuiTrackerSession, float], Verdict]
Step: TypeAlias = tuple[float, Snapshot | Act]


def ends(session: TuiTrackerSession, now: float) -> Verdict:
    return session.on_reported(TURN, RECORD, now)


def opens_status(session: TuiTrackerSession, now: float) -> Verdict:
    return session.on_channel(EvidenceSource.NATIVE_STATUS, now, is_open=True)


def says(activity: Activity, rung: EvidenceSource = EvidenceSource.NATIVE_STATUS) -> Act:
    return lambda session, now: session.on_claims(
        [Claim(rung=rung, at_seconds=now, rule="told", activity=activity)], now
    )


class Told:
    """A tracker that is pushed every change, told things at their times, and fired at each deadline."""

    def __init__(self, *steps: Step, until: float = 30.0) -> None:
        self.session = TuiTrackerSession(reader())
        self.verdicts = [
            self.session.on_snapshot(IDLE, 0, Arrival.PUSHED),
            self.session.on_submit(1, "do it", TURN),
        ]
        for now, what in steps:
            self._fire_until(now)
            if isinstance(what, Snapshot):
                self.verdicts.append(self.session.on_snapshot(what, now, Arrival.PUSHED))
            else:
                self.verdicts.append(what(self.session, now))
        self._fire_until(until)

    def _fire_until(self, now: float) -> None:
        while (due := self.session.deadline) is not None and due <= now:
            self.verdicts.append(self.session.on_timer(due))

    @property
    def completed(self) -> tuple[float, CompletionBasis, ObserverPayload | None] | None:
        """When the turn completed, and by what."""
        for verdict in self.verdicts:
            for said in verdict.outputs:
                if isinstance(said, CompletedResult):
                    return round(verdict.at_seconds, 3), said.mode_diagnostics.basis, said.payload
        return None


BY_WINDOW = CompletionBasis.STABILITY_WINDOW
BY_OBSERVER = CompletionBasis.COMPLETION_OBSERVER


def test_without_a_word_the_hold_and_the_window_are_one_wait() -> None:
    assert Told((1.2, WORKING), (3, UNMARKED)).completed == (4.0, BY_WINDOW, None)


@pytest.mark.parametrize("shown", [DONE, UNMARKED])
def test_a_record_of_the_end_completes_a_turn_whose_screen_is_ready(shown: Snapshot) -> None:
    assert Told((1.2, WORKING), (3, shown), (3.3, ends)).completed == (3.3, BY_OBSERVER, RECORD)
    assert Told((1.2, WORKING), (3, shown), (3.01, ends)).completed == (3.1, BY_OBSERVER, RECORD)


def test_a_record_that_comes_before_the_screen_waits_for_it() -> None:
    told = Told((1.2, WORKING), (2, ends), (2.1, WORKING), (5, DONE))
    assert told.completed == (5.1, BY_OBSERVER, RECORD)


def test_a_turn_that_nobody_saw_at_work_completes_by_its_record_and_not_after_the_grace() -> None:
    assert Told((1.2, UNMARKED), (1.4, ends)).completed == (1.4, BY_OBSERVER, RECORD)
    late = Told((1.2, UNMARKED), until=60).completed
    assert late is not None
    assert late[0] >= 9.0


def test_a_screen_at_work_outweighs_a_record() -> None:
    assert Told((1.2, WORKING), (2, ends), (3, WORKING), until=25).completed is None
    flicker = Told((1.2, WORKING), (2, ends), (3, DONE), (3.05, WORKING), until=25)
    assert flicker.completed is None


def test_a_dialog_outweighs_a_record_and_what_follows_it_is_waited_for() -> None:
    asking = Told((1.2, WORKING), (2, APPROVAL), (2.5, ends), until=25)
    assert asking.completed is None
    assert asking.session.on_timer(26).attention == "approval"


def test_a_record_of_another_turn_changes_nothing() -> None:
    def other(session: TuiTrackerSession, now: float) -> Verdict:
        return session.on_reported(TurnId("trn_0"), RECORD, now)

    assert Told((1.2, WORKING), (3, UNMARKED), (3.1, other)).completed == (4.0, BY_WINDOW, None)


def test_a_record_ends_nothing_on_a_screen_that_did_not_move_since_the_submit() -> None:
    told = Told((1.2, IDLE), (1.4, ends), until=8)
    assert told.completed is None
    assert told.session.on_timer(8.5).turn is not None


def test_a_record_makes_a_weak_idle_a_strong_one() -> None:
    weak: list[Step] = [(1.2, WORKING), (3, WEAK_ANSWER)]
    assert Told(*weak).completed == (7.0, BY_WINDOW, None)
    assert Told(*weak, (3.01, ends)).completed == (3.5, BY_OBSERVER, RECORD)


def test_a_trusted_status_completes_a_turn_where_the_screen_marks_its_end() -> None:
    worked: list[Step] = [(1.1, opens_status), (1.15, says(Activity.WORKING)), (1.2, WORKING)]
    found = ObserverPayload("native_status", "told")
    assert Told(*worked, (3, DONE), (3.02, says(Activity.QUIET))).completed == (3.1, BY_OBSERVER, found)
    assert Told(*worked, (3, UNMARKED), (3.02, says(Activity.QUIET))).completed == (4.0, BY_WINDOW, None)


def test_a_status_counts_only_after_work_that_it_told_of_since_the_submit() -> None:
    quiet = Told((1.1, opens_status), (1.2, WORKING), (3, DONE), (3.02, says(Activity.QUIET)))
    assert quiet.completed == (4.0, BY_WINDOW, None)


def test_a_status_that_the_ladder_does_not_believe_shortens_nothing() -> None:
    """Its channel was never opened, so arbitration sets it aside."""
    told = Told((1.15, says(Activity.WORKING)), (1.2, WORKING), (3, DONE), (3.02, says(Activity.QUIET)))
    assert told.completed == (4.0, BY_WINDOW, None)


def test_a_hook_is_no_native_status() -> None:
    hook = EvidenceSource.HOOK
    worked: list[Step] = [(1.15, says(Activity.WORKING, hook)), (1.2, WORKING)]
    assert Told(*worked, (3, DONE), (3.02, says(Activity.QUIET, hook))).completed == (4.0, BY_WINDOW, None)


def test_work_that_a_status_tells_of_takes_its_word_back() -> None:
    told = Told(
        (1.1, opens_status),
        (1.15, says(Activity.WORKING)),
        (1.2, WORKING),
        (2, says(Activity.QUIET)),
        (2.5, says(Activity.WORKING)),
        (3, DONE),
    )
    assert told.completed == (4.0, BY_WINDOW, None)


def test_a_word_about_one_turn_is_forgotten_at_the_next_submit() -> None:
    told = Told((1.2, WORKING), (2, ends), (3, DONE), until=5)
    assert names_of(told) == ["ready", "completed", "ready"]
    session = told.session
    session.on_submit(6, "do it", TurnId("trn_2"))
    session.on_snapshot(WORKING, 6.2, Arrival.PUSHED)
    session.on_snapshot(UNMARKED, 8, Arrival.PUSHED)
    assert session.on_timer(8.6).turn is not None


def names_of(told: Told) -> list[str]:
    return [event.value for verdict in told.verdicts for event in verdict.events]
