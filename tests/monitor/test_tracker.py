"""One terminal, tracked: what is believed at each moment, and which events became certain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from interlock.monitor.debounce import TurnSource
from interlock.monitor.observation import Arrival
from interlock.monitor.policy import MonitorPolicy
from interlock.monitor.results import CompletedResult, GoneResult, StalledResult
from interlock.monitor.tracker import TuiTrackerSession, Verdict
from interlock.screen.snapshot import Snapshot
from interlock.vocabulary.events.audit import Anomaly
from tests.screen.tiny import (
    APPROVAL,
    BLANK,
    DEAD,
    DONE,
    IDLE,
    OTHER_APPROVAL,
    PICKER,
    SILENT,
    WEAK,
    WORKING,
    composer,
    reader,
)

ANSWERED = composer("hello", "> do it", "answer")
TYPED = composer("hello", "", draft="do it")
INTERRUPTED = composer("hello", "> do it", "# Interrupted")
FAILED = composer("hello", "> do it", "# Error: it broke")
Step = tuple[float, Snapshot | str]


class Shell:
    """Gives a tracker snapshots and submits at their times, and fires its timer at each deadline."""

    def __init__(self, arrival: Arrival = Arrival.POLLED, policy: MonitorPolicy | None = None) -> None:
        self.session = TuiTrackerSession(reader(), policy or MonitorPolicy())
        self.arrival = arrival
        self.verdicts: list[Verdict] = []

    def play(self, *steps: Step, until: float | None = None) -> Shell:
        for now, what in steps:
            self._fire_until(now)
            if isinstance(what, str):
                self.verdicts.append(self.session.on_submit(now, what or None))
            else:
                self.verdicts.append(self.session.on_snapshot(what, now, self.arrival))
        if until is not None:
            self._fire_until(until)
        return self

    def _fire_until(self, now: float) -> None:
        for _ in range(100):
            due = self.session.deadline
            if due is None or due > now:
                return
            self.verdicts.append(self.session.on_timer(due))
        raise AssertionError("the deadline never moves on")

    @property
    def last(self) -> Verdict:
        return self.verdicts[-1]

    @property
    def events(self) -> list[tuple[float, str]]:
        return [(verdict.at_seconds, event.value) for verdict in self.verdicts for event in verdict.events]

    @property
    def believed(self) -> list[str]:
        return [verdict.business_state.value for verdict in self.verdicts]


def polled(*steps: Step, until: float | None = None) -> Shell:
    return Shell().play(*steps, until=until)


def pushed(*steps: Step, until: float | None = None) -> Shell:
    return Shell(Arrival.PUSHED).play(*steps, until=until)


def adopted(*steps: Step) -> Shell:
    """A program that ran before anybody looked."""
    shell = Shell()
    shell.session = TuiTrackerSession(reader(), MonitorPolicy(), saw_start=False)
    return shell.play(*steps)


def every(seconds: float, start: float, end: float, shown: Snapshot) -> Iterable[Step]:
    """The same screen, looked at again and again."""
    count = round((end - start) / seconds) + 1
    return [(round(start + number * seconds, 3), shown) for number in range(count)]


def names(shell: Shell) -> list[str]:
    return [name for _, name in shell.events]


# A turn from its submit to its end.


def test_a_whole_turn_is_ready_then_completed_then_ready() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, WORKING), *every(0.2, 3, 5, DONE))
    assert names(shell) == ["ready", "completed", "ready"]
    completed = next(at for at, name in shell.events if name == "completed")
    assert completed >= 3 + max(0.5, 1.0) - 1e-9
    assert shell.last.business_state == "idle"
    assert shell.last.last_turn == "completed"
    assert shell.last.turn is None


def test_after_a_submit_silence_is_work_for_the_grace_and_then_no_turn_at_all() -> None:
    shell = polled((0, TYPED), (1, "do it"), *every(0.5, 1.5, 12, IDLE))
    at = {verdict.at_seconds: verdict for verdict in shell.verdicts}
    assert {at[second].business_state for second in (1.5, 5.0, 8.5)} == {"working"}
    assert at[9.5].business_state == "idle"
    assert names(shell) == ["ready", "ready"]
    assert shell.last.turn is None
    assert shell.last.last_turn is None


def test_a_submit_after_which_nothing_is_pushed_is_looked_at_again_after_its_grace() -> None:
    shell = pushed((0, TYPED), (1, "do it"), until=40)
    assert shell.last.business_state == "idle"
    assert shell.last.turn is None
    assert "completed" not in names(shell)


def test_a_turn_too_fast_to_be_seen_at_work_completes_by_its_answer() -> None:
    shell = polled((0, IDLE), (1, "do it"), *every(0.5, 1.5, 14, DONE))
    assert names(shell) == ["ready", "completed", "ready"]
    assert shell.events[1][0] < 9  # its prompt and a mark below it are proof; there is nothing to wait for


def test_a_mark_without_the_prompt_of_the_turn_proves_nothing_of_it() -> None:
    other = composer("hello", "> something else", "answer", "# Done")
    shell = polled((0, IDLE), (1, "do it"), *every(0.5, 1.5, 14, other))
    assert all(at >= 9 for at, event in shell.events if event == "completed")


def test_a_screen_that_did_not_move_since_the_submit_is_not_idle_yet() -> None:
    shell = polled((0, TYPED), (1, "do it"), *every(0.5, 1.5, 20, TYPED))
    assert shell.last.business_state == "working"
    assert polled((0, TYPED), (1, "do it"), *every(0.5, 1.5, 40, TYPED)).last.business_state == "idle"


def test_the_echo_of_the_prompt_is_no_turn() -> None:
    echoed = composer("hello", "> do it", "")
    assert "completed" not in names(polled((0, TYPED), (1, "do it"), *every(0.5, 1.5, 14, echoed)))


def test_what_the_surface_says_of_the_end_is_the_end() -> None:
    for end, name in ((INTERRUPTED, "interrupted"), (FAILED, "failed")):
        shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 5, end))
        assert names(shell) == ["ready", name, "ready"]
        assert shell.last.last_turn == name


def test_a_prompt_that_stands_in_the_composer_again_was_interrupted() -> None:
    restored = composer("hello", "answer so far", draft="do it")
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 5, restored))
    assert names(shell) == ["ready", "interrupted", "ready"]


def test_a_prompt_that_was_taken_back_from_the_transcript_was_interrupted() -> None:
    """Claude Code before 2.1.30x takes a prompt back that is interrupted before anything was said: nothing is left."""
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 5, IDLE))
    assert names(shell) == ["ready", "interrupted", "ready"]


def test_a_prompt_that_was_taken_back_from_a_screen_that_scrolled_was_interrupted() -> None:
    """An older prompt is the latest again, with nothing new below it: what came later cannot scroll away before it."""
    before = composer("far away", "> else", "answer")
    at_work = composer("> else", "answer", "> do it", "* Working (1s)")
    shell = polled((0, before), (1, "do it"), (1.2, at_work), *every(0.2, 2, 5, composer("> else", "answer")))
    assert names(shell) == ["ready", "interrupted", "ready"]
    other = composer("> else", "answer", "and more of it")
    shell = polled((0, before), (1, "do it"), (1.2, at_work), *every(0.2, 2, 5, other))
    assert names(shell) == ["ready", "completed", "ready"]


def test_a_prompt_that_was_shown_before_and_is_answered_the_same_way_completes() -> None:
    """A full screen of the same turns shows after each what it showed before it."""
    rows = ("> do it", "* Working (3s)")
    same = composer("> do it", "answer", "> do it", "answer")
    shell = polled((0, same), (1, "do it"), (1.2, composer("> do it", "answer", *rows)), *every(0.2, 2, 5, same))
    assert names(shell) == ["ready", "completed", "ready"]


def test_work_that_showed_no_prompt_leaves_none_behind() -> None:
    """A command such as one that clears the screen is not echoed: that it is not there proves nothing."""
    unechoed = composer("hello", "* Working (3s)")
    shell = polled((0, IDLE), (1, "do it"), (1.2, unechoed), *every(0.2, 2, 5, IDLE))
    assert "interrupted" not in names(shell)


def test_a_mark_that_was_seen_after_a_refusal_counts_though_it_was_scrolled_away() -> None:
    """A low pane draws the mark of a refusal, and then a long text under it."""
    marked, scrolled = composer("> do it", "# Interrupted"), composer("the", "text", "of", "a", "file")
    steps = [(0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 4, APPROVAL)]
    refused = polled(*steps, (4.2, marked), *every(0.2, 4.4, 9, scrolled))  # type: ignore[arg-type]
    assert names(refused) == ["ready", "blocked", "interrupted", "ready"]
    allowed = polled(*steps, (4.2, marked), (4.4, WORKING), *every(0.2, 4.6, 9, scrolled))  # type: ignore[arg-type]
    assert names(allowed) == ["ready", "blocked", "completed", "ready"]


def test_the_prompt_is_the_draft_where_nobody_tells_it() -> None:
    restored = composer("hello", "answer so far", draft="do it")
    shell = polled((0, TYPED), (1, ""), (1.2, WORKING), *every(0.2, 2, 5, restored))
    assert "interrupted" in names(shell)


def test_an_older_prompt_typed_again_does_not_interrupt_a_turn_that_nobody_submitted() -> None:
    again = composer("hello", "> else", "answer", draft="do it")
    first = [(0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 5, DONE)]
    shell = polled(*first, (6, WORKING), *every(0.2, 7, 10, again))  # type: ignore[arg-type]
    assert names(shell) == ["ready", "completed", "ready", "completed", "ready"]


def test_a_draft_typed_while_it_works_is_no_sign_of_anything() -> None:
    typing = composer("hello", "> do it", "answer", draft="and then")
    assert names(polled((0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 5, typing)))[1] == "completed"


def test_work_after_a_completed_turn_is_a_turn_that_nobody_submitted() -> None:
    first = [(0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 4, DONE)]
    shell = polled(*first, (5, WORKING))  # type: ignore[arg-type]
    assert shell.last.turn is not None
    assert shell.last.turn.source is TurnSource.INFERRED
    shell.play(*every(0.2, 6, 9, ANSWERED))
    assert names(shell) == ["ready", "completed", "ready", "completed", "ready"]


def test_two_submits_are_one_stretch_of_work_with_one_end() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, "and this"), (2.2, WORKING), *every(0.2, 3, 6, DONE))
    assert names(shell) == ["ready", "completed", "ready"]


def test_a_submit_into_an_unconfirmed_end_does_not_confirm_it_and_is_recorded() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), (2.6, DONE), (9, "next"), (9.2, WORKING))
    assert names(shell) == ["ready", "turn_abandoned"]


# Law 2: what confirms a completion.


def test_over_a_polled_source_work_at_the_next_late_look_means_that_nothing_completed() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), (2.6, DONE), (30, WORKING), (31, WORKING))
    assert names(shell) == ["ready"]
    assert shell.last.business_state == "working"


def test_another_text_at_the_next_late_look_begins_the_window_again() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), (2.6, DONE), (30, ANSWERED))
    assert names(shell) == ["ready"]
    shell.play((30.9, ANSWERED))
    assert names(shell) == ["ready"]
    shell.play((31.1, ANSWERED))
    assert names(shell) == ["ready", "completed", "ready"]


def test_the_same_screen_at_the_next_late_look_confirms() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), (2.6, DONE), (30, DONE))
    assert names(shell) == ["ready", "completed", "ready"]


def test_a_polled_source_has_no_deadline_for_what_only_a_look_can_confirm() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), (2.6, DONE))
    assert shell.session.deadline is None or shell.session.deadline > 3.6


def test_a_pushed_source_completes_by_the_clock() -> None:
    shell = pushed((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), until=10)
    assert names(shell) == ["ready", "completed", "ready"]
    assert shell.events[1][0] == pytest.approx(2 + max(0.5, 1.0))


def test_the_time_after_a_channel_was_down_confirms_nothing() -> None:
    shell = pushed((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), (2.6, DONE))
    assert shell.session.on_channel_down(3).business_state == "unknown"
    shell.play(until=19)
    assert (shell.last.business_state, shell.last.activity) == ("unknown", "unknown")
    shell.verdicts.append(shell.session.on_snapshot(WORKING, 20, Arrival.RECONNECTED))
    shell.play(until=25)
    assert names(shell) == ["ready"]


def test_a_terminal_that_is_lost_is_unknown_at_once() -> None:
    shell = pushed((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), until=10)
    assert shell.last.activity == "quiet"
    lost = shell.session.on_channel_down(11, is_lost=True)
    assert (lost.at_seconds, lost.activity, lost.business_state) == (11, "unknown", "unknown")
    assert lost.events == ()


def test_a_completion_says_on_what_it_rests() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 5, DONE))
    (completed,) = [one for verdict in shell.verdicts for one in verdict.outputs if isinstance(one, CompletedResult)]
    assert completed.mode_diagnostics.saw_working
    assert completed.surface_assessment.evidence[0].rule == "composer.ready"


# Flicker.


def test_one_frame_that_looks_idle_while_it_works_is_not_believed() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (1.4, ANSWERED), (1.6, WORKING), (1.8, WEAK), (3, WORKING))
    assert set(shell.believed[1:]) == {"working"}


def test_blank_frames_end_nothing() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (1.4, BLANK), (1.6, BLANK), (1.8, WORKING))
    assert names(shell) == ["ready"]
    assert set(shell.believed[1:]) == {"working"}
    assert shell.verdicts[-2].activity == "working"


# Dialogs.


def test_a_dialog_is_told_once_and_what_follows_its_answer_is_not_known_yet() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, APPROVAL), (3, APPROVAL), (4, ANSWERED), (4.2, WORKING))
    assert names(shell) == ["ready", "blocked"]
    assert shell.believed[-4:] == ["awaiting_operator", "awaiting_operator", "unknown", "working"]
    assert shell.verdicts[4].attention == "approval"
    assert shell.last.attention == "none"


def test_a_dialog_that_asks_something_else_is_told_again() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, APPROVAL), (3, OTHER_APPROVAL))
    assert names(shell) == ["ready", "blocked", "blocked"]


def test_a_turn_goes_on_after_its_dialog_and_completes() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, APPROVAL), (3, WORKING), *every(0.2, 4, 7, DONE))
    assert names(shell) == ["ready", "blocked", "completed", "ready"]


def test_a_dialog_that_nobody_submitted_opens_a_turn() -> None:
    shell = polled((0, IDLE), (1, APPROVAL), (2, WORKING), *every(0.2, 3, 6, DONE))
    assert names(shell) == ["ready", "blocked", "completed", "ready"]


TRUST_AT_START = [*every(0.2, 0, 2, APPROVAL), *every(0.2, 2.2, 20, IDLE)]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(TRUST_AT_START, id="at the start of the program"),
        pytest.param([(0, IDLE), (1, APPROVAL), *every(0.2, 2, 20, ANSWERED)], id="with another text after it"),
        pytest.param([(0, DONE), (1, APPROVAL), *every(0.2, 2, 20, DONE)], id="over the mark of an older turn"),
    ],
)
@pytest.mark.parametrize("arrival", [Arrival.POLLED, Arrival.PUSHED])
def test_a_turn_inferred_from_a_dialog_that_showed_no_work_never_completes(steps: list[Step], arrival: Arrival) -> None:
    shell = Shell(arrival).play(*steps, until=120)
    assert not {"completed", "interrupted", "failed"} & set(names(shell))
    assert shell.last.turn is None
    assert shell.last.last_turn is None
    assert shell.last.business_state == "idle"


def test_a_turn_that_was_found_open_in_a_dialog_ends_by_a_mark_and_never_completes_without_work() -> None:
    stopped = adopted((0, APPROVAL), *every(0.2, 1, 8, INTERRUPTED))
    assert names(stopped) == ["blocked", "interrupted", "ready"]
    ended = adopted((0, APPROVAL), *every(0.2, 1, 8, DONE))
    assert names(ended) == ["blocked", "ready"]
    passed = adopted((0, APPROVAL), (1, INTERRUPTED), *every(0.2, 1.2, 8, ANSWERED))
    assert names(passed) == ["blocked", "ready"], "the mark counts while it stands"
    later = adopted((0, IDLE), (1, APPROVAL), *every(0.2, 2, 9, INTERRUPTED))
    assert names(later) == ["ready", "blocked", "ready"], "it was not open when we first looked"


def test_the_prompt_after_a_dialog_at_the_start_is_the_first_turn_that_completes() -> None:
    shell = polled(*TRUST_AT_START, (21, "do it"), (21.2, WORKING), *every(0.2, 22, 26, DONE))
    assert names(shell) == ["blocked", "ready", "completed", "ready"]


def test_a_dialog_under_blank_frames_is_still_there() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, APPROVAL), *every(0.5, 2.5, 10, BLANK))
    assert shell.last.business_state == "awaiting_operator"
    assert shell.last.attention == "approval"
    assert names(shell) == ["ready", "blocked"]


def test_a_picker_after_a_command_is_blocked_and_no_turn() -> None:
    shell = polled((0, IDLE), (1, "/model"), (1.2, PICKER), (3, PICKER), (4, IDLE), *every(0.5, 4.5, 8, IDLE))
    assert names(shell) == ["ready", "blocked", "ready"]
    assert shell.verdicts[2].turn is None
    assert shell.last.last_turn is None
    assert shell.last.business_state == "idle"


# The end of the process.


def test_a_dead_pane_is_gone_once_and_whatever_it_shows() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DEAD), (3, replace(IDLE, is_dead=True)))
    assert names(shell) == ["ready", "gone"]
    assert shell.last.activity == "gone"
    assert shell.last.last_turn == "gone"
    assert shell.last.turn is None


def test_a_pane_that_dies_between_turns_does_not_change_how_the_last_turn_ended() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), *every(0.2, 2, 5, DONE), (6, DEAD))
    assert names(shell)[-1] == "gone"
    assert shell.last.last_turn == "completed"


def test_a_proven_exit_carries_how_it_ended() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING))
    gone = shell.session.on_exit(2, exit_code=3)
    (result,) = [one for one in gone.outputs if isinstance(one, GoneResult)]
    assert result.exit.exit_code == 3
    assert gone.activity == "gone"
    assert shell.session.deadline is None


@pytest.mark.parametrize("before", [[(0, IDLE)], [(0, IDLE), (1, "do it"), (1.2, WORKING)]])
def test_a_pane_that_lives_again_is_watched_again(before: list[Step]) -> None:
    shell = polled(*before, (2, DEAD), (3, IDLE))
    assert names(shell)[-2:] == ["gone", "ready"]
    assert (shell.last.activity, shell.last.business_state) == ("quiet", "idle")


# Stalls.


def stalls(shell: Shell) -> list[tuple[str, object]]:
    """The anomalies of stalls, with their seconds."""
    said = (one for verdict in shell.verdicts for one in verdict.outputs if isinstance(one, Anomaly))
    return [(one.kind, one.details) for one in said if "stall" in one.kind]


def test_a_surface_that_says_nothing_for_long_is_unknown_without_a_turn_and_recovers() -> None:
    shell = polled(*every(1, 0, 40, SILENT), (41, IDLE))
    assert shell.events == [(30, "stalled"), (41, "recovered"), (41, "ready")]
    assert {verdict.activity.value for verdict in shell.verdicts} == {"starting", "unknown", "quiet"}
    unread = shell.verdicts[35].standing
    assert [(one.source, one.rule) for one in unread.evidence] == [("screen", "no_profile_fits")]
    assert unread.evidence[0].where == "profile tiny-1, version 1.5"
    assert unread.rung is None
    assert shell.last.standing.evidence[0].rule == "composer.ready"
    entered, recovered = (details for _, details in stalls(shell))
    assert entered == {"phase": "readiness", "elapsed_unknown_seconds": 30.0, "parser_family": "tiny"}
    assert recovered == {"phase": "readiness", "elapsed_stalled_seconds": 11.0, "recovered_to": "submit_ready"}


def test_a_turn_that_says_nothing_for_long_stalls_and_its_evidence_outlives_it() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), *every(1, 2, 40, SILENT), *every(0.2, 41, 44, DONE))
    assert names(shell) == ["ready", "stalled", "recovered", "completed", "ready"]
    (entered,) = [one for verdict in shell.verdicts for one in verdict.outputs if isinstance(one, StalledResult)]
    assert entered.elapsed_unknown_seconds == pytest.approx(30)


def test_a_stall_before_work_that_nobody_submitted_recovers() -> None:
    assert names(polled(*every(1, 0, 40, SILENT), (41, WORKING))) == ["stalled", "recovered"]


def test_a_stall_before_a_dialog_recovers_and_the_dialog_is_told_once() -> None:
    assert names(polled(*every(1, 0, 40, SILENT), (41, APPROVAL))) == ["stalled", "recovered", "blocked"]


def test_a_stall_before_a_picker_after_a_submit_recovers_too() -> None:
    shell = polled((0, IDLE), (1, "/model"), *every(1, 2, 40, SILENT), (41, PICKER))
    assert names(shell) == ["ready", "stalled", "recovered", "blocked"]


def test_a_stall_that_a_submit_cuts_short_is_abandoned_and_not_recovered() -> None:
    shell = polled(*every(1, 0, 40, SILENT), (41, "do it"), (41.2, WORKING))
    assert names(shell) == ["stalled"]
    assert [kind for kind, _ in stalls(shell)] == ["stalled_entered", "stall_abandoned"]


def test_a_wait_that_a_turn_cut_short_does_not_stall_after_it() -> None:
    shell = polled((0, SILENT), (1, "/model"), (1.2, WORKING), (50, WORKING), (51, PICKER), (52, IDLE), (60, IDLE))
    assert "stalled" not in names(shell)


def test_an_unknown_after_an_unconfirmed_end_is_dated_to_when_it_was_seen() -> None:
    shell = polled((0, IDLE), (1, "do it"), (1.2, WORKING), (2, DONE), (2.6, DONE), *every(1, 20, 60, SILENT))
    (entered,) = [details for kind, details in stalls(shell) if kind == "stalled_entered"]
    assert isinstance(entered, dict)
    assert entered["elapsed_unknown_seconds"] == pytest.approx(30)


def test_a_stall_that_is_terminal_fails_the_turn_and_the_next_work_is_another() -> None:
    policy = MonitorPolicy(stalled_is_terminal=True)
    shell = Shell(policy=policy).play((0, IDLE), (1, "do it"), (1.2, WORKING), *every(1, 2, 40, SILENT))
    assert names(shell) == ["ready", "stalled", "failed"]
    assert shell.last.last_turn == "failed"
    shell.play((41, WORKING), *every(0.2, 42, 45, DONE))
    assert names(shell)[3:] == ["completed", "ready"]


def test_silence_of_a_pushed_source_stalls_by_the_clock() -> None:
    shell = pushed((0, SILENT), until=100)
    assert shell.events == [(30, "stalled")]


# The axes.


def test_before_anything_is_known_it_is_starting_and_afterwards_unknown() -> None:
    shell = polled((0, SILENT), (1, IDLE), (2, SILENT), (5, SILENT))
    assert [verdict.activity.value for verdict in shell.verdicts] == ["starting", "quiet", "unknown", "unknown"]
    assert [verdict.business_state.value for verdict in shell.verdicts] == ["unknown", "idle", "unknown", "unknown"]


def test_the_verdict_carries_the_draft_and_the_rule() -> None:
    assert (polled((0, TYPED)).last.draft, polled((0, TYPED)).last.rule) == ("do it", "composer.ready")
    assert polled((0, APPROVAL)).last.draft is None
