"""A recording replayed: the time of its frames is all the time there is, and its truth is never read."""

from __future__ import annotations

from itertools import pairwise

from interlock.monitor.scoring.recording import Frame, Header, Input, Record, Truth
from interlock.monitor.scoring.replay import StreamStateReducer, replay_timeline
from interlock.monitor.tracker import Verdict
from interlock.screen.snapshot import Snapshot
from tests.screen.tiny import DONE, IDLE, SILENT, WORKING, reader

HEADER = Header(1, "tiny", "1.5", 80, 24)


def frame(t: float, shown: Snapshot) -> Frame:
    return Frame(t, ansi=shown.raw_text, title=shown.title)


TURN: list[Record] = [
    HEADER,
    frame(0, IDLE),
    Input(1.0),
    frame(1.2, WORKING),
    *(frame(2 + number / 5, DONE) for number in range(15)),
]


def verdicts(records: list[Record]) -> list[Verdict]:
    return [verdict for _, verdict in replay_timeline(HEADER, records, reader())]


def test_each_frame_has_one_verdict_in_order() -> None:
    found = verdicts(TURN)
    assert len(found) == sum(isinstance(record, Frame) for record in TURN)
    assert all(one.at_seconds <= other.at_seconds for one, other in pairwise(found))
    assert [event.value for verdict in found for event in verdict.events] == ["ready", "completed", "ready"]


def test_truth_is_never_read() -> None:
    lies: list[Record] = []
    for record in TURN:
        lies.append(record)
        if isinstance(record, Frame):
            lies.append(Truth(record.t, "blocked", "approval"))
    assert verdicts(lies) == verdicts(TURN)


def test_an_input_that_submits_nothing_opens_no_turn() -> None:
    silent = [record if not isinstance(record, Input) else Input(1.0, submit=False) for record in TURN[:3]]
    assert verdicts([*silent, frame(1.2, IDLE)])[-1].business_state == "idle"
    assert verdicts([*TURN[:3], frame(1.2, IDLE)])[-1].business_state == "working"


def test_timers_between_two_frames_fire_and_are_told_with_the_next_frame() -> None:
    records: list[Record] = [HEADER, frame(0, SILENT), frame(1, SILENT), frame(100, SILENT), frame(101, IDLE)]
    found = verdicts(records)
    assert [event.value for event in found[2].events] == ["stalled"]
    assert [event.value for event in found[3].events] == ["recovered", "ready"]


def test_only_frames_have_verdicts() -> None:
    reducer = StreamStateReducer(HEADER, reader())
    assert reducer.reduce(HEADER) is None
    assert reducer.reduce(Input(0.0)) is None
    assert reducer.reduce(Truth(0.0, "idle")) is None
    assert reducer.reduce(frame(0.5, IDLE)) is not None


def test_times_that_go_back_break_nothing() -> None:
    assert len(verdicts([HEADER, frame(5, IDLE), Input(4.0), frame(3, WORKING), frame(1, DONE), frame(9, DONE)])) == 4
