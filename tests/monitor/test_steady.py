"""What to believe of a stream of screens, law by law."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from interlock.monitor.debounce import BelievedTurn, Steady, TurnSource, close_turn, see, submit
from interlock.screen.assessment import BlockKind, BusinessState, OperatorBlock, SurfaceAssessment, TurnEnd
from interlock.screen.profile import Pace
from tests.each_row import each_row
from tests.monitor.surfaces import surface

PACE = Pace(idle_hold_seconds=0.5, weak_idle_hold_seconds=3.0, submit_grace_seconds=8.0, answer_grace_seconds=2.0)
IDLE = surface("supported", "idle", "freeform")
WEAK = replace(IDLE, is_weak=True)
WORKING = surface("supported", "working", "freeform")
WEAK_WORK = replace(WORKING, is_weak=True)
SILENT = surface("unknown", "unknown", "unknown")
GONE = surface("disconnected", "unknown", "unknown")
ENDED = replace(IDLE, turn_end=TurnEnd.COMPLETED)
WEAK_ENDED = replace(WEAK, turn_end=TurnEnd.COMPLETED)


def dialog(kind: BlockKind) -> SurfaceAssessment:
    return replace(surface("supported", "awaiting_operator", "modal"), block=OperatorBlock(kind))


APPROVAL, PICKER = dialog(BlockKind.APPROVAL), dialog(BlockKind.OTHER)
SUBMITTED = submit(0.0, PACE)


def watch(state: Steady, frames: Iterable[tuple[float, SurfaceAssessment]], key: str = "text") -> Steady:
    for now, shown in frames:
        state = see(state, shown, key, now, PACE)
    return state


def believed(state: Steady, *frames: tuple[float, SurfaceAssessment]) -> str:
    return watch(state, frames).believed.value


# Law 1: what is believed at once.


@each_row("before", [Steady(), SUBMITTED, Steady(BusinessState.IDLE)])
@each_row("shown", [WORKING, APPROVAL, PICKER])
def test_work_and_dialogs_are_believed_at_once(before: Steady, shown: SurfaceAssessment) -> None:
    assert believed(before, (0.0, shown)) == shown.business_state.value


def test_idle_without_a_turn_is_believed_at_once_unless_its_proof_is_weak() -> None:
    assert believed(Steady(), (0.0, IDLE)) == "idle"
    assert believed(Steady(), (0.0, WEAK)) == "unknown"
    assert believed(Steady(), (0.0, WEAK), (2.9, WEAK)) == "unknown"
    assert believed(Steady(), (0.0, WEAK), (3.0, WEAK)) == "idle"
    assert believed(Steady(), (0.0, IDLE), (0.2, WEAK)) == "idle"


# Law 2: idle while a turn is open.


def test_idle_after_work_is_believed_once_it_lasted() -> None:
    frames = ((0.0, WORKING), (1.0, IDLE))
    assert believed(Steady(), *frames, (1.4, IDLE)) == "working"
    assert believed(Steady(), *frames, (1.5, IDLE)) == "idle"
    assert believed(Steady(), *frames, (1.4, WORKING), (1.6, IDLE)) == "working"
    assert believed(Steady(), *frames, (1.4, WORKING), (1.6, IDLE), (2.1, IDLE)) == "idle"


def test_a_weak_idle_must_last_longer_and_its_text_must_stand_still() -> None:
    frames = ((0.0, WORKING), (1.0, WEAK))
    assert believed(Steady(), *frames, (3.9, WEAK)) == "working"
    assert believed(Steady(), *frames, (4.0, WEAK)) == "idle"
    changed = see(watch(Steady(), (*frames, (2.0, WEAK))), WEAK, "other text", 4.0, PACE)
    assert changed.believed is BusinessState.WORKING
    assert see(changed, WEAK, "other text", 7.0, PACE).believed is BusinessState.IDLE


def test_after_a_submit_idle_is_not_believed_before_the_grace_is_over() -> None:
    assert SUBMITTED.believed is BusinessState.WORKING
    assert believed(SUBMITTED, (0.1, IDLE), (7.9, IDLE)) == "working"
    assert believed(SUBMITTED, (0.1, IDLE), (8.0, IDLE)) == "idle"
    # One look, late, is one look: it has to last as well.
    assert believed(SUBMITTED, (9.0, IDLE)) == "working"
    assert believed(SUBMITTED, (9.0, IDLE), (9.5, IDLE)) == "idle"


def test_a_mark_from_before_this_turn_showed_anything_does_not_shorten_the_grace() -> None:
    assert believed(SUBMITTED, (0.1, ENDED), (7.9, ENDED)) == "working"


def test_after_an_answer_idle_waits_for_what_the_tool_does_next() -> None:
    frames = ((0.0, WORKING), (1.0, APPROVAL), (2.0, IDLE))
    assert believed(Steady(), *frames, (3.9, IDLE)) == "unknown"
    assert believed(Steady(), *frames, (4.0, IDLE)) == "idle"


def test_a_mark_that_this_turn_ended_shortens_the_wait() -> None:
    assert believed(Steady(), (0.0, WORKING), (1.0, APPROVAL), (2.0, ENDED), (2.5, ENDED)) == "idle"
    assert believed(Steady(), (0.0, WORKING), (1.0, WEAK_ENDED), (1.5, WEAK_ENDED)) == "idle"


# Law 3: what holds until then.


def test_until_idle_is_believed_the_verdict_before_it_holds_except_after_a_dialog() -> None:
    assert believed(Steady(), (0.0, WORKING), (1.0, IDLE)) == "working"
    assert believed(Steady(), (0.0, WORKING), (1.0, APPROVAL), (2.0, IDLE)) == "unknown"
    assert believed(Steady(), (0.0, WORKING), (1.0, SILENT), (4.0, SILENT), (4.2, IDLE)) == "unknown"


# Law 4: frames that say nothing.


def test_a_silent_frame_keeps_work_for_the_watched_gap_and_never_keeps_idle() -> None:
    assert believed(Steady(), (0.0, WORKING), (1.0, SILENT), (2.9, SILENT)) == "working"
    assert believed(Steady(), (0.0, WORKING), (1.0, SILENT), (3.0, SILENT)) == "unknown"
    assert believed(Steady(), (0.0, IDLE), (0.1, SILENT)) == "unknown"


def test_a_blank_screen_keeps_a_dialog_for_as_long_as_it_is_blank() -> None:
    asked = watch(Steady(), [(0.0, APPROVAL)])
    for now in (0.2, 5.0, 50.0):
        asked = see(asked, SILENT, "", now, PACE, is_blank=True)
        assert asked.believed is BusinessState.AWAITING_OPERATOR
    assert see(asked, SILENT, "text", 50.2, PACE).believed is BusinessState.UNKNOWN


def test_after_a_submit_a_blank_screen_keeps_work_for_the_grace_of_the_cli() -> None:
    state = SUBMITTED
    for now, expected in ((1.0, "working"), (7.9, "working"), (8.0, "unknown")):
        state = see(state, SILENT, "", now, PACE, is_blank=True)
        assert state.believed.value == expected
    at_work = watch(SUBMITTED, [(1.0, WORKING)])
    for now, expected in ((2.0, "working"), (4.0, "unknown")):
        at_work = see(at_work, SILENT, "", now, PACE, is_blank=True)
        assert at_work.believed.value == expected


def test_a_turn_without_the_mark_of_an_end_runs_on_once_it_is_proven_to_run() -> None:
    unended = replace(SILENT, is_unended=True)
    proven = watch(SUBMITTED, [(1.0, WORKING), (2.0, unended), (60.0, unended)])
    assert proven.believed is BusinessState.WORKING
    assert watch(proven, [(61.0, SILENT), (63.0, SILENT)]).believed is BusinessState.UNKNOWN
    echoed = see(see(SUBMITTED, unended, "", 1.0, PACE, is_echoed=True), unended, "", 60.0, PACE, is_echoed=True)
    assert echoed.believed is BusinessState.WORKING
    assert believed(SUBMITTED, (1.0, unended), (3.0, unended)) == "unknown"
    assert believed(Steady(), (1.0, unended)) == "unknown"


def test_a_dialog_under_a_screen_that_says_something_else_is_kept_for_the_watched_gap() -> None:
    assert believed(Steady(), (0.0, APPROVAL), (1.0, SILENT), (2.9, SILENT)) == "awaiting_operator"
    assert believed(Steady(), (0.0, APPROVAL), (1.0, SILENT), (3.0, SILENT)) == "unknown"


def test_silence_is_counted_from_the_first_frame_of_it() -> None:
    assert believed(Steady(), (0.0, WORKING), (1.0, SILENT), (2.0, WORKING), (3.5, SILENT)) == "working"


# Law 5: what opens a turn.


def test_a_submit_opens_a_turn_and_a_picker_that_answers_it_opened_none() -> None:
    assert SUBMITTED.turn == BelievedTurn(TurnSource.SUBMITTED, 0.0)
    assert watch(SUBMITTED, [(0.3, PICKER)]).turn is None
    assert watch(SUBMITTED, [(0.3, WORKING), (0.6, PICKER)]).turn is not None
    assert watch(SUBMITTED, [(0.3, APPROVAL), (0.6, PICKER)]).turn is not None


def test_work_and_the_dialogs_of_work_open_a_turn_by_themselves() -> None:
    opened = watch(Steady(), [(1.0, WORKING)]).turn
    assert opened == BelievedTurn(TurnSource.INFERRED, 1.0, shows_work=True)
    for kind in BlockKind:
        turn = watch(Steady(), [(1.0, dialog(kind))]).turn
        assert (turn is not None) is (kind in (BlockKind.APPROVAL, BlockKind.QUESTION, BlockKind.PLAN))


def test_weak_work_is_due_and_not_shown() -> None:
    queued = watch(Steady(), [(1.0, WEAK_WORK)])
    assert queued.believed is BusinessState.WORKING
    assert queued.turn == BelievedTurn(TurnSource.INFERRED, 1.0)
    assert believed(queued, (1.2, IDLE), (8.9, IDLE)) == "working"
    assert believed(queued, (1.2, IDLE), (9.0, IDLE)) == "idle"


def test_a_submit_keeps_nothing_of_what_was_believed_and_a_closed_turn_keeps_the_rest() -> None:
    idle = watch(Steady(), [(0.0, WORKING), (1.0, IDLE), (2.0, IDLE)])
    assert close_turn(idle).turn is None
    assert close_turn(idle).believed is BusinessState.IDLE


# When to look again.


def test_every_wait_has_a_time_at_which_to_look_again() -> None:
    assert SUBMITTED.due == 8.0
    assert watch(Steady(), [(0.0, WORKING), (1.0, IDLE)]).due == 1.5
    assert watch(Steady(), [(0.0, WORKING), (1.0, WEAK)]).due == 4.0
    assert watch(SUBMITTED, [(1.0, IDLE)]).due == 8.0
    assert watch(Steady(), [(0.0, WORKING), (1.0, SILENT)]).due == 3.0
    for settled in ([(0.0, IDLE)], [(0.0, WORKING)], [(0.0, APPROVAL)], [(0.0, SILENT)]):
        assert watch(Steady(), settled).due is None


def test_to_look_again_when_due_decides() -> None:
    for frames in ([(0.0, WORKING), (1.0, IDLE)], [(0.0, WORKING), (1.0, WEAK)], [(0.0, WORKING), (1.0, SILENT)]):
        state = watch(Steady(), frames)
        assert state.due is not None
        assert watch(state, [(state.due, frames[-1][1])]).due is None


def test_a_surface_that_is_gone_leaves_nothing() -> None:
    assert watch(SUBMITTED, [(0.3, WORKING), (0.6, GONE)]) == Steady()
